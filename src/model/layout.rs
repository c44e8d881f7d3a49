//! Assignment of the slices of a track to rows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::{DurNs, TimeNs};

/// The layout of one track.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Row of each slice, in the order given.
    pub row: Vec<u32>,
    /// Number of slices per row: first the nested rows, then those for crossing slices.
    pub row_lens: Vec<u32>,
    /// Rows from this one on hold slices that cross others.
    pub first_overflow: u32,
    /// For each point of `points`: the index of the slice it lies in.
    pub bound: Vec<Option<u32>>,
}

/// A time to be bound to a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub ts: TimeNs,
    pub may_bind_next: bool,
}

/// Lays out slices sorted by (start ascending, end descending), and finds the slice under each of
/// `points`, which ascend.
///
/// A slice inside its predecessor goes one row deeper. Of two slices that cross, one goes to an overflow row below all
/// nested ones, so that both keep their times and remain visible: the later one, or the earlier one where that is
/// shorter and holds few others. A range that begins inside the function that opens it is around what follows, and the
/// function is not. Of two on overflow rows the one around the other is above it. Slices of zero length share a row with
/// their neighbors.
///
/// A point is bound to the slice that starts at its time, else to the innermost slice around it, including the
/// slice's end; else, if it may bind to the next slice, to the first one that starts later.
pub(super) fn layout(slices: impl Iterator<Item = (TimeNs, TimeNs)>, points: &[Point]) -> Layout {
    let mut out = Layout::default();
    let mut stack: Vec<(TimeNs, u32)> = Vec::new();
    let mut overflow = Overflow::default();
    let mut recent = [(0, 0); FEW];
    let mut points = points.iter().copied().peekable();
    let mut last_start = None;
    for (index, (ts, end)) in slices.enumerate() {
        while let Some(point) = points.next_if(|point| point.ts < ts) {
            let next = point.may_bind_next.then_some(index as u32);
            out.bound.push(bind(&stack, last_start, point.ts).or(next));
        }
        while stack.last().is_some_and(|top| top.0 <= ts) && !stack.is_empty() {
            stack.pop();
        }
        if stack.last().is_some_and(|top| top.0 < end) {
            let depth = stack.partition_point(|around| around.0 >= end);
            let first = stack[depth].1 as usize;
            if overflow.may_take(first, index, end.saturating_sub(ts), &recent) {
                for (i, row) in (first..).zip(&mut out.row[first..]) {
                    out.row_lens[*row as usize] -= 1;
                    *row = overflow.add(i, recent[i % FEW]);
                }
                while out.row_lens.pop_if(|len| *len == 0).is_some() {}
                stack.truncate(depth);
            }
        }
        recent[index % FEW] = (ts, end);
        if stack.last().is_some_and(|top| top.0 < end) {
            out.row.push(overflow.add(index, (ts, end)));
        } else {
            let depth = stack.len();
            out.row.push(depth as u32);
            if out.row_lens.len() == depth {
                out.row_lens.push(0);
            }
            out.row_lens[depth] += 1;
            stack.push((end, index as u32));
        }
        last_start = Some((ts, index as u32));
    }
    for point in points {
        out.bound.push(bind(&stack, last_start, point.ts));
    }
    out.first_overflow = out.row_lens.len() as u32;
    if !overflow.lens.is_empty() {
        for row in &mut out.row {
            let from_last = u32::MAX - *row;
            if (from_last as usize) < overflow.lens.len() {
                *row = out.first_overflow + from_last;
            }
        }
        out.row_lens.append(&mut overflow.lens);
    }
    out
}

fn bind(stack: &[(TimeNs, u32)], last_start: Option<(TimeNs, u32)>, point: TimeNs) -> Option<u32> {
    match last_start {
        Some((ts, index)) if ts == point => Some(index),
        _ => stack.iter().rev().find(|top| point <= top.0).map(|top| top.1),
    }
}

/// What holds so many slices or more, itself included, stays where it is.
const FEW: usize = 16;

/// Rows for crossing slices: each slice takes the first row that is free below those that hold a slice around it.
///
/// Ranges of a program's own often cross the calls that begin and end them, and yet hold each other.
#[derive(Default)]
struct Overflow {
    /// Number of slices per row.
    lens: Vec<u32>,
    /// When each row that may still be taken becomes free, soonest first.
    taken: BinaryHeap<Reverse<(TimeNs, u32)>>,
    free: BTreeSet<u32>,
    /// By end, the lowest row with a slice that ends then or later; ends at which that is the same are left out.
    lowest: BTreeMap<TimeNs, u32>,
    /// The index after the last slice that was added.
    next: usize,
}

impl Overflow {
    /// Whether the slices from `first` on can be added before a later one of this length, and are to be: slices are added
    /// in their order.
    ///
    /// * `recent`: times of the last slices, each at its index modulo [`FEW`].
    fn may_take(&self, first: usize, index: usize, dur: DurNs, recent: &[(TimeNs, TimeNs); FEW]) -> bool {
        let (ts, end) = recent[first % FEW];
        self.next <= first && index - first < FEW && end.saturating_sub(ts) < dur
    }

    /// Adds a slice; its row, counted from the last number down.
    fn add(&mut self, index: usize, (ts, end): (TimeNs, TimeNs)) -> u32 {
        self.next = index + 1;
        u32::MAX - self.place(ts, end)
    }

