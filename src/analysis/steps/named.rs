//! Steps by the names that the program or its framework gave to ranges.

use std::cell::Cell;

use hashbrown::HashMap;

use super::{Coverage, Scope, StepSource, Steps};
use crate::model::time::{partition_near, unite};
use crate::model::{SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// Anchors needed for two whole steps, the minimum for a comparison.
pub const MIN_ANCHORS: usize = 3;
/// Minimum of ranges: with a number that counts up, with a word for a step, with any other name.
const MIN_RANGES: [usize; 3] = [2, 3, 4];
/// Minimum share of the work that must lie in the ranges, of that between the first and the last.
const MIN_COVERED: f64 = 0.5;
/// Minimum share of all work that must lie between the first and the last: of ranges with a word for a step, and of
/// others.
const MIN_BETWEEN: [f64; 2] = [0.25, 0.5];
/// Minimum regularity of ranges without a word for a step.
const MIN_REGULARITY: f64 = 0.5;

pub const PROFILER_STEP: &str = "ProfilerStep#";
const LOADER: &str = "enumerate(DataLoader)#";
/// Annotations that PyTorch records once per step, in order of preference.
const ANCHORS: [&str; 3] = ["Optimizer.step#", "Optimizer.zero_grad#", LOADER];
/// What libraries and compilers name themselves: calls and regions of one pass.
const NO_STEPS: [&str; 7] =
    ["nccl:", "gloo:", "CompiledFxGraph", "record_param_comms", "aten::", "autograd::", "op_id"];
/// Words for a step, and words that make a part of a step or a sum of steps of it.
const STEP_WORDS: [&str; 9] =
    ["step", "iter", "iteration", "batch", "minibatch", "trainstep", "execute", "itr", "global_step"];
#[rustfmt::skip]
const OTHER_WORDS: [&str; 32] = [
    "optimizer", "optim", "opt", "adam", "adamw", "sgd", "scaler", "scheduler", "lr", "zero", "clip", "update",
    "data", "dataloader", "loader", "load", "loading", "get", "fetch", "next", "prefetch", "copy", "transfer", "move",
    "forward", "fwd", "backward", "bwd", "loss", "epoch", "wait", "norm",
];
/// Words for parts of a model, which repeat within a pass.
const PART_WORDS: [&str; 10] =
    ["layer", "layers", "block", "blocks", "module", "attention", "attn", "mlp", "bucket", "microbatch"];
/// Words for what comes once in a pass.
const ONCE_WORDS: [&str; 10] =
    ["loss", "criterion", "dataloader", "loader", "optimizer", "optim", "adam", "adamw", "sgd", "scheduler"];
/// Words for what precedes the steps that are to be measured, and for what encloses those.
const WARM_UP_WORDS: [&str; 4] = ["warmup", "warm", "warming", "burnin"];
const MEASURED_WORDS: [&str; 9] =
    ["benchmark", "bench", "benchmarking", "timed", "timing", "measure", "measured", "measurement", "measuring"];
/// Words for one pass through a model.
const PASS_WORDS: [&str; 6] = ["forward", "fwd", "backward", "bwd", "prefill", "decode"];

/// A range with a name.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub name: &'a str,
    pub time: TimeRange,
    /// Its thread; ranges of one thread nest.
    pub thread: TrackId,
}

/// A way to divide a recording into steps.
#[derive(Clone, Debug)]
pub struct Division {
    pub source: StepSource,
    /// One more than steps, ascending.
    pub boundaries: Vec<TimeNs>,
    /// One per step, if the recording has them.
    pub names: Option<Vec<String>>,
    /// The recorded time of each step; empty where a step lasts to the next.
    pub times: Vec<TimeRange>,
    /// How many ranges of the same name lie in what the program calls its warm-up, and are not steps.
    pub n_warm_up: usize,
}

impl Division {
    /// Between marks, in any order; `None` for fewer than two distinct ones.
    pub fn of_marks(marks: &[TimeNs]) -> Option<Self> {
        let mut boundaries = marks.to_vec();
        boundaries.sort_unstable();
        boundaries.dedup();
        (boundaries.len() > 1).then_some(Self {
            source: StepSource::Marks,
            boundaries,
            names: None,
            times: Vec::new(),
            n_warm_up: 0,
        })
    }

    /// Removes the steps that begin before `first`, the first event of a recording that has lost its beginning.
    pub fn begin_at(&mut self, first: TimeNs) {
        let n = self.boundaries.partition_point(|&start| start < first);
        self.boundaries.drain(..n);
        let n_steps = self.boundaries.len().saturating_sub(1);
        if let Some(names) = &mut self.names {
            names.drain(..names.len() - n_steps.min(names.len()));
        }
        self.times.drain(..self.times.len() - n_steps.min(self.times.len()));
    }

