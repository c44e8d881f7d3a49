//! The gaps view and the page of a gap, by the names of their controls.

use eframe::egui::{self, Event, Key, OutputCommand};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::GapsView;
use super::facts::{GapRecurrence, SameGap};
use super::page::same_ui;
use crate::command::Command;
use crate::figures::{Rows as _, Sort};
use crate::model::{ProcessId, SliceId, SliceKind, TimeRange, Trace, TraceBuilder};
use crate::session::{GapOrder, Mark, Selection};
use crate::view::View;
use crate::view::details::Details;
use crate::view::fixture::Fixture;

mod inferred;
mod lost_lead;
mod sums;
mod untold;

const OP: SliceKind = SliceKind::Operator;
const CALL: SliceKind = SliceKind::Runtime;
const KERNEL: SliceKind = SliceKind::Kernel;

/// Gaps of 5 µs, 300 µs and 100 µs; during the longest the host is in `aten::nonzero`.
fn trace() -> Trace {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", OP, "aten::mm", 0, 90_000),
        ("main", CALL, "cudaLaunchKernel", 10_000, 20_000),
        ("main", CALL, "cudaLaunchKernel", 30_000, 40_000),
        ("main", OP, "slow_operator", 200_000, 490_000),
        ("main", CALL, "cudaLaunchKernel", 480_000, 490_000),
        ("main", CALL, "cudaLaunchKernel", 500_000, 510_000),
        ("stream 7", KERNEL, "gemm", 50_000, 100_000),
        ("stream 7", KERNEL, "relu", 105_000, 195_000),
        ("stream 7", KERNEL, "softmax", 495_000, 600_000),
        ("stream 7", KERNEL, "loss", 700_000, 800_000),
    ]);
    builder.slices[0].correlation = vec![0, 1, 2, 0, 3, 4, 1, 2, 3, 4];
    builder.finish()
}

fn gap(start: i64, end: i64) -> Selection {
    Selection::Gap { trace: 0, process: ProcessId(1), time: TimeRange { start, end } }
}

fn harness<V: View + 'static>(view: V) -> Harness<'static, Fixture<V>> {
    of(trace(), view)
}

fn of<V: View + 'static>(trace: Trace, view: V) -> Harness<'static, Fixture<V>> {
    let builder = Harness::builder().with_size([1900.0, 500.0]).with_max_steps(200);
    let mut harness = builder.build_ui_state(|ui, fixture| fixture.ui(ui), Fixture::new(vec![trace], view));
    settle(&mut harness);
    harness
}

/// Runs frames until nothing is computed in the background.
fn settle<V: View>(harness: &mut Harness<'_, Fixture<V>>) {
    let mut n_calm = 0;
    while n_calm < 3 {
        harness.step();
        n_calm = if harness.state().view.is_pending() { 0 } else { n_calm + 1 };
        std::thread::yield_now();
    }
}

fn click<V: View>(harness: &mut Harness<'_, Fixture<V>>, label: &str) {
    harness.get_by_label(label).click();
    settle(harness);
}

fn type_text(harness: &mut Harness<'_, Fixture<GapsView>>, text: &str) {
    harness.event(Event::Text(text.to_owned()));
    settle(harness);
}

