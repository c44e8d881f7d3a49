//! Categories of blocks, as in PyTorch's memory profiler: parameters, gradients, optimizer state, activations.

#[cfg(test)]
mod tests;

mod passes;

pub use passes::passes;

use hashbrown::HashMap;

use super::live::{LiveUntil, live};
use super::summary::fullest_state;
use crate::analysis::frame::Frame;
use crate::model::memory::{AllocationId, MemorySource};
use crate::model::{MemoryHistory, StackId, StringId, Trace};

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Parameters and buffers of modules.
    Parameter,
    /// What a backward pass leaves behind.
    Gradient,
    Optimizer,
    /// Outputs of a forward pass.
    Activation,
    /// Inputs, temporaries, workspaces of cuBLAS, casts that autocast keeps, and what a backward pass needs for itself.
    Other,
    /// Neither its stacks nor its life tell.
    Unknown,
}

impl Category {
    pub const ALL: [Self; 6] =
        [Self::Parameter, Self::Gradient, Self::Optimizer, Self::Activation, Self::Other, Self::Unknown];

    /// Machine name.
    pub fn key(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Gradient => "gradient",
            Self::Optimizer => "optimizer",
            Self::Activation => "activation",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// Bytes of one category at two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CategoryBytes {
    pub category: Category,
    /// At the first state of the highest allocated bytes; at the end where no peak is known.
    pub peak: u64,
    pub end: u64,
}

/// Allocated bytes of each category at the peak and at the end, which sum to the curve `allocated`. Empty if no block
/// has a category.
///
/// The definitions are those of `torch.profiler._memory_profiler.Category`, told from call stacks and lifetimes since a
/// memory history has no data flow; the first of these that holds counts:
///
/// 1. the category that the file records;
/// 2. a workspace of cuBLAS, by its frames, or by its size where blocks of that size are few and all stay; a cast of a parameter that
///    autocast keeps until its `with` is left, which PyTorch gives no category, as no activation goes into it: other. A cast
///    that a backward pass frees later may be of a parameter or of an activation: 7 counts;
/// 3. allocated in an optimizer's frames: optimizer state, or other if it is freed there;
/// 4. allocated before the recording at an unknown place and freed in an optimizer's frames, outside of a backward pass and
///    of a module's call: optimizer state;
/// 5. allocated in a backward pass, outside of recomputed modules: a gradient if it outlives the pass or is accumulated,
///    other if it is freed in the pass;
/// 6. allocated where modules are built, moved or loaded: a parameter; buffers do not differ;
/// 7. allocated in a module's call, or freed in a backward pass: an activation, or other if it is freed in the frame
///    that allocated it;
/// 8. allocated by a copy to the device outside of all these: an input, which is other;
/// 9. else unknown.
///
/// Where the frames of `torch/nn/modules/module.py` are missing, as the stacks of some versions leave them out, a
/// function `forward` stands for the call of a module.
///
/// The autograd engine's threads have no Python frames: in a recording whose stacks are mostly Python's alone, an event
/// without frames is part of a backward pass.
///
/// * `stacks`: of the trace.
/// * Cost: O(events + blocks).
pub fn categories(trace: &Trace, history: &MemoryHistory, stacks: &StackRoles) -> Vec<CategoryBytes> {
    let told = Told::new(trace, history, stacks);
    let of: Vec<Category> = history.allocations.ids().map(|id| told.category(id)).collect();
    if of.iter().all(|&category| category == Category::Unknown) {
        return Vec::new();
    }
    let sums = |state: u32| {
        let mut sums = [0_u64; Category::ALL.len()];
        for id in live(history, state, LiveUntil::Allocated) {
            sums[of[id.idx()] as usize] += history.allocations.bytes[id.idx()];
        }
        sums
    };
    let (peak, end) = (sums(fullest_state(history)), sums(history.last_state()));
    Category::ALL
        .into_iter()
        .zip(peak.into_iter().zip(end))
        .map(|(category, (peak, end))| CategoryBytes { category, peak, end })
        .collect()
}

/// What the frames of a stack say; bits.
type Roles = u8;
const OPTIMIZER: Roles = 1;
const BACKWARD: Roles = 2;
const ACCUMULATE: Roles = 4;
const MODULE_CALL: Roles = 8;
const MODULE_SETUP: Roles = 16;
const COPY: Roles = 32;
const WORKSPACE: Roles = 64;
const CAST_CACHE: Roles = 128;
/// Bytes that PyTorch requests for a workspace of cuBLAS on devices before Hopper, `:4096:2:16:8`. Those since take 32 MiB,
/// as many tensors do.
const CUBLAS_WORKSPACE: u64 = (2 * 4096 + 8 * 16) << 10;
/// Threads that have one for each stream: that of the program, and that of the backward pass.
const THREADS: usize = 2;

/// What a frame says, by function and file.
fn roles(text: &str) -> Roles {
    let frame = Frame::of(text);
    let file = frame.file.replace('\\', "/");
    let function = frame.function;
    if !frame.is_python() {
        let backward = ["torch::autograd::Engine", "autograd::generated::", "torch::autograd::Node", "PyNode::apply"];
        // PyTorch makes one for each handle and stream, in whatever operator needs it first, and keeps it.
        let workspace = ["getNewWorkspace", "BlasLtWorkspace", "CUDABlasHandle"];
        return match function {
            _ if workspace.iter().any(|part| function.contains(part)) => WORKSPACE,
            _ if function.contains("autocast::clear_cache") => CAST_CACHE,
            _ if function.contains("AccumulateGrad") => BACKWARD | ACCUMULATE,
            _ if backward.iter().any(|part| function.contains(part)) => BACKWARD,
            _ if function.contains("to_copy") || function.contains("copy_to_device") => COPY,
            _ => 0,
        };
    }
    let is_in = |end: &str| file.ends_with(end);
    let is_optimizer = file.contains("/optim/")
        || file.contains("/optimizers/")
        || is_in("/optimizer.py")
        || is_in("/optimization.py");
    let is_module = is_in("torch/nn/modules/module.py");
    match function {
        "zero_grad" => 0,
        "__exit__" if is_in("torch/amp/autocast_mode.py") => CAST_CACHE,
        _ if is_optimizer && !is_in("/lr_scheduler.py") => OPTIMIZER,
        "_engine_run_backward" => BACKWARD,
        "backward" if is_in("torch/_tensor.py") || is_in("torch/autograd/__init__.py") => BACKWARD,
        "_call_impl" | "_wrapped_call_impl" | "_slow_forward" if is_module => MODULE_CALL,
        _ if is_module => MODULE_SETUP,
        "reset_parameters" | "load_state_dict" | "from_pretrained" | "_load_from_state_dict" => MODULE_SETUP,
        _ if is_in("torch/nn/init.py") || is_in("torch/nn/parameter.py") || is_in("torch/serialization.py") => {
            MODULE_SETUP
        }
        "forward" => MODULE_CALL,
        "to" | "cuda" | "npu" => COPY,
        _ => 0,
    }
}

/// Whether a frame is of a backward pass. Frames of autograd are also in operators of a forward pass, whose graph it
/// records.
pub fn is_backward(frame: &str) -> bool {
    roles(frame) & BACKWARD != 0
}

/// What the frames of each stack of a trace say of what is allocated there.
#[derive(Debug)]
pub struct StackRoles {
    roles: Vec<Roles>,
    /// The innermost Python frame of each stack.
    innermost: Vec<StringId>,
    /// Whether any frame is not Python's.
    has_native: bool,
}

impl StackRoles {
    /// Cost: O(stacks + length of distinct frames).
    pub fn new(trace: &Trace) -> Self {
        let stacks = &trace.stacks;
        let mut known: HashMap<StringId, (Roles, bool)> = HashMap::new();
        let mut all = vec![0; stacks.len()];
        let mut innermost = vec![StringId::EMPTY; stacks.len()];
        let mut has_native = false;
        for stack in 1..stacks.len() {
            let (callers, frame) = (stacks.parent[stack].0 as usize, stacks.frame[stack]);
            let (own, is_python) = *known.entry(frame).or_insert_with(|| {
                let text = trace.strings.get(frame);
                (roles(text), Frame::of(text).is_python())
            });
            has_native |= !is_python;
            // Callers have smaller ids.
            all[stack] = all[callers] | own;
            innermost[stack] = if is_python { frame } else { innermost[callers] };
        }
        Self { roles: all, innermost, has_native }
    }

