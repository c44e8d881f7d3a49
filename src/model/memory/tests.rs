use super::*;
use crate::model::TraceBuilder;
use MemoryAction::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};

fn raw(events: &[(MemoryAction, u64, u64)]) -> RawMemory {
    let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
    let pool = raw.pool(MemoryPool::default());
    for (i, &(action, addr, bytes)) in events.iter().enumerate() {
        let ts = 10 * i as TimeNs;
        raw.events.push(MemoryEvent { ts, action, addr, bytes, pool, stack: StackId(i as u32 + 1) });
    }
    raw
}

fn segment(addr: u64, bytes: u64, blocks: &[(u64, u64, BlockState)]) -> RawSegment {
    let block = |&(addr, bytes, state)| RawBlock { addr, bytes, requested: bytes, state, stack: StackId(0) };
    RawSegment { addr, bytes, blocks: blocks.iter().map(block).collect(), ..RawSegment::default() }
}

fn inconsistencies(history: &MemoryHistory) -> Vec<(Inconsistency, u64)> {
    history.inconsistencies.iter().map(|&(inconsistency, count, _)| (inconsistency, count)).collect()
}

/// The curves by brute force: all blocks and segments for every state.
fn assert_curves(history: &MemoryHistory) {
    let all = &history.allocations;
    for state in 0..history.n_states() {
        let sum = |until: &Vec<u32>, sizes: &Vec<u64>| {
            (0..all.len()).filter(|&i| all.start[i] <= state && state < until[i]).map(|i| sizes[i]).sum::<u64>()
        };
        let at = state as usize;
        assert_eq!(history.curves.allocated[at], sum(&all.freed, &all.bytes), "allocated in {state}");
        assert_eq!(history.curves.active[at], sum(&all.end, &all.bytes), "active in {state}");
        assert_eq!(history.curves.requested[at], sum(&all.freed, &all.requested), "requested in {state}");
        let reserved = history.segments.iter().filter(|segment| segment.is_live(state)).map(|segment| segment.bytes);
        assert_eq!(history.curves.reserved[at], reserved.sum::<u64>(), "reserved in {state}");
    }
}

#[test]
fn a_block_lives_from_its_allocation_until_its_free_is_completed() {
    let history = replay(raw(&[
        (SegmentAlloc, 0x1000, 4096),
        (Alloc, 0x1000, 500),
        (Alloc, 0x1200, 1024),
        (FreeRequested, 0x1000, 500),
        (FreeCompleted, 0x1000, 500),
        (SegmentFree, 0x1000, 4096),
    ]));
    assert_curves(&history);
    assert_eq!(history.curves.allocated, [0, 0, 512, 1536, 1024, 1024, 1024]);
    assert_eq!(history.curves.active, [0, 0, 512, 1536, 1536, 1024, 1024]);
    assert_eq!(history.curves.requested, [0, 0, 500, 1524, 1024, 1024, 1024]);
    assert_eq!(history.curves.reserved, [0, 4096, 4096, 4096, 4096, 4096, 0]);
    assert_eq!(history.life(AllocationId(0)), TimeRange { start: 10, end: 40 });
    assert_eq!(history.life(AllocationId(1)), TimeRange { start: 20, end: 50 });
    assert_eq!((history.alloc_event(AllocationId(0)), history.free_event(AllocationId(0))), (Some(1), Some(4)));
    assert_eq!(history.free_event(AllocationId(1)), None);
    assert_eq!(history.allocations.segment, [0, 0]);
    assert_eq!(history.allocations.stack[0], StackId(2));
    assert_eq!(history.events.allocation, [u32::MAX, 0, 1, 0, 0, u32::MAX]);
    assert_eq!((history.state_at(-1), history.state_at(10), history.state_at(19)), (0, 2, 2));
    assert_eq!(inconsistencies(&history), []);
}

#[test]
fn blocks_from_before_the_recording_are_inferred_from_frees_and_the_final_state() {
    let mut raw = raw(&[(FreeCompleted, 0x1200, 512), (Alloc, 0x1400, 600)]);
    raw.end = Some(vec![segment(
        0x1000,
        4096,
        &[
            (0x1000, 512, BlockState::Allocated),
            (0x1200, 512, BlockState::Inactive),
            (0x1400, 1024, BlockState::Allocated),
            (0x1800, 2048, BlockState::AwaitingFree),
        ],
    )]);
    let history = replay(raw);
    assert_curves(&history);
    // The block in the final state is larger than the rounded request.
    // A completed free without a request: the request preceded the recording.
    assert_eq!(history.curves.allocated, [512, 512, 1536]);
    assert_eq!(history.curves.active, [3072, 2560, 3584]);
    assert_eq!(history.curves.reserved, [4096; 3]);
    assert_eq!(history.allocations.addr, [0x1000, 0x1200, 0x1800, 0x1400]);
    assert_eq!(history.events.allocation, [1, 3]);
    assert_eq!(inconsistencies(&history), [(Inconsistency::FreedFromBefore, 1), (Inconsistency::LiveFromBefore, 2)]);
}

