//! Steps of a trace without named ones, by the period of what it did.
//!
//! Layers repeat inside one pass as steps repeat inside a training. Rounds count as steps only if they are most of the
//! sequence, at least four, and either each has what a layer does not: a copy from or to the host, a wait of the host,
//! a loss or an update of the parameters. Or they are passes of layers: a shorter period holds inside of them, and they
//! repeat exactly up to the end of the recording, whereas a head follows the layers of a single pass. Rounds inside one
//! range named as a step or a pass are layers.

use std::ops::Range;

use hashbrown::HashMap;

use super::named::annotations;
use super::ranges::is_in_one_pass;
use super::{MIN_LENGTH, Period, Scope, StepSource, Steps, periods, regularity};
use crate::model::{CopyKind, DurNs, Row, SliceId, SliceKind, StringId, SyncKind, TimeNs, TimeRange, Trace, TrackId};

/// Minimum of whole rounds.
const MIN_ROUNDS: usize = 4;
/// Minimum share of the items that repeat from round to round.
const MIN_SHARE: f64 = 0.7;
/// Minimum share of rounds with what a layer does not have.
const MIN_WHOLE: f64 = 0.8;
/// Minimum of layers in a pass.
const LAYERS: usize = 4;
/// Pauses between rounds count if they are more than this part of them: a hundredth.
const PAUSE: DurNs = 100;
/// Items from which the period is found; rounds after them are found by their first items.
const MAX_ITEMS: usize = 1 << 20;
/// Parts of the names of kernels and operators that occur once a training step.
const STEP_KERNELS: [&str; 8] =
    ["loss", "nll", "cross_entropy", "crossentropy", "multi_tensor_apply", "adam", "sgd", "optimizer"];

/// The steps by the period of collectives or of device operations on the busiest stream, whichever is longer; without
/// device operations by that of operators. Cost: O(n log n) for n slices. `None` once cancelled.
pub fn steps(trace: &Trace, scope: &Scope, is_cancelled: &dyn Fn() -> bool) -> Option<Steps> {
    let device = device_operations(trace, scope);
    let of = |name, items: &[SliceId]| of(trace, scope, name, items, is_cancelled);
    let mut found = Vec::new();
    if device.is_empty() {
        found.extend(of("operators", &operators(trace, scope)));
    } else {
        found.extend(of("collectives", &collectives(trace, scope)));
        found.extend(of("device operations", &device));
    }
    // The longest period that holds: shorter ones are those of layers.
    let best = found.iter().enumerate().min_by_key(|(_, steps)| steps.len())?.0;
    let mut best = found.remove(best);
    let differs = |other: &&Steps| other.len().abs_diff(best.len()) > 1;
    best.disagreement = found.iter().find(differs).map(|other| (other.source.clone(), other.len()));
    Some(best).filter(|_| !is_cancelled())
}

/// * `items`: slices in order of time.
fn of(
    trace: &Trace,
    scope: &Scope,
    name: &'static str,
    items: &[SliceId],
    is_cancelled: &dyn Fn() -> bool,
) -> Option<Steps> {
    let symbols = symbols(trace, items);
    let found = periods(&symbols[..symbols.len().min(MAX_ITEMS)], MIN_LENGTH, is_cancelled);
    let shortest = found.iter().map(|period| period.length).min()?;
    let evidence = Evidence::of(trace, scope);
    let named = annotations(trace, scope);
    found.into_iter().find_map(|Period { length, share, starts }| {
        let covered = |rounds: &Vec<usize>| (rounds.len() * length) as f64 / symbols.len() as f64;
        let passes = (LAYERS * shortest <= length).then(|| exact(&symbols, length)).flatten();
        // Where one odd item interrupts them, what the rounds consist of tells.
        let passes = passes.filter(|rounds| covered(rounds) >= MIN_SHARE);
        let is_exact = passes.is_some();
        let share = passes.as_ref().map_or(share, covered);
        let starts = passes.unwrap_or_else(|| extended(&symbols, starts, length));
        let rounds = Rounds::of(trace, items, &symbols, &starts, length);
        let is_fit = rounds.device.len() > MIN_ROUNDS && share >= MIN_SHARE;
        if !is_fit || is_in_one_pass(&named, &[rounds.launched()]) || !is_exact && !evidence.is_of_most(&rounds) {
            return None;
        }
        let source = StepSource::Period { items: name, length, share };
        let mut steps = Steps::new(source, rounds.device, None, 0, Some(&|ts| ts));
        if rounds.lacks_pause {
            steps.leave_out_from(steps.len() - 1);
        }
        Some(steps.with_regularity(evenness(&symbols, &starts, length)))
    })
}

