//! The pause between pieces of work that were launched ahead.

use super::*;

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
