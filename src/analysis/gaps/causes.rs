//! The parts of one gap by cause: of the host, then of the launch (F2).

use std::cell::Cell;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{HashMap, HashSet};

use super::GapClass;
use super::by_track::ByTrack;
use super::host::{Activity, Host, Segment, push};
use super::loaders::Loaders;
use super::overlay::{Overheads, Silence, Spans, loading_of, overlay};
use super::scenes::Scene;
use super::theta::Usual;
use super::waits::Waits;
use super::work::LOADING;
use crate::analysis::host_roles::Role;
use crate::model::{DurNs, ProcessId, SliceId, TimeRange, Trace, TrackId};

/// Waits of a thread for another one from this length on are looked at one by one, in nanoseconds.
const LONG_WAIT: DurNs = 100_000;

/// Finds the parts of gaps of one device, in order of time. Several share the gaps.
#[derive(Debug)]
pub struct Causes<'a> {
    trace: &'a Trace,
    overheads: &'a Overheads,
    waits: &'a Waits,
    usual: Usual,
    host: Host<'a>,
    near: Near,
    silence: ByTrack<Arc<Silence>>,
    /// What is looked for once.
    shared: &'a Shared,
    scratch: [Vec<Segment>; 2],
}

/// What is known of the threads of a device, whatever the gap.
#[derive(Debug, Default)]
pub struct Shared {
    silence: Once<TrackId, Silence>,
    /// When threads of each process load code; filled where a launching thread is silent for long.
    loading: Once<ProcessId, Spans>,
    /// When threads of each process load data; filled where a thread waits for another one for long.
    loaders: Once<ProcessId, Loaders>,
}

/// Things that whoever asks first makes, while the others wait.
#[derive(Debug)]
struct Once<K, T>(Mutex<HashMap<K, Arc<T>>>);

impl<K, T> Default for Once<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T> Once<K, T> {
    fn of(&self, key: K, new: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(key).or_insert_with(|| Arc::new(new())))
    }
}

/// What held at the last gap: the next one is near.
#[derive(Debug, Default)]
struct Near {
    profiler: Cell<usize>,
    loading: Cell<usize>,
}

impl<'a> Causes<'a> {
    pub fn new(
        trace: &'a Trace,
        loading: &'a HashSet<SliceId>,
        overheads: &'a Overheads,
        waits: &'a Waits,
        usual: Usual,
        shared: &'a Shared,
    ) -> Self {
        let host = Host::new(trace, loading, usual.theta);
        let (near, silence, scratch) = Default::default();
        Self { trace, overheads, waits, usual, host, near, silence, shared, scratch }
    }

    /// The parts of a gap, in order of time and without space between them.
    pub fn parts(&mut self, scene: &Scene, out: &mut Vec<Segment>) {
        out.clear();
        let Scene { gap, call, .. } = *scene;
        let Some(call) = call else {
            let class = if self.is_inside_graph(scene) { GapClass::Graph } else { GapClass::NoLaunch };
            out.push(Segment::new(gap, class, None));
            self.overlay_profiler(gap, out);
            return;
        };
        let launched = self.trace.slices.ts[call.idx()];
        let split = launched.clamp(gap.start, gap.end);
        if self.is_inside_graph(scene) {
            out.push(Segment::new(gap, GapClass::Graph, self.within(gap, call)));
        } else {
            if gap.start < split {
                self.host_part(TimeRange { end: split, ..gap }, scene, call, out);
                self.returns_from_copies(scene, out);
            }
            if split < gap.end {
                self.launch_part(TimeRange { start: split, ..gap }, scene, call, out);
            }
        }
        self.overlay_profiler(gap, out);
    }

    /// Tiles `range` by what the launching thread did; while it does nothing or waits for another thread, by
    /// what the thread did that launched the work before. `out` is empty.
    fn host_part(&mut self, range: TimeRange, scene: &Scene, call: SliceId, out: &mut Vec<Segment>) {
        let slices = &self.trace.slices;
        let thread = slices.track_of(call);
        let before = scene.after_call.map(|call| slices.track_of(call)).filter(|&before| before != thread);
        match before {
            Some(before) => self.tile_both(thread, before, range, out),
            None => self.tile(thread, range, out),
        }
        self.overlay_loading(range, out);
        self.overlay_loading_elsewhere(thread, range, out);
        self.overlay_loaders(thread, out);
    }

