//! What began a gap: a synchronization, launches that barely keep up, the end of a step.

use super::*;
use crate::analysis::steps::StepSource;
use crate::model::{CopyKind, MemoryCopy, SliceFacts};

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
fn a_wait_of_another_thread_empties_no_queue_in_which_the_next_work_is() {
    // The thread that launched the work before waits for it; another launches what follows.
    let trigger = |launched: i64| {
        let events = [
            ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
            ("main", CALL, "cudaEventSynchronize", 20, 105, 9),
            ("stream 7", KERNEL, "first", 10, 100, 1),
            ("worker", CALL, "cudaLaunchKernel", launched, launched + 5, 2),
            ("stream 8", KERNEL, "second", 160, 200, 2),
        ];
        ledger_of(&builder(&events).finish(), None).gap(0).trigger
    };
    assert_eq!([99, 100, 150].map(trigger), [None, Some(Trigger::Sync), Some(Trigger::Sync)]);
}

#[test]
fn how_long_before_the_gap_a_launch_had_returned() {
    let before = |launched: i64, call: u32| {
        let events = [
            ("main", CALL, "hipGraphLaunch", 0, 5, 1),
            ("stream 7", KERNEL, "node", 10, 100, 1),
            ("main", CALL, "hipLaunchKernel", launched, launched + 20, call),
            ("stream 7", KERNEL, "next", 160, 200, 2),
        ];
        let trace = builder(&events).finish();
        let gap = ledger_of(&trace, None).gap(0);
        let is_of_end = gap.trigger == Some(Trigger::GraphEnd);
        (gap.launched_before(&trace), is_of_end)
    };
    assert_eq!(before(30, 2), (Some(50_000), true));
    assert_eq!(before(80, 2), (Some(0), true), "it returned as the gap began");
    assert_eq!(before(90, 2), (None, true), "it was not over");
    assert_eq!(before(120, 2), (None, true));
    assert_eq!(before(30, 3), (None, false), "the launch was not recorded");
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
