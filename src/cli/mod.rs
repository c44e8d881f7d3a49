//! The command line and its headless commands.
//!
//! Exit codes: 0 done, 1 a threshold was met, 2 wrong usage, nowhere to write or something missing that is needed, 3
//! unreadable input.
//! The answer goes to stdout and nothing else does; progress and problems go to stderr.

mod capture;
mod check;
mod input;
mod monitor;
pub mod output;
mod render;
pub mod report;
mod sample;
mod workload;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::capture::launch::succeed;
use crate::figures::escape;

/// A native viewer for GPU-training profiles that accounts for every idle nanosecond
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Headless>,
    /// Files to open in the window
    #[arg(value_name = "FILE")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub reading: input::ReadArgs,
}

/// A command that needs no window.
#[derive(Debug, Subcommand)]
pub enum Headless {
    /// Report where the time went
    Report(report::Args),
    /// Read files and print only their event counts and problems
    Check(check::Args),
    /// Generate a sample input with a known correct answer
    Sample(sample::Args),
    /// Render a view to a PNG file, without a display
    Render(render::Args),
    /// Run and record a program; exits with the exit code of the program
    Capture(capture::Args),
    /// Watch the GPUs of this machine
    Monitor(monitor::Args),
    /// Run a small GPU program to record
    Workload(workload::Args),
    /// Wait until the Lacuna that runs a program in this folder has ended, and end the program if it was left running
    #[command(hide = true)]
    EndRun { folder: PathBuf },
}

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A sentence for the user: wrong arguments, or a path that cannot be written to.
    #[error("{0}")]
    Usage(String),
    /// Nothing could be read; the reasons are on stderr already.
    #[error("No input could be read")]
    Unreadable,
}

/// The outcome of a successful command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// `--fail-on` was met.
    ThresholdMet,
    /// Some inputs were read, others could not be.
    PartlyUnreadable,
}

/// Runs a headless command; reports its failure on stderr.
pub fn run(command: &Headless) -> ExitCode {
    let outcome = match command {
        Headless::Sample(args) => sample::run(args),
        Headless::Capture(args) => match capture::run(args) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Headless::Report(args) => report::run(args),
        Headless::Check(args) => check::run(args),
        Headless::Render(args) => render::run(args),
        Headless::Monitor(args) => monitor::run(args),
        Headless::Workload(args) => workload::run(args),
        Headless::EndRun { folder } => {
            succeed(folder);
            Ok(Outcome::Done)
        }
    };
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::ThresholdMet) => ExitCode::from(1),
        Ok(Outcome::PartlyUnreadable) => ExitCode::from(3),
        Err(failure) => {
            output::write_stderr(&failure.to_string());
            ExitCode::from(match failure {
                Failure::Usage(_) => 2,
                Failure::Unreadable => 3,
            })
        }
    }
}

/// Prints what the arguments ask for by themselves, such as `--help`, or what is wrong with them.
pub fn print(answer: &clap::Error) -> ExitCode {
    match answer.print() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            output::write_stderr(&output::failure(&error, Path::new("stdout")).to_string());
            ExitCode::from(2)
        }
        _ => ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn files_open_the_window_and_commands_do_not() {
        let window = Cli::try_parse_from(["lacuna", "a.json", "b.json"]).unwrap();
        assert!(window.command.is_none());
        assert_eq!(window.paths.len(), 2);
        for command in [&["lacuna"] as &[&str], &["lacuna", "report"], &["lacuna", "check"]] {
            let line = [command, &["a.json", "--allow-any-ratio"]].concat();
            let cli = Cli::try_parse_from(line).unwrap();
            let reading = match cli.command {
                None => cli.reading,
                Some(Headless::Report(args)) => args.reading,
                Some(Headless::Check(args)) => args.reading,
                Some(other) => panic!("{other:?}"),
            };
            assert!(reading.options().allow_any_ratio, "{command:?}");
        }
        let report = Cli::try_parse_from(["lacuna", "report", "a.json", "--format", "csv"]).unwrap();
        assert!(matches!(report.command, Some(Headless::Report(_))));
        assert_eq!(Cli::try_parse_from(["lacuna", "report"]).unwrap_err().exit_code(), 2);
    }
}