    /// A wait in the operating system of the thread that launched the work before explains why the launching one does
    /// nothing only if the launching one does nothing during all of it, and goes on after it: a thread that waits while
    /// the other goes on was not waited for. It may wait for the launching thread itself, as a main thread does for the
    /// worker that compiles for it.
    fn tile_both(&mut self, thread: TrackId, before: TrackId, range: TimeRange, out: &mut Vec<Segment>) {
        let slices = &self.trace.slices;
        let [mut own, mut other] = std::mem::take(&mut self.scratch);
        own.clear();
        self.tile(thread, range, &mut own);
        for segment in &own {
            if segment.activity == Activity::Works {
                push(out, *segment);
                continue;
            }
            other.clear();
            self.tile(before, segment.time, &mut other);
            for theirs in &other {
                let is_within = |slice: SliceId| {
                    let begins = segment.time.start == range.start || segment.time.start <= slices.ts[slice.idx()];
                    begins && slices.end[slice.idx()] <= segment.time.end
                };
                let is_before = theirs.slice.map_or(theirs.time.end < segment.time.end, is_within);
                let is_better = match theirs.activity {
                    Activity::Works => theirs.class != GapClass::Blocked || is_before,
                    Activity::Waits => {
                        segment.activity == Activity::Nothing && (theirs.class != GapClass::Blocked || is_before)
                    }
                    Activity::Nothing => segment.slice.is_none() && segment.activity == Activity::Nothing,
                };
                let has_frame = segment.has_frame || theirs.has_frame;
                let chosen = if is_better { *theirs } else { Segment { time: theirs.time, ..*segment } };
                push(out, Segment { has_frame, ..chosen });
            }
        }
        self.scratch = [own, other];
    }

    /// While a thread waits for long, and another one of the process loads data that is ready when the wait is over, it
    /// waits for that: a loader of the program's own, with a thread and a queue.
    fn overlay_loaders(&mut self, thread: TrackId, out: &mut Vec<Segment>) {
        let roles = &mut self.host.roles;
        let mut is_wait = |segment: &&Segment| {
            let is_long = segment.activity == Activity::Waits && segment.time.dur() >= LONG_WAIT;
            let waits = |slice| matches!(roles.of(self.trace, slice), Role::QueueWait | Role::OsWait | Role::Wait);
            is_long && segment.slice.is_some_and(waits)
        };
        let waits: Vec<Segment> = out.iter().filter(|segment| is_wait(segment)).copied().collect();
        for wait in waits {
            let Some(slice) = wait.slice else { continue };
            let process = self.trace.track(thread).process;
            let loaders = self.shared.loaders.of(process, || Loaders::new(self.trace, process, &mut self.host.roles));
            for spans in loaders.awaited(self.trace, slice) {
                let is_waiting = |segment: &Segment| segment.slice == Some(slice);
                let class = (GapClass::DataLoading, Activity::Works);
                overlay(spans, &Cell::default(), wait.time, class, is_waiting, out);
            }
        }
    }

    /// While neither thread does anything for long, another of the process that compiles or loads code is what they
    /// wait for: a runtime compiles in the thread of the program and launches in one of its own.
    fn overlay_loading_elsewhere(&mut self, thread: TrackId, range: TimeRange, out: &mut Vec<Segment>) {
        let is_idle = |segment: &Segment| {
            segment.activity != Activity::Works && matches!(segment.class, GapClass::Unknown | GapClass::Blocked)
        };
        if !out.iter().any(|segment| is_idle(segment) && segment.time.dur() >= LOADING) {
            return;
        }
        let process = self.trace.track(thread).process;
        let spans = self.shared.loading.of(process, || loading_of(self.trace, process, &mut self.host.roles));
        let is_long = |segment: &Segment| is_idle(segment) && segment.time.dur() >= LOADING;
        overlay(&spans, &Cell::default(), range, (GapClass::ModuleLoad, Activity::Works), is_long, out);
    }

    /// A call that waited for copies on an idle device belongs to the copies until it returns, whatever it is called:
    /// `hipMemcpyWithStream`, or `cudaStreamSynchronize` after a copy from pageable memory.
    fn returns_from_copies(&self, scene: &Scene, out: &mut [Segment]) {
        let ts = &self.trace.slices.ts;
        for segment in out.iter_mut().filter(|segment| segment.class == GapClass::Sync) {
            let began = segment.slice.map(|slice| ts[slice.idx()]).filter(|&ts| ts < scene.gap.start);
            // One that lasts on waited for something else.
            let returns = segment.time.end - scene.gap.start < self.usual.latency;
            if returns && began.is_some_and(|ts| scene.waited_for_copies(self.trace, ts)) {
                segment.class = GapClass::Copy;
            }
        }
    }

