//! The overview: device cards, time per step, findings.

use super::*;

/// Ten steps of a device that waits for data for 40 % of each.
fn waiting_for_data() -> Trace {
    let ms = 1_000_000;
    let mut slices = Vec::new();
    let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
    let mut correlation = Vec::new();
    for (i, name) in (0..).zip(&names) {
        let at = 100 * ms * i;
        slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + 100 * ms));
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        slices.push(("main", SliceKind::Annotation, loader, at, at + 40 * ms));
        slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at + 40 * ms, at + 40 * ms + 5_000));
        slices.push(("stream 7", SliceKind::Kernel, "gemm", at + 40 * ms + 10_000, at + 100 * ms));
        correlation.extend([0, 0, i as u32 + 1, i as u32 + 1]);
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    builder.finish()
}

#[test]
fn the_overview_is_what_a_person_sees_first_of_a_profile() {
    let mut harness = harness(vec![waiting_for_data()]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("waits 40").is_some());
    assert!(app(&harness).layout.is_on_screen("overview"));
    assert!(app(&harness).layout.is_on_screen("timeline") && app(&harness).layout.is_on_screen("details"));
    harness.get_by_label_contains("60.0 % busy");
    harness.get_by_label("Idle by cause: Data loading 100.0 % (319.920 ms), Launch latency 0.0 % (80.000 µs)");
}

#[test]
fn a_finding_shows_its_place_and_says_what_to_do() {
    let mut harness = harness(vec![waiting_for_data()]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("waits 40").is_some());
    harness.get_all_by_label("What to do").next().unwrap().click();
    settle(&mut harness);
    harness.get_by_label_contains("Measured ");
    let before = app(&harness).session.navigation.visible();
    harness.get_all_by_label("Show").next().unwrap().click();
    settle(&mut harness);
    assert_ne!(app(&harness).session.navigation.visible(), before);
}

#[test]
fn a_device_that_is_busy_has_no_findings_and_memory_files_no_overview() {
    let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
    let slices = (0..).zip(&names).flat_map(|(i, name)| {
        let at = 100_000 * i;
        [
            ("main", SliceKind::Annotation, name.as_str(), at, at + 100_000),
            ("stream 7", SliceKind::Kernel, "gemm", at, at + 99_900),
        ]
    });
    let trace = TraceBuilder::from_slices(&slices.collect::<Vec<_>>()).finish();
    let mut harness = harness(vec![trace]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("No findings").is_some());
    harness.get_by_label("What was checked").click();
    settle(&mut harness);
    harness.get_by_label_contains("GPU 0, GPU utilization: 99.9 %");
    let harness = super::harness(vec![Trace::default()]);
    assert!(!app(&harness).layout.has_visible_tab("overview"));
}
