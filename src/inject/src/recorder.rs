//! The recording of this process.
//!
//! All of its state hangs on one pointer, which a forked child sets to null: locks that were held at the fork, and
//! buffers, are the parent's.

use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::cupti::Cupti;
use super::inbox::Inbox;
use super::nvtx::Domains;
use super::status::{Cuda, Status};
use super::{clock, end, writer};

const DEFAULT_FLUSH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Recorder {
    /// The folder for traces and states.
    pub folder: PathBuf,
    /// How often libcupti is asked for what it has.
    pub flush_period: Duration,
    pub inbox: Inbox,
    pub cupti: OnceLock<Cupti>,
    pub domains: Mutex<Domains>,
    status: Mutex<Status>,
}

static CURRENT: AtomicPtr<Recorder> = AtomicPtr::new(ptr::null_mut());

/// The recording of this process, if it has one.
pub fn current() -> Option<&'static Recorder> {
    // SAFETY: null, or a recorder that is never freed.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Leaves the recording to the parent of this process.
pub fn forget() {
    CURRENT.store(ptr::null_mut(), Ordering::Release);
}

/// The recording of this process, started if it has none; `None` if no folder is set or no thread can be started.
pub fn start() -> Option<&'static Recorder> {
    if let Some(recorder) = current() {
        return Some(recorder);
    }
    let folder = std::env::var_os("LACUNA_INJECT_OUT").filter(|folder| !folder.is_empty())?;
    let new = Box::into_raw(Box::new(Recorder::new(folder.into())));
    // NVTX and CUDA may start at the same time, on two threads.
    if let Err(other) = CURRENT.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: `new` was shared with none; `other` is a recorder that is never freed.
        return unsafe {
            drop(Box::from_raw(new));
            other.as_ref()
        };
    }
    clock::set();
    let recorder = current()?;
    let run = || std::thread::Builder::new().name("lacuna-writer".to_owned()).spawn(|| writer::run(recorder));
    match end::without_signals(run) {
        Ok(_) => end::watch(),
        Err(error) => {
            recorder.update(|status| status.problems.push(format!("No thread can be started to record: {error}")));
            forget();
            return None;
        }
    }
    recorder.update(|_| {});
    Some(recorder)
}

impl Recorder {
    fn new(folder: PathBuf) -> Self {
        let program = std::fs::read_to_string("/proc/self/comm").unwrap_or_default().trim_end().to_owned();
        let status = Status { pid: std::process::id(), program, ..Status::default() };
        let period = std::env::var("LACUNA_FLUSH_MS").ok().and_then(|text| text.parse().ok()).filter(|&ms| ms > 0);
        Self {
            folder,
            flush_period: period.map_or(DEFAULT_FLUSH, Duration::from_millis),
            inbox: Inbox::default(),
            cupti: OnceLock::new(),
            domains: Mutex::default(),
            status: Mutex::new(status),
        }
    }

    /// Begins to record CUDA; the status says why not if it cannot.
    pub fn start_cupti(&self) {
        if self.cupti.get().is_some() {
            return;
        }
        match Cupti::start(self.flush_period) {
            Ok((cupti, problems)) => {
                self.update(|status| {
                    status.cuda = Cuda::Recorded;
                    status.library = Some(cupti.path.clone());
                    status.cupti_version = cupti.version;
                    status.problems.extend(problems);
                });
                let _ = self.cupti.set(cupti);
                end::at_exit();
            }
            Err(problem) => self.update(|status| {
                status.cuda = Cuda::Failed;
                status.problems.push(problem);
            }),
        }
    }

    /// Changes the status and writes it. Where it cannot be written, nothing can.
    pub fn update(&self, change: impl FnOnce(&mut Status)) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut status);
        let _ = status.write(&self.folder);
    }

    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
