//! PyTorch's caching allocator, simulated by the rules of `CUDACachingAllocator.cpp`:
//! sizes in 512 bytes, a pool for small requests and one for large, best fit, splitting, joining of free
//! neighbours, whole segments from and back to the device, or pieces of expandable ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::code::Stack;

const MIN_BLOCK: u64 = 512;
/// Up to here a request is small.
const SMALL_SIZE: u64 = 1 << 20;
/// Size of a small segment, and of a page of a small expandable one.
const SMALL_BUFFER: u64 = 2 << 20;
/// Size of a segment for large requests below `MIN_LARGE`, and of a page of a large expandable one.
const LARGE_BUFFER: u64 = 20 << 20;
const MIN_LARGE: u64 = 10 << 20;
const ROUND_LARGE: u64 = 2 << 20;
/// Where the device's addresses begin.
const FIRST_ADDRESS: u64 = 0x7f2a_4000_0000;
/// Addresses that an expandable segment may grow into.
const EXPANDABLE_SPACE: u64 = 1 << 38;

/// What the allocator records, by PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    AllocationFailure,
}

/// One recorded entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub action: Action,
    /// Of an out-of-memory entry: what the device has left, in bytes.
    pub addr: u64,
    /// Of blocks what was asked for, of segments their size; in bytes.
    pub size: u64,
    pub stream: u64,
    pub time_us: i64,
    pub context: Context,
    /// The number of the allocation that a block's entry belongs to.
    pub allocation: u64,
    /// Of an allocation, the size of the block that serves it. The file does not say it.
    pub held: u64,
}

/// A recorded call stack: entries of one call share it.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub id: u64,
    pub stack: Stack,
}

/// Blocks that may serve each other's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pool {
    pub stream: u64,
    pub is_small: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Allocated,
    /// Freed, but a stream may still use it.
    Pending,
    Free,
    /// Addresses of an expandable segment without memory.
    Unmapped,
}

#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub size: u64,
    /// What was asked for last, in bytes.
    pub requested: u64,
    pub state: State,
    /// Where it was allocated last, and as which allocation.
    pub context: Option<Context>,
    pub allocation: u64,
    /// The address of its segment.
    segment: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub size: u64,
    pub pool: Pool,
    pub context: Context,
    pub is_expandable: bool,
}

/// The device cannot serve a request.
#[derive(Clone, Copy, Debug)]
pub struct AllocationFailure {
    /// Rounded, in bytes.
    pub requested: u64,
    pub device_free: u64,
}

/// The allocator of one device.
#[derive(Debug)]
pub struct Allocator {
    /// What the device can give, in bytes.
    capacity: u64,
    is_expandable: bool,
    pub blocks: BTreeMap<u64, Block>,
    pub segments: BTreeMap<u64, Segment>,
    free: BTreeSet<(Pool, u64, u64)>,
    /// Freed blocks with the time at which their stream is done, in order of that time.
    pending: VecDeque<(u64, i64)>,
    /// Addresses given back to the device, and the first never used.
    holes: BTreeMap<u64, u64>,
    next_address: u64,
    next_context: u64,
    next_allocation: u64,
    pub reserved: u64,
    /// Entries that were not taken yet.
    pub log: Vec<Entry>,
}

/// The size of the block for a request.
pub fn round(request: u64) -> u64 {
    request.max(1).next_multiple_of(MIN_BLOCK)
}

impl Allocator {
    pub fn new(capacity: u64, is_expandable: bool) -> Self {
        Self {
            capacity,
            is_expandable,
            blocks: BTreeMap::new(),
            segments: BTreeMap::new(),
            free: BTreeSet::new(),
            pending: VecDeque::new(),
            holes: BTreeMap::new(),
            next_address: FIRST_ADDRESS,
            next_context: 0,
            next_allocation: 0,
            reserved: 0,
            log: Vec::new(),
        }
    }

    /// What the device has left, in bytes.
    pub fn device_free(&self) -> u64 {
        self.capacity.saturating_sub(self.reserved)
    }

    /// Free bytes of a pool, and the largest free block.
    pub fn inactive(&self, pool: Pool) -> (u64, u64) {
        let sizes = self.free.iter().filter(|block| block.0 == pool).map(|block| block.1);
        sizes.fold((0, 0), |(sum, largest), size| (sum + size, largest.max(size)))
    }

    fn context(&mut self, stack: Stack) -> Context {
        self.next_context += 1;
        Context { id: self.next_context - 1, stack }
    }

