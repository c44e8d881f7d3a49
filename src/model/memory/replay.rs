//! Replay of events in file order into lifetimes of blocks and segments.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::inconsistency::{Inconsistencies, Inconsistency};
use super::kind::{SMALL, settle_kinds};
use super::segments::replay_segments;
use super::{
    Allocations, BlockState, Blocks, Curves, MemoryAction, MemoryHistory, MemorySource, PoolId, RawBlock, RawMemory,
    Segment,
};
use crate::model::{StackId, StringId, TimeNs, TimeRange};

/// Block sizes of PyTorch's allocator are multiples of this (`kMinBlockSize`), in bytes.
const MIN_BLOCK: u64 = 512;

/// What `torch_npu` adds to each request, in bytes.
const NPU_PADDING: u64 = 32;

/// No segment is known.
const NO_SEGMENT: u32 = u32::MAX;

/// No allocation.
const NONE: u32 = u32::MAX;

/// Replays a device's memory.
///
/// The final state is taken from the file: sums over the blocks live in the last state equal those of the
/// file's segments. Blocks that were freed without an allocation, or are live at the end without an event,
/// were live before the recording.
///
/// Cost: O(n log s) for n events and s segments.
pub fn replay(mut raw: RawMemory) -> MemoryHistory {
    let mut inconsistencies = Inconsistencies::default();
    settle_times(&mut raw, &mut inconsistencies);
    let mut segments = replay_segments(&raw, &mut inconsistencies);
    let mut lives = Lives::new(&raw);
    lives.follow(&mut inconsistencies);
    lives.meet_end(&mut inconsistencies);
    lives.find_segments(&segments);
    lives.find_categories();
    let mut allocations = lives.allocations;
    let links = lives.links;
    let n_states = raw.events.len() + 1;
    cut_sizes(&mut allocations, &mut segments, &mut inconsistencies);
    raw.events.allocation = sort_by_start(&mut allocations, links);
    settle_kinds(&mut segments, &allocations);
    let reserved = std::mem::take(&mut raw.events.reserved);
    let has_reserved = raw.end.is_some() || !segments.is_empty() || !reserved.is_empty();
    let blocks = Blocks::new(raw.source, &raw.events, allocations.len());
    let curves = Curves::build(n_states, &allocations, &segments, &reserved);
    let mut history = MemoryHistory {
        device: raw.device,
        pid: raw.pid,
        source: raw.source,
        has_time: raw.has_time,
        span: TimeRange::default(),
        pools: raw.pools,
        events: raw.events,
        allocations,
        blocks,
        segments,
        has_reserved,
        curves,
        ooms: raw.ooms,
        notes: raw.notes,
        forward: raw.forward,
        annotations: raw.annotations,
        inconsistencies: inconsistencies.sorted(),
        settings: raw.settings,
    };
    if history.pools.is_empty() {
        history.pools.push(super::MemoryPool::default());
    }
    settle_span(&mut history, raw.recorded);
    history
}

/// Makes times ascend, or numbers the events if there are none.
fn settle_times(raw: &mut RawMemory, inconsistencies: &mut Inconsistencies) {
    if !raw.has_time {
        raw.events.ts = (0..raw.events.len() as TimeNs).collect();
        return;
    }
    let mut latest = TimeNs::MIN;
    for (event, ts) in raw.events.ts.iter_mut().enumerate() {
        if *ts < latest {
            inconsistencies.add(Inconsistency::TimeGoesBack, event as u32);
            *ts = latest;
        }
        latest = *ts;
    }
}

/// From the first to the last time of events and annotations, and what else is known to have been recorded.
fn settle_span(history: &mut MemoryHistory, recorded: Option<TimeRange>) {
    let of_events = match (history.events.ts.first(), history.events.ts.last()) {
        (Some(&start), Some(&end)) => Some(TimeRange { start, end }),
        _ => None,
    };
    let of_annotations =
        history.annotations.iter().map(|note| TimeRange { start: note.start, end: note.end.max(note.start) });
    let of_annotations = of_annotations.filter(|_| history.has_time);
    history.span =
        of_events.into_iter().chain(recorded).chain(of_annotations).reduce(TimeRange::union).unwrap_or_default();
    for annotation in history.annotations.iter_mut().filter(|annotation| !annotation.has_end) {
        annotation.end = history.span.end.max(annotation.start);
    }
    history.annotations.sort_by_key(|annotation| (annotation.start, std::cmp::Reverse(annotation.end)));
}

