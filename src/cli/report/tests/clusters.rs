//! Recurring gaps.

use super::*;
use crate::analysis::rules::tests::each_rule::linked;

const US: i64 = 1_000;
const MS: i64 = 1_000 * US;

#[test]
fn gaps_that_nothing_recorded_would_end_have_no_bound_and_the_report_says_why() {
    // Two kernels that are launched at once, and 2 ms between them, in steps of 10 ms.
    let queued = [
        ("main", SliceKind::Runtime, "cudaLaunchKernel", 0, 5 * US, 1),
        ("main", SliceKind::Runtime, "cudaLaunchKernel", 10 * US, 15 * US, 2),
        ("stream 7", SliceKind::Kernel, "a", 10 * US, 4 * MS, 1),
        ("stream 7", SliceKind::Kernel, "b", 6 * MS, 10 * MS + 10 * US, 2),
    ];
    let loading = [
        ("stream 7", SliceKind::Kernel, "a", 0, 4 * MS, 0),
        ("main", SliceKind::Annotation, "load_batch", 4 * MS, 6 * MS - 10 * US, 0),
        ("main", SliceKind::Runtime, "cudaLaunchKernel", 6 * MS - 10 * US, 6 * MS - 5 * US, 1),
        ("stream 7", SliceKind::Kernel, "b", 6 * MS, 10 * MS, 1),
    ];
    let [without, with] = [queued, loading].map(|step| {
        let trace = linked(&step).finish();
        let report = build::report(&[trace.into()], 8, KernelsBy::Name, false, Thresholds::default(), (&[], &[]));
        let report = report.unwrap();
        let tables = report.tables_for_people();
        let clusters = tables.iter().find(|table| table.key == "clusters").unwrap();
        (clusters.cell(0, "at_most").clone(), clusters.cell(0, "ceiling_ns_per_step").clone(), clusters.note)
    });
    assert_eq!((without.0, without.1), (Cell::Empty, Cell::Ns(0)));
    assert!(without.2.starts_with("Of gaps without a figure of more steps"), "{}", without.2);
    assert!(matches!((with.0, with.1), (Cell::Share(share), Cell::Ns(1..)) if share > 0.2), "{}", with.2);
    assert_eq!(with.2, "");
}
