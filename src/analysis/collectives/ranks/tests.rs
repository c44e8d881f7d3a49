//! Ranks that are made by hand: late by any cause, with clocks that are wrong, with calls that others lack.

use proptest::prelude::*;

use super::*;
use crate::model::{Collective, SliceFacts, SliceKind, TraceBuilder};

const DAY: TimeNs = 1_700_000_000_000_000_000;
const MS: TimeNs = 1_000_000;

/// A collective of a rank: start, end, operation, and group with number if they are recorded.
type Given = (TimeNs, TimeNs, &'static str, Option<(&'static str, u64)>);

/// A rank whose clock is `skew` ahead.
fn rank(rank: u32, skew: DurNs, calls: &[Given]) -> Trace {
    let mut slices = vec![("main", SliceKind::Operator, "op", skew, skew + 100 * MS)];
    slices
        .extend(calls.iter().map(|&(start, end, op, _)| ("stream 7", SliceKind::Kernel, op, start + skew, end + skew)));
    let mut builder = TraceBuilder::from_slices(&slices);
    for (i, (.., op, recorded)) in calls.iter().enumerate() {
        let Some((group, seq)) = *recorded else { continue };
        let [op, group] = [op, group].map(|text| builder.strings.intern(text));
        let collective = Collective { op, group, seq: Some(seq), ..Collective::default() };
        builder.set_facts(i + 1, SliceFacts { collective: Some(collective), ..SliceFacts::default() });
    }
    builder.info.rank = Some(rank);
    builder.info.utc_offset_ns = Some(DAY);
    builder.finish()
}

fn compared(traces: &[Trace]) -> RankCalls {
    let found = rank_calls(&traces.iter().collect::<Vec<_>>());
    for of in &found.matches {
        let parts = found.parts_of(of);
        assert!(parts.len() > 1 && parts.iter().any(|part| part.wait_ns == 0));
        assert!(parts.iter().all(|part| part.wait_ns + of.transfer_ns == part.time.dur()));
        assert!(parts.iter().all(|part| part.since.is_none_or(|since| since <= part.time.start)));
    }
    let totals = found.totals(|_| true);
    let [waits, waited_for] = [|of: &RankTotals| of.wait_ns, |of: &RankTotals| of.waited_for_ns]
        .map(|ns| totals.iter().map(ns).sum::<DurNs>());
    assert_eq!(waits, waited_for);
    for of in &found.ranks {
        assert_eq!(found.of_trace(of.trace).count() as u64, of.matched);
        assert!(found.of_trace(of.trace).all(|part| found.of_slice(of.trace, part.slice) == Some(part)));
    }
    found
}

/// The waits of each match in the order of the ranks, and the rank that is last.
fn waits(found: &RankCalls) -> Vec<(Vec<DurNs>, u32)> {
    let of = |of: &Match| (found.parts_of(of).iter().map(|part| part.wait_ns).collect(), found.late(of).trace);
    found.matches.iter().map(of).collect()
}

const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
const GATHER: &str = "ncclDevKernel_AllGather_RING_LL";
const BROADCAST: &str = "ncclDevKernel_Broadcast_RING_LL";
const ANY: &str = "ncclDevKernel_SendRecv";

/// Six collectives without numbers, which end at irregular times. The rank comes so much later to each.
fn plain(late: [DurNs; 6]) -> Vec<Given> {
    let ends = [10, 21, 30, 44, 52, 69].map(|end| end * MS);
    let starts = ends.into_iter().zip(late).map(|(end, late)| (end - 4 * MS + late, end));
    starts.map(|(start, end)| (start, end, REDUCE, None)).collect()
}

