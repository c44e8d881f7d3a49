//! The allocator's segments in one state: blocks, free ranges, and fragmentation.

#[cfg(test)]
mod tests;

use hashbrown::HashMap;

use super::live::{LiveUntil, live};
use crate::model::MemoryHistory;
use crate::model::memory::{AllocationId, PoolId, SMALL, Segment, SegmentKind};

/// PyTorch never splits off a smaller block (`kMinBlockSize`), in bytes.
const MIN_BLOCK: u64 = 512;

/// The fewest bytes behind a block that are free: fewer were not split off.
pub fn least_free(kind: SegmentKind, is_expandable: bool) -> u64 {
    if kind == SegmentKind::Large && !is_expandable { SMALL + 1 } else { MIN_BLOCK }
}

/// Byte totals of a segment, a pool or all pools: `reserved = allocated + awaiting_free + unsplit + free`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemorySums {
    pub reserved: u64,
    pub allocated: u64,
    /// Freed by the program, but not yet reusable.
    pub awaiting_free: u64,
    /// Remainders behind blocks, too small to be split off.
    pub unsplit: u64,
    pub free: u64,
    /// The largest contiguous free range.
    pub largest_free: u64,
    /// Number of contiguous free ranges.
    pub free_parts: u64,
    /// Free, but in segments that hold blocks, which keep them from being released. Of an expandable segment each run
    /// of mapped pieces counts as one: what is not mapped is not reserved. Of such a run whole pages without a block
    /// can be released all the same.
    pub pinned: u64,
    /// Sum over segments of free bytes times fragmentation.
    scattered: f64,
}

impl MemorySums {
    /// Fragmentation of free memory, 0 to 1: for a segment 1 - Σ free² / (Σ free)² over its free ranges, as
    /// in PyTorch's `MemoryViz`; for several the mean weighted by free bytes. 0 means at most one free
    /// range per segment, values near 1 many small ones.
    ///
    /// The formula is applied per segment because across segments it is misleading: twenty entirely free
    /// segments would give 0.95, although each can be released or serve any request that fits.
    pub fn fragmentation(&self) -> f64 {
        if self.free == 0 { 0.0 } else { self.scattered / self.free as f64 }
    }

    /// The totals of one segment.
    fn of(parts: &[SegmentPart]) -> Self {
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
        sums.pinned = if sums.free == sums.reserved { 0 } else { sums.free };
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

/// Use of a part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    Allocated(AllocationId),
    AwaitingFree(AllocationId),
    Unsplit,
    Free,
}

/// A contiguous part of a segment with one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPart {
    pub addr: u64,
    pub bytes: u64,
    pub kind: PartKind,
}

/// A segment; adjacent mappings of an expandable segment are merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentState {
    /// Indices into [`MemoryHistory::segments`].
    pub segments: Vec<u32>,
    pub addr: u64,
    pub bytes: u64,
    pub is_expandable: bool,
    /// By address, without gaps or overlaps.
    pub parts: Vec<SegmentPart>,
    pub sums: MemorySums,
}

/// The segments that serve requests of one pool and size class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolState {
    pub pool: PoolId,
    pub kind: SegmentKind,
    /// By address.
    pub segments: Vec<SegmentState>,
    pub sums: MemorySums,
}

/// The contents of an allocator in one state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocatorState {
    pub state: u32,
    /// By pool, then kind.
    pub pools: Vec<PoolState>,
    pub sums: MemorySums,
    /// Bytes of live blocks outside any segment, as in a recording without segments, or overlapping another
    /// block. `sums.allocated + sums.awaiting_free + unplaced` equals the curve `active`.
    pub unplaced: u64,
}

/// The allocator's pools, segments and blocks in a state.
///
/// * Memory covered by no block is free. If only the requested size of a block is known, its size is the
///   request rounded up, and the unsplit remainder behind it is distinguished from free memory by size.
/// * Cost: O(segments + blocks allocated so far + live blocks · log). Empty once cancelled.
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
        segment.sums = MemorySums::of(&segment.parts);
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
    /// Adds a part that no block covers.
    fn gap(&mut self, from: u64, to: u64, kind: SegmentKind) {
        let Some(bytes) = to.checked_sub(from).filter(|&bytes| bytes > 0) else { return };
        let is_unsplit = !self.parts.is_empty() && bytes < least_free(kind, self.is_expandable);
        let kind = if is_unsplit { PartKind::Unsplit } else { PartKind::Free };
        self.parts.push(SegmentPart { addr: from, bytes, kind });
    }
}

/// The reserved segments in a state, by address.
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
                // The end must fit into an address.
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
