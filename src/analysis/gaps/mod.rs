//! The gap ledger: all idle time of a device, each gap in parts by cause (F1, F2).

mod causes;
pub mod ceiling;
mod class;
pub mod clusters;
mod host;
mod index;
mod overlay;
mod place;
mod roles;
#[cfg(test)]
mod tests;
mod theta;
mod waits;
mod work;

use std::ops::Range;

use rayon::prelude::*;

use self::causes::{Causes, Scene};
pub use self::class::{GapClass, Trigger};
use self::host::Segment;
pub use self::index::{IdleByClass, LedgerIndex};
use self::overlay::Overheads;
pub use self::place::{Place, place};
use self::theta::{Usual, usual};
use self::waits::Waits;
use self::work::{Calls, in_order};
use super::busy::DeviceBusy;
use super::steps::Steps;
use crate::model::{DurNs, ProcessId, SliceId, TimeNs, TimeRange, Trace};

/// One gap of a device: nothing runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub time: TimeRange,
    /// The work that ran last before it.
    pub after: SliceId,
    /// The work that ends it; of several that start at once, the one launched first.
    pub ended_by: SliceId,
    pub trigger: Option<Trigger>,
    /// The slice that triggered it: the synchronization, the launch of the graph, or the profiler's overhead.
    pub trigger_slice: Option<SliceId>,
}

/// A part of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapPart {
    pub time: TimeRange,
    pub class: GapClass,
    /// The host slice that explains it, such as a call or an operator; for [`GapClass::Dependency`] the work
    /// waited for.
    pub slice: Option<SliceId>,
}

/// Count and time of some gaps or parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapTotals {
    /// Gaps; in totals by class, gaps with a part of the class.
    pub count: u64,
    pub total_ns: DurNs,
}

/// All idle time of one device between its first start and last end.
///
/// The gaps are those between [`DeviceBusy::busy`]: busy time and gaps sum to the window, and the parts of each gap
/// to its length.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub process: ProcessId,
    /// Recorded device index.
    pub device: u32,
    pub window: TimeRange,
    /// The longest usual time between two pieces of work that were launched ahead, in nanoseconds: shorter gaps
    /// are micro gaps.
    pub theta_ns: DurNs,
    pub coverage: Coverage,
    gaps: Vec<StoredGap>,
    parts: Vec<StoredPart>,
}

/// How much of a ledger the recording can explain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Time of gaps at which an operator was open on the thread in question, in nanoseconds.
    pub operator_ns: DurNs,
    /// The same for a frame of the user's program.
    pub frame_ns: DurNs,
    /// Pieces of device work, and how many of them have a recorded launch.
    pub work: u64,
    pub launched: u64,
}

/// The gap before `ended_by`.
#[derive(Clone, Copy, Debug)]
struct StoredGap {
    start: TimeNs,
    end: TimeNs,
    after: SliceId,
    ended_by: SliceId,
    /// Index into [`Ledger::parts`]; the parts end where those of the next gap begin.
    first_part: u32,
    /// [`NONE`] without one.
    trigger_slice: SliceId,
    trigger: Option<Trigger>,
}

/// A part, up to the next one of its gap.
#[derive(Clone, Copy, Debug)]
struct StoredPart {
    start: TimeNs,
    /// [`NONE`] if nothing explains it.
    slice: SliceId,
    class: GapClass,
}

/// No slice.
const NONE: SliceId = SliceId(u32::MAX);

/// Totals of a ledger or of a range of it. `micro + macro = all`, and the totals by class sum to `all.total_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerTotals {
    pub all: GapTotals,
    /// Gaps shorter than [`Ledger::theta_ns`].
    pub micro: GapTotals,
    pub macro_: GapTotals,
    /// By [`GapClass`].
    pub by_class: [GapTotals; GapClass::N],
}

impl Ledger {
    /// Number of gaps.
    pub fn len(&self) -> usize {
        self.gaps.len()
    }

    /// Whether the device never waits.
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// A gap by its index; gaps ascend in time.
    pub fn gap(&self, index: usize) -> Gap {
        let StoredGap { start, end, after, ended_by, trigger, trigger_slice, .. } = self.gaps[index];
        let trigger_slice = (trigger_slice != NONE).then_some(trigger_slice);
        Gap { time: TimeRange { start, end }, after, ended_by, trigger, trigger_slice }
    }

    /// The parts of a gap in order of time. Their lengths sum to that of the gap.
    pub fn parts(&self, index: usize) -> impl ExactSizeIterator<Item = GapPart> {
        let gap = self.gaps[index];
        let end = self.gaps.get(index + 1).map_or(self.parts.len(), |next| next.first_part as usize);
        let parts = &self.parts[gap.first_part as usize..end];
        parts.iter().enumerate().map(move |(i, part)| {
            let end = parts.get(i + 1).map_or(gap.end, |next| next.start);
            let slice = (part.slice != NONE).then_some(part.slice);
            GapPart { time: TimeRange { start: part.start, end }, class: part.class, slice }
        })
    }

    /// The gap that begins at `start`. Cost: O(log n).
    pub fn at(&self, start: TimeNs) -> Option<usize> {
        self.gaps.binary_search_by_key(&start, |gap| gap.start).ok()
    }

    /// The gaps that overlap `range`. Cost: O(log n).
    pub fn within(&self, range: TimeRange) -> Range<usize> {
        let first = self.gaps.partition_point(|gap| gap.end <= range.start);
        let last = self.gaps.partition_point(|gap| gap.start < range.end);
        first..last.max(first)
    }

