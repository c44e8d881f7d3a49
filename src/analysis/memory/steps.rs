//! Where does one step of the training end and the next begin, in the memory's history?

use hashbrown::HashMap;

use super::period::{self, Period};
use crate::analysis::totals::Durations;
use crate::model::{MemoryHistory, SliceKind, TimeNs, TimeRange, Trace};

/// By what steps are told apart.
#[derive(Clone, Debug, PartialEq)]
pub enum StepSource {
    /// The profiler's own `ProfilerStep#N`.
    ProfilerStep,
    /// What PyTorch names once a step, such as `Optimizer.step#AdamW.step`: a step reaches from the end
    /// of one to the end of the next.
    Annotation(String),
    /// The same allocations come again and again: after so many of them, and so large a share of all
    /// allocations does.
    Period { allocations: u32, share: f64 },
    /// The person said where.
    Marks,
}

impl StepSource {
    /// A few words for the person.
    pub fn label(&self) -> String {
        match self {
            Self::ProfilerStep => "ProfilerStep annotations".to_owned(),
            Self::Annotation(name) => format!("{name} annotations"),
            Self::Period { allocations, share } => {
                format!("repetition every {allocations} allocations ({:.0} % of all repeat)", share * 100.0)
            }
            Self::Marks => "marks".to_owned(),
        }
    }
}

/// The steps of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    pub source: StepSource,
    /// One more than there are steps, ascending: step `k` is what the events after the state
    /// `boundaries[k]` do, up to the state `boundaries[k + 1]`.
    pub boundaries: Vec<u32>,
    /// One a step.
    pub names: Vec<String>,
    /// How alike the steps are: the share of them whose number of events is within a tenth, and two, of
    /// the median.
    pub regularity: f64,
    /// Of all steps but the first and the last, which hold warm-up and the profiler's end; of all where
    /// there are fewer than four. `None` if the history has no times.
    pub durations: Option<Durations>,
    /// Another way to tell steps apart that finds another number of them, and how many.
    pub disagreement: Option<(StepSource, usize)>,
}

/// Anchors need two whole steps between them to be compared.
const MIN_ANCHORS: usize = 3;
/// So many steps are enough to compare, however many more another name would make.
const ENOUGH_STEPS: usize = 5;
/// What PyTorch itself names once a step, the best first.
const ANCHORS: [&str; 3] = ["Optimizer.step#", "Optimizer.zero_grad#", "enumerate(DataLoader)#"];
const PROFILER_STEP: &str = "ProfilerStep#";

impl Steps {
    /// The number of steps.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The step whose events lead to `state`; `None` before the first and after the last.
    pub fn step_of(&self, state: u32) -> Option<usize> {
        let after = self.boundaries.partition_point(|&boundary| boundary < state);
        after.checked_sub(1).filter(|&step| step < self.len())
    }

    fn new(history: &MemoryHistory, source: StepSource, boundaries: Vec<u32>, names: Option<Vec<String>>) -> Self {
        let n = boundaries.len().saturating_sub(1);
        let names = names.unwrap_or_else(|| (1..=n).map(|step| format!("Step {step}")).collect());
        let mut events: Vec<u32> = boundaries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let times = boundaries.windows(2).map(|pair| history.time_of(pair[1]) - history.time_of(pair[0]));
        let mut times: Vec<i64> = times.collect();
        if n >= 4 {
            times.remove(n - 1);
            times.remove(0);
        }
        events.sort_unstable();
        let median = events.get(n / 2).copied().unwrap_or_default();
        let alike = events.iter().filter(|&&count| count.abs_diff(median) <= median / 10 + 2).count();
        Self {
            source,
            boundaries,
            names,
            regularity: alike as f64 / n.max(1) as f64,
            durations: history.has_time.then(|| Durations::of(&mut times)),
            disagreement: None,
        }
    }
}

/// Finds the steps: by `ProfilerStep#N`, else by what PyTorch names once a step, else by the repetition
/// of allocations of the same size at the same place. The first of these that fills at least half of
/// what the widest does, and has five steps or a fifth of the most.
///
/// * Where something is named once or twice, the recording up to there holds no more than three steps:
///   what repeats more often are layers.
/// * Annotations come from the snapshot itself, or where it has none from the slices of its trace. They
///   cannot be used where events have no times.
/// * No event is dropped here: whoever judges steps leaves out those at the start as he needs.
/// * Cost: O(n log n) for n events, slices and strings.
pub fn steps(trace: &Trace, history: &MemoryHistory, is_cancelled: &dyn Fn() -> bool) -> Option<Steps> {
    let named = if history.has_time { named(trace, history) } else { Vec::new() };
    let mut found: Vec<Steps> = Vec::new();
    found.extend(profiler_steps(history, &named));
    for prefix in ANCHORS {
        found.extend(anchored(history, &named, prefix));
    }
    if found.is_empty() {
        let Period { allocations, share, boundaries } = period::period(trace, history, is_cancelled)?;
        let last_named = named.last().map_or(TimeNs::MIN, |(_, time)| time.end);
        let is_after = boundaries.first().is_some_and(|&first| history.time_of(first + 1) >= last_named);
        if boundaries.len() > MIN_ANCHORS && !named.is_empty() && !is_after {
            return None;
        }
        return Some(Steps::new(history, StepSource::Period { allocations, share }, boundaries, None));
    }
    let span =
        |steps: &Steps| steps.boundaries.last().zip(steps.boundaries.first()).map_or(0, |(end, start)| end - start);
    let widest = found.iter().map(span).max().unwrap_or_default();
    let most = found.iter().map(Steps::len).max().unwrap_or_default();
    // The profiler often runs for a few steps of many, or calls a whole epoch a step.
    let is_fit = |steps: &Steps| span(steps) >= widest / 2 && (steps.len() >= ENOUGH_STEPS || 5 * steps.len() >= most);
    let mut best = found.remove(found.iter().position(is_fit).unwrap_or(0));
    // One more or less is how a recording begins and ends.
    let differs = |other: &&Steps| other.len().abs_diff(best.len()) > 1;
    best.disagreement = found.iter().find(differs).map(|other| (other.source.clone(), other.len()));
    Some(best)
}

