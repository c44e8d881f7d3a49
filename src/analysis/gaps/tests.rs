//! Planted traces: one gap for each class and trigger, whose right answer is known.

use proptest::prelude::*;

use super::*;
use crate::analysis::busy::devices;
use crate::analysis::steps::StepSource;
use crate::model::{CopyKind, MemoryCopy, SliceFacts, SliceKind, SyncKind, Synchronization, TraceBuilder};

mod copies;
mod lead;
mod loaders;
mod overhead;
mod refill;
mod silence;

const CALL: SliceKind = SliceKind::Runtime;
const KERNEL: SliceKind = SliceKind::Kernel;
const OP: SliceKind = SliceKind::Operator;
const PYTHON: SliceKind = SliceKind::PythonFunction;
const NOTE: SliceKind = SliceKind::Annotation;
const OS: SliceKind = SliceKind::Os;

/// (track, kind, name, start, end, correlation), in microseconds.
type Event<'a> = (&'a str, SliceKind, &'a str, i64, i64, u32);

fn builder(events: &[Event<'_>]) -> TraceBuilder {
    let slices: Vec<_> = events.iter().map(|&(t, k, n, ts, end, _)| (t, k, n, ts * 1000, end * 1000)).collect();
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = events.iter().map(|event| event.5).collect();
    builder
}

fn ledger_of(trace: &Trace, steps: Option<&Steps>) -> Ledger {
    let ledger = ledgers(trace, &devices(trace), steps, &|| false).remove(0);
    assert_sums(&ledger, &devices(trace)[0]);
    ledger
}

fn assert_sums(ledger: &Ledger, busy: &DeviceBusy) {
    let totals = ledger.totals(TimeRange::ALL);
    assert_eq!(totals.all.total_ns, busy.idle_ns);
    assert_eq!(totals.all.total_ns + busy.busy_ns, ledger.window.dur());
    assert_eq!(totals.by_class.iter().map(|class| class.total_ns).sum::<i64>(), totals.all.total_ns);
    for i in 0..ledger.len() {
        let (gap, parts) = (ledger.gap(i), ledger.parts(i).collect::<Vec<_>>());
        assert_eq!(parts.first().map(|part| part.time.start), Some(gap.time.start));
        assert_eq!(parts.last().map(|part| part.time.end), Some(gap.time.end));
        assert!(parts.windows(2).all(|pair| pair[0].time.end == pair[1].time.start), "{parts:?}");
        assert!(parts.iter().all(|part| part.time.dur() > 0), "{parts:?}");
    }
}

/// The parts of a gap as (class, length in microseconds, name).
fn parts(trace: &Trace, ledger: &Ledger, gap: usize) -> Vec<(&'static str, i64, String)> {
    let name = |part: &GapPart| part.slice.map(|slice| trace.slice_name(slice).to_owned()).unwrap_or_default();
    ledger.parts(gap).map(|part| (part.class.key(), part.time.dur() / 1000, name(&part))).collect()
}

/// A first kernel that ends at 100 µs, and a second that begins at 1,000 µs, launched at 990 µs; between them
/// what `events` say.
fn with_gap<'a>(events: &[Event<'a>]) -> Vec<Event<'a>> {
    let mut all = vec![
        ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
        ("stream 7", KERNEL, "first", 10, 100, 1),
        ("main", CALL, "cudaLaunchKernel", 990, 995, 2),
        ("stream 7", KERNEL, "second", 1000, 1100, 2),
    ];
    all.extend_from_slice(events);
    all
}

