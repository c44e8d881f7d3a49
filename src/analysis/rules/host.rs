//! What the host of a recording without device work does in its steps, and which functions took its time.

use std::cmp::Reverse;

use hashbrown::HashMap;

use super::{Basis, Hit, Measured, MostIn, Out, Rule, Window, hit};
use crate::analysis::call_tree::{host_tracks, waiting};
use crate::analysis::collectives::host_backend;
use crate::analysis::frame::FrameNames;
use crate::analysis::host_roles::{Waiting, waits};
use crate::analysis::median;
use crate::analysis::phases::{Phase, PhaseTimes};
use crate::analysis::range_summary::{NameSummary, summary_of};
use crate::model::memory::MemorySource;
use crate::model::{DurNs, ON_CPU, SliceId, SliceKind, StringId, TimeRange, Trace, TrackId};

/// The judged time of a host by phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTime {
    /// Sums to the judged time.
    pub phases: PhaseTimes,
    /// The function with most of the time of no known phase, if call stacks tell.
    pub other_in: Option<MostIn>,
}

/// A step of a host that takes longer than the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongestStep {
    pub name: String,
    pub ns: DurNs,
    /// Of the median step; of an even number the mean of the middle two.
    pub median_ns: DurNs,
    /// The phase of which it has most more than the median step, and how much more; `None` without phases.
    pub more: Option<(Phase, DurNs)>,
    /// The function with most of its time of no known phase, if it has most more of that.
    pub other_in: Option<MostIn>,
}

/// The self time of what threads of a recording without device work ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfTimes {
    pub basis: Basis,
    pub n_steps: usize,
    /// The kinds that count: operators and Python functions, or where there are none of them whatever was recorded.
    pub kinds: Vec<SliceKind>,
    /// Of all of these kinds: the time in which threads ran something of them and nothing of others inside.
    pub total_ns: DurNs,
    /// See [`NameSummary::endless_ns`].
    pub endless_ns: DurNs,
    /// The names of what works with most of it, at most three, the most first.
    pub names: Vec<(String, DurNs)>,
    /// Of what waits: it sleeps, or waits for another thread, a socket or a process.
    pub waits_ns: DurNs,
    /// The names of that with most of it, in the same way.
    pub waits: Vec<(String, DurNs)>,
    /// The user's function in which more than half of the first of these is, if call stacks tell.
    pub waits_in: Option<String>,
    /// Beside operators and Python functions: the time of these threads in calls of the runtime and driver API.
    pub calls_ns: DurNs,
    /// Those with most of it, in the same way.
    pub calls: Vec<(String, DurNs)>,
    pub n_threads: usize,
    /// Other threads, of which nothing is told: they hardly do anything but wait.
    pub n_waiting: usize,
    /// The judged time.
    pub window_ns: DurNs,
    /// All that has any, the most first: `self_ns` sums to `total_ns`.
    pub functions: Vec<NameSummary>,
}

/// When threads ran on CPUs, of a recording that shows nothing of what they ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnCpus {
    /// How often a thread ran on a CPU, and how long all of them together.
    pub times: u64,
    pub ns: DurNs,
    pub n_threads: usize,
    /// Call stacks that were sampled meanwhile.
    pub n_samples: usize,
    /// Of the recording.
    pub span_ns: DurNs,
}

impl OnCpus {
    /// `None` if anything else was recorded but what the recorder itself did, or nothing. Cost: O(n) for n slices.
    pub(super) fn of(trace: &Trace) -> Option<Self> {
        let is_other = |i: &usize| trace.slices.kind[*i] != SliceKind::Overhead;
        let of_track = |id: TrackId| (id, trace.track_slices(id).filter(is_other));
        let tracks = (0..trace.tracks.len() as u32).map(|id| of_track(TrackId(id)));
        let mut out =
            Self { times: 0, ns: 0, n_threads: 0, n_samples: trace.samples.ts.len(), span_ns: trace.span.dur() };
        for (id, mut slices) in tracks {
            let Some(first) = slices.next() else { continue };
            if !trace.track(id).name.ends_with(ON_CPU) {
                return None;
            }
            out.n_threads += 1;
            for i in std::iter::once(first).chain(slices) {
                out.times += 1;
                out.ns += trace.slices.time(SliceId(i as u32)).dur();
            }
        }
        (out.times > 0).then_some(out)
    }
}

/// The most names whose self time is told.
const MOST_NAMED: usize = 3;

