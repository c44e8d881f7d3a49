//! In which function the time of no known phase is.

use std::cmp::Reverse;

use hashbrown::HashMap;

use crate::analysis::frame::FrameNames;
use crate::analysis::phases::{Phases, leading_thread};
use crate::model::time::subtract;
use crate::model::{DurNs, SliceId, SliceKind, StringId, TimeNs, TimeRange, Trace, TrackId};

/// So much of a call's time is nearly all of it.
const NEARLY_ALL: f64 = 0.9;

/// The function in which more than half of some time is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MostIn {
    pub function: String,
    pub ns: DurNs,
    /// All of that time.
    pub of_ns: DurNs,
}

impl MostIn {
    /// Of the time of no known phase within `range`, on the thread that names most phases.
    ///
    /// Calls count that are within one step and in no known phase for nearly all of their time: those around phases
    /// say nothing of what is between these. A call in a library is of the user's function around it, or else of the
    /// outermost call.
    ///
    /// * `steps`: disjoint and ascending, in `range`.
    /// * Cost: O(n log n) for n slices of that thread in the range.
    pub(super) fn of(trace: &Trace, phases: &Phases, range: TimeRange, steps: &[TimeRange]) -> Option<Self> {
        let known: Vec<TimeRange> = phases.tiles(range).iter().map(|tile| tile.time).collect();
        let others = Stretches::new(subtract(&[range], &known));
        let thread = leading_thread(trace)?;
        let of_ns = others.within(range);
        let by_function = times(trace, &calls(trace, thread, steps, &others), range, &others);
        let (name, ns) = by_function.into_iter().max_by_key(|&(name, ns)| (ns, Reverse(name)))?;
        (ns > of_ns / 2).then(|| Self { function: trace.strings.get(name).to_owned(), ns, of_ns })
    }
}

/// Stretches of time, disjoint and ascending, of which each sum is known at once.
struct Stretches {
    list: Vec<TimeRange>,
    /// Of each stretch, the sum of those before it.
    before: Vec<DurNs>,
}

impl Stretches {
    fn new(list: Vec<TimeRange>) -> Self {
        let sum =
            |sum: &mut DurNs, stretch: &TimeRange| Some(std::mem::replace(sum, sum.saturating_add(stretch.dur())));
        let before = list.iter().scan(0, sum).collect();
        Self { list, before }
    }

    /// Cost: O(log n).
    fn within(&self, time: TimeRange) -> DurNs {
        let until = |ts: TimeNs| {
            let last = self.list.partition_point(|stretch| stretch.start < ts).checked_sub(1);
            last.map_or(0, |at| {
                self.before[at].saturating_add(ts.min(self.list[at].end).saturating_sub(self.list[at].start))
            })
        };
        until(time.end) - until(time.start)
    }
}

/// The calls that count, see [`MostIn::of`]: by start, the outer of two first.
fn calls(trace: &Trace, thread: TrackId, steps: &[TimeRange], others: &Stretches) -> Vec<usize> {
    let slices = &trace.slices;
    let is_in_step = |time: TimeRange| {
        let before = steps.partition_point(|step| step.start <= time.start).checked_sub(1);
        before.is_some_and(|at| time.end <= steps[at].end)
    };
    let is_counted = |&i: &usize| {
        let time = slices.time(SliceId(i as u32));
        slices.kind[i] == SliceKind::PythonFunction
            && is_in_step(time)
            && others.within(time) as f64 >= NEARLY_ALL * time.dur() as f64
    };
    let mut calls: Vec<usize> = trace.track_slices(thread).filter(is_counted).collect();
    calls.sort_by_key(|&i| (slices.ts[i], Reverse(slices.end[i])));
    calls
}

/// The time of these stretches in these calls, by the function that it is of.
fn times(trace: &Trace, calls: &[usize], range: TimeRange, others: &Stretches) -> HashMap<StringId, DurNs> {
    let slices = &trace.slices;
    let frames = FrameNames::default();
    let mut by_function: HashMap<StringId, DurNs> = HashMap::new();
    // The calls that run, each with its end and the function that its time is of.
    let mut open: Vec<(TimeNs, StringId)> = Vec::new();
    let mut at = range.start;
    let mut run_until = |until: TimeNs, open: &mut Vec<(TimeNs, StringId)>| {
        while let Some(&(end, function)) = open.last() {
            let to = end.min(until).max(at);
            let ns: &mut DurNs = by_function.entry(function).or_default();
            *ns = ns.saturating_add(others.within(TimeRange { start: at, end: to }));
            at = to;
            if end > until {
                break;
            }
            open.pop();
        }
        at = at.max(until);
    };
    for &i in calls {
        run_until(slices.ts[i], &mut open);
        let function = match open.last() {
            Some(&(_, around)) if !frames.is_user(trace, SliceId(i as u32)) => around,
            _ => slices.name[i],
        };
        open.push((slices.end[i], function));
    }
    run_until(range.end, &mut open);
    by_function
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::phases::phases;
    use crate::model::TraceBuilder;

    /// (function, its time, all time of no known phase).
    fn found(inner: &[(&str, TimeNs, TimeNs)]) -> Option<(String, DurNs, DurNs)> {
        let (python, operator) = (SliceKind::PythonFunction, SliceKind::Operator);
        let mut slices = vec![
            ("main", python, "train.py(9): main", 0, 1_000),
            ("main", SliceKind::Annotation, "forward", 600, 1_000),
            ("main", operator, "aten::mm", 600, 1_000),
        ];
        slices.extend(inner.iter().map(|&(name, start, end)| ("main", python, name, start, end)));
        let trace = TraceBuilder::from_slices(&slices).finish();
        let range = TimeRange { start: 0, end: 1_000 };
        let most = MostIn::of(&trace, &phases(&trace, &|| false), range, &[TimeRange { end: 900, ..range }]);
        most.map(|most| (most.function, most.ns, most.of_ns))
    }

    #[test]
    fn time_of_no_phase_is_of_the_users_function_in_it_or_of_the_outermost() {
        let some = |name: &str, ns| Some((name.to_owned(), ns, 600));
        let user = [("train.py(3): split", 100, 500), ("<built-in method split of str object>", 110, 490)];
        assert_eq!(found(&user), some("train.py(3): split", 400));
        let library = [("torch/serialization.py(900): save", 100, 500), ("torch/serialization.py(7): _save", 110, 490)];
        assert_eq!(found(&library), some("torch/serialization.py(900): save", 400));
        assert_eq!(found(&[("train.py(3): split", 100, 400)]), None, "no more than half");
        assert_eq!(found(&[("train.py(3): step", 100, 700)]), None, "around a phase");
        assert_eq!(found(&[("train.py(3): read", 160, 640)]), some("train.py(3): read", 440), "it touches a phase");
        assert_eq!(found(&[]), None);
    }
}
