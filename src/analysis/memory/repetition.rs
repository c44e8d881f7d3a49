//! Steps inferred from the periodic repetition of allocations.

use hashbrown::HashMap;

use super::trend::trend;
use crate::analysis::frame::Frame;
use crate::analysis::steps::{Period, period};
use crate::model::memory::MemoryAction;
use crate::model::{MemoryHistory, StackId, StringId, Trace};

/// Finds the period of the sequence of allocation stacks; if there is none, that of (stack, size) pairs.
/// Allocations without a stack are identified by size. Returns the period and the states at which its
/// rounds begin; `None` if most allocations do not repeat, or once cancelled.
///
/// Rounds begin where little memory is in use: between two steps only persistent memory is live.
///
/// The layers of a model repeat as steps do. A repetition is rejected if all of it comes from one line of
/// a model's `forward`, as in a recording of a single forward pass, or if live memory falls from round to
/// round, as in a single backward pass, or rises by most of what a round takes, as where activations are kept.
///
/// * Events after the start of the last round belong to no round, since its end is unknown.
/// * Cost: O(n log n) for n events; a few dozen bytes per allocation.
pub fn repetition(
    trace: &Trace,
    history: &MemoryHistory,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<(Period, Vec<u32>)> {
    let events = &history.events;
    let allocs: Vec<u32> =
        (0..events.len() as u32).filter(|&event| events.action[event as usize] == MemoryAction::Alloc).collect();
    let in_use = |item: usize| history.curves.allocated[allocs[item] as usize] as i64;
    let by = |has_size| period(&symbols(history, &allocs, has_size), &in_use, is_cancelled);
    let found = by(false).or_else(|| by(true))?;
    // State `event` is the state before the event.
    let boundaries: Vec<u32> = found.starts.iter().map(|&item| allocs[item]).collect();
    let is_of_layers = is_in_forward(trace, history, &boundaries)
        || is_falling(history, &boundaries)
        || !returns_to_level(history, &boundaries);
    (!is_of_layers).then_some((found, boundaries))
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
    let curves = &history.curves;
    let is_level = |pair: &&[u32]| {
        let [start, end] = [pair[0], pair[1]].map(|state| curves.active[state as usize]);
        let peak = curves.active[curves.peak(pair[0]..pair[1] + 1) as usize];
        2 * start.abs_diff(end) <= peak - start.min(end)
    };
    2 * boundaries.windows(2).filter(is_level).count() >= boundaries.len() - 1
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

    fn find(trace: &Trace) -> Option<(Period, Vec<u32>)> {
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
        let (period, boundaries) = find(&trace).unwrap();
        assert_eq!(period.length, 2 + 12 * 5);
        // Two events an allocation; the first step begins after the setup.
        let expected: Vec<u32> = (0..10).map(|step| 37 + step * 2 * 62).collect();
        assert_eq!(boundaries, expected);
        // All but the setup and the last round, whose end is unknown.
        assert_eq!(period.share, f64::from(9 * 62) / f64::from(37 + 10 * 62));
    }

    #[test]
    fn occasional_allocations_do_not_move_boundaries() {
        let trace = training(10, 12, |script, step| {
            if step == 4 || step == 7 {
                touch(script, "log (train.py:20)", 1024);
            }
        });
        let (period, boundaries) = find(&trace).unwrap();
        let extra = |step: u32| 2 * (u32::from(step > 4) + u32::from(step > 7));
        let expected: Vec<u32> = (0..10).map(|step| 37 + step * 2 * 62 + extra(step)).collect();
        assert_eq!((period.length, boundaries), (62, expected));
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
        assert_eq!(find(&script.finish()).unwrap().0.length, 2 + 60 * 6);
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
        assert_eq!(find(&pass("generate (model.py:52)")).unwrap().1.len(), 24);
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
        let (period, boundaries) = find(&script.finish()).unwrap();
        assert_eq!((period.length, boundaries.len(), period.share), (5, 12, 55.0 / 60.0));
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
