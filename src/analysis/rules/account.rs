//! Idle time of a device by what would have to change.

mod sum;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use hashbrown::HashMap;
use rayon::prelude::*;

use super::Window;
use super::cause::{Cause, cause_of, copies_data, copy_of, waits_for_others};
use super::per_step::add;
use super::room::{Room, Stretches};
use super::run_facts::{CompiledCode, OPTIMIZER_STEP, RunFacts};
use super::sites::{Around, Callees, Origins, Sites};
use crate::analysis::frame::{Frame, without_address};
use crate::analysis::gaps::ceiling::is_recoverable;
use crate::analysis::gaps::recorder::{Recorder, Taken, Unrecorded};
use crate::analysis::gaps::{
    Gap, GapClass, GapPart, Ledger, Near, Trigger, inferred_ns, on_cpu_ns, open_during, origin_of_call, waits_within,
};
use crate::analysis::steps::is_step_name;
use crate::model::{CopyKind, DurNs, SliceId, SliceKind, StringId, TimeRange, Trace};

/// Parts of gaps from this length on are looked at one by one, in nanoseconds.
const LONG_PART: DurNs = 100_000;
/// The host works for long between two launches from this part of a gap on, in nanoseconds: eager operators that launch
/// follow each other within tens of microseconds.
const LONG_WORK: DurNs = 1_000_000;
/// A name is said to have most of some time beside others if it has at least this part of it: a twentieth.
pub const LEAST_SHARE: DurNs = 20;

/// The idle time of one cause within a window.
#[derive(Clone, Debug, Default)]
pub struct Account<'a> {
    /// Gaps with a part of it.
    pub gaps: u64,
    pub total_ns: DurNs,
    /// The total by what went on meanwhile.
    pub by_class: [DurNs; GapClass::N],
    /// Of that, what the recorder took of what ending the cause would save, at least.
    pub recorder_ns: DurNs,
    /// The time by the step of the window with most of the gap; shorter where the later steps have none. Without steps
    /// all of it is of one.
    pub by_step: Vec<DurNs>,
    /// Likewise, what ending the cause would save at most, see [`crate::analysis::gaps::ceiling`], and what the host
    /// does with data that it copied or is to copy; without what the recorder took of it at least: a program that is
    /// not recorded does not have that.
    pub gain_by_step: Vec<DurNs>,
    /// Of that, what is before small collectives.
    pub small_by_step: Vec<DurNs>,
    /// Likewise, what ending the cause would save of the parts of other causes; see [`super::ahead`].
    pub ahead_by_step: Vec<DurNs>,
    /// The gap with most of it.
    pub longest: Option<(TimeRange, DurNs)>,
    /// Time by the name of the host slice that explains it, in gaps that are not micro gaps.
    names: HashMap<StringId, DurNs>,
    /// Of [`Cause::ModuleLoad`] where that is inferred: time by the call of the operating system that the thread is in.
    waits: HashMap<StringId, DurNs>,
    /// The same by where in the program, where it was a call that waits, copies or allocates, or loads data.
    pub sites: Sites<'a>,
    /// Of [`Cause::Host`]: the same by what the innermost frame of the user's program had called.
    pub callees: Callees<'a>,
    /// Long stretches of what the host did: of [`Cause::Host`], and of [`Cause::Synchronization`] after it.
    pub long: Sites<'a>,
    /// Of [`Cause::Host`]: long parts of gaps, by the host slice.
    pub long_parts: Vec<(SliceId, DurNs)>,
    /// Of [`Cause::LaunchBound`] and [`Cause::Host`]: the time by where the work after it was launched, in gaps that
    /// are not micro gaps.
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
    /// Of [`Cause::Blocked`]: the host waited for another thread, a lock, a queue, a socket or a process.
    pub waits_ns: DurNs,
    /// Of [`Cause::Unexplained`]: the thread ran on a CPU; see [`on_cpu_ns`].
    pub on_cpu_ns: DurNs,
    /// The launch that ended the gap was not recorded.
    pub unlaunched_ns: DurNs,
    /// The host copied to the device, or from it, or waited for such a copy; see `copy_of`.
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
    /// Of [`Cause::Unexplained`]: long parts after a copy of data from the device, and before one to it.
    pub copied_ns: DurNs,
    pub prepared_ns: DurNs,
    /// Of [`Cause::Synchronization`]: the synchronization was over, and the host ran.
    pub after_ns: DurNs,
    /// The wait was over, and the host had not the lead again that it lost in it; see [`Gap::refill`].
    pub lead_ns: DurNs,
    /// The gap ended with a small collective, and could be saved; see `super::collectives`.
    pub collective_ns: DurNs,
    /// Of [`Cause::Dependency`]: the work that was waited for ran on another device.
    pub elsewhere_ns: DurNs,
    /// Of [`Cause::Latency`]: the launch of the work after the gap had returned before it, so the gap is from work to
    /// work.
    pub queued_ns: DurNs,
}

