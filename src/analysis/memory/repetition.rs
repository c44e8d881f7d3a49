//! Steps inferred from the periodic repetition of allocations.

use hashbrown::{HashMap, HashSet};

use super::trend::trend;
use crate::analysis::frame::Frame;
use crate::analysis::steps::{Period, periods};
use crate::model::memory::MemoryAction;
use crate::model::{MemoryHistory, StackId, StringId, Trace};

/// Minimum of whole rounds.
const MIN_ROUNDS: usize = 4;
/// Share of what a round raises live memory by: below it a level counts as the same.
const SAME_LEVEL: u64 = 10;
/// The same, up to which memory that rises from round to round is more likely a leak than activations of layers.
const SMALL_RISE: u64 = 20;
/// Minimum share of rounds with what a layer does not have.
const MIN_WHOLE: f64 = 0.8;

/// Rounds of repeating allocations.
#[derive(Clone, Debug, PartialEq)]
pub struct Repetition {
    /// Median number of allocations of a round.
    pub length: usize,
    /// Share of allocations that also occur in the round before, or belong to the first.
    pub share: f64,
    /// The states at which the rounds begin.
    pub boundaries: Vec<u32>,
    /// Whether they are known not to be layers: rounds have what a layer does not, or layers in them, or leave live
    /// memory nearly as they found it.
    pub is_certain: bool,
}

/// Finds the period of the allocations that can be that of steps: by stacks, or if there is none by pairs of stack and
/// size. The shortest one whose rounds show a whole step counts, else the one that explains most. Allocations without a
/// stack are identified by size. `None` if most allocations do not repeat, or once cancelled.
///
/// Rounds begin where little memory is in use: between two steps only persistent memory is live.
///
/// The layers of a model repeat as steps do. Rounds are layers, and a longer period is tried, if
///
/// * all of them come from one line of a model's `forward`, and no shorter period lies in them;
/// * live memory falls from round to round, as in a backward pass, or rises by most of what a round takes, as where
///   activations are kept;
/// * live memory falls below their level now and then: there the pass ends that they are in;
/// * other allocations follow the last, as the head of a model follows its layers. This does not hold against rounds
///   that have an optimizer, a loss, a loader or a backward pass besides other allocations.
///
/// Events after the start of the last round belong to no round, since its end is unknown. Cost: O(n log n) for n
/// events; a few dozen bytes an allocation.
pub fn repetition(trace: &Trace, history: &MemoryHistory, is_cancelled: &dyn Fn() -> bool) -> Option<Repetition> {
    let events = &history.events;
    let allocs: Vec<u32> =
        (0..events.len() as u32).filter(|&event| events.action[event as usize] == MemoryAction::Alloc).collect();
    let in_use = |item: usize| history.curves.allocated[allocs[item] as usize] as i64;
    let evidence = Evidence::of(trace, history);
    let find = |has_size: bool| {
        let symbols = symbols(history, &allocs, has_size);
        let found = periods(&symbols, &in_use, is_cancelled);
        let mut by_length: Vec<usize> = (0..found.len()).collect();
        by_length.sort_by_key(|&i| found[i].length);
        // By place in the order of preference.
        let mut fit: Vec<(usize, Repetition)> = Vec::new();
        let mut has_inner = false;
        for i in by_length {
            let Period { length, share, starts } = &found[i];
            // State `event` is the state before the event.
            let boundaries: Vec<u32> = starts.iter().map(|&item| allocs[item]).collect();
            let rest = symbols.len() - starts[starts.len() - 1];
            if starts.len() - 1 + usize::from(rest >= *length) < MIN_ROUNDS {
                continue;
            }
            let is_whole = evidence.is_whole(history, &boundaries);
            let is_layer = is_falling(history, &boundaries)
                || !returns_to_level(history, &boundaries)
                || dips(history, &boundaries)
                || !has_inner && is_in_forward(trace, history, &boundaries)
                || !is_whole && !ends_in_round(&symbols, starts, *length);
            let is_certain = is_whole || has_inner || is_level(history, &boundaries);
            has_inner = true;
            if !is_layer {
                let found = Repetition { length: *length, share: *share, boundaries, is_certain };
                if is_whole {
                    return Some(found);
                }
                fit.push((i, found));
            }
        }
        fit.into_iter().min_by_key(|&(i, _)| i).map(|(_, found)| found)
    };
    find(false).or_else(|| find(true))
}

