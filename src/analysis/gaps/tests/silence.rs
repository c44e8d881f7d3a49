//! Gaps during which the launching thread recorded nothing: their causes and places.

use super::*;
use crate::analysis::gaps::clusters::clusters;
use crate::model::ON_CPU;

/// Work of the main thread, then of a worker at 1,000 µs; between them what `events` say.
fn handed_to_worker(events: &[Event<'_>]) -> Vec<(&'static str, i64, String)> {
    let mut all = vec![
        ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
        ("stream 7", KERNEL, "first", 10, 100, 1),
        ("worker", CALL, "cudaMemcpyAsync", 990, 995, 2),
        ("stream 7", KERNEL, "second", 1000, 1100, 2),
    ];
    all.extend_from_slice(events);
    let trace = builder(&all).finish();
    let mut parts = parts(&trace, &ledger_of(&trace, None), 0);
    parts.pop();
    parts
}

#[test]
fn a_thread_that_still_waits_was_not_waited_for() {
    let owned = |class, us, name: &str| (class, us, name.to_owned());
    // The main thread wakes up and hands over.
    let before = handed_to_worker(&[("main", OS, "sem_wait", 50, 900, 0)]);
    assert_eq!(before, [owned("blocked", 800, "sem_wait"), owned("unknown", 90, "")]);
    // It wakes up after the worker has gone on: it waited for the worker.
    for worker in [&[][..], &[("worker", CALL, "cudaEventRecord", 400, 410, 0)]] {
        let mut events = vec![("main", OS, "futex", 50, 1200, 0)];
        events.extend_from_slice(worker);
        let after = handed_to_worker(&events);
        assert!(after.iter().all(|part| part.0 == "unknown"), "{after:?}");
    }
    // So does one that is over before the launch, but not before the worker goes on.
    let events = [("main", OS, "futex", 50, 700, 0), ("worker", OS, "waitpid", 600, 610, 0)];
    let expected = [owned("unknown", 500, ""), owned("blocked", 10, "waitpid"), owned("unknown", 380, "")];
    assert_eq!(handed_to_worker(&events), expected);
}

#[test]
fn time_between_calls_that_load_code_is_loading() {
    let between = |between: Event<'static>| {
        let events = [
            ("main", CALL, "cuLinkComplete", 150, 200, 0),
            between,
            ("main", CALL, "cuModuleLoadFatBinary", 900, 950, 0),
        ];
        let parts = host_parts(&events);
        parts.into_iter().filter(|part| part.0 == "module_load").map(|part| part.1).sum::<i64>()
    };
    assert_eq!(between(("main", OS, "futex", 210, 890, 0)), 800, "waits for a thread that compiles");
    assert_eq!(between(("main", CALL, "cuGetProcAddress_v2", 300, 301, 0)), 800);
    assert_eq!(between(("main", OP, "aten::mm", 300, 800, 0)), 300, "works on something else");
    assert_eq!(between(("main", CALL, "cudaMalloc", 300, 301, 0)), 100, "two causes");
    assert_eq!(between(("other", CALL, "cudaMalloc", 300, 301, 0)), 800);
    let unloads = [("main", CALL, "cuModuleLoadData", 150, 200, 0), ("main", CALL, "cuModuleUnload", 900, 950, 0)];
    assert_eq!(host_parts(&unloads)[2], ("unknown", 700, String::new()));
}

