//! The views of memory, over the recorded samples.

use super::*;
use crate::figures::format;
use crate::job::Progress;
use crate::model::memory::AllocationId;
use crate::reader;
use crate::view::VIEWS;

/// One of the samples, such as `snapshot_leak.pickle`.
pub fn sample(name: &str) -> Trace {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces").join(name);
    reader::read(&path, &Progress::default()).unwrap().remove(0)
}

fn show(name: &str, command: Command) -> Harness<'static, Option<App>> {
    let mut harness = harness(vec![sample(name)]);
    app_mut(&mut harness).commands.extend([Command::Show("memory-state"), command]);
    settle(&mut harness);
    harness
}

#[test]
fn a_trace_without_memory_has_no_choice_of_the_middle() {
    let mut harness = harness(vec![trace()]);
    assert!(harness.query_by_label("Memory over time").is_none());
    app_mut(&mut harness).commands.push(Command::Show("allocations"));
    settle(&mut harness);
    harness.get_by_label("No memory was recorded");
}

#[test]
fn a_recording_of_sums_alone_says_where_they_are() {
    use crate::model::{CHANGE_SINCE_START, Counter, CounterUnit, Process, TraceBuilder, Track, TrackKind};
    let mut builder = TraceBuilder::from_slices(&[("main", crate::model::SliceKind::Operator, "aten::mm", 0, 1_000)]);
    builder.processes.push(Process::default());
    let process = crate::model::ProcessId(builder.processes.len() as u32 - 1);
    let track = crate::model::TrackId(builder.tracks.len() as u32);
    builder.tracks.push(Track { kind: TrackKind::Counter, process, name: "GPU 0 memory".into(), ..Track::default() });
    let (ts, value) = (vec![0, 500], vec![64.0, 0.0]);
    let series = CHANGE_SINCE_START.to_owned();
    builder.counters.push(Counter { track, series, unit: CounterUnit::Bytes, ts, value, ..Counter::default() });
    let mut harness = harness(vec![builder.finish()]);
    app_mut(&mut harness).commands.push(Command::Show("allocations"));
    settle(&mut harness);
    assert!(harness.query_by_label("No memory was recorded").is_none());
    harness.get_by_label_contains("have no addresses");
    harness.get_by_label("Show the sums on the timeline").click();
    settle(&mut harness);
    assert!(harness.query_all_by_label_contains("GPU 0 memory").next().is_some());
}

#[test]
fn the_planted_leaks_are_named_with_their_evidence_and_brought_out() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("leaks"));
    wait_for(&mut harness, |harness| harness.query_by_label("Candidates (2)").is_some());
    harness.get_by_label(
        "Memory between steps grows by 512.17 KiB a step, at 2 places; reserved memory grows by 94.00 MiB a step",
    );
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
    harness.get_by_label("Explained (3)").click();
    settle(&mut harness);
    assert!(harness.query_by_label("record (metrics.py:33)").is_none());
}

#[test]
fn every_allocation_can_be_found_by_stack_size_and_state() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("allocations"));
    let n = app(&harness).session().traces()[0].trace.memories[0].allocations.len();
    let all = format!("{} allocations", crate::figures::format::count(n as u64));
    wait_for(&mut harness, |harness| harness.query_by_label_contains(&all).is_some());
    harness.get_by_role_and_label(egui::accesskit::Role::TextInput, "Stack").focus();
    settle(&mut harness);
    type_text(&mut harness, r"metrics\.py:3\d");
    wait_for(&mut harness, |harness| harness.query_by_label_contains("12 of ").is_some());
    harness.get_by_label_contains("4.50 MiB");
    harness.get_by_label("Highlight").click();
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.marked.len(), 12);
    assert!(app(&harness).layout.is_on_screen("memory"));
    // The table and the picture both have it.
    harness.get_all_by_label("Clear highlight").next().unwrap().click();
    settle(&mut harness);
    assert!(app(&harness).session().memory.marked.is_empty());
    harness.get_by_role_and_label(egui::accesskit::Role::TextInput, "Size from").focus();
    settle(&mut harness);
    type_text(&mut harness, "1 MiB");
    wait_for(&mut harness, |harness| harness.query_by_label("No matching allocations").is_some());
}

