//! Parameters of device work: launches, copies, collectives, CUDA graph nodes, synchronizations.

use super::StringId;

/// How a kernel was launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// `None` if not recorded, as by AMD's profiler; likewise the next.
    pub registers_per_thread: Option<u32>,
    /// Shared memory of one block in bytes, static and dynamic together.
    pub shared_bytes: Option<u32>,
    /// Recorded estimate in percent: Kineto's `est. achieved occupancy %`.
    pub recorded_occupancy: Option<u8>,
}

impl Launch {
    pub fn n_blocks(&self) -> u64 {
        self.grid.iter().fold(1, |n, &side| n.saturating_mul(u64::from(side)))
    }

    pub fn threads_per_block(&self) -> u64 {
        self.block.iter().fold(1, |n, &side| n.saturating_mul(u64::from(side)))
    }
}

/// Direction of a copy (`CUpti_ActivityMemcpyKind`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CopyKind {
    HtoD,
    DtoH,
    DtoD,
    HtoH,
    PtoP,
    Memset,
    #[default]
    Unknown,
}

impl CopyKind {
    /// The short form that NVIDIA's tools use.
    pub fn label(self) -> &'static str {
        match self {
            Self::HtoD => "HtoD",
            Self::DtoH => "DtoH",
            Self::DtoD => "DtoD",
            Self::HtoH => "HtoH",
            Self::PtoP => "PtoP",
            Self::Memset => "Memset",
            Self::Unknown => "Unknown",
        }
    }
}

/// Parameters of a memcpy or memset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryCopy {
    pub kind: CopyKind,
    /// `None` if not recorded.
    pub bytes: Option<u64>,
    /// Whether the host memory was pageable, which makes a copy slow and blocking; `None` if not recorded, or
    /// for copies without host memory.
    pub is_pageable: Option<bool>,
}

/// One call of a collective on one rank.
///
/// Source: arguments of PyTorch's `record_param_comms` operator and of Kineto's kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Collective {
    /// As the recorder names it: `allreduce`, `_allgather_base`.
    pub op: StringId,
    /// Name of the process group, a number in most recordings. Empty if unknown.
    pub group: StringId,
    /// Ranks of the group as written: `[0, 1, 2, 3]`; PyTorch shortens long lists. Empty if unknown.
    pub ranks: StringId,
    /// Number of ranks in the group.
    pub n_ranks: Option<u32>,
    /// Number of the call within its group: the same on all ranks. Older recordings have none.
    pub seq: Option<u64>,
    /// Type of an element: `BFloat16`. Empty if unknown.
    pub dtype: StringId,
    /// Bytes of an element, see [`element_bytes`].
    pub element_bytes: Option<u8>,
    /// Input elements of this rank.
    pub in_elements: Option<u64>,
    /// Output elements of this rank.
    pub out_elements: Option<u64>,
}

/// Back ends of `torch.distributed` whose collectives threads of the host run.
const HOST_BACKENDS: [&str; 2] = ["gloo", "mpi"];

/// Back end and operation in the name of a range in which a thread of the process communicates: `gloo:all_reduce`.
/// Those of NCCL are of the call that launches a kernel.
pub fn host_collective(name: &[u8]) -> Option<(&'static str, &[u8])> {
    HOST_BACKENDS.iter().find_map(|backend| {
        let op = name.strip_prefix(backend.as_bytes())?.strip_prefix(b":")?;
        (!op.is_empty()).then_some((*backend, op))
    })
}

impl Collective {
    /// Input bytes of this rank.
    pub fn in_bytes(&self) -> Option<u64> {
        self.in_elements?.checked_mul(u64::from(self.element_bytes?))
    }

    /// Output bytes of this rank.
    pub fn out_bytes(&self) -> Option<u64> {
        self.out_elements?.checked_mul(u64::from(self.element_bytes?))
    }
}

/// Bytes of an element of this type, by the names of `c10/core/ScalarType.h`.
pub fn element_bytes(dtype: &str) -> Option<u8> {
    Some(match dtype {
        "Byte" | "Char" | "Bool" => 1,
        _ if dtype.starts_with("Float8") => 1,
        "Short" | "Half" | "BFloat16" | "UInt16" => 2,
        "Int" | "Float" | "UInt32" | "ComplexHalf" => 4,
        "Long" | "Double" | "UInt64" | "ComplexFloat" => 8,
        "ComplexDouble" => 16,
        _ => return None,
    })
}

/// Kind of a synchronization (`CUpti_ActivitySynchronizationType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SyncKind {
    #[default]
    Unknown,
    /// The host waits for an event.
    Event,
    /// A stream waits for an event; the host does not.
    StreamWait,
    /// The host waits for a stream.
    Stream,
    /// The host waits for all streams of a context.
    Device,
}

impl SyncKind {
    /// The name used by Kineto.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "Synchronization",
            Self::Event => "Event Sync",
            Self::StreamWait => "Stream Wait Event",
            Self::Stream => "Stream Sync",
            Self::Device => "Context Sync",
        }
    }

    /// The kind of a call of the CUDA or HIP API by its name; `None` if it does not wait.
    pub fn of_call(name: &str) -> Option<Self> {
        let call = ["cuda", "cu", "hip"].iter().find_map(|prefix| name.strip_prefix(prefix))?;
        // Per-thread-stream variants end in `_ptsz`, some names in a CUDA version.
        match call.split('_').next().unwrap_or_default() {
            "EventSynchronize" => Some(Self::Event),
            "StreamWaitEvent" => Some(Self::StreamWait),
            "StreamSynchronize" => Some(Self::Stream),
            "DeviceSynchronize" | "CtxSynchronize" => Some(Self::Device),
            _ => None,
        }
    }
}

/// Parameters of a synchronization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Synchronization {
    pub kind: SyncKind,
    /// The stream waited for; for [`SyncKind::StreamWait`] the waiting stream.
    pub stream: Option<u32>,
    /// The CUDA event waited for.
    pub event: Option<u32>,
    /// The stream on which that event was recorded.
    pub event_stream: Option<u32>,
    /// Correlation id of the call that recorded the event; 0 if unknown.
    pub event_record: u32,
}

/// The CUDA graph node that device work belongs to, by CUPTI ids; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GraphNode {
    pub graph: u32,
    /// The executable graph.
    pub exec: u32,
    /// Also 0 if the graph was recorded as a whole.
    pub node: u64,
}
