//! What explains the time from a launch to the start of its work.

use super::*;
use crate::model::{CopyKind, MemoryCopy, SliceFacts, SyncKind, Synchronization};

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
    // A call that had returned before the gap is not what went on in it; one that goes on in it is.
    assert_eq!(of(&queued("cudaLaunchKernel", 100)), [("queued", 900, String::new())]);
    assert_eq!(of(&queued("cudaLaunchKernel", 101)), [("queued", 900, "cudaLaunchKernel".to_owned())]);
    assert_eq!(of(&queued("cudaGraphLaunch_v10000", 25)), [("graph", 900, String::new())]);
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
    for (record, expected) in [(3, ("dependency", "producer")), (99, ("queued", ""))] {
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
    let graph = |us| vec![("graph", us, String::new())];
    assert_eq!((parts(&trace, &ledger, 0), parts(&trace, &ledger, 1)), (graph(2), graph(700)));
    assert_eq!(parts(&trace, &ledger, 2)[0].0, "cpu_op");
    let triggers: Vec<_> = (0..3).map(|gap| ledger.gap(gap).trigger).collect();
    assert_eq!(triggers, [None, None, Some(Trigger::GraphEnd)]);
}
