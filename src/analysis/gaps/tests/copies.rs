//! Synchronizations that waited for copies alone, and bounds of what silence is taken for.

use super::*;
use crate::model::ON_CPU;

const COPY: SliceKind = SliceKind::Memcpy;

/// Trigger of the gap before the last kernel, and the classes of its host part with their microseconds. A copy called
/// at 200 µs runs from 210 to `copied`; the kernel before it ends at `before`; `sync` waits for the copy.
fn after_copy(before: i64, copied: i64, sync: Event<'static>) -> (Option<Trigger>, Vec<(&'static str, i64)>) {
    let events = [
        ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
        ("stream 7", KERNEL, "first", 10, before, 1),
        ("main", CALL, "cudaMemcpyAsync", 200, 208, 2),
        ("stream 7", COPY, "Memcpy HtoD", 210.max(before + 1), copied, 2),
        sync,
        ("main", CALL, "cudaLaunchKernel", 990, 995, 3),
        ("stream 7", KERNEL, "last", 1000, 1100, 3),
    ];
    let trace = builder(&events).finish();
    let ledger = ledger_of(&trace, None);
    let last = ledger.len() - 1;
    let mut found = parts(&trace, &ledger, last);
    found.pop();
    (ledger.gap(last).trigger, found.into_iter().map(|part| (part.0, part.1)).collect())
}

#[test]
fn waiting_for_a_copy_on_an_idle_device_empties_no_queue() {
    let sync = |until: i64| ("main", CALL, "cudaStreamSynchronize", 209, until, 0);
    // The device was idle from 100 to 210 µs: all that follows the copy is the host's own time.
    assert_eq!(after_copy(100, 230, sync(240)), (None, vec![("copy", 10), ("unknown", 750)]));
    // A kernel ran when the copy was called: the wait was for both.
    assert_eq!(after_copy(205, 230, sync(240)), (Some(Trigger::Sync), vec![("sync", 10), ("unknown", 750)]));
    // A copy longer than the gap after it: without the wait, the host would have been done before its end.
    assert_eq!(after_copy(100, 700, sync(710)), (Some(Trigger::Sync), vec![("copy", 10), ("unknown", 280)]));
}

#[test]
fn a_call_that_copies_and_waits_is_judged_by_what_ran_before_it() {
    let trigger = |before: i64| {
        let events = [
            ("main", CALL, "hipLaunchKernel", 0, 5, 1),
            ("stream 7", KERNEL, "first", 10, before, 1),
            ("main", CALL, "hipMemcpyWithStream", 200, 450, 2),
            ("stream 7", COPY, "CopyHostToDevice", 405, 430, 2),
            ("main", CALL, "hipLaunchKernel", 990, 995, 3),
            ("stream 7", KERNEL, "last", 1000, 1100, 3),
        ];
        let trace = builder(&events).finish();
        let ledger = ledger_of(&trace, None);
        ledger.gap(ledger.len() - 1).trigger
    };
    assert_eq!(trigger(150), None);
    assert_eq!(trigger(400), Some(Trigger::Sync));
}

#[test]
fn long_silence_is_taken_for_nothing() {
    let loading = |us: i64| {
        let events = [
            ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
            ("stream 7", KERNEL, "first", 10, 100, 1),
            ("main", CALL, "cuModuleLoadData", 150, 200, 0),
            ("main", CALL, "cuModuleLoadData", 200 + us, 250 + us, 0),
            ("main", CALL, "cudaLaunchKernel", 290 + us, 295 + us, 2),
            ("stream 7", KERNEL, "second", 300 + us, 400 + us, 2),
        ];
        let trace = builder(&events).finish();
        let ledger = ledger_of(&trace, None);
        ledger.parts(0).filter(|part| part.class == GapClass::ModuleLoad && inferred_ns(&trace, part) > 0).count()
    };
    assert_eq!([loading(499_000), loading(501_000)], [1, 0]);
    let on_cpu = "main".to_owned() + ON_CPU;
    let blocked = |us: i64| {
        let events = [
            ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
            ("stream 7", KERNEL, "first", 10, 100, 1),
            (on_cpu.as_str(), SliceKind::Other, "CPU 3", 0, 200, 0),
            (on_cpu.as_str(), SliceKind::Other, "CPU 3", 200 + us, 500 + us, 0),
            ("main", CALL, "cudaLaunchKernel", 290 + us, 295 + us, 2),
            ("stream 7", KERNEL, "second", 300 + us, 400 + us, 2),
        ];
        let trace = builder(&events).finish();
        let ledger = ledger_of(&trace, None);
        ledger.parts(0).filter(|part| part.class == GapClass::Blocked && inferred_ns(&trace, part) > 0).count()
    };
    assert_eq!([blocked(499_000), blocked(501_000)], [1, 0]);
}
