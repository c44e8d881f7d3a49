//! Causes of growth, and incrementally updated free memory against a computation from scratch.

use proptest::prelude::*;

use super::*;
use crate::analysis::memory::fixture::{Script, history};
use crate::analysis::memory::state::SegmentState;
use crate::model::StackId;
use crate::model::memory::MemoryAction::{Alloc, FreeCompleted, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
use crate::model::memory::MemoryPool;

const MIB: u64 = 1 << 20;

fn all(script: Script) -> (crate::model::Trace, Vec<Growth>) {
    let trace = script.finish();
    let found = growth(history(&trace), &|| false);
    (trace, found)
}

/// A segment of 20 MiB with blocks of 4 MiB, every other one freed.
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
fn a_request_larger_than_any_free_range_is_fragmentation() {
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
    let pins = pins(history(&trace), second, &|| false).unwrap();
    assert_eq!(pins, PinnedRange { addr: 0, bytes: 8 * MIB, blocks: vec![AllocationId(1)], blocks_bytes: 4 * MIB });
}

#[test]
fn of_the_blocks_in_the_way_the_largest_is_first() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 20 * MIB, StackId(0));
    let blocks = [(0, 4), (4, 2), (6, 4), (10, 3), (13, 7)];
    blocks.iter().for_each(|&(at, size)| _ = script.alloc(at * MIB, size * MIB, StackId(0)));
    for (at, size) in [blocks[0], blocks[2], blocks[4]] {
        script.free(at * MIB, size * MIB);
    }
    script.event(SegmentAlloc, 100 * MIB, 20 * MIB, StackId(0));
    script.alloc(100 * MIB, 15 * MIB, StackId(0));
    let (trace, found) = all(script);
    let pins = pins(history(&trace), &found[1], &|| false).unwrap();
    assert_eq!((pins.bytes, pins.blocks_bytes), (20 * MIB, 5 * MIB));
    assert_eq!(pins.blocks, [AllocationId(3), AllocationId(1)]);
}

#[test]
fn a_block_that_fills_its_segment_is_in_the_way_of_nothing() {
    let mut script = Script::default();
    for (addr, mib) in [(0, 900), (1 << 30, 30), (2 << 30, 30)] {
        script.event(SegmentAlloc, addr, mib * MIB, StackId(0));
        script.alloc(addr, if addr == 0 { mib * MIB } else { 4 * MIB }, StackId(0));
    }
    script.event(SegmentAlloc, 3 << 30, 50 * MIB, StackId(0));
    script.alloc(3 << 30, 50 * MIB, StackId(0));
    let (trace, found) = all(script);
    assert_eq!((found[3].cause, found[3].free), (Cause::Fragmentation, 52 * MIB));
    assert_eq!(pins(history(&trace), &found[3], &|| false), None);
}

#[test]
fn a_request_larger_than_all_free_memory_is_demand() {
    let mut script = checkered();
    // Released and reserved again, for one request.
    script.event(SegmentAlloc, 200 * MIB, 2 * MIB, StackId(0));
    script.event(SegmentFree, 200 * MIB, 2 * MIB, StackId(0));
    script.event(SegmentAlloc, 100 * MIB, 32 * MIB, StackId(0));
    script.alloc(100 * MIB, 31 * MIB, StackId(0));
    script.event(SegmentAlloc, 300 * MIB, 2 * MIB, StackId(0));
    let (trace, found) = all(script);
    let last = &found[1..];
    assert_eq!((last[0].cause, last[0].bytes, last[0].released), (Cause::Demand, 34 * MIB, 2 * MIB));
    assert_eq!(pins(history(&trace), &last[0], &|| false), None);
    assert_eq!((last[1].cause, last[1].request), (Cause::NoRequest, None));
}

#[test]
fn what_the_program_released_before_served_no_request() {
    let mut script = checkered();
    script.event(SegmentAlloc, 200 * MIB, 30 * MIB, StackId(0));
    script.event(SegmentFree, 200 * MIB, 30 * MIB, StackId(0));
    script.event(SegmentAlloc, 100 * MIB, 20 * MIB, StackId(0));
    script.alloc(100 * MIB, 8 * MIB, StackId(0));
    let (_, found) = all(script);
    let [_, other] = &found[..] else { panic!("{found:?}") };
    assert_eq!((other.cause, other.bytes), (Cause::Fragmentation, 50 * MIB), "reserved and released at once");
    // The same released by the program: 30 MiB in one piece would have served.
    let mut script = checkered();
    script.event(SegmentAlloc, 200 * MIB, 30 * MIB, StackId(0));
    script.alloc(200 * MIB, 30 * MIB, StackId(0));
    script.free(200 * MIB, 30 * MIB);
    script.event(SegmentFree, 200 * MIB, 30 * MIB, StackId(0));
    script.event(SegmentAlloc, 100 * MIB, 20 * MIB, StackId(0));
    script.alloc(100 * MIB, 8 * MIB, StackId(0));
    let (_, found) = all(script);
    let [.., last] = &found[..] else { panic!("{found:?}") };
    assert_eq!((last.cause, last.free, last.largest_free), (Cause::Fragmentation, 12 * MIB, 4 * MIB));
    assert_eq!((last.bytes, last.released, last.scattered), (20 * MIB, 30 * MIB, 8 * MIB));
}

