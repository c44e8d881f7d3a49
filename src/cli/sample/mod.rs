//! How do we get inputs whose right answer is known? `lacuna sample` writes them.

mod answer;
mod device;
mod emit;
mod event;
mod frame;
mod gpu;
mod kernels;
mod kineto;
mod nsys;
mod rng;
mod run;
mod snapshot;
mod training;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::output::{check_target, temporary};

pub use answer::{Answer, DeviceAnswer, Events, MemoryAnswer, PlantedGap, Sum, Tables};
pub use kineto::Shape;
pub use nsys::{ExportShape, Schema};
pub use snapshot::{Plant, SnapshotShape};

/// What can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SampleKind {
    /// A training run as the PyTorch profiler records it, in Chrome trace JSON
    Kineto,
    /// The same run as Nsight Systems exports it, an SQLite database
    Nsys,
    /// A training run as PyTorch's memory history records it, a pickle
    Snapshot,
}

/// Generates an input whose right answer is known
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to generate
    #[arg(value_enum)]
    pub kind: SampleKind,
    /// The file to write; a Kineto trace whose name ends in .gz is compressed
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// How many training steps; one has about 144 kernels, in 0.33 MB of JSON
    /// or 0.04 MB of SQLite, or with six layers about 450 entries of memory in 0.05 MB of pickle
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub scale: u32,
    /// The same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Kineto: write the bare array form instead of the object form
    #[arg(long)]
    pub array: bool,
    /// Nsys: the version whose tables are written
    #[arg(long, value_enum, value_name = "YEAR", default_value_t)]
    pub schema: Schema,
    /// Snapshot: what is wrong with the program's memory
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',', default_value = "none")]
    pub plant: Vec<Plant>,
    /// Snapshot: how many layers the model has; one makes about 70 entries a step
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub layers: u32,
    /// Snapshot: the version of the pickle format
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=5))]
    pub protocol: u8,
    /// Snapshot: record no times, as PyTorch did before 2.2
    #[arg(long)]
    pub no_times: bool,
    /// Snapshot: how many entries are kept, the latest
    #[arg(long, value_name = "N")]
    pub max_entries: Option<u64>,
    /// Snapshot: reserve memory in expandable segments
    #[arg(long)]
    pub expandable: bool,
    /// Write what a correct reader must find, as JSON
    #[arg(long, value_name = "PATH")]
    pub answer: Option<PathBuf>,
    /// Write over files that exist
    #[arg(long)]
    pub overwrite: bool,
}

/// Runs `lacuna sample`: 0 when done, 2 when a file is in the way, 3 when one cannot be written.
pub fn run(args: &Args) -> ExitCode {
    let targets = std::iter::once(&args.out).chain(&args.answer);
    for path in targets {
        let is_free = check_target(path, &[]).map_err(|failure| failure.to_string());
        let is_free = is_free.and_then(|()| match path.exists() && !args.overwrite {
            true => Err(format!("The file exists; add --overwrite to replace it: {}", path.display())),
            false => Ok(()),
        });
        if let Err(sentence) = is_free {
            super::output::say(&sentence);
            return ExitCode::from(2);
        }
    }
    match write(args) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            super::output::say(&format!("Cannot write the sample: {error}: {}", args.out.display()));
            ExitCode::from(3)
        }
    }
}

/// Writes the files that `args` asks for, each whole or not at all, and returns the known answer.
///
/// Memory does not grow with `scale`, but for the names of steps and about 100 bytes a planted gap.
/// Errors: a file cannot be created or written.
pub fn write(args: &Args) -> std::io::Result<Answer> {
    let part = temporary(&args.out);
    let written = match args.kind {
        SampleKind::Kineto => write_kineto(args, &part),
        SampleKind::Snapshot => write_pickle(args, &part),
        SampleKind::Nsys => {
            let shape = ExportShape { steps: args.scale, seed: args.seed, schema: args.schema };
            File::create_new(&part).and_then(|_| nsys::write(shape, &part))
        }
    };
    let answer = written.and_then(|answer| std::fs::rename(&part, &args.out).map(|()| answer)).inspect_err(|_| {
        // What is left of a failed write is of no use to anyone.
        let _ = std::fs::remove_file(&part);
    })?;
    if let Some(path) = &args.answer {
        let mut text = serde_json::to_string_pretty(&answer)?;
        text.push('\n');
        std::fs::write(path, text)?;
    }
    Ok(answer)
}

fn write_kineto(args: &Args, path: &Path) -> std::io::Result<Answer> {
    let shape = Shape { steps: args.scale, seed: args.seed, is_array: args.array };
    let mut file = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    if is_gzip(&args.out) {
        // The header holds no time and no name, so equal seeds give equal bytes.
        let mut encoder = GzEncoder::new(file, Compression::default());
        let answer = kineto::write(shape, &mut encoder)?;
        encoder.finish()?.flush()?;
        return Ok(answer);
    }
    let answer = kineto::write(shape, &mut file)?;
    file.flush()?;
    Ok(answer)
}

fn write_pickle(args: &Args, path: &Path) -> std::io::Result<Answer> {
    let shape = SnapshotShape {
        steps: args.scale,
        seed: args.seed,
        layers: args.layers,
        protocol: args.protocol,
        has_times: !args.no_times,
        max_entries: args.max_entries,
        is_expandable: args.expandable,
        plants: args.plant.clone(),
    };
    let mut file = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    let answer = snapshot::write(&shape, &mut file)?;
    file.flush()?;
    Ok(answer)
}