/// Whether what follows the start of the last round is at most hardly more than a round, of items that the rounds
/// before have as well.
fn ends_in_round(symbols: &[u32], starts: &[usize], length: usize) -> bool {
    let (first, last) = (starts[0], starts[starts.len() - 1]);
    let known: HashSet<u32> = symbols[first..last].iter().copied().collect();
    symbols.len() - last <= length + length / 4 && symbols[last..].iter().all(|symbol| known.contains(symbol))
}

/// Which stacks are of what a whole step has and a layer has not.
struct Evidence {
    stacks: HashMap<StackId, bool>,
}

impl Evidence {
    fn of(trace: &Trace, history: &MemoryHistory) -> Self {
        let mut known: HashMap<StringId, bool> = HashMap::new();
        let mut is_marked =
            |frame| *known.entry(frame).or_insert_with(|| is_of_step(Frame::of(trace.strings.get(frame))));
        let mut stacks = HashMap::new();
        for &stack in &history.events.stack {
            stacks.entry(stack).or_insert_with(|| trace.stacks.frames(stack).any(&mut is_marked));
        }
        Self { stacks }
    }

    /// Whether most rounds have such allocations and others: all of a backward pass is in `backward`, also its layers.
    fn is_whole(&self, history: &MemoryHistory, boundaries: &[u32]) -> bool {
        let events = &history.events;
        let has_both = |pair: &&[u32]| {
            let allocs = || (pair[0] as usize..pair[1] as usize).filter(|&i| events.action[i] == MemoryAction::Alloc);
            let is_marked = |i: usize| self.stacks.get(&events.stack[i]).copied().unwrap_or_default();
            allocs().any(is_marked) && !allocs().all(is_marked)
        };
        let n = boundaries.windows(2).filter(has_both).count();
        n > 0 && n as f64 >= MIN_WHOLE * (boundaries.len() - 1) as f64
    }
}

/// Whether a frame is of an optimizer, a loss, a loader or a backward pass.
fn is_of_step(frame: Frame<'_>) -> bool {
    let (file, function) = (frame.file.replace('\\', "/"), frame.function.to_ascii_lowercase());
    let is_optimizer =
        function == "step" || function.starts_with("_multi_tensor_") || function.starts_with("_single_tensor_");
    is_optimizer
        || matches!(
            function.as_str(),
            "backward" | "zero_grad" | "_engine_run_backward" | "training_step" | "train_step"
        )
        || function.contains("loss")
        || function.contains("cross_entropy")
        || function.contains("autograd::engine::")
        || file.ends_with("utils/data/dataloader.py")
}

/// Whether all allocations of the rounds share one caller line in a model's `forward`. Only Python frames
/// are compared, since the C++ frames between them vary.
fn is_in_forward(trace: &Trace, history: &MemoryHistory, boundaries: &[u32]) -> bool {
    let events = &history.events;
    let rounds = boundaries[0] as usize..boundaries[boundaries.len() - 1] as usize;
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
    // Wrappers that distribute a batch over devices only forward the call.
    let is_forward = |frame: Frame<'_>| {
        let is_wrapper = frame.file.replace('\\', "/").contains("torch/nn/parallel/");
        frame.function == "forward" && !is_wrapper
    };
    common.unwrap_or_default().into_iter().any(|frame| is_forward(Frame::of(trace.strings.get(frame))))
}

/// Whether live memory falls from round to round.
fn is_falling(history: &MemoryHistory, boundaries: &[u32]) -> bool {
    let live = boundaries.iter().map(|&state| history.curves.active[state as usize] as i64);
    trend(&live.collect::<Vec<_>>()).tau <= -2.0 / 3.0
}

/// Whether most rounds end near the level of live memory at which they began: within half of what they raise it.
fn returns_to_level(history: &MemoryHistory, boundaries: &[u32]) -> bool {
    2 * boundaries.windows(2).filter(|pair| Round::of(history, pair).changes_by_at_most(2)).count()
        >= boundaries.len() - 1
}

/// Whether most rounds end very near the level at which they began.
fn is_level(history: &MemoryHistory, boundaries: &[u32]) -> bool {
    let is_same = |pair: &&[u32]| Round::of(history, pair).changes_by_at_most(SMALL_RISE);
    2 * boundaries.windows(2).filter(is_same).count() >= boundaries.len() - 1
}

