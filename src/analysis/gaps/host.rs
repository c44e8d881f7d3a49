//! Activity of a thread at each instant of an interval.

use std::cmp::Reverse;
use std::ops::Range;

use hashbrown::{HashMap, HashSet};

use super::by_track::ByTrack;
use super::work::LOADING;
use super::{GapClass, Near};
use crate::analysis::host_roles::{READS_BACK, Role, Roles};
use crate::analysis::phases::{Phase, phase_of_range};
use crate::analysis::steps::is_step_name;
use crate::model::{
    CopyKind, DurNs, MOST_ROWS, Row, SliceId, SliceKind, SliceTable, TimeNs, TimeRange, Trace, TrackId,
};

/// A call of no class that lasts this long, in nanoseconds, names its part in place of the operator or frame around
/// it: `cudaGetDeviceProperties`. Ordinary ones take 1-10 us.
const LONG_CALL: DurNs = 50_000;

/// How much a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    Works,
    /// Waits for another thread.
    Waits,
    /// Nothing that explains the time was recorded.
    Nothing,
}

/// A stretch of time with one cause.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub time: TimeRange,
    pub class: GapClass,
    pub slice: Option<SliceId>,
    pub activity: Activity,
    /// Whether an operator, or a Python frame, was open.
    pub has_operator: bool,
    pub has_frame: bool,
}

impl Segment {
    pub fn new(time: TimeRange, class: GapClass, slice: Option<SliceId>) -> Self {
        Self { time, class, slice, activity: Activity::Works, has_operator: false, has_frame: false }
    }
}

/// The host threads of a trace, read forward in time.
#[derive(Debug)]
pub struct Host<'a> {
    trace: &'a Trace,
    /// Launches that load code.
    loading: &'a HashSet<SliceId>,
    pub roles: Roles,
    threads: ByTrack<Thread>,
    /// Whether any operator or Python frame was recorded.
    has_context: bool,
    /// Whether any operator was.
    has_operators: bool,
    /// Operators and ranges whose class depends on what lies inside.
    judged: HashMap<SliceId, GapClass>,
    /// Where something was found last: what is judged next is near.
    near: Near,
    theta: DurNs,
    /// Slices across others that overlap the interval, and those open at an instant, the outermost first. Kept for
    /// their memory.
    crossing: Vec<u32>,
    open: Vec<Open>,
}

/// A slice that is open, with what is known of it and those around it together: most of a deep stack stays open from
/// one instant to the next, and is judged once.
#[derive(Clone, Copy, Debug)]
struct Open {
    slice: SliceId,
    role: Role,
    is_nested: bool,
    /// How many of them are nested: the next one is of the row with this index.
    depth: usize,
    /// When the first of them ends.
    end: TimeNs,
    has_operator: bool,
    has_frame: bool,
    /// Whether one of them may decide the class, whatever runs inside.
    has_cause: bool,
}

/// The rows of a thread: slices of a nested row run inside those of the row above.
#[derive(Debug, Default)]
struct Thread {
    nested: Vec<Cursor>,
    crossing: Vec<Cursor>,
}

/// The slices of one row from the first that is not over.
#[derive(Debug)]
struct Cursor {
    first: usize,
    next: usize,
    end: usize,
}

impl Cursor {
    /// The slices that end after `ts`, in order.
    fn seek(&mut self, slices: &SliceTable, ts: TimeNs) -> Range<usize> {
        while self.next > self.first && slices.end[self.next - 1] > ts {
            self.next -= 1;
        }
        while self.next < self.end && slices.end[self.next] <= ts {
            self.next += 1;
        }
        self.next..self.end
    }
}

impl<'a> Host<'a> {
    pub fn new(trace: &'a Trace, loading: &'a HashSet<SliceId>, theta: DurNs) -> Self {
        let (roles, threads, judged, crossing, open) = Default::default();
        let has_context =
            [SliceKind::Operator, SliceKind::PythonFunction].iter().any(|&kind| trace.slices.has_kind(kind));
        let has_operators = trace.slices.has_kind(SliceKind::Operator);
        let near = Near::new(trace);
        Self { trace, loading, roles, threads, has_context, has_operators, judged, near, theta, crossing, open }
    }

