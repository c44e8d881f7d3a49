//! Opens the window, or runs a command without one.

use std::process::ExitCode;

use clap::Parser as _;
use lacuna::app::open_window;
use lacuna::cli::{self, Cli};
use lacuna::malloc;

fn main() -> ExitCode {
    malloc::unmap_large_blocks();
    let Cli { command, paths, reading } = Cli::parse();
    match command {
        Some(command) => cli::run(&command),
        None => open_window(paths, reading.options(), reading.nsys),
    }
}
