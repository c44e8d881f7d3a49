//! Do the same allocations come again and again?

use hashbrown::HashMap;

use crate::model::memory::MemoryAction;
use crate::model::{MemoryHistory, StackId};

/// A repetition that most of the allocations take part in.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// Allocations of one round.
    pub allocations: u32,
    /// Share of all allocations that come again a round later, or came a round before.
    pub share: f64,
    /// Where rounds begin and end, as states, ascending.
    pub boundaries: Vec<u32>,
}

/// Rounds that must follow each other.
const MIN_ROUNDS: usize = 3;
/// At least so many allocations make a round: fewer are a loop inside something.
const MIN_ALLOCATIONS: usize = 4;
/// At least so large a share of all allocations must lie in the rounds, and within these repeat.
const MIN_SHARE: f64 = 0.5;
const MIN_REPEATED: f64 = 0.85;
/// How many lengths are tried.
const MAX_CANDIDATES: usize = 24;
/// What one allocation that does not repeat costs, in such that do: a stretch goes on as long as no
/// more than one in five is new.
const MISMATCH: i64 = 4;
/// No allocation yet.
const NEVER: u32 = u32::MAX;

/// The stretch in which allocations repeat after a number of others.
struct Candidate {
    length: usize,
    /// Indices of allocations; the last round included.
    start: usize,
    end: usize,
    /// Of those in the stretch but the last round, how many come again.
    repeated: usize,
}

impl Candidate {
    fn missed(&self) -> f64 {
        1.0 - self.repeated as f64 / (self.end - self.start - self.length).max(1) as f64
    }
}

/// Finds the repetition of the allocations of one size at one place, if most of them take part.
///
/// Two allocations are the same if stack and size are. The lengths tried are the commonest distances
/// between an allocation and the same one before, each distance weighted with itself, so that what
/// comes once a round counts as much as what comes in each of its many layers. Of those that explain
/// nearly the most the shortest wins. Rounds begin at an allocation that comes once in each; of such
/// that with the least memory in use before it, since between two steps only what stays is live.
///
/// * A single odd allocation moves nothing: rounds are found by what begins them.
/// * Steps that consist of many equal parts and little else may be taken apart into these.
/// * Cost: O(n log n) for n events; a few dozen bytes an allocation.
pub fn period(history: &MemoryHistory, is_cancelled: &dyn Fn() -> bool) -> Option<Period> {
    let events = &history.events;
    let allocs: Vec<u32> =
        (0..events.len() as u32).filter(|&event| events.action[event as usize] == MemoryAction::Alloc).collect();
    let symbols = symbols(history, &allocs);
    let n = symbols.len();
    let mut candidates = Vec::new();
    for length in common_distances(&symbols) {
        if is_cancelled() {
            return None;
        }
        candidates.extend(stretch(&symbols, length));
    }
    candidates.retain(|candidate| {
        let covered = candidate.end - candidate.start;
        covered >= MIN_ROUNDS * candidate.length
            && covered as f64 >= MIN_SHARE * n as f64
            && candidate.missed() <= 1.0 - MIN_REPEATED
    });
    let widest = candidates.iter().map(|candidate| candidate.end - candidate.start).max()?;
    candidates.retain(|candidate| (candidate.end - candidate.start) as f64 >= 0.9 * widest as f64);
    let least = candidates.iter().map(Candidate::missed).min_by(f64::total_cmp)?;
    candidates.retain(|candidate| candidate.missed() <= 1.25 * least + 0.002);
    let best = candidates.into_iter().min_by_key(|candidate| candidate.length)?;
    let boundaries = boundaries(history, &allocs, &symbols, &best);
    let share = (best.repeated + best.length) as f64 / n as f64;
    (boundaries.len() > MIN_ROUNDS).then_some(Period {
        allocations: best.length as u32,
        share: share.min(1.0),
        boundaries,
    })
}

/// A number for each distinct pair of stack and size.
fn symbols(history: &MemoryHistory, allocs: &[u32]) -> Vec<u32> {
    let mut known: HashMap<(StackId, u64), u32> = HashMap::new();
    let symbol = |&event: &u32| {
        let event = event as usize;
        let next = known.len() as u32;
        *known.entry((history.events.stack[event], history.events.bytes[event])).or_insert(next)
    };
    allocs.iter().map(symbol).collect()
}

/// The distances between allocations and the same ones before that cover most of the history.
fn common_distances(symbols: &[u32]) -> Vec<usize> {
    let mut last = vec![NEVER; symbols.len()];
    let mut distances = Vec::with_capacity(symbols.len());
    for (i, &symbol) in symbols.iter().enumerate() {
        let before = std::mem::replace(&mut last[symbol as usize], i as u32);
        if before != NEVER {
            distances.push(i - before as usize);
        }
    }
    distances.sort_unstable();
    let mut covers: Vec<(usize, usize)> =
        distances.chunk_by(|a, b| a == b).map(|same| (same[0] * same.len(), same[0])).collect();
    covers.retain(|&(_, length)| length >= MIN_ALLOCATIONS && length * MIN_ROUNDS <= symbols.len());
    covers.sort_unstable_by(|a, b| b.cmp(a));
    covers.into_iter().take(MAX_CANDIDATES).map(|cover| cover.1).collect()
}

