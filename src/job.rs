//! Work in the background: progress, cancel, crash, and answers that stay on show.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// How far a piece of work is, and whether it is still wanted.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Progress {
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

    /// Asks the work to stop. It answers within 50 ms of its own time.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the person gave up. Work checks this at least every 50 ms.
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

/// One piece of background work. Dropping it cancels it.
#[derive(Debug)]
pub struct Job<T> {
    pub progress: Arc<Progress>,
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
        let progress = Arc::new(Progress::default());
        let (sender, result) = sync_channel(1);
        let seen_by_work = Arc::clone(&progress);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&seen_by_work)));
            // The receiver is gone if the job was dropped: then nobody wants the answer.
            let _ = sender.send(outcome.map_err(|panic| panic_message(&*panic)));
            wake();
        })?;
        Ok(Self { progress, result })
    }

    /// Never blocks. Call it once a frame; after `Done` or `Crashed` it says `Crashed`.
    pub fn poll(&self) -> Poll<T> {
        match self.result.try_recv() {
            Ok(Ok(answer)) => Poll::Done(answer),
            Ok(Err(message)) => Poll::Crashed(message),
            Err(TryRecvError::Empty) => Poll::Running,
            Err(TryRecvError::Disconnected) => Poll::Crashed("The work ended without an answer".to_owned()),
        }
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.progress.cancel();
    }
}

/// What a panic said.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".to_owned())
}

/// The newest answer to a question that changes while it is being answered, such as a filter.
///
/// While it runs, the last answer stays on show: a table that blinks on every key press cannot be
/// read.
#[derive(Debug)]
pub struct Memo<K, T> {
    answer: Option<(K, T)>,
    running: Option<(K, Job<T>)>,
    crashed: Option<K>,
}

impl<K, T> Default for Memo<K, T> {
    fn default() -> Self {
        Self { answer: None, running: None, crashed: None }
    }
}

impl<K: PartialEq + Clone, T: Send + 'static> Memo<K, T> {
    /// The newest answer there is, if any; starts `work` if it is for another `key`. Call it every
    /// frame.
    pub fn get(
        &mut self,
        key: &K,
        wake: impl Fn() + Send + 'static,
        work: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> Option<&T> {
        self.get_in_turn(key, |_| false, wake, work)
    }

    /// The same for a question that changes faster than it is answered, such as a view that keeps
    /// moving: what is being worked out is let be finished, or there would never be an answer.
    ///
    /// * `is_near`: whether the answer to that question can stand in for this one until it is there; if
    ///   not, that work is cancelled.
    pub fn get_in_turn(
        &mut self,
        key: &K,
        is_near: impl Fn(&K) -> bool,
        wake: impl Fn() + Send + 'static,
        work: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> Option<&T> {
        if let Some((running_key, job)) = &self.running {
            match job.poll() {
                Poll::Running => {}
                Poll::Done(answer) => {
                    self.answer = Some((running_key.clone(), answer));
                    self.running = None;
                }
                Poll::Crashed(_) => {
                    self.crashed = Some(running_key.clone());
                    self.running = None;
                }
            }
        }
        if self.is_current(key) {
            // Nobody wants the other answer any more.
            self.running = None;
        }
        let is_known = self.is_current(key)
            || self.crashed.as_ref() == Some(key)
            || self.running.as_ref().is_some_and(|running| running.0 == *key || is_near(&running.0));
        if !is_known {
            // Replacing the job cancels the one before it.
            self.running = Job::spawn("answer", wake, work).ok().map(|job| (key.clone(), job));
        }
        self.answer.as_ref().map(|answer| &answer.1)
    }

    /// The newest answer, to whatever question; starts nothing.
    pub fn answer(&self) -> Option<&T> {
        self.answer.as_ref().map(|answer| &answer.1)
    }

    /// The question that the newest answer is for.
    pub fn question(&self) -> Option<&K> {
        self.answer.as_ref().map(|answer| &answer.0)
    }

    /// Whether the answer on show is that for `key`.
    pub fn is_current(&self, key: &K) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.0 == *key)
    }

    /// Whether the work for `key` crashed.
    pub fn has_crashed(&self, key: &K) -> bool {
        self.crashed.as_ref() == Some(key)
    }
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
    fn a_job_answers_and_a_panic_is_reported() {
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

    #[test]
    fn a_memo_keeps_the_old_answer_until_the_new_one_is_there() {
        let mut memo = Memo::default();
        while memo.get(&1, || {}, |_| "one").is_none() {}
        let (sender, receiver) = sync_channel::<()>(1);
        let slow = move |_: &Progress| {
            receiver.recv().unwrap();
            "two"
        };
        assert_eq!(memo.get(&2, || {}, slow), Some(&"one"));
        assert!(!memo.is_current(&2));
        sender.send(()).unwrap();
        while !memo.is_current(&2) {
            memo.get(&2, || {}, |_| "never asked");
        }
        assert_eq!(memo.get(&2, || {}, |_| "never asked"), Some(&"two"));
    }

    #[test]
    fn work_that_can_stand_in_is_finished_before_the_next_begins() {
        let mut memo = Memo::default();
        let (sender, receiver) = sync_channel::<()>(1);
        let slow = move |progress: &Progress| {
            receiver.recv().unwrap();
            if progress.is_cancelled() { "cancelled" } else { "one" }
        };
        memo.get(&1, || {}, slow);
        for moved in 2..50 {
            assert_eq!(memo.get_in_turn(&moved, |_| true, || {}, |_| "too soon"), None);
        }
        sender.send(()).unwrap();
        while memo.get_in_turn(&50, |_| true, || {}, |_| "fifty").is_none() {}
        assert_eq!(memo.answer(), Some(&"one"));
        while !memo.is_current(&50) {
            memo.get_in_turn(&50, |_| true, || {}, |_| "never asked");
        }
        assert_eq!(memo.answer(), Some(&"fifty"));
    }

    #[test]
    fn an_answer_that_is_there_is_not_replaced_by_one_that_nobody_wants_any_more() {
        let mut memo = Memo::<u32, u32>::default();
        while memo.get(&1, || {}, |_| 10).is_none() {
            std::thread::yield_now();
        }
        let (sender, receiver) = sync_channel::<()>(1);
        let (done, finished) = sync_channel(1);
        memo.get(
            &2,
            || {},
            move |_| {
                _ = receiver.recv();
                _ = done.send(());
                20
            },
        );
        // Back again, before the other is known.
        assert_eq!(memo.get(&1, || {}, |_| 11), Some(&10));
        _ = sender.send(());
        _ = finished.recv();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(memo.get(&1, || {}, |_| 12), Some(&10));
        assert!(memo.is_current(&1));
    }
}
