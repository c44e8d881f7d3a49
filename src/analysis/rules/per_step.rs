//! Gain per step from ending a cause.

use crate::analysis::median;
use crate::model::DurNs;

/// Among fewer steps nothing shows that one is an exception.
const MIN_STEPS: usize = 4;
/// A gain is alike in two steps if they differ by at most this part of it: a quarter.
const ALIKE: DurNs = 4;
/// One step is an exception, or of many this part: a tenth.
const EXCEPTIONS: usize = 10;

/// What ending a cause gains a step at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerStep {
    /// The mean of all steps: a bound holds for each of them, also for one in which the machine was slow.
    pub ns: DurNs,
    /// That of the steps without exceptions, where the cause comes back alike and exceptions raise the mean.
    pub usual_ns: Option<DurNs>,
}

impl PerStep {
    /// Of the gains in each step. A cause comes back alike if
    ///
    /// * of at least four steps all but one, or all but a tenth, are within a quarter of the median, and
    /// * the median is at least three quarters of the mean: what has much of its time in few steps, such as a
    ///   checkpoint, is not an outlier.
    pub fn of(by_step: &[DurNs]) -> Self {
        let n = by_step.len() as DurNs;
        let mut sorted = by_step.to_vec();
        sorted.sort_unstable();
        let Some(median) = median::of_sorted(&sorted) else { return Self::default() };
        let mean = sorted.iter().sum::<DurNs>() / n;
        let is_usual = |ns: &&DurNs| (**ns - median).abs() <= median / ALIKE;
        let n_usual = sorted.iter().filter(is_usual).count();
        let n_others = sorted.len() - n_usual;
        let is_alike = sorted.len() >= MIN_STEPS && n_others > 0 && n_others <= (sorted.len() / EXCEPTIONS).max(1);
        let usual = sorted.iter().filter(is_usual).sum::<DurNs>() / n_usual.max(1) as DurNs;
        let is_near = usual < mean && median.saturating_mul(ALIKE) >= mean.saturating_mul(ALIKE - 1);
        Self { ns: mean, usual_ns: Some(usual).filter(|_| is_alike && is_near) }
    }

    /// The less of two bounds.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if other.ns < self.ns { other } else { self }
    }

    /// `None` if nothing is gained.
    pub fn some(self) -> Option<DurNs> {
        (self.ns > 0).then_some(self.ns)
    }
}

/// Adds time to that of a step.
pub fn add(by_step: &mut Vec<DurNs>, step: usize, ns: DurNs) {
    if ns != 0 {
        if by_step.len() <= step {
            by_step.resize(step + 1, 0);
        }
        by_step[step] += ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(by_step: &[DurNs], ns: DurNs, usual_ns: Option<DurNs>) {
        assert_eq!(PerStep::of(by_step), PerStep { ns, usual_ns }, "{by_step:?}");
    }

    #[test]
    fn one_step_of_several_alike_counts_in_the_bound_and_is_told_apart() {
        check(&[155, 77, 79, 78], 97, Some(78));
        check(&[100, 200, 100, 100, 110, 90, 100, 100], 112, Some(100));
        check(&[100, 100, 100, 99], 99, None);
        // Half of a step cut off lowers the mean.
        check(&[100, 100, 100, 20], 80, None);
    }

    #[test]
    fn what_few_steps_have_most_of_is_no_outlier() {
        for (by_step, ns) in [
            (&[1, 1, 1, 500][..], 125),
            (&[10, 10, 10, 24, 10, 10, 10, 24], 13),
            (&[100, 140, 100], 113),
            (&[100, 100, 100, 240], 135),
            (&[0, 0, 0, 400], 100),
            (&[0, 0, 0, 0], 0),
            (&[100, 150, 60, 30], 85),
            (&[90, 30], 60),
            (&[7], 7),
            (&[], 0),
        ] {
            check(by_step, ns, None);
        }
    }
}
