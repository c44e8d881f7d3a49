//! Nesting of slices: parents, children, and self time.
//!
//! Every slice of a nested row lies inside one of the row above. Slices on overflow rows cross others of
//! their track, or are inside of such; they have neither parents nor children.

use std::ops::Range;

use super::time::partition_near;
use super::{DurNs, Row, SliceId, SliceTable, TimeNs, TimeRange, Trace, TrackId};

impl SliceTable {
    /// The row whose slices lie inside those of `row`, an index into `rows`.
    fn row_below(&self, row: usize) -> Option<&Row> {
        let (this, below) = (self.rows.get(row)?, self.rows.get(row + 1)?);
        (!this.is_overflow && !below.is_overflow && below.track == this.track).then_some(below)
    }

    /// The slice directly around `id`. Cost: O(log n).
    pub fn parent(&self, id: SliceId) -> Option<SliceId> {
        self.parent_near(id, |_, ts, start| ts.partition_point(|&ts| ts <= start))
    }

    /// The same, where something is known of where it is.
    ///
    /// * `begun`: how many of the starts of a row, given by its index in `rows`, are no later than a time.
    pub fn parent_near(&self, id: SliceId, begun: impl Fn(usize, &[TimeNs], TimeNs) -> usize) -> Option<SliceId> {
        let above = self.row_of(id).checked_sub(1)?;
        self.row_below(above)?;
        let (row, time) = (self.rows[above].range(), self.time(id));
        let after = row.start + begun(above, &self.ts[row.clone()], time.start);
        let candidate = (after > row.start).then(|| after - 1)?;
        (self.end[candidate] >= time.end).then_some(SliceId(candidate as u32))
    }

    /// The slices around `id`, the innermost first. Cost: O(log n) each.
    pub fn ancestors(&self, mut id: SliceId) -> impl Iterator<Item = SliceId> {
        // Not `successors`, which looks for one more than is asked for.
        std::iter::from_fn(move || {
            id = self.parent(id)?;
            Some(id)
        })
    }

    /// For each slice of some rows of one track the slice directly around it, both counted from the first
    /// slice of those rows.
    ///
    /// * `rows`: indices into `rows` from the topmost row of the track on.
    /// * Cost: O(slices of the rows).
    pub fn parents(&self, rows: Range<usize>) -> Parents {
        let first = self.rows[rows.clone()].first().map_or(0, |row| row.range().start);
        let n = self.rows[rows.clone()].iter().map(|row| row.range().len()).sum();
        let mut parents = vec![Parents::NONE; n];
        for row in rows {
            let (Some(below), above) = (self.row_below(row), self.rows[row].range()) else { continue };
            let mut parent = above.start;
            for i in below.range() {
                while parent + 1 < above.end && self.ts[parent + 1] <= self.ts[i] {
                    parent += 1;
                }
                if self.ts[parent] <= self.ts[i] && self.end[parent] >= self.end[i] {
                    parents[i - first] = (parent - first) as u32;
                }
            }
        }
        Parents(parents)
    }

    /// The slices directly inside `id`, as indices. Cost: O(log n).
    pub fn children(&self, id: SliceId) -> Range<usize> {
        self.row_below(self.row_of(id)).map_or(0..0, |below| self.within(below, self.time(id)))
    }

    /// `id` and all slices inside it, as indices, row by row.
    pub fn inside(&self, id: SliceId) -> impl Iterator<Item = usize> {
        self.inside_near(id, |_, ts, start| ts.partition_point(|&ts| ts < start))
    }

    /// The same, where something is known of where they are.
    ///
    /// * `first`: how many of the starts of a row, given by its index in `rows`, are before a time.
    pub fn inside_near(
        &self,
        id: SliceId,
        first: impl Fn(usize, &[TimeNs], TimeNs) -> usize,
    ) -> impl Iterator<Item = usize> {
        let (row, time) = (self.row_of(id), self.time(id));
        let below = (row..).map_while(|row| self.row_below(row).zip(Some(row + 1)));
        let within = move |(row, index): (&Row, usize)| {
            let all = row.range();
            let first = all.start + first(index, &self.ts[all.clone()], time.start);
            self.ending_by(first..all.end, time.end)
        };
        std::iter::once(id.idx()).chain(below.flat_map(within))
    }

