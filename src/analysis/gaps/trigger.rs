//! The event that made a gap possible.

use hashbrown::HashSet;

use super::by_track::ByTrack;
use super::host::{Host, Segment, syncs};
use super::scenes::{LAUNCH_BOUND_RUN, Launches, Scene};
use super::theta::Usual;
use super::{GapClass, Trigger};
use crate::analysis::host_roles::Role;
use crate::model::time::partition_near;
use crate::model::{CopyKind, DurNs, SliceId, TimeNs, TimeRange, Trace};

/// A gap this many times longer than from one launch to the next is not explained by the speed of launches: the host
/// did something else. Loops that only just keep up wait for less than one interval, real ones with jitter for three.
const LAUNCH_BOUND_INTERVALS: DurNs = 10;

/// Finds the triggers of the gaps of one device, one after the other.
#[derive(Debug)]
pub struct Triggers<'a> {
    trace: &'a Trace,
    /// Boundaries of the steps of the process that launches on the device, and whether they are times of the host.
    steps: Option<(&'a [TimeNs], bool)>,
    usual: Usual,
    host: Host<'a>,
    /// The synchronizations of each thread, by start; with that before the last gap.
    syncs: ByTrack<(Vec<SliceId>, usize)>,
    drained: Drained,
    lost: Lost,
    /// The boundary after the last gap: the next one is near.
    near_boundary: usize,
}

/// The synchronization of those that emptied the queue whose loss of time lasts longest.
#[derive(Clone, Copy, Debug)]
struct Drained {
    end: TimeNs,
    /// How long the host waited in it: as far ahead of the device it would have been.
    lead: DurNs,
}

impl Default for Drained {
    fn default() -> Self {
        Self { end: TimeNs::MIN, lead: 0 }
    }
}

impl Drained {
    /// When the host would no longer have been ahead, had the device had nothing to do since.
    fn until(self) -> TimeNs {
        self.end.saturating_add(self.lead)
    }

    /// * `sync`: one that ended later.
    fn add(&mut self, sync: TimeRange) {
        let next = Self { end: sync.end, lead: sync.dur() };
        if next.until() > self.until() {
            *self = next;
        }
    }
}

/// The lead that a wait took from the host, and that it has not had again since, in nanoseconds.
///
/// A host that waits for some time would without that be this much further ahead of the device at every later launch: a
/// time in which it is slower than the device would then cost nothing, and use up as much of that lead as the device
/// now is idle. The lead is had again where work is launched as long before it runs. Leads of several waits do not add
/// up: how far a host runs ahead is bounded by the queue. What is no wait for the device, as a long allocation, takes
/// the lead that the host had when it began: so long the device still had work.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    lead: DurNs,
    left: DurNs,
    /// In what it was lost.
    class: GapClass,
}

impl Lost {
    /// Whether more was lost than before.
    fn add(&mut self, waited: DurNs, class: GapClass) -> bool {
        let is_more = waited > self.left;
        if is_more {
            *self = Self { lead: waited, left: waited, class };
        }
        is_more
    }

    /// The device was idle.
    fn use_up(&mut self, idle: DurNs) {
        self.left = (self.left - idle).max(0);
    }

    /// The gap in which it was lost ends: what is left is the lead that the host had before.
    fn stalled(&mut self) {
        self.lead = self.left;
    }

    /// * `ahead`: how long before it ran some work was launched at most.
    fn regain(&mut self, ahead: DurNs) {
        self.left = self.left.min((self.lead - ahead).max(0));
    }
}