/// The rounds of a period that end with the sequence and repeat each other exactly; `None` if there are too few.
/// Cost: O(n).
fn exact(symbols: &[u32], length: usize) -> Option<Vec<usize>> {
    let n = symbols.len();
    let same = (length..n).rev().take_while(|&i| symbols[i] == symbols[i - length]).count();
    let rounds = same / length + 1;
    (rounds >= MIN_ROUNDS).then(|| (0..rounds).map(|round| n - (rounds - round) * length).collect())
}

/// Boundaries of rounds, one more than rounds.
struct Rounds {
    device: Vec<TimeNs>,
    /// When the first item of each round was launched, and last the end of the last launch.
    host: Vec<TimeNs>,
    /// Whether the last round ends with its last item, and the others have a pause before the next one that counts: what
    /// came there, such as loading of a batch, is missing from the last, and its length compares with none.
    lacks_pause: bool,
}

impl Rounds {
    /// * `starts`: the first item of each round. A last round is whole if it repeats the one before.
    fn of(trace: &Trace, items: &[SliceId], symbols: &[u32], starts: &[usize], length: usize) -> Self {
        let launch = |i: usize| trace.slices.time(trace.launch_of(items[i]).unwrap_or(items[i]));
        let mut device: Vec<TimeNs> = starts.iter().map(|&start| trace.slices.ts[items[start].idx()]).collect();
        let mut host: Vec<TimeNs> = starts.iter().map(|&start| launch(start).start).collect();
        let end = starts[starts.len() - 1] + length;
        let bounds = [&starts[starts.len().saturating_sub(2)..], &[end]].concat();
        let is_whole = end <= items.len() && regularity(symbols, &bounds, 1) >= 1.0;
        let slices = &trace.slices;
        let pause = |&start: &usize| slices.ts[items[start].idx()].saturating_sub(slices.end[items[start - 1].idx()]);
        let pauses = starts[1..].iter().map(pause).fold(0, |sum: DurNs, pause| sum.saturating_add(pause.max(0)));
        let all = device[device.len() - 1].saturating_sub(device[0]);
        if is_whole {
            device.push(trace.slices.end[items[end - 1].idx()]);
            host.push(launch(end - 1).end);
        }
        Self { device, host, lacks_pause: is_whole && pauses > all / PAUSE }
    }

    /// When all of them were launched.
    fn launched(&self) -> TimeRange {
        TimeRange { start: self.host[0], end: self.host[self.host.len() - 1] }
    }
}

/// Times of what a whole step has and a layer has not: a copy from or to the host, a wait of the host, a loss or an
/// update of the parameters.
struct Evidence {
    /// Ascending.
    device: Vec<TimeNs>,
    /// Ascending.
    host: Vec<TimeNs>,
}

impl Evidence {
    /// Cost: O(n log n) for n slices and strings.
    fn of(trace: &Trace, scope: &Scope) -> Self {
        let slices = &trace.slices;
        let is_of_step: Vec<bool> = trace
            .strings
            .iter()
            .map(|(_, name)| {
                let lower = name.to_ascii_lowercase();
                let waits =
                    matches!(SyncKind::of_call(name), Some(SyncKind::Event | SyncKind::Stream | SyncKind::Device));
                waits || STEP_KERNELS.iter().any(|part| lower.contains(part))
            })
            .collect();
        let is_evidence = |i: usize| match slices.kind[i] {
            SliceKind::Memcpy => {
                let kind = trace.facts.copies.get(SliceId(i as u32)).map(|copy| copy.kind);
                matches!(kind, Some(CopyKind::HtoD | CopyKind::DtoH))
            }
            SliceKind::Kernel | SliceKind::Operator | SliceKind::Runtime | SliceKind::Driver => {
                is_of_step.get(slices.name[i].0 as usize).copied().unwrap_or_default()
            }
            _ => false,
        };
        let (mut device, mut host) = (Vec::new(), Vec::new());
        for i in scope.rows(trace).flat_map(Row::range).filter(|&i| is_evidence(i)) {
            let of = if slices.kind[i].is_device_work() { &mut device } else { &mut host };
            of.push(slices.ts[i]);
        }
        device.sort_unstable();
        host.sort_unstable();
        Self { device, host }
    }

