//! What went wrong, counted by reason.

use crate::model::{ImportReport, Severity};

/// A reason why an event is not shown as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Repaired,
    Damaged,
    Hopeless,
    CutOff,
    NoPhase,
    UnknownPhase,
    NoTime,
    BadTime,
    TimeOutOfRange,
    LooksLikeNanoseconds,
    NoDuration,
    NegativeDuration,
    BadCounter,
    TextNumber,
    BadText,
    DeepArgs,
    LongName,
    MissingComma,
    ExtraComma,
    TrailingComma,
    EndWithoutBegin,
    NameMismatch,
    AsyncEndWithoutBegin,
    NeverEnded,
    Context,
    DamagedSample,
    TooManyTexts,
    LostFrame,
    DeepStack,
    DamagedFrame,
    DoubleFrame,
    LostParent,
    FrameCircle,
    UnusedFrame,
    WildMemory,
}

/// (reason, severity, whether the event is rejected, sentence), in the order of [`Reason`].
const REASONS: [(Reason, Severity, bool, &str); 35] = {
    use Reason as R;
    use Severity::{Loss, Note};
    [
        (R::Repaired, Loss, false, "Not valid JSON (a raw quote, line break, backslash or NaN): repaired and shown"),
        (R::Damaged, Loss, true, "Damaged beyond repair: skipped up to the next event"),
        (
            R::Hopeless,
            Loss,
            true,
            "Too much damage in one place: what follows it was skipped, up to 2 MiB of text each",
        ),
        (R::CutOff, Loss, true, "The file ends inside this event: its writer was stopped before it had finished"),
        (R::NoPhase, Loss, true, "Event without a phase (`ph`)"),
        (R::UnknownPhase, Loss, true, "Event with a phase (`ph`) that the format does not have"),
        (R::NoTime, Loss, true, "Event without a time stamp (`ts`)"),
        (R::BadTime, Loss, true, "Time stamp or duration is not a finite number"),
        (R::TimeOutOfRange, Loss, true, "Time beyond the 292 years that 64 bits of nanoseconds hold"),
        (
            R::LooksLikeNanoseconds,
            Loss,
            true,
            "Time stamp out of range: `ts` looks like nanoseconds, but the format has microseconds",
        ),
        (R::NoDuration, Loss, true, "Complete event (`X`) without a duration (`dur`)"),
        (R::NegativeDuration, Loss, true, "Negative duration: the recorder did not see the end"),
        (R::BadCounter, Loss, true, "Counter event without a finite number in its args"),
        (R::TextNumber, Note, false, "Number written as a string: read exactly"),
        (R::BadText, Loss, false, "Name that is not valid Unicode: shown with replacement characters"),
        (R::DeepArgs, Loss, false, "Args nested more than 100 levels deep: the event is shown, its args only as text"),
        (R::LongName, Loss, false, "Name of more than 65,536 bytes: cut where it is drawn, whole when copied"),
        (R::MissingComma, Loss, false, "Comma missing between two events: both are shown"),
        (R::ExtraComma, Loss, false, "Comma with no event before it"),
        (R::TrailingComma, Note, false, "Comma after the last event"),
        (R::EndWithoutBegin, Loss, true, "End event (`E`) without a begin (`B`) on its thread"),
        (
            R::NameMismatch,
            Loss,
            false,
            "End event (`E`) names another slice than the one it ends: ends it all the same",
        ),
        (R::AsyncEndWithoutBegin, Note, true, "End of an asynchronous operation whose begin was not recorded"),
        (R::NeverEnded, Loss, false, "Slice that was never ended: drawn to the end of the trace"),
        (R::Context, Note, false, "Context, clock or dump event: read, but it has no picture of its own"),
        (
            R::DamagedSample,
            Loss,
            true,
            "Sample that is no valid JSON object: not shown; after damage, neither is the rest",
        ),
        (R::TooManyTexts, Loss, true, "Samples with more than 1 GiB of different names: not shown"),
        (R::LostFrame, Loss, false, "Sample whose stack frame is not in the file: shown without its call stack"),
        (R::DeepStack, Loss, false, "Call stack deeper than 2,048 frames: frames in its middle are left out"),
        (R::DamagedFrame, Loss, false, "Stack frame that is no object, or beyond 1 GiB of different names: left out"),
        (R::DoubleFrame, Loss, false, "Stack frame with the id of another: the last one counts"),
        (R::LostParent, Loss, false, "Stack frame whose caller is not in the file: the stack begins with it"),
        (R::FrameCircle, Loss, false, "Stack frames that call each other in a circle: cut where it closes"),
        (R::UnusedFrame, Note, false, "Stack frame that no sample was in: seen only with the events that name it"),
        (
            R::WildMemory,
            Note,
            false,
            "[memory] event that contradicts those before it: its total or its block does not follow from them",
        ),
    ]
};

/// How often each reason was met, and where first.
#[derive(Clone, Debug)]
pub struct Tally {
    met: [(u64, u64); REASONS.len()],
    n_rejected: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { met: [(0, 0); REASONS.len()], n_rejected: 0 }
    }
}

impl Tally {
    /// Counts one event at this byte offset.
    pub fn count(&mut self, reason: Reason, offset: u64) {
        self.add(reason, 1, offset);
    }

    /// Counts several, the first of them at this byte offset.
    pub fn add(&mut self, reason: Reason, count: u64, offset: u64) {
        let met = &mut self.met[reason as usize];
        met.1 = if met.0 == 0 { offset } else { met.1.min(offset) };
        met.0 += count;
        self.n_rejected += if REASONS[reason as usize].2 { count } else { 0 };
    }

    /// Forgets a reason that does not reject.
    pub fn forget(&mut self, reason: Reason) {
        self.met[reason as usize] = (0, 0);
    }

    /// Takes over the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (reason, ..) in REASONS {
            let (count, offset) = other.met[reason as usize];
            if count > 0 {
                self.add(reason, count, offset);
            }
        }
    }

    /// Events so far that are not shown at all.
    #[cfg(test)]
    pub fn n_rejected(&self) -> u64 {
        self.n_rejected
    }

    /// Whether anything was met that has the form of an event.
    pub fn has_events(&self) -> bool {
        let is_event =
            |reason| !matches!(reason, Reason::Damaged | Reason::Hopeless | Reason::CutOff | Reason::NoPhase);
        REASONS.iter().any(|entry| entry.2 && is_event(entry.0) && self.met[entry.0 as usize].0 > 0)
    }

    /// Writes all counts into the report.
    pub fn report(&self, report: &mut ImportReport) {
        for (reason, severity, is_rejected, sentence) in REASONS {
            let (count, offset) = self.met[reason as usize];
            if is_rejected {
                report.reject(severity, sentence, count, Some(offset));
            } else {
                report.note(severity, sentence, count, Some(offset));
            }
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

    #[test]
    fn counts_add_up() {
        let mut a = Tally::default();
        a.count(Reason::Damaged, 90);
        let mut b = Tally::default();
        b.count(Reason::Damaged, 30);
        b.count(Reason::Repaired, 5);
        a.merge(&b);
        let mut report = ImportReport::default();
        a.report(&mut report);
        assert_eq!((a.n_rejected(), report.rejected), (2, 2));
        assert_eq!(report.problems[1].first_offset, Some(30));
    }
}
