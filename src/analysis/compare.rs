//! Time of one device in two recordings: how long a step takes, what it goes into, and which work takes more or less.
//!
//! Source: F13 of `DEFINITIONS.md`. Both sides are what the rules judge, see [`Window`](super::rules::Window): the judged steps, or
//! without steps the time after start-up.

mod alike;
mod functions;
mod side;
mod verdict;

use std::cmp::Reverse;

use hashbrown::HashMap;

pub use self::alike::Alike;
pub use self::functions::FunctionChange;
pub use self::side::Side;
use self::side::Sum;
pub use self::verdict::{Unknown, Verdict};
use super::breakdown::Breakdown;
use super::phases::{Phase, PhaseTimes};
use super::rules::{Basis, Cause};
use super::steps::t_975;
use crate::model::{DurNs, SliceId};

/// A change of the mean below this share of what it was before is noise, however alike the steps of each recording are:
/// one recording on each side says nothing of how runs differ.
const LEAST_NOISE: f64 = 0.02;

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
    /// All of it. Of a device those that follow sum to it, up to idle time; of a host without one its phases.
    Step,
    /// The same of recordings of which one has no steps: all time that is judged.
    Judged,
    Compute,
    ExposedCommunication,
    ExposedCopies,
    /// All causes sum to it.
    Idle,
    IdleBy(Cause),
    /// Of a host without a device.
    Host(Phase),
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

/// The time of a device in two recordings.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Both have steps, and figures are of a step; else they are of all judged time.
    pub has_steps: bool,
    /// See [`super::rules::Window::whole_step_ns`].
    pub whole_step_ns: [Option<DurNs>; 2],
    pub verdict: Verdict,
    /// By how much nearly all work changed alike, of steps that differ by more than noise. Where it is most of that the
    /// verdict is [`Unknown::Alike`].
    pub alike: Option<Alike>,
    /// The whole first, then its parts, then the causes of idle time that either has, by how much they changed. Of hosts
    /// the phases that either has, in their order; none where neither names any.
    pub times: Vec<(TimePart, Change)>,
    /// Of the causes of idle time that have any, what is after the wait itself, see [`super::rules::Makeup::lead_ns`].
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
    /// Python functions, operators and ranges of the host, by how much their self time changed.
    pub functions: Vec<FunctionChange>,
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

