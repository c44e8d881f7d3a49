//! Causes that cost time in one step only.

use super::{Account, Device, Window};
use crate::model::{DurNs, TimeRange};

/// Among fewer steps nothing shows that a cause does not come back.
const MIN_STEPS: usize = 3;
/// Share of the time of a cause that the other steps have at most: a tenth.
const MOST_ELSEWHERE: DurNs = 10;

/// The one step of several that has nearly all time of a cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Once {
    pub step: String,
    /// Of the cause, in that step.
    pub ns: DurNs,
}

impl Window {
    /// The index of the step that some time belongs to, that in which it ends; `None` without steps.
    pub(super) fn step_of(&self, time: TimeRange) -> Option<usize> {
        let last = self.steps.len().checked_sub(1)?;
        Some(self.steps.partition_point(|step| step.end < time.end).min(last))
    }
}

impl Device<'_, '_> {
    /// The step that has nearly all of the idle time of a cause and of `spans`, if there is one. Such time is no time per
    /// step: a gain in each step does not follow from it.
    pub(super) fn once(&self, account: &Account<'_>, spans: impl Iterator<Item = TimeRange>) -> Option<Once> {
        let Window { ref steps, .. } = *self.window;
        if steps.len() < MIN_STEPS {
            return None;
        }
        let mut by_step = account.by_step.clone();
        by_step.resize(steps.len(), 0);
        for span in spans {
            if let Some(step) = self.window.step_of(span) {
                by_step[step] += span.dur();
            }
        }
        let total = by_step.iter().sum::<DurNs>();
        let (step, &ns) = by_step.iter().enumerate().max_by_key(|step| step.1)?;
        (ns > 0 && MOST_ELSEWHERE * (total - ns) <= total).then(|| Once { step: self.step_name(steps[step].start), ns })
    }
}
