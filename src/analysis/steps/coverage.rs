//! Share of the recorded work that lies in given ranges.

use super::Scope;
use crate::model::time::{length, partition_near};
use crate::model::{SliceKind, TimeNs, TimeRange, Trace};

/// When work was done, to judge how much of it ranges cover: launches, else operators, else events of memory.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Ascending.
    pub(super) starts: Vec<TimeNs>,
}

impl Coverage {
    /// The API calls of some processes of a trace, or without any their operators. Cost: O(n log k) for n slices in
    /// k rows.
    pub fn of(trace: &Trace, scope: &Scope) -> Self {
        let slices = &trace.slices;
        let of_kind = |is_wanted: fn(SliceKind) -> bool| -> Vec<TimeNs> {
            let mut starts: Vec<TimeNs> = Vec::new();
            scope.rows(trace).for_each(|row| {
                starts.extend(row.range().filter(|&i| is_wanted(slices.kind[i])).map(|i| slices.ts[i]));
            });
            starts.sort();
            starts
        };
        let calls = of_kind(SliceKind::is_call);
        Self { starts: if calls.is_empty() { of_kind(|kind| kind == SliceKind::Operator) } else { calls } }
    }

    /// Work that started at these times, ascending.
    pub fn at(starts: &[TimeNs]) -> Self {
        Self { starts: starts.to_vec() }
    }

    /// Of the work between the first and the last range, the share inside them; and the share of all work between
    /// them. Without recorded work, the share of the time inside them, and 1.
    ///
    /// * `ranges`: sorted and disjoint.
    pub(super) fn shares(&self, ranges: &[TimeRange]) -> [f64; 2] {
        let Some(whole) = ranges.first().zip(ranges.last()).map(|(first, last)| first.union(*last)) else {
            return [0.0; 2];
        };
        let share = |part: usize, all: usize| part as f64 / all.max(1) as f64;
        if self.starts.is_empty() {
            return [share(length(ranges) as usize, whole.dur() as usize), 1.0];
        }
        let mut near = 0;
        let mut before = |ts: TimeNs| {
            near = partition_near(&self.starts, near, |&start| start < ts);
            near
        };
        let mut count = |range: TimeRange| {
            let first = before(range.start);
            before(range.end).saturating_sub(first)
        };
        let inside = ranges.iter().map(|&range| count(range)).sum();
        let between = count(whole);
        [share(inside, between), share(between, self.starts.len())]
    }
}
