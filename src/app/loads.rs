//! Queue of the files that are being read or wait, with their progress.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eframe::egui::Context;

use super::samples;
use crate::capture::nsys::{self, ConvertError};
use crate::job::{Job, Poll, Progress};
use crate::malloc;
use crate::reader::{self, Folder, Options, ReadError};
use crate::session::OpenTrace;

/// Files are read this many at once; the rest wait, since each takes memory and a disk.
const MAX_AT_ONCE: usize = 2;

/// One file on its way in.
#[derive(Debug)]
pub struct Load {
    pub path: PathBuf,
    /// Its place among all files that were asked for.
    order: u64,
    started: Instant,
    pub(super) job: Job<Result<Found, LoadError>>,
}

impl Load {
    /// Time since the read began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Bytes (done, total), or percent while there is a phase; a total of 0 is "unknown".
    pub fn progress(&self) -> (u64, u64) {
        self.job.progress.get()
    }

    /// What is done before the file itself is read; empty while it is read.
    pub fn phase(&self) -> String {
        self.job.progress.phase()
    }
}

/// What a path turned out to be.
#[derive(Debug)]
pub enum Found {
    /// A file, with its traces.
    Traces(Vec<OpenTrace>),
    /// A folder, whose files are still to be read.
    Folder(Folder),
}

/// What became of one path.
#[derive(Debug)]
pub struct Loaded {
    pub path: PathBuf,
    /// What is there, or why there is nothing.
    pub outcome: Result<Found, LoadError>,
}

/// Why a file is not open.
#[derive(Debug, PartialEq, Eq)]
pub enum LoadError {
    /// Canceled by the user: nothing to report.
    Cancelled,
    /// It is read only if the user agrees: a sentence that says why.
    NeedsConsent(String),
    /// A sentence for the user, without the path.
    Failed(String),
}

/// The queue of files.
#[derive(Debug, Default)]
pub struct Loads {
    /// The user's choice of `nsys`, which converts reports.
    pub nsys: Option<PathBuf>,
    /// The folder of the samples, which are generated when they are opened.
    pub samples: PathBuf,
    running: Vec<Load>,
    waiting: VecDeque<(PathBuf, Options, u64)>,
    n_asked: u64,
}

impl Loads {
    /// Puts a file at the end of the queue; false if it is there already.
    pub fn add(&mut self, path: PathBuf, options: Options) -> bool {
        let is_known = self.waiting().any(|known| known == path) || self.running.iter().any(|load| load.path == path);
        if !is_known {
            self.n_asked += 1;
            self.waiting.push_back((path, options, self.n_asked));
        }
        !is_known
    }

    /// What is being read now.
    pub fn running(&self) -> &[Load] {
        &self.running
    }

    /// What is to be read next.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.waiting.iter().map(|(path, ..)| path.as_path())
    }

    /// How many files are read or wait beside the first.
    pub fn n_others(&self) -> usize {
        (self.running.len() + self.waiting.len()).saturating_sub(1)
    }

    /// Whether no file is being read or waits.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Cancels one file.
    pub fn cancel(&mut self, path: &Path) {
        // Dropping the job tells its thread to stop.
        self.running.retain(|load| load.path != path);
        self.waiting.retain(|(waiting, ..)| waiting != path);
    }

    /// Cancels the files that wait.
    pub fn cancel_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Cancels every file.
    pub fn cancel_all(&mut self) {
        self.running.clear();
        self.cancel_waiting();
    }

    /// Starts what may start and returns what is done. Never waits; call it once a frame.
    pub fn poll(&mut self, ctx: &Context) -> Vec<Loaded> {
        let mut done = Vec::new();
        self.running.retain(|load| {
            let outcome = match load.job.poll() {
                Poll::Running => return true,
                Poll::Done(Ok(Found::Traces(mut traces))) => {
                    traces.iter_mut().for_each(|open| open.order = load.order);
                    Ok(Found::Traces(traces))
                }
                Poll::Done(outcome) => outcome,
                Poll::Crashed(message) => {
                    let note = "This is a fault of Lacuna, not of the file. Please report it";
                    Err(LoadError::Failed(format!("Reading crashed: {message}. {note}")))
                }
            };
            done.push(Loaded { path: load.path.clone(), outcome });
            false
        });
        while self.running.len() < MAX_AT_ONCE
            && let Some((path, options, order)) = self.waiting.pop_front()
        {
            match start(&path, options, (self.nsys.clone(), self.samples.clone()), ctx) {
                Ok(job) => self.running.push(Load { path, order, started: Instant::now(), job }),
                Err(error) => {
                    let outcome = Err(LoadError::Failed(format!("No thread could be started: {error}")));
                    done.push(Loaded { path, outcome });
                }
            }
        }
        done
    }
}

