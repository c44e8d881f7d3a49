//! The views of memory, over the recorded samples.

use super::*;
use crate::job::Progress;
use crate::model::memory::AllocationId;
use crate::reader;
use crate::settings::CenterTab;

/// One of the samples, such as `snapshot_leak.pickle`.
pub fn sample(name: &str) -> Trace {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces").join(name);
    reader::read(&path, &Progress::default()).unwrap().remove(0)
}

fn show(name: &str, command: Command) -> Harness<'static, Option<App>> {
    let mut harness = harness(vec![sample(name)]);
    app_mut(&mut harness).commands.extend([Command::ShowMemoryState, command]);
    settle(&mut harness);
    harness
}

#[test]
fn a_trace_without_memory_has_no_choice_of_the_middle() {
    let mut harness = harness(vec![trace()]);
    assert!(harness.query_by_label("Memory over time").is_none());
    app_mut(&mut harness).commands.push(Command::ShowMemory);
    settle(&mut harness);
    assert_eq!(app(&harness).center_tab(), CenterTab::Timeline);
    app_mut(&mut harness).commands.push(Command::ShowAllocations);
    settle(&mut harness);
    harness.get_by_label("Nothing is known of memory");
}

#[test]
fn the_planted_leaks_are_named_with_their_evidence_and_brought_out() {
    let mut harness = show("snapshot_leak.pickle", Command::ShowLeaks);
    wait_for(&mut harness, |harness| harness.query_by_label("Suspects (3)").is_some());
    harness.get_by_label("Memory between steps grows");
    harness.get_by_label_contains("12 steps by ProfilerStep annotations");
    let planted = harness.get_by_label("record (metrics.py:33)");
    planted.click();
    settle(&mut harness);
    harness.get_by_label_contains("outlived their step");
    let marked = Arc::clone(&app(&harness).session().memory.marked);
    let history = &app(&harness).session().traces()[0].trace.memories[0];
    // 384 KiB a step in each of the 12 steps.
    let bytes: u64 = marked.iter().map(|id| history.allocations.bytes[id.idx()]).sum();
    assert_eq!(bytes, 12 * 393_216);
    harness.get_by_label("Not leaks (2)").click();
    settle(&mut harness);
    assert!(harness.query_by_label("record (metrics.py:33)").is_none());
}

#[test]
fn every_allocation_can_be_found_by_stack_size_and_state() {
    let mut harness = show("snapshot_leak.pickle", Command::ShowAllocations);
    let n = app(&harness).session().traces()[0].trace.memories[0].allocations.len();
    let all = format!("{} allocations", crate::widget::format::count(n as u64));
    wait_for(&mut harness, |harness| harness.query_by_label_contains(&all).is_some());
    harness.get_by_role_and_label(egui::accesskit::Role::TextInput, "Stack").focus();
    settle(&mut harness);
    type_text(&mut harness, r"metrics\.py:3\d");
    wait_for(&mut harness, |harness| harness.query_by_label_contains("12 of ").is_some());
    harness.get_by_label_contains("4.50 MiB");
    harness.get_by_label("Highlight").click();
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.marked.len(), 12);
    assert_eq!(app(&harness).center_tab(), CenterTab::Memory);
    harness.get_by_label("Highlight none").click();
    settle(&mut harness);
    assert!(app(&harness).session().memory.marked.is_empty());
    harness.get_by_role_and_label(egui::accesskit::Role::TextInput, "Size from").focus();
    settle(&mut harness);
    type_text(&mut harness, "1 MiB");
    wait_for(&mut harness, |harness| harness.query_by_label("No allocation fits").is_some());
}

#[test]
fn an_allocation_is_told_in_full() {
    let mut harness = show("snapshot_leak.pickle", Command::ShowAllocations);
    let all = &app(&harness).session().traces()[0].trace.memories[0].allocations;
    let id = all.ids().find(|id| all.bytes[id.idx()] == 393_216 && all.start[id.idx()] > 0).unwrap();
    app_mut(&mut harness).session.selection = Selection::Allocation { trace: 0, memory: 0, id };
    settle(&mut harness);
    harness.get_by_label("Allocation of 384.00 KiB");
    harness.get_by_label("Allocated at, innermost first");
    harness.get_by_label_contains("not until the recording ended");
    harness.get_by_label("Show on the timeline").click();
    settle(&mut harness);
    assert_eq!(app(&harness).center_tab(), CenterTab::Timeline);
    // Closing the trace takes the selection and what is looked at along.
    app_mut(&mut harness).commands.push(Command::CloseAll);
    settle(&mut harness);
    assert_eq!(app(&harness).session().selection, Selection::None);
    assert_eq!(app(&harness).session().memory, Default::default());
}

#[test]
fn the_moment_is_moved_event_by_event_and_the_map_follows() {
    let mut harness = show("snapshot_leak.pickle", Command::ShowLiveMemory);
    let last = app(&harness).session().traces()[0].trace.memories[0].last_state();
    harness.get_by_label("Start").click();
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.moment, Some(0));
    harness.get_by_label("Next event").click();
    harness.key_press(Key::Period);
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.moment, Some(2));
    harness.key_press(Key::Comma);
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.moment, Some(1));
    harness.get_by_label("End").click();
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.moment, Some(last));
    wait_for(&mut harness, |harness| harness.query_by_label("1.39 GiB reserved").is_some());
    harness.get_by_label("Map of the allocator's memory");
    harness.get_by_label("Set as base").click();
    harness.get_by_label("Peak").click();
    harness.get_by_label("Grown").click();
    settle(&mut harness);
    let focus = &app(&harness).session().memory;
    assert_eq!((focus.base, focus.moment.is_some_and(|state| state < last)), (Some(last), true));
}

#[test]
fn want_of_memory_is_explained() {
    let mut harness = show("snapshot_oom.pickle", Command::ShowReserved);
    wait_for(&mut harness, |harness| harness.query_by_label("Out of memory: 96.00 MiB requested").is_some());
    harness.get_by_label("expandable_segments:True");
    harness.get_by_label_contains("Fragmentation: ");
    harness.get_by_label("Show the state then").click_accesskit();
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.moment, Some(835));
}

#[test]
fn closing_a_trace_keeps_the_memory_of_another_in_view() {
    let mut harness = harness(vec![trace(), sample("snapshot_oom.pickle"), sample("snapshot_leak.pickle")]);
    let window = app_mut(&mut harness);
    window.session.memory.show(2, 0);
    window.session.selection = Selection::Allocation { trace: 2, memory: 0, id: AllocationId(3) };
    window.commands.extend([Command::ShowMemoryState, Command::CloseTraceAt(1)]);
    settle(&mut harness);
    let session = app(&harness).session();
    assert_eq!(session.memory.history, Some((1, 0)));
    assert_eq!(session.selection, Selection::Allocation { trace: 1, memory: 0, id: AllocationId(3) });
}