    /// Removes the steps that begin after `last`, the last event of a recording.
    pub fn end_at(&mut self, last: TimeNs) {
        let n_steps =
            self.boundaries.partition_point(|&start| start <= last).min(self.boundaries.len().saturating_sub(1));
        self.boundaries.truncate(n_steps + 1);
        if let Some(names) = &mut self.names {
            names.truncate(n_steps);
        }
        self.times.truncate(n_steps);
    }

    /// The steps as time ranges.
    pub(super) fn in_time(self) -> Steps {
        let mut steps = Steps::new(self.source, self.boundaries, self.names, 0, Some(&|ts| ts));
        steps.n_warm_up = self.n_warm_up;
        if self.times.len() == steps.len() {
            steps.set_times(self.times);
        }
        steps
    }
}

/// The annotations of some processes that may mark steps, by start. Cost: O(n log n).
pub fn annotations<'a>(trace: &'a Trace, scope: &Scope) -> Vec<Named<'a>> {
    let slices = &trace.slices;
    // Recordings of 2020 and 2021 have what PyTorch names itself among the operators.
    let is_own: Vec<bool> = trace.strings.iter().map(|(_, name)| is_pytorch_name(name)).collect();
    let is_wanted = |i: usize| match slices.kind[i] {
        SliceKind::Annotation => true,
        SliceKind::Operator => is_own.get(slices.name[i].0 as usize).copied().unwrap_or_default(),
        _ => false,
    };
    let mut found = Vec::new();
    for row in scope.rows(trace) {
        let named = |i: usize| Named {
            name: trace.strings.get(slices.name[i]),
            time: TimeRange { start: slices.ts[i], end: slices.end[i] },
            thread: row.track,
        };
        found.extend(row.range().filter(|&i| is_wanted(i)).map(named));
    }
    found.sort_by_key(|named| (named.time.start, std::cmp::Reverse(named.time.end)));
    found
}

/// The divisions by the annotations of a device, for recordings without any of the host: of the stream that has most
/// names of steps, then most annotated time. Boundaries are times of the device. Cost: O(n log n).
pub fn device_divisions(trace: &Trace, scope: &Scope) -> Vec<Division> {
    let slices = &trace.slices;
    let named = |track: TrackId| -> Vec<Named<'_>> {
        let all = trace.track_slices(track).filter(|&i| slices.kind[i] == SliceKind::GpuAnnotation);
        let time = |i: usize| TimeRange { start: slices.ts[i], end: slices.end[i] };
        all.map(|i| Named { name: trace.strings.get(slices.name[i]), time: time(i), thread: track }).collect()
    };
    let weight = |named: &Vec<Named<'_>>| {
        let steps = named.iter().filter(|named| is_step_name(named.name)).count();
        (steps, named.iter().map(|named| named.time.dur()).sum::<i64>())
    };
    let mut named =
        scope.tracks(trace).map(named).filter(|named| !named.is_empty()).max_by_key(weight).unwrap_or_default();
    named.sort_by_key(|named| (named.time.start, std::cmp::Reverse(named.time.end)));
    let on_device = |division: Division| {
        let name = match division.source {
            StepSource::Ranges(name) | StepSource::Annotation(name) => name,
            _ => PROFILER_STEP.to_owned(),
        };
        // The range of a step ends with its last work; what the device waits for then belongs to it as well.
        Division { source: StepSource::DeviceRanges(name), times: Vec::new(), ..division }
    };
    divisions(&named, &Coverage::default()).into_iter().map(on_device).collect()
}

fn is_pytorch_name(name: &str) -> bool {
    ANCHORS.iter().chain(&[PROFILER_STEP]).any(|prefix| name.starts_with(prefix))
}

/// Whether a name is that of one pass through a model, or of one step: what repeats inside is not a step. A
/// measurement, such as `Benchmark Forward Only`, encloses many.
fn is_of_one_pass(name: &str) -> bool {
    if has_word(name, &MEASURED_WORDS) {
        return false;
    }
    name.starts_with(PROFILER_STEP) || has_step_word(name) || has_word(name, &PASS_WORDS)
}

/// Whether a name may mark steps by itself, as `ProfilerStep#3`, `Optimizer.step#SGD.step` and `iteration 7` do.
pub fn is_step_name(name: &str) -> bool {
    is_pytorch_name(name) || has_step_word(name)
}

/// Whether one of the words of a name is among `words`, in capital letters or small ones.
pub(super) fn has_word(name: &str, words: &[&str]) -> bool {
    let is_one = |word: &str| words.iter().any(|known| known.eq_ignore_ascii_case(word));
    name.split(|c: char| !c.is_ascii_alphabetic()).any(is_one)
}