/// Whether live memory falls below the level at both ends of some rounds, but not of most: the ends of what the rounds
/// are in. A single such round may be anything.
fn dips(history: &MemoryHistory, boundaries: &[u32]) -> bool {
    let rounds: Vec<Round> = boundaries.windows(2).map(|pair| Round::of(history, pair)).collect();
    let mut rises: Vec<u64> = rounds.iter().map(|round| round.peak - round.lowest).collect();
    rises.sort_unstable();
    let typical = rises[rises.len() / 2];
    let is_dip = |round: &&Round| SAME_LEVEL * (round.start.min(round.end) - round.lowest) > typical;
    let n = rounds.iter().filter(is_dip).count();
    n >= 2 && 2 * n < rounds.len()
}

/// Live bytes of a round.
struct Round {
    start: u64,
    end: u64,
    lowest: u64,
    peak: u64,
}

impl Round {
    /// * `pair`: the states at which it begins and ends. Cost: O(n) for n events in it.
    fn of(history: &MemoryHistory, pair: &[u32]) -> Self {
        let live = &history.curves.active[pair[0] as usize..=pair[1] as usize];
        let (lowest, peak) = live.iter().fold((live[0], live[0]), |(low, high), &at| (low.min(at), high.max(at)));
        Self { start: live[0], end: live[live.len() - 1], lowest, peak }
    }

    /// Whether its ends differ by at most one in `parts` of what it raises live memory by.
    fn changes_by_at_most(&self, parts: u64) -> bool {
        parts * self.start.abs_diff(self.end) <= self.peak - self.start.min(self.end)
    }
}

