//! Runs beside each other by their first steps.

use super::App;
use crate::answers::time::FirstSteps;
use crate::answers::{Answer, Query};
use crate::command::Command;
use crate::session::RunPlaces;

/// Whether runs are to be aligned at their first steps, which are looked for in the background.
#[derive(Debug, Default)]
pub struct Alignment {
    is_wanted: bool,
    query: Query<FirstSteps>,
}

impl App {
    /// Places runs beside each other: by their first steps once these are known.
    pub(super) fn place_runs(&mut self, places: RunPlaces) {
        let open = &self.session.open;
        let refusal = match places {
            _ if open.runs().len() < 2 => Some("There are no two runs"),
            RunPlaces::Recorded if !open.can_spread() => {
                Some("There are no two runs that know when they were recorded")
            }
            _ => None,
        };
        self.alignment.is_wanted = places == RunPlaces::FirstSteps && refusal.is_none();
        match refusal {
            Some(text) => self.commands.push(Command::Tell(text)),
            None if self.alignment.is_wanted => {}
            None => self.session.place_runs(places, &[]),
        }
    }

    /// Aligns what is open, also what was opened since; to be called in every frame.
    pub(super) fn align_runs(&mut self) {
        if !self.alignment.is_wanted || self.session.open.runs().len() < 2 {
            return;
        }
        let open = &self.session.open;
        let first_steps = match self.alignment.query.ask(&self.answers, &open[..], &FirstSteps) {
            Answer::Ready(first_steps) => first_steps,
            Answer::Working(_) => return,
            Answer::Failed(_) => return self.refuse_alignment("Steps could not be looked for"),
        };
        let has_steps =
            |run: &usize| open.iter().zip(&*first_steps).any(|(open, first)| open.run == *run && first.is_some());
        if (0..open.runs().len()).filter(has_steps).count() < 2 {
            return self.refuse_alignment("There are no two runs with steps");
        }
        let is_placed = open.places() == RunPlaces::FirstSteps;
        if !is_placed || open.iter().zip(&*first_steps).any(|(open, first)| open.first_step != *first) {
            self.session.place_runs(RunPlaces::FirstSteps, &first_steps);
        }
    }

    fn refuse_alignment(&mut self, why: &'static str) {
        self.alignment.is_wanted = false;
        if self.session.open.places() == RunPlaces::FirstSteps {
            self.session.place_runs(RunPlaces::Starts, &[]);
        }
        self.commands.push(Command::Tell(why));
    }
}
