//! `lacuna report`: the figures of traces as text, JSON, Markdown, HTML or CSV.

mod build;
mod compared;
mod keys;
mod memory;
mod short;
mod terminal;
mod text;
mod thresholds;
mod time;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::{Failure, Outcome, input, output};
use crate::analysis::kernels::KernelsBy;
use crate::analysis::rules::Thresholds;
use crate::figures::{Table, escape, format};
use crate::model::{Severity, Trace};

pub use build::files;

/// Arguments of `lacuna report`.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Traces, archives of traces, or folders of them
    #[arg(required_unless_present = "thresholds", value_name = "FILE|FOLDER")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub reading: input::ReadArgs,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write here instead of to stdout
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Rows of each list: 50 by default, 8 in text with the most useful tables; 0 lists every row of every table
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Write every table and figure in text too, not just the most useful
    #[arg(long)]
    pub all: bool,
    /// How kernels are grouped into rows
    #[arg(long, value_enum, value_name = "WAY", default_value_t = KernelRows::Name)]
    pub kernels_by: KernelRows,
    /// One row for each operator and the shapes of its inputs
    #[arg(long)]
    pub by_shape: bool,
    /// Also list by place what is allocated at this moment: a time since the start such as `1.5s`, or `event 120`,
    /// counted from 0;
    /// give it twice to compare two moments
    #[arg(long, value_name = "MOMENT")]
    pub memory_at: Vec<memory::Moment>,
    /// Compare with this file, such as a recording from before a change: whether steps are faster and what takes more
    /// or less time in them, by cause, kernel and operator; what holds more or less memory, at the peak of each and at
    /// the end, by category, place and call stack
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
    /// Exit with 1 if a finding or an import problem is at least this severe: idle devices and their causes, leaks
    /// and growth of memory, out of memory, parts of a file that could not be read. A file without events counts as a warning
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub fail_on: Option<Severity>,
    /// Set a threshold of a rule, such as `data_loading.warn=15%` or `slow_kernel_ns=2ms`; may be repeated.
    /// `--thresholds` lists them
    #[arg(long = "threshold", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// List the thresholds with their values, and exit
    #[arg(long)]
    pub thresholds: bool,
}

/// How the report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned tables for a terminal
    #[default]
    Text,
    /// Every figure, in nanoseconds; the keys are stable
    Json,
    Markdown,
    /// One page without scripts
    Html,
    /// One table, with a column `part`
    Csv,
}

impl Format {
    /// What the ending of a file's name asks for; text where it asks for nothing else.
    fn of_file(path: &Path) -> Self {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match &*ending {
            "json" => Self::Json,
            "md" | "markdown" => Self::Markdown,
            "html" | "htm" => Self::Html,
            "csv" => Self::Csv,
            _ => Self::Text,
        }
    }
}

/// How kernels are grouped into rows of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum KernelRows {
    /// Full name
    #[default]
    Name,
    /// Name without template and call arguments
    Short,
    /// Full name, grid, block, registers and shared memory
    Shape,
}

impl From<KernelRows> for KernelsBy {
    fn from(rows: KernelRows) -> Self {
        match rows {
            KernelRows::Name => Self::Name,
            KernelRows::Short => Self::Short,
            KernelRows::Shape => Self::Shape,
        }
    }
}

impl ValueEnum for Severity {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Note, Self::Warn, Self::High]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::Note => "note",
            Self::Warn => "warn",
            Self::High => "high",
        }))
    }
}

/// Rows of each list in all formats but text, unless asked for.
const TOP: usize = 50;

