//! Idle time of a device by what would have to change.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::room::Room;
use super::run_facts::CompiledCode;
use super::sites::{Around, Callees, Origins, Sites};
use super::{Rule, Window};
use crate::analysis::frame::{Frame, without_address};
use crate::analysis::gaps::ceiling::is_recoverable;
use crate::analysis::gaps::{
    Gap, GapClass, GapPart, Ledger, Near, Trigger, frees_memory, inferred_ns, open_during, origin_of_call,
};
use crate::analysis::steps::{Steps, is_step_name};
use crate::model::{CopyKind, DurNs, MemoryCopy, SliceId, SliceKind, StringId, TimeRange, Trace};

/// How PyTorch names the range of an optimizer's step.
const OPTIMIZER_STEP: &str = "Optimizer.step#";
/// Parts of gaps from this length on are looked at one by one, in nanoseconds.
const LONG_PART: DurNs = 100_000;
/// A copy from the device of at most as many bytes brings a value: a loss, a norm, whether to go on.
const VALUE: u64 = 4096;
/// The host works for long between two launches from this part of a gap on, in nanoseconds: eager operators that launch
/// follow each other within tens of microseconds.
const LONG_WORK: DurNs = 1_000_000;
/// A name is said to have most of some time beside others if it has at least this part of it: a twentieth.
pub const LEAST_SHARE: DurNs = 20;

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

/// The idle time of one cause within a window.
#[derive(Clone, Debug, Default)]
pub struct Account<'a> {
    /// Gaps with a part of it.
    pub gaps: u64,
    pub total_ns: DurNs,
    /// Of that, what ending the cause would save at most; see [`crate::analysis::gaps::ceiling`].
    pub recoverable_ns: DurNs,
    /// The time by the step of the window in which the gap ends; shorter where the later steps have none.
    pub by_step: Vec<DurNs>,
    /// The gap with most of it.
    pub longest: Option<(TimeRange, DurNs)>,
    /// Time by the name of the host slice that explains it, in gaps that are not micro gaps.
    names: HashMap<StringId, DurNs>,
    /// The same by where in the program, where it was a call that waits, copies or allocates, or loads data.
    pub sites: Sites<'a>,
    /// Of [`Cause::Host`]: the same by what the innermost frame of the user's program had called.
    pub callees: Callees<'a>,
    /// Long stretches of what the host did: of [`Cause::Host`], and of [`Cause::Synchronization`] after it.
    pub long: Sites<'a>,
    /// Of [`Cause::Host`]: long parts of gaps, by the host slice.
    pub long_parts: Vec<(SliceId, DurNs)>,
    /// Of [`Cause::LaunchBound`] and [`Cause::Host`]: the time by where the work after it was launched, in gaps that are not
    /// micro gaps.
    pub origins: Origins<'a>,
    pub shares: Shares,
}

/// Parts of the time of one cause, in nanoseconds, that decide what is said of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The host ran code of torch.compile.
    pub compiled_ns: DurNs,
    /// The class follows from what surrounds the time, not from a record of its own; see
    /// [`inferred_ns`](crate::analysis::gaps::inferred_ns).
    pub inferred_ns: DurNs,
    /// The launch that ended the gap was not recorded.
    pub unlaunched_ns: DurNs,
    /// The host copied to the device, or from it, or waited for such a copy.
    pub to_device_ns: DurNs,
    pub from_device_ns: DurNs,
    /// The caching allocator made room for a request; see `super::room`.
    pub room_ns: DurNs,
    /// Of [`Cause::Host`]: one operator, function or range went on for long, with nothing recorded inside.
    pub slow_ns: DurNs,
    /// Of [`Cause::LaunchBound`] and [`Cause::Host`]: the step of an optimizer launched the work after the gap.
    pub optimizer_ns: DurNs,
    /// Of [`Cause::Host`]: it worked for long in one gap, so it launched nothing meanwhile.
    pub apart_ns: DurNs,
    /// The host wrote a checkpoint; of long parts of gaps.
    pub saves_ns: DurNs,
    /// Of [`Cause::Synchronization`]: the synchronization was over, and the host ran.
    pub after_ns: DurNs,
    /// The gap ended with a small collective, and could be saved; see `super::collectives`.
    pub collective_ns: DurNs,
}

