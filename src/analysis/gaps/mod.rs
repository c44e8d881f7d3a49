//! The gap ledger: all idle time of a device, each gap in parts by cause (F1, F2).

pub mod ceiling;
mod class;
pub mod clusters;
mod index;

use std::ops::Range;

pub use self::class::{GapClass, Trigger};
pub use self::index::{IdleByClass, LedgerIndex};
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
    /// The longest usual time between a launch and its start on an idle device, in nanoseconds: shorter gaps
    /// are micro gaps.
    pub theta_ns: DurNs,
    gaps: Vec<StoredGap>,
    parts: Vec<StoredPart>,
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
        let StoredGap { start, end, after, ended_by, trigger, .. } = self.gaps[index];
        Gap { time: TimeRange { start, end }, after, ended_by, trigger }
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

/// The gaps of a device with their causes.
///
/// * `steps`: the steps of the trace, for [`Trigger::StepBoundary`].
/// * Cost: O(n) for n slices of the device. Incomplete if cancelled.
pub fn ledger(trace: &Trace, busy: &DeviceBusy, steps: Option<&Steps>, is_cancelled: &dyn Fn() -> bool) -> Ledger {
    _ = steps;
    let mut out = Ledger { process: busy.process, device: busy.device, window: busy.window, ..Ledger::default() };
    out.gaps = gaps(busy);
    find_neighbors(trace, busy.process, &mut out.gaps, is_cancelled);
    for gap in &mut out.gaps {
        gap.first_part = out.parts.len() as u32;
        out.parts.push(StoredPart { start: gap.start, slice: NONE, class: GapClass::Unknown });
    }
    out
}

/// The time between the busy ranges.
fn gaps(busy: &DeviceBusy) -> Vec<StoredGap> {
    let gap = |pair: &[TimeRange]| StoredGap {
        start: pair[0].end,
        end: pair[1].start,
        after: NONE,
        ended_by: NONE,
        first_part: 0,
        trigger: None,
    };
    busy.busy.windows(2).map(gap).collect()
}

/// Finds the work before and after each gap. Cost: O(slices of the device + gaps x rows).
fn find_neighbors(trace: &Trace, process: ProcessId, gaps: &mut [StoredGap], is_cancelled: &dyn Fn() -> bool) {
    let slices = &trace.slices;
    let rows = slices.rows.iter().filter(|row| trace.track(row.track).process == process);
    for row in rows.take_while(|_| !is_cancelled()) {
        // Annotations on the device nest around the work but are none.
        let mut work = row.range().filter(|&i| slices.kind[i].is_device_work()).peekable();
        let mut before: Option<usize> = None;
        for gap in &mut *gaps {
            while let Some(i) = work.next_if(|&i| slices.ts[i] < gap.end) {
                before = Some(i);
            }
            // Where several begin or end at once, the one launched first ends the gap, and the last one precedes it.
            let key = |i: SliceId| (slices.correlation[i.idx()], i);
            if let Some(next) = work.peek().map(|&i| SliceId(i as u32)).filter(|next| slices.ts[next.idx()] == gap.end)
                && (gap.ended_by == NONE || key(next) < key(gap.ended_by))
            {
                gap.ended_by = next;
            }
            if let Some(last) = before.map(|i| SliceId(i as u32)).filter(|last| slices.end[last.idx()] == gap.start)
                && (gap.after == NONE || key(last) > key(gap.after))
            {
                gap.after = last;
            }
        }
    }
}
