#[cfg(unix)]
mod capture;
mod compared;
mod docking;
mod files;
mod first;
mod flame;
mod glyphs;
mod large_text;
mod live;
mod memory;
mod memory_line;
mod menus;
mod monkey;
mod overview;
mod places;
mod playing;
mod recorder;
mod resize;
mod runs;
mod said;
mod search;
mod tables;

use std::sync::Arc;

use eframe::egui::{Event, Key, Modifiers, PointerButton, Pos2, RawInput};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use egui_kittest::{Harness, HarnessBuilder};

use super::*;
use crate::model::{Details, EventDetails, Severity, SliceId, SliceKind, TimeNs, TimeRange, TraceBuilder};
use crate::session::Selection;
use crate::view::DockArea;

#[derive(Debug)]
struct FixedDetails;

impl Details for FixedDetails {
    fn event(&self, source: u64, _: Option<TimeNs>) -> Result<EventDetails, String> {
        let args = vec![("grid".to_owned(), format!("[{source},1,1]"))];
        Ok(EventDetails { args, stack: vec!["train.py(7): step".to_owned()], category: "kernel".to_owned() })
    }
}

fn trace() -> Trace {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", SliceKind::Operator, "aten::mm", 0, 1_000),
        ("main", SliceKind::Runtime, "cudaLaunchKernel", 100, 300),
        ("main", SliceKind::Operator, "aten::add", 2_000, 3_000),
        ("stream 7", SliceKind::Kernel, "gemm_fp16", 500, 2_500),
    ]);
    builder.slices[0].correlation = vec![0, 5, 0, 5];
    builder.import.reject(Severity::Warn, "Not a number", 3, Some(17));
    let mut trace = builder.finish();
    trace.details = Some(Arc::new(FixedDetails));
    trace
}

fn harness(traces: Vec<Trace>) -> Harness<'static, Option<App>> {
    harness_with(traces, |builder| builder)
}

type Builder = HarnessBuilder<Option<App>>;

fn harness_with(traces: Vec<Trace>, set: impl FnOnce(Builder) -> Builder) -> Harness<'static, Option<App>> {
    let mut traces = Some(traces);
    let frame = move |ui: &mut egui::Ui, app: &mut Option<App>| {
        let app = app.get_or_insert_with(|| {
            let mut app = App::with_traces(ui.ctx(), Settings::default(), traces.take().unwrap_or_default());
            app.dialog = OpenDialog::in_window();
            app
        });
        app.step(ui.ctx());
        app.paint(ui);
    };
    let builder = Harness::builder().with_size([1280.0, 800.0]).with_max_steps(200);
    let mut harness = set(builder).build_ui_state(frame, None);
    settle(&mut harness);
    harness
}

