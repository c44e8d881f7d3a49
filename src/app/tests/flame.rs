//! The flame graph tab: its graph by pointer and keyboard, and what of the trace it is about.

use super::*;
use crate::model::{StackId, Track, TrackId};

/// Stacks of `main: samples` at 0, 100, …, and one of another thread at 5,000 ns.
fn sampled() -> Trace {
    let mut builder =
        TraceBuilder::from_slices(&[("main", SliceKind::Operator, "a", 0, 1_000), ("w", SliceKind::Os, "b", 0, 6_000)]);
    let process = builder.tracks[0].process;
    let track = |name: &str, i| Track { name: name.to_owned(), process, sort_index: i, ..Default::default() };
    builder.tracks.extend([track("main: samples", 8), track("worker: samples", 9)]);
    let mut stacks = vec![(2, vec!["main", "step", "gemm"]); 6];
    stacks.extend([(2, vec!["main", "step"]), (2, vec!["main", "step"]), (2, vec!["main", "load;x"])]);
    stacks.push((3, vec!["serve"]));
    for (i, (track, frames)) in stacks.into_iter().enumerate() {
        let mut stack = StackId::default();
        for frame in frames {
            let name = builder.strings.intern(frame);
            stack = builder.stacks.intern(stack, name);
        }
        builder.samples.track.push(TrackId(track));
        builder.samples.ts.push(if track == 2 { i as i64 * 100 } else { 5_000 });
        builder.samples.stack.push(stack);
    }
    builder.finish()
}

type App1 = Harness<'static, Option<App>>;

fn opened() -> App1 {
    let mut harness = harness(vec![sampled()]);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Num6);
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("samples"));
    harness
}

/// Clicks the graph on a row, at a share of its width.
fn click(harness: &mut App1, row: usize, share: f32) {
    let graph = harness.get_by_label_contains("Flame graph: ").rect();
    let at = graph.left_top() + egui::vec2(graph.width() * share, 18.0 * row as f32 + 9.0);
    for pressed in [true, false] {
        harness.event(Event::PointerMoved(at));
        harness.event(Event::PointerButton {
            pos: at,
            button: PointerButton::Primary,
            pressed,
            modifiers: Modifiers::NONE,
        });
        harness.step();
    }
    settle(harness);
}

fn press(harness: &mut App1, key: Key) {
    harness.key_press(key);
    settle(harness);
}

#[test]
fn a_click_zooms_and_escape_and_backspace_go_back() {
    let mut harness = opened();
    harness.get_by_label("10 samples");
    let whole = "Flame graph: All samples, 10 samples, 100.0 %";
    harness.get_by_label(whole);
    let visible = app(&harness).session().navigation.visible();
    app_mut(&mut harness).session.range = Some(TimeRange { start: 0, end: 6_000 });
    settle(&mut harness);
    for key in [Key::Escape, Key::Backspace] {
        click(&mut harness, 1, 0.3);
        harness.get_by_label("Flame graph: main, 9 samples, 90.0 %");
        harness.get_by_label("main, 9 samples, 90.0 %");
        click(&mut harness, 2, 0.3);
        harness.get_by_label("Flame graph: step, 8 samples, 80.0 %");
        press(&mut harness, key);
        harness.get_by_label("Flame graph: main, 9 samples, 90.0 %");
        press(&mut harness, key);
        harness.get_by_label(whole);
    }
    assert_eq!(app(&harness).session().navigation.visible(), visible, "no zoom of the timeline was undone");
    click(&mut harness, 1, 0.3);
    click(&mut harness, 0, 0.3);
    harness.get_by_label(whole);
    // A click where there is no frame is none.
    click(&mut harness, 2, 0.95);
    harness.get_by_label(whole);
}

#[test]
fn arrows_go_to_callers_callees_and_siblings() {
    let mut harness = opened();
    click(&mut harness, 0, 0.3);
    for (key, expected) in [
        (Key::ArrowDown, "main, 9 samples, 90.0 %"),
        (Key::ArrowDown, "step, 8 samples, 80.0 %"),
        (Key::ArrowRight, "load;x, 1 sample, 10.0 %"),
        (Key::ArrowRight, "load;x, 1 sample, 10.0 %"),
        (Key::ArrowDown, "load;x, 1 sample, 10.0 %"),
        (Key::ArrowLeft, "step, 8 samples, 80.0 %"),
        (Key::ArrowDown, "gemm, 6 samples, 60.0 %"),
        (Key::ArrowUp, "step, 8 samples, 80.0 %"),
    ] {
        press(&mut harness, key);
        harness.get_by_label(expected);
        harness.get_by_label("Flame graph: All samples, 10 samples, 100.0 %");
    }
    press(&mut harness, Key::Enter);
    harness.get_by_label("Flame graph: step, 8 samples, 80.0 %");
    // The sibling is not on show there, so the graph goes to where it is.
    press(&mut harness, Key::ArrowRight);
    harness.get_by_label("load;x, 1 sample, 10.0 %");
    harness.get_by_label("Flame graph: main, 9 samples, 90.0 %");
}

