//! The kept answers of one analysis.

use std::any::{Any, TypeId};
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
    key: SubjectKey,
    analysis: A,
    state: State<A::Output>,
}

impl<A: Analysis> Entry<A> {
    fn is_run(&self, run: &Weak<Wanted>) -> bool {
        matches!(&self.state, State::Running(known) if known.ptr_eq(run))
    }
}

/// All answers that are kept of one analysis, the most recently used last.
pub struct Shelf<A: Analysis>(Vec<Entry<A>>);

impl<A: Analysis> Shelf<A> {
    fn position(&self, key: &SubjectKey, analysis: &A) -> Option<usize> {
        self.0.iter().rposition(|entry| entry.key == *key && entry.analysis == *analysis)
    }

    /// The state of an answer.
    pub fn find(&mut self, key: &SubjectKey, analysis: &A) -> Option<&State<A::Output>> {
        let at = self.position(key, analysis)?;
        self.0[at..].rotate_left(1);
        self.0.last().map(|entry| &entry.state)
    }

    /// Records that `run` computes it, in place of any previous state.
    pub fn begin(&mut self, key: &SubjectKey, analysis: &A, run: &Weak<Wanted>) {
        self.0.retain(|entry| entry.key.is_alive() && !(entry.key == *key && entry.analysis == *analysis));
        self.0.push(Entry { key: key.clone(), analysis: analysis.clone(), state: State::Running(Weak::clone(run)) });
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
        let at = self.position(key, analysis).filter(|&at| self.0[at].is_run(run));
        let (Some(at), Some(outcome)) = (at, outcome) else {
            return at.map(|at| self.0.remove(at).state).into_iter().collect();
        };
        self.0[at].state = outcome;
        let is_settled = |entry: &Entry<A>| entry.key == *key && !matches!(entry.state, State::Running(_));
        let mut surplus = self.0.iter().filter(|entry| is_settled(entry)).count().saturating_sub(A::KEPT.max(1));
        let dropped = self.0.extract_if(.., |entry| {
            let is_dropped = surplus > 0 && is_settled(entry);
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
        let n = self.0.len();
        self.0.retain(|entry| {
            let is_kept = entry.key.is_current(open);
            if let (false, State::Running(run)) = (is_kept, &entry.state)
                && let Some(run) = run.upgrade()
            {
                run.cancel();
            }
            is_kept
        });
        n - self.0.len()
    }
}

/// The shelf of an analysis, new if there is none yet.
pub fn shelf_of<A: Analysis>(shelves: &mut Vec<(TypeId, Box<dyn AnyShelf>)>) -> &mut Shelf<A> {
    let wanted = TypeId::of::<A>();
    let at = shelves.iter().position(|shelf| shelf.0 == wanted).unwrap_or_else(|| {
        shelves.push((wanted, Box::new(Shelf::<A>(Vec::new()))));
        shelves.len() - 1
    });
    let shelf: &mut dyn Any = &mut *shelves[at].1;
    match shelf.downcast_mut() {
        Some(shelf) => shelf,
        None => unreachable!("shelves are found by their types"),
    }
}