    /// Whether most rounds have some. A round takes from the launch of its first item to that of the next round's, and
    /// what the host does after the last launch belongs to the last round.
    fn is_of_most(&self, rounds: &Rounds) -> bool {
        let n = rounds.device.len().saturating_sub(1);
        let has = |times: &[TimeNs], start: TimeNs, end: TimeNs| {
            times.get(times.partition_point(|&at| at < start)).is_some_and(|&at| at < end)
        };
        let is_whole = |&round: &usize| {
            let end = if round + 1 == n { TimeNs::MAX } else { rounds.host[round + 1] };
            has(&self.device, rounds.device[round], rounds.device[round + 1])
                || has(&self.host, rounds.host[round], end)
        };
        (0..n).filter(is_whole).count() as f64 >= MIN_WHOLE * n as f64
    }
}

/// Share of the rounds that repeat the one before, see [`regularity`].
///
/// * `length`: of a last round, which has no next one to end it.
fn evenness(symbols: &[u32], starts: &[usize], length: usize) -> f64 {
    let end_of_last = Some(starts[starts.len() - 1] + length).filter(|&end| end <= symbols.len());
    regularity(symbols, &starts.iter().copied().chain(end_of_last).collect::<Vec<_>>(), 1)
}

/// A number for each item, the same for items of one name and for collectives of one size, ascending with their first
/// places.
fn symbols(trace: &Trace, items: &[SliceId]) -> Vec<u32> {
    let mut known: HashMap<(StringId, Option<u64>), u32> = HashMap::new();
    let symbol = |&item: &SliceId| {
        let elements = trace.facts.collectives.get(item).and_then(|collective| collective.in_elements);
        let next = known.len() as u32;
        *known.entry((trace.slices.name[item.idx()], elements)).or_insert(next)
    };
    items.iter().map(symbol).collect()
}

/// Adds the rounds after the items that the period was found in: each begins near where one is due, with the same
/// items as the first.
fn extended(symbols: &[u32], mut starts: Vec<usize>, length: usize) -> Vec<usize> {
    let first = starts[0];
    let head = &symbols[first..first + length.min(16).min(symbols.len() - first)];
    while symbols.len() > MAX_ITEMS {
        let due = starts[starts.len() - 1] + length;
        let near = (due.saturating_sub(length / 4)..due + length / 4 + 1)
            .filter(|&at| symbols[at.min(symbols.len())..].starts_with(head));
        let Some(next) = near.min_by_key(|at| at.abs_diff(due)) else { break };
        starts.push(next);
    }
    starts
}

/// The device work on the stream that has most of it, in order of time.
fn device_operations(trace: &Trace, scope: &Scope) -> Vec<SliceId> {
    let is_own = |i: &usize| trace.slices.kind[*i].is_device_work() && scope.launched(trace, SliceId(*i as u32));
    let work = |track: TrackId| trace.track_slices(track).filter(is_own).map(|i| SliceId(i as u32));
    let busiest = scope.tracks(trace).max_by_key(|&track| (work(track).count(), std::cmp::Reverse(track)));
    sorted(trace, busiest.map(|track| work(track).collect()).unwrap_or_default())
}

