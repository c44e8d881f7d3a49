//! The timeline, driven by the names of its controls, keys and the pointer.

mod arrangement;
mod marks;
mod step_rows;
mod walks;

use eframe::egui::{self, Event, Key, Modifiers, MouseWheelUnit, PointerButton, Pos2, TouchPhase, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::{OffScreen, Timeline};
use crate::command::Command;
use crate::model::{ProcessId, SliceId, SliceKind, TimeRange, Trace, TraceBuilder, TraceInfo};
use crate::session::{GapOrder, Selection};
use crate::view::View as _;
use crate::view::fixture::Fixture;

const OP: SliceKind = SliceKind::Operator;
const CALL: SliceKind = SliceKind::Runtime;
const KERNEL: SliceKind = SliceKind::Kernel;

fn small() -> Trace {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", OP, "aten::mm", 0, 500_000),
        ("main", CALL, "cudaLaunchKernel", 100_000, 120_000),
        ("stream 7", KERNEL, "gemm", 400_000, 700_000),
        ("stream 7", KERNEL, "relu", 800_000, 1_000_000),
    ]);
    builder.slices[0].correlation = vec![0, 5, 5, 0];
    builder.finish()
}

fn harness(traces: Vec<Trace>) -> Harness<'static, Fixture<Timeline>> {
    // Steps short enough that two clicks are a double click.
    let builder = Harness::builder().with_size(vec2(1200.0, 600.0)).with_step_dt(1.0 / 60.0).with_max_steps(200);
    let fixture = Fixture::new(traces, Timeline::default());
    let mut harness = builder.build_ui_state(|ui, fixture| fixture.ui(ui), fixture);
    harness.run();
    harness
}

/// Where the middle of a slice is on screen, on row `row` of the canvas, the first line's height
/// of a group included.
fn place(harness: &Harness<'_, Fixture<Timeline>>, title: &str, slice: u32) -> Pos2 {
    let fixture = harness.state();
    let canvas = harness.get_by_label("Timeline canvas").rect();
    let trace = &fixture.session.traces()[0].trace;
    let time = trace.slices.time(SliceId(slice));
    let depth = trace.slices.rows[trace.slices.row_of(SliceId(slice))].depth;
    let line = fixture.view.tracks.scrolled.iter().find(|line| line.title == title).unwrap();
    let view = fixture.session.navigation.visible();
    let share = ((time.start + time.end) / 2 - view.start) as f32 / view.dur() as f32;
    let y = canvas.top() + line.y as f32 + depth as f32 * line.row_height + 13.0;
    Pos2::new(canvas.left() + share * canvas.width(), y)
}

fn button(
    harness: &mut Harness<'_, Fixture<Timeline>>,
    pos: Pos2,
    button: PointerButton,
    pressed: bool,
    modifiers: Modifiers,
) {
    harness.event_modifiers(Event::PointerButton { pos, button, pressed, modifiers }, modifiers);
}

fn drag(
    harness: &mut Harness<'_, Fixture<Timeline>>,
    from: Pos2,
    to: Pos2,
    which: PointerButton,
    modifiers: Modifiers,
) {
    harness.event(Event::PointerMoved(from));
    harness.step();
    button(harness, from, which, true, modifiers);
    harness.step();
    for share in [0.5, 1.0] {
        harness.event_modifiers(Event::PointerMoved(from + (to - from) * share), modifiers);
        harness.step();
    }
    button(harness, to, which, false, modifiers);
    harness.run();
}

fn click(harness: &mut Harness<'_, Fixture<Timeline>>, at: Pos2) {
    harness.event(Event::PointerMoved(at));
    harness.step();
    button(harness, at, PointerButton::Primary, true, Modifiers::NONE);
    button(harness, at, PointerButton::Primary, false, Modifiers::NONE);
    harness.run();
}

fn wheel(harness: &mut Harness<'_, Fixture<Timeline>>, at: Pos2, delta: egui::Vec2, modifiers: Modifiers) {
    harness.event(Event::PointerMoved(at));
    harness.step();
    let (unit, phase) = (MouseWheelUnit::Point, TouchPhase::Move);
    harness.event_modifiers(
        Event::MouseWheel { unit, delta, phase, source: egui::MouseWheelSource::Wheel, modifiers },
        modifiers,
    );
    harness.run_steps(30);
}

