//! Why did the allocator take more memory from the device?

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::free::FreeSpaceSweep;
use super::state::{PartKind, PoolState, allocator};
use crate::model::MemoryHistory;
use crate::model::memory::{AllocationId, MemoryAction, PoolId, SegmentKind};

/// Why a request could not be served from what was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Enough was free, but no stretch was large enough.
    Fragmentation,
    /// Not enough was free.
    Demand,
    /// A stretch was large enough and yet was not used: the allocator keeps large blocks whole
    /// (`max_split_size_mb`), or the file leaves out what filled it.
    Unexplained,
    /// No allocation follows in what was reserved.
    NoRequest,
}

/// One time that the allocator took more memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The segment events that belong together: one `segment_alloc`, or the pieces that were mapped for
    /// one request, with what was given back just before.
    pub events: Range<u32>,
    pub pool: PoolId,
    pub kind: SegmentKind,
    /// Bytes reserved.
    pub bytes: u64,
    /// Bytes given back to the device just before, to make room.
    pub released: u64,
    /// The allocation that needed it.
    pub request: Option<AllocationId>,
    /// Bytes of that block.
    pub requested: u64,
    /// Bytes free before in segments of the same pool and kind.
    pub free: u64,
    /// The largest stretch of them.
    pub largest_free: u64,
    pub cause: Cause,
}

impl Growth {
    /// The state just before it.
    pub fn state(&self) -> u32 {
        self.events.start
    }
}

/// All growth of what is reserved, in order.
///
/// The request is the allocation right after the segment events, which must lie at least partly in what
/// they reserved: PyTorch's allocator holds its lock in between. What is free is counted over all its
/// segments of the same pool and kind, without what it leaves unsplit.
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
        found.extend(one(history, &sweep, first..event));
    }
    found
}

/// Whether an event reserves (true) or gives back (false) memory of the device.
fn role(action: MemoryAction) -> Option<bool> {
    match action {
        MemoryAction::SegmentAlloc | MemoryAction::SegmentMap => Some(true),
        MemoryAction::SegmentFree | MemoryAction::SegmentUnmap => Some(false),
        _ => None,
    }
}

/// The growth by segment events that follow each other, if they reserve anything.
fn one(history: &MemoryHistory, sweep: &FreeSpaceSweep<'_>, events: Range<usize>) -> Option<Growth> {
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
    let events = events.start as u32..events.end as u32;
    Some(Growth {
        events,
        pool,
        kind,
        bytes: sum(true),
        released: sum(false),
        request,
        requested,
        free,
        largest_free,
        cause,
    })
}

/// The stretch of a segment that fewest bytes of blocks keep from serving a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedRange {
    pub addr: u64,
    pub bytes: u64,
    /// The blocks in it: without them it would be free.
    pub blocks: Vec<AllocationId>,
    pub blocks_bytes: u64,
}

/// Which blocks stood in the way of a request. `None` if no segment is large enough at all.
///
/// Cost: that of [`allocator`].
pub fn pins(history: &MemoryHistory, growth: &Growth, is_cancelled: &dyn Fn() -> bool) -> Option<PinnedRange> {
    let state = allocator(history, growth.state(), is_cancelled);
    let pool = state.pools.iter().find(|pool| (pool.pool, pool.kind) == (growth.pool, growth.kind))?;
    pins_in(pool, growth.requested)
}

/// The same in any pool and state.
fn pins_in(pool: &PoolState, requested: u64) -> Option<PinnedRange> {
    let mut best: Option<(u64, usize, Range<usize>)> = None;
    for (i, segment) in pool.segments.iter().enumerate() {
        let held = |at: usize| match segment.parts[at].kind {
            PartKind::Free => 0,
            _ => segment.parts[at].bytes,
        };
        // The shortest stretch from each part on, by two indices that only go up.
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
            if best.as_ref().is_none_or(|best| pinned < best.0) {
                best = Some((pinned, i, start..end));
            }
            bytes -= segment.parts[start].bytes;
            pinned -= held(start);
        }
    }
    let (blocks_bytes, segment, parts) = best?;
    let parts = &pool.segments[segment].parts[parts];
    let blocks = parts.iter().filter_map(|part| match part.kind {
        PartKind::Allocated(id) | PartKind::AwaitingFree(id) => Some(id),
        PartKind::Unsplit | PartKind::Free => None,
    });
    let bytes = parts.iter().map(|part| part.bytes).sum();
    Some(PinnedRange { addr: parts.first()?.addr, bytes, blocks: blocks.collect(), blocks_bytes })
}
