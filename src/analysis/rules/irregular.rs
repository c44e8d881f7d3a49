//! Steps that last much longer or shorter than the others, steps of two lengths, and steps that take longer and longer.

use super::{Basis, Device, Hit, Rule};
use crate::analysis::breakdown::{Breakdown, breakdown};
use crate::analysis::gaps::{GapClass, Ledger};
use crate::analysis::median;
use crate::analysis::steps::Boundaries;
use crate::model::{DurNs, TimeNs, TimeRange};

/// Fewer steps have no usual duration.
const MIN_STEPS: usize = 3;

/// A part of the time of a step on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    Compute,
    Communication,
    Copies,
    Idle(GapClass),
    /// Before its first work.
    NotBegun,
}

/// Least part of the difference between the first and the last step that the trend tells.
const LEAST_TOLD: f64 = 0.5;
/// Fewer steps are in order by chance.
const MIN_TREND: usize = 4;
/// More steps than these are looked at in so many of them.
const MAX_TREND: usize = 200;
/// Least difference between the pairs of steps of which the later takes longer and the others, as a part of all pairs.
const LEAST_TREND: f64 = 0.8;
/// Most of the difference between the first and the last step that may come from one step to the next: more is a jump.
const MOST_IN_ONE: f64 = 0.5;
/// Fewer steps are no group: they are told by name. A first step that is shorter than all others is one, since all is
/// different after it.
const MIN_GROUP: usize = 2;

/// Steps that take longer and longer, or less and less, rather than one that differs from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trend {
    pub n_steps: usize,
    /// By how much more each takes than the one before: the median of all pairs, in nanoseconds.
    pub ns_per_step: DurNs,
    pub first: String,
    pub first_ns: DurNs,
    pub last: String,
    pub last_ns: DurNs,
}

/// Durations of the steps of a group, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    pub n_steps: usize,
    pub least_ns: DurNs,
    /// Of an even number the shorter of the middle two.
    pub median_ns: DurNs,
    pub most_ns: DurNs,
}

/// Steps of two lengths: those of one group are more like each other than the groups are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    pub longer: Lengths,
    pub shorter: Lengths,
    /// Where one group follows the other: the first step of the later one, and whether its steps are the longer ones.
    pub jump: Option<(String, bool)>,
}

/// Steps that differ from the others, by the one that does so most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Irregular {
    /// Names of all that are beyond the threshold, the most different first.
    pub steps: Vec<String>,
    pub step_ns: DurNs,
    /// Of the median step, of an even number the shorter of the middle two: the mean of two lengths is of no step.
    pub median_ns: DurNs,
    /// The part that makes most of the difference, with its time in that step and in the median step; where there is a
    /// trend, in the last step and in the first; of two groups, in the median steps of the longer and of the shorter
    /// one.
    pub part: Part,
    pub part_ns: DurNs,
    pub median_part_ns: DurNs,
    /// Whether that is at least half of the difference.
    pub is_most: bool,
    pub trend: Option<Trend>,
    /// None where there is a trend.
    pub groups: Option<Groups>,
}

/// By how much steps grow, if they do so over all of them: Kendall's measure of order, and the median slope of all
/// pairs (Theil and Sen), which one odd step does not change. 0 without a trend, or where it makes less than
/// [`LEAST_TOLD`] of the difference between the first and the last, or where one step makes most of that.
///
/// * `steps`: place and duration of each, in order.
fn slope(steps: &[(usize, DurNs)]) -> f64 {
    let every = steps.len().div_ceil(MAX_TREND).max(1);
    let looked_at: Vec<(usize, DurNs)> = steps.iter().copied().step_by(every).collect();
    let [Some(first), Some(last)] = [looked_at.first(), looked_at.last()] else { return 0.0 };
    if looked_at.len() < MIN_TREND {
        return 0.0;
    }
    let pairs = looked_at.iter().enumerate().flat_map(|(i, a)| looked_at[i + 1..].iter().map(move |b| (a, b)));
    let mut slopes: Vec<f64> = pairs.map(|(a, b)| (b.1 - a.1) as f64 / (b.0 - a.0) as f64).collect();
    slopes.sort_by(f64::total_cmp);
    let signs: f64 = slopes.iter().map(|slope| if *slope == 0.0 { 0.0 } else { slope.signum() }).sum();
    let Some([low, high]) = median::middle_of(&slopes) else { return 0.0 };
    let slope = f64::midpoint(low, high);
    let told = slope * (last.0 - first.0) as f64 / (last.1 - first.1) as f64;
    let is_told = (LEAST_TOLD..=1.0 / LEAST_TOLD).contains(&told);
    let rises = looked_at.windows(2).map(|pair| (pair[1].1 - pair[0].1) as f64 / (last.1 - first.1) as f64);
    let is_gradual = rises.fold(0.0, f64::max) <= MOST_IN_ONE;
    if is_told && is_gradual && signs.abs() >= LEAST_TREND * slopes.len() as f64 { slope } else { 0.0 }
}

