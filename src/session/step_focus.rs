//! The trace whose steps the views show.

use std::sync::Arc;

use super::{Mark, OpenTrace, in_order};
use crate::model::{TimeNs, TimeRange};

/// The trace whose steps are shown, and whether the user's marks divide it. The chosen step is the selected range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepFocus {
    /// Index of the trace, if one was chosen.
    pub trace: Option<usize>,
    pub by_marks: bool,
}

/// A step that was made the selected range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenStep {
    /// In session time.
    pub time: TimeRange,
    /// With its recording where several are open: the others have other steps at that time. May contain text from a
    /// file.
    pub name: Arc<str>,
    /// [`OpenTrace::id`] of its recording.
    pub of: Arc<str>,
}

impl StepFocus {
    /// The trace; without a choice, or where the chosen one has no slices, the first in order that has: a snapshot of
    /// memory only where there is nothing else.
    pub fn open(self, traces: &[OpenTrace]) -> Option<(usize, &OpenTrace)> {
        let has_slices = |open: &OpenTrace| !open.trace.slices.is_empty();
        let chosen = self.trace.and_then(|trace| Some((trace, traces.get(trace)?)));
        let all = || in_order(traces).into_iter().map(|trace| (trace, &traces[trace]));
        let chosen = chosen.filter(|(_, open)| has_slices(open));
        chosen
            .or_else(|| all().find(|(_, open)| open.is_program()))
            .or_else(|| all().find(|(_, open)| has_slices(open)))
    }

    /// The starts of the marks in the time of a trace, if they are to be its steps.
    pub fn marks(self, marks: &[Mark], open: &OpenTrace) -> Option<Vec<TimeNs>> {
        self.by_marks.then(|| marks.iter().map(|mark| mark.range.start.saturating_sub(open.offset)).collect())
    }
}
