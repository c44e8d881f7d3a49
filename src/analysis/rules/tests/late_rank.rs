//! Ranks that come late to collectives.

use super::each_rule::{AHEAD, CALL, LATENCY, linked};
use super::*;
use crate::analysis::collectives::ranks::rank_calls;
use crate::analysis::gaps::GapClass;

const MS: TimeNs = 1_000_000;
const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

/// A rank that computes for `compute`, does nothing for `idle` while the host runs an operator, and then takes part in
/// a collective that ends after 8 ms of the step of ten.
pub fn rank(rank: u32, compute: TimeNs, idle: TimeNs) -> Trace {
    let start = compute + idle;
    let mut step = vec![
        ("stream 7", KERNEL, "gemm", 0, compute, 0),
        ("stream 7", KERNEL, REDUCE, start, 8 * MS, 1),
        ("stream 7", KERNEL, "gemm", 8 * MS, STEP, 0),
        ("main", CALL, "cudaLaunchKernel", start - LATENCY, start - LATENCY / 2, 1),
    ];
    step.extend(AHEAD);
    if idle > 0 {
        step.push(("main", SliceKind::Operator, "aten::slow", 0, start - LATENCY, 0));
    }
    let mut builder = linked(&step);
    builder.info.rank = Some(rank);
    builder.finish()
}

/// A rank that takes part in a collective after 4 ms of each step, but after `once` in the sixth.
pub fn rank_late_once(rank: u32, once: TimeNs) -> Trace {
    let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
    let mut slices = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let (at, start) = (i as TimeNs * STEP, if i == 5 { once } else { 4 * MS });
        let end = if i == 5 { 9 * MS } else { 5 * MS };
        slices.push(("main", NOTE, name.as_str(), at, at + STEP));
        slices.push(("stream 7", KERNEL, "gemm", at, at + start));
        slices.push(("stream 7", KERNEL, REDUCE, at + start, at + end));
        slices.push(("stream 7", KERNEL, "gemm", at + end, at + STEP));
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.info.rank = Some(rank);
    builder.finish()
}

pub fn judged_together(traces: &[Trace]) -> Vec<Verdicts> {
    let models: Vec<&Trace> = traces.iter().collect();
    let steps: Vec<_> = traces.iter().map(|trace| steps(trace, &|| false)).collect();
    let busy: Vec<_> = traces.iter().map(devices).collect();
    let ledgers: Vec<Vec<Ledger>> = (traces.iter().zip(&busy).zip(&steps))
        .map(|((trace, busy), steps)| busy.iter().map(|busy| ledger(trace, busy, steps.as_ref(), &|| false)).collect())
        .collect();
    let alone: Vec<Verdicts> = traces.iter().map(|trace| judged(trace, None)).collect();
    let ranks: Vec<OfRank<'_>> = (0..traces.len())
        .map(|i| OfRank {
            trace: &traces[i],
            steps: steps[i].as_ref(),
            busy: &busy[i],
            ledgers: &ledgers[i],
            verdicts: &alone[i],
        })
        .collect();
    with_ranks(&rank_calls(&models), &ranks, &Thresholds::default())
}

#[test]
fn a_rank_that_computes_longer_is_late_and_the_others_wait() {
    let all = judged_together(&[rank(0, 4 * MS, 0), rank(1, 7 * MS, 0), rank(2, 5 * MS, 0)]);
    let hit = of(&all[1], Rule::LateRank).unwrap();
    // Eight steps count; the others wait 3 and 2 ms.
    assert_eq!((hit.amount, hit.of, hit.severity), (8 * 5 * MS / 2, 8 * STEP, Severity::High));
    let late = hit.late.as_ref().unwrap();
    assert_eq!((late.n_ranks, late.late, late.calls, late.own), (3, 8, 8, (0, 8)));
    // What it computes longer the others wait.
    assert_eq!(late.longer, [(Part::Compute, 8 * 5 * MS / 2), (Part::Communication, -8 * 5 * MS / 2)]);
    // With the second last it would come 2 ms sooner.
    assert_eq!(hit.ceiling_ns_per_step, Some(2 * MS));
    assert_eq!(hit.range.map(TimeRange::dur), Some(9 * MS));
    for i in [0, 2] {
        assert_eq!(of(&all[i], Rule::LateRank), None);
        let communication = of(&all[i], Rule::ExposedCommunication).unwrap();
        let exposed = if i == 0 { 4 * MS } else { 3 * MS };
        assert_eq!(
            communication.waiting,
            Waiting { ns: 8 * (exposed - MS), first_ns: 0, late: Some((1, 8 * (exposed - MS))), n_ranks: 3 }
        );
        let gains = [Rule::LateRank, Rule::ExposedCommunication].map(|rule| {
            let check = all[i].checks.iter().find(|check| check.rule == rule).unwrap();
            check.ceiling_ns_per_step.unwrap_or_default()
        });
        assert_eq!(gains, [2 * MS, exposed - 2 * MS], "no more than the exposed time together");
    }
}

