mod device;
pub mod each_rule;
mod host;
mod irregular;
mod joined;
pub mod late_rank;
mod recordings;
mod shares;

use super::*;
use crate::analysis::busy::devices;
use crate::analysis::gaps::clusters::clusters;
use crate::analysis::gaps::{GapClass, ledger};
use crate::analysis::phases::phases;
use crate::analysis::steps::steps;
use crate::model::{CopyKind, DeviceInfo, MemoryCopy, SliceFacts, SliceKind, TimeNs, TraceBuilder};

type Named<'a> = (&'a str, SliceKind, &'a str, TimeNs, TimeNs);

const KERNEL: SliceKind = SliceKind::Kernel;
const COPY: SliceKind = SliceKind::Memcpy;
const NOTE: SliceKind = SliceKind::Annotation;
/// Length of a step.
const STEP: TimeNs = 10_000_000;

pub fn judged(trace: &Trace, range: Option<TimeRange>) -> Verdicts {
    let steps = steps(trace, &|| false);
    let busy = devices(trace);
    let ledgers: Vec<Ledger> = busy.iter().map(|busy| ledger(trace, busy, steps.as_ref(), &|| false)).collect();
    let clusters = clusters(trace, &ledgers, steps.as_ref(), &|| false);
    let phases = phases(trace, &|| false);
    let steps = steps.as_ref();
    let measured = Measured {
        trace,
        steps,
        busy: &busy,
        ledgers: &ledgers,
        clusters: &clusters,
        phases: &phases,
        range,
        run: RunFacts::of(trace),
    };
    let found = verdicts(&measured, &Thresholds::default(), &|| false);
    let mut without_taken = clusters.clone();
    without_taken.iter_mut().for_each(|clusters| clusters.taken = Taken::default());
    let measured = Measured { clusters: &without_taken, ..measured };
    let found_again = verdicts(&measured, &Thresholds::default(), &|| false);
    assert_eq!(found, found_again, "what the recorder took is the same where it is not kept");
    for makeup in &found.makeups {
        let sum = |of: &Vec<(GapClass, DurNs)>| of.iter().map(|class| class.1).sum::<DurNs>();
        let causes: Vec<DurNs> = makeup.causes.iter().map(|cause| cause.1).collect();
        assert_eq!(makeup.meanwhile.iter().map(sum).collect::<Vec<_>>(), causes, "what went on sums to each cause");
        assert_eq!(causes.iter().sum::<DurNs>(), makeup.parts.idle_ns);
    }
    found
}

/// Ten steps of the same slices, given for one step that begins at 0.
fn trace(step: &[Named<'_>]) -> Trace {
    let mut slices: Vec<Named<'_>> = Vec::new();
    let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
    for (i, name) in (0..).zip(&names) {
        let at = STEP * i;
        slices.push(("main", NOTE, name, at, at + STEP));
        slices.extend(step.iter().map(|&(thread, kind, name, start, end)| (thread, kind, name, at + start, at + end)));
    }
    TraceBuilder::from_slices(&slices).finish()
}

fn found(verdicts: &Verdicts) -> Vec<(Rule, Severity)> {
    verdicts.hits.iter().map(|hit| (hit.rule, hit.severity)).collect()
}

pub fn of(verdicts: &Verdicts, rule: Rule) -> Option<&Hit> {
    verdicts.hits.iter().find(|hit| hit.rule == rule)
}

fn n_steps(verdicts: &Verdicts) -> u64 {
    verdicts.hits[0].n_steps as u64
}

/// A device that is busy all the time with 20 kernels of half a millisecond.
fn healthy() -> Vec<Named<'static>> {
    (0..20).map(|i| ("stream 7", KERNEL, "gemm", 500_000 * i, 500_000 * (i + 1))).collect()
}

#[test]
fn a_busy_device_has_no_finding_and_says_what_was_checked() {
    let verdicts = judged(&trace(&healthy()), None);
    assert_eq!(found(&verdicts), []);
    let checked: Vec<Rule> = verdicts.checks.iter().map(|check| check.rule).collect();
    for rule in [Rule::LowUtilization, Rule::DataLoading, Rule::ExposedCommunication, Rule::Synchronization] {
        assert!(checked.contains(&rule), "{rule:?}");
    }
    assert!(!checked.contains(&Rule::PageableCopies), "no copies were recorded");
}