    /// Totals of the time within `range`; gaps count as micro or macro by their full length.
    ///
    /// Ranges that tile the window sum to its totals, except for counts. Cost: O(parts in range).
    pub fn totals(&self, range: TimeRange) -> LedgerTotals {
        let mut out = LedgerTotals::default();
        for index in self.within(range) {
            let gap = self.gap(index);
            let Some(time) = gap.time.intersect(range) else { continue };
            let by_size = if gap.time.dur() < self.theta_ns { &mut out.micro } else { &mut out.macro_ };
            for totals in [by_size, &mut out.all] {
                totals.count += 1;
                totals.total_ns += time.dur();
            }
            let mut seen = 0_u32;
            for part in self.parts(index) {
                let Some(time) = part.time.intersect(range) else { continue };
                let totals = &mut out.by_class[part.class as usize];
                let bit = 1 << part.class as u32;
                totals.count += u64::from(seen & bit == 0);
                totals.total_ns += time.dur();
                seen |= bit;
            }
        }
        out
    }
}

/// The ledgers of the devices of a trace, in their order.
///
/// * `steps`: the steps of the trace, for [`Trigger::StepBoundary`].
/// * Cost: O(n log k) for n slices of the devices in k rows, and of the threads that launched; devices in
///   parallel. Incomplete if cancelled.
pub fn ledgers(
    trace: &Trace,
    busy: &[DeviceBusy],
    steps: Option<&Steps>,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Vec<Ledger> {
    let calls = Calls::new(trace);
    let overheads = Overheads::new(trace);
    let waits = Waits::new(trace, &calls);
    let ledger = |busy: &DeviceBusy| {
        let usual = usual(trace, busy.process, &calls);
        let causes = Causes::new(trace, &calls, &overheads, &waits, steps, usual);
        let theta_ns = usual.theta;
        let ledger =
            Ledger { process: busy.process, device: busy.device, window: busy.window, theta_ns, ..Ledger::default() };
        Sweep { trace, calls: &calls, usual, causes, ledger }.run(is_cancelled)
    };
    busy.par_iter().map(ledger).collect()
}

/// The ledger of one device, for tests with a few nanoseconds: all its gaps are macro gaps.
#[cfg(test)]
pub fn ledger(
    trace: &Trace,
    busy: &DeviceBusy,
    steps: Option<&Steps>,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Ledger {
    Ledger { theta_ns: 0, ..ledgers(trace, std::slice::from_ref(busy), steps, is_cancelled).remove(0) }
}

/// One pass over the work of a device.
struct Sweep<'a> {
    trace: &'a Trace,
    calls: &'a Calls,
    usual: Usual,
    causes: Causes<'a>,
    ledger: Ledger,
}

impl Sweep<'_> {
    /// Between two looks at whether the answer is still wanted.
    const BATCH: u32 = 4096;

    /// A gap is before all work that starts later than all before it ended. Work without a length ends and
    /// begins gaps, too.
    fn run(mut self, is_cancelled: &dyn Fn() -> bool) -> Ledger {
        let slices = &self.trace.slices;
        let mut on_stream: Vec<Option<SliceId>> = vec![None; self.trace.tracks.len()];
        // The work that ends last of all so far, with its launch.
        let mut last: Option<(SliceId, Option<SliceId>)> = None;
        let (mut last_graph, mut run) = (None, 0);
        let mut segments = Vec::new();
        for (work, n) in in_order(self.trace, self.ledger.process).zip(1_u32..) {
            if n.is_multiple_of(Self::BATCH) && is_cancelled() {
                break;
            }
            let time = slices.time(work);
            let call = self.calls.of(self.trace, work);
            let before_on_stream = on_stream[slices.track_of(work).0 as usize].replace(work);
            if let Some((after, after_call)) = last.filter(|last| slices.end[last.0.idx()] < time.start) {
                let scene = Scene {
                    gap: TimeRange { start: slices.end[after.idx()], end: time.start },
                    after,
                    ended_by: work,
                    after_call,
                    call,
                    before_on_stream,
                    last_graph,
                    launch_bound_run: run,
                };
                self.add(&scene, &mut segments);
            }
            self.ledger.coverage.work += 1;
            if let Some(call) = call {
                self.ledger.coverage.launched += 1;
                if self.causes.launches_graph(call) {
                    last_graph = Some(call);
                } else {
                    let is_late = time.start - slices.end[call.idx()] < self.usual.latency;
                    run = if is_late { run + 1 } else { 0 };
                }
            }
            if last.is_none_or(|last| slices.end[last.0.idx()] <= time.end) {
                last = Some((work, call));
            }
        }
        self.ledger.gaps.shrink_to_fit();
        self.ledger.parts.shrink_to_fit();
        self.ledger
    }

    fn add(&mut self, scene: &Scene, segments: &mut Vec<Segment>) {
        self.causes.parts(scene, segments);
        let trigger = self.causes.trigger(scene, segments);
        let ledger = &mut self.ledger;
        ledger.gaps.push(StoredGap {
            start: scene.gap.start,
            end: scene.gap.end,
            after: scene.after,
            ended_by: scene.ended_by,
            first_part: ledger.parts.len() as u32,
            trigger_slice: trigger.and_then(|trigger| trigger.1).unwrap_or(NONE),
            trigger: trigger.map(|trigger| trigger.0),
        });
        let mut last = None;
        for segment in &*segments {
            ledger.coverage.operator_ns += if segment.has_operator { segment.time.dur() } else { 0 };
            ledger.coverage.frame_ns += if segment.has_frame { segment.time.dur() } else { 0 };
            if last.replace((segment.class, segment.slice)) != Some((segment.class, segment.slice)) {
                let slice = segment.slice.unwrap_or(NONE);
                ledger.parts.push(StoredPart { start: segment.time.start, slice, class: segment.class });
            }
        }
    }
}
