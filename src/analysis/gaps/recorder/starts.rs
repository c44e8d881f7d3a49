//! Counts of frames and operators that begin on a thread within a time range, and what of a range is after its last
//! wait.

use std::cell::RefCell;

use super::begun;
use crate::analysis::gaps::Near;
use crate::analysis::gaps::by_track::ByTrack;
use crate::model::time::{partition_near, unite};
use crate::model::{SliceId, SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// A thread is looked through as a whole once it was asked about for one in so many of its slices: until then that
/// would cost more than the questions, which may be of a few gaps of many devices.
const PATIENCE: usize = 16;

/// A question about a thread with this many rows costs as much as two about one with few.
const ROWS: usize = 64;

/// The kinds that are counted.
const KINDS: [SliceKind; 2] = [SliceKind::PythonFunction, SliceKind::Operator];

/// The threads of one trace.
#[derive(Debug, Default)]
pub struct Starts(RefCell<ByTrack<Thread>>);

#[derive(Debug, Default)]
struct Thread {
    asked: usize,
    /// Of each kind.
    lists: Option<[List; 2]>,
    /// The end of the last time that was asked for: the next one often begins there.
    until: TimeNs,
    /// When the thread waits, disjoint and ascending, once that was asked for; and how many began before the last time.
    waits: Option<Vec<TimeRange>>,
    n_waits_before: usize,
}

/// When slices begin, ascending.
#[derive(Debug, Default)]
struct List {
    starts: Vec<TimeNs>,
    /// How many begin before `until`.
    n_before: usize,
}

impl Starts {
    /// The frames and the operators of a thread that begin in some time.
    ///
    /// * `near`: of the same trace.
    /// * Cost: amortized O(log n) for times that are near to one another.
    pub fn count(&self, trace: &Trace, thread: TrackId, time: TimeRange, near: &Near) -> [u64; 2] {
        let mut threads = self.0.borrow_mut();
        let known = threads.of(thread, Thread::default);
        if known.lists.is_none() {
            known.asked += 1 + trace.rows(thread).len() / ROWS;
            let slices = trace.track_slices(thread);
            if known.asked * PATIENCE < slices.len() {
                let mut counts = [0; 2];
                begun(trace, thread, time, near, |slice| {
                    let kind = trace.slices.kind[slice.idx()];
                    KINDS.iter().zip(&mut counts).for_each(|(of, count)| *count += u64::from(*of == kind));
                });
                return counts;
            }
            known.lists = Some(KINDS.map(|kind| {
                let of_kind = slices.clone().filter(|&i| trace.slices.kind[i] == kind);
                let mut starts: Vec<TimeNs> = of_kind.map(|i| trace.slices.ts[i]).collect();
                // Rows ascend: this sort merges them.
                starts.sort();
                List { starts, n_before: 0 }
            }));
            known.until = TimeNs::MIN;
        }
        let follows = time.start == known.until;
        let mut counts = [0; 2];
        for (List { starts, n_before }, count) in known.lists.iter_mut().flatten().zip(&mut counts) {
            if starts.is_empty() {
                continue;
            }
            let first = if follows { *n_before } else { partition_near(starts, *n_before, |&ts| ts < time.start) };
            *n_before = first + partition_near(&starts[first..], 0, |&ts| ts < time.end);
            *count = (*n_before - first) as u64;
        }
        known.until = time.end;
        counts
    }

    /// The part of some time after the last wait of a thread that begins before its end; `None` until the thread was
    /// looked through as a whole.
    ///
    /// * Cost: amortized O(log n) for times that are near to one another.
    pub fn after_waits(
        &self,
        trace: &Trace,
        thread: TrackId,
        time: TimeRange,
        mut is_wait: impl FnMut(SliceId) -> bool,
    ) -> Option<TimeRange> {
        let mut threads = self.0.borrow_mut();
        let known = threads.of(thread, Thread::default);
        known.lists.as_ref()?;
        let waits = known.waits.get_or_insert_with(|| {
            let slices = trace.track_slices(thread).map(|i| SliceId(i as u32));
            let mut waits: Vec<TimeRange> =
                slices.filter(|&slice| is_wait(slice)).map(|slice| trace.slices.time(slice)).collect();
            unite(&mut waits);
            waits
        });
        known.n_waits_before = partition_near(waits, known.n_waits_before, |wait| wait.start < time.end);
        let last = known.n_waits_before.checked_sub(1).map(|at| waits[at].end);
        Some(TimeRange { start: last.map_or(time.start, |end| end.max(time.start)), ..time })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TraceBuilder;

    proptest! {
        #[test]
        fn counts_are_those_of_looking_at_every_slice(
            slices in prop::collection::vec((0_usize..3, 0_i64..300, 1_i64..80), 1..60),
            times in prop::collection::vec((0_i64..350, 0_i64..90), 1..40),
        ) {
            let kinds = [KINDS[0], KINDS[1], SliceKind::Runtime];
            let all: Vec<_> = slices.iter().map(|&(kind, ts, dur)| ("main", kinds[kind], "f", ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&all).finish();
            let (starts, near, thread) = (Starts::default(), Near::new(&trace), trace.slices.rows[0].track);
            for (start, dur) in times {
                let time = TimeRange { start, end: start + dur };
                let is_in = |of: usize| slices.iter().filter(|&&(kind, ts, _)| kind == of && time.contains(ts)).count();
                let expected = [is_in(0), is_in(1)].map(|n| n as u64);
                prop_assert_eq!(starts.count(&trace, thread, time, &near), expected);
                // Calls wait, here.
                let is_wait = |slice: SliceId| trace.slices.kind[slice.idx()] == SliceKind::Runtime;
                if let Some(after) = starts.after_waits(&trace, thread, time, is_wait) {
                    let waits = slices.iter().filter(|&&(kind, ts, _)| kind == 2 && ts < time.end);
                    let last = waits.map(|&(_, ts, dur)| ts + dur).max().unwrap_or(time.start);
                    // Waits one after the other may be one, which is over no earlier than the time.
                    prop_assert_eq!(after.start.min(time.end), last.max(time.start).min(time.end));
                }
            }
        }
    }
}
