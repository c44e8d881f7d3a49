//! Time of one device in two recordings: how long a step takes, what it goes into, and which work takes more or less.
//!
//! Source: F13 of `DEFINITIONS.md`. Both sides are what the rules judge, see [`Window`]: the judged steps, or
//! without steps the time after start-up.

use std::cmp::Reverse;

use hashbrown::HashMap;

use super::breakdown::{Breakdown, breakdown};
use super::busy::DeviceBusy;
use super::collectives::is_collective_name;
use super::operators::operators;
use super::rules::{Basis, Cause, Makeup, Window};
use super::short_name::without_parameters;
use super::steps::{PROFILER_STEP, StepSource, Steps, t_975};
use super::totals::Scope;
use crate::model::{DurNs, SliceId, SliceKind, TimeRange, Trace};

/// A change of the mean below this share of what it was before is noise, however alike the steps of each recording are:
/// one recording on each side says nothing of how runs differ.
const LEAST_NOISE: f64 = 0.02;

/// Where less of the time of kernels is of the same kernels, the two need not be the same program, unless they call as
/// many of the same operators: with another precision all kernels are others.
const COMMON_KERNELS: f64 = 0.25;
const COMMON_OPERATORS: f64 = 0.6;
/// Nor are they different where one calls nearly nothing but what the other calls too, and that is some of it: an
/// optimizer that is fused takes a few calls where another takes several for each parameter.
const CONTAINED: f64 = 0.9;
const LEAST_CONTAINED: f64 = 0.25;
/// Where more of the time of a device's work is in CUDA graphs recorded as wholes, names of kernels do not compare.
const MOST_GRAPHS: f64 = 0.1;

/// One of the recordings.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub trace: &'a Trace,
    pub steps: Option<&'a Steps>,
    /// What is judged of the device; of the host where there is none.
    pub window: &'a Window,
    /// Both `None` without a device.
    pub busy: Option<&'a DeviceBusy>,
    pub makeup: Option<&'a Makeup>,
    /// Whether code of torch.compile runs in it.
    pub is_compiled: bool,
}

/// Time of something in the judged time of each recording, before and after, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub total_ns: [DurNs; 2],
    /// By what the totals are divided: the steps, or 1.
    pub n: [u64; 2],
    /// Half the width of the 95 % interval of the difference of the means of a step: Welch's, of the steps of each.
    /// `None` where one has fewer than two steps, or where the figure is not known of each step.
    pub margin_ns: Option<DurNs>,
}

/// What part of a step is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// All of it; those that follow sum to it, up to idle time.
    Step,
    /// The same of recordings of which one has no steps: all time that is judged.
    Judged,
    Compute,
    ExposedCommunication,
    ExposedCopies,
    /// All causes sum to it.
    Idle,
    IdleBy(Cause),
}

/// Device work, or operators, of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedChange {
    pub name: String,
    pub calls: [u64; 2],
    pub time: Change,
    /// The longest of them: 0 stands for the recording before and 1 for that after, which is preferred.
    pub longest: (usize, SliceId),
}

/// Operators of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorChange {
    pub name: String,
    pub calls: [u64; 2],
    /// Time on the host that nothing inside took.
    pub host_self: Change,
    /// Time of the device work that no operator inside launched.
    pub device_self: Change,
}

/// Whether a step takes another time than before.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Faster,
    Slower,
    /// The means differ by less than the noise.
    Same,
    Unknown(Unknown),
}

/// Why nothing is said of the difference.
#[derive(Clone, Debug, PartialEq)]
pub enum Unknown {
    /// One of the recordings has fewer than two judged steps.
    FewSteps,
    /// What divides each recording into steps, which is not the same.
    OtherSteps([String; 2]),
    /// The model of each device.
    OtherDevice([String; 2]),
    /// How much of the time of kernels is of the same kernels in both, 0 to 1: the smaller share of each.
    OtherWork(f64),
    /// The same of the calls of operators in a step, of recordings without kernels.
    OtherOperators(f64),
}

