use super::allocator::{Action, Allocator, State};
use super::code;
use super::*;

const MIB: u64 = 1 << 20;

fn shape(steps: u32, plants: &[Plant]) -> Shape {
    Shape {
        steps,
        seed: 3,
        layers: 2,
        protocol: 4,
        has_times: true,
        max_entries: None,
        is_expandable: false,
        plants: plants.to_vec(),
    }
}

fn written(shape: &Shape) -> (Vec<u8>, MemoryAnswer) {
    let mut bytes = Vec::new();
    let answer = write(shape, &mut bytes).unwrap();
    (bytes, answer.memory.unwrap())
}

/// Blocks fill their segments without gaps, and the counters agree with them.
fn assert_whole(allocator: &Allocator) {
    let mut reserved = 0;
    for (&base, segment) in &allocator.segments {
        let mut at = base;
        for (&addr, block) in allocator.blocks.range(base..base + segment.size) {
            assert_eq!(addr, at);
            at += block.size;
            reserved += if block.state == State::Unmapped { 0 } else { block.size };
        }
        assert_eq!(at, base + segment.size);
    }
    assert_eq!(reserved, allocator.reserved);
}

#[test]
fn same_seed_same_bytes() {
    let plants = [Plant::SteadyLeak, Plant::Fragmentation];
    assert!(written(&shape(6, &plants)) == written(&shape(6, &plants)));
    let other = Shape { seed: 4, ..shape(6, &plants) };
    assert!(written(&shape(6, &plants)).0 != written(&other).0);
}

#[test]
fn requests_get_the_sizes_and_segments_that_pytorch_gives_them() {
    let mut allocator = Allocator::new(1 << 30, false);
    let small = allocator.malloc(1, 0, code::LOSS, 0).unwrap();
    let other = allocator.malloc(513, 0, code::LOSS, 1).unwrap();
    let large = allocator.malloc(MIB + 1, 0, code::LOSS, 2).unwrap();
    let own = allocator.malloc(25 * MIB + 1, 0, code::LOSS, 3).unwrap();
    let elsewhere = allocator.malloc(1, 7, code::LOSS, 4).unwrap();
    assert_eq!(other, small + 512);
    let size = |addr: u64| allocator.blocks[&addr].size;
    assert_eq!([size(small), size(other), size(large), size(elsewhere)], [512, 1024, MIB + 512, 512]);
    // What is left of a large segment is split off only above 1 MiB.
    assert_eq!(size(own), 26 * MIB);
    let segments: Vec<_> = allocator.segments.values().map(|segment| segment.size / MIB).collect();
    assert_eq!(segments, [2, 20, 26, 2]);
    assert_whole(&allocator);
}

#[test]
fn the_smallest_block_that_fits_is_taken_and_neighbours_join() {
    let mut allocator = Allocator::new(1 << 30, false);
    let blocks = [4, 2, 6, 3].map(|mib| allocator.malloc(mib * MIB, 0, code::LOSS, 0).unwrap());
    allocator.free(blocks[0], code::LOSS, 1, None);
    allocator.free(blocks[2], code::LOSS, 2, None);
    // 5 MiB are left of the segment.
    assert_eq!(allocator.malloc(5 * MIB, 0, code::LOSS, 3).unwrap(), blocks[3] + 3 * MIB);
    assert_eq!(allocator.malloc(3 * MIB, 0, code::LOSS, 4).unwrap(), blocks[0]);
    allocator.free(blocks[1], code::LOSS, 5, None);
    assert_eq!(allocator.blocks[&blocks[0]].size, 4 * MIB, "a rest of 1 MiB is not split off");
    assert_eq!(allocator.blocks[&blocks[1]].size, 8 * MIB);
    assert_whole(&allocator);
}

#[test]
fn a_block_that_a_stream_uses_is_free_only_when_that_is_done() {
    let mut allocator = Allocator::new(1 << 30, false);
    let block = allocator.malloc(512, 0, code::LOSS, 0).unwrap();
    allocator.free(block, code::LOSS, 1, Some(50));
    assert_ne!(allocator.malloc(512, 0, code::LOSS, 49).unwrap(), block);
    assert_eq!(allocator.malloc(512, 0, code::LOSS, 50).unwrap(), block);
    use Action::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc};
    let actions: Vec<_> = allocator.log.iter().map(|entry| entry.action).collect();
    assert_eq!(actions, [SegmentAlloc, Alloc, FreeRequested, Alloc, FreeCompleted, Alloc]);
}

#[test]
fn what_is_not_in_use_goes_back_before_memory_runs_out() {
    let mut allocator = Allocator::new(100 * MIB, false);
    let block = allocator.malloc(60 * MIB, 0, code::LOSS, 0).unwrap();
    allocator.free(block, code::LOSS, 1, None);
    let kept = allocator.malloc(MIB, 0, code::LOSS, 2).unwrap();
    allocator.malloc(80 * MIB, 0, code::LOSS, 3).unwrap();
    let oom = allocator.malloc(20 * MIB, 0, code::LOSS, 4).unwrap_err();
    assert_eq!((oom.requested, oom.device_free), (20 * MIB, 18 * MIB));
    let freed: Vec<_> = allocator.log.iter().filter(|entry| entry.action == Action::SegmentFree).collect();
    assert_eq!((freed.len(), freed[0].addr, freed[0].size), (1, block, 60 * MIB));
    assert!(allocator.blocks.contains_key(&kept));
    assert_eq!(allocator.log.last().unwrap().action, Action::AllocationFailure);
    assert_whole(&allocator);
}

