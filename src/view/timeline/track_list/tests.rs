use eframe::egui;

use super::*;
use crate::model::{Counter, Format, Process, SliceKind, Trace, TraceBuilder, Track, TrackKind};
use crate::view::timeline::labels::{LabelAction, apply};

mod behind;
mod recording;

fn open() -> Vec<OpenTrace> {
    let slices = [
        ("main", SliceKind::Operator, "outer", 0, 100),
        ("main", SliceKind::Operator, "inner", 10, 20),
        ("stream 7", SliceKind::Kernel, "gemm", 30, 60),
        ("stream 20", SliceKind::Kernel, "copy", 30, 60),
    ];
    vec![OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0)]
}

fn titles(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.title.as_str()).collect()
}

fn key_of<'a>(list: &'a TrackList, title: &str) -> &'a str {
    &list.scrolled.iter().find(|line| line.title == title).unwrap().key
}

#[test]
fn groups_collapse_and_tracks_are_pinned_hidden_and_filtered() {
    let traces = open();
    let mut settings = TimelineSettings::default();
    let all = TrackList::build(&traces, &[], &settings, "");
    assert_eq!(titles(&all.scrolled), ["python", "main", "GPU 0", "stream 7", "stream 20"]);
    assert_eq!(all.scrolled[1].height, 2.0 * ROW_HEIGHT);

    let filtered = TrackList::build(&traces, &[], &settings, "Stream 7");
    assert_eq!(titles(&filtered.scrolled), ["GPU 0", "stream 7"]);
    let filtered = TrackList::build(&traces, &[], &settings, "gpu");
    assert_eq!(titles(&filtered.scrolled), ["GPU 0", "stream 7", "stream 20"]);

    settings.collapsed.insert(key_of(&all, "GPU 0").to_owned());
    settings.collapsed.insert(key_of(&all, "main").to_owned());
    settings.pinned.push(key_of(&all, "stream 20").to_owned());
    let list = TrackList::build(&traces, &[], &settings, "");
    assert_eq!(titles(&list.scrolled), ["python", "main", "GPU 0"]);
    assert_eq!(titles(&list.pinned), ["stream 20, GPU 0"]);
    for filter in ["main", "nowhere"] {
        let filtered = TrackList::build(&traces, &[], &settings, filter);
        assert_eq!(titles(&filtered.pinned), ["stream 20, GPU 0"], "it stays whatever the filter is");
        assert!(filtered.scrolled.iter().all(|line| line.title != "GPU 0" && line.title != "stream 20"));
    }
    assert_eq!(list.scrolled[1].height, ROW_HEIGHT);
    assert_eq!(list.line(list.line_of(0, TrackId(1)).unwrap()).unwrap().title, "GPU 0");
    assert_eq!(list.line(list.line_of(0, TrackId(2)).unwrap()).unwrap().title, "stream 20, GPU 0");

    settings.hidden.insert(key_of(&all, "python").to_owned());
    let list = TrackList::build(&traces, &[], &settings, "");
    assert_eq!((titles(&list.scrolled), list.hidden.len()), (vec!["GPU 0"], 1));
    // The thread of the hidden process, and in the collapsed device the stream that is not pinned.
    assert_eq!((list.n_hidden, list.n_collapsed), (1, 1));
    settings.show_hidden(&list);
    let list = TrackList::build(&traces, &[], &settings, "");
    assert_eq!(titles(&list.scrolled), ["python", "main", "GPU 0", "stream 7"]);
    assert_eq!((list.n_hidden, list.n_collapsed), (0, 0));
}