#[test]
fn with_large_text_the_rows_of_allocations_have_the_room_of_their_tools() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("allocations"));
    let field = |harness: &Harness<'static, Option<App>>| {
        harness.query_by_role_and_label(egui::accesskit::Role::TextInput, "Stack").is_some()
    };
    assert!(field(&harness));
    harness.set_size(egui::vec2(640.0, 360.0));
    settle(&mut harness);
    assert!(!field(&harness));
    let row = harness.get_all_by_label_contains("KiB").map(|row| row.rect()).find(|row| row.top() > 230.0);
    assert!(row.is_some_and(|row| row.bottom() < 345.0), "{row:?}");
    harness.get_by_label("Options").click();
    settle(&mut harness);
    harness.get_by_role_and_label(egui::accesskit::Role::TextInput, "Stack").click();
    settle(&mut harness);
    type_text(&mut harness, r"metrics\.py:3\d");
    wait_for(&mut harness, |harness| harness.query_by_label_contains("12 of ").is_some());
}

#[test]
fn details_describe_an_allocation_in_full() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("allocations"));
    let all = &app(&harness).session().traces()[0].trace.memories[0].allocations;
    let id = all.ids().find(|id| all.bytes[id.idx()] == 393_216 && all.start[id.idx()] > 0).unwrap();
    app_mut(&mut harness).session.selection = Selection::Allocation { trace: 0, memory: 0, id };
    settle(&mut harness);
    harness.get_by_label("Allocation of 384.00 KiB");
    harness.get_by_label("Allocated at, innermost first");
    let frames = || {
        let stacks = &app(&harness).session().traces()[0].trace;
        let stack = stacks.memories[0].allocations.stack[id.idx()];
        stacks.stacks.frames(stack).map(|frame| stacks.strings.get(frame).to_owned()).collect::<Vec<_>>()
    };
    let front = crate::analysis::memory::labels::n_in_front(&frames());
    assert!(front > 0, "{:?}", frames());
    harness.get_by_label_contains(&format!("{front} frame"));
    assert!(harness.query_by_label(&frames()[0]).is_none(), "folded");
    harness.get_by_label(&frames()[front]);
    harness.get_by_label_contains("Not before the recording ended");
    harness.get_by_label("Show on the timeline").click();
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("timeline"));
    // Closing the trace takes the selection and what is looked at along.
    app_mut(&mut harness).commands.push(Command::CloseAll);
    settle(&mut harness);
    assert_eq!(app(&harness).session().selection, Selection::None);
    assert_eq!(app(&harness).session().memory, Default::default());
}

#[test]
fn the_moment_is_moved_event_by_event_and_the_map_follows() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("live-memory"));
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
    let base = focus.base.as_ref().map(|base| base.state);
    assert_eq!((base, focus.moment.is_some_and(|state| state < last)), (Some(last), true));
}

#[test]
fn want_of_memory_is_explained() {
    let mut harness = show("snapshot_oom.pickle", Command::Show("reserved"));
    wait_for(&mut harness, |harness| harness.query_by_label("Out of memory: 96.00 MiB requested").is_some());
    harness.get_by_label("expandable_segments:True");
    harness.get_by_label(
        "Fragmentation: 96.00 MiB requested. 645.95 MiB were unused in the segments that could serve it, in ranges of at most \
         93.00 MiB; 3.89 MiB in other pools, streams or size classes; 14.00 MiB were free on the device. The largest piece that could serve it was 93.00 MiB in reserved memory (14.00 MiB on the device): 3.00 MiB too small; if all free \
         memory were one piece, it would have been enough",
    );
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
    window.commands.extend([Command::Show("memory-state"), Command::CloseTraceAt(1)]);
    settle(&mut harness);
    let session = app(&harness).session();
    assert_eq!(session.memory.history, Some((1, 0)));
    assert_eq!(session.selection, Selection::Allocation { trace: 1, memory: 0, id: AllocationId(3) });
    // A row refers to its trace by the index that the trace has now.
    app_mut(&mut harness).commands.push(Command::Show("allocations"));
    wait_for(&mut harness, |harness| harness.query_by_label("Size, descending").is_some());
    app_mut(&mut harness).commands.push(Command::CloseTraceAt(0));
    settle(&mut harness);
    wait_for(&mut harness, |harness| harness.query_by_label("Size, descending").is_some());
    harness.get_by_role_and_label(egui::accesskit::Role::Table, "Allocations").focus();
    settle(&mut harness);
    harness.key_press(Key::Home);
    settle(&mut harness);
    let selected = app(&harness).session().selection;
    assert!(matches!(selected, Selection::Allocation { trace: 0, .. }), "{selected:?}");
    app_mut(&mut harness).commands.push(Command::FocusSelection);
    settle(&mut harness);
}

