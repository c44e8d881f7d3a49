//! Gaps after a wait of the host, until it has regained the lead that it lost.

use super::*;

const MS: i64 = 1_000;

/// Work that the host launches at one time and the device runs at another, in microseconds.
fn work(events: &mut Vec<Event<'_>>, launched: i64, start: i64, end: i64) {
    let id = 1 + events.len() as u32;
    events.push(("main", CALL, "cudaLaunchKernel", launched, launched + 5, id));
    events.push(("stream 7", KERNEL, "k", start, end, id));
}

/// Start of each gap, in what the lead was lost, and whether it is recoverable.
fn refills(events: &[Event<'_>]) -> Vec<(i64, Option<GapClass>)> {
    let ledger = ledger_of(&builder(events).finish(), None);
    (0..ledger.len()).map(|gap| ledger.gap(gap)).map(|gap| (gap.time.start, gap.refill)).collect()
}

/// A wait of 20 ms for long work, then two slow moments of the host, each of 3 ms, and between them work that was
/// launched so long before it runs.
fn waits_then_is_slow(wait: &'static str, ahead: i64) -> Vec<(i64, Option<GapClass>)> {
    let mut events = Vec::new();
    work(&mut events, 0, 10, 21 * MS);
    events.push(("main", CALL, wait, MS, 21 * MS, 0));
    events.push(("main", SliceKind::Operator, "aten::slow", 21 * MS + 100, 24 * MS, 0));
    work(&mut events, 24 * MS, 24 * MS + 10, 25 * MS + ahead);
    work(&mut events, 24 * MS + 50, 25 * MS + ahead, 26 * MS + ahead);
    events.push(("main", SliceKind::Operator, "aten::slow", 24 * MS + 60, 29 * MS + ahead, 0));
    work(&mut events, 29 * MS + ahead, 29 * MS + ahead + 10, 30 * MS + ahead);
    refills(&events)
}

#[test]
fn what_the_host_loses_in_a_wait_is_used_up_by_later_gaps() {
    // The first gap is the wait's own. 17 ms of the lead are left for the second.
    assert_eq!(waits_then_is_slow("cudaDeviceSynchronize", 0)[1].1, Some(GapClass::Sync));
    // Work that was launched 20 ms before it ran shows that the lead is there again.
    assert_eq!(waits_then_is_slow("cudaDeviceSynchronize", 20 * MS)[1].1, None);
    // Work that was launched 3 ms before leaves 17 ms.
    assert_eq!(waits_then_is_slow("cudaDeviceSynchronize", 3 * MS)[1].1, Some(GapClass::Sync));
    // A call that does not wait for the device takes no lead.
    assert_eq!(waits_then_is_slow("cudaGetDevice", 0)[1].1, None);
}

#[test]
fn a_range_of_the_user_takes_no_lead() {
    // The host is in it while the device runs out of work, and 3 ms later.
    let after = |kind, name| {
        let mut events = Vec::new();
        work(&mut events, 0, 10, 3 * MS);
        events.push(("main", kind, name, MS, 6 * MS, 0));
        work(&mut events, 6 * MS, 6 * MS + 10, 7 * MS);
        work(&mut events, 8 * MS, 8 * MS + 10, 9 * MS);
        refills(&events)[1].1
    };
    assert_eq!(after(SliceKind::Annotation, "nccl:all_reduce"), Some(GapClass::Collective), "a call waits");
    assert_eq!(after(SliceKind::Annotation, "all_reduce of gradients"), None);
}

#[test]
fn a_lead_is_no_longer_than_the_wait() {
    let mut events = Vec::new();
    work(&mut events, 0, 10, 2 * MS);
    events.push(("main", CALL, "cudaDeviceSynchronize", MS, 2 * MS, 0));
    // 1 ms was lost: it explains the first slow moment of 1.5 ms by more than half, and nothing of the second.
    work(&mut events, 2 * MS + 10, 2 * MS + 20, 3 * MS);
    work(&mut events, 4 * MS + 400, 4 * MS + 500, 5 * MS);
    work(&mut events, 6 * MS + 400, 6 * MS + 500, 7 * MS);
    let found: Vec<_> = refills(&events).into_iter().map(|gap| gap.1).collect();
    assert_eq!(found, [Some(GapClass::Sync), Some(GapClass::Sync), None]);
}

#[test]
fn host_work_that_outlasts_a_wait_is_no_part_of_it() {
    let after = |work_for: i64| {
        let mut events = Vec::new();
        work(&mut events, 0, 10, 2 * MS);
        events.push(("main", CALL, "cudaDeviceSynchronize", MS, 2 * MS, 0));
        events.push(("main", SliceKind::PythonFunction, "save", 2 * MS + 10, 2 * MS + work_for, 0));
        work(&mut events, 2 * MS + work_for, 2 * MS + work_for + 10, 3 * MS + work_for);
        refills(&events)
    };
    // The host waited for 1 ms: without that it would have been so much further ahead.
    assert_eq!(after(MS), [(2_000 * MS, Some(GapClass::Sync))]);
    assert_eq!(after(20 * MS), [(2_000 * MS, None)]);
}

#[test]
fn an_allocation_takes_no_more_lead_than_the_host_had() {
    // The device has work for 3 ms when the host begins to allocate for 19 ms; then for `ahead` again, then none for 3 ms.
    let after = |ahead: i64| {
        let mut events = Vec::new();
        work(&mut events, 0, 10, 3 * MS);
        work(&mut events, 100, 3 * MS, 5 * MS);
        events.push(("main", CALL, "cudaMalloc", MS, 20 * MS, 0));
        work(&mut events, 20 * MS, 20 * MS + 10, 20 * MS + ahead);
        work(&mut events, 20 * MS + 50, 20 * MS + ahead, 21 * MS + ahead);
        events.push(("main", SliceKind::Operator, "aten::slow", 20 * MS + 60, 24 * MS + ahead, 0));
        work(&mut events, 24 * MS + ahead, 24 * MS + ahead + 10, 25 * MS + ahead);
        refills(&events)[1].1
    };
    assert_eq!(after(4 * MS), None, "as far ahead as before");
    assert_eq!(after(200), Some(GapClass::Allocator));
}
