//! Runs beside each other by their steps.

use super::App;
use crate::answers::time::AlignedSteps;
use crate::answers::{Answer, Query};
use crate::command::{Command, Needs};
use crate::session::{RunPlaces, Session};

/// Whether runs are to be aligned at their steps, which are looked for in the background.
#[derive(Debug, Default)]
pub struct Alignment {
    wanted: Option<AlignedSteps>,
    query: Query<AlignedSteps>,
}

impl App {
    /// Places runs beside each other: by their steps once these are known.
    pub(super) fn place_runs(&mut self, places: RunPlaces) {
        let open = &self.session.open;
        let refusal = match places {
            _ if open.runs().len() < 2 => Some(Needs::Runs.lack()),
            RunPlaces::Recorded if !open.can_spread() => Some(Needs::RecordedRuns.lack()),
            _ => None,
        };
        if let Some(text) = refusal {
            return self.commands.push(Command::Tell(text));
        }
        let is_by_steps = matches!(places, RunPlaces::FirstSteps | RunPlaces::ChosenSteps);
        self.alignment.wanted = is_by_steps.then(|| wanted(&self.session));
        if !is_by_steps {
            self.session.place_runs(places, &[]);
        }
    }

    /// Aligns what is open, also what was opened since; to be called in every frame.
    pub(super) fn align_runs(&mut self) {
        let open = &self.session.open;
        let Some(wanted) = self.alignment.wanted.as_ref().filter(|_| open.runs().len() > 1) else { return };
        let steps = match self.alignment.query.ask(&self.answers, &open[..], wanted) {
            Answer::Ready(steps) => steps,
            Answer::Working(_) => return,
            Answer::Failed(_) => return self.refuse_alignment("Steps could not be looked for"),
        };
        let places = if wanted.chosen.is_some() { RunPlaces::ChosenSteps } else { RunPlaces::FirstSteps };
        if open.places() == places && open.iter().zip(&*steps).all(|(open, step)| open.aligned_step == *step) {
            return;
        }
        let has_step = |run: &usize| open.iter().zip(&*steps).any(|(open, step)| open.run == *run && step.is_some());
        if (0..open.runs().len()).filter(has_step).count() < 2 {
            return self.refuse_alignment("There are no two runs with such a step");
        }
        self.session.place_runs(places, &steps);
    }

    fn refuse_alignment(&mut self, why: &'static str) {
        self.alignment.wanted = None;
        if matches!(self.session.open.places(), RunPlaces::FirstSteps | RunPlaces::ChosenSteps) {
            self.session.place_runs(RunPlaces::Starts, &[]);
        }
        self.commands.push(Command::Tell(why));
    }
}

/// The step that is selected, or else the first.
fn wanted(session: &Session) -> AlignedSteps {
    let step = session.chosen_step.as_ref().filter(|step| Some(step.time) == session.range);
    let chosen = step.and_then(|step| {
        let open = session.open.iter().find(|open| open.id == step.of)?;
        Some((step.of.clone(), step.time.start.saturating_sub(open.offset)))
    });
    AlignedSteps { chosen }
}