/// Where the longer of two groups of steps begins among sorted durations: at the largest ratio of neighbors, if that is
/// at least `least`, and more than within either group. `None` for groups of fewer than [`MIN_GROUP`] steps.
///
/// * `first`: duration of the first step.
fn longer_group(sorted: &[DurNs], first: DurNs, least: f64) -> Option<usize> {
    let ratio = |low: DurNs, high: DurNs| high.max(1) as f64 / low.max(1) as f64;
    let split = (1..sorted.len())
        .max_by(|&a, &b| ratio(sorted[a - 1], sorted[a]).total_cmp(&ratio(sorted[b - 1], sorted[b])).then(b.cmp(&a)))?;
    let between = ratio(sorted[split - 1], sorted[split]);
    let within = |group: &[DurNs]| group.first().zip(group.last()).map_or(1.0, |(low, high)| ratio(*low, *high));
    let (shorter, longer) = sorted.split_at(split);
    let are_groups = longer.len() >= MIN_GROUP && (shorter.len() >= MIN_GROUP || shorter[0] == first);
    let is_clear = within(shorter) < between && within(longer) < between;
    (are_groups && is_clear && between >= least).then_some(split)
}

impl Device<'_, '_> {
    /// See [`Steps::name_on`].
    pub(super) fn step_name(&self, start: TimeNs) -> String {
        self.of.steps.map_or_else(String::new, |steps| steps.name_on(self.busy.process, start))
    }

    /// The step that differs most from the median of those that count. A first step that does not count because it
    /// includes the warm-up belongs to them where it is shorter than the median: a warm-up makes a step longer. Not where
    /// the device lags behind the host.
    ///
    /// Cost: O(steps · log gaps).
    pub(super) fn irregular_steps(&mut self, ledger: &Ledger) {
        if self.window.basis != Basis::Steps || self.window.steps.len() < MIN_STEPS {
            return;
        }
        let Some(steps) = self.of.steps else { return };
        let Boundaries { host, device } = steps.on(self.busy.process);
        let all: Vec<TimeRange> = device.windows(2).map(|pair| TimeRange { start: pair[0], end: pair[1] }).collect();
        let mut sorted = self.window.steps.clone();
        sorted.sort_by_key(|step| step.dur());
        let Some([median, _]) = median::middle_of(&sorted) else { return };
        let median_ns = median.dur();
        let ratio = |step: &TimeRange| {
            let [a, b] = [step.dur().max(1), median_ns.max(1)];
            a.max(b) as f64 / a.min(b) as f64
        };
        // Completed later than on the host, it has a start but no completion before its own: it lacks what others wait for.
        let lags = device.get(1).zip(host.get(1)).is_some_and(|(end, host)| end.saturating_sub(*host) > median_ns / 10);
        let is_early = |step: &TimeRange| {
            !lags && all.first() == Some(step) && self.window.steps[0].start == step.end && step.dur() < median_ns
        };
        let counts = |step: &TimeRange| self.window.steps.binary_search_by_key(&step.start, |one| one.start).is_ok();
        let in_order: Vec<usize> = (0..all.len()).filter(|&k| counts(&all[k]) || is_early(&all[k])).collect();
        let mut judged: Vec<(usize, f64)> = in_order.iter().map(|&k| (k, ratio(&all[k]))).collect();
        judged.sort_by(|a, b| b.1.total_cmp(&a.1));
        let Some(&(worst, measured)) = judged.first() else { return };
        let first = self.out.thresholds.irregular_steps.first();
        let trend = self.trend(&all, &in_order);
        let groups = if trend.is_none() { self.groups(&all, &in_order, first) } else { None };
        let (compared, trend, groups) = match (trend, groups) {
            (Some((trend, compared)), _) => (compared, Some(trend), None),
            (None, Some((groups, compared))) => (compared, None, Some(groups)),
            (None, None) => ([all[worst], median], None, None),
        };
        let name = |step: &(usize, f64)| self.step_name(all[step.0].start);
        let beyond = judged.iter().take_while(|step| step.1 >= first).map(name).collect();
        let difference = compared[0].dur() - compared[1].dur();
        let [own, usual] = compared.map(|step| parts(breakdown(self.busy, step), ledger, step));
        let differences = own.into_iter().zip(usual).map(|((part, own), (_, usual))| (part, own, usual));
        let Some((part, part_ns, median_part_ns)) =
            differences.max_by_key(|(_, own, usual)| (own - usual) * difference.signum())
        else {
            return;
        };
        // Halves without doubling: recorded times may be beyond any clock.
        let of_part = (part_ns - median_part_ns).abs();
        let is_most = of_part >= difference.abs() - of_part;
        // Requests come when they come: that says nothing of the steps.
        let is_load = |hit: &mut Hit| hit.is_of_low_load() && part == Part::Idle(GapClass::Blocked);
        if self.out.hit_of(Rule::Blocked, self.window.device).is_some_and(is_load) {
            return;
        }
        let irregular = Irregular {
            steps: beyond,
            step_ns: all[worst].dur(),
            median_ns,
            part,
            part_ns,
            median_part_ns,
            is_most,
            trend,
            groups,
        };
        let names = irregular.steps.iter().take(3).cloned().collect();
        let count = irregular.steps.len() as u64;
        let found = self.hit_in(Rule::IrregularSteps, irregular.step_ns, irregular.median_ns);
        self.out.check(Hit { measured, count, names, range: Some(all[worst]), irregular: Some(irregular), ..found });
    }

