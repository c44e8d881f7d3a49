//! Evidence in call stacks and recorded categories for whole steps, and for layers.

use hashbrown::{HashMap, HashSet};

use crate::analysis::frame::Frame;
use crate::model::memory::AllocationId;
use crate::model::{MemoryHistory, StackId, StringId, Trace};

/// Minimum share of rounds with what a layer does not have.
const MIN_WHOLE: f64 = 0.8;

/// Categories of `torch.profiler` that it gives to what is allocated outside of a backward pass from inputs and
/// parameters, and to what is allocated in one. A layer that is recomputed in a backward pass has the latter alone.
const FORWARD: &[&str] = &["ACTIVATION"];
const BACKWARD: &[&str] = &["GRADIENT", "AUTOGRAD_DETAIL"];

/// Frames and categories of what a whole step has and a layer has not.
pub struct Evidence<'a> {
    trace: &'a Trace,
    history: &'a MemoryHistory,
    /// Whether a frame is of a Python function; and if it is of a part of a step, the number of its function.
    frames: HashMap<StringId, (bool, Option<u32>)>,
}

impl<'a> Evidence<'a> {
    /// Cost: O(length of distinct frames).
    pub fn of(trace: &'a Trace, history: &'a MemoryHistory) -> Self {
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

    fn events(&self, pair: &[u32]) -> impl Iterator<Item = usize> {
        let range = pair[0] as usize..pair[pair.len() - 1] as usize;
        range.filter(|&event| self.history.allocates(event))
    }

    fn allocs(&self, pair: &[u32]) -> impl Iterator<Item = StackId> {
        self.events(pair).map(|event| self.history.events.stack[event])
    }

    /// Whether the file says of two allocations of a round that one is of a forward and one of a backward pass.
    fn has_both_passes(&self, pair: &[u32]) -> bool {
        let all = &self.history.allocations;
        let has = |pass: &[&str]| {
            self.events(pair).any(|event| {
                let id = self.history.events.allocation.get(event).map(|&id| AllocationId(id));
                id.is_some_and(|id| id.idx() < all.len() && pass.contains(&self.trace.strings.get(all.category(id))))
            })
        };
        !all.category.is_empty() && has(FORWARD) && has(BACKWARD)
    }

    /// The Python frames that all allocations of the rounds share, from the outermost. C++ frames between them vary.
    pub fn common_callers(&self, boundaries: &[u32]) -> Vec<StringId> {
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
    /// A function that calls all of them, such as `train_step`, says nothing. Recorded categories tell both passes.
    pub fn is_whole(&self, boundaries: &[u32]) -> bool {
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
            marked > 0 && marked < n || self.has_both_passes(pair)
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
pub fn is_in_forward(trace: &Trace, callers: &[StringId]) -> bool {
    // Wrappers that distribute a batch over devices only forward the call.
    let is_forward = |frame: Frame<'_>| {
        let is_wrapper = frame.file.replace('\\', "/").contains("torch/nn/parallel/");
        frame.function == "forward" && !is_wrapper
    };
    callers.iter().any(|&frame| is_forward(Frame::of(trace.strings.get(frame))))
}
