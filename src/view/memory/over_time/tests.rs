//! Memory over time, driven by the names of its controls, keys and the pointer.

mod beside;
mod lifetime;
mod moment;
mod picture;

use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui::{Event, Modifiers, MouseWheelSource, MouseWheelUnit, PointerButton, Pos2, Shape, TouchPhase, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::axis::UNITS;
use super::*;
use crate::analysis::memory::fixture::Script;
use crate::model::memory::{
    AllocationId, BlockState, MemoryAction, MemoryEvent, MemoryPool, OutOfMemory, RawBlock, RawMemory, RawSegment,
};
use crate::model::{StackId, TraceBuilder};
use crate::session::{OpenMemory, Selection};
use crate::view::fixture::Fixture;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Blocks of any size that live for any time, on two streams, at uneven moments.
fn random(n_events: usize, has_time: bool) -> TraceBuilder {
    let mut builder = TraceBuilder::default();
    let mut random = Random(11);
    let mut raw = RawMemory { has_time, ..RawMemory::default() };
    let pools = [0, 7].map(|stream| raw.pool(MemoryPool { stream, ..MemoryPool::default() }));
    let frame = builder.strings.intern("forward (/home/me/model.py:9)");
    let stack = builder.stacks.intern(StackId(0), frame);
    let (mut live, mut ts, mut addr) = (Vec::new(), 0, 1_u64 << 20);
    while raw.events.len() < n_events {
        ts += random.below(50) as i64 * random.below(50) as i64;
        let pool = pools[random.below(2) as usize];
        let mut push = |action, addr, bytes| raw.events.push(MemoryEvent { ts, action, addr, bytes, pool, stack });
        if live.len() < 200 && random.below(100) < 55 {
            let bytes = 512 << random.below(12);
            push(MemoryAction::Alloc, addr, bytes);
            live.push((addr, bytes));
            addr += bytes;
        } else if !live.is_empty() {
            let (addr, bytes) = live.swap_remove(random.below(live.len() as u64) as usize);
            push(MemoryAction::FreeRequested, addr, bytes);
            if random.below(2) == 0 {
                push(MemoryAction::FreeCompleted, addr, bytes);
            }
        }
    }
    builder.memories.push(raw);
    builder
}

fn harness(builder: TraceBuilder) -> Harness<'static, Fixture<MemoryOverTime>> {
    let fixture = Fixture::new(vec![builder.finish()], MemoryOverTime::default());
    let builder = Harness::builder().with_size(vec2(1300.0, 700.0)).with_step_dt(1.0 / 60.0).with_max_steps(400);
    let mut harness = builder.build_ui_state(|ui, fixture| fixture.ui(ui), fixture);
    settle(&mut harness);
    harness
}

/// Runs frames until the picture is there, and the commands that were pushed.
fn settle(harness: &mut Harness<'_, Fixture<MemoryOverTime>>) {
    let started = Instant::now();
    for _ in 0..3 {
        harness.step();
        while harness.state().view.is_pending() {
            assert!(started.elapsed() < Duration::from_secs(60), "still waiting");
            harness.step();
        }
        for command in std::mem::take(&mut harness.state_mut().commands) {
            harness.state_mut().with(|view, ctx| view.run(&command, ctx));
        }
    }
}

/// A block that grows to 1 MiB, in one of many steps, under one of 3 MiB that lives long.
fn stairs() -> TraceBuilder {
    let mut builder = TraceBuilder::default();
    let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
    let pool = raw.pool(MemoryPool::default());
    let frame = builder.strings.intern("forward (/home/me/model.py:9)");
    let stack = builder.stacks.intern(StackId(0), frame);
    let mut push = |ts, action, addr, bytes| raw.events.push(MemoryEvent { ts, action, addr, bytes, pool, stack });
    push(0, MemoryAction::Alloc, 0x1000, 3 << 20);
    push(400, MemoryAction::Alloc, 0x40_0000, 1 << 20);
    push(600, MemoryAction::FreeCompleted, 0x40_0000, 1 << 20);
    push(700, MemoryAction::OutOfMemory, 0, 5 << 30);
    push(1_000, MemoryAction::Snapshot, 0, 0);
    raw.ooms.push(OutOfMemory { event: 3, requested: 5 << 30, device_free: None });
    builder.memories.push(raw);
    builder
}

