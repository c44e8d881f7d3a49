//! Steps of several micro batches: gradients are accumulated over equally many of them before each update.

use super::named::has_word;
use super::{Scope, StepSource, Steps};
use crate::model::time::partition_near;
use crate::model::{SliceId, SliceKind, TimeNs, Trace};

/// Parts of the names of kernels and operators that update parameters.
const UPDATES: [&str; 8] = ["multi_tensor_apply", "adam", "sgd", "optimizer", "lamb", "adagrad", "rmsprop", "lion_"];
/// Of fewer steps one whose micro batches do not count is one nevertheless.
const MIN_STEPS: usize = 4;
/// Words of ranges around an update.
const WORDS: [&str; 8] = ["optimizer", "optim", "opt", "adam", "adamw", "sgd", "update", "zero"];

/// One step for each update of the parameters, where it comes in every n-th of the given ones only; else the given.
///
/// Steps of the profiler, between optimizer annotations or marks stay as they are. What comes before the first whole
/// group and after the last update counts for no step. Cost: O(n log n) for n slices and strings.
pub(super) fn joined(trace: &Trace, scope: &Scope, steps: Steps) -> Steps {
    let is_final = match &steps.source {
        StepSource::ProfilerStep | StepSource::Marks | StepSource::Updates { .. } => true,
        StepSource::Annotation(name) | StepSource::DeviceRanges(name) => {
            name.starts_with("Optimizer.") || name.starts_with(super::PROFILER_STEP)
        }
        StepSource::Ranges(_) | StepSource::Period { .. } => false,
    };
    if is_final || steps.is_empty() {
        return steps;
    }
    let mut updated: Vec<usize> = Vec::new();
    let mut begun = 0;
    for at in updates(trace, scope, steps.source.is_of_device()) {
        begun = partition_near(&steps.boundaries, begun, |&start| start <= at);
        // The last range may end before the update that follows it.
        updated.extend(begun.checked_sub(1).map(|step| step.min(steps.len() - 1)));
    }
    updated.sort_unstable();
    updated.dedup();
    let Some(every) = rhythm(&updated, steps.len()) else { return steps };
    let first = updated[0] + 1;
    let starts = (first == every).then_some(0).into_iter().chain(updated.iter().map(|step| step + 1));
    let boundaries: Vec<TimeNs> = starts.map(|step| steps.boundaries[step]).collect();
    if boundaries.len() < 3 {
        return steps;
    }
    let disagreement = Some((steps.source.clone(), steps.len()));
    let end = steps.boundaries[steps.used.end];
    let source = StepSource::Updates { every, of: Box::new(steps.source) };
    let mut joined = Steps { disagreement, ..Steps::new(source, boundaries, None, 0, Some(&|ts| ts)) };
    // Of fewer too little would be left.
    if joined.len() >= MIN_STEPS {
        let n = joined.boundaries.partition_point(|&boundary| boundary <= end);
        joined.leave_out_from(n.saturating_sub(1));
    }
    joined
}

/// The number of steps from one update to the next, if it is always the same and above 1.
///
/// * `updated`: the steps with an update, ascending.
/// * `n`: the number of steps.
fn rhythm(updated: &[usize], n: usize) -> Option<usize> {
    let every = updated.get(1)? - updated[0];
    let is_even = updated.windows(2).all(|pair| pair[1] - pair[0] == every);
    let is_whole = updated[0] < every && n - updated[updated.len() - 1] <= every;
    (every > 1 && is_even && is_whole).then_some(every)
}

/// When parts of updates were launched, or when they ran.
fn updates(trace: &Trace, scope: &Scope, is_of_device: bool) -> Vec<TimeNs> {
    let slices = &trace.slices;
    // Each name is judged at its first use: a name for each step makes many.
    let [mut parts, mut ranges] = [(); 2].map(|()| vec![None; trace.strings.len()]);
    let judge = |known: &mut Vec<Option<bool>>, i: usize, is: fn(&str) -> bool| {
        let name = slices.name[i];
        known.get_mut(name.0 as usize).is_some_and(|known| *known.get_or_insert_with(|| is(trace.strings.get(name))))
    };
    let rows = scope.rows(trace);
    let mut time = |i: usize| match slices.kind[i] {
        SliceKind::Kernel if judge(&mut parts, i, is_update) => {
            let launch = trace.launch_of(SliceId(i as u32)).filter(|_| !is_of_device);
            Some(slices.ts[launch.map_or(i, SliceId::idx)])
        }
        SliceKind::Operator if !is_of_device && judge(&mut parts, i, is_update) => Some(slices.ts[i]),
        SliceKind::Annotation if !is_of_device && judge(&mut ranges, i, is_update_range) => Some(slices.ts[i]),
        _ => None,
    };
    let mut out = Vec::new();
    rows.for_each(|row| out.extend(row.range().filter_map(&mut time)));
    out
}

fn is_update(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    UPDATES.iter().any(|part| lower.contains(part))
}

fn is_update_range(name: &str) -> bool {
    has_word(name, &WORDS)
}