#[test]
fn what_is_hidden_or_collapsed_at_several_levels_counts_once_and_comes_back_at_once() {
    let traces = open();
    let mut parts = vec![vec![Part::default(); traces[0].trace.tracks.len()]];
    parts[0][2].of = Some(TrackId(1));
    let all = TrackList::build(&traces, &parts, &TimelineSettings::default(), "");
    let n_hidden = |hidden: &[&str], collapsed: &[&str], filter: &str| {
        let mut settings = TimelineSettings::default();
        settings.hidden.extend(hidden.iter().map(|title| key_of(&all, title).to_owned()));
        settings.collapsed.extend(collapsed.iter().map(|title| key_of(&all, title).to_owned()));
        let list = TrackList::build(&traces, &parts, &settings, filter);
        settings.show_hidden(&list);
        let back = TrackList::build(&traces, &parts, &settings, "");
        assert!(!filter.is_empty() || back == all, "{hidden:?} {collapsed:?}");
        (list.n_hidden, list.n_collapsed)
    };
    assert_eq!(n_hidden(&["stream 7"], &[], ""), (2, 0), "with the one below it");
    assert_eq!(n_hidden(&["GPU 0", "stream 20"], &[], ""), (2, 0));
    assert_eq!(n_hidden(&[], &["stream 7"], ""), (0, 1));
    assert_eq!(n_hidden(&["stream 20"], &["stream 7", "GPU 0"], ""), (1, 1));
    assert_eq!(n_hidden(&["stream 7"], &[], "main"), (2, 0), "whatever the filter");
}

#[test]
fn a_hidden_stream_takes_its_annotations_along() {
    let traces = open();
    let mut parts = vec![vec![Part::default(); traces[0].trace.tracks.len()]];
    parts[0][2].of = Some(TrackId(1));
    let mut settings = TimelineSettings::default();
    let all = TrackList::build(&traces, &parts, &settings, "");
    assert_eq!(titles(&all.scrolled), ["python", "main", "GPU 0", "stream 7", "stream 20"]);
    settings.hidden.insert(key_of(&all, "stream 7").to_owned());
    let list = TrackList::build(&traces, &parts, &settings, "");
    assert_eq!((titles(&list.scrolled), list.hidden.len()), (vec!["python", "main", "GPU 0"], 1));
}

#[test]
fn streams_of_a_device_come_before_threads_that_were_recorded_in_its_process() {
    let mut traces = open();
    let trace = std::sync::Arc::get_mut(&mut traces[0].trace).unwrap();
    trace.tracks[0].process = trace.tracks[1].process;
    let list = TrackList::build(&traces, &[], &TimelineSettings::default(), "");
    assert_eq!(titles(&list.scrolled), ["GPU 0", "stream 7", "stream 20", "main"]);
}

#[test]
fn the_users_order_comes_first() {
    let traces = open();
    let mut settings = TimelineSettings::default();
    let all = TrackList::build(&traces, &[], &settings, "");
    let line = all.scrolled.iter().find(|line| line.title == "stream 20").unwrap();
    settings.order.insert(line.parent.clone(), vec![line.key.clone()]);
    let list = TrackList::build(&traces, &[], &settings, "");
    assert_eq!(titles(&list.scrolled), ["python", "main", "GPU 0", "stream 20", "stream 7"]);
}

#[test]
fn only_lines_on_screen_are_visible() {
    let list = TrackList::build(&open(), &[], &TimelineSettings::default(), "");
    assert_eq!(visible_lines(&list.scrolled, 0.0, 1e9), 0..5);
    let second = list.scrolled[1].y;
    assert_eq!(visible_lines(&list.scrolled, second, second + 1.0), 1..2);
    assert!(visible_lines(&list.scrolled, 1e9, 2e9).is_empty());
    assert!(total_height(&list.scrolled) > 5.0 * 18.0);
}

/// A trace with so many counters of its device, and with that a snapshot of memory of the same run.
fn counters(n: usize) -> Trace {
    let mut builder = TraceBuilder::from_slices(&[("stream 7", SliceKind::Kernel, "gemm", 30, 60)]);
    for i in 0..n {
        let name = if i + 1 == n { "SMs Active".to_owned() } else { format!("metric {i}") };
        let process = builder.tracks[0].process;
        let track = TrackId(builder.tracks.len() as u32);
        builder.tracks.push(Track { kind: TrackKind::Counter, name, process, ..Track::default() });
        builder.counters.push(Counter { track, ts: vec![30, 40], value: vec![1.0, 2.0], ..Counter::default() });
    }
    builder.finish()
}

