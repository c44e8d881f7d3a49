//! Events of the simulated run, which each format records in its own form.

use super::gpu::{Kernel, Stream};

/// Start and end in ns of the recording's clock.
pub type Range = (i64, i64);

/// Something that happened. Host events come when they end, so inner ones come first.
#[derive(Debug)]
pub enum Event<'a> {
    /// A call of a Python function on the main thread; `id` and `parent` number the calls.
    Frame { name: &'a str, range: Range, id: u64, parent: Option<u64>, index: u64 },
    /// A range that the program named.
    Annotation { name: &'a str, tid: i64, range: Range, external: u64, index: u64 },
    /// A PyTorch operator; `inputs` is the JSON text of its input shapes, or empty.
    Operator { name: &'a str, tid: i64, range: Range, external: u64, inputs: &'a str, index: u64 },
    /// A step of the backward pass; `sequence` is that of its forward operator.
    BackwardNode { name: &'a str, tid: i64, range: Range, external: u64, sequence: u64, index: u64 },
    /// A part of a step on the main thread: `forward`, `backward` or `optimizer`.
    Phase { name: &'static str, range: Range },
    /// The backward step of an operator that ran at `forward` starts.
    Backward { sequence: u64, forward: i64, now: i64 },
    /// PyTorch's allocator hands out memory, or takes it back where `bytes` is negative.
    Allocation { tid: i64, at: i64, bytes: i64, allocated: i64, index: u64 },
    /// A call of the CUDA runtime; one that sends nothing to the GPU has no `submits`.
    Call { name: &'static str, cbid: u32, tid: i64, range: Range, correlation: u64, external: u64, submits: bool },
    /// A kernel ran; `node` is its node if a graph launched it, `more` JSON text on a collective.
    Kernel { kernel: &'a Kernel, gpu: OnGpu, node: Option<u64>, more: &'a str },
    /// A whole CUDA graph ran, its kernels unseen.
    Graph { gpu: OnGpu },
    /// A copy or a fill of `bytes` ran.
    Transfer { what: Transfer, bytes: i64, gpu: OnGpu },
    /// All compute work of a step, on the GPU.
    StepOnGpu { name: &'a str, range: Range, external: u64 },
    /// The profiler itself kept the host busy.
    Overhead { range: Range },
}

/// Where and when work ran on the GPU, and what sent it there.
#[derive(Clone, Copy, Debug)]
pub struct OnGpu {
    pub stream: Stream,
    pub range: Range,
    pub correlation: u64,
    pub external: u64,
}

/// Copies and fills of the training loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    PinnedToDevice,
    DeviceToPageable,
    Fill,
}

/// How a format shows CUDA graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Graphs {
    /// The run uses none.
    #[default]
    Unused,
    /// Every kernel is recorded with its node.
    AsNodes,
    /// A launch is recorded as one piece of work.
    AsWhole,
}

/// Writes events down.
pub trait Recorder: std::fmt::Debug {
    fn record(&mut self, event: &Event<'_>);

    /// Called when nothing will be recorded any more that began before `now` on the host.
    ///
    /// Errors: what was recorded cannot be written.
    fn end_step(&mut self, now: i64) -> std::io::Result<()>;
}
