//! What device work was asked to do: launches, copies, collectives, nodes of CUDA graphs; and what waits wait for.

use super::StringId;

/// How a kernel was launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    pub registers_per_thread: u32,
    /// Shared memory of one block in bytes, static and dynamic together.
    pub shared_bytes: u32,
    /// What the recorder estimated, in percent: Kineto's `est. achieved occupancy %`.
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

/// Between which memories a copy went, as CUPTI counts them (`CUpti_ActivityMemcpyKind`).
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

/// What a memcpy or memset moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryCopy {
    pub kind: CopyKind,
    /// `None` if the recording does not say.
    pub bytes: Option<u64>,
    /// Whether the host's side was pageable memory, which makes a copy slow and blocking; `None`
    /// if no side is the host's, or if the recording does not say.
    pub is_pageable: Option<bool>,
}

/// One call of a collective on one rank.
///
/// Source: the args that PyTorch's `record_param_comms` gives its operator, and Kineto the kernel.
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
    /// Elements that this rank puts in.
    pub in_elements: Option<u64>,
    /// Elements that this rank gets.
    pub out_elements: Option<u64>,
}

impl Collective {
    /// Bytes that this rank puts in.
    pub fn in_bytes(&self) -> Option<u64> {
        self.in_elements?.checked_mul(u64::from(self.element_bytes?))
    }

    /// Bytes that this rank gets.
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

/// What a wait waits for (`CUpti_ActivitySynchronizationType`).
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
    /// Kineto's words.
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
        // Calls for the stream of a thread end in `_ptsz`, some in the version of CUDA.
        match call.split('_').next().unwrap_or_default() {
            "EventSynchronize" => Some(Self::Event),
            "StreamWaitEvent" => Some(Self::StreamWait),
            "StreamSynchronize" => Some(Self::Stream),
            "DeviceSynchronize" | "CtxSynchronize" => Some(Self::Device),
            _ => None,
        }
    }
}

/// What a wait waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Synchronization {
    pub kind: SyncKind,
    /// The stream waited for; of [`SyncKind::StreamWait`] the stream that waits.
    pub stream: Option<u32>,
    /// The CUDA event waited for.
    pub event: Option<u32>,
    /// The stream on which that event was recorded.
    pub event_stream: Option<u32>,
    /// Correlation id of the call that recorded the event; 0 if unknown.
    pub event_record: u32,
}

/// Which node of which CUDA graph a piece of device work ran as, by CUPTI's numbers; 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GraphNode {
    pub graph: u32,
    /// The executable that the graph was made into.
    pub exec: u32,
    /// 0 too where the graph was recorded as one.
    pub node: u64,
}