/// The time of a device in two recordings.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Both have steps, and figures are of a step; else they are of all judged time.
    pub has_steps: bool,
    /// See [`Window::whole_step_ns`].
    pub whole_step_ns: [Option<DurNs>; 2],
    pub verdict: Verdict,
    /// The whole first, then its parts, then the causes of idle time that either has, by how much they changed.
    pub times: Vec<(TimePart, Change)>,
    /// Of the causes of idle time that have any, what is after the wait itself, see [`Makeup::lead_ns`].
    pub leads: Vec<(Cause, Change)>,
    /// Kernels, copies, memsets and graphs that start within the judged time, by name without parameters, and by how
    /// much they changed.
    pub work: Vec<NamedChange>,
    /// Whether one of the two shows CUDA graphs as wholes where the other has kernels, whose names then do not compare.
    pub has_whole_graphs: bool,
    /// Whether one of the two runs code of torch.compile, whose kernels and operators have other names.
    pub has_compiled: bool,
    /// Operators that ran meanwhile on the host, by how much they changed; none where one recording has none.
    pub operators: Vec<OperatorChange>,
}

impl Change {
    /// Time of a step in each recording, rounded to the nearest.
    pub fn per_step(&self) -> [DurNs; 2] {
        let mean = |i: usize| (self.total_ns[i] as f64 / self.n[i].max(1) as f64).round() as DurNs;
        [mean(0), mean(1)]
    }

    /// How much more a step takes than before; negative if less.
    pub fn difference(&self) -> DurNs {
        let [before, after] = self.per_step();
        after - before
    }

    /// The difference as a share of what it was; `None` where it was nothing, or is several times as much, of which no
    /// share tells anything.
    pub fn share(&self) -> Option<f64> {
        /// Tenfold.
        const MOST: f64 = 9.0;
        let [before, _] = self.per_step();
        let share = self.difference() as f64 / before as f64;
        (before > 0 && share <= MOST).then_some(share)
    }

    /// What a difference must exceed to be more than noise; `None` where that is not known.
    pub fn noise_ns(&self) -> Option<DurNs> {
        let floor = (self.per_step()[0] as f64 * LEAST_NOISE).round() as DurNs;
        self.margin_ns.map(|margin| margin.max(floor))
    }
}

/// Device work of one name in one recording.
#[derive(Clone, Copy, Default)]
struct Sum {
    calls: u64,
    ns: DurNs,
    longest: Option<(DurNs, SliceId)>,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.ns += other.ns;
        self.longest = self.longest.max(other.longest);
    }
}

impl<'a> Side<'a> {
    fn n(&self, has_steps: bool) -> u64 {
        if has_steps { self.window.steps.len() as u64 } else { 1 }
    }

    /// The parts of each step as the device sees it, or without one the steps on the host.
    fn parts_of_steps(&self) -> Vec<Breakdown> {
        let of = |&step: &TimeRange| match self.busy {
            Some(busy) => breakdown(busy, step),
            None => Breakdown { idle_ns: step.dur(), ..Breakdown::default() },
        };
        self.window.steps.iter().map(of).collect()
    }

    fn parts(&self) -> Breakdown {
        let all = Breakdown { idle_ns: self.window.time.dur(), ..Breakdown::default() };
        self.makeup.map_or(all, |makeup| makeup.parts)
    }

    fn idle_by(&self, cause: Cause) -> DurNs {
        let found = self.makeup.and_then(|makeup| makeup.causes.iter().find(|one| one.0 == cause));
        found.map_or(0, |one| one.1)
    }

    /// The part of that which is after the wait itself.
    fn lead_of(&self, cause: Cause) -> DurNs {
        let at = |makeup: &&Makeup| makeup.causes.iter().position(|one| one.0 == cause);
        self.makeup.and_then(|makeup| Some(makeup.lead_ns[at(&makeup)?])).unwrap_or_default()
    }

    /// The judged time as the host sees it.
    fn host_time(&self) -> TimeRange {
        match &self.window.host_steps[..] {
            [first, .., last] => TimeRange { start: first.start, end: last.end },
            [only] => *only,
            [] => self.window.time,
        }
    }

    /// The device work of each name, without parameters.
    fn work(&self) -> HashMap<String, Sum> {
        let (trace, slices) = (self.trace, &self.trace.slices);
        let mut of_name = HashMap::<_, Sum>::new();
        let tracks = self.busy.into_iter().flat_map(|busy| trace.tracks_of(busy.process));
        for i in tracks.flat_map(|track| trace.track_slices(track)) {
            if slices.kind[i].is_device_work() && self.window.time.contains(slices.ts[i]) {
                let one = Sum {
                    calls: 1,
                    ns: slices.end[i] - slices.ts[i],
                    longest: Some((slices.end[i] - slices.ts[i], SliceId(i as u32))),
                };
                of_name.entry(slices.name[i]).or_default().add(one);
            }
        }
        let mut of_text = HashMap::<_, Sum>::new();
        for (name, sum) in of_name {
            of_text.entry(without_parameters(trace.strings.get(name))).or_default().add(sum);
        }
        of_text
    }

