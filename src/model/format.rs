//! The formats that traces are read from.

/// The format of the file that a trace was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Chrome trace JSON, as the PyTorch profiler (Kineto) and others write it.
    #[default]
    ChromeTrace,
    /// SQLite exports of Nsight Systems.
    Nsys,
    /// PyTorch's memory history.
    Snapshot,
    /// PyTorch's `export_memory_timeline`.
    MemoryTimeline,
    /// Logs of GPU metrics: JSON lines, and the CSV of nvidia-smi.
    GpuMetrics,
}

impl Format {
    /// The stable name in the JSON report.
    pub const fn key(self) -> &'static str {
        match self {
            Self::ChromeTrace => "chrome",
            Self::Nsys => "nsys",
            Self::Snapshot => "snapshot",
            Self::MemoryTimeline => "memory_timeline",
            Self::GpuMetrics => "gpu_metrics",
        }
    }

    /// How to record what ran on a device; `None` if such files record only memory.
    pub const fn device_remedy(self) -> Option<&'static str> {
        match self {
            Self::ChromeTrace => Some("PyTorch: record with ProfilerActivity.CUDA on a machine with a GPU"),
            Self::Nsys => Some("Record with `nsys profile --trace=cuda,nvtx`, and see that the program uses a GPU"),
            Self::GpuMetrics => Some("Record what runs as well: with the PyTorch profiler or Nsight Systems"),
            Self::Snapshot | Self::MemoryTimeline => None,
        }
    }

    /// Whether such files record only memory.
    pub const fn is_memory_only(self) -> bool {
        self.device_remedy().is_none()
    }
}
