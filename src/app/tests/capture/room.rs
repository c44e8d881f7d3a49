//! Where the form, the output and the earlier runs stand in windows of any size.

use super::*;

#[test]
fn earlier_runs_below_what_is_in_sight_are_counted_and_led_to() {
    let mut harness = launcher("true");
    harness.set_size(egui::vec2(1280.0, 640.0));
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    wait_for(&mut harness, has("Runs"));
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("Ended after"));
    wait_for(&mut harness, has("run"));
    assert!(!has("Show earlier runs")(&harness));
    harness.get_by_role_and_label(Role::RadioButton, "Nsight Systems").click();
    harness.get_by_label("Options").click();
    wait_for(&mut harness, has("Show earlier runs"));
    let bottom = harness.ctx.content_rect().bottom();
    let list = |harness: &Harness<'_, Option<App>>| harness.get_by_label("Earlier runs").rect();
    assert!(
        list(&harness).bottom() > bottom - 60.0 && harness.get_by_label("Show earlier runs").rect().bottom() < bottom
    );
    harness.get_by_label("Show earlier runs").click();
    settle(&mut harness);
    assert!(list(&harness).bottom() + 50.0 < bottom && !has("Show earlier runs")(&harness));
}

#[test]
fn all_options_can_be_reached_in_a_low_window() {
    for (size, zoom) in
        [(egui::vec2(1280.0, 720.0), 1.0), (egui::vec2(1280.0, 720.0), 1.5), (egui::vec2(800.0, 500.0), 1.0)]
    {
        let mut harness = harness(vec![trace()]);
        harness.set_size(size / zoom);
        app_mut(&mut harness).commands.push(Command::Show("capture"));
        settle(&mut harness);
        harness.get_by_role_and_label(Role::TextInput, "Command").focus();
        settle(&mut harness);
        type_text(&mut harness, "sh -c 'exit 3' and a long line of further words that needs more than one line below");
        wait_for(&mut harness, has("Runs"));
        harness.get_by_label("Options").click();
        settle(&mut harness);
        // The form is higher than the view now, and stays as it is.
        harness.get_by_label("Save as preset");
        harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
        settle(&mut harness);
        harness.get_by_label("Save as preset");
        assert!(!has("Memory history")(&harness), "the click arrived");
        harness.get_by_role_and_label(Role::TextInput, "Command").focus();
        settle(&mut harness);
        type_text(&mut harness, "!");
        let line = app(&harness).settings().views["capture"]["form"]["line"].to_string();
        assert!(line.ends_with("below!\""), "{line}");
        harness.get_by_label("Earlier runs");
    }
}

#[test]
fn the_form_above_the_output_stays_as_high_when_the_program_ends() {
    let mut harness = harness(vec![trace()]);
    harness.set_size(egui::vec2(1280.0, 720.0));
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    type_text(&mut harness, "sleep 600");
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    wait_for(&mut harness, has("Runs"));
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("Running for"));
    let height = |harness: &Harness<'_, Option<App>>| {
        harness.get_by_label("Runs").rect().top() - harness.get_by_label("Options").rect().top()
    };
    settle(&mut harness);
    let before = height(&harness);
    harness.get_by_label("Stop").click();
    wait_for(&mut harness, has("Stopped after"));
    settle(&mut harness);
    assert_eq!(height(&harness), before);
}

#[test]
fn the_form_shows_its_top_once_a_program_has_ended_and_says_why_it_failed() {
    for code in [0, 3] {
        let mut harness = launcher(&format!("sh -c 'echo why it is so >&2; sleep 1; exit {code}'"));
        harness.set_size(egui::vec2(1280.0, 720.0));
        harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
        harness.get_by_label("Options").click();
        wait_for(&mut harness, has("Runs"));
        harness.get_by_label("Start").click();
        let state = |harness: &Harness<'_, Option<App>>, label| harness.get_by_label_contains(label).rect().bottom();
        let start = |harness: &Harness<'_, Option<App>>| harness.get_by_label("Start").rect().top();
        wait_for(&mut harness, has("Running for"));
        settle(&mut harness);
        assert!(start(&harness) < state(&harness, "Running for"), "the run is scrolled to");
        wait_for(&mut harness, has("Ended after"));
        settle(&mut harness);
        assert!(start(&harness) >= state(&harness, "Ended after"), "exit code {code}");
        let why = harness.query_by_label("The program wrote last:").map(|node| node.rect());
        assert_eq!(why.is_some(), code != 0);
        assert!(why.is_none_or(|why| (state(&harness, "Ended after")..start(&harness)).contains(&why.bottom())));
        let said = harness.get_all_by_label("why it is so").map(|node| node.rect().bottom());
        assert_eq!(said.filter(|&bottom| bottom < start(&harness)).count(), usize::from(code != 0));
    }
}

