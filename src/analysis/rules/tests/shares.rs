//! Composition of the time of a cause, and time in queues.

use super::each_rule::{CALL, Event, LATENCY, assert_levels, linked};
use super::*;

const OP: SliceKind = SliceKind::Operator;
/// Where the gap of each step begins.
const START: TimeNs = 4_000_000;
const MS: TimeNs = 1_000_000;

/// A gap of a millisecond and the launch latency in each step, with these events.
fn gap_of(events: &[Event<'static>]) -> TraceBuilder {
    let mut step = vec![
        ("stream 7", KERNEL, "a", 0, START, 0),
        ("main", CALL, "cudaLaunchKernel", START + MS, START + MS + 1_000, 1),
        ("stream 7", KERNEL, "b", START + MS + LATENCY, STEP, 1),
        ("main", CALL, "cudaLaunchKernel", 1_000_000, 1_001_000, 50),
        ("stream 8", KERNEL, "c", 2_000_000, 2_500_000, 50),
    ];
    step.extend_from_slice(events);
    linked(&step)
}

fn shares(builder: TraceBuilder, rule: Rule) -> Shares {
    of(&judged(&builder.finish(), None), rule).unwrap().shares
}

#[test]
fn work_that_waits_in_a_queue_without_a_reason_is_found() {
    let queued = |dur: TimeNs| {
        linked(&[
            ("stream 7", KERNEL, "a", 0, START, 0),
            ("main", CALL, "cudaLaunchKernel", START, START + 1_000, 1),
            ("stream 7", KERNEL, "b", START + dur, STEP, 1),
        ])
    };
    assert_levels(Rule::Queued, queued, |_| None);
    let names = of(&judged(&queued(3 * MS).finish(), None), Rule::Queued).unwrap().names.clone();
    assert_eq!(names, Vec::<String>::new(), "the launch is no reason");
}

#[test]
fn a_thread_on_a_cpu_in_unexplained_time_is_busy() {
    use crate::figures::verdicts::why_of;
    // The scheduler has the thread on a CPU in all of the gap's millisecond, in part of it, or says nothing.
    let found = |on_cpu: Option<TimeNs>| {
        let on_cpu = on_cpu.map(|ns| ("main: on CPU", SliceKind::Other, "CPU 3", START - MS, START + ns, 0));
        let verdicts = judged(&gap_of(on_cpu.as_slice()).finish(), None);
        let hit = of(&verdicts, Rule::Unexplained).unwrap();
        (hit.shares.on_cpu_ns, why_of(hit).is_some_and(|why| why.ends_with("is that its thread ran on a CPU")))
    };
    assert_eq!(found(Some(MS)), (8 * MS, true));
    assert_eq!(found(Some(MS / 4)), (8 * MS / 4, false));
    assert_eq!(found(None), (0, false));
}

#[test]
fn time_in_code_of_torch_compile_is_known() {
    // Ten generated kernels a step beside the others, and half of the gap in compiled code.
    let of = |region: &'static str| {
        let mut events = vec![
            ("main", OP, region, START, START + MS / 2, 0),
            ("main", OP, "aten::mm", START + MS / 4, START + MS / 2, 0),
            ("main", OP, "aten::add", START + MS / 2, START + MS, 0),
        ];
        let generated =
            |i: i64| ("stream 9", KERNEL, "triton_poi_fused_add_0", STEP - 1_000 * i - 500, STEP - 1_000 * i, 0);
        events.extend((0..10).map(generated));
        shares(gap_of(&events), Rule::HostBound).compiled_ns
    };
    assert_eq!(of("Torch-Compiled Region: 0/0"), 8 * MS / 2);
    assert_eq!(of("my_function"), 0);
}

#[test]
fn what_was_inferred_and_what_was_not_launched_is_known() {
    // Silence between two calls that load, which last 100 us each.
    let loads = [
        ("main", SliceKind::Driver, "cuLinkCreate_v2", START, START + 100_000, 0),
        ("main", SliceKind::Driver, "cuModuleLoadData", START + MS - 100_000, START + MS, 0),
    ];
    let found = shares(gap_of(&loads), Rule::ModuleLoad);
    assert_eq!((found.inferred_ns, found.unlaunched_ns), (8 * 800_000, 0));
    let gap = 2 * MS;
    let unlaunched = linked(&[("stream 7", KERNEL, "a", 0, STEP - gap, 0)]);
    let verdicts = judged(&unlaunched.finish(), None);
    let hit = of(&verdicts, Rule::Unexplained).unwrap();
    assert_eq!((hit.shares.inferred_ns, hit.shares.unlaunched_ns), (0, hit.amount));
}