impl Shares {
    fn add(&mut self, other: &Self) {
        self.compiled_ns += other.compiled_ns;
        self.inferred_ns += other.inferred_ns;
        self.unlaunched_ns += other.unlaunched_ns;
        self.to_device_ns += other.to_device_ns;
        self.from_device_ns += other.from_device_ns;
        self.room_ns += other.room_ns;
        self.slow_ns += other.slow_ns;
        self.optimizer_ns += other.optimizer_ns;
        self.apart_ns += other.apart_ns;
        self.saves_ns += other.saves_ns;
        self.after_ns += other.after_ns;
        self.collective_ns += other.collective_ns;
    }

    /// Adds the time of a copy.
    pub fn add_copy(&mut self, kind: CopyKind, ns: DurNs) {
        match kind {
            CopyKind::HtoD => self.to_device_ns += ns,
            CopyKind::DtoH => self.from_device_ns += ns,
            _ => {}
        }
    }
}

impl<'a> Account<'a> {
    /// The names with most time, at most `n`, each with a share that counts; none if the names together have less than
    /// half of it.
    pub fn names(&self, trace: &Trace, n: usize) -> Vec<String> {
        let mut by_name: HashMap<Cow<'_, str>, DurNs> = HashMap::new();
        for (&name, ns) in &self.names {
            *by_name.entry(without_address(trace.strings.get(name))).or_default() += ns;
        }
        let mut names: Vec<(DurNs, Cow<'_, str>)> = by_name.into_iter().map(|(name, ns)| (ns, name)).collect();
        let is_step = |name: &str| {
            let is_frame = Frame::of_python_function(name).is_python();
            let is_part = ["enumerate(DataLoader)", "Optimizer."].iter().any(|part| name.starts_with(part));
            is_step_name(name) && !is_frame && !is_part
        };
        names.retain(|&(ns, ref name)| ns * LEAST_SHARE >= self.total_ns && !is_step(name));
        names.sort_unstable_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
        names.truncate(n);
        if 2 * names.iter().map(|(ns, _)| ns).sum::<DurNs>() < self.total_ns {
            return Vec::new();
        }
        names.into_iter().map(|(_, name)| name.into_owned()).collect()
    }
}

/// Adds where the work after a gap was launched to the causes that it explains.
///
/// * `has_optimizer`: whether the recording names steps of an optimizer at all: what is open is not searched for them else.
/// * `own`: the time of the gap by cause.
fn add_origin<'a>(
    trace: &'a Trace,
    launch: Option<SliceId>,
    (near, has_optimizer): (&Near, bool),
    own: &[DurNs; Cause::N],
    all: &mut [Account<'a>],
) {
    let explained = [Cause::LaunchBound, Cause::Host].map(|cause| cause as usize);
    let launch = launch.filter(|_| explained.iter().any(|&cause| own[cause] > 0));
    let Some(call) = launch else { return };
    let origin = origin_of_call(trace, call, near);
    let is_optimizer = has_optimizer && is_in_optimizer(trace, call, near);
    for cause in explained {
        if let Some(origin) = origin {
            all[cause].origins.add(origin, own[cause]);
        }
        all[cause].shares.optimizer_ns += if is_optimizer { own[cause] } else { 0 };
    }
}

/// Whether a call is made inside the range that PyTorch puts around the step of an optimizer.
fn is_in_optimizer(trace: &Trace, call: SliceId, near: &Near) -> bool {
    let slices = &trace.slices;
    let open = open_during(trace, slices.track_of(call), slices.time(call), near);
    let is_range = |slice: &SliceId| slices.kind[slice.idx()] == SliceKind::Annotation;
    open.iter().filter(|slice| is_range(slice)).any(|&slice| trace.slice_name(slice).starts_with(OPTIMIZER_STEP))
}

/// The idle time of a device within a window by [`Cause`]; their totals sum to it.
///
/// * `compiled`: where code of torch.compile runs, if any does.
/// * `is_small_collective`: whether a piece of device work is one.
/// * Cost: O(parts within · log s) for s steps, and O(rows of the process · log n) for each synchronization.
pub fn accounts<'a>(
    trace: &'a Trace,
    ledger: &Ledger,
    judged: &Window,
    is_between_steps: &dyn Fn(&GapPart) -> bool,
    mut compiled: Option<CompiledCode<'_>>,
    is_small_collective: &dyn Fn(SliceId) -> bool,
) -> Vec<Account<'a>> {
    let window = judged.time;
    let mut all = vec![Account::default(); Cause::N];
    let mut room = Room::new(trace);
    let near = Near::new(trace);
    let has_optimizer = trace.strings.iter().any(|(_, name)| name.starts_with(OPTIMIZER_STEP));
    for index in ledger.within(window) {
        let gap = ledger.gap(index);
        let is_macro = gap.time.dur() >= ledger.theta_ns;
        let mut own = [0; Cause::N];
        for part in ledger.parts(index) {
            let Some(time) = part.time.intersect(window) else { continue };
            let is_between = gap.trigger == Some(Trigger::StepBoundary) && is_between_steps(&part);
            let cause = cause_of(trace, &gap, &part, is_between);
            own[cause as usize] += time.dur();
            let account = &mut all[cause as usize];
            let is_host = part.class.is_host() && matches!(cause, Cause::Host | Cause::DataLoading);
            let is_long = time.dur() >= LONG_PART && matches!(cause, Cause::Synchronization | Cause::Copy);
            // Ranges are looked at in long parts only, functions in all.
            let is_looked_at = is_host && (near.has_frames || time.dur() >= LONG_PART) || is_long;
            let around = part.slice.filter(|_| is_macro && is_looked_at);
            let around = around.map(|slice| Around::new(trace, slice, time, &near));
            let is_saved = is_recoverable(part.class, &gap);
            account.recoverable_ns += if is_saved { time.dur() } else { 0 };
            if is_macro {
                let ns_if = |holds: bool| if holds { time.dur() } else { 0 };
                let runs_compiled = |slice| compiled.as_mut().is_some_and(|compiled| compiled.contains(slice));
                let mut shares = Shares {
                    compiled_ns: ns_if(part.slice.is_some_and(runs_compiled)),
                    inferred_ns: inferred_ns(trace, &GapPart { time, ..part }),
                    unlaunched_ns: ns_if(part.class == GapClass::NoLaunch),
                    slow_ns: ns_if(cause == Cause::Host && time.dur() >= LONG_PART),
                    after_ns: ns_if(cause == Cause::Synchronization && part.class != GapClass::Sync),
                    saves_ns: ns_if(
                        time.dur() >= LONG_PART && around.as_ref().is_some_and(|around| around.saves(trace)),
                    ),
                    ..Shares::default()
                };
                if matches!(cause, Cause::Synchronization | Cause::Copy) {
                    shares.add_copy(copy_of(trace, &gap, &part).kind, time.dur());
                }
                let call = part.slice.filter(|_| part.class == GapClass::Allocator).or(gap.trigger_slice);
                if cause == Cause::Allocator && call.is_some_and(|call| room.is_made_around(call)) {
                    shares.room_ns = time.dur();
                }
                account.shares.add(&shares);
            }
            let is_of_collective = is_saved && matches!(cause, Cause::LaunchBound | Cause::Collective);
            if is_of_collective && is_small_collective(gap.ended_by) {
                account.shares.collective_ns += time.dur();
            }
            // The launch of work that waits in a queue for no known reason is no reason.
            if is_macro && part.class != GapClass::Queued {
                account.add_names(trace, &gap, &GapPart { time, ..part }, cause, around.as_ref());
            }
        }
        let launch = if is_macro { trace.launch_of(gap.ended_by) } else { None };
        add_origin(trace, launch, (&near, has_optimizer), &own, &mut all);
        if own[Cause::Host as usize] >= LONG_WORK {
            all[Cause::Host as usize].shares.apart_ns += own[Cause::Host as usize];
        }
        let step = judged.step_of(gap.time);
        for (account, ns) in all.iter_mut().zip(own) {
            account.add(&gap, ns, step);
        }
    }
    all
}

