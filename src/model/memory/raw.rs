//! What a file says of a device's memory, before it is replayed.

use crate::model::{StackId, StringId};

use super::{MemoryAnnotation, MemoryEvents, MemoryNote, MemoryPool, MemorySource, OutOfMemory, PoolId, SegmentKind};

/// The memory of one device as a reader finds it.
#[derive(Debug, Default)]
pub struct RawMemory {
    pub device: i32,
    pub pid: Option<i64>,
    pub source: MemorySource,
    pub has_time: bool,
    pub pools: Vec<MemoryPool>,
    /// In the order of the file; `allocation` is left empty.
    pub events: MemoryEvents,
    /// The allocator's state after the last event; `None` if the file does not say.
    pub end: Option<Vec<RawSegment>>,
    /// What the file says was live before the first event.
    pub before: Vec<InitialBlock>,
    pub ooms: Vec<OutOfMemory>,
    pub notes: Vec<MemoryNote>,
    /// The category of allocating events, by event; may be empty. Ascending.
    pub categories: Vec<(u32, StringId)>,
    pub forward: Vec<(u32, StackId)>,
    pub annotations: Vec<MemoryAnnotation>,
    pub settings: Vec<(String, String)>,
}

/// A block that was live before the first event.
#[derive(Clone, Copy, Debug, Default)]
pub struct InitialBlock {
    /// 0 for what is only a sum, such as the rest of a profiler's running total: no event frees it.
    pub addr: u64,
    pub bytes: u64,
    pub category: StringId,
}

/// A segment at the end of the recording.
#[derive(Clone, Debug, Default)]
pub struct RawSegment {
    pub addr: u64,
    pub bytes: u64,
    pub pool: PoolId,
    pub kind: SegmentKind,
    pub is_expandable: bool,
    /// Where the program was when it was reserved, if the file says so.
    pub stack: StackId,
    /// Without gaps or overlaps, in order of address, within the segment; free ones may be left out.
    pub blocks: Vec<RawBlock>,
}

/// A block of a segment at the end of the recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawBlock {
    pub addr: u64,
    pub bytes: u64,
    pub requested: u64,
    pub state: BlockState,
    pub stack: StackId,
}

/// Who has a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// The program.
    #[default]
    Allocated,
    /// A stream: freed by the program, but not yet to be used again.
    AwaitingFree,
    /// Nobody.
    Inactive,
}

impl RawMemory {
    /// The id of a pool, new or known. Where a hostile file has more pools than ids, the last is shared.
    pub fn pool(&mut self, pool: MemoryPool) -> PoolId {
        let known = self.pools.iter().position(|known| *known == pool);
        let at = known.unwrap_or_else(|| {
            if self.pools.len() < MAX_POOLS {
                self.pools.push(pool);
            }
            self.pools.len() - 1
        });
        PoolId(at as u16)
    }
}

/// Few, since they are looked up one by one. Real jobs have a handful.
const MAX_POOLS: usize = 256;