#[test]
fn of_many_counters_the_most_important_are_shown() {
    let few = [OpenTrace::new(counters(8), 0)];
    assert_eq!(TrackList::build(&few, &[], &TimelineSettings::default(), "").scrolled.len(), 2 + 8);
    let traces = [OpenTrace::new(counters(25), 0)];
    let mut settings = TimelineSettings::default();
    let list = TrackList::build(&traces, &[], &settings, "");
    let shown = titles(&list.scrolled);
    assert_eq!(shown[..4], ["GPU 0", "stream 7", "SMs Active", "metric 0"]);
    assert_eq!((shown.len(), shown[shown.len() - 1]), (2 + 6 + 1, "19 more counters"));
    settings.expanded.insert(list.scrolled[8].key.clone());
    let list = TrackList::build(&traces, &[], &settings, "");
    assert_eq!(list.scrolled.len(), 2 + 25 + 1);
    let list = TrackList::build(&traces, &[], &TimelineSettings::default(), "metric 23");
    assert_eq!(titles(&list.scrolled), ["GPU 0", "metric 23"], "what is looked for is not folded");
}

#[test]
fn of_the_readings_of_a_driver_load_memory_power_and_temperature_are_shown() {
    let names = [
        "GPU utilization",
        "Memory utilization",
        "Memory used",
        "Power [W]",
        "Temperature [°C]",
        "Memory reserved",
        "Memory total",
        "Power instant [W]",
        "Energy [J]",
        "Power limit [W]",
        "Memory temperature [°C]",
        "Encoder utilization",
        "PCIe sent [B/s]",
    ];
    let mut builder = TraceBuilder::from_slices(&[]);
    builder.processes.push(Process { name: "GPU 0".to_owned(), ..Process::default() });
    for name in names {
        let track = TrackId(builder.tracks.len() as u32);
        builder.tracks.push(Track { kind: TrackKind::Counter, name: name.to_owned(), ..Track::default() });
        builder.counters.push(Counter { track, ts: vec![30, 40], value: vec![1.0, 2.0], ..Counter::default() });
    }
    let traces = [OpenTrace::new(builder.finish(), 0)];
    let list = TrackList::build(&traces, &[], &TimelineSettings::default(), "");
    let shown = titles(&list.scrolled);
    assert_eq!(shown[1..6], ["GPU utilization", "Memory used", "Power [W]", "Temperature [°C]", "Memory reserved"]);
}

#[test]
fn a_snapshot_stands_below_the_trace_of_its_run_with_its_names_folded() {
    let snapshot = || {
        let mut builder = TraceBuilder::from_slices(&[("names", SliceKind::Annotation, "step", 0, 90)]);
        builder.info.format = Format::Snapshot;
        let track = TrackId(builder.tracks.len() as u32);
        let process = builder.tracks[0].process;
        let kind = TrackKind::Counter;
        builder.tracks.push(Track { kind, name: "allocated".to_owned(), process, ..Track::default() });
        builder.counters.push(Counter { track, ts: vec![30], value: vec![1.0], ..Counter::default() });
        OpenTrace::new(builder.finish(), 0)
    };
    let list = TrackList::build(&[snapshot()], &[], &TimelineSettings::default(), "");
    assert_eq!(titles(&list.scrolled), ["python", "allocated", "names"], "alone it shows all");
    let traces = [snapshot(), open().remove(0)];
    let list = TrackList::build(&traces, &[], &TimelineSettings::default(), "");
    let shown = titles(&list.scrolled);
    assert_eq!(shown[1..6], ["python", "main", "GPU 0", "stream 7", "stream 20"]);
    assert!(shown[6].starts_with("python, "), "one heading for file and process: {}", shown[6]);
    assert_eq!(shown[7..], ["allocated", "annotations, as in the trace"]);
    // What is folded is found.
    assert!(list.fold_of(0, TrackId(0)).is_some() && list.line_of(0, TrackId(0)).is_some());
}