/// The point of the picture at a moment and an amount.
fn at(harness: &Harness<'_, Fixture<MemoryOverTime>>, ts: i64, bytes: f32) -> Pos2 {
    let rect = harness.get_by_label("Memory picture").rect();
    let view = harness.state().session.navigation.visible();
    let x = rect.left() + (ts - view.start) as f32 / view.dur() as f32 * rect.width();
    let top = (4_u64 << 20) as f32 * 1.04;
    Pos2::new(x, rect.bottom() - bytes / top * rect.height())
}

fn click(harness: &mut Harness<'_, Fixture<MemoryOverTime>>, pos: Pos2, button: PointerButton) {
    harness.event(Event::PointerMoved(pos));
    harness.step();
    for pressed in [true, false] {
        harness.event(Event::PointerButton { pos, button, pressed, modifiers: Modifiers::NONE });
        harness.step();
    }
    settle(harness);
}

#[test]
fn the_block_under_the_pointer_is_named_and_selected() {
    let mut harness = harness(stairs());
    let place = at(&harness, 500, (3.5 * 1_048_576.0) as f32);
    harness.event(Event::PointerMoved(place));
    settle(&mut harness);
    harness.get_by_label("1.00 MiB (1,048,576 B)");
    // Allocated at 400 ns; a point of the picture is about a nanosecond.
    let is_aged = |ns: &i64| harness.query_by_label(&format!("Lifetime 200 ns, age here {ns} ns")).is_some();
    assert!((99..=101).any(|ns| is_aged(&ns)), "the age is that at the pointer");
    harness.get_by_label_contains("Pointer: ");
    harness.get_by_label("forward (/home/me/model.py:9)");
    click(&mut harness, place, PointerButton::Primary);
    assert_eq!(harness.state().session.selection, Selection::Allocation { trace: 0, memory: 0, id: AllocationId(1) });
    let below = at(&harness, 500, (1 << 20) as f32);
    click(&mut harness, below, PointerButton::Primary);
    assert_eq!(harness.state().session.selection, Selection::Allocation { trace: 0, memory: 0, id: AllocationId(0) });
    let beside = at(&harness, 200, (3.5 * 1_048_576.0) as f32);
    click(&mut harness, beside, PointerButton::Primary);
    assert_eq!(harness.state().session.selection, Selection::None);
}

#[test]
fn the_flag_of_a_failed_request_opens_why_it_failed() {
    let mut harness = harness(stairs());
    let flag = "Out of memory: 5.00 GiB requested";
    for label in [flag.to_owned(), format!("{flag}\nClick to see why")] {
        let session = &mut harness.state_mut().session;
        session.memory.moment = None;
        session.navigation.go(TimeRange { start: 0, end: 1_000 });
        settle(&mut harness);
        harness.get_by_label(&label).click();
        harness.step();
        harness.step();
        assert_eq!(harness.state().session.memory.moment, Some(3), "{label}: just before it");
        let commands = std::mem::take(&mut harness.state_mut().commands);
        assert!(commands.contains(&Command::Show("reserved")), "{label}: {commands:?}");
    }
}

