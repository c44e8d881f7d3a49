//! The gap ledger: all idle time of a device, each gap in parts by cause (F1, F2).

mod by_track;
mod causes;
pub mod ceiling;
mod class;
pub mod clusters;
pub mod hidden;
mod host;
mod index;
mod known;
mod loaders;
mod overlay;
mod parts;
mod place;
pub mod recorder;
mod scenes;
mod sweep;
#[cfg(test)]
mod tests;
mod theta;
mod trigger;
mod waits;
mod work;

use std::ops::Range;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;

pub use self::class::{GapClass, Trigger};
pub use self::index::{IdleByClass, LedgerIndex, is_of_steps, moment_of};
use self::known::Change;
use self::overlay::Overheads;
pub use self::overlay::{inferred_ns, on_cpu_ns, waits_in, waits_within};
pub use self::parts::Parts;
use self::parts::StoredPart;
use self::place::backward_threads;
pub use self::place::{
    BACKWARD_NODE, GapPlace, Near, frame, open_during, origin_of_call, place, place_of_call, slices_of_place,
};
use self::sweep::sweep;
use self::theta::{Usual, usual};
use self::waits::Waits;
pub use self::work::loading_launches;
use super::busy::DeviceBusy;
use super::steps::Steps;
use crate::model::{DurNs, ProcessId, SliceId, TimeNs, TimeRange, Trace, TrackId};

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
    /// In what the host lost the lead, some time before, that it would have had here: in a synchronization, loading
    /// data, and so on. `None` if it would not have been ahead anyway. After a synchronization that made the gap
    /// possible: `Sync`, if the wait explains it.
    pub refill: Option<GapClass>,
}

impl Gap {
    /// Whether the device would not have waited for the host had that been ahead, and what took its lead can be ended.
    pub fn is_of_lost_lead(&self) -> bool {
        self.refill.is_some() || self.trigger == Some(Trigger::LaunchBound)
    }

    /// How long before the gap the call had returned that launched the work after it; `None` if it had not, or was not
    /// recorded.
    pub fn launched_before(&self, trace: &Trace) -> Option<DurNs> {
        let call = trace.launch_of(self.ended_by)?;
        Some(self.time.start.saturating_sub(trace.slices.end[call.idx()])).filter(|&ns| ns >= 0)
    }
}

/// A part of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapPart {
    pub time: TimeRange,
    pub class: GapClass,
    /// The host slice that explains it, such as a call or an operator; for [`GapClass::Dependency`] the work
    /// waited for. A launch call that had returned before the gap explains nothing.
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
    /// Whether nothing was looked for that explains its gaps: each is one part without a cause; see
    /// [`Ground::ledgers`].
    pub is_untold: bool,
    /// Threads that at some time wait in `backward()` for the thread of autograd.
    backward: Arc<[TrackId]>,
    gaps: Vec<StoredGap>,
    /// The parts of the gaps that have several, ascending.
    several: Vec<StoredPart>,
    /// Index and end of the gaps that are too long for [`StoredGap::dur`], ascending.
    long: Vec<(u32, TimeNs)>,
    /// What is known from when on, of the gaps during which that changes; ascending.
    changes: Vec<Change>,
}

/// How much of a ledger the recording can explain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Time of gaps at which an operator was open on the thread in question, in nanoseconds.
    pub operator_ns: DurNs,
    /// The same for a Python frame.
    pub frame_ns: DurNs,
    /// Pieces of device work, and how many of them have a recorded launch.
    pub work: u64,
    pub launched: u64,
}

/// The gap before `ended_by`, with its part if it has only one: nearly all gaps are micro gaps of one part, and there
/// may be nearly as many of them as pieces of work.
#[derive(Clone, Copy, Debug)]
struct StoredGap {
    start: TimeNs,
    /// In nanoseconds; [`LONG`] if it does not fit.
    dur: u32,
    after: SliceId,
    ended_by: SliceId,
    /// What explains its only part, [`NONE`] if nothing does; of several parts the index of the first in
    /// [`Ledger::several`].
    slice: SliceId,
    /// [`NONE`] without one.
    trigger_slice: SliceId,
    trigger: Option<Trigger>,
    /// Of its only part.
    class: GapClass,
    flags: u8,
    refill: Option<GapClass>,
}

/// Devices of which the gaps are told whatever parts they have: more than nodes have.
pub const DEVICES_TOLD: usize = 64;
/// Parts of gaps from which on those of further devices are not told: they take a gigabyte with what follows from them.
pub const PARTS_TOLD: usize = if cfg!(test) { 5_000 } else { 1 << 25 };
/// Of [`StoredGap::flags`]: it has several parts. The others are in [`known`].
const SEVERAL: u8 = 1;

/// The duration of a gap of more than four seconds.
const LONG: u32 = u32::MAX;

/// No slice.
const NONE: SliceId = SliceId(u32::MAX);

