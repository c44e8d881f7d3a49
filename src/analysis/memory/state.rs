//! What does the allocator hold at a moment, and what of it is free?

#[cfg(test)]
mod tests;

use hashbrown::HashMap;

use super::live::{LiveUntil, live};
use crate::model::MemoryHistory;
use crate::model::memory::{AllocationId, PoolId, SMALL, Segment, SegmentKind};

/// Nothing smaller is ever split off (`kMinBlockSize`).
const MIN_BLOCK: u64 = 512;

/// Bytes of a segment, a pool, or all. `reserved = allocated + awaiting_free + unsplit + free`, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemorySums {
    pub reserved: u64,
    pub allocated: u64,
    /// Given back by the program, but not yet to be used again.
    pub awaiting_free: u64,
    /// Behind blocks, too small for the allocator to split off.
    pub unsplit: u64,
    pub free: u64,
    /// The largest free stretch.
    pub largest_free: u64,
    /// Number of free stretches.
    pub free_parts: u64,
    /// Free, but in segments that blocks keep from being given back to the device. Those that expand do
    /// not count: they give back page by page.
    pub pinned: u64,
    /// Free bytes of each segment times how scattered they are in it.
    scattered: f64,
}

impl MemorySums {
    /// How scattered free memory is within its segments: of a segment 1 - Σ free² / (Σ free)² over its
    /// free stretches, as `MemoryViz` has it; of many the mean, weighed with their free bytes. 0 is at
    /// most one stretch in each segment, near 1 are many small ones.
    ///
    /// Over the stretches of all segments the formula would say nothing: twenty wholly free segments
    /// would give 0.95, though any of them can be given back to the device and serves any request that
    /// fits in it.
    pub fn fragmentation(&self) -> f64 {
        if self.free == 0 { 0.0 } else { self.scattered / self.free as f64 }
    }

    /// The sums of one segment.
    fn of(parts: &[SegmentPart], is_expandable: bool) -> Self {
        let mut sums = Self::default();
        let mut squares = 0_u128;
        for part in parts {
            sums.reserved += part.bytes;
            match part.kind {
                PartKind::Allocated(_) => sums.allocated += part.bytes,
                PartKind::AwaitingFree(_) => sums.awaiting_free += part.bytes,
                PartKind::Unsplit => sums.unsplit += part.bytes,
                PartKind::Free => {
                    sums.free += part.bytes;
                    sums.largest_free = sums.largest_free.max(part.bytes);
                    sums.free_parts += 1;
                    squares += u128::from(part.bytes) * u128::from(part.bytes);
                }
            }
        }
        sums.pinned = if is_expandable || sums.free == sums.reserved { 0 } else { sums.free };
        if sums.free_parts > 1 {
            sums.scattered = sums.free as f64 - squares as f64 / sums.free as f64;
        }
        sums
    }

    fn add(&mut self, other: &Self) {
        self.reserved += other.reserved;
        self.allocated += other.allocated;
        self.awaiting_free += other.awaiting_free;
        self.unsplit += other.unsplit;
        self.free += other.free;
        self.largest_free = self.largest_free.max(other.largest_free);
        self.free_parts += other.free_parts;
        self.pinned += other.pinned;
        self.scattered += other.scattered;
    }
}

/// Who has a stretch of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    Allocated(AllocationId),
    AwaitingFree(AllocationId),
    Unsplit,
    Free,
}

/// A stretch of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPart {
    pub addr: u64,
    pub bytes: u64,
    pub kind: PartKind,
}

/// A segment; the adjacent pieces of an expandable one are one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentState {
    /// Indices into [`MemoryHistory::segments`].
    pub segments: Vec<u32>,
    pub addr: u64,
    pub bytes: u64,
    pub is_expandable: bool,
    /// By address; they tile the segment.
    pub parts: Vec<SegmentPart>,
    pub sums: MemorySums,
}

/// What serves requests of one stream and size class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolState {
    pub pool: PoolId,
    pub kind: SegmentKind,
    /// By address.
    pub segments: Vec<SegmentState>,
    pub sums: MemorySums,
}

/// All that an allocator holds at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocatorState {
    pub state: u32,
    /// By pool, then kind.
    pub pools: Vec<PoolState>,
    pub sums: MemorySums,
    /// Bytes of live blocks that lie in no segment, or where another block does: such as those of a
    /// recording without segments. `sums.allocated + sums.awaiting_free + unplaced` is the curve
    /// `active`, exactly.
    pub unplaced: u64,
}