#[test]
fn gaps_are_listed_from_the_longest_and_filtered() {
    let mut harness = harness(GapsView::default());
    harness.get_by_label("2 of 3 gaps, 400.000 µs");
    harness.get_by_label("Whole trace: idle 405.000 µs of 750.000 µs, 54.0 %");
    let y = |harness: &Harness<'_, Fixture<GapsView>>, label| harness.get_by_label(label).rect().top();
    assert!(y(&harness, "300.000 µs") < y(&harness, "100.000 µs"));

    // Every word must occur in a name: of an operator, of work before or after, of a cause.
    for (text, listed) in [("slow_OPER", "1 of 3 gaps, 300.000 µs"), (" loss", "0 of 3 gaps, 0 ns")] {
        harness.get_by_label("Filter gaps").click();
        settle(&mut harness);
        type_text(&mut harness, text);
        harness.get_by_label(listed);
    }
    harness.get_by_label("No matching gaps");
    harness.state_mut().view.fields.text = "loss softmax".to_owned();
    settle(&mut harness);
    harness.get_by_label("1 of 3 gaps, 100.000 µs");
    harness.state_mut().view.fields.text.clear();
    harness.state_mut().view.fields.min.clear();
    settle(&mut harness);
    harness.get_by_label("3 of 3 gaps, 405.000 µs");

    // A gap that runs into the range is listed whole, and only its time in the range counts, as idle time too.
    harness.state_mut().session.range = Some(TimeRange { start: 650_000, end: 750_000 });
    settle(&mut harness);
    harness.get_by_label("1 of 1 gaps, 50.000 µs");
    harness.get_by_label("Selected range: idle 50.000 µs of 100.000 µs, 50.0 %");
    harness.get_by_label("In range");
    harness.get_by_label("50.000 µs");
    harness.get_by_label("operator known 0.0 %, frame known 0.0 %");
    harness.state_mut().session.range = Some(TimeRange { start: 300_000, end: 490_000 });
    settle(&mut harness);
    harness.get_by_label("operator known 100.0 %, frame known 0.0 %");
    click(&mut harness, "Whole trace");
    harness.get_by_label("3 of 3 gaps, 405.000 µs");
}

/// In the gap the host is three times in `small` and once in `large`, which is longer than each of these.
#[test]
fn where_the_host_was_is_what_takes_most_time_in_all() {
    let traces = [(); 2].map(|()| {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", CALL, "cudaLaunchKernel", 0, 10_000),
            ("main", OP, "small", 110_000, 150_000),
            ("main", OP, "large", 150_000, 210_000),
            ("main", OP, "small", 210_000, 250_000),
            ("main", OP, "small", 260_000, 300_000),
            ("main", CALL, "cudaLaunchKernel", 310_000, 320_000),
            ("stream 7", KERNEL, "gemm", 20_000, 100_000),
            ("stream 7", KERNEL, "relu", 330_000, 400_000),
        ]);
        builder.slices[0].correlation = vec![1, 0, 0, 0, 0, 2, 1, 2];
        builder.finish()
    });
    let [listed, shown] = traces;
    let harness = of(listed, GapsView::default());
    assert_eq!(harness.query_all_by_label("small").count(), 2, "during it, and the operator");
    assert!(harness.query_by_label("large").is_none());
    let mut page = of(shown, Details::default());
    page.state_mut().session.selection = gap(100_000, 330_000);
    settle(&mut page);
    let y = |label: &str| page.get_all_by_label_contains(label).next().unwrap().rect().top();
    assert!(y("small") < y("large"));
    page.get_by_label("Host in most of the gap");
}

/// The work after the gap was launched long before it, and meanwhile the host only waits.
#[test]
fn where_work_was_launched_before_a_gap_is_not_where_the_host_was_in_it() {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", OP, "bucket", 0, 30_000),
        ("main", CALL, "cudaLaunchKernel", 1_000, 5_000),
        ("main", CALL, "cudaLaunchKernel", 10_000, 15_000),
        ("main", CALL, "cudaDeviceSynchronize", 40_000, 400_000),
        ("stream 7", KERNEL, "gemm", 20_000, 100_000),
        ("stream 7", KERNEL, "relu", 110_000, 200_000),
    ]);
    builder.slices[0].correlation = vec![0, 1, 2, 0, 1, 2];
    let mut page = of(builder.finish(), Details::default());
    page.state_mut().session.selection = gap(100_000, 110_000);
    settle(&mut page);
    page.get_by_label("Operator");
    assert!(page.query_by_label("Host in most of the gap").is_none());
    // Nor is the call that had returned what went on in it.
    page.get_by_label("Launched 85.000 µs before the gap by");
    assert_eq!(page.query_all_by_label_contains("cudaLaunchKernel").count(), 1);
}