#[test]
fn the_makeup_of_the_time_sums_to_it() {
    let mut step = healthy();
    step.truncate(14);
    step.push(("stream 8", KERNEL, "ncclDevKernel_AllReduce", 6_000_000, 8_000_000));
    step.push(("stream 7", KERNEL, "ampere_sgemm_128x64_tn", 9_000_000, STEP));
    let verdicts = judged(&trace(&step), None);
    let makeup = &verdicts.makeups[0];
    let n = verdicts.windows[0].steps.len() as TimeNs;
    assert_eq!(makeup.window_ns(), n * STEP);
    assert_eq!((makeup.parts.compute_ns, makeup.parts.exposed_comm_ns), (n * 8_000_000, n * 1_000_000));
    assert_eq!(makeup.bound(), Bound::Compute);
    // Collectives are not kernels here.
    assert_eq!((makeup.kernel_ns, makeup.kind()), (n * 8_000_000, (KernelKind::Matmul, n * 8_000_000)));
    assert_eq!(
        makeup.kernel.as_ref().map(|kernel| (kernel.name.as_str(), kernel.total_ns)),
        Some(("gemm", n * 7_000_000))
    );
    assert_eq!(makeup.causes, [(Cause::Unexplained, n * 1_000_000)]);
    let waits =
        judged(&trace(&[("stream 7", KERNEL, "gemm", 0, 4_000_000), ("stream 7", KERNEL, "b", STEP - 10, STEP)]), None);
    assert_eq!(waits.makeups[0].bound(), Bound::Idle);
}

#[test]
fn utilization_is_judged_at_its_thresholds() {
    let busy_for = |share: TimeNs| {
        // The last kernel keeps the window at whole steps.
        let work = (STEP - 10) * share / 100;
        let step = [("stream 7", KERNEL, "gemm", 0, work), ("stream 7", KERNEL, "end", STEP - 10, STEP)];
        let verdicts = judged(&trace(&step), None);
        of(&verdicts, Rule::LowUtilization).map(|hit| (hit.severity, hit.threshold))
    };
    let found = [49, 51, 79, 81].map(busy_for);
    let [high, warn] = [(Severity::High, 0.5), (Severity::Warn, 0.8)].map(Some);
    assert_eq!(found, [high, warn, warn, None]);
}

#[test]
fn only_exposed_communication_and_copies_count() {
    let mut step = healthy();
    step.push(("stream 8", KERNEL, "ncclDevKernel_AllReduce", 0, 9_000_000));
    step.push(("stream 9", COPY, "Memcpy HtoD", 0, 9_000_000));
    assert_eq!(found(&judged(&trace(&step), None)), []);
    // The same without compute for a quarter of the step.
    step.retain(|slice| slice.2 != "gemm" || slice.4 <= 7_500_000);
    step[15..].copy_from_slice(&[
        ("stream 8", KERNEL, "ncclDevKernel_AllReduce", 5_000_000, 8_500_000),
        ("stream 9", COPY, "Memcpy HtoD", 8_000_000, STEP),
    ]);
    let verdicts = judged(&trace(&step), None);
    assert_eq!(found(&verdicts), [(Rule::ExposedCopies, Severity::Warn), (Rule::ExposedCommunication, Severity::Note)]);
    let copies = of(&verdicts, Rule::ExposedCopies).unwrap();
    // Of the ten steps the first, and the profiler's last, may not count.
    let n = copies.n_steps as i64;
    assert!((8..=10).contains(&n));
    assert_eq!((copies.amount, copies.of, copies.count), (n * 1_500_000, n * STEP, n as u64));
    assert_eq!(copies.ceiling_ns_per_step, Some(1_500_000));
    let range = TimeRange { start: 8_500_000, end: STEP };
    assert_eq!(found(&judged(&trace(&step), Some(range)))[0], (Rule::ExposedCopies, Severity::High));
}