#[test]
fn a_click_selects_the_slice_and_a_click_on_nothing_deselects() {
    let mut harness = harness(vec![small()]);
    let gemm = place(&harness, "stream 7", 2);
    click(&mut harness, gemm);
    assert_eq!(harness.state().selected_name(), "gemm");
    let call = place(&harness, "main", 1);
    click(&mut harness, call);
    assert_eq!(harness.state().selected_name(), "cudaLaunchKernel");
    click(&mut harness, gemm + vec2(0.0, 200.0));
    assert_eq!(harness.state().session.selection, Selection::None);
}

#[test]
fn groups_collapse_and_tracks_are_pinned_by_their_buttons() {
    let mut harness = harness(vec![small()]);
    harness.get_by_label("Collapse GPU 0").click();
    harness.run();
    assert!(harness.query_by_label("Pin stream 7").is_none());
    harness.get_by_label("Expand GPU 0").click();
    harness.run();
    harness.get_by_label("Pin stream 7").click();
    harness.run();
    assert_eq!(harness.state().view.settings.pinned.len(), 1);
    let canvas = harness.get_by_label("Timeline canvas").rect();
    assert!(harness.get_by_label("Unpin stream 7, GPU 0").rect().top() < canvas.top() + 20.0);
    harness.get_by_label("Unpin stream 7, GPU 0").click();
    harness.run();
    harness.get_by_label("Collapse main").click();
    harness.run();
    harness.get_by_label("Expand main");
}

#[test]
fn the_filter_is_a_text_field_and_typing_does_not_move_the_view() {
    let mut harness = harness(vec![small()]);
    let before = harness.state().session.navigation.visible();
    harness.get_by_label("Filter tracks").focus();
    harness.run();
    harness.get_by_label("Filter tracks").type_text("stream");
    harness.key_down(Key::W);
    harness.run();
    harness.key_up(Key::W);
    harness.run();
    assert!(harness.query_by_label("Collapse python").is_none());
    harness.get_by_label("Pin stream 7");
    assert_eq!(harness.state().session.navigation.visible(), before);
}

#[test]
fn a_filter_keeps_the_keys_when_nothing_fits_it_any_more() {
    let mut harness = harness(vec![small()]);
    let before = harness.state().session.navigation.visible();
    harness.get_by_label("Filter tracks").focus();
    harness.run();
    // As a keyboard does it: to what has the focus, each key in a frame of its own.
    for letter in "stream wq".chars() {
        let key = Key::from_name(&letter.to_string());
        key.into_iter().for_each(|key| harness.key_down(key));
        harness.event(Event::Text(letter.to_string()));
        harness.run();
        key.into_iter().for_each(|key| harness.key_up(key));
        harness.run();
    }
    harness.get_by_label_contains("No track has “stream wq” in its name");
    assert_eq!(harness.get_by_label("Filter tracks").value().as_deref(), Some("stream wq"));
    assert!(harness.get_by_label("Filter tracks").is_focused());
    assert_eq!(harness.state().session.navigation.visible(), before, "w and q are text");
    harness.key_press(Key::Escape);
    harness.run();
    harness.run();
    assert_eq!(harness.get_by_label("Filter tracks").value().unwrap_or_default(), "", "Escape clears it");
    harness.get_by_label("Pin stream 7");
}

