//! The launcher, with real processes.

mod room;

use eframe::egui::accesskit::Role;

use super::*;

/// A window without traces that shows the launcher, with this command typed.
fn launcher(command: &str) -> Harness<'static, Option<App>> {
    let mut harness = harness(Vec::new());
    harness.get_by_label("Run a program and record it").click();
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    type_text(&mut harness, command);
    harness
}

fn has(label: &'static str) -> impl Fn(&Harness<'_, Option<App>>) -> bool {
    move |harness| harness.query_all_by_label_contains(label).next().is_some()
}

#[test]
fn a_program_runs_is_searched_and_listed() {
    let mut harness = launcher("sh -c 'echo first; echo second >&2; exit 3'");
    wait_for(&mut harness, has("Runs"));
    assert!(has("PYTHONUNBUFFERED=1")(&harness) || std::env::var_os("PYTHONUNBUFFERED").is_some());
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("with exit code 3"));
    assert!(has("first")(&harness) && has("second")(&harness));
    harness.get_by_label("Search the output").focus();
    settle(&mut harness);
    type_text(&mut harness, "SECOND");
    wait_for(&mut harness, has("1 of 1"));
    wait_for(&mut harness, has("Earlier runs"));
    // Another start would forget nothing: the command is among the recent ones, and in the settings.
    let kept = app(&harness).settings().views["capture"].to_string();
    assert!(kept.contains("echo first"), "{kept}");
}

#[test]
fn enter_goes_from_hit_to_hit_among_the_lines_around_them() {
    let mut harness = launcher("sh -c 'for i in $(seq 1 300); do echo line $i; done; exit 3'");
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("with exit code 3"));
    harness.get_by_label("Search the output").focus();
    settle(&mut harness);
    type_text(&mut harness, "LINE 1");
    wait_for(&mut harness, has("1 of 111"));
    for (modifiers, place, shown) in [
        (Modifiers::NONE, "2 of 111", ["line 10", "line 9"]),
        (Modifiers::SHIFT, "1 of 111", ["line 1", "line 2"]),
        (Modifiers::SHIFT, "111 of 111", ["line 199", "line 200"]),
        (Modifiers::NONE, "1 of 111", ["line 1", "line 2"]),
    ] {
        harness.key_press_modifiers(modifiers, Key::Enter);
        settle(&mut harness);
        for label in [&[place][..], &shown].concat() {
            assert!(harness.query_by_label(label).is_some(), "{label}, at {place}");
        }
        assert!(harness.get_by_label("Search the output").is_focused());
    }
}

#[test]
fn what_cannot_start_says_so_leaves_the_output_and_starts_once_it_is_mended() {
    let mut harness = launcher("sh -c 'echo kept in sight; exit 3'");
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("with exit code 3"));
    harness.get_by_label("Options").click();
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Working folder").focus();
    settle(&mut harness);
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("later");
    type_text(&mut harness, folder.to_str().unwrap());
    let can_start = |harness: &Harness<'_, Option<App>>| !harness.get_by_label("Start").accesskit_node().is_disabled();
    wait_for(&mut harness, |harness| !can_start(harness));
    // The reason is beside the button, above all options, and said once.
    let reason = harness.get_by_label_contains("The working folder does not exist").rect();
    assert!(reason.bottom() < harness.get_by_label("Options").rect().top());
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    harness.key_press(Key::Enter);
    settle(&mut harness);
    assert!(!has("Starting…")(&harness) && !can_start(&harness));
    harness.get_by_label("kept in sight");
    std::fs::create_dir(&folder).unwrap();
    wait_for(&mut harness, can_start);
    let since = std::time::Instant::now();
    while has("The working folder does not exist")(&harness) {
        assert!(since.elapsed() < std::time::Duration::from_secs(60), "still said");
        settle(&mut harness);
    }
}