    /// Serves a request and returns the block's address.
    pub fn malloc(&mut self, request: u64, stream: u64, stack: Stack, now: i64) -> Result<u64, AllocationFailure> {
        let context = self.context(stack);
        while let Some(&(addr, _)) = self.pending.front().filter(|entry| entry.1 <= now) {
            self.pending.pop_front();
            self.complete(addr, context, now);
        }
        let size = round(request);
        let pool = Pool { stream, is_small: size <= SMALL_SIZE };
        let addr = match self.best_fit(pool, size) {
            Some(addr) => addr,
            None => match self.grow(pool, size, context, now) {
                Some(addr) => addr,
                None => {
                    let device_free = self.device_free();
                    self.record(Action::AllocationFailure, device_free, size, stream, context, now, u64::MAX);
                    return Err(AllocationFailure { requested: size, device_free });
                }
            },
        };
        self.take(addr, size, request, pool, context);
        let allocation = self.next_allocation;
        self.next_allocation += 1;
        if let Some(block) = self.blocks.get_mut(&addr) {
            block.allocation = allocation;
        }
        self.record(Action::Alloc, addr, request, stream, context, now, allocation);
        Ok(addr)
    }

    /// Takes a block back; with `until` it waits for another stream to be done at that time.
    pub fn free(&mut self, addr: u64, stack: Stack, now: i64, until: Option<i64>) {
        let context = self.context(stack);
        let Some(block) = self.blocks.get_mut(&addr).filter(|block| block.state == State::Allocated) else { return };
        block.state = State::Pending;
        let Block { requested, allocation, segment, .. } = *block;
        let stream = self.segments[&segment].pool.stream;
        self.record(Action::FreeRequested, addr, requested, stream, context, now, allocation);
        match until {
            Some(until) => self.pending.push_back((addr, until)),
            None => self.complete(addr, context, now),
        }
    }

    /// Gives back to the device what no block needs.
    pub fn empty_cache(&mut self, stack: Stack, now: i64) {
        let context = self.context(stack);
        self.release(context, now);
    }

    fn best_fit(&self, pool: Pool, size: u64) -> Option<u64> {
        self.free.range((pool, size, 0)..).next().filter(|found| found.0 == pool).map(|found| found.2)
    }

    /// Splits a free block and gives its front away.
    fn take(&mut self, addr: u64, size: u64, request: u64, pool: Pool, context: Context) {
        let Some(block) = self.blocks.get_mut(&addr) else { return };
        self.free.remove(&(pool, block.size, addr));
        let rest = block.size - size;
        let is_split = if pool.is_small || self.is_expandable { rest >= MIN_BLOCK } else { rest > SMALL_SIZE };
        let before = *block;
        (block.state, block.requested, block.context) = (State::Allocated, request, Some(context));
        if is_split {
            block.size = size;
            // The rest keeps what the block said of its last request.
            self.blocks.insert(addr + size, Block { size: rest, ..before });
            self.free.insert((pool, rest, addr + size));
        }
    }

    fn complete(&mut self, addr: u64, context: Context, now: i64) {
        let Some(block) = self.blocks.get(&addr).copied() else { return };
        let pool = self.segments[&block.segment].pool;
        self.record(Action::FreeCompleted, addr, block.requested, pool.stream, context, now, block.allocation);
        self.blocks.insert(addr, Block { state: State::Free, context: None, ..block });
        self.free.insert((pool, block.size, addr));
        self.join(addr, State::Free);
    }

    /// Joins a block with its neighbours in `state`; returns the address of what came of it.
    fn join(&mut self, mut addr: u64, state: State) -> u64 {
        let mut block = self.blocks[&addr];
        let pool = self.segments[&block.segment].pool;
        let (old, is_alike) = (block.size, |other: &Block| other.segment == block.segment && other.state == state);
        let before = self.blocks.range(..addr).next_back().filter(|entry| is_alike(entry.1));
        let before = before.map(|(&addr, other)| (addr, other.size));
        let after = self.blocks.get(&(addr + block.size)).filter(|other| is_alike(other));
        let after = after.map(|other| (addr + block.size, other.size));
        if before.is_none() && after.is_none() {
            return addr;
        }
        self.free.remove(&(pool, old, addr));
        self.blocks.remove(&addr);
        for (neighbour, size) in before.into_iter().chain(after) {
            self.blocks.remove(&neighbour);
            self.free.remove(&(pool, size, neighbour));
            block.size += size;
            addr = addr.min(neighbour);
        }
        self.blocks.insert(addr, block);
        if state == State::Free {
            self.free.insert((pool, block.size, addr));
        }
        addr
    }

    /// Gets memory for a request from the device, if need be after giving back what is not in use.
    fn grow(&mut self, pool: Pool, size: u64, context: Context, now: i64) -> Option<u64> {
        if self.is_expandable {
            return self.map(pool, size, context, now).or_else(|| {
                self.release(context, now);
                self.map(pool, size, context, now)
            });
        }
        let bytes = match size {
            _ if size <= SMALL_SIZE => SMALL_BUFFER,
            _ if size < MIN_LARGE => LARGE_BUFFER,
            _ => size.next_multiple_of(ROUND_LARGE),
        };
        if bytes > self.device_free() {
            self.release(context, now);
        }
        if bytes > self.device_free() {
            return None;
        }
        let addr = self.addresses(bytes);
        self.segments.insert(addr, Segment { size: bytes, pool, context, is_expandable: false });
        self.add_block(addr, bytes, addr, State::Free);
        self.free.insert((pool, bytes, addr));
        self.reserved += bytes;
        self.record(Action::SegmentAlloc, addr, bytes, pool.stream, context, now, u64::MAX);
        Some(addr)
    }