impl Shares {
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
    /// The call of the operating system in which the host is for most of the time that is inferred, and how long; `None`
    /// for less than a tenth of it.
    pub fn most_waited(&self, trace: &Trace) -> Option<(String, DurNs)> {
        let most = self.waits.iter().max_by_key(|&(name, ns)| (ns, Reverse(trace.strings.get(*name))))?;
        let name = trace.strings.get(*most.0).to_owned();
        Some((name, *most.1)).filter(|most| 10 * most.1 >= self.shares.inferred_ns)
    }

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

    /// Adds a part of a gap to the names and places that explain it.
    fn add_names(
        &mut self,
        (trace, near): (&'a Trace, &Near),
        gap: &Gap,
        part: &GapPart,
        cause: Cause,
        around: Option<&Around>,
    ) {
        let ns = part.time.dur();
        // The call that emptied the queue, not what the host did after it.
        let is_after =
            cause == Cause::Synchronization || cause == Cause::Allocator && part.class != GapClass::Allocator;
        let synced = gap.trigger_slice.filter(|_| is_after);
        let Some(slice) = synced.or(part.slice) else { return };
        // Where the host lost its lead before, what it did then is not a reason.
        if gap.refill.is_some() && gap.trigger != Some(Trigger::Sync) && part.class >= GapClass::Launch {
            return;
        }
        *self.names.entry(trace.slices.name[slice.idx()]).or_default() += ns;
        match (cause, around) {
            (Cause::Host, Some(around)) => self.callees.add(trace, around, ns),
            (Cause::DataLoading, Some(around)) => self.sites.add_loader(trace, slice, around, ns),
            (Cause::Synchronization | Cause::Copy | Cause::Allocator | Cause::GarbageCollection, _) => {
                self.sites.add(trace, slice, ns, near);
            }
            (Cause::ModuleLoad, _) => {
                for (call, ns) in waits_within(trace, part) {
                    *self.waits.entry(trace.slices.name[call.idx()]).or_default() += ns;
                }
            }
            _ => {}
        }
        let runs = matches!(part.class, GapClass::CpuOp | GapClass::Python | GapClass::Blocked);
        let is_host = matches!(cause, Cause::Host | Cause::Synchronization) && runs;
        if let Some(host) = part.slice.filter(|_| is_host && ns >= LONG_PART) {
            self.long.add(trace, host, ns, near);
        }
        if cause == Cause::Host && ns >= LONG_PART {
            self.long_parts.push((slice, ns));
        }
    }

    /// Adds what ending the cause would save of one gap.
    ///
    /// * `is_small`: whether it is before a small collective.
    fn add_gain(&mut self, step: usize, Gain { ns, recorder_ns }: Gain, is_small: bool) {
        self.recorder_ns += recorder_ns;
        add(&mut self.gain_by_step, step, ns - recorder_ns);
        if is_small {
            self.shares.collective_ns += ns;
            add(&mut self.small_by_step, step, ns - recorder_ns);
        }
    }

    /// Adds the time of one gap.
    ///
    /// * `ns`: of the cause; more than 0.
    /// * `step`: the index of the step that it belongs to.
    fn add(&mut self, gap: &Gap, ns: DurNs, step: usize) {
        add(&mut self.by_step, step, ns);
        self.gaps += 1;
        self.total_ns += ns;
        if self.longest.is_none_or(|(_, longest)| ns > longest) {
            self.longest = Some((gap.time, ns));
        }
    }
}

/// What ending a cause would save of one gap, in nanoseconds, and what of that the recorder took.
#[derive(Clone, Copy, Debug, Default)]
struct Gain {
    ns: DurNs,
    recorder_ns: DurNs,
}

/// Where the work after gaps was launched, as far as the recording tells.
struct Launches<'a> {
    trace: &'a Trace,
    /// Whether it names steps of an optimizer.
    has_optimizer: bool,
    /// Whether it tells anything: what is open around a launch is not searched for else.
    is_told: bool,
}