/// Compares the time of one device, or of hosts without one, in two recordings.
///
/// * Times of a step are means over the judged steps; a step is slower or faster where the means differ by more
///   than the larger of Welch's 95 % interval and 2 %, unless most of that is of all work alike: see [`Alike`].
/// * Cost: O(n log n) for n slices of both.
pub fn compare(before: &Side<'_>, after: &Side<'_>, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Compared {
    let sides = [before, after];
    let has_steps = sides.iter().all(|side| side.window.basis == Basis::Steps);
    let n = sides.map(|side| side.n(has_steps));
    let change = |total_ns| Change { total_ns, n, margin_ns: None };
    let times = times(sides, has_steps, n);
    let lead = |cause| (cause, change(sides.map(|side| side.lead_of(cause))));
    let leads = Cause::ALL.map(lead).into_iter().filter(|lead| lead.1.total_ns != [0, 0]).collect();
    let works = sides.map(Side::work);
    let graphs = [0, 1].map(|i| sides[i].graphs(&works[i]) > MOST_GRAPHS);
    let of_sides = sides.map(|side| side.operators(is_cancelled));
    let has_compiled = before.is_compiled != after.is_compiled;
    let has_names = graphs == [false; 2] && !has_compiled;
    let other = if has_names { verdict::other_work(sides, &works, &of_sides, n) } else { None };
    let (work, operators) = (work(sides, works, &change), operators(of_sides, &change));
    let functions = functions::functions(sides, &change, is_cancelled);
    let verdict = verdict::verdict(sides, has_steps, &times[0].1, other);
    let is_known = !matches!(verdict, Verdict::Same | Verdict::Unknown(_));
    let alike = if is_known { Alike::of(&times, &work, &functions) } else { None };
    let most = alike.filter(|alike| alike.explains(&times[0].1));
    Compared {
        has_steps,
        whole_step_ns: sides.map(|side| side.window.whole_step_ns()),
        verdict: most.map_or(verdict, |alike| Verdict::Unknown(Unknown::Alike(alike))),
        alike,
        times,
        leads,
        work,
        has_whole_graphs: graphs[0] != graphs[1],
        has_compiled,
        operators,
        functions,
    }
}

/// The work of the device by name, by how much it changed.
fn work(
    sides: [&Side<'_>; 2],
    works: [HashMap<String, Sum>; 2],
    change: &dyn Fn([DurNs; 2]) -> Change,
) -> Vec<NamedChange> {
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
    work
}

/// Operators by name, by how much they changed; none where one recording has none.
fn operators(
    of_sides: [HashMap<String, (u64, DurNs, DurNs)>; 2],
    change: &dyn Fn([DurNs; 2]) -> Change,
) -> Vec<OperatorChange> {
    let are_recorded = of_sides.iter().all(|operators| !operators.is_empty());
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
    operators
}

/// The step, its parts, and the causes of idle time.
fn times(sides: [&Side<'_>; 2], has_steps: bool, n: [u64; 2]) -> Vec<(TimePart, Change)> {
    let steps = sides.map(|side| if has_steps { side.parts_of_steps() } else { Vec::new() });
    let wholes = sides.map(Side::parts);
    let row = |part, of: &dyn Fn(&Breakdown) -> DurNs| (part, changed(&wholes, &steps, n, of));
    let sum = |parts: &Breakdown| parts.compute_ns + parts.exposed_comm_ns + parts.exposed_copy_ns + parts.idle_ns;
    let whole = if has_steps { TimePart::Step } else { TimePart::Judged };
    let mut all = vec![row(whole, &sum)];
    if sides.iter().all(|side| side.busy.is_none()) {
        all.extend(phases(sides, has_steps, n));
        return all;
    }
    all.push(row(TimePart::Compute, &|parts| parts.compute_ns));
    all.push(row(TimePart::ExposedCommunication, &|parts| parts.exposed_comm_ns));
    all.push(row(TimePart::ExposedCopies, &|parts| parts.exposed_copy_ns));
    all.push(row(TimePart::Idle, &|parts| parts.idle_ns));
    let by = |cause| Change { total_ns: sides.map(|side| side.idle_by(cause)), n, margin_ns: None };
    let causes = Cause::ALL.map(|cause| (TimePart::IdleBy(cause), by(cause)));
    let mut causes: Vec<_> = causes.into_iter().filter(|cause| cause.1.total_ns != [0, 0]).collect();
    causes.sort_by_key(|cause| Reverse(cause.1.difference().abs()));
    all.extend(causes);
    all
}

/// The phases of the steps of hosts, which sum to them; none where neither names any.
fn phases(sides: [&Side<'_>; 2], has_steps: bool, n: [u64; 2]) -> Vec<(TimePart, Change)> {
    let wholes = sides.map(|side| side.phases.within(side.window.time));
    let of_step = |side: &Side<'_>| side.window.steps.iter().map(|&step| side.phases.within(step)).collect();
    let steps = sides.map(|side| if has_steps { of_step(side) } else { Vec::new() });
    let all = Phase::ALL
        .map(|phase| (TimePart::Host(phase), changed(&wholes, &steps, n, &|times: &PhaseTimes| times[phase as usize])));
    let some: Vec<_> = all.into_iter().filter(|phase| phase.1.total_ns != [0, 0]).collect();
    if some.iter().all(|phase| phase.0 == TimePart::Host(Phase::Other)) { Vec::new() } else { some }
}

/// One figure of two recordings.
///
/// * `wholes`: what it is of, in all judged time.
/// * `steps`: the same of each step, if there are any.
fn changed<T>(wholes: &[T; 2], steps: &[Vec<T>; 2], n: [u64; 2], of: &dyn Fn(&T) -> DurNs) -> Change {
    let [before, after] = steps.each_ref().map(|steps| Sample::of(steps.iter().map(of)));
    Change { total_ns: wholes.each_ref().map(of), n, margin_ns: margin(before, after) }
}

/// Where more of the time of a device's work is in CUDA graphs recorded as wholes, names of kernels do not compare.
const MOST_GRAPHS: f64 = 0.1;

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