#[test]
fn expandable_segments_grow_and_shrink_by_pages() {
    let mut allocator = Allocator::new(1 << 30, true);
    let one = allocator.malloc(15 * MIB, 0, code::LOSS, 0).unwrap();
    let two = allocator.malloc(15 * MIB, 0, code::LOSS, 1).unwrap();
    assert_eq!((two, allocator.reserved), (one + 15 * MIB, 40 * MIB));
    let three = allocator.malloc(15 * MIB, 0, code::LOSS, 2).unwrap();
    assert_eq!((three, allocator.reserved), (two + 15 * MIB, 60 * MIB));
    allocator.free(one, code::LOSS, 3, None);
    allocator.free(two, code::LOSS, 4, None);
    allocator.empty_cache(code::CLEAN, 5);
    // Of the first 30 MiB one page is free as a whole; the end shares its page with nothing.
    assert_eq!(allocator.reserved, 40 * MIB);
    assert_whole(&allocator);
    assert_eq!(allocator.malloc(15 * MIB, 0, code::LOSS, 6).unwrap(), three + 15 * MIB);
    assert_eq!(allocator.malloc(12 * MIB, 0, code::LOSS, 7).unwrap(), one);
    assert_whole(&allocator);
}

/// Levels after each step and peaks within, by the allocator's own blocks.
fn steps_of(plants: &[Plant], steps: u32) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let plan = MemoryPlan { steps, seed: 1, layers: 2, plants, is_expandable: false, capacity: DEVICE };
    let mut allocated = Vec::new();
    let end = simulate(plan, &mut |entry| {
        let change = match entry.action {
            Action::Alloc => entry.size as i64,
            Action::FreeRequested => -(entry.size as i64),
            _ => 0,
        };
        let reserved = match entry.action {
            Action::SegmentAlloc => entry.size as i64,
            Action::SegmentFree => -(entry.size as i64),
            _ => 0,
        };
        allocated.push((entry.time_us, change, reserved));
        Ok(())
    })
    .unwrap();
    assert_whole(&end.allocator);
    let (mut level, mut held, mut at) = (0, 0, 0);
    let (mut levels, mut peaks, mut reserved) = (Vec::new(), Vec::new(), Vec::new());
    for mark in end.marks.iter().filter(|mark| !mark.is_start && matches!(mark.name, training::MarkName::Step(_))) {
        let mut peak = level;
        while let Some(&(_, change, segment)) = allocated.get(at).filter(|entry| entry.0 <= mark.time_us) {
            level += change;
            held += segment;
            peak = peak.max(level);
            at += 1;
        }
        levels.push(level as u64);
        peaks.push(peak as u64);
        reserved.push(held as u64);
    }
    (levels, peaks, reserved)
}

#[test]
fn a_healthy_run_is_flat_after_its_first_step() {
    let (levels, _, reserved) = steps_of(&[], 24);
    assert!(levels[1..].windows(2).all(|pair| pair[0] == pair[1]), "{levels:?}");
    assert!(reserved[2..].windows(2).all(|pair| pair[0] == pair[1]), "{reserved:?}");
}

#[test]
fn plants_show_in_levels_peaks_and_reserved_bytes() {
    let (levels, ..) = steps_of(&[Plant::SteadyLeak], 24);
    assert!(levels[1..].windows(2).all(|pair| pair[1] - pair[0] == 512 << 10), "{levels:?}");
    let (levels, peaks, _) = steps_of(&[Plant::Ratchet], 24);
    assert!(levels[1..].windows(2).all(|pair| pair[1] == pair[0]), "{levels:?}");
    assert!(peaks[2..].windows(2).all(|pair| pair[1] > pair[0]), "{peaks:?}");
    let (levels, ..) = steps_of(&[Plant::WarmUpCache], 24);
    assert!(levels[1..8].windows(2).all(|pair| pair[1] - pair[0] == 512 << 10), "{levels:?}");
    assert!(levels[8..].windows(2).all(|pair| pair[1] == pair[0]), "{levels:?}");
    let (levels, ..) = steps_of(&[Plant::Setup], 24);
    assert!(levels[5..].windows(2).all(|pair| pair[1] == pair[0]), "{levels:?}");
    let (levels, _, reserved) = steps_of(&[Plant::Fragmentation], 24);
    // A pin is 512 bytes larger than what it replaces.
    assert!(levels[1..].windows(2).all(|pair| pair[1] - pair[0] == 512), "{levels:?}");
    assert!(reserved.windows(2).all(|pair| pair[1] - pair[0] >= 80 * MIB), "{reserved:?}");
}

#[test]
fn the_cause_of_an_out_of_memory_is_the_planted_one() {
    for (plants, cause) in [(&[Plant::Oom][..], "demand"), (&[Plant::Fragmentation, Plant::Oom], "fragmentation")] {
        for steps in [1, 12, 40] {
            let answer = written(&shape(steps, plants)).1;
            let oom = answer.oom.unwrap();
            assert_eq!((oom.cause, oom.entry), (cause, answer.entries - 1), "{steps} steps");
            assert!(oom.requested > oom.device_free && oom.requested > oom.largest_inactive);
        }
    }
}

#[test]
fn contradictions_are_refused() {
    let expandable = Shape { is_expandable: true, ..shape(1, &[Plant::Fragmentation]) };
    for shape in [expandable, shape(1, &[Plant::None, Plant::Oom])] {
        assert_eq!(write(&shape, &mut Vec::new()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