/// Runs frames until background answers are in.
fn settle(harness: &mut Harness<'_, Option<App>>) {
    for _ in 0..20 {
        harness.step();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Runs frames until something is so; fails after a time that no machine needs.
fn wait_for(harness: &mut Harness<'_, Option<App>>, is_so: impl Fn(&Harness<'_, Option<App>>) -> bool) {
    let started = std::time::Instant::now();
    while !is_so(harness) {
        assert!(started.elapsed() < std::time::Duration::from_secs(300), "still waiting");
        settle(harness);
    }
}

fn app<'a>(harness: &'a Harness<'_, Option<App>>) -> &'a App {
    harness.state().as_ref().unwrap()
}

fn app_mut<'a>(harness: &'a mut Harness<'_, Option<App>>) -> &'a mut App {
    harness.state_mut().as_mut().unwrap()
}

fn select(harness: &mut Harness<'_, Option<App>>, name: &str) {
    let app = app_mut(harness);
    let trace = &app.session.traces()[0].trace;
    let slice = (0..trace.slices.len() as u32).map(SliceId).find(|&id| trace.slice_name(id) == name);
    app.session.selection = Selection::Slice { trace: 0, slice: slice.unwrap() };
    settle(harness);
}

fn selected_name(harness: &Harness<'_, Option<App>>) -> String {
    let session = app(harness).session();
    match session.selection {
        Selection::Slice { trace, slice } => session.traces()[trace].trace.slice_name(slice).to_owned(),
        _ => String::new(),
    }
}

fn type_text(harness: &mut Harness<'_, Option<App>>, text: &str) {
    harness.event(Event::Text(text.to_owned()));
    settle(harness);
}

#[test]
fn a_recording_without_a_device_says_so() {
    let host = [("main", SliceKind::Operator, "aten::mm", 0, 100)];
    let without = harness(vec![TraceBuilder::from_slices(&host).finish()]);
    without.get_by_label("No GPU work recorded");
    let both = [host[0], ("stream 7", SliceKind::Kernel, "gemm", 10, 20)];
    let with = harness(vec![TraceBuilder::from_slices(&both).finish()]);
    assert!(with.query_by_label("No GPU work recorded").is_none());
}

#[test]
fn without_a_system_dialog_a_path_can_be_typed() {
    let mut harness = harness(Vec::new());
    harness.get_by_label("Open file…").click();
    settle(&mut harness);
    type_text(&mut harness, "/no/such/typed.json");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    harness.get_by_label_contains("/no/such/typed.json");
    harness.get_by_label("Not opened:");
}

#[test]
fn an_empty_window_says_what_to_do() {
    let harness = harness(Vec::new());
    harness.get_by_label("Open file…");
    harness.get_by_label("Nothing is open");
    harness.get_by_label("Open folder…");
}

#[test]
fn the_welcome_page_opens_samples_and_says_how_to_record() {
    use crate::model::Format::{self, ChromeTrace, GpuMetrics, MemoryTimeline, Nsys, Snapshot};
    let mut harness = harness(Vec::new());
    let named = |format: Format| match format {
        ChromeTrace => ["PyTorch profiler", "Other Chrome traces"].as_slice(),
        Nsys => &["Nsight Systems"],
        Snapshot => &["PyTorch memory snapshot"],
        MemoryTimeline => &["PyTorch memory timeline"],
        GpuMetrics => &["Logs of GPU metrics"],
    };
    for name in [ChromeTrace, Nsys, Snapshot, MemoryTimeline, GpuMetrics].into_iter().flat_map(named) {
        harness.get_by_label(&format!("Copy how to record: {name}"));
    }
    harness.get_by_label("Copy how to record: Nsight Systems").click();
    harness.step();
    let copies = |command: &egui::OutputCommand| matches!(command, egui::OutputCommand::CopyText(text) if text.contains("nsys profile"));
    assert!(harness.output().platform_output.commands.iter().any(copies));
    harness.step();
    harness.get_by_label("Copied 2 lines");
    let folder = std::env::temp_dir().join(format!("lacuna-welcome-{}", std::process::id()));
    app_mut(&mut harness).loads.samples.clone_from(&folder);
    harness.get_by_label("Memory leak").click();
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 1);
    assert_eq!(app(&harness).session().traces()[0].trace.info.path, folder.join("leak.pickle"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn escape_leaves_one_thing_at_a_time() {
    let mut harness = harness(vec![trace()]);
    select(&mut harness, "aten::mm");
    for open in [Key::Slash, Key::Questionmark] {
        harness.key_press(open);
        settle(&mut harness);
        harness.key_press(Key::Escape);
        settle(&mut harness);
        assert_eq!(selected_name(&harness), "aten::mm", "after {open:?}");
    }
    assert!(harness.query_by_label("Close").is_none(), "the sheet is closed");
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "");
}

#[test]
fn escape_closes_a_menu_before_it_deselects() {
    let mut harness = harness(vec![trace()]);
    select(&mut harness, "aten::mm");
    harness.get_by_role_and_label(egui::Role::Unknown, "stream 7").click_secondary();
    settle(&mut harness);
    harness.get_by_label("List events");
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert!(harness.query_by_label("List events").is_none());
    assert_eq!(selected_name(&harness), "aten::mm");
    // A command by key leaves no menu behind.
    harness.get_by_role_and_label(egui::Role::Unknown, "stream 7").click_secondary();
    settle(&mut harness);
    harness.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::P);
    settle(&mut harness);
    assert!(harness.query_by_label("List events").is_none());
    harness.get_by_label("Command");
}

#[test]
fn details_show_times_arguments_and_links_both_ways() {
    let mut harness = harness(vec![trace()]);
    select(&mut harness, "gemm_fp16");
    harness.get_by_label("Queue time");
    harness.get_by_label("[3,1,1]");
    harness.get_by_label("train.py(7): step");
    harness.get_by_label("Launched by");
    harness.get_by_label_contains("cudaLaunchKernel, ").click();
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "cudaLaunchKernel");
    harness.get_by_label("Launches");
    harness.get_by_label_contains("gemm_fp16, ").click();
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "gemm_fp16");
}

#[test]
fn the_palette_runs_commands_by_name() {
    let mut harness = harness(vec![trace()]);
    harness.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::P);
    settle(&mut harness);
    type_text(&mut harness, "side pan");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    assert!(!app(&harness).layout.is_area_shown(DockArea::Side));
    assert!(harness.query_by_label("Command").is_none(), "the palette is closed");
}

