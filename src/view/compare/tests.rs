//! The view driven by AccessKit names.

use eframe::egui::{Key, Ui, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::*;
use crate::analysis::compare::tests::{host, training};
use crate::analysis::memory::fixture::Script;
use crate::command::Command;
use crate::model::memory::MemoryAction;
use crate::model::{Format, StackId, Trace};
use crate::view::fixture::{Fixture, settle};

const MS: i64 = 1_000_000;

fn named(name: &str, step: i64, kernels: &[(&str, i64)]) -> Trace {
    let mut trace = training(&[step * MS; 8], kernels);
    trace.info.path = name.into();
    trace
}

fn two() -> Vec<Trace> {
    vec![
        named("before.json", 10, &[("gemm", 6 * MS), ("copy_kernel", MS)]),
        named("after.json", 8, &[("gemm", 5 * MS), ("fused", MS / 2)]),
    ]
}

fn harness(traces: Vec<Trace>) -> Harness<'static, Fixture<CompareView>> {
    let state = Fixture::new(traces, CompareView::default());
    let app = |ui: &mut Ui, state: &mut Fixture<CompareView>| state.ui(ui);
    let mut harness = Harness::builder().with_size(vec2(1400.0, 400.0)).build_ui_state(app, state);
    settle(&mut harness);
    harness
}

/// Whether the paragraph says this.
fn says(harness: &Harness<'static, Fixture<CompareView>>, text: &str) -> bool {
    harness.query_by_label_contains(text).is_some()
}

#[test]
fn it_says_which_is_faster_and_by_what() {
    let mut harness = harness(two());
    assert!(says(
        &harness,
        "GPU 0: a step takes 8.000 ms, 2.000 ms (20.0 %) less than the 10.000 ms before. Faster: the"
    ));
    assert!(says(&harness, "(2 % of a step; means of 6 and 6 steps). Whether the program is faster, or the run as a"));
    assert!(says(&harness, "What changed most:"));
    for row in ["Step", "Compute", "Copies without compute"] {
        harness.get_by_label(row);
    }
    harness.get_by_label("Device work").click();
    settle(&mut harness);
    for kernel in ["gemm", "copy_kernel", "fused"] {
        harness.get_by_label(kernel);
    }
    harness.get_by_label("Operators").click();
    settle(&mut harness);
    harness.get_by_label("aten::mm");
    harness.get_by_label("Swap").click();
    settle(&mut harness);
    assert!(says(&harness, "GPU 0: a step takes 10.000 ms, 2.000 ms (25.0 %) more than the 8.000 ms"));
}

#[test]
fn of_hosts_it_shows_phases_and_functions() {
    let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let of = |loads: i64| host(&[(loader, loads * MS), ("aten::mm", 4 * MS)]);
    let mut harness = harness(vec![of(6), of(1)]);
    assert!(says(&harness, "What changed most: data loading \u{2212}5.000 ms; "));
    for row in ["Step", "Data loading", "No known phase"] {
        harness.get_by_label(row);
    }
    harness.get_by_label("Functions").click();
    settle(&mut harness);
    for name in [loader, "aten::mm"] {
        harness.get_by_label(name);
    }
}

#[test]
fn two_ranks_of_one_job_are_compared_with_a_caveat_and_devices_first() {
    let rank = |rank: u32, wait: i64| {
        let mut trace =
            named("rank.json", 10 + wait, &[("gemm", 6 * MS), ("ncclDevKernel_AllReduce", (1 + wait) * MS)]);
        trace.info.rank = Some(rank);
        trace
    };
    let host =
        crate::model::TraceBuilder::from_slices(&[("main", crate::model::SliceKind::Operator, "aten::mm", 0, MS)]);
    let of = harness(vec![host.finish(), rank(0, 0), rank(1, 3)]);
    assert!(says(&of, "GPU 0: a step takes 13.000 ms, 3.000 ms (30.0 %) more than the 10.000 ms of rank 0 before"));
    assert!(says(&of, "a rank that comes sooner to a collective waits longer in it"));
    assert!(!says(&harness(two()), "a rank that comes sooner"));
}