impl<'a> Launches<'a> {
    fn new(trace: &'a Trace, has_frames: bool, run: &RunFacts) -> Self {
        let has_optimizer = run.names_optimizer_steps;
        Self { trace, has_optimizer, is_told: has_frames || has_optimizer || run.names_backward_nodes }
    }

    /// Adds where the work after a gap was launched to the causes that it explains. Cost: O(rows of the track · log n).
    ///
    /// * `own`: the time of the gap by cause.
    fn add(&self, gap: &Gap, near: &Near, own: &[DurNs; Cause::N], all: &mut [Account<'a>]) {
        let trace = self.trace;
        let explained = [Cause::LaunchBound, Cause::Host].map(|cause| cause as usize);
        let is_wanted = self.is_told && explained.iter().any(|&cause| own[cause] > 0);
        let Some(call) = trace.launch_of(gap.ended_by).filter(|_| is_wanted) else { return };
        let slices = &trace.slices;
        let open = open_during(trace, slices.track_of(call), slices.time(call), near);
        let origin = origin_of_call(trace, call, &open, near);
        let is_step = |&slice: &SliceId| {
            slices.kind[slice.idx()] == SliceKind::Annotation && trace.slice_name(slice).starts_with(OPTIMIZER_STEP)
        };
        let is_optimizer = self.has_optimizer && open.iter().any(is_step);
        for cause in explained {
            if let Some(origin) = origin {
                all[cause].origins.add(origin, own[cause]);
            }
            all[cause].shares.optimizer_ns += if is_optimizer { own[cause] } else { 0 };
        }
    }
}

/// Gaps that are looked at together, at least.
const LEAST_SHARED: usize = 1 << 14;

/// [`Books::accounts`] of all gaps of a window, which all cores share.
///
pub fn accounts<'a>(
    (trace, run, ledger): (&'a Trace, &RunFacts, &Ledger),
    (recorder, taken): (Option<Recorder>, Option<&Taken>),
    is_between_steps: &(dyn Fn(&GapPart) -> bool + Sync),
    judged: &Window,
    is_small_collective: &(dyn Fn(SliceId) -> bool + Sync),
) -> Vec<Account<'a>> {
    let gaps = ledger.within(judged.time);
    let n = gaps.len().div_ceil(rayon::current_num_threads()).max(LEAST_SHARED);
    let shares: Vec<Range<usize>> = gaps.clone().step_by(n).map(|at| at..(at + n).min(gaps.end)).collect();
    let stretches = Stretches::default();
    let of_share = |gaps: &Range<usize>| {
        let unrecorded = Unrecorded::new(trace, ledger, recorder);
        let books = Books::new((trace, run), (&unrecorded, taken), is_between_steps);
        let compiled = run.is_compiled.then(|| CompiledCode::new(trace));
        books.accounts((judged, gaps.clone()), &stretches, compiled, is_small_collective)
    };
    let mut all = vec![Account::default(); Cause::N];
    for share in shares.par_iter().map(of_share).collect::<Vec<_>>() {
        all.iter_mut().zip(share).for_each(|(all, share)| all.extend(share));
    }
    all
}

/// What the accounts of a device are taken from.
pub struct Books<'a, 'b> {
    trace: &'a Trace,
    pub ledger: &'b Ledger,
    is_between_steps: &'b dyn Fn(&GapPart) -> bool,
    pub unrecorded: &'b Unrecorded<'b>,
    /// What `unrecorded` found before, if that is kept.
    taken: Option<&'b Taken>,
    launches: Launches<'a>,
    near: &'b Near,
    has_on_cpu: bool,
}

