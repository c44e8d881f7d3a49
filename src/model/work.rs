//! What device work was asked to do: launch shapes of kernels, sizes and directions of copies.

/// How a kernel was launched. Equal launches are stored once, in [`super::Trace::launches`].
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

/// What a memcpy or memset moved. Equal copies are stored once, in [`super::Trace::copies`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryCopy {
    pub kind: CopyKind,
    /// `None` if the recording does not say.
    pub bytes: Option<u64>,
    /// Whether the host's side was pageable memory, which makes a copy slow and blocking; `None`
    /// if no side is the host's, or if the recording does not say.
    pub is_pageable: Option<bool>,
}