/// Hooks at the ends of a step are not steps: `on_train_batch_end`.
fn has_step_word(name: &str) -> bool {
    let is_hook = || has_word(name, &["on"]) && has_word(name, &["before", "after", "start", "end", "begin"]);
    has_word(name, &STEP_WORDS) && !has_word(name, &OTHER_WORDS) && !is_hook()
}

/// The divisions into steps by names, in order of preference; see [`super::steps`]. Cost: O(n log n) for n ranges.
///
/// What the program calls its warm-up is left out, where what is left has steps of its own by names: those are what it
/// measures. Warm-up steps are steps where nothing else is.
///
/// * `named`: by start, the outer before the inner.
pub fn divisions(named: &[Named<'_>], work: &Coverage) -> Vec<Division> {
    let mut warm_up: Vec<TimeRange> =
        named.iter().filter(|named| is_warm_up(named.name)).map(|named| named.time).collect();
    if !warm_up.is_empty() {
        unite(&mut warm_up);
        // Both names and work ascend.
        let near = Cell::new(0);
        let is_outside = |ts: TimeNs| {
            let begun = partition_near(&warm_up, near.get(), |time| time.start <= ts);
            near.set(begun);
            begun.checked_sub(1).is_none_or(|at| warm_up[at].end <= ts)
        };
        let rest: Vec<Named<'_>> = named.iter().filter(|named| is_outside(named.time.start)).copied().collect();
        let starts: Vec<TimeNs> = work.starts.iter().copied().filter(|&start| is_outside(start)).collect();
        let has_work = !starts.is_empty() || work.starts.is_empty();
        let mut found = if has_work { divisions_of(&rest, &Coverage { starts }) } else { Vec::new() };
        if !found.is_empty() {
            for division in &mut found {
                let (StepSource::Ranges(name) | StepSource::Annotation(name)) = &division.source else { continue };
                let in_warm_up = named.iter().filter(|named| !is_outside(named.time.start));
                division.n_warm_up = in_warm_up.filter(|named| without_digits(named.name) == *name).count();
            }
            return found;
        }
    }
    divisions_of(named, work)
}

/// Whether a name is that of a warm-up: `Warm-up Step 3`, `warmup_iter`.
fn is_warm_up(name: &str) -> bool {
    has_word(name, &WARM_UP_WORDS)
}

fn divisions_of(named: &[Named<'_>], work: &Coverage) -> Vec<Division> {
    let patterns = patterns(named);
    let mut found: Vec<Division> = profiler_steps(named).into_iter().collect();
    let ranges = step_ranges(&patterns, work);
    let anchored: Vec<Division> = ANCHORS.iter().filter_map(|prefix| anchored(named, prefix)).collect();
    let updates = ranges.as_ref().zip(anchored.first()).and_then(|(ranges, updates)| accumulated(ranges, updates));
    let is_accumulated = updates.is_some();
    found.extend(updates);
    found.extend(ranges);
    found.extend(anchored.into_iter().skip(usize::from(is_accumulated)));
    if found.is_empty() {
        found.extend(part_ranges(named, &patterns, work).or_else(|| pass_ranges(named, &patterns, work)));
    }
    found
}

/// The updates of the parameters, if as many ranges come before each: gradients are accumulated, and the ranges are
/// micro batches. The first update then has a step of its own, if its ranges are all there.
fn accumulated(ranges: &Division, updates: &Division) -> Option<Division> {
    matches!(&updates.source, StepSource::Annotation(name) if name.starts_with(ANCHORS[0])).then_some(())?;
    let starts = &ranges.boundaries[..ranges.boundaries.len() - 1];
    let before = |end: &TimeNs| starts.partition_point(|start| start < end);
    let counts: Vec<usize> = updates.boundaries.windows(2).map(|pair| before(&pair[1]) - before(&pair[0])).collect();
    let n = *counts.first()?;
    if n < 2 || counts.iter().any(|&count| count != n) {
        return None;
    }
    let mut updates = updates.clone();
    if before(&updates.boundaries[0]) == n {
        updates.boundaries.insert(0, starts[0]);
    }
    Some(updates)
}

fn profiler_steps(named: &[Named<'_>]) -> Option<Division> {
    let mut steps: Vec<Named<'_>> =
        named.iter().filter(|named| named.name.starts_with(PROFILER_STEP)).copied().collect();
    // Several threads, or duplicate records, may name the same step.
    steps.dedup_by(|next, step| next.name == step.name);
    let names = steps.iter().map(|step| step.name.to_owned()).collect();
    let mut times: Vec<TimeRange> = steps.iter().map(|step| step.time).collect();
    // Where one begins in another, that one has ended: steps follow each other.
    for i in 1..times.len() {
        times[i - 1].end = times[i - 1].end.min(times[i].start);
    }
    Some(Division { names: Some(names), ..of_ranges(StepSource::ProfilerStep, times)? })
}

/// Steps from start to start, the last one to its end.
fn of_ranges(source: StepSource, times: Vec<TimeRange>) -> Option<Division> {
    let last = times.last()?;
    let mut boundaries: Vec<TimeNs> = times.iter().map(|time| time.start).collect();
    boundaries.push(last.end.max(last.start));
    Some(Division { source, boundaries, names: None, times, n_warm_up: 0 })
}

/// By the most frequent name with this prefix; of equally frequent ones, the first. From end to end, of loading from
/// start to start.
fn anchored(named: &[Named<'_>], prefix: &str) -> Option<Division> {
    let of_prefix = || named.iter().filter(|named| named.name.starts_with(prefix));
    let mut counts: HashMap<&str, usize> = HashMap::new();
    of_prefix().for_each(|named| *counts.entry(named.name).or_default() += 1);
    let most = counts.values().copied().max().filter(|&most| most >= MIN_ANCHORS)?;
    let name = of_prefix().find(|named| counts[named.name] == most)?.name;
    let mut anchors: Vec<TimeRange> = of_prefix().filter(|found| found.name == name).map(|found| found.time).collect();
    anchors.sort_unstable_by_key(|time| time.end);
    // A step begins with the loading of its batch, and ends with the update. The last call of a loader brings no batch:
    // where it was recorded, the last step ends with its start.
    let is_loader = prefix == LOADER;
    // One in which the recording ends has no length in it, and no end.
    let is_cut = |anchors: &[TimeRange]| {
        anchors.split_last().is_some_and(|(last, others)| last.dur() == 0 && others.iter().all(|other| other.dur() > 0))
    };
    if !is_loader && is_cut(&anchors) {
        anchors.pop();
    }
    let boundaries: Vec<TimeNs> =
        anchors.into_iter().map(|time| if is_loader { time.start } else { time.end }).collect();
    Some(Division {
        source: StepSource::Annotation(name.to_owned()),
        boundaries,
        names: None,
        times: Vec::new(),
        n_warm_up: 0,
    })
}

/// The ranges of one thread whose names differ in digits only.
struct Pattern<'a> {
    /// With `#` for digits.
    name: String,
    thread: TrackId,
    /// The outermost, by start.
    ranges: Vec<Named<'a>>,
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
fn patterns<'a>(named: &[Named<'a>]) -> Vec<Pattern<'a>> {
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
            patterns.push(Pattern { name: names[id].clone(), thread: range.thread, ranges: Vec::new() });
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

/// Ranges with a word for a step in their name: the outermost, which are the fewest.
fn step_ranges(patterns: &[Pattern<'_>], work: &Coverage) -> Option<Division> {
    let is_fit = |pattern: &&Pattern<'_>| {
        let counts_up = pattern.name.contains('#') && pattern.counts_up();
        let [inside, between] = work.shares(&pattern.times());
        has_step_word(&pattern.name)
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
///
/// Parts of a model and what lies in one range of a single pass repeat as layers, not as steps.
fn part_ranges(named: &[Named<'_>], patterns: &[Pattern<'_>], work: &Coverage) -> Option<Division> {
    let is_part = |pattern: &Pattern<'_>| has_word(&pattern.name, &PART_WORDS);
    let mut fit: Vec<&Pattern<'_>> = patterns
        .iter()
        .filter(|pattern| pattern.ranges.len() >= MIN_RANGES[2] && !is_part(pattern))
        .filter(|pattern| pattern.regularity() >= MIN_REGULARITY)
        .collect();
    fit.sort_by_key(|pattern| (pattern.ranges.len(), pattern.thread, pattern.ranges[0].time.start));
    let set_of = |pattern: &Pattern<'_>| (pattern.ranges.len(), pattern.thread);
    let is_fit = |set: &&[&Pattern<'_>]| {
        let mut times: Vec<TimeRange> = set.iter().flat_map(|pattern| pattern.times()).collect();
        unite(&mut times);
        let [inside, between] = work.shares(&times);
        inside >= MIN_COVERED && between >= MIN_BETWEEN[1] && !is_in_one_pass(named, &times)
    };
    let set = fit.chunk_by(|a, b| set_of(a) == set_of(b)).find(is_fit)?;
    let first = set[0];
    let end = set.iter().filter_map(|pattern| pattern.ranges.last()).map(|range| range.time.end).max()?;
    let mut division = of_ranges(StepSource::Ranges(first.name.clone()), first.times())?;
    division.boundaries.pop();
    division.boundaries.push(end);
    Some(Division { times: Vec::new(), ..division })
}

/// Ranges of one thread that come once a pass by their meaning, such as `loss`, where all others that come evenly, such
/// as `layer` twelve times, cover the work with them: passes begin with the first of all.
fn pass_ranges(named: &[Named<'_>], patterns: &[Pattern<'_>], work: &Coverage) -> Option<Division> {
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