#[test]
fn the_last_rank_waits_for_none() {
    let a = rank(0, 0, &plain([0, MS, 0, 0, 0, 0]));
    let b = rank(1, 0, &plain([2 * MS, 0, 0, 3 * MS, 0, 0]));
    let found = compared(&[a, b]);
    let expected = [
        (vec![2 * MS, 0], 1),
        (vec![0, MS], 0),
        (vec![0, 0], 0),
        (vec![3 * MS, 0], 1),
        (vec![0, 0], 0),
        (vec![0, 0], 0),
    ];
    assert_eq!(waits(&found), expected);
    assert_eq!(found.matches[3].transfer_ns, MS);
    let totals: Vec<_> = found.totals(|_| true).iter().map(|of| (of.late, of.waited_for_ns, of.wait_ns)).collect();
    assert_eq!(totals, [(1, MS, 5 * MS), (2, 5 * MS, MS)]);
    // The first collective: since both were recorded; the second: since the end of the first.
    let since: Vec<_> = found.parts_of(&found.matches[1]).iter().map(|part| part.since).collect();
    assert_eq!(since, [Some(10 * MS); 2]);
    assert_eq!(found.parts_of(&found.matches[0])[1].since, Some(0));
}

#[test]
fn clocks_may_be_wrong_by_any_constant() {
    let late = [[0; 6], [MS, 0, 2 * MS, 0, 0, MS], [0, 0, 0, 3 * MS, 0, 0]];
    let of = |skew: [DurNs; 3]| compared(&[0, 1, 2].map(|i| rank(i, skew[i as usize], &plain(late[i as usize]))));
    let (right, wrong) = (of([0; 3]), of([0, 7 * MS, -40 * MS]));
    assert_eq!(waits(&right), waits(&wrong));
    let clocks: Vec<_> = wrong.ranks.iter().map(|of| of.clock.unwrap()).collect();
    let offsets: Vec<_> = clocks.iter().map(|clock| clock.offset_ns).collect();
    assert_eq!(offsets, [0, -7 * MS, 40 * MS]);
    assert!(clocks.iter().all(|clock| clock.residual_ns == 0));
    // Since the last of them was recorded, on its own clock each.
    let since = |found: &RankCalls| -> Vec<_> { found.parts[..3].iter().map(|part| part.since.unwrap()).collect() };
    assert_eq!(since(&wrong), [0, 7 * MS, -40 * MS]);
}

#[test]
fn calls_that_one_rank_lacks_are_counted_and_shift_nothing() {
    let (a, b) = (plain([0; 6]), plain([MS; 6]));
    for missing in [&[0][..], &[2], &[5], &[0, 5]] {
        let kept: Vec<Given> = (0..6).filter(|i| !missing.contains(i)).map(|i| b[i]).collect();
        let found = compared(&[rank(0, 0, &a), rank(1, 3 * MS, &kept)]);
        let counts: Vec<_> = found.ranks.iter().map(|of| (of.matched, of.unmatched)).collect();
        let n = missing.len() as u64;
        assert_eq!(counts, [(6 - n, n), (6 - n, 0)], "{missing:?}");
        assert!(waits(&found).iter().all(|of| *of == (vec![MS, 0], 1)), "{missing:?}");
    }
}

#[test]
fn numbers_tell_calls_apart_whatever_the_clocks_say() {
    let calls = |late: DurNs, skip: u64| -> Vec<Given> {
        let all = (0..4_u64).filter(|&seq| seq != skip);
        all.map(|seq| {
            let end = 10 * MS * (seq as TimeNs + 1);
            (end - 5 * MS + late, end, REDUCE, Some(("0", seq)))
        })
        .collect()
    };
    let found = compared(&[rank(0, 0, &calls(0, 9)), rank(1, 60 * MS, &calls(2 * MS, 1))]);
    assert_eq!(waits(&found), vec![(vec![2 * MS, 0], 1); 3]);
    assert_eq!(found.ranks.iter().map(|of| (of.matched, of.unmatched)).collect::<Vec<_>>(), [(3, 1), (3, 0)]);
}

#[test]
fn groups_are_kept_apart_and_compared_since_the_last_call_of_all() {
    // Ranks 0 and 1 share the group a, 2 and 3 the group b, with the same numbers; all share c.
    let calls = |group: &'static str, late: DurNs| -> Vec<Given> {
        vec![
            (10 * MS, 20 * MS, REDUCE, Some(("c", 0))),
            (22 * MS + late, 30 * MS, GATHER, Some((group, 1))),
            (32 * MS + late, 40 * MS, REDUCE, Some(("c", 1))),
        ]
    };
    let traces = [("a", 0), ("a", MS), ("b", 0), ("b", 3 * MS)];
    let traces: Vec<Trace> = (0..4).map(|i| rank(i, 0, &calls(traces[i as usize].0, traces[i as usize].1))).collect();
    let found = compared(&traces);
    let sizes: Vec<_> = found.matches.iter().map(|of| found.parts_of(of).len()).collect();
    assert_eq!(sizes, [4, 2, 2, 4]);
    let all = &found.matches[3];
    assert!(found.parts_of(all).iter().all(|part| part.since == Some(20 * MS)), "not since the calls of pairs");
    assert_eq!(waits(&found)[3], (vec![3 * MS, 2 * MS, 3 * MS, 0], 3));
}