impl<'a, 'b> Books<'a, 'b> {
    pub fn new(
        (trace, run): (&'a Trace, &RunFacts),
        (unrecorded, taken): (&'b Unrecorded<'b>, Option<&'b Taken>),
        is_between_steps: &'b dyn Fn(&GapPart) -> bool,
    ) -> Self {
        let (ledger, near) = (unrecorded.ledger, &unrecorded.near);
        let launches = Launches::new(trace, near.has_frames, run);
        let has_on_cpu = run.has_switches;
        Self { trace, ledger, is_between_steps, unrecorded, taken, launches, near, has_on_cpu }
    }

    /// What the recorder took of each part of a gap, if that is kept and the parts asked about are the same: whole
    /// ones, of which those count that may be recovered.
    fn taken(&self, index: usize, gap: &Gap, window: TimeRange) -> Option<&'b [u32]> {
        let known = self.taken_of_whole(index, gap, window)?;
        let is_other = |part: GapPart| part.time.dur() >= LONG_PART && !is_recoverable(part.class, gap);
        let has_other = self.is_after_data(gap) || self.is_before_data(gap);
        (!has_other || !self.ledger.parts(index).any(is_other)).then_some(known)
    }

    /// What the recorder took of each part of a gap that may be recovered, if that is kept and all of the gap is in a
    /// window.
    pub fn taken_of_whole(&self, index: usize, gap: &Gap, window: TimeRange) -> Option<&'b [u32]> {
        self.taken?.of_gap(index).filter(|_| gap.time.intersect(window) == Some(gap.time))
    }

    /// Whether data was copied from the device right before a gap.
    fn is_after_data(&self, gap: &Gap) -> bool {
        copies_data(self.trace, gap.after, CopyKind::DtoH)
    }

    /// Whether data is copied to the device right after a gap.
    fn is_before_data(&self, gap: &Gap) -> bool {
        copies_data(self.trace, gap.ended_by, CopyKind::HtoD)
    }

    /// Whether the launch of the work after a gap was over before the gap.
    fn is_queued(&self, gap: &Gap) -> bool {
        let call = self.trace.launch_of(gap.ended_by);
        call.is_some_and(|call| self.trace.slices.end[call.idx()] <= gap.time.start)
    }

    /// Adds what a part of a gap alone tells of its time.
    ///
    /// * `around`: what runs around it, if it is looked at.
    fn add_shares(&self, shares: &mut Shares, gap: &Gap, part: &GapPart, cause: Cause, around: Option<&Around>) {
        let (trace, ns) = (self.trace, part.time.dur());
        let ns_if = |holds: bool| if holds { ns } else { 0 };
        shares.inferred_ns += inferred_ns(trace, part);
        if cause == Cause::Blocked {
            shares.waits_ns += ns_if(waits_for_others(trace, part));
        }
        if cause == Cause::Dependency {
            let process = |work: SliceId| trace.track(trace.slices.track_of(work)).process;
            shares.elsewhere_ns += ns_if(part.slice.is_some_and(|work| process(work) != process(gap.ended_by)));
        }
        if cause == Cause::Unexplained && self.has_on_cpu {
            shares.on_cpu_ns += on_cpu_ns(trace, gap, part);
        }
        shares.unlaunched_ns += ns_if(part.class == GapClass::NoLaunch);
        shares.slow_ns += ns_if(cause == Cause::Host && ns >= LONG_PART);
        shares.after_ns += ns_if(cause == Cause::Synchronization && part.class != GapClass::Sync);
        shares.saves_ns += ns_if(ns >= LONG_PART && around.is_some_and(|around| around.saves(trace, self.near)));
        if matches!(cause, Cause::Synchronization | Cause::Copy) {
            shares.add_copy(copy_of(trace, gap, part, cause).kind, ns);
        }
    }