#[test]
fn a_filter_that_fits_nothing_says_so_and_hidden_tracks_come_back() {
    let mut harness = harness(vec![small()]);
    harness.get_by_label("Filter tracks").focus();
    harness.run();
    harness.get_by_label("Filter tracks").type_text("nowhere");
    harness.run();
    harness.get_by_label_contains("No track has “nowhere” in its name");
    harness.get_by_label("Clear filter").click();
    harness.run();
    // What is pinned stays.
    harness.get_by_label("Pin stream 7").click();
    harness.run();
    harness.state_mut().view.set_filter("nowhere");
    harness.run();
    harness.get_by_label_contains("No track that is not pinned has “nowhere” in its name");
    harness.get_by_label("Unpin stream 7, GPU 0").click();
    harness.run();
    harness.get_by_label("Clear filter").click();
    harness.run();
    harness.get_by_label("Pin stream 7");
    let key = harness.state().view.tracks.scrolled[1].key.clone();
    harness.state_mut().view.settings.hidden.insert(key);
    harness.state_mut().view.is_stale = true;
    harness.run();
    assert_eq!(harness.state().view.off_screen().n_hidden, 1);
    harness.state_mut().run(&Command::ShowHiddenTracks);
    harness.run();
    assert_eq!(harness.state().view.off_screen(), OffScreen::default());
}

#[test]
fn dragged_ranges_snap_to_edges_on_the_tracks_and_work_on_the_ruler() {
    let mut harness = harness(vec![small()]);
    let [gemm, relu] = [2, 3].map(|slice| place(&harness, "stream 7", slice));
    let view = harness.state().session.navigation.visible();
    let canvas = harness.get_by_label("Timeline canvas").rect();
    let x = |ts: i64| canvas.left() + (ts - view.start) as f32 / view.dur() as f32 * canvas.width();
    let [from, to] = [x(400_000) + 3.0, x(1_000_000) - 4.0].map(|x| Pos2::new(x, gemm.y));
    drag(&mut harness, from, to, PointerButton::Primary, Modifiers::NONE);
    let range = TimeRange { start: 400_000, end: 1_000_000 };
    assert_eq!(harness.state().session.range, Some(range));
    assert!(harness.state().commands.contains(&Command::ShowRange(range)));
    harness.state_mut().session.range = None;
    drag(&mut harness, from, to, PointerButton::Primary, Modifiers::COMMAND);
    let free = harness.state().session.range.unwrap();
    assert!(free.start > 400_000 && free.end < 1_000_000, "{free:?}");
    harness.state_mut().session.range = None;
    let ruler = harness.get_by_label("Timeline ruler").rect().center().y;
    let [from, to] = [gemm.x, relu.x].map(|x| Pos2::new(x, ruler));
    drag(&mut harness, from, to, PointerButton::Primary, Modifiers::NONE);
    let on_ruler = harness.state().session.range.unwrap();
    assert!((on_ruler.start - 550_000).abs() < 5_000 && (on_ruler.end - 900_000).abs() < 5_000, "{on_ruler:?}");
    harness.state_mut().session.range = None;
    let [from, to] = [x(400_000) + 3.0, x(1_000_000) - 4.0].map(|x| Pos2::new(x, ruler));
    drag(&mut harness, from, to, PointerButton::Primary, Modifiers::NONE);
    assert_eq!(harness.state().session.range, Some(range), "with nothing selected it takes all rows on screen");
    harness.state_mut().session.range = None;
    harness.state_mut().session.selection = Selection::Slice { trace: 0, slice: SliceId(3) };
    let [from, to] = [x(400_000) + 3.0, x(700_000) - 3.0].map(|x| Pos2::new(x, ruler));
    drag(&mut harness, from, to, PointerButton::Primary, Modifiers::NONE);
    let beside = Some(TimeRange { start: 400_000, end: 700_000 });
    assert_eq!(harness.state().session.range, beside, "the ruler takes the row of the selected slice");
}