fn some(slice: SliceId) -> Option<SliceId> {
    (slice != NONE).then_some(slice)
}

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
    #[inline]
    pub fn gap(&self, index: usize) -> Gap {
        let StoredGap { after, ended_by, trigger, trigger_slice, refill, .. } = self.gaps[index];
        Gap { time: self.time(index), after, ended_by, trigger, trigger_slice: some(trigger_slice), refill }
    }

    /// When a gap begins and ends.
    #[inline]
    pub fn time(&self, index: usize) -> TimeRange {
        let StoredGap { start, dur, .. } = self.gaps[index];
        let long = || self.long[self.long.partition_point(|long| (long.0 as usize) < index)].1;
        TimeRange { start, end: if dur == LONG { long() } else { start + DurNs::from(dur) } }
    }

    /// Appends a gap with its parts, of which there is at least one, as class and slice.
    fn push(&mut self, gap: Gap, parts: impl IntoIterator<Item = (TimeNs, GapClass, Option<SliceId>)>) {
        let index = self.gaps.len() as u32;
        let Gap { time, after, ended_by, trigger, trigger_slice, refill } = gap;
        let dur = u32::try_from(time.dur()).unwrap_or(LONG);
        if dur == LONG {
            self.long.push((index, time.end));
        }
        let (slice, class, has_several) = self.push_parts(parts);
        let (start, trigger_slice) = (time.start, trigger_slice.unwrap_or(NONE));
        self.gaps.push(StoredGap {
            start,
            dur,
            after,
            ended_by,
            slice,
            trigger_slice,
            trigger,
            class,
            flags: if has_several { SEVERAL } else { 0 },
            refill,
        });
    }

    /// The gap that begins at `start`. Cost: O(log n).
    pub fn at(&self, start: TimeNs) -> Option<usize> {
        self.gaps.binary_search_by_key(&start, |gap| gap.start).ok()
    }

    /// The gaps that overlap `range`. Cost: O(log n).
    pub fn within(&self, range: TimeRange) -> Range<usize> {
        let mut first = self.gaps.partition_point(|gap| gap.start < range.start);
        if first > 0 && self.time(first - 1).end > range.start {
            first -= 1;
        }
        let last = self.gaps.partition_point(|gap| gap.start < range.end);
        first..last.max(first)
    }

    /// Totals of the time within `range`; gaps count as micro or macro by their full length.
    ///
    /// Ranges that tile the window sum to its totals, except for counts. Cost: O(parts in range).
    pub fn totals(&self, range: TimeRange) -> LedgerTotals {
        let mut out = LedgerTotals::default();
        for index in self.within(range) {
            let gap = self.time(index);
            let Some(time) = gap.intersect(range) else { continue };
            let by_size = if gap.dur() < self.theta_ns { &mut out.micro } else { &mut out.macro_ };
            for totals in [by_size, &mut out.all] {
                totals.count += 1;
                totals.total_ns += time.dur();
            }
            let StoredGap { class, flags, .. } = self.gaps[index];
            if flags & SEVERAL == 0 {
                let totals = &mut out.by_class[class as usize];
                totals.count += 1;
                totals.total_ns += time.dur();
                continue;
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

/// What the ledgers of all devices of a trace rest on, whatever its steps.
#[derive(Debug)]
pub struct Ground<'a> {
    trace: &'a Trace,
    loading: HashSet<SliceId>,
    overheads: Overheads,
    waits: Waits,
    backward: Arc<[TrackId]>,
    /// Of each device.
    usual: HashMap<ProcessId, Usual>,
}

impl<'a> Ground<'a> {
    /// Cost: O(n log k) for n slices of the devices in k rows, O(slices) for all others; on all cores.
    pub fn new(trace: &'a Trace) -> Self {
        let of_host = || (Overheads::new(trace), Waits::new(trace), backward_threads(trace).into());
        let (loading, (overheads, waits, backward)) = rayon::join(|| loading_launches(trace), of_host);
        let devices: Vec<ProcessId> = (0..trace.processes.len() as u32).map(ProcessId).collect();
        let devices = devices.into_par_iter().filter(|&process| trace.process(process).device.is_some());
        let usual = devices.map(|process| (process, usual(trace, process, &waits))).collect::<Vec<_>>();
        Self { trace, loading, overheads, waits, backward, usual: usual.into_iter().collect() }
    }

    /// The ledgers of some devices, in their order.
    ///
    /// * `steps`: the steps of the trace, for [`Trigger::StepBoundary`].
    /// * Cost: O(n log k) for n slices of the devices in k rows, and of the threads that launched; on all cores.
    ///   Incomplete if cancelled.
    ///
    /// What a thread does is a part of the gaps of each device that it launches on: thousands of devices have thousands
    /// of parts for each of its calls. From the first [`DEVICES_TOLD`] devices on whose gaps have [`PARTS_TOLD`] parts,
    /// those of the others are not told.
    pub fn ledgers(
        &self,
        busy: &[DeviceBusy],
        steps: Option<&Steps>,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Ledger> {
        let n_shared = rayon::current_num_threads().div_ceil(busy.len().max(1));
        let ledger = |busy: &DeviceBusy, is_untold: bool| {
            let usual = self.usual[&busy.process];
            let ledger = Ledger {
                process: busy.process,
                device: busy.device,
                window: busy.window,
                is_untold,
                theta_ns: usual.theta,
                backward: Arc::clone(&self.backward),
                ..Ledger::default()
            };
            // Marks may be anywhere; their steps end between launches as those of the host do.
            let boundaries = steps.map(|steps| (steps.on(busy.process).host, !steps.source.is_of_device()));
            sweep(self, ledger, usual, boundaries, n_shared, is_cancelled)
        };
        let (mut all, mut n_parts) = (Vec::with_capacity(busy.len()), 0);
        for devices in busy.chunks(DEVICES_TOLD) {
            let is_untold = n_parts >= PARTS_TOLD;
            let found: Vec<Ledger> = devices.par_iter().map(|busy| ledger(busy, is_untold)).collect();
            n_parts += found.iter().map(|ledger| ledger.several.len()).sum::<usize>();
            all.extend(found);
        }
        all
    }
}

/// The ledger of one device, for tests with a few nanoseconds: all its gaps are macro gaps.
#[cfg(test)]
pub fn ledger(
    trace: &Trace,
    busy: &DeviceBusy,
    steps: Option<&Steps>,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Ledger {
    let ledgers = Ground::new(trace).ledgers(std::slice::from_ref(busy), steps, is_cancelled);
    Ledger { theta_ns: 0, ..ledgers.into_iter().next().unwrap_or_default() }
}