#[test]
fn sends_are_no_collectives_and_one_way_calls_need_a_common_end() {
    let calls = |op, end: TimeNs| -> Vec<Given> {
        let mut calls: Vec<Given> =
            (0..4).map(|i| (i * 20 * MS, (i * 20 + 10) * MS, GATHER, Some(("0", i as u64)))).collect();
        calls.push((80 * MS, 85 * MS, op, Some(("0", 4))));
        calls.push((86 * MS, end, BROADCAST, Some(("0", 5))));
        calls
    };
    // The root is through before the last receiver has come.
    let found = compared(&[rank(0, 0, &calls("send", 87 * MS)), rank(1, 0, &calls("recv", 95 * MS))]);
    let counts: Vec<_> = found.ranks.iter().map(|of| (of.matched, of.point_to_point, of.unmatched)).collect();
    assert_eq!(counts, [(4, 1, 1); 2]);
    let found = compared(&[rank(0, 0, &calls("send", 95 * MS)), rank(1, 0, &calls("recv", 95 * MS))]);
    assert_eq!(found.ranks[0].matched, 5);
}

#[test]
fn ranks_that_do_not_end_together_are_not_compared() {
    let other: Vec<Given> = [13, 19, 34, 41, 57, 66].map(|end| ((end - 3) * MS, end * MS, ANY, None)).to_vec();
    let found = compared(&[rank(0, 0, &plain([0; 6])), rank(1, 0, &other)]);
    assert_eq!(found.matches, []);
    assert!(found.ranks.iter().all(|of| (of.matched, of.unmatched) == (0, 6)));
}

