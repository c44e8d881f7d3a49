//! Growth of reserved memory and its causes: fragmentation or demand.

mod excess;
mod shares;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::ops::Range;

pub use excess::{Excess, ExcessCause};
pub use shares::{GrowthShares, shares};

use super::free::FreeSpaceSweep;
use super::state::{PartKind, PoolState, allocator};
use crate::model::MemoryHistory;
use crate::model::memory::{AllocationId, MemoryAction, PoolId, SegmentKind};

/// Why a request could not be served from memory that was already reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Enough bytes were free, but no contiguous range was large enough.
    Fragmentation,
    /// Too few bytes were free.
    Demand,
    /// A free range was large enough but not used: the allocator does not split large blocks
    /// (`max_split_size_mb`), or the file omits the block that occupied it.
    Unexplained,
    /// No allocation follows in the newly reserved memory.
    NoRequest,
}

/// One growth of reserved memory. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Consecutive segment events: one `segment_alloc`, or the mappings of an expandable segment for one
    /// request, with the segments released just before; without these if the program released them.
    pub events: Range<u32>,
    pub pool: PoolId,
    pub kind: SegmentKind,
    /// Bytes reserved.
    pub bytes: u64,
    /// Bytes returned to the device just before.
    pub released: u64,
    /// The allocation that caused the growth.
    pub request: Option<AllocationId>,
    /// Size of that block.
    pub requested: u64,
    /// Free beforehand in segments of the same pool and kind.
    pub free: u64,
    /// The largest contiguous free range among them.
    pub largest_free: u64,
    pub cause: Cause,
    /// Bytes of the request in the new memory that scattered free memory of the same pool and kind could have held.
    pub scattered: u64,
    /// Bytes reserved for neither that nor need: free memory of other pools and kinds could have held the request, the
    /// segment is larger than the request, or no cause is known.
    pub avoidable: u64,
    /// Of that all that was reserved if a free range of another stream would have held the request.
    pub of_streams: u64,
}

impl Growth {
    /// The state just before the growth.
    pub fn state(&self) -> u32 {
        self.events.start
    }
}

/// Each growth of reserved memory with its cause, in event order; empty once cancelled.
///
/// The request is the allocation directly after the segment events; it must overlap the memory they
/// reserved. PyTorch's allocator holds its lock in between. Free bytes are summed over all segments of the
/// same pool and kind, without unsplit remainders.
///
/// Cost: O((n + m) log m) for n events and m blocks and segments.
pub fn growth(history: &MemoryHistory, is_cancelled: &dyn Fn() -> bool) -> Vec<Growth> {
    let mut sweep = FreeSpaceSweep::new(history);
    let actions = &history.events.action;
    let is_segment = |event: usize| actions.get(event).is_some_and(|&action| role(action).is_some());
    let mut found = Vec::new();
    let mut event = 0;
    while event < actions.len() {
        if !is_segment(event) {
            event += 1;
            continue;
        }
        let first = event;
        while is_segment(event) {
            event += 1;
        }
        if is_cancelled() {
            return Vec::new();
        }
        sweep.advance(first as u32);
        let growth = growth_of(history, &sweep, first..event);
        // The allocator releases what is free where nothing of it serves a request. Where something would have served,
        // the program released it before: the request found what was left.
        let n_released = actions[first..event].iter().take_while(|&&action| role(action) == Some(false)).count();
        let is_released = n_released > 0 && growth.as_ref().is_some_and(|of| of.cause == Cause::Unexplained);
        found.extend(if is_released {
            sweep.advance((first + n_released) as u32);
            let released = growth.map_or(0, |growth| growth.released);
            growth_of(history, &sweep, first + n_released..event).map(|growth| Growth { released, ..growth })
        } else {
            growth
        });
    }
    found
}

/// Whether an event reserves (true) or releases (false) device memory.
fn role(action: MemoryAction) -> Option<bool> {
    match action {
        MemoryAction::SegmentAlloc | MemoryAction::SegmentMap => Some(true),
        MemoryAction::SegmentFree | MemoryAction::SegmentUnmap => Some(false),
        _ => None,
    }
}