/// The cause of a part of a gap.
///
/// * A call that frees memory waits for the device before it does: what the host does next is the allocator's, as is the
///   time of the call. So the caching allocator's attempt to make room is one cause: it fails to allocate, frees what it
///   keeps, and asks again.
/// * What the host does after a synchronization is its own where it takes longer than the wait took from it.
/// * What has no cause but a slow host is of the wait in which the host lost its lead, if that explains the gap; see
///   [`Gap::refill`].
/// * To read a value back is to wait for it: the copy is a part of the synchronization. To read data back is to copy.
/// * `is_between_steps`: see [`Cause::of`].
pub fn cause_of(trace: &Trace, gap: &Gap, part: &GapPart, is_between_steps: bool) -> Cause {
    let cause = Cause::of(part.class, gap.trigger, is_between_steps);
    let frees = || gap.trigger_slice.is_some_and(|call| frees_memory(trace, call));
    let is_synced = || gap.trigger == Some(Trigger::Sync) || gap.refill == Some(GapClass::Sync);
    match (cause, gap.refill) {
        (Cause::Synchronization, _) if part.class != GapClass::Sync && frees() => Cause::Allocator,
        (Cause::Synchronization, None) if part.class != GapClass::Sync => Cause::of(part.class, None, is_between_steps),
        (Cause::Copy, _) if is_synced() && reads_value(&copy_of(trace, gap, part)) => Cause::Synchronization,
        (Cause::Host | Cause::StepBoundary | Cause::LaunchBound, Some(class)) => Cause::of(class, None, false),
        (Cause::Latency | Cause::Unexplained, Some(class)) if is_recoverable(part.class, gap) => {
            Cause::of(class, None, false)
        }
        _ => cause,
    }
}