    /// Adds what `track` did during `range` in order of time; the segments tile the range.
    ///
    /// At each instant the open slices are judged from the innermost outwards. A slice with a definite class
    /// decides; without one, the innermost operator, frame or call of the operating system.
    ///
    /// Cost: O(m) for m slices in the range, and the slices between it and the last range of the track: O(slices of the
    /// track) for all of ascending ranges. Of m slices across others O(m log m).
    pub fn tile(&mut self, track: TrackId, range: TimeRange, out: &mut Vec<Segment>) {
        let slices = &self.trace.slices;
        let mut thread = std::mem::take(self.thread(track));
        let mut crossing = std::mem::take(&mut self.crossing);
        crossing.clear();
        for row in &mut thread.crossing {
            let overlapping = row.seek(slices, range.start).take_while(|&i| slices.ts[i] < range.end);
            crossing.extend(overlapping.map(|i| i as u32));
        }
        let order = |i: u32| (slices.ts[i as usize], Reverse(slices.end[i as usize]), i);
        crossing.sort_unstable_by_key(|&i| order(i));
        let mut open = std::mem::take(&mut self.open);
        open.clear();
        if let Some(row) = thread.nested.first_mut() {
            row.seek(slices, range.start);
        }
        let (mut n_crossed, mut at) = (0, range.start);
        while at < range.end {
            self.close(&mut open, at);
            let mut until = range.end;
            loop {
                let depth = open.last().map_or(0, |open| open.depth);
                let inner = thread.nested.get(depth).filter(|row| row.next < row.end).map(|row| row.next as u32);
                let across = crossing.get(n_crossed).copied();
                let is_nested = inner.is_some_and(|inner| across.is_none_or(|across| order(inner) < order(across)));
                let Some(i) = (if is_nested { inner } else { across }) else { break };
                if slices.ts[i as usize] > at {
                    until = until.min(slices.ts[i as usize]);
                    break;
                }
                if is_nested {
                    thread.nested[depth].next += 1;
                } else {
                    n_crossed += 1;
                }
                if slices.end[i as usize] > at {
                    open.push(self.opened(SliceId(i), is_nested, open.last()));
                    if let Some(row) = thread.nested.get_mut(depth + 1).filter(|_| is_nested) {
                        row.seek(slices, at);
                    }
                }
            }
            until = open.last().map_or(until, |open| open.end.min(until));
            let segment = self.judge(&open, TimeRange { start: at, end: until });
            push(out, segment);
            at = until;
        }
        (self.crossing, self.open) = (crossing, open);
        *self.thread(track) = thread;
    }

    /// Removes what is over at `at`.
    fn close(&mut self, open: &mut Vec<Open>, at: TimeNs) {
        // `end` descends inwards, and little is over at once.
        let n_over = open.iter().rev().take_while(|open| open.end <= at).count();
        let first = open.len() - n_over;
        let mut kept = first;
        for i in first..open.len() {
            let Open { slice, is_nested, .. } = open[i];
            if self.trace.slices.end[slice.idx()] > at {
                open[kept] = self.opened(slice, is_nested, kept.checked_sub(1).map(|around| &open[around]));
                kept += 1;
            }
        }
        open.truncate(kept);
    }

    /// A slice that is open inside of `around`.
    fn opened(&mut self, slice: SliceId, is_nested: bool, around: Option<&Open>) -> Open {
        let slices = &self.trace.slices;
        let (role, is_frame) = self.roles.with_frame(self.trace, slice);
        let end = slices.end[slice.idx()];
        Open {
            slice,
            role,
            is_nested,
            depth: around.map_or(0, |around| around.depth) + usize::from(is_nested),
            end: around.map_or(end, |around| around.end.min(end)),
            has_operator: slices.kind[slice.idx()] == SliceKind::Operator || around.is_some_and(|it| it.has_operator),
            has_frame: is_frame || around.is_some_and(|around| around.has_frame),
            has_cause: may_decide(role) || around.is_some_and(|around| around.has_cause),
        }
    }

