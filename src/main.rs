//! Which of the two is meant: the window, or a command that needs none?

use std::process::ExitCode;

use clap::Parser as _;
use lacuna::app::open_window;
use lacuna::cli::{self, Cli};

/// Keeps freed columns from staying with the process.
///
/// A trace is read into thousands of columns of a few hundred kilobytes, which are then sorted into
/// a few large ones. glibc's allocator would hold on to the small ones: at 29 million rows the peak
/// was 2.5 GB where 1.5 are in use. With this limit fixed they go back to the system at once.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_memory_back() {
    #![expect(unsafe_code, reason = "glibc has no other way to set it, and this one touches no memory of ours")]
    const LARGE: i32 = 256 << 10;
    // SAFETY: mallopt may be called at any time before other threads are; it sets one number.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    give_memory_back();
    let Cli { command, paths, reading } = Cli::parse();
    match command {
        Some(command) => cli::run(&command),
        None => open_window(paths, reading.options(), reading.nsys),
    }
}