#[test]
fn the_menu_leads_to_the_state_and_the_difference() {
    let mut harness = harness(stairs());
    let place = at(&harness, 500, (3.5 * 1_048_576.0) as f32);
    click(&mut harness, place, PointerButton::Secondary);
    harness.get_by_label("Copy stack");
    harness.get_by_label("Set as base").click();
    settle(&mut harness);
    assert_eq!(harness.state().session.memory.base.as_ref().map(|base| base.state), Some(2));
    click(&mut harness, place, PointerButton::Secondary);
    harness.get_by_label("Show this moment's state").click();
    harness.step();
    assert_eq!(harness.state().session.memory.moment, Some(2));
    assert!(harness.state().commands.contains(&Command::Show(crate::view::memory::STATE.id)));
}

#[test]
fn moments_are_reached_by_key_and_by_button() {
    let mut harness = harness(stairs());
    harness.get_by_label("Go to peak").click();
    settle(&mut harness);
    assert_eq!(harness.state().session.memory.moment, Some(2));
    harness.get_by_label("active 4.00 MiB");
    harness.state_mut().run(&Command::NextSlice);
    settle(&mut harness);
    harness.get_by_label("active 3.00 MiB");
    harness.state_mut().run(&Command::PreviousSlice);
    harness.state_mut().run(&Command::PreviousSlice);
    assert_eq!(harness.state().session.memory.moment, Some(1));
    harness.state_mut().run(&Command::Deselect);
    assert_eq!(harness.state().session.memory.moment, None);
}

#[test]
fn the_axis_can_be_changed_and_keeps_its_own_range() {
    let mut harness = harness(stairs());
    let time = harness.state().session.navigation.visible();
    harness.get_by_label("Events").click();
    settle(&mut harness);
    harness.state_mut().run(&Command::ZoomIn);
    settle(&mut harness);
    assert_eq!(harness.state().session.navigation.visible(), time, "the timeline does not move");
    assert!(harness.state().view.navigation.events.visible().dur() < 6 * UNITS);
    harness.get_by_label("Zoom to fit").click();
    settle(&mut harness);
    assert!(harness.state().view.navigation.events.visible().dur() >= 6 * UNITS);
    harness.get_by_label("Time").click();
    settle(&mut harness);
    harness.state_mut().run(&Command::ZoomIn);
    assert!(harness.state().session.navigation.visible().dur() < time.dur());
    harness.state_mut().run(&Command::UndoZoom);
    assert_eq!(harness.state().session.navigation.visible(), time);
}

fn wheel(harness: &mut Harness<'_, Fixture<MemoryOverTime>>, pos: Pos2, y: f32, modifiers: Modifiers) {
    harness.event(Event::PointerMoved(pos));
    harness.step();
    let (unit, source) = (MouseWheelUnit::Point, MouseWheelSource::Wheel);
    let event = Event::MouseWheel { unit, delta: vec2(0.0, y), phase: TouchPhase::Move, source, modifiers };
    harness.event_modifiers(event, modifiers);
    for _ in 0..20 {
        harness.step();
    }
    harness.event_modifiers(Event::PointerMoved(pos), Modifiers::NONE);
    settle(harness);
}

#[test]
fn the_wheel_zooms_both_axes() {
    let mut harness = harness(stairs());
    let place = at(&harness, 500, (1 << 20) as f32);
    let before = harness.state().session.navigation.visible();
    wheel(&mut harness, place, 80.0, Modifiers::COMMAND | Modifiers::CTRL);
    assert!(harness.state().session.navigation.visible().dur() < before.dur());
    assert_eq!(harness.state().session.navigation.bytes, None);
    wheel(&mut harness, place, 80.0, Modifiers::COMMAND | Modifiers::CTRL | Modifiers::SHIFT);
    let near = harness.state().session.navigation.bytes.expect("the bytes are zoomed");
    wheel(&mut harness, place, 80.0, Modifiers::ALT);
    let nearer = harness.state().session.navigation.bytes.expect("the bytes are zoomed");
    assert!(nearer.dur() < near.dur());
    wheel(&mut harness, place, 30.0, Modifiers::NONE);
    assert!(harness.state().session.navigation.bytes.expect("still zoomed").start > nearer.start);
    harness.state_mut().run(&Command::ZoomToFit);
    assert_eq!(harness.state().session.navigation.bytes, None);
}