#[test]
fn freeing_memory_is_said_to_be_the_synchronization() {
    let traces = [(); 2].map(|()| {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", CALL, "cudaLaunchKernel", 0, 10_000),
            ("main", CALL, "cudaFree", 30_000, 290_000),
            ("main", CALL, "cudaLaunchKernel", 310_000, 320_000),
            ("stream 7", KERNEL, "gemm", 20_000, 100_000),
            ("stream 7", KERNEL, "relu", 330_000, 400_000),
        ]);
        builder.slices[0].correlation = vec![1, 0, 2, 1, 2];
        builder.finish()
    });
    let [listed, shown] = traces;
    let harness = of(listed, GapsView::default());
    harness.get_by_label("Queue drained by freeing memory");
    let mut page = of(shown, Details::default());
    page.state_mut().session.selection = gap(100_000, 330_000);
    settle(&mut page);
    page.get_by_label("Queue drained by freeing memory");
    page.get_by_label_contains("one call is both");
}

#[test]
fn a_row_selects_its_gap_and_the_selection_moves_the_cursor() {
    let mut harness = harness(GapsView::default());
    click(&mut harness, "300.000 µs");
    assert_eq!(harness.state().session.selection, gap(195_000, 495_000));
    assert_eq!(harness.state().commands, [Command::Reveal]);
    harness.key_press(Key::ArrowDown);
    settle(&mut harness);
    assert_eq!(harness.state().session.selection, gap(600_000, 700_000));

    let cursor = |harness: &Harness<'_, Fixture<GapsView>>| {
        let (rows, row) = harness.state().view.grid.shown().unwrap();
        row.map(|row| rows.gaps[row].gap)
    };
    harness.state_mut().session.selection = gap(195_000, 495_000);
    settle(&mut harness);
    assert_eq!(cursor(&harness), Some(1));
    harness.state_mut().session.selection = gap(100_000, 105_000);
    settle(&mut harness);
    assert_eq!(cursor(&harness), None, "it is too short to be listed");
}

#[test]
fn causes_and_clusters_lead_to_their_gaps() {
    let mut harness = harness(GapsView::default());
    click(&mut harness, "By what went on meanwhile");
    harness.get_by_label("Of idle time");
    let operators = "CPU operators";
    click(&mut harness, operators);
    assert_eq!(harness.state().session.selection, gap(195_000, 495_000), "it has the longest part");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    assert_eq!(harness.state().view.fields.class, Some(crate::analysis::gaps::GapClass::CpuOp));
    harness.get_by_label("1 of 3 gaps, 300.000 µs");
    harness.state_mut().view.fields.class = None;
    click(&mut harness, "Clusters");
    harness.get_by_label("slow_operator");
    harness.get_all_by_label("softmax").next().unwrap().click();
    settle(&mut harness);
    assert!(matches!(harness.state().session.selection, Selection::Gap { .. }));
}

#[test]
fn the_order_of_the_walk_is_chosen_here() {
    let mut harness = harness(GapsView::default());
    assert_eq!(harness.state().session.gap_order, GapOrder::Duration);
    click(&mut harness, "along time");
    let follow = |view: GapsView| {
        let mut other = Fixture::new(vec![trace()], view);
        other.with(|view, ctx| view.update(ctx, &egui::Context::default()));
        other.session.gap_order
    };
    let saved = harness.state().view.save();
    assert_eq!(follow(std::mem::take(&mut harness.state_mut().view)), GapOrder::Time);
    let mut restored = GapsView::default();
    restored.load(&saved);
    assert_eq!(follow(restored), GapOrder::Time, "after a restart");
    assert_eq!(follow(GapsView::default()), GapOrder::Duration);
}

