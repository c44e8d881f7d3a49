//! The `lacuna` program: arguments to window.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// A native viewer for GPU-training profiles
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Traces to open
    files: Vec<PathBuf>,
}

fn main() -> ExitCode {
    lacuna::app::open_window(Arguments::parse().files)
}