#[test]
fn samples_are_those_of_the_range_and_the_thread() {
    let mut harness = opened();
    click(&mut harness, 1, 0.3);
    app_mut(&mut harness).session.range = Some(TimeRange { start: 500, end: 700 });
    settle(&mut harness);
    harness.get_by_label("2 samples");
    // What was in focus is still.
    harness.get_by_label("Flame graph: main, 2 samples, 100.0 %");
    app_mut(&mut harness).session.range = Some(TimeRange { start: 4_000, end: 4_100 });
    settle(&mut harness);
    harness.get_by_label("No sample of these threads lies in the selected time range");
    harness.get_by_label("Whole trace").click();
    settle(&mut harness);
    harness.get_by_label("10 samples");
    harness.get_by_label("Thread: All threads").click();
    settle(&mut harness);
    harness.get_by_label("worker, 1 sample").click();
    settle(&mut harness);
    harness.get_by_label("Flame graph: All samples, 1 sample, 100.0 %");
}

#[test]
fn threads_that_wait_are_left_out_at_first_and_it_is_said() {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", SliceKind::PythonFunction, "train.py(3): step", 0, 1_000),
        ("monitor", SliceKind::PythonFunction, "threading.py(359): wait", 0, 7_000),
    ]);
    builder.info.path = "/traces/waits.json".into();
    let mut harness = harness(vec![builder.finish()]);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Num6);
    settle(&mut harness);
    harness.get_by_label("Flame graph: All host time, 1.000 µs, 100.0 %");
    harness.get_by_label("Left out: 1 waiting thread, 7.000 µs");
    harness.get_by_label("Thread: Without waiting threads").click();
    settle(&mut harness);
    harness.get_by_label("monitor, 7.000 µs, only waits");
    harness.get_by_label("All threads, 8.000 µs").click();
    settle(&mut harness);
    harness.get_by_label("Flame graph: All host time, 8.000 µs, 100.0 %");
}

#[test]
fn a_graph_is_turned_searched_and_copied() {
    let mut harness = opened();
    harness.get_by_label("Bottom-up").click();
    settle(&mut harness);
    click(&mut harness, 1, 0.3);
    harness.get_by_label("Flame graph: gemm, 6 samples, 60.0 %");
    click(&mut harness, 2, 0.3);
    harness.get_by_label("step, 6 samples, 60.0 %");
    harness.get_by_label("Copy stacks").click();
    harness.step();
    let mut copied = None;
    let started = std::time::Instant::now();
    while copied.is_none() {
        assert!(started.elapsed() < std::time::Duration::from_secs(60), "nothing was copied");
        harness.step();
        copied = harness.output().platform_output.commands.iter().find_map(|command| match command {
            egui::OutputCommand::CopyText(text) => Some(text.clone()),
            _ => None,
        });
    }
    let expected = "main;step 2\nmain;step;gemm 6\nmain;load,x 1\nserve 1\n";
    assert_eq!(copied.unwrap(), expected);
    harness.get_by_role_and_label(egui::Role::TextInput, "Find").click();
    settle(&mut harness);
    type_text(&mut harness, "STEP");
    harness.get_by_label("8 of 10 samples, 80.0 %");
    // The table lists what was found.
    assert!(harness.query_by_label("serve").is_none());
}

#[test]
fn time_is_shown_by_what_ran_and_by_what_was_launched() {
    let mut harness = harness(vec![trace()]);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Num6);
    settle(&mut harness);
    // Without samples it is host time.
    harness.get_by_label_contains("Flame graph: All host time");
    harness.get_by_label("Samples").click();
    settle(&mut harness);
    harness.get_by_label("No CPU samples were recorded");
    harness.get_by_label_contains("--sample=process-tree");
    harness.get_by_label("Device time").click();
    settle(&mut harness);
    harness.get_by_label_contains("Flame graph: All device work");
    harness.get_by_label("Modules").click();
    settle(&mut harness);
    assert!(harness.query_all_by_label("(outside of modules)").count() > 0);
}

#[test]
fn live_memory_by_stack_is_what_is_allocated_as_in_memory_by_place() {
    let mut harness = harness(vec![super::memory::sample("snapshot_oom.pickle")]);
    app_mut(&mut harness).commands.push(Command::Show("live-memory"));
    settle(&mut harness);
    harness.get_by_label("At the end").click();
    // With the blocks that await a stream it would be 170.16 MiB.
    let whole = "Flame graph: All live memory, 170.08 MiB";
    wait_for(&mut harness, |harness| harness.query_by_label_contains(whole).is_some());
}