#[test]
fn what_is_closed_is_let_go_by_views_that_are_not_on_show() {
    let mut harness = harness(vec![sample("kineto_10_steps.json.gz"), sample("snapshot_leak.pickle")]);
    let session = &mut app_mut(&mut harness).session;
    session.range = Some(session.span());
    let kinds = &session.traces()[0].trace.slices.kind;
    let kernel = SliceId(kinds.iter().position(|&kind| kind == SliceKind::Kernel).unwrap() as u32);
    session.selection = Selection::Slice { trace: 0, slice: kernel };
    for spec in VIEWS {
        app_mut(&mut harness).commands.push(Command::Show(spec.id));
        settle(&mut harness);
        wait_for(&mut harness, |harness| !is_pending(app(harness)));
    }
    let traces: Vec<_> = app(&harness).session().traces().iter().map(|open| Arc::downgrade(&open.trace)).collect();
    app_mut(&mut harness).commands.push(Command::CloseAll);
    wait_for(&mut harness, |_| traces.iter().all(|trace| trace.upgrade().is_none()));
}

pub fn is_pending(app: &App) -> bool {
    app.views.iter().any(|slot| slot.view.is_pending())
}

#[test]
fn an_allocation_selected_before_its_table_is_there_has_the_cursor() {
    let mut harness = harness(vec![sample("snapshot_leak.pickle")]);
    let all = &app(&harness).session().traces()[0].trace.memories[0].allocations;
    let mut by_size: Vec<AllocationId> = all.ids().collect();
    by_size.sort_by_key(|id| std::cmp::Reverse(all.bytes[id.idx()]));
    app_mut(&mut harness).session.selection = Selection::Allocation { trace: 0, memory: 0, id: by_size[40] };
    app_mut(&mut harness).commands.push(Command::Show("allocations"));
    wait_for(&mut harness, |harness| harness.query_by_label_contains("allocations, ").is_some());
    wait_for(&mut harness, |harness| harness.query_by_label("Size, descending").is_some());
    harness.get_by_role_and_label(egui::accesskit::Role::Table, "Allocations").focus();
    settle(&mut harness);
    harness.key_press(Key::ArrowDown);
    settle(&mut harness);
    let selected = app(&harness).session().selection;
    assert_eq!(selected, Selection::Allocation { trace: 0, memory: 0, id: by_size[41] });
}

#[test]
fn keys_in_the_state_of_memory_move_nothing_else() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("live-memory"));
    let before = app(&harness).session().navigation.visible();
    let id = AllocationId(30);
    let start = app(&harness).session().traces()[0].trace.memories[0].allocations.start[id.idx()];
    app_mut(&mut harness).session.memory.moment = Some(0);
    app_mut(&mut harness).session.selection = Selection::Allocation { trace: 0, memory: 0, id };
    for key in [Key::ArrowLeft, Key::Backspace, Key::F] {
        harness.key_press(key);
        settle(&mut harness);
    }
    assert_eq!(app(&harness).session().navigation.visible(), before);
    assert_eq!(app(&harness).session().memory.moment, Some(start), "the moment at which it is there");
    harness.key_press(Key::M);
    settle(&mut harness);
    let marked = app(&harness).session().marks[0].range.start;
    let session = app(&harness).session();
    let moment = session.traces()[0].trace.memories[0].time_of(start) + session.traces()[0].offset;
    assert_eq!(marked, moment);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::C);
    settle(&mut harness);
    for is_left in [Selection::Allocation { trace: 0, memory: 0, id }, Selection::None] {
        assert_eq!(app(&harness).session().selection, is_left);
        harness.key_press(Key::Escape);
        settle(&mut harness);
    }
    assert_eq!(app(&harness).session().memory.moment, None);
}

