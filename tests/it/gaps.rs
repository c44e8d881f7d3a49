//! The gap ledger of every real trace: its sums are exact.

use lacuna::analysis::busy::devices;
use lacuna::analysis::gaps::{Ledger, ledgers, place};
use lacuna::analysis::steps::steps;
use lacuna::model::{TimeRange, Trace};

use super::support::{name, read, real};

#[test]
fn gaps_and_their_parts_sum_to_the_idle_time_of_every_real_trace() {
    let files = ["A_kineto", "A_chrome", "B_sqlite", "B_sqlite_exported_here"].map(real).concat();
    let mut n_gaps = 0;
    for path in &files {
        let Ok(traces) = read(path) else { continue };
        for trace in &traces {
            let busy = devices(trace);
            let all = ledgers(trace, &busy, steps(trace, &|| false).as_ref(), &|| false);
            assert_eq!(all.len(), busy.len());
            for (ledger, busy) in all.iter().zip(&busy) {
                let totals = ledger.totals(TimeRange::ALL);
                assert_eq!(totals.all.total_ns, busy.idle_ns, "{}", name(path));
                assert_eq!(totals.all.total_ns + busy.busy_ns, busy.window.dur(), "{}", name(path));
                let by_class: i64 = totals.by_class.iter().map(|class| class.total_ns).sum();
                assert_eq!(by_class, totals.all.total_ns, "{}", name(path));
                assert_eq!(totals.micro.total_ns + totals.macro_.total_ns, totals.all.total_ns, "{}", name(path));
                check(trace, ledger);
                n_gaps += ledger.len();
            }
        }
    }
    assert!(files.is_empty() || n_gaps > 50_000, "{n_gaps} gaps");
}

/// Each gap lies between the work before and after it, and its parts tile it.
fn check(trace: &Trace, ledger: &Ledger) {
    for i in 0..ledger.len() {
        let gap = ledger.gap(i);
        assert_eq!(trace.slices.end[gap.after.idx()], gap.time.start);
        assert_eq!(trace.slices.ts[gap.ended_by.idx()], gap.time.end);
        let mut at = gap.time.start;
        for part in ledger.parts(i) {
            assert!(part.time.start == at && part.time.end > at, "{part:?}");
            at = part.time.end;
        }
        assert_eq!(at, gap.time.end);
    }
    // Names and frames are looked up on demand: of any part, without a panic.
    for i in (0..ledger.len()).step_by(97) {
        ledger.parts(i).for_each(|part| _ = place(trace, &ledger.gap(i), &part));
    }
}