/// The parts of the gap of [`with_gap`], without the launch latency at its end.
fn host_parts(events: &[Event<'_>]) -> Vec<(&'static str, i64, String)> {
    let trace = builder(&with_gap(events)).finish();
    let ledger = ledger_of(&trace, None);
    assert_eq!(ledger.len(), 1);
    let mut parts = parts(&trace, &ledger, 0);
    assert_eq!(parts.pop(), Some(("launch_latency", 10, "cudaLaunchKernel".to_owned())));
    parts
}

/// What happens in a gap, and the class and the name that explain it.
const DEFINITE: [(&[Event<'_>], &str, &str); 14] = [
    (&[("main", CALL, "cudaDeviceSynchronize", 100, 990, 9)], "sync", "cudaDeviceSynchronize"),
    (
        &[("main", CALL, "cuStreamSynchronize_ptsz", 50, 990, 9), ("main", OS, "ioctl", 60, 990, 0)],
        "sync",
        "cuStreamSynchronize_ptsz",
    ),
    (
        &[
            ("main", NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 90, 990, 0),
            ("main", OP, "aten::stack", 95, 990, 0),
        ],
        "data_loading",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    ),
    (
        &[
            ("main", NOTE, "load_batch", 90, 990, 0),
            ("main", OP, "aten::to", 95, 990, 0),
            ("main", OP, "aten::copy_", 95, 990, 0),
        ],
        "data_loading",
        "load_batch",
    ),
    (
        &[("main", OP, "aten::copy_", 90, 990, 0), ("main", CALL, "cudaMemcpyAsync", 90, 990, 9)],
        "copy",
        "cudaMemcpyAsync",
    ),
    (&[("main", OP, "aten::empty", 90, 990, 0), ("main", CALL, "hipMalloc", 90, 990, 0)], "allocator", "hipMalloc"),
    (
        &[
            ("main", PYTHON, "torch/_dynamo/convert_frame.py(1): _compile", 90, 990, 0),
            ("main", OP, "aten::mm", 90, 990, 0),
        ],
        "module_load",
        "torch/_dynamo/convert_frame.py(1): _compile",
    ),
    (
        &[("main", CALL, "cudaLaunchKernel", 90, 990, 8), ("main", SliceKind::Driver, "cuLibraryLoadData", 91, 990, 8)],
        "module_load",
        "cuLibraryLoadData",
    ),
    (
        &[
            ("main", PYTHON, "train.py(3): main", 90, 990, 0),
            ("main", PYTHON, "<built-in function collect>", 90, 990, 0),
        ],
        "gc",
        "<built-in function collect>",
    ),
    (
        &[("main", OP, "c10d::allreduce_", 90, 990, 0), ("main", OP, "record_param_comms", 90, 990, 0)],
        "collective",
        "c10d::allreduce_",
    ),
    (&[("main", OP, "aten::linear", 90, 990, 0), ("main", OP, "aten::t", 90, 990, 0)], "cpu_op", "aten::t"),
    (&[("main", PYTHON, "train.py(3): main", 90, 990, 0)], "python", "train.py(3): main"),
    (&[("main", OS, "sem_wait", 90, 990, 0)], "blocked", "sem_wait"),
    (&[("main", NOTE, "forward", 90, 990, 0)], "unknown", "forward"),
];

#[test]
fn the_innermost_definite_slice_decides() {
    for (events, class, name) in DEFINITE {
        let found = host_parts(events);
        let last = found.last().unwrap();
        assert_eq!((last.0, last.2.as_str()), (class, name), "{found:?}");
        assert!(found.iter().filter(|part| part.0 != class).map(|part| part.1).sum::<i64>() <= 10, "{found:?}");
    }
    assert_eq!(host_parts(&[]), [("unknown", 890, String::new())]);
}

#[test]
fn operators_that_copy_or_read_are_judged_by_the_calls_inside() {
    let class = |op: &'static str, call: &'static str, end: i64| {
        let events = [
            ("main", OP, "aten::linear", 90, 990, 0),
            ("main", OP, op, 200, end, 0),
            ("main", CALL, call, 200, 201, 9),
        ];
        let events = if call.is_empty() { &events[..2] } else { &events };
        let parts = host_parts(events);
        parts.iter().filter(|part| part.2 == op).map(|part| part.0).next().unwrap().to_owned()
    };
    assert_eq!(class("aten::to", "cudaMemcpyAsync", 300), "copy");
    assert_eq!(class("aten::to", "cudaLaunchKernel", 300), "cpu_op", "a cast");
    assert_eq!(class("aten::to", "", 300), "copy", "on the host");
    assert_eq!(class("aten::to", "", 202), "cpu_op", "nothing to do");
    assert_eq!(class("aten::item", "cudaStreamSynchronize", 300), "sync");
    assert_eq!(class("aten::item", "", 202), "cpu_op", "of a tensor on the host");
    // A batch may be trained on as well as loaded.
    let step = [("main", NOTE, "train_batch", 90, 2000, 0)];
    assert_eq!(host_parts(&step), [("unknown", 890, "train_batch".to_owned())]);
    assert_eq!(host_parts(&[("main", NOTE, "batch", 95, 985, 0)])[0].0, "unknown");
    assert_eq!(host_parts(&[("main", NOTE, "load_batch", 95, 985, 0)])[0].0, "data_loading");
}

#[test]
fn copies_on_the_device_are_launches() {
    let events = with_gap(&[
        ("main", CALL, "cudaMemcpyAsync", 100, 980, 9),
        ("stream 8", SliceKind::Memcpy, "Memcpy DtoD", 1200, 1210, 9),
    ]);
    let mut builder = builder(&events);
    let copy = MemoryCopy { kind: CopyKind::DtoD, ..Default::default() };
    builder.set_facts(5, SliceFacts { copy: Some(copy), ..Default::default() });
    let trace = builder.finish();
    assert_eq!(parts(&trace, &ledger_of(&trace, None), 0)[0], ("launch", 880, "cudaMemcpyAsync".to_owned()));
}

#[test]
fn the_thread_that_handed_over_explains_what_the_launching_one_does_not() {
    // Autograd's thread begins at 600 µs; until then the main thread worked on the loss.
    let events = [
        ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
        ("main", OP, "aten::cross_entropy_loss", 90, 400, 0),
        ("main", PYTHON, "torch/autograd/graph.py(1): _engine_run_backward", 400, 2000, 0),
        ("autograd", OP, "MmBackward0", 600, 1000, 0),
        ("autograd", CALL, "cudaLaunchKernel", 990, 995, 2),
        ("stream 7", KERNEL, "first", 10, 100, 1),
        ("stream 7", KERNEL, "second", 1000, 1100, 2),
        // The main thread waits while autograd's thread works.
        ("autograd", OP, "AccumulateGrad", 1000, 1500, 0),
        ("main", CALL, "cudaLaunchKernel", 2010, 2015, 3),
        ("stream 7", KERNEL, "third", 2020, 2030, 3),
    ];
    let trace = builder(&events).finish();
    let ledger = ledger_of(&trace, None);
    let of = |gap| parts(&trace, &ledger, gap).into_iter().map(|part| (part.0, part.1)).collect::<Vec<_>>();
    assert_eq!(of(0), [("cpu_op", 300), ("python", 200), ("cpu_op", 390), ("launch_latency", 10)]);
    assert_eq!(of(1), [("cpu_op", 400), ("python", 500), ("unknown", 10), ("launch_latency", 10)]);
}

#[test]
fn the_launch_part_is_latency_a_wait_a_graph_or_unexplained() {
    // Launched ahead, before the first kernel ended.
    let queued = |call: &'static str, end| {
        [
            ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
            ("stream 7", KERNEL, "first", 10, 100, 1),
            ("main", CALL, call, 20, end, 2),
            ("stream 8", KERNEL, "second", 1000, 1100, 2),
        ]
    };
    let of = |events: &[Event<'_>]| {
        let trace = builder(events).finish();
        parts(&trace, &ledger_of(&trace, None), 0)
    };
    assert_eq!(of(&queued("cudaLaunchKernel", 25)), [("queued", 900, "cudaLaunchKernel".to_owned())]);
    assert_eq!(of(&queued("cudaGraphLaunch_v10000", 25)), [("graph", 900, "cudaGraphLaunch_v10000".to_owned())]);
    let slow = [("launch", 890, "cudaLaunchKernel".to_owned()), ("launch_latency", 10, "cudaLaunchKernel".to_owned())];
    assert_eq!(of(&queued("cudaLaunchKernel", 990)), slow);
    assert_eq!(of(&queued("cudaMemcpyAsync", 990))[0].0, "copy");
    let mut loading = queued("cudaLaunchKernel", 990).to_vec();
    loading.push(("profiler", SliceKind::Overhead, "Lazy Function Loading", 200, 900, 0));
    let classes: Vec<_> = of(&loading).into_iter().map(|part| (part.0, part.1)).collect();
    assert_eq!(classes, [("launch", 100), ("module_load", 700), ("launch", 90), ("launch_latency", 10)]);
    // Inside an operator as well, whose calls that load were not recorded.
    let inside = [
        ("main", OP, "aten::addmm", 90, 995, 0),
        ("profiler", SliceKind::Overhead, "Lazy Function Loading", 200, 900, 0),
    ];
    let classes: Vec<_> = host_parts(&inside).into_iter().map(|part| (part.0, part.1)).collect();
    assert_eq!(classes, [("cpu_op", 100), ("module_load", 700), ("cpu_op", 90)]);
    let mut unrecorded = queued("cudaLaunchKernel", 25).to_vec();
    unrecorded.remove(2);
    assert_eq!(of(&unrecorded), [("no_launch", 900, String::new())]);
}

#[test]
fn a_recorded_wait_for_another_stream_names_the_producer() {
    let events = [
        ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
        ("main", CALL, "cudaEventRecord", 6, 7, 3),
        ("main", CALL, "cudaStreamWaitEvent", 8, 9, 4),
        ("main", CALL, "cudaLaunchKernel", 10, 15, 2),
        ("stream 7", KERNEL, "producer", 20, 100, 1),
        ("stream 8", KERNEL, "consumer", 400, 500, 2),
        ("stream 8", SliceKind::Sync, "Stream Wait Event", 8, 9, 4),
    ];
    for (record, expected) in [(3, ("dependency", "producer")), (99, ("queued", "cudaLaunchKernel"))] {
        let mut builder = builder(&events);
        let sync = Synchronization {
            kind: SyncKind::StreamWait,
            stream: Some(8),
            event: Some(1),
            event_stream: (record == 3).then_some(7),
            event_record: record,
        };
        builder.set_facts(6, SliceFacts { sync: Some(sync), ..Default::default() });
        let trace = builder.finish();
        let found = parts(&trace, &ledger_of(&trace, None), 0);
        assert_eq!((found.len(), found[0].0, found[0].2.as_str()), (1, expected.0, expected.1));
    }
}

#[test]
fn work_inside_a_graph_waits_for_nothing_on_the_host() {
    let events = [
        ("main", CALL, "cudaGraphLaunch", 0, 5, 1),
        ("stream 7", KERNEL, "first node", 10, 100, 1),
        ("stream 7", KERNEL, "second node", 102, 200, 1),
        ("stream 7", KERNEL, "third node", 900, 950, 1),
        ("main", OP, "aten::add", 200, 2000, 0),
        ("main", CALL, "cudaLaunchKernel", 1990, 1995, 2),
        ("stream 7", KERNEL, "after", 2000, 2100, 2),
    ];
    let trace = builder(&events).finish();
    let ledger = ledger_of(&trace, None);
    let graph = |us| vec![("graph", us, "cudaGraphLaunch".to_owned())];
    assert_eq!((parts(&trace, &ledger, 0), parts(&trace, &ledger, 1)), (graph(2), graph(700)));
    assert_eq!(parts(&trace, &ledger, 2)[0].0, "cpu_op");
    let triggers: Vec<_> = (0..3).map(|gap| ledger.gap(gap).trigger).collect();
    assert_eq!(triggers, [None, None, Some(Trigger::GraphEnd)]);
}

#[test]
fn a_sync_that_ends_after_the_device_went_idle_emptied_the_queue() {
    let trigger = |events: &[Event<'_>]| {
        let trace = builder(&with_gap(events)).finish();
        let gap = ledger_of(&trace, None).gap(0);
        (gap.trigger, gap.trigger_slice.map(|slice| trace.slice_name(slice).to_owned()))
    };
    let drained = (Some(Trigger::Sync), Some("cudaStreamSynchronize".to_owned()));
    assert_eq!(trigger(&[("main", CALL, "cudaStreamSynchronize", 20, 105, 9)]), drained);
    // The thread then does something else for long: the sync does not fill the gap.
    let long = [("main", CALL, "cudaStreamSynchronize", 20, 105, 9), ("main", PYTHON, "a.py(1): f", 0, 990, 0)];
    assert_eq!(trigger(&long), drained);
    assert_eq!(host_parts(&long).iter().map(|part| part.0).collect::<Vec<_>>(), ["sync", "python"]);
    assert_eq!(trigger(&[("main", CALL, "cudaStreamSynchronize", 20, 60, 9)]).0, None, "it ended long before");
    assert_eq!(trigger(&[("main", CALL, "cudaStreamSynchronize", 200, 900, 9)]).0, None, "the queue was empty");
    assert_eq!(trigger(&[("other", CALL, "cudaStreamSynchronize", 20, 105, 9)]).0, None, "another thread");
}

#[test]
fn launches_that_barely_keep_up_are_launch_bound() {
    let kernels = |n: i64, ahead: i64| {
        let mut events = Vec::new();
        for i in 0..n {
            let at = 100 * i;
            events.push(("main", CALL, "cudaLaunchKernel", at, at + 5, i as u32 + 1));
            events.push(("stream 7", KERNEL, "k", at + 5 + ahead, at + 55 + ahead, i as u32 + 1));
        }
        let trace = builder(&events).finish();
        let ledger = ledger_of(&trace, None);
        (0..ledger.len()).map(|gap| ledger.gap(gap).trigger).collect::<Vec<_>>()
    };
    let mut expected = vec![None; 7];
    expected.push(Some(Trigger::LaunchBound));
    assert_eq!(kernels(9, 5), expected);
    assert_eq!(kernels(9, 500), [None; 8], "queued long before");
}

#[test]
fn a_gap_much_longer_than_from_launch_to_launch_is_not_launch_bound() {
    let last = |pause: i64| {
        let mut events = Vec::new();
        for i in 0..10 {
            let at = 100 * i + if i == 9 { pause } else { 0 };
            events.push(("main", CALL, "cudaLaunchKernel", at, at + 5, i as u32 + 1));
            events.push(("stream 7", KERNEL, "k", at + 10, at + 60, i as u32 + 1));
        }
        events.push(("main", OP, "aten::result_type", 806, 900 + pause, 0));
        let ledger = ledger_of(&builder(&events).finish(), None);
        ledger.gap(ledger.len() - 1).trigger
    };
    assert_eq!([940, 970].map(last), [Some(Trigger::LaunchBound), None]);
}

#[test]
fn a_range_of_the_user_without_launches_explains_its_time() {
    let range = |name| host_parts(&[("main", NOTE, name, 90, 980, 0)])[0].clone();
    for (name, class) in [
        ("tokenize", "cpu_op"),
        ("postprocess", "cpu_op"),
        ("iteration 7", "unknown"),
        ("ProfilerStep#3", "unknown"),
        ("backward", "unknown"),
    ] {
        assert_eq!(range(name), (class, 880, name.to_owned()), "{name}");
    }
    // One around the launches before and after says where, but not what.
    assert_eq!(host_parts(&[("main", NOTE, "block", 0, 1200, 0)])[0], ("unknown", 890, "block".to_owned()));
    let inside = [("main", NOTE, "tokenize", 90, 980, 0), ("main", PYTHON, "train.py(3): main", 0, 1200, 0)];
    assert_eq!(host_parts(&inside)[0].0, "python", "of the range nothing but its name is recorded");
}

#[test]
fn copies_from_pageable_memory_empty_the_queue_if_the_call_waits_for_them() {
    let is_sync = |is_pageable, end, busy_until| {
        let mut builder = builder(&[
            ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
            ("stream 7", KERNEL, "first", 10, busy_until, 1),
            ("main", CALL, "cudaMemcpyAsync", 80, end, 3),
            ("stream 7", SliceKind::Memcpy, "Memcpy HtoD", 110, 200, 3),
            ("main", CALL, "cudaLaunchKernel", 990, 995, 2),
            ("stream 7", KERNEL, "second", 1000, 1100, 2),
        ]);
        let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(1 << 20), is_pageable };
        builder.set_facts(3, SliceFacts { copy: Some(copy), ..Default::default() });
        let ledger = ledger_of(&builder.finish(), None);
        ledger.gap(ledger.len() - 1).trigger == Some(Trigger::Sync)
    };
    assert!(is_sync(Some(true), 201, 100));
    assert!(!is_sync(Some(false), 201, 100), "pinned memory");
    assert!(!is_sync(None, 201, 100), "unknown memory");
    assert!(!is_sync(Some(true), 199, 100), "the call returned before");
    assert!(!is_sync(Some(true), 201, 70), "the device had nothing to do");
}

#[test]
fn a_gap_with_the_end_of_a_step_is_a_step_boundary() {
    let steps =
        |boundary: i64| Steps::new(StepSource::ProfilerStep, vec![0, boundary * 1000, 2_000_000], None, 0, None);
    let trace = builder(&with_gap(&[])).finish();
    // On the host the step ends before the device is idle, but after the last launch.
    for (boundary, expected) in [(500, true), (50, true), (995, false)] {
        let trigger = ledger_of(&trace, Some(&steps(boundary))).gap(0).trigger;
        assert_eq!(trigger == Some(Trigger::StepBoundary), expected, "{boundary}");
    }
}

#[test]
fn theta_is_the_95th_percentile_between_launched_ahead_work() {
    let trace = |gaps: &[i64], ahead: i64| {
        let mut events = vec![("stream 7", KERNEL, "k", 0, 1000, 0)];
        let mut at = 1000;
        for (i, gap) in gaps.iter().enumerate() {
            let call = at - ahead;
            events.push(("main", CALL, "cudaLaunchKernel", call, call + 1, i as u32 + 1));
            events.push(("stream 7", KERNEL, "k", at + gap, at + gap + 10, i as u32 + 1));
            at += gap + 10;
        }
        ledger_of(&builder(&events).finish(), None).theta_ns
    };
    let gaps: Vec<i64> = (1..=20).collect();
    assert_eq!(trace(&gaps, 5), 19_000);
    assert_eq!(trace(&gaps, -1), 30_000, "nothing was launched ahead");
    assert_eq!(trace(&[300], 5), 30_000);
}

#[test]
fn waits_for_other_streams_do_not_count_for_theta() {
    let theta = |wait: &'static str| {
        let mut events = vec![("stream 7", KERNEL, "k", 0, 1000, 0)];
        let mut at = 1000;
        for (i, gap) in [2, 3, 25].into_iter().enumerate() {
            let call = at - 10;
            if gap == 25 {
                events.push(("main", CALL, wait, call - 2, call - 1, 0));
            }
            events.push(("main", CALL, "cudaLaunchKernel", call, call + 1, i as u32 + 1));
            events.push(("stream 7", KERNEL, "k", at + gap, at + gap + 20, i as u32 + 1));
            at += gap + 20;
        }
        ledger_of(&builder(&events).finish(), None).theta_ns
    };
    assert_eq!(["cudaStreamWaitEvent", "hipStreamWaitEvent", "cudaEventRecord"].map(theta), [3_000, 3_000, 25_000]);
}