fn button(harness: &mut Harness<'_, Fixture<MemoryOverTime>>, pos: Pos2, pressed: bool) {
    let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
    harness.event(Event::PointerButton { pos, button, pressed, modifiers });
    harness.step();
}

fn drag(harness: &mut Harness<'_, Fixture<MemoryOverTime>>, from: Pos2, to: Pos2) {
    harness.event(Event::PointerMoved(from));
    harness.step();
    button(harness, from, true);
    harness.event(Event::PointerMoved(to));
    harness.step();
    button(harness, to, false);
    settle(harness);
}

#[test]
fn a_range_of_events_is_one_of_time_and_bytes_are_those_of_both_axes() {
    let mut harness = harness(stairs());
    harness.get_by_label("Events").click();
    settle(&mut harness);
    let rect = harness.get_by_label("Memory picture").rect();
    let [from, to] = [2.5, 4.5].map(|state| Pos2::new(rect.left() + rect.width() * state / 6.0, rect.center().y));
    drag(&mut harness, from, to);
    assert_eq!(harness.state().session.range, Some(TimeRange { start: 400, end: 700 }));
    harness.state_mut().run(&Command::ZoomToRange);
    let view = harness.state().view.navigation.events.visible();
    assert!(view.start < 2 * UNITS && view.end > 4 * UNITS && view.dur() < 3 * UNITS, "{view:?}");
    wheel(&mut harness, from, 80.0, Modifiers::ALT);
    let bytes = harness.state().view.navigation.events.bytes;
    assert!(bytes.is_some());
    harness.get_by_label("Time").click();
    settle(&mut harness);
    assert_eq!(harness.state().session.navigation.bytes, bytes);
    let minimap = harness.get_by_label("Minimap").rect();
    let visible = harness.state().session.navigation.visible();
    drag(&mut harness, minimap.center(), minimap.right_center());
    let moved = harness.state().session.navigation.visible();
    assert!(moved.dur() == visible.dur() && moved.start > visible.start, "{moved:?}");
}

#[test]
fn a_drag_selects_a_range_and_a_double_click_fits_a_block() {
    let mut harness = harness(stairs());
    let (from, to) = (at(&harness, 300, 1e6), at(&harness, 600, 1e6));
    drag(&mut harness, from, to);
    let range = harness.state().session.range.expect("a range is selected");
    assert!((range.start - 300).abs() <= 2 && (range.end - 600).abs() <= 2, "{range:?}");
    let place = at(&harness, 500, (3.5 * 1_048_576.0) as f32);
    harness.event(Event::PointerMoved(place));
    harness.step();
    for pressed in [true, false, true, false] {
        button(&mut harness, place, pressed);
    }
    settle(&mut harness);
    let view = harness.state().session.navigation.visible();
    assert!(view.start < 400 && view.start > 350 && view.end > 600 && view.end < 650, "{view:?}");
    let bytes = harness.state().session.navigation.bytes.expect("the block is fitted in height too");
    assert!(bytes.start > 2 << 20 && bytes.end > 4 << 20, "{bytes:?}");
}

#[test]
fn what_is_not_known_is_said() {
    let without_times = harness(random(300, false));
    without_times.get_by_label("Axis: events (no times were recorded)");
    let mut raw = RawMemory::default();
    let block = RawBlock { addr: 0x1000, bytes: 512, requested: 500, state: BlockState::Allocated, stack: StackId(0) };
    raw.end = Some(vec![RawSegment { addr: 0x1000, bytes: 4096, blocks: vec![block], ..RawSegment::default() }]);
    let mut builder = TraceBuilder::default();
    builder.memories.push(raw);
    let mut state = harness(builder);
    state.get_by_label_contains("No history was recorded");
    let middle = state.get_by_label("Memory picture").rect().center();
    click(&mut state, middle, PointerButton::Primary);
    assert_eq!(state.state().session.selection, Selection::Allocation { trace: 0, memory: 0, id: AllocationId(0) });
    let mut builder = TraceBuilder::default();
    builder.memories.push(RawMemory::default());
    harness(builder).get_by_label("No allocations to show");
    harness(TraceBuilder::default()).get_by_label("No memory was recorded");
}