/// Generates a memory snapshot into any sink, as the tests and benches do.
///
/// Errors: the sink's; plants that contradict each other.
pub fn write_snapshot(shape: &SnapshotShape, sink: &mut dyn Write) -> std::io::Result<Answer> {
    snapshot::write(shape, sink)
}

/// Generates a trace into any sink, as the tests and benches do.
///
/// Errors: the sink's.
pub fn write_to(shape: Shape, sink: &mut dyn Write) -> std::io::Result<Answer> {
    kineto::write(shape, sink)
}

/// Generates an export into a new or empty file, as the tests and benches do.
///
/// Errors: SQLite's.
pub fn write_export(shape: ExportShape, path: &Path) -> std::io::Result<Answer> {
    nsys::write(shape, path)
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(steps: u32, seed: u64, is_array: bool) -> (Vec<u8>, Answer) {
        let mut bytes = Vec::new();
        let answer = write_to(Shape { steps, seed, is_array }, &mut bytes).unwrap();
        (bytes, answer)
    }

    fn events(bytes: &[u8]) -> Vec<serde_json::Value> {
        let mut document: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        let events = if document.is_array() { document.take() } else { document["traceEvents"].take() };
        serde_json::from_value(events).unwrap()
    }

    /// Whole nanoseconds from the digits of decimal microseconds.
    fn ns(value: &serde_json::Value) -> i64 {
        let text = value.to_string();
        let (whole, rest) = text.split_once('.').unwrap_or((&text, "0"));
        whole.parse::<i64>().unwrap() * 1000 + format!("{rest:0<3}").parse::<i64>().unwrap()
    }

    #[test]
    fn same_seed_same_bytes() {
        assert_eq!(sample(2, 5, false), sample(2, 5, false));
        assert_ne!(sample(2, 5, false).0, sample(2, 6, false).0);
    }

    #[test]
    fn both_forms_hold_the_same_events_and_as_many_as_it_says() {
        let (object, answer) = sample(2, 1, false);
        let events_of_object = events(&object);
        assert_eq!(events_of_object, events(&sample(2, 1, true).0));
        let events = answer.events.unwrap();
        let count = |ph: &str| events_of_object.iter().filter(|e| e["ph"] == ph).count() as u64;
        assert_eq!(
            [count("X"), count("s"), count("f"), count("i"), count("M")],
            [events.slices, events.flow_starts, events.flow_ends, events.instants, events.metadata]
        );
    }

    #[test]
    fn answer_agrees_with_a_slow_sweep_over_the_file() {
        let (bytes, answer) = sample(12, 3, false);
        let device = &answer.devices[0];
        let mut work: Vec<(i64, i64)> = Vec::new();
        let mut kernels = 0;
        for event in events(&bytes) {
            let cat = event["cat"].as_str().unwrap_or_default();
            if ["kernel", "gpu_memcpy", "gpu_memset"].contains(&cat) {
                kernels += u64::from(cat == "kernel");
                work.push((ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"])));
            }
        }
        work.sort_unstable();
        // Idle is what lies before a start and after all earlier ends.
        let mut gaps = Vec::new();
        let mut until = work[0].0;
        for &(start, end) in &work {
            if start > until {
                gaps.push((until, start - until));
            }
            until = until.max(end);
        }
        assert_eq!(device.kernels, kernels);
        assert_eq!(device.window, [work[0].0, until]);
        assert_eq!(device.idle_ns, gaps.iter().map(|gap| gap.1).sum::<i64>());
        assert_eq!(device.busy_ns + device.idle_ns, device.window_ns);
        assert_eq!(device.gaps, gaps.len() as u64);
        let long: Vec<_> = gaps.into_iter().filter(|gap| gap.1 >= 1_000_000).collect();
        let planted: Vec<_> =
            device.planted.iter().filter(|p| p.dur_ns >= 1_000_000).map(|p| (p.start_ns, p.dur_ns)).collect();
        assert_eq!(planted, long, "every long gap has its cause");
        for cause in ["loader", "sync", "allocator", "gc"] {
            assert!(device.planted.iter().any(|p| p.cause == cause && p.dur_ns >= 1_000_000), "{cause}");
        }
    }

    #[test]
    fn work_on_a_stream_never_overlaps_and_follows_its_launch() {
        let (bytes, _) = sample(3, 9, false);
        let mut calls = std::collections::BTreeMap::new();
        let mut work = Vec::new();
        for event in events(&bytes) {
            let correlation = event["args"]["correlation"].as_u64();
            match (event["cat"].as_str(), correlation) {
                (Some("cuda_runtime"), Some(id)) => drop(calls.insert(id, ns(&event["ts"]))),
                (Some("kernel" | "gpu_memcpy" | "gpu_memset"), Some(id)) => {
                    work.push((event["tid"].as_i64(), ns(&event["ts"]), ns(&event["dur"]), id));
                }
                _ => {}
            }
        }
        work.sort_unstable();
        assert!(work.iter().all(|&(_, start, _, id)| calls[&id] < start));
        assert!(work.windows(2).all(|w| w[0].0 != w[1].0 || w[0].1 + w[0].2 <= w[1].1));
    }
}