    /// What an event of a history says that has no frames.
    fn of_none(&self, history: &MemoryHistory) -> Roles {
        let named = history.events.stack.iter().filter(|&&stack| stack != StackId::default()).count();
        let is_python_alone = !self.has_native && 2 * named > history.events.len();
        if is_python_alone { BACKWARD } else { 0 }
    }

    fn of(&self, stack: StackId, of_none: Roles) -> Roles {
        if stack == StackId::default() { of_none } else { self.roles.get(stack.0 as usize).copied().unwrap_or(0) }
    }
}

/// What is known of a history.
struct Told<'a> {
    trace: &'a Trace,
    history: &'a MemoryHistory,
    stacks: &'a StackRoles,
    /// What an event without frames says.
    of_none: Roles,
    /// Whether the blocks of the size of a workspace are as few as these, and stay to the end.
    has_workspaces: bool,
}

impl<'a> Told<'a> {
    fn new(trace: &'a Trace, history: &'a MemoryHistory, stacks: &'a StackRoles) -> Self {
        let all = &history.allocations;
        let sized: Vec<_> = all.ids().filter(|id| all.requested[id.idx()] == CUBLAS_WORKSPACE).collect();
        let has_workspaces = history.source == MemorySource::Snapshot
            && sized.len() <= THREADS * history.pools.len()
            && sized.iter().all(|id| all.freed[id.idx()] > history.last_state());
        Self { trace, history, stacks, of_none: stacks.of_none(history), has_workspaces }
    }