    /// The time of the device's work of these kinds and names.
    fn time_of(&self, work: &HashMap<String, Sum>, is_wanted: impl Fn(SliceKind, &str) -> bool) -> DurNs {
        let kind = |sum: &Sum| sum.longest.map(|longest| self.trace.slices.kind[longest.1.idx()]);
        let wanted = work.iter().filter(|(name, sum)| kind(sum).is_some_and(|kind| is_wanted(kind, name)));
        wanted.map(|(_, sum)| sum.ns).sum()
    }

    /// The share of the time of the device's work that is of CUDA graphs recorded as wholes.
    fn graphs(&self, work: &HashMap<String, Sum>) -> f64 {
        let graphs = self.time_of(work, |kind, _| kind == SliceKind::CudaGraph);
        graphs as f64 / self.time_of(work, |_, _| true).max(1) as f64
    }

    /// The share of each kernel of the time of all, but for collectives and copies, which are alike in all programs. By
    /// name without digits: libraries choose tiles by the size of the batch. Empty without kernels.
    fn kernel_shares(&self, work: &HashMap<String, Sum>) -> HashMap<String, f64> {
        let computes = |kind, name: &str| kind == SliceKind::Kernel && !is_collective_name(name);
        let all = self.time_of(work, computes).max(1) as f64;
        let mut shares = HashMap::new();
        for (name, sum) in work {
            let kind = sum.longest.map(|longest| self.trace.slices.kind[longest.1.idx()]);
            if kind.is_some_and(|kind| computes(kind, name)) {
                let name = name.chars().filter(|c| !c.is_ascii_digit()).collect();
                *shares.entry(name).or_default() += sum.ns as f64 / all;
            }
        }
        shares
    }

    fn operators(&self, is_cancelled: &(dyn Fn() -> bool + Sync)) -> HashMap<String, (u64, DurNs, DurNs)> {
        let traces = [self.trace];
        let scope = Scope { traces: &traces, ranges: Some(vec![self.host_time()]), is_cancelled };
        let mut of_name = HashMap::<String, (u64, DurNs, DurNs)>::new();
        for row in operators(&scope, false) {
            // Each step has its number.
            let is_step = row.name.starts_with(PROFILER_STEP);
            let name = if is_step { PROFILER_STEP.to_owned() } else { row.name };
            let sum = of_name.entry(name).or_default();
            *sum = (sum.0 + row.host.calls, sum.1 + row.host_self_ns, sum.2 + row.device_self_ns);
        }
        of_name
    }

    fn device_name(&self) -> &'a str {
        let info = self.busy.and_then(|busy| self.trace.device_of_work(busy.device));
        info.map_or("", |info| &info.name)
    }
}

