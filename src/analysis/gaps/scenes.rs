//! The gaps of a device in order of time, each with the work and the launches before it.

use super::theta::Usual;
use super::work::in_order;
use crate::analysis::host_roles::{Role, Roles};
use crate::model::{DurNs, ProcessId, SliceId, SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// Work launched this shortly before it runs, so many times in a row, is launch-bound.
pub const LAUNCH_BOUND_RUN: u32 = 8;

/// A gap and what precedes it.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub gap: TimeRange,
    pub after: SliceId,
    pub ended_by: SliceId,
    /// The calls that launched them.
    pub after_call: Option<SliceId>,
    pub call: Option<SliceId>,
    /// The work before `ended_by` on its stream.
    pub before_on_stream: Option<SliceId>,
    /// The graph launch of the last work of a graph before the gap.
    pub last_graph: Option<SliceId>,
    /// The busy time that ends where the gap begins.
    pub busy: BusySpan,
    /// When the last pieces of work were launched, in any order; the earliest time where there were fewer.
    pub launches: Launches,
    /// How many of them, and of those before, were launched no earlier before they ran than is usual, up to the first
    /// that was.
    pub late_run: u32,
    /// When that began to run; the earliest time if none was.
    pub ahead_at: TimeNs,
    /// The longest time from the end of a launch to the start of its work, of the work between the last gap and this
    /// one; 0 if none was launched ahead.
    pub most_ahead: DurNs,
}

/// Times of the last launches.
pub type Launches = [TimeNs; LAUNCH_BOUND_RUN as usize];

/// A span in which a device is never idle.
#[derive(Clone, Copy, Debug)]
pub struct BusySpan {
    pub start: TimeNs,
    /// When the work before it ended; the earliest time if there was none.
    pub idle_since: TimeNs,
    /// Whether it holds copies and memsets alone.
    pub is_copying: bool,
}

impl Scene {
    /// Whether whoever waited from `ts` until the gap began waited for copies alone: the device was idle before the
    /// call that started them, and did nothing else.
    pub fn waited_for_copies(&self, trace: &Trace, ts: TimeNs) -> bool {
        let called = self.after_call.map_or(ts, |call| trace.slices.ts[call.idx()].min(ts));
        self.busy.is_copying && self.busy.idle_since <= called
    }
}

/// Finds the gaps of one device. A gap is before all work that starts later than all before it ended. Work without a
/// length ends and begins gaps, too.
pub struct Scenes<'a, I> {
    trace: &'a Trace,
    usual: Usual,
    roles: Roles,
    /// In order of time, with its stream.
    work: I,
    /// Of the device; the others follow.
    first_stream: TrackId,
    on_stream: Vec<Option<SliceId>>,
    /// The work that ends last of all so far, with its launch.
    last: Option<(SliceId, Option<SliceId>)>,
    last_graph: Option<SliceId>,
    late_run: u32,
    ahead_at: TimeNs,
    most_ahead: DurNs,
    launches: Launches,
    /// The place of the oldest of them.
    oldest: usize,
    busy: BusySpan,
    /// Pieces of work so far, and how many of them have a recorded launch.
    pub n_work: u64,
    pub n_launched: u64,
}

/// The gaps of the device of `process`. Cost: O(n log k) for n slices in k rows.
pub fn scenes(trace: &Trace, process: ProcessId, usual: Usual) -> Scenes<'_, impl Iterator<Item = (SliceId, TrackId)>> {
    let streams = trace.tracks_of(process);
    Scenes {
        trace,
        usual,
        roles: Roles::default(),
        work: in_order(trace, process),
        first_stream: streams.clone().next().unwrap_or_default(),
        on_stream: vec![None; streams.count()],
        last: None,
        last_graph: None,
        late_run: 0,
        ahead_at: TimeNs::MIN,
        most_ahead: 0,
        launches: [TimeNs::MIN; LAUNCH_BOUND_RUN as usize],
        oldest: 0,
        busy: BusySpan { start: TimeNs::MIN, idle_since: TimeNs::MIN, is_copying: true },
        n_work: 0,
        n_launched: 0,
    }
}

impl<I: Iterator<Item = (SliceId, TrackId)>> Iterator for Scenes<'_, I> {
    type Item = Scene;

    fn next(&mut self) -> Option<Scene> {
        loop {
            let (work, stream) = self.work.next()?;
            if let Some(scene) = self.add(work, stream) {
                return Some(scene);
            }
        }
    }
}

impl<I> Scenes<'_, I> {
    /// Adds the next piece of work. Returns the gap that it ends.
    fn add(&mut self, work: SliceId, stream: TrackId) -> Option<Scene> {
        let slices = &self.trace.slices;
        let time = slices.time(work);
        let call = self.trace.launch_of(work);
        let before_on_stream = self.on_stream[(stream.0 - self.first_stream.0) as usize].replace(work);
        if self.last.is_none() {
            self.busy.start = time.start;
        }
        let ended = self.last.filter(|last| slices.end[last.0.idx()] < time.start);
        let scene = ended.map(|(after, after_call)| Scene {
            gap: TimeRange { start: slices.end[after.idx()], end: time.start },
            after,
            ended_by: work,
            after_call,
            call,
            before_on_stream,
            last_graph: self.last_graph,
            busy: self.busy,
            launches: self.launches,
            late_run: self.late_run,
            ahead_at: self.ahead_at,
            most_ahead: std::mem::take(&mut self.most_ahead),
        });
        if let Some(scene) = &scene {
            self.busy = BusySpan { start: time.start, idle_since: scene.gap.start, is_copying: true };
        }
        self.busy.is_copying &= matches!(slices.kind[work.idx()], SliceKind::Memcpy | SliceKind::Memset);
        self.n_work += 1;
        if let Some(call) = call {
            self.n_launched += 1;
            self.add_launch(call, time.start);
        }
        if self.last.is_none_or(|last| slices.end[last.0.idx()] <= time.end) {
            self.last = Some((work, call));
        }
        scene
    }

    /// * `start`: when its work began to run.
    fn add_launch(&mut self, call: SliceId, start: TimeNs) {
        if self.roles.of(self.trace, call) == Role::GraphLaunch {
            self.last_graph = Some(call);
            return;
        }
        let slices = &self.trace.slices;
        let ahead = start - slices.end[call.idx()];
        self.most_ahead = self.most_ahead.max(ahead);
        if ahead < self.usual.latency {
            self.late_run += 1;
        } else {
            (self.late_run, self.ahead_at) = (0, start);
        }
        self.launches[self.oldest] = slices.ts[call.idx()];
        self.oldest = (self.oldest + 1) % self.launches.len();
    }
}