#[test]
fn small_requests_and_other_pools_have_their_own_free_memory() {
    let mut script = checkered();
    script.event(SegmentAlloc, 100 * MIB, 2 * MIB, StackId(0));
    script.alloc(100 * MIB, 512, StackId(0));
    let (_, found) = all(script);
    assert_eq!((found[1].cause, found[1].kind, found[1].free), (Cause::Demand, SegmentKind::Small, 0));
}

/// Each of `n` streams in turn requests 40 MiB and frees them.
fn streams(n: i64, is_private: bool) -> Script {
    let mut script = Script::default();
    for stream in 0..n {
        let private = if is_private { (0, 1 + stream as u64) } else { (0, 0) };
        script.pool = script.raw.pool(MemoryPool { stream, private });
        let addr = (stream as u64) << 30;
        script.event(SegmentAlloc, addr, 40 * MIB, StackId(0));
        script.alloc(addr, 40 * MIB, StackId(0));
        script.free(addr, 40 * MIB);
    }
    script
}

#[test]
fn what_other_streams_have_free_serves_no_request() {
    let (trace, found) = all(streams(10, false));
    let each: Vec<_> = found.iter().map(|growth| (growth.cause, growth.of_streams, growth.avoidable)).collect();
    let later = [(Cause::Demand, 40 * MIB, 40 * MIB); 9];
    assert_eq!((each[0], &each[1..]), ((Cause::Demand, 0, 0), &later[..]));
    let excess = Excess::of(history(&trace), &found).unwrap();
    let GrowthShares { bytes, demand, fragmentation, other, of_streams } = excess.shares;
    assert_eq!((bytes, demand, fragmentation), (400 * MIB, 40 * MIB, 0));
    assert_eq!((other, of_streams, excess.cause()), (360 * MIB, 360 * MIB, ExcessCause::Streams));
    // Private pools are apart for another reason.
    let (_, found) = all(streams(10, true));
    assert!(found.iter().all(|growth| growth.of_streams == 0));
}

#[test]
fn a_range_of_another_stream_that_is_too_small_would_not_have_served() {
    let mut script = streams(2, false);
    script.pool = script.raw.pool(MemoryPool { stream: 2, private: (0, 0) });
    script.event(SegmentAlloc, 9 << 30, 60 * MIB, StackId(0));
    script.alloc(9 << 30, 60 * MIB, StackId(0));
    let (_, found) = all(script);
    assert_eq!((found[2].of_streams, found[2].avoidable), (0, 60 * MIB));
}

#[test]
fn segments_without_blocks_are_told_apart_from_blocks_that_stay() {
    let cause = |keeps: bool| {
        let mut script = Script::default();
        for (k, mib) in (20..60).step_by(4).enumerate() {
            let addr = (k as u64) << 30;
            script.event(SegmentAlloc, addr, mib * MIB, StackId(0));
            script.alloc(addr, mib * MIB, StackId(0));
            script.free(addr, mib * MIB);
            if keeps {
                script.alloc(addr, 2 * MIB, StackId(0));
            }
        }
        let (trace, found) = all(script);
        Excess::of(history(&trace), &found).unwrap().cause()
    };
    assert_eq!([cause(false), cause(true)], [ExcessCause::Segments, ExcessCause::Blocks]);
}

#[test]
fn unsplit_remainders_are_not_free() {
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
fn mappings_for_one_request_are_one_growth() {
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

#[test]
fn what_was_left_unsplit_is_free_in_no_count() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 20 * MIB, StackId(0));
    // Of 20 MiB the second block leaves half a MiB behind the first, which no request gets.
    let half = MIB / 2;
    script.alloc(0, 4 * MIB, StackId(0));
    script.alloc(4 * MIB + half, 8 * MIB, StackId(0));
    script.free(4 * MIB + half, 8 * MIB);
    script.alloc(6 * MIB, 14 * MIB, StackId(0));
    let trace = script.finish();
    let history = history(&trace);
    let mut sweep = FreeSpaceSweep::new(history);
    let mut unsplit = Vec::new();
    for state in 0..history.n_states() {
        sweep.advance(state);
        let expected = allocator(history, state, &|| false);
        assert_eq!(sweep.each().map(|of| of.1).sum::<u64>(), expected.sums.free, "state {state}");
        for pool in &expected.pools {
            assert_eq!(sweep.free(pool.pool, pool.kind), (pool.sums.free, pool.sums.largest_free), "state {state}");
        }
        unsplit.push(expected.sums.unsplit);
    }
    assert!(unsplit.contains(&half), "{unsplit:?}");
}

proptest! {
    /// The sweep against the state computed from scratch each time. Sizes are multiples of 2 MiB, so there
    /// are not unsplit remainders; as in any allocator, blocks overlap neither borders nor each other.
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
        let mut sweep = FreeSpaceSweep::new(history);
        for state in 0..history.n_states() {
            sweep.advance(state);
            let expected = allocator(history, state, &|| false);
            prop_assert_eq!(sweep.each().map(|of| of.1).sum::<u64>(), expected.sums.free);
            for pool in &expected.pools {
                prop_assert_eq!(sweep.free(pool.pool, pool.kind), (pool.sums.free, pool.sums.largest_free), "state {}", state);
                if pool.segments.iter().all(|segment| !segment.is_expandable) {
                    let is_split = |of: &&SegmentState| of.bytes >= 8192 && of.sums.free > 0 && of.sums.free < of.bytes;
                    let n_split = pool.segments.iter().filter(is_split).count();
                    prop_assert_eq!(sweep.split_segments(pool.pool, pool.kind, 8192), n_split, "state {}", state);
                }
            }
        }
    }
}
