//! Steps by ranges that the program named and that repeat.

use hashbrown::HashMap;

use super::named::{has_step_word, has_word, is_of_one_pass, is_pytorch_name, of_ranges};
use super::{Coverage, Division, Named, StepSource, Steps};
use crate::analysis::words::{self, Topic};
use crate::model::time::unite;
use crate::model::{TimeNs, TimeRange, TrackId};

/// Minimum of ranges: with a number that counts up, with a word for a step, with any other name.
const MIN_RANGES: [usize; 3] = [2, 3, 4];
/// Minimum share of the work that must lie in the ranges, of that between the first and the last.
const MIN_COVERED: f64 = 0.5;
/// Minimum share of all work that must lie between the first and the last: of ranges with a word for a step, and of
/// others.
const MIN_BETWEEN: [f64; 2] = [0.25, 0.5];
/// Minimum regularity of ranges without a word for a step.
const MIN_REGULARITY: f64 = 0.5;
/// What libraries and compilers name themselves: calls and regions of one pass.
const NO_STEPS: [&str; 7] =
    ["nccl:", "gloo:", "CompiledFxGraph", "record_param_comms", "aten::", "autograd::", "op_id"];
/// Words for parts of a model, which repeat within a pass.
const PART_WORDS: [&str; 10] =
    ["layer", "layers", "block", "blocks", "module", "attention", "attn", "mlp", "bucket", "microbatch"];
/// Words for what comes once in a pass.
const ONCE_WORDS: [&str; 10] =
    ["loss", "criterion", "dataloader", "loader", "optimizer", "optim", "adam", "adamw", "sgd", "scheduler"];

/// The ranges of one thread whose names differ in digits only.
pub(super) struct Pattern<'a> {
    /// With `#` for digits.
    name: String,
    thread: TrackId,
    /// The outermost, by start.
    ranges: Vec<Named<'a>>,
    /// Whether the recorder numbers them as steps.
    is_step: bool,
}

impl Pattern<'_> {
    fn times(&self) -> Vec<TimeRange> {
        self.ranges.iter().map(|range| range.time).collect()
    }

    /// Whether the last number in the names counts up by one.
    fn counts_up(&self) -> bool {
        let number = |name: &str| -> Option<u64> {
            let digits = name.split(|c: char| !c.is_ascii_digit()).rfind(|digits| !digits.is_empty())?;
            digits.parse().ok()
        };
        let follows =
            |pair: &[Named<'_>]| number(pair[0].name).zip(number(pair[1].name)).is_some_and(|(a, b)| b == a + 1);
        self.ranges.windows(2).all(follows)
    }

    /// Share of the distances between starts that are within a tenth of their median, as in [`Steps::new`].
    fn regularity(&self) -> f64 {
        let starts = self.ranges.iter().map(|range| range.time.start).collect();
        Steps::new(StepSource::Marks, starts, None, 0, None).regularity
    }
}

/// Cost: O(n log n).
pub(super) fn patterns<'a>(named: &[Named<'a>]) -> Vec<Pattern<'a>> {
    let mut ids: HashMap<&str, Option<usize>> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut of_thread: HashMap<(TrackId, usize), usize> = HashMap::new();
    let mut patterns: Vec<Pattern<'a>> = Vec::new();
    for &range in named {
        let id = *ids.entry(range.name).or_insert_with(|| {
            let is_none = is_pytorch_name(range.name) || NO_STEPS.iter().any(|part| range.name.contains(part));
            let name = (!is_none).then(|| without_digits(range.name))?;
            Some(*known.entry(name.clone()).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            }))
        });
        let Some(id) = id else { continue };
        let at = *of_thread.entry((range.thread, id)).or_insert_with(|| {
            let name = names[id].clone();
            patterns.push(Pattern { name, thread: range.thread, ranges: Vec::new(), is_step: range.is_step });
            patterns.len() - 1
        });
        let ranges = &mut patterns[at].ranges;
        if ranges.last().is_none_or(|last| last.time.end <= range.time.start) {
            ranges.push(range);
        }
    }
    patterns
}

