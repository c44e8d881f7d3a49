//! The search, and what is left of it when it is over.

use eframe::egui::Key;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::memory::sample;
use super::*;

#[test]
fn search_finds_selects_and_steps() {
    let mut harness = harness(vec![trace()]);
    harness.key_press(Key::Slash);
    settle(&mut harness);
    type_text(&mut harness, "ATEN");
    harness.get_by_label("2 slices");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    harness.get_by_label("1 of 2");
    assert_eq!(selected_name(&harness), "aten::mm");
    harness.get_by_label("Next").click();
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "aten::add");
    harness.get_by_label("Previous").click();
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "aten::mm");
}

#[test]
fn the_marks_of_a_search_go_with_escape() {
    let mut harness = harness(vec![trace()]);
    let n_marked = |harness: &Harness<'_, Option<App>>| app(harness).session().hits.len();
    harness.key_press(Key::Slash);
    settle(&mut harness);
    type_text(&mut harness, "gemm");
    assert_eq!(n_marked(&harness), 1);
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert_eq!(n_marked(&harness), 0, "from the field");
    harness.get_by_label("1 slice");
    harness.get_by_label("Next").click();
    settle(&mut harness);
    assert_eq!(n_marked(&harness), 1, "the next step marks them again");
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert_eq!((&*selected_name(&harness), n_marked(&harness)), ("", 1), "first the selection");
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert_eq!(n_marked(&harness), 0, "then the marks");
    harness.get_by_label("1 slice");
}

#[test]
fn a_search_for_a_function_that_allocated_leads_to_its_allocations() {
    let mut harness = harness(vec![sample("snapshot_leak.pickle")]);
    harness.key_press(Key::Slash);
    settle(&mut harness);
    type_text(&mut harness, "rotary");
    wait_for(&mut harness, |harness| harness.query_by_label("No matching slice").is_some());
    harness.get_by_label("Find in allocations").click();
    settle(&mut harness);
    wait_for(&mut harness, |harness| harness.query_all_by_label_contains("extend (").next().is_some());
    app_mut(&mut harness).commands.push(Command::FindAllocations("no such function".to_owned()));
    settle(&mut harness);
    wait_for(&mut harness, |harness| harness.query_by_label("No matching allocations").is_some());
}
