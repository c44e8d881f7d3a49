//! Steps of a memory history, with boundaries given as states.

pub use super::repetition::NoSteps;
use super::repetition::{Repetition, repetition};
pub use crate::analysis::steps::StepSource;
use crate::analysis::steps::{self, Coverage, Division, MIN_ANCHORS, Named, Scope, choose, divisions, is_step_name};
use crate::model::{MemoryHistory, TimeNs, TimeRange, Trace, TrackId};

/// Steps of a history: step `k` holds the events between the states `boundaries[k]` and `boundaries[k + 1]`.
/// Regularity is measured in events; for a repetition by what repeats as well, whichever says more.
pub type Steps = steps::Steps<u32>;

/// Number of events by which similar steps may differ, in addition to a tenth.
const SLACK: u64 = 2;

impl Steps {
    /// The step whose events lead to `state`; `None` before the first and after the last.
    pub fn step_of(&self, state: u32) -> Option<usize> {
        let after = self.boundaries.partition_point(|&boundary| boundary < state);
        after.checked_sub(1).filter(|&step| step < self.len())
    }
}

/// Finds the steps by names as [`steps::steps`] does, else by the `repetition` of allocations.
///
/// * Steps that begin before the first event do not count where a ring buffer has lost their events, nor do steps that
///   end after the last, see `trim`.
/// * If an annotation that PyTorch records once per step occurs only once or twice, the recording up to it holds at
///   most three steps, so a more frequent repetition there comes from layers and is rejected.
/// * Annotations come from the snapshot, or if it has none, from the slices of its trace. They are ignored if
///   events have no times.
/// * All steps are returned; excluding a warm-up is left to the caller.
/// * Cost: O(n log n) for n events, slices and strings.
///
/// Errors: the condition that is lacking.
pub fn steps(trace: &Trace, history: &MemoryHistory, is_cancelled: &dyn Fn() -> bool) -> Result<Steps, NoSteps> {
    let named = if history.has_time { named(trace, history) } else { Vec::new() };
    let found = divisions(&named, &Coverage::at(&history.events.ts)).into_iter().map(|mut division| {
        trim(&mut division, &history.events.ts);
        in_states(history, division)
    });
    let mut found: Vec<Steps> = found.filter(|steps| !steps.is_empty()).collect();
    if profiler_ran_for_a_part(&found) {
        found.sort_by_key(|steps| steps.source == StepSource::ProfilerStep);
    }
    if let Some(best) = choose(found) {
        return Ok(best);
    }
    let Repetition { length, share, boundaries, regularity, is_certain } = repetition(trace, history, is_cancelled)?;
    let anchors = || named.iter().filter(|named| is_step_name(named.name));
    let last_named = anchors().map(|named| named.time.end).max();
    let is_after = boundaries.first().zip(last_named).is_none_or(|(&first, last)| history.time_of(first + 1) >= last);
    if boundaries.len() > MIN_ANCHORS && !is_after {
        return Err(NoSteps::MoreThanAnnotated { length, rounds: boundaries.len() - 1 });
    }
    let source = StepSource::Period { items: "allocations", length, share };
    let steps = Steps::new(source, boundaries, None, SLACK, time_of(history).as_deref());
    let regularity = steps.regularity.max(regularity);
    let steps = steps.with_regularity(regularity);
    Ok(if is_certain { steps } else { steps.as_guess() })
}

/// Whether the profiler named the steps of a part of the history alone, since it ran for that long: others take in half
/// as many steps again, and half as many events.
fn profiler_ran_for_a_part(found: &[Steps]) -> bool {
    let span = |steps: &Steps| steps.boundaries[steps.len()] - steps.boundaries[0];
    let is_more = |more: u64, than: u64| 2 * more >= 3 * than;
    let of_profiler = found.iter().find(|steps| steps.source == StepSource::ProfilerStep);
    of_profiler.is_some_and(|profiler| {
        found.iter().any(|other| {
            is_more(other.len() as u64, profiler.len() as u64)
                && is_more(u64::from(span(other)), u64::from(span(profiler)))
        })
    })
}

/// Removes the steps whose events were lost, or not recorded any more.
///
/// A ring buffer has lost the beginning if several steps begin before the first event, or if that comes later in its
/// step than the first event of every other step in its own, by more than a tenth of a step. Steps that begin after
/// the last event have none.
fn trim(division: &mut Division, events: &[TimeNs]) {
    let (Some(&first), Some(&last)) = (events.first(), events.last()) else { return };
    let boundaries = &division.boundaries;
    let begun = boundaries.partition_point(|&start| start < first);
    let delay = |pair: &[TimeNs]| {
        let next = events.partition_point(|&ts| ts < pair[0]);
        events.get(next).filter(|&&ts| ts < pair[1]).map(|ts| ts - pair[0])
    };
    let is_late = begun == 1 && boundaries.len() > MIN_ANCHORS && {
        let mut lengths: Vec<TimeNs> = boundaries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        lengths.sort_unstable();
        let latest = boundaries.windows(2).skip(1).filter_map(delay).max().unwrap_or_default();
        first - boundaries[0] > latest + lengths[lengths.len() / 2] / 10
    };
    if begun > 1 || is_late {
        division.begin_at(first);
    }
    division.end_at(last);
}

