//! A gap long after the wait in which the host lost its lead.

use super::*;

const MS: i64 = 1_000_000;

#[test]
fn a_gap_after_a_lost_lead_says_what_it_counts_as() {
    // A wait of 20 ms for long work, then two slow moments of the host, each of 3 ms.
    let launch = |at| ("main", CALL, "cudaLaunchKernel", at, at + 5_000);
    let kernel = |from, to| ("stream 7", KERNEL, "gemm", from, to);
    let slices = [
        launch(0),
        ("main", CALL, "cudaDeviceSynchronize", MS, 21 * MS),
        ("main", SliceKind::Operator, "aten::slow", 21 * MS + 100_000, 24 * MS),
        launch(24 * MS),
        launch(24 * MS + 50_000),
        ("main", SliceKind::Operator, "aten::slow", 24 * MS + 60_000, 29 * MS),
        launch(29 * MS),
        kernel(10_000, 21 * MS),
        kernel(24 * MS + 10_000, 25 * MS),
        kernel(25 * MS, 26 * MS),
        kernel(29 * MS + 10_000, 30 * MS),
    ];
    let of = |start, end| {
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = vec![1, 0, 0, 2, 3, 0, 4, 1, 2, 3, 4];
        let mut harness = super::of(builder.finish(), Details::default());
        harness.set_size(egui::vec2(400.0, 1600.0));
        harness.state_mut().session.selection = gap(start, end);
        settle(&mut harness);
        ["The host waited for the device before", "The host lost its lead some time before"]
            .map(|text| harness.query_by_label_contains(text).is_some())
    };
    assert_eq!(of(21 * MS, 24 * MS + 10_000), [true, false], "the wait's own");
    assert_eq!(of(26 * MS, 29 * MS + 10_000), [false, true]);
}
