//! Recorded events of a planted run, independent of the file format.

/// Start and end in ns of the run's clock.
pub type Range = (i64, i64);

/// Correlation ids from here on belong to calls that are not recorded.
pub const UNRECORDED: u64 = 9_000_000;

/// A kind of host event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A PyTorch operator.
    Operator,
    /// `record_function` or NVTX.
    Annotation,
    /// A call of a Python function.
    Frame,
    /// A call of the runtime.
    Runtime,
    /// A call of the driver.
    Driver,
    /// A call of the operating system.
    Os,
    /// The profiler's own work.
    Overhead,
}

/// A host event on one thread. `correlation` is 0 if it has none.
#[derive(Clone, Debug)]
pub struct Span {
    pub kind: SpanKind,
    pub name: String,
    pub tid: i64,
    pub range: Range,
    pub correlation: u64,
    /// Whether the call sends work to a device.
    pub submits: bool,
}

/// A kind of device work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    Kernel,
    /// Host to device, from pageable memory or not.
    Upload {
        pageable: bool,
    },
    /// Device to pageable host memory.
    Download,
    /// A CUDA graph as one piece.
    Graph,
}

/// Work on a stream of a device. `node` is that of its CUDA graph, 0 for none.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub kind: WorkKind,
    pub name: &'static str,
    pub device: usize,
    pub range: Range,
    pub correlation: u64,
    pub node: u32,
}

/// Work on the stream of `waiter` waits for an event that was recorded on the stream of `producer`.
#[derive(Clone, Copy, Debug)]
pub struct StreamWait {
    pub waiter: usize,
    pub producer: usize,
    pub range: Range,
    /// Of the calls that wait and that recorded the event.
    pub correlation: u64,
    pub record: u64,
}

/// Everything that can be recorded of a run.
#[derive(Debug, Default)]
pub struct Timeline {
    pub spans: Vec<Span>,
    pub works: Vec<Work>,
    pub waits: Vec<StreamWait>,
}
