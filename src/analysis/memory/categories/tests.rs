//! Categories of a training whose blocks are known.

use super::*;
use crate::analysis::memory::fixture::{Script, history};
use crate::model::memory::MemoryAction::{Alloc, FreeCompleted};

const CALL: &str = "_call_impl (/x/site-packages/torch/nn/modules/module.py:1784)";
const APPLY: &str = r"_apply (C:\x\site-packages\torch\nn\modules\module.py:942)";
const ADAM: &str = "_init_group (/x/site-packages/torch/optim/adam.py:172)";
const LOOP: &str = "epoch (/me/run.py:30)";
const ENGINE: &str = "torch::autograd::Engine::thread_main() (engine.cpp:0)";
const NODE: &str = "torch::autograd::generated::MulBackward0::apply()";
const ACCUMULATE: &str = "torch::autograd::AccumulateGrad::apply()";
const WORKSPACE: &str = "at::cuda::getNewWorkspace()";
const UNCACHED: &str = "at::autocast::clear_cache()";
const AUTOCAST: &str = "__exit__ (/x/site-packages/torch/amp/autocast_mode.py:390)";
const COPIED: &str = "at::native::_to_copy(at::Tensor const&)";

/// Category, frames of the allocation, and of the free if it is freed.
type Planted = (Category, Vec<&'static str>, Option<Vec<&'static str>>);

/// Blocks of 2^k KiB, one of each kind.
fn blocks() -> Vec<Planted> {
    let forward = |place| vec![place, CALL, LOOP];
    vec![
        (Category::Parameter, vec![APPLY, LOOP], None),
        (Category::Other, vec![COPIED, LOOP], Some(vec![LOOP])),
        (Category::Activation, forward("forward (/me/net.py:4)"), Some(vec![NODE, ENGINE])),
        (Category::Activation, forward("forward (/me/net.py:5)"), None),
        (Category::Other, forward("forward (/me/net.py:6)"), Some(forward("forward (/me/net.py:6)"))),
        (Category::Activation, vec!["loss (/me/run.py:31)", LOOP], Some(vec![NODE, ENGINE])),
        // Without the frames of torch/nn/modules/module.py.
        (Category::Activation, vec!["silu (/me/net.py:7)", "forward (/me/net.py:8)", LOOP], Some(vec![LOOP])),
        (Category::Other, vec![NODE, ENGINE], Some(vec![NODE, ENGINE])),
        (Category::Gradient, vec![ACCUMULATE, ENGINE], Some(vec!["zero_grad (/x/torch/optim/optimizer.py:9)", LOOP])),
        (Category::Gradient, vec![NODE, ENGINE], Some(vec!["zero_grad (/x/torch/optim/optimizer.py:9)", LOOP])),
        // Recomputed in the backward pass.
        (Category::Activation, vec!["forward (/me/net.py:4)", CALL, ENGINE], Some(vec![NODE, ENGINE])),
        (Category::Other, vec![WORKSPACE, NODE, ENGINE], None),
        (Category::Other, vec![WORKSPACE, "forward (/me/net.py:4)", CALL, LOOP], None),
        // Casts of parameters that autocast kept, and one that the backward pass needs.
        (Category::Other, forward("forward (/me/net.py:4)"), Some(vec![UNCACHED, LOOP])),
        (Category::Other, forward("forward (/me/net.py:4)"), Some(vec![AUTOCAST, LOOP])),
        (Category::Activation, forward("cast (/me/net.py:4)"), Some(vec![NODE, ENGINE])),
        (Category::Optimizer, vec![ADAM, LOOP], None),
        (Category::Other, vec![ADAM, LOOP], Some(vec![ADAM, LOOP])),
        (Category::Unknown, vec!["cache (/me/run.py:7)", LOOP], None),
        (Category::Unknown, vec![], None),
    ]
}

