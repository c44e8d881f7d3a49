//! Causes of a device's waits, and the cause of each part of a gap.

mod names;

use super::Rule;
use crate::analysis::gaps::ceiling::is_recoverable;
use crate::analysis::gaps::{Gap, GapClass, GapPart, Ledger, Trigger};
use crate::analysis::host_roles::{Waits, frees_memory, waits};
use crate::analysis::steps::Steps;
use crate::model::{CopyKind, DurNs, MemoryCopy, SliceId, SliceKind, Trace};

/// A wait for others from this length on, in nanoseconds, is what holds up the device, whatever came before.
const LONG_WAIT: DurNs = 100_000;
/// A copy from the device of at most as many bytes brings a value: a loss, a norm, whether to go on.
const VALUE: u64 = 4096;

/// Why a device waits. Each part of each gap has one cause, so that no time counts twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    DataLoading,
    Collective,
    /// The host waited for the device, or had done so before and had not caught up again.
    Synchronization,
    LaunchBound,
    /// The host ran operators or Python.
    Host,
    Copy,
    Allocator,
    ModuleLoad,
    GarbageCollection,
    /// Between two steps, without a cause of its own.
    StepBoundary,
    Dependency,
    Blocked,
    /// Work was launched, and nothing recorded explains why it began late.
    Queued,
    /// Nothing was recorded of the host, or of the launch.
    Unexplained,
    Profiler,
    /// Launch latency, and between the nodes of a CUDA graph: not to be avoided.
    Latency,
}

impl Cause {
    /// Number of causes.
    pub const N: usize = 16;
    pub const ALL: [Self; Self::N] = [
        Self::DataLoading,
        Self::Collective,
        Self::Synchronization,
        Self::LaunchBound,
        Self::Host,
        Self::Copy,
        Self::Allocator,
        Self::ModuleLoad,
        Self::GarbageCollection,
        Self::StepBoundary,
        Self::Dependency,
        Self::Blocked,
        Self::Queued,
        Self::Unexplained,
        Self::Profiler,
        Self::Latency,
    ];

    /// The rule that judges its idle time; `None` for latency, which is not to be avoided.
    pub fn rule(self) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.cause() == Some(self))
    }

    /// The cause of a part of a gap.
    ///
    /// A class that names what the host did counts first: a batch that is late is late whatever emptied the queue.
    /// Otherwise it is the trigger: after a synchronization the host runs operators, but not because they are slow.
    /// So is the latency of a launch, which a host that is ahead has while the device works.
    /// That holds for time without any record, too: whether the recorder saw operators or frames changes nothing of
    /// the cause. At the boundary of steps the host may still be inside one, as for logging before its end: what it
    /// runs there is its work in the step.
    ///
    /// * `is_between_steps`: whether the host is outside of all steps.
    pub fn of(class: GapClass, trigger: Option<Trigger>, is_between_steps: bool) -> Self {
        match class {
            GapClass::DataLoading => Self::DataLoading,
            GapClass::Collective => Self::Collective,
            GapClass::Sync => Self::Synchronization,
            GapClass::Copy => Self::Copy,
            GapClass::Allocator => Self::Allocator,
            GapClass::ModuleLoad => Self::ModuleLoad,
            GapClass::Gc => Self::GarbageCollection,
            GapClass::Dependency => Self::Dependency,
            GapClass::Profiler => Self::Profiler,
            GapClass::Blocked if trigger != Some(Trigger::Sync) => Self::Blocked,
            GapClass::LaunchLatency if !matches!(trigger, Some(Trigger::Sync | Trigger::LaunchBound)) => Self::Latency,
            GapClass::Graph if trigger != Some(Trigger::LaunchBound) => Self::Latency,
            GapClass::Queued => Self::Queued,
            GapClass::NoLaunch => Self::Unexplained,
            _ => match (trigger, class) {
                (Some(Trigger::Sync), _) => Self::Synchronization,
                (Some(Trigger::LaunchBound), _) => Self::LaunchBound,
                (Some(Trigger::Profiler), _) => Self::Profiler,
                (Some(Trigger::StepBoundary), class) if is_between_steps || class == GapClass::Unknown => {
                    Self::StepBoundary
                }
                (_, GapClass::Unknown) => Self::Unexplained,
                (_, GapClass::Launch) => Self::LaunchBound,
                _ => Self::Host,
            },
        }
    }
}