/// The lifetimes of blocks during the replay.
struct Lives<'a> {
    raw: &'a RawMemory,
    /// Number of states: events + 1.
    n_states: u32,
    allocations: Allocations,
    /// The allocation of each event.
    links: Vec<u32>,
    /// The latest allocation at each address.
    latest: HashMap<u64, u32>,
    /// Bytes that the allocator adds to each request.
    padding: u64,
    /// Size from which blocks are never split: `max_split_size`.
    max_split: u64,
}

impl<'a> Lives<'a> {
    fn new(raw: &'a RawMemory) -> Self {
        let mut lives = Self {
            raw,
            n_states: raw.events.len() as u32 + 1,
            allocations: Allocations::default(),
            links: vec![NONE; raw.events.len()],
            latest: HashMap::new(),
            padding: padding(raw),
            max_split: max_split(raw),
        };
        for block in &raw.before {
            let id = lives.add(block.addr, block.bytes, block.bytes, 0, PoolId::default(), StackId::default());
            if block.addr != 0 {
                lives.latest.insert(block.addr, id);
            }
        }
        lives
    }

    /// Adds an allocation that is live to the end until a free is found.
    fn add(&mut self, addr: u64, bytes: u64, requested: u64, start: u32, pool: PoolId, stack: StackId) -> u32 {
        let all = &mut self.allocations;
        all.addr.push(addr);
        all.bytes.push(bytes);
        all.requested.push(requested);
        all.start.push(start);
        all.freed.push(self.n_states);
        all.end.push(self.n_states);
        all.pool.push(pool);
        all.segment.push(NO_SEGMENT);
        all.stack.push(stack);
        all.len() as u32 - 1
    }

    /// The size of the block that serves a request, without what is too little to be split off behind it.
    fn block_bytes(&self, requested: u64) -> u64 {
        match self.raw.source {
            MemorySource::Snapshot => rounded(requested, self.padding),
            _ => requested,
        }
    }

    fn is_live(&self, allocation: u32) -> bool {
        self.allocations.end[allocation as usize] == self.n_states
    }

    fn close(&mut self, allocation: u32, state: u32) {
        let all = &mut self.allocations;
        all.end[allocation as usize] = state;
        all.freed[allocation as usize] = all.freed[allocation as usize].min(state);
    }

    fn follow(&mut self, inconsistencies: &mut Inconsistencies) {
        let events = &self.raw.events;
        for event in 0..events.len() {
            let (addr, requested, state) = (events.addr[event], events.bytes[event], event as u32 + 1);
            let (pool, stack) = (events.pool[event], events.stack[event]);
            let known = self.latest.get(&addr).copied();
            match events.action[event] {
                MemoryAction::Alloc => {
                    if let Some(known) = known.filter(|&known| self.is_live(known)) {
                        inconsistencies.add(Inconsistency::AllocTwice, event as u32);
                        self.close(known, state);
                    }
                    let id = self.add(addr, self.block_bytes(requested), requested, state, pool, stack);
                    self.latest.insert(addr, id);
                    self.links[event] = id;
                }
                action @ (MemoryAction::FreeRequested | MemoryAction::FreeCompleted) => {
                    let id = match known {
                        Some(known) if self.is_live(known) => known,
                        Some(_) => {
                            inconsistencies.add(Inconsistency::FreedTwice, event as u32);
                            continue;
                        }
                        None => {
                            inconsistencies.add(Inconsistency::FreedFromBefore, event as u32);
                            let bytes = self.block_bytes(requested);
                            let id = self.add(addr, bytes, requested, 0, pool, StackId::default());
                            // PyTorch's allocator only completes requested frees: the request preceded
                            // the first event, and a stream delayed the completion.
                            if action == MemoryAction::FreeCompleted && self.raw.source == MemorySource::Snapshot {
                                self.allocations.freed[id as usize] = 0;
                            }
                            id
                        }
                    };
                    self.latest.insert(addr, id);
                    self.links[event] = id;
                    match action {
                        MemoryAction::FreeRequested => {
                            let freed = &mut self.allocations.freed[id as usize];
                            *freed = (*freed).min(state);
                        }
                        _ => self.close(id, state),
                    }
                }
                _ => {}
            }
        }
    }