#[test]
fn a_time_is_gone_to_and_what_is_none_is_said() {
    let mut harness = harness(vec![trace()]);
    app_mut(&mut harness).session.navigation.go(TimeRange { start: 0, end: 400 });
    harness.key_press(Key::T);
    settle(&mut harness);
    harness.get_by_label_contains("A number alone is in ns");
    type_text(&mut harness, "noon");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    harness.get_by_label_contains("This is no time");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
    type_text(&mut harness, "9 s");
    settle(&mut harness);
    harness.get_by_label_contains("9.000 s lies outside of what was recorded");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
    type_text(&mut harness, "1.5 µs");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    let navigation = &app(&harness).session().navigation;
    assert_eq!((navigation.visible(), navigation.moment), (TimeRange { start: 1_300, end: 1_700 }, Some(1_500)));
    harness.key_press(Key::M);
    settle(&mut harness);
    assert_eq!(app(&harness).session().marks[0].range.start, 1_500);
    harness.key_press(Key::Escape);
    settle(&mut harness);
    assert_eq!(app(&harness).session().navigation.moment, None);
}

#[test]
fn a_key_fills_the_view_with_the_selection() {
    let mut harness = harness(vec![trace()]);
    select(&mut harness, "gemm_fp16");
    let time = app(&harness).session().selection.time(app(&harness).session().traces()).unwrap();
    harness.key_press_modifiers(Modifiers::SHIFT, Key::F);
    settle(&mut harness);
    let visible = app(&harness).session().navigation.visible();
    assert!(visible.union(time) == visible && visible.dur() < 2 * time.dur(), "{visible:?} of {time:?}");
}

#[test]
fn the_palette_finds_what_measures() {
    for word in ["measure", "distance"] {
        let mut harness = harness(vec![trace()]);
        harness.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::P);
        settle(&mut harness);
        type_text(&mut harness, word);
        assert!(harness.query_by_label("No command matches").is_none(), "{word}");
        harness.key_press(Key::Enter);
        settle(&mut harness);
        assert_eq!(app(&harness).session().marks.len(), 1, "{word} leads to a mark");
    }
}

#[test]
fn a_range_that_is_selected_moves_nothing() {
    let mut long = trace();
    long.info.path = format!("/traces/{}.json", "a_name_that_is_far_longer_than_it_need_be_".repeat(4)).into();
    let mut harness = harness(vec![long]);
    let canvas = |harness: &Harness<'_, Option<App>>| harness.get_by_label("Timeline canvas").rect();
    let before = canvas(&harness);
    app_mut(&mut harness).session.range = Some(TimeRange { start: 100, end: 900 });
    for _ in 0..20 {
        harness.step();
        assert_eq!(canvas(&harness), before);
    }
    harness.get_by_label("800 ns selected");
}

#[test]
fn a_track_is_found_by_name() {
    let mut harness = harness(vec![trace()]);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::P);
    settle(&mut harness);
    type_text(&mut harness, "str 7");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    assert_eq!(selected_name(&harness), "gemm_fp16");
}

#[test]
fn problems_are_a_click_away() {
    let mut harness = harness(vec![trace()]);
    harness.get_by_label("1 warning").click();
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("problems"));
    harness.get_by_label("Not a number");
    harness.get_by_label("17");
}

#[test]
fn a_range_is_summarized_by_track_and_name() {
    let mut harness = harness(vec![trace()]);
    app_mut(&mut harness).session.range = Some(TimeRange { start: 0, end: 2_000 });
    harness.get_by_label("Range summary").click();
    settle(&mut harness);
    // The stream ran from 500 to 2,000 of 2,000 ns, the thread from 0 to 1,000.
    harness.get_by_label("75.0 %");
    harness.get_by_label("50.0 %");
    harness.get_by_label("By name").click();
    settle(&mut harness);
    harness.get_by_label("Runtime call");
}

#[test]
fn theme_and_scale_change_by_command() {
    let mut harness = harness(vec![trace()]);
    for (theme, is_dark) in [(Command::LightTheme, false), (Command::DarkTheme, true), (Command::DarkTheme, true)] {
        app_mut(&mut harness).commands.push(theme);
        settle(&mut harness);
        assert_eq!(harness.ctx.global_style().visuals.dark_mode, is_dark);
    }
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Plus);
    settle(&mut harness);
    assert_eq!(app(&harness).settings.scale, 1.1);
}

