//! Labels of call stacks: the frame of each that says most.

use hashbrown::HashMap;

use crate::analysis::frame::Frame;
use crate::model::{StackId, StringId, Trace};

/// Frames that every allocation has.
const ALLOCATOR: [&str; 4] = ["CachingAllocator", "at::detail::", "c10::", "at::empty"];
/// Frames looked at where only some are to be shown.
const MAX_FRAMES: usize = 400;

/// How much a frame says of whose memory it is, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrameRank {
    /// How the interpreter or the recorder came there.
    Noise,
    /// The allocator's own.
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
    /// What a frame's text is worth.
    pub fn of(text: &str) -> Self {
        let frame = Frame::of(text);
        match frame {
            _ if frame.is_user() => Self::User,
            _ if frame.is_noise() => Self::Noise,
            _ if frame.is_python() => Self::Python,
            _ if frame.function.contains("autograd::generated::") => Self::Backward,
            _ if frame.function.contains("at::native::") => Self::Operator,
            _ if ALLOCATOR.iter().any(|part| frame.function.contains(part)) => Self::Allocator,
            _ => Self::Native,
        }
    }
}

/// For each stack of a trace the frame that names it: of those that say most the innermost. Empty for
/// the empty stack.
///
/// Cost: O(stacks), once a distinct frame also O(its length).
pub fn stack_labels(trace: &Trace) -> Vec<StringId> {
    let stacks = &trace.stacks;
    let mut known = HashMap::new();
    let mut best = vec![(FrameRank::Noise, StringId::EMPTY); stacks.len()];
    for i in 1..stacks.len() {
        let frame = stacks.frame[i];
        let own = *known.entry(frame).or_insert_with(|| FrameRank::of(trace.strings.get(frame)));
        // Callers have smaller ids, so theirs is known; of two that are worth the same the inner counts.
        let callers = best[stacks.parent[i].0 as usize];
        best[i] = if own >= callers.0 { (own, frame) } else { callers };
    }
    best.into_iter().map(|(_, frame)| frame).collect()
}

/// The frames to show where there is room for `n`: those that say most first, each sort innermost first.
pub fn foremost(trace: &Trace, stack: StackId, n: usize) -> Vec<&str> {
    let frames = trace.stacks.frames(stack).take(MAX_FRAMES).map(|frame| trace.strings.get(frame));
    let mut frames: Vec<(FrameRank, &str)> = frames.map(|frame| (FrameRank::of(frame), frame)).collect();
    frames.sort_by_key(|(worth, _)| std::cmp::Reverse(*worth));
    frames.into_iter().take(n).map(|(_, frame)| frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    const LINEAR: &str = "forward (/x/site-packages/torch/nn/modules/linear.py:1)";
    const MALLOC: &str = "c10::cuda::CUDACachingAllocator::malloc(void**) (CUDACachingAllocator.cpp:0)";

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
    fn the_frame_that_says_most_names_a_stack() {
        let (trace, stacks) = with_stacks([
            &["main (train.py:1)", "step (/me/train.py:9)", LINEAR, MALLOC, "torch::unwind::unwind()"],
            &[LINEAR, "at::native::mm()", MALLOC],
            &["torch::autograd::generated::MmBackward0::apply()", "at::native::mm()", MALLOC],
            &["other()", MALLOC, "torch::unwind::unwind()"],
            &[MALLOC, "torch::unwind::unwind()"],
            &[],
        ]);
        let labels = stack_labels(&trace);
        let of = stacks.map(|stack| trace.strings.get(labels[stack.0 as usize]));
        let backward = "torch::autograd::generated::MmBackward0::apply()";
        assert_eq!(of, ["step (/me/train.py:9)", LINEAR, backward, "other()", MALLOC, ""]);
        let foremost = foremost(&trace, stacks[0], 3);
        assert_eq!(foremost, ["step (/me/train.py:9)", "main (train.py:1)", LINEAR]);
    }
}
