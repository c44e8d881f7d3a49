//! What begins on a thread in some time, and until when the thread waits.

use std::cell::RefCell;

use hashbrown::HashMap;

use super::begun;
use crate::analysis::gaps::Near;
use crate::analysis::gaps::place::open_at;
use crate::model::time::partition_near;
use crate::model::{SliceId, SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// A thread is looked through as a whole once it was asked about for one in so many of its slices: until then that would
/// cost more than the questions, which may be of a few gaps of many devices.
const PATIENCE: usize = 16;

/// The kinds that are counted.
const KINDS: [SliceKind; 2] = [SliceKind::PythonFunction, SliceKind::Operator];

/// The threads of one trace.
#[derive(Debug, Default)]
pub struct Starts(RefCell<Threads>);

#[derive(Debug, Default)]
struct Threads {
    known: Vec<Thread>,
    index: HashMap<TrackId, usize>,
    /// The thread that was asked about last: most often it is the next one, too.
    last: Option<(TrackId, usize)>,
}

#[derive(Debug, Default)]
struct Thread {
    asked: usize,
    begun: Option<Begun>,
    waits: Option<Waits>,
}

impl Threads {
    /// A thread that is asked about, and whether it was asked about often.
    fn of(&mut self, trace: &Trace, thread: TrackId) -> (&mut Thread, bool) {
        let at = match self.last {
            Some((last, at)) if last == thread => at,
            _ => *self.index.entry(thread).or_insert_with(|| {
                self.known.push(Thread::default());
                self.known.len() - 1
            }),
        };
        self.last = Some((thread, at));
        let known = &mut self.known[at];
        known.asked += 1;
        let is_often = known.asked * PATIENCE >= trace.track_slices(thread).len();
        (known, is_often)
    }
}

/// When each frame and operator of a thread begins, ascending, and how many of each kind have begun by then.
#[derive(Debug)]
struct Begun {
    starts: Vec<(TimeNs, [u32; 2])>,
    /// Where the last time was found.
    near: usize,
}

impl Begun {
    /// Cost: O(n log n) for n slices of the thread.
    fn new(trace: &Trace, thread: TrackId) -> Self {
        let slices = &trace.slices;
        let counted = |i: usize| {
            let counts = KINDS.map(|kind| u32::from(slices.kind[i] == kind));
            (counts != [0; 2]).then_some((slices.ts[i], counts))
        };
        let mut starts: Vec<(TimeNs, [u32; 2])> = trace.track_slices(thread).filter_map(counted).collect();
        // Rows ascend: this sort merges them.
        starts.sort_by_key(|start| start.0);
        let mut sums = [0; 2];
        for (_, counts) in &mut starts {
            sums = [0, 1].map(|at| sums[at] + counts[at]);
            *counts = sums;
        }
        Self { starts, near: 0 }
    }

    /// How many of each have begun before a time.
    fn before(&mut self, at: TimeNs) -> [u32; 2] {
        self.near = partition_near(&self.starts, self.near, |start| start.0 < at);
        self.near.checked_sub(1).map_or([0; 2], |last| self.starts[last].1)
    }
}

/// When each wait of a thread begins, ascending, and when the last of those that have begun by then ends.
#[derive(Debug)]
struct Waits {
    ends: Vec<(TimeNs, TimeNs)>,
    /// Where the last time was found.
    near: usize,
}

impl Waits {
    /// Cost: O(n log n) for n slices of the thread.
    fn new(trace: &Trace, thread: TrackId, mut is_wait: impl FnMut(SliceId) -> bool) -> Self {
        let slices = &trace.slices;
        let waits = trace.track_slices(thread).filter(|&i| is_wait(SliceId(i as u32)));
        let mut ends: Vec<(TimeNs, TimeNs)> = waits.map(|i| (slices.ts[i], slices.end[i])).collect();
        ends.sort_by_key(|wait| wait.0);
        let mut last = TimeNs::MIN;
        for (_, end) in &mut ends {
            last = last.max(*end);
            *end = last;
        }
        Self { ends, near: 0 }
    }

    /// When the last ends that has begun before a time.
    fn until(&mut self, at: TimeNs) -> TimeNs {
        self.near = partition_near(&self.ends, self.near, |wait| wait.0 < at);
        self.near.checked_sub(1).map_or(TimeNs::MIN, |last| self.ends[last].1)
    }
}

impl Starts {
    /// The frames and the operators of a thread that begin in some time.
    ///
    /// * `near`: of the same trace.
    /// * Cost: amortized O(log n) for times that are near to one another.
    pub fn count(&self, trace: &Trace, thread: TrackId, time: TimeRange, near: &Near) -> [u64; 2] {
        let mut threads = self.0.borrow_mut();
        let (known, is_often) = threads.of(trace, thread);
        if is_often {
            let begun = known.begun.get_or_insert_with(|| Begun::new(trace, thread));
            let before = begun.before(time.start);
            let until = begun.before(time.end.max(time.start));
            return [0, 1].map(|at| u64::from(until[at] - before[at]));
        }
        let mut counts = [0; 2];
        begun(trace, thread, time, near, |slice| {
            let kind = trace.slices.kind[slice.idx()];
            KINDS.iter().zip(&mut counts).for_each(|(of, count)| *count += u64::from(*of == kind));
        });
        counts
    }

    /// When the last wait of a thread ends of those that touch some time, but not before that begins.
    ///
    /// * `is_wait`: whether the thread waits in a slice; the same at each call.
    /// * Cost: as for [`Self::count`].
    pub fn waited_until(
        &self,
        trace: &Trace,
        (thread, time): (TrackId, TimeRange),
        near: &Near,
        mut is_wait: impl FnMut(SliceId) -> bool,
    ) -> TimeNs {
        let mut threads = self.0.borrow_mut();
        let (known, is_often) = threads.of(trace, thread);
        if is_often {
            let waits = known.waits.get_or_insert_with(|| Waits::new(trace, thread, is_wait));
            return waits.until(time.end).max(time.start);
        }
        let mut until = time.start;
        let mut wait = |slice: SliceId| {
            let end = trace.slices.end[slice.idx()];
            if end > until && is_wait(slice) {
                until = end;
            }
        };
        open_at(trace, thread, time.start, near).into_iter().for_each(&mut wait);
        begun(trace, thread, time, near, wait);
        until
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TraceBuilder;

    proptest! {
        #[test]
        fn what_begins_and_who_waits_is_that_of_looking_at_every_slice(
            slices in prop::collection::vec((0_usize..3, 0_i64..300, 1_i64..80), 1..60),
            times in prop::collection::vec((0_i64..350, 0_i64..90), 1..40),
        ) {
            let kinds = [KINDS[0], KINDS[1], SliceKind::Runtime];
            let all: Vec<_> = slices.iter().map(|&(kind, ts, dur)| ("main", kinds[kind], "f", ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&all).finish();
            let (starts, near, thread) = (Starts::default(), Near::new(&trace), trace.slices.rows[0].track);
            let is_wait = |slice: SliceId| trace.slices.kind[slice.idx()] == SliceKind::Runtime;
            for (start, dur) in times {
                let time = TimeRange { start, end: start + dur };
                let is_in = |of: usize| slices.iter().filter(|&&(kind, ts, _)| kind == of && time.contains(ts)).count();
                let expected = [is_in(0), is_in(1)].map(|n| n as u64);
                prop_assert_eq!(starts.count(&trace, thread, time, &near), expected);
                // What a search through all slices finds.
                let touches = |&&(kind, ts, dur): &&(usize, i64, i64)| kind == 2 && ts < time.end && ts + dur > time.start;
                let until = slices.iter().filter(touches).map(|&(_, ts, dur)| ts + dur).max().unwrap_or(start);
                if time.dur() > 0 {
                    prop_assert_eq!(starts.waited_until(&trace, (thread, time), &near, is_wait), until.max(start));
                }
            }
        }
    }
}
