//! A second process of Lacuna beside each run, which ends the run where Lacuna itself is killed.
//!
//! It waits for the lock on the run's folder, which the system releases however Lacuna ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{Manifest, end_run};
use crate::scratch::{self, registry};

/// The headless command of such a process.
pub const COMMAND: &str = "end-run";
const LOOK: Duration = Duration::from_millis(20);

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Has this program, which is a Lacuna, started beside each run. Without it, a run whose Lacuna is killed is ended at
/// the next start.
pub fn start_with(program: PathBuf) {
    // The first stays.
    let _ = PROGRAM.set(program);
}

/// The process beside a run; dropping it ends it.
pub struct Successor(Child);

impl Successor {
    /// Of the run in a folder that is held.
    pub fn start(folder: &Path) -> Option<Self> {
        let mut command = Command::new(PROGRAM.get()?);
        command.arg(COMMAND).arg(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        registry::start_apart(&mut command).ok().map(Self)
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        // One that has ended already is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the Lacuna that runs a program in this folder has ended, then ends the program if it left it running.
pub fn succeed(folder: &Path) {
    // Where files cannot be locked, the next start has to do.
    let Ok(lock) = File::open(folder.join(scratch::LOCK)) else { return };
    if lock.lock().is_err() {
        return;
    }
    let Some(manifest) = Manifest::read(folder).filter(|manifest| !manifest.has_ended) else { return };
    let Ok(folder) = registry::folder(registry::Keep::Run, || Ok(folder.to_owned())) else { return };
    #[cfg(unix)]
    {
        registry::look(&folder);
        registry::signal(&folder, None, rustix::process::Signal::TERM);
        let asked = Instant::now();
        while registry::n_processes(&folder) > 0 && asked.elapsed() < registry::CLOSING {
            std::thread::sleep(LOOK);
            registry::look(&folder);
        }
    }
    end_run(&folder, manifest);
    registry::forget(&folder);
}