    /// Reconciles the live blocks with the final state in the file.
    fn meet_end(&mut self, inconsistencies: &mut Inconsistencies) {
        let Some(end) = &self.raw.end else { return };
        let last = self.n_states - 1;
        let has_changes = self.raw.events.action.iter().any(|action| action.changes_memory());
        let mut is_kept = vec![false; self.allocations.len()];
        let blocks = end.iter().flat_map(|segment| segment.blocks.iter().map(|block| (block, segment.pool)));
        for (block, pool) in blocks.filter(|(block, _)| block.state != BlockState::Inactive) {
            let known = self.latest.get(&block.addr).copied();
            let id = match known {
                Some(known) if self.is_live(known) => known,
                Some(_) => {
                    inconsistencies.add(Inconsistency::Appeared, last.saturating_sub(1));
                    self.add(block.addr, block.bytes, block.requested, last, pool, block.stack)
                }
                None => {
                    // Without a history nothing was recorded that they could be from before of.
                    if has_changes {
                        inconsistencies.add(Inconsistency::LiveFromBefore, 0);
                    }
                    self.add(block.addr, block.bytes, block.requested, 0, pool, block.stack)
                }
            };
            self.latest.insert(block.addr, id);
            is_kept.resize(self.allocations.len(), false);
            is_kept[id as usize] = true;
            self.take_over(id, block, pool, last);
        }
        for id in 0..is_kept.len() as u32 {
            if self.is_live(id) && !is_kept[id as usize] {
                inconsistencies.add(Inconsistency::Gone, last.saturating_sub(1));
                self.close(id, last.max(self.allocations.start[id as usize]));
            }
        }
    }

    /// Applies the final state's data of a block, which takes precedence.
    fn take_over(&mut self, id: u32, block: &RawBlock, pool: PoolId, last: u32) {
        let (all, i) = (&mut self.allocations, id as usize);
        (all.bytes[i], all.requested[i], all.pool[i]) = (block.bytes, block.requested, pool);
        if all.stack[i] == StackId::default() {
            all.stack[i] = block.stack;
        }
        match block.state {
            BlockState::Allocated => all.freed[i] = self.n_states,
            // Without an event, the free was requested before the first one.
            _ if all.start[i] == 0 && all.freed[i] == self.n_states => all.freed[i] = 0,
            _ => all.freed[i] = all.freed[i].min(last.max(all.start[i])),
        }
    }

    /// Finds the segment of each block: the one reserved at its address when it was allocated; and its whole size, see
    /// [`Self::with_remainder`].
    fn find_segments(&mut self, segments: &[Segment]) {
        if segments.is_empty() {
            return;
        }
        let mut by_birth: Vec<u32> = (0..self.allocations.len() as u32).collect();
        by_birth.sort_by_key(|&i| self.allocations.start[i as usize]);
        let mut by_end: Vec<u32> = (0..segments.len() as u32).collect();
        by_end.sort_by_key(|&i| segments[i as usize].end);
        let mut live = BTreeMap::new();
        let (mut opened, mut closed) = (0, 0);
        // An NPU serves a request of 1 MiB from a large segment, since it pads it.
        let is_large = |all: &Allocations, i: usize| all.bytes[i] >= SMALL;
        let of_before = by_birth.iter().take_while(|&&i| self.allocations.start[i as usize] == 0);
        let of_before = of_before.filter(|&&i| is_large(&self.allocations, i as usize));
        let mut blocks: BTreeMap<u64, u32> = of_before.map(|&i| (self.allocations.addr[i as usize], i)).collect();
        for i in by_birth.into_iter().map(|i| i as usize) {
            let state = self.allocations.start[i];
            while let Some(&segment) = by_end.get(closed).filter(|&&at| segments[at as usize].end <= state) {
                let addr = segments[segment as usize].addr;
                if live.get(&addr) == Some(&segment) {
                    live.remove(&addr);
                }
                closed += 1;
            }
            while let Some(segment) = segments.get(opened).filter(|segment| segment.start <= state) {
                if segment.end > state {
                    live.insert(segment.addr, opened as u32);
                }
                opened += 1;
            }
            let addr = self.allocations.addr[i];
            let found = live.range(..=addr).next_back().map(|entry| *entry.1);
            let found = found.filter(|&at| {
                let segment = &segments[at as usize];
                addr - segment.addr < segment.bytes
            });
            self.allocations.segment[i] = found.unwrap_or(NO_SEGMENT);
            if is_large(&self.allocations, i) {
                blocks.insert(addr, i as u32);
                // The file tells the size of those that are live at the end.
                let is_told = self.raw.end.is_some() && self.is_live(i as u32);
                let segment = found.map(|at| &segments[at as usize]).filter(|of| !of.is_expandable && !is_told);
                let may_have_rest = self.raw.source == MemorySource::Snapshot && self.allocations.bytes[i] > SMALL;
                if let Some(segment) = segment.filter(|_| may_have_rest) {
                    self.allocations.bytes[i] = self.with_remainder(i, segment, &mut blocks);
                }
            }
        }
    }