#[test]
fn what_is_marked_stands_out_and_can_be_cleared() {
    let mut harness = harness(stairs());
    let color = |harness: &Harness<'_, Fixture<MemoryOverTime>>, id: u32| {
        let made = harness.state().view.pictures.newest().unwrap();
        made.image.pixels[made.ids.iter().position(|&other| other == id).unwrap()]
    };
    let before = [0, 1].map(|id| color(&harness, id));
    let rows = |harness: &Harness<'_, Fixture<MemoryOverTime>>| harness.state().view.pictures.newest().unwrap().n_rows;
    let n_rows = rows(&harness);
    assert!(harness.query_by_label("Clear highlight").is_none(), "there is none");
    harness.state_mut().session.memory.marked = Arc::new(vec![AllocationId(1)]);
    settle(&mut harness);
    assert_eq!(color(&harness, 1), before[1]);
    assert_ne!(color(&harness, 0), before[0]);
    assert_eq!(rows(&harness), n_rows, "the picture is as high as without a highlight");
    harness.get_by_label("Clear highlight").click();
    settle(&mut harness);
    assert_eq!(color(&harness, 0), before[0]);
}

#[test]
fn curves_can_be_hidden_and_colors_chosen() {
    let mut harness = harness(stairs());
    assert_eq!(harness.state().view.is_curve_shown.0, [true, false, true, false]);
    harness.get_by_label("Active").click();
    settle(&mut harness);
    assert_eq!(harness.state().view.is_curve_shown.0, [true, true, true, false]);
    harness.get_by_role_and_label(eframe::egui::Role::ComboBox, "Color").click();
    settle(&mut harness);
    harness.get_by_label("Size").click();
    settle(&mut harness);
    assert_eq!(harness.state().view.color_by, ColorBy::Size);
    let made = harness.state().view.pictures.newest().unwrap();
    let of = OpenMemory { open: harness.state().session.traces()[0].clone(), memory: 0 };
    let sizes = harness.state().answers.get(&of, &ColorBlocks { by: ColorBy::Size, is_dark: true }).unwrap();
    for id in [0, 1_u32] {
        let at = made.ids.iter().position(|&other| other == id).unwrap();
        assert_eq!(made.image.pixels[at], sizes.palette[usize::from(sizes.index[id as usize])]);
    }
    harness.get_by_label("1.00 MiB");
    harness.get_by_label("3.00 MiB");
}

#[test]
fn a_view_of_any_size_does_not_panic() {
    let ctx = eframe::egui::Context::default();
    let mut fixture = Fixture::new(vec![stairs().finish()], MemoryOverTime::default());
    for size in [[0.0, 0.0], [1.0, 1.0], [170.0, 130.0], [60.0, 3000.0], [4000.0, 4000.0]] {
        let started = Instant::now();
        for frame in 0.. {
            assert!(started.elapsed() < Duration::from_secs(60), "still waiting");
            if frame > 3 && !fixture.view.is_pending() {
                break;
            }
            let screen_rect = Some(Rect::from_min_size(Pos2::ZERO, size.into()));
            let input = eframe::egui::RawInput { screen_rect, ..Default::default() };
            let output = ctx.run_ui(input, |ui| fixture.ui(ui));
            output.drop_without_applying_deltas();
        }
    }
}

