//! Segments and blocks of the state at the end of a recording.

use super::fold::{BLOCK, Block, PAST, SEGMENT, Segment, SnapshotFold};
use super::known as key;
use super::tally::Reason;
use crate::model::StackId;
use crate::model::memory::{BlockState, RawBlock, RawSegment, SegmentKind};
use crate::reader::pickle::{Store, Tag, Value};

impl SnapshotFold {
    /// Stores a block until its segment is complete.
    pub fn block(&mut self, store: &mut Store) -> (u8, u32) {
        let state = match self.word_of(key::STATE) {
            Some(key::ACTIVE_ALLOCATED) => Some(BlockState::Allocated),
            Some(key::ACTIVE_AWAITING_FREE | key::ACTIVE_PENDING_FREE) => Some(BlockState::AwaitingFree),
            Some(key::INACTIVE) => Some(BlockState::Inactive),
            _ => None,
        };
        let bytes = self.size(store, key::SIZE).filter(|&bytes| bytes > 0);
        let mut requested = self.size(store, key::REQUESTED_SIZE);
        let mut stack = self.stack(store, key::FRAMES);
        let history = self.field(key::HISTORY).filter(|value| value.tag() == Tag::List);
        let newest = history.and_then(|list| store.items(list).first().copied());
        if let Some(past) = newest.and_then(|past| past.as_folded(PAST)) {
            let (size, past_stack) = self.pasts[past as usize];
            requested = requested.or(size);
            stack = if stack == StackId::default() { past_stack } else { stack };
        }
        let known = bytes.zip(state);
        let addr = self.word(store, key::ADDRESS);
        let requested = requested.or(bytes).unwrap_or(0);
        self.blocks.push(Block { addr, known, requested, stack });
        (BLOCK, self.blocks.len() as u32 - 1)
    }

    /// Stores a segment with its blocks.
    pub fn segment(&mut self, store: &mut Store) -> (u8, u32) {
        let device = self.device(store);
        let size = self.size(store, key::TOTAL_SIZE).filter(|&bytes| bytes > 0);
        let addr = self.word(store, key::ADDRESS);
        let kind = match self.word_of(key::SEGMENT_TYPE) {
            Some(key::SMALL) => SegmentKind::Small,
            Some(key::LARGE) => SegmentKind::Large,
            _ => SegmentKind::Unknown,
        };
        let pool = if self.has(key::SEGMENT_POOL_ID) { key::SEGMENT_POOL_ID } else { key::POOL_ID };
        let mut segment = RawSegment {
            addr: addr.unwrap_or_default(),
            bytes: size.unwrap_or_default(),
            pool: self.pool(store, pool),
            kind,
            is_expandable: self.field(key::IS_EXPANDABLE) == Some(Value::bool(true)),
            stack: self.stack(store, key::FRAMES),
            blocks: Vec::new(),
        };
        let list = self.field(key::BLOCKS).filter(|value| value.tag() == Tag::List);
        let list = list.and_then(|list| store.take(list));
        if list.is_none() && self.has(key::BLOCKS) {
            self.tally.count(Reason::BadField, self.offset);
        }
        let list = list.unwrap_or_default();
        let n_blocks = list.len() as u64;
        let is_good = size.is_some() && addr.is_some() && segment.addr.checked_add(segment.bytes).is_some();
        if is_good {
            self.place_blocks(&mut segment, &list);
            self.compare_sums(store, &segment);
        } else {
            // Profiles that torch converts to snapshots have such a segment for each unused device.
            let is_empty = list.is_empty() && self.int(store, key::TOTAL_SIZE) == Some(0);
            self.tally.count(if is_empty { Reason::EmptySegment } else { Reason::BadSegment }, self.offset);
            self.tally.add(Reason::LostBlock, n_blocks);
        }
        let n_shown = segment.blocks.len() as u64;
        self.segments.push(Segment { device, segment: is_good.then_some(segment), n_blocks, n_shown });
        (SEGMENT, self.segments.len() as u32 - 1)
    }

    /// Places the blocks of a segment, each within it and after the previous one.
    fn place_blocks(&mut self, segment: &mut RawSegment, list: &[Value]) {
        let end = segment.addr + segment.bytes;
        let mut next = segment.addr;
        for item in list {
            let Some(block) = item.as_folded(BLOCK).map(|at| &self.blocks[at as usize]) else {
                self.tally.count(Reason::UnexpectedItem, self.offset);
                continue;
            };
            let Some((bytes, state)) = block.known else {
                self.tally.count(Reason::BadBlock, self.offset);
                continue;
            };
            // Blocks of old snapshots have no address: each begins where the previous one ends.
            let addr = block.addr.unwrap_or(next);
            if addr < next || addr >= end {
                self.tally.count(Reason::BlockOutside, self.offset);
                continue;
            }
            if bytes > end - addr {
                self.tally.count(Reason::BlockClipped, self.offset);
            }
            let bytes = bytes.min(end - addr);
            next = addr + bytes;
            segment.blocks.push(RawBlock { addr, bytes, requested: block.requested, state, stack: block.stack });
        }
    }

    /// Counts a segment whose own sums differ from those of its blocks.
    fn compare_sums(&mut self, store: &Store, segment: &RawSegment) {
        let sum = |is_in: fn(BlockState) -> bool| {
            segment.blocks.iter().filter(|block| is_in(block.state)).map(|block| block.bytes).sum::<u64>()
        };
        let sums = [
            (key::ALLOCATED_SIZE, sum(|state| state == BlockState::Allocated)),
            (key::ACTIVE_SIZE, sum(|state| state != BlockState::Inactive)),
            (key::TOTAL_SIZE, sum(|_| true)),
        ];
        let differs = |&(key, sum): &(u32, u64)| self.has(key) && self.int(store, key) != Some(sum.into());
        if sums.iter().any(differs) {
            self.tally.count(Reason::SumsDiffer, self.offset);
        }
    }
}
