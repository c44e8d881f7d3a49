//! Tables of a selected range, and filters.

use super::*;

#[test]
fn figures_are_limited_to_the_selected_range() {
    let mut harness = harness(trace(), &kernels::TABLE);
    harness.get_by_label("Whole trace");
    click(&mut harness, GEMM);
    harness.state_mut().session.range = Some(TimeRange { start: 400, end: 2_000 });
    settle(&mut harness);
    harness.get_by_label("1 row");
    harness.get_by_label("Instances (1)");
    // Of its 2 µs 1.5 lie in the range, and it is all that runs there; beside the row and in the list of its slices.
    assert_eq!(harness.query_all_by_label("1.500 µs").count(), 2);
    harness.get_by_label("100.0 %");
    harness.get_by_label("Times are of whole calls, also outside of the range");
    click(&mut harness, "Whole trace");
    harness.get_by_label("2 rows");
    harness.get_by_label("Instances (2)");
    click(&mut harness, "Selected range, 1.600 µs");
    harness.get_by_label("1 row");
    harness.state_mut().session.range = Some(TimeRange { start: 9_000, end: 9_500 });
    settle(&mut harness);
    harness.get_by_label("Nothing of this kind runs in the selected time range");
    // None was recorded at all: another range would not help.
    harness.state_mut().view = Pane::new(&calls::TABLE);
    settle(&mut harness);
    click(&mut harness, "OS runtime");
    harness.get_by_label("No calls of the operating system were recorded");
}

#[test]
fn rows_of_a_range_come_by_their_part_in_it() {
    let mut harness = harness(trace(), &kernels::TABLE);
    let tops =
        |harness: &Harness<'_, Fixture<Pane>>| [GEMM, "add_kernel"].map(|name| harness.get_by_label(name).rect().top());
    assert!(tops(&harness).is_sorted(), "of all time the longest");
    harness.state_mut().session.range = Some(TimeRange { start: 2_400, end: 2_800 });
    settle(&mut harness);
    assert!(!tops(&harness).is_sorted());
    harness.get_by_label("In range, descending");
    // Of 400 ns that kernels run in the range.
    harness.get_by_label("75.0 %");
    harness.get_by_label("25.0 %");
    // A tree has the times within the range, and whole ones beside them.
    harness.state_mut().view = Pane::new(&operators::TABLE);
    settle(&mut harness);
    click(&mut harness, "Call tree");
    harness.get_by_label("Times are those within the range");
    harness.get_by_label("Host in full");
    assert!(harness.query_by_label("Host in range").is_none());
    click(&mut harness, "By operator");
    harness.get_by_label("Host in range");
}

#[test]
fn a_call_that_is_only_passed_on_is_listed_once() {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", SliceKind::Operator, "aten::conv", 0, 8_000),
        ("main", SliceKind::Operator, "aten::conv", 1_000, 8_000),
    ]);
    builder.slices[0].correlation = vec![0; 2];
    let mut harness = harness(builder.finish(), &operators::TABLE);
    harness.state_mut().session.range = Some(TimeRange { start: 0, end: 7_000 });
    settle(&mut harness);
    click(&mut harness, "aten::conv");
    harness.get_by_label("Instances (1)");
    // In the range, beside the row and in the list of its calls; of all calls with the one inside it would be 13 µs.
    assert_eq!(harness.query_all_by_label("7.000 µs").count(), 2);
}

#[test]
fn a_filter_that_fits_no_row_says_so_and_is_cleared() {
    let mut harness = harness(trace(), &kernels::TABLE);
    harness.get_by_label("Filter").click();
    settle(&mut harness);
    harness.event(Event::Text("nowhere".to_owned()));
    settle(&mut harness);
    harness.get_by_label("No row has “nowhere” in its texts");
    click(&mut harness, "Clear filter");
    harness.get_by_label("2 rows");
}