    /// Whether an operator, and whether a Python frame, is open on a thread. Cost as for [`Self::tile`].
    pub fn is_inside(&mut self, track: TrackId, at: TimeNs) -> (bool, bool) {
        if !self.has_context {
            return (false, false);
        }
        let slices = &self.trace.slices;
        let mut thread = std::mem::take(self.thread(track));
        let open_in = |row: &mut Cursor| row.seek(slices, at).next().filter(|&i| slices.ts[i] <= at);
        let nested = thread.nested.iter_mut().map_while(open_in);
        let (mut has_operator, mut has_frame) = (false, false);
        for slice in nested.chain(thread.crossing.iter_mut().filter_map(open_in)).map(|i| SliceId(i as u32)) {
            let kind = slices.kind[slice.idx()];
            has_operator |= kind == SliceKind::Operator;
            has_frame |= kind == SliceKind::PythonFunction && self.roles.with_frame(self.trace, slice).1;
        }
        *self.thread(track) = thread;
        (has_operator, has_frame)
    }

    fn thread(&mut self, track: TrackId) -> &mut Thread {
        self.threads.of(track, || {
            let rows = self.trace.rows(track);
            let rows = &rows[..rows.len().min(MOST_ROWS)];
            let cursors = |is_overflow| {
                let rows = rows.iter().filter(|row| row.is_overflow == is_overflow).map(Row::range);
                rows.map(|row| Cursor { first: row.start, next: row.start, end: row.end }).collect()
            };
            Thread { nested: cursors(false), crossing: cursors(true) }
        })
    }

    /// The cause by the open slices, the innermost last.
    fn judge(&mut self, open: &[Open], time: TimeRange) -> Segment {
        let trace = self.trace;
        let mut decided: Option<(GapClass, SliceId)> = None;
        // May be overruled by data loading around it.
        let mut is_soft = false;
        let mut generic: Option<(GapClass, SliceId, Activity)> = None;
        let mut named: Option<SliceId> = None;
        // A long call of no class, inside of all operators and frames.
        let mut call: Option<SliceId> = None;
        let (has_operator, has_frame) = open.last().map_or((false, false), |it| (it.has_operator, it.has_frame));
        for &Open { slice, role, has_cause, .. } in open.iter().rev() {
            if !has_cause && (decided.is_some() || generic.is_some()) {
                break;
            }
            let kind = trace.slices.kind[slice.idx()];
            if let Some((class, _)) = decided {
                // Of nested slices the outermost names what goes on.
                let is_whole = matches!(role, Role::DataLoading | Role::Collective | Role::ModuleLoad);
                if is_whole && !kind.is_call() && (class == class_of(role) || is_soft && role == Role::DataLoading) {
                    decided = Some((class_of(role), slice));
                    is_soft = false;
                }
                continue;
            }
            let class = match role {
                Role::CopyCall | Role::SyncOperator | Role::CopyOperator => self.judged_by_content(slice, role),
                Role::Launch if self.loading.contains(&slice) => GapClass::ModuleLoad,
                Role::LazyLoad if trace.slices.time(slice).dur() >= LOADING => GapClass::ModuleLoad,
                // What works in it has a cause of its own. A recorder of operators shows the collectives themselves.
                Role::CollectiveRange if self.has_operators || generic.is_some_and(is_own_work) => GapClass::Unknown,
                role => class_of(role),
            };
            match class {
                GapClass::Unknown => {
                    named = named.or(Some(slice).filter(|_| role != Role::Nothing));
                    let is_long = || trace.slices.time(slice).dur() >= LONG_CALL;
                    if kind.is_call() && generic.is_none() && is_long() {
                        call = call.or(Some(slice));
                    }
                }
                GapClass::CpuOp | GapClass::Python | GapClass::Blocked => {
                    let waits = matches!(role, Role::OsWait | Role::PythonWait | Role::QueueWait | Role::Wait);
                    let activity = if waits { Activity::Waits } else { Activity::Works };
                    generic = generic.or(Some((class, slice, activity)));
                }
                class => {
                    is_soft = role == Role::CopyOperator;
                    decided = Some((class, slice));
                }
            }
        }
        let (class, slice, activity) = match (decided, generic) {
            (Some((class, slice)), _) => (class, Some(slice), Activity::Works),
            (None, Some((class, slice, activity))) => (class, call.or(Some(slice)), activity),
            (None, None) => (self.class_of_named(named), named, Activity::Nothing),
        };
        Segment { time, class, slice, activity, has_operator, has_frame }
    }

