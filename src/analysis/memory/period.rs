//! Do the same allocations come again and again?

use hashbrown::HashMap;

use super::signature::Frame;
use super::trend::trend;
use crate::model::memory::MemoryAction;
use crate::model::{MemoryHistory, StackId, StringId, Trace};

/// A repetition that most of the allocations take part in.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// Allocations of one round: the median.
    pub allocations: u32,
    /// Share of all allocations that were also in the round before, or are the first round.
    pub share: f64,
    /// Where rounds begin and end, as states, ascending.
    pub boundaries: Vec<u32>,
}

/// Rounds that must follow each other.
const MIN_ROUNDS: usize = 3;
/// At least so many allocations make a round: fewer are a loop inside something.
const MIN_ALLOCATIONS: usize = 4;
/// At least so large a share of all allocations must lie in the rounds, and of these be in the round
/// before as well.
const MIN_SHARE: f64 = 0.5;
const MIN_REPEATED: f64 = 0.85;
/// What begins a round must come after about as many others as most times in this share of rounds.
const MIN_EVEN: f64 = 0.8;
/// A shorter round wins over a longer one that explains no more than this share of allocations more.
const TOLERANCE: f64 = 0.003;
/// How many lengths are tried.
const MAX_LENGTHS: usize = 24;

/// What may begin a round: an allocation that comes again and again at about the same distance.
struct Anchor {
    symbol: u32,
    /// The median distance, in allocations.
    length: usize,
    /// From its first to its last, in allocations.
    span: usize,
    count: usize,
    /// Mean of the bytes in use before it.
    in_use: i64,
    /// The same over the later half of its places less that over the earlier.
    rise: i64,
}

/// Finds the repetition of the allocations at one place, if most of them take part; else that of those
/// of one size at one place. Where no stack is known the size is all there is.
///
/// Rounds begin at an allocation that comes at an even distance. For the commonest distances, each
/// weighted with what it covers, that allocation is taken before which memory rises least over the rounds,
/// or hardly more, and of such that with the least memory in use: between two steps only what stays is
/// live. A length explains an allocation if the round before has the same, wherever in it: so an odd
/// allocation now and then moves nothing. Of the lengths that explain nearly the most the shortest wins.
///
/// The layers of a model repeat as steps do. A repetition is none of steps if all of it comes from one
/// line of a model's `forward`, as where a recording holds a single forward pass; or if live memory falls
/// from round to round, as it does in a single backward pass.
///
/// * What follows the last beginning of a round belongs to none: nothing says whether it is whole.
/// * Cost: O(n log n) for n events; a few dozen bytes an allocation.
pub fn period(trace: &Trace, history: &MemoryHistory, is_cancelled: &dyn Fn() -> bool) -> Option<Period> {
    let events = &history.events;
    let allocs: Vec<u32> =
        (0..events.len() as u32).filter(|&event| events.action[event as usize] == MemoryAction::Alloc).collect();
    let by = |has_size| {
        let symbols = symbols(history, &allocs, has_size);
        of_symbols(history, &allocs, &symbols, is_cancelled)
    };
    let found = by(false).or_else(|| by(true))?;
    let is_of_layers = is_in_forward(trace, history, &found) || is_falling(history, &found);
    (!is_of_layers).then_some(found)
}

/// Whether one line of a model's `forward` leads to all allocations of the rounds. Only frames of Python
/// count: those of C++ between them come and go.
fn is_in_forward(trace: &Trace, history: &MemoryHistory, found: &Period) -> bool {
    let events = &history.events;
    let rounds = found.boundaries[0] as usize..found.boundaries[found.boundaries.len() - 1] as usize;
    let in_rounds = rounds.filter(|&event| events.action[event] == MemoryAction::Alloc);
    let mut stacks: Vec<StackId> = in_rounds.map(|event| events.stack[event]).collect();
    stacks.sort_unstable();
    stacks.dedup();
    let mut known: HashMap<StringId, bool> = HashMap::new();
    let mut is_python = |frame| *known.entry(frame).or_insert_with(|| Frame::of(trace.strings.get(frame)).is_python());
    let mut common: Option<Vec<StringId>> = None;
    for stack in stacks {
        let mut frames: Vec<StringId> = trace.stacks.frames(stack).filter(|&frame| is_python(frame)).collect();
        frames.reverse();
        match &mut common {
            Some(common) => common.truncate(common.iter().zip(&frames).take_while(|(a, b)| a == b).count()),
            None => common = Some(frames),
        }
        if common.as_ref().is_some_and(Vec::is_empty) {
            return false;
        }
    }
    // What spreads a batch over devices only passes it on.
    let is_forward = |frame: Frame<'_>| {
        let is_wrapper = frame.file.replace('\\', "/").contains("torch/nn/parallel/");
        frame.function == "forward" && !is_wrapper
    };
    common.unwrap_or_default().into_iter().any(|frame| is_forward(Frame::of(trace.strings.get(frame))))
}