/// The copy that a part of a gap is about: that which its call or the synchronization started, else the one before or after
/// the gap.
fn copy_of(trace: &Trace, gap: &Gap, part: &GapPart) -> MemoryCopy {
    let copy = |work: SliceId| trace.facts.copies.get(work).copied();
    let calls = [part.slice, gap.trigger_slice].into_iter().flatten();
    let launched = calls.flat_map(|call| trace.launched_by(call)).find_map(copy);
    launched.or_else(|| [gap.after, gap.ended_by].into_iter().find_map(copy)).unwrap_or_default()
}

/// Whether a copy brings the host a value, not data.
fn reads_value(copy: &MemoryCopy) -> bool {
    copy.kind == CopyKind::DtoH && copy.bytes.is_some_and(|bytes| bytes <= VALUE)
}

/// Whether the host is outside of all steps during most of a part.
pub fn is_between(steps: &Steps, part: &GapPart) -> bool {
    let middle = part.time.start + part.time.dur() / 2;
    let begun = steps.times.partition_point(|step| step.start <= middle);
    begun.checked_sub(1).is_none_or(|step| steps.times[step].end <= middle)
}

impl<'a> Account<'a> {
    /// Adds a part of a gap to the names and places that explain it.
    fn add_names(&mut self, trace: &'a Trace, gap: &Gap, part: &GapPart, cause: Cause, around: Option<&Around>) {
        let ns = part.time.dur();
        // The call that emptied the queue, not what the host did after it.
        let is_after =
            cause == Cause::Synchronization || cause == Cause::Allocator && part.class != GapClass::Allocator;
        let synced = gap.trigger_slice.filter(|_| is_after);
        let Some(slice) = synced.or(part.slice) else { return };
        // Where the host lost its lead before, what it did then is no reason.
        if gap.refill.is_some() && gap.trigger != Some(Trigger::Sync) && part.class >= GapClass::Launch {
            return;
        }
        *self.names.entry(trace.slices.name[slice.idx()]).or_default() += ns;
        match (cause, around) {
            (Cause::Host, Some(around)) => self.callees.add(trace, around, ns),
            (Cause::DataLoading, Some(around)) => self.sites.add_loader(trace, slice, around, ns),
            (Cause::Synchronization | Cause::Copy | Cause::Allocator | Cause::GarbageCollection, _) => {
                self.sites.add(trace, slice, ns);
            }
            _ => {}
        }
        let runs = matches!(part.class, GapClass::CpuOp | GapClass::Python | GapClass::Blocked);
        let is_host = matches!(cause, Cause::Host | Cause::Synchronization) && runs;
        if let Some(host) = part.slice.filter(|_| is_host && ns >= LONG_PART) {
            self.long.add(trace, host, ns);
        }
        if cause == Cause::Host && ns >= LONG_PART {
            self.long_parts.push((slice, ns));
        }
    }

    /// Adds the time of one gap.
    ///
    /// * `step`: the index of the step that it belongs to.
    fn add(&mut self, gap: &Gap, ns: DurNs, step: Option<usize>) {
        if ns > 0 {
            if let Some(step) = step {
                self.by_step.resize(self.by_step.len().max(step + 1), 0);
                self.by_step[step] += ns;
            }
            self.gaps += 1;
            self.total_ns += ns;
            if self.longest.is_none_or(|(_, longest)| ns > longest) {
                self.longest = Some((gap.time, ns));
            }
        }
    }
}
