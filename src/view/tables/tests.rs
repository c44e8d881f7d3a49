//! The tables as the user uses them: by the names of their controls and keys.

mod files;
mod limits;

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use eframe::egui::{self, Event, Key, OutputCommand};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::pane::Pane;
use super::rows::TimeTable;
use super::{ALL, annotations, calls, collectives, copies, kernels, operators};
use crate::command::Command;
use crate::model::{
    Collective, CopyKind, DeviceInfo, Launch, MemoryCopy, SliceFacts, SliceKind, TimeRange, Trace, TraceBuilder,
};
use crate::session::{Files, Selection};
use crate::view::fixture::Fixture;

/// Two operators of one annotation, three kernels and a copy.
fn trace() -> Trace {
    let (op, call, kernel) = (SliceKind::Operator, SliceKind::Runtime, SliceKind::Kernel);
    let mut builder = TraceBuilder::from_slices(&[
        ("main", SliceKind::Annotation, "forward", 0, 3_000),
        ("main", op, "aten::mm", 10, 1_000),
        ("main", call, "cudaLaunchKernel", 100, 300),
        ("main", op, "aten::add", 2_000, 2_900),
        ("main", call, "cudaLaunchKernel", 2_100, 2_200),
        ("main", call, "cudaMemcpyAsync", 2_500, 2_600),
        ("stream 7", kernel, "void gemm<float>(int)", 500, 2_500),
        ("stream 7", kernel, "add_kernel", 2_500, 3_000),
        ("stream 7", SliceKind::Memcpy, "Memcpy HtoD", 3_000, 4_000),
        ("stream 7", kernel, "void gemm<float>(int)", 5_000, 6_000),
    ]);
    builder.slices[0].correlation = vec![0, 0, 1, 0, 2, 3, 1, 2, 3, 0];
    let launch = |block, registers_per_thread| Launch {
        grid: [64, 2, 1],
        block: [block, 1, 1],
        registers_per_thread: Some(registers_per_thread),
        shared_bytes: Some(0),
        ..Default::default()
    };
    for (slice, launch) in [(6, launch(256, 64)), (7, launch(512, 32)), (9, launch(256, 64))] {
        builder.set_facts(slice, SliceFacts { launch: Some(launch), ..Default::default() });
    }
    let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(12_000), is_pageable: Some(true) };
    builder.set_facts(8, SliceFacts { copy: Some(copy), ..Default::default() });
    builder.info.devices = vec![DeviceInfo { compute_major: Some(8), compute_minor: Some(0), ..Default::default() }];
    builder.finish()
}

