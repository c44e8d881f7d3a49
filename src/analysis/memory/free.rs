//! Free memory of each pool, updated incrementally from state to state.

use std::collections::{BTreeMap, BTreeSet};

use super::state::least_free;
use crate::model::MemoryHistory;
use crate::model::memory::{MemoryPool, PoolId, SegmentKind};

/// Free address ranges of one pool and size class.
#[derive(Debug, Default)]
struct FreeList {
    /// Ends by start.
    by_addr: BTreeMap<u64, u64>,
    /// (size, start).
    by_size: BTreeSet<(u64, u64)>,
    total: u64,
}

impl FreeList {
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

    /// Removes `start..end`.
    fn cut(&mut self, start: u64, end: u64) {
        while let Some((&at, &until)) = self.by_addr.range(..end).next_back().filter(|(_, until)| **until > start) {
            self.remove(at);
            self.insert(at, start.min(until));
            self.insert(end.max(at), until);
        }
    }
}

/// A reserved address range.
#[derive(Clone, Copy, Debug)]
struct Region {
    end: u64,
    pool: PoolId,
    kind: SegmentKind,
    is_expandable: bool,
}

/// Free memory in a state that only advances. Cost: O(log m) per start or end of a block or segment, for m
/// blocks and segments.
pub struct FreeSpaceSweep<'a> {
    history: &'a MemoryHistory,
    /// Segments and blocks by end.
    segments_by_end: Vec<u32>,
    blocks_by_end: Vec<u32>,
    /// Number of each that have started and ended.
    segments: (usize, usize),
    blocks: (usize, usize),
    /// The next state to process.
    next: u32,
    /// Live segments by address.
    regions: BTreeMap<u64, Region>,
    /// Live blocks by address, with their ends.
    live: BTreeMap<u64, u64>,
    spaces: BTreeMap<(PoolId, SegmentKind), FreeList>,
}

impl<'a> FreeSpaceSweep<'a> {
    pub fn new(history: &'a MemoryHistory) -> Self {
        let order = |ends: Vec<u32>| {
            let mut order: Vec<u32> = (0..ends.len() as u32).collect();
            order.sort_by_key(|&i| ends[i as usize]);
            order
        };
        Self {
            history,
            segments_by_end: order(history.segments.iter().map(|segment| segment.end).collect()),
            blocks_by_end: order(history.allocations.end.clone()),
            segments: (0, 0),
            blocks: (0, 0),
            next: 0,
            regions: BTreeMap::new(),
            live: BTreeMap::new(),
            spaces: BTreeMap::new(),
        }
    }

    /// Free bytes without unsplit remainders, and the size of the largest free range, in bytes.
    ///
    /// Cost: O(ranges that are as small as remainders · log segments).
    pub fn free(&self, pool: PoolId, kind: SegmentKind) -> (u64, u64) {
        let Some(space) = self.spaces.get(&(pool, kind)) else { return (0, 0) };
        let small = space.by_size.range(..(least_free(kind, false), 0));
        let is_unsplit = |&(bytes, start): &(u64, u64)| self.is_unsplit(kind, start, bytes);
        let unsplit: u64 = small.filter(|range| is_unsplit(range)).map(|range| range.0).sum();
        let largest = space.by_size.iter().rev().find(|range| !is_unsplit(range));
        (space.total - unsplit, largest.map_or(0, |range| range.0))
    }

    /// Whether a range without blocks was left behind one, too small to be split off.
    fn is_unsplit(&self, kind: SegmentKind, start: u64, bytes: u64) -> bool {
        let segment = self.regions.range(..=start).next_back();
        segment.is_some_and(|(&at, region)| at < start && bytes < least_free(kind, region.is_expandable))
    }