#[test]
fn marks_that_are_the_steps_are_the_steps_of_gaps() {
    let mut harness = harness(Details::default());
    harness.set_size(egui::vec2(400.0, 1600.0));
    harness.state_mut().session.selection = gap(195_000, 495_000);
    settle(&mut harness);
    assert!(harness.query_by_label_contains("of Mark").is_none());
    let session = &mut harness.state_mut().session;
    session.marks = [0, 150_000, 550_000, 800_000].map(|at| Mark::new(TimeRange { start: at, end: at })).to_vec();
    session.steps.by_marks = true;
    settle(&mut harness);
    harness.get_by_label("Step");
    harness.get_by_label_contains("which takes this device 400.000 µs");
}

#[test]
fn small_causes_are_one_line_that_opens() {
    // A gap of 10 ms, almost all of it in one operator.
    let mut builder = TraceBuilder::from_slices(&[
        ("main", OP, "slow_operator", 0, 9_990_000),
        ("main", OP, "quick_operator", 9_991_000, 9_992_000),
        ("main", CALL, "cudaLaunchKernel", 9_993_000, 9_999_000),
        ("stream 7", KERNEL, "gemm", 0, 1_000),
        ("stream 7", KERNEL, "relu", 10_001_000, 10_100_000),
    ]);
    builder.slices[0].correlation = vec![0, 0, 4, 0, 4];
    let fixture = Fixture::new(vec![builder.finish()], Details::default());
    let builder = Harness::builder().with_size([400.0, 1600.0]).with_max_steps(200);
    let mut harness = builder.build_ui_state(|ui, fixture: &mut Fixture<Details>| fixture.ui(ui), fixture);
    harness.state_mut().session.selection = gap(1_000, 10_001_000);
    settle(&mut harness);
    harness.get_by_label("slow_operator");
    assert!(harness.query_by_label("quick_operator").is_none());
    let others = harness.get_by_label_contains(" others, ");
    others.click();
    settle(&mut harness);
    harness.run_steps(20);
    harness.get_by_label("quick_operator");
}

#[test]
fn a_range_that_the_host_was_in_is_drawn_on_the_lane_of_the_host() {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", SliceKind::Annotation, "epoch", 0, 700_000),
        ("main", CALL, "cudaLaunchKernel", 10_000, 20_000),
        ("main", CALL, "cudaLaunchKernel", 600_000, 605_000),
        ("stream 7", KERNEL, "gemm", 50_000, 100_000),
        ("stream 7", KERNEL, "relu", 610_000, 700_000),
    ]);
    builder.slices[0].correlation = vec![0, 1, 2, 1, 2];
    let fixture = Fixture::new(vec![builder.finish()], Details::default());
    let builder = Harness::builder().with_size([400.0, 1600.0]).with_max_steps(200);
    let mut harness = builder.build_ui_state(|ui, fixture: &mut Fixture<Details>| fixture.ui(ui), fixture);
    harness.state_mut().session.selection = gap(100_000, 610_000);
    settle(&mut harness);
    let picture = harness.get_by_label("The gap in time").rect();
    let on_lane = |lane: f32| egui::pos2(picture.center().x, picture.top() + 40.0 + 34.0 * lane);
    for (lane, is_there) in [(0.0, true), (1.0, false)] {
        harness.hover_at(on_lane(lane));
        harness.run_steps(30);
        assert_eq!(harness.query_by_label_contains("Unexplained, 500").is_some(), is_there, "lane {lane}");
    }
}

