//! The memory of one device over time: what its allocator gave out, took back, and holds.
//!
//! A reader hands over a [`RawMemory`]; [`replay`] turns it into a [`MemoryHistory`], once. There the
//! unit of time is the *state*: state 0 is before the first event, state `i` is after `i` events, so a
//! history of n events has n + 1 states. An allocation is live in the states `start..end`.

mod curves;
mod event;
mod inconsistency;
mod kind;
mod raw;
mod replay;
mod segments;
#[cfg(test)]
mod tests;
mod timeline;

use super::{DurNs, StackId, StringId, TimeNs, TimeRange};

pub use curves::{Curves, highest};
pub use event::{MemoryAction, MemoryEvent, MemoryEvents, MemoryNote, OutOfMemory};
pub use inconsistency::Inconsistency;
pub use kind::{SMALL, SegmentKind};
pub use raw::{BlockState, InitialBlock, RawBlock, RawMemory, RawSegment};
pub use replay::replay;
pub(super) use timeline::add_to_timeline;

/// An allocation of one [`MemoryHistory`]; an index into the columns of its [`Allocations`].
///
/// Ids ascend with the start of life: whoever stacks blocks by id stacks them by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct AllocationId(pub u32);

impl AllocationId {
    /// The id as an index.
    pub fn idx(self) -> usize {
        self.0 as usize
    }
}

/// A pool of one history; an index into [`MemoryHistory::pools`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PoolId(pub u16);

/// Whose memory a block is: an allocator serves each stream and each private pool (those of CUDA
/// graphs, or of `torch.cuda.MemPool`) from segments of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryPool {
    /// The stream's handle, 0 for the default stream.
    pub stream: i64,
    /// PyTorch's id of a private pool; (0, 0) is the common one.
    pub private: (u64, u64),
}

/// A CUDA stream by its handle: `default`, `7`, `0x5f3a10`.
pub fn stream_name(handle: i64) -> String {
    match handle {
        0 => "default".to_owned(),
        small @ 1..4096 => small.to_string(),
        other => format!("{other:#x}"),
    }
}

impl std::fmt::Display for MemoryPool {
    /// `stream 7, private pool 0.1`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.stream {
            0 => f.write_str("default stream")?,
            stream => write!(f, "stream {}", stream_name(stream))?,
        }
        match self.private {
            (0, 0) => Ok(()),
            (a, b) => write!(f, ", private pool {a}.{b}"),
        }
    }
}

/// Where a history was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemorySource {
    /// PyTorch's memory history (`_record_memory_history`), with the allocator's state at its end.
    #[default]
    Snapshot,
    /// The profiler's `[memory]` events: an allocator's blocks, without segments.
    Profiler,
    /// What an Nsight Systems export says of the CUDA driver's own allocations.
    Driver,
    /// `export_memory_timeline`: sizes by category, without addresses.
    Timeline,
}

impl MemorySource {
    /// Machine name, as `lacuna report` writes it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Profiler => "profiler",
            Self::Driver => "driver",
            Self::Timeline => "memory_timeline",
        }
    }

    /// What to call it in the window.
    pub fn label(self) -> &'static str {
        match self {
            Self::Snapshot => "memory history",
            Self::Profiler => "profiler",
            Self::Driver => "CUDA driver",
            Self::Timeline => "memory timeline",
        }
    }
}

/// The memory of one device, replayed. Immutable once read.
#[derive(Debug, Default)]
pub struct MemoryHistory {
    /// Index of the device; -1 is the host.
    pub device: i32,
    /// The process that had it, where the file tells processes apart.
    pub pid: Option<i64>,
    pub source: MemorySource,
    /// Whether events have times. Where not, `events.ts` counts events and is no time.
    pub has_time: bool,
    /// From the first to the last moment that the file knows of.
    pub span: TimeRange,
    /// Each pool once.
    pub pools: Vec<MemoryPool>,
    /// In the order of the file, which is the order of time.
    pub events: MemoryEvents,
    pub allocations: Allocations,
    /// Everything that was ever reserved; those before the recording first, then by start.
    pub segments: Vec<Segment>,
    /// Whether anything is known of segments: a profiler's `[memory]` events have none.
    pub has_segments: bool,
    pub curves: Curves,
    /// Sorted by event.
    pub ooms: Vec<OutOfMemory>,
    /// What programs said while they allocated, sorted by event.
    pub notes: Vec<MemoryNote>,
    /// The stack of the forward pass that a backward pass's allocation belongs to, sorted by event.
    pub forward: Vec<(u32, StackId)>,
    /// Sorted by start.
    pub annotations: Vec<MemoryAnnotation>,
    /// What could not have happened as it is written, with how often and the first event.
    pub inconsistencies: Vec<(Inconsistency, u64, u32)>,
    /// The allocator's settings in the order of the file: (key, text).
    pub settings: Vec<(String, String)>,
}

