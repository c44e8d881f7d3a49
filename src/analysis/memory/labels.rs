//! Labels of call stacks: the most informative frame of each.

use hashbrown::HashMap;

use crate::analysis::frame::Frame;
use crate::model::{StackId, StringId, Trace};

/// Parts of the names of frames of the allocator itself.
const ALLOCATOR: [&str; 4] = ["CachingAllocator", "at::detail::", "c10::", "at::empty"];
/// Where operators that only call the allocator are: as the profiler records them, and as C++ frames.
const OPERATORS: [&str; 3] = ["aten::", "at::native::", "at::_ops::"];
/// The beginnings of their names.
const ALLOCATING: [&str; 3] = ["empty", "new_empty", "resize_"];
/// Limit on the frames examined by [`foremost`].
const MAX_FRAMES: usize = 400;

/// How informative a frame is about the origin of an allocation, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrameRank {
    /// A frame of the interpreter or the recorder.
    Noise,
    /// A frame of the allocator.
    Allocator,
    Native,
    /// An operator of PyTorch.
    Operator,
    /// A node of the backward pass.
    Backward,
    Python,
    /// The user's own program.
    User,
}

impl FrameRank {
    /// The rank of a frame, by its text.
    pub fn of(text: &str) -> Self {
        let frame = Frame::of(text);
        match frame {
            _ if frame.is_user() => Self::User,
            _ if frame.is_noise() => Self::Noise,
            _ if frame.is_python() => Self::Python,
            _ if is_backward(frame.function) => Self::Backward,
            _ if only_allocates(frame.function) => Self::Allocator,
            _ if frame.function.contains("at::native::") || frame.function.starts_with("aten::") => Self::Operator,
            _ if ALLOCATOR.iter().any(|part| frame.function.contains(part)) => Self::Allocator,
            _ => Self::Native,
        }
    }
}

/// Whether a function is a node of the backward pass: as the profiler calls it (`AddmmBackward0`,
/// `torch::autograd::AccumulateGrad`), or as a C++ frame (`torch::autograd::AccumulateGrad::apply(...)`).
fn is_backward(name: &str) -> bool {
    let node = name.trim_end_matches(|c: char| c.is_ascii_digit());
    // Not where it is within template arguments.
    let is_whole = |path: &str| path.matches('<').count() == path.matches('>').count();
    let applies = |path: &str| path.contains("torch::autograd::") && path.ends_with("::apply") && is_whole(path);
    node.ends_with("Backward") || node.ends_with("AccumulateGrad") || name.split('(').next().is_some_and(applies)
}

/// Whether a function is an operator that only calls the allocator.
fn only_allocates(name: &str) -> bool {
    let operator = OPERATORS.iter().find_map(|of| name.strip_prefix(of));
    operator.is_some_and(|operator| ALLOCATING.iter().any(|begin| operator.starts_with(begin)))
}

/// The label of each stack of a trace: the innermost frame of the highest rank. Empty for the empty stack.
///
/// Cost: O(stacks + length of distinct frames).
pub fn stack_labels(trace: &Trace) -> Vec<StringId> {
    let stacks = &trace.stacks;
    let mut known = HashMap::new();
    let mut best = vec![(FrameRank::Noise, StringId::EMPTY); stacks.len()];
    for i in 1..stacks.len() {
        let frame = stacks.frame[i];
        let own = *known.entry(frame).or_insert_with(|| FrameRank::of(trace.strings.get(frame)));
        // Callers have smaller ids, so their label is known; of equal ranks the inner frame wins.
        let callers = best[stacks.parent[i].0 as usize];
        best[i] = if own >= callers.0 { (own, frame) } else { callers };
    }
    best.into_iter().map(|(_, frame)| frame).collect()
}

/// The `n` most informative frames, innermost first, with the place of each in the stack: of equal ranks the inner ones.
pub fn foremost(trace: &Trace, stack: StackId, n: usize) -> Vec<(usize, &str)> {
    let frames = trace.stacks.frames(stack).take(MAX_FRAMES).map(|frame| trace.strings.get(frame));
    let ranked = frames.enumerate().map(|(at, frame)| (FrameRank::of(frame), at, frame));
    let mut frames: Vec<(FrameRank, usize, &str)> = ranked.collect();
    frames.sort_by_key(|&(rank, at, _)| (std::cmp::Reverse(rank), at));
    frames.truncate(n);
    frames.sort_by_key(|&(_, at, _)| at);
    frames.into_iter().map(|(_, at, frame)| (at, frame)).collect()
}

/// The frames of a stack, innermost first, without those of the recorder and the allocator in front; all of them if
/// there are no others.
pub fn below_allocator<T: AsRef<str>>(mut frames: Vec<T>) -> Vec<T> {
    frames.drain(..first_above(&frames, FrameRank::Allocator).unwrap_or_default());
    frames
}

/// The first `most` of [`below_allocator`], of a stack that may be long.
pub fn first_below_allocator(trace: &Trace, stack: StackId, most: usize) -> Vec<&str> {
    let frames = || trace.stacks.frames(stack).map(|frame| trace.strings.get(frame));
    let below: Vec<&str> =
        frames().skip_while(|frame| FrameRank::of(frame) <= FrameRank::Allocator).take(most).collect();
    if below.is_empty() { frames().take(most).collect() } else { below }
}