fn harness(trace: Trace, table: &'static TimeTable) -> Harness<'static, Fixture<Pane>> {
    harness_of(vec![trace], table)
}

fn harness_of(traces: Vec<Trace>, table: &'static TimeTable) -> Harness<'static, Fixture<Pane>> {
    let fixture = Fixture::new(traces, Pane::new(table));
    let mut harness = Harness::builder()
        .with_size([1900.0, 500.0])
        .with_max_steps(200)
        .build_ui_state(|ui, fixture| fixture.ui(ui), fixture);
    settle(&mut harness);
    harness
}

/// Runs frames until background answers are in.
fn settle(harness: &mut Harness<'_, Fixture<Pane>>) {
    for _ in 0..20 {
        harness.step();
        pause();
    }
}

/// Gives background work time: a wait for what never comes.
fn pause() {
    let (_sender, never) = sync_channel::<()>(1);
    never.recv_timeout(Duration::from_millis(2)).unwrap_err();
}

fn click(harness: &mut Harness<'_, Fixture<Pane>>, label: &str) {
    harness.get_by_label(label).click();
    settle(harness);
}

/// What was copied since the last frame; the frame in which it happens must be the last one.
fn copied(harness: &Harness<'_, Fixture<Pane>>) -> Option<String> {
    harness.output().platform_output.commands.iter().find_map(|command| match command {
        OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    })
}

/// How high on screen a label is.
fn height(harness: &Harness<'_, Fixture<Pane>>, label: &str) -> f32 {
    harness.get_by_label(label).rect().center().y
}

/// As tables show `void gemm<float>(int)`.
const GEMM: &str = "gemm<float>";

#[test]
fn the_cores_of_amd_have_its_names() {
    let kernel = "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1";
    let trace = TraceBuilder::from_slices(&[("stream 0", SliceKind::Kernel, kernel, 0, 1_000)]).finish();
    let harness = harness(trace, &kernels::TABLE);
    harness.get_by_label("Matrix cores: 100.0 % of kernel time");
    assert!(harness.query_by_label_contains("Tensor cores").is_none());
}

#[test]
fn kernels_have_figures_with_units() {
    let mut harness = harness(trace(), &kernels::TABLE);
    // 3,000 of 3,500 ns; 2,048 registers a warp leave 32 of 64 warps.
    for label in ["3.000 µs", "85.7 %", "50.0 %", "64 × 2 × 1", "256 × 1 × 1", "2 rows"] {
        assert!(harness.query_all_by_label(label).count() > 0, "{label}");
    }
    click(&mut harness, "By short name");
    harness.get_by_label("gemm");
    assert!(harness.query_by_label("Rank").is_none(), "a column without values is not shown");
}

#[test]
fn kernels_have_figures_of_all_together_and_a_profiler_command() {
    let mut harness = harness(trace(), &kernels::TABLE);
    harness.get_by_label("Tensor cores: not told by the names of these kernels");
    harness.get_by_label("Tiny: 100.0 % of calls, 100.0 % of time");
    assert!(harness.query_by_label_contains("SM efficiency").is_none(), "the number of SMs is not known");
    click(&mut harness, GEMM);
    click(&mut harness, "Copy profiler command");
    let [Command::CopyProfileOf(0, slice)] = harness.state().commands[..] else { panic!("no command") };
    let trace = &harness.state().session.traces()[0].trace;
    assert_eq!(trace.slices.time(slice), TimeRange { start: 500, end: 2_500 }, "the longest");
    click(&mut harness, "Slow");
    harness.get_by_label("No kernel takes more than 1 ms on average");
    click(&mut harness, "Tiny");
    harness.get_by_label("2 rows");
}

#[test]
fn a_head_sorts_and_sorts_back() {
    let mut harness = harness(trace(), &kernels::TABLE);
    assert!(height(&harness, GEMM) < height(&harness, "add_kernel"));
    click(&mut harness, "Total, descending");
    assert!(height(&harness, GEMM) > height(&harness, "add_kernel"));
    click(&mut harness, "Total, ascending");
    assert!(height(&harness, GEMM) < height(&harness, "add_kernel"));
    click(&mut harness, "Name");
    assert!(height(&harness, GEMM) > height(&harness, "add_kernel"), "names sort from the first");
}

#[test]
fn the_filter_leaves_what_fits() {
    let mut harness = harness(trace(), &kernels::TABLE);
    harness.get_by_role(egui::Role::TextInput).focus();
    settle(&mut harness);
    harness.event(Event::Text("FLOAT gem".to_owned()));
    settle(&mut harness);
    harness.get_by_label("1 of 2 rows");
    assert!(harness.query_by_label("add_kernel").is_none());
}

#[test]
fn a_row_leads_to_its_slices_and_they_to_the_timeline() {
    let mut harness = harness(trace(), &kernels::TABLE);
    click(&mut harness, GEMM);
    harness.get_by_label("Instances (2)");
    assert!(harness.state().commands.is_empty(), "looking at a row moves nothing");
    // The later of the two, by its start.
    click(&mut harness, "5.000 µs");
    assert_eq!(harness.state().commands, [Command::Reveal]);
    let fixture = harness.state();
    let Selection::Slice { slice, .. } = fixture.session.selection else { panic!("nothing is selected") };
    assert_eq!(fixture.session.traces()[0].trace.slices.time(slice), TimeRange { start: 5_000, end: 6_000 });
}

#[test]
fn keys_move_the_cursor_and_enter_shows_the_longest() {
    let mut harness = harness(trace(), &kernels::TABLE);
    click(&mut harness, GEMM);
    harness.key_press(Key::ArrowDown);
    settle(&mut harness);
    harness.get_by_label("Instances (1)");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    assert_eq!(harness.state().selected_name(), "add_kernel");
    harness.event(egui::Event::Copy);
    harness.step();
    assert_eq!(copied(&harness).as_deref(), Some("add_kernel"));
    harness.key_press(Key::Home);
    settle(&mut harness);
    harness.get_by_label("Instances (2)");
}

#[test]
fn the_cursor_follows_the_timeline() {
    let mut harness = harness(trace(), &kernels::TABLE);
    harness.state_mut().select("add_kernel");
    settle(&mut harness);
    harness.get_by_label("Instances (1)");
    harness.state_mut().select("aten::mm");
    settle(&mut harness);
    harness.get_by_label("Instances (1)");
    harness.state_mut().select("add_kernel");
    click(&mut harness, "By shape");
    harness.get_by_label("Instances (1)");
}

#[test]
fn operators_and_kernels_lead_to_each_other() {
    let mut harness = harness(trace(), &kernels::TABLE);
    click(&mut harness, "add_kernel");
    click(&mut harness, "Launched by");
    click(&mut harness, "aten::add");
    assert_eq!(harness.state().selected_name(), "aten::add");
    harness.state_mut().view = Pane::new(&operators::TABLE);
    settle(&mut harness);
    // The timeline's selection leads the cursor here too.
    harness.get_by_label("Instances (1)");
    click(&mut harness, "Launched");
    click(&mut harness, "add_kernel");
    assert_eq!(harness.state().selected_name(), "add_kernel");
}

#[test]
fn copies_and_annotations_have_their_own_figures() {
    let mut harness = harness(trace(), &copies::TABLE);
    for label in ["HtoD", "pageable", "11.72 KiB", "12.000 GB/s"] {
        harness.get_by_label(label);
    }
    click(&mut harness, "By size");
    harness.get_by_label("8.00 KiB to 16.00 KiB");
    harness.state_mut().view = Pane::new(&annotations::TABLE);
    settle(&mut harness);
    // From the first kernel at 500 to the end of the copy at 4,000, without a gap.
    assert_eq!(harness.query_all_by_label("3.500 µs").count(), 2);
}

#[test]
fn figures_of_devices_are_left_out_where_no_device_worked() {
    let of_host = [("main", SliceKind::Operator, "aten::mm", 0, 10), ("main", SliceKind::Operator, "aten::t", 10, 30)];
    let mut harness = harness(TraceBuilder::from_slices(&of_host).finish(), &operators::TABLE);
    for choice in ["By operator", "Call tree"] {
        click(&mut harness, choice);
        harness.get_by_label("Host self");
        assert!(harness.query_by_label_contains("Device").is_none(), "{choice}");
    }
    let harness = self::harness(trace(), &operators::TABLE);
    harness.get_by_label("Device self");
}

#[test]
fn what_is_missing_is_said_with_its_remedy() {
    let empty = || TraceBuilder::from_slices(&[("main", SliceKind::PythonFunction, "f", 0, 10)]).finish();
    for table in ALL {
        let harness = harness(empty(), table);
        let [what, how] = table.choices[0].empty;
        harness.get_by_label(what);
        harness.get_by_label(how);
    }
    let mut harness = harness(empty(), &calls::TABLE);
    click(&mut harness, "OS runtime");
    harness.get_by_label("Record them with nsys profile --trace=osrt");
}

#[test]
fn tables_are_copied_and_exported_with_exact_figures() {
    let mut harness = harness(trace(), &calls::TABLE);
    harness.get_by_label("Copy table").click();
    let mut text = None;
    for _ in 0..50 {
        harness.step();
        text = text.or_else(|| copied(&harness));
        pause();
    }
    let text = text.unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "name\tcalls\ttotal_ns\tself_ns\tmean_ns\tmedian_ns\tmin_ns\tmax_ns\tstd_ns");
    assert_eq!(lines[1], "cudaLaunchKernel\t2\t300\t300\t150\t150\t100\t200\t71");
    click(&mut harness, "Export…");
    let Some(Command::SaveText(name, text)) = harness.state().commands.last() else { panic!("nothing to save") };
    assert_eq!(name, "calls.csv");
    assert!(text.starts_with("name,calls,total_ns") && text.lines().count() == 3, "{text}");
}

#[test]
fn a_narrow_panel_breaks_between_controls_only() {
    for width in [200.0, 260.0, 320.0, 380.0] {
        let mut harness = harness(trace(), &kernels::TABLE);
        harness.set_size([width, 500.0].into());
        settle(&mut harness);
        for label in ["By name", "By short name", "By shape", "Whole trace", "2 rows", "Copy table", "Export…"] {
            let rect = harness.get_by_label(label).rect();
            assert!(rect.height() < 25.0 && rect.right() <= width, "{label} at {rect} in {width} points");
        }
    }
}

#[test]
fn every_control_has_a_name() {
    for table in ALL {
        let harness = harness(trace(), table);
        for node in harness.root().children_recursive() {
            let node = node.accesskit_node();
            let is_control = matches!(node.role(), egui::Role::Button | egui::Role::TextInput | egui::Role::Table);
            let has_name = node.label().is_some_and(|label| !label.is_empty());
            assert!(!is_control || has_name, "a control without a name: {node:?}");
        }
    }
}

#[test]
fn another_trace_leaves_no_stale_row() {
    let mut harness = harness(trace(), &kernels::TABLE);
    click(&mut harness, GEMM);
    let other = TraceBuilder::from_slices(&[("stream 7", SliceKind::Kernel, "other", 0, 10)]).finish();
    harness.state_mut().replace(other);
    harness.step();
    assert!(harness.query_by_label(GEMM).is_none(), "not for one frame");
    settle(&mut harness);
    harness.get_by_label("other");
}

#[test]
fn a_collective_lists_its_kernels_and_a_click_selects_one() {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", SliceKind::Operator, "c10d::allreduce_", 0, 50),
        ("main", SliceKind::Runtime, "cudaLaunchKernelExC", 10, 20),
        ("stream 9", SliceKind::Kernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 400),
        ("stream 9", SliceKind::Kernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 520, 720),
        ("stream 9", SliceKind::Kernel, "ncclDevKernel_Broadcast_RING_LL", 800, 810),
    ]);
    builder.slices[0].correlation = vec![0, 1, 1, 0, 0];
    let mut harness = harness(builder.finish(), &collectives::TABLE);
    for way in ["By size", "By operation"] {
        click(&mut harness, way);
        // In the table, and above the list if its row is the chosen one still.
        harness.get_all_by_label("allreduce").next().unwrap().click();
        settle(&mut harness);
        harness.get_by_label("Instances (2)");
        click(&mut harness, "520 ns");
        let Selection::Slice { trace: 0, slice } = harness.state().session.selection else { panic!("a slice") };
        let time = harness.state().session.traces()[0].trace.slices.time(slice);
        assert_eq!(time, TimeRange { start: 520, end: 720 }, "{way}");
        assert_eq!(harness.state().commands.last(), Some(&Command::Reveal));
        harness.state_mut().session.selection = Selection::None;
        settle(&mut harness);
    }
}

