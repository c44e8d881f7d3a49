//! The kept answers of one analysis.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::{Analysis, SubjectKey};
use crate::job::Wanted;
use crate::session::OpenTrace;

/// The state of one answer.
#[derive(Debug)]
pub enum State<T> {
    /// Being computed, as long as this is alive.
    Running(Weak<Wanted>),
    Ready(Arc<T>),
    /// The reason, as a sentence.
    Failed(Arc<str>),
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Running(run) => Self::Running(Weak::clone(run)),
            Self::Ready(output) => Self::Ready(Arc::clone(output)),
            Self::Failed(why) => Self::Failed(Arc::clone(why)),
        }
    }
}

struct Entry<A: Analysis> {
    analysis: A,
    state: State<A::Output>,
}

impl<A: Analysis> Entry<A> {
    fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    fn is_run(&self, run: &Weak<Wanted>) -> bool {
        matches!(&self.state, State::Running(known) if known.ptr_eq(run))
    }
}

/// All answers that are kept of one analysis: by subject, and of each the most recently used last.
pub struct Shelf<A: Analysis> {
    of: HashMap<SubjectKey, Vec<Entry<A>>>,
    /// At so many subjects, those that exist no more are looked for: not each time, since an archive has thousands.
    most: usize,
}

impl<A: Analysis> Shelf<A> {
    /// The state of an answer.
    pub fn find(&mut self, key: &SubjectKey, analysis: &A) -> Option<&State<A::Output>> {
        let entries = self.of.get_mut(key)?;
        let at = entries.iter().position(|entry| entry.analysis == *analysis)?;
        entries[at..].rotate_left(1);
        entries.last().map(|entry| &entry.state)
    }

    /// Records that `run` computes it, in place of any previous state.
    pub fn begin(&mut self, key: &SubjectKey, analysis: &A, run: &Weak<Wanted>) {
        if self.of.len() >= self.most {
            self.of.retain(|key, entries| key.is_alive() && !entries.is_empty());
            self.most = 2 * self.of.len();
        }
        let entries = self.of.entry(key.clone()).or_default();
        entries.retain(|entry| entry.analysis != *analysis);
        entries.push(Entry { analysis: analysis.clone(), state: State::Running(Weak::clone(run)) });
    }

    /// Records how `run` ended, unless another one took its place; `None` removes it. Returns what is no longer
    /// kept.
    pub fn settle(
        &mut self,
        key: &SubjectKey,
        analysis: &A,
        outcome: Option<State<A::Output>>,
        run: &Weak<Wanted>,
    ) -> Vec<State<A::Output>> {
        let Some(entries) = self.of.get_mut(key) else { return Vec::new() };
        let at = entries.iter().position(|entry| entry.analysis == *analysis && entry.is_run(run));
        let (Some(at), Some(outcome)) = (at, outcome) else {
            return at.map(|at| entries.remove(at).state).into_iter().collect();
        };
        entries[at].state = outcome;
        let mut surplus = entries.iter().filter(|entry| !entry.is_running()).count().saturating_sub(A::KEPT.max(1));
        let dropped = entries.extract_if(.., |entry| {
            let is_dropped = surplus > 0 && !entry.is_running();
            surplus -= usize::from(is_dropped);
            is_dropped
        });
        dropped.map(|entry| entry.state).collect()
    }
}

/// A [`Shelf`] of any analysis.
pub trait AnyShelf: Any + Send {
    /// Drops the answers of other traces and cancels work on them; returns how many.
    fn follow(&mut self, open: &[OpenTrace]) -> usize;
}

impl<A: Analysis> AnyShelf for Shelf<A> {
    fn follow(&mut self, open: &[OpenTrace]) -> usize {
        let mut n_dropped = 0;
        self.of.retain(|key, entries| {
            if key.is_current(open) {
                return true;
            }
            n_dropped += entries.len();
            for entry in entries {
                if let State::Running(run) = &entry.state
                    && let Some(run) = run.upgrade()
                {
                    run.cancel();
                }
            }
            false
        });
        n_dropped
    }
}

/// The shelf of an analysis, new if there is none yet.
pub fn shelf_of<A: Analysis>(shelves: &mut Vec<(TypeId, Box<dyn AnyShelf>)>) -> &mut Shelf<A> {
    let wanted = TypeId::of::<A>();
    let at = shelves.iter().position(|shelf| shelf.0 == wanted).unwrap_or_else(|| {
        shelves.push((wanted, Box::new(Shelf::<A> { of: HashMap::new(), most: 0 })));
        shelves.len() - 1
    });
    let shelf: &mut dyn Any = &mut *shelves[at].1;
    match shelf.downcast_mut() {
        Some(shelf) => shelf,
        None => unreachable!("shelves are found by their types"),
    }
}
