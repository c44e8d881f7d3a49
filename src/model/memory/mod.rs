//! The memory of one device over time: allocations, segments, and events.
//!
//! A reader produces a [`RawMemory`]; [`replay`] turns it into a [`MemoryHistory`]. In a history the
//! unit of time is the *state*: state 0 is before the first event, state `i` is after `i` events, so a
//! history of n events has n + 1 states. An allocation is live in the states `start..end`.

mod blocks;
mod curves;
mod enclosing;
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

pub use blocks::Blocks;
pub use curves::{Curves, highest};
pub(super) use enclosing::take_enclosing;
pub use event::{MemoryAction, MemoryEvent, MemoryEvents, MemoryNote, OutOfMemory};
pub use inconsistency::Inconsistency;
pub use kind::{SMALL, SegmentKind};
pub use raw::{BlockState, InitialBlock, RawBlock, RawMemory, RawSegment};
pub use replay::replay;
pub(super) use timeline::add_to_timeline;

/// [`MemoryHistory::device`] where the file does not say which device it is, nor whether it is the host.
pub const UNKNOWN_DEVICE: i32 = i32::MIN;

/// Whose memory it is: `GPU 0`, `Host` or `Unknown device`.
pub fn device_name(device: i32) -> String {
    match device {
        UNKNOWN_DEVICE => "Unknown device".to_owned(),
        host if is_of_host(host) => "Host".to_owned(),
        device => format!("GPU {device}"),
    }
}

/// Whether it is the host's.
pub fn is_of_host(device: i32) -> bool {
    device < 0 && device != UNKNOWN_DEVICE
}

/// An allocation of one [`MemoryHistory`]; an index into the columns of its [`Allocations`].
///
/// Ids ascend with the state of allocation, so blocks stacked by id are stacked by age.
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

/// Pool of a block: an allocator serves each stream and each private pool (of CUDA graphs, or of
/// `torch.cuda.MemPool`) from separate segments.
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

/// Source of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemorySource {
    /// PyTorch's memory history (`_record_memory_history`), with the allocator's state at its end.
    #[default]
    Snapshot,
    /// The profiler's `[memory]` events: an allocator's blocks, without segments.
    Profiler,
    /// Allocations of the CUDA driver in an Nsight Systems export.
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

    /// Display name.
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
    /// Index of the device; -1 is the host, or [`UNKNOWN_DEVICE`].
    pub device: i32,
    /// The process that used it, if the file distinguishes processes.
    pub pid: Option<i64>,
    pub source: MemorySource,
    /// Whether events have times. If not, `events.ts` counts events.
    pub has_time: bool,
    /// From the first to the last recorded time; of a profiler that of the whole trace.
    pub span: TimeRange,
    /// Each pool once.
    pub pools: Vec<MemoryPool>,
    /// In file order, which is also the order of time.
    pub events: MemoryEvents,
    /// A change of category begins another one.
    pub allocations: Allocations,
    /// Which of them are the same block.
    pub blocks: Blocks,
    /// All segments ever reserved: those from before the recording first, then by start.
    pub segments: Vec<Segment>,
    /// Whether it is known how much was reserved: by segments, or by the totals of a profiler's `[memory]` events.
    pub has_reserved: bool,
    pub curves: Curves,
    /// Sorted by event.
    pub ooms: Vec<OutOfMemory>,
    /// Notes recorded with events, sorted by event.
    pub notes: Vec<MemoryNote>,
    /// The forward-pass stack of allocations in a backward pass, sorted by event.
    pub forward: Vec<(u32, StackId)>,
    /// Sorted by start.
    pub annotations: Vec<MemoryAnnotation>,
    /// Inconsistencies of the recording, with their counts and first events.
    pub inconsistencies: Vec<(Inconsistency, u64, u32)>,
    /// The allocator's settings in the order of the file: (key, text).
    pub settings: Vec<(String, String)>,
}

/// The allocations of one history, by [`AllocationId`]. All columns are equally long.
#[derive(Debug, Default)]
pub struct Allocations {
    /// Address on the device; see [`MemoryHistory::address_of`].
    pub addr: Vec<u64>,
    /// Size of the block in bytes. If only the request is known, it is rounded up to 512 bytes as in PyTorch's
    /// allocator.
    pub bytes: Vec<u64>,
    /// Requested bytes.
    pub requested: Vec<u64>,
    /// The first state in which it is live; 0 if allocated before the recording.
    pub start: Vec<u32>,
    /// The first state after the program freed it, at most `end`. A stream may delay the reuse of the block
    /// until `end`.
    pub freed: Vec<u32>,
    /// The first state in which it is no longer live; number of events + 1 if live at the end.
    pub end: Vec<u32>,
    pub pool: Vec<PoolId>,
    /// Its segment, as an index into [`MemoryHistory::segments`]; `u32::MAX` if unknown.
    pub segment: Vec<u32>,
    /// Call stack of the allocation; empty if unknown.
    pub stack: Vec<StackId>,
    /// Recorded category, such as `PARAMETER`. The column is empty if no allocation has one.
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

    /// Whether its allocation was recorded: it was not there before the recording.
    pub fn was_recorded(&self, id: AllocationId) -> bool {
        self.start[id.idx()] > 0
    }

    /// Recorded category of an allocation; the empty string if none.
    pub fn category(&self, id: AllocationId) -> StringId {
        self.category.get(id.idx()).copied().unwrap_or_default()
    }
}

