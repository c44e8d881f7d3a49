//! What a slice is: kernel, copy, API call, operator, …

/// What recorded a slice, by the names Kineto and CUPTI give (`ActivityType.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SliceKind {
    /// A function that ran on the device.
    Kernel,
    Memcpy,
    Memset,
    /// A CUDA graph that was recorded as one, its kernels not told apart.
    CudaGraph,
    /// A call of the CUDA or HIP runtime API.
    Runtime,
    /// A call of the CUDA driver API.
    Driver,
    /// A PyTorch operator (`cpu_op`).
    Operator,
    /// A range that the user named: `record_function`, NVTX.
    Annotation,
    /// The same range, seen on the device.
    GpuAnnotation,
    PythonFunction,
    /// A wait that CUPTI recorded: event, stream or device synchronization.
    Sync,
    /// A collective as the communication library reports it, on the host.
    Collective,
    /// The profiler's own work.
    Overhead,
    /// An operating system call.
    Os,
    #[default]
    Other,
}

impl SliceKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Kernel,
        Self::Memcpy,
        Self::Memset,
        Self::CudaGraph,
        Self::Runtime,
        Self::Driver,
        Self::Operator,
        Self::Annotation,
        Self::GpuAnnotation,
        Self::PythonFunction,
        Self::Sync,
        Self::Collective,
        Self::Overhead,
        Self::Os,
        Self::Other,
    ];

    /// Whether a device was at work: kernels, copies, memsets and graphs, the operations whose
    /// union is "busy".
    pub fn is_device_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Memcpy | Self::Memset | Self::CudaGraph)
    }

    /// Whether the host called the runtime or the driver.
    pub fn is_call(self) -> bool {
        matches!(self, Self::Runtime | Self::Driver)
    }

    /// What the window and the text report call it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Kernel => "Kernel",
            Self::Memcpy => "Memcpy",
            Self::Memset => "Memset",
            Self::CudaGraph => "CUDA graph",
            Self::Runtime => "Runtime call",
            Self::Driver => "Driver call",
            Self::Operator => "Operator",
            Self::Annotation => "Annotation",
            Self::GpuAnnotation => "GPU annotation",
            Self::PythonFunction => "Python function",
            Self::Sync => "Synchronization",
            Self::Collective => "Collective",
            Self::Overhead => "Profiler overhead",
            Self::Os => "OS call",
            Self::Other => "Slice",
        }
    }
}
