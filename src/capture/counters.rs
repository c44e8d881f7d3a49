//! Counters of the GPUs, recorded beside a run into its folder.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::launch;
use crate::live::{Monitor, Recorder};
use crate::scratch::registry;

/// The file in the folder of a run, once the run has ended.
pub const FILE: &str = "gpu_metrics.jsonl";
/// Its name until then.
const UNFINISHED: &str = "gpu_metrics.jsonl.tmp";

/// What is recorded beside a run. Dropping it ends that; without a GPU or a driver no file stays.
#[derive(Debug)]
pub struct Counters {
    recorder: Option<Recorder>,
    folder: PathBuf,
}

impl Counters {
    /// Starts to record what the monitor reads, which is started. Where the file cannot be written, there are no
    /// counters; the run goes on.
    pub fn start(monitor: &Monitor, folder: &Path) -> Self {
        let path = folder.join(UNFINISHED);
        let file = File::create_new(&path).ok();
        Self { recorder: file.map(|file| Recorder::start(monitor, file, &path)), folder: folder.to_owned() }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        if self.recorder.take().map(Recorder::stop).is_some() {
            keep(&self.folder);
        }
    }
}

/// Gives the counters their name, also after a Lacuna that was killed; nothing if no line was written.
pub fn keep(folder: &Path) {
    let unfinished = folder.join(UNFINISHED);
    // What cannot be renamed or removed stays as it is.
    _ = match unfinished.metadata() {
        Ok(data) if data.len() > 0 => std::fs::rename(&unfinished, folder.join(FILE)),
        Ok(_) => std::fs::remove_file(&unfinished),
        Err(_) => Ok(()),
    };
}

/// Records without a run, into a new file among the user's runs, in a folder named by the time.
///
/// Errors: the folder cannot be made, or the user has none.
pub fn record(monitor: &Monitor) -> std::io::Result<Recorder> {
    let none = || std::io::Error::other("there is no folder for it: set XDG_DATA_HOME or HOME");
    // A signal that ends Lacuna lets the last lines be written.
    registry::watch_signals();
    let path = launch::create(&launch::root().ok_or_else(none)?, "gpus")?.join(FILE);
    Ok(Recorder::start(monitor, File::create_new(&path)?, &path))
}