#[test]
fn a_synchronization_has_the_operator_and_the_frame_that_called_it() {
    let events = with_gap(&[
        ("main", PYTHON, "train.py(30): main", 0, 1200, 0),
        ("main", PYTHON, "torch/_tensor.py(3): item", 20, 120, 0),
        ("main", OP, "autograd::engine", 21, 119, 0),
        ("main", OP, "aten::item", 22, 118, 0),
        ("main", OP, "aten::_local_scalar_dense", 23, 117, 0),
        ("main", CALL, "cudaStreamSynchronize", 24, 110, 0),
    ]);
    let trace = builder(&events).finish();
    let sync = ledger_of(&trace, None).gap(0).trigger_slice.unwrap();
    let found = place_of_call(&trace, sync, &Near::none());
    let operator = found.operator.map(|slice| trace.slice_name(slice));
    assert_eq!((operator, found.frame), (Some("aten::item"), Some("train.py(30): main")));
}

#[test]
fn parts_lead_to_operator_and_frame() {
    let events = with_gap(&[
        ("main", PYTHON, "train.py(30): main", 0, 1200, 0),
        ("main", PYTHON, "/usr/lib/python3.11/json.py(3): load", 90, 990, 0),
        ("main", OP, "aten::linear", 300, 996, 0),
        ("main", OP, "aten::addmm", 400, 996, 0),
    ]);
    let trace = builder(&events).finish();
    let ledger = ledger_of(&trace, None);
    let gap = ledger.gap(0);
    let found: Vec<_> = ledger
        .parts(0)
        .map(|part| {
            let place = place(&trace, &ledger, &gap, &part, &Near::none());
            (part.class.key(), place.operator.map(|op| trace.slice_name(op)), place.frame)
        })
        .collect();
    let frame = Some("train.py(30): main");
    let expected = [
        ("python", None, frame),
        ("cpu_op", Some("aten::linear"), frame),
        ("cpu_op", Some("aten::addmm"), frame),
        ("launch_latency", Some("aten::addmm"), frame),
    ];
    assert_eq!(found, expected);
    let Coverage { operator_ns, frame_ns, work, launched } = ledger.coverage;
    assert_eq!((operator_ns, frame_ns, work, launched), (700_000, 900_000, 2, 2));
    // The operator is open from 300 µs on, the frame all the time.
    let known = |start: i64, end: i64| ledger.known(TimeRange { start: start * 1_000, end: end * 1_000 });
    assert_eq!(known(0, 2_000), [700_000, 900_000]);
    assert_eq!(
        [known(0, 300), known(250, 350), known(900, 2_000)],
        [[0, 200_000], [50_000, 100_000], [100_000, 100_000]]
    );
}

