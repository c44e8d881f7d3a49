//! The rules about what a device does: it finds what reaches their levels, and nothing a nanosecond below.

use super::each_rule::{CALL, LATENCY, STEPS, assert_levels, linked, with_gap};
use super::*;
use crate::model::{Process, ProcessId};

const MS: TimeNs = 1_000_000;

#[test]
fn utilization_is_low_below_its_levels() {
    let busy = |ns: TimeNs| judged(&with_gap(None, STEP - ns - LATENCY).finish(), None);
    for (level, at, below) in [(0.8, None, Severity::Warn), (0.5, Some(Severity::Warn), Severity::High)] {
        let ns = (level * STEP as f64) as TimeNs;
        assert_eq!(of(&busy(ns), Rule::LowUtilization).map(|hit| hit.severity), at);
        let verdicts = busy(ns - 1);
        let hit = of(&verdicts, Rule::LowUtilization).unwrap();
        assert_eq!((hit.severity, hit.amount, hit.of, hit.threshold), (below, 8 * (ns - 1), 8 * STEP, level));
    }
}

#[test]
fn exposed_copies_and_communication_are_what_no_kernel_hides() {
    let trace = |kind: SliceKind, name: &'static str| {
        move |dur: TimeNs| {
            // Twice as long, half of it beside a kernel.
            linked(&[("stream 7", KERNEL, "gemm", 0, STEP - dur, 0), ("stream 8", kind, name, STEP - 2 * dur, STEP, 0)])
        }
    };
    assert_levels(Rule::ExposedCopies, trace(COPY, "Memcpy HtoD"), Some);
    // Overlap makes no step shorter than its communication.
    let gain = |dur: TimeNs| Some(dur.min(STEP - 2 * dur)).filter(|&ns| ns > 0);
    assert_levels(Rule::ExposedCommunication, trace(KERNEL, "ncclDevKernel_AllReduce"), gain);
}

#[test]
fn pageable_copies_are_judged_by_their_time() {
    let trace = |dur: TimeNs| {
        let mut builder = linked(&[("stream 7", KERNEL, "gemm", 0, STEP, 0), ("stream 8", COPY, "copy", 0, dur, 0)]);
        let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(64_001), is_pageable: Some(true) };
        (0..STEPS as usize).for_each(|i| {
            builder.set_facts(3 * i + 2, SliceFacts { copy: Some(copy), ..Default::default() });
        });
        builder
    };
    assert_levels(Rule::PageableCopies, trace, |_| None);
}

#[test]
fn pageable_copies_are_of_batches_where_each_step_has_some_or_the_host_loads_data() {
    let found = |is_pageable: fn(i64) -> bool, host: &str| {
        let step = [
            ("stream 7", KERNEL, "gemm", 0, STEP, 0),
            ("main", NOTE, host, 1_000, 2_000, 0),
            ("stream 8", COPY, "copy", 0, STEP / 5, 0),
        ];
        let mut builder = linked(&step);
        for i in 0..STEPS {
            let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(1 << 20), is_pageable: Some(is_pageable(i)) };
            builder.set_facts(4 * i as usize + 3, SliceFacts { copy: Some(copy), ..Default::default() });
        }
        of(&judged(&builder.finish(), None), Rule::PageableCopies).map(|hit| hit.is_of_batches)
    };
    let loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
    assert_eq!(found(|_| true, "set_up"), Some(true));
    assert_eq!(found(|i| i % 2 == 0, "set_up"), Some(false));
    assert_eq!(found(|i| i % 2 == 0, loader), Some(true));
}

#[test]
fn one_long_launch_is_judged_by_the_step() {
    let long = |dur: TimeNs| {
        let rest = (0..5).map(|i| (STEP - dur) / 5 * i + dur);
        let mut step = vec![("stream 7", KERNEL, "long", 0, dur)];
        step.extend(rest.map(|at| ("stream 7", KERNEL, "short", at, at + 100_000)));
        step.push(("stream 7", KERNEL, "end", STEP - 10, STEP));
        of(&judged(&trace(&step), None), Rule::LongKernel).map(|hit| (hit.measured, hit.amount, hit.names.clone()))
    };
    assert_eq!(long(1_999_999), None);
    assert_eq!(long(2_000_000), Some((0.2, 2_000_000, vec!["long".to_owned()])));
}