#[test]
fn the_map_is_enlarged_around_the_pointer_and_no_farther_than_it_can_be() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("leaks"));
    wait_for(&mut harness, |harness| harness.query_by_label("Map of the allocator's memory").is_some());
    let before = harness.get_by_label("Map of the allocator's memory").rect();
    let pos = before.center();
    harness.event(Event::PointerMoved(pos));
    settle(&mut harness);
    let turn = |harness: &mut Harness<'static, Option<App>>, factor: f32| {
        harness.event(Event::Zoom(factor));
        settle(harness);
        wait_for(harness, |harness| !is_pending(app(harness)));
        settle(harness);
        harness.get_by_label("Map of the allocator's memory").rect()
    };
    let near = turn(&mut harness, 4.0);
    let share = |rect: egui::Rect| (pos.y - rect.top()) / rect.height();
    assert!(near.height() > before.height() * 2.0 && near.top() < before.top(), "{near:?} of {before:?}");
    // Rows are cut anew, and headings keep their height.
    assert!((share(near) - share(before)).abs() < 0.25, "{near:?} of {before:?}");
    let nearest = (0..12).map(|_| turn(&mut harness, 8.0)).last().unwrap();
    let farther = turn(&mut harness, 0.25);
    assert!(farther.height() < nearest.height(), "no turn of the wheel is without effect");
}

#[test]
fn another_moment_keeps_the_way_back_in_the_graph() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("live-memory"));
    let whole = "Flame graph: All live memory";
    wait_for(&mut harness, |harness| harness.query_by_label_contains(whole).is_some());
    let graph = harness.get_by_label_contains(whole).rect();
    let pos = graph.left_top() + egui::vec2(graph.width() * 0.2, 18.0 * 3.0 + 9.0);
    for pressed in [true, false] {
        harness.event(Event::PointerMoved(pos));
        let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
        harness.event(Event::PointerButton { pos, button, pressed, modifiers });
        harness.step();
    }
    settle(&mut harness);
    let title = harness.get_by_label_contains("Flame graph: ").accesskit_node().label().unwrap();
    let frame = title.split(", ").next().unwrap().to_owned();
    assert_ne!(frame, whole);
    let last = app(&harness).session().traces()[0].trace.memories[0].last_state();
    for state in [last - 1, last - 40] {
        app_mut(&mut harness).session.memory.moment = Some(state);
        settle(&mut harness);
        wait_for(&mut harness, |harness| !is_pending(app(harness)));
        harness.get_by_label_contains(&frame);
    }
    harness.key_press(Key::Backspace);
    settle(&mut harness);
    harness.get_by_label_contains(whole);
}

#[test]
fn an_invalid_regular_expression_is_named() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("allocations"));
    harness.get_by_role_and_label(egui::accesskit::Role::TextInput, "Stack").focus();
    settle(&mut harness);
    type_text(&mut harness, "forward(");
    harness.get_by_role_and_label(egui::accesskit::Role::TextInput, "Stack").hover();
    wait_for(&mut harness, |harness| harness.query_by_label_contains("Not a valid regular expression").is_some());
}

#[test]
fn an_out_of_memory_snapshot_opens_on_its_card() {
    let mut harness = harness(Vec::new());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces/snapshot_oom.pickle");
    app_mut(&mut harness).commands.push(Command::OpenPath(path));
    wait_for(&mut harness, |harness| harness.query_by_label("Show the state then").is_some());
    assert!(app(&harness).layout.is_on_screen("memory") && app(&harness).layout.is_on_screen("reserved"));
    // The banner and the status bar say it, and lead back to the card.
    app_mut(&mut harness).commands.push(Command::Show("leaks"));
    settle(&mut harness);
    for label in ["Show why", "Out of memory"] {
        app_mut(&mut harness).commands.push(Command::Show("leaks"));
        settle(&mut harness);
        assert!(!app(&harness).layout.is_on_screen("reserved"));
        harness.get_by_label(label).click();
        settle(&mut harness);
        assert!(app(&harness).layout.is_on_screen("reserved"), "{label}");
    }
}

#[test]
fn a_snapshot_opens_on_all_its_memory_and_who_holds_it() {
    let mut harness = harness(Vec::new());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces/snapshot_leak.pickle");
    app_mut(&mut harness).commands.push(Command::OpenPath(path));
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 1);
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("memory") && app(&harness).layout.is_on_screen("memory-places"));
    let session = app(&harness).session();
    let history = &session.traces()[0].trace.memories[0];
    let shown = session.navigation.visible().shifted(session.traces()[0].offset.saturating_neg());
    assert_eq!(shown.union(history.span), shown);
}

