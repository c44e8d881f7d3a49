//! Names of processes, from the operating system.

/// The name of a process's program; `None` where it runs in another container or has ended.
pub fn program(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The last part of a path: `python3`.
pub fn last_part(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}