#[test]
fn recorded_initial_blocks_are_live_in_the_first_state() {
    let mut raw = raw(&[(FreeCompleted, 7, 512), (Alloc, 0, 100)]);
    raw.source = MemorySource::Timeline;
    raw.before = vec![
        InitialBlock { addr: 9, bytes: 64, category: StringId(2) },
        InitialBlock { addr: 7, bytes: 512, category: StringId(3) },
        InitialBlock { addr: 0, bytes: 1000, category: StringId::EMPTY },
    ];
    raw.categories = vec![(1, StringId(4))];
    let history = replay(raw);
    assert_curves(&history);
    assert_eq!(history.curves.allocated, [1576, 1064, 1164]);
    assert_eq!((&history.allocations.addr, &history.events.allocation), (&vec![0, 7, 9, 0], &vec![1, 3]));
    assert_eq!(history.allocations.category, [StringId::EMPTY, StringId(3), StringId(2), StringId(4)]);
    assert_eq!(inconsistencies(&history), []);
}

#[test]
fn segment_kinds_are_inferred_from_their_blocks() {
    let mib = 1 << 20;
    let history = replay(raw(&[
        (SegmentAlloc, 0, 20 * mib),
        (SegmentAlloc, 40 * mib, 20 * mib),
        (SegmentAlloc, 80 * mib, 2 * mib),
        (SegmentAlloc, 90 * mib, 20 * mib),
        (SegmentMap, 120 * mib, 2 * mib),
        (SegmentMap, 122 * mib, 20 * mib),
        // The first block determines the kind.
        (Alloc, 40 * mib, mib),
        (Alloc, 42 * mib, 2 * mib),
        (Alloc, 90 * mib, 2 * mib),
        (Alloc, 122 * mib, mib),
    ]));
    let kinds: Vec<_> = history.segments.iter().map(|segment| segment.kind).collect();
    use SegmentKind::{Large, Small};
    assert_eq!(kinds, [Large, Small, Small, Large, Small, Large]);
}

#[test]
fn inconsistent_sequences_are_counted_and_match_the_final_state() {
    let mut raw = raw(&[
        (SegmentAlloc, 0x1000, 4096),
        (Alloc, 0x1000, 512),
        (Alloc, 0x1000, 512),
        (FreeCompleted, 0x1000, 512),
        (FreeCompleted, 0x1000, 512),
        (Alloc, 0x1200, 512),
        (SegmentFree, 0x1000, 4096),
        (SegmentFree, 0x1000, 4096),
    ]);
    raw.end = Some(vec![segment(0x1000, 4096, &[(0x1000, 512, BlockState::Allocated)])]);
    let history = replay(raw);
    assert_curves(&history);
    assert_eq!((history.curves.allocated[8], history.curves.reserved[8]), (512, 4096));
    let expected = [
        (Inconsistency::AllocTwice, 1),
        (Inconsistency::FreedTwice, 1),
        (Inconsistency::Gone, 1),
        (Inconsistency::Appeared, 1),
        (Inconsistency::SegmentFreedTwice, 1),
        (Inconsistency::SegmentAppeared, 1),
    ];
    assert_eq!(inconsistencies(&history), expected);
}

#[test]
fn parts_of_expandable_segments_are_mapped_and_unmapped() {
    let mut raw = raw(&[
        (SegmentUnmap, 0x9000, 0x1000),
        (SegmentMap, 0x1000, 0x1000),
        (SegmentMap, 0x2000, 0x1000),
        (SegmentMap, 0x3000, 0x1000),
        (Alloc, 0x2000, 0x400),
        // Across all of the second part and half of its neighbors.
        (SegmentUnmap, 0x1800, 0x2000),
    ]);
    raw.end = Some(vec![segment(0x1000, 0x800, &[]), segment(0x3800, 0x800, &[])]);
    let history = replay(raw);
    assert_curves(&history);
    assert_eq!(history.curves.reserved, [0x1000, 0, 0x1000, 0x2000, 0x3000, 0x3000, 0x1000]);
    let piece = &history.segments[history.allocations.segment[0] as usize];
    assert_eq!((piece.addr, piece.bytes, piece.is_expandable), (0x2000, 0x1000, true));
    assert_eq!(inconsistencies(&history), [(Inconsistency::Gone, 1)]);
}

