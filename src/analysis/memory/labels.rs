//! By which frame is a call stack best named?

use hashbrown::HashMap;

use super::signature::Frame;
use crate::model::{StringId, Trace};

/// For each stack of a trace the frame that names it: its innermost frame of the person's own program;
/// where there is none its innermost frame of Python, else its innermost frame that says something.
/// Empty for the empty stack.
///
/// Cost: O(stacks), once a distinct frame also O(its length).
pub fn stack_labels(trace: &Trace) -> Vec<StringId> {
    /// How much a frame says.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Worth {
        Noise,
        Native,
        Python,
        User,
    }
    let worth = |text: &str| match Frame::of(text) {
        frame if frame.is_user() => Worth::User,
        frame if frame.is_noise() => Worth::Noise,
        frame if frame.is_python() => Worth::Python,
        _ => Worth::Native,
    };
    let stacks = &trace.stacks;
    let mut known = HashMap::new();
    let mut best = vec![(Worth::Noise, StringId::EMPTY); stacks.len()];
    for i in 1..stacks.len() {
        let frame = stacks.frame[i];
        let own = *known.entry(frame).or_insert_with(|| worth(trace.strings.get(frame)));
        // Callers have smaller ids, so theirs is known; of two that are worth the same the inner counts.
        let callers = best[stacks.parent[i].0 as usize];
        best[i] = if own >= callers.0 { (own, frame) } else { callers };
    }
    best.into_iter().map(|(_, frame)| frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{StackId, TraceBuilder};

    #[test]
    fn the_persons_own_frame_names_a_stack() {
        let mut builder = TraceBuilder::default();
        let mut stack = |frames: &[&str]| {
            frames.iter().fold(StackId(0), |callers, frame| {
                let frame = builder.strings.intern(frame);
                builder.stacks.intern(callers, frame)
            })
        };
        let linear = "forward (/x/site-packages/torch/nn/modules/linear.py:1)";
        let stacks = [
            stack(&[
                "main (train.py:1)",
                "step (train.py:9)",
                linear,
                "at::mm (Register.cpp:0)",
                "torch::unwind::unwind()",
            ]),
            stack(&[linear, "at::mm (Register.cpp:0)"]),
            stack(&["at::mm (Register.cpp:0)", "torch::unwind::unwind()"]),
            StackId(0),
        ];
        let trace = builder.finish();
        let labels = stack_labels(&trace);
        let of = stacks.map(|stack| trace.strings.get(labels[stack.0 as usize]));
        assert_eq!(of, ["step (train.py:9)", linear, "at::mm (Register.cpp:0)", ""]);
    }
}