#[test]
fn the_total_of_a_row_stays_in_view_beside_its_slices() {
    let mut builder =
        TraceBuilder::from_slices(&[("stream 9", SliceKind::Kernel, "ncclDevKernel_Broadcast", 100, 400)]);
    let [op, group, dtype] = ["broadcast", "default_pg", "BFloat16"].map(|text| builder.strings.intern(text));
    let n_ranks = Some(128);
    let (element_bytes, in_elements, out_elements) = (Some(2), Some(1 << 30), Some(1 << 30));
    let collective =
        Collective { op, group, n_ranks, dtype, element_bytes, in_elements, out_elements, ..Default::default() };
    builder.set_facts(0, SliceFacts { collective: Some(collective), ..Default::default() });
    let cases = [
        (builder.finish(), &collectives::TABLE, "broadcast"),
        (trace(), &kernels::TABLE, GEMM),
        (trace(), &copies::TABLE, CopyKind::HtoD.label()),
        (trace(), &calls::TABLE, "cudaLaunchKernel"),
        (trace(), &annotations::TABLE, "forward"),
    ];
    for (trace, table, row) in cases {
        let mut harness = harness(trace, table);
        // The panel below the timeline in a window 1280 points wide.
        harness.set_size(egui::vec2(940.0, 280.0));
        harness.get_all_by_label(row).next().unwrap().click();
        settle(&mut harness);
        let slices = harness.get_by_label_contains("Instances (").rect();
        let total = harness.get_all_by_label_contains("Total").next().unwrap().rect();
        assert!(total.right() < slices.left(), "{}: {total} {slices}", table.title);
    }
}

