//! `lacuna sample`: generates inputs with a known correct answer.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::output::{self, Output};
use super::{Failure, Outcome};
use crate::sample::nsys::Schema;
use crate::sample::planted::{self, GapPlan};
use crate::sample::snapshot::Plant;
use crate::sample::{Answer, kineto, nsys, snapshot};

/// What can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SampleKind {
    /// A training run as the PyTorch profiler records it, in Chrome trace JSON
    Kineto,
    /// The same training as Nsight Systems records it, an SQLite database. Its last step is complete and counts, unlike
    /// that of the PyTorch profiler, which stops in it
    Nsys,
    /// A short run with known causes of GPU idle time, in Chrome trace JSON; the seed chooses names, threads, devices
    /// and what is recorded
    KinetoGaps,
    /// Such a run, as an SQLite database
    NsysGaps,
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
    /// Number of training steps; one has about 144 kernels, in 0.33 MB of JSON
    /// or 0.04 MB of SQLite, or with six layers about 450 entries of memory in 0.05 MB of pickle
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub scale: u32,
    /// The same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Kineto: write the bare array form instead of the object form
    #[arg(long)]
    pub array: bool,
    /// Kineto-gaps, nsys-gaps: which causes are planted
    #[arg(long, value_enum, value_name = "WHICH", default_value_t)]
    pub gaps: GapPlan,
    /// Nsys, nsys-gaps: the version whose tables are written
    #[arg(long, value_enum, value_name = "YEAR", default_value_t)]
    pub schema: Schema,
    /// Snapshot: the memory problem to plant
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',', default_value = "none")]
    pub plant: Vec<Plant>,
    /// Snapshot: number of layers of the model; one makes about 70 entries a step
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub layers: u32,
    /// Snapshot: the version of the pickle format
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=5))]
    pub protocol: u8,
    /// Snapshot: record no times, as PyTorch did before 2.2
    #[arg(long)]
    pub no_times: bool,
    /// Snapshot: keep at most this many entries, the latest
    #[arg(long, value_name = "N")]
    pub max_entries: Option<u64>,
    /// Snapshot: reserve memory in expandable segments
    #[arg(long)]
    pub expandable: bool,
    /// Write the correct answer as JSON
    #[arg(long, value_name = "PATH")]
    pub answer: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    pub overwrite: bool,
}

/// Most steps of runs with planted gaps: the whole run is in memory, and looked through for each gap.
const MAX_PLANTED_STEPS: u32 = 500;

/// Runs `lacuna sample`.
///
/// Errors: too many steps, a file is in the way, or cannot be written.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let is_planted = matches!(args.kind, SampleKind::KinetoGaps | SampleKind::NsysGaps);
    if is_planted && args.scale > MAX_PLANTED_STEPS {
        let text =
            format!("--scale {} is too large: runs with planted gaps have up to {MAX_PLANTED_STEPS} steps", args.scale);
        return Err(Failure::Usage(text));
    }
    for path in std::iter::once(&args.out).chain(&args.answer) {
        output::check_new(path, &[], args.overwrite)?;
    }
    if let Some(path) = &args.answer {
        output::check_distinct(&args.out, path)?;
    }
    let answer = output::create(&args.out, &[], |out| write(args, out).map(Some))?;
    if let (Some(path), Some(answer)) = (&args.answer, answer) {
        let text = super::report::json(&answer)?;
        output::write_file(text.as_bytes(), path, &[])?;
    }
    Ok(Outcome::Done)
}

/// Writes the input that `args` asks for, and returns the known answer.
///
/// Memory does not grow with `scale`, but for the names of steps; with planted gaps a step takes about 200 KB.
/// Errors: it cannot be written.
fn write(args: &Args, out: &mut Output) -> std::io::Result<Answer> {
    match args.kind {
        SampleKind::Kineto | SampleKind::KinetoGaps => write_kineto(args, out),
        SampleKind::Snapshot => write_pickle(args, out),
        SampleKind::Nsys => {
            nsys::write(nsys::Shape { steps: args.scale, seed: args.seed, schema: args.schema }, out.path()?)
        }
        SampleKind::NsysGaps => planted::write_nsys(gaps(args), args.schema, out.path()?),
    }
}

fn gaps(args: &Args) -> planted::Shape {
    planted::Shape { steps: args.scale, seed: args.seed, plan: args.gaps }
}

fn write_kineto(args: &Args, out: &mut Output) -> std::io::Result<Answer> {
    let write = |sink: &mut dyn std::io::Write| match args.kind {
        SampleKind::KinetoGaps => planted::write_kineto(gaps(args), sink),
        _ => kineto::write(kineto::Shape { steps: args.scale, seed: args.seed, is_array: args.array }, sink),
    };
    let mut file = BufWriter::with_capacity(1 << 20, out.file());
    if is_gzip(&args.out) {
        // The header holds no time and no name, so equal seeds give equal bytes.
        let mut encoder = GzEncoder::new(file, Compression::default());
        let answer = write(&mut encoder)?;
        encoder.finish()?.flush()?;
        return Ok(answer);
    }
    let answer = write(&mut file)?;
    file.flush()?;
    Ok(answer)
}

fn write_pickle(args: &Args, out: &mut Output) -> std::io::Result<Answer> {
    let shape = snapshot::Shape {
        steps: args.scale,
        seed: args.seed,
        layers: args.layers,
        protocol: args.protocol,
        has_times: !args.no_times,
        max_entries: args.max_entries,
        is_expandable: args.expandable,
        plants: args.plant.clone(),
    };
    let mut file = BufWriter::with_capacity(1 << 20, out.file());
    let answer = snapshot::write(&shape, &mut file)?;
    file.flush()?;
    Ok(answer)
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}