/// The parts of a gap from 100 to 9,990 µs in which this happens.
pub(super) fn parts_of_long_gap(events: &[Event<'_>]) -> Vec<(&'static str, i64, String)> {
    let mut all = vec![
        ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
        ("stream 7", KERNEL, "first", 10, 100, 1),
        ("main", CALL, "cudaLaunchKernel", 9_990, 9_995, 2),
        ("stream 7", KERNEL, "second", 10_000, 10_100, 2),
    ];
    all.extend_from_slice(events);
    let trace = builder(&all).finish();
    parts(&trace, &ledger_of(&trace, None), 0)
}

#[test]
fn a_silent_thread_waits_for_one_that_loads_code() {
    let of = |events: &[Event<'static>]| {
        let parts = parts_of_long_gap(events);
        parts.into_iter().filter(|part| part.0 == "module_load").map(|part| part.1).sum::<i64>()
    };
    let compiles = [
        ("other", CALL, "cuLinkCreate_v2", 2_000, 3_000, 0),
        ("other", CALL, "cuModuleLoadFatBinary", 8_000, 9_000, 0),
    ];
    assert_eq!(of(&compiles), 7_000);
    assert_eq!(of(&[compiles[0], compiles[1], ("main", OS, "futex", 100, 9_980, 0)]), 7_000, "it waits");
    assert_eq!(of(&[compiles[0], compiles[1], ("main", OP, "aten::mm", 100, 9_980, 0)]), 0, "it works");
    // Two silent stretches, of which one is too short to ask for more than what the thread shows.
    let busy = ("main", OP, "aten::mm", 1_000, 7_990, 0);
    assert_eq!(of(&[compiles[0], compiles[1], busy]), 1_010);
    assert_eq!(of(&[compiles[0], compiles[1], ("main", OP, "aten::mm", 100, 8_991, 0)]), 0);
}

#[test]
fn time_off_the_cpu_is_blocked_unless_the_thread_acts_in_it() {
    let on_cpu = "main".to_owned() + ON_CPU;
    let other = SliceKind::Other;
    let of = |events: &[Event<'_>]| {
        let mut all =
            vec![(on_cpu.as_str(), other, "CPU 3", 0, 200, 0), (on_cpu.as_str(), other, "CPU 3", 800, 2000, 0)];
        all.extend_from_slice(events);
        host_parts(&all).into_iter().map(|part| (part.0, part.1)).collect::<Vec<_>>()
    };
    assert_eq!(of(&[]), [("unknown", 100), ("blocked", 600), ("unknown", 190)]);
    let acts = [("main", CALL, "cudaEventQuery", 500, 501, 0)];
    assert!(of(&acts).iter().all(|part| part.0 == "unknown"), "a switch was lost");
    let works = [("main", OP, "aten::mm", 100, 990, 0)];
    assert_eq!(of(&works), [("cpu_op", 890)], "it is in an operator");
}

#[test]
fn frees_empty_the_queue_although_their_time_is_the_allocators() {
    for (call, expected) in [("cudaFree", true), ("hipHostFree", true), ("cudaFreeAsync", false), ("cudaMalloc", false)]
    {
        let trace = builder(&with_gap(&[("main", CALL, call, 20, 400, 9)])).finish();
        let ledger = ledger_of(&trace, None);
        let gap = ledger.gap(0);
        assert_eq!(gap.trigger == Some(Trigger::Sync), expected, "{call}");
        assert_eq!(parts(&trace, &ledger, 0)[0], ("allocator", 300, call.to_owned()));
    }
}

/// The class of the last part of the last of several gaps, in nanoseconds before and after its launch returns.
fn last_class(call_ns: i64, delay_ns: i64) -> &'static str {
    let mut events = Vec::new();
    for i in 0..100 {
        let (call, delay) = if i == 99 { (call_ns, delay_ns) } else { (5_000, 2_000 + i % 5 * 400) };
        let at = i * 1_000_000;
        events.push(("main", CALL, "cudaLaunchKernel", at, at + call, i as u32 + 1));
        events.push(("stream 7", KERNEL, "k", at + call + delay, at + call + delay + 1_000, i as u32 + 1));
    }
    let slices: Vec<_> = events.iter().map(|&(t, k, n, ts, end, _)| (t, k, n, ts, end)).collect();
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = events.iter().map(|event| event.5).collect();
    let trace = builder.finish();
    let ledger = ledger_of(&trace, None);
    ledger.parts(ledger.len() - 1).last().map(|part| part.class.key()).unwrap()
}

