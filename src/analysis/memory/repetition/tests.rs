//! Repetitions of generated programs.

use super::*;
use crate::analysis::memory::fixture::{Script, history};
use crate::model::Trace;

fn find(trace: &Trace) -> Option<Repetition> {
    repetition(trace, history(trace), &|| false).ok()
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
    // Two events an allocation; the first step begins after the setup, and the last ends with the recording.
    let expected: Vec<u32> = (0..=10).map(|step| 37 + step * 2 * 62).collect();
    assert_eq!(found.boundaries, expected);
    // Of which the round before tells: all but the setup and the last round.
    assert_eq!(found.share, f64::from(9 * 62) / f64::from(37 + 10 * 62));
}

#[test]
fn the_last_round_is_a_step_only_if_it_is_whole() {
    let places = ["batch (d.py:1)", "up (m.py:1)", "down (m.py:2)", "loss (m.py:3)", "step (o.py:1)"];
    // * `cut`: events that are missing at the end.
    let n_steps = |cut: usize, more: u64| {
        let mut script = Script::default();
        for touched in (0..8 * places.len()).rev() {
            let place = places[places.len() - 1 - touched % places.len()];
            match (touched, cut) {
                (0, 1) => {
                    let stack = script.stack(&[place, "main (train.py:1)"]);
                    script.alloc(0x10_0000, 512, stack);
                }
                (0, 2) => {}
                _ => touch(&mut script, place, 512),
            }
        }
        for k in 0..more {
            let stack = script.stack(&["save (train.py:99)"]);
            script.alloc((1 + k) << 40, 512, stack);
        }
        find(&script.finish()).unwrap().boundaries.len() - 1
    };
    assert_eq!(n_steps(0, 0), 8);
    assert_eq!(n_steps(1, 0), 7, "the last block was not freed");
    assert_eq!(n_steps(2, 0), 7, "an allocation is missing");
    assert_eq!(n_steps(0, 1), 7, "something else follows");
}

#[test]
fn long_steps_are_found_in_a_long_recording() {
    let found = find(&training(300, 400, |_, _| {})).unwrap();
    assert_eq!((found.length, found.is_certain), (2 + 400 * 5, true));
    assert!(found.boundaries.iter().copied().eq((0..=300).map(|step| 37 + step * 2 * 2002)));
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
    let expected: Vec<u32> = (0..=10).map(|step| 37 + step * 2 * 62 + extra(step)).collect();
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
    let trace = pass("forward (model.py:52)");
    let lacking = repetition(&trace, history(&trace), &|| false).unwrap_err();
    assert!(matches!(lacking, NoSteps::Layers { length: 5, .. }), "{lacking:?}");
    assert_eq!(find(&pass("generate (model.py:52)")).unwrap().boundaries.len(), 25);
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
        assert_eq!((found.length, found.boundaries.len(), found.is_certain), (2 + 80 * 5, 31, true));
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
        // Each begins with the first activation, where only what stays is in use. The last one counts if it has what the
        // one before has.
        let whole = if steps % evaluation == 0 { steps - 1 } else { steps };
        assert_eq!((found.boundaries.len() as u64, found.boundaries[0]), (whole + 1, 0), "{steps} {from} {pieces}");
        let live = &history(&trace).curves.active;
        let kept = |step: u64| if step == 0 { 0 } else { (24 << 20) + step.saturating_sub(from) * pieces * (1 << 16) };
        let levels = found.boundaries.iter().map(|&state| live[state as usize]);
        assert!(levels.eq((0..=whole).map(kept)), "{steps} {from} {pieces}");
        assert!(found.is_certain && found.regularity >= 0.8, "{found:?}");
    }
}

#[test]
fn steps_may_be_of_two_allocations_where_nothing_longer_repeats() {
    let mut script = Script::default();
    for block in 0..10 {
        let stack = script.stack(&["load (weights.py:12)"]);
        script.alloc((1 + block) << 30, 1 << 20, stack);
    }
    for _ in 0..40 {
        touch(&mut script, "op (loop.py:50)", 64 << 20);
        touch(&mut script, "log (loop.py:70)", 2 << 20);
    }
    let found = find(&script.finish()).unwrap();
    assert_eq!((found.length, found.boundaries.len() - 1, found.is_certain), (2, 40, true));
    assert_eq!((found.boundaries[0], found.boundaries[40]), (10, 10 + 160));
}

#[test]
fn sizes_may_vary_between_steps() {
    let mut script = Script::default();
    for step in 0..12 {
        for place in ["batch (data.py:1)", "forward (m.py:1)", "loss (m.py:2)", "backward (m.py:3)", "step (o.py:1)"] {
            touch(&mut script, place, 512 * (1 + step * step));
        }
    }
    let found = find(&script.finish()).unwrap();
    assert_eq!((found.length, found.boundaries.len(), found.share), (5, 13, 55.0 / 60.0));
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
    assert_eq!(repetition(&trace, history(&trace), &|| true), Err(NoSteps::Cancelled));
}

#[test]
fn too_few_steps_of_an_optimizer_are_told_rather_than_what_repeats_in_them() {
    // Three steps, in each of which parameters are alike.
    let lacking = |n: u64| {
        let mut script = Script::default();
        let mut addr = 0;
        for step in 0..n {
            for (frame, count) in [
                ("_call_impl (/x/torch/nn/modules/module.py:9)", 30),
                ("_engine_run_backward (/x/torch/autograd/graph.py:9)", 40),
                ("_multi_tensor_adam (/x/torch/optim/adam.py:9)", 50),
            ] {
                for layer in 0..count {
                    let place = format!("op{} (x.py:{})", layer % 5, step / 7);
                    let stack = script.stack(&[&place, frame, "main (train.py:1)"]);
                    addr += 0x1000;
                    script.alloc(addr, 512, stack);
                }
            }
        }
        let trace = script.finish();
        repetition(&trace, history(&trace), &|| false).err()
    };
    assert_eq!(lacking(1), Some(NoSteps::FewUpdates(1)));
    assert_eq!(lacking(3), Some(NoSteps::FewUpdates(3)));
    assert_eq!(
        NoSteps::FewUpdates(3).reason(),
        "the stacks show that an optimizer ran 3 times, and 4 steps are needed"
    );
}