/// A rank whose threads take part in collectives of the host: start, end, name and elements of each.
fn rank_on_host(rank: u32, calls: &[(TimeNs, TimeNs, &'static str, u64)]) -> Trace {
    let threads = ["gloo 1", "gloo 2"];
    let mut slices = vec![("main", SliceKind::Operator, "op", 0, 200 * MS)];
    let ranges = calls.iter().enumerate();
    slices.extend(ranges.map(|(i, &(start, end, name, _))| (threads[i % 2], SliceKind::Annotation, name, start, end)));
    let mut builder = TraceBuilder::from_slices(&slices);
    for (i, &(_, _, name, elements)) in calls.iter().enumerate() {
        let op = builder.strings.intern(name.split(':').next_back().unwrap());
        let collective =
            Collective { op, element_bytes: Some(4), in_elements: Some(elements), ..Collective::default() };
        builder.set_facts(i + 1, SliceFacts { collective: Some(collective), ..SliceFacts::default() });
    }
    builder.info.rank = Some(rank);
    builder.info.utc_offset_ns = Some(DAY);
    builder.finish()
}

#[test]
fn ranges_of_the_host_are_matched_although_their_ends_are_apart_and_cross() {
    // Two at once in each of four steps, of which the second ends first on one rank; ends are up to 400 µs apart.
    let steps = [0, 21, 45, 60].map(|at| at * MS);
    let calls = |late: DurNs, ends: [DurNs; 2]| -> Vec<(TimeNs, TimeNs, &'static str, u64)> {
        let of = |at: TimeNs| {
            let first = (at + late, at + 10 * MS + ends[0], "gloo:all_reduce", 1_000);
            [first, (at + late + 100_000, at + 10 * MS + ends[1], "gloo:all_reduce", 9)]
        };
        steps.iter().flat_map(|&at| of(at)).collect()
    };
    let found = compared(&[rank_on_host(0, &calls(0, [400_000, 0])), rank_on_host(1, &calls(6 * MS, [0, 300_000]))]);
    assert!(found.ranks.iter().all(|of| (of.matched, of.unmatched) == (8, 0)), "{:?}", found.ranks);
    for of in &found.matches {
        let waits: Vec<_> = found.parts_of(of).iter().map(|part| part.wait_ns).collect();
        assert!((5 * MS..7 * MS).contains(&waits[0]) && waits[1] == 0, "{waits:?}");
    }
    // The first thread may be through long before the other, which is still in it: they were in it together.
    let slow = |mut calls: Vec<(TimeNs, TimeNs, &'static str, u64)>, [start, end]: [TimeNs; 2]| {
        (calls[4].0, calls[4].1) = (45 * MS + start, 45 * MS + end);
        calls
    };
    let found = compared(&[
        rank_on_host(0, &slow(calls(0, [0, 0]), [5 * MS, 8 * MS])),
        rank_on_host(1, &slow(calls(0, [0, 0]), [0, 14 * MS])),
    ]);
    assert!(found.ranks.iter().all(|of| (of.matched, of.unmatched) == (8, 0)), "{:?}", found.ranks);
    // Both wait at once for the other rank, in two collectives.
    let late = compared(&[rank_on_host(0, &calls(0, [0, 0])), rank_on_host(1, &calls(6 * MS, [0, 0]))]);
    let waits = late.totals(|_| true)[0];
    assert_eq!((waits.wait_ns, waits.at_once_ns), (4 * (6 * MS + 100_000), 4 * (6 * MS - 100_000)));
    // What begins when the other has ended is not the same call, and ranges are none with kernels.
    let apart = compared(&[
        rank_on_host(0, &[(0, MS, "gloo:barrier", 0)]),
        rank_on_host(1, &[(5 * MS, 6 * MS, "gloo:barrier", 0)]),
    ]);
    assert_eq!(apart.matches, []);
    let mixed = compared(&[rank_on_host(0, &calls(0, [0, 0])), rank(1, 0, &plain([0; 6]))]);
    assert_eq!(mixed.matches, []);
}

#[test]
fn one_trace_and_one_rank_twice_have_nothing_to_compare() {
    let a = || rank(0, 0, &plain([0; 6]));
    assert_eq!(compared(&[a()]), RankCalls::default());
    assert_eq!(compared(&[a(), a()]), RankCalls::default());
    let mut nameless = a();
    nameless.info.rank = None;
    assert_eq!(compared(&[a(), nameless]), RankCalls::default());
    // Two recordings of each rank, one after the other.
    let found = compared(&[
        a(),
        rank(0, 500 * MS, &plain([0; 6])),
        rank(1, 500 * MS, &plain([MS; 6])),
        rank(1, 0, &plain([0; 6])),
    ]);
    assert_eq!(found.ranks.iter().map(|of| of.job).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!(found.matches.len(), 12);
}

proptest! {
    /// Whatever ranks do, and whatever of it was recorded, with numbers or without.
    #[test]
    fn waits_are_those_that_were_planted(
        late in prop::collection::vec(prop::collection::vec(0_i64..3_000_000, 3), 8..40),
        jitter in prop::collection::vec(0_i64..5_000_000, 40),
        skew in prop::collection::vec(-9_000_000_i64..9_000_000, 3),
        is_numbered: bool,
    ) {
        let mut calls: Vec<Vec<Given>> = vec![Vec::new(); 3];
        let mut at = 10 * MS;
        for (i, (late, jitter)) in late.iter().zip(&jitter).enumerate() {
            let last = late.iter().max().unwrap();
            let end = at + last + MS;
            for (calls, late) in calls.iter_mut().zip(late) {
                calls.push((at + late, end, REDUCE, is_numbered.then_some(("0", i as u64))));
            }
            at = end + jitter;
        }
        let traces: Vec<Trace> = (0..3).map(|i| rank(i, skew[i as usize], &calls[i as usize])).collect();
        let found = compared(&traces);
        prop_assert_eq!(found.matches.len(), late.len());
        for ((waits, last), late) in waits(&found).iter().zip(&late) {
            let max = late.iter().max().unwrap();
            let expected: Vec<DurNs> = late.iter().map(|late| max - late).collect();
            prop_assert_eq!(waits, &expected);
            prop_assert_eq!(late[*last as usize], *max);
        }
    }
}
