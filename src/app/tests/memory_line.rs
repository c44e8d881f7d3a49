//! The line above the pictures of memory: what it says, and how much room it takes.

use super::memory::sample;
use super::*;

#[test]
fn the_line_above_the_picture_and_the_leaks_judge_by_the_same_steps() {
    use crate::analysis::memory::fixture::Script;
    let mut script = Script::default();
    let stack = script.stack(&["step (/me/train.py:9)"]);
    for i in 0..6 {
        script.alloc(0x10_0000 * (i + 1), 512, stack);
    }
    let mut harness = harness(vec![script.finish()]);
    app_mut(&mut harness).commands.extend([Command::Show("memory"), Command::Show("leaks")]);
    wait_for(&mut harness, |harness| harness.query_all_by_label_contains("No steps were found").count() >= 2);
    let app = app_mut(&mut harness);
    for start in [0, 2, 4] {
        app.session.marks.push(crate::session::Mark::new(TimeRange { start, end: start }));
    }
    settle(&mut harness);
    harness.get_by_label("Marks are the steps").click();
    let told = "there are only 2 by your marks";
    wait_for(&mut harness, |harness| harness.query_all_by_label_contains(told).count() == 2);
    assert_eq!(harness.query_all_by_label_contains("No steps were found").count(), 0);
}

#[test]
fn the_memory_in_short_takes_the_lines_that_it_needs() {
    // Of a failure the low picture has the room: one line, and the rest where the pointer is on it.
    for (name, starts, whole, height, is_one_line) in [
        ("snapshot_leak.pickle", "Peak ", "2 places", 720.0, false),
        ("snapshot_oom.pickle", "Out of memory: ", "too small", 720.0, true),
        ("snapshot_oom.pickle", "Out of memory: ", "too small", 1080.0, false),
    ] {
        let mut harness = harness(vec![sample(name)]);
        harness.set_size(egui::vec2(1280.0, height));
        app_mut(&mut harness).commands.push(Command::Show("memory"));
        let text = |node: &egui_kittest::Node<'_>| node.accesskit_node().value().unwrap_or_default();
        let is_wanted = |node: &egui_kittest::Node<'_>| text(node).starts_with(starts) && text(node).contains(whole);
        wait_for(&mut harness, |harness| harness.query_all_by_label_contains(whole).any(|node| is_wanted(&node)));
        let line = harness.query_all_by_label_contains(whole).find(is_wanted).unwrap();
        assert_eq!(line.rect().height() < 25.0, is_one_line, "{name} in {height} points");
        harness.get_by_label("Go to peak");
    }
}
