//! The parts of a gap, as a ledger keeps them.

use super::{GapClass, GapPart, Ledger, NONE, SEVERAL, StoredGap, some};
use crate::model::{SliceId, TimeNs, TimeRange};

/// A part of a gap that has several, up to the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredPart {
    start: TimeNs,
    /// [`NONE`] if nothing explains it.
    pub slice: SliceId,
    pub class: GapClass,
    /// Whether it is the last of its gap.
    is_last: bool,
}

/// See [`Ledger::parts`].
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// The only part of the gap.
    only: Option<GapPart>,
    /// Those of a gap that has several, and what follows them.
    stored: &'a [StoredPart],
    /// Of the gap.
    end: TimeNs,
}

impl Iterator for Parts<'_> {
    type Item = GapPart;

    #[inline]
    fn next(&mut self) -> Option<GapPart> {
        let [part, rest @ ..] = self.stored else { return self.only.take() };
        let StoredPart { start, slice, class, is_last } = *part;
        self.stored = if is_last { &[] } else { rest };
        let end = self.stored.first().map_or(self.end, |next| next.start);
        Some(GapPart { time: TimeRange { start, end }, class, slice: some(slice) })
    }
}

impl Ledger {
    /// The parts of a gap in order of time. Their lengths sum to that of the gap.
    #[inline]
    pub fn parts(&self, index: usize) -> Parts<'_> {
        self.parts_from(index, 0)
    }

    /// The parts of a gap from the one with the index `first` on.
    #[inline]
    pub(super) fn parts_from(&self, index: usize, first: usize) -> Parts<'_> {
        let time = self.time(index);
        let StoredGap { slice, class, flags, .. } = self.gaps[index];
        if flags & SEVERAL != 0 {
            return Parts { only: None, stored: &self.several[slice.idx() + first..], end: time.end };
        }
        let only = Some(GapPart { time, class, slice: some(slice) }).filter(|_| first == 0);
        Parts { only, stored: &[], end: time.end }
    }

    /// Keeps the parts of the gap that is added next, of which there is at least one, as class and slice. Returns what
    /// [`StoredGap`] has of them: its slice, its class, and whether there are several.
    pub(super) fn push_parts(
        &mut self,
        parts: impl IntoIterator<Item = (TimeNs, GapClass, Option<SliceId>)>,
    ) -> (SliceId, GapClass, bool) {
        let first = self.several.len();
        let part = |(start, class, slice): (TimeNs, GapClass, Option<SliceId>)| {
            let slice = slice.unwrap_or(NONE);
            StoredPart { start, slice, class, is_last: false }
        };
        self.several.extend(parts.into_iter().map(part));
        if self.several.len() > first + 1 {
            self.several.last_mut().into_iter().for_each(|last| last.is_last = true);
            return (SliceId(first as u32), GapClass::default(), true);
        }
        let (slice, class) = self.several.pop().map_or((NONE, GapClass::default()), |only| (only.slice, only.class));
        (slice, class, false)
    }
}
