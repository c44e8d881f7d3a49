//! During which of the idle time an operator, and a Python frame is known.

use super::host::Segment;
use super::{Ledger, StoredGap};
use crate::model::{DurNs, TimeNs, TimeRange};

/// An operator is known all the time.
const OPERATOR: u8 = 2;
/// A Python frame is.
const FRAME: u8 = 4;
/// That is in [`Ledger::changes`].
const CHANGES: u8 = 8;

/// Of which kind something is known during a gap, up to the next change.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    start: TimeNs,
    gap: u32,
    /// [`OPERATOR`] and [`FRAME`].
    flags: u8,
}

impl Ledger {
    /// Notes what is known during the gap that was added last, by its segments in order of time.
    pub(super) fn note_known(&mut self, segments: &[Segment]) {
        let gap = self.gaps.len().saturating_sub(1);
        let flags =
            |segment: &Segment| (u8::from(segment.has_operator) * OPERATOR) | (u8::from(segment.has_frame) * FRAME);
        let lasting = segments.iter().filter(|segment| segment.time.dur() > 0);
        for segment in lasting.clone() {
            self.coverage.operator_ns += if segment.has_operator { segment.time.dur() } else { 0 };
            self.coverage.frame_ns += if segment.has_frame { segment.time.dur() } else { 0 };
        }
        let first = lasting.clone().next().map_or(0, flags);
        if lasting.clone().all(|segment| flags(segment) == first) {
            self.gaps[gap].flags |= first;
            return;
        }
        self.gaps[gap].flags |= CHANGES;
        let mut last = None;
        let changes = lasting.map(|segment| (segment.time.start, flags(segment)));
        let changes = changes.filter(|&(_, flags)| last.replace(flags) != Some(flags));
        self.changes.extend(changes.map(|(start, flags)| Change { start, gap: gap as u32, flags }));
    }

    /// The idle time within `range` in which an operator, and that in which a Python frame is known, in
    /// nanoseconds; over all time those of [`Self::coverage`]. Cost: O(gaps in range).
    pub fn known(&self, range: TimeRange) -> [DurNs; 2] {
        let mut known = [0; 2];
        let mut add = |time: TimeRange, flags: u8| {
            let ns = time.intersect(range).map_or(0, TimeRange::dur);
            for (sum, flag) in known.iter_mut().zip([OPERATOR, FRAME]) {
                *sum += if flags & flag != 0 { ns } else { 0 };
            }
        };
        let within = self.within(range);
        let mut next = self.changes.partition_point(|change| (change.gap as usize) < within.start);
        for index in within {
            let (time, StoredGap { flags, .. }) = (self.time(index), self.gaps[index]);
            if flags & CHANGES == 0 {
                add(time, flags);
                continue;
            }
            while let Some(&Change { start, flags, .. }) =
                self.changes.get(next).filter(|change| change.gap as usize == index)
            {
                next += 1;
                let after = self.changes.get(next).filter(|change| change.gap as usize == index);
                add(TimeRange { start, end: after.map_or(time.end, |after| after.start) }, flags);
            }
        }
        known
    }
}
