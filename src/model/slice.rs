//! The slices of a trace, one column per field, in rows without overlap.

use std::ops::Range;
use std::sync::OnceLock;

use super::pyramid::Pyramid;
use super::{SliceKind, StringId, TimeNs, TimeRange, TrackId};

/// A slice of one trace; an index into the columns of its [`SliceTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct SliceId(pub u32);

impl SliceId {
    #[inline]
    pub fn idx(self) -> usize {
        self.0 as usize
    }
}

/// All slices of a trace.
///
/// Sorted by (track, row, ts). The slices of one row do not overlap, so both their starts and
/// their ends ascend, and any window of a row is found by two binary searches. All columns but
/// `external` are as long as there are slices.
#[derive(Debug, Default)]
pub struct SliceTable {
    /// Start in nanoseconds of trace time.
    pub ts: Vec<TimeNs>,
    /// End, in nanoseconds; never before `ts`.
    pub end: Vec<TimeNs>,
    pub name: Vec<StringId>,
    pub kind: Vec<SliceKind>,
    /// CUPTI correlation id: joins device work to the API call that launched it. 0 for none.
    pub correlation: Vec<u32>,
    /// Kineto's `External id`: joins an operator to the API calls made inside it. 0 for none.
    /// Empty if no slice has one; see [`Self::external`].
    pub external: Vec<u32>,
    /// Offset of the event's text in the file, for [`super::Details`].
    pub source: Vec<u64>,
    /// The rows in column order: each starts where the previous one ends.
    pub rows: Vec<Row>,
    /// The row of each so many slices: where the rows of the others are looked for. Empty before [`Self::set_rows`].
    pub(super) row_of_block: Vec<u32>,
    /// Slices that the recording never closed, ascending; their `end` is the trace's end.
    pub unfinished: Vec<SliceId>,
    /// The kinds that occur, a bit each, once asked for.
    pub(super) kinds: OnceLock<u64>,
}

/// One non-overlapping level of a track.
#[derive(Debug)]
pub struct Row {
    pub track: TrackId,
    /// Level within the track, 0 at the top.
    pub depth: u32,
    /// Whether it holds slices that cross others of their track instead of nesting in them, or are inside of such.
    pub is_overflow: bool,
    /// Whether one of its slices is an annotation.
    pub has_annotations: bool,
    /// Its slices.
    pub slices: Range<u32>,
    /// Busy share over time, for rows with many slices.
    pub pyramid: Option<Pyramid>,
}

impl Row {
    /// Its slices as indices.
    pub fn range(&self) -> Range<usize> {
        self.slices.start as usize..self.slices.end as usize
    }
}

impl SliceTable {
    pub fn len(&self) -> usize {
        self.ts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }

    /// Whether any slice is of this kind. Cost: O(slices) the first time.
    pub fn has_kind(&self, kind: SliceKind) -> bool {
        let kinds = self.kinds.get_or_init(|| self.kind.iter().fold(0, |kinds, &kind| kinds | 1 << kind as u64));
        kinds >> kind as u64 & 1 == 1
    }

    /// Start and end of a slice.
    #[inline]
    pub fn time(&self, id: SliceId) -> TimeRange {
        TimeRange { start: self.ts[id.idx()], end: self.end[id.idx()] }
    }

    /// Kineto's `External id` of a slice; 0 for none.
    pub fn external(&self, id: SliceId) -> u32 {
        self.external.get(id.idx()).copied().unwrap_or(0)
    }

    /// Slices for each entry of `row_of_block`.
    const BLOCK: usize = 1 << 10;

    /// Sets the rows of the slices, of which the other columns are filled.
    pub(super) fn set_rows(&mut self, rows: Vec<Row>) {
        let mut row = 0;
        let row_of = |id: usize| {
            row += rows[row..].partition_point(|row| row.range().end <= id);
            row as u32
        };
        self.row_of_block = (0..self.len()).step_by(Self::BLOCK).map(row_of).collect();
        self.rows = rows;
    }

    /// The row that holds `id`. Cost: O(1) but for blocks of many short rows.
    #[inline]
    pub fn row_of(&self, id: SliceId) -> usize {
        let first_of = |block: usize| self.row_of_block.get(block).map(|&row| row as usize);
        let block = id.idx() / Self::BLOCK;
        let (first, last) = (first_of(block).unwrap_or(0), first_of(block + 1).unwrap_or(self.rows.len()));
        first + self.rows[first..last].partition_point(|row| row.slices.end <= id.0)
    }

    /// The track that holds `id`.
    #[inline]
    pub fn track_of(&self, id: SliceId) -> TrackId {
        self.rows[self.row_of(id)].track
    }

    /// The slices of `row` that touch `range`: those that end at or after its start and start
    /// before its end.
    pub fn window(&self, row: &Row, range: TimeRange) -> Range<usize> {
        let all = row.range();
        let first = all.start + self.end[all.clone()].partition_point(|&end| end < range.start);
        let last = all.start + self.ts[all].partition_point(|&ts| ts < range.end);
        first..last.max(first)
    }
}
