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
fn a_selection_moves_no_view() {
    let mut harness = harness(vec![trace()]);
    let place = |harness: &Harness<'_, Option<App>>| harness.get_by_label("Timeline canvas").rect();
    let before = place(&harness);
    harness.get_by_label("Nothing is selected");
    harness.get_by_label("Length");
    select(&mut harness, "aten::add");
    assert!(harness.query_by_label("Nothing is selected").is_none(), "the details show it");
    assert_eq!(place(&harness), before);
    app_mut(&mut harness).commands.push(Command::Back);
    settle(&mut harness);
    assert_eq!((selected_name(&harness).as_str(), place(&harness)), ("", before));
}

#[test]
fn the_pointer_is_away_for_a_frame_when_a_dialog_opens() {
    let mut harness = harness(vec![trace()]);
    let at = Pos2::new(300.0, 200.0);
    harness.event(Event::PointerMoved(at));
    settle(&mut harness);
    let events = |harness: &mut Harness<'_, Option<App>>| {
        let (ctx, mut input) = (harness.ctx.clone(), RawInput::default());
        app_mut(harness).lift_pointer(&ctx, &mut input);
        input.events
    };
    assert_eq!(events(&mut harness), []);
    for _ in 0..2 {
        app_mut(&mut harness).commands.push(Command::Shortcuts);
        settle(&mut harness);
        assert_eq!(events(&mut harness), [Event::PointerGone]);
        assert_eq!(events(&mut harness), [Event::PointerMoved(at)], "the wheel scrolls the dialog");
        assert_eq!(events(&mut harness), []);
        harness.key_press(Key::Escape);
        settle(&mut harness);
        assert_eq!(events(&mut harness), []);
    }
}

#[test]
fn details_that_an_older_version_hid_are_back() {
    let mut layout = Layout::default();
    layout.toggle(DockArea::Side);
    let hidden = layout.save();
    assert!(!Layout::restore(&hidden).unwrap().is_in_sight("details"), "as the user left it");
    let mut old = hidden;
    old["waits"] = true.into();
    assert!(Layout::restore(&old).unwrap().is_in_sight("details"));
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
