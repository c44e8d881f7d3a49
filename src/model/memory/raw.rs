//! The memory of one device as read from a file, before the replay.

use crate::model::{StackId, StringId, TimeRange};

use super::{MemoryAnnotation, MemoryEvents, MemoryNote, MemoryPool, MemorySource, OutOfMemory, PoolId, SegmentKind};

/// The memory of one device as read from a file.
#[derive(Debug, Default)]
pub struct RawMemory {
    /// As [`super::MemoryHistory::device`].
    pub device: i32,
    pub pid: Option<i64>,
    pub source: MemorySource,
    pub has_time: bool,
    pub pools: Vec<MemoryPool>,
    /// When it was recorded, where more is known of that than the times of its events.
    pub recorded: Option<TimeRange>,
    /// In file order; `allocation` is empty.
    pub events: MemoryEvents,
    /// The allocator's segments after the last event; `None` if not recorded.
    pub end: Option<Vec<RawSegment>>,
    /// Blocks recorded as live before the first event.
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
    /// 0 for a mere sum without address, such as the rest of a profiler's running total; never freed.
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
    /// Call stack of the reservation, if recorded.
    pub stack: StackId,
    /// By address, within the segment, without overlaps; free ones may be omitted.
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

/// State of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// Allocated by the program.
    #[default]
    Allocated,
    /// Freed by the program, but still in use by a stream.
    AwaitingFree,
    /// Free.
    Inactive,
}

impl RawMemory {
    /// The id of a pool, added if new. If a malformed file has more pools than ids, the last id is shared.
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

/// Limit on pools, which are searched linearly. Real jobs have a handful.
const MAX_POOLS: usize = 256;