/// For each allocation, the number of its stack or of its (stack, size) pair.
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

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::Trace;

    fn find(trace: &Trace) -> Option<Repetition> {
        repetition(trace, history(trace), &|| false)
    }

    /// Allocates and frees one block of this size at this place.
    fn touch(script: &mut Script, place: &str, bytes: u64) {
        let stack = script.stack(&[place, "main (train.py:1)"]);
        script.alloc(0x10_0000, bytes, stack);
        script.free(0x10_0000, bytes);
    }

    /// Setup, then steps of a batch, forward and backward layers, and a loss; `odd` may add to a step.
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
    fn steps_are_found_rather_than_layers() {
        let trace = training(10, 12, |_, _| {});
        let found = find(&trace).unwrap();
        assert_eq!((found.length, found.is_certain), (2 + 12 * 5, true));
        // Two events an allocation; the first step begins after the setup.
        let expected: Vec<u32> = (0..10).map(|step| 37 + step * 2 * 62).collect();
        assert_eq!(found.boundaries, expected);
        // All but the setup and the last round, whose end is unknown.
        assert_eq!(found.share, f64::from(9 * 62) / f64::from(37 + 10 * 62));
    }

    #[test]
    fn occasional_allocations_do_not_move_boundaries() {
        let trace = training(10, 12, |script, step| {
            if step == 4 || step == 7 {
                touch(script, "log (train.py:20)", 1024);
            }
        });
        let found = find(&trace).unwrap();
        let extra = |step: u32| 2 * (u32::from(step > 4) + u32::from(step > 7));
        let expected: Vec<u32> = (0..10).map(|step| 37 + step * 2 * 62 + extra(step)).collect();
        assert_eq!((found.length, found.boundaries), (62, expected));
    }

    #[test]
    fn many_equal_layers_are_not_steps() {
        // Inference: almost only layers between two batches.
        let mut script = Script::default();
        for _ in 0..8 {
            touch(&mut script, "batch (data.py:1)", 4096);
            for layer in 0..60 * 6 {
                touch(&mut script, &format!("operator{} (model.py:1)", layer % 6), 2048);
            }
            touch(&mut script, "head (model.py:9)", 512);
        }
        assert_eq!(find(&script.finish()).unwrap().length, 2 + 60 * 6);
    }

    #[test]
    fn layers_of_a_single_pass_are_not_steps() {
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
        // A backward pass has no Python stacks, and frees the activations of the forward pass.
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

    /// A pass through `layers` equal layers whose hidden state is live, called from `main` through `callers`, with or
    /// without call stacks.
    fn pass(script: &mut Script, layers: u64, callers: &[&str], has_stacks: bool) {
        let stack = |script: &mut Script, frames: &[&str]| {
            let frames: Vec<&str> = frames.iter().chain(callers).copied().chain(["main (x.py:5)"]).collect();
            if has_stacks { script.stack(&frames) } else { StackId::default() }
        };
        let [embed, head] = ["forward (model.py:18)", "forward (model.py:22)"].map(|frame| stack(script, &[frame]));
        let places = ["norm (m.py:1)", "qkv (m.py:2)", "up (m.py:4)", "down (m.py:5)"];
        let inner: Vec<StackId> = places.iter().map(|place| stack(script, &[place, "forward (model.py:20)"])).collect();
        script.alloc(0x1000, 1 << 20, embed);
        for layer in 0..layers {
            for (i, &place) in (1..).zip(&inner) {
                script.alloc(0x100_0000 * i, i << 20, place);
                script.free(0x100_0000 * i, i << 20);
            }
            script.alloc(0x1000 * (layer + 2), 1 << 20, inner[3]);
            script.free(0x1000 * (layer + 1), 1 << 20);
        }
        script.alloc(0x10, 3 << 18, head);
        script.free(0x1000 * (layers + 1), 1 << 20);
        script.free(0x10, 3 << 18);
    }

    #[test]
    fn passes_of_many_layers_are_steps_and_their_layers_are_not() {
        for (has_stacks, callers) in [(true, [].as_slice()), (false, &[]), (true, &["forward (wrapper.py:44)"])] {
            let mut script = Script::default();
            for _ in 0..30 {
                pass(&mut script, 80, callers, has_stacks);
            }
            let trace = script.finish();
            let found = find(&trace).unwrap();
            assert_eq!((found.length, found.boundaries.len(), found.is_certain), (2 + 80 * 5, 30, true));
            let mut script = Script::default();
            pass(&mut script, 80, callers, has_stacks);
            assert_eq!(find(&script.finish()), None, "one pass");
        }
    }

    #[test]
    fn layers_that_keep_some_memory_are_uncertain_steps_without_evidence() {
        let run = |places: [&str; 2], kept: u64| {
            let mut script = Script::default();
            for round in 0..20 {
                for (i, place) in (1..).zip([places[0], "mul (m.py:2)", "add (m.py:3)", places[1]]) {
                    let stack = script.stack(&[place, "run (x.py:1)"]);
                    script.alloc(0x100_0000 * i, 1 << 20, stack);
                }
                (1..5).for_each(|i| {
                    script.free(0x100_0000 * i, 1 << 20);
                });
                let stack = script.stack(&["keep (m.py:9)", "run (x.py:1)"]);
                script.alloc(0x1_0000_0000 + 0x10_0000 * round, kept, stack);
            }
            find(&script.finish()).unwrap().is_certain
        };
        assert!(!run(["mm (m.py:1)", "norm (m.py:4)"], 1 << 20));
        assert!(run(["mm (m.py:1)", "norm (m.py:4)"], 1 << 16), "hardly rises");
        assert!(run(["mm (m.py:1)", "step (torch/optim/sgd.py:80)"], 1 << 20), "an optimizer");
    }

    #[test]
    fn sizes_may_vary_between_steps() {
        let mut script = Script::default();
        for step in 0..12 {
            for place in
                ["batch (data.py:1)", "forward (m.py:1)", "loss (m.py:2)", "backward (m.py:3)", "step (o.py:1)"]
            {
                touch(&mut script, place, 512 * (1 + step * step));
            }
        }
        let found = find(&script.finish()).unwrap();
        assert_eq!((found.length, found.boundaries.len(), found.share), (5, 12, 55.0 / 60.0));
    }

    #[test]
    fn aperiodic_allocations_have_no_period() {
        let mut script = Script::default();
        // Sizes from a linear congruential generator: all occur, without a repeating order.
        let mut seed = 12_345_u64;
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            touch(&mut script, "f (x.py:1)", 512 * (1 + (seed >> 33) % 50));
        }
        assert_eq!(find(&script.finish()), None);
        assert_eq!(find(&training(2, 12, |_, _| {})), None, "two rounds are not enough");
        assert_eq!(find(&Script::default().finish()), None);
        let trace = training(10, 12, |_, _| {});
        assert_eq!(repetition(&trace, history(&trace), &|| true), None);
    }
}
