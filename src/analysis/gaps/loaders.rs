//! Data loading by other threads of a process while one waits for them.

use std::cmp::Reverse;

use super::overlay::Spans;
use crate::analysis::host_roles::{Role, Roles};
use crate::model::{DurNs, ProcessId, SliceId, TimeNs, TimeRange, Trace, TrackId};

/// A wait that lasts on for this long in nanoseconds, and for a quarter of its time, after a batch was ready was not
/// for that.
const WAKES_UP: DurNs = 1_000_000;

/// When the threads of a process load data, the first thing to know of a wait for a queue.
#[derive(Debug)]
pub struct Loaders(Vec<(TrackId, Spans)>);

impl Loaders {
    /// Cost: O(n log n) for n slices of the process that load or wait.
    pub fn new(trace: &Trace, process: ProcessId, roles: &mut Roles) -> Self {
        let of_thread = |thread| (thread, loads(trace, thread, roles));
        Self(trace.tracks_of(process).map(of_thread).filter(|(_, spans)| !spans.is_empty()).collect())
    }

    /// The loads of the threads that a wait was for: each thread that finished one shortly before the wait was over.
    ///
    /// * `wait`: a call or a function that waits for another thread.
    pub fn awaited<'a>(&'a self, trace: &'a Trace, wait: SliceId) -> impl Iterator<Item = &'a Spans> {
        let (own, time) = (trace.slices.track_of(wait), trace.slices.time(wait));
        let finishes = move |spans: &Spans| {
            let last = spans[..spans.partition_point(|(load, _)| load.end <= time.end)].last();
            last.is_some_and(|(load, _)| load.end > time.start && time.end - load.end <= WAKES_UP.max(time.dur() / 4))
        };
        self.0.iter().filter(move |(thread, spans)| *thread != own && finishes(spans)).map(|(_, spans)| spans)
    }
}

/// When a thread loads data, without its own waits. Of nested ranges and functions that load, the innermost count: the
/// outer ones may be a loop that waits for room in the queue.
fn loads(trace: &Trace, thread: TrackId, roles: &mut Roles) -> Spans {
    let slices = &trace.slices;
    let (mut loads, mut waits): (Vec<SliceId>, Vec<TimeRange>) = Default::default();
    for slice in trace.track_slices(thread).map(|i| SliceId(i as u32)) {
        match roles.of(trace, slice) {
            Role::DataLoading => loads.push(slice),
            Role::QueueWait | Role::PythonWait | Role::OsWait => waits.push(slices.time(slice)),
            _ => {}
        }
    }
    loads.sort_unstable_by_key(|&load| (slices.ts[load.idx()], Reverse(slices.end[load.idx()]), load));
    waits.sort_unstable_by_key(|wait| (wait.start, wait.end));
    let mut out = Spans::new();
    for (i, &load) in loads.iter().enumerate() {
        let time = slices.time(load);
        if loads.get(i + 1).is_some_and(|next| slices.ts[next.idx()] < time.end) {
            continue;
        }
        let mut at: TimeNs = time.start;
        let first = waits.partition_point(|wait| wait.start < time.start);
        for wait in waits[first..].iter().take_while(|wait| wait.start < time.end) {
            if at < wait.start {
                out.push((TimeRange { start: at, end: wait.start }, Some(load)));
            }
            at = at.max(wait.end);
        }
        if at < time.end {
            out.push((TimeRange { start: at, end: time.end }, Some(load)));
        }
    }
    out
}