    /// The slices of `row` that lie within `time`.
    fn within(&self, row: &Row, time: TimeRange) -> Range<usize> {
        let all = row.range();
        let first = all.start + self.ts[all.clone()].partition_point(|&ts| ts < time.start);
        self.ending_by(first..all.end, time.end)
    }

    /// Of these slices of a row the first, which end by `end`. Most slices hold few others.
    fn ending_by(&self, slices: Range<usize>, end: TimeNs) -> Range<usize> {
        slices.start..slices.start + partition_near(&self.end[slices], 0, |&slice_end| slice_end <= end)
    }

    /// The part of a slice within `range`; of zero length if there is none.
    pub fn clipped(&self, slice: usize, range: TimeRange) -> TimeRange {
        let start = self.ts[slice].max(range.start);
        TimeRange { start, end: self.end[slice].min(range.end).max(start) }
    }

    /// Time within `range` that each of some slices spent outside the slices directly inside it, in
    /// nanoseconds.
    ///
    /// Over the nested rows of a track it sums to the union of the topmost row.
    ///
    /// * `row`: an index into `rows`; `slices`: of that row.
    /// * Cost: O(n) for those slices and what is directly inside them.
    pub fn self_times(&self, row: usize, slices: Range<usize>, range: TimeRange) -> Vec<DurNs> {
        let mut own: Vec<DurNs> = slices.clone().map(|i| self.clipped(i, range).dur()).collect();
        let (Some(below), false) = (self.row_below(row), slices.is_empty()) else { return own };
        let mut parent = slices.start;
        for child in self.within(below, TimeRange { start: self.ts[slices.start], end: self.end[slices.end - 1] }) {
            while parent < slices.end && self.end[parent] <= self.ts[child] {
                parent += 1;
            }
            if let Some(own) = own.get_mut(parent - slices.start) {
                *own -= self.clipped(child, range).dur();
            }
        }
        own
    }

    /// Self times of slices of a row, given by its index in `rows`, that are asked for in order.
    pub fn self_times_of(&self, row: usize) -> SelfTimes<'_> {
        SelfTimes { slices: self, below: self.row_below(row).map_or(0..0, Row::range) }
    }

    /// Self time of a slice in nanoseconds: its duration without the slices directly inside it.
    ///
    /// Cost: O(slices directly inside), so not for the frame thread.
    pub fn self_time(&self, id: SliceId) -> DurNs {
        self.self_times(self.row_of(id), id.idx()..id.idx() + 1, TimeRange::ALL).into_iter().sum()
    }
}

/// See [`SliceTable::parents`].
#[derive(Clone, Debug)]
pub struct Parents(Vec<u32>);

impl Parents {
    const NONE: u32 = u32::MAX;

    /// The slice directly around one.
    #[inline]
    pub fn of(&self, slice: usize) -> Option<u32> {
        Some(self.0[slice]).filter(|&parent| parent != Self::NONE)
    }

    /// Whether a slice is the only one directly inside another.
    pub fn is_only_child(&self, slice: usize) -> bool {
        // Slices of one parent follow each other.
        let parent = self.0[slice];
        let is_other = |near: Option<usize>| near.and_then(|near| self.0.get(near)) != Some(&parent);
        parent != Self::NONE && is_other(slice.checked_sub(1)) && is_other(Some(slice + 1))
    }

    /// Of each slice.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<u32>> {
        (0..self.0.len()).map(|slice| self.of(slice))
    }
}

/// See [`SliceTable::self_times_of`].
#[derive(Clone, Debug)]
pub struct SelfTimes<'a> {
    slices: &'a SliceTable,
    /// What is left of the row below.
    below: Range<usize>,
}

impl SelfTimes<'_> {
    /// Self time of a slice in nanoseconds, which starts no earlier than those asked for before. Cost: amortized O(1).
    pub fn of(&mut self, slice: usize) -> DurNs {
        let Self { slices, below } = self;
        let time = slices.time(SliceId(slice as u32));
        below.start += partition_near(&slices.ts[below.clone()], 0, |&ts| ts < time.start);
        let inside = slices.ending_by(below.clone(), time.end);
        below.start = inside.end;
        inside.fold(time.dur(), |own, i| own.saturating_sub(slices.time(SliceId(i as u32)).dur()))
    }
}

