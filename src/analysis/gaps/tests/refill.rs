//! The launches after a synchronization, until the host is ahead of the device again.

use super::*;

const SYNC: Option<Trigger> = Some(Trigger::Sync);
const LAUNCH_BOUND: Option<Trigger> = Some(Trigger::LaunchBound);

/// The launch of a kernel of 50 µs that runs at once, at a time in microseconds.
fn launched(events: &mut Vec<Event<'_>>, at: i64) {
    let id = 1 + events.len() as u32;
    events.push(("main", CALL, "cudaLaunchKernel", at, at + 5, id));
    events.push(("stream 7", KERNEL, "k", at + 10, at + 60, id));
}

fn triggers(events: &[Event<'_>]) -> Vec<Option<Trigger>> {
    let ledger = ledger_of(&builder(events).finish(), None);
    (0..ledger.len()).map(|gap| ledger.gap(gap).trigger).collect()
}

/// Twelve times: so many kernels, and a wait for the last of them. Triggers of the gaps of the tenth time.
fn loop_of(kernels: i64) -> Vec<Option<Trigger>> {
    let mut events = Vec::new();
    for i in 0..12 * kernels {
        launched(&mut events, 100 * i);
        if i % kernels == kernels - 1 {
            events.push(("main", CALL, "cudaStreamSynchronize", 100 * i + 6, 100 * i + 62, 0));
        }
    }
    let n = kernels as usize;
    // One kernel fewer gaps than kernels before it: the gap before its first kernel is the first here.
    triggers(&events)[9 * n - 1..10 * n - 1].to_vec()
}

#[test]
fn a_host_that_waits_after_every_few_launches_is_not_launch_bound() {
    assert_eq!(loop_of(1), [SYNC]);
    assert_eq!(loop_of(3), [SYNC; 3]);
}

#[test]
fn one_wait_changes_nothing_of_a_long_run_of_launches() {
    let mut expected = [LAUNCH_BOUND; 20];
    expected[0] = SYNC;
    assert_eq!(loop_of(20), expected);
}

#[test]
fn a_host_that_lost_its_lead_has_eight_launches_to_get_ahead() {
    let after = |wait: i64| {
        let mut events = vec![
            ("main", CALL, "cudaLaunchKernel", 0, 5, 9_999),
            ("stream 7", KERNEL, "long", 10, wait, 9_999),
            ("main", CALL, "cudaDeviceSynchronize", 10, wait + 10, 0),
        ];
        (1..=12).for_each(|i| launched(&mut events, wait + 100 * i));
        triggers(&events)
    };
    let mut expected = [SYNC; 12];
    expected[8..].fill(LAUNCH_BOUND);
    assert_eq!(after(5_000), expected);
    // It was not far ahead: what follows does not come from that wait.
    assert_eq!(after(100)[..7], [SYNC, None, None, None, None, None, None]);
}
