//! The view driven by AccessKit names, and the choice of steps.

use eframe::egui::{Ui, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::*;
use crate::analysis::steps::steps;
use crate::model::{SliceKind, TimeRange, TraceBuilder};
use crate::session::Mark;
use crate::view::fixture::{Fixture, settle};

/// Steps of 100 ns, the fourth of which takes twice as long.
fn trace() -> Trace {
    let names: Vec<String> = (0..8).map(|step| format!("ProfilerStep#{step}")).collect();
    let mut slices = Vec::new();
    for (step, name) in names.iter().enumerate() {
        let start = 100 * step as i64 + if step > 3 { 100 } else { 0 };
        let end = start + if step == 3 { 200 } else { 100 };
        slices.push(("main", SliceKind::Annotation, name.as_str(), start, end));
        slices.push(("stream 7", SliceKind::Kernel, "gemm", start + 20, start + 60));
    }
    TraceBuilder::from_slices(&slices).finish()
}

/// Steps whose work the device runs two and a half steps later.
fn behind() -> Trace {
    let names: Vec<String> = (0..8).map(|step| format!("ProfilerStep#{step}")).collect();
    let mut slices = Vec::new();
    let mut correlation = Vec::new();
    for (step, name) in names.iter().enumerate() {
        let start = 100 * step as i64;
        slices.push(("main", SliceKind::Annotation, name.as_str(), start, start + 100));
        slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", start + 1, start + 2));
        slices.push(("stream 7", SliceKind::Kernel, "gemm", start + 250, start + 345));
        correlation.extend([0, step as u32 + 1, step as u32 + 1]);
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    builder.finish()
}

fn harness() -> Harness<'static, Fixture<StepsView>> {
    harness_of(trace())
}

fn harness_of(trace: Trace) -> Harness<'static, Fixture<StepsView>> {
    let state = Fixture::new(vec![trace], StepsView::default());
    let app = |ui: &mut Ui, state: &mut Fixture<StepsView>| {
        state.with(|view, ctx| view.update(ctx, ui.ctx()));
        state.ui(ui);
    };
    let mut harness = Harness::builder().with_size(vec2(1600.0, 400.0)).build_ui_state(app, state);
    settle(&mut harness);
    harness
}

fn range(harness: &Harness<'_, Fixture<StepsView>>) -> Option<(i64, i64)> {
    harness.state().session.range.map(|range| (range.start, range.end))
}

fn walk(harness: &mut Harness<'static, Fixture<StepsView>>, command: &Command) {
    let is_run = harness.state_mut().with(|view, ctx| view.run_hidden(command, ctx));
    assert!(is_run);
    settle(harness);
}

#[test]
fn a_step_is_chosen_by_click_and_by_key_and_becomes_the_range() {
    let mut harness = harness();
    harness.get_by_label("8 steps by ProfilerStep annotations");
    harness.get_by_label("1 outlier");
    harness.get_by_label("6 of them count");
    harness.get_by_label("Median 100 ns");
    harness.get_by_label("ProfilerStep#3").click();
    settle(&mut harness);
    assert_eq!(range(&harness), Some((300, 500)));
    // As its name has it, like the bands and the chart.
    harness.get_by_label("Step 3");
    walk(&mut harness, &Command::NextStep);
    assert_eq!(range(&harness), Some((500, 600)));
    walk(&mut harness, &Command::PreviousStep);
    walk(&mut harness, &Command::PreviousStep);
    assert_eq!(range(&harness), Some((200, 300)));
    for _ in 0..9 {
        walk(&mut harness, &Command::NextStep);
    }
    assert_eq!(range(&harness), Some((800, 900)), "the last");
    harness.get_by_label("Next step");
}

#[test]
fn without_a_chosen_step_a_walk_begins_at_an_end_of_what_is_in_view() {
    let mut harness = harness();
    let (next, previous) = (Command::NextStep, Command::PreviousStep);
    // In all, in some, within one, and beyond the last.
    for (view, command, expected) in [
        ((0, 900), &next, (0, 100)),
        ((0, 900), &previous, (800, 900)),
        ((150, 650), &next, (100, 200)),
        ((150, 650), &previous, (600, 700)),
        ((350, 400), &next, (300, 500)),
        ((350, 400), &previous, (300, 500)),
        ((950, 1_000), &next, (800, 900)),
        ((950, 1_000), &previous, (800, 900)),
    ] {
        let session = &mut harness.state_mut().session;
        session.range = None;
        session.navigation.go(TimeRange { start: view.0, end: view.1 });
        walk(&mut harness, command);
        assert_eq!(range(&harness), Some(expected), "{command:?} in {view:?}");
    }
}

