//! Which of the two is meant: the window, or a command that needs none?

use std::process::ExitCode;

use clap::Parser as _;
use lacuna::app::open_window;
use lacuna::cli::{self, Cli};
use lacuna::memory;

fn main() -> ExitCode {
    memory::give_back_at_once();
    let Cli { command, paths, reading } = Cli::parse();
    match command {
        Some(command) => cli::run(&command),
        None => open_window(paths, reading.options(), reading.nsys),
    }
}