#[test]
fn places_highlight_their_blocks_until_escape() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("memory-places"));
    harness.get_by_label("At the end").click();
    wait_for(&mut harness, |harness| harness.query_by_label_contains("metrics.py:33").is_some());
    harness.get_by_label_contains("metrics.py:33").click();
    settle(&mut harness);
    let history = &app(&harness).session().traces()[0].trace.memories[0];
    let marked = &app(&harness).session().memory.marked;
    let bytes: u64 = marked.iter().map(|id| history.allocations.bytes[id.idx()]).sum();
    assert_eq!(bytes, 12 * 393_216);
    // The first takes the keyboard from the table.
    for _ in 0..2 {
        harness.key_press(Key::Escape);
        settle(&mut harness);
    }
    assert!(app(&harness).session().memory.marked.is_empty());
    harness.get_by_label("Change").click();
    wait_for(&mut harness, |harness| harness.query_by_label_contains("from before the first event").is_some());
}

#[test]
fn actions_of_memory_have_keys_and_need_no_picture() {
    let mut harness = show("snapshot_leak.pickle", Command::Show("leaks"));
    app_mut(&mut harness).commands.push(Command::Show("timeline"));
    settle(&mut harness);
    harness.key_press(Key::P);
    settle(&mut harness);
    let history = &app(&harness).session().traces()[0].trace.memories[0];
    assert_eq!(app(&harness).session().memory.moment, Some(history.curves.fullest()));
    harness.key_press(Key::B);
    settle(&mut harness);
    let focus = &app(&harness).session().memory;
    assert_eq!(focus.base.as_ref().map(|base| base.state), focus.moment);
    harness.key_press_modifiers(Modifiers::SHIFT, Key::B);
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.base, None);
    app_mut(&mut harness).session.memory.moment = Some(0);
    harness.key_press_modifiers(Modifiers::SHIFT, Key::P);
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("memory-state") && app(&harness).session().memory.moment > Some(0));
}

#[test]
fn the_line_at_the_bottom_tells_how_much_the_view_in_front_shows() {
    let mut harness = harness(["snapshot_leak.pickle", "snapshot_oom.pickle"].map(sample).into());
    let visible_in = |harness: &mut Harness<'static, Option<App>>, memory: usize, view: &'static str| {
        app_mut(harness).commands.push(Command::Show(view));
        app_mut(harness).session.memory.show(memory, 0);
        wait_for(harness, |harness| app(harness).layout.is_on_screen(view));
        wait_for(harness, |harness| harness.query_by_label_contains(" visible").is_some());
        settle(harness);
        let session = app(harness).session();
        let recorded = session.navigation.visible().intersect(session.span()).unwrap_or_default();
        let of_all = format!("{} visible", format::duration(recorded.dur()));
        (harness.get_by_label_contains(" visible").accesskit_node().value().unwrap_or_default(), of_all)
    };
    let (timeline, of_all) = visible_in(&mut harness, 0, "timeline");
    assert_eq!(timeline, of_all);
    let (shared, of_all) = visible_in(&mut harness, 0, "memory");
    assert_eq!(shared, of_all, "on the axis of all");
    // Panned past the end, what lies there is no part of the recording.
    let whole = app(&harness).session().navigation.visible();
    app_mut(&mut harness).session.navigation.glide(whole.shifted(whole.dur() / 4));
    for view in ["timeline", "memory"] {
        let (panned, of_recorded) = visible_in(&mut harness, 0, view);
        assert_eq!(panned, of_recorded, "{view}");
        assert_ne!(panned, of_all, "{view}");
    }
    app_mut(&mut harness).session.navigation.glide(whole);
    app_mut(&mut harness).commands.push(Command::ToggleEventsAxis);
    settle(&mut harness);
    let [leak, oom] = [0, 1].map(|memory| visible_in(&mut harness, memory, "memory").0);
    let n_events = |memory: usize| {
        let history = &app(&harness).session().traces()[memory].trace.memories[0];
        format!("{} events visible", format::count(history.events.len() as u64))
    };
    assert_eq!((leak, oom), (n_events(0), n_events(1)));
}