/// Whether live memory falls from round to round.
fn is_falling(history: &MemoryHistory, found: &Period) -> bool {
    let live = found.boundaries.iter().map(|&state| history.curves.active[state as usize] as i64);
    trend(&live.collect::<Vec<_>>()).tau <= -2.0 / 3.0
}

fn of_symbols(
    history: &MemoryHistory,
    allocs: &[u32],
    symbols: &[u32],
    is_cancelled: &dyn Fn() -> bool,
) -> Option<Period> {
    let mut found: Vec<(f64, usize, Vec<usize>, Anchor)> = Vec::new();
    for anchor in anchors(history, allocs, symbols) {
        if is_cancelled() {
            return None;
        }
        let starts: Vec<usize> = (0..symbols.len()).filter(|&i| symbols[i] == anchor.symbol).collect();
        let (explained, repeated) = explained(symbols, &starts);
        if repeated >= MIN_REPEATED {
            found.push((repeated, explained, starts, anchor));
        }
    }
    let most = found.iter().map(|candidate| candidate.0).max_by(f64::total_cmp)?;
    found.retain(|candidate| candidate.0 >= most - TOLERANCE);
    let (_, explained, starts, anchor) = found.into_iter().min_by_key(|candidate| candidate.3.length)?;
    Some(Period {
        allocations: anchor.length as u32,
        share: explained as f64 / symbols.len() as f64,
        // State `event` is the one before the event.
        boundaries: starts.into_iter().map(|i| allocs[i]).collect(),
    })
}

/// A number for each distinct stack, or for each distinct pair of stack and size.
fn symbols(history: &MemoryHistory, allocs: &[u32], has_size: bool) -> Vec<u32> {
    let mut known: HashMap<(StackId, u64), u32> = HashMap::new();
    let symbol = |&event: &u32| {
        let event = event as usize;
        let next = known.len() as u32;
        let stack = history.events.stack[event];
        let bytes = if has_size || stack == StackId::default() { history.events.bytes[event] } else { 0 };
        *known.entry((stack, bytes)).or_insert(next)
    };
    allocs.iter().map(symbol).collect()
}

/// For each of the commonest distances what best begins a round of that length.
fn anchors(history: &MemoryHistory, allocs: &[u32], symbols: &[u32]) -> Vec<Anchor> {
    let mut by_symbol: Vec<u32> = (0..symbols.len() as u32).collect();
    by_symbol.sort_by_key(|&i| symbols[i as usize]);
    let mut all: Vec<Anchor> = Vec::new();
    let mut distances = Vec::new();
    for places in by_symbol.chunk_by(|&a, &b| symbols[a as usize] == symbols[b as usize]) {
        let (first, last) = (places[0] as usize, places[places.len() - 1] as usize);
        distances.clear();
        distances.extend(places.windows(2).map(|pair| (pair[1] - pair[0]) as usize));
        if distances.len() < MIN_ROUNDS || ((last - first) as f64) < MIN_SHARE * symbols.len() as f64 {
            continue;
        }
        let middle = distances.len() / 2;
        let length = *distances.select_nth_unstable(middle).1;
        let even = distances.iter().filter(|&&distance| distance.abs_diff(length) <= length / 10).count();
        if length < MIN_ALLOCATIONS || (even as f64) < MIN_EVEN * distances.len() as f64 {
            continue;
        }
        let mean = |places: &[u32]| {
            let in_use = places.iter().map(|&i| i128::from(history.curves.allocated[allocs[i as usize] as usize]));
            (in_use.sum::<i128>() / places.len() as i128) as i64
        };
        let (early, late) = places.split_at(places.len() / 2);
        let (in_use, rise) = (mean(places), mean(late) - mean(early));
        all.push(Anchor { symbol: symbols[first], length, span: last - first, count: places.len(), in_use, rise });
    }
    all.sort_by_key(|anchor| anchor.length);
    let mut best: Vec<(usize, Anchor)> = Vec::new();
    let mut rest = all.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut same = vec![first];
        while let Some(next) = rest.next_if(|next| next.length == same[0].length) {
            same.push(next);
        }
        let covered = same.iter().map(|anchor| anchor.span).sum();
        let most = same.iter().map(|anchor| anchor.count).max().unwrap_or_default();
        // One that begins late would leave rounds out.
        same.retain(|anchor| anchor.count + 1 >= most);
        let least = same.iter().map(|anchor| anchor.rise).min().unwrap_or_default();
        same.retain(|anchor| anchor.rise <= least + anchor.in_use / 100);
        // Symbols ascend with where they come first.
        let first = same.into_iter().min_by_key(|anchor| (anchor.in_use, anchor.symbol));
        best.extend(first.map(|anchor| (covered, anchor)));
    }
    best.sort_by_key(|anchor| std::cmp::Reverse(anchor.0));
    best.into_iter().take(MAX_LENGTHS).map(|anchor| anchor.1).collect()
}