impl SelfTimes {
    /// `None` if no thread ran anything. Of a memory snapshot, which holds no times but those of a few annotations,
    /// nothing is told.
    ///
    /// Threads that hardly do anything but wait, such as those of a pool without tasks, are left out, unless all do.
    ///
    /// Cost: O(n log n) for n slices of threads.
    pub(super) fn of(of: &Measured<'_>, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Option<Self> {
        let trace = of.trace;
        let window = of.host_window()?;
        if trace.memories.iter().any(|memory| memory.source == MemorySource::Snapshot) {
            return None;
        }
        let has = |kind: &SliceKind| trace.slices.has_kind(*kind);
        let code = [SliceKind::Operator, SliceKind::PythonFunction].into_iter().filter(has).collect::<Vec<_>>();
        let all = SliceKind::ALL.into_iter().filter(|&kind| kind != SliceKind::Overhead);
        let kinds = if code.is_empty() { all.filter(has).collect() } else { code };
        let is_told = |kind: SliceKind| kinds.contains(&kind);
        let is_code = |track: &TrackId| trace.slices.kind[trace.track_slices(*track)].iter().any(|&kind| is_told(kind));
        let waiting_threads = waiting(trace);
        let waits_only = |track: &TrackId| waiting_threads.contains(track);
        let (mut idle, mut tracks): (Vec<_>, Vec<_>) = host_tracks(trace).filter(is_code).partition(waits_only);
        if tracks.is_empty() {
            std::mem::swap(&mut idle, &mut tracks);
        }
        let summary = summary_of(trace, &tracks, window.time, is_cancelled);
        let (mut names, mut waits, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        let mut all: Vec<NameSummary> = summary.names.into_iter().filter(|of_name| of_name.self_ns > 0).collect();
        all.sort_by(|a, b| (b.self_ns, &a.name, a.kind).cmp(&(a.self_ns, &b.name, b.kind)));
        let (functions, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|of_name| is_told(of_name.kind));
        for of_name in functions.iter().chain(others.iter().filter(|other| other.kind.is_call())) {
            let works = if is_told(of_name.kind) { &mut names } else { &mut calls };
            let waits_ns = if is_told(of_name.kind) { of_name.waits_ns } else { 0 };
            for (list, ns) in [(works, of_name.self_ns - waits_ns), (&mut waits, waits_ns)] {
                if ns > 0 {
                    list.push((of_name.name.clone(), ns));
                }
            }
        }
        let [works_ns, waits_ns, calls_ns] = [&mut names, &mut waits, &mut calls].map(most_of);
        let total_ns: DurNs = works_ns.saturating_add(waits_ns);
        let endless_ns = functions.iter().map(|of_name| of_name.endless_ns).sum();
        let (basis, n_steps, n_threads) = (window.basis, window.steps.len(), summary.tracks.len());
        (total_ns > 0).then_some(Self {
            basis,
            n_steps,
            kinds,
            total_ns,
            endless_ns,
            names,
            waits_ns,
            waits_in: waits.first().and_then(|wait| caller(trace, &tracks, window.time, wait)),
            waits,
            calls_ns,
            calls,
            n_threads,
            n_waiting: idle.len(),
            window_ns: window.time.dur(),
            functions,
        })
    }
}

/// The sum of these times; the names with most of it are left.
fn most_of(list: &mut Vec<(String, DurNs)>) -> DurNs {
    list.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    let sum = list.iter().fold(0, |sum: DurNs, name| sum.saturating_add(name.1));
    list.truncate(MOST_NAMED);
    sum
}

/// The user's function in which the slices of this name wait for more than half of this time.
fn caller(trace: &Trace, tracks: &[TrackId], within: TimeRange, (name, all_ns): &(String, DurNs)) -> Option<String> {
    let waiting = Waiting::of(trace);
    let frames = FrameNames::default();
    let mut by_function: HashMap<StringId, DurNs> = HashMap::new();
    for i in tracks.iter().flat_map(|&track| trace.track_slices(track)) {
        let slice = SliceId(i as u32);
        if trace.slices.kind[i] != SliceKind::PythonFunction || trace.slice_name(slice) != name {
            continue;
        }
        if !waiting.is_wait(slice, waits(SliceKind::PythonFunction, name)) {
            continue;
        }
        let Some(clipped) = trace.slices.time(slice).intersect(within).map(|time| time.dur()) else { continue };
        let Some(of) = trace.slices.ancestors(slice).find(|&of| frames.is_user(trace, of)) else { continue };
        *by_function.entry(trace.slices.name[of.idx()]).or_default() += clipped;
    }
    let most = by_function.into_iter().filter(|of| of.1 > all_ns / 2).max_by_key(|&(name, ns)| (ns, Reverse(name)))?;
    Some(trace.strings.get(most.0).to_owned())
}

/// What is said of the communication of a host without a device. That nothing computes meanwhile is known only where
/// its own threads compute and communicate: collectives of a device that was not recorded may run beside kernels.
fn rule_of_communication(trace: &Trace, out: &mut Out<'_>) -> Rule {
    let mut ids = (0..trace.slices.len()).map(|i| SliceId(i as u32));
    let is_of_host = ids.any(|id| host_backend(trace, id).is_some());
    match is_of_host && out.hit_of(Rule::NoDeviceWork, None).is_none() {
        true => Rule::ExposedCommunication,
        false => Rule::CollectiveCalls,
    }
}

/// Fewer steps have no usual duration.
const MIN_STEPS: usize = 3;

/// What the threads of a recording without device work did, as far as it tells.
pub(super) fn without_device(of: &Measured<'_>, out: &mut Out<'_>, is_cancelled: &(dyn Fn() -> bool + Sync)) {
    judge(of, out);
    out.verdicts.longest_step = longest(of, out.thresholds.irregular_steps.first());
    out.verdicts.self_times = SelfTimes::of(of, is_cancelled);
    out.verdicts.on_cpus = OnCpus::of(of.trace);
}

/// Judges the host, if there are operators; by phase, if there are phases of it.
fn judge(of: &Measured<'_>, out: &mut Out<'_>) {
    let Some(window) = of.host_window() else { return };
    let has_operators = of.trace.slices.has_kind(SliceKind::Operator);
    if !has_operators || window.time.dur() == 0 {
        return;
    }
    if of.phases.is_empty() {
        out.verdicts.windows.push(window);
        return;
    }
    let phases = of.phases.within(window.time);
    let communication = rule_of_communication(of.trace, out);
    let rules = [
        (Rule::DataLoading, Phase::DataLoading),
        (communication, Phase::Communication),
        (Rule::Synchronization, Phase::Waiting),
    ];
    for (rule, phase) in rules {
        let tiles = of.phases.tiles(window.time).iter();
        let times = tiles.filter(|tile| tile.phase == phase).map(|tile| tile.time);
        out.check(Hit {
            count: times.clone().count() as u64,
            range: times.max_by_key(|time| time.dur()),
            n_steps: window.steps.len(),
            basis: window.basis,
            ..hit(rule, None, phases[phase as usize], window.time.dur())
        });
    }
    let other_in = MostIn::of(of.trace, of.phases, window.time, &parts_of(&window));
    out.verdicts.host = Some(HostTime { phases, other_in });
    out.verdicts.windows.push(window);
}

/// The steps, or all of it where there are none.
fn parts_of(window: &Window) -> Vec<TimeRange> {
    if window.steps.is_empty() { vec![window.time] } else { window.steps.clone() }
}

/// The longest judged step, if it is irregular.
///
/// * `least`: least ratio to the median step.
fn longest(of: &Measured<'_>, least: f64) -> Option<LongestStep> {
    let (steps, mut sorted) = (of.steps?, of.host_window()?.steps);
    sorted.sort_by_key(|step| step.dur());
    let (middle, longest) = (median::middle_of(&sorted)?, *sorted.last()?);
    let median_ns = median::between(middle.map(TimeRange::dur));
    // Between two groups of steps lies the length of none.
    let is_irregular = longest.dur() as f64 >= least * middle[0].dur() as f64;
    if sorted.len() < MIN_STEPS || !is_irregular {
        return None;
    }
    let k = steps.boundaries.iter().position(|&start| start == longest.start)?;
    let (own, usual) = (of.phases.within(longest), middle.map(|step| of.phases.within(step)));
    let more = Phase::ALL.into_iter().map(|phase| {
        let usual = usual.map(|phases| phases[phase as usize]);
        (phase, own[phase as usize] - median::between(usual))
    });
    let more = if of.phases.is_empty() { None } else { more.max_by_key(|phase| phase.1) };
    let is_other = more.is_some_and(|(phase, _)| phase == Phase::Other);
    let other_in = if is_other { MostIn::of(of.trace, of.phases, longest, &[longest]) } else { None };
    Some(LongestStep { name: steps.names.get(k)?.clone(), ns: longest.dur(), median_ns, more, other_in })
}
