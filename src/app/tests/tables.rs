//! The tables below the timeline.

use super::*;

#[test]
fn a_search_is_everywhere_in_view_or_in_the_selected_range() {
    let mut harness = harness(vec![trace()]);
    harness.key_press(Key::Slash);
    settle(&mut harness);
    type_text(&mut harness, "aten");
    harness.get_by_label("2 slices");
    app_mut(&mut harness).commands.push(Command::NextHit);
    app_mut(&mut harness).commands.push(Command::NextHit);
    settle(&mut harness);
    harness.get_by_label("2 of 2");
    assert_eq!(selected_name(&harness), "aten::add");

    // The first slice ends at 1,000 ns, the second starts at 2,000.
    app_mut(&mut harness).session.navigation.go(TimeRange { start: 1_200, end: 2_600 });
    harness.get_by_label("In view").click();
    settle(&mut harness);
    harness.get_by_label("1 of 1");
    app_mut(&mut harness).session.navigation.go(TimeRange { start: 1_200, end: 1_800 });
    settle(&mut harness);
    harness.get_by_label("No matching slice in view");
    app_mut(&mut harness).session.navigation.go(TimeRange { start: 0, end: 1_200 });
    settle(&mut harness);
    harness.get_by_label("1 slice");

    assert!(harness.get_by_label("In the selected range").accesskit_node().is_disabled());
    app_mut(&mut harness).session.range = Some(TimeRange { start: 900, end: 2_100 });
    settle(&mut harness);
    harness.get_by_label("In the selected range").click();
    settle(&mut harness);
    harness.get_by_label("2 slices");
    // Without the range it means everywhere, and says so.
    app_mut(&mut harness).session.range = None;
    settle(&mut harness);
    harness.get_by_label("2 slices");
    harness.get_by_label("Everywhere").click();
    settle(&mut harness);
    harness.get_by_label("2 slices");
}

#[test]
fn the_tab_of_the_search_is_ready_to_type_and_its_list_sorts() {
    let mut harness = harness(vec![trace()]);
    harness.get_by_label("Search results").click();
    settle(&mut harness);
    type_text(&mut harness, "aten");
    harness.get_by_label("2 slices");
    harness.get_by_label("Name").click();
    settle(&mut harness);
    harness.get_by_label("Name, ascending");
    // Enter follows the order of the list.
    app_mut(&mut harness).commands.push(Command::NextHit);
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "aten::mm", "the first one ahead");
    harness.get_by_label("2 of 2");
    app_mut(&mut harness).commands.push(Command::NextHit);
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "aten::add");
    harness.get_by_label("1 of 2");
}

#[test]
fn the_command_that_profiles_a_kernel_is_copied_from_palette_and_details() {
    let copied = |harness: &Harness<'_, Option<App>>| {
        harness.output().platform_output.commands.iter().find_map(|command| match command {
            egui::OutputCommand::CopyText(text) => Some(text.clone()),
            _ => None,
        })
    };
    let mut harness = harness(vec![trace()]);
    select(&mut harness, "gemm_fp16");
    app_mut(&mut harness).commands.push(Command::CopyKernelProfile);
    let mut text = None;
    for _ in 0..5_000 {
        harness.step();
        text = copied(&harness);
        if text.is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let expected = "ncu --set full --kernel-name 'regex:^gemm_fp16$' --launch-skip 0 --launch-count 1 python train.py";
    assert_eq!(text.as_deref(), Some(expected));
    let notice = format!("Copied “{expected}”");
    harness.step();
    harness.get_by_label(&notice);
    // The line at the bottom comes back.
    app_mut(&mut harness).told.as_mut().unwrap().since -= std::time::Duration::from_secs(4);
    settle(&mut harness);
    assert!(harness.query_by_label(&notice).is_none());
    harness.get_by_label("Copy ncu command").click();
    harness.step();
    assert_eq!(copied(&harness).as_deref(), Some(expected));
    select(&mut harness, "aten::add");
    settle(&mut harness);
    assert!(harness.query_by_label("Copy ncu command").is_none());
}

fn undo(harness: &mut Harness<'_, Option<App>>) {
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    settle(harness);
}