#[test]
fn a_call_tree_folds_by_click_and_by_keys_and_stays_folded_in_a_range() {
    let mut harness = harness(trace(), &operators::TABLE);
    click(&mut harness, "Call tree");
    let is_there = |harness: &Harness<'_, Fixture<Pane>>, name: &str| harness.query_by_label(name).is_some();
    assert!(is_there(&harness, "aten::mm") && is_there(&harness, "cudaMemcpyAsync"));
    click(&mut harness, "Fold aten::add");
    assert!(!is_there(&harness, "cudaMemcpyAsync") && is_there(&harness, "aten::mm"));
    harness.state_mut().session.range = Some(TimeRange { start: 1_500, end: 3_000 });
    settle(&mut harness);
    assert!(is_there(&harness, "Unfold aten::add") && !is_there(&harness, "cudaMemcpyAsync"));
    harness.state_mut().session.range = None;
    settle(&mut harness);
    assert!(is_there(&harness, "aten::mm") && !is_there(&harness, "cudaMemcpyAsync"));

    // Left goes to what is around, then folds it; right unfolds, then goes to what is inside.
    click(&mut harness, "aten::mm");
    let mut press = |key, names: [&str; 2]| {
        harness.key_press(key);
        settle(&mut harness);
        let [shown, hidden] = names;
        assert!(is_there(&harness, shown) && !is_there(&harness, hidden), "{key:?} {shown}");
    };
    press(Key::ArrowLeft, ["Unfold aten::mm", "none"]);
    press(Key::ArrowLeft, ["Fold forward", "none"]);
    press(Key::ArrowLeft, ["Unfold forward", "aten::add"]);
    press(Key::ArrowRight, ["Fold forward", "none"]);
    press(Key::ArrowRight, ["Unfold aten::mm", "none"]);
    press(Key::ArrowRight, ["Fold aten::mm", "cudaMemcpyAsync"]);

    click(&mut harness, "Fold all");
    harness.get_by_label("2 of 7 rows");
    assert!(!is_there(&harness, "aten::add"));
    click(&mut harness, "Unfold all");
    harness.get_by_label("7 rows");
    // As a list no row is indented below another one, and levels do not decide the order.
    click(&mut harness, "Name");
    harness.get_by_label("Name, ascending");
    let [add, copy] = ["aten::add", "cudaMemcpyAsync"].map(|name| harness.get_by_label(name).rect());
    assert!((add.left() - copy.left()).abs() < 0.5 && add.top() < copy.top(), "{add} {copy}");
    click(&mut harness, "cudaMemcpyAsync");
    harness.event(egui::Event::Copy);
    harness.step();
    assert_eq!(copied(&harness).as_deref(), Some("cudaMemcpyAsync"), "without its indentation");
    settle(&mut harness);
    click(&mut harness, "Calls");
    assert!(!is_there(&harness, "Fold forward"), "sorted, the tree is a list");
    click(&mut harness, "As tree");
    harness.get_by_label("Fold forward");

    // The row of what is selected elsewhere comes into sight.
    click(&mut harness, "Fold all");
    harness.state_mut().select("cudaMemcpyAsync");
    settle(&mut harness);
    assert!(is_there(&harness, "Fold aten::add"));
}