/// Two streams that work, `n_quiet` that hardly do, annotations of the first, a counter, and a thread.
fn rank(n_quiet: usize) -> OpenTrace {
    let quiet: Vec<String> = (0..n_quiet).map(|i| format!("stream {}", 20 + i)).collect();
    let mut slices = vec![
        ("main", SliceKind::Operator, "op", 0, 100),
        ("stream 7", SliceKind::Kernel, "gemm", 0, 1_000),
        ("stream 8", SliceKind::Kernel, "gemm", 0, 500),
        ("stream 7: annotations", SliceKind::GpuAnnotation, "step", 0, 1_000),
    ];
    slices.extend(quiet.iter().map(|name| (name.as_str(), SliceKind::Memcpy, "copy", 0, 10)));
    let mut builder = TraceBuilder::from_slices(&slices);
    let (kind, process) = (TrackKind::Counter, builder.tracks[1].process);
    builder.counters.push(Counter {
        track: TrackId(builder.tracks.len() as u32),
        ts: vec![1],
        value: vec![1.0],
        ..Counter::default()
    });
    builder.tracks.push(Track { kind, name: "allocated".to_owned(), process, ..Track::default() });
    for track in &mut builder.tracks {
        track.tid = track.name.split(':').next().unwrap_or_default().to_owned();
    }
    OpenTrace::new(builder.finish(), 0)
}

fn list_of(traces: &[OpenTrace], settings: &TimelineSettings, filter: &str) -> TrackList {
    let parts: Vec<Vec<Part>> = traces.iter().map(|open| crate::analysis::threads::parts(&open.trace)).collect();
    TrackList::build(traces, &parts, settings, filter)
}

#[test]
fn a_single_thread_that_waits_is_folded_if_its_stack_is_deep() {
    let shown = |is_deep: bool| {
        let python = SliceKind::PythonFunction;
        let mut slices = vec![
            ("main", SliceKind::Operator, "aten::mm", 0, 1_000),
            ("monitor", python, "threading.py(359): wait", 0, 1_000),
        ];
        slices.extend(is_deep.then_some(("monitor", python, "<method 'acquire'>", 0, 1_000)));
        let open = OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0);
        titles(&list_of(&[open], &TimelineSettings::default(), "").scrolled).contains(&"monitor")
    };
    assert_eq!([false, true].map(shown), [true, false]);
}

#[test]
fn streams_that_hardly_work_are_folded_where_they_are_many() {
    let settings = TimelineSettings::default();
    let few = list_of(&[rank(2)], &settings, "");
    assert!(titles(&few.scrolled).contains(&"stream 21"));
    let many = list_of(&[rank(3)], &settings, "");
    let shown = ["python", "main", "GPU 0", "stream 7", "annotations", "stream 8", "allocated", "3 more streams"];
    assert_eq!(titles(&many.scrolled), shown);
}

#[test]
fn a_line_of_folded_streams_is_hidden_with_them_folded_or_not() {
    let traces = [rank(3)];
    for is_unfolded in [false, true] {
        let mut settings = TimelineSettings::default();
        let act = |settings: &mut TimelineSettings, action| {
            let list = list_of(&traces, settings, "");
            apply(settings, &list, &list.scrolled[7], action);
        };
        if is_unfolded {
            act(&mut settings, LabelAction::ToggleCollapsed);
        }
        let before = list_of(&traces, &settings, "");
        assert_eq!(before.scrolled.len(), if is_unfolded { 11 } else { 8 }, "{:?}", titles(&before.scrolled));
        act(&mut settings, LabelAction::Hide);
        let hidden = list_of(&traces, &settings, "");
        let shown = ["python", "main", "GPU 0", "stream 7", "annotations", "stream 8", "allocated"];
        assert_eq!((titles(&hidden.scrolled), hidden.n_hidden), (shown.to_vec(), 3));
        settings.show_hidden(&hidden);
        assert_eq!(list_of(&traces, &settings, ""), before, "as it was");
    }
}