#[test]
fn large_pageable_copies_are_found() {
    let judge = |copy: MemoryCopy| {
        let mut slices = healthy();
        slices.push(("stream 9", COPY, "Memcpy HtoD (Pageable -> Device)", 1_000_000, 1_600_000));
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.set_facts(20, SliceFacts { copy: Some(copy), ..Default::default() });
        judged(&builder.finish(), None)
    };
    let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(64_001), is_pageable: Some(true) };
    let verdicts = judge(copy);
    let hit = of(&verdicts, Rule::PageableCopies).unwrap();
    assert_eq!((hit.severity, hit.measured, hit.count), (Severity::Warn, 0.06, 1));
    assert_eq!(hit.range, Some(TimeRange { start: 1_000_000, end: 1_600_000 }));
    for other in [
        MemoryCopy { bytes: Some(64_000), ..copy },
        MemoryCopy { is_pageable: Some(false), ..copy },
        MemoryCopy { is_pageable: None, ..copy },
    ] {
        assert_eq!(found(&judge(other)), []);
    }
}

#[test]
fn kernels_are_judged_by_their_duration() {
    let slow = [
        ("stream 7", KERNEL, "gemm", 0, 1_500_000),
        ("stream 7", KERNEL, "gemm", 1_500_000, 2_500_000),
        ("stream 7", KERNEL, "scan", 2_500_000, 5_000_000),
        ("stream 7", KERNEL, "ncclDevKernel_AllReduce", 5_000_000, 5_900_000),
        ("stream 7", KERNEL, "add", 5_900_000, STEP - 3_200_000),
        ("stream 7", KERNEL, "add", STEP - 3_200_000, STEP - 2_300_000),
        ("stream 7", KERNEL, "add", STEP - 2_300_000, STEP - 1_400_000),
        ("stream 7", KERNEL, "add", STEP - 1_400_000, STEP - 500_000),
        ("stream 7", KERNEL, "add", STEP - 500_000, STEP),
    ];
    let verdicts = judged(&trace(&slow), None);
    assert_eq!(found(&verdicts), [(Rule::SlowKernels, Severity::Note), (Rule::LongKernel, Severity::Note)]);
    let hit = of(&verdicts, Rule::SlowKernels).unwrap();
    // Collectives do not count.
    assert_eq!((hit.measured, hit.count, &hit.names[..]), (5.0 / 9.1, 2, &["gemm".to_owned(), "scan".to_owned()][..]));
    let hit = of(&verdicts, Rule::LongKernel).unwrap();
    assert_eq!((hit.measured, hit.amount, hit.names[0].as_str()), (0.25, 2_500_000, "scan"));
    let tiny: Vec<_> = (0..100).map(|i| ("stream 7", KERNEL, "add", 100_000 * i, 100_000 * i + 9_999)).collect();
    let verdicts = judged(&trace(&tiny), None);
    assert_eq!(
        of(&verdicts, Rule::TinyKernels).map(|hit| (hit.measured, hit.count)),
        Some((1.0, 100 * n_steps(&verdicts)))
    );
    let back_to_back: Vec<_> =
        (0..1_000).map(|i| ("stream 7", KERNEL, "add", 10_000 * i, 10_000 * i + 9_999)).collect();
    assert_eq!(of(&judged(&trace(&back_to_back), None), Rule::TinyKernels), None, "the device is busy");
}

#[test]
fn data_time_is_compared_with_device_time() {
    let judge = |loaded: TimeNs| {
        let loader = ("main", NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, loaded);
        let work = ("stream 7", KERNEL, "gemm", STEP / 2, STEP);
        let verdicts = judged(&trace(&[loader, work]), None);
        of(&verdicts, Rule::DataTime).map(|hit| (hit.measured, hit.severity))
    };
    assert_eq!([STEP / 2 - 1, STEP / 2].map(judge), [None, Some((1.0, Severity::Warn))]);
}

#[test]
fn a_host_without_device_is_judged_by_its_phases() {
    let judge = |loaded: TimeNs| {
        let step = [
            ("main", NOTE, "load_batch", 0, loaded),
            ("main", SliceKind::Operator, "aten::mm", loaded, STEP),
            ("main", NOTE, "forward", loaded, STEP),
        ];
        found(&judged(&trace(&step), None))
    };
    let found = [499_999, 500_000, 1_000_000, 2_000_000].map(judge);
    let one = |severity| vec![(Rule::DataLoading, severity)];
    assert_eq!(found, [vec![], one(Severity::Note), one(Severity::Warn), one(Severity::High)]);
}

