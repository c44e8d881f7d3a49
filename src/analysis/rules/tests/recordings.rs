//! Findings about recordings that miss events, small collectives, and arithmetic in fp32.

use super::*;
use crate::model::{Collective, DeviceInfo};

const CALL: SliceKind = SliceKind::Runtime;

/// `n` launches and as many kernels, of which every `kept`th launch and every `kept`th kernel is there.
fn thinned(n: u32, kept: u32) -> Trace {
    let (mut slices, mut correlation): (Vec<Named<'_>>, Vec<u32>) = Default::default();
    for i in 0..n {
        let at = TimeNs::from(i) * 10_000;
        if i % kept == 0 {
            slices.push(("main", CALL, "cudaLaunchKernel", at, at + 4_000));
            correlation.push(i + 1);
        }
        if (i + 1) % kept == 0 || kept == 1 {
            slices.push(("stream 7", KERNEL, "gemm", at + 5_000, at + 9_000));
            correlation.push(i + 1);
        }
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    builder.finish()
}

#[test]
fn no_verdict_rests_on_a_recording_that_lost_its_events() {
    let verdicts = judged(&thinned(1_000, 3), None);
    assert_eq!(found(&verdicts), [(Rule::IncompleteRecording, Severity::Warn)]);
    assert_eq!(verdicts.checks.len(), 1);
    let missing = verdicts.hits[0].missing;
    assert_eq!((missing.launched, missing.launches), ((0, 333), (0, 334)));
    let complete = judged(&thinned(1_000, 1), None);
    assert!(!complete.checks.iter().any(|check| check.rule == Rule::IncompleteRecording));
    assert!(complete.checks.len() > 10);
    // Too few to say so.
    assert_eq!(of(&judged(&thinned(120, 3), None), Rule::IncompleteRecording), None);
}

#[test]
fn a_recording_that_lost_its_events_is_named_by_its_rank() {
    use crate::figures::verdicts::{Judged, findings};
    let traces = [3, 4].map(|rank| {
        let mut trace = thinned(1_000, rank);
        trace.info.rank = Some(rank);
        trace
    });
    let verdicts = traces.each_ref().map(|trace| judged(trace, None));
    let of = |(trace, verdicts)| Judged { trace, name: Some("a.json"), path: "", offset: 0, verdicts };
    let ranks: Vec<Judged<'_>> = traces.iter().zip(&verdicts).map(of).collect();
    let text = &findings(&ranks, &Thresholds::default())[0].1.text;
    assert!(
        text.starts_with("The recording of rank 3 in a.json holds about ") && text.contains("; 1 more rank"),
        "{text}"
    );
}

#[test]
fn numbers_of_operators_show_what_is_missing() {
    let rules = |step: u32| {
        let mut slices: Vec<Named<'_>> = Vec::new();
        for i in 0..100 {
            let at = i * 10_000;
            slices.push(("main", SliceKind::Operator, "aten::mm", at, at + 8_000));
            slices.push(("stream 7", KERNEL, "gemm", at + 5_000, at + 9_000));
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].external = (0..200).map(|i| if i % 2 == 0 { 1 + i / 2 * step } else { 0 }).collect();
        let verdicts = judged(&builder.finish(), None);
        of(&verdicts, Rule::IncompleteRecording).map(|hit| hit.missing.operators)
    };
    assert_eq!(rules(1), None);
    assert_eq!(rules(4), None);
    assert_eq!(rules(40), Some((100, 99 * 40 + 1)));
}

#[test]
fn a_program_that_used_a_device_without_recorded_work_is_found() {
    let of_slices = |slices: &[Named<'_>]| {
        let verdicts = judged(&TraceBuilder::from_slices(slices).finish(), None);
        of(&verdicts, Rule::NoDeviceWork).map(|hit| hit.no_work.clone())
    };
    let launch = ("main", CALL, "hipLaunchKernel", 0, 10);
    let found = of_slices(&[launch, ("main", CALL, "hipMalloc", 20, 30)]).unwrap();
    assert_eq!((found.launches, found.call.as_str(), found.ranges), (1, "hipLaunchKernel", 0));
    let engine = ("main", NOTE, "TensorRT:ExecutionContext::enqueue", 0, 10);
    let found = of_slices(&[engine]).unwrap();
    assert_eq!((found.launches, found.ranges, found.library.as_str()), (0, 1, "TensorRT"));
    let mut builder = TraceBuilder::from_slices(&[engine, ("main", NOTE, "ExecutionContext::execute", 20, 30)]);
    let domain = builder.strings.intern("TensorRT");
    builder.set_facts(1, SliceFacts { domain, ..SliceFacts::default() });
    let found = of(&judged(&builder.finish(), None), Rule::NoDeviceWork).unwrap().no_work.clone();
    assert_eq!((found.ranges, found.library.as_str()), (2, "TensorRT"), "by its domain");
    assert_eq!(of_slices(&[launch, ("stream 7", KERNEL, "gemm", 5, 9)]), None);
    assert_eq!(of_slices(&[("main", SliceKind::Operator, "aten::mm", 0, 10)]), None, "a run on the CPU");
}

#[test]
fn counters_of_kernels_are_no_work_that_is_missing_by_mistake() {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", SliceKind::Operator, "aten::mm", 0, 100),
        ("main", CALL, "cudaLaunchKernel", 10, 20),
        ("counters", SliceKind::Other, "gemm", 0, 50),
        ("counters", SliceKind::Other, "softmax", 50, 100),
    ]);
    let counters = builder.tracks.iter_mut().find(|track| track.name == "counters").unwrap();
    (counters.kind, counters.name) = (crate::model::TrackKind::Async, crate::model::KERNEL_COUNTERS.to_owned());
    let verdicts = judged(&builder.finish(), None);
    let hit = of(&verdicts, Rule::NoDeviceWork).unwrap();
    assert_eq!((hit.no_work.counted, hit.severity), (2, Severity::Note));
    let of_operators = |names: &[(String, DurNs)]| names.iter().all(|name| name.0 == "aten::mm");
    let times = verdicts.self_times.as_ref().unwrap();
    assert!(of_operators(&times.names) && times.n_threads == 1, "{times:?}");
    assert_eq!((times.total_ns, times.calls_ns, &times.calls[0].0[..]), (90, 10, "cudaLaunchKernel"));
}