#[test]
fn of_several_ranks_the_first_picture_shows_what_their_devices_did() {
    let traces = [rank(3), rank(0)];
    let mut settings = TimelineSettings::default();
    let list = list_of(&traces, &settings, "");
    let shown = titles(&list.scrolled);
    let of_first = ["python, 1 thread", "GPU 0", "stream 7", "stream 8", "allocated", "3 more streams, annotations"];
    assert_eq!(shown[1..7], of_first);
    assert_eq!(shown[8..], ["python, 1 thread", "GPU 0", "stream 7", "stream 8", "allocated", "annotations"]);
    // All that is folded is found, and one click away.
    for track in 0..traces[0].trace.tracks.len() {
        assert!(list.line_of(0, TrackId(track as u32)).is_some(), "{track}");
    }
    let process = list.scrolled[1].clone();
    assert!(process.is_collapsed);
    apply(&mut settings, &list, &process, LabelAction::ToggleCollapsed);
    let open = list_of(&traces, &settings, "");
    assert_eq!(titles(&open.scrolled)[1..4], ["python", "main", "GPU 0"]);
    apply(&mut settings, &open, &open.scrolled[1], LabelAction::ToggleCollapsed);
    assert_eq!(list_of(&traces, &settings, ""), list, "a second click folds it again");
    assert!(titles(&list_of(&traces, &settings, "annot").scrolled).contains(&"annotations"));
}

#[test]
fn of_several_ranks_processes_that_launch_nothing_share_a_line() {
    let rank = || {
        let op = SliceKind::Operator;
        let slices = [("main", op, "op", 0, 100), ("spans", op, "step", 0, 100), ("traces", op, "x", 0, 9)];
        let call = ("main", SliceKind::Runtime, "cudaLaunchKernel", 10, 20);
        let kernel = ("stream 7", SliceKind::Kernel, "gemm", 20, 90);
        let mut builder = TraceBuilder::from_slices(&[slices[0], slices[1], slices[2], call, kernel]);
        builder.slices[0].correlation = vec![0, 0, 0, 5, 5];
        for name in ["spans", "traces"] {
            let process = crate::model::ProcessId(builder.processes.len() as u32);
            builder.processes.push(crate::model::Process { name: name.to_owned(), ..Default::default() });
            builder.tracks.iter_mut().filter(|track| track.name == name).for_each(|track| track.process = process);
        }
        OpenTrace::new(builder.finish(), 0)
    };
    let settings = TimelineSettings::default();
    assert_eq!(titles(&list_of(&[rank()], &settings, "").scrolled).len(), 8, "one rank shows all");
    let traces = [rank(), rank()];
    let folded = list_of(&traces, &settings, "");
    assert_eq!(titles(&folded.scrolled)[1..5], ["python, 1 thread", "GPU 0", "stream 7", "2 more processes"]);
    for track in 0..traces[0].trace.tracks.len() {
        assert!(folded.line_of(0, TrackId(track as u32)).is_some(), "{track}");
    }
    let mut unfolded = settings;
    unfolded.expanded.insert(folded.scrolled[4].key.clone());
    let list = list_of(&traces, &unfolded, "");
    assert_eq!(titles(&list.scrolled)[4..7], ["2 more processes", "spans, 1 thread", "traces, 1 thread"]);
    // Their line is hidden with them, folded or not.
    for (before, mut settings) in [(folded, TimelineSettings::default()), (list, unfolded)] {
        apply(&mut settings, &before, &before.scrolled[4], LabelAction::Hide);
        let hidden = list_of(&traces, &settings, "");
        let gone = before.scrolled.len() - hidden.scrolled.len();
        // The traces are the same, so both lines have one key.
        assert_eq!((gone, hidden.n_hidden), (if before.scrolled[4].is_collapsed { 2 } else { 6 }, 4));
        settings.show_hidden(&hidden);
        assert_eq!(list_of(&traces, &settings, ""), before, "as it was");
    }
}

/// A thread with 4 outer rows that only pass on, and `n` rows below them.
fn deep(n: usize) -> OpenTrace {
    let python = SliceKind::PythonFunction;
    let mut slices = vec![("main", python, "outer", 0, 4_000); 4];
    slices.extend((0..n).flat_map(|_| (0..4).map(|i| ("main", python, "step", 1_000 * i, 1_000 * i + 900))));
    OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0)
}

