//! What ran on the hosts of two recordings, by self time.

use std::cmp::Reverse;

use hashbrown::HashMap;

use super::{Change, Side, joined};
use crate::analysis::call_tree::{host_tracks, waiting};
use crate::analysis::frame::{Frame, without_address};
use crate::analysis::range_summary::summary_of;
use crate::analysis::steps::{PROFILER_STEP, StepSource, without_digits};
use crate::model::{DurNs, SliceKind};

/// Calls of one function, operator or range of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionChange {
    /// As the recording after has it, if it is in both.
    pub name: String,
    pub kind: SliceKind,
    pub calls: [u64; 2],
    /// Time in it without what ran inside, on all threads but those that only wait.
    pub self_time: Change,
}

/// What is compared: not calls, which others make, and what other recorders call otherwise.
const KINDS: [SliceKind; 5] =
    [SliceKind::Operator, SliceKind::PythonFunction, SliceKind::Annotation, SliceKind::Collective, SliceKind::Other];

/// Calls and self time of one name.
type Sums = (u64, DurNs);
type Named<T> = HashMap<(SliceKind, String), T>;

/// The functions, operators and ranges that ran on the host in the judged time of each, by how much their self time
/// changed.
///
/// * A Python function that stands at another line, or in another folder, is the same if nothing else in both has its
///   name and file.
/// * Cost: O(n log n) for n slices of both; see [`summary_of`].
pub(super) fn functions(
    sides: [&Side<'_>; 2],
    change: &dyn Fn([DurNs; 2]) -> Change,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Vec<FunctionChange> {
    let both = joined(sides.map(|side| of_side(side, is_cancelled))).collect();
    let mut all: Vec<FunctionChange> = without_moves(both)
        .into_iter()
        .map(|((kind, name), [before, after])| FunctionChange {
            name,
            kind,
            calls: [before.0, after.0],
            self_time: change([before.1, after.1]),
        })
        .filter(|one| one.self_time.total_ns != [0, 0])
        .collect();
    all.sort_by(|a, b| {
        let most = |one: &FunctionChange| Reverse(one.self_time.difference().abs());
        most(a).cmp(&most(b)).then_with(|| (&a.name, a.kind).cmp(&(&b.name, b.kind)))
    });
    all
}

fn of_side(side: &Side<'_>, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Named<Sums> {
    let waiting = waiting(side.trace);
    let tracks: Vec<_> = host_tracks(side.trace).filter(|track| !waiting.contains(track)).collect();
    let steps = match side.steps.map(|steps| &steps.source) {
        Some(StepSource::Ranges(name)) => name,
        _ => "",
    };
    let mut all = Named::new();
    let found = summary_of(side.trace, &tracks, side.host_time(), is_cancelled).names;
    for of_name in found.into_iter().filter(|of_name| KINDS.contains(&of_name.kind)) {
        // Each step has its number, and each object its address.
        let name = match &*of_name.name {
            name if name.starts_with(PROFILER_STEP) => PROFILER_STEP.to_owned(),
            name if of_name.kind == SliceKind::Annotation && without_digits(name) == steps => steps.to_owned(),
            name => without_address(name).into_owned(),
        };
        let sums: &mut Sums = all.entry((of_name.kind, name)).or_default();
        *sums = (sums.0 + of_name.count, sums.1.saturating_add(of_name.self_ns));
    }
    all
}

/// Joins Python functions of which each recording has one, at another place.
fn without_moves(mut all: Named<[Sums; 2]>) -> Named<[Sums; 2]> {
    let place = |name: &str| {
        let frame = Frame::of_python_function(name);
        let file = frame.file.rsplit(['/', '\\']).next().filter(|file| !file.is_empty())?;
        Some((file.to_owned(), frame.function.to_owned()))
    };
    let mut alone: HashMap<_, [Vec<String>; 2]> = HashMap::new();
    for ((kind, name), [before, after]) in &all {
        let side = usize::from(before.0 == 0);
        if *kind == SliceKind::PythonFunction
            && (before.0 == 0 || after.0 == 0)
            && let Some(place) = place(name)
        {
            alone.entry(place).or_default()[side].push(name.clone());
        }
    }
    let key = |name: &String| (SliceKind::PythonFunction, name.clone());
    for names in alone.values() {
        if let [[before], [after]] = names.each_ref().map(Vec::as_slice)
            && let Some([sums, _]) = all.remove(&key(before))
            && let Some(both) = all.get_mut(&key(after))
        {
            both[0] = sums;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::analysis::compare::tests::compared;
    use crate::model::{SliceId, SliceKind, Trace, TraceBuilder};

    const MS: i64 = 1_000_000;

    /// Eight steps of 10 ms, in each of which these functions run inside of one another, each 1 ms shorter than the one
    /// around it.
    fn training(functions: &[&str]) -> Trace {
        let names: Vec<String> = (0..8).map(|step| format!("ProfilerStep#{step}")).collect();
        let mut slices = Vec::new();
        for (at, name) in (0..).step_by(10 * MS as usize).zip(&names) {
            slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + 10 * MS));
            let inside =
                |(i, function): (i64, _)| ("main", SliceKind::PythonFunction, function, at + i * MS, at + 9 * MS);
            slices.extend((1..).zip(functions.iter().copied()).map(inside));
            slices.push(("main", SliceKind::Operator, "aten::mm", at + 8 * MS, at + 9 * MS));
        }
        TraceBuilder::from_slices(&slices).finish()
    }

    #[test]
    fn threads_that_only_wait_tell_nothing() {
        let of = |waits: i64| {
            let work = training(&["/me/train.py(50): main"]);
            let wait = "<built-in method acquire of _thread.lock object at 0x7f00>";
            let main = (0..work.slices.len()).map(|i| {
                let id = SliceId(i as u32);
                let time = work.slices.time(id);
                ("main", work.slices.kind[i], work.slice_name(id), time.start, time.end)
            });
            let all = main.chain([("pin memory", SliceKind::PythonFunction, wait, 0, waits * MS)]);
            TraceBuilder::from_slices(&all.collect::<Vec<_>>()).finish()
        };
        let all = compared(&of(60), &of(80)).functions;
        assert!(all.iter().all(|one| !one.name.contains("acquire")), "{all:?}");
    }

    fn changes(before: &[&str], after: &[&str]) -> Vec<(String, [i64; 2])> {
        let all = compared(&training(before), &training(after)).functions;
        all.into_iter().map(|one| (one.name, one.self_time.per_step())).collect()
    }

    #[test]
    fn functions_are_compared_by_self_time_those_first_that_changed_most() {
        let slow = "/me/train.py(31): slow_tokenize";
        let got = changes(&["/me/train.py(50): main", slow], &["/me/train.py(50): main"]);
        let ms = |name: &str, [before, after]: [i64; 2]| (name.to_owned(), [before * MS, after * MS]);
        let expected = [
            ms(slow, [6, 0]),
            ms("/me/train.py(50): main", [1, 7]),
            ms("ProfilerStep#", [2, 2]),
            ms("aten::mm", [1, 1]),
        ];
        let mut sorted = got.clone();
        sorted.sort_by_key(|one| expected.iter().position(|other| *other == *one));
        assert_eq!(sorted, expected);
        assert!(got[2].1[0] == got[2].1[1] && got[3].1[0] == got[3].1[1], "{got:?}");
    }

    #[test]
    fn a_function_at_another_line_or_of_another_object_is_the_same() {
        let call = |address: &str| format!("<built-in method encode of Tokenizer object at 0x{address}>");
        let [before, after] = ["7f00a1", "7f00b2"].map(call);
        let got = changes(&["/me/a/train.py(31): load", &before], &["/you/train.py(40): load", &after]);
        let mut names: Vec<_> = got.iter().map(|one| one.0.as_str()).collect();
        names.sort_unstable();
        let encode = "<built-in method encode of Tokenizer>";
        assert_eq!(names, ["/you/train.py(40): load", encode, "ProfilerStep#", "aten::mm"]);
        assert!(got.iter().all(|one| one.1[0] == one.1[1]), "{got:?}");
        // Where several have the name, which is which is not known.
        let several = ["/me/model.py(10): forward", "/me/model.py(20): forward"];
        let got = changes(&several, &["/me/model.py(11): forward", "/me/model.py(21): forward"]);
        assert_eq!(got.iter().filter(|one| one.0.contains("forward") && one.1.contains(&0)).count(), 4, "{got:?}");
    }
}