    /// The largest free range of expandable segments at one end of which nothing is mapped, in bytes.
    ///
    /// Cost: O(free ranges · log segments).
    pub fn extendable(&self, pool: PoolId, kind: SegmentKind) -> u64 {
        let Some(space) = self.spaces.get(&(pool, kind)) else { return 0 };
        let before = |addr: u64| self.regions.range(..addr).next_back().map(|entry| *entry.1);
        let is_open = |&(&start, &end): &(&u64, &u64)| {
            let Some(region) = before(end).filter(|region| region.is_expandable) else { return false };
            before(start).is_none_or(|region| region.end < start)
                || region.end == end && !self.regions.contains_key(&end)
        };
        space.by_addr.iter().filter(is_open).map(|(start, end)| end - start).max().unwrap_or_default()
    }

    /// Free bytes of each pool and size class, as [`Self::free`].
    pub fn each(&self) -> impl Iterator<Item = ((PoolId, SegmentKind), u64)> + '_ {
        self.spaces.keys().map(|&of| (of, self.free(of.0, of.1).0))
    }

    /// Whether another stream has a free range of so many bytes, which would serve a request if it were of this stream:
    /// its pool is as private, and of the same size class. Cost: that of [`Self::free`] for each pool.
    pub fn is_free_in_another_stream(&self, pool: PoolId, kind: SegmentKind, bytes: u64) -> bool {
        let of = |pool: PoolId| self.history.pools.get(pool.0 as usize).copied().unwrap_or_default();
        let own = of(pool);
        let is_twin = |other: MemoryPool| other.stream != own.stream && other.private == own.private;
        let mut others = self.spaces.keys().filter(|other| other.1 == kind && is_twin(of(other.0)));
        others.any(|other| self.free(other.0, other.1).1 >= bytes)
    }

    /// Number of partly free segments of at least `bytes`. Cost: O(segments + free ranges).
    pub fn split_segments(&self, pool: PoolId, kind: SegmentKind, bytes: u64) -> usize {
        let Some(space) = self.spaces.get(&(pool, kind)) else { return 0 };
        let large = self
            .regions
            .iter()
            .filter(|&(start, region)| (region.pool, region.kind) == (pool, kind) && region.end - start >= bytes);
        let is_split = |(start, region): &(&u64, &Region)| {
            let ranges = space.by_addr.range(**start..region.end).map(|(from, to)| (*from, to - from));
            let free: u64 = ranges.filter(|of| !self.is_unsplit(kind, of.0, of.1)).map(|of| of.1).sum();
            free > 0 && free < region.end - **start
        };
        large.filter(is_split).count()
    }

    /// Advances to `state`, through all states in between.
    pub fn advance(&mut self, state: u32) {
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

    fn space(&mut self, region: &Region) -> &mut FreeList {
        self.spaces.entry((region.pool, region.kind)).or_default()
    }

    fn begin_segment(&mut self, index: usize, state: u32) {
        let segment = &self.history.segments[index];
        if segment.end <= state {
            return;
        }
        let end = segment.addr.saturating_add(segment.bytes);
        let region = Region { end, pool: segment.pool, kind: segment.kind, is_expandable: segment.is_expandable };
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
        // A block without bytes splits no free range.
        if all.end[index] <= state || all.bytes[index] == 0 {
            return;
        }
        let end = addr.saturating_add(all.bytes[index]);
        self.live.insert(addr, end);
        for (_, region) in self.overlapping(addr, end) {
            self.space(&region).cut(addr, end);
        }
    }

    fn end_block(&mut self, index: usize) {
        let addr = self.history.allocations.addr[index];
        if self.history.allocations.bytes[index] == 0 {
            return;
        }
        if let Some(end) = self.live.remove(&addr) {
            self.release(addr, end);
        }
    }

    fn overlapping(&self, addr: u64, end: u64) -> Vec<(u64, Region)> {
        let regions = self.regions.range(..end).rev().take_while(|(_, region)| region.end > addr);
        regions.map(|(&start, &region)| (start, region)).collect()
    }

    /// Marks the reserved parts of `addr..end` as free and merges them with adjacent free ranges. Adjacent
    /// segments are merged only if both are expandable.
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