/// The same without a kernel that communicates: threads of the host take part in two collectives at once, and one of
/// them launches the work after them.
fn rank_on_host(rank: u32, compute: TimeNs) -> Trace {
    let step = [
        ("stream 7", KERNEL, "gemm", 0, compute, 0),
        ("gloo 1", NOTE, "gloo:all_reduce", compute, 8 * MS, 0),
        ("gloo 2", NOTE, "gloo:all_reduce", compute + MS / 2, 8 * MS - LATENCY, 0),
        ("gloo 1", CALL, "cudaLaunchKernel", 8 * MS - LATENCY, 8 * MS - LATENCY / 2, 1),
        ("stream 7", KERNEL, "gemm", 8 * MS, STEP, 1),
    ];
    let mut builder = linked(&step);
    builder.info.rank = Some(rank);
    builder.finish()
}

#[test]
fn ranks_wait_for_each_other_in_collectives_of_the_host() {
    let all = judged_together(&[rank_on_host(0, 4 * MS), rank_on_host(1, 7 * MS)]);
    let hit = of(&all[1], Rule::LateRank).unwrap();
    // Two at a time: no time counts twice, and it comes last to both.
    let late = hit.late.as_ref().unwrap();
    assert_eq!((late.n_ranks, late.late, late.calls), (2, 2 * 8, 2 * 8));
    assert_eq!(hit.amount / 8, 3 * MS + MS / 2);
    assert_eq!(late.longer[0].0, Part::Compute);
    let calls = of(&all[0], Rule::CollectiveCalls).unwrap();
    assert_eq!(calls.waiting.late.map(|late| late.0), Some(1));
    assert_eq!((calls.waiting.ns, calls.waiting.n_ranks), (hit.amount, 2));
    assert_eq!(calls.amount, 8 * (4 * MS - LATENCY), "the idle time is in calls of collectives");
    assert_eq!(of(&all[0], Rule::ExposedCommunication), None);
    let gains = [Rule::LateRank, Rule::CollectiveCalls].map(|rule| {
        let check = all[0].checks.iter().find(|check| check.rule == rule).unwrap();
        check.ceiling_ns_per_step.unwrap_or_default()
    });
    assert_eq!(gains.iter().sum::<TimeNs>(), 4 * MS - LATENCY, "no more than that idle time together");
    assert_eq!(hit.ceiling_ns_per_step, Some(gains[0]));
}

#[test]
fn a_rank_whose_host_is_slow_is_late_by_that() {
    let all = judged_together(&[rank(0, 4 * MS, 0), rank(1, 4 * MS, 3 * MS)]);
    let hit = of(&all[1], Rule::LateRank).unwrap();
    assert_eq!(hit.ceiling_ns_per_step, Some(3 * MS));
    let late = hit.late.as_ref().unwrap();
    assert_eq!(late.longer[0], (Part::Idle(GapClass::CpuOp), 8 * (3 * MS - LATENCY)));
    assert_eq!(late.longer.iter().map(|part| part.1).filter(|&ns| ns > 0).sum::<TimeNs>(), 8 * 3 * MS);
}

