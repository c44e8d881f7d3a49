//! The way back and forward through places visited.

use super::*;

fn visible(harness: &Harness<'_, Option<App>>) -> TimeRange {
    app(harness).session().navigation.visible()
}

fn press(harness: &mut Harness<'_, Option<App>>, button: PointerButton) {
    let pos = Pos2::new(640.0, 400.0);
    for pressed in [true, false] {
        harness.event(Event::PointerButton { pos, button, pressed, modifiers: Modifiers::NONE });
        harness.step();
    }
    settle(harness);
}

#[test]
fn keys_and_buttons_lead_back_to_what_was_selected_and_shown() {
    let mut harness = harness(vec![trace()]);
    let home = visible(&harness);
    select(&mut harness, "aten::add");
    let near = TimeRange { start: 1_900, end: 2_900 };
    app_mut(&mut harness).session.navigation.go(near);
    settle(&mut harness);
    select(&mut harness, "gemm_fp16");
    harness.key_press_modifiers(Modifiers::ALT, Key::ArrowLeft);
    settle(&mut harness);
    assert_eq!((selected_name(&harness).as_str(), visible(&harness)), ("aten::add", near));
    press(&mut harness, PointerButton::Extra1);
    assert_eq!((selected_name(&harness).as_str(), visible(&harness)), ("", home), "the view as it was left");
    harness.key_press_modifiers(Modifiers::ALT, Key::ArrowLeft);
    settle(&mut harness);
    harness.get_by_label("There is nothing to go back to");
    press(&mut harness, PointerButton::Extra2);
    assert_eq!((selected_name(&harness).as_str(), visible(&harness)), ("aten::add", near));
    harness.key_press_modifiers(Modifiers::ALT, Key::ArrowRight);
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "gemm_fp16");
}

#[test]
fn details_that_a_selection_brought_go_with_it() {
    let mut harness = harness(vec![trace()]);
    let has_details = |harness: &Harness<'_, Option<App>>| app(harness).layout.is_on_screen("details");
    app_mut(&mut harness).layout.hide_details();
    settle(&mut harness);
    select(&mut harness, "aten::add");
    assert!(has_details(&harness));
    let go = |harness: &mut Harness<'_, Option<App>>, command| {
        app_mut(harness).commands.push(command);
        settle(harness);
    };
    go(&mut harness, Command::Back);
    assert_eq!((selected_name(&harness).as_str(), has_details(&harness)), ("", false));
    go(&mut harness, Command::Forward);
    assert_eq!((selected_name(&harness).as_str(), has_details(&harness)), ("aten::add", true));
    // Who opened them without a selection has them so again.
    harness.key_press(Key::Escape);
    settle(&mut harness);
    select(&mut harness, "aten::mm");
    go(&mut harness, Command::Back);
    assert_eq!((selected_name(&harness).as_str(), has_details(&harness)), ("", true));
}

#[test]
fn a_reset_shows_details_only_of_a_selection() {
    let mut harness = harness(vec![trace()]);
    let reset = |harness: &mut Harness<'_, Option<App>>| {
        app_mut(harness).commands.push(Command::ResetLayout);
        settle(harness);
        app(harness).layout.is_on_screen("details")
    };
    assert!(!reset(&mut harness), "as when the first trace was opened");
    select(&mut harness, "aten::add");
    assert!(reset(&mut harness));
}

#[test]
fn a_place_brings_its_views_back() {
    let mut harness = harness(vec![trace()]);
    app_mut(&mut harness).commands.push(Command::Show("kernels"));
    settle(&mut harness);
    harness.get_all_by_label("gemm_fp16").next().unwrap().click();
    settle(&mut harness);
    select(&mut harness, "aten::mm");
    app_mut(&mut harness).commands.push(Command::Show("operators"));
    settle(&mut harness);
    select(&mut harness, "aten::add");
    app_mut(&mut harness).commands.extend([Command::Back, Command::Back]);
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("kernels") && !app(&harness).layout.is_on_screen("operators"));
    app_mut(&mut harness).commands.push(Command::Forward);
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("operators"), "as it was left");
}

#[test]
fn a_step_that_was_chosen_is_a_place_and_every_view_has_its_number() {
    let names: Vec<String> = (6..12).map(|step| format!("ProfilerStep#{step}")).collect();
    let mut slices = Vec::new();
    for (i, name) in (0..).zip(&names) {
        slices.push(("main", SliceKind::Annotation, name.as_str(), 1_000 * i, 1_000 * i + 990));
        slices.push(("stream 7", SliceKind::Kernel, "gemm", 1_000 * i + 100, 1_000 * i + 800));
    }
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    wait_for(&mut harness, |harness| harness.query_by_label("6 steps").is_some());
    harness.key_press(Key::N);
    settle(&mut harness);
    let first = app(&harness).session().range.unwrap();
    let number = (0..6).find(|i| (1_000 * i..1_000 * i + 1_000).contains(&first.start)).unwrap() + 6;
    harness.get_by_label(&format!("Step {number}"));
    harness.key_press(Key::N);
    settle(&mut harness);
    harness.get_by_label(&format!("Step {}", number + 1));
    harness.key_press_modifiers(Modifiers::ALT, Key::ArrowLeft);
    settle(&mut harness);
    assert_eq!(app(&harness).session().range, Some(first));
    harness.get_by_label(&format!("Step {number}"));
}