#[test]
fn overlapping_segments_count_once() {
    let mut raw = raw(&[(SegmentAlloc, 0x1000, 0x1000), (SegmentAlloc, 0x2000, 0x1000)]);
    // Many segments: a scan of all of them for each would be quadratic.
    raw.end = Some((0..4096).map(|i| segment(0x1000 + i, 0x3000 - i, &[])).collect());
    let history = replay(raw);
    assert_curves(&history);
    assert_eq!(history.curves.reserved, [0x1000, 0x2000, 0x3000]);
}

#[test]
fn a_snapshot_without_events_has_one_state() {
    let mut raw = raw(&[]);
    raw.end = Some(vec![segment(0x1000, 4096, &[(0x1000, 512, BlockState::Allocated)])]);
    let history = replay(raw);
    assert_curves(&history);
    assert_eq!((history.n_states(), history.curves.allocated[0], history.curves.reserved[0]), (1, 512, 4096));
    assert_eq!(history.allocations.segment, [0]);
    assert!(history.allocations.is_live(AllocationId(0), 0));
}

#[test]
fn implausible_sizes_are_clamped() {
    let huge = u64::MAX >> 1;
    let history =
        replay(raw(&[(Alloc, 0, huge), (Alloc, 1, huge), (SegmentAlloc, 0, huge), (SegmentAlloc, huge, huge)]));
    assert_curves(&history);
    assert_eq!(inconsistencies(&history), [(Inconsistency::TooLarge, 2)]);
    assert!(history.curves.active.iter().all(|&bytes| bytes <= huge));
}

#[test]
fn times_are_made_ascending() {
    let mut raw = raw(&[(Alloc, 1, 1), (Alloc, 2, 1), (Alloc, 3, 1)]);
    raw.events.ts = vec![50, 7, 60];
    let history = replay(raw);
    assert_eq!(history.events.ts, [50, 50, 60]);
    assert_eq!(inconsistencies(&history), [(Inconsistency::TimeGoesBack, 1)]);
}

#[test]
fn peaks_are_found_in_any_range() {
    let mut events = Vec::new();
    for i in 0..1000_u64 {
        // Irregular ups and downs.
        let action = if i * 7919 % 13 < 7 { Alloc } else { FreeCompleted };
        events.push((action, i * 31 % 97, 512 * (1 + i * 17 % 29)));
    }
    let history = replay(raw(&events));
    assert_curves(&history);
    let active = &history.curves.active;
    for (start, end) in [(0, 1001), (0, 1), (63, 65), (64, 128), (5, 700), (900, 1001), (1, 64), (130, 140)] {
        let peak = history.curves.peak(start..end);
        let highest = active[start as usize..end as usize].iter().max().unwrap();
        assert_eq!(active[peak as usize], *highest);
        assert!((start..end).contains(&peak) && !active[start as usize..peak as usize].contains(highest));
    }
}

#[test]
fn lifetimes_are_in_events_without_times() {
    let events = [(Alloc, 0x1000, 512), (Alloc, 0x2000, 512), (FreeCompleted, 0x1000, 512)];
    let with_time = replay(raw(&events));
    let without = replay(RawMemory { has_time: false, ..raw(&events) });
    let of = |history: &MemoryHistory| [0, 1].map(|id| history.lifetime(AllocationId(id)));
    assert_eq!(of(&with_time), [20, 10]);
    assert_eq!(of(&without), [2, 1]);
    assert_eq!(without.curves.highest(), (2, 1024));
}

#[test]
fn a_stream_has_one_name() {
    let pool = |stream, private| MemoryPool { stream, private }.to_string();
    assert_eq!(pool(0, (0, 0)), "default stream");
    assert_eq!(pool(7, (0, 2)), "stream 7, private pool 0.2");
    assert_eq!(pool(0x5f_3a10, (0, 0)), "stream 0x5f3a10");
}