#[test]
fn the_buttons_beside_the_command_reach_the_edge() {
    let mut harness = launcher("");
    harness.get_by_label("Options").click();
    settle(&mut harness);
    let window = harness.ctx.content_rect();
    let right = harness.get_by_label("Recent").rect().right();
    assert!((window.right() - 20.0..window.right()).contains(&right), "{right} of {window:?}");
}

#[test]
fn escape_leads_from_the_launcher_back_to_what_is_below_unless_a_program_runs() {
    let mut harness = launcher("sleep 600");
    let is_there = has("Start");
    // What is typed comes first.
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert!(is_there(&harness));
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert!(!is_there(&harness) && has("Run a program and record it")(&harness));

    let mut harness = super::harness(vec![trace()]);
    let front = |harness: &Harness<'_, Option<App>>, id| app(harness).layout.is_on_screen(id);
    app_mut(&mut harness).commands.push(Command::Show("flame"));
    settle(&mut harness);
    let before = app(&harness).tabs();
    select(&mut harness, "gemm_fp16");
    for id in ["capture", "live"] {
        app_mut(&mut harness).commands.push(Command::Show(id));
        settle(&mut harness);
        assert!(front(&harness, id) && app(&harness).tabs() != before);
        // The launcher has the focus in its command.
        for _ in 0..if id == "capture" { 2 } else { 1 } {
            harness.key_press(Key::Escape);
            settle(&mut harness);
        }
        assert_eq!(app(&harness).tabs(), before, "{id}");
        assert_ne!(app(&harness).session().selection, Selection::None, "it is of what is open");
    }
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert_eq!(app(&harness).session().selection, Selection::None);

    let mut harness = launcher("sleep 600");
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    wait_for(&mut harness, has("Runs"));
    harness.get_by_label("Start").click();
    wait_for(&mut harness, has("Running for"));
    harness.key_press(Key::Escape);
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert!(has("Running for")(&harness));
    harness.get_by_label("Stop").click();
    wait_for(&mut harness, has("Stopped after"));
}

#[test]
fn the_wheel_moves_either_the_output_under_the_pointer_or_all_around_it() {
    let mut harness = harness(vec![trace()]);
    harness.set_size(egui::vec2(1280.0, 720.0));
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    type_text(&mut harness, "sh -c 'for i in $(seq 1 300); do echo line $i; done; sleep 600'");
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    wait_for(&mut harness, has("Runs"));
    harness.get_by_label("Start").click();
    wait_for(&mut harness, |harness| harness.query_by_label("line 300").is_some());
    settle(&mut harness);
    let top = |harness: &Harness<'_, Option<App>>, label: &str| harness.get_by_label(label).rect().top();
    let wheel = |harness: &mut Harness<'static, Option<App>>, at: Pos2, y: f32| {
        harness.event(Event::PointerMoved(at));
        harness.step();
        let (unit, phase) = (egui::MouseWheelUnit::Point, egui::TouchPhase::Move);
        let (delta, source) = (egui::vec2(0.0, y), egui::MouseWheelSource::Wheel);
        harness.event(Event::MouseWheel { unit, delta, phase, source, modifiers: Modifiers::NONE });
        settle(harness);
        harness.run_steps(30);
    };
    let over = harness.get_by_label("line 300").rect().center();
    let before = top(&harness, "Search the output");
    // At its end already, then to its start and beyond.
    for y in [-2_000.0, 200.0, 20_000.0, 500.0] {
        wheel(&mut harness, over, y);
        assert_eq!(top(&harness, "Search the output"), before, "{y}");
    }
    harness.get_by_label("line 1");
    // The rows of the earlier runs scroll with all around them.
    let form = harness.get_by_label("Search the output").rect().right_center() + egui::vec2(400.0, 0.0);
    wheel(&mut harness, form, -60.0);
    assert!(top(&harness, "Search the output") < before);
    harness.get_by_label("Stop").click();
    wait_for(&mut harness, has("Stopped after"));
}