#[test]
fn marks_are_listed_noted_shown_and_deleted() {
    let mut harness = harness(vec![trace()]);
    harness.get_by_label("Marks").click();
    settle(&mut harness);
    harness.get_by_label("No marks");
    harness.get_by_label_contains("Press M to mark a moment");
    app_mut(&mut harness).session.range = Some(TimeRange { start: 2_000, end: 2_500 });
    harness.key_press_modifiers(Modifiers::SHIFT, Key::M);
    settle(&mut harness);
    select(&mut harness, "gemm_fp16");
    harness.key_press(Key::M);
    settle(&mut harness);
    let is_said = |harness: &Harness<'_, Option<App>>| harness.query_by_label_contains("is marked already").is_some();
    assert!(!is_said(&harness));
    harness.key_press(Key::M);
    settle(&mut harness);
    assert!(is_said(&harness), "a second time it does nothing, and says so");
    harness.get_by_label("Marks (2)");
    harness.get_by_label("Moment");

    harness.get_by_label("Note of the mark at 500 ns").click();
    settle(&mut harness);
    type_text(&mut harness, "first gemm");
    let starts = |harness: &Harness<'_, Option<App>>| -> Vec<_> {
        app(harness).session().marks.iter().map(|mark| (mark.range.start, mark.note.clone())).collect()
    };
    let both = vec![(500, "first gemm".to_owned()), (2_000, String::new())];
    assert_eq!(starts(&harness), both);

    let is_early_first = |harness: &Harness<'_, Option<App>>| {
        let [early, late] = ["Note of the mark at 500 ns", "Note of the mark at 2.000 µs"];
        harness.get_by_label(early).rect().top() < harness.get_by_label(late).rect().top()
    };
    assert!(is_early_first(&harness));
    harness.get_by_label("Start, ascending").click();
    settle(&mut harness);
    assert!(!is_early_first(&harness), "the latest first");
    assert_eq!(starts(&harness), both, "sorting the list moves no mark");

    app_mut(&mut harness).session.range = None;
    harness.get_by_label("Show the mark at 2.000 µs").click();
    settle(&mut harness);
    let range = TimeRange { start: 2_000, end: 2_500 };
    assert_eq!(app(&harness).session().range, Some(range));
    let visible = app(&harness).session().navigation.visible();
    assert!(visible.start <= range.start && visible.end >= range.end && visible.dur() < 600, "{visible:?}");
    harness.get_by_label("Show the mark at 500 ns").click();
    settle(&mut harness);
    let visible = app(&harness).session().navigation.visible();
    assert_eq!((visible.start + visible.end) / 2, 500);

    harness.get_by_label("Delete the mark at 500 ns").click();
    settle(&mut harness);
    assert_eq!(starts(&harness), both[1..]);
    harness.get_by_label("Undo delete").click();
    settle(&mut harness);
    assert_eq!(starts(&harness), both);
    harness.get_by_label("Delete all").click();
    settle(&mut harness);
    harness.get_by_label("No marks");
    undo(&mut harness);
    assert_eq!(starts(&harness), both, "with their notes");

    // One after the other, and also when the list is out of sight.
    for start in ["500 ns", "2.000 µs"] {
        harness.get_by_label(&format!("Delete the mark at {start}")).click();
        settle(&mut harness);
    }
    harness.get_by_label("Events").click();
    settle(&mut harness);
    for left in [&both[1..], &both[..]] {
        undo(&mut harness);
        assert_eq!(starts(&harness), left);
    }
    undo(&mut harness);
    harness.get_by_label("No mark was deleted that could come back");
}

#[test]
fn the_events_of_a_track_are_a_list_that_follows_and_selects() {
    let mut harness = harness(vec![trace()]);
    harness.get_by_label("Events").click();
    settle(&mut harness);
    harness.get_by_label("No track is chosen");
    select(&mut harness, "aten::mm");
    harness.get_by_label("3 events");
    harness.get_by_label("2.000 µs");
    let row = |harness: &Harness<'_, Option<App>>, name: &str| {
        let table = harness.get_by_label("3 events").rect().bottom();
        harness.query_all_by_label(name).map(|node| node.rect().center()).find(|at| at.y > table).unwrap()
    };
    let at = row(&harness, "cudaLaunchKernel");
    for pressed in [true, false] {
        let modifiers = Modifiers::NONE;
        harness.event(Event::PointerMoved(at));
        harness.event(Event::PointerButton { pos: at, button: PointerButton::Primary, pressed, modifiers });
        harness.step();
    }
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "cudaLaunchKernel");

    app_mut(&mut harness).session.range = Some(TimeRange { start: 2_500, end: 2_600 });
    settle(&mut harness);
    harness.get_by_label("Events").click();
    settle(&mut harness);
    harness.get_by_label("1 event");
    harness.get_by_label("Only in the selected range").click();
    settle(&mut harness);
    harness.get_by_label("3 events");

    harness.get_by_role_and_label(egui::Role::Unknown, "stream 7").click_secondary();
    settle(&mut harness);
    harness.get_by_label("List events").click();
    settle(&mut harness);
    harness.get_by_label("1 event");
    assert_eq!(selected_name(&harness), "cudaLaunchKernel", "the selection stays");
}
