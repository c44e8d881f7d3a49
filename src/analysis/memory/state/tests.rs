//! The state of an allocator against a brute-force scan of every 512 bytes.

use proptest::prelude::*;

use super::*;
use crate::analysis::memory::fixture::{Script, history};
use crate::model::StackId;
use crate::model::memory::MemoryAction::{
    self, Alloc, FreeCompleted, FreeRequested, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap,
};
use crate::model::memory::MemoryPool;

const MIB: u64 = 1 << 20;

fn parts(segment: &SegmentState) -> Vec<(u64, u64, &'static str)> {
    let name = |kind| match kind {
        PartKind::Allocated(_) => "allocated",
        PartKind::AwaitingFree(_) => "awaiting",
        PartKind::Unsplit => "unsplit",
        PartKind::Free => "free",
    };
    segment.parts.iter().map(|part| (part.addr, part.bytes, name(part.kind))).collect()
}

#[test]
fn blocks_and_gaps_tile_a_segment() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0x1000, 8192, StackId(0));
    script.alloc(0x1400, 1024, StackId(0));
    script.alloc(0x1800, 2048, StackId(0));
    script.event(FreeRequested, 0x1800, 2048, StackId(0));
    // Outside of all segments, and partly outside.
    script.alloc(0x9000, 512, StackId(0));
    script.alloc(0x2f00, 512, StackId(0));
    let trace = script.finish();
    let found = allocator(history(&trace), 6, &|| false);
    let expected = [
        (0x1000, 0x400, "free"),
        (0x1400, 0x400, "allocated"),
        (0x1800, 0x800, "awaiting"),
        (0x2000, 0xf00, "free"),
        (0x2f00, 0x100, "allocated"),
    ];
    assert_eq!(parts(&found.pools[0].segments[0]), expected);
    let MemorySums { reserved, allocated, awaiting_free, unsplit, free, largest_free, free_parts, .. } = found.sums;
    assert_eq!((reserved, allocated, awaiting_free, unsplit, free), (8192, 1280, 2048, 0, 4864));
    assert_eq!((largest_free, free_parts, found.unplaced), (3840, 2, 512 + 256));
    let fragmentation = 1.0 - (1024.0 * 1024.0 + 3840.0 * 3840.0) / (4864.0 * 4864.0);
    assert!((found.sums.fragmentation() - fragmentation).abs() < 1e-12);
    assert_eq!(found.sums.pinned, 4864, "both segments hold blocks");
    assert_eq!(allocator(history(&trace), 0, &|| false), AllocatorState::default());
    assert_eq!(MemorySums::default().fragmentation(), 0.0);
}

#[test]
fn only_free_ranges_between_blocks_are_fragmented() {
    // Twenty segments without a block, and one more with a block at its start.
    let mut script = Script::default();
    for segment in 0..21 {
        script.event(SegmentAlloc, segment * 40 * MIB, 20 * MIB, StackId(0));
    }
    script.alloc(0, 4 * MIB, StackId(0));
    let whole = script.now() / 10;
    // Then two blocks that leave 2, 6 and 4 MiB free.
    script.alloc(6 * MIB, 2 * MIB, StackId(0));
    script.alloc(14 * MIB, 2 * MIB, StackId(0));
    let trace = script.finish();
    let sums = |state| allocator(history(&trace), state, &|| false).sums;
    let fragmentation = |state| sums(state).fragmentation();
    // Twenty segments can be released; in the other, the memory behind and between its blocks is pinned.
    assert_eq!([0, whole as u32, whole as u32 + 2].map(|state| sums(state).pinned), [0, 16 * MIB, 12 * MIB]);
    assert_eq!(fragmentation(whole as u32), 0.0);
    let expected = (12.0 - (2.0 * 2.0 + 6.0 * 6.0 + 4.0 * 4.0) / 12.0) / (12.0 + 20.0 * 20.0);
    assert!((fragmentation(whole as u32 + 2) - expected).abs() < 1e-12);
}

#[test]
fn a_cancelled_state_is_empty() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 20 * MIB, StackId(0));
    let trace = script.finish();
    assert_eq!(allocator(history(&trace), 1, &|| true), AllocatorState { state: 1, ..AllocatorState::default() });
}

#[test]
fn unsplit_remainders_are_not_free() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 20 * MIB, StackId(0));
    script.alloc(0, 9 * MIB, StackId(0));
    script.alloc(10 * MIB, 8 * MIB, StackId(0));
    let trace = script.finish();
    let found = allocator(history(&trace), 3, &|| false);
    let kinds = [
        (0, 9 * MIB, "allocated"),
        (9 * MIB, MIB, "unsplit"),
        (10 * MIB, 8 * MIB, "allocated"),
        (18 * MIB, 2 * MIB, "free"),
    ];
    assert_eq!(parts(&found.pools[0].segments[0]), kinds);
    assert_eq!((found.sums.unsplit, found.sums.free, found.pools[0].kind), (MIB, 2 * MIB, SegmentKind::Large));
}