#[test]
fn slow_kernels_are_judged_by_their_share_of_kernel_time() {
    // A tenth of 9 ms in kernels that take a little more than a millisecond: 0.9 of them a step.
    let slow = |dur: TimeNs, others: TimeNs| {
        let mut step = vec![("stream 7", KERNEL, "slow", 0, dur)];
        step.extend((0..10).map(|i| ("stream 8", KERNEL, "fast", i * 1_000_000, i * 1_000_000 + others)));
        of(&judged(&trace(&step), None), Rule::SlowKernels).map(|hit| (hit.measured, hit.count))
    };
    assert_eq!(slow(1_000_000, 900_000), None, "not longer than the limit");
    assert_eq!(slow(1_000_010, 900_009), Some((1.0 / 10.0, 1)));
    assert_eq!(slow(1_000_010, 900_010), None);
}

#[test]
fn tiny_kernels_are_judged_by_their_share_of_launches() {
    let tiny = |n: i64, dur: TimeNs| {
        let kernel = |i| ("stream 7", KERNEL, "add", 200_000 * i, 200_000 * i + if i < n { dur } else { 10_000 });
        let step: Vec<Named<'_>> = (0..50).map(kernel).collect();
        of(&judged(&trace(&step), None), Rule::TinyKernels).map(|hit| (hit.measured, hit.count, hit.of))
    };
    assert_eq!(tiny(24, 9_999), None);
    assert_eq!(tiny(25, 9_999), Some((0.5, 8 * 25, 8 * 50)));
    assert_eq!(tiny(25, 10_000), None, "not shorter than the limit");
}

#[test]
fn elementwise_kernels_are_judged_by_their_time() {
    const NAME: &str = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)";
    let trace =
        |dur: TimeNs| linked(&[("stream 7", KERNEL, NAME, 0, dur, 0), ("stream 7", KERNEL, "gemm", dur, STEP, 0)]);
    assert_levels(Rule::Elementwise, trace, |_| None);
    // Kernels that a compiler fused, and kernels of other programs.
    for name in ["triton_poi_fused_add_mul_0", "my_elementwise"] {
        let trace = linked(&[("stream 7", KERNEL, name, 0, STEP / 2, 0), ("stream 7", KERNEL, "b", STEP / 2, STEP, 0)]);
        assert_eq!(of(&judged(&trace.finish(), None), Rule::Elementwise), None);
    }
}

#[test]
fn a_device_that_waits_for_work_of_another_says_so() {
    // All is launched at the begin of each step. Two devices take turns; what the second one runs ends, or a copy from it
    // does, right before the first one goes on.
    let found = |ends: SliceKind, is_called: bool| {
        let call = |at: TimeNs, id: u32| ("main", CALL, "cudaLaunchKernel", at, at + 2_000, id);
        let waits = if is_called { "cudaStreamWaitEvent" } else { "cudaGetLastError" };
        let mut builder = linked(&[
            call(0, 1),
            call(5_000, 2),
            call(10_000, 3),
            ("main", CALL, waits, 13_000, 14_000, 0),
            call(15_000, 4),
            ("stream 7", KERNEL, "first", 10_000, 4 * MS, 1),
            ("stream 8", KERNEL, "second", 4 * MS + 5_000, 8 * MS, 2),
            ("stream 8", ends, "last", 8 * MS, 9 * MS, 3),
            ("stream 7", KERNEL, "next", 9 * MS + 3_000, STEP, 4),
        ]);
        builder.tracks[2].process = ProcessId(builder.processes.len() as u32);
        builder.processes.push(Process { device: Some(1), ..Process::default() });
        for i in (0..10).filter(|_| ends == COPY) {
            let copy = Some(MemoryCopy { kind: CopyKind::PtoP, bytes: Some(1 << 20), is_pageable: None });
            builder.set_facts(10 * i + 8, SliceFacts { copy, ..Default::default() });
        }
        let verdicts = judged(&builder.finish(), None);
        let of_first = |rule| verdicts.hits.iter().find(|hit| (hit.rule, hit.device) == (rule, Some(0)));
        let ns = of_first(Rule::Dependency).map(|hit| (hit.amount, hit.is_for_another_device()));
        (ns, of_first(Rule::Queued).map(|hit| hit.amount))
    };
    let gap = 5 * MS + 3_000;
    assert_eq!(found(COPY, false), (Some((8 * gap, true)), None));
    assert_eq!(found(KERNEL, true), (Some((8 * gap, true)), None));
    assert_eq!(found(KERNEL, false), (None, Some(8 * gap)));
}