/// Steps of a long kernel, then `n` collectives of `dur` ns, each launched by the host when the one before is over.
fn with_collectives(n: i64, dur: TimeNs) -> Verdicts {
    const START: TimeNs = 2_000_000;
    let (mut slices, mut correlation): (Vec<Named<'_>>, Vec<u32>) = Default::default();
    let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
    for (i, name) in (0..).zip(&names) {
        let at = STEP * i;
        slices.push(("main", NOTE, name, at, at + STEP));
        slices.push(("stream 7", KERNEL, "gemm", at, at + START));
        correlation.extend([0, 0]);
        for j in 0..n {
            let start = at + START + (dur + 20_000) * j + 20_000;
            let id = (100 * i + j) as u32 + 1;
            slices.push(("main", SliceKind::Operator, "c10d::allreduce_", start - 20_000, start));
            slices.push(("main", CALL, "cudaLaunchKernel", start - 4_000, start - 1_000));
            slices.push(("stream 7", KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", start, start + dur));
            correlation.extend([0, id, id]);
        }
        let rest = at + START + (dur + 20_000) * n;
        slices.push(("stream 7", KERNEL, "gemm", rest, at + STEP));
        correlation.push(0);
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    judged(&builder.finish(), None)
}

#[test]
fn many_small_collectives_are_found_with_what_they_cost() {
    let verdicts = with_collectives(40, 10_000);
    let hit = of(&verdicts, Rule::SmallCollectives).unwrap();
    let small = &hit.small_collectives;
    // Each costs its 10 µs, and 16 µs of the 20 µs before it; latency remains.
    assert_eq!((hit.count, hit.n_steps, small.total_ns, small.exposed_ns), (320, 8, 3_200_000, 3_200_000));
    assert_eq!((hit.amount, hit.ceiling_ns_per_step), (320 * 26_000, Some(40 * 26_000)));
    assert_eq!(hit.severity, Severity::Warn);
    // Their time counts in no other ceiling.
    for rule in [Rule::ExposedCommunication, Rule::CollectiveCalls, Rule::LaunchBound] {
        let check = verdicts.checks.iter().find(|check| check.rule == rule).unwrap();
        assert_eq!(check.ceiling_ns_per_step, None, "{rule:?}");
    }
    assert_eq!(of(&with_collectives(19, 10_000), Rule::SmallCollectives), None, "few");
    assert_eq!(of(&with_collectives(40, 60_000), Rule::SmallCollectives), None, "long");
}

#[test]
fn communication_is_that_of_the_device_and_calls_are_those_of_the_host() {
    let step = [
        ("stream 7", KERNEL, "gemm", 0, 4_000_000),
        ("stream 8", KERNEL, "ncclDevKernel_AllReduce", 4_000_000, 6_000_000),
        ("main", SliceKind::Operator, "c10d::allreduce_", 6_000_000, 6_990_000),
        ("stream 7", KERNEL, "gemm", 7_000_000, STEP),
        ("main", CALL, "cudaLaunchKernel", 6_990_000, 6_995_000),
    ];
    // The host waits for the device, in whatever it is: else less communication would gain nothing.
    let mut trace = vec![("main", CALL, "cudaLaunchKernel", 0, 5_900_000)];
    trace.extend(step);
    let mut slices: Vec<Named<'_>> = Vec::new();
    let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
    let mut correlation = Vec::new();
    for (i, name) in (0..).zip(&names) {
        let at = STEP * i;
        slices.push(("main", NOTE, name, at, at + STEP));
        slices.extend(trace.iter().map(|&(thread, kind, name, start, end)| (thread, kind, name, at + start, at + end)));
        let id = i as u32 + 1;
        correlation.extend([0, 0, 0, 0, 0, id, id]);
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    let verdicts = judged(&builder.finish(), None);
    let hit = of(&verdicts, Rule::ExposedCommunication).unwrap();
    let n = hit.n_steps as i64;
    assert_eq!((hit.amount, hit.measured), (n * 2_000_000, 0.2));
    assert_eq!((hit.collective_calls_ns, hit.ceiling_ns_per_step), (n * 990_000, Some(2_000_000)));
    assert_eq!(hit.beyond_overlap_ns(), None, "overlap gains as much");
    let calls = of(&verdicts, Rule::CollectiveCalls).unwrap();
    assert_eq!((calls.amount, calls.ceiling_ns_per_step), (n * 990_000, Some(990_000)));
}

#[test]
fn less_communication_saves_no_more_than_the_host_lets_it() {
    const LAUNCH_EACH: i64 = 8_000_000;
    // The host needs 8 ms for a step, and the device 10: it falls further behind in each.
    let hit = |(ahead, comm): (i64, i64), frames: i64| {
        let (mut slices, mut correlation): (Vec<Named<'_>>, Vec<u32>) = Default::default();
        let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
        for (i, name) in (0..).zip(&names) {
            let (host, device) = (LAUNCH_EACH * i, ahead + STEP * i);
            let calls =
                [host + 2_000_000, host + 4_000_000].map(|at| ("main", CALL, "cudaLaunchKernel", at, at + 5_000));
            slices.push(("main", NOTE, name, host, host + LAUNCH_EACH));
            slices.extend(calls);
            slices.push(("stream 7", KERNEL, "gemm", device, device + STEP - comm));
            slices.push(("stream 7", KERNEL, "ncclDevKernel_AllReduce", device + STEP - comm, device + STEP));
            let id = 2 * i as u32 + 1;
            correlation.extend([0, id, id + 1, id, id + 1]);
            for at in (0..frames).map(|frame| host + frame * LAUNCH_EACH / frames) {
                slices.push(("main", SliceKind::PythonFunction, "model.py(7): forward", at, at + 1_000));
                correlation.push(0);
            }
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        builder.info.producer = "PyTorch profiler".to_owned();
        let verdicts = judged(&builder.finish(), None);
        of(&verdicts, Rule::ExposedCommunication).unwrap().clone()
    };
    let of_queue = |ahead: i64, comm: i64| {
        let hit = hit((ahead, comm), 0);
        (hit.n_steps as i64, hit.paced.map(|paced| paced.ns), hit.ceiling_ns_per_step, hit.beyond_overlap_ns())
    };
    // The last step is launched n - 1 times 8 ms after the first and would end with its last launch.
    let (n, paced, ceiling, beyond) = of_queue(30_000_000, 4_000_000);
    let expected = (STEP * n - (LAUNCH_EACH * (n - 1) + 2_000_000)) / n;
    assert_eq!((paced, ceiling, beyond), (Some(expected), Some(expected), None));
    assert!(expected < 3_000_000);
    assert_eq!(of_queue(30_000_000, 1_000_000).1, None, "all of so little is saved");
    // A thousand frames take 0.5 ms at least and 0.7 at most: no tenth and no quarter of a step; two thousand take 1 ms.
    let is_slowed = |frames| hit((30_000_000, 4_000_000), frames).paced.unwrap().is_slowed;
    assert_eq!([0, 1_000, 2_000].map(is_slowed), [false, false, true]);
}

#[test]
fn overlap_makes_no_step_shorter_than_its_communication() {
    let step = [
        ("stream 7", KERNEL, "gemm", 0, 2_000_000),
        ("stream 8", KERNEL, "ncclDevKernel_AllReduce", 1_000_000, 9_000_000),
        ("stream 7", KERNEL, "gemm", 9_000_000, STEP),
    ];
    let verdicts = judged(&trace(&step), None);
    let hit = of(&verdicts, Rule::ExposedCommunication).unwrap();
    let n = hit.n_steps as i64;
    assert_eq!((hit.amount, hit.communication_ns), (n * 7_000_000, n * 8_000_000));
    assert_eq!(hit.ceiling_ns_per_step, Some(2_000_000), "what computes alone");
    assert_eq!((hit.beyond_overlap_ns(), hit.weight()), (Some(7_000_000), 7_000_000), "all that is exposed");
    assert!(!hit.transfers.is_narrow() && hit.transfers.bus_gb_per_s().is_none(), "nothing was recorded of them");
}

#[test]
fn collectives_know_their_type_and_bandwidth() {
    let step =
        [("stream 7", KERNEL, "gemm", 0, 5_000_000), ("stream 8", KERNEL, "ncclDevKernel_AllReduce", 5_000_000, STEP)];
    let mut builder = TraceBuilder::from_slices(&step);
    let op = builder.strings.intern("allreduce");
    let (n_ranks, element_bytes, in_elements) = (Some(4), Some(2), Some(5_000_000));
    let call = Collective { op, n_ranks, element_bytes, in_elements, ..Default::default() };
    builder.set_facts(1, SliceFacts { collective: Some(call), ..Default::default() });
    let trace = builder.finish();
    let found = Transfers::of(&trace, &devices(&trace)[0], TimeRange { start: 0, end: STEP });
    assert!(found.is_narrow());
    // 10 MB in 5 ms are 2 GB/s; four ranks send 2 * 3 / 4 of it.
    assert_eq!(found.bus_gb_per_s(), Some((3.0, false)));
}

#[test]
fn communication_between_stages_of_a_pipeline_is_told_from_other() {
    // In steps of 10 ms 4 without compute: in receives, but for the end.
    let of_names = |others: TimeNs, name: &'static str| {
        let end = 9_000_000 - others;
        let step = [
            ("stream 7", KERNEL, "gemm", 0, 5_000_000),
            ("stream 8", KERNEL, "ncclDevKernel_SendRecv", 4_000_000, end),
            ("stream 8", KERNEL, "ncclDevKernel_AllReduce", end, 9_000_000),
            ("stream 7", KERNEL, "gemm", 9_000_000, STEP),
        ];
        let slices =
            (0..10).flat_map(|i| step.map(|(track, kind, name, a, b)| (track, kind, name, i * STEP + a, i * STEP + b)));
        let mut builder = TraceBuilder::from_slices(&slices.collect::<Vec<_>>());
        let op = builder.strings.intern(name);
        let sent = (0..40).filter(|i| i % 4 == 1);
        for i in sent.filter(|_| !name.is_empty()) {
            let collective = Some(Collective { op, n_ranks: Some(2), ..Default::default() });
            builder.set_facts(i, SliceFacts { collective, ..Default::default() });
        }
        let verdicts = judged(&builder.finish(), None);
        let hit = of(&verdicts, Rule::ExposedCommunication).unwrap();
        assert_eq!(hit.amount, 40_000_000);
        (hit.transfers.point_to_point_ns, hit.is_between_stages())
    };
    assert_eq!(of_names(400_000, "recv"), (36_000_000, true));
    assert_eq!(of_names(400_001, "recv"), (35_999_990, false));
    assert_eq!(of_names(0, "coalesced"), (40_000_000, true));
    assert_eq!(of_names(0, "all_to_all"), (0, false));
    assert_eq!(of_names(0, ""), (0, false), "the kernel alone may be an all-to-all");
}

#[test]
fn fp32_products_are_found_where_the_device_has_tensor_cores() {
    let judge_of = |kernel: &'static str, compute_major: Option<u32>| {
        let slices: Vec<Named<'_>> = (0..20)
            .map(|i| ("stream 7", KERNEL, if i % 2 == 0 { kernel } else { "add" }, 500_000 * i, 500_000 * (i + 1)))
            .collect();
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.info.devices.push(DeviceInfo { compute_major, ..Default::default() });
        let verdicts = judged(&builder.finish(), None);
        of(&verdicts, Rule::Fp32Matmul).map(|hit| (hit.measured, hit.severity, hit.names[0].clone()))
    };
    let judge = |kernel, major| judge_of(kernel, Some(major));
    let found = |name: &str| Some((0.5, Severity::Warn, name.to_owned()));
    assert_eq!(judge_of("turing_sgemm_64x32_nn", None), found("turing_sgemm_64x32_nn"), "the name tells");
    assert_eq!(judge_of("maxwell_sgemm_128x64_tn", None), None);
    assert_eq!(judge("ampere_sgemm_128x64_tn", 8), found("ampere_sgemm_128x64_tn"));
    let cutlass = "void cutlass::Kernel<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(T1::Params)";
    assert_eq!(judge(cutlass, 9), found("cutlass_80_simt_sgemm_128x128_8x4_nn_align1"));
    assert_eq!(judge("volta_sgemm_128x64_tn", 7), found("volta_sgemm_128x64_tn"), "fp16, if not TF32");
    assert_eq!(judge("maxwell_sgemm_128x64_tn", 6), None, "no tensor cores");
    for other in ["ampere_fp16_s16816gemm_fp16_128x64_tn", "cutlass_80_tensorop_s1688gemm_128x128_tn", "dgemm_128"] {
        assert_eq!(judge(other, 8), None, "{other}");
    }
}

#[test]
fn pageable_copies_of_the_start_up_are_a_note() {
    let judge = |load: TimeNs| {
        let mut slices = vec![("stream 7", COPY, "Memcpy HtoD (Pageable -> Device)", 0, load)];
        for i in 0..10 {
            let at = load + 10_000 + i * 900_000;
            slices.push(("stream 7", KERNEL, "gemm", at, at + 500_000));
            slices.push(("stream 7", KERNEL, "softmax", at + 500_000, at + 890_000 + i % 3));
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(1 << 30), is_pageable: Some(true) };
        builder.set_facts(0, SliceFacts { copy: Some(copy), ..Default::default() });
        let verdicts = judged(&builder.finish(), None);
        let hit = of(&verdicts, Rule::PageableCopies);
        hit.map(|hit| (hit.severity, hit.basis, hit.amount, hit.count, hit.is_of_batches))
    };
    assert_eq!(judge(8_000_000), Some((Severity::Note, Basis::StartUp, 8_000_000, 1, false)));
}

#[test]
fn of_two_steps_the_one_that_is_cut_off_is_not_judged() {
    // Each loads for 6 ms, the first one before any work of the device.
    let found = |n: i64| {
        let names: Vec<String> = (0..n).map(|i| format!("ProfilerStep#{i}")).collect();
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        for (i, name) in (0..).zip(&names) {
            let at = STEP * i;
            slices.push(("main", NOTE, name.as_str(), at, at + STEP));
            slices.push(("main", NOTE, "load_batch", at, at + 6_000_000));
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at + 6_000_000, at + 6_004_000));
            let kernel =
                |k: TimeNs| ("stream 7", KERNEL, "gemm", at + 6_005_000 + 100_000 * k, at + 6_105_000 + 100_000 * k);
            slices.extend((0..39).map(kernel));
            slices.push(("stream 7", KERNEL, "adam", at + 9_905_000, at + STEP));
            correlation.extend([0, 0]);
            correlation.extend([i as u32 + 1; 41]);
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        let verdicts = judged(&builder.finish(), None);
        let ns = of(&verdicts, Rule::DataLoading).and_then(|hit| hit.ceiling_ns_per_step);
        (verdicts.windows[0].steps.len(), ns, of(&verdicts, Rule::DataTime).map(|hit| hit.amount))
    };
    assert_eq!(found(2), (1, Some(6_000_000), None));
    assert_eq!(found(3), (2, Some(6_000_000), None));
    // Of a single one nothing else is there, and its loading made the device wait in no judged time.
    assert_eq!(found(1), (1, None, Some(6_000_000)));
}

#[test]
fn what_a_host_does_beside_loading_in_each_step_is_named() {
    let found = |dur: TimeNs| {
        let step = [
            ("main", SliceKind::PythonFunction, "train.py(9): build_targets", 0, dur, 0),
            ("main", NOTE, "load_batch", 6_000_000, 8_000_000, 0),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 8_000_000, 8_004_000, 1),
            ("stream 7", KERNEL, "gemm", 8_005_000, STEP + 4_000_000, 1),
        ];
        let verdicts = judged(&super::each_rule::linked(&step).finish(), None);
        of(&verdicts, Rule::DataLoading).unwrap().other_in.clone().map(|most| (most.function, most.ns))
    };
    assert_eq!(found(6_000_000), Some(("train.py(9): build_targets".to_owned(), 8 * 6_000_000)));
    assert_eq!(found(4_900_000), None, "less than half of a step");
}