/// The name with one `#` for each number.
pub fn without_digits(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

/// Ranges that the recorder numbers as steps, or with a word for a step in their name: the outermost, which are the fewest.
pub(super) fn step_ranges(patterns: &[Pattern<'_>], work: &Coverage) -> Option<Division> {
    let is_fit = |pattern: &&Pattern<'_>| {
        let counts_up = pattern.name.contains('#') && pattern.counts_up();
        let [inside, between] = work.shares(&pattern.times());
        (pattern.is_step || has_step_word(&pattern.name))
            && pattern.ranges.len() >= MIN_RANGES[usize::from(!counts_up)]
            && inside >= MIN_COVERED
            && between >= MIN_BETWEEN[0]
    };
    let pattern = patterns.iter().filter(is_fit).min_by_key(|pattern| pattern.ranges.len())?;
    let names = pattern.ranges.iter().map(|range| range.name.to_owned()).collect();
    let division = of_ranges(StepSource::Ranges(pattern.name.clone()), pattern.times())?;
    Some(Division { names: pattern.name.contains('#').then_some(names), times: Vec::new(), ..division })
}

/// Ranges that come equally often on one thread and together cover the work, as `forward`, `backward` and `update`
/// do: steps begin with the first of them. Of several such sets the one with the fewest ranges, which is outermost.
/// They come at regular times, or take turns whatever they take.
///
/// Parts of a model and what lies in one range of a single pass repeat as layers, not as steps.
pub(super) fn part_ranges<'a, 'b>(
    named: &[Named<'_>],
    patterns: &'a [Pattern<'b>],
    work: &Coverage,
) -> Option<Division> {
    let is_part = |pattern: &Pattern<'_>| has_word(&pattern.name, &PART_WORDS);
    let mut fit: Vec<&Pattern<'_>> =
        patterns.iter().filter(|pattern| pattern.ranges.len() >= MIN_RANGES[2] && !is_part(pattern)).collect();
    fit.sort_by_key(|pattern| (pattern.ranges.len(), pattern.thread, pattern.ranges[0].time.start));
    let set_of = |pattern: &Pattern<'_>| (pattern.ranges.len(), pattern.thread);
    let is_fit = |set: &[&Pattern<'_>]| {
        let mut times: Vec<TimeRange> = set.iter().flat_map(|pattern| pattern.times()).collect();
        unite(&mut times);
        let [inside, between] = work.shares(&times);
        inside >= MIN_COVERED && between >= MIN_BETWEEN[1] && !is_in_one_pass(named, &times)
    };
    let fitting = |set: &[&'a Pattern<'b>]| {
        let is_regular = |pattern: &&&Pattern<'_>| pattern.regularity() >= MIN_REGULARITY;
        let regular: Vec<&Pattern<'_>> = set.iter().filter(is_regular).copied().collect();
        let in_turns = || Some(set.to_vec()).filter(|set| take_turns(set));
        Some(regular).filter(|set| is_fit(set)).or_else(|| in_turns().filter(|set| is_fit(set)))
    };
    let set = fit.chunk_by(|a, b| set_of(a) == set_of(b)).find_map(fitting)?;
    let first = set[0];
    let end = set.iter().filter_map(|pattern| pattern.ranges.last()).map(|range| range.time.end).max()?;
    let mut division = of_ranges(StepSource::Ranges(first.name.clone()), first.times())?;
    division.boundaries.pop();
    division.boundaries.push(end);
    Some(Division { times: Vec::new(), ..division })
}

/// Whether ranges that come equally often follow each other in the same order all the time, and one of them is a part
/// of a pass by its name: layers may take turns as well.
///
/// * `set`: by the start of their first ranges.
fn take_turns(set: &[&Pattern<'_>]) -> bool {
    let is_of_pass = |pattern: &&Pattern<'_>| {
        let topic = words::topic(&pattern.name);
        matches!(topic, Some(Topic::DataLoading | Topic::Forward | Topic::Backward | Topic::Optimizer))
    };
    let rounds = (0..set.first().map_or(0, |pattern| pattern.ranges.len()))
        .flat_map(|round| set.iter().map(move |pattern| pattern.ranges[round].time));
    let times: Vec<TimeRange> = rounds.collect();
    set.len() > 1 && set.iter().any(is_of_pass) && times.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

/// Ranges of one thread that come once a pass by their meaning, such as `loss`, where all others that come evenly, such
/// as `layer` twelve times, cover the work with them: passes begin with the first of all.
pub(super) fn pass_ranges(named: &[Named<'_>], patterns: &[Pattern<'_>], work: &Coverage) -> Option<Division> {
    let is_once =
        |pattern: &&Pattern<'_>| pattern.ranges.len() >= MIN_RANGES[2] && has_word(&pattern.name, &ONCE_WORDS);
    let once = patterns.iter().filter(is_once).min_by_key(|pattern| pattern.ranges.len())?;
    let n = once.ranges.len();
    let of_thread = || patterns.iter().filter(|pattern| pattern.thread == once.thread);
    let starts = |pattern: &Pattern<'_>| pattern.times().iter().map(|time| time.start).collect::<Vec<_>>();
    // With the first range that comes equally often in each pass, passes begin.
    let whole = of_thread().filter(|pattern| pattern.ranges.len() % n == 0);
    let first = starts(whole.min_by_key(|pattern| pattern.ranges[0].time.start)?);
    let begins: Vec<TimeNs> = first.iter().step_by(first.len() / n).copied().collect();
    let is_even = |pattern: &&Pattern<'_>| {
        let starts = starts(pattern);
        let before: Vec<usize> = begins.iter().map(|&begin| starts.partition_point(|&start| start < begin)).collect();
        (0..n).all(|pass| before[pass] == pass * starts.len() / n) && starts.len() % n == 0
    };
    let even: Vec<&Pattern<'_>> = of_thread().filter(is_even).collect();
    let mut times: Vec<TimeRange> = even.iter().flat_map(|pattern| pattern.times()).collect();
    let end = times.iter().map(|time| time.end).max()?;
    unite(&mut times);
    let [inside, between] = work.shares(&times);
    let is_known = even.iter().any(|pattern| pattern.name == once.name);
    if !is_known || even.len() < 2 || inside < MIN_COVERED || between < MIN_BETWEEN[1] || is_in_one_pass(named, &times)
    {
        return None;
    }
    let source = StepSource::Ranges(once.name.clone());
    let boundaries = begins.into_iter().chain([end]).collect();
    Some(Division { source, boundaries, names: None, times: Vec::new(), n_warm_up: 0 })
}

/// Whether one range with the name of a pass or a step spans all of these, which are sorted.
pub fn is_in_one_pass(named: &[Named<'_>], times: &[TimeRange]) -> bool {
    let Some((first, last)) = times.first().zip(times.last()) else { return false };
    let spans = |range: &&Named<'_>| range.time.start <= first.start && range.time.end >= last.end;
    named.iter().filter(spans).any(|range| is_of_one_pass(range.name))
}

#[cfg(test)]
mod tests {
    use crate::analysis::steps::tests::find;
    use crate::analysis::steps::{StepSource, steps};
    use crate::model::{SliceKind, TimeNs, TraceBuilder};

    /// Rounds of ranges of these names, whose lengths follow no rule, with an operator in each.
    fn source(names: &[&str], is_turned: bool) -> Option<StepSource> {
        let (mut slices, mut at) = (Vec::new(), 0);
        for round in 0..12_usize {
            for i in 0..names.len() {
                let name = names[if is_turned && round == 5 { names.len() - 1 - i } else { i }];
                let dur = 1_000 + 700 * ((round * round + 3 * i) % 7) as TimeNs;
                slices.push(("main", SliceKind::Annotation, name.to_owned(), at, at + dur));
                slices.push(("main", SliceKind::Operator, format!("aten::op_{at}"), at + 1, at + dur - 1));
                at += dur;
            }
        }
        find(&slices).map(|steps| steps.source)
    }

    #[test]
    fn ranges_that_take_turns_are_steps_whatever_they_take() {
        let inference = ["preprocess", "model", "postprocess"];
        assert_eq!(source(&inference, false), Some(StepSource::Ranges("preprocess".to_owned())));
        assert_eq!(source(&inference, true), None, "one round in another order");
        assert_eq!(source(&["conv", "norm", "relu"], false), None, "layers of one pass may be like that");
        assert_eq!(source(&["preprocess"], false), None, "a single name takes no turns");
    }

    #[test]
    fn ranges_that_the_recorder_numbers_are_steps() {
        let slices = [0, 70, 150, 300].map(|at| ("main", SliceKind::Annotation, "train", at, at + 60));
        let mut builder = TraceBuilder::from_slices(&slices);
        let name = builder.strings.intern("train");
        builder.info.step_names.push(name);
        let found = steps(&builder.finish(), &|| false).unwrap();
        assert_eq!((found.source, found.boundaries.len()), (StepSource::Ranges("train".to_owned()), 5));
        assert_eq!(steps(&TraceBuilder::from_slices(&slices).finish(), &|| false), None);
    }
}
