//! Marks measure: the time between them stands in the picture.

use super::*;
use crate::view::fixture::texts;

#[test]
fn the_time_between_two_marks_stands_between_them() {
    let mut harness = harness(vec![small()]);
    let delta = "351.000 µs".to_owned();
    for at in [130_500, 481_500] {
        assert!(!texts(&harness).contains(&delta));
        harness.state_mut().with(|_, ctx| ctx.mark(TimeRange { start: at, end: at }));
        harness.run();
    }
    assert!(texts(&harness).contains(&delta), "{:?}", texts(&harness));
}

#[test]
fn the_length_of_a_marked_range_stands_beside_the_time_to_another_mark() {
    let mut harness = harness(vec![small()]);
    // A range, a moment after it, and one within another range.
    for (start, end) in [(100_000, 250_000), (425_000, 425_000), (500_000, 900_000), (720_000, 720_000)] {
        harness.state_mut().with(|_, ctx| ctx.mark(TimeRange { start, end }));
    }
    harness.run();
    let said = texts(&harness);
    for between in ["150.000 µs", "175.000 µs", "75.000 µs", "220.000 µs", "180.000 µs"] {
        assert_eq!(said.iter().filter(|text| *text == between).count(), 1, "{between} in {said:?}");
    }
    // From start to start it would lie over the range.
    assert!(!said.contains(&"325.000 µs".to_owned()));
}

#[test]
fn a_moment_that_is_marked_already_is_said_to_be() {
    let mut harness = harness(vec![small()]);
    harness.state_mut().select("gemm");
    for n_told in [0, 1] {
        harness.state_mut().commands.clear();
        harness.state_mut().run(&Command::MarkMoment);
        assert_eq!(harness.state().session.marks.len(), 1);
        assert_eq!(harness.state().session.marks[0].range, TimeRange { start: 400_000, end: 400_000 });
        let told = harness.state().commands.iter().filter(|command| matches!(command, Command::Tell(_))).count();
        assert_eq!(told, n_told);
    }
    // Without a selection it is the time at the pointer.
    harness.state_mut().session.selection = Selection::None;
    harness.event(Event::PointerMoved(place(&harness, "stream 7", 3)));
    harness.run();
    harness.state_mut().run(&Command::MarkMoment);
    let at = harness.state().session.marks[1].range.start;
    assert!((at - 900_000).abs() < 5_000, "{at}");
}
