//! Which frame of a call stack says most to its reader?

use crate::model::{StackId, StringId, Trace};

/// How much a frame says: the person's own code, other Python code, or anything else; least the
/// allocator's and the recorder's own frames, which are innermost in every stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Allocator,
    Other,
    Python,
    Own,
}

/// Frames are `name (file:line)`, or `file(line): name` in a profiler's traces.
fn rank(frame: &str) -> Rank {
    let is_python = frame.contains(".py") || frame.contains("<string>") || frame.contains("ipython-input");
    if !is_python {
        let allocator = [
            "torch::unwind",
            "CapturedTraceback",
            "gather_with",
            "CachingAllocator",
            "c10::",
            "at::detail::empty",
            "??",
        ];
        let is_allocator = allocator.iter().any(|part| frame.contains(part));
        return if is_allocator { Rank::Allocator } else { Rank::Other };
    }
    let library = ["site-packages", "dist-packages", "/torch/", "torch/nn/", "/lib/python", "<frozen", "/runpy.py"];
    let is_library = library.iter().any(|part| frame.contains(part));
    if is_library { Rank::Python } else { Rank::Own }
}

/// For each stack the innermost of its frames that say most: the person's own if there is one.
///
/// Cost: O(stacks).
pub fn telling(trace: &Trace) -> Vec<StringId> {
    let stacks = &trace.stacks;
    let mut found: Vec<(Rank, StringId)> = Vec::with_capacity(stacks.len());
    for (at, &frame) in stacks.frame.iter().enumerate() {
        let callers = found.get(stacks.parent[at].0 as usize).copied();
        let own = (rank(trace.strings.get(frame)), frame);
        found.push(callers.filter(|callers| callers.0 > own.0).unwrap_or(own));
    }
    found.into_iter().map(|(_, frame)| frame).collect()
}

/// The frames to show where there is room for `n`: the person's own first, each kind innermost first.
pub fn foremost(trace: &Trace, stack: StackId, n: usize) -> Vec<&str> {
    let frames: Vec<&str> = trace.stacks.frames(stack).map(|frame| trace.strings.get(frame)).take(400).collect();
    let of_rank = |wanted: Rank| frames.iter().copied().filter(move |frame| rank(frame) == wanted);
    let own = of_rank(Rank::Own);
    let rest = of_rank(Rank::Other).chain(of_rank(Rank::Allocator));
    own.chain(of_rank(Rank::Python)).chain(rest).take(n).collect()
}

/// A frame in few letters: `forward (model.py:12)` of `forward (/home/me/model.py:12)`.
pub fn short(frame: &str) -> String {
    let Some((name, place)) = frame.rsplit_once(" (") else { return frame.to_owned() };
    let file = place.rsplit(['/', '\\']).next().unwrap_or(place);
    format!("{name} ({file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_frames_come_first() {
        let mut trace = Trace::default();
        let mut stack = StackId(0);
        let frames = [
            "main (train.py:3)",
            "forward (/home/me/model.py:9)",
            "linear (/x/site-packages/torch/nn/f.py:1)",
            "at::empty (Empty.cpp:2)",
        ];
        for frame in frames {
            let frame = trace.strings.intern(frame);
            stack = trace.stacks.intern(stack, frame);
        }
        assert_eq!(trace.strings.get(telling(&trace)[stack.0 as usize]), frames[1]);
        assert_eq!(foremost(&trace, stack, 3), [frames[1], frames[0], frames[2]]);
        assert_eq!(short(frames[1]), "forward (model.py:9)");
        assert_eq!(short("?? (C:\\a\\b.py:1)"), "?? (b.py:1)");
        assert_eq!(short("odd"), "odd");
        assert_eq!(telling(&trace)[0], StringId::EMPTY);
    }
}
