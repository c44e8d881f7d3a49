//! Opens the window, or runs a command without one.

use std::process::ExitCode;

use clap::Parser as _;
use lacuna::app::open_window;
use lacuna::capture;
use lacuna::cli::{self, Cli, Headless};
use lacuna::{live, malloc};

#[global_allocator]
static ALLOCATOR: malloc::Allocator = malloc::Allocator;

fn main() -> ExitCode {
    malloc::set_up();
    malloc::know_limits();
    capture::fail_writes_at_the_limit();
    capture::at_end(live::end_recordings);
    let Cli { command, paths, reading } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return cli::print(&answer),
    };
    _ = std::env::current_exe().map(capture::launch::start_with);
    // Beside the work, since large files take a moment to remove. The Lacuna that started one beside a run has done it.
    let is_beside_a_run = matches!(command, Some(Headless::EndRun { .. }));
    let remove = || std::thread::Builder::new().name("leftovers".to_owned()).spawn(capture::remove_leftovers).ok();
    let removal = if is_beside_a_run { None } else { remove() };
    let code = match command {
        Some(command) => cli::run(&command),
        None => open_window(paths, reading.options(), reading.nsys.as_deref()),
    };
    // Without a thread, or after a panic there, the next start removes them.
    let _ = removal.map(std::thread::JoinHandle::join);
    let _ended = capture::end_all();
    code
}