#[test]
fn the_end_of_a_run_of_another_window_is_listed() {
    let root = crate::capture::launch::root().unwrap();
    std::fs::create_dir_all(&root).unwrap();
    let folder = root.join("20991231-235959-other");
    std::fs::create_dir(&folder).unwrap();
    // The latest of all, however many other tests start.
    let mut manifest = crate::capture::launch::Manifest {
        command: "other window".to_owned(),
        started_ms: 4_000_000_000_000,
        ..Default::default()
    };
    manifest.write(&folder).unwrap();
    let mut harness = launcher("true");
    wait_for(&mut harness, has("other window"));
    (manifest.has_ended, manifest.exit_code) = (true, Some(77));
    manifest.notes = vec!["Nothing was recorded: why".to_owned()];
    manifest.write(&folder).unwrap();
    let since = std::time::Instant::now();
    while !has("exit code 77")(&harness) {
        assert!(since.elapsed() < std::time::Duration::from_secs(60), "it is not listed");
        settle(&mut harness);
    }
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("Ended after"));
    std::fs::write(folder.join("output.txt"), "what it wrote\n").unwrap();
    let button = harness.get_all_by_label("Output").filter(|node| node.accesskit_node().role() == Role::Button);
    button.min_by(|a, b| a.rect().top().total_cmp(&b.rect().top())).unwrap().click();
    wait_for(&mut harness, has("what it wrote"));
    assert!(has("started 2096-10-02")(&harness) && has(": exit code 77")(&harness) && has("recorded: why")(&harness));
    assert!(!has("Ended after")(&harness), "how another run ended is not said of it");
    harness.get_by_label("Close").click();
    settle(&mut harness);
    assert!(!has("what it wrote")(&harness) && has("Ended after")(&harness));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_running_program_is_no_earlier_run() {
    // Recorded, so that the line of what runs has more than the command.
    let mut harness = launcher("sleep 600.25");
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("Running for"));
    // Whatever the list is read from next has both.
    let folder = crate::capture::launch::root().unwrap().join("20930802-052000-beside");
    std::fs::create_dir_all(&folder).unwrap();
    let command = "beside it".to_owned();
    let beside = crate::capture::launch::Manifest { command, started_ms: 3_900_000_000_000, ..Default::default() };
    beside.write(&folder).unwrap();
    wait_for(&mut harness, has("beside it"));
    let is_listed = |harness: &Harness<'_, Option<App>>| harness.query_by_label("sleep 600.25").is_some();
    assert!(!is_listed(&harness));
    assert!(has("1 run, ")(&harness) || has(" runs, ")(&harness));
    harness.get_by_label("Stop").click();
    wait_for(&mut harness, is_listed);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_first_command_is_typed_without_a_click() {
    let mut harness = harness(Vec::new());
    harness.get_by_label("Run a program and record it").click();
    settle(&mut harness);
    type_text(&mut harness, "echo a");
    wait_for(&mut harness, has("Runs"));
    // A command that is there is not in the way of shortcuts.
    harness.get_by_label("Back").click();
    settle(&mut harness);
    harness.get_by_label("Run a program and record it").click();
    settle(&mut harness);
    assert!(!harness.get_by_role_and_label(Role::TextInput, "Command").is_focused());
}

#[test]
fn a_pasted_command_keeps_its_lines() {
    let mut harness = launcher("");
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    harness.event(Event::Paste("sh -c 'echo one\necho two'".to_owned()));
    settle(&mut harness);
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("with exit code 0"));
    assert!(harness.query_by_label("one").is_some() && harness.query_by_label("two").is_some());
}