    /// The size of a large block with the free memory behind it, if the allocator does not split that off: up to 1 MiB,
    /// or any of blocks from `max_split_size` on. So no smaller free range exists in a large segment, and the block
    /// keeps it for its life. Expandable segments split off any rest.
    ///
    /// * `blocks`: large blocks by address; those that were freed by the start of this one are removed on the way.
    /// * Cost: O(log m) for m blocks, amortized.
    fn with_remainder(&self, block: usize, segment: &Segment, blocks: &mut BTreeMap<u64, u32>) -> u64 {
        let all = &self.allocations;
        let (addr, bytes) = (all.addr[block], all.bytes[block]);
        let end = addr.saturating_add(bytes);
        let mut until = segment.addr.saturating_add(segment.bytes);
        // A damaged file has blocks that end behind their segment.
        while end < until
            && let Some((&next, &other)) = blocks.range(end..until).next()
        {
            if all.end[other as usize] > all.start[block] {
                until = next;
                break;
            }
            blocks.remove(&next);
        }
        let rest = until.saturating_sub(end);
        if rest <= SMALL || bytes >= self.max_split { bytes.saturating_add(rest) } else { bytes }
    }

    /// Sets the category of each block, if any is recorded.
    fn find_categories(&mut self) {
        let Self { raw, allocations, links, .. } = self;
        if raw.categories.is_empty() && raw.before.iter().all(|block| block.category == StringId::EMPTY) {
            return;
        }
        // Blocks from before the recording were added first.
        allocations.category = raw.before.iter().map(|block| block.category).collect();
        allocations.category.resize(allocations.addr.len(), StringId::EMPTY);
        for &(event, category) in &raw.categories {
            let allocation = links.get(event as usize).copied().unwrap_or(NONE);
            if let Some(known) = allocations.category.get_mut(allocation as usize) {
                *known = category;
            }
        }
    }
}

/// A request as PyTorch's allocator rounds it, in bytes.
fn rounded(requested: u64, padding: u64) -> u64 {
    let padded = requested.max(1).saturating_add(padding);
    padded.checked_next_multiple_of(MIN_BLOCK).unwrap_or(requested)
}

/// What the allocator adds to each request before it rounds: 32 bytes on Ascend devices; nothing elsewhere. The sizes
/// of the blocks at the end show it, or, where none is live then, the addresses of blocks that follow each other.
fn padding(raw: &RawMemory) -> u64 {
    if raw.source != MemorySource::Snapshot {
        return 0;
    }
    let blocks = raw.end.iter().flatten().flat_map(|segment| &segment.blocks);
    let told = blocks.filter(|block| block.state != BlockState::Inactive && block.requested > 0);
    let of_end = told.map(|block| padding_vote(block.requested, block.bytes)).sum::<i64>();
    let votes = if of_end == 0 { votes_of_neighbors(raw) } else { of_end };
    if votes > 0 { NPU_PADDING } else { 0 }
}

/// 1 if a block has the bytes of a padded request, -1 if those of one that is not, 0 if both or none.
fn padding_vote(requested: u64, bytes: u64) -> i64 {
    let [plain, padded] = [0, NPU_PADDING].map(|padding| rounded(requested, padding));
    i64::from(padded == bytes && plain != padded) - i64::from(plain == bytes && plain != padded)
}