/// The growth caused by consecutive segment events; `None` if they reserve nothing.
fn growth_of(history: &MemoryHistory, sweep: &FreeSpaceSweep<'_>, events: Range<usize>) -> Option<Growth> {
    let of = &history.events;
    let sum = |wanted| {
        let sizes = events.clone().filter(|&event| role(of.action[event]) == Some(wanted));
        sizes.fold(0_u64, |sum, event| sum.saturating_add(of.bytes[event]))
    };
    let last = events.clone().rfind(|&event| role(of.action[event]) == Some(true))?;
    let next = events.end;
    let request = of.action.get(next).filter(|&&action| action == MemoryAction::Alloc);
    let request = request.map(|_| AllocationId(of.allocation[next])).filter(|id| {
        let (addr, bytes) = (history.allocations.addr[id.idx()], history.allocations.bytes[id.idx()]);
        events.clone().any(|event| {
            let (start, size) = (of.addr[event], of.bytes[event]);
            role(of.action[event]) == Some(true)
                && addr < start.saturating_add(size)
                && start < addr.saturating_add(bytes)
        })
    });
    let requested = request.map_or(0, |id| history.allocations.bytes[id.idx()]);
    let pool = of.pool[last];
    let kind = SegmentKind::serving(if request.is_some() { requested } else { of.bytes[last] });
    let (free, largest_free) = sweep.free(pool, kind);
    let cause = match request {
        None => Cause::NoRequest,
        Some(_) if largest_free >= requested => Cause::Unexplained,
        Some(_) if free >= requested => Cause::Fragmentation,
        Some(_) => Cause::Demand,
    };
    let bytes = sum(true);
    // What of the request lies in the new memory; the rest of an expandable segment's request extends a free range.
    let placed = request.map_or(0, |id| {
        let addr = history.allocations.addr[id.idx()];
        let reserving = events.clone().filter(|&event| role(of.action[event]) == Some(true));
        let overlap = |event: usize| {
            let end = of.addr[event].saturating_add(of.bytes[event]).min(addr.saturating_add(requested));
            end.saturating_sub(of.addr[event].max(addr))
        };
        reserving.map(overlap).sum::<u64>().min(bytes)
    });
    let is_known = matches!(cause, Cause::Fragmentation | Cause::Demand);
    // Where one piece of another stream would have held the request, neither scattered pieces nor need are the cause.
    let is_of_streams = is_known && sweep.is_free_in_another_stream(pool, kind, requested);
    let of_streams = if is_of_streams { bytes } else { 0 };
    let left = if is_known && !is_of_streams { placed } else { 0 };
    let scattered = left.min(free.saturating_sub(requested - placed));
    let elsewhere: u64 = sweep.each().filter(|other| other.0 != (pool, kind)).map(|other| other.1).sum();
    let needed = (left - scattered).saturating_sub(elsewhere);
    let events = events.start as u32..events.end as u32;
    Some(Growth {
        events,
        pool,
        kind,
        bytes,
        released: sum(false),
        request,
        requested,
        free,
        largest_free,
        cause,
        scattered,
        avoidable: bytes - scattered - needed,
        of_streams,
    })
}

/// The address range of a segment, large enough for a request, that is occupied by the fewest bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedRange {
    pub addr: u64,
    pub bytes: u64,
    /// The live blocks in the range, the largest first.
    pub blocks: Vec<AllocationId>,
    pub blocks_bytes: u64,
}

/// The blocks that prevented a request from being served. `None` if no segment with anything free is large enough.
///
/// Cost: that of [`allocator`].
pub fn pins(history: &MemoryHistory, growth: &Growth, is_cancelled: &dyn Fn() -> bool) -> Option<PinnedRange> {
    let state = allocator(history, growth.state(), is_cancelled);
    let pool = state.pools.iter().find(|pool| (pool.pool, pool.kind) == (growth.pool, growth.kind))?;
    pins_in(pool, growth.requested)
}

/// As [`pins`], for any pool and request. Cost: O(parts of the pool).
fn pins_in(pool: &PoolState, requested: u64) -> Option<PinnedRange> {
    let mut best: Option<(u64, usize, Range<usize>)> = None;
    for (i, segment) in pool.segments.iter().enumerate() {
        let held = |at: usize| match segment.parts[at].kind {
            PartKind::Free => 0,
            _ => segment.parts[at].bytes,
        };
        // The shortest sufficient range from each part on: a sliding window.
        let (mut end, mut bytes, mut pinned) = (0, 0_u64, 0_u64);
        for start in 0..segment.parts.len() {
            while end < segment.parts.len() && bytes < requested {
                bytes += segment.parts[end].bytes;
                pinned += held(end);
                end += 1;
            }
            if bytes < requested {
                break;
            }
            // One that blocks fill is no room that they take.
            if pinned < bytes && best.as_ref().is_none_or(|best| pinned < best.0) {
                best = Some((pinned, i, start..end));
            }
            bytes -= segment.parts[start].bytes;
            pinned -= held(start);
        }
    }
    let (blocks_bytes, segment, parts) = best?;
    let parts = &pool.segments[segment].parts[parts];
    let blocks = parts.iter().filter_map(|part| match part.kind {
        PartKind::Allocated(id) | PartKind::AwaitingFree(id) => Some((part.bytes, id)),
        PartKind::Unsplit | PartKind::Free => None,
    });
    let mut blocks: Vec<(u64, AllocationId)> = blocks.collect();
    blocks.sort_by_key(|&(bytes, id)| (Reverse(bytes), id));
    let blocks = blocks.into_iter().map(|(_, id)| id).collect();
    let bytes = parts.iter().map(|part| part.bytes).sum();
    Some(PinnedRange { addr: parts.first()?.addr, bytes, blocks, blocks_bytes })
}