/// The kernels of collectives, in order of time.
fn collectives(trace: &Trace, scope: &Scope) -> Vec<SliceId> {
    let is_own =
        |slice: &SliceId| scope.has_track(trace, trace.slices.track_of(*slice)) && scope.launched(trace, *slice);
    let found = trace.facts.collectives.iter().map(|(slice, _)| slice).filter(is_own);
    sorted(trace, found.filter(|slice| trace.slices.kind[slice.idx()] == SliceKind::Kernel).collect())
}

/// The operators that lie in no other, of the thread that has most of them, in order of time.
fn operators(trace: &Trace, scope: &Scope) -> Vec<SliceId> {
    let slices = &trace.slices;
    let rows = |track: TrackId| -> Range<usize> {
        let rows = &trace.track_rows[track.0 as usize];
        rows.start as usize..rows.end as usize
    };
    let outermost = |track: TrackId| -> Vec<SliceId> {
        let parents = slices.parents(rows(track));
        let first = trace.track_slices(track).start;
        let is_operator = |i: usize| slices.kind[i] == SliceKind::Operator;
        let all = trace.track_slices(track).zip(parents.iter());
        let found = all.filter(|&(i, parent)| {
            is_operator(i) && !parent.is_some_and(|parent| is_operator(first + parent as usize))
        });
        found.map(|(i, _)| SliceId(i as u32)).collect()
    };
    sorted(trace, scope.tracks(trace).map(outermost).max_by_key(Vec::len).unwrap_or_default())
}

fn sorted(trace: &Trace, mut items: Vec<SliceId>) -> Vec<SliceId> {
    items.sort_by_key(|item| trace.slices.ts[item.idx()]);
    items
}

#[cfg(test)]
mod tests {
    use super::evenness;
    use crate::analysis::steps::StepSource;
    use crate::analysis::steps::tests::find;
    use crate::model::{SliceKind, TimeNs};

    /// Rounds of 20 kernels of 10 ns and a pause after them; every third ends with an update of the parameters, if they
    /// have any. Durations of the steps that count, and how many do not.
    fn durations(rounds: usize, pause: TimeNs, has_updates: bool) -> (Vec<TimeNs>, usize, StepSource) {
        let (mut slices, mut at) = (Vec::new(), 0);
        for round in 0..rounds {
            let update = Some("adam_kernel".to_owned()).filter(|_| has_updates && round % 3 == 2);
            let kernels = (0..20).map(|i| if i == 9 { "nll_loss".to_owned() } else { format!("k{i}") });
            for name in kernels {
                slices.push(("stream 7", SliceKind::Kernel, name, at, at + 10));
                at += 10;
            }
            slices.extend(update.map(|name| ("stream 8", SliceKind::Kernel, name, at - 5, at)));
            at += pause;
        }
        let found = find(&slices).unwrap();
        let counted = &found.boundaries[found.used.start..=found.used.end];
        let durations = counted.windows(2).map(|pair| pair[1] - pair[0]).collect();
        (durations, found.len() - found.used.len(), found.source)
    }

    #[test]
    fn the_last_round_lacks_the_pause_before_a_next_one_and_does_not_count() {
        let (found, n_others, _) = durations(8, 100, false);
        assert_eq!((found, n_others), (vec![300; 6], 2));
        let (found, n_others, _) = durations(8, 2, false);
        assert_eq!((found.len(), n_others), (7, 1), "it lacks next to nothing");
        let (found, n_others, source) = durations(15, 100, true);
        assert!(matches!(source, StepSource::Updates { every: 3, .. }), "{source:?}");
        assert_eq!((found, n_others), (vec![900; 3], 2));
    }

    #[test]
    fn rounds_are_alike_by_their_items_in_any_order() {
        let symbols = [0, 1, 2, 3, 0, 2, 1, 3, 0, 1, 4, 3, 0, 1, 4, 3, 0];
        // Of three pairs, the second differs in one of four items; the last round has no next one.
        assert_eq!(evenness(&symbols, &[0, 4, 8, 12], 4), 2.0 / 3.0);
        assert_eq!(evenness(&symbols, &[0, 4, 8, 12, 16], 4), 2.0 / 3.0);
        assert_eq!(evenness(&symbols[..6], &[0, 4], 4), 0.0, "one round repeats none");
    }
}