#[test]
fn the_view_keeps_its_place_within_the_step() {
    let mut harness = harness();
    walk(&mut harness, &Command::NextStep);
    let session = &mut harness.state_mut().session;
    session.range = Some(TimeRange { start: 100, end: 200 });
    session.navigation.go(TimeRange { start: 120, end: 160 });
    walk(&mut harness, &Command::NextStep);
    assert_eq!(harness.state().session.navigation.visible(), TimeRange { start: 220, end: 260 });
    harness.state_mut().session.navigation.go(TimeRange { start: 0, end: 10 });
    walk(&mut harness, &Command::NextStep);
    let visible = harness.state().session.navigation.visible();
    assert!(visible.start <= 300 && visible.end >= 500, "{visible:?}");
}

#[test]
fn marks_are_steps_when_asked_for() {
    let mut harness = harness();
    harness.get_by_label("Use my marks as steps").click();
    settle(&mut harness);
    harness.get_by_label("No steps found");
    for start in [50, 250, 450] {
        let mark = Mark::new(TimeRange { start, end: start });
        harness.state_mut().with(|_, ctx| assert!(ctx.add_mark(mark)));
    }
    settle(&mut harness);
    harness.get_by_label("2 steps by marks");
    walk(&mut harness, &Command::NextStep);
    assert_eq!(range(&harness), Some((50, 250)));
}

#[test]
fn times_of_the_host_are_called_so_where_it_runs_ahead() {
    let harness = harness_of(behind());
    for label in ["Host start, ascending", "On host", "On device"] {
        harness.get_by_label(label);
    }
    assert!(harness.query_by_label("Duration").is_none());
    harness.get_by_label("Mean 100 ns ± 0 ns (95 %) from completion to completion on the slowest device");
}

#[test]
fn lengths_of_a_step_that_stand_beside_each_other_say_what_they_are_of() {
    // Ranges on the host, and what the device runs again and again without any.
    let kernels = ["embed", "norm", "gemm", "norm", "gemm", "loss"];
    let repeated: Vec<_> =
        (0..48).map(|i| ("stream 7", SliceKind::Kernel, kernels[i % 6], 10 * i as i64, 10 * i as i64 + 8)).collect();
    for (trace, names) in [
        (trace(), ["Host start, ascending", "On host", "On device"]),
        (TraceBuilder::from_slices(&repeated).finish(), ["Start, ascending", "Between starts", "Between completions"]),
    ] {
        let harness = harness_of(trace);
        for name in names {
            harness.get_by_label(name);
        }
        assert!(harness.query_by_label("Duration").is_none(), "{names:?}");
    }
}

#[test]
fn of_several_files_it_is_said_whose_steps_are_shown() {
    let of = |traces: Vec<Trace>| {
        let mut fixture = Fixture::new(traces, StepsView::default());
        fixture.with(|_, ctx| {
            let found = steps(&ctx.traces[0].trace, &|| false).unwrap();
            source_text(ctx, &found)
        })
    };
    assert_eq!(of(vec![trace()]), "By ProfilerStep annotations");
    let text = of(vec![trace(), trace()]);
    assert!(text.starts_with("By ProfilerStep annotations of "), "{text}");
    assert!(text.ends_with(". The view Steps chooses another file"), "{text}");
}

#[test]
fn time_between_ranges_is_of_the_step_that_findings_speak_of() {
    // Ranges of 100 ns, 50 ns apart.
    let names: Vec<String> = (0..8).map(|step| format!("ProfilerStep#{step}")).collect();
    let slices: Vec<_> = (0..)
        .zip(&names)
        .flat_map(|(step, name)| {
            let start = 150 * step;
            [
                ("main", SliceKind::Annotation, name.as_str(), start, start + 100),
                ("stream 7", SliceKind::Kernel, "gemm", start + 20, start + 60),
            ]
        })
        .collect();
    let apart = harness_of(TraceBuilder::from_slices(&slices).finish());
    apart.get_by_label("Mean 100 ns ± 0 ns (95 %) on the host");
    apart.get_by_label("150 ns from start to start");
    assert!(harness().query_by_label_contains("from start to start").is_none());
}