#[test]
fn of_a_deep_thread_the_rows_in_the_middle_are_shown_and_the_others_with_a_click() {
    let shown = |n: usize| {
        let list = list_of(&[deep(n)], &TimelineSettings::default(), "");
        assert_eq!(titles(&list.scrolled), ["python", "main"]);
        let line = &list.scrolled[1];
        (line.rows(), line.row_fold.clone().map(|fold| fold.title).unwrap_or_default())
    };
    let main = |rows: std::ops::Range<u32>, folded: &str| (rows, folded.to_owned());
    assert_eq!(shown(20), main(0..24, ""));
    assert_eq!(shown(21), main(4..25, "4 outer rows"));
    assert_eq!(shown(30), main(4..24, "4 outer, 10 inner rows"));

    let traces = [deep(30)];
    let mut settings = TimelineSettings::default();
    let list = list_of(&traces, &settings, "");
    let rect = egui::Rect::from_min_size(egui::pos2(0.0, 0.0), egui::vec2(100.0, 900.0));
    let area = crate::view::timeline::layout::Area { rect, scroll: 0.0, covered: 0.0 };
    let top = |row: u32| area.row(&list.scrolled[1], row).0;
    assert_eq!(top(5) - top(4), ROW_HEIGHT);
    let edges = [top(4), top(23) + ROW_HEIGHT];
    assert_eq!([area.row(&list.scrolled[1], 0), area.row(&list.scrolled[1], 33)], edges.map(|edge| (edge, 0.0)));
    let toggle = LabelAction::ToggleRows;
    apply(&mut settings, &list, &list.scrolled[1], toggle.clone());
    let open = list_of(&traces, &settings, "");
    let is_folded = |list: &TrackList| list.scrolled[1].row_fold.as_ref().map(|fold| fold.is_folded);
    assert_eq!((open.scrolled[1].rows(), is_folded(&open)), (0..34, Some(false)), "it can be folded again");
    apply(&mut settings, &open, &open.scrolled[1], toggle);
    assert_eq!(list_of(&traces, &settings, ""), list, "a second click folds them again");
    assert_eq!(list_of(&traces, &settings, "main").scrolled[1].rows(), 0..34, "what is searched for is whole");
    settings.pinned.push(list.scrolled[1].key.clone());
    assert_eq!(list_of(&traces, &settings, "").pinned[0].rows(), 0..34);
    settings.pinned.clear();
    settings.expanded.extend(fold_keys(&traces[0]));
    assert_eq!(list_of(&traces, &settings, "").scrolled[1].rows(), 0..34, "as all that is expanded");
}

#[test]
fn annotations_are_in_no_row_that_is_folded() {
    let shown = |at: usize| {
        let (python, mut slices) = (SliceKind::PythonFunction, vec![]);
        slices.extend((0..44).map(|i| ("main", if i == at { SliceKind::Annotation } else { python }, "f", 0, 4_000)));
        // All rows but the innermost pass on.
        slices.extend((0..4).map(|i| ("main", python, "step", 1_000 * i, 1_000 * i + 900)));
        let list = list_of(&[OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0)], &<_>::default(), "");
        list.scrolled[1].rows()
    };
    assert_eq!(shown(10), 10..30, "the outer rows end there");
    assert_eq!(shown(1), 0..20);
    assert_eq!(shown(2), 0..20, "fewer outer rows are not worth a fold");
    let deep = |at: usize| {
        let mut slices: Vec<_> = (0..40)
            .flat_map(|_| (0..4).map(|i| ("main", SliceKind::PythonFunction, "f", 1_000 * i, 1_000 * i + 900)))
            .collect();
        slices[4 * at].1 = SliceKind::Annotation;
        list_of(&[OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0)], &<_>::default(), "").scrolled[1]
            .rows()
    };
    assert_eq!([deep(5), deep(30), deep(38)], [0..20, 0..31, 0..40]);
}

