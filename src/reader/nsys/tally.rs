//! Why rows are not shown as they are, counted.

use crate::model::{ImportReport, Severity};

/// One way in which a row can be odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    NoTime,
    BadTime,
    EndBeforeStart,
    NoEnd,
    NeverEnded,
    BadValue,
    NoName,
    UnknownString,
    BadText,
    WildMetric,
    UnpairedSched,
    UnknownNvtx,
    NoEventTime,
    OrphanStack,
}

/// (reason, severity, whether the row is not shown at all, sentence), in the order of [`Reason`].
const REASONS: [(Reason, Severity, bool, &str); 14] = {
    use Reason as R;
    use Severity::{Loss, Note};
    [
        (R::NoTime, Loss, true, "Row without a start time"),
        (R::BadTime, Loss, true, "Time that is no whole number of nanoseconds"),
        (R::EndBeforeStart, Loss, true, "Row that ends before it starts"),
        (R::NoEnd, Loss, true, "Row without an end time"),
        (R::NeverEnded, Note, false, "Range that was never ended: drawn to the end of the trace"),
        (R::BadValue, Loss, false, "Cell of the wrong type: left out, the rest of its row is shown"),
        (R::NoName, Note, false, "Row without a name"),
        (R::UnknownString, Loss, false, "Name that StringIds does not have: shown as its number"),
        (R::BadText, Loss, false, "Text that is not valid Unicode: shown with replacement characters"),
        (R::WildMetric, Loss, true, "Metric value beyond its range: a sampling error of the recorder"),
        (R::UnpairedSched, Note, true, "Scheduling event without its other half: a thread that came or went unseen"),
        (R::UnknownNvtx, Loss, true, "NVTX event of a type that Lacuna does not know"),
        (
            R::NoEventTime,
            Note,
            false,
            "CUDA event record without a time of its own, as all before 2025: it lives on in the API call that made it",
        ),
        (R::OrphanStack, Note, true, "Frame of a call stack whose sample is not in the file"),
    ]
};

/// How often each reason was met.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    met: [u64; REASONS.len()],
}

impl Tally {
    pub fn count(&mut self, reason: Reason) {
        self.met[reason as usize] += 1;
    }

    pub fn add(&mut self, reason: Reason, count: u64) {
        self.met[reason as usize] += count;
    }

    pub fn merge(&mut self, other: &Self) {
        self.met.iter_mut().zip(other.met).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Rows so far that are not shown at all.
    pub fn n_rejected(&self) -> u64 {
        REASONS.iter().filter(|entry| entry.2).map(|entry| self.met[entry.0 as usize]).sum()
    }

    /// Notes what was met in `table`. The counts of rejected rows are the caller's to add up.
    pub fn report(&self, table: &str, report: &mut ImportReport) {
        for (reason, severity, _, sentence) in REASONS {
            report.note(severity, &format!("{table}: {sentence}"), self.met[reason as usize], None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_reasons() {
        for (i, (reason, ..)) in REASONS.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
        }
    }
}