#[test]
fn the_wheel_zooms_if_the_person_wants_it_and_the_choice_is_kept() {
    let mut harness = harness(vec![trace()]);
    let wheel = |harness: &mut Harness<'_, Option<App>>| {
        let before = app(harness).session().navigation.visible().dur();
        harness.event(Event::PointerMoved(harness.get_by_label("Timeline canvas").rect().center()));
        harness.event(Event::MouseWheel {
            unit: egui::MouseWheelUnit::Point,
            delta: egui::vec2(0.0, 100.0),
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
            modifiers: Modifiers::NONE,
        });
        settle(harness);
        app(harness).session().navigation.visible().dur() < before
    };
    assert!(!wheel(&mut harness), "the plain wheel scrolls at first");
    harness.get_by_label("View").click();
    settle(&mut harness);
    // The menu is higher than the window of the test.
    harness.get_by_label("Wheel zooms").scroll_to_me();
    settle(&mut harness);
    harness.get_by_label("Wheel zooms").click();
    settle(&mut harness);
    assert!(wheel(&mut harness));
    app_mut(&mut harness).commands.push(Command::ResetLayout);
    settle(&mut harness);
    let stored = serde_json::to_string(&app(&harness).settings()).unwrap();
    let settings: Settings = serde_json::from_str(&stored).unwrap();
    assert!(settings.wheel_zooms);
    harness.key_press(Key::Questionmark);
    settle(&mut harness);
    // The sheet says so: what the wheel does stands beside it.
    let y = |label| harness.get_by_label(label).rect().center().y;
    assert!((y("Wheel") - y("Zoom at the pointer")).abs() < 2.0);
    assert!((y("Ctrl+Wheel") - y("Scroll the tracks")).abs() < 2.0);
}

#[test]
fn many_files_that_are_not_opened_share_a_line() {
    let mut harness = harness(vec![trace()]);
    for i in 0..4 {
        app_mut(&mut harness).commands.push(Command::OpenPath(PathBuf::from(format!("/no/such/trace{i}.json"))));
        settle(&mut harness);
    }
    harness.get_by_label("Not opened:");
    harness.get_by_label("4 files: trace0.json, trace1.json, trace2.json, trace3.json");
    harness.get_by_label("Dismiss all").click();
    settle(&mut harness);
    assert!(harness.query_by_label("Not opened:").is_none() && harness.query_by_label("Dismiss").is_none());
}

#[test]
fn files_that_were_not_opened_are_told_of_over_the_views_only_for_a_while() {
    let mut harness = harness(vec![trace()]);
    for i in 0..4 {
        app_mut(&mut harness).commands.push(Command::OpenPath(PathBuf::from(format!("/no/such/trace{i}.json"))));
        settle(&mut harness);
    }
    harness.get_by_label("Not opened:");
    let before = Instant::now().checked_sub(super::notes::SHOW_UNOPENED);
    app_mut(&mut harness).unopened_since = before.map(|before| (4, before));
    settle(&mut harness);
    assert!(harness.query_by_label("Not opened:").is_none(), "it covers what is read");
    harness.get_by_label("4 files not opened").click();
    settle(&mut harness);
    harness.get_by_label("Not opened:");
    assert!(harness.query_by_label("4 files not opened").is_none());
    harness.get_by_label("Dismiss all").click();
    settle(&mut harness);
    assert!(harness.query_by_label("Not opened:").is_none() && harness.query_by_label("4 files not opened").is_none());
}

#[test]
fn a_failed_load_leaves_what_is_open() {
    let mut harness = harness(vec![trace()]);
    let path = PathBuf::from("/no/such/trace.json");
    app_mut(&mut harness).commands.push(Command::OpenPath(path));
    settle(&mut harness);
    harness.get_by_label("Not opened:");
    assert_eq!(app(&harness).session().traces().len(), 1);
    harness.get_by_label("Dismiss").click();
    settle(&mut harness);
    assert!(harness.query_by_label("Not opened:").is_none());
}

#[test]
fn every_control_has_a_name() {
    let mut harness = harness(vec![trace()]);
    select(&mut harness, "gemm_fp16");
    for tab in ["Range summary", "Events", "Marks", "Problems (1)", "Kernels", "Search results"] {
        harness.get_by_label(tab).click();
        settle(&mut harness);
        for node in harness.root().children_recursive() {
            let node = node.accesskit_node();
            let is_control = matches!(node.role(), egui::Role::Button | egui::Role::CheckBox | egui::Role::TextInput);
            let has_name = node.label().is_some_and(|label| !label.is_empty());
            assert!(!is_control || has_name, "a control without a name on {tab}: {node:?}");
        }
    }
}

#[test]
fn a_window_without_size_does_not_panic() {
    let ctx = Context::default();
    let traces = vec![trace(), self::memory::sample("nsys_5_steps.sqlite")];
    let mut app = App::with_traces(&ctx, Settings::default(), traces);
    for size in [[0.0, 0.0], [1.0, 1.0], [40.0, 3_000.0], [10_000.0, 5_000.0]] {
        let screen_rect = Some(egui::Rect::from_min_size(Pos2::ZERO, size.into()));
        for _ in 0..3 {
            let input = RawInput { screen_rect, ..Default::default() };
            let output = ctx.run_ui(input, |ui| {
                app.step(ui.ctx());
                app.paint(ui);
            });
            output.drop_without_applying_deltas();
        }
    }
}