#[test]
fn a_host_that_communicates_without_computing_is_told() {
    let judge = |until: TimeNs| {
        let step = [
            ("main", NOTE, "## backward ##", 0, STEP),
            ("main", SliceKind::Operator, "aten::mm", 0, STEP / 2),
            ("gloo", NOTE, "gloo:all_reduce", STEP / 4, until),
        ];
        let verdicts = judged(&trace(&step), None);
        (found(&verdicts), of(&verdicts, Rule::ExposedCommunication).map(|hit| hit.measured))
    };
    // Beside the operator it costs nothing.
    assert_eq!(judge(STEP / 2), (vec![], None));
    assert_eq!(judge(STEP), (vec![(Rule::ExposedCommunication, Severity::High)], Some(0.5)));
}

#[test]
fn a_host_in_collectives_of_a_device_that_was_not_recorded_is_not_said_to_compute_nothing() {
    let step = [
        ("main", SliceKind::Operator, "aten::mm", 0, STEP / 2),
        ("main", NOTE, "nccl:broadcast", STEP / 2, STEP / 5 * 4),
        ("main", NOTE, "all_gather_sizes", STEP / 5 * 4, STEP),
        ("main", SliceKind::Operator, "aten::nonzero", STEP / 5 * 4, STEP),
    ];
    let verdicts = judged(&trace(&step), None);
    // In the range after it the host waits for sizes, and communicates nothing.
    let expected = [
        (Rule::CollectiveCalls, Severity::High),
        (Rule::Synchronization, Severity::High),
        (Rule::NoDeviceWork, Severity::Note),
    ];
    assert_eq!(found(&verdicts), expected);
    let tenths = |rule| of(&verdicts, rule).map(|hit| 10 * hit.amount / hit.of);
    assert_eq!([Rule::CollectiveCalls, Rule::Synchronization].map(tenths), [Some(3), Some(2)]);
}

#[test]
fn what_is_said_per_step_of_a_range_is_of_whole_steps() {
    // A device that waits for data in the first half of each step.
    let step = [
        ("main", NOTE, "load_batch", 0, STEP / 2),
        ("main", SliceKind::Operator, "aten::mm", STEP / 2, STEP),
        ("stream 7", SliceKind::Kernel, "gemm", STEP / 2, STEP),
    ];
    let trace = trace(&step);
    let steps = judged(&trace, None).windows[0].steps.clone();
    let whole = TimeRange { start: steps[1].start, end: steps[2].end };
    let n_steps = |range| judged(&trace, Some(range)).windows[0].steps.len();
    assert_eq!(n_steps(whole), 2);
    // With the waits of further steps, of which none is whole.
    let more = TimeRange { end: whole.end + STEP / 2, ..whole };
    let verdicts = judged(&trace, Some(more));
    assert_eq!(verdicts.windows[0].steps, []);
    assert!(verdicts.hits.iter().all(|hit| hit.n_steps == 0 && hit.ceiling_ns_per_step.is_none()));
    assert!(!verdicts.hits.is_empty());
}

#[test]
fn a_chosen_step_is_judged_as_the_device_sees_it() {
    const LATE: TimeNs = STEP / 20;
    // The work of each step ends a little after its range, which ends a little before the next begins.
    let name = |i: TimeNs| format!("ProfilerStep#{i}");
    let names: Vec<String> = (0..6).map(name).collect();
    let (mut slices, mut correlation) = (Vec::new(), Vec::new());
    for (i, name) in (0..).zip(&names) {
        let at = STEP * i;
        slices.push(("main", NOTE, name.as_str(), at, at + STEP - 2_000));
        slices.push(("main", SliceKind::Operator, "aten::slow", at, at + STEP / 2));
        slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at + STEP / 2, at + STEP / 2 + 5_000));
        slices.push(("stream 7", KERNEL, "gemm", at + STEP / 2 + 10_000, at + STEP + LATE));
        correlation.extend([0, 0, i as u32 + 1, i as u32 + 1]);
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    let trace = builder.finish();
    let chosen = TimeRange { start: 2 * STEP, end: 3 * STEP - 2_000 };
    assert_eq!(steps(&trace, &|| false).unwrap().extents()[2], chosen);
    let verdicts = judged(&trace, Some(chosen));
    let window = &verdicts.windows[0];
    let own = TimeRange { start: 2 * STEP + LATE, end: 3 * STEP + LATE };
    assert_eq!((window.basis, window.time, &window.steps[..]), (Basis::ChosenStep, own, &[own][..]));
    let gain = |verdicts: &Verdicts| of(verdicts, Rule::HostBound).unwrap().ceiling_ns_per_step.unwrap();
    assert_eq!(gain(&verdicts), gain(&judged(&trace, None)), "the steps are all alike");
    // A nanosecond more is no step.
    let more = judged(&trace, Some(TimeRange { end: chosen.end + 1, ..chosen }));
    assert_eq!((more.windows[0].basis, more.windows[0].steps.len()), (Basis::Range, 0));
}