#[test]
fn the_page_says_why_between_what_and_what_to_do() {
    let mut harness = harness(Details::default());
    harness.set_size(egui::vec2(400.0, 1600.0));
    harness.state_mut().session.selection = gap(195_000, 495_000);
    settle(&mut harness);
    for label in
        ["Idle for 300.000 µs", "The gap in time", "What went on meanwhile, by name", "What to do", "Launched by"]
    {
        harness.get_by_label(label);
    }
    harness.get_by_label("300.000 µs (300,000 ns)");
    harness.get_by_label_contains("of 405.000 µs in 3 gaps");
    harness.get_by_label("relu, 90.000 µs");
    harness.get_by_label("Python frame: not recorded");
    harness.get_by_label_contains("with_stack=True");

    harness.get_by_label("Copy text").click();
    let copied = |command: &OutputCommand| match command {
        OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    };
    let mut frames = (0..5).map(|_| {
        harness.step();
        harness.output().platform_output.commands.iter().find_map(copied)
    });
    let text = frames.find_map(|text| text).unwrap();
    for line in
        ["GPU 0: idle for 300.000 µs (300000 ns)", "After: relu", "Ended by: softmax", "slow_operator", "Check: "]
    {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    settle(&mut harness);
    click(&mut harness, "softmax, 105.000 µs");
    assert_eq!(harness.state().selected_name(), "softmax");

    // Another gap, then none.
    harness.state_mut().session.selection = gap(600_000, 700_000);
    settle(&mut harness);
    harness.get_by_label("loss, 100.000 µs");
    harness.state_mut().session.selection = gap(1, 2);
    settle(&mut harness);
    harness.get_by_label("No information about this gap");
}

#[test]
fn rows_sort_by_operator_with_unknown_ones_last_and_the_work_can_be_cancelled() {
    let harness = harness(GapsView::default());
    let (rows, _) = harness.state().view.grid.shown().unwrap();
    let column = rows.columns().iter().position(|column| column.key == "operator").unwrap();
    let name = |row: &u32| rows.row(*row as usize)[column].as_name().map(str::to_owned);
    for is_descending in [false, true] {
        let sort = Some(Sort { column, is_descending });
        let names: Vec<_> = rows.order(sort, "").iter().map(name).collect();
        assert_eq!(names, [Some("slow_operator".to_owned()), None], "{is_descending}");
        assert_eq!(rows.sorted(sort, &|_| false), None);
    }
}

#[test]
fn what_comes_back_is_said_of_the_steps_that_count_and_of_those_listed() {
    let mut all = GapRecurrence { count: 5, total_ns: 50_000, ns_per_step: Some(9_000), ..GapRecurrence::default() };
    (all.steps, all.n_all_steps, all.is_counted) = ((3, 4), 6, true);
    assert_eq!(
        all.sentence(),
        "One of 5 gaps of this kind, 50.000 µs in all, in 3 of the 4 judged steps, 9.000 µs per step"
    );
    all.is_counted = false;
    assert!(all.sentence().ends_with("9.000 µs per step. This one is in none of them"));
    let one = SameGap { step: "step 1".to_owned(), is_counted: true, time: TimeRange { start: 0, end: 9 } };
    all.same = vec![one; 4];
    assert_eq!(all.list_title(), "The longest gap of each of the 4 other steps that have it, in order of time:");
    all.n_more = 3;
    assert_eq!(all.list_title(), "The longest gap of each of 4 of 7 other steps, in order of time:");
}

/// A rank whose device works until 10 µs and after 100 µs; its host is in a collective from `start` to 90 µs, and
/// another of its threads, for which the device does not wait, in one from `other` to 99 µs.
fn rank(rank: u32, start: i64, other: i64) -> Trace {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", CALL, "cudaLaunchKernel", 0, 1_000),
        ("main", SliceKind::Annotation, "gloo:all_reduce", start, 90_000),
        ("main", CALL, "cudaLaunchKernel", 95_000, 96_000),
        ("other", SliceKind::Annotation, "gloo:broadcast", other, 99_000),
        ("stream 7", KERNEL, "gemm", 5_000, 10_000),
        ("stream 7", KERNEL, "gemm", 100_000, 110_000),
    ]);
    builder.slices[0].correlation = vec![1, 0, 2, 0, 1, 2];
    builder.info.rank = Some(rank);
    builder.info.utc_offset_ns = Some(0);
    builder.finish()
}