    /// The idle time within a window by [`Cause`]; their totals sum to it.
    ///
    /// * `gaps`: of the window, those that are added.
    /// * `stretches`: what is known of room that threads made.
    /// * `compiled`: where code of torch.compile runs, if any does.
    /// * `is_small_collective`: whether a piece of device work is one.
    /// * Cost: O(parts within · log s) for s steps, and O(rows of the process · log n) for each synchronization.
    pub fn accounts(
        &self,
        (judged, gaps): (&Window, Range<usize>),
        stretches: &Stretches,
        mut compiled: Option<CompiledCode<'_>>,
        is_small_collective: &dyn Fn(SliceId) -> bool,
    ) -> Vec<Account<'a>> {
        let (trace, ledger, near, window) = (self.trace, self.ledger, self.near, judged.time);
        let mut all = vec![Account::default(); Cause::N];
        let (mut room, mut near_step) = (Room::new(trace, stretches), 0);
        for index in gaps {
            let gap = ledger.gap(index);
            let is_macro = gap.time.dur() >= ledger.theta_ns;
            let step = judged.piece_near(gap.time, &mut near_step);
            let (mut own, mut gains) = ([0; Cause::N], [Gain::default(); Cause::N]);
            let known = self.taken(index, &gap, window);
            // Made only where it is asked: to copy a gap costs as much as all else of most gaps.
            let mut recorded = None;
            for (i, part) in ledger.parts(index).enumerate() {
                let Some(time) = part.time.intersect(window) else { continue };
                let is_between = gap.trigger == Some(Trigger::StepBoundary) && (self.is_between_steps)(&part);
                let (part, ns) = (GapPart { time, ..part }, time.dur());
                let cause = cause_of(trace, &gap, &part, is_between);
                own[cause as usize] += ns;
                let account = &mut all[cause as usize];
                account.by_class[part.class as usize] += ns;
                if gap.refill.is_some() && Cause::of(part.class, gap.trigger, is_between) != cause {
                    account.shares.lead_ns += ns;
                }
                if cause == Cause::Latency && self.is_queued(&gap) {
                    account.shares.queued_ns += ns;
                }
                // The host works on data that it copied, or is to copy, as far as that is all that is known.
                let is_silent = is_macro && cause == Cause::Unexplained && ns >= LONG_PART;
                let copied = is_silent && self.is_after_data(&gap);
                let prepared = is_silent && self.is_before_data(&gap);
                if is_recoverable(part.class, &gap) || copied || prepared {
                    let take = || recorded.get_or_insert_with(|| self.unrecorded.gap(index)).of_part(&part);
                    let recorder_ns = known.map_or_else(take, |known| DurNs::from(known[i]));
                    gains[cause as usize].ns += ns;
                    gains[cause as usize].recorder_ns += recorder_ns;
                }
                if !is_macro {
                    continue;
                }
                let is_host = part.class.is_host() && matches!(cause, Cause::Host | Cause::DataLoading);
                let is_long = ns >= LONG_PART && matches!(cause, Cause::Synchronization | Cause::Copy);
                // Ranges are looked at in long parts only, functions in all.
                let is_looked_at = is_host && (near.has_frames || ns >= LONG_PART) || is_long;
                let around = part.slice.filter(|_| is_looked_at).map(|slice| Around::new(trace, slice, time, near));
                let ns_if = |holds: bool| if holds { ns } else { 0 };
                self.add_shares(&mut account.shares, &gap, &part, cause, around.as_ref());
                let shares = &mut account.shares;
                shares.copied_ns += ns_if(copied);
                shares.prepared_ns += ns_if(prepared);
                let runs_compiled = |slice| compiled.as_mut().is_some_and(|compiled| compiled.contains(slice));
                shares.compiled_ns += ns_if(part.slice.is_some_and(runs_compiled));
                if cause == Cause::Allocator {
                    let call = part.slice.filter(|_| part.class == GapClass::Allocator).or(gap.trigger_slice);
                    shares.room_ns += ns_if(call.is_some_and(|call| room.is_made_around(call)));
                }
                // The launch of work that waits in a queue for no known reason is not a reason.
                if part.class != GapClass::Queued {
                    account.add_names((trace, near), &gap, &part, cause, around.as_ref());
                }
            }
            if is_macro {
                self.launches.add(&gap, near, &own, &mut all);
            }
            if own[Cause::Host as usize] >= LONG_WORK {
                all[Cause::Host as usize].shares.apart_ns += own[Cause::Host as usize];
            }
            // Most gaps have one cause.
            for (cause, &ns) in own.iter().enumerate().filter(|(_, ns)| **ns > 0) {
                let is_launch = cause == Cause::LaunchBound as usize || cause == Cause::Collective as usize;
                let gain = gains[cause];
                let is_small = gain.ns > 0 && is_launch && is_small_collective(gap.ended_by);
                all[cause].add_gain(step, gain, is_small);
                all[cause].add(&gap, ns, step);
            }
        }
        all
    }
}
