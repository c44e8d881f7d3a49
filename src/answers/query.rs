//! A view's request for one answer, repeated every frame.

use std::sync::{Arc, Weak};

use super::shelf::{State, shelf_of};
use super::{Analysis, Answers, Subject as _, SubjectKey};
use crate::job::Wanted;

/// The state of an answer in this frame.
#[derive(Debug)]
pub enum Answer<T> {
    /// It is being computed; until then the answer to the previous parameters can be shown.
    Working(Option<Arc<T>>),
    Ready(Arc<T>),
    /// The reason, as a sentence.
    Failed(Arc<str>),
}

impl<T> Answer<T> {
    /// The answer to these parameters.
    pub fn ready(&self) -> Option<&Arc<T>> {
        match self {
            Self::Ready(output) => Some(output),
            Self::Working(_) | Self::Failed(_) => None,
        }
    }

    /// What to show: the answer, or the previous one until it is ready.
    pub fn newest(&self) -> Option<&Arc<T>> {
        match self {
            Self::Ready(output) | Self::Working(Some(output)) => Some(output),
            Self::Working(None) | Self::Failed(_) => None,
        }
    }

    /// Whether it is being computed.
    pub fn is_working(&self) -> bool {
        matches!(self, Self::Working(_))
    }
}

/// Asks for one answer each frame. With other parameters, work it waited for is cancelled unless others wait for
/// it too, and the previous answer is shown until the next is ready, since a table that blinks on every key press
/// cannot be read. Keeps no answer alive.
#[derive(Debug)]
pub struct Query<A: Analysis> {
    waits_for: Option<(SubjectKey, A, Arc<Wanted>)>,
    newest: Option<(SubjectKey, A, Weak<A::Output>)>,
}

impl<A: Analysis> Default for Query<A> {
    fn default() -> Self {
        Self { waits_for: None, newest: None }
    }
}

impl<A: Analysis> Query<A> {
    /// The state of the answer; starts the work for it if necessary. Call it every frame.
    pub fn ask(&mut self, answers: &Answers, of: &A::Of, wanted: &A) -> Answer<A::Output> {
        self.ask_in_turn(answers, of, wanted, |_| false)
    }

    /// The same for parameters that change faster than answers are computed, as in a view that keeps moving: work
    /// under way is finished first, or there would never be an answer.
    ///
    /// * `is_near`: whether the answer to those parameters may be shown for this one; if not, work on it is
    ///   cancelled.
    pub fn ask_in_turn(
        &mut self,
        answers: &Answers,
        of: &A::Of,
        wanted: &A,
        is_near: impl Fn(&A) -> bool,
    ) -> Answer<A::Output> {
        let key = of.key();
        // Held from here on: an answer that comes in this very moment takes its place on the shelf.
        let mut newest = self.newest.as_ref().filter(|newest| newest.0 == key).and_then(|newest| newest.2.upgrade());
        if let Some((known, analysis, wanted)) = self.waits_for.take() {
            match look(answers, &known, &analysis) {
                Some(State::Ready(output)) => {
                    self.newest = Some((known.clone(), analysis, Arc::downgrade(&output)));
                    newest = Some(output).filter(|_| known == key);
                }
                Some(State::Running(_)) => self.waits_for = Some((known, analysis, wanted)),
                Some(State::Failed(_)) | None => {}
            }
        }
        let run = match look(answers, &key, wanted) {
            Some(State::Ready(output)) => {
                self.waits_for = None;
                self.newest = Some((key, wanted.clone(), Arc::downgrade(&output)));
                return Answer::Ready(output);
            }
            Some(State::Failed(why)) => {
                self.waits_for = None;
                return Answer::Failed(why);
            }
            Some(State::Running(run)) => run.upgrade().filter(|run| !run.is_cancelled()),
            None => None,
        };
        let is_awaited = |(known, analysis, _): &(SubjectKey, A, Arc<Wanted>)| {
            *known == key && (*analysis == *wanted && run.is_some() || is_near(analysis))
        };
        if !self.waits_for.as_ref().is_some_and(is_awaited) {
            let run = run.unwrap_or_else(|| answers.start(of, &key, wanted));
            self.waits_for = Some((key.clone(), wanted.clone(), run));
        }
        Answer::Working(newest)
    }

    /// How much is done of what is waited for, of how much, as far as the analysis says.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let (_, _, wanted) = self.waits_for.as_ref()?;
        Some(wanted.get()).filter(|&(_, total)| total > 0)
    }

    /// The parameters of the newest answer, whatever was asked for since.
    pub fn shown(&self) -> Option<&A> {
        self.newest.as_ref().map(|newest| &newest.1)
    }

    /// The newest answer, whatever was asked for since; starts nothing.
    pub fn newest(&self) -> Option<Arc<A::Output>> {
        self.newest.as_ref()?.2.upgrade()
    }
}

fn look<A: Analysis>(answers: &Answers, key: &SubjectKey, analysis: &A) -> Option<State<A::Output>> {
    shelf_of::<A>(&mut answers.lock()).find(key, analysis).cloned()
}
