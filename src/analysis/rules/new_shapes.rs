//! Operators that take many times their usual time where an input shape is new to them: libraries plan, choose and load
//! a kernel then.

use hashbrown::{HashMap, HashSet};

use crate::analysis::median;
use crate::model::{DurNs, SliceId, SliceKind, StringId, TimeNs, Trace};

/// A call is slow from this many times the median of its operator's calls with shapes that came before.
const SLOW: DurNs = 5;

/// Idle time in such calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewShapes {
    pub total_ns: DurNs,
    pub calls: u64,
    /// The operator and shapes with most of it.
    pub operator: String,
    pub shapes: String,
}

impl NewShapes {
    /// * `parts`: idle time by the host slice in which it passed.
    /// * Cost: O(n + m log m) for n slices and m calls of the operators that these parts lie in.
    pub fn of(trace: &Trace, parts: &[(SliceId, DurNs)]) -> Self {
        let slices = &trace.slices;
        let is_operator = |slice: &SliceId| slices.kind[slice.idx()] == SliceKind::Operator;
        let operator = |slice: SliceId| std::iter::once(slice).chain(slices.ancestors(slice)).find(is_operator);
        let parts: Vec<(SliceId, DurNs)> =
            parts.iter().filter_map(|&(slice, ns)| Some((operator(slice)?, ns))).collect();
        let names: HashSet<StringId> = parts.iter().map(|(slice, _)| slices.name[slice.idx()]).collect();
        if trace.facts.shapes.is_empty() || names.is_empty() {
            return Self::default();
        }
        let slow = slow_first_calls(trace, &names);
        let mut by_call: HashMap<SliceId, DurNs> = HashMap::new();
        for (call, ns) in parts.into_iter().filter(|(call, _)| slow.contains(call)) {
            *by_call.entry(call).or_default() += ns;
        }
        let Some((&most, _)) = by_call.iter().max_by_key(|&(&call, &ns)| (ns, std::cmp::Reverse(call))) else {
            return Self::default();
        };
        Self {
            total_ns: by_call.values().sum(),
            calls: by_call.len() as u64,
            operator: trace.slice_name(most).to_owned(),
            shapes: trace.input_shapes(most).to_owned(),
        }
    }
}

/// The calls of these operators that are the first with their input shapes, and slow.
fn slow_first_calls(trace: &Trace, names: &HashSet<StringId>) -> HashSet<SliceId> {
    let slices = &trace.slices;
    let mut by_name: HashMap<StringId, Vec<(TimeNs, SliceId, StringId)>> = HashMap::new();
    for (slice, &shapes) in trace.facts.shapes.iter() {
        let name = slices.name[slice.idx()];
        if names.contains(&name) {
            by_name.entry(name).or_default().push((slices.ts[slice.idx()], slice, shapes));
        }
    }
    let mut out = HashSet::new();
    for calls in by_name.values_mut() {
        calls.sort_unstable();
        let mut seen = HashSet::new();
        let (first, repeated): (Vec<_>, Vec<_>) = calls.iter().partition(|(.., shapes)| seen.insert(*shapes));
        let dur = |call: &(TimeNs, SliceId, StringId)| slices.time(call.1).dur();
        let mut usual: Vec<DurNs> = repeated.iter().map(dur).collect();
        usual.sort_unstable();
        let Some(usual) = median::of_sorted(&usual) else { continue };
        out.extend(first.iter().filter(|call| dur(call) >= SLOW * usual.max(1)).map(|call| call.1));
    }
    out
}
