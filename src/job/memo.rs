//! To be replaced by `crate::answers`.

use super::{Job, Poll, Progress};

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