#[test]
fn loading_that_is_mostly_inferred_is_at_most_a_warning_and_says_what_the_host_is_in() {
    // A gap of 3 ms in each step: a call that links for `first`, silence in which the thread waits, a load of 100 us.
    let found = |first: TimeNs| {
        let end = START + 3 * MS;
        let step = [
            ("stream 7", KERNEL, "a", 0, START, 0),
            ("main", SliceKind::Driver, "cuLinkComplete", START, START + first, 0),
            ("main", SliceKind::Os, "sem_wait", START + first + 50_000, end - 150_000, 0),
            ("main", SliceKind::Driver, "cuModuleLoadData", end - 100_000, end, 0),
            ("main", CALL, "cudaLaunchKernel", end, end + 1_000, 1),
            ("stream 7", KERNEL, "b", end + LATENCY, STEP, 1),
        ];
        let verdicts = judged(&linked(&step).finish(), None);
        let hit = of(&verdicts, Rule::ModuleLoad).unwrap();
        (hit.severity, hit.waits_in.clone())
    };
    let waits = |ns: TimeNs| Some(("sem_wait".to_owned(), 8 * ns));
    assert_eq!(found(100_000), (Severity::Warn, waits(2_700_000)));
    assert_eq!(found(2_000_000), (Severity::High, waits(800_000)), "most of it is recorded");
}

#[test]
fn copies_have_a_direction() {
    let found = |kind: CopyKind| {
        let mut builder = gap_of(&[
            ("main", CALL, "cudaMemcpyAsync", START, START + MS, 2),
            ("stream 7", COPY, "copy", START + 10_000, START + 20_000, 2),
        ]);
        // Of each step the eighth slice; the first is its range.
        (0..10).for_each(|i| {
            let copy = Some(MemoryCopy { kind, ..MemoryCopy::default() });
            builder.set_facts(8 * i + 7, SliceFacts { copy, ..Default::default() });
        });
        let shares = shares(builder, Rule::ExposedCopies);
        (shares.to_device_ns > 0, shares.from_device_ns > 0)
    };
    assert_eq!(found(CopyKind::HtoD), (true, false));
    assert_eq!(found(CopyKind::DtoH), (false, true));
}

#[test]
fn a_wait_is_for_the_last_work_before_it_and_not_for_what_comes_next() {
    // The host waits for the first piece of work, and launches the second a millisecond later.
    let found = |first: SliceKind, second: SliceKind| {
        let mut builder = linked(&[
            ("main", CALL, "cudaLaunchKernel", 0, 1_000, 2),
            ("stream 7", first, "first", 0, START, 2),
            ("main", CALL, "cudaDeviceSynchronize", 3_000, START, 0),
            ("main", OP, "aten::mm", START, START + MS, 0),
            ("main", CALL, "cudaLaunchKernel", START + MS, START + MS + 1_000, 1),
            ("stream 7", second, "second", START + MS + LATENCY, STEP, 1),
            ("stream 8", KERNEL, "c", 2_000_000, 2_500_000, 0),
        ]);
        for (i, (at, kind)) in (0..10).flat_map(|i| [(i, (2, first)), (i, (6, second))]) {
            let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(1 << 20), is_pageable: Some(false) };
            let copy = Some(copy).filter(|_| kind == COPY);
            builder.set_facts(8 * i + at, SliceFacts { copy, ..Default::default() });
        }
        shares(builder, Rule::Synchronization).to_device_ns
    };
    assert_eq!(found(COPY, KERNEL), 8 * (MS + LATENCY));
    assert_eq!(found(KERNEL, COPY), 0);
}

#[test]
fn silence_is_told_by_the_copies_of_data_around_it() {
    // Nothing was recorded of the host for 4 ms after a copy of so many bytes, or before one.
    let found = |kind, bytes: u64, is_after: bool| {
        let (first, last) = if is_after { (COPY, KERNEL) } else { (KERNEL, COPY) };
        let mut builder = linked(&[
            ("main", CALL, "cudaLaunchKernel", 1_000, 2_000, 2),
            ("stream 7", first, "first", 10_000, 4_000_000, 2),
            ("main", CALL, "cudaLaunchKernel", 8_000_000, 8_001_000, 1),
            ("stream 7", last, "last", 8_005_000, STEP, 1),
            ("main", CALL, "cudaLaunchKernel", 1_000_000, 1_001_000, 50),
            ("stream 8", KERNEL, "c", 2_000_000, 2_500_000, 50),
        ]);
        for i in 0..10 {
            let copy = Some(MemoryCopy { kind, bytes: Some(bytes), ..MemoryCopy::default() });
            let at = 7 * i + if is_after { 2 } else { 4 };
            builder.set_facts(at, SliceFacts { copy, ..Default::default() });
        }
        let Shares { copied_ns, prepared_ns, .. } = shares(builder, Rule::Unexplained);
        (copied_ns, prepared_ns)
    };
    assert_eq!(found(CopyKind::DtoH, 1 << 20, true), (8 * 4_000_000, 0));
    assert_eq!(found(CopyKind::DtoH, 4, true), (0, 0), "a value");
    assert_eq!(found(CopyKind::HtoD, 1 << 20, true), (0, 0));
    assert_eq!(found(CopyKind::HtoD, 1 << 20, false), (0, 8 * 4_000_000));
}