#[test]
fn amounts_near_the_largest_number_are_drawn() {
    let mut builder = TraceBuilder::default();
    let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
    let pool = raw.pool(MemoryPool::default());
    let (action, bytes) = (MemoryAction::Alloc, i64::MAX as u64 - 1);
    raw.events.push(MemoryEvent { ts: 500, action, addr: 512, bytes, pool, stack: StackId(0) });
    raw.events.push(MemoryEvent {
        ts: 900,
        action: MemoryAction::Snapshot,
        addr: 0,
        bytes: 0,
        pool,
        stack: StackId(0),
    });
    builder.memories.push(raw);
    let mut harness = harness(builder);
    assert!(harness.state().session.traces()[0].trace.memories[0].curves.highest().1 > 1 << 62);
    harness.state_mut().session.selection = Selection::Allocation { trace: 0, memory: 0, id: AllocationId(0) };
    for command in [Command::FocusSelection, Command::FocusSelection] {
        harness.state_mut().run(&command);
        settle(&mut harness);
    }
}

#[test]
fn undo_brings_back_time_and_bytes() {
    let mut harness = harness(stairs());
    let before = harness.state().session.navigation.visible();
    let place = at(&harness, 500, (3.5 * 1_048_576.0) as f32);
    click(&mut harness, place, PointerButton::Primary);
    // The first centers, the second fits; the pointer is where the block is not live.
    let beside = at(&harness, 900, 1e6);
    harness.event(Event::PointerMoved(beside));
    harness.step();
    for _ in 0..2 {
        harness.state_mut().run(&Command::FocusSelection);
        settle(&mut harness);
    }
    let bytes = harness.state().session.navigation.bytes.expect("the block is fitted in height");
    assert!(bytes.start > 2 << 20 && bytes.end > 4 << 20, "{bytes:?} is where it lies while it lives");
    while harness.state().session.navigation.bytes.is_some() {
        harness.state_mut().run(&Command::UndoZoom);
    }
    harness.state_mut().run(&Command::UndoZoom);
    assert_eq!(
        (harness.state().session.navigation.visible(), harness.state().session.navigation.bytes),
        (before, None)
    );
    harness.state_mut().run(&Command::RedoZoom);
    harness.state_mut().run(&Command::RedoZoom);
    assert_eq!(harness.state().session.navigation.bytes, Some(bytes));
}

#[test]
fn the_plain_wheel_zooms_for_those_who_want_that() {
    let mut harness = harness(stairs());
    harness.state_mut().wheel_zooms = true;
    let place = at(&harness, 500, (1 << 20) as f32);
    let before = harness.state().session.navigation.visible();
    wheel(&mut harness, place, 80.0, Modifiers::NONE);
    assert!(harness.state().session.navigation.visible().dur() < before.dur());
    wheel(&mut harness, place, 80.0, Modifiers::ALT);
    assert!(harness.state().session.navigation.bytes.is_some());
}

#[test]
fn other_colors_leave_the_picture_on_show() {
    let mut harness = harness(stairs());
    harness.state_mut().view.color_by = ColorBy::Lifetime;
    harness.step();
    let (view, shown) = (&harness.state().view, harness.state().view.pictures.newest().is_some());
    assert!(shown && view.colors.newest().is_some());
}

#[test]
fn the_peak_is_that_of_allocated_memory() {
    // 5 MiB are allocated at first; 2 MiB await a stream when 6 MiB are in use.
    let mut script = Script::default();
    script.alloc(0x1000, 3 << 20, StackId(0));
    script.alloc(0x40_0000, 2 << 20, StackId(0));
    script.event(MemoryAction::FreeRequested, 0x40_0000, 2 << 20, StackId(0));
    script.alloc(0x80_0000, 1 << 20, StackId(0));
    let mut builder = script.builder;
    builder.memories.push(script.raw);
    let mut harness = harness(builder);
    harness.get_by_label("Go to peak").click();
    settle(&mut harness);
    assert_eq!(harness.state().session.memory.moment, Some(2));
}