#[test]
fn a_host_without_phases_is_judged_as_a_whole() {
    let operators = [("main", SliceKind::Operator, "aten::mm", 0, 50), ("main", SliceKind::Operator, "my::op", 60, 90)];
    let verdicts = judged(&TraceBuilder::from_slices(&operators).finish(), None);
    let [window] = &verdicts.windows[..] else { panic!("{:?}", verdicts.windows) };
    assert_eq!((window.device, window.time), (None, TimeRange { start: 0, end: 90 }));
    assert_eq!(verdicts.host, None);
}

#[test]
fn the_longest_step_of_a_host_is_named_whether_or_not_it_has_phases() {
    let longest = |kind: SliceKind, sixth: DurNs| {
        let names: Vec<String> = (0..8).map(|i| format!("step_{i}")).collect();
        let (mut slices, mut at) = (Vec::new(), 0);
        for (i, name) in names.iter().enumerate() {
            let step = if i == 6 { sixth } else { STEP };
            slices.extend([("main", NOTE, name.as_str(), at, at + step), ("main", kind, "work", at, at + STEP / 2)]);
            at += step;
        }
        let verdicts = judged(&TraceBuilder::from_slices(&slices).finish(), None);
        verdicts.longest_step.map(|step| (step.name, step.ns, step.median_ns, step.more))
    };
    for kind in [SliceKind::Operator, SliceKind::PythonFunction] {
        let expected = Some(("step_6".to_owned(), 5 * STEP, STEP, None));
        assert_eq!(longest(kind, 5 * STEP), expected);
        assert_eq!(longest(kind, STEP * 11 / 10), None);
    }
}

#[test]
fn what_ranks_without_devices_share_is_said_of_ranks() {
    use crate::figures::verdicts::{Judged, findings};
    let traces = [1_000_000, 2_000_000].map(|loaded| {
        let mut trace =
            trace(&[("main", NOTE, "load_batch", 0, loaded), ("main", SliceKind::Operator, "aten::mm", loaded, STEP)]);
        trace.info.rank = Some(loaded as u32 / 1_000_000);
        trace
    });
    let verdicts = traces.each_ref().map(|trace| judged(trace, None));
    let of = |(trace, verdicts)| Judged { trace, name: None, path: "", offset: 0, verdicts };
    let ranks: Vec<Judged<'_>> = traces.iter().zip(&verdicts).map(of).collect();
    let found = findings(&ranks, &Thresholds::default());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.text.ends_with("; 1 more rank likewise, 10.0 %"), "{}", found[0].1.text);
}

#[test]
fn idle_time_without_record_is_called_unexplained() {
    let step: Vec<_> = (0..10).map(|i| ("stream 7", KERNEL, "gemm", 1_000_000 * i, 1_000_000 * i + 880_000)).collect();
    let trace = trace(&step);
    let verdicts = judged(&trace, None);
    assert_eq!(found(&verdicts), [(Rule::Unexplained, Severity::Note)]);
    let hit = of(&verdicts, Rule::Unexplained).unwrap();
    assert!(hit.recurring.is_some());
    assert!((hit.measured - 0.12).abs() < 0.002, "{}", hit.measured);
    assert_eq!(hit.ceiling_ns_per_step, None, "nothing recorded shows what would end it");
}

#[test]
fn a_fragment_of_a_recording_is_not_judged() {
    let slices = [("stream 7", KERNEL, "gemm", 0, 10), ("stream 7", KERNEL, "gemm", STEP, STEP + 10)];
    let few = Verdicts { too_little_ns: 20, ..Verdicts::default() };
    assert_eq!(judged(&TraceBuilder::from_slices(&slices).finish(), None), few, "only that it is too little");
    let mut builder = TraceBuilder::default();
    builder.info.devices.push(DeviceInfo::default());
    assert_eq!(judged(&builder.finish(), None), Verdicts::default());
}