#[test]
fn what_a_rank_computes_while_others_wait_is_not_more() {
    // Two collectives of 0.5 ms, of which one begins after 1 ms of compute, and one after 2 ms more that run beside it.
    let rank = |rank: u32, idle: TimeNs| {
        let mut step = vec![
            ("stream 7", KERNEL, "gemm", idle, idle + MS, 1),
            ("stream 20", KERNEL, REDUCE, idle + MS, 4 * MS + MS / 2, 0),
            ("stream 7", KERNEL, "gemm", idle + MS, idle + 3 * MS, 0),
            ("stream 20", KERNEL, REDUCE, (idle + 3 * MS).max(4 * MS + MS / 2), 6 * MS + MS / 2, 0),
            ("stream 7", KERNEL, "gemm", 6 * MS + MS / 2, STEP, 0),
        ];
        if idle > 0 {
            step.push(("main", SliceKind::Operator, "aten::slow", 0, idle - LATENCY, 0));
            step.push(("main", CALL, "cudaLaunchKernel", idle - LATENCY, idle - LATENCY / 2, 1));
        } else {
            step[0].5 = 0;
            step.extend(AHEAD);
        }
        let mut builder = linked(&step);
        builder.info.rank = Some(rank);
        builder.finish()
    };
    let all = judged_together(&[rank(0, 0), rank(1, 3 * MS)]);
    let late = of(&all[1], Rule::LateRank).unwrap().late.clone().unwrap();
    let more = |part: Part| late.longer.iter().find(|longer| longer.0 == part).map_or(0, |longer| longer.1);
    assert_eq!(more(Part::Compute), 0, "{:?}", late.longer);
    assert_eq!(late.longer[0], (Part::Idle(GapClass::CpuOp), 8 * (3 * MS - LATENCY)));
}

#[test]
fn a_rank_that_is_late_in_one_step_gains_nothing_in_each() {
    let all = judged_together(&[rank_late_once(0, 4 * MS), rank_late_once(1, 8 * MS)]);
    let hit = of(&all[1], Rule::LateRank).unwrap();
    let once = hit.once.as_ref().map(|once| (once.step.as_str(), once.ns));
    assert_eq!((hit.amount, once), (4 * MS, Some(("ProfilerStep#5", 4 * MS))));
    assert_eq!(hit.ceiling_ns_per_step, None);
    assert!(all[0].makeups[0].late_ranks.is_empty());
    // The communication of the other is not more than a transfer for that.
    let communication = all[0].checks.iter().find(|check| check.rule == Rule::ExposedCommunication).unwrap();
    assert_eq!(communication.ceiling_ns_per_step, Some(MS));
    let always = judged_together(&[rank(0, 4 * MS, 0), rank(1, 7 * MS, 0)]);
    assert_eq!(of(&always[1], Rule::LateRank).unwrap().once, None);
}

#[test]
fn ranks_that_come_together_have_no_finding() {
    let all = judged_together(&[rank(0, 4 * MS, 0), rank(1, 4 * MS + 290_000, 0)]);
    for verdicts in &all {
        assert_eq!(of(verdicts, Rule::LateRank), None);
        let check = verdicts.checks.iter().find(|check| check.rule == Rule::LateRank).unwrap();
        assert!(check.measured < 0.03);
    }
    let all = judged_together(&[rank(0, 4 * MS, 0), rank(1, 4 * MS + 300_000, 0)]);
    assert_eq!(of(&all[1], Rule::LateRank).map(|hit| hit.severity), Some(Severity::Note));
}

#[test]
fn a_rank_alone_is_judged_as_before() {
    let all = [rank(0, 4 * MS, 0)];
    assert_eq!(judged_together(&all)[0], judged(&all[0], None));
}

#[test]
fn what_comes_of_one_late_rank_is_told_from_what_comes_of_all() {
    // Two collectives in a step, and another rank last to each.
    let rank = |rank: u32, first: TimeNs, second: TimeNs| {
        let mut step = vec![
            ("stream 7", KERNEL, "gemm", 0, first, 0),
            ("stream 7", KERNEL, REDUCE, first, 4 * MS, 0),
            ("stream 7", KERNEL, "gemm", 4 * MS, 4 * MS + second, 0),
            ("stream 7", KERNEL, REDUCE, 4 * MS + second, 8 * MS, 0),
            ("stream 7", KERNEL, "gemm", 8 * MS, STEP, 0),
        ];
        step.extend(AHEAD);
        let mut builder = linked(&step);
        builder.info.rank = Some(rank);
        builder.finish()
    };
    let all = judged_together(&[rank(4, MS, MS), rank(5, 3 * MS, MS), rank(6, 2 * MS, 3 * MS)]);
    let gains = [1, 2].map(|i| {
        let hit: &Hit = of(&all[i], Rule::LateRank).unwrap();
        let also = hit.late.as_ref().unwrap().also_late.clone();
        (hit.ceiling_ns_per_step.unwrap(), hit.alone_ns_per_step.unwrap(), also)
    });
    // The first waits 2 ms in each. To the first collective the last but one comes 1 ms sooner than the last.
    assert_eq!(gains, [(4 * MS, MS, vec![6]), (4 * MS, 2 * MS, vec![5])]);
    let late: Vec<_> = all.iter().map(|of| of.makeups[0].late_ranks.clone()).collect();
    assert_eq!(late, [vec![5, 6], vec![6], vec![5]]);
}