    /// What the stack of an event says.
    fn at(&self, stack: StackId) -> Roles {
        self.stacks.of(stack, self.of_none)
    }

    fn category(&self, id: AllocationId) -> Category {
        let (history, all) = (self.history, &self.history.allocations);
        if let Some(recorded) = recorded(self.trace.strings.get(all.category(id))) {
            return recorded;
        }
        let stack = all.stack[id.idx()];
        let own = if history.alloc_event(id).is_none() && stack == StackId::default() { 0 } else { self.at(stack) };
        let is_workspace =
            self.has_workspaces && all.requested[id.idx()] == CUBLAS_WORKSPACE && own & MODULE_SETUP == 0;
        if own & WORKSPACE != 0 || is_workspace {
            return Category::Other;
        }
        let freed = all.freed[id.idx()].checked_sub(1).filter(|&event| event < history.last_state());
        let freed_at = freed.map(|event| history.events.stack[event as usize]);
        let freed = freed_at.map(|stack| self.at(stack));
        let is_freed_in = |role: Roles| freed.is_some_and(|freed| freed & role != 0);
        if is_freed_in(CAST_CACHE) {
            return Category::Other;
        }
        // An optimizer that writes its state anew frees that of the step before. A closure may run the model in a step.
        let is_before = history.alloc_event(id).is_none() && own == 0;
        if is_before && is_freed_in(OPTIMIZER) && !is_freed_in(BACKWARD | MODULE_CALL) {
            return Category::Optimizer;
        }
        if own & OPTIMIZER != 0 {
            return if is_freed_in(OPTIMIZER) { Category::Other } else { Category::Optimizer };
        }
        if own & BACKWARD != 0 && own & MODULE_CALL == 0 {
            let is_kept = own & ACCUMULATE != 0 || !is_freed_in(BACKWARD);
            return if is_kept { Category::Gradient } else { Category::Other };
        }
        if own & MODULE_SETUP != 0 && own & MODULE_CALL == 0 {
            return Category::Parameter;
        }
        if own & MODULE_CALL != 0 || is_freed_in(BACKWARD) {
            let place = |stack: StackId| self.stacks.innermost.get(stack.0 as usize).copied().unwrap_or_default();
            let is_temporary = freed_at.is_some_and(|freed| {
                !is_freed_in(BACKWARD) && place(freed) == place(stack) && place(freed) != StringId::EMPTY
            });
            return if is_temporary { Category::Other } else { Category::Activation };
        }
        // Without Python frames a copy may be anything, such as a cast of autocast's.
        let is_known = self.stacks.innermost.get(stack.0 as usize).is_some_and(|&frame| frame != StringId::EMPTY);
        if own & COPY != 0 && is_known { Category::Other } else { Category::Unknown }
    }
}

/// The category of a recorded name, such as `PARAMETER`; `None` for none or an unknown one.
fn recorded(name: &str) -> Option<Category> {
    Some(match name.to_ascii_uppercase().as_str() {
        "PARAMETER" => Category::Parameter,
        "GRADIENT" => Category::Gradient,
        "OPTIMIZER_STATE" => Category::Optimizer,
        "ACTIVATION" => Category::Activation,
        "INPUT" | "TEMPORARY" | "AUTOGRAD_DETAIL" => Category::Other,
        _ => return None,
    })
}
