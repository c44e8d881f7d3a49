//! Whose steps the views show.

use super::{Mark, OpenTrace};
use crate::model::TimeNs;

/// The trace whose steps are shown, and whether the user's marks divide it. The chosen step is the selected range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepFocus {
    /// Index of the trace.
    pub trace: usize,
    pub by_marks: bool,
}

impl StepFocus {
    /// The trace; the first one with slices where the chosen one is gone or has none.
    pub fn open(self, traces: &[OpenTrace]) -> Option<(usize, &OpenTrace)> {
        let has_slices = |open: &OpenTrace| !open.trace.slices.is_empty();
        let chosen = traces.get(self.trace).filter(|open| has_slices(open)).map(|open| (self.trace, open));
        chosen.or_else(|| traces.iter().enumerate().find(|(_, open)| has_slices(open)))
    }

    /// The starts of the marks in the time of a trace, if they are to be its steps.
    pub fn marks(self, marks: &[Mark], open: &OpenTrace) -> Option<Vec<TimeNs>> {
        self.by_marks.then(|| marks.iter().map(|mark| mark.range.start.saturating_sub(open.offset)).collect())
    }
}