/// The steps between marks set by the user, given in any order in trace time; `None` for fewer than two
/// distinct marks.
pub fn marked(history: &MemoryHistory, marks: &[TimeNs]) -> Option<Steps> {
    Division::of_marks(marks).map(|division| in_states(history, division))
}

fn in_states(history: &MemoryHistory, division: Division) -> Steps {
    // The state after all events before a boundary.
    let before = |ts: &TimeNs| history.events.ts.partition_point(|at| at < ts) as u32;
    let states = division.boundaries.iter().map(before).collect();
    Steps::new(division.source, states, division.names, SLACK, time_of(history).as_deref())
}

/// The time of a state, if the history has times.
fn time_of(history: &MemoryHistory) -> Option<Box<dyn Fn(u32) -> TimeNs + '_>> {
    history.has_time.then(|| Box::new(|state| history.time_of(state)) as Box<dyn Fn(u32) -> TimeNs>)
}

/// The annotations, by start: those of the snapshot, else those of the trace.
fn named<'a>(trace: &'a Trace, history: &MemoryHistory) -> Vec<Named<'a>> {
    if history.annotations.is_empty() {
        return steps::annotations(trace, &Scope::default());
    }
    let closed = history.annotations.iter().filter(|annotation| annotation.has_end);
    let time = |start, end| TimeRange { start, end };
    let named = closed.map(|note| Named {
        name: trace.strings.get(note.name),
        time: time(note.start, note.end),
        thread: TrackId::default(),
        is_step: false,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::{SliceKind, StackId, TraceBuilder};

    #[test]
    fn steps_that_all_begin_before_the_first_event_are_none() {
        let mut division = Division::of_marks(&[1, 2, 3]).unwrap();
        trim(&mut division, &[10, 11]);
        assert!(division.boundaries.is_empty());
    }

    fn find(trace: &Trace) -> Option<Steps> {
        steps(trace, history(trace), &|| false).ok()
    }

    /// Steps of two events each, 10 ns apart, with annotations added by `name`.
    fn script(n: u64, name: impl Fn(&mut Script, u64)) -> Script {
        let mut script = Script::default();
        for step in 0..n {
            name(&mut script, step);
            // A different size each time, so that nothing repeats.
            script.alloc(0x1000, 512 * (1 + step), StackId(0));
            script.free(0x1000, 512 * (1 + step));
        }
        script
    }

    #[test]
    fn a_profiler_that_ran_for_a_part_of_the_history_names_no_more() {
        let trace = script(12, |script, step| {
            let now = script.now();
            if (3..6).contains(&step) {
                script.annotate(&format!("ProfilerStep#{step}"), now, now + 19);
            }
            script.annotate("Optimizer.step#AdamW.step", now + 1, now + 2);
        });
        let steps = find(&trace.finish()).unwrap();
        assert_eq!(
            (steps.source, steps.boundaries.len()),
            (StepSource::Annotation("Optimizer.step#AdamW.step".to_owned()), 12)
        );
    }

    #[test]
    fn profiler_steps_come_first() {
        let trace = script(5, |script, step| {
            let now = script.now();
            script.annotate(&format!("ProfilerStep#{}", step + 7), now, now + 19);
            script.annotate("Optimizer.step#SGD.step", now + 1, now + 12);
        });
        let trace = trace.finish();
        let steps = find(&trace).unwrap();
        assert_eq!(steps.source, StepSource::ProfilerStep);
        assert_eq!(steps.boundaries, [0, 2, 4, 6, 8, 10]);
        assert_eq!((steps.names[0].as_str(), steps.len(), steps.regularity), ("ProfilerStep#7", 5, 1.0));
        // The first and the last are left out of the figures.
        let durations = steps.durations.unwrap();
        assert_eq!((durations.calls, durations.median_ns), (3, 20));
        assert_eq!(steps.disagreement, None, "4 optimizer steps between 5 ends");
        assert_eq!(
            [0, 1, 2, 3, 10, 11].map(|state| steps.step_of(state)),
            [None, Some(0), Some(0), Some(1), Some(4), None]
        );
    }

    #[test]
    fn annotations_recorded_once_per_step_are_next_and_disagreement_is_reported() {
        let trace = script(8, |script, step| {
            let now = script.now();
            script.annotate("Optimizer.zero_grad#SGD.zero_grad", now + 1, now + 2);
            if step % 2 == 1 {
                script.annotate("Optimizer.step#SGD.step", now + 11, now + 12);
            }
        });
        let trace = trace.finish();
        let steps = find(&trace).unwrap();
        assert_eq!(steps.source, StepSource::Annotation("Optimizer.step#SGD.step".to_owned()));
        assert_eq!(steps.boundaries, [4, 8, 12, 16]);
        let other = StepSource::Annotation("Optimizer.zero_grad#SGD.zero_grad".to_owned());
        assert_eq!(steps.disagreement, Some((other, 7)));
    }

    #[test]
    fn profiler_steps_are_ignored_if_they_cover_few_of_many_steps() {
        let trace = script(30, |script, step| {
            let now = script.now();
            if (10..12).contains(&step) {
                script.annotate(&format!("ProfilerStep#{step}"), now, now + 19);
            }
            script.annotate("Optimizer.step#SGD.step", now + 11, now + 12);
        });
        let trace = trace.finish();
        let steps = find(&trace).unwrap();
        assert_eq!(steps.source, StepSource::Annotation("Optimizer.step#SGD.step".to_owned()));
        assert_eq!(steps.len(), 29);
        assert_eq!(steps.disagreement, Some((StepSource::ProfilerStep, 2)));
    }

    #[test]
    fn steps_that_were_lost_or_not_recorded_any_more_do_not_count() {
        // 40 steps of 1000 ns, of which events were recorded from `from` to `to`.
        let found = |from: i64, to: i64| {
            let mut script = Script::default();
            for step in 0..40 {
                script.annotate(&format!("ProfilerStep#{step}"), 1000 * step, 1000 * step + 990);
                for event in 0..10 {
                    let ts = 1000 * step + 20 + 90 * event;
                    if (from..to).contains(&ts) {
                        script.alloc(0x1000_0000 * ts as u64, 512 * (1 + ts as u64), StackId(0));
                        *script.raw.events.ts.last_mut().unwrap() = ts;
                    }
                }
            }
            let steps = find(&script.finish()).unwrap();
            (steps.names[0].clone(), steps.len(), steps.boundaries[0], *steps.boundaries.last().unwrap())
        };
        assert_eq!(found(0, 40_000), ("ProfilerStep#0".to_owned(), 40, 0, 400));
        // The last event of step 22 is the first that is left.
        assert_eq!(found(22_800, 40_000), ("ProfilerStep#23".to_owned(), 17, 1, 171));
        assert_eq!(found(500, 40_000), ("ProfilerStep#1".to_owned(), 39, 4, 394));
        assert_eq!(found(0, 30_000), ("ProfilerStep#0".to_owned(), 30, 0, 300));
    }

    #[test]
    fn repetition_after_the_last_annotation_may_be_steps() {
        let repeating = |named_first: bool| {
            let mut script = Script::default();
            let (x, y) = (script.stack(&["mm (train.py:1)"]), script.stack(&["add (train.py:2)"]));
            let annotate = |script: &mut Script| {
                let now = script.now();
                script.annotate("Optimizer.step#SGD.step", now, now + 1);
            };
            script.alloc(0x9000, 512, StackId(0));
            if named_first {
                annotate(&mut script);
                script.free(0x9000, 512);
            }
            for _ in 0..40 {
                for (addr, bytes, stack) in [(0x1000, 512, x), (0x2000, 1024, y), (0x3000, 2048, x), (0x4000, 4096, y)]
                {
                    script.alloc(addr, bytes, stack);
                    script.free(addr, bytes);
                }
            }
            if !named_first {
                annotate(&mut script);
            }
            script.finish()
        };
        let steps = find(&repeating(true)).unwrap();
        assert!(matches!(steps.source, StepSource::Period { .. }), "{:?}", steps.source);
        assert_eq!(find(&repeating(false)), None);
    }

    #[test]
    fn slices_of_the_trace_define_steps_if_the_snapshot_has_no_annotations() {
        let mut script = script(4, |_, _| {});
        let names: Vec<String> = (0..4).map(|step| format!("ProfilerStep#{step}")).collect();
        let slices = names
            .iter()
            .zip(0_i64..)
            .map(|(name, step)| ("main", SliceKind::Annotation, name.as_str(), 20 * step, 20 * step + 20));
        let slices: Vec<_> = slices.collect();
        script.builder = TraceBuilder::from_slices(&slices);
        let trace = script.finish();
        assert_eq!(find(&trace).unwrap().boundaries, [0, 2, 4, 6, 8]);
    }

    #[test]
    fn marks_define_steps_if_nothing_else_does() {
        let trace = script(6, |script, step| {
            let now = script.now();
            if step < 2 {
                script.annotate("Optimizer.step#SGD.step", now, now + 1);
            }
        });
        let trace = trace.finish();
        assert_eq!(find(&trace), None);
        let steps = marked(history(&trace), &[100, 20, 60, 60]).unwrap();
        assert_eq!((steps.source, steps.boundaries), (StepSource::Marks, vec![2, 6, 10]));
        assert_eq!(marked(history(&trace), &[5]), None);
        let empty = Script::default().finish();
        assert_eq!(find(&empty), None);
        assert_eq!(marked(history(&empty), &[0, 1]).unwrap().boundaries, [0, 0]);
    }
}