/// The allocations of one history, by [`AllocationId`]. All columns are equally long.
#[derive(Debug, Default)]
pub struct Allocations {
    /// Address on the device.
    pub addr: Vec<u64>,
    /// Size of the block. Where only the request is known it is rounded up to 512 bytes, as PyTorch's
    /// allocator does.
    pub bytes: Vec<u64>,
    /// What the program asked for.
    pub requested: Vec<u64>,
    /// The first state in which it is live; 0 for those from before the recording.
    pub start: Vec<u32>,
    /// The first state in which the program no longer has it, at most `end`. The allocator may wait
    /// for a stream before it takes the block back.
    pub freed: Vec<u32>,
    /// The first state in which it is not live; number of events + 1 if it still is at the end.
    pub end: Vec<u32>,
    pub pool: Vec<PoolId>,
    /// Its segment, as an index into [`MemoryHistory::segments`]; `u32::MAX` if unknown.
    pub segment: Vec<u32>,
    /// Where the program allocated it; the empty stack if unknown.
    pub stack: Vec<StackId>,
    /// What the file says it is for, such as `PARAMETER`; empty, and then shorter than the other
    /// columns, where no allocation has a category.
    pub category: Vec<StringId>,
}

impl Allocations {
    pub fn len(&self) -> usize {
        self.addr.len()
    }

    pub fn is_empty(&self) -> bool {
        self.addr.is_empty()
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = AllocationId> + use<> {
        (0..self.len() as u32).map(AllocationId)
    }

    /// Whether it is live in `state`.
    pub fn is_live(&self, id: AllocationId, state: u32) -> bool {
        self.start[id.idx()] <= state && state < self.end[id.idx()]
    }

    /// What it is for, where the file says so.
    pub fn category(&self, id: AllocationId) -> StringId {
        self.category.get(id.idx()).copied().unwrap_or_default()
    }
}

/// A stretch of the device's memory that the allocator held, as long as it kept its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub addr: u64,
    pub bytes: u64,
    /// The first state in which it is reserved; 0 for those from before the recording.
    pub start: u32,
    /// The first state in which it is not; number of events + 1 if it still is at the end.
    pub end: u32,
    pub pool: PoolId,
    pub kind: SegmentKind,
    /// Mapped piece by piece: `expandable_segments:True`.
    pub is_expandable: bool,
    /// Where the program was when it was reserved; the empty stack if unknown.
    pub stack: StackId,
}

impl Segment {
    /// Whether it is reserved in `state`.
    pub fn is_live(&self, state: u32) -> bool {
        self.start <= state && state < self.end
    }
}

/// A stretch of time that the program named while memory was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAnnotation {
    pub name: StringId,
    pub start: TimeNs,
    /// The end of the history, if it has none in the file.
    pub end: TimeNs,
    pub has_end: bool,
}

impl MemoryHistory {
    /// Number of states: events + 1.
    pub fn n_states(&self) -> u32 {
        self.events.len() as u32 + 1
    }

    /// The state after the last event.
    pub fn last_state(&self) -> u32 {
        self.events.len() as u32
    }

    /// The moment at which `state` begins.
    pub fn time_of(&self, state: u32) -> TimeNs {
        let event = state.checked_sub(1).and_then(|event| self.events.ts.get(event as usize));
        event.copied().unwrap_or(self.span.start)
    }

    /// The state at a moment: after all events up to and including it.
    pub fn state_at(&self, ts: TimeNs) -> u32 {
        self.events.ts.partition_point(|&at| at <= ts) as u32
    }

    /// From birth to death of an allocation.
    pub fn life(&self, id: AllocationId) -> TimeRange {
        let (start, end) = (self.allocations.start[id.idx()], self.allocations.end[id.idx()]);
        let end = if end > self.last_state() { self.span.end } else { self.time_of(end) };
        TimeRange { start: self.time_of(start), end }
    }

    /// How long an allocation was live, or of one that is live at the end, until then: in nanoseconds, or
    /// in events where the history has no times.
    pub fn lifetime(&self, id: AllocationId) -> DurNs {
        if self.has_time {
            return self.life(id).dur();
        }
        let (start, end) = (self.allocations.start[id.idx()], self.allocations.end[id.idx()]);
        i64::from(end.min(self.last_state()).saturating_sub(start))
    }

    /// The event that allocated it; `None` if it is from before the recording.
    pub fn alloc_event(&self, id: AllocationId) -> Option<u32> {
        self.allocations.start[id.idx()].checked_sub(1)
    }

    /// The event that freed it for good; `None` if it is live at the end.
    pub fn free_event(&self, id: AllocationId) -> Option<u32> {
        self.allocations.end[id.idx()].checked_sub(1).filter(|&event| event < self.last_state())
    }

    /// Bytes of all that was allocated before `id` and is live in `state`: where the block lies in a
    /// stack by age. Cost: O(allocations).
    pub fn bytes_below(&self, id: AllocationId, state: u32) -> u64 {
        let older = (0..id.0).map(AllocationId).filter(|&older| self.allocations.is_live(older, state));
        older.map(|older| self.allocations.bytes[older.idx()]).sum()
    }

    /// The pool of an allocation.
    pub fn pool_of(&self, id: AllocationId) -> MemoryPool {
        self.pools.get(self.allocations.pool[id.idx()].0 as usize).copied().unwrap_or_default()
    }

    /// What programs said of an event.
    pub fn notes_of(&self, event: u32) -> &[MemoryNote] {
        let first = self.notes.partition_point(|note| note.event < event);
        let count = self.notes[first..].partition_point(|note| note.event == event);
        &self.notes[first..first + count]
    }

    /// `GPU 0 memory` or `Host memory`.
    pub fn title(&self) -> String {
        match u32::try_from(self.device) {
            Ok(device) => format!("GPU {device} memory"),
            Err(_) => "Host memory".to_owned(),
        }
    }
}
