//! Tests of growth in a few of the steps that is all of the growth there is.

use std::cell::RefCell;

use super::tests::{MIB, Training, find, label, program, training};
use super::{Leaks, TotalVerdict, Verdict};
use crate::model::Trace;
use crate::model::memory::{RawBlock, RawSegment};

const PLACE: &str = "update (log.py:31)";

/// Training that keeps a block of 2 MiB in each of these steps.
fn keeping(n: u64, steps: &[u64]) -> (Trace, Leaks) {
    let trace = training(n, |training| {
        if steps.contains(&training.step) {
            training.keep(2 * MIB, PLACE);
        }
    });
    let found = find(&trace, None);
    (trace, found)
}

#[test]
fn the_only_place_that_grows_leaks_however_its_steps_are_spaced() {
    for (n, steps) in [(12, &[0, 3, 6, 9][..]), (40, &[0, 8, 16, 24, 32]), (30, &[2, 6, 7, 13, 15, 22, 23, 28])] {
        let (trace, found) = keeping(n, steps);
        let leaks: Vec<String> = found.candidates.iter().map(|one| label(&trace, one.signature)).collect();
        assert_eq!(leaks, [PLACE], "{steps:?}");
        let counted = steps.iter().filter(|&&step| step >= found.warm_up as u64).count() as i64;
        assert_eq!(found.candidates[0].growth_bytes, counted * 2 * MIB as i64, "{steps:?}");
        assert!(!found.explained.iter().any(|one| one.signature == found.candidates[0].signature), "{steps:?}");
    }
}

#[test]
fn of_three_blocks_it_is_said_where_they_are_but_not_that_they_leak() {
    let (trace, found) = keeping(16, &[5, 8, 14]);
    assert_eq!((found.candidates.len(), found.total.unwrap().verdict), (0, TotalVerdict::Growth));
    let growing: Vec<_> = found.growing.iter().map(|one| (label(&trace, one.signature), one.blocks)).collect();
    assert_eq!(growing, [(PLACE.to_owned(), [0, 3])]);
    assert!(found.explained.iter().any(|one| one.verdict == Verdict::TooFewGains));
}

#[test]
fn a_cache_that_is_full_before_the_end_is_still_none() {
    let (_, found) = keeping(40, &[6, 8, 13, 15, 19]);
    assert_eq!((found.candidates.len(), found.growing.len()), (0, 0));
}

#[test]
fn of_two_places_that_grow_by_as_much_neither_is_all_of_it() {
    let trace = training(40, |training| match training.step {
        7 | 13 | 22 | 29 | 35 => _ = training.keep(2 * MIB, PLACE),
        9 | 12 | 20 | 31 | 36 => _ = training.keep(2 * MIB, "remember (cache.py:4)"),
        _ => {}
    });
    let found = find(&trace, None);
    assert_eq!((found.candidates.len(), found.growing.len()), (0, 0), "{found:?}");
}

/// The allocator may give a block the rest of a segment that is too small to split off: what was requested comes back
/// all the same.
#[test]
fn blocks_that_were_rounded_up_are_as_large_as_was_requested() {
    let blocks = RefCell::new(vec![(0, 100 * MIB, 100 * MIB), ((1 << 40) + 41 * MIB, 40 * MIB, 40 * MIB)]);
    let keep = |training: &mut Training, requested, bytes, place| {
        let addr = training.keep(requested, place);
        blocks.borrow_mut().push((addr, requested, bytes));
    };
    let trace = program(
        40,
        |training| {
            // It is not all that grows.
            if training.step % 2 == 0 {
                keep(training, MIB, MIB, "other (other.py:1)");
            }
            if training.step % 8 == 0 {
                keep(training, 2 * MIB, if training.step == 24 { 3 * MIB } else { 2 * MIB }, PLACE);
            }
        },
        |training| {
            let segment = |(addr, requested, bytes)| {
                let block = RawBlock { addr, bytes, requested, ..RawBlock::default() };
                RawSegment { addr, bytes, blocks: vec![block], ..RawSegment::default() }
            };
            training.script.raw.end = Some(blocks.take().into_iter().map(segment).collect());
        },
    );
    let found = find(&trace, None);
    let leak = found.candidates.iter().find(|one| label(&trace, one.signature) == PLACE).unwrap();
    assert_eq!(leak.growth_bytes, 9 * MIB as i64);
}
