//! Whether a step takes another time than before, and why that may not be known.

use hashbrown::HashMap;

use super::{Alike, Change, Side, Sum};
use crate::analysis::steps::StepSource;
use crate::model::DurNs;

/// Where less of the time of kernels is of the same kernels, the two need not be the same program, unless they call as
/// many of the same operators: with another precision all kernels are others.
const COMMON_KERNELS: f64 = 0.25;
const COMMON_OPERATORS: f64 = 0.6;
/// Nor are they different where one calls nearly nothing but what the other calls too, and that is some of it: an
/// optimizer that is fused takes a few calls where another takes several for each parameter.
const CONTAINED: f64 = 0.9;
const LEAST_CONTAINED: f64 = 0.25;

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
    /// Most of the difference is of all work alike.
    Alike(Alike),
}

/// How much of the work is the same, if that is too little for one program: of the time of kernels, or without any in
/// both of the calls of operators. `None` where it is enough, or is not known.
pub(super) fn other_work(
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

/// * `other`: that the work is not alike, if so.
pub(super) fn verdict(sides: [&Side<'_>; 2], has_steps: bool, step: &Change, other: Option<Unknown>) -> Verdict {
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
pub(super) fn are_alike(a: &StepSource, b: &StepSource) -> bool {
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
