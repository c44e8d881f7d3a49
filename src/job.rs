//! Work in the background: progress, cancel, crash, one result ([`Job`]).

mod workers;

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

pub use self::workers::start_workers;

/// How far a piece of work is, and whether it was cancelled.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    is_cancelled: AtomicBool,
    phase: Mutex<String>,
}

impl Progress {
    /// Says what is being done, for the user; done and total begin anew.
    pub fn set_phase(&self, phase: &str) {
        self.set_done(0);
        self.set_total(0);
        phase.clone_into(&mut self.phase.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What is being done; empty if there is one phase alone.
    pub fn phase(&self) -> String {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says how much there is to do, in any unit; 0 is "unknown".
    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Says how much is done, in the unit of the total.
    pub fn set_done(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// (done, total).
    pub fn get(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Asks the work to stop, which it does within 50 ms of its own time.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the result is no longer wanted. Work checks this at least every 50 ms.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// What became of a [`Job`].
#[derive(Debug)]
pub enum Poll<T> {
    Running,
    Done(T),
    /// The work panicked; the rest of the program goes on.
    Crashed(String),
}

/// Keeps a piece of work wanted: dropping it cancels the work.
#[derive(Debug, Default)]
pub struct Wanted(Arc<Progress>);

impl Wanted {
    /// The progress of the work, for the work itself: it does not keep it wanted.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.0)
    }
}

impl Deref for Wanted {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        &self.0
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Runs `work` on a thread called `name`, then `end` with its result, or with the message of its panic.
///
/// Errors: the system refuses another thread.
pub fn start<T>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
    end: impl FnOnce(Result<T, String>) + Send + 'static,
) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || end(caught(work)))?;
    Ok(())
}

/// Runs `work` here.
///
/// Errors: the message of its panic.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_message(&*panic))
}

/// One piece of background work with one result. Dropping it cancels the work.
#[derive(Debug)]
pub struct Job<T> {
    pub progress: Wanted,
    result: Receiver<Result<T, String>>,
}

impl<T: Send + 'static> Job<T> {
    /// Starts `work` on a thread called `name`; `wake` runs when it ends, also when it panics.
    ///
    /// Errors: the system refuses another thread.
    pub fn spawn(
        name: &str,
        wake: impl Fn() + Send + 'static,
        work: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> std::io::Result<Self> {
        let progress = Wanted::default();
        let (sender, result) = sync_channel(1);
        // The thread keeps it until the result can be taken.
        let (seen_by_work, kept) = (progress.progress(), progress.progress());
        let end = move |outcome| {
            // The receiver is gone if the job was dropped.
            let _ = sender.send(outcome);
            drop(kept);
            wake();
        };
        start(name, move || work(&seen_by_work), end)?;
        Ok(Self { progress, result })
    }

    /// Never blocks. Call it once a frame; after `Done` or `Crashed` it says `Crashed`.
    pub fn poll(&self) -> Poll<T> {
        match self.result.try_recv() {
            Ok(Ok(result)) => Poll::Done(result),
            Ok(Err(message)) => Poll::Crashed(message),
            Err(TryRecvError::Empty) => Poll::Running,
            Err(TryRecvError::Disconnected) => Poll::Crashed("The work ended without a result".to_owned()),
        }
    }
}

/// What a panic said.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait<T: Send + 'static>(job: &Job<T>) -> Poll<T> {
        loop {
            match job.poll() {
                Poll::Running => std::thread::yield_now(),
                end => return end,
            }
        }
    }

    #[test]
    fn a_job_has_a_result_and_a_panic_is_reported() {
        let job = Job::spawn("test", || {}, |_| 42).unwrap();
        assert!(matches!(wait(&job), Poll::Done(42)));
        let job = Job::<()>::spawn("test", || {}, |_| panic!("boom")).unwrap();
        assert!(matches!(wait(&job), Poll::Crashed(text) if text == "boom"));
    }

    #[test]
    fn dropping_a_job_cancels_it() {
        let (sender, receiver) = sync_channel(1);
        let job = Job::spawn(
            "test",
            || {},
            move |progress| {
                while !progress.is_cancelled() {
                    std::thread::yield_now();
                }
                sender.send(()).unwrap();
            },
        );
        drop(job.unwrap());
        receiver.recv().unwrap();
    }
}
