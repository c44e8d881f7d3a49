//! Time to open a memory snapshot, against Python's `pickle.load` of the same file, which only
//! makes its objects and replays nothing.
//!
//! `cargo bench --bench snapshot` generates snapshots of 1 and 5 M entries into `target/bench-data`
//! (once) and opens each in a process of its own, so that peak memory is that of one open alone.
//! `LACUNA_BENCH_ENTRIES=1,3` asks for other sizes, in millions; `LACUNA_BENCH_SNAPSHOT=FILE,...` opens
//! files that are there.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints; what fails in it should stop it")]

#[path = "common/process.rs"]
mod process;

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use lacuna::sample::snapshot::{self, Plant, Shape};

use process::{cpu_seconds, peak_megabytes};

/// Prints what `pickle.load` took: entries, wall and CPU seconds, peak MB.
const PYTHON: &str = "
import pickle, resource, sys, time
start = time.perf_counter()
with open(sys.argv[1], 'rb') as file:
    snapshot = pickle.load(file)
wall = time.perf_counter() - start
usage = resource.getrusage(resource.RUSAGE_SELF)
print(sum(map(len, snapshot['device_traces'])), wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)
";

fn main() {
    lacuna::malloc::set_up();
    let args: Vec<String> = std::env::args().collect();
    match args.iter().position(|arg| arg == "--child") {
        Some(at) => child(Path::new(&args[at + 1])),
        None => parent(),
    }
}

/// Opens every file once with each reader and prints a line for each.
fn parent() {
    let profile = if cfg!(debug_assertions) { "; a debug build: take no figure from it" } else { "" };
    println!("{} cores{profile}", std::thread::available_parallelism().unwrap());
    println!(
        "{:<24} {:<12} {:>7} {:>9} {:>12} {:>7} {:>7} {:>8}",
        "file", "reader", "MB", "M entries", "M entries/s", "wall s", "CPU s", "peak MB"
    );
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    for path in inputs() {
        // Once unmeasured, so that all find the file in the page cache.
        std::io::copy(&mut std::fs::File::open(&path).unwrap(), &mut std::io::sink()).unwrap();
        let own = std::env::current_exe().unwrap();
        let own = Command::new(own).env("RUST_BACKTRACE", "0").arg("--child").arg(&path).output().unwrap();
        print(&path, "lacuna", &own);
        if has_python {
            let python = Command::new("python3").args(["-c", PYTHON]).arg(&path).output().unwrap();
            print(&path, "pickle.load", &python);
        }
    }
}

/// A line of the table from what a child printed: entries, wall and CPU seconds, peak MB.
fn print(path: &Path, reader: &str, output: &Output) {
    let name = path.file_name().unwrap().to_string_lossy();
    if !output.status.success() {
        println!("{name:<24} {reader:<12} {}", String::from_utf8_lossy(&output.stderr).trim_end());
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [entries, wall, cpu, peak] = numbers[..] else { panic!("four numbers: {text}") };
    let (bytes, entries) = (path.metadata().unwrap().len() as f64 / 1e6, entries / 1e6);
    let rate = entries / wall;
    println!("{name:<24} {reader:<12} {bytes:>7.0} {entries:>9.2} {rate:>12.2} {wall:>7.2} {cpu:>7.2} {peak:>8.0}");
}

/// The files to open, generated if need be.
fn inputs() -> Vec<PathBuf> {
    if let Some(files) = std::env::var_os("LACUNA_BENCH_SNAPSHOT") {
        return files.to_string_lossy().split(',').map(PathBuf::from).collect();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-data");
    std::fs::create_dir_all(&folder).unwrap();
    let sizes = std::env::var("LACUNA_BENCH_ENTRIES").unwrap_or_else(|_| "1,5".to_owned());
    let generate = |millions: &str| {
        let millions: u64 = millions.trim().parse().unwrap();
        let path = folder.join(format!("snapshot-{millions}M.pickle"));
        if !path.exists() {
            generate(&path, millions * 1_000_000);
        }
        path
    };
    sizes.split(',').map(generate).collect()
}

/// Writes a snapshot of about so many entries, under its name only once it is whole.
fn generate(path: &Path, entries: u64) {
    let shape = |steps| Shape {
        steps,
        seed: 1,
        layers: 6,
        protocol: 4,
        has_times: true,
        max_entries: None,
        is_expandable: false,
        plants: vec![Plant::SteadyLeak, Plant::Fragmentation],
    };
    let n_entries = |steps| snapshot::write(&shape(steps), &mut std::io::sink()).unwrap().memory.unwrap().entries;
    // The first steps and those with a longer batch have more than the others.
    let per_step = (n_entries(300) - n_entries(200)) / 100;
    let part = path.with_extension("part");
    let start = Instant::now();
    let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(&part).unwrap());
    let answer = snapshot::write(&shape((entries / per_step) as u32), &mut file).unwrap();
    file.flush().unwrap();
    let (written, wall) = (answer.memory.unwrap().entries as f64 / 1e6, start.elapsed().as_secs_f64());
    println!("generated {} with {written:.2} M entries in {wall:.1} s", path.display());
    std::fs::rename(part, path).unwrap();
}

/// Opens one file and prints what it took.
fn child(path: &Path) {
    let start = Instant::now();
    let traces = lacuna::reader::read(path, &lacuna::job::Progress::default()).unwrap();
    let wall = start.elapsed().as_secs_f64();
    let entries: usize = traces.iter().flat_map(|trace| &trace.memories).map(|history| history.events.len()).sum();
    println!("{entries} {wall} {} {}", cpu_seconds(), peak_megabytes());
}
