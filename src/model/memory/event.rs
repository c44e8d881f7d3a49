//! Events of a memory allocator.

use crate::model::{StackId, StringId, TimeNs};

use super::PoolId;

/// Kind of an allocator event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MemoryAction {
    /// A block was allocated.
    Alloc,
    /// The program freed a block, which may still be in use by a stream.
    FreeRequested,
    /// The block can be reused. Without a preceding request, both happened at once.
    FreeCompleted,
    /// A segment was reserved on the device (`cudaMalloc`).
    SegmentAlloc,
    /// A segment was released to the device (`cudaFree`).
    SegmentFree,
    /// A part of an expandable segment was mapped.
    SegmentMap,
    /// A part of an expandable segment was unmapped.
    SegmentUnmap,
    OutOfMemory,
    /// The program took a snapshot.
    Snapshot,
    /// The program recorded a note.
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

/// Events in file order. All columns except `reserved` have the same length.
#[derive(Debug, Default)]
pub struct MemoryEvents {
    /// Time in nanoseconds, ascending once replayed; the event number if the file has no times.
    pub ts: Vec<TimeNs>,
    pub action: Vec<MemoryAction>,
    pub addr: Vec<u64>,
    /// Bytes as recorded: the requested size of a block, or the size of a segment.
    pub bytes: Vec<u64>,
    pub pool: Vec<PoolId>,
    /// Call stack of the event.
    pub stack: Vec<StackId>,
    /// Once replayed: the allocation of an alloc or free event; `u32::MAX` for none.
    pub allocation: Vec<u32>,
    /// Reserved bytes after each event as recorded. Empty if not recorded, and once replayed, since
    /// [`Curves`](super::Curves) holds it then.
    pub reserved: Vec<u64>,
}

/// One event as read from a file.
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

/// A failed request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutOfMemory {
    pub event: u32,
    /// Requested bytes.
    pub requested: u64,
    /// Free device memory in bytes, if recorded.
    pub device_free: Option<u64>,
}

/// A note attached to an event: user metadata, the compiled region, the category of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryNote {
    pub event: u32,
    /// The key in the file, such as `user_metadata`.
    pub key: StringId,
    pub text: StringId,
}