#[test]
fn dragged_ranges_on_the_ruler_and_over_the_steps_snap_to_steps() {
    let steps = (0..6).map(|i| (format!("ProfilerStep#{i}"), i * 1_000_000));
    let all: Vec<_> = steps.collect();
    let mut slices: Vec<_> = all.iter().map(|(name, at)| ("main", OP, name.as_str(), *at, at + 900_000)).collect();
    slices.push(("stream 7", KERNEL, "gemm", 100_000, 5_700_000));
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    let view = harness.state().session.navigation.visible();
    let ruler = harness.get_by_label("Timeline ruler").rect();
    let x = |ts: i64| ruler.left() + (ts - view.start) as f32 / view.dur() as f32 * ruler.width();
    let steps = harness.get_by_label("Steps on the timeline").rect().center().y;
    for y in [ruler.top() + 5.0, steps] {
        harness.state_mut().session.range = None;
        let [from, to] = [x(2_000_000) + 3.0, x(3_900_000) - 4.0].map(|x| Pos2::new(x, y));
        drag(&mut harness, from, to, PointerButton::Primary, Modifiers::NONE);
        assert_eq!(harness.state().session.range, Some(TimeRange { start: 2_000_000, end: 3_900_000 }), "at {y}");
    }
    click(&mut harness, Pos2::new(x(4_400_000), steps));
    assert_eq!(harness.state().session.range, Some(TimeRange { start: 4_000_000, end: 4_900_000 }), "a click chooses");
}

#[test]
fn headings_stay_while_their_rows_scroll() {
    let mut names: Vec<String> = (0..40).map(|i| format!("thread {i}")).collect();
    names.extend((0..40).map(|i| format!("stream {i}")));
    let slices: Vec<_> = names.iter().map(|name| (name.as_str(), OP, "op", 0, 100)).collect();
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    let canvas = harness.get_by_label("Timeline canvas").rect();
    let top = |harness: &Harness<'_, Fixture<Timeline>>, name: &str| {
        harness.query_by_label(name).map(|heading| heading.rect().top() - canvas.top())
    };
    assert!(top(&harness, "Collapse python").is_some_and(|top| top >= 0.0));
    harness.state_mut().view.scroll[1] = 300.0;
    harness.run();
    assert!(top(&harness, "Collapse python").is_some_and(|top| (0.0..10.0).contains(&top)));
    let next = harness.state().view.tracks.scrolled.iter().rfind(|line| line.is_heading()).map(|line| line.y).unwrap();
    harness.state_mut().view.scroll[1] = next - 8.0;
    harness.run();
    assert!(top(&harness, "Collapse python").is_none_or(|top| top < 0.0), "the next heading pushes it away");
    harness.state_mut().view.scroll[1] = next + 100.0;
    harness.run();
    assert!(top(&harness, "Collapse python").is_none());
}

#[test]
fn held_keys_zoom_and_pan_and_undo_takes_one_step() {
    let mut harness = harness(vec![small()]);
    let before = harness.state().session.navigation.visible();
    harness.key_down(Key::W);
    harness.run_steps(5);
    harness.key_up(Key::W);
    harness.run();
    let zoomed = harness.state().session.navigation.visible();
    assert!(zoomed.dur() < before.dur());
    harness.run_steps(3);
    assert_eq!(harness.state().session.navigation.visible(), zoomed, "released");
    harness.state_mut().run(&Command::UndoZoom);
    assert_eq!(harness.state().session.navigation.visible(), before);
    harness.state_mut().run(&Command::RedoZoom);
    assert_eq!(harness.state().session.navigation.visible(), zoomed);
}

#[test]
fn keys_work_while_a_tooltip_is_open() {
    let mut harness = harness(vec![small()]);
    let gemm = place(&harness, "stream 7", 2);
    harness.event(Event::PointerMoved(gemm));
    harness.run_steps(4);
    assert!(harness.query_by_label_contains("Kernel on stream 7").is_some());
    assert!(harness.query_by_label_contains("Launched by cudaLaunchKernel, queue time 280.000 µs").is_some());
    let before = harness.state().session.navigation.visible();
    let share = |view: TimeRange| (550_000 - view.start) as f64 / view.dur() as f64;
    harness.key_down(Key::W);
    harness.run_steps(6);
    harness.key_up(Key::W);
    harness.run();
    let after = harness.state().session.navigation.visible();
    assert!(after.dur() < before.dur());
    assert!((share(after) - share(before)).abs() < 0.001, "zoomed at the pointer");
}

