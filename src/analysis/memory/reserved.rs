//! Why did the allocator take more memory from the device?

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::state::{Held, PoolState, SMALL, allocator, kind_for, kinds};
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
    let mut sweep = Sweep::new(history);
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
fn one(history: &MemoryHistory, sweep: &Sweep<'_>, events: Range<usize>) -> Option<Growth> {
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
    let kind = kind_for(if request.is_some() { requested } else { of.bytes[last] });
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
pub struct Pins {
    pub addr: u64,
    pub bytes: u64,
    /// The blocks in it: without them it would be free.
    pub blocks: Vec<AllocationId>,
    pub blocks_bytes: u64,
}

/// Which blocks stood in the way of a request. `None` if no segment is large enough at all.
///
/// Cost: that of [`allocator`].
pub fn pins(history: &MemoryHistory, growth: &Growth) -> Option<Pins> {
    let state = allocator(history, growth.state());
    let pool = state.pools.iter().find(|pool| (pool.pool, pool.kind) == (growth.pool, growth.kind))?;
    pins_in(pool, growth.requested)
}

/// The same in any pool and state.
pub fn pins_in(pool: &PoolState, requested: u64) -> Option<Pins> {
    let mut best: Option<(u64, usize, Range<usize>)> = None;
    for (i, segment) in pool.segments.iter().enumerate() {
        let held = |at: usize| match segment.parts[at].held {
            Held::Free => 0,
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
    let blocks = parts.iter().filter_map(|part| match part.held {
        Held::Allocated(id) | Held::AwaitingFree(id) => Some(id),
        Held::Unsplit | Held::Free => None,
    });
    let bytes = parts.iter().map(|part| part.bytes).sum();
    Some(Pins { addr: parts.first()?.addr, bytes, blocks: blocks.collect(), blocks_bytes })
}

/// Free stretches of one pool and kind.
#[derive(Debug, Default)]
struct Space {
    /// Ends by start.
    by_addr: BTreeMap<u64, u64>,
    /// (size, start).
    by_size: BTreeSet<(u64, u64)>,
    total: u64,
}

impl Space {
    fn insert(&mut self, start: u64, end: u64) {
        if start < end {
            self.by_addr.insert(start, end);
            self.by_size.insert((end - start, start));
            self.total += end - start;
        }
    }

    fn remove(&mut self, start: u64) -> Option<u64> {
        let end = self.by_addr.remove(&start)?;
        self.by_size.remove(&(end - start, start));
        self.total -= end - start;
        Some(end)
    }

    /// Takes `start..end` away.
    fn cut(&mut self, start: u64, end: u64) {
        while let Some((&at, &until)) = self.by_addr.range(..end).next_back().filter(|(_, until)| **until > start) {
            self.remove(at);
            self.insert(at, start.min(until));
            self.insert(end.max(at), until);
        }
    }
}

/// Something reserved.
#[derive(Clone, Copy, Debug)]
struct Region {
    end: u64,
    pool: PoolId,
    kind: SegmentKind,
    is_expandable: bool,
}

/// What is free, brought forward from state to state.
struct Sweep<'a> {
    history: &'a MemoryHistory,
    kinds: Vec<SegmentKind>,
    /// Segments and blocks by end.
    segments_by_end: Vec<u32>,
    blocks_by_end: Vec<u32>,
    /// How many of each have begun and ended.
    segments: (usize, usize),
    blocks: (usize, usize),
    /// The state it is at; none at first.
    next: u32,
    /// Live segments by address.
    regions: BTreeMap<u64, Region>,
    /// Live blocks by address, with their ends.
    live: BTreeMap<u64, u64>,
    spaces: Vec<((PoolId, SegmentKind), Space)>,
}

impl<'a> Sweep<'a> {
    fn new(history: &'a MemoryHistory) -> Self {
        let order = |ends: Vec<u32>| {
            let mut order: Vec<u32> = (0..ends.len() as u32).collect();
            order.sort_by_key(|&i| ends[i as usize]);
            order
        };
        Self {
            history,
            kinds: kinds(history),
            segments_by_end: order(history.segments.iter().map(|segment| segment.end).collect()),
            blocks_by_end: order(history.allocations.end.clone()),
            segments: (0, 0),
            blocks: (0, 0),
            next: 0,
            regions: BTreeMap::new(),
            live: BTreeMap::new(),
            spaces: Vec::new(),
        }
    }

    /// Free bytes and the largest stretch.
    fn free(&self, pool: PoolId, kind: SegmentKind) -> (u64, u64) {
        let space = self.spaces.iter().find(|space| space.0 == (pool, kind)).map(|space| &space.1);
        space.map_or((0, 0), |space| (space.total, space.by_size.last().map_or(0, |last| last.0)))
    }

    /// Goes on to `state`, the states in between included.
    fn advance(&mut self, state: u32) {
        while self.next <= state {
            let (at, history) = (self.next, self.history);
            while let Some(&block) = self.blocks_by_end.get(self.blocks.1) {
                if history.allocations.end[block as usize] > at {
                    break;
                }
                self.end_block(block as usize);
                self.blocks.1 += 1;
            }
            while let Some(&segment) = self.segments_by_end.get(self.segments.1) {
                if history.segments[segment as usize].end > at {
                    break;
                }
                self.end_segment(segment as usize);
                self.segments.1 += 1;
            }
            while history.segments.get(self.segments.0).is_some_and(|segment| segment.start <= at) {
                self.begin_segment(self.segments.0, at);
                self.segments.0 += 1;
            }
            while history.allocations.start.get(self.blocks.0).is_some_and(|&start| start <= at) {
                self.begin_block(self.blocks.0, at);
                self.blocks.0 += 1;
            }
            self.next += 1;
        }
    }

    fn space(&mut self, region: &Region) -> &mut Space {
        let key = (region.pool, region.kind);
        let known = self.spaces.iter().position(|space| space.0 == key);
        let at = known.unwrap_or_else(|| {
            self.spaces.push((key, Space::default()));
            self.spaces.len() - 1
        });
        &mut self.spaces[at].1
    }

    fn begin_segment(&mut self, index: usize, state: u32) {
        let segment = &self.history.segments[index];
        if segment.end <= state {
            return;
        }
        let end = segment.addr.saturating_add(segment.bytes);
        let region = Region { end, pool: segment.pool, kind: self.kinds[index], is_expandable: segment.is_expandable };
        self.regions.insert(segment.addr, region);
        self.release(segment.addr, end);
        let within: Vec<(u64, u64)> = self
            .live
            .range(..end)
            .rev()
            .map(|(&start, &end)| (start, end))
            .take_while(|block| block.1 > segment.addr)
            .collect();
        within.into_iter().for_each(|(start, end)| self.space(&region).cut(start, end));
    }

    fn end_segment(&mut self, index: usize) {
        let addr = self.history.segments[index].addr;
        let Some(region) = self.regions.remove(&addr) else { return };
        self.space(&region).cut(addr, region.end);
    }

    fn begin_block(&mut self, index: usize, state: u32) {
        let all = &self.history.allocations;
        let addr = all.addr[index];
        if all.end[index] <= state {
            return;
        }
        let mut end = addr.saturating_add(all.bytes[index]);
        let region = self.regions.range(..=addr).next_back().map(|entry| *entry.1).filter(|region| region.end > addr);
        if let Some(region) = region.filter(|region| region.kind == SegmentKind::Large && !region.is_expandable) {
            // What is left is too small to be split off: the block has it as long as it lives.
            let space = self.space(&region);
            let until = space.by_addr.range(..=addr).next_back().map_or(0, |entry| *entry.1);
            if until > end && until - end <= SMALL {
                end = until;
            }
        }
        self.live.insert(addr, end);
        for (_, region) in self.overlapping(addr, end) {
            self.space(&region).cut(addr, end);
        }
    }

    fn end_block(&mut self, index: usize) {
        let addr = self.history.allocations.addr[index];
        if let Some(end) = self.live.remove(&addr) {
            self.release(addr, end);
        }
    }

    fn overlapping(&self, addr: u64, end: u64) -> Vec<(u64, Region)> {
        let regions = self.regions.range(..end).rev().take_while(|(_, region)| region.end > addr);
        regions.map(|(&start, &region)| (start, region)).collect()
    }

    /// Makes a stretch free where it is reserved, and joins it with what is free beside it. Segments
    /// that touch by chance stay apart; pieces of expandable ones are one.
    fn release(&mut self, addr: u64, end: u64) {
        for (start, region) in self.overlapping(addr, end) {
            let (mut from, mut to) = (addr.max(start), end.min(region.end));
            let joins = |regions: &BTreeMap<u64, Region>, at: u64| match regions.get(&at) {
                None => true,
                Some(right) => {
                    let left = regions.range(..at).next_back().filter(|left| left.1.end == at);
                    right.is_expandable && left.is_some_and(|left| left.1.is_expandable)
                }
            };
            let (joins_left, joins_right) = (joins(&self.regions, from), joins(&self.regions, to));
            let space = self.space(&region);
            space.cut(from, to);
            if joins_left
                && let Some((&at, &until)) = space.by_addr.range(..from).next_back()
                && until == from
            {
                space.remove(at);
                from = at;
            }
            if joins_right && let Some(until) = space.remove(to) {
                to = until;
            }
            space.insert(from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::StackId;
    use crate::model::memory::MemoryAction::{
        Alloc, FreeCompleted, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap,
    };

    const MIB: u64 = 1 << 20;

    fn all(script: Script) -> (crate::model::Trace, Vec<Growth>) {
        let trace = script.finish();
        let found = growth(history(&trace), &|| false);
        (trace, found)
    }

    /// A segment of 20 MiB with blocks of 4 MiB, of which every other one is freed again.
    fn checkered() -> Script {
        let mut script = Script::default();
        script.event(SegmentAlloc, 0, 20 * MIB, StackId(0));
        for block in 0..5 {
            script.alloc(block * 4 * MIB, 4 * MIB, StackId(0));
        }
        for block in [0, 2, 4] {
            script.free(block * 4 * MIB, 4 * MIB);
        }
        script
    }

    #[test]
    fn a_request_that_no_free_stretch_serves_is_fragmentation() {
        let mut script = checkered();
        script.event(SegmentAlloc, 100 * MIB, 20 * MIB, StackId(0));
        let request = script.alloc(100 * MIB, 8 * MIB, StackId(0));
        let (trace, found) = all(script);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].cause, found[0].free, found[0].requested), (Cause::Demand, 0, 4 * MIB));
        let second = &found[1];
        assert_eq!((second.cause, second.free, second.largest_free), (Cause::Fragmentation, 12 * MIB, 4 * MIB));
        assert_eq!((second.bytes, second.released, second.events.clone()), (20 * MIB, 0, 9..10));
        assert_eq!(second.request, Some(AllocationId(history(&trace).events.allocation[request as usize])));
        let pins = pins(history(&trace), second).unwrap();
        assert_eq!(pins, Pins { addr: 0, bytes: 8 * MIB, blocks: vec![AllocationId(1)], blocks_bytes: 4 * MIB });
    }

    #[test]
    fn a_request_for_more_than_is_free_is_demand() {
        let mut script = checkered();
        // Given back and taken again, for one request.
        script.event(SegmentAlloc, 200 * MIB, 2 * MIB, StackId(0));
        script.event(SegmentFree, 200 * MIB, 2 * MIB, StackId(0));
        script.event(SegmentAlloc, 100 * MIB, 32 * MIB, StackId(0));
        script.alloc(100 * MIB, 31 * MIB, StackId(0));
        script.event(SegmentAlloc, 300 * MIB, 2 * MIB, StackId(0));
        let (trace, found) = all(script);
        let last = &found[1..];
        assert_eq!((last[0].cause, last[0].bytes, last[0].released), (Cause::Demand, 34 * MIB, 2 * MIB));
        assert_eq!(pins(history(&trace), &last[0]), None);
        assert_eq!((last[1].cause, last[1].request), (Cause::NoRequest, None));
    }

    #[test]
    fn small_requests_and_other_pools_see_their_own_space() {
        let mut script = checkered();
        script.event(SegmentAlloc, 100 * MIB, 2 * MIB, StackId(0));
        script.alloc(100 * MIB, 512, StackId(0));
        let (_, found) = all(script);
        assert_eq!((found[1].cause, found[1].kind, found[1].free), (Cause::Demand, SegmentKind::Small, 0));
    }

    #[test]
    fn what_is_unsplit_behind_a_block_is_not_free() {
        let mut script = Script::default();
        script.event(SegmentAlloc, 0, 20 * MIB, StackId(0));
        script.alloc(0, 19 * MIB + MIB / 2, StackId(0));
        script.event(SegmentAlloc, 100 * MIB, 20 * MIB, StackId(0));
        script.alloc(100 * MIB, 4 * MIB, StackId(0));
        script.free(0, 19 * MIB + MIB / 2);
        script.event(SegmentAlloc, 200 * MIB, 22 * MIB, StackId(0));
        script.alloc(200 * MIB, 21 * MIB, StackId(0));
        let (_, found) = all(script);
        let free: Vec<_> = found.iter().map(|growth| (growth.free, growth.largest_free)).collect();
        assert_eq!(free, [(0, 0), (0, 0), (36 * MIB, 20 * MIB)]);
    }

    #[test]
    fn pieces_mapped_for_one_request_are_one_growth() {
        let mut script = Script::default();
        script.event(SegmentMap, 0, 20 * MIB, StackId(0));
        script.alloc(0, 4 * MIB, StackId(0));
        script.event(SegmentMap, 20 * MIB, 20 * MIB, StackId(0));
        script.event(SegmentMap, 40 * MIB, 20 * MIB, StackId(0));
        script.alloc(4 * MIB, 50 * MIB, StackId(0));
        let (_, found) = all(script);
        assert_eq!(found.len(), 2);
        let second = &found[1];
        assert_eq!((second.bytes, second.requested, second.cause), (40 * MIB, 50 * MIB, Cause::Demand));
        assert_eq!((second.free, second.largest_free, second.events.len()), (16 * MIB, 16 * MIB, 2));
    }

    proptest! {
        /// The sweep against the state worked out anew each time. Sizes are whole units of 2 MiB, so
        /// nothing is left unsplit; blocks may overlap no border or other block, as in any allocator.
        #[test]
        fn free_memory_is_that_of_the_state(events in prop::collection::vec((0_u8..8, 0_u64..60, 0_u64..4), 0..150)) {
            let mut script = Script::default();
            let mut busy: Vec<(u64, u64)> = Vec::new();
            let mut reserved: Vec<(u64, u64, bool)> = Vec::new();
            for (what, at, size) in events {
                let unit = 2 * MIB;
                let (start, end) = (at * unit, (at + 1 + size) * unit);
                let overlaps = |range: &(u64, u64)| range.0 < end && start < range.1;
                let is_reserved = reserved.iter().any(|range| overlaps(&(range.0, range.1)));
                match what {
                    0 | 1 if !is_reserved => {
                        reserved.push((start, end, what == 1));
                        script.event([SegmentAlloc, SegmentMap][what as usize], start, end - start, StackId(0));
                    }
                    2 if !busy.iter().any(overlaps) => {
                        if let Some(at) = reserved.iter().position(|range| (range.0, range.1) == (start, end)) {
                            let action = if reserved.swap_remove(at).2 { SegmentUnmap } else { SegmentFree };
                            script.event(action, start, end - start, StackId(0));
                        }
                    }
                    3..6 if reserved.iter().any(|range| range.0 <= start && end <= range.1) && !busy.iter().any(overlaps) => {
                        busy.push((start, end));
                        script.event(Alloc, start, end - start, StackId(0));
                    }
                    _ => {
                        if let Some(at) = busy.iter().position(|range| range.0 == start) {
                            let (start, end) = busy.swap_remove(at);
                            script.event(FreeCompleted, start, end - start, StackId(0));
                        }
                    }
                }
            }
            let trace = script.finish();
            let history = history(&trace);
            let mut sweep = Sweep::new(history);
            for state in 0..history.n_states() {
                sweep.advance(state);
                let expected = allocator(history, state);
                let free: u64 = sweep.spaces.iter().map(|space| space.1.total).sum();
                prop_assert_eq!(free, expected.sums.free);
                for pool in &expected.pools {
                    prop_assert_eq!(sweep.free(pool.pool, pool.kind), (pool.sums.free, pool.sums.largest_free), "state {}", state);
                }
            }
        }
    }
}