    /// The class of time of which only this slice is recorded.
    fn class_of_named(&mut self, slice: Option<SliceId>) -> GapClass {
        let is_range = |slice: &SliceId| {
            let kind = self.trace.slices.kind[slice.idx()];
            matches!(kind, SliceKind::Annotation | SliceKind::Operator)
        };
        match slice.filter(is_range) {
            Some(slice) if matches!(self.roles.of(self.trace, slice), Role::Range | Role::CollectiveRange) => {
                self.judged_by_content(slice, Role::Range)
            }
            _ => GapClass::Unknown,
        }
    }

    /// The class of a slice that depends on the calls inside it, or on the copy that it starts.
    fn judged_by_content(&mut self, slice: SliceId, role: Role) -> GapClass {
        if role == Role::CopyCall {
            return if self.is_on_device(slice) { GapClass::Launch } else { GapClass::Copy };
        }
        if let Some(&class) = self.judged.get(&slice) {
            return class;
        }
        let class = self.content_class(slice, role);
        self.judged.insert(slice, class);
        class
    }

    fn content_class(&mut self, slice: SliceId, role: Role) -> GapClass {
        let trace = self.trace;
        let (mut copies, mut syncs, mut launches) = (false, false, false);
        let first = |row, ts: &[TimeNs], start| self.near.partition(row, ts, |&ts| ts < start);
        let inside = trace.slices.inside_near(slice, first);
        for inside in inside.map(|i| SliceId(i as u32)) {
            if !trace.slices.kind[inside.idx()].is_call() {
                continue;
            }
            match self.roles.of(trace, inside) {
                Role::CopyCall if self.is_on_device(inside) => launches = true,
                Role::CopyCall => copies = true,
                Role::Sync => syncs = true,
                Role::Launch | Role::GraphLaunch => launches = true,
                _ => {}
            }
            if launches && role == Role::Range {
                break;
            }
        }
        let is_python = trace.slices.kind[slice.idx()] == SliceKind::PythonFunction;
        let ordinary = if is_python { GapClass::Python } else { GapClass::CpuOp };
        // Without calls inside, the tensor is on the host: reading it takes no time, copying it may.
        let is_long = trace.slices.time(slice).dur() >= self.theta && !launches;
        match role {
            Role::Range if launches || is_enclosing(trace.slice_name(slice)) => GapClass::Unknown,
            Role::SyncOperator if copies || syncs || is_long && trace.slices.time(slice).dur() >= READS_BACK => {
                GapClass::Sync
            }
            Role::CopyOperator if copies || syncs || is_long => GapClass::Copy,
            _ => ordinary,
        }
    }

    /// Whether a call copies from device to device, which needs nothing of the host.
    pub fn is_on_device(&self, call: SliceId) -> bool {
        let copies = &self.trace.facts.copies;
        let kind = |work| copies.get(work).map_or(CopyKind::Unknown, |copy| copy.kind);
        let mut kinds = self.trace.launched_by(call).map(kind).peekable();
        kinds.peek().is_some() && kinds.all(|kind| matches!(kind, CopyKind::DtoD | CopyKind::PtoP | CopyKind::Memset))
    }
}

/// Whether a slice runs an operator or Python, and does not wait.
fn is_own_work((class, _, activity): (GapClass, SliceId, Activity)) -> bool {
    matches!(class, GapClass::CpuOp | GapClass::Python) && activity == Activity::Works
}

/// Appends a segment, joined to the last one if both have one cause.
pub fn push(out: &mut Vec<Segment>, segment: Segment) {
    match out.last_mut() {
        Some(last)
            if last.time.end == segment.time.start && (Segment { time: segment.time, ..*last }).is_like(&segment) =>
        {
            last.time.end = segment.time.end;
        }
        _ => out.push(segment),
    }
}

impl Segment {
    fn is_like(&self, other: &Self) -> bool {
        let key =
            |segment: &Self| (segment.class, segment.slice, segment.activity, segment.has_operator, segment.has_frame);
        key(self) == key(other)
    }
}

