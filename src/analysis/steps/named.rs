//! Steps by the names that the program or its framework gave to ranges.

use std::cell::Cell;

use hashbrown::HashMap;

use super::ranges::{part_ranges, pass_ranges, patterns, step_ranges, without_digits};
use super::{Coverage, Scope, StepSource, Steps};
use crate::model::time::{partition_near, unite};
use crate::model::{SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// Anchors needed for two whole steps, the minimum for a comparison.
pub const MIN_ANCHORS: usize = 3;

/// Amounts of work that differ by one part of so many are the same.
const ALIKE: usize = 50;

pub const PROFILER_STEP: &str = "ProfilerStep#";
const LOADER: &str = "enumerate(DataLoader)#";
/// Annotations that PyTorch records once per step, in order of preference.
const ANCHORS: [&str; 3] = ["Optimizer.step#", "Optimizer.zero_grad#", LOADER];
/// Words for a step, and words that make a part of a step or a sum of steps of it.
const STEP_WORDS: [&str; 9] =
    ["step", "iter", "iteration", "batch", "minibatch", "trainstep", "execute", "itr", "global_step"];
#[rustfmt::skip]
const OTHER_WORDS: [&str; 32] = [
    "optimizer", "optim", "opt", "adam", "adamw", "sgd", "scaler", "scheduler", "lr", "zero", "clip", "update",
    "data", "dataloader", "loader", "load", "loading", "get", "fetch", "next", "prefetch", "copy", "transfer", "move",
    "forward", "fwd", "backward", "bwd", "loss", "epoch", "wait", "norm",
];
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
    /// Whether the recorder numbers the ranges of this name as steps.
    pub is_step: bool,
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
            is_step: trace.info.step_names.binary_search(&slices.name[i]).is_ok(),
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
        all.map(|i| Named { name: trace.strings.get(slices.name[i]), time: time(i), thread: track, is_step: false })
            .collect()
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

pub(super) fn is_pytorch_name(name: &str) -> bool {
    ANCHORS.iter().chain(&[PROFILER_STEP]).any(|prefix| name.starts_with(prefix))
}

/// Whether a name is that of one pass through a model, or of one step: what repeats inside is not a step. A
/// measurement, such as `Benchmark Forward Only`, encloses many.
pub(super) fn is_of_one_pass(name: &str) -> bool {
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
pub(super) fn has_step_word(name: &str) -> bool {
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
    let anchored: Vec<Division> = ANCHORS.iter().filter_map(|prefix| anchored(named, prefix, work)).collect();
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
pub(super) fn of_ranges(source: StepSource, times: Vec<TimeRange>) -> Option<Division> {
    let last = times.last()?;
    let mut boundaries: Vec<TimeNs> = times.iter().map(|time| time.start).collect();
    boundaries.push(last.end.max(last.start));
    Some(Division { source, boundaries, names: None, times, n_warm_up: 0 })
}

/// By the most frequent name with this prefix; of equally frequent ones, the first. From end to end, of loading from
/// start to start. Of several optimizers that take turns, as those of a generator and a discriminator do, by the one that
/// comes least often: see [`last_of_round`] and [`updates_of_round`].
fn anchored(named: &[Named<'_>], prefix: &str, work: &Coverage) -> Option<Division> {
    let of_prefix = || named.iter().filter(|named| named.name.starts_with(prefix));
    let mut counts: HashMap<&str, usize> = HashMap::new();
    of_prefix().for_each(|named| *counts.entry(named.name).or_default() += 1);
    let most = counts.values().copied().max().filter(|&most| most >= MIN_ANCHORS)?;
    let is_update = prefix == ANCHORS[0];
    let last = is_update.then(|| last_of_round(&of_prefix().map(|named| named.name).collect::<Vec<_>>())).flatten();
    let name = last.or_else(|| Some(of_prefix().find(|named| counts[named.name] == most)?.name))?;
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
    let every = if is_update && counts.len() == 1 { updates_of_round(&anchors, work) } else { 1 };
    let anchors = anchors.into_iter().skip(every - 1).step_by(every);
    let boundaries: Vec<TimeNs> = anchors.map(|time| if is_loader { time.start } else { time.end }).collect();
    let source =
        if every > 1 { format!("{name} (every {})", if every == 2 { "2nd" } else { "3rd" }) } else { name.to_owned() };
    Some(Division { source: StepSource::Annotation(source), boundaries, names: None, times: Vec::new(), n_warm_up: 0 })
}

/// The name of the update that ends each round of several optimizers: the rarest, where between each two of its updates
/// all others come equally often, some of them several times. `None` if they do not take turns like that.
///
/// * `updates`: names of all updates, in order.
fn last_of_round<'a>(updates: &[&'a str]) -> Option<&'a str> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    updates.iter().for_each(|&name| *counts.entry(name).or_default() += 1);
    let rarest = *updates.iter().min_by_key(|name| counts[**name])?;
    let ends: Vec<usize> = (0..updates.len()).filter(|&at| updates[at] == rarest).collect();
    let mut rounds = ends.windows(2).map(|pair| {
        let mut round = updates[pair[0]..pair[1]].to_vec();
        round.sort_unstable();
        round
    });
    let first = rounds.next()?;
    let is_round = ends.len() >= MIN_ANCHORS && first.len() > counts.len() && rounds.all(|round| round == first);
    is_round.then_some(rarest)
}

/// How many updates of one name make a round: 2 or 3, where the amount of work between updates repeats only with that
/// period and differs much within it; else 1. An optimizer of each of two networks has the same name.
fn updates_of_round(updates: &[TimeRange], work: &Coverage) -> usize {
    let before: Vec<usize> =
        updates.iter().map(|time| work.starts.partition_point(|&start| start < time.end)).collect();
    let amounts: Vec<usize> = before.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let repeats = |every: usize| {
        let pairs = amounts.len().saturating_sub(every);
        let same = (0..pairs).filter(|&i| amounts[i].abs_diff(amounts[i + every]) * ALIKE <= amounts[i]).count();
        pairs >= 2 * every && 10 * same >= 9 * pairs
    };
    let differs = |every: usize| {
        let of_round = amounts.get(amounts.len() - every..).unwrap_or_default();
        let [least, most] =
            [of_round.iter().min(), of_round.iter().max()].map(|amount| amount.map_or(0, |&amount| amount));
        10 * most >= 11 * least
    };
    [2, 3].into_iter().find(|&every| !repeats(1) && repeats(every) && differs(every)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::steps::tests::find;

    /// Rounds of updates, each 10 ns long after so many operators of 100 ns: names of the optimizers and amounts.
    fn boundaries(round: &[(&str, TimeNs)], n: usize) -> Option<(String, Vec<TimeNs>)> {
        let (mut slices, mut at) = (Vec::new(), 0);
        for &(name, amount) in std::iter::repeat_n(round, n).flatten() {
            for _ in 0..amount {
                slices.push(("main", SliceKind::Operator, "aten::mm".to_owned(), at, at + 100));
                at += 100;
            }
            slices.push(("main", SliceKind::Annotation, format!("Optimizer.step#{name}.step"), at, at + 10));
            at += 10;
        }
        let found = find(&slices)?;
        let StepSource::Annotation(name) = found.source else { return None };
        Some((name, found.boundaries))
    }

    #[test]
    fn several_optimizers_that_take_turns_make_one_step() {
        let every = |round: TimeNs, n: TimeNs| (1..=n).map(|i| i * round).collect::<Vec<_>>();
        // Two updates of the discriminator for each of the generator.
        let gan = boundaries(&[("RMSprop", 5), ("RMSprop", 5), ("Adam", 4)], 6).unwrap();
        assert_eq!(gan, ("Optimizer.step#Adam.step".to_owned(), every(1_430, 6)));
        let alike = boundaries(&[("Adam", 5), ("Adam", 5), ("Adam", 4)], 6).unwrap();
        assert_eq!(alike, ("Optimizer.step#Adam.step (every 3rd)".to_owned(), every(1_430, 6)));
        let two = boundaries(&[("Adam", 5), ("Adam", 4)], 6).unwrap();
        assert_eq!(two, ("Optimizer.step#Adam.step (every 2nd)".to_owned(), every(920, 6)));
        // One optimizer, whose loop logs in every second step.
        let logs = boundaries(&[("Adam", 50), ("Adam", 51)], 6).unwrap();
        assert_eq!((logs.0.as_str(), logs.1.len()), ("Optimizer.step#Adam.step", 12));
        // Amounts that never repeat are no rounds, nor is a lone update of another optimizer.
        let grows: Vec<(&str, TimeNs)> = (1..12).map(|i| ("Adam", i * 3)).collect();
        assert_eq!(boundaries(&grows, 1).unwrap().1.len(), 11);
        let lone = boundaries(&[("Adam", 5), ("SGD", 5), ("Adam", 5), ("Adam", 5), ("SGD", 5), ("SGD", 5)], 2).unwrap();
        assert_eq!(lone.0, "Optimizer.step#Adam.step");
    }
}