/// The steps between the person's marks, in any order; `None` for fewer than two moments.
pub fn marked(history: &MemoryHistory, marks: &[TimeNs]) -> Option<Steps> {
    let mut marks = marks.to_vec();
    marks.sort_unstable();
    marks.dedup();
    let boundaries: Vec<u32> = marks.iter().map(|&ts| before(history, ts)).collect();
    (boundaries.len() > 1).then(|| Steps::new(history, StepSource::Marks, boundaries, None))
}

/// The state of all events before a moment.
fn before(history: &MemoryHistory, ts: TimeNs) -> u32 {
    history.events.ts.partition_point(|&at| at < ts) as u32
}

/// What was named while the memory was recorded, sorted by start.
fn named<'a>(trace: &'a Trace, history: &MemoryHistory) -> Vec<(&'a str, TimeRange)> {
    let is_wanted = |name: &&str| ANCHORS.iter().chain(&[PROFILER_STEP]).any(|prefix| name.starts_with(prefix));
    let range = |start, end| TimeRange { start, end };
    if !history.annotations.is_empty() {
        let closed = history.annotations.iter().filter(|annotation| annotation.has_end);
        let named = closed.map(|note| (trace.strings.get(note.name), range(note.start, note.end)));
        return named.filter(|(name, _)| is_wanted(name)).collect();
    }
    let is_wanted: Vec<bool> = trace.strings.iter().map(|(_, name)| is_wanted(&name)).collect();
    let slices = &trace.slices;
    let found = (0..slices.len()).filter(|&i| slices.kind[i] == SliceKind::Annotation);
    let found = found.filter(|&i| is_wanted.get(slices.name[i].0 as usize).copied().unwrap_or_default());
    let named = found.map(|i| (trace.strings.get(slices.name[i]), range(slices.ts[i], slices.end[i])));
    let mut named: Vec<_> = named.collect();
    named.sort_unstable_by_key(|&(name, time)| (time.start, time.end, name));
    named
}

fn profiler_steps(history: &MemoryHistory, named: &[(&str, TimeRange)]) -> Option<Steps> {
    let mut steps: Vec<(&str, TimeRange)> =
        named.iter().filter(|(name, _)| name.starts_with(PROFILER_STEP)).copied().collect();
    // Several threads, or a recorder that writes twice, may name the same step.
    steps.dedup_by(|next, step| next.0 == step.0);
    let last = steps.last()?.1.end;
    let mut boundaries: Vec<u32> = steps.iter().map(|(_, time)| before(history, time.start)).collect();
    boundaries.push(before(history, last).max(boundaries.last().copied().unwrap_or_default()));
    let names = steps.iter().map(|&(name, _)| name.to_owned()).collect();
    Some(Steps::new(history, StepSource::ProfilerStep, boundaries, Some(names)))
}

/// By the name with this beginning that occurs most often; of those as often, by the first.
fn anchored(history: &MemoryHistory, named: &[(&str, TimeRange)], prefix: &str) -> Option<Steps> {
    let of_prefix = || named.iter().filter(|(name, _)| name.starts_with(prefix));
    let mut counts: HashMap<&str, usize> = HashMap::new();
    of_prefix().for_each(|(name, _)| *counts.entry(name).or_default() += 1);
    let most = counts.values().copied().max().filter(|&most| most >= MIN_ANCHORS)?;
    let name = of_prefix().find(|(name, _)| counts[name] == most)?.0;
    let mut ends: Vec<TimeNs> = of_prefix().filter(|found| found.0 == name).map(|found| found.1.end).collect();
    ends.sort_unstable();
    let boundaries = ends.into_iter().map(|end| before(history, end)).collect();
    Some(Steps::new(history, StepSource::Annotation(name.to_owned()), boundaries, None))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::{StackId, TraceBuilder};

    fn find(trace: &Trace) -> Option<Steps> {
        steps(trace, history(trace), &|| false)
    }

    /// Steps of two events each, 10 ns apart, with what the program names in them.
    fn script(n: u64, name: impl Fn(&mut Script, u64)) -> Script {
        let mut script = Script::default();
        for step in 0..n {
            name(&mut script, step);
            // Of a different size each time, so that nothing repeats.
            script.alloc(0x1000, 512 * (1 + step), StackId(0));
            script.free(0x1000, 512 * (1 + step));
        }
        script
    }

    #[test]
    fn the_profilers_steps_are_taken_as_they_are() {
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
    fn what_pytorch_names_once_a_step_is_next_and_disagreement_is_said() {
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
    fn a_profiler_that_ran_for_a_few_steps_of_many_tells_none() {
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
    fn what_repeats_after_all_that_is_named_may_be_steps() {
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
    fn slices_of_the_trace_tell_steps_where_the_memory_does_not() {
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
    fn without_anything_there_are_no_steps_but_marks_make_some() {
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
