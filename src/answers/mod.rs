//! The store of results of analyses: (subject, analysis with its parameters) → answer.
//!
//! An answer is computed once, in the background for a view ([`Query`]) or in place for a command
//! ([`Answers::get`]), and is shared by all that ask for it. An analysis may use the answers of others
//! ([`Work::get`]). The store keeps no trace alive, and drops what belongs to a trace when it is closed.

pub mod compare;
pub mod findings;
pub mod memory;
mod query;
pub mod ranks;
mod shelf;
mod subject;
#[cfg(test)]
mod tests;
pub mod time;

use std::any::TypeId;
use std::borrow::Borrow as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

pub use self::query::{Answer, Query};
use self::shelf::{AnyShelf, State, shelf_of};
pub use self::subject::{Subject, SubjectKey};
use crate::job::{Progress, Wanted, caught, start};
use crate::session::OpenTrace;

/// How often work that waits for another answer checks whether it was cancelled.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// A computation on a [`Subject`]. The value holds the parameters; all other inputs are in the subject.
pub trait Analysis: Clone + PartialEq + Send + 'static {
    /// Its subject: an open trace, several, one memory, or the answer of another analysis.
    type Of: Subject + ?Sized;
    type Output: Send + Sync + 'static;
    /// Its name in messages: `The search for leaks`.
    const NAME: &'static str;
    /// The most answers that are kept per subject: those with the most recent parameters.
    const KEPT: usize = 4;

    /// Computes it, on any thread. `None` if the work was cancelled or an answer that it needs failed; any result
    /// of cancelled work is dropped.
    fn run(&self, of: &Self::Of, work: &Work<'_>) -> Option<Self::Output>;
}

/// The store. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Found by the type of the analysis.
    shelves: Mutex<Vec<(TypeId, Box<dyn AnyShelf>)>>,
    /// Signals that some work has ended.
    settled: Condvar,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// The context of running work: whether it was cancelled, and the answers that it needs.
#[derive(Debug)]
pub struct Work<'a> {
    answers: &'a Answers,
    progress: &'a Progress,
    /// Does not keep the work wanted.
    wanted: Weak<Wanted>,
}

impl Work<'_> {
    /// Whether the result is no longer wanted.
    pub fn is_cancelled(&self) -> bool {
        self.progress.is_cancelled()
    }

    /// Says how much is done of how much, for whoever waits.
    pub fn report(&self, done: u64, total: u64) {
        self.progress.set_total(total);
        self.progress.set_done(done);
    }

    /// The answer of another analysis: the kept one, awaited if it is being computed, else computed here. `None`
    /// if this work is cancelled meanwhile, or that analysis fails.
    pub fn get<A: Analysis>(&self, of: &A::Of, analysis: &A) -> Option<Arc<A::Output>> {
        let key = of.key();
        while !self.is_cancelled() {
            let mut shelves = self.answers.lock();
            let shelf = shelf_of::<A>(&mut shelves);
            match shelf.find(&key, analysis) {
                Some(State::Ready(output)) => return Some(Arc::clone(output)),
                Some(State::Failed(_)) => return None,
                Some(State::Running(other)) => {
                    // Also keeps that work wanted while this waits for it.
                    if let Some(other) = other.upgrade().filter(|other| !other.is_cancelled()) {
                        let wait = self.answers.0.settled.wait_timeout(shelves, CHECK_EVERY);
                        drop(wait.unwrap_or_else(PoisonError::into_inner));
                        drop(other);
                        continue;
                    }
                }
                None => {}
            }
            shelf.begin(&key, analysis, &self.wanted);
            drop(shelves);
            return self.run(of, &key, analysis);
        }
        None
    }

    /// Computes what was begun, and settles it.
    fn run<A: Analysis>(&self, of: &A::Of, key: &SubjectKey, analysis: &A) -> Option<Arc<A::Output>> {
        let outcome = match caught(|| analysis.run(of, self)) {
            Ok(Some(output)) => Ok(Arc::new(output)),
            Ok(None) => Err(format!("{} failed. Please report it", A::NAME)),
            Err(panic) => Err(format!("{} crashed: {panic}. Please report it", A::NAME)),
        };
        let output = outcome.as_ref().ok().map(Arc::clone);
        self.answers.settle(key, analysis, (!self.is_cancelled()).then_some(outcome), &self.wanted);
        output.filter(|_| !self.is_cancelled())
    }
}

impl Answers {
    /// Sets what to run whenever an answer is ready; only the first call counts.
    pub fn wake_with(&self, wake: impl Fn() + Send + Sync + 'static) {
        _ = self.0.wake.set(Box::new(wake));
    }

    /// The answer, computed in place unless it is kept; `None` if the analysis fails. For commands, and in views
    /// only for what fits into a frame.
    pub fn get<A: Analysis>(&self, of: &A::Of, analysis: &A) -> Option<Arc<A::Output>> {
        let wanted = Arc::new(Wanted::default());
        Work { answers: self, progress: &wanted, wanted: Arc::downgrade(&wanted) }.get(of, analysis)
    }

    /// Drops the answers of all but these traces, at their present offsets.
    pub fn follow(&self, open: &[OpenTrace]) {
        let mut shelves = self.lock();
        // An answer may be the subject of another.
        while shelves.iter_mut().map(|(_, shelf)| shelf.follow(open)).sum::<usize>() > 0 {}
    }

    /// Starts the work on a thread. It is cancelled when all clones of the returned `Arc` are dropped.
    fn start<A: Analysis>(&self, of: &A::Of, key: &SubjectKey, analysis: &A) -> Arc<Wanted> {
        let wanted = Arc::new(Wanted::default());
        shelf_of::<A>(&mut self.lock()).begin(key, analysis, &Arc::downgrade(&wanted));
        let (progress, weak) = (wanted.progress(), Arc::downgrade(&wanted));
        let (answers, known, asked, of) = (self.clone(), key.clone(), analysis.clone(), of.to_owned());
        let work = move || {
            let work = Work { answers: &answers, progress: &progress, wanted: weak };
            work.run(of.borrow(), &known, &asked);
        };
        if let Err(error) = start("answer", work, |_| {}) {
            let outcome = Some(Err(format!("{}: no thread could be started: {error}", A::NAME)));
            self.settle(key, analysis, outcome, &Arc::downgrade(&wanted));
        }
        wanted
    }

    /// Records how work ended; `None` if it was cancelled.
    fn settle<A: Analysis>(
        &self,
        key: &SubjectKey,
        analysis: &A,
        outcome: Option<Result<Arc<A::Output>, String>>,
        wanted: &Weak<Wanted>,
    ) {
        let outcome = outcome.map(|outcome| outcome.map_or_else(|text| State::Failed(text.into()), State::Ready));
        let dropped = shelf_of::<A>(&mut self.lock()).settle(key, analysis, outcome, wanted);
        // Large answers are freed without the lock.
        drop(dropped);
        self.0.settled.notify_all();
        if let Some(wake) = self.0.wake.get() {
            wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(TypeId, Box<dyn AnyShelf>)>> {
        self.0.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}