/// A reserved address range of the device; a change of size starts a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub addr: u64,
    pub bytes: u64,
    /// The first state in which it is reserved; 0 if reserved before the recording.
    pub start: u32,
    /// The first state in which it is no longer reserved; number of events + 1 if reserved at the end.
    pub end: u32,
    pub pool: PoolId,
    pub kind: SegmentKind,
    /// Mapped in parts: `expandable_segments:True`.
    pub is_expandable: bool,
    /// Call stack of the reservation; empty if unknown.
    pub stack: StackId,
}

impl Segment {
    /// Whether it is reserved in `state`.
    pub fn is_live(&self, state: u32) -> bool {
        self.start <= state && state < self.end
    }
}

/// A named time range recorded along with the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAnnotation {
    pub name: StringId,
    pub start: TimeNs,
    /// The end of the history if the file records none.
    pub end: TimeNs,
    pub has_end: bool,
}

impl MemoryAction {
    /// Whether such an event changes what is allocated or reserved.
    pub fn changes_memory(self) -> bool {
        !matches!(self, Self::Annotate | Self::OutOfMemory | Self::Snapshot)
    }
}

impl MemoryHistory {
    /// Whether only the state at the end was recorded: nothing that changes memory came before it. Cost: O(n).
    pub fn is_state_only(&self) -> bool {
        self.source == MemorySource::Snapshot && !self.has_changes()
    }

    /// Whether memory changed while it was recorded. Cost: O(n), and O(1) where the first events change it.
    pub fn has_changes(&self) -> bool {
        self.events.action.iter().any(|action| action.changes_memory())
    }

    /// Whether it is known in which segments blocks lie, and when these were reserved: a profiler records totals alone.
    pub fn has_segments(&self) -> bool {
        self.source == MemorySource::Snapshot || !self.segments.is_empty()
    }

    /// The address of an allocation; `None` if none was recorded. In a memory timeline these only tell blocks apart.
    pub fn address_of(&self, id: AllocationId) -> Option<u64> {
        (self.source != MemorySource::Timeline).then(|| self.allocations.addr[id.idx()])
    }

    /// Whether an event allocates a block that was not there: a change of category allocates nothing.
    pub fn allocates(&self, event: usize) -> bool {
        self.events.action[event] == MemoryAction::Alloc && !blocks::changes_category(self.source, &self.events, event)
    }

    /// How many blocks were allocated, before the recording or in it.
    pub fn n_blocks(&self) -> usize {
        self.allocations.len() - self.blocks.n_changes()
    }

    /// The first state in which the block of an allocation is live, and the first in which it no longer is.
    pub fn states_of(&self, id: AllocationId) -> [u32; 2] {
        let [first, last] = self.blocks.ends(id);
        [self.allocations.start[first.idx()], self.allocations.end[last.idx()]]
    }

    /// Number of states: events + 1.
    pub fn n_states(&self) -> u32 {
        self.events.len() as u32 + 1
    }

    /// The state after the last event.
    pub fn last_state(&self) -> u32 {
        self.events.len() as u32
    }

    /// The time at which `state` begins.
    pub fn time_of(&self, state: u32) -> TimeNs {
        let event = state.checked_sub(1).and_then(|event| self.events.ts.get(event as usize));
        event.copied().unwrap_or(self.span.start)
    }

    /// The state at a time: after all events up to and including it.
    pub fn state_at(&self, ts: TimeNs) -> u32 {
        self.events.ts.partition_point(|&at| at <= ts) as u32
    }

    /// The time range in which the block of an allocation is live.
    pub fn life(&self, id: AllocationId) -> TimeRange {
        let [start, end] = self.states_of(id);
        let end = if end > self.last_state() { self.span.end } else { self.time_of(end) };
        TimeRange { start: self.time_of(start), end }
    }

    /// Lifetime of the block of an allocation, or its age if live at the end: in nanoseconds, or in events if the
    /// history has no times.
    pub fn lifetime(&self, id: AllocationId) -> DurNs {
        if self.has_time {
            return self.life(id).dur();
        }
        let [start, end] = self.states_of(id);
        i64::from(end.min(self.last_state()).saturating_sub(start))
    }

    /// The event that allocated its block; `None` if allocated before the recording.
    pub fn alloc_event(&self, id: AllocationId) -> Option<u32> {
        self.states_of(id)[0].checked_sub(1)
    }

    /// The event that completed the free of its block; `None` if live at the end.
    pub fn free_event(&self, id: AllocationId) -> Option<u32> {
        self.states_of(id)[1].checked_sub(1).filter(|&event| event < self.last_state())
    }

    /// Bytes of all allocations before `id` that are live in `state`: the offset of the block in a stack by
    /// age. Cost: O(allocations).
    pub fn bytes_below(&self, id: AllocationId, state: u32) -> u64 {
        let older = (0..id.0).map(AllocationId).filter(|&older| self.allocations.is_live(older, state));
        older.map(|older| self.allocations.bytes[older.idx()]).sum()
    }

    /// The pool of an allocation.
    pub fn pool_of(&self, id: AllocationId) -> MemoryPool {
        self.pools.get(self.allocations.pool[id.idx()].0 as usize).copied().unwrap_or_default()
    }

    /// The notes of an event.
    pub fn notes_of(&self, event: u32) -> &[MemoryNote] {
        let first = self.notes.partition_point(|note| note.event < event);
        let count = self.notes[first..].partition_point(|note| note.event == event);
        &self.notes[first..first + count]
    }

    /// `GPU 0 memory`, `Host memory` or `Unknown device memory`.
    pub fn title(&self) -> String {
        format!("{} memory", device_name(self.device))
    }
}