/// The votes of blocks for their distance to the next live one, at the moment at which either is allocated.
///
/// A freed block of the least size between two others looks like padding, so only many votes count, nearly all of one
/// kind: padded blocks never lie closer.
///
/// Cost: of the events, a number that does not grow with the file is looked at.
fn votes_of_neighbors(raw: &RawMemory) -> i64 {
    const MAX_EVENTS: usize = 100_000;
    const LEAST_VOTES: u64 = 20;
    const FOR_EACH_AGAINST: u64 = 20;
    let events = &raw.events;
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut n_for, mut n_against) = (0_u64, 0_u64);
    for ((&action, &addr), &requested) in events.action.iter().zip(&events.addr).zip(&events.bytes).take(MAX_EVENTS) {
        match action {
            MemoryAction::Alloc => {
                let below = live.range(..addr).next_back().map(|(&at, &requested)| (requested, addr - at));
                let above = live.range(addr.saturating_add(1)..).next().map(|(&at, _)| (requested, at - addr));
                for vote in
                    [below, above].into_iter().flatten().map(|(requested, bytes)| padding_vote(requested, bytes))
                {
                    n_for += u64::from(vote > 0);
                    n_against += u64::from(vote < 0);
                }
                live.insert(addr, requested);
            }
            MemoryAction::FreeCompleted => _ = live.remove(&addr),
            _ => {}
        }
    }
    i64::from(n_for >= LEAST_VOTES && n_for / FOR_EACH_AGAINST >= n_against)
}

/// The allocator's `max_split_size` in bytes; without one it is negative or the largest number.
fn max_split(raw: &RawMemory) -> u64 {
    let setting = raw.settings.iter().find(|(key, _)| key == "max_split_size");
    setting
        .and_then(|(_, text)| text.parse::<i64>().ok()?.try_into().ok())
        .filter(|&bytes| bytes > 0)
        .unwrap_or(u64::MAX)
}

/// Clamps sizes so that sums fit into 64 bits, even for malformed files.
fn cut_sizes(allocations: &mut Allocations, segments: &mut [Segment], inconsistencies: &mut Inconsistencies) {
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.map(u128::from).sum::<u128>();
    let most = u128::from(u64::MAX >> 1);
    if sum(&mut allocations.bytes.iter().copied()) > most || sum(&mut allocations.requested.iter().copied()) > most {
        let cap = (u64::MAX >> 1) / allocations.len().max(1) as u64;
        allocations.bytes.iter_mut().chain(&mut allocations.requested).for_each(|bytes| *bytes = (*bytes).min(cap));
        inconsistencies.add(Inconsistency::TooLarge, 0);
    }
    if sum(&mut segments.iter().map(|segment| segment.bytes)) > most {
        let cap = (u64::MAX >> 1) / segments.len().max(1) as u64;
        segments.iter_mut().for_each(|segment| segment.bytes = segment.bytes.min(cap));
        inconsistencies.add(Inconsistency::TooLarge, 0);
    }
}

/// Sorts by `start`, those from before the recording by address. Returns `links`, the allocation of each
/// event, renumbered.
fn sort_by_start(allocations: &mut Allocations, mut links: Vec<u32>) -> Vec<u32> {
    let mut order: Vec<u32> = (0..allocations.len() as u32).collect();
    // Only those from before the recording and from the final state are out of order.
    order.sort_by_key(|&i| {
        let start = allocations.start[i as usize];
        (start, if start == 0 { allocations.addr[i as usize] } else { 0 }, i)
    });
    fn gather<T: Copy>(column: &mut Vec<T>, order: &[u32]) {
        *column = order.iter().map(|&i| column[i as usize]).collect();
    }
    gather(&mut allocations.addr, &order);
    gather(&mut allocations.bytes, &order);
    gather(&mut allocations.requested, &order);
    gather(&mut allocations.start, &order);
    gather(&mut allocations.freed, &order);
    gather(&mut allocations.end, &order);
    gather(&mut allocations.pool, &order);
    gather(&mut allocations.segment, &order);
    gather(&mut allocations.stack, &order);
    if !allocations.category.is_empty() {
        gather(&mut allocations.category, &order);
    }
    let mut new_id = vec![0_u32; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| new_id[old as usize] = new as u32);
    for link in links.iter_mut().filter(|link| **link != NONE) {
        *link = new_id[*link as usize];
    }
    links
}
