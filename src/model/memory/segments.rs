//! Replay of segment events: reserved address ranges and their lifetimes.

use std::collections::BTreeMap;

use super::inconsistency::{Inconsistencies, Inconsistency};
use super::{MemoryAction, RawMemory, RawSegment, Segment};
use crate::model::StackId;

/// The reserved ranges during the replay.
#[derive(Default)]
struct Reserved {
    segments: Vec<Segment>,
    /// Live segments by address. They do not overlap.
    live: BTreeMap<u64, u32>,
    /// Ranges mentioned by earlier events: (start, end), merged if adjacent.
    touched: BTreeMap<u64, u64>,
}

impl Reserved {
    /// The live segments that overlap `addr..end`, by ascending address.
    fn overlapping(&self, addr: u64, end: u64) -> Vec<u32> {
        let overlaps = |&&segment: &&u32| {
            let segment = &self.segments[segment as usize];
            segment.addr.saturating_add(segment.bytes) > addr
        };
        // They do not overlap each other, so at most one that begins before `addr` reaches it.
        let before = self.live.range(..addr).next_back().map(|entry| entry.1).filter(overlaps);
        let within = if addr < end { Some(self.live.range(addr..end).map(|entry| entry.1)) } else { None };
        before.into_iter().chain(within.into_iter().flatten()).copied().collect()
    }

    fn open(&mut self, segment: Segment) {
        if segment.bytes > 0 {
            self.live.insert(segment.addr, self.segments.len() as u32);
            self.segments.push(segment);
        }
    }

    /// Removes `addr..end` from the live segments as of `state`; the remainder of a segment continues as a new
    /// one. Returns the ranges that were not reserved.
    fn take(&mut self, addr: u64, end: u64, state: u32) -> Vec<(u64, u64)> {
        let mut missing = Vec::new();
        let mut at = addr;
        for i in self.overlapping(addr, end) {
            let segment = self.segments[i as usize];
            let segment_end = segment.addr.saturating_add(segment.bytes);
            self.live.remove(&segment.addr);
            self.segments[i as usize].end = state;
            if segment.addr > at {
                missing.push((at, segment.addr));
            }
            if segment.addr < addr {
                self.open(Segment { bytes: addr - segment.addr, start: state, ..segment });
            }
            if segment_end > end {
                self.open(Segment { addr: end, bytes: segment_end - end, start: state, ..segment });
            }
            at = segment_end.min(end).max(at);
        }
        if at < end {
            missing.push((at, end));
        }
        missing
    }

    /// Whether an earlier event mentioned part of `addr..end`.
    fn is_touched(&self, addr: u64, end: u64) -> bool {
        self.touched.range(..end).next_back().is_some_and(|(_, &touched_end)| touched_end > addr)
    }

    fn touch(&mut self, mut addr: u64, mut end: u64) {
        while let Some((&start, &touched_end)) = self.touched.range(..=end).next_back() {
            if touched_end < addr {
                break;
            }
            (addr, end) = (addr.min(start), end.max(touched_end));
            self.touched.remove(&start);
        }
        self.touched.insert(addr, end);
    }
}

/// Replays the segment events and reconciles them with the final state in the file.
///
/// Cost: O(n log n) for n events and final segments.
pub fn replay_segments(raw: &RawMemory, inconsistencies: &mut Inconsistencies) -> Vec<Segment> {
    use MemoryAction::{SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
    let n_states = raw.events.len() as u32 + 1;
    let mut reserved = Reserved::default();
    for (event, &action) in raw.events.action.iter().enumerate() {
        let (addr, bytes) = (raw.events.addr[event], raw.events.bytes[event]);
        let (end, state) = (addr.saturating_add(bytes), event as u32 + 1);
        match action {
            SegmentAlloc | SegmentMap => {
                if reserved.take(addr, end, state) != [(addr, end)] {
                    inconsistencies.add(Inconsistency::SegmentTwice, event as u32);
                }
                reserved.open(Segment {
                    addr,
                    bytes,
                    start: state,
                    end: n_states,
                    pool: raw.events.pool[event],
                    is_expandable: action == SegmentMap,
                    stack: raw.events.stack[event],
                    ..Segment::default()
                });
            }
            SegmentFree | SegmentUnmap => {
                for (addr, end) in reserved.take(addr, end, state) {
                    if reserved.is_touched(addr, end) {
                        inconsistencies.add(Inconsistency::SegmentFreedTwice, event as u32);
                        continue;
                    }
                    // It was reserved before the recording.
                    reserved.segments.push(Segment {
                        addr,
                        bytes: end - addr,
                        end: state,
                        pool: raw.events.pool[event],
                        is_expandable: action == SegmentUnmap,
                        ..Segment::default()
                    });
                }
            }
            _ => continue,
        }
        reserved.touch(addr, end);
    }
    if let Some(end) = &raw.end {
        meet_end(&mut reserved, end, n_states - 1, inconsistencies);
    }
    reserved.segments.sort_by_key(|segment| (segment.start, segment.addr));
    reserved.segments
}

/// Reconciles the live segments with the final state in the file. Differences take effect at the last event,
/// since their time is unknown.
fn meet_end(reserved: &mut Reserved, end: &[RawSegment], last: u32, inconsistencies: &mut Inconsistencies) {
    let mut is_kept = vec![false; reserved.segments.len()];
    let mut unseen = Vec::new();
    let mut by_addr: Vec<&RawSegment> = end.iter().collect();
    by_addr.sort_by_key(|segment| segment.addr);
    let mut reached = 0;
    for segment in by_addr {
        // If segments of a damaged file overlap, the first one keeps the memory.
        let (mut at, stop) = (segment.addr.max(reached), segment.addr.saturating_add(segment.bytes));
        if at >= stop {
            continue;
        }
        reached = stop;
        for i in reserved.overlapping(at, stop) {
            let live = &mut reserved.segments[i as usize];
            let live_end = live.addr.saturating_add(live.bytes);
            if live.addr < at || live_end > stop {
                continue;
            }
            (live.pool, live.kind, live.is_expandable) = (segment.pool, segment.kind, segment.is_expandable);
            if live.stack == StackId::default() {
                live.stack = segment.stack;
            }
            is_kept[i as usize] = true;
            unseen.push((at, live.addr, segment));
            at = live_end;
        }
        unseen.push((at, stop, segment));
    }
    for (i, _) in is_kept.iter().enumerate().filter(|entry| !entry.1) {
        let segment = &mut reserved.segments[i];
        if segment.end > last {
            segment.end = last.max(segment.start);
            inconsistencies.add(Inconsistency::SegmentGone, last.saturating_sub(1));
        }
    }
    for (addr, stop, segment) in unseen.into_iter().filter(|part| part.0 < part.1) {
        let is_new = reserved.is_touched(addr, stop);
        if is_new {
            inconsistencies.add(Inconsistency::SegmentAppeared, last.saturating_sub(1));
        }
        reserved.segments.push(Segment {
            addr,
            bytes: stop - addr,
            start: if is_new { last } else { 0 },
            end: last + 1,
            pool: segment.pool,
            kind: segment.kind,
            is_expandable: segment.is_expandable,
            stack: segment.stack,
        });
    }
}