/// The stretch in which most allocations come again after `length` others. Cost: O(n).
fn stretch(symbols: &[u32], length: usize) -> Option<Candidate> {
    let (mut best, mut best_score) = (None, 0);
    let (mut start, mut score, mut repeated) = (0, 0_i64, 0);
    for i in 0..symbols.len().checked_sub(length)? {
        if score <= 0 {
            (start, score, repeated) = (i, 0, 0);
        }
        let is_same = symbols[i] == symbols[i + length];
        score += if is_same { 1 } else { -MISMATCH };
        repeated += usize::from(is_same);
        if score > best_score {
            best_score = score;
            best = Some(Candidate { length, start, end: i + 1 + length, repeated });
        }
    }
    best
}

/// How one symbol comes in the stretch.
#[derive(Clone, Default)]
struct Occurrences {
    count: usize,
    last: usize,
    /// Distances that are about one round.
    rounds: usize,
    /// Sum of the bytes in use before each.
    in_use: u128,
}

/// The states before the allocation that best begins a round.
fn boundaries(history: &MemoryHistory, allocs: &[u32], symbols: &[u32], best: &Candidate) -> Vec<u32> {
    let mut all = vec![Occurrences::default(); symbols.len()];
    let tolerance = best.length / 10;
    for i in best.start..best.end {
        let of = &mut all[symbols[i] as usize];
        of.rounds += usize::from(of.count > 0 && (i - of.last).abs_diff(best.length) <= tolerance);
        of.count += 1;
        of.last = i;
        // State `event` is the one before the event.
        of.in_use += u128::from(history.curves.allocated[allocs[i] as usize]);
    }
    let is_once = |of: &Occurrences| of.count > MIN_ROUNDS && of.rounds * 10 >= (of.count - 1) * 9;
    let full = (best.end - best.start) / best.length;
    // One that begins late would leave rounds out.
    let is_throughout = |of: &Occurrences| is_once(of) && of.count + 1 >= full;
    let mean = |symbol: usize| all[symbol].in_use / all[symbol].count.max(1) as u128;
    let first = symbols[best.start..best.end].iter().map(|&symbol| symbol as usize);
    let chosen = first.filter(|&symbol| is_throughout(&all[symbol])).min_by_key(|&symbol| mean(symbol));
    let stretch = best.start..best.end;
    match chosen {
        Some(chosen) => stretch.filter(|&i| symbols[i] as usize == chosen).map(|i| allocs[i]).collect(),
        None => stretch.step_by(best.length).map(|i| allocs[i]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::Trace;

    fn find(trace: &Trace) -> Option<Period> {
        period(history(trace), &|| false)
    }

    /// Allocates and frees one block of this size at this place.
    fn touch(script: &mut Script, place: &str, bytes: u64) {
        let stack = script.stack(&[place, "main (train.py:1)"]);
        script.alloc(0x10_0000, bytes, stack);
        script.free(0x10_0000, bytes);
    }

    /// Setup, then steps of a batch, layers forward and backward, and a loss; `odd` may add to a step.
    fn training(steps: u64, layers: u64, odd: impl Fn(&mut Script, u64)) -> Trace {
        let mut script = Script::default();
        for parameter in 0..37 {
            let stack = script.stack(&["init (model.py:1)"]);
            script.alloc(0x100_0000 + parameter * 0x1000, 512 * (1 + parameter), stack);
        }
        for step in 0..steps {
            touch(&mut script, "batch (data.py:1)", 4096);
            for _ in 0..layers {
                for place in ["linear (model.py:3)", "relu (model.py:4)", "norm (model.py:5)"] {
                    touch(&mut script, place, 2048);
                }
            }
            touch(&mut script, "loss (train.py:9)", 512);
            odd(&mut script, step);
            for _ in 0..layers {
                for place in ["linear backward", "relu backward"] {
                    touch(&mut script, place, 2048);
                }
            }
        }
        script.finish()
    }

    #[test]
    fn steps_are_found_and_layers_are_not_taken_for_them() {
        let trace = training(10, 12, |_, _| {});
        let period = find(&trace).unwrap();
        assert_eq!(period.allocations, 2 + 12 * 5);
        assert_eq!(period.boundaries.len(), 10);
        // Two events an allocation; the first step begins after the setup.
        let expected: Vec<u32> = (0..10).map(|step| 37 + step * 2 * 62).collect();
        assert_eq!(period.boundaries, expected);
        assert!(period.share > 0.9, "{period:?}");
    }

    #[test]
    fn an_odd_allocation_moves_no_boundary() {
        let trace = training(10, 12, |script, step| {
            if step == 4 || step == 7 {
                touch(script, "log (train.py:20)", 1024);
            }
        });
        let period = find(&trace).unwrap();
        let extra = |step: u32| 2 * (u32::from(step > 4) + u32::from(step > 7));
        let expected: Vec<u32> = (0..10).map(|step| 37 + step * 2 * 62 + extra(step)).collect();
        assert_eq!((period.allocations, period.boundaries), (62, expected));
    }

    #[test]
    fn many_equal_layers_are_no_steps() {
        // Inference alone: three quarters of an hour of layers between two batches.
        let trace = training(6, 100, |_, _| {});
        assert_eq!(find(&trace).unwrap().allocations, 2 + 100 * 5);
    }

    #[test]
    fn what_does_not_repeat_has_no_period() {
        let mut script = Script::default();
        // Sizes by a linear congruence: each occurs, in no order that repeats.
        let mut seed = 12_345_u64;
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            touch(&mut script, "f (x.py:1)", 512 * (1 + (seed >> 33) % 50));
        }
        assert_eq!(find(&script.finish()), None);
        assert_eq!(find(&training(2, 12, |_, _| {})), None, "two rounds are not enough");
        assert_eq!(find(&Script::default().finish()), None);
        let trace = training(10, 12, |_, _| {});
        assert_eq!(period(history(&trace), &|| true), None);
    }
}