fn start(
    path: &Path,
    options: Options,
    (nsys, samples): (Option<PathBuf>, PathBuf),
    ctx: &Context,
) -> std::io::Result<Job<Result<Found, LoadError>>> {
    let (ctx, seen) = (ctx.clone(), ctx.clone());
    let path = path.to_owned();
    let work = move |progress: &Progress| {
        samples::generate(&path, &samples)
            .map_err(|error| LoadError::Failed(format!("The sample cannot be written: {error}")))?;
        // What is read and how much, on screen before anything else is known of it.
        let file = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file);
        progress.set_total(file.map_or(0, |file| file.len()));
        seen.request_repaint();
        read(&path, options, nsys, progress)
    };
    Job::spawn("read", move || ctx.request_repaint(), work)
}

/// Reads a file, a report of Nsight Systems by way of its export; of a folder only the list of files.
fn read(path: &Path, options: Options, nsys: Option<PathBuf>, progress: &Progress) -> Result<Found, LoadError> {
    if path.is_dir() {
        return list(path);
    }
    let openable = nsys::openable(path, &nsys::Options::new(nsys), progress)?;
    if let Some(why) = malloc::too_large(&openable.path) {
        return Err(LoadError::Failed(why));
    }
    let mut traces = reader::read_with(&openable.path, options, progress)?;
    openable.claim(path, &mut traces);
    // What is asked of all rows of a trace is asked here, not in a frame.
    Ok(Found::Traces(traces.into_iter().map(OpenTrace::from).collect()))
}

fn list(path: &Path) -> Result<Found, LoadError> {
    match Folder::list(path) {
        Err(error) => Err(LoadError::Failed(format!("Cannot list the folder: {error}"))),
        Ok(folder) if folder.files.is_empty() => {
            let kinds = format!(".{}", [&reader::extensions(), reader::CONVERTED].concat().join(", ."));
            Err(LoadError::Failed(format!("No file directly in this folder has a trace's extension ({kinds})")))
        }
        Ok(mut folder) => {
            for file in &mut folder.files {
                // Two ways to one file are one file.
                *file = std::fs::canonicalize(&file).unwrap_or_else(|_| std::mem::take(file));
            }
            Ok(Found::Folder(folder))
        }
    }
}

impl From<ReadError> for LoadError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Cancelled => Self::Cancelled,
            ReadError::NeedsConsent(why) => Self::NeedsConsent(why),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<ConvertError> for LoadError {
    fn from(error: ConvertError) -> Self {
        match error {
            ConvertError::Cancelled => Self::Cancelled,
            ConvertError::Failed(text) => Self::Failed(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_queued_once_and_failures_come_back() {
        let mut loads = Loads::default();
        assert!(loads.add(PathBuf::from("/no/such/file.json"), Options::default()));
        assert!(!loads.add(PathBuf::from("/no/such/file.json"), Options::default()));
        assert!(loads.add(PathBuf::from("/no/such/other.json"), Options::default()));
        assert!(loads.add(PathBuf::from("/no/such/third.json"), Options::default()));
        let ctx = Context::default();
        assert!(loads.poll(&ctx).is_empty());
        assert_eq!((loads.running().len(), loads.waiting().len()), (MAX_AT_ONCE, 1));
        let mut done = Vec::new();
        while !loads.is_idle() {
            done.extend(loads.poll(&ctx));
        }
        assert_eq!(done.len(), 3);
        assert!(done.iter().all(|loaded| matches!(loaded.outcome, Err(LoadError::Failed(_)))));
    }

    #[test]
    fn what_is_canceled_is_gone() {
        let mut loads = Loads::default();
        loads.add(PathBuf::from("a"), Options::default());
        loads.cancel(Path::new("a"));
        assert!(loads.is_idle());
    }
}