#[test]
fn work_waits_in_a_queue_only_if_it_begins_late_after_its_call() {
    assert_eq!(last_class(5_000, 3_600), "launch_latency");
    assert_eq!(last_class(5_000, 4_500), "launch_latency", "among the slowest twentieth");
    assert_eq!(last_class(8_000, 3_000), "launch_latency", "a slow call");
    assert_eq!(last_class(5_000, 60_000), "queued");
    assert_eq!(last_class(8_000, 60_000), "queued");
}

#[test]
fn the_place_of_loading_is_what_takes_most_of_it() {
    let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let at = |inside: &[Event<'static>]| {
        let mut events = vec![
            ("main", PYTHON, "train.py(9): main", 0, 1200, 0),
            ("main", NOTE, loader, 90, 980, 0),
            ("main", PYTHON, "torch/utils/data/dataloader.py(7): fetch", 91, 979, 0),
        ];
        events.extend_from_slice(inside);
        let trace = builder(&with_gap(&events)).finish();
        let ledger = ledger_of(&trace, None);
        let part = ledger.parts(0).find(|part| part.class == GapClass::DataLoading).unwrap();
        assert_eq!(part.slice.map(|slice| trace.slice_name(slice)), Some(loader));
        let place = place(&trace, &ledger, &ledger.gap(0), &part, &Near::none());
        let clusters = clusters(&trace, std::slice::from_ref(&ledger), None, &|| false).remove(0);
        let operator = place.operator.map(|slice| trace.slice_name(slice).to_owned()).unwrap_or_default();
        assert_eq!(clusters.op(&clusters.all[0]), operator);
        assert_eq!(Some(clusters.name(clusters.all[0].frame)), place.frame);
        (operator, place.frame.unwrap_or_default().to_owned())
    };
    let owned = |operator: &str, frame: &str| (operator.to_owned(), frame.to_owned());
    let zoom = ("main", PYTHON, "scipy/ndimage/_interpolation.py(739): zoom", 200, 900, 0);
    let data = ("main", PYTHON, "data.py(40): __getitem__", 190, 970, 0);
    let short = ("main", OP, "aten::stack", 910, 960, 0);
    let long = ("main", OP, "aten::upsample", 210, 890, 0);
    let fetch = "torch/utils/data/dataloader.py(7): fetch";
    assert_eq!(at(&[]), owned(fetch, "train.py(9): main"));
    assert_eq!(at(&[zoom, short]), owned(zoom.2, "train.py(9): main"));
    assert_eq!(at(&[data, zoom, short]), owned(zoom.2, data.2));
    assert_eq!(at(&[data, zoom, long]), owned(long.2, data.2));
}

#[test]
fn the_operator_of_many_small_parts_is_where_the_host_was_not_what_follows() {
    // Ten operators of a range before the launch, which lies in another one.
    let ops: Vec<Event<'_>> = (0..10).map(|i| ("main", OP, "aten::view", 110 + 80 * i, 170 + 80 * i, 0)).collect();
    let mut events = vec![("main", NOTE, "prepare", 95, 960, 0), ("main", OP, "aten::mm", 970, 996, 0)];
    events.extend_from_slice(&ops);
    let trace = builder(&with_gap(&events)).finish();
    let ledger = ledger_of(&trace, None);
    let found = clusters(&trace, std::slice::from_ref(&ledger), None, &|| false).remove(0);
    assert_eq!(found.op(&found.all[0]), "prepare");
}

#[test]
fn a_hook_of_a_step_is_work_and_a_step_around_it_is_not() {
    for (range, class) in [("EMA.on_train_batch_end", "cpu_op"), ("train_batch", "unknown"), ("forward", "unknown")] {
        let parts = host_parts(&[("main", SliceKind::Annotation, range, 100, 900, 0)]);
        assert!(parts.iter().any(|part| part.0 == class && part.1 >= 790), "{range}: {parts:?}");
    }
}
