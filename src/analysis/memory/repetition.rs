//! Steps inferred from the periodic repetition of allocations.

use hashbrown::{HashMap, HashSet};

use super::phase::aligned;
use super::trend::trend;
use crate::analysis::frame::Frame;
use crate::analysis::steps::{Period, periods, regularity};
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
    /// Share of rounds with nearly the allocations of one of the two before.
    pub regularity: f64,
    /// Whether they are known not to be layers: rounds have what a layer does not, or layers in them, or leave live
    /// memory nearly as they found it.
    pub is_certain: bool,
}

/// Finds the period of the allocations that can be that of steps: by stacks, or if there is none by pairs of stack and
/// size. The shortest one whose rounds show a whole step counts, else the one that explains most. Allocations without a
/// stack are identified by size. `None` if most allocations do not repeat, or once cancelled.
///
/// Rounds begin where little memory is in use, see [`aligned`].
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
        let found = periods(&symbols, is_cancelled);
        let mut by_length: Vec<usize> = (0..found.len()).collect();
        by_length.sort_by_key(|&i| found[i].length);
        // By place in the order of preference.
        let mut fit: Vec<(usize, Repetition)> = Vec::new();
        let mut has_inner = false;
        for i in by_length {
            let Period { length, share, starts } = &found[i];
            let starts = &aligned(&symbols, starts, *length, &in_use);
            // State `event` is the state before the event.
            let boundaries: Vec<u32> = starts.iter().map(|&item| allocs[item]).collect();
            let rest = symbols.len() - starts[starts.len() - 1];
            if starts.len() - 1 + usize::from(rest >= *length) < MIN_ROUNDS {
                continue;
            }
            let is_whole = evidence.is_whole(&boundaries);
            let is_layer = is_falling(history, &boundaries)
                || !returns_to_level(history, &boundaries)
                || dips(history, &boundaries)
                || !has_inner && is_in_forward(trace, &evidence.common_callers(&boundaries))
                || !is_whole && !ends_in_round(&symbols, starts, *length);
            let is_certain = is_whole || has_inner || is_level(history, &boundaries);
            has_inner = true;
            if !is_layer {
                let regularity = regularity(&symbols, starts, 2);
                let found = Repetition { length: *length, share: *share, boundaries, regularity, is_certain };
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

/// Whether what follows the start of the last round is at most hardly more than a round, or than the one before, of
/// items that the rounds before have as well.
fn ends_in_round(symbols: &[u32], starts: &[usize], length: usize) -> bool {
    let (first, last) = (starts[0], starts[starts.len() - 1]);
    let known: HashSet<u32> = symbols[first..last].iter().copied().collect();
    let length = length.max(last - starts[starts.len() - 2]);
    symbols.len() - last <= length + length / 4 && symbols[last..].iter().all(|symbol| known.contains(symbol))
}

/// Frames of what a whole step has and a layer has not.
struct Evidence<'a> {
    trace: &'a Trace,
    history: &'a MemoryHistory,
    /// Whether a frame is of a Python function; and if it is of a part of a step, the number of its function.
    frames: HashMap<StringId, (bool, Option<u32>)>,
}

impl<'a> Evidence<'a> {
    /// Cost: O(length of distinct frames).
    fn of(trace: &'a Trace, history: &'a MemoryHistory) -> Self {
        let (mut frames, mut functions) = (HashMap::new(), HashMap::new());
        let mut seen = HashSet::new();
        for &stack in history.events.stack.iter().filter(|&&stack| seen.insert(stack)) {
            for id in trace.stacks.frames(stack) {
                frames.entry(id).or_insert_with(|| {
                    let frame = Frame::of(trace.strings.get(id));
                    let next = functions.len() as u32;
                    let of_step = is_of_step(frame)
                        .then(|| *functions.entry((frame.file.to_owned(), frame.function.to_owned())).or_insert(next));
                    (frame.is_python(), of_step)
                });
            }
        }
        Self { trace, history, frames }
    }

    fn allocs(&self, pair: &[u32]) -> impl Iterator<Item = StackId> {
        let events = &self.history.events;
        let range = pair[0] as usize..pair[pair.len() - 1] as usize;
        range.filter(|&event| events.action[event] == MemoryAction::Alloc).map(|event| events.stack[event])
    }

    /// The Python frames that all allocations of the rounds share, from the outermost. C++ frames between them vary.
    fn common_callers(&self, boundaries: &[u32]) -> Vec<StringId> {
        let mut stacks: Vec<StackId> = self.allocs(boundaries).collect();
        stacks.sort_unstable();
        stacks.dedup();
        let mut common: Option<Vec<StringId>> = None;
        for stack in stacks {
            let is_python = |frame: &StringId| self.frames[frame].0;
            let mut frames: Vec<StringId> = self.trace.stacks.frames(stack).filter(is_python).collect();
            frames.reverse();
            match &mut common {
                Some(common) => common.truncate(common.iter().zip(&frames).take_while(|(a, b)| a == b).count()),
                None => common = Some(frames),
            }
            if common.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        common.unwrap_or_default()
    }

    /// Whether most rounds have such allocations and others: all of a backward pass is in `backward`, also its layers.
    /// A function that calls all of them, such as `train_step`, says nothing.
    fn is_whole(&self, boundaries: &[u32]) -> bool {
        let mut known: HashMap<StackId, Vec<u32>> = HashMap::new();
        let functions = |stack: StackId| self.trace.stacks.frames(stack).filter_map(|frame| self.frames[&frame].1);
        for stack in self.allocs(boundaries) {
            known.entry(stack).or_insert_with(|| functions(stack).collect());
        }
        let first = known.values().next().cloned().unwrap_or_default();
        let is_in_all = |function: &u32| known.values().all(|functions| functions.contains(function));
        let callers: Vec<u32> = first.into_iter().filter(is_in_all).collect();
        let is_marked = |stack: &StackId| known[stack].iter().any(|function| !callers.contains(function));
        let has_both = |pair: &&[u32]| {
            let n = self.allocs(pair).count();
            let marked = self.allocs(pair).filter(is_marked).count();
            marked > 0 && marked < n
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

/// Whether one of the callers of all allocations of the rounds is a line in a model's `forward`.
fn is_in_forward(trace: &Trace, callers: &[StringId]) -> bool {
    // Wrappers that distribute a batch over devices only forward the call.
    let is_forward = |frame: Frame<'_>| {
        let is_wrapper = frame.file.replace('\\', "/").contains("torch/nn/parallel/");
        frame.function == "forward" && !is_wrapper
    };
    callers.iter().any(|&frame| is_forward(Frame::of(trace.strings.get(frame))))
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

    /// Steps of `train_step` that make the state of an optimizer in the first, evaluate every `evaluation` steps, and
    /// keep `pieces` blocks each from step `from` on.
    fn loops(steps: u64, evaluation: u64, from: u64, pieces: u64) -> Trace {
        let mut script = Script::default();
        let at = |script: &mut Script, place: &str, line: u32| {
            script.stack(&[place, &format!("train_step (train.py:{line})"), "main (train.py:90)"])
        };
        let [forward, loss, backward, state, kept, other] = [
            ("forward (model.py:5)", 70),
            ("mse (model.py:9)", 71),
            ("backward (tensor.py:5)", 73),
            ("_init_group (adamw.py:14)", 74),
            ("append (log.py:3)", 75),
            ("forward (model.py:5)", 80),
        ]
        .map(|(place, line)| at(&mut script, place, line));
        for step in 0..steps {
            for i in 0..12 {
                script.alloc(0x100_0000 * (1 + i), 4 << 20, forward);
            }
            script.alloc(0x10_0000, 512, loss);
            for i in (0..12).rev() {
                script.alloc(0x1_0000_0000 + 0x100_0000 * i, 2 << 20, backward);
                script.free(0x100_0000 * (1 + i), 4 << 20);
            }
            for i in (0..12).filter(|_| step == 0) {
                script.alloc(0x2_0000_0000 + 0x100_0000 * i, 2 << 20, state);
            }
            for i in 0..12 {
                script.free(0x1_0000_0000 + 0x100_0000 * i, 2 << 20);
            }
            script.free(0x10_0000, 512);
            for piece in (0..pieces).filter(|_| step >= from) {
                script.alloc(0x3_0000_0000 + 0x10_0000 * (step * pieces + piece), 1 << 16, kept);
            }
            for _ in (0..40).filter(|_| step % evaluation == evaluation - 1) {
                script.alloc(0x4_0000_0000, 4 << 20, other);
                script.free(0x4_0000_0000, 4 << 20);
            }
        }
        script.finish()
    }

    #[test]
    fn steps_with_an_optimizer_late_leaks_and_evaluations_are_all_found() {
        for (steps, evaluation, from, pieces) in [(20, 99, 99, 0), (60, 99, 20, 1), (60, 99, 20, 48), (40, 8, 10, 2)] {
            let trace = loops(steps, evaluation, from, pieces);
            let found = find(&trace).unwrap();
            // Each begins with the first activation, where only what stays is in use.
            assert_eq!((found.boundaries.len() as u64, found.boundaries[0]), (steps, 0), "{steps} {from} {pieces}");
            let live = &history(&trace).curves.active;
            let kept =
                |step: u64| if step == 0 { 0 } else { (24 << 20) + step.saturating_sub(from) * pieces * (1 << 16) };
            let levels = found.boundaries.iter().map(|&state| live[state as usize]);
            assert!(levels.eq((0..steps).map(kept)), "{steps} {from} {pieces}");
            assert!(found.is_certain && found.regularity >= 0.8, "{found:?}");
        }
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