#[test]
fn the_name_of_a_recording_that_is_open_leads_to_it() {
    let trace = r#"{"traceEvents":[{"ph":"X","name":"step","cat":"cpu_op","pid":1,"tid":1,"ts":1,"dur":2}]}"#;
    let mut harness =
        launcher(&format!("sh -c 'echo $1 > $LACUNA_RUN/trace-rank0-1.pt.trace.json; sleep 600' sh '{trace}'"));
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("Show what was recorded"));
    harness.get_by_role_and_label(Role::Link, "trace-rank0-1.pt.trace.json").click();
    settle(&mut harness);
    assert!(!app(&harness).layout.is_on_screen("capture"));
    assert!(!has("already open")(&harness) && app(&harness).session().traces().len() == 1);
}

#[test]
fn a_program_is_stopped_and_what_is_missing_is_said() {
    let mut harness = launcher("sleep 600");
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("Running for"));
    harness.get_by_label("Stop").click();
    wait_for(&mut harness, has("Stopped after"));
    wait_for(&mut harness, has("no Python process of this run imported torch"));
    let mut harness = launcher("no-such-program");
    // Said before the start, and once.
    wait_for(&mut harness, has("No program called no-such-program"));
    settle(&mut harness);
    assert_eq!(harness.query_all_by_label_contains("No program called").count(), 1);
    let mut harness = launcher("a 'b");
    wait_for(&mut harness, has("A quotation mark is not closed"));
}

#[test]
#[cfg(unix)]
fn what_a_recorder_lacks_is_said_once_and_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python3");
    // As one answers that has no torch.
    crate::capture::launch::write_program(&python, "exit 66");
    let n_said = |harness: &Harness<'_, Option<App>>| harness.query_all_by_label_contains("has no torch").count();
    for is_low in [false, true] {
        let mut harness = launcher(&format!("{} x.py", python.display()));
        wait_for(&mut harness, has("has no torch"));
        if is_low {
            harness.set_size(egui::vec2(1280.0, 640.0));
            harness.get_by_label("Options").click();
            settle(&mut harness);
        }
        harness.get_by_label("Start").click();
        wait_for(&mut harness, has("with exit code 66"));
        settle(&mut harness);
        assert_eq!(n_said(&harness), 1);
        assert_eq!(harness.query_all_by_label_contains("Nothing was recorded").count(), 1, "low: {is_low}");
        // Other recorders need no torch.
        harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
        wait_for(&mut harness, has("Only the output of the program is kept"));
        assert_eq!(n_said(&harness), 0);
    }
}

#[test]
fn what_was_recorded_opens_by_itself() {
    let trace = r#"{"traceEvents":[{"ph":"X","name":"step","cat":"cpu_op","pid":1,"tid":1,"ts":1,"dur":2}]}"#;
    // A program that finds the folder of its run and leaves a result there, as the recorder does.
    let mut harness =
        launcher(&format!("sh -c 'echo $1 > $LACUNA_RUN/trace-rank0-1.pt.trace.json; sleep 600' sh '{trace}'"));
    harness.get_by_label("Start").click();
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 1);
    // The program runs on, and is still in sight.
    wait_for(&mut harness, has("Show what was recorded"));
    assert!(app(&harness).layout.is_on_screen("capture") && has("Running for")(&harness));
    harness.get_by_label("Show what was recorded").click();
    settle(&mut harness);
    assert!(!app(&harness).layout.is_on_screen("capture"));
    // Closing the window ends it.
    drop(harness);
}

#[test]
fn a_new_recording_does_not_mix_with_one_that_is_open() {
    let mut harness = harness(vec![trace()]);
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    let event = r#"{"traceEvents":[{"ph":"X","name":"step","cat":"cpu_op","pid":1,"tid":1,"ts":1,"dur":2}]}"#;
    let command = format!("sh -c 'echo $1 > $LACUNA_RUN/trace-rank0-1.pt.trace.json; sleep 600' sh '{event}'");
    type_text(&mut harness, &command);
    harness.get_by_label("Start").click();
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 2);
    wait_for(&mut harness, has("Show what was recorded"));
    let own = app(&harness).session().traces().iter().position(|open| open.trace.slice_name(SliceId(0)) == "step");
    let files = |harness: &Harness<'_, Option<App>>| app(harness).session().files.of("samples");
    assert_eq!(files(&harness).one(), own);
    // What the user chooses stays.
    app_mut(&mut harness).session.files.choose("samples", crate::session::Files::Together);
    settle(&mut harness);
    assert_eq!(files(&harness).one(), None);
}