impl<'a> Triggers<'a> {
    pub fn new(
        trace: &'a Trace,
        loading: &'a HashSet<SliceId>,
        steps: Option<(&'a [TimeNs], bool)>,
        usual: Usual,
    ) -> Self {
        let host = Host::new(trace, loading, usual.theta);
        let (syncs, drained, lost, near_boundary) = Default::default();
        Self { trace, steps, usual, host, syncs, drained, lost, near_boundary }
    }

    /// The event that made the gap possible, and the slice that it was. Where several hold: a synchronization right
    /// before it; the profiler, if it takes most of the gap; a synchronization after which the host is not ahead yet;
    /// launches that keep up with the device only just; the end of a graph; the end of a step.
    pub fn trigger(&mut self, scene: &Scene, parts: &[Segment]) -> Option<(Trigger, Option<SliceId>)> {
        let call = scene.call?;
        let slices = &self.trace.slices;
        if let Some(sync) = self.draining_sync(scene, call) {
            self.drained.add(self.trace.slices.time(sync));
            return Some((Trigger::Sync, Some(sync)));
        }
        let overhead = || parts.iter().filter(|part| part.class == GapClass::Profiler);
        let profiler_ns: DurNs = overhead().map(|part| part.time.dur()).sum();
        if profiler_ns > scene.gap.dur() / 2 {
            return overhead().next().map(|part| (Trigger::Profiler, part.slice));
        }
        let is_graph = self.launches_graph(call);
        let ahead = slices.ts[scene.ended_by.idx()] - slices.end[call.idx()];
        if ahead < self.usual.latency && !is_graph && !has_cause(parts, scene.gap.dur()) {
            let is_of_run = scene.late_run >= LAUNCH_BOUND_RUN && is_of_launches(scene.gap.dur(), scene.launches);
            if let Some(sync) = self.refilling_after(scene, call, is_of_run) {
                return Some((Trigger::Sync, Some(sync)));
            }
            if is_of_run {
                return Some((Trigger::LaunchBound, None));
            }
        }
        let ends_graph = scene.after_call.is_some_and(|after| after != call && self.launches_graph(after));
        if ends_graph {
            return Some((Trigger::GraphEnd, scene.after_call));
        }
        if self.is_step_boundary(scene, call) {
            return Some((Trigger::StepBoundary, None));
        }
        None
    }

    /// In what the host lost the lead with which the device would not have waited here: at least half of the gap is
    /// less than what was lost and not had again. A gap that has another trigger, or a cause such as loading data, has
    /// none. After a synchronization the latency of the next launch is lost as well; where the gap is longer than all
    /// that explains, as after a checkpoint that copied and then wrote, it is of what the host did. Call it for each
    /// gap in order.
    pub fn refill(
        &mut self,
        scene: &Scene,
        parts: &[Segment],
        trigger: Option<(Trigger, Option<SliceId>)>,
    ) -> Option<GapClass> {
        self.lost.regain(scene.most_ahead);
        let slices = &self.trace.slices;
        let idle = scene.gap.dur();
        // What the host was in when the queue became empty.
        let straddles = |part: &&Segment| part.class < GapClass::Launch && part.class != GapClass::Sync;
        if let Some((Trigger::Sync, Some(sync))) = trigger {
            self.lost.add(slices.time(sync).dur(), GapClass::Sync);
        }
        // A call that does not return before its copy runs, as one from pageable memory, waited for all work before
        // that.
        let copy = self.trace.facts.copies.get(scene.after);
        if let Some((copy, call)) = copy.zip(scene.after_call)
            && slices.ts[scene.after.idx()] < slices.end[call.idx()]
        {
            let class = if copy.kind == CopyKind::HtoD { GapClass::Copy } else { GapClass::Sync };
            self.lost.add(slices.time(call).dur(), class);
        }
        let mut stalls = false;
        if let Some(part) = parts.first().filter(straddles)
            // A range that is named after a collective may do anything in it.
            && let Some(wait) = part.slice.filter(|&slice| self.host.roles.of(self.trace, slice) != Role::CollectiveRange)
            && let wait = slices.time(wait)
            && wait.start < scene.gap.start
        {
            stalls = self.lost.add(wait.dur(), part.class) && part.class != GapClass::Copy;
        }
        let is_synced = matches!(trigger, Some((Trigger::Sync, _)));
        let is_of_sync = is_synced && idle <= 2 * (self.lost.left + self.usual.latency);
        let is_own = match trigger {
            Some((Trigger::Sync | Trigger::LaunchBound | Trigger::Profiler, _)) => true,
            Some((Trigger::StepBoundary | Trigger::GraphEnd, _)) | None => has_cause_beside_copies(parts, idle),
        };
        // Else it was launched ahead.
        let waits = scene.call.is_some_and(|call| slices.end[call.idx()] > scene.gap.start);
        let is_refill = !is_own && waits && idle <= 2 * self.lost.left;
        self.lost.use_up(idle);
        if stalls {
            self.lost.stalled();
        }
        if is_of_sync { Some(GapClass::Sync) } else { is_refill.then_some(self.lost.class) }
    }

    /// The synchronization that emptied the queue: it began before the gap, after the launch of the work before
    /// it, and ended no earlier than theta before the gap. By the launching thread, else by that which launched
    /// the work before.
    ///
    /// One that waited for copies alone, on a device that was idle before them, emptied nothing: without it the host
    /// would have gone on no earlier than by their duration. Where that is shorter than the gap, it is not the reason.
    fn draining_sync(&mut self, scene: &Scene, call: SliceId) -> Option<SliceId> {
        let slices = &self.trace.slices;
        let before = scene.after_call.map(|call| slices.track_of(call));
        let own = slices.track_of(call);
        for thread in [Some(own), before.filter(|&before| before != own)].into_iter().flatten() {
            let new = || (syncs(self.trace, thread, &mut self.host), 0);
            let (syncs, near) = self.syncs.of(thread, new);
            let began = partition_near(syncs, *near, |sync| slices.ts[sync.idx()] < scene.gap.start);
            *near = began;
            let Some(&sync) = began.checked_sub(1).and_then(|at| syncs.get(at)) else { continue };
            let time = slices.time(sync);
            let ends_in = scene.gap.start - self.usual.theta <= time.end && time.end <= scene.gap.end;
            let is_after_launch = scene
                .after_call
                .is_none_or(|after| slices.track_of(after) != thread || slices.ts[after.idx()] <= time.start);
            let returns = time.end - scene.gap.start < self.usual.latency;
            let costs_nothing = returns
                && scene.gap.start - scene.busy.start < scene.gap.dur()
                && scene.waited_for_copies(self.trace, time.start);
            // What was launched before the gap was in the queue: whoever waited, the wait did not empty that.
            let queued_until = if thread == own { time.end } else { scene.gap.start };
            let is_emptied = queued_until <= slices.ts[call.idx()];
            if ends_in && is_after_launch && !costs_nothing && is_emptied {
                return Some(sync);
            }
        }
        None
    }

    /// The synchronization after which the host was not ahead of the device again: it launched fewer than
    /// [`LAUNCH_BOUND_RUN`] pieces of work since, each no earlier before it ran than is usual, so that nothing shows
    /// that the host is too slow to get ahead. It is the reason for the gap if
    /// * the host lost at least the time from then to the end of the gap when it last waited for the queue to become
    ///   empty, and was not ahead since, whatever it waited for in between: without waiting it would have been that
    ///   much ahead, or
    /// * another lies among the last [`LAUNCH_BOUND_RUN`] launches, and the next one follows within the time that these
    ///   took: no host gets ahead that waits after every few of them. A loop that reads a value back after each small
    ///   kernel is not launch-bound, and nothing that speeds up launches can be applied to it before it waits less.
    ///
    /// Synchronizations between two long runs of launches, as after each token of a model that is launch-bound or with
    /// the copies at the start of a step, change nothing of these.
    ///
    /// * `is_of_run`: whether the gap may be launch-bound.
    fn refilling_after(&self, scene: &Scene, call: SliceId, is_of_run: bool) -> Option<SliceId> {
        let slices = &self.trace.slices;
        // `draining_sync` looked there for this gap.
        let (syncs, near) = self.syncs.get(slices.track_of(call))?;
        let launched = slices.ts[call.idx()];
        let n = partition_near(syncs, *near, |sync| slices.ts[sync.idx()] < launched);
        let sync = syncs[n.checked_sub(1)?];
        let time = slices.time(sync);
        let since = scene.launches.iter().filter(|&&ts| ts >= time.end).count() as u32;
        if time.end > launched || since == LAUNCH_BOUND_RUN || since > scene.late_run {
            return None;
        }
        let is_lost = scene.ahead_at < self.drained.end && scene.gap.end <= self.drained.until();
        let first = scene.launches.iter().copied().min()?;
        let begins = |sync: SliceId| slices.ts[sync.idx()];
        let is_before = || n > 1 && begins(syncs[n - 2]) >= first;
        let is_next = || syncs.get(n).is_some_and(|&next| begins(next) - launched <= launched - first);
        let is_interrupted = is_of_run && is_before() && is_next();
        (is_lost || is_interrupted).then_some(sync)
    }

    /// Whether a call launches a graph.
    fn launches_graph(&mut self, call: SliceId) -> bool {
        self.host.roles.of(self.trace, call) == Role::GraphLaunch
    }

    /// Whether a step ends between the launches of the work before and after the gap; for steps found on the
    /// device, in the gap.
    fn is_step_boundary(&mut self, scene: &Scene, call: SliceId) -> bool {
        let Some((boundaries, is_of_host)) = self.steps else { return false };
        let ts = &self.trace.slices.ts;
        let range = match scene.after_call {
            Some(after) if is_of_host => ts[after.idx()]..ts[call.idx()],
            _ => scene.gap.start..scene.gap.end,
        };
        let first = partition_near(boundaries, self.near_boundary, |&boundary| boundary <= range.start);
        self.near_boundary = first;
        boundaries.get(first).is_some_and(|&boundary| boundary <= range.end)
    }
}

/// Whether a gap is not longer than so many times the median time from one of these launches to the next.
fn is_of_launches(gap: DurNs, mut launches: Launches) -> bool {
    // They nearly always ascend, from the oldest on.
    let oldest = launches.windows(2).position(|pair| pair[0] > pair[1]).map_or(0, |last| last + 1);
    launches.rotate_left(oldest);
    if !launches.is_sorted() {
        launches.sort_unstable();
    }
    let long = launches.windows(2).filter(|pair| gap <= LAUNCH_BOUND_INTERVALS * (pair[1] - pair[0])).count();
    // The median is one of them.
    2 * long > launches.len() - 1
}

/// Whether most of a gap is time that the speed of launches does not explain, such as loading data.
fn has_cause(parts: &[Segment], idle: DurNs) -> bool {
    is_most(parts, idle, |class| class < GapClass::Launch)
}

/// The same without synchronizations and copies, which both wait for the device.
fn has_cause_beside_copies(parts: &[Segment], idle: DurNs) -> bool {
    is_most(parts, idle, |class| class < GapClass::Launch && !matches!(class, GapClass::Sync | GapClass::Copy))
}

/// * `idle`: the length of the gap.
fn is_most(parts: &[Segment], idle: DurNs, is_definite: impl Fn(GapClass) -> bool) -> bool {
    let definite: DurNs = parts.iter().filter(|part| is_definite(part.class)).map(|part| part.time.dur()).sum();
    definite > idle - definite
}
