//! What an allocator did, event by event.

use crate::model::{StackId, StringId, TimeNs};

use super::PoolId;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MemoryAction {
    /// The program got a block.
    Alloc,
    /// The program gave it back; the block may wait for a stream.
    FreeRequested,
    /// The block can be used again. Without a request before it, both happened at once.
    FreeCompleted,
    /// A segment came from the device (`cudaMalloc`).
    SegmentAlloc,
    /// A segment went back to the device (`cudaFree`).
    SegmentFree,
    /// A piece of an expandable segment was mapped.
    SegmentMap,
    /// A piece of an expandable segment was unmapped.
    SegmentUnmap,
    OutOfMemory,
    /// The program took a snapshot.
    Snapshot,
    /// The program left a note.
    Annotate,
}

impl MemoryAction {
    /// The name in PyTorch's files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::OutOfMemory => "oom",
            Self::Snapshot => "snapshot",
            Self::Annotate => "annotate",
        }
    }
}

/// Events in the order of the file. All columns are equally long, but for `reserved`.
#[derive(Debug, Default)]
pub struct MemoryEvents {
    /// Ascending once replayed; where the file has no times, the number of the event.
    pub ts: Vec<TimeNs>,
    pub action: Vec<MemoryAction>,
    pub addr: Vec<u64>,
    /// As the file writes it: of blocks what the program asked for, of segments their size.
    pub bytes: Vec<u64>,
    pub pool: Vec<PoolId>,
    /// Where the program was.
    pub stack: Vec<StackId>,
    /// Once replayed: the allocation that an alloc or a free belongs to, `u32::MAX` for none.
    pub allocation: Vec<u32>,
    /// What the recorder says is reserved after each event, in bytes; empty where it does not, and once
    /// replayed, as [`Curves`](super::Curves) has it then.
    pub reserved: Vec<u64>,
}

/// One event as a reader finds it.
#[derive(Clone, Copy, Debug)]
pub struct MemoryEvent {
    pub ts: TimeNs,
    pub action: MemoryAction,
    pub addr: u64,
    pub bytes: u64,
    pub pool: PoolId,
    pub stack: StackId,
}

impl MemoryEvents {
    pub fn push(&mut self, event: MemoryEvent) {
        self.ts.push(event.ts);
        self.action.push(event.action);
        self.addr.push(event.addr);
        self.bytes.push(event.bytes);
        self.pool.push(event.pool);
        self.stack.push(event.stack);
    }

    pub fn len(&self) -> usize {
        self.ts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }
}

/// A request that the device could not serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutOfMemory {
    pub event: u32,
    /// What the program asked for, in bytes.
    pub requested: u64,
    /// What the device had left outside of the allocator, in bytes, if the file says so.
    pub device_free: Option<u64>,
}

/// What a program said of an event: its metadata, the compiled region, the category of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryNote {
    pub event: u32,
    /// The key in the file, such as `user_metadata`.
    pub key: StringId,
    pub text: StringId,
}