/// Whether a range encloses whatever a program does, which says nothing of the host: a step or a phase of one. Their
/// launches may be on another thread, as those of `backward` are.
fn is_enclosing(name: &str) -> bool {
    let is_pass = |phase| matches!(phase, Phase::Forward | Phase::Backward | Phase::Optimizer);
    is_step_name(name) || phase_of_range(name).is_some_and(is_pass)
}

/// Whether a slice of this role may decide the class of a time in which other slices run inside of it.
fn may_decide(role: Role) -> bool {
    let is_generic =
        matches!(class_of(role), GapClass::Unknown | GapClass::CpuOp | GapClass::Python | GapClass::Blocked);
    !is_generic || role == Role::LazyLoad
}

/// The class of a slice by its role; [`GapClass::Unknown`] if it is not a cause.
pub fn class_of(role: Role) -> GapClass {
    match role {
        Role::Sync | Role::SyncOperator => GapClass::Sync,
        Role::DataLoading => GapClass::DataLoading,
        Role::CopyCall | Role::CopyOperator => GapClass::Copy,
        Role::Allocator | Role::Free => GapClass::Allocator,
        Role::ModuleLoad => GapClass::ModuleLoad,
        Role::Gc => GapClass::Gc,
        Role::Collective | Role::CollectiveRange => GapClass::Collective,
        Role::Launch | Role::GraphLaunch => GapClass::Launch,
        Role::Profiler => GapClass::Profiler,
        Role::OsWait | Role::Os | Role::QueueWait | Role::Wait => GapClass::Blocked,
        Role::Operator => GapClass::CpuOp,
        Role::PythonWait | Role::Python => GapClass::Python,
        Role::Call | Role::LazyLoad | Role::Range | Role::Nothing => GapClass::Unknown,
    }
}

/// The synchronizations of a thread in order of time: the calls that waited for the device.
///
/// Copies to pageable memory count where the call lasted until its copy was over, and those from there if the device
/// was at work when the call began: small ones are staged, and the call returns at once. Calls that free memory count:
/// they empty the queue, although their time is the allocator's. Calls that allocate may wait, too, but nothing shows
/// it. Cost: O(slices of the track).
pub fn syncs(trace: &Trace, track: TrackId, host: &mut Host<'_>) -> Vec<SliceId> {
    let slices = &trace.slices;
    let mut found = Vec::new();
    for slice in trace.track_slices(track).map(|i| SliceId(i as u32)) {
        let is_sync = match host.roles.of(trace, slice) {
            Role::Sync | Role::Free => slices.kind[slice.idx()].is_call(),
            Role::CopyCall => {
                let mut work = trace.launched_by(slice);
                let waits = |work: SliceId| match trace.facts.copies.get(work) {
                    Some(copy) if copy.kind == CopyKind::HtoD => {
                        copy.is_pageable == Some(true) && has_queued(trace, work, slices.ts[slice.idx()])
                    }
                    copy => copy.is_some_and(|copy| copy.kind == CopyKind::DtoH),
                };
                work.any(|work| slices.end[work.idx()] <= slices.end[slice.idx()] && waits(work))
            }
            Role::SyncOperator => {
                let class = host.judged_by_content(slice, Role::SyncOperator);
                class == GapClass::Sync && !has_call(trace, slice)
            }
            _ => false,
        };
        if is_sync {
            found.push(slice);
        }
    }
    let key = |slice: &SliceId| -> (TimeNs, SliceId) { (slices.ts[slice.idx()], *slice) };
    found.sort_unstable_by_key(key);
    found
}

/// Whether the stream of a piece of work had not finished the work before it at `ts`.
fn has_queued(trace: &Trace, work: SliceId, ts: TimeNs) -> bool {
    let slices = &trace.slices;
    let before = work.0.checked_sub(1).map(SliceId);
    before.is_some_and(|before| slices.track_of(before) == slices.track_of(work) && slices.end[before.idx()] > ts)
}

/// Whether an API call lies inside.
fn has_call(trace: &Trace, slice: SliceId) -> bool {
    trace.slices.inside(slice).any(|i| trace.slices.kind[i].is_call())
}