/// Compares the time of one device, or of hosts without one, in two recordings.
///
/// * Times of a step are means over the judged steps; a step is slower or faster where the means differ by more
///   than the larger of Welch's 95 % interval and 2 %.
/// * Cost: O(n log n) for n slices of both.
pub fn compare(before: &Side<'_>, after: &Side<'_>, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Compared {
    let sides = [before, after];
    let has_steps = sides.iter().all(|side| side.window.basis == Basis::Steps);
    let n = sides.map(|side| side.n(has_steps));
    let change = |total_ns| Change { total_ns, n, margin_ns: None };
    let times = times(sides, has_steps, &change);
    let lead = |cause| (cause, change(sides.map(|side| side.lead_of(cause))));
    let leads = Cause::ALL.map(lead).into_iter().filter(|lead| lead.1.total_ns != [0, 0]).collect();
    let works = sides.map(Side::work);
    let graphs = [0, 1].map(|i| sides[i].graphs(&works[i]) > MOST_GRAPHS);
    let of_sides = sides.map(|side| side.operators(is_cancelled));
    let are_recorded = of_sides.iter().all(|operators| !operators.is_empty());
    let has_compiled = before.is_compiled != after.is_compiled;
    let has_names = graphs == [false; 2] && !has_compiled;
    let other = if has_names { other_work(sides, &works, &of_sides, n) } else { None };
    let named = |(name, [before, after]): (String, [Sum; 2])| {
        let longest = [(1, after), (0, before)].into_iter().find_map(|(side, sum)| Some((side, sum.longest?.1)))?;
        let (calls, time) = ([before.calls, after.calls], change([before.ns, after.ns]));
        let full = |(side, slice): (usize, SliceId)| sides[side].trace.slice_name(slice);
        let name = if calls.contains(&0) { full(longest).to_owned() } else { name };
        Some(NamedChange { name, calls, time, longest })
    };
    let mut work: Vec<NamedChange> = joined(works).filter_map(named).collect();
    work.sort_by(|a, b| {
        Reverse(a.time.difference().abs()).cmp(&Reverse(b.time.difference().abs())).then_with(|| a.name.cmp(&b.name))
    });
    let mut operators: Vec<OperatorChange> = joined(of_sides)
        .filter(|_| are_recorded)
        .map(|(name, [before, after])| OperatorChange {
            name,
            calls: [before.0, after.0],
            host_self: change([before.1, after.1]),
            device_self: change([before.2, after.2]),
        })
        .collect();
    let most = |one: &OperatorChange| one.host_self.difference().abs().max(one.device_self.difference().abs());
    operators.sort_by(|a, b| Reverse(most(a)).cmp(&Reverse(most(b))).then_with(|| a.name.cmp(&b.name)));
    let verdict = verdict(sides, has_steps, &times[0].1, other);
    Compared {
        has_steps,
        whole_step_ns: sides.map(|side| side.window.whole_step_ns()),
        verdict,
        times,
        leads,
        work,
        has_whole_graphs: graphs[0] != graphs[1],
        has_compiled,
        operators,
    }
}

/// The step, its parts, and the causes of idle time.
fn times(sides: [&Side<'_>; 2], has_steps: bool, change: &dyn Fn([DurNs; 2]) -> Change) -> Vec<(TimePart, Change)> {
    let steps = sides.map(|side| if has_steps { side.parts_of_steps() } else { Vec::new() });
    let row = |part: TimePart, of: &dyn Fn(&Breakdown) -> DurNs| {
        let total = sides.map(|side| of(&side.parts()));
        let [before, after] = [&steps[0], &steps[1]].map(|steps| Sample::of(steps.iter().map(of)));
        (part, Change { margin_ns: margin(before, after), ..change(total) })
    };
    let sum = |parts: &Breakdown| parts.compute_ns + parts.exposed_comm_ns + parts.exposed_copy_ns + parts.idle_ns;
    let whole = if has_steps { TimePart::Step } else { TimePart::Judged };
    let mut all = vec![row(whole, &sum)];
    if sides.iter().all(|side| side.busy.is_none()) {
        return all;
    }
    all.push(row(TimePart::Compute, &|parts| parts.compute_ns));
    all.push(row(TimePart::ExposedCommunication, &|parts| parts.exposed_comm_ns));
    all.push(row(TimePart::ExposedCopies, &|parts| parts.exposed_copy_ns));
    all.push(row(TimePart::Idle, &|parts| parts.idle_ns));
    let causes = Cause::ALL.map(|cause| (TimePart::IdleBy(cause), change(sides.map(|side| side.idle_by(cause)))));
    let mut causes: Vec<_> = causes.into_iter().filter(|cause| cause.1.total_ns != [0, 0]).collect();
    causes.sort_by_key(|cause| Reverse(cause.1.difference().abs()));
    all.extend(causes);
    all
}

/// How much of the work is the same, if that is too little for one program: of the time of kernels, or without any in
/// both of the calls of operators. `None` where it is enough, or is not known.
fn other_work(
    sides: [&Side<'_>; 2],
    works: &[HashMap<String, Sum>; 2],
    operators: &[HashMap<String, (u64, DurNs, DurNs)>; 2],
    n: [u64; 2],
) -> Option<Unknown> {
    let kernels = [0, 1].map(|i| sides[i].kernel_shares(&works[i]));
    let calls = [0, 1].map(|i| {
        let per_step = |(name, sums): (_, &(u64, DurNs, DurNs))| (name, sums.0 as f64 / n[i].max(1) as f64);
        operators[i].iter().map(|(name, sums)| per_step((name.as_str(), sums))).collect()
    });
    let [of_kernels, _] = common(&kernels);
    let [of_calls, of_fewer] = common(&calls);
    match kernels.map(|kernels| kernels.is_empty()) {
        _ if of_calls >= COMMON_OPERATORS => None,
        [true, true] if of_fewer >= CONTAINED && of_calls >= LEAST_CONTAINED => None,
        [false, false] => (of_kernels < COMMON_KERNELS).then_some(Unknown::OtherWork(of_kernels)),
        [true, true] if operators.iter().all(|all| !all.is_empty()) => Some(Unknown::OtherOperators(of_calls)),
        _ => None,
    }
}

/// How much of the larger, and of the smaller, of two sums is in both: the smaller figure of each name. 0 to 1.
fn common<K: std::hash::Hash + Eq>(sides: &[HashMap<K, f64>; 2]) -> [f64; 2] {
    let in_both: f64 = sides[0].iter().filter_map(|(name, a)| Some(a.min(*sides[1].get(name)?))).sum();
    let [a, b] = [0, 1].map(|i| sides[i].values().sum::<f64>());
    [a.max(b), a.min(b)].map(|sum| if sum > 0.0 { in_both / sum } else { 0.0 })
}

/// What the two have of each name.
fn joined<K: std::hash::Hash + Eq, V: Copy + Default>(
    [before, after]: [HashMap<K, V>; 2],
) -> impl Iterator<Item = (K, [V; 2])> {
    let mut all: HashMap<K, [V; 2]> = HashMap::with_capacity(before.len().max(after.len()));
    for (i, side) in [before, after].into_iter().enumerate() {
        for (name, value) in side {
            all.entry(name).or_default()[i] = value;
        }
    }
    all.into_iter()
}

/// * `other`: that the work is not alike, if so.
fn verdict(sides: [&Side<'_>; 2], has_steps: bool, step: &Change, other: Option<Unknown>) -> Verdict {
    let models = sides.map(Side::device_name);
    if models[0] != models[1] && !models.contains(&"") {
        return Verdict::Unknown(Unknown::OtherDevice(models.map(str::to_owned)));
    }
    if let Some(other) = other {
        return Verdict::Unknown(other);
    }
    // What steps are matters more than how many there are.
    if let [Some(before), Some(after)] = sides.map(|side| side.steps.map(|steps| &steps.source))
        && !are_alike(before, after)
    {
        return Verdict::Unknown(Unknown::OtherSteps([before, after].map(StepSource::label)));
    }
    let Some(noise) = step.noise_ns().filter(|_| has_steps) else { return Verdict::Unknown(Unknown::FewSteps) };
    match step.difference() {
        difference if difference.abs() <= noise => Verdict::Same,
        difference if difference < 0 => Verdict::Faster,
        _ => Verdict::Slower,
    }
}

/// Whether steps of two recordings are of the same sort: an epoch is no batch, and micro batches are no updates. What
/// repeats may have become shorter by fused kernels; several times as long, it is something else.
fn are_alike(a: &StepSource, b: &StepSource) -> bool {
    /// Of the longer repetition by the shorter.
    const MOST: usize = 2;
    match (a, b) {
        (StepSource::Ranges(a), StepSource::Ranges(b)) | (StepSource::DeviceRanges(a), StepSource::DeviceRanges(b)) => {
            a == b
        }
        (StepSource::Period { items: a, length: of_a, .. }, StepSource::Period { items: b, length: of_b, .. }) => {
            a == b && of_a.max(of_b) / of_a.min(of_b).max(&1) < MOST
        }
        (StepSource::Updates { of: a, .. }, StepSource::Updates { of: b, .. }) => are_alike(a, b),
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// Durations of the steps of one recording.
#[derive(Clone, Copy, Debug)]
struct Sample {
    n: f64,
    /// Of the sample (n - 1).
    variance: f64,
}

impl Sample {
    fn of(all: impl ExactSizeIterator<Item = DurNs> + Clone) -> Self {
        let n = all.len() as f64;
        let mean = all.clone().map(|ns| ns as f64).sum::<f64>() / n;
        Self { n, variance: all.map(|ns| (ns as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0) }
    }
}

/// Half the width of Welch's 95 % interval of the difference of two means, in nanoseconds; `None` for fewer than two of
/// one.
fn margin(a: Sample, b: Sample) -> Option<DurNs> {
    if a.n < 2.0 || b.n < 2.0 {
        return None;
    }
    let [of_a, of_b] = [a, b].map(|one| one.variance / one.n);
    let error = of_a + of_b;
    if error == 0.0 {
        return Some(0);
    }
    let freedom = error.powi(2) / (of_a.powi(2) / (a.n - 1.0) + of_b.powi(2) / (b.n - 1.0));
    Some((t_975(freedom.floor().max(1.0) as u64) * error.sqrt()).round() as DurNs)
}

#[cfg(test)]
pub mod tests;
