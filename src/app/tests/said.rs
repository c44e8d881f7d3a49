//! What is said for a while, and how much is said to be hidden.

use super::*;

fn has(harness: &Harness<'_, Option<App>>, text: &str) -> bool {
    harness.query_by_label(text).is_some()
}

#[test]
fn what_is_said_of_a_selection_goes_with_it_or_by_a_click() {
    let mut harness = harness(vec![trace()]);
    select(&mut harness, "gemm_fp16");
    for command in [Command::Say("This is the longest"), Command::Tell("There is none")] {
        let (Command::Say(text) | Command::Tell(text)) = command else { continue };
        app_mut(&mut harness).commands.push(command.clone());
        settle(&mut harness);
        assert!(has(&harness, text));
        assert_eq!(app(&harness).told.as_ref().unwrap().is_refusal, matches!(command, Command::Tell(_)));
        harness.get_by_label(text).click();
        settle(&mut harness);
        assert!(!has(&harness, text), "closed");
        app_mut(&mut harness).commands.push(command);
        settle(&mut harness);
        select(&mut harness, if text.starts_with("This") { "aten::add" } else { "gemm_fp16" });
        settle(&mut harness);
        assert!(!has(&harness, text), "it was of another slice");
    }
}

#[test]
fn a_written_file_is_named_for_a_while_and_covers_nothing() {
    let mut harness = harness(vec![trace()]);
    let path = std::env::temp_dir().join(format!("lacuna-written-{}.txt", std::process::id()));
    app_mut(&mut harness).save.enter(path.clone());
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    wait_for(&mut harness, |harness| harness.query_by_label_contains(&format!("Written: {name}")).is_some());
    assert!(!has(&harness, "Dismiss"));
    app_mut(&mut harness).told.as_mut().unwrap().since -= Duration::from_secs(9);
    settle(&mut harness);
    assert!(harness.query_by_label_contains("Written:").is_none());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn tracks_that_are_collapsed_are_not_called_hidden() {
    let mut harness = harness(vec![trace()]);
    harness.get_by_label("Collapse GPU 0").click();
    settle(&mut harness);
    assert!(!has(&harness, "1 track hidden"));
    harness.get_by_label("GPU 0 collapsed").click();
    settle(&mut harness);
    harness.get_by_label("Collapse GPU 0");
    assert!(!has(&harness, "GPU 0 collapsed"));
}

#[test]
fn a_view_that_is_asked_for_in_front_is_outlined() {
    let mut harness = harness(vec![trace()]);
    app_mut(&mut harness).commands.push(Command::Show("marks"));
    settle(&mut harness);
    assert!(app(&harness).flashed.is_none(), "its tab comes to the front");
    app_mut(&mut harness).commands.push(Command::Show("marks"));
    settle(&mut harness);
    assert_eq!(app(&harness).flashed.unwrap().0, "marks");
}

#[test]
fn the_palette_finds_settings_and_is_as_high_as_its_list() {
    let mut harness = harness(vec![trace()]);
    harness.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::P);
    settle(&mut harness);
    let bottom = |harness: &Harness<'_, Option<App>>, label: &str| harness.get_by_label(label).rect().bottom();
    type_text(&mut harness, "settings");
    settle(&mut harness);
    for label in ["Larger text", "Wheel zooms", "Reset layout"] {
        harness.get_by_label_contains(label);
    }
    // What is not a setting comes after all that are.
    let row = |label: &str| harness.get_by_label_contains(label).rect().bottom();
    let rows = [
        "Wheel zooms",
        "Theme as the system",
        "Dark theme",
        "Light theme",
        "Normal text size",
        "Reset layout",
        "Copy path of the configuration file",
    ];
    assert!(rows.map(row).is_sorted(), "{:?}", rows.map(row));
    let before = harness.query_all_by_label_contains("text").count();
    type_text(&mut harness, " no such thing");
    settle(&mut harness);
    assert!(bottom(&harness, "No command matches") > 0.0);
    for _ in " no such thing".chars() {
        harness.key_press(Key::Backspace);
    }
    settle(&mut harness);
    assert_eq!(harness.query_all_by_label_contains("text").count(), before, "all that fit are on show again");
}

#[test]
fn the_mark_with_which_a_recorder_ends_is_beside_what_ran_and_not_after_an_event() {
    let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "aten::mm", 0, 1_000)]);
    let (track, name) = (builder.slices[0].track[0], builder.strings.intern("Record Window End"));
    builder.instants.ts = vec![5_000];
    (builder.instants.name, builder.instants.track, builder.instants.source) = (vec![name], vec![track], vec![0]);
    let mut harness = harness(vec![builder.finish()]);
    let label = "Recording ends 4.000 µs after the last of what ran";
    harness.get_by_label(label).hover();
    harness.run_steps(60);
    let help = "Only counters, memory or single moments were recorded up to 4.000 µs after the last of what ran";
    harness.get_by_label_contains(help);
    assert!(harness.query_by_label_contains("before the first").is_none());
}

#[test]
fn files_that_were_not_opened_are_not_told_of_again_once_all_is_closed() {
    let mut harness = harness(vec![trace()]);
    for path in ["/no/such/trace.json", "/no/such/snapshot.pickle"] {
        app_mut(&mut harness).commands.push(Command::OpenPath(path.into()));
    }
    wait_for(&mut harness, |harness| harness.query_all_by_label("Not opened:").count() == 2);
    let before = Instant::now().checked_sub(super::notes::SHOW_UNOPENED);
    app_mut(&mut harness).unopened_since = before.map(|before| (2, before));
    settle(&mut harness);
    assert!(has(&harness, "2 files not opened"));
    app_mut(&mut harness).commands.push(Command::CloseAll);
    settle(&mut harness);
    assert!(app(&harness).session().traces().is_empty());
    assert_eq!(harness.query_all_by_label("Not opened:").count(), 0);
}

#[test]
fn of_several_files_it_is_said_which_reaches_beyond_what_is_shown() {
    let hour = 3_600_000_000_000;
    let of = |path: &str, start: TimeNs, late: TimeNs| {
        let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "aten::mm", 0, 1_000)]);
        let (track, name) = (builder.slices[0].track[0], builder.strings.intern("Record Window End"));
        builder.instants.ts = vec![1_000 + late];
        (builder.instants.name, builder.instants.track, builder.instants.source) = (vec![name], vec![track], vec![0]);
        builder.info.utc_offset_ns = Some(start);
        builder.info.path = path.into();
        builder.finish()
    };
    let mut harness = harness(vec![of("/runs/first.json", 0, 4_000), of("/runs/second.json", hour, 9_000)]);
    let label = "second.json: recording ends 9.000 µs after the last of what ran";
    harness.get_by_label(label).hover();
    harness.run_steps(60);
    for file in
        ["first.json: only counters, memory or single moments were recorded up to 4.000 µs", "second.json: only"]
    {
        harness.get_by_label_contains(file);
    }
    app_mut(&mut harness).commands.push(Command::CloseFile("/runs/second.json".into()));
    settle(&mut harness);
    assert!(has(&harness, "Recording ends 4.000 µs after the last of what ran"));
}
