//! What no slice shows.

use super::*;

#[test]
fn the_page_says_what_of_a_cause_no_slice_shows() {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", CALL, "cudaLaunchKernel", 0, 10_000),
        ("main", CALL, "cuLibraryLoadData", 100_000, 200_000),
        ("main", CALL, "cuLibraryLoadData", 500_000, 550_000),
        ("main", CALL, "cudaLaunchKernel", 560_000, 570_000),
        ("stream 7", KERNEL, "gemm", 20_000, 100_000),
        ("stream 7", KERNEL, "relu", 580_000, 600_000),
    ]);
    builder.slices[0].correlation = vec![1, 0, 0, 2, 1, 2];
    let fixture = Fixture::new(vec![builder.finish()], Details::default());
    let builder = Harness::builder().with_size([900.0, 900.0]).with_max_steps(200);
    let mut harness = builder.build_ui_state(|ui, fixture: &mut Fixture<Details>| fixture.ui(ui), fixture);
    harness.state_mut().session.selection = gap(100_000, 580_000);
    settle(&mut harness);
    // The calls themselves take 150 of 450 µs, in the sum of their cause and as its part.
    assert_eq!(harness.get_all_by_label("450.000 µs").count(), 2);
    harness.get_by_label("300.000 µs of it inferred: pauses between calls that load, slow first launches");
    // The picture does not show the silence between them as a call.
    let picture = harness.get_by_label("The gap in time").rect();
    let at = |ns: f32| {
        // A fifth of the gap on each side of it; the lane of the host is the first below the ruler.
        let share = (ns - 100_000.0) / 480_000.0;
        picture.min + egui::vec2(picture.width() * (0.2 + share) / 1.4, 40.0)
    };
    for (ns, name, n) in [(350_000.0, "Inferred, around cuLibraryLoadData", 1), (150_000.0, "cuLibraryLoadData", 2)] {
        harness.hover_at(at(ns));
        settle(&mut harness);
        // The button of the cause has the name as well.
        assert_eq!(harness.get_all_by_label(name).count(), n, "{name}");
    }
}