/// How many frames, innermost first, are in front of those that tell where memory was allocated: in front of the first
/// of the program or of a node of the backward pass; else in front of the first that is not of the recorder or the
/// allocator.
pub fn n_in_front<T: AsRef<str>>(frames: &[T]) -> usize {
    let first = first_above(frames, FrameRank::Operator).or_else(|| first_above(frames, FrameRank::Allocator));
    first.unwrap_or_default()
}

fn first_above<T: AsRef<str>>(frames: &[T], rank: FrameRank) -> Option<usize> {
    frames.iter().position(|frame| FrameRank::of(frame.as_ref()) > rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    const LINEAR: &str = "forward (/x/site-packages/torch/nn/modules/linear.py:1)";
    const MALLOC: &str = "c10::cuda::CUDACachingAllocator::malloc(void**) (CUDACachingAllocator.cpp:0)";

    const ACCUMULATE: &str = "torch::autograd::AccumulateGrad::apply()";

    fn with_stacks<const N: usize>(stacks: [&[&str]; N]) -> (Trace, [StackId; N]) {
        let mut builder = TraceBuilder::default();
        let stacks = stacks.map(|frames| {
            frames.iter().fold(StackId(0), |callers, frame| {
                let frame = builder.strings.intern(frame);
                builder.stacks.intern(callers, frame)
            })
        });
        (builder.finish(), stacks)
    }

    #[test]
    fn frames_in_front_of_the_program_are_counted() {
        let exp = "at::native::exp(at::Tensor const&) (Unary.cpp:0)";
        let node = "torch::autograd::generated::ExpBackward0::apply(std::vector<at::Tensor>&&) (Functions.cpp:0)";
        let step = "step (/me/train.py:9)";
        assert_eq!(n_in_front(&["torch::unwind::unwind()", MALLOC, exp, LINEAR, step]), 3);
        assert_eq!(n_in_front(&[MALLOC, exp, node, step]), 2, "a node tells more than who called the engine");
        assert_eq!(n_in_front(&[MALLOC, exp, "main (main.cpp:1)"]), 1, "nothing of Python");
        assert_eq!(n_in_front(&[MALLOC]), 0);
        assert_eq!(n_in_front(&[step]), 0);
    }

    #[test]
    fn a_part_of_a_stack_begins_below_the_allocator_however_deep_that_is() {
        let in_front =
            ["torch::unwind::unwind()", MALLOC, "c10::alloc()", "at::empty::call()", "at::detail::empty_cuda()"];
        let [mm, main] = ["at::native::mm()", "main (train.py:1)"];
        let deep: Vec<&str> = [main, mm].into_iter().chain(in_front.into_iter().rev()).collect();
        let (trace, [deep, alone]) = with_stacks([&deep, &[MALLOC, "torch::unwind::unwind()"]]);
        assert_eq!(first_below_allocator(&trace, deep, 3), [mm, main]);
        assert_eq!(first_below_allocator(&trace, deep, 1), [mm]);
        assert_eq!(first_below_allocator(&trace, alone, 1), ["torch::unwind::unwind()"], "there are no others");
    }

    #[test]
    fn the_most_informative_frame_labels_a_stack() {
        let (trace, stacks) = with_stacks([
            &["main (train.py:1)", "step (/me/train.py:9)", LINEAR, MALLOC, "torch::unwind::unwind()"],
            &[LINEAR, "at::native::mm()", MALLOC],
            &["torch::autograd::generated::MmBackward0::apply()", "at::native::mm()", MALLOC],
            &["other()", MALLOC, "torch::unwind::unwind()"],
            &["train.py(3): main", "torch/nn/functional.py(9): linear", "aten::linear", "aten::empty"],
            &["aten::linear", "aten::addmm", "aten::empty_strided"],
            &["autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0", "aten::mm"],
            &["torch::autograd::generated::DivBackward0::apply()", "torch::autograd::generated::details::div_other()"],
            &[
                ACCUMULATE,
                "void torch::autograd::AccumulateGrad::accumulateGrad<torch::autograd::AccumulateGrad::apply()::{l}>()",
                "torch::autograd::utils::clone_obey_contract()",
                "at::native::new_empty_strided_symint()",
            ],
            &["at::native::zeros()", "at::_ops::empty_strided::call()", "at::native::empty_strided_cuda()"],
            &["<module> (oom.py:8)", "step (/runs/1/python/lacuna_capture.py:188)", MALLOC],
            &[MALLOC, "torch::unwind::unwind()"],
            &[],
        ]);
        let labels = stack_labels(&trace);
        let of = stacks.map(|stack| trace.strings.get(labels[stack.0 as usize]));
        let backward = "torch::autograd::generated::MmBackward0::apply()";
        assert_eq!(
            of,
            [
                "step (/me/train.py:9)",
                LINEAR,
                backward,
                "other()",
                "train.py(3): main",
                "aten::addmm",
                "AddmmBackward0",
                "torch::autograd::generated::DivBackward0::apply()",
                ACCUMULATE,
                "at::native::zeros()",
                "<module> (oom.py:8)",
                MALLOC,
                ""
            ]
        );
        let all = foremost(&trace, stacks[0], 3);
        assert_eq!(all, [(2, LINEAR), (3, "step (/me/train.py:9)"), (4, "main (train.py:1)")], "in their order");
        // The allocator tells least.
        assert_eq!(foremost(&trace, stacks[8], 2)[1], (3, ACCUMULATE));
        let (trace, [stack]) =
            with_stacks([&["main (/me/a.py:1)", "step (/x/site-packages/torch/optim/adam.py:9)", MALLOC]]);
        assert_eq!(foremost(&trace, stack, 1), [(2, "main (/me/a.py:1)")]);
    }
}