#[test]
fn free_space_says_how_long_it_is_and_is_selected_by_a_double_click() {
    let mut harness = harness(vec![small()]);
    let [gemm, relu] = [2, 3].map(|slice| place(&harness, "stream 7", slice));
    let view = harness.state().session.navigation.visible();
    let canvas = harness.get_by_label("Timeline canvas").rect();
    let x = canvas.left() + (750_000 - view.start) as f32 / view.dur() as f32 * canvas.width();
    assert!(gemm.x < x && x < relu.x);
    let at = Pos2::new(x, gemm.y);
    click(&mut harness, at);
    assert!(harness.query_by_label_contains("Nothing runs on this stream for 100.000 µs (100,000 ns)").is_some());
    click(&mut harness, at);
    assert_eq!(harness.state().session.range, Some(TimeRange { start: 700_000, end: 800_000 }));
}

#[test]
fn the_context_menu_acts_on_what_was_clicked() {
    let mut harness = harness(vec![small()]);
    let gemm = place(&harness, "stream 7", 2);
    harness.event(Event::PointerMoved(gemm));
    harness.step();
    button(&mut harness, gemm, PointerButton::Secondary, true, Modifiers::NONE);
    button(&mut harness, gemm, PointerButton::Secondary, false, Modifiers::NONE);
    harness.run();
    assert_eq!(harness.state().selected_name(), "gemm");
    harness.get_by_label("Select time range").click();
    harness.run();
    assert_eq!(harness.state().session.range, Some(TimeRange { start: 400_000, end: 700_000 }));
}