    /// Tiles `range` by what a thread did, as its slices and its silence show. `out` is empty.
    fn tile(&mut self, thread: TrackId, range: TimeRange, out: &mut Vec<Segment>) {
        self.host.tile(thread, range, out);
        if out.iter().all(|segment| segment.activity == Activity::Works && segment.class != GapClass::Blocked) {
            return;
        }
        let theta = self.usual.theta;
        let new = || Silence::new(self.trace, thread, &mut self.host.roles, theta);
        let silence = self.silence.of(thread, || self.shared.silence.of(thread, new));
        let is_silent = |segment: &Segment| segment.activity == Activity::Nothing;
        let is_idle = |segment: &Segment| is_silent(segment) || segment.class == GapClass::Blocked;
        overlay(&silence.loading, &Cell::default(), range, (GapClass::ModuleLoad, Activity::Works), is_idle, out);
        overlay(&silence.off_cpu, &Cell::default(), range, (GapClass::Blocked, Activity::Waits), is_silent, out);
    }

    /// The launch call, if it had not returned before the gap.
    fn within(&self, gap: TimeRange, call: SliceId) -> Option<SliceId> {
        Some(call).filter(|call| self.trace.slices.end[call.idx()] > gap.start)
    }

    /// From the launch on: the usual latency, or what the work waited for.
    fn launch_part(&mut self, range: TimeRange, scene: &Scene, call: SliceId, out: &mut Vec<Segment>) {
        let slices = &self.trace.slices;
        let (has_operator, has_frame) = self.host.is_inside(slices.track_of(call), slices.ts[call.idx()]);
        let flags = |class, slice, time| Segment { has_operator, has_frame, ..Segment::new(time, class, slice) };
        let role = self.host.roles.of(self.trace, call);
        let mut rest = range;
        // A call of usual length belongs to the latency. Work cannot begin before a slow one is over.
        let returned = slices.end[call.idx()].min(range.end);
        if returned - range.start >= self.usual.latency && role != Role::GraphLaunch {
            rest.start = returned;
            let call_time = TimeRange { end: returned, ..range };
            if role == Role::Sync || (role == Role::CopyCall && !self.host.is_on_device(call)) {
                // It stages the data of the copy that is to begin.
                push(out, flags(GapClass::Copy, Some(call), call_time));
            } else {
                self.host.tile(slices.track_of(call), call_time, out);
                self.overlay_loading(call_time, out);
            }
        }
        if rest.start == rest.end {
            return;
        }
        // Work that starts soon after its call did not wait in a queue, however long the call was.
        let is_prompt = returned > range.start && range.end - returned < self.usual.delay;
        let within = self.within(scene.gap, call);
        let is_usual = rest.dur() < self.usual.latency || (is_prompt && role != Role::GraphLaunch);
        let segment = if is_usual {
            flags(GapClass::LaunchLatency, within, rest)
        } else if role == Role::GraphLaunch {
            flags(GapClass::Graph, within, rest)
        } else if let Some(producer) = self.producer(scene) {
            // The wait begins when the call is over.
            if rest.start < returned {
                push(out, flags(GapClass::LaunchLatency, Some(call), TimeRange { end: returned, ..rest }));
                rest.start = returned;
            }
            flags(GapClass::Dependency, Some(producer), rest)
        } else {
            flags(GapClass::Queued, within, rest)
        };
        push(out, segment);
    }

    /// What the work after a gap waited for on another stream.
    fn producer(&self, scene: &Scene) -> Option<SliceId> {
        let elsewhere = || self.waits.producer_elsewhere(self.trace, scene, self.usual.latency);
        self.waits.producer(self.trace, scene).or_else(elsewhere)
    }

    /// Whether earlier work of the same launch of a graph ran before the gap.
    fn is_inside_graph(&mut self, scene: &Scene) -> bool {
        let nodes = &self.trace.facts.graph_nodes;
        match scene.call {
            Some(call) => scene.last_graph == Some(call),
            None => {
                let [after, ended_by] = [scene.after, scene.ended_by].map(|work| nodes.get(work));
                after.zip(ended_by).is_some_and(|(a, b)| (a.graph, a.exec) == (b.graph, b.exec))
            }
        }
    }

    fn overlay_profiler(&self, range: TimeRange, out: &mut Vec<Segment>) {
        let class = (GapClass::Profiler, Activity::Works);
        overlay(&self.overheads.profiler, &self.near.profiler, range, class, |_| true, out);
    }

    /// Device code is loaded inside the call that needs it first, or the operator or function: not all calls that load
    /// are recorded.
    fn overlay_loading(&self, range: TimeRange, out: &mut Vec<Segment>) {
        let is_call = |segment: &Segment| {
            let is_work = matches!(segment.class, GapClass::Launch | GapClass::CpuOp | GapClass::Python);
            is_work && segment.activity == Activity::Works
        };
        let class = (GapClass::ModuleLoad, Activity::Works);
        overlay(&self.overheads.loading, &self.near.loading, range, class, is_call, out);
    }
}
