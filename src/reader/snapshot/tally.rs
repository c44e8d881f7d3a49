//! Why parts of a snapshot are not shown as they are, counted.

use crate::model::{ImportReport, Severity};
use crate::reader::pickle::json::NO_OFFSET;

/// One way in which a part can be odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    NoEntry,
    UnknownAction,
    NoAddress,
    BadSize,
    BadTime,
    NoTime,
    BadField,
    BadFrames,
    DeepStack,
    BadSegment,
    EmptySegment,
    LostBlock,
    BadBlock,
    BlockClipped,
    BlockOutside,
    SumsDiffer,
    Orphan,
    Twice,
    BadAnnotation,
    EndWithoutStart,
    StartWithoutEnd,
    CutOff,
    BadText,
    Class,
    CutState,
}

/// (reason, severity, sentence), in the order of [`Reason`].
const REASONS: [(Reason, Severity, &str); 25] = {
    use Reason as R;
    use Severity::{Loss, Note};
    [
        (R::NoEntry, Loss, "Not what this list should hold: not shown"),
        (R::UnknownAction, Loss, "Event with an action that Lacuna does not know: not shown"),
        (R::NoAddress, Loss, "Event without an address: not shown"),
        (R::BadSize, Loss, "Event whose size is missing, negative or beyond 256 TiB: not shown"),
        (
            R::BadTime,
            Loss,
            "Time that is no whole number of microseconds, or beyond 292 years: shown with the event before",
        ),
        (R::NoTime, Loss, "Event without a time among others that have one: shown with the event before"),
        (R::BadField, Loss, "Field of the wrong type, or out of range: left out, the rest is shown"),
        (R::BadFrames, Loss, "Call stack that is no list of frames: shown without it"),
        (R::DeepStack, Loss, "Call stack deeper than 2,048 frames: frames in its middle are left out"),
        (
            R::BadSegment,
            Loss,
            "Segment without an address, or whose size is missing, negative or beyond 256 TiB: not shown",
        ),
        (R::EmptySegment, Note, "Segment without an address, a size and blocks: not shown"),
        (R::LostBlock, Loss, "Block of a segment that is not shown"),
        (R::BadBlock, Loss, "Block whose size or state makes no sense: not shown"),
        (R::BlockClipped, Loss, "Block that reaches beyond its segment: cut where the segment ends"),
        (R::BlockOutside, Loss, "Block outside of its segment or over the one before it: not shown"),
        (R::SumsDiffer, Loss, "Segment whose own sums differ from those of its blocks: the blocks count"),
        (R::Orphan, Loss, "Part of a snapshot outside of its lists: not shown"),
        (R::Twice, Loss, "Named a second time in the file: shown once"),
        (R::BadAnnotation, Loss, "Annotation without a name, a stage or a time: not shown"),
        (R::EndWithoutStart, Note, "Annotation that began before the recording: not shown"),
        (R::StartWithoutEnd, Note, "Annotation that was never ended: drawn to the end"),
        (R::CutOff, Loss, "The file ends inside of this part: not shown"),
        (R::BadText, Loss, "Text that is not valid Unicode: shown with replacement characters"),
        (R::Class, Note, "Python container class: read as a plain dictionary"),
        (R::CutState, Loss, "State after the last event, of which the file lost the last ones: not shown"),
    ]
};

/// How often each reason was met, and where first.
#[derive(Clone, Debug)]
pub struct Tally {
    met: [(u64, Option<u64>); REASONS.len()],
}

impl Default for Tally {
    fn default() -> Self {
        Self { met: [(0, None); REASONS.len()] }
    }
}

impl Tally {
    /// Counts one at this byte offset; [`NO_OFFSET`] where it is not known.
    pub fn count(&mut self, reason: Reason, offset: u64) {
        let met = &mut self.met[reason as usize];
        met.0 += 1;
        if offset == NO_OFFSET {
            return;
        }
        met.1 = Some(met.1.map_or(offset, |first| first.min(offset)));
    }

    /// Counts several somewhere.
    pub fn add(&mut self, reason: Reason, count: u64) {
        self.met[reason as usize].0 += count;
    }

    /// Writes all counts into the report.
    pub fn report(&self, report: &mut ImportReport) {
        for (reason, severity, sentence) in REASONS {
            let (count, offset) = self.met[reason as usize];
            report.note(severity, sentence, count, offset);
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