#[test]
fn a_gap_that_waits_for_a_late_rank_leads_to_it() {
    let builder = Harness::builder().with_size([400.0, 1_500.0]).with_max_steps(200);
    let traces = vec![rank(0, 12_000, 11_000), rank(1, 80_000, 97_000)];
    let mut harness = builder.build_ui_state(|ui, fixture| fixture.ui(ui), Fixture::new(traces, Details::default()));
    let gap = |trace| Selection::Gap { trace, process: ProcessId(1), time: TimeRange { start: 10_000, end: 100_000 } };
    harness.state_mut().session.selection = gap(0);
    settle(&mut harness);
    harness.get_by_label("Waits 68.000 µs for rank 1, which comes last to the collective");
    click(&mut harness, "Show rank 1: gloo:all_reduce");
    let Selection::Slice { trace: 1, slice } = harness.state().session.selection else { panic!("not on rank 1") };
    assert_eq!(harness.state().session.traces()[1].trace.slices.time(slice), TimeRange { start: 80_000, end: 90_000 });
    assert!(harness.state().commands.contains(&Command::Reveal));
    // The late one waits for no other.
    harness.state_mut().session.selection = gap(1);
    settle(&mut harness);
    assert_eq!(harness.query_all_by_label_contains("for rank").count(), 0);
}

/// Nothing is wider than the panel: else all text below it wraps outside.
fn assert_within<S>(harness: &Harness<'_, S>, width: f32) {
    let mut n = 0;
    let has_place = |node: &egui_kittest::Node<'_>| node.accesskit_node().bounding_box().is_some();
    for node in harness.query_all(egui_kittest::kittest::by()).filter(has_place) {
        let right = node.rect().right();
        assert!(right <= width, "{:?} ends at {right}", node.accesskit_node().label());
        n += 1;
    }
    assert!(n > 5, "{n} nodes");
}

#[test]
fn long_names_are_cut_to_the_width_of_the_details() {
    const WIDTH: f32 = 240.0;
    let kernel = format!("void at::native::{}<float>(float*)", "vectorized_elementwise_kernel_".repeat(8));
    let operator = "an operator with a name of many words, ".repeat(8);
    let mut builder = TraceBuilder::from_slices(&[
        ("main", OP, &operator, 0, 1_500_000),
        ("main", CALL, "cudaLaunchKernel", 1_400_000, 1_410_000),
        ("stream 7", KERNEL, &kernel, 0, 1_000),
        ("stream 7", KERNEL, &kernel, 1_500_000, 1_600_000),
    ]);
    builder.slices[0].correlation = vec![0, 4, 0, 4];
    builder.info.path = format!("/{}.json", "long_name_of_a_file".repeat(9)).into();
    let fixture = Fixture::new(vec![builder.finish()], Details::default());
    let builder = Harness::builder().with_size([WIDTH, 3_000.0]).with_max_steps(200);
    let mut harness = builder.build_ui_state(|ui, fixture: &mut Fixture<Details>| fixture.ui(ui), fixture);
    harness.state_mut().session.selection = gap(1_000, 1_500_000);
    settle(&mut harness);
    harness.get_by_label("Work after");
    assert_within(&harness, WIDTH);
    for slice in 0..4 {
        harness.state_mut().session.selection = Selection::Slice { trace: 0, slice: SliceId(slice) };
        settle(&mut harness);
        harness.get_by_label("Copy name");
        assert_within(&harness, WIDTH);
    }

    // Gaps of other steps, which a program gives any names.
    let one = |step: &str| SameGap { step: step.repeat(30), is_counted: false, time: TimeRange { start: 0, end: 9 } };
    let same = ["train step ", "s", ""].map(one).to_vec();
    let all = GapRecurrence { count: 4, same, steps: (3, 4), ..GapRecurrence::default() };
    let mut ui = |ui: &mut egui::Ui| _ = same_ui(&all, ui);
    let mut harness = Harness::builder().with_size([WIDTH, 400.0]).build_ui(&mut ui);
    harness.run();
    assert_within(&harness, WIDTH);
}
