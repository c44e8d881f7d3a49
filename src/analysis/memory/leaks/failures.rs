//! Steps in which memory ran out and the program went on.

use crate::analysis::memory::steps::Steps;
use crate::model::MemoryHistory;

/// Whether each step holds a failed request.
///
/// A program that catches the error skips what would have grown, so such a step says nothing of growth unless memory
/// grew in it.
#[derive(Clone, Debug, Default)]
pub struct Failures(Vec<bool>);

impl Failures {
    /// Cost: O(steps + failed requests · log steps).
    pub fn new(history: &MemoryHistory, steps: &Steps) -> Self {
        let mut failed = vec![false; steps.len()];
        for oom in &history.ooms {
            if let Some(step) = steps.step_of(oom.event.saturating_add(1)) {
                failed[step] = true;
            }
        }
        Self(failed)
    }

    /// The boundaries from `first` on, without the ends of steps that failed and did not grow.
    ///
    /// * `live`: the value at each boundary.
    pub fn completed(&self, first: usize, live: &[i64]) -> Vec<usize> {
        let has_grown = |boundary: usize| live[boundary] > live[boundary - 1];
        let is_kept = |&boundary: &usize| boundary == first || !self.0[boundary - 1] || has_grown(boundary);
        (first..live.len()).filter(is_kept).collect()
    }
}