/// Runs `lacuna report`.
///
/// Errors: nothing could be read, the report cannot be written, or a threshold cannot be set.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let thresholds = thresholds::parsed(&args.set)?;
    if args.thresholds {
        output::write(thresholds::list(thresholds).as_bytes(), args.out.as_deref(), &args.paths)?;
        return Ok(Outcome::Done);
    }
    let paths = [&args.paths[..], args.compare.as_slice()].concat();
    if let Some(out) = &args.out {
        output::check_target(out, &paths)?;
    }
    let input = input::read(&args.paths, &args.reading)?;
    let base = args.compare.iter().map(|base| input::read(std::slice::from_ref(base), &args.reading));
    let base: Vec<input::Input> = base.collect::<Result<_, _>>()?;
    let base = base.into_iter().flat_map(|base| base.traces).collect::<Vec<_>>();
    for trace in input.traces.iter().chain(&base) {
        print_problems(trace);
    }
    let [traces, base] = [input.traces, base].map(|traces| traces.into_iter().map(Arc::new).collect::<Vec<_>>());
    // On one of the threads that share its parts: to hand over each of them, and to be woken after it, takes longer
    // than many of them.
    let (text, worst) = rayon::scope(|_| answer(args, thresholds, &traces, &base))?;
    output::write(text.as_bytes(), args.out.as_deref(), &paths)?;
    Ok(match args.fail_on {
        _ if input.has_unreadable => Outcome::PartlyUnreadable,
        Some(level) if worst >= Some(level) => Outcome::ThresholdMet,
        _ => Outcome::Done,
    })
}

/// What `lacuna report --out PATH` writes of these traces, in the format that the ending of `path` asks for.
///
/// Errors: as in [`answer`].
pub fn file(path: &Path, thresholds: Thresholds, traces: &[Arc<Trace>]) -> Result<String, Failure> {
    let args = Args { format: Format::of_file(path), out: Some(path.to_owned()), ..Args::default() };
    Ok(answer(&args, thresholds, traces, &[])?.0)
}

/// What is said of these traces, and how severe the worst finding or problem of reading them is.
///
/// * `base`: what they are compared with, if that is asked for.
///
/// Errors: an analysis crashed, as stderr says.
pub fn answer(
    args: &Args,
    thresholds: Thresholds,
    traces: &[Arc<Trace>],
    base: &[Arc<Trace>],
) -> Result<(String, Option<Severity>), Failure> {
    let by = args.kernels_by.into();
    let is_short = args.format == Format::Text && !args.all && args.top != Some(0);
    let top = args.top.unwrap_or(if is_short { short::TOP } else { TOP });
    let report = build::report(traces, top, by, args.by_shape, thresholds, (&args.memory_at, base))?;
    // A file keeps names whole.
    let width = args.out.is_none().then_some(terminal::WIDTH);
    let glance =
        short::Glance { top, n_moments: args.memory_at.len(), by_launch: args.kernels_by == KernelRows::Shape };
    let text = written(&report, args.format, width, is_short.then_some(glance))?;
    let problems = traces.iter().filter_map(|trace| trace.import.worst());
    // Of a file without events nothing is known, which is not to pass for all being well.
    let empty = traces.iter().filter(|trace| trace.is_empty()).map(|_| Severity::Warn);
    Ok((text, report.findings.iter().map(|finding| finding.severity).chain(problems).chain(empty).max()))
}

/// * `width`: as in [`text::text`].
/// * `short`: where text shows only the tables that answer most.
fn written(
    report: &keys::Report,
    format: Format,
    width: Option<usize>,
    short: Option<short::Glance>,
) -> Result<String, Failure> {
    let tables = || report.tables_for_people();
    Ok(match format {
        Format::Json => json(report)?,
        Format::Text => match short {
            Some(glance) => short::text(&tables(), glance, width),
            None => text::text(&tables(), width),
        },
        Format::Markdown => text::markdown(&tables()),
        Format::Html => text::html(&tables()),
        Format::Csv => text::csv(&report.tables()),
    })
}

/// JSON with a line break at its end, fit for a terminal.
///
/// Errors: none in practice; serializing these types cannot fail.
pub fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(value).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(escape::visible_json(&json) + "\n")
}

/// The import report of these files, for a terminal.
pub fn import_text(files: &Table) -> String {
    text::text(&keys::import_tables(files), Some(terminal::WIDTH))
}

/// Writes the problems of reading one trace to stderr, except notes, which `lacuna check` lists.
fn print_problems(trace: &Trace) {
    for problem in trace.import.problems.iter().filter(|problem| problem.severity > Severity::Note) {
        output::write_stderr(&format!(
            "{} ({}): {}",
            problem.reason,
            format::count(problem.count),
            input::label(trace)
        ));
    }
}

#[cfg(test)]
mod tests;
