//! Steps that last much longer or shorter than the others, and steps that take longer and longer.

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

/// Steps that differ from the others, by the one that does so most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Irregular {
    /// Names of all that are beyond the threshold, the most different first.
    pub steps: Vec<String>,
    pub step_ns: DurNs,
    pub median_ns: DurNs,
    /// The part that differs most, with its time in that step and in the median step, of an even number in the shorter of
    /// the middle two; where there is a trend, in the last step and in the first.
    pub part: Part,
    pub part_ns: DurNs,
    pub median_part_ns: DurNs,
    pub trend: Option<Trend>,
}

/// By how much steps grow, if they do so over all of them: Kendall's measure of order, and the median slope of all pairs
/// (Theil and Sen), which one odd step does not change. 0 without a trend, or where it makes less than [`LEAST_TOLD`] of
/// the difference between the first and the last.
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
    if is_told && signs.abs() >= LEAST_TREND * slopes.len() as f64 { slope } else { 0.0 }
}

impl Device<'_, '_> {
    /// The name of the step that begins at `start` on the device, else its number.
    pub(super) fn step_name(&self, start: TimeNs) -> String {
        let Some(steps) = self.of.steps else { return String::new() };
        let Boundaries { device, .. } = steps.on(self.busy.process);
        let k = device.partition_point(|&boundary| boundary < start);
        let is_named = device.len() == steps.boundaries.len();
        steps.names.get(k).filter(|_| is_named).cloned().unwrap_or_else(|| format!("Step {}", k + 1))
    }

    /// The step that differs most from the median of those that count. A first step that does not count because it
    /// includes the warm-up belongs to them where it is shorter than the median: a warm-up makes a step longer.
    ///
    /// Cost: O(steps · log gaps).
    pub(super) fn irregular_steps(&mut self, ledger: &Ledger) {
        if self.window.basis != Basis::Steps || self.window.steps.len() < MIN_STEPS {
            return;
        }
        let Some(steps) = self.of.steps else { return };
        let Boundaries { device, .. } = steps.on(self.busy.process);
        let all: Vec<TimeRange> = device.windows(2).map(|pair| TimeRange { start: pair[0], end: pair[1] }).collect();
        let mut sorted = self.window.steps.clone();
        sorted.sort_by_key(|step| step.dur());
        let durations: Vec<DurNs> = sorted.iter().map(|step| step.dur()).collect();
        let Some((median_ns, [median, _])) = median::of_sorted(&durations).zip(median::middle_of(&sorted)) else {
            return;
        };
        let ratio = |step: &TimeRange| {
            let [a, b] = [step.dur().max(1), median_ns.max(1)];
            a.max(b) as f64 / a.min(b) as f64
        };
        let is_early = |step: &TimeRange| {
            all.first() == Some(step) && self.window.steps[0].start == step.end && step.dur() < median_ns
        };
        let counts = |step: &TimeRange| self.window.steps.binary_search_by_key(&step.start, |one| one.start).is_ok();
        let mut judged: Vec<(usize, f64)> = all
            .iter()
            .enumerate()
            .filter(|(_, step)| counts(step) || is_early(step))
            .map(|(k, step)| (k, ratio(step)))
            .collect();
        judged.sort_by(|a, b| b.1.total_cmp(&a.1));
        let Some(&(worst, measured)) = judged.first() else { return };
        let mut in_order: Vec<(usize, DurNs)> = judged.iter().map(|&(k, _)| (k, all[k].dur())).collect();
        in_order.sort_unstable();
        let slope = slope(&in_order);
        let trend = in_order.first().zip(in_order.last()).filter(|_| slope != 0.0).map(|(first, last)| Trend {
            n_steps: in_order.len(),
            ns_per_step: slope.round() as DurNs,
            first: self.step_name(all[first.0].start),
            first_ns: first.1,
            last: self.step_name(all[last.0].start),
            last_ns: last.1,
        });
        let compared = match in_order.first().zip(in_order.last()).filter(|_| trend.is_some()) {
            Some((first, last)) => [all[last.0], all[first.0]],
            None => [all[worst], median],
        };
        let first = self.out.thresholds.irregular_steps.first();
        let name = |step: &(usize, f64)| self.step_name(all[step.0].start);
        let beyond = judged.iter().take_while(|step| step.1 >= first).map(name).collect();
        let [own, usual] = compared.map(|step| parts(breakdown(self.busy, step), ledger, step));
        let differences = own.into_iter().zip(usual).map(|((part, own), (_, usual))| (part, own, usual));
        let Some((part, part_ns, median_part_ns)) = differences.max_by_key(|(_, own, usual)| own.abs_diff(*usual))
        else {
            return;
        };
        let irregular =
            Irregular { steps: beyond, step_ns: all[worst].dur(), median_ns, part, part_ns, median_part_ns, trend };
        let names = irregular.steps.iter().take(3).cloned().collect();
        let count = irregular.steps.len() as u64;
        let found = self.hit_in(Rule::IrregularSteps, irregular.step_ns, irregular.median_ns);
        self.out.check(Hit { measured, count, names, range: Some(all[worst]), irregular: Some(irregular), ..found });
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