#[test]
fn a_late_rank_delays_transfers_that_would_else_run_beside_compute() {
    // Two collectives of 1 ms beside compute, to which a rank comes that is 2 ms late.
    let rank = |rank: u32, compute: TimeNs| {
        let mut step = vec![
            ("stream 7", KERNEL, "gemm", 0, compute, 0),
            ("stream 20", KERNEL, REDUCE, compute - 2 * MS, 5 * MS, 0),
            ("stream 20", KERNEL, REDUCE, compute.max(5 * MS), 7 * MS, 0),
            ("stream 7", KERNEL, "gemm", 7 * MS, STEP, 0),
        ];
        step.extend(AHEAD);
        let mut builder = linked(&step);
        builder.info.rank = Some(rank);
        builder.finish()
    };
    let all = judged_together(&[rank(0, 4 * MS), rank(1, 6 * MS)]);
    let hit = of(&all[1], Rule::LateRank).unwrap();
    // Of a step of 10 ms 1 ms is in a wait beside which nothing computes. Had both computed for 4 ms, the collectives
    // would have been over after 3 and 5 ms, and the step after 8.
    assert_eq!(hit.amount, 8 * MS);
    let gain = hit.ceiling_ns_per_step.unwrap();
    assert!((2 * MS..=3 * MS).contains(&gain), "{gain}");
    let late = hit.late.as_ref().unwrap();
    assert_eq!((late.late, late.calls), (2 * 8, 2 * 8), "also to those beside which the other computes");
    // Communication that takes no time at all ends 1 ms sooner: the rank is still late.
    let communication = of(&all[0], Rule::ExposedCommunication).unwrap();
    assert_eq!(communication.ceiling_ns_per_step, Some(2 * MS));
}

/// What the host of each rank gains at most if it is faster, and if it alone is.
fn gains_of_host(traces: &[Trace]) -> Vec<(Option<TimeNs>, Option<TimeNs>)> {
    let all = judged_together(traces);
    let of_host = |verdicts: &Verdicts| {
        let hit = of(verdicts, Rule::HostBound);
        let check = verdicts.checks.iter().find(|check| check.rule == Rule::HostBound).unwrap();
        assert!(hit.is_none_or(|hit| hit.ceiling_ns_per_step == check.ceiling_ns_per_step));
        (check.ceiling_ns_per_step, hit.and_then(|hit| hit.alone_ns_per_step))
    };
    all.iter().map(of_host).collect()
}

#[test]
fn a_cause_gains_a_rank_no_more_than_the_job() {
    // Each host is slow by itself; the second takes a millisecond more.
    let both = [rank(0, 4 * MS, 2 * MS), rank(1, 4 * MS, 3 * MS)];
    assert_eq!(gains_of_host(&both), [(Some(2 * MS), Some(0)), (Some(3 * MS), Some(MS))]);
    // The other rank computes longer than this one is slow: it waits for that anyway.
    let hidden = [rank(0, 7 * MS, 0), rank(1, 3 * MS, 3 * MS)];
    assert_eq!(gains_of_host(&hidden), [(None, None), (Some(0), None)]);
    // Or not quite as long: the rest is gained, by both.
    let part = [rank(0, 5 * MS, 0), rank(1, 3 * MS, 3 * MS)];
    assert_eq!(gains_of_host(&part), [(None, None), (Some(MS), None)]);
}

#[test]
fn a_cause_is_not_limited_by_ranks_that_were_not_compared_in_all() {
    let more = |compute: TimeNs| {
        let mut builder = linked(&[
            ("stream 7", KERNEL, "gemm", 0, compute, 0),
            ("stream 7", KERNEL, REDUCE, compute, 8 * MS, 1),
            ("stream 7", KERNEL, "gemm", 8 * MS, 9 * MS, 0),
            ("stream 7", KERNEL, "ncclDevKernel_AllGather_RING_LL", 9 * MS, STEP, 2),
        ]);
        builder.info.rank = Some(0);
        builder.finish()
    };
    assert_eq!(gains_of_host(&[more(7 * MS), rank(1, 3 * MS, 3 * MS)])[1], (Some(3 * MS), None));
}
