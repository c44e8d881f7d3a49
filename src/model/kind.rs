//! Kinds of slices: kernel, copy, API call, operator, …

/// Kind of a slice, after the activity types of Kineto and CUPTI (`ActivityType.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SliceKind {
    /// A function that ran on the device.
    Kernel,
    Memcpy,
    Memset,
    /// A CUDA graph recorded as a whole, without its kernels.
    CudaGraph,
    /// A call of the CUDA or HIP runtime API.
    Runtime,
    /// A call of the CUDA driver API.
    Driver,
    /// A PyTorch operator (`cpu_op`).
    Operator,
    /// A range that the user named: `record_function`, NVTX.
    Annotation,
    /// The same range on the device.
    GpuAnnotation,
    PythonFunction,
    /// A wait that CUPTI recorded: event, stream or device synchronization.
    Sync,
    /// A collective as the communication library reports it, on the host.
    Collective,
    /// Overhead of the profiler.
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

    /// Whether it is device work: kernels, copies, memsets and graphs, whose union is "busy".
    pub fn is_device_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Memcpy | Self::Memset | Self::CudaGraph)
    }

    /// Whether it is a call of the runtime or driver API.
    pub fn is_call(self) -> bool {
        matches!(self, Self::Runtime | Self::Driver)
    }

    /// Display name, also in the text report.
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