#[test]
fn a_recording_that_nobody_waits_for_leaves_runs_that_are_compared_and_is_a_click_away() {
    let mut harness = harness(vec![trace(), trace()]);
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    let event = r#"{"traceEvents":[{"ph":"X","name":"step","cat":"cpu_op","pid":1,"tid":1,"ts":1,"dur":900000}]}"#;
    let go = tempfile::tempdir().unwrap();
    let wait = format!("while ! test -e {}/go; do sleep 0.1; done", go.path().display());
    let command = format!("sh -c '{wait}; echo $1 > $LACUNA_RUN/trace-rank0-1.pt.trace.json; sleep 600' sh '{event}'");
    type_text(&mut harness, &command);
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("Running for"));
    app_mut(&mut harness).commands.push(Command::Show("timeline"));
    wait_for(&mut harness, |harness| !app(harness).layout.is_on_screen("capture"));
    let content = app(&harness).session().content();
    std::fs::write(go.path().join("go"), "").unwrap();
    wait_for(&mut harness, has("is open behind what you look at"));
    let behind = |harness: &Harness<'_, Option<App>>| {
        app(harness).session().traces().iter().map(|open| open.is_behind).collect::<Vec<_>>()
    };
    assert_eq!((app(&harness).session().content(), behind(&harness)), (content, vec![false, false, true]));
    harness.get_by_role_and_label(Role::Button, "Show").click();
    settle(&mut harness);
    assert_eq!(behind(&harness), [true, true, false]);
    assert_eq!(app(&harness).session().navigation.visible().dur(), 900_000_000);
    assert!(!has("is open behind")(&harness), "what it says is no longer so");
}

#[test]
fn what_a_short_program_recorded_is_shown_beside_what_is_open() {
    let mut harness = harness(vec![trace()]);
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    let event = r#"{"traceEvents":[{"ph":"X","name":"step","cat":"cpu_op","pid":1,"tid":1,"ts":1,"dur":2}]}"#;
    app_mut(&mut harness).session.navigation.go(crate::model::TimeRange { start: 2_500, end: 2_600 });
    app_mut(&mut harness).session.range = Some(crate::model::TimeRange { start: 2_500, end: 2_600 });
    // It has ended long before its trace is read.
    type_text(&mut harness, &format!("sh -c 'echo $1 > $LACUNA_RUN/trace-rank0-1.pt.trace.json' sh '{event}'"));
    harness.get_by_role_and_label(Role::Button, "Start").click();
    wait_for(&mut harness, |harness| !app(harness).layout.is_on_screen("capture"));
    assert_eq!(app(&harness).session().traces().len(), 2);
    // All of it, not the part of the other that was looked at.
    let session = app(&harness).session();
    let own = session.traces()[1].content.shifted(session.traces()[1].offset);
    let visible = session.navigation.visible();
    assert_eq!((visible.union(own), session.range), (visible, None));
}

#[test]
fn of_several_new_ranks_the_flame_graph_shows_the_first_whichever_came_first() {
    let mut harness = harness(vec![trace()]);
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    let of = |rank: u32| {
        let event = r#"{"ph":"X","name":"step","cat":"cpu_op","pid":1,"tid":1,"ts":1,"dur":2}"#;
        let text = format!(r#"{{"distributedInfo":{{"rank":{rank}}},"traceEvents":[{event}]}}"#);
        format!("echo '\\''{text}'\\'' > $LACUNA_RUN/trace-rank{rank}-1.pt.trace.json; ")
    };
    let wait = "while ! test -e $LACUNA_RUN/go; do sleep 0.1; done; ";
    type_text(&mut harness, &format!("sh -c '{}{wait}{}sleep 600'", of(1), of(0)));
    harness.get_by_label("Start").click();
    let shown = |harness: &Harness<'_, Option<App>>| {
        let session = app(harness).session();
        session.files.of("samples").one().and_then(|one| session.traces()[one].trace.info.rank)
    };
    wait_for(&mut harness, |harness| shown(harness) == Some(1));
    let folder = app(&harness).session().traces()[1].trace.info.path.parent().unwrap().to_owned();
    std::fs::write(folder.join("go"), "").unwrap();
    wait_for(&mut harness, |harness| shown(harness) == Some(0));
}