#[test]
fn stacks_and_lives_tell_the_category() {
    let mut script = Script::default();
    let all = blocks();
    for (k, (_, frames, _)) in all.iter().enumerate() {
        let stack = script.stack(frames);
        script.event(Alloc, (k as u64) << 30, 1024 << k, stack);
    }
    for (k, (_, _, freed)) in all.iter().enumerate() {
        if let Some(frames) = freed {
            let stack = script.stack(frames);
            script.event(FreeCompleted, (k as u64) << 30, 1024 << k, stack);
        }
    }
    let trace = script.finish();
    let found = categories(&trace, history(&trace), &StackRoles::new(&trace));
    for one in &found {
        let sum = |is_end: bool| -> u64 {
            let own = all.iter().enumerate().filter(|(_, block)| block.0 == one.category);
            own.filter(|(_, block)| !is_end || block.2.is_none()).map(|(k, _)| 1024 << k).sum()
        };
        assert_eq!((one.peak, one.end), (sum(false), sum(true)), "{:?}", one.category);
    }
    assert_eq!(found.iter().map(|one| one.peak).sum::<u64>(), (1 << 30) - 1024);
}

#[test]
fn a_workspace_is_known_by_its_size_where_few_blocks_have_it_and_all_stay() {
    let other = |n: u64, is_freed: bool| {
        let mut script = Script::default();
        let forward = script.stack(&["forward (/me/net.py:4)", CALL, LOOP]);
        for block in 0..n {
            script.alloc(block << 30, CUBLAS_WORKSPACE, forward);
        }
        script.alloc(9 << 30, 512, forward);
        if is_freed {
            script.free(0, CUBLAS_WORKSPACE);
        }
        let trace = script.finish();
        let found = categories(&trace, history(&trace), &StackRoles::new(&trace));
        found.iter().find(|one| one.category == Category::Other).unwrap().end
    };
    assert_eq!((CUBLAS_WORKSPACE, other(2, false)), (8_519_680, 2 * CUBLAS_WORKSPACE));
    assert_eq!([other(2, true), other(3, false)], [0; 2]);
}

#[test]
fn recorded_categories_come_first_and_none_at_all_are_no_answer() {
    let mut script = Script::default();
    let stack = script.stack(&[APPLY, LOOP]);
    let event = script.alloc(0, 512, stack);
    let category = script.builder.strings.intern("OPTIMIZER_STATE");
    script.raw.categories = vec![(event, category)];
    let trace = script.finish();
    let found = categories(&trace, history(&trace), &StackRoles::new(&trace));
    assert!(found.iter().all(|one| (one.end > 0) == (one.category == Category::Optimizer)), "{found:?}");
    let mut script = Script::default();
    script.alloc(0, 512, StackId(0));
    let trace = script.finish();
    assert_eq!(categories(&trace, history(&trace), &StackRoles::new(&trace)), []);
}

#[test]
fn events_without_frames_among_those_of_python_are_the_backward_pass() {
    let mut script = Script::default();
    let forward = script.stack(&["forward (/me/net.py:4)", CALL, LOOP]);
    for block in 0..6 {
        script.alloc(block << 20, 2048, forward);
    }
    script.alloc(7 << 20, 512, StackId(0));
    script.free(0, 2048);
    let trace = script.finish();
    let found = categories(&trace, history(&trace), &StackRoles::new(&trace));
    let of = |category| found.iter().find(|one| one.category == category).unwrap().end;
    assert_eq!((of(Category::Gradient), of(Category::Activation), of(Category::Unknown)), (512, 5 * 2048, 0));
}

#[test]
fn state_from_before_the_recording_is_known_by_the_optimizer_that_frees_it() {
    let mut script = Script::default();
    let frees: [(u64, &[&str], Category); 5] = [
        (1024, &[ADAM, LOOP], Category::Optimizer),
        (2048, &["zero_grad (/x/torch/optim/optimizer.py:9)", LOOP], Category::Unknown),
        // A closure in the step.
        (4096, &["forward (/me/net.py:4)", CALL, ADAM], Category::Unknown),
        (8192, &[NODE, ENGINE, ADAM], Category::Activation),
        (16384, &[LOOP], Category::Unknown),
    ];
    for (bytes, frames, _) in frees {
        let stack = script.stack(frames);
        script.event(FreeCompleted, bytes << 20, bytes, stack);
    }
    // What the history ends with is freed at no known place.
    script.alloc(1 << 50, 512, StackId(0));
    let trace = script.finish();
    let found = categories(&trace, history(&trace), &StackRoles::new(&trace));
    for one in found {
        let planted: u64 = frees.iter().filter(|free| free.2 == one.category).map(|free| free.0).sum();
        assert_eq!(one.peak, planted, "{:?}", one.category);
    }
}