#[test]
fn work_without_a_known_launch_is_a_row_of_its_own() {
    let mut harness = harness(trace(), &kernels::TABLE);
    click(&mut harness, GEMM);
    click(&mut harness, "Launched by");
    harness.get_by_label("aten::mm");
    click(&mut harness, "(launch or its operator not recorded)");
    let Selection::Slice { trace: 0, slice } = harness.state().session.selection else { panic!("nothing selected") };
    let trace = &harness.state().session.traces()[0].trace;
    assert_eq!(trace.slices.time(slice), TimeRange { start: 5_000, end: 6_000 }, "the one without a launch");
}

#[test]
fn what_is_typed_stays_while_what_is_beside_it_comes_and_goes() {
    let mut harness = harness(trace(), &kernels::TABLE);
    harness.get_by_label("Filter").click();
    settle(&mut harness);
    harness.event(Event::Text("ge".to_owned()));
    settle(&mut harness);
    // A range adds a button before the field.
    harness.state_mut().session.range = Some(TimeRange { start: 0, end: 20_000 });
    settle(&mut harness);
    harness.event(Event::Text("mm".to_owned()));
    settle(&mut harness);
    assert_eq!(harness.get_by_label("Filter").value().as_deref(), Some("gemm"));
    harness.state_mut().session.range = None;
    settle(&mut harness);
    harness.event(Event::Text("x".to_owned()));
    settle(&mut harness);
    assert_eq!(harness.get_by_label("Filter").value().as_deref(), Some("gemmx"));
}

#[test]
fn a_chosen_step_is_named_where_figures_are_limited_to_it() {
    let mut harness = harness(trace(), &kernels::TABLE);
    let step = TimeRange { start: 400, end: 2_000 };
    harness.state_mut().with(|_, ctx| ctx.choose_step(0, step, "ProfilerStep#9"));
    settle(&mut harness);
    harness.get_by_label("ProfilerStep#9, 1.600 µs");
    harness.state_mut().session.range = Some(TimeRange { end: 2_001, ..step });
    settle(&mut harness);
    harness.get_by_label("Selected range, 1.601 µs");
}