#[test]
fn a_large_block_keeps_what_is_too_little_to_be_split_off() {
    const KIB: u64 = 1 << 10;
    let base = 1 << 40;
    let of = |action: MemoryAction, setting: Option<&str>, tail: u64| {
        let end = base + 20 * 1024 * KIB;
        let mut raw = raw(&[
            (action, base, 20 * 1024 * KIB),
            (Alloc, base, 12 * 1024 * KIB - 7),
            (Alloc, base + 12 * 1024 * KIB, 8 * 1024 * KIB - tail),
            (FreeCompleted, base, 12 * 1024 * KIB - 7),
            (FreeCompleted, base + 12 * 1024 * KIB, 8 * 1024 * KIB - tail),
            (Alloc, end - 15 * 1024 * KIB, 14 * 1024 * KIB),
        ]);
        raw.settings.extend(setting.map(|bytes| ("max_split_size".to_owned(), bytes.to_owned())));
        let history = replay(raw);
        assert_curves(&history);
        [1, 2].map(|state| (history.curves.active[state + 1] - history.curves.active[state]) / KIB)
    };
    // Behind the first block 8 MiB are split off, behind the second at most one MiB is not.
    assert_eq!(of(SegmentAlloc, None, 1024 * KIB), [12 * 1024, 8 * 1024]);
    assert_eq!(of(SegmentAlloc, Some("-1"), 1025 * KIB), [12 * 1024, 8 * 1024 - 1025]);
    assert_eq!(of(SegmentMap, None, 1024 * KIB), [12 * 1024, 7 * 1024]);
    // Blocks from a size on are not split at all.
    assert_eq!(of(SegmentAlloc, Some("10485760"), 1025 * KIB), [20 * 1024, 8 * 1024 - 1025]);
}

#[test]
fn requests_of_npus_are_padded() {
    let of = |bytes: u64| {
        let mut raw = raw(&[(Alloc, 0x9000, 1024), (FreeCompleted, 0x9000, 1024), (Alloc, 0x1000, 512)]);
        let mut end = segment(0x1000, 4096, &[(0x1000, bytes, BlockState::Allocated)]);
        end.blocks[0].requested = 512;
        raw.end = Some(vec![end]);
        replay(raw).curves.active
    };
    assert_eq!((of(512), of(1024)), (vec![0, 1024, 0, 512], vec![0, 1536, 0, 1024]));
}

#[test]
fn padding_shows_also_where_nothing_is_live_at_the_end() {
    // Blocks of 512 bytes one after the other in a segment, which are freed again.
    let of = |distance: u64| {
        let mut events = vec![(SegmentAlloc, 1 << 30, 2 << 20)];
        let addr = |i: u64| (1 << 30) + i * distance;
        events.extend((0..30).map(|i| (Alloc, addr(i), 512)));
        events.extend((0..30).flat_map(|i| [(FreeRequested, addr(i), 512), (FreeCompleted, addr(i), 512)]));
        let mut raw = raw(&events);
        raw.end = Some(vec![segment(1 << 30, 2 << 20, &[])]);
        replay(raw).curves.active[31]
    };
    assert_eq!((of(512), of(1024), of(1536)), (30 * 512, 30 * 1024, 30 * 512));
}

#[test]
fn a_trace_lasts_as_long_as_its_last_event() {
    let mut raw = raw(&[(SegmentAlloc, 0x1000, 512), (Alloc, 0x1000, 512)]);
    let pool = raw.pool(MemoryPool::default());
    let event =
        MemoryEvent { ts: 20, action: MemoryAction::OutOfMemory, addr: 0, bytes: 1 << 30, pool, stack: StackId(0) };
    raw.events.push(event);
    let trace = TraceBuilder { memories: vec![raw], ..TraceBuilder::default() }.finish();
    assert_eq!((trace.memories[0].span.end, trace.span.end), (20, 20), "a failed request is on no counter");
}

#[test]
fn a_profiler_records_memory_as_long_as_its_trace_lasts_and_a_snapshot_until_its_last_event() {
    let of = |source| {
        let slices = [("main", crate::model::SliceKind::Operator, "aten::mm", 10, 700)];
        let mut builder = TraceBuilder::from_slices(&slices);
        let mut raw = RawMemory { source, has_time: true, ..RawMemory::default() };
        let pool = raw.pool(MemoryPool::default());
        for (ts, action) in [(40, MemoryAction::Alloc), (90, MemoryAction::FreeCompleted)] {
            raw.events.push(MemoryEvent { ts, action, addr: 512, bytes: 512, pool, stack: StackId(0) });
        }
        builder.memories = vec![raw];
        builder.finish().memories[0].span
    };
    assert_eq!(of(MemorySource::Profiler), TimeRange { start: 10, end: 700 });
    assert_eq!(of(MemorySource::Snapshot), TimeRange { start: 40, end: 90 });
}