    fn add_block(&mut self, addr: u64, size: u64, segment: u64, state: State) {
        self.blocks.insert(addr, Block { size, requested: 0, state, context: None, allocation: u64::MAX, segment });
    }

    /// The first free addresses.
    fn addresses(&mut self, bytes: u64) -> u64 {
        let found = self.holes.iter().find(|hole| *hole.1 >= bytes).map(|(&addr, &size)| (addr, size));
        if let Some((addr, size)) = found {
            self.holes.remove(&addr);
            if size > bytes {
                self.holes.insert(addr + bytes, size - bytes);
            }
            return addr;
        }
        let addr = self.next_address;
        self.next_address += bytes;
        addr
    }

    /// Maps as many pages of the pool's expandable segment as a request lacks.
    fn map(&mut self, pool: Pool, size: u64, context: Context, now: i64) -> Option<u64> {
        let page = if pool.is_small { SMALL_BUFFER } else { LARGE_BUFFER };
        let known = self.segments.iter().find(|(_, segment)| segment.pool == pool).map(|(&addr, _)| addr);
        let base = known.unwrap_or_else(|| {
            let base = self.addresses(EXPANDABLE_SPACE);
            self.segments.insert(base, Segment { size: EXPANDABLE_SPACE, pool, context, is_expandable: true });
            self.add_block(base, EXPANDABLE_SPACE, base, State::Unmapped);
            base
        });
        let blocks = self.blocks.range(base..base + EXPANDABLE_SPACE);
        let (mut before, mut found) = (0, None);
        for (&addr, block) in blocks {
            match block.state {
                State::Unmapped if before + block.size >= size => {
                    found = Some((addr, block.size, (size - before).next_multiple_of(page)));
                    break;
                }
                State::Free => before = block.size,
                _ => before = 0,
            }
        }
        let (addr, space, bytes) = found?;
        if bytes > self.device_free() {
            return None;
        }
        self.add_block(addr, bytes, base, State::Free);
        if space > bytes {
            self.add_block(addr + bytes, space - bytes, base, State::Unmapped);
        }
        self.free.insert((pool, bytes, addr));
        self.reserved += bytes;
        self.record(Action::SegmentMap, addr, bytes, pool.stream, context, now, u64::MAX);
        Some(self.join(addr, State::Free))
    }

    /// Gives back segments without a block in use, and whole free pages of expandable ones.
    fn release(&mut self, context: Context, now: i64) {
        let free: Vec<_> = self.free.iter().copied().collect();
        for (pool, size, addr) in free {
            let segment = self.segments[&self.blocks[&addr].segment];
            if segment.is_expandable {
                self.unmap(addr, size, pool, context, now);
            } else if segment.size == size {
                self.free.remove(&(pool, size, addr));
                self.blocks.remove(&addr);
                self.segments.remove(&addr);
                self.holes.insert(addr, size);
                self.reserved -= size;
                self.record(Action::SegmentFree, addr, size, pool.stream, context, now, u64::MAX);
            }
        }
    }

    fn unmap(&mut self, addr: u64, size: u64, pool: Pool, context: Context, now: i64) {
        let block = self.blocks[&addr];
        let page = if pool.is_small { SMALL_BUFFER } else { LARGE_BUFFER };
        let start = block.segment + (addr - block.segment).next_multiple_of(page);
        let end = block.segment + (addr + size - block.segment) / page * page;
        if start >= end {
            return;
        }
        self.free.remove(&(pool, size, addr));
        self.blocks.remove(&addr);
        for (from, to) in [(addr, start), (end, addr + size)] {
            if from < to {
                self.blocks.insert(from, Block { size: to - from, ..block });
                self.free.insert((pool, to - from, from));
            }
        }
        self.add_block(start, end - start, block.segment, State::Unmapped);
        self.join(start, State::Unmapped);
        self.reserved -= end - start;
        self.record(Action::SegmentUnmap, start, end - start, pool.stream, context, now, u64::MAX);
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of an entry")]
    fn record(
        &mut self,
        action: Action,
        addr: u64,
        size: u64,
        stream: u64,
        context: Context,
        time_us: i64,
        allocation: u64,
    ) {
        let held = self.blocks.get(&addr).map_or(size, |block| block.size);
        self.log.push(Entry { action, addr, size, stream, time_us, context, allocation, held });
    }
}
