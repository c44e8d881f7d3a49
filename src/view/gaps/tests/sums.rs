//! The sums of a gap by what went on meanwhile, in its tooltip and on its page.

use super::*;
use crate::view::gaps::gap_summary_ui;

/// In the gap the host runs two operators and allocates twice, of which the operators take more together and an allocation
/// takes most alone.
fn trace() -> Trace {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", CALL, "cudaLaunchKernel", 0, 10_000),
        ("main", OP, "aten::first", 100_000, 160_000),
        ("main", CALL, "cudaMalloc", 160_000, 230_000),
        ("main", OP, "aten::second", 230_000, 290_000),
        ("main", CALL, "cudaHostAlloc", 290_000, 310_000),
        ("main", CALL, "cudaLaunchKernel", 310_000, 320_000),
        ("stream 7", KERNEL, "gemm", 20_000, 100_000),
        ("stream 7", KERNEL, "relu", 320_000, 400_000),
    ]);
    builder.slices[0].correlation = vec![1, 0, 0, 0, 0, 2, 1, 2];
    builder.finish()
}

#[test]
fn the_page_begins_with_the_sums_of_the_tooltip() {
    let sums = ["Device allocations", "90.000 µs", "40.9 %", "CPU operators", "120.000 µs", "54.5 %"];
    let mut page = of(trace(), Details::default());
    page.set_size(egui::vec2(400.0, 1_600.0));
    page.state_mut().session.selection = gap(100_000, 320_000);
    settle(&mut page);
    let first_part = page.get_by_label("What went on meanwhile, by name").rect().top();
    let top = |label: &str| {
        let tops = page.get_all_by_label(label).map(|node| node.rect().top());
        tops.filter(|&top| top < first_part).min_by(f32::total_cmp)
    };
    for label in sums {
        assert!(top(label).is_some(), "{label}");
    }
    assert!(top("CPU operators") < top("Device allocations"), "the largest first");
    // The largest part is another one: what is listed below says of what the sums consist.
    for part in ["60.000 µs", "70.000 µs", "20.000 µs"] {
        let below = page.get_all_by_label(part).map(|node| node.rect().top()).fold(f32::MAX, f32::min);
        assert!(below > first_part, "{part}");
    }

    let trace = trace();
    let devices = crate::analysis::busy::devices(&trace);
    let ledger = crate::analysis::gaps::ledger(&trace, &devices[0], None, &|| false);
    let mut tooltip = Harness::builder().build_ui(|ui| gap_summary_ui(ui, &trace, &ledger, 0));
    tooltip.run();
    for label in sums {
        tooltip.get_by_label(label);
    }
    // What went on is not called the cause: what would end the time may be another.
    assert!(tooltip.query_by_label_contains("ause").is_none() && tooltip.query_by_label("Meanwhile").is_some());
}