    /// Whether the step after the last one that is judged is on the same side of a duration, as far as is known: one in
    /// which the recording ends may be cut off, on the host or on the device.
    fn goes_on(&self, all: &[TimeRange], last: usize, limit_ns: DurNs, is_longer: bool) -> bool {
        let Some((step, steps)) = all.get(last + 1).zip(self.of.steps) else { return true };
        let Boundaries { host, .. } = steps.on(self.busy.process);
        let on_host = host.get(last + 1).zip(host.get(last + 2)).map_or(step.dur(), |(start, end)| end - start);
        if is_longer { step.dur().max(on_host) > limit_ns } else { step.dur().min(on_host) < limit_ns }
    }

    /// Whether steps take longer and longer, or less and less, with the last and the first of them.
    ///
    /// * `judged`: indexes of `all`, ascending.
    fn trend(&self, all: &[TimeRange], judged: &[usize]) -> Option<(Trend, [TimeRange; 2])> {
        let in_order: Vec<(usize, DurNs)> = judged.iter().map(|&k| (k, all[k].dur())).collect();
        let slope = slope(&in_order);
        let [(first, first_ns), (last, last_ns)] = [*in_order.first()?, *in_order.last()?];
        if slope == 0.0 || !self.goes_on(all, last, first_ns.midpoint(last_ns), slope > 0.0) {
            return None;
        }
        let trend = Trend {
            n_steps: in_order.len(),
            ns_per_step: slope.round() as DurNs,
            first: self.step_name(all[first].start),
            first_ns,
            last: self.step_name(all[last].start),
            last_ns,
        };
        Some((trend, [all[last], all[first]]))
    }

    /// Two groups of steps, if there are, with the median step of the longer and of the shorter one.
    ///
    /// * `judged`: indexes of `all`, ascending.
    /// * `least`: least ratio between the groups.
    fn groups(&self, all: &[TimeRange], judged: &[usize], least: f64) -> Option<(Groups, [TimeRange; 2])> {
        let (first, last) = (*judged.first()?, *judged.last()?);
        let mut sorted: Vec<TimeRange> = judged.iter().map(|&k| all[k]).collect();
        sorted.sort_by_key(|step| step.dur());
        let durations: Vec<DurNs> = sorted.iter().map(|step| step.dur()).collect();
        let (shorter, longer) = sorted.split_at(longer_group(&durations, all[first].dur(), least)?);
        let lengths = |group: &[TimeRange]| {
            let [median, _] = median::middle_of(group)?;
            let [least_ns, most_ns] = [group.first()?.dur(), group.last()?.dur()];
            Some((Lengths { n_steps: group.len(), least_ns, median_ns: median.dur(), most_ns }, median))
        };
        let [(shorter, typical_shorter), (longer, typical_longer)] = [lengths(shorter)?, lengths(longer)?];
        let is_longer: Vec<bool> = judged.iter().map(|&k| all[k].dur() >= longer.least_ns).collect();
        let changes: Vec<usize> = (1..is_longer.len()).filter(|&i| is_longer[i - 1] != is_longer[i]).collect();
        let half = shorter.most_ns.midpoint(longer.least_ns);
        let jump = match changes[..] {
            [at] if self.goes_on(all, last, half, is_longer[at]) => {
                Some((self.step_name(all[judged[at]].start), is_longer[at]))
            }
            _ => None,
        };
        Some((Groups { longer, shorter, jump }, [typical_longer, typical_shorter]))
    }
}

/// The time of a step by what the device does; it sums to the step.
fn parts(of: Breakdown, ledger: &Ledger, step: TimeRange) -> Vec<(Part, DurNs)> {
    let idle = GapClass::ALL.into_iter().zip(ledger.totals(step).by_class);
    let idle = idle.map(|(class, totals)| (Part::Idle(class), totals.total_ns));
    let busy =
        [(Part::Compute, of.compute_ns), (Part::Communication, of.exposed_comm_ns), (Part::Copies, of.exposed_copy_ns)];
    busy.into_iter().chain(idle).collect()
}