/// The allocator in a state.
///
/// * Free is what no block covers. Where only a block's request is known its size is that, rounded up,
///   and what PyTorch left unsplit behind it is told apart from free memory by its size.
/// * Cost: O(segments + blocks that began by then + live blocks · log). Nothing once cancelled.
pub fn allocator(history: &MemoryHistory, state: u32, is_cancelled: &dyn Fn() -> bool) -> AllocatorState {
    let all = &history.allocations;
    let mut found = AllocatorState { state, ..AllocatorState::default() };
    let mut blocks: Vec<AllocationId> = live(history, state, LiveUntil::Active).collect();
    if is_cancelled() {
        return found;
    }
    blocks.sort_by_key(|id| all.addr[id.idx()]);
    let mut blocks = blocks.into_iter().peekable();
    let mut index: HashMap<(PoolId, SegmentKind), usize> = HashMap::new();
    for (pool, kind, mut segment) in segments(history, state) {
        if is_cancelled() {
            return AllocatorState { state, ..AllocatorState::default() };
        }
        let end = segment.addr + segment.bytes;
        let mut at = segment.addr;
        while let Some(id) = blocks.next_if(|id| all.addr[id.idx()] < end) {
            let (addr, bytes) = (all.addr[id.idx()], all.bytes[id.idx()]);
            let (from, to) = (addr.max(at), addr.saturating_add(bytes).min(end));
            let placed = to.saturating_sub(from);
            found.unplaced += bytes - placed;
            if placed > 0 {
                segment.gap(at, from, kind);
                let is_allocated = all.freed[id.idx()] > state;
                let kind = if is_allocated { PartKind::Allocated(id) } else { PartKind::AwaitingFree(id) };
                segment.parts.push(SegmentPart { addr: from, bytes: placed, kind });
                at = to;
            }
        }
        segment.gap(at, end, kind);
        segment.sums = MemorySums::of(&segment.parts, segment.is_expandable);
        found.sums.add(&segment.sums);
        let at = *index.entry((pool, kind)).or_insert_with(|| {
            found.pools.push(PoolState { pool, kind, ..PoolState::default() });
            found.pools.len() - 1
        });
        found.pools[at].sums.add(&segment.sums);
        found.pools[at].segments.push(segment);
    }
    found.unplaced += blocks.map(|id| all.bytes[id.idx()]).sum::<u64>();
    found.pools.sort_by_key(|pool| (pool.pool, pool.kind));
    found
}

impl SegmentState {
    /// Adds what no block covers.
    fn gap(&mut self, from: u64, to: u64, kind: SegmentKind) {
        let Some(bytes) = to.checked_sub(from).filter(|&bytes| bytes > 0) else { return };
        let least = if kind == SegmentKind::Large && !self.is_expandable { SMALL + 1 } else { MIN_BLOCK };
        let kind = if !self.parts.is_empty() && bytes < least { PartKind::Unsplit } else { PartKind::Free };
        self.parts.push(SegmentPart { addr: from, bytes, kind });
    }
}

/// What is reserved in a state, by address.
fn segments(history: &MemoryHistory, state: u32) -> Vec<(PoolId, SegmentKind, SegmentState)> {
    let mut live: Vec<u32> = (0..history.segments.len() as u32).collect();
    live.retain(|&segment| history.segments[segment as usize].is_live(state));
    live.sort_by_key(|&segment| history.segments[segment as usize].addr);
    let mut found: Vec<(PoolId, SegmentKind, SegmentState)> = Vec::new();
    for index in live {
        let Segment { addr, bytes, pool, kind, is_expandable, .. } = history.segments[index as usize];
        match found.last_mut() {
            Some((last_pool, last_kind, last))
                if is_expandable
                    && last.is_expandable
                    && (*last_pool, *last_kind) == (pool, kind)
                    && last.addr + last.bytes == addr =>
            {
                last.bytes += bytes.min(u64::MAX - addr);
                last.segments.push(index);
            }
            _ => {
                let segments = vec![index];
                // The end must be an address.
                let bytes = bytes.min(u64::MAX - addr);
                found.push((
                    pool,
                    kind,
                    SegmentState { segments, addr, bytes, is_expandable, ..SegmentState::default() },
                ));
            }
        }
    }
    found
}