#[test]
fn mappings_of_an_expandable_segment_are_merged() {
    let mut script = Script::default();
    for piece in 0..3 {
        script.event(SegmentMap, 20 * MIB * piece, 20 * MIB, StackId(0));
    }
    script.alloc(10 * MIB, 30 * MIB, StackId(0));
    script.event(SegmentAlloc, 60 * MIB, 2 * MIB, StackId(0));
    script.pool = script.raw.pool(MemoryPool { stream: 9, private: (0, 1) });
    script.event(SegmentAlloc, 62 * MIB, 20 * MIB, StackId(0));
    let trace = script.finish();
    let found = allocator(history(&trace), 6, &|| false);
    let pool = |pool: &PoolState| (pool.pool, pool.kind, pool.segments.len(), pool.sums.reserved);
    let expected = [
        (PoolId(0), SegmentKind::Large, 1, 60 * MIB),
        (PoolId(0), SegmentKind::Small, 1, 2 * MIB),
        (PoolId(1), SegmentKind::Large, 1, 20 * MIB),
    ];
    assert_eq!(found.pools.iter().map(pool).collect::<Vec<_>>(), expected);
    let whole = [(0, 10 * MIB, "free"), (10 * MIB, 30 * MIB, "allocated"), (40 * MIB, 20 * MIB, "free")];
    assert_eq!(parts(&found.pools[0].segments[0]), whole);
    assert_eq!(found.sums.pinned, 30 * MIB);
}

#[test]
fn of_an_expandable_segment_only_mapped_runs_with_blocks_are_partly_used() {
    let mut script = Script::default();
    for piece in 0..5 {
        script.event(SegmentMap, 20 * MIB * piece, 20 * MIB, StackId(0));
    }
    script.alloc(2 * MIB, 9 * MIB, StackId(0));
    script.alloc(90 * MIB, 4 * MIB, StackId(0));
    let whole = script.now() / 10;
    // Two runs remain, of 40 and of 20 MiB.
    for piece in 2..4 {
        script.event(SegmentUnmap, 20 * MIB * piece, 20 * MIB, StackId(0));
    }
    let cut = script.now() / 10;
    script.event(FreeRequested, 90 * MIB, 4 * MIB, StackId(0));
    script.free(90 * MIB, 4 * MIB);
    let freed = script.now() / 10;
    let trace = script.finish();
    let sums = [whole, cut, freed].map(|state| allocator(history(&trace), state as u32, &|| false).sums);
    assert_eq!(sums.map(|sums| sums.reserved), [100 * MIB, 60 * MIB, 60 * MIB]);
    assert_eq!(sums.map(|sums| sums.pinned), [87 * MIB, (40 - 9 + 20 - 4) * MIB, (40 - 9) * MIB]);
}

/// Random events within 16 pages of 4 KiB: the state by scanning every 512 bytes.
fn random(events: &[(u8, u64, u64)]) -> Script {
    let mut script = Script::default();
    for &(what, at, size) in events {
        let action = [
            Alloc,
            Alloc,
            FreeRequested,
            FreeCompleted,
            FreeCompleted,
            SegmentAlloc,
            SegmentFree,
            SegmentMap,
            SegmentUnmap,
        ][what as usize % 9];
        let is_segment = matches!(action, MemoryAction::SegmentAlloc | SegmentFree | SegmentMap | SegmentUnmap);
        let (unit, n) = if is_segment { (4096, 16) } else { (512, 128) };
        script.event(action, (at % n) * unit, (1 + size % 4) * unit, StackId(0));
    }
    script
}

proptest! {
    #[test]
    fn parts_sum_to_the_curves_exactly(events in prop::collection::vec((0_u8..9, 0_u64..128, 0_u64..4), 0..120)) {
        let trace = random(&events).finish();
        let history = history(&trace);
        for state in 0..history.n_states() {
            let found = allocator(history, state, &|| false);
            let at = state as usize;
            let MemorySums { reserved, allocated, awaiting_free, unsplit, free, .. } = found.sums;
            prop_assert_eq!(reserved, history.curves.reserved[at]);
            prop_assert_eq!(reserved, allocated + awaiting_free + unsplit + free);
            prop_assert_eq!(allocated + awaiting_free + found.unplaced, history.curves.active[at]);
            let mut of_parts = MemorySums::default();
            for segment in found.pools.iter().flat_map(|pool| &pool.segments) {
                let mut next = segment.addr;
                for part in &segment.parts {
                    prop_assert_eq!(part.addr, next);
                    prop_assert!(part.bytes > 0);
                    next += part.bytes;
                }
                of_parts.add(&MemorySums::of(&segment.parts));
                prop_assert_eq!(next, segment.addr + segment.bytes);
            }
            prop_assert_eq!(of_parts, found.sums);
            // Free memory is reserved and covered by no block, page by page.
            let pages = (0..160).filter(|page| {
                let addr = page * 512;
                let covers = |start: u64, bytes: u64| start <= addr && addr < start + bytes;
                let all = &history.allocations;
                history.segments.iter().any(|segment| segment.is_live(state) && covers(segment.addr, segment.bytes))
                    && !all.ids().any(|id| all.is_live(id, state) && covers(all.addr[id.idx()], all.bytes[id.idx()]))
            });
            let is_crossing = |id: AllocationId| {
                let (addr, bytes) = (history.allocations.addr[id.idx()], history.allocations.bytes[id.idx()]);
                let holder = |at: u64| found.pools.iter().flat_map(|pool| &pool.segments)
                    .position(|segment| segment.addr <= at && at < segment.addr + segment.bytes);
                holder(addr) != holder(addr + bytes - 1)
            };
            // A block across two segments, which allocators never create, is cut at the border.
            if !live(history, state, LiveUntil::Active).any(is_crossing) {
                prop_assert_eq!(free + unsplit, 512 * pages.count() as u64);
            }
        }
    }
}
