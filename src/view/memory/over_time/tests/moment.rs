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
