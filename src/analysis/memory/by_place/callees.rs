//! What functions called that say no line.

use hashbrown::HashMap;

use crate::analysis::frame::Frame;
use crate::analysis::memory::labels::FrameRank;
use crate::analysis::stacks::LEFT_OUT;
use crate::model::{StringId, Trace};

/// What the profiler calls modules of a model: `nn.Module: Linear_3`.
const MODULE: &str = "nn.Module: ";

/// A module without the number of the object, which says nothing of which it is: `nn.Module: Linear` of
/// `nn.Module: Linear_3`. Other names as they are.
pub fn without_number(name: &str) -> &str {
    let class = name.strip_prefix(MODULE).map(|_| name.trim_end_matches(|c: char| c.is_ascii_digit()));
    class.and_then(|class| class.strip_suffix('_')).unwrap_or(name)
}

/// How much a frame tells of what a function called, ascending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Telling {
    Nothing,
    Operator,
    /// A node of the backward pass.
    Node,
    Module,
}

impl Telling {
    fn of(frame: &str) -> Self {
        match FrameRank::of(frame) {
            _ if frame.starts_with(MODULE) => Self::Module,
            FrameRank::Backward => Self::Node,
            FrameRank::Operator => Self::Operator,
            // Operators of other libraries; functions of C are in brackets.
            FrameRank::Native if frame.contains("::") && !frame.starts_with('<') => Self::Operator,
            _ => Self::Nothing,
        }
    }

    /// Whether a frame tells more than one that is further out.
    fn tells_more(self, outer: Self) -> bool {
        self > outer || self == outer && self > Self::Operator
    }
}

/// For each stack what the function that labels it called, where that says the line at which it begins alone, as the
/// profiler's Python functions do: the innermost module, else the innermost node of the backward pass, else the
/// outermost operator, which is what the program asked for. Empty where there is none. All modules of a class are the
/// first of them.
///
/// * `labels`: as [`super::super::labels::stack_labels`] returns them.
/// * Cost: O(stacks + length of distinct frames).
pub fn callees(trace: &Trace, labels: &[StringId]) -> Vec<StringId> {
    let stacks = &trace.stacks;
    let (mut known, mut classes) = (HashMap::new(), HashMap::new());
    let mut says_no_line = HashMap::new();
    let mut found = vec![(Telling::Nothing, StringId::EMPTY); labels.len()];
    for i in 1..labels.len() {
        let (frame, label) = (stacks.frame[i], labels[i]);
        let is_wanted = *says_no_line.entry(label).or_insert_with(|| is_of_profiler(trace.strings.get(label)));
        // What is outside of the function is not called by it.
        if !is_wanted || frame == label {
            continue;
        }
        let (own, frame) = *known.entry(frame).or_insert_with(|| {
            let name = trace.strings.get(frame);
            (Telling::of(name), *classes.entry(without_number(name)).or_insert(frame))
        });
        // Callers have smaller ids.
        let outer = found[stacks.parent[i].0 as usize];
        found[i] = if own.tells_more(outer.0) { (own, frame) } else { outer };
    }
    found.into_iter().map(|(_, frame)| frame).collect()
}

/// What the place of one call stack is called in full, as that of [`super::stack_places`]; empty without frames.
///
/// * `frames`: innermost first.
/// * Cost: O(length).
pub fn place_name<T: AsRef<str>>(frames: &[T]) -> String {
    let frame = |at: usize| frames[at].as_ref();
    // Of equal ranks, `max_by_key` returns the last.
    let Some(label) = (0..frames.len()).rev().max_by_key(|&at| FrameRank::of(frame(at))) else { return String::new() };
    let name = frame(label);
    if FrameRank::of(name) <= FrameRank::Allocator {
        return LEFT_OUT.to_owned();
    }
    let inner = (0..label).rev().map(frame).filter(|_| is_of_profiler(name));
    let (_, callee) = inner
        .map(|frame| (Telling::of(frame), frame))
        .fold((Telling::Nothing, ""), |outer, own| if own.0.tells_more(outer.0) { own } else { outer });
    if callee.is_empty() { name.to_owned() } else { format!("{name}; via {}", without_number(callee)) }
}

/// Whether a frame is a function as the profiler names it: `train.py(12): main`, with the line at which it begins.
fn is_of_profiler(frame: &str) -> bool {
    !frame.ends_with(')') && Frame::of(frame).line > 0
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::{Script, history};
    use super::super::super::labels::stack_labels;
    use super::super::{Places, stack_places};
    use super::place_name;

    #[test]
    fn functions_without_lines_are_told_apart_by_what_they_call() {
        let [main, forward] = ["train.py(3): main", "/me/net.py(9): forward"];
        let (net, linear, other) = ("nn.Module: Net_0", "nn.Module: Linear_3", "nn.Module: Linear_12");
        let library = "torch/nn/modules/linear.py(120): forward";
        let call = "<built-in function linear>";
        let cases: [(&[&str], &str); 9] = [
            (
                &["aten::empty", "aten::addmm", "aten::linear", call, library, linear, forward, net, main],
                "/me/net.py(9): forward; via nn.Module: Linear",
            ),
            (
                &["aten::empty", "aten::_log_softmax", "aten::log_softmax", forward, net, main],
                "/me/net.py(9): forward; via aten::log_softmax",
            ),
            (&["aten::empty", main], "train.py(3): main"),
            (&["aten::add", library, linear, net, main], "train.py(3): main; via nn.Module: Linear"),
            (
                &["aten::mm", "AddmmBackward0", "autograd::engine::evaluate_function: AddmmBackward0", main],
                "train.py(3): main; via AddmmBackward0",
            ),
            (&["flash::fwd", main], "train.py(3): main; via flash::fwd"),
            // That of a snapshot says the line.
            (&["at::native::mm()", "step (/me/train.py:9)"], "step (/me/train.py:9)"),
            (&["aten::mm", "MmBackward0"], "MmBackward0"),
            (&["c10::cuda::CUDACachingAllocator::malloc()", "_start"], "(interpreter and allocator only)"),
        ];
        let mut script = Script::default();
        for (i, (frames, _)) in cases.iter().enumerate() {
            let stack = script.stack(frames);
            script.alloc((i as u64) << 30, 512 << (cases.len() - i), stack);
        }
        let stack = script.stack(&["aten::add", library, other, net, main]);
        script.alloc(1 << 50, 512, stack);
        let trace = script.finish();
        let of_stack = stack_places(&trace, Some(&stack_labels(&trace)));
        let places = Places { trace: &trace, of_stack: &of_stack };
        let held = places.held(history(&trace), history(&trace).last_state());
        assert_eq!(held[3].held.blocks, 2, "both are of one class");
        assert_eq!(places.short_name(held[0].place), "nn.Module: Linear");
        assert_eq!(places.short_name(held[2].place), main);
        let names: Vec<_> = held.iter().map(|holder| places.full_name(holder.place)).collect();
        assert_eq!(names, cases.map(|case| case.1));
        assert_eq!(cases.map(|case| place_name(case.0)), cases.map(|case| case.1), "lists of stacks say the same");
    }
}