#[test]
fn processes_that_hardly_work_share_a_line_beside_one_that_launches() {
    let with = |n: usize| {
        let os = SliceKind::Os;
        let names: Vec<String> = (0..n + 1).map(|i| format!("helper {i}")).collect();
        let mut slices = vec![
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 0, 20_000),
            ("stream 7", SliceKind::Kernel, "gemm", 10_000, 20_000),
        ];
        slices.extend(names.iter().map(|name| (name.as_str(), os, "mmap", 0, 10)));
        // The first works.
        slices[2].4 = 10_000;
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = [5, 5].into_iter().chain(names.iter().map(|_| 0)).collect();
        for name in names {
            let process = crate::model::ProcessId(builder.processes.len() as u32);
            builder.tracks.iter_mut().filter(|track| track.name == name).for_each(|track| track.process = process);
            builder.processes.push(Process { name, ..Process::default() });
        }
        OpenTrace::new(builder.finish(), 0)
    };
    let settings = TimelineSettings::default();
    let few = list_of(&[with(2)], &settings, "");
    assert!(titles(&few.scrolled).iter().filter(|title| title.starts_with("helper")).count() == 6);
    let traces = [with(3)];
    let list = list_of(&traces, &settings, "");
    let shown = ["python", "main", "GPU 0", "stream 7", "helper 0", "helper 0", "3 processes that hardly work"];
    assert_eq!(titles(&list.scrolled), shown);
    assert!((0..traces[0].trace.tracks.len()).all(|track| list.line_of(0, TrackId(track as u32)).is_some()));
    let mut unfolded = settings;
    unfolded.expanded.insert(list.scrolled[6].key.clone());
    assert_eq!(titles(&list_of(&traces, &unfolded, "").scrolled)[6..8], ["3 processes that hardly work", "helper 1"]);
}

#[test]
fn rows_are_made_higher_from_their_natural_height_whatever_they_were_before() {
    let traces = [OpenTrace::new(counters(3), 0), rank(0)];
    let natural = list_of(&traces, &TimelineSettings::default(), "");
    let all = total_height(&natural.scrolled);
    assert_eq!(natural.heights().stretch_for(1.0), 1.0, "too many for this height");
    let factor = natural.heights().stretch_for(all as f32 * 1.5);
    assert!(factor > 1.4, "{factor}");
    let mut list = natural.clone();
    list.stretch(factor);
    assert!(total_height(&list.scrolled) > all * 1.3);
    let stretched = list.clone();
    list.stretch(2.7);
    list.stretch(factor);
    assert_eq!(list, stretched);
    list.stretch(1.0);
    assert_eq!(list, natural);
}

#[test]
fn threads_that_launch_come_first_then_those_that_work_and_last_the_folded_ones_that_wait() {
    let (call, os) = (SliceKind::Runtime, SliceKind::Os);
    let mut slices = vec![
        ("1 waits", os, "poll", 0, 1_000),
        ("2 waits", os, "pthread_cond_wait", 0, 1_000),
        ("3 works", SliceKind::Operator, "aten::cat", 0, 900),
        ("4 launches", SliceKind::Operator, "aten::mm", 0, 900),
    ];
    slices.extend((0..20).map(|i| ("4 launches", call, "cudaLaunchKernel", 10 + i * 20, 15 + i * 20)));
    slices.extend((0..20).map(|i| ("stream 7", SliceKind::Kernel, "gemm", 30 + i * 20, 45 + i * 20)));
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = [0; 4].into_iter().chain(1..=20).chain(1..=20).collect();
    let list = list_of(&[OpenTrace::new(builder.finish(), 0)], &TimelineSettings::default(), "");
    let shown = titles(&list.scrolled);
    assert_eq!(shown[..3], ["python", "4 launches", "3 works"], "{shown:?}");
    assert!(!shown.contains(&"1 waits") && !shown.contains(&"2 waits"), "{shown:?}");
    assert_eq!(shown[4..], ["GPU 0", "stream 7"], "{shown:?}");
}