proptest! {
    #[test]
    fn parts_sum_to_gaps_and_gaps_to_the_idle_time(
        work in prop::collection::vec((0_i64..400, 0_i64..40, 0_usize..2, 0_i64..60, 0_u8..4), 1..40),
        host in prop::collection::vec((0_i64..400, 0_i64..120, 0_usize..12, 0_usize..2), 0..40),
    ) {
        let names = [
            (CALL, "cudaStreamSynchronize"), (CALL, "cudaMemcpyAsync"), (CALL, "cudaGraphLaunch"), (OP, "aten::item"),
            (OP, "aten::copy_"), (NOTE, "train_batch"), (PYTHON, "run_backward"), (OS, "futex"), (CALL, "cudaMalloc"),
            (SliceKind::Overhead, "Buffer Flush"), (SliceKind::Overhead, "Lazy Function Loading"), (OP, "aten::mm"),
        ];
        let mut events: Vec<Event<'_>> = Vec::new();
        for (i, &(ts, dur, stream, ahead, call)) in work.iter().enumerate() {
            let id = i as u32 + 1;
            events.push((["stream 7", "stream 8"][stream], KERNEL, "k", ts, ts + dur, id));
            let name = ["cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync"].get(usize::from(call));
            if let Some(name) = name {
                events.push((["main", "autograd"][stream], CALL, name, ts - ahead, ts - ahead + 5, id));
            }
        }
        for &(ts, dur, name, thread) in &host {
            let (kind, name) = names[name];
            let thread = if kind == SliceKind::Overhead { "profiler" } else { ["main", "autograd"][thread] };
            events.push((thread, kind, name, ts, ts + dur, 0));
        }
        let trace = builder(&events).finish();
        let ledger = ledger_of(&trace, None);
        for i in 0..ledger.len() {
            let gap = ledger.gap(i);
            prop_assert_eq!(trace.slices.end[gap.after.idx()], gap.time.start);
            prop_assert_eq!(trace.slices.ts[gap.ended_by.idx()], gap.time.end);
            prop_assert_eq!(ledger.at(gap.time.start), Some(i));
        }
        // What the ranges cut sums to the whole.
        let mut sums = [0; 2];
        for cut in [i64::MIN, 50_000, 123_456, 200_000, 260_000, i64::MAX].windows(2) {
            let range = TimeRange { start: cut[0], end: cut[1] };
            let (known, idle) = (ledger.known(range), ledger.totals(range).all.total_ns);
            prop_assert!(known.iter().all(|&ns| 0 <= ns && ns <= idle));
            sums = [sums[0] + known[0], sums[1] + known[1]];
        }
        prop_assert_eq!(sums, [ledger.coverage.operator_ns, ledger.coverage.frame_ns]);
    }
}