    fn place(&mut self, ts: TimeNs, end: TimeNs) -> u32 {
        while self.taken.peek().is_some_and(|row| row.0.0 <= ts) {
            self.free.extend(self.taken.pop().map(|row| row.0.1));
        }
        // What began before and ends no earlier is around this one.
        let below = self.lowest.range(end..).next().map_or(0, |(_, &around)| around + 1);
        let row = match self.free.range(below..).next().copied() {
            Some(row) => row,
            None => {
                self.lens.push(0);
                self.lens.len() as u32 - 1
            }
        };
        self.free.remove(&row);
        self.taken.push(Reverse((end, row)));
        self.lens[row as usize] += 1;
        while let Some((&sooner, _)) = self.lowest.range(..=end).next_back().filter(|(_, above)| **above <= row) {
            self.lowest.remove(&sooner);
        }
        self.lowest.insert(end, row);
        row
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(slices: &[(i64, i64)], rows: &[u32], first_overflow: u32) {
        let layout = layout(slices.iter().copied(), &[]);
        assert_eq!(layout.row, rows, "rows of {slices:?}");
        assert_eq!(layout.first_overflow, first_overflow, "nested rows of {slices:?}");
        for (row, &len) in layout.row_lens.iter().enumerate() {
            let members = layout.row.iter().filter(|&&r| r as usize == row).count();
            assert_eq!(members, len as usize, "length of row {row} of {slices:?}");
        }
    }

    #[test]
    fn slices_nest() {
        check(&[], &[], 0);
        check(&[(0, 10), (1, 5), (2, 3), (5, 9)], &[0, 1, 2, 1], 3);
        check(&[(0, 10), (10, 20)], &[0, 0], 1);
    }

    #[test]
    fn equal_slices_nest_in_file_order() {
        check(&[(1, 6), (1, 6)], &[0, 1], 2);
    }

    #[test]
    fn crossing_slices_get_overflow_rows() {
        check(&[(100, 200), (150, 250)], &[0, 1], 1);
        // The third crosses the first but not the second.
        check(&[(0, 10), (5, 15), (9, 30)], &[0, 1, 2], 1);
        check(&[(0, 10), (5, 15), (20, 30), (25, 35)], &[0, 1, 0, 1], 1);
    }

    #[test]
    fn a_short_slice_makes_room_for_the_range_that_begins_in_it() {
        // A function with one inside opens a range, which a function closes. What is in between is in the range.
        let around = [(0, 200), (10, 20), (12, 18), (15, 100), (30, 40), (95, 110), (97, 99)];
        check(&around, &[0, 3, 4, 1, 2, 3, 2], 3);
        // Twice: the second pair comes after the slices that cross at the end of the first.
        let twice: Vec<_> = [0, 200].iter().flat_map(|at| around.map(|(ts, end)| (at + ts, at + end))).collect();
        check(&twice, &[[0, 3, 4, 1, 2, 3, 2]; 2].concat(), 3);
        // What holds many stays, and so does what is longer.
        let many: Vec<_> = std::iter::once((0, 50)).chain((1..17).map(|i| (i, i + 1))).chain([(40, 200)]).collect();
        check(&many, &[&[0][..], &[1; 16], &[2]].concat(), 2);
        check(&[(0, 100), (50, 149)], &[0, 1], 1);
        // One that crosses inside of it would come after it.
        check(&[(0, 50), (1, 10), (5, 14), (40, 200)], &[0, 1, 2, 2], 2);
    }

    #[test]
    fn a_crossing_slice_is_below_those_around_it_in_every_round() {
        // Each round a call crosses the start of a step, and two calls those of the ranges in it.
        let round = |at: i64| [(0, 3), (2, 100), (9, 12), (10, 40), (49, 52), (50, 90)].map(|(a, b)| (at + a, at + b));
        let rounds: Vec<_> = [0, 99, 198].into_iter().flat_map(round).collect();
        let layout = layout(rounds.iter().copied(), &[]);
        for (round, rows) in layout.row.chunks(6).enumerate() {
            assert!(rows[1] < rows[3] && rows[1] < rows[5], "round {round}: {rows:?}");
        }
    }

    proptest! {
        #[test]
        fn crossing_slices_hold_those_beneath_them(work in prop::collection::vec((0_i64..99, 0_i64..40), 1..60)) {
            let mut slices: Vec<_> = work.into_iter().map(|(ts, dur)| (ts, ts + dur)).collect();
            slices.sort_by_key(|&(ts, end)| (ts, Reverse(end)));
            let layout = layout(slices.iter().copied(), &[]);
            for (b, &(ts, end)) in slices.iter().enumerate() {
                for (a, &around) in slices[..b].iter().enumerate() {
                    let (above, row) = (layout.row[a], layout.row[b]);
                    prop_assert!(above != row || around.1 <= ts, "{around:?} and {:?} share row {row}", (ts, end));
                    let both_cross = above.min(row) >= layout.first_overflow;
                    prop_assert!(!both_cross || around.1 < end || above < row, "{around:?} is not above {:?}", (ts, end));
                }
            }
        }
    }

    #[test]
    fn slices_without_length_share_a_row() {
        check(&[(5, 5), (5, 5), (5, 5)], &[0, 0, 0], 1);
        check(&[(5, 9), (5, 5), (9, 9)], &[0, 1, 0], 2);
    }

    #[test]
    fn points_find_their_slice() {
        let slices = [(0, 100), (10, 20), (30, 40), (120, 130)];
        let at = |ts| Point { ts, may_bind_next: false };
        let bound = layout(slices.into_iter(), &[5, 10, 15, 20, 25, 40, 110, 120, 130, 131].map(at)).bound;
        let expected = [Some(0), Some(1), Some(1), Some(1), Some(0), Some(2), None, Some(3), Some(3), None];
        assert_eq!(bound, expected);
        let at = |ts| Point { ts, may_bind_next: true };
        let bound = layout(slices.into_iter(), &[5, 110, 131].map(at)).bound;
        assert_eq!(bound, [Some(0), Some(3), None]);
    }
}