#[test]
fn either_file_can_be_chosen_and_the_other_gives_way() {
    let mut traces = two();
    traces.push(named("third.json", 9, &[("gemm", 6 * MS)]));
    let mut harness = harness(traces);
    let choose = |harness: &mut Harness<'static, Fixture<CompareView>>, side: &str, file: &str| {
        harness.get_by_label(side).click();
        settle(harness);
        let all: Vec<_> = harness.query_all_by_label(file).collect();
        all.last().unwrap().click();
        drop(all);
        settle(harness);
    };
    choose(&mut harness, "File after", "third.json");
    assert!(says(&harness, "GPU 0: a step takes 9.000 ms, 1.000 ms (10.0 %) less than the 10.000 ms"));
    choose(&mut harness, "File before", "third.json");
    assert!(says(&harness, "GPU 0: a step takes 10.000 ms, 1.000 ms (11.1 %) more than the 9.000 ms"));
}

#[test]
fn the_run_that_was_recorded_earlier_is_before_unless_the_user_chose() {
    const DAY: i64 = 86_400_000_000_000;
    const EPOCH: i64 = 1_700_000_000_000_000_000;
    let mut traces = two();
    traces[0].info.utc_offset_ns = Some(EPOCH + 400 * DAY);
    traces[1].info.utc_offset_ns = Some(EPOCH);
    let mut harness = harness(traces);
    assert!(says(&harness, "GPU 0: a step takes 10.000 ms, 2.000 ms (25.0 %) more than the 8.000 ms before"));
    let dates: Vec<String> = [EPOCH, EPOCH + 400 * DAY].map(|at| date_and_time(at)[..10].to_owned()).into();
    let lefts: Vec<f32> = dates.iter().map(|date| harness.get_by_label(date).rect().left()).collect();
    assert!(lefts[0] < lefts[1], "{dates:?} {lefts:?}");
    harness.get_by_label("Swap").click();
    settle(&mut harness);
    assert!(says(&harness, "GPU 0: a step takes 8.000 ms, 2.000 ms (20.0 %) less than the 10.000 ms"));
    // Of one day the times of day are shown; where one is not known there are none.
    let [morning, evening] = dates_of([EPOCH, EPOCH + 3_600_000_000_000]);
    assert!(morning.contains(':') != morning.contains('-') && morning != evening, "{morning} {evening}");
    harness.state_mut().session.clear();
    let mut traces = two();
    traces[1].info.utc_offset_ns = Some(EPOCH);
    harness.state_mut().session.add(traces);
    settle(&mut harness);
    assert!(harness.query_by_label(&dates[0]).is_none());
}

/// What is shown of two times.
fn dates_of(times: [i64; 2]) -> [String; 2] {
    dates(times).map(|[short, _]| short)
}

#[test]
fn a_step_that_is_cut_to_the_work_of_the_device_is_said_to_be() {
    // The device ends its work 4 ms before the last of three steps ends.
    let short = |name: &str, step: i64| {
        let mut trace = training(&[step * MS; 3], &[("gemm", 4 * MS), ("copy_kernel", 2 * MS)]);
        trace.info.path = name.into();
        trace
    };
    let whole = "from the first to the last work of the device; with the time before and after that it is ";
    let of = harness(vec![short("before.json", 10), short("after.json", 8)]);
    assert!(says(&of, "GPU 0: a step takes 7.333 ms, 1.333 ms (15.4 %) less than the 8.667 ms before, from"));
    assert!(says(&of, &format!("{whole}8.000 ms beside 10.000 ms")));
    let long = named("before.json", 10, &[("gemm", 6 * MS)]);
    let of = harness(vec![long, short("after.json", 8)]);
    assert!(says(&of, &format!("{whole}8.000 ms beside 10.000 ms")));
    assert!(!says(&harness(two()), whole));
}

