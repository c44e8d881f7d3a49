//! Time to open an nsys export, against a bare `rusqlite` scan of the same columns.
//!
//! `cargo bench --bench nsys` generates exports of 1 and 10 M kernels into `target/bench-data` (once)
//! and opens each in a process of its own, so that peak memory is that of one open alone. Rows are
//! those of the tables that the reader takes over. `LACUNA_BENCH_KERNELS=1,3` asks for other sizes, in
//! millions; `LACUNA_BENCH_NSYS=FILE,...` opens files that are there.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints; what fails in it should stop it")]

#[path = "common/process.rs"]
mod process;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use lacuna::sample::nsys::{self, Schema, Shape};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use process::{cpu_seconds, peak_megabytes};

/// The tables with the most rows, and the columns that the reader takes of them.
const SCANNED: [(&str, &str); 8] = [
    (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName gridX \
         gridY gridZ blockX blockY blockZ registersPerThread staticSharedMemory dynamicSharedMemory",
    ),
    (
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "start end deviceId contextId greenContextId streamId correlationId globalPid bytes copyKind srcKind dstKind",
    ),
    (
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "start end deviceId contextId greenContextId streamId correlationId globalPid bytes memKind",
    ),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "start end eventClass globalTid correlationId nameId"),
    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "start end deviceId globalPid correlationId syncType"),
    ("NVTX_EVENTS", "start end eventType text textId globalTid domainId"),
    ("GPU_METRICS", "timestamp typeId metricId value"),
    ("SAMPLING_CALLCHAINS", "id stackDepth symbol module unresolved"),
];

fn main() {
    lacuna::malloc::set_up();
    let args: Vec<String> = std::env::args().collect();
    match args.iter().position(|arg| arg == "--child") {
        Some(at) => child(&args[at + 1], Path::new(&args[at + 2])),
        None => parent(),
    }
}

/// Opens every file once with each reader and prints a line for each.
fn parent() {
    let profile = if cfg!(debug_assertions) { "; a debug build: take no figure from it" } else { "" };
    println!("{} cores{profile}", std::thread::available_parallelism().unwrap());
    println!(
        "{:<28} {:<12} {:>7} {:>7} {:>9} {:>7} {:>7} {:>8}",
        "file", "reader", "MB", "M rows", "M rows/s", "wall s", "CPU s", "peak MB"
    );
    for path in inputs() {
        // Once unmeasured, so that all find the file in the page cache.
        std::io::copy(&mut std::fs::File::open(&path).unwrap(), &mut std::io::sink()).unwrap();
        for reader in ["lacuna", "scan", "scan on two"] {
            let own = std::env::current_exe().unwrap();
            let output =
                Command::new(own).env("RUST_BACKTRACE", "0").args(["--child", reader]).arg(&path).output().unwrap();
            let name = path.file_name().unwrap().to_string_lossy();
            let text = if output.status.success() { output.stdout } else { output.stderr };
            println!("{name:<28} {reader:<12} {}", String::from_utf8_lossy(&text).trim_end());
        }
    }
}

/// The files to open, generated if need be.
fn inputs() -> Vec<PathBuf> {
    if let Some(files) = std::env::var_os("LACUNA_BENCH_NSYS") {
        return files.to_string_lossy().split(',').map(PathBuf::from).collect();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-data");
    std::fs::create_dir_all(&folder).unwrap();
    let sizes = std::env::var("LACUNA_BENCH_KERNELS").unwrap_or_else(|_| "1,10".to_owned());
    let generate = |millions: &str| {
        let millions: u32 = millions.trim().parse().unwrap();
        let path = folder.join(format!("nsys-{millions}M.sqlite"));
        if !path.exists() {
            // A step has 144 kernels.
            let steps = (millions * 1_000_000).div_ceil(144);
            let part = path.with_extension("part");
            let _ = std::fs::remove_file(&part);
            let start = Instant::now();
            let answer = nsys::write(Shape { steps, seed: 1, schema: Schema::V2023 }, &part).unwrap();
            let rows: u64 = answer.tables.unwrap().rows.values().sum();
            let wall = start.elapsed().as_secs_f64();
            println!("generated {} with {:.1} M rows in {wall:.1} s", path.display(), rows as f64 / 1e6);
            std::fs::rename(part, &path).unwrap();
        }
        path
    };
    sizes.split(',').map(generate).collect()
}

/// Opens one file and prints what it took.
fn child(reader: &str, path: &Path) {
    let bytes = path.metadata().unwrap().len();
    let start = Instant::now();
    let rows = match reader {
        "lacuna" => {
            let traces = lacuna::reader::read(path, &lacuna::job::Progress::default()).unwrap();
            traces.iter().map(|trace| trace.import.read).sum()
        }
        "scan" => scan(path, 1),
        _ => scan(path, 2),
    };
    let wall = start.elapsed().as_secs_f64();
    let (bytes, rows) = (bytes as f64 / 1e6, rows as f64 / 1e6);
    let (cpu, peak) = (cpu_seconds(), peak_megabytes());
    println!("{bytes:>7.0} {rows:>7.2} {:>9.2} {wall:>7.2} {cpu:>7.2} {peak:>8.0}", rows / wall);
}

/// The least that a reader on `rusqlite` does: every cell once, into columns; each table cut into
/// `n_threads` ranges of row ids.
fn scan(path: &Path, n_threads: i64) -> u64 {
    let open = || Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut rows = 0;
    for (table, wanted) in SCANNED {
        let connection = open();
        let columns = columns(&connection, table);
        let wanted: Vec<_> = wanted.split(' ').filter(|column| columns.iter().any(|name| name == column)).collect();
        if wanted.is_empty() {
            continue;
        }
        let last: Option<i64> =
            connection.query_row(&format!("SELECT max(rowid) FROM {table}"), [], |row| row.get(0)).unwrap();
        let last = last.unwrap_or(0);
        let cells = wanted.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(",");
        let sql = format!("SELECT {cells} FROM {table} WHERE rowid > ?1 AND rowid <= ?2");
        std::thread::scope(|scope| {
            let part = |part: i64| {
                let (sql, n_columns) = (&sql, wanted.len());
                let range = [last * part / n_threads, last * (part + 1) / n_threads];
                scope.spawn(move || scan_part(&open(), sql, range, n_columns))
            };
            let parts: Vec<_> = (0..n_threads).map(part).collect();
            rows += parts.into_iter().map(|part| part.join().unwrap()).sum::<u64>();
        });
    }
    rows
}

fn scan_part(connection: &Connection, sql: &str, range: [i64; 2], n_columns: usize) -> u64 {
    let n = usize::try_from(range[1] - range[0]).unwrap();
    let mut columns: Vec<Vec<i64>> = (0..n_columns).map(|_| Vec::with_capacity(n)).collect();
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query(range).unwrap();
    while let Some(row) = rows.next().unwrap() {
        for (i, column) in columns.iter_mut().enumerate() {
            column.push(match row.get_ref(i).unwrap() {
                ValueRef::Integer(value) => value,
                ValueRef::Text(text) => text.len() as i64,
                _ => 0,
            });
        }
    }
    std::hint::black_box(&columns);
    columns[0].len() as u64
}

fn columns(connection: &Connection, table: &str) -> Vec<String> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
    let rows = statement.query_map([table], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}
