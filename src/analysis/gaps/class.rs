//! Names of what goes on in idle time, and of triggers. Their keys are a contract with readers of the report.

use crate::model::DurNs;

/// What went on during a part of a gap, or held up the work. What would have to change is a cause: see `rules`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum GapClass {
    /// The launching thread waited for the device.
    Sync,
    /// It waited for, or prepared, the next batch.
    DataLoading,
    /// It copied between host and device.
    Copy,
    /// It was in the allocator: `cudaMalloc`, `cudaFree`.
    Allocator,
    /// It compiled or loaded device code.
    ModuleLoad,
    /// Python collected garbage.
    Gc,
    /// It was in a call of a collective, or waited for a process group.
    Collective,
    /// It was inside a launch call.
    Launch,
    /// It ran an operator.
    CpuOp,
    /// It ran Python outside of operators.
    Python,
    /// It was blocked in the operating system: in a call of it, or in a function that waits for a thread, a lock, a queue,
    /// a socket or a process.
    Blocked,
    /// Nothing was recorded of it.
    #[default]
    Unknown,
    /// The work was launched, and began within the usual latency.
    LaunchLatency,
    /// The work was launched, but its stream waited for work on another.
    Dependency,
    /// The work was launched, and nothing recorded explains why it began late.
    Queued,
    /// Between the nodes of a CUDA graph, or before its first.
    Graph,
    /// The call that launched the work was not recorded.
    NoLaunch,
    /// The profiler's own overhead.
    Profiler,
}

impl GapClass {
    /// Number of classes.
    pub const N: usize = Self::ALL.len();

    /// Every class, in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::Sync,
        Self::DataLoading,
        Self::Copy,
        Self::Allocator,
        Self::ModuleLoad,
        Self::Gc,
        Self::Collective,
        Self::Launch,
        Self::CpuOp,
        Self::Python,
        Self::Blocked,
        Self::Unknown,
        Self::LaunchLatency,
        Self::Dependency,
        Self::Queued,
        Self::Graph,
        Self::NoLaunch,
        Self::Profiler,
    ];

    /// That with the most time, by number; of equal ones the first.
    pub fn of_most(by_class: &[DurNs; Self::N]) -> Self {
        Self::ALL[(1..Self::N).fold(0, |most, class| if by_class[class] > by_class[most] { class } else { most })]
    }

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::DataLoading => "data_loading",
            Self::Copy => "copy",
            Self::Allocator => "allocator",
            Self::ModuleLoad => "module_load",
            Self::Gc => "gc",
            Self::Collective => "collective",
            Self::Launch => "launch",
            Self::CpuOp => "cpu_op",
            Self::Python => "python",
            Self::Blocked => "blocked",
            Self::Unknown => "unknown",
            Self::LaunchLatency => "launch_latency",
            Self::Dependency => "dependency",
            Self::Queued => "queued",
            Self::Graph => "graph",
            Self::NoLaunch => "no_launch",
            Self::Profiler => "profiler",
        }
    }

    /// For people, and for findings and tables as well: see [`Cause::label`](crate::analysis::rules::Cause::label).
    pub fn label(self) -> &'static str {
        match self {
            Self::Sync => "Synchronization",
            Self::DataLoading => "Data loading",
            Self::Copy => "Copy calls",
            Self::Allocator => "Device allocations",
            Self::ModuleLoad => "Compiling and loading code",
            Self::Gc => "Garbage collection",
            Self::Collective => "Calls of collectives",
            Self::Launch => "Launch calls",
            Self::CpuOp => "CPU operators",
            Self::Python => "Python",
            Self::Blocked => "Blocked in the OS",
            Self::Unknown => "Unexplained",
            Self::LaunchLatency => "Launch latency",
            Self::Dependency => "Waiting for other streams",
            Self::Queued => "Waiting in queues",
            Self::Graph => "Inside GPU graphs",
            Self::NoLaunch => "Launch not recorded",
            Self::Profiler => "Profiler overhead",
        }
    }

    /// Whether it says what the launching thread did.
    pub fn is_host(self) -> bool {
        self <= Self::Unknown
    }
}

/// The event that made a gap possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trigger {
    /// A synchronization emptied the queue.
    Sync,
    /// The host launches work more slowly than the device runs it.
    LaunchBound,
    /// A step ended in it.
    StepBoundary,
    /// It follows the last node of a CUDA graph.
    GraphEnd,
    /// The profiler interfered.
    Profiler,
}

impl Trigger {
    pub const ALL: [Self; 5] = [Self::Sync, Self::LaunchBound, Self::StepBoundary, Self::GraphEnd, Self::Profiler];

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::LaunchBound => "launch_bound",
            Self::StepBoundary => "step_boundary",
            Self::GraphEnd => "graph_end",
            Self::Profiler => "profiler",
        }
    }

    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Sync => "Queue drained by a synchronization",
            Self::LaunchBound => "Launch-bound",
            Self::StepBoundary => "Step boundary",
            Self::GraphEnd => "End of a GPU graph",
            Self::Profiler => "Profiler",
        }
    }
}