/// The cause of a part of a gap.
///
/// * A call that frees memory waits for the device before it does: what the host does next is the allocator's, as is
///   the time of the call. So the caching allocator's attempt to make room is one cause: it fails to allocate, frees
///   what it keeps, and asks again.
/// * What the host does after a synchronization is its own where it takes longer than the wait took from it.
/// * What has no cause but a slow host is of the wait in which the host lost its lead, if that explains the gap; see
///   [`Gap::refill`].
/// * What the host waits for that is neither the device nor data, such as a request, comes when it comes: no wait for the
///   device before it is to blame.
/// * To copy or cast from host memory to host memory is work of the host.
/// * To read a value back is to wait for it: the copy is a part of the synchronization. To read data back is to copy.
/// * `is_between_steps`: see [`Cause::of`].
pub fn cause_of(trace: &Trace, gap: &Gap, part: &GapPart, is_between_steps: bool) -> Cause {
    if part.time.dur() >= LONG_WAIT && waits_for_others(trace, part) {
        return Cause::Blocked;
    }
    let cause = Cause::of(part.class, gap.trigger, is_between_steps);
    let frees = || gap.trigger_slice.is_some_and(|call| frees_memory(trace, call));
    let is_synced = || gap.trigger == Some(Trigger::Sync) || gap.refill == Some(GapClass::Sync);
    match (cause, gap.refill) {
        (Cause::Synchronization, _) if part.class != GapClass::Sync && frees() => Cause::Allocator,
        (Cause::Synchronization, None) if part.class != GapClass::Sync => Cause::of(part.class, None, is_between_steps),
        // From host memory to host memory, as a cast: nothing of it is of the device.
        (Cause::Copy, _) if part.slice.is_some_and(|slice| copies_on_host(trace, slice)) => Cause::Host,
        (Cause::Copy, _) if is_synced() && reads_value(&copy_of(trace, gap, part, cause)) => Cause::Synchronization,
        (Cause::Host | Cause::StepBoundary | Cause::LaunchBound, Some(class)) => Cause::of(class, None, false),
        (Cause::Latency | Cause::Unexplained, Some(class)) if is_recoverable(part.class, gap) => {
            Cause::of(class, None, false)
        }
        _ => cause,
    }
}

/// Whether the host waits for another thread, a lock, a queue, a socket or a process: then nothing is asked of the device.
pub(super) fn waits_for_others(trace: &Trace, part: &GapPart) -> bool {
    let is_wait = |slice: SliceId| waits(trace.slices.kind[slice.idx()], trace.slice_name(slice)) == Waits::Always;
    part.class == GapClass::Blocked && part.slice.is_some_and(is_wait)
}

/// The cause of most of the time of some gaps. Cost: O(parts · log s) for s steps.
///
/// * `gaps`: indices into the ledger.
pub fn main_cause(trace: &Trace, ledger: &Ledger, steps: Option<&Steps>, gaps: &[u32]) -> Cause {
    let mut by_cause = [0; Cause::N];
    for &index in gaps {
        let gap = ledger.gap(index as usize);
        for part in ledger.parts(index as usize) {
            let is_between = steps.is_some_and(|steps| is_between(steps, &part));
            by_cause[cause_of(trace, &gap, &part, is_between) as usize] += part.time.dur();
        }
    }
    // Of equal ones the first.
    Cause::ALL[(1..Cause::N).fold(0, |most, cause| if by_cause[cause] > by_cause[most] { cause } else { most })]
}

/// Whether an operator that copies or casts calls nothing of the device.
fn copies_on_host(trace: &Trace, slice: SliceId) -> bool {
    let slices = &trace.slices;
    slices.kind[slice.idx()] == SliceKind::Operator && !slices.inside(slice).any(|i| slices.kind[i].is_call())
}

/// The copy that a part of a gap is about: that which its call or the synchronization started. Else of a wait the last
/// work before the gap, since it is over when that is, and the work after it was launched later; of a copy that before
/// or after the gap.
pub(super) fn copy_of(trace: &Trace, gap: &Gap, part: &GapPart, cause: Cause) -> MemoryCopy {
    let copy = |work: SliceId| trace.facts.copies.get(work).copied();
    // What the host launches after a wait is not waited for.
    let own = part.slice.filter(|_| cause != Cause::Synchronization || part.class == GapClass::Sync);
    let calls = [own, gap.trigger_slice].into_iter().flatten();
    let launched = calls.flat_map(|call| trace.launched_by(call)).find_map(copy);
    let around: &[SliceId] = match (cause, gap.trigger) {
        (Cause::Synchronization, Some(Trigger::Sync)) => &[gap.after],
        // The wait was before an earlier gap.
        (Cause::Synchronization, _) => &[],
        _ => &[gap.after, gap.ended_by],
    };
    launched.or_else(|| around.iter().copied().find_map(copy)).unwrap_or_default()
}

/// Whether a copy brings the host a value, not data.
fn reads_value(copy: &MemoryCopy) -> bool {
    copy.kind == CopyKind::DtoH && copy.bytes.is_some_and(|bytes| bytes <= VALUE)
}

/// Whether a piece of device work copies data, not a value.
pub fn copies_data(trace: &Trace, work: SliceId, kind: CopyKind) -> bool {
    let copy = trace.facts.copies.get(work);
    copy.is_some_and(|copy| copy.kind == kind && copy.bytes.is_none_or(|bytes| bytes > VALUE))
}

/// Whether the host is outside of all steps during most of a part.
pub fn is_between(steps: &Steps, part: &GapPart) -> bool {
    let middle = part.time.start + part.time.dur() / 2;
    let begun = steps.times.partition_point(|step| step.start <= middle);
    begun.checked_sub(1).is_none_or(|step| steps.times[step].end <= middle)
}
