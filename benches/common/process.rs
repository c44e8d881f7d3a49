//! Processor time and peak memory of this process.

/// Clock ticks a second in `/proc/self/stat`: 100 on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of this process so far, all threads, in user and kernel.
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The second field, the name, may hold spaces; it ends with the last parenthesis.
    let fields: Vec<_> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_SECOND
}

/// The most memory this process ever had.
pub fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
}
