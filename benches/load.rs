//! Time and memory to open a trace, beside plain `serde_json` on the same file.
//!
//! `cargo bench --bench load`. Inputs are generated once into `target/bench-data`, of 100 and 1000 MB;
//! `LACUNA_BENCH_MB=50,200` takes other sizes, `LACUNA_BENCH_DIR` all `.json` and `.json.gz` of a folder.
//! Each reading runs in a process of its own, so that its peak memory is its own. Linux only: the
//! figures come from `/proc`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench talks to the person who runs it, and may stop")]

#[path = "common/process.rs"]
mod process;

use std::borrow::Cow;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use process::{cpu_seconds, peak_megabytes};

fn main() {
    lacuna::malloc::set_up();
    let args: Vec<String> = std::env::args().collect();
    match args.iter().position(|arg| arg == "--child") {
        Some(at) => child(&args[at + 1], Path::new(&args[at + 2])),
        None => parent(),
    }
}

/// Reads every file once with each reader and prints a line for each.
fn parent() {
    let profile = if cfg!(debug_assertions) { "; a debug build: take no figure from it" } else { "" };
    println!("{} cores{profile}", std::thread::available_parallelism().unwrap());
    println!(
        "{:<28} {:<10} {:>8} {:>9} {:>8} {:>7} {:>7} {:>9}",
        "file", "reader", "text MB", "M events", "M ev/s", "MB/s", "CPU s", "peak MB"
    );
    for path in inputs() {
        for reader in ["lacuna", "serde_json"] {
            let own = std::env::current_exe().unwrap();
            let output =
                Command::new(own).env("RUST_BACKTRACE", "0").args(["--child", reader]).arg(&path).output().unwrap();
            let name = path.file_name().unwrap().to_string_lossy();
            let line = String::from_utf8_lossy(&output.stdout);
            let failed = String::from_utf8_lossy(&output.stderr);
            println!(
                "{name:<28} {reader:<10} {}",
                if output.status.success() { line.trim_end() } else { failed.trim() }
            );
        }
    }
}

/// The files to read, generated if need be.
fn inputs() -> Vec<PathBuf> {
    if let Some(folder) = std::env::var_os("LACUNA_BENCH_DIR") {
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.to_string_lossy().ends_with(".json") || path.to_string_lossy().ends_with(".json.gz"));
        files.sort();
        return files;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-data");
    std::fs::create_dir_all(&folder).unwrap();
    let sizes = std::env::var("LACUNA_BENCH_MB").unwrap_or_else(|_| "100,1000".to_owned());
    let mut files = Vec::new();
    for megabytes in sizes.split(',').map(|size| size.trim().parse::<u32>().unwrap()) {
        let plain = folder.join(format!("kineto-{megabytes}MB.json"));
        if !plain.exists() {
            generate(&plain, megabytes);
        }
        let packed = plain.with_extension("json.gz");
        if !packed.exists() {
            let part = packed.with_extension("part");
            let file = BufWriter::new(std::fs::File::create(&part).unwrap());
            let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            std::io::copy(&mut std::fs::File::open(&plain).unwrap(), &mut encoder).unwrap();
            encoder.finish().unwrap().flush().unwrap();
            std::fs::rename(part, &packed).unwrap();
        }
        files.extend([plain, packed]);
    }
    files
}

/// Writes a sample of about `megabytes`, under its name only once it is whole.
fn generate(path: &Path, megabytes: u32) {
    let shape = |steps| lacuna::sample::kineto::Shape { steps, seed: 1, is_array: false };
    let mut probe = Vec::new();
    lacuna::sample::kineto::write(shape(20), &mut probe).unwrap();
    let steps = (f64::from(megabytes) * 1e6 / (probe.len() as f64 / 20.0)).round() as u32;
    let part = path.with_extension("part");
    let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(&part).unwrap());
    lacuna::sample::kineto::write(shape(steps.max(1)), &mut file).unwrap();
    file.flush().unwrap();
    std::fs::rename(part, path).unwrap();
}

/// Reads one file and prints what it took.
fn child(reader: &str, path: &Path) {
    let start = Instant::now();
    let (events, text_bytes) = match reader {
        "lacuna" => {
            let traces = lacuna::reader::read(path, &lacuna::job::Progress::default()).unwrap();
            let sum = |f: fn(&lacuna::model::Trace) -> u64| traces.iter().map(f).sum::<u64>();
            (sum(|trace| trace.import.read), sum(|trace| trace.info.text_bytes))
        }
        _ => baseline(path),
    };
    let wall = start.elapsed().as_secs_f64();
    let (megabytes, events) = (text_bytes as f64 / 1e6, events as f64 / 1e6);
    println!(
        "{megabytes:>8.1} {events:>9.3} {:>8.2} {:>7.0} {:>7.2} {:>9.0}",
        events / wall,
        megabytes / wall,
        cpu_seconds(),
        peak_megabytes()
    );
}

/// The least that a reader on `serde_json` does: three columns, nothing kept of the rest.
fn baseline(path: &Path) -> (u64, u64) {
    let mut text = std::fs::read(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "gz") {
        let packed = std::mem::take(&mut text);
        flate2::read::MultiGzDecoder::new(packed.as_slice()).read_to_end(&mut text).unwrap();
    }
    let mut columns = Columns::default();
    let mut deserializer = serde_json::Deserializer::from_slice(&text);
    Document(&mut columns).deserialize(&mut deserializer).unwrap();
    std::hint::black_box((&columns.ts, &columns.dur, &columns.name_bytes));
    (columns.ts.len() as u64, text.len() as u64)
}

#[derive(Default)]
struct Columns {
    ts: Vec<f64>,
    dur: Vec<f64>,
    name_bytes: Vec<u32>,
}

#[derive(serde::Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
}

struct Document<'a>(&'a mut Columns);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a Chrome trace")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == "traceEvents" {
                map.next_value_seed(Document(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<(), A::Error> {
        while let Some(event) = events.next_element::<Event<'_>>()? {
            self.0.ts.push(event.ts);
            self.0.dur.push(event.dur);
            self.0.name_bytes.push(event.name.len() as u32);
        }
        Ok(())
    }
}