/// How many allocations are also in the round before or in the first round, and the share of those
/// after the first round that are. Cost: O(n).
fn explained(symbols: &[u32], starts: &[usize]) -> (usize, f64) {
    // How often each symbol is left in the round before, and in which round that was.
    let mut left = vec![(0_usize, 0_u32); symbols.len()];
    let (mut repeated, mut whole) = (0, 0);
    for (round, pair) in starts.windows(2).enumerate() {
        let mut found = 0;
        for &symbol in &symbols[pair[0]..pair[1]] {
            let (of, count) = &mut left[symbol as usize];
            if round > 0 && *of == round && *count > 0 {
                *count -= 1;
                found += 1;
            }
        }
        if round > 0 {
            let before = pair[0] - starts[round - 1];
            repeated += found;
            whole += before.max(pair[1] - pair[0]);
        }
        for &symbol in &symbols[pair[0]..pair[1]] {
            let of = &mut left[symbol as usize];
            *of = (round + 1, if of.0 == round + 1 { of.1 + 1 } else { 1 });
        }
    }
    let first = starts.get(1).zip(starts.first()).map_or(0, |(end, start)| end - start);
    (first + repeated, repeated as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::Trace;

    fn find(trace: &Trace) -> Option<Period> {
        period(trace, history(trace), &|| false)
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
        // All but the setup, and the last round, of which nothing says where it ends.
        assert_eq!(period.share, f64::from(9 * 62) / f64::from(37 + 10 * 62));
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
        // Inference: little but layers between two batches.
        let mut script = Script::default();
        for _ in 0..8 {
            touch(&mut script, "batch (data.py:1)", 4096);
            for layer in 0..60 * 6 {
                touch(&mut script, &format!("operator{} (model.py:1)", layer % 6), 2048);
            }
            touch(&mut script, "head (model.py:9)", 512);
        }
        assert_eq!(find(&script.finish()).unwrap().allocations, 2 + 60 * 6);
    }

    #[test]
    fn the_layers_of_one_pass_are_no_steps() {
        let pass = |forward: &str| {
            let mut script = Script::default();
            for layer in 0..24 {
                for place in ["norm (m.py:1)", "qkv (m.py:2)", "attend (m.py:3)", "up (m.py:4)", "down (m.py:5)"] {
                    let call = "_call_impl (torch/nn/modules/module.py:9)";
                    let stack = script.stack(&[place, call, forward, "main (x.py:1)"]);
                    script.alloc(0x1000 * (100 * layer + 1), 4096, stack);
                    script.free(0x1000 * (100 * layer + 1), 4096);
                }
            }
            script.finish()
        };
        assert_eq!(find(&pass("forward (model.py:52)")), None);
        assert_eq!(find(&pass("generate (model.py:52)")).unwrap().boundaries.len(), 24);
        assert!(find(&pass("forward (/x/torch/nn/parallel/distributed.py:52)")).is_some());
        // A backward pass has no stack of Python, and frees what the forward pass left.
        let mut script = Script::default();
        for activation in 0..200 {
            script.alloc(0x100_0000 + 0x1000 * activation, 4096, StackId(0));
        }
        for layer in 0..24 {
            for node in 1..8 {
                touch(&mut script, &format!("apply{node} (engine.cpp:0)"), 512);
                script.free(0x100_0000 + 0x1000 * (8 * layer + node), 4096);
            }
        }
        assert_eq!(find(&script.finish()), None);
    }

    #[test]
    fn sizes_may_differ_from_step_to_step() {
        let mut script = Script::default();
        for step in 0..12 {
            for place in
                ["batch (data.py:1)", "forward (m.py:1)", "loss (m.py:2)", "backward (m.py:3)", "step (o.py:1)"]
            {
                touch(&mut script, place, 512 * (1 + step * step));
            }
        }
        let period = find(&script.finish()).unwrap();
        assert_eq!((period.allocations, period.boundaries.len(), period.share), (5, 12, 55.0 / 60.0));
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
        assert_eq!(period(&trace, history(&trace), &|| true), None);
    }
}