#[test]
fn copied_names_have_no_control_characters() {
    let slices = [("stream 7", KERNEL, "gemm\u{1b}[2J", 0, 1_000)];
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    let gemm = place(&harness, "stream 7", 0);
    harness.event(Event::PointerMoved(gemm));
    harness.step();
    button(&mut harness, gemm, PointerButton::Secondary, true, Modifiers::NONE);
    button(&mut harness, gemm, PointerButton::Secondary, false, Modifiers::NONE);
    harness.run();
    harness.get_by_label("Copy name").click();
    harness.step();
    let commands = &harness.output().platform_output.commands;
    let text = commands.iter().find_map(|command| match command {
        egui::OutputCommand::CopyText(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(text, Some(r"gemm\u{1b}[2J"));
}

#[test]
fn labels_are_dragged_to_another_place() {
    let slices =
        [("stream 7", KERNEL, "a", 0, 10), ("stream 9", KERNEL, "b", 0, 10), ("stream 20", KERNEL, "c", 0, 10)];
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    let order = |harness: &Harness<'_, Fixture<Timeline>>| {
        let lines = &harness.state().view.tracks.scrolled;
        lines.iter().skip(1).map(|line| line.title.clone()).collect::<Vec<_>>()
    };
    assert_eq!(order(&harness), ["stream 7", "stream 9", "stream 20"]);
    // The label is left of its pin.
    let label = |harness: &Harness<'_, Fixture<Timeline>>, name: &str| {
        harness.get_by_label(name).rect().left_center() - vec2(60.0, 0.0)
    };
    let [from, to] = ["Pin stream 20", "Pin stream 7"].map(|name| label(&harness, name));
    drag(&mut harness, from, to, PointerButton::Primary, Modifiers::NONE);
    assert_eq!(order(&harness), ["stream 20", "stream 7", "stream 9"]);
}

#[test]
fn two_ranks_are_two_groups_on_one_clock() {
    let of_rank = |rank: u32| {
        let info =
            TraceInfo { rank: Some(rank), utc_offset_ns: Some(i64::from(rank) * 1_000_000), ..Default::default() };
        Trace { info, ..small() }
    };
    let mut harness = harness(vec![of_rank(0), of_rank(1)]);
    harness.get_by_label_contains("Collapse Rank 0").click();
    harness.run();
    assert_eq!(harness.query_all_by_label("Pin stream 7").count(), 1);
    let gemm = place(&harness, "stream 7", 2);
    let view = harness.state().session.navigation.visible();
    let shift = 1_000_000.0 / view.dur() as f32 * harness.get_by_label("Timeline canvas").rect().width();
    click(&mut harness, gemm + vec2(shift, 0.0));
    assert_eq!(harness.state().session.selection, Selection::Slice { trace: 1, slice: SliceId(2) });
}

#[test]
fn the_wheel_zooms_at_the_pointer_with_ctrl_and_pans_with_shift() {
    let mut harness = harness(vec![small()]);
    let canvas = harness.get_by_label("Timeline canvas").rect();
    let at = Pos2::new(canvas.left() + canvas.width() * 0.25, canvas.center().y);
    let moment = |view: TimeRange| view.start as f64 + view.dur() as f64 * 0.25;
    let before = harness.state().session.navigation.visible();
    wheel(&mut harness, at, vec2(0.0, 200.0), Modifiers::CTRL);
    let zoomed = harness.state().session.navigation.visible();
    assert!(zoomed.dur() < before.dur(), "{zoomed:?}");
    assert!((moment(zoomed) - moment(before)).abs() <= 20.0, "{zoomed:?} {before:?}");
    wheel(&mut harness, at, vec2(0.0, -100.0), Modifiers::SHIFT);
    let panned = harness.state().session.navigation.visible();
    assert_eq!(panned.dur(), zoomed.dur());
    assert!(panned.start > zoomed.start);
}

#[test]
fn drags_select_a_range_pan_and_zoom() {
    let mut harness = harness(vec![small()]);
    let canvas = harness.get_by_label("Timeline canvas").rect();
    let [a, b] = [0.2, 0.6].map(|x| Pos2::new(canvas.left() + canvas.width() * x, canvas.center().y));
    let before = harness.state().session.navigation.visible();
    drag(&mut harness, a, b, PointerButton::Primary, Modifiers::NONE);
    let range = harness.state().session.range.unwrap();
    assert!((range.dur() as f64 / before.dur() as f64 - 0.4).abs() < 0.01, "{range:?}");
    assert_eq!(harness.state().session.navigation.visible(), before);

    let further = b + vec2(100.0, 0.0);
    drag(&mut harness, b, further, PointerButton::Primary, Modifiers::NONE);
    let wider = harness.state().session.range.unwrap();
    assert_eq!(wider.start, range.start, "the edge was dragged");
    assert!(wider.end > range.end);

    drag(&mut harness, b, a, PointerButton::Middle, Modifiers::NONE);
    let panned = harness.state().session.navigation.visible();
    assert!((panned.start - before.start) as f64 / before.dur() as f64 > 0.38, "{panned:?}");
    assert_eq!(panned.dur(), before.dur());
    harness.state_mut().run(&Command::UndoZoom);

    drag(&mut harness, a, b, PointerButton::Primary, Modifiers::ALT);
    let zoomed = harness.state().session.navigation.visible();
    assert!((zoomed.dur() as f64 / before.dur() as f64 - 0.4).abs() < 0.01, "{zoomed:?}");
}

#[test]
fn a_million_slices_are_few_shapes_at_every_zoom() {
    let names: Vec<String> = (0..60).map(|i| format!("stream {i}")).collect();
    let slice = |i: i64| (names[i as usize % 60].as_str(), KERNEL, "gemm", i * 10, i * 10 + 400);
    let slices: Vec<_> = (0..1_000_000).map(slice).collect();
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    for _ in 0..24 {
        harness.state_mut().run(&Command::ZoomIn);
        harness.run();
        let primitives = harness.ctx.tessellate(harness.output().shapes.clone(), 1.0);
        let vertices = |primitive: &egui::ClippedPrimitive| match &primitive.primitive {
            egui::epaint::Primitive::Mesh(mesh) => mesh.vertices.len(),
            egui::epaint::Primitive::Callback(_) => 0,
        };
        let n: usize = primitives.iter().map(vertices).sum();
        let bound = 1000 / 3 * 30 * 4 + 60_000;
        assert!(n < bound, "{n} vertices");
    }
}

#[test]
fn any_size_and_content_is_drawn() {
    for size in [vec2(0.0, 0.0), vec2(130.0, 90.0), vec2(60.0, 900.0)] {
        for trace in [Trace::default(), small()] {
            let fixture = Fixture::new(vec![trace], Timeline::default());
            let mut harness = Harness::builder().with_size(size).build_ui_state(|ui, fixture| fixture.ui(ui), fixture);
            harness.run_steps(3);
        }
    }
}