#[test]
fn one_file_alone_has_nothing_to_be_compared_with() {
    let mut traces = two();
    traces.truncate(1);
    let harness = harness(traces);
    assert!(says(&harness, "Nothing to compare with") && says(&harness, "Open a second recording"));
}

/// A snapshot of these blocks, by the lines that allocate them, of which the last is freed.
fn snapshot(name: &str, lines: &[(&str, u64)]) -> Trace {
    let mut script = Script::default();
    for (at, (line, bytes)) in lines.iter().enumerate() {
        let stack = script.stack(&[line]);
        script.alloc((at as u64) << 30, *bytes, stack);
    }
    let (_, bytes) = lines[lines.len() - 1];
    let addr = (lines.len() as u64 - 1) << 30;
    script.event(MemoryAction::FreeRequested, addr, bytes, StackId::default());
    script.free(addr, bytes);
    script.builder.info.format = Format::Snapshot;
    script.builder.info.path = name.into();
    script.finish()
}

fn two_snapshots() -> Vec<Trace> {
    let [cache, batch] = ["fill (/me/cache.py:4)", "load (/me/batch.py:9)"];
    vec![
        snapshot("before.pickle", &[(cache, 4 << 20), (batch, 3 << 20)]),
        snapshot("after.pickle", &[(cache, 4 << 20), (cache, 6 << 20), (batch, 2 << 20)]),
    ]
}

#[test]
fn of_two_snapshots_it_says_what_holds_more_and_leads_to_both_moments() {
    let mut harness = harness(two_snapshots());
    assert!(says(&harness, "peak allocated 12.00 MiB, 5.00 MiB more than the 7.00 MiB there"));
    assert!(says(&harness, "allocated at end 10.00 MiB, 6.00 MiB more than the 4.00 MiB there"));
    harness.get_by_label("Peak allocated");
    harness.get_by_label("By place").click();
    settle(&mut harness);
    // It has less at the peak alone: at the end it holds nothing in either.
    harness.get_by_label_contains("load (").click();
    settle(&mut harness);
    harness.key_press(Key::Enter);
    settle(&mut harness);
    let peaks = [(0, 0, 2), (1, 0, 3)];
    assert!(harness.state().commands.contains(&Command::CompareMoments(peaks)), "{:?}", harness.state().commands);
    harness.get_by_label("Swap").click();
    settle(&mut harness);
    assert!(says(&harness, "peak allocated 7.00 MiB, 5.00 MiB less than the 12.00 MiB there"));
}

#[test]
fn of_files_with_times_and_of_snapshots_times_come_first() {
    let mut harness = harness(two().into_iter().chain(two_snapshots()).collect());
    assert!(says(&harness, "GPU 0: a step takes 8.000 ms"));
    harness.get_by_label("Memory").click();
    settle(&mut harness);
    assert!(says(&harness, "peak allocated 12.00 MiB") && !says(&harness, "a step takes"));
    harness.get_by_label("Time").click();
    settle(&mut harness);
    assert!(says(&harness, "GPU 0: a step takes 8.000 ms"));
    // Of a snapshot and a recording of what ran there is nothing to compare.
    let [times, memory] = [two(), two_snapshots()].map(|all| all.into_iter().next().unwrap());
    assert!(says(&super::tests::harness(vec![times, memory]), "Nothing to compare with"));
}

#[test]
fn the_longest_of_a_kernel_is_shown_where_it_ran() {
    let mut harness = harness(two());
    harness.get_by_label("Device work").click();
    settle(&mut harness);
    // It ran before alone.
    harness.get_by_label("copy_kernel").click();
    settle(&mut harness);
    harness.key_press(Key::Enter);
    settle(&mut harness);
    assert_eq!((harness.state().session.selection.trace(), harness.state().selected_name()), (Some(0), "copy_kernel"));
}
