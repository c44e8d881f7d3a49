//! `lacuna check`: counts of shown, merged and rejected events of each file.

use std::path::PathBuf;

use clap::ValueEnum;

use super::{Failure, Outcome, input, output, report};
use crate::figures::Table;
use crate::model::Trace;

/// Arguments of `lacuna check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Traces, archives of traces, or folders of them
    #[arg(required = true, value_name = "FILE|FOLDER")]
    pub paths: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub reading: input::ReadArgs,
}

/// How the import report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// The part `files` of the report, by itself.
#[derive(serde::Serialize)]
struct CheckReport {
    files: Table,
}

/// Runs `lacuna check`.
///
/// Errors: nothing could be read, or stdout cannot be written to.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let input = input::read(&args.paths, &args.reading)?;
    let traces: Vec<&Trace> = input.traces.iter().collect();
    let files = report::files(&traces);
    let text = match args.format {
        Format::Text => report::import_text(&files),
        Format::Json => report::json(&CheckReport { files })?,
    };
    output::write(text.as_bytes(), None, &args.paths)?;
    Ok(if input.has_unreadable { Outcome::PartlyUnreadable } else { Outcome::Done })
}