#[test]
fn a_window_with_a_running_program_asks_before_it_closes() {
    let mut harness = launcher("sleep 600");
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("Running for"));
    let close = |harness: &mut Harness<'_, Option<App>>| {
        let window = harness.input_mut().viewports.entry(egui::ViewportId::ROOT).or_default();
        window.events.push(egui::ViewportEvent::Close);
        harness.step();
        harness.input_mut().viewports.entry(egui::ViewportId::ROOT).or_default().events.clear();
        settle(harness);
    };
    app_mut(&mut harness).commands.push(Command::Quit);
    settle(&mut harness);
    harness.get_by_label("Keep Lacuna open").click();
    settle(&mut harness);
    assert!(!has("Keep Lacuna open")(&harness) && has("Running for")(&harness));
    close(&mut harness);
    harness.get_by_label("Stop the run and quit").click();
    wait_for(&mut harness, |harness| !has("Stopping the run")(harness) && has("Stopped after")(harness));
    assert!(app_mut(&mut harness).leaving.may_close(true), "it was agreed");
}

#[test]
#[cfg(unix)]
fn the_nsys_of_the_form_is_that_of_the_window() {
    let mut harness = launcher("echo");
    harness.get_by_role_and_label(Role::RadioButton, "Nsight Systems").click();
    harness.get_by_label("Options").click();
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "nsys").focus();
    settle(&mut harness);
    // It records nothing.
    type_text(&mut harness, "/bin/true");
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("nsys wrote no report"));
    assert_eq!(app(&harness).settings().nsys.as_deref(), Some(std::path::Path::new("/bin/true")));
}

#[test]
#[cfg(unix)]
fn the_nsys_of_the_window_is_that_of_the_form() {
    let mut harness = launcher("echo");
    harness.state_mut().as_mut().unwrap().settings.nsys = Some("/no/such/nsys".into());
    harness.get_by_role_and_label(Role::RadioButton, "Nsight Systems").click();
    wait_for(&mut harness, has("No nsys was found (looked in /no/such/nsys, as set)"));
}

#[test]
fn a_new_machine_has_something_to_record() {
    let mut harness = launcher("");
    harness.get_by_label("a small program for the GPU").click();
    wait_for(&mut harness, has(" workload"));
    assert!(app(&harness).settings().views["capture"]["form"]["backend"] == "Cupti");
    assert!(!has("a small program for the GPU")(&harness), "a command is there");
}

#[test]
fn a_time_limit_says_that_it_ended_the_run() {
    let mut harness = launcher("sleep 600");
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    harness.get_by_label("Options").click();
    settle(&mut harness);
    harness.get_by_role_and_label(Role::SpinButton, "Time limit").click();
    settle(&mut harness);
    type_text(&mut harness, "1");
    harness.key_press(Key::Enter);
    wait_for(&mut harness, has("Runs"));
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("; time limit 1 s"));
    wait_for(&mut harness, has("by the time limit of 1 s"));
    wait_for(&mut harness, |harness| harness.query_all_by_label("Time limit").count() == 2);
}

#[test]
fn each_recorder_says_what_it_keeps() {
    let mut harness = launcher("true");
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    wait_for(&mut harness, has("Only the output of the program is kept, and GPU counters"));
}