impl Trace {
    /// The innermost slice of `track` that is running at `ts`.
    pub fn slice_at(&self, track: TrackId, ts: TimeNs) -> Option<SliceId> {
        let at = TimeRange { start: ts, end: ts.saturating_add(1) };
        let in_row = |row: &Row| {
            let window = self.slices.window(row, at);
            window.rev().find(|&i| self.slices.end[i] > ts || self.slices.ts[i] == ts)
        };
        self.rows(track).iter().rev().find_map(in_row).map(|i| SliceId(i as u32))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::time::unite;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn self_times_of_slices_longer_than_any_clock_counts_saturate() {
        let end = 3 * (i64::MAX / 4);
        let slices =
            [("main", SliceKind::Operator, "around", -end, end), ("main", SliceKind::Operator, "inside", 0, end)];
        let trace = TraceBuilder::from_slices(&slices).finish();
        let own = [0, 1].map(|row| trace.slices.self_times_of(row).of(row));
        assert_eq!(own, [i64::MAX - end, end]);
    }

    proptest! {
        #[test]
        fn all_ways_to_ask_for_nesting_agree(
            work in prop::collection::vec((0_i64..200, 1_i64..60), 1..60), cut in 0_i64..260,
        ) {
            let slices: Vec<_> =
                work.iter().map(|&(ts, dur)| ("main", SliceKind::Operator, "x", ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&slices).finish();
            let table = &trace.slices;
            let parents = table.parents(0..table.rows.len());
            prop_assert_eq!(parents.iter().len(), table.len());
            for (i, found) in parents.iter().enumerate() {
                let (id, time) = (SliceId(i as u32), table.time(SliceId(i as u32)));
                // By definition: the slice of the row above that spans it.
                let row = &table.rows[table.row_of(id)];
                let above = table.rows.iter().find(|above| above.depth + 1 == row.depth && !row.is_overflow);
                let spans = |&other: &usize| table.ts[other] <= time.start && table.end[other] >= time.end;
                let parent = above.and_then(|above| above.range().find(spans)).map(|parent| SliceId(parent as u32));
                prop_assert_eq!(table.parent(id), parent);
                prop_assert_eq!(found.map(SliceId), parent);
                let n_inside = parents.iter().filter(|other| found.is_some() && *other == found).count();
                prop_assert_eq!(parents.is_only_child(i), n_inside == 1);
                prop_assert_eq!(table.ancestors(id).count(), if row.is_overflow { 0 } else { row.depth as usize });
                prop_assert!(table.children(id).all(|child| table.parent(SliceId(child as u32)) == Some(id)));
                prop_assert!(table.ancestors(id).all(|above| table.inside(above).any(|inside| inside == i)));
                let children: i64 = table.children(id).map(|child| table.time(SliceId(child as u32)).dur()).sum();
                prop_assert_eq!(table.self_time(id), time.dur() - children);
            }
            let own = |range: TimeRange| -> Vec<i64> {
                let rows = table.rows.iter().enumerate();
                rows.flat_map(|(row, this)| table.self_times(row, this.range(), range)).collect()
            };
            let whole = own(TimeRange::ALL);
            for (row, this) in table.rows.iter().enumerate() {
                // Of each second one as of all.
                for step in [1, 2] {
                    let mut in_order = table.self_times_of(row);
                    for i in this.range().step_by(step) {
                        prop_assert_eq!(in_order.of(i), whole[i]);
                    }
                }
            }
            let parts = [(i64::MIN, cut), (cut, i64::MAX)].map(|(start, end)| own(TimeRange { start, end }));
            let sums: Vec<i64> = parts[0].iter().zip(&parts[1]).map(|(a, b)| a + b).collect();
            prop_assert_eq!(&sums, &whole);
            let nested = table.rows.iter().filter(|row| !row.is_overflow).flat_map(Row::range);
            let mut union: Vec<_> = table.rows[0].range().map(|i| table.time(SliceId(i as u32))).collect();
            unite(&mut union);
            prop_assert_eq!(nested.map(|i| whole[i]).sum::<i64>(), crate::model::time::length(&union));
            prop_assert!(whole.iter().all(|&own| own >= 0));
        }
    }
}
