//! The page of a gap whose causes were not looked for.

use super::*;

#[test]
fn causes_that_were_not_looked_for_are_not_advised_about() {
    // 64 devices have 100 parts each, which is more than tests allow; the last is not told.
    let trace = TraceBuilder::with_devices_of_one_thread(65).finish();
    let devices = crate::analysis::busy::devices(&trace);
    let gaps = [&devices[0], &devices[64]].map(|device| Selection::Gap {
        trace: 0,
        process: device.process,
        time: TimeRange { start: device.busy[0].end, end: device.busy[1].start },
    });
    let mut harness = of(trace, Details::default());
    harness.set_size(egui::vec2(400.0, 1600.0));
    for (gap, is_told) in gaps.into_iter().zip([true, false]) {
        harness.state_mut().session.selection = gap;
        settle(&mut harness);
        let is_said = harness.query_by_label_contains("Why it waited was not looked for").is_some();
        let is_advised = ["What to do", "To know more: "].map(|of| harness.query_by_label_contains(of).is_some());
        assert_eq!((is_said, is_advised), (!is_told, [is_told; 2]));
    }
}
