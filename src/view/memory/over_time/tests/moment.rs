//! The slider of the moment.

use super::*;

#[test]
fn the_ruler_counts_events_as_all_readouts_do() {
    let mut harness = harness(random(300, false));
    let strip = harness.get_by_role_and_label(eframe::egui::Role::Slider, "Moment").rect();
    let view = harness.state().view.navigation.events.visible();
    // Event 0 leads to state 1.
    let x = strip.left() + (1.5 * UNITS as f32 - view.start as f32) / view.dur() as f32 * strip.width();
    click(&mut harness, Pos2::new(x, strip.center().y), PointerButton::Primary);
    assert_eq!(harness.state().session.memory.moment, Some(1));
    harness.get_by_label("Moment: event 0");
}

#[test]
fn the_moment_is_a_slider_for_keys_too() {
    let mut harness = harness(stairs());
    harness.get_by_role_and_label(eframe::egui::Role::Slider, "Moment").focus();
    harness.step();
    harness.key_press(eframe::egui::Key::ArrowDown);
    settle(&mut harness);
    assert_eq!(harness.state().session.memory.moment, Some(4));
}

#[test]
fn the_base_is_the_moment_under_the_pointer_where_none_is_chosen() {
    let mut harness = harness(stairs());
    let place = at(&harness, 500, (1 << 20) as f32);
    harness.event(Event::PointerMoved(place));
    settle(&mut harness);
    let base = |harness: &mut Harness<'_, Fixture<MemoryOverTime>>| {
        assert!(harness.state_mut().with(|view, ctx| view.run_hidden(&Command::SetBase, ctx)));
        harness.state().session.memory.base.as_ref().map(|base| base.state)
    };
    assert_eq!(base(&mut harness), Some(2));
    harness.state_mut().session.memory.moment = Some(4);
    assert_eq!(base(&mut harness), Some(4));
}

#[test]
fn time_before_the_recording_begins_is_hatched() {
    let mut harness = harness(stairs());
    // Slanted lines, by the part of the picture that shows them.
    let hatched = |harness: &Harness<'_, Fixture<MemoryOverTime>>| -> Vec<Rect> {
        let is_slanted = |shape: &Shape| match shape {
            Shape::LineSegment { points: [from, to], .. } => (from.x - to.x).abs() > 1.0 && (from.y - to.y).abs() > 1.0,
            _ => false,
        };
        let lines = harness.output().shapes.iter().filter(|clipped| is_slanted(&clipped.shape));
        lines.map(|clipped| clipped.clip_rect).collect()
    };
    let picture = |harness: &Harness<'_, Fixture<MemoryOverTime>>| harness.get_by_label("Memory picture").rect();
    harness.state_mut().session.navigation.go(TimeRange { start: 100, end: 900 });
    settle(&mut harness);
    assert_eq!(hatched(&harness), []);
    harness.state_mut().session.navigation.go(TimeRange { start: -1_000, end: 1_000 });
    settle(&mut harness);
    let (picture, parts) = (picture(&harness), hatched(&harness));
    assert!(parts.len() > 10, "{parts:?}");
    for part in parts {
        assert!((part.left() - picture.left()).abs() < 2.0, "{part:?} in {picture:?}");
        assert!((part.right() - picture.center().x).abs() < 2.0, "{part:?} in {picture:?}: it begins in the middle");
        assert!((part.bottom() - picture.bottom()).abs() < 2.0, "{part:?} in {picture:?}");
    }
}
