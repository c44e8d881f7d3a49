//! The report of a small trace with hostile names, in every format.

use super::*;
use crate::analysis::rules::Thresholds;
use crate::figures::Cell;
use crate::figures::verdicts::LACKS_EVENTS;
use crate::model::memory::{MemoryAction, MemoryAnnotation, MemoryEvent, MemoryPool, OutOfMemory, RawMemory};
use crate::model::{CopyKind, DeviceInfo, Launch, MemoryCopy, SliceFacts, SliceKind, StackId, TraceBuilder, TrackId};

mod clusters;
mod compared;
mod glance;
mod memory;
mod out_of_memory;
mod starts;

use glance::glance;
use memory::{leaking, out_of_memory};

const EVIL: &str = "=cmd(\"a\",1)|<script>\u{1b}[2J\u{202e}";

fn trace(first: i64) -> Trace {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", SliceKind::Annotation, "ProfilerStep#1", first, first + 5_000),
        ("stream 7", SliceKind::GpuAnnotation, "ProfilerStep#1", first + 1_000, first + 4_500),
        ("main", SliceKind::Operator, "aten::mm", first + 100, first + 1_100),
        ("main", SliceKind::Runtime, "cudaLaunchKernel", first + 200, first + 300),
        ("stream 7", SliceKind::Kernel, "gemm", first + 1_000, first + 3_000),
        ("stream 7", SliceKind::Kernel, EVIL, first + 4_000, first + 4_500),
        ("stream 20", SliceKind::Memcpy, "Memcpy HtoD (Pageable -> Device)", first + 2_500, first + 3_500),
    ]);
    builder.slices[0].correlation = vec![0, 0, 0, 1, 1, 0, 0];
    let domain = builder.strings.intern("steps");
    let shapes = builder.strings.intern("[[2, 3], []]");
    builder.set_facts(0, SliceFacts { domain, ..Default::default() });
    builder.set_facts(2, SliceFacts { shapes, ..Default::default() });
    // 64 registers x 32 threads: 32 of the 64 warps of an A100 fit.
    let launch = Launch {
        grid: [64, 2, 1],
        block: [128, 1, 1],
        registers_per_thread: Some(64),
        shared_bytes: Some(1024),
        recorded_occupancy: Some(40),
    };
    builder.set_facts(4, SliceFacts { launch: Some(launch), ..Default::default() });
    let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(12_000), is_pageable: Some(true) };
    builder.set_facts(6, SliceFacts { copy: Some(copy), ..Default::default() });
    builder.info.devices.push(DeviceInfo { compute_major: Some(8), compute_minor: Some(0), ..Default::default() });
    builder.allocations.push(first + 400, TrackId(0), 0, -4_096);
    builder.info.path = "dir/a.json".into();
    builder.info.bytes = 1_234;
    builder.import.reject(Severity::Warn, "Event without a time", 2, Some(77));
    builder.import.read += 2;
    builder.finish()
}

fn report(format: Format, top: usize) -> String {
    written(
        &build::report(&[trace(1_000).into()], top, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap(),
        format,
        None,
        None,
    )
    .unwrap()
}

#[test]
fn files_without_ranks_are_named_beside_their_devices() {
    let files = ["a.json", "b.json"].map(|name| {
        let steps: Vec<String> = (0..6).map(|i| format!("ProfilerStep#{i}")).collect();
        let ends = (0..).map(|i| (20_000_000 * i, 20_000_000 * (i + 1)));
        let slices = steps.iter().zip(ends).flat_map(|(step, (start, end))| {
            let annotation = ("main", SliceKind::Annotation, step.as_str(), start, end);
            [annotation, ("stream 7", SliceKind::Kernel, "gemm", start, end - 5_000_000)]
        });
        let mut builder = TraceBuilder::from_slices(&slices.collect::<Vec<_>>());
        builder.info.path = name.into();
        Arc::new(builder.finish())
    });
    let of = |files: &[Arc<Trace>]| {
        let report = build::report(files, 50, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
        [report.judged, report.devices].map(|table| {
            let file = table.columns.iter().position(|column| column.key == "file").unwrap();
            table.rows.iter().map(|row| row[file].shown()).collect::<Vec<_>>()
        })
    };
    assert_eq!(of(&files), [["a.json", "b.json"]; 2]);
    assert_eq!(of(&files[..1]), [[""]; 2], "one needs no name");
}

#[test]
fn json_has_the_keys_of_the_contract() {
    let json: serde_json::Value = serde_json::from_str(&report(Format::Json, 50)).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "schema lacuna files clock span_ns devices gaps hta_idle steps operators kernels copies \
                    device_trace collectives apis os_calls libraries annotations range_kernels phases memory findings \
                    checks judged summary in_short";
    assert_eq!(keys.join(" "), expected);
    let device = serde_json::json!({
        "device": 0, "window_ns": 3500, "busy_ns": 3000, "idle_ns": 500, "utilization": 6.0 / 7.0,
        "kernels": {"count": 2, "total_ns": 2500, "union_ns": 2500},
        "memcpys": {"count": 1, "total_ns": 1000, "union_ns": 1000},
        "memsets": {"count": 0, "total_ns": 0, "union_ns": 0},
        "streams": 2,
        "breakdown": {"compute_ns": 2500, "exposed_comm_ns": 0, "exposed_copy_ns": 500, "idle_ns": 500},
        "overlap": {"comm_ns": 0, "overlapped_ns": 0},
    });
    assert_eq!(json["devices"], serde_json::json!([device]));
    let operator = serde_json::json!({
        "name": "aten::mm", "shape": "[[2, 3], []]", "calls": 1, "host_total_ns": 1000, "host_self_ns": 900,
        "host_mean_ns": 1000, "host_min_ns": 1000, "host_max_ns": 1000, "host_median_ns": 1000,
        "device_total_ns": 2000, "device_self_ns": 2000, "device_mem_bytes": -4096,
    });
    assert_eq!(json["operators"], serde_json::json!([operator]));
    let gemm = serde_json::json!({
        "name": "gemm", "calls": 1, "total_ns": 2000, "mean_ns": 2000, "min_ns": 2000, "max_ns": 2000,
        "median_ns": 2000, "share": 0.8, "queued": 1, "queue_mean_ns": 700, "queue_median_ns": 700,
        "queue_min_ns": 700, "queue_max_ns": 700, "grid": [64, 2, 1], "block": [128, 1, 1], "registers": 64,
        "shared_bytes": 1024, "occupancy": 0.5, "recorded_occupancy": 0.4, "device": 0,
    });
    assert_eq!(json["kernels"][0], gemm);
    assert_eq!(json["kernels"][1]["name"], EVIL);
    let copies = serde_json::json!([{
        "kind": "HtoD", "count": 1, "total_ns": 1000, "mean_ns": 1000, "min_ns": 1000, "max_ns": 1000,
        "median_ns": 1000, "bytes": 12_000, "gb_per_s": 12.0, "pageable": true,
    }]);
    assert_eq!(json["copies"], copies);
    let events = serde_json::json!({"read": 9, "shown": 7, "merged": 0, "rejected": 2});
    let step = serde_json::json!({
        "name": "ProfilerStep#1", "domain": "steps", "calls": 1, "total_ns": 5000, "mean_ns": 5000, "min_ns": 5000,
        "max_ns": 5000, "median_ns": 5000, "device_ns": 2000,
        "device_busy_ns": 2000, "launches": 1,
    });
    assert_eq!(json["annotations"], serde_json::json!([step]));
    assert_eq!(json["files"][0]["events"], events);
    assert_eq!(json["files"][0]["problems"][0]["first_offset"], 77);
    assert_eq!(json["span_ns"], serde_json::json!([0, 5000]));
    assert_eq!(
        json["clock"],
        serde_json::json!({"per_file": [{"path": "dir/a.json", "offset_ns": -1000, "source": "start"}]})
    );
}

#[test]
fn functions_of_a_recording_without_device_work_sum_to_the_self_time_in_short() {
    let other = SliceKind::Other;
    // 90 + 60 of f, 100 + 40 of g, 10 of h.
    let trace = TraceBuilder::from_slices(&[
        ("main", other, "f", 0, 200_000_000),
        ("main", other, "g", 50_000_000, 160_000_000),
        ("main", other, "h", 70_000_000, 80_000_000),
        ("second", other, "g", 0, 40_000_000),
        ("second", other, "f", 40_000_000, 100_000_000),
    ]);
    let traces = [Arc::new(trace.finish())];
    let of = |top| build::report(&traces, top, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
    let json: serde_json::Value = serde_json::from_str(&written(&of(50), Format::Json, None, None).unwrap()).unwrap();
    let row = |name, calls, self_ns: i64, total_ns, max_ns| {
        serde_json::json!({
            "name": name, "calls": calls, "self_ns": self_ns, "share": self_ns as f64 / 300e6, "total_ns": total_ns,
            "max_ns": max_ns,
        })
    };
    let expected = [
        row("f", 2, 150_000_000, 260_000_000, 200_000_000),
        row("g", 2, 140_000_000, 150_000_000, 110_000_000),
        row("h", 1, 10_000_000, 10_000_000, 10_000_000),
    ];
    assert_eq!(json["functions"], serde_json::json!(expected));
    assert!(json["summary"].to_string().contains("300.000 ms") || json["in_short"].to_string().contains("300.000 ms"));
    assert_eq!((of(2).functions.rows.len(), of(2).functions.n_hidden, of(2).functions.note), (2, 1, ""));
    let with_device: serde_json::Value = serde_json::from_str(&report(Format::Json, 50)).unwrap();
    assert!(with_device.get("functions").is_none());
}

#[test]
fn functions_are_without_threads_that_wait_and_say_so() {
    let other = SliceKind::Other;
    let slices = [("main", other, "f", 0, 200), ("pool", other, "_thread.lock.acquire", 0, 200)];
    let traces = [Arc::new(TraceBuilder::from_slices(&slices).finish())];
    let report = build::report(&traces, 9, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
    assert_eq!((report.functions.rows.len(), report.functions.note), (1, "Without threads that do little but wait"));
}

#[test]
fn device_work_and_kernels_of_ranges_have_the_keys_of_the_contract() {
    let json: serde_json::Value = serde_json::from_str(&report(Format::Json, 2)).unwrap();
    let work = serde_json::json!({"count": 3, "list": [
        {
            "start_ns": 1000, "dur_ns": 2000, "queue_ns": 700, "kind": "kernel", "device": 0, "stream": "stream 7",
            "grid": [64, 2, 1], "block": [128, 1, 1], "registers": 64, "shared_bytes": 1024, "name": "gemm",
        },
        {
            "start_ns": 2500, "dur_ns": 1000, "kind": "memcpy", "device": 0, "stream": "stream 20", "bytes": 12_000,
            "name": "Memcpy HtoD (Pageable -> Device)",
        },
    ]});
    assert_eq!(json["device_trace"], work);
    let kernels = serde_json::json!([{
        "range": "ProfilerStep#1", "domain": "steps", "name": "gemm", "calls": 1, "total_ns": 2000, "mean_ns": 2000,
        "min_ns": 2000, "max_ns": 2000, "median_ns": 2000,
    }]);
    assert_eq!(json["range_kernels"], kernels);
    // Lists are there when they are empty, too.
    for key in ["os_calls", "libraries", "memory"] {
        assert_eq!(json[key], serde_json::json!([]), "{key}");
    }
}

#[test]
fn gaps_have_the_keys_of_the_contract() {
    let json: serde_json::Value = serde_json::from_str(&report(Format::Json, 50)).unwrap();
    let all = serde_json::json!({"count": 1, "total_ns": 500});
    let gaps = serde_json::json!([{
        "device": 0, "count": 1, "total_ns": 500, "micro": all, "macro": {"count": 0, "total_ns": 0},
        "theta_ns": 30_000, "by_class": {"no_launch": all},
        "top": [{
            "start_ns": 3500, "dur_ns": 500, "parts": [{"class": "no_launch", "dur_ns": 500}], "ended_by": EVIL,
        }],
        "clusters": [],
        "coverage": {"operator_share": 0.0, "frame_share": 0.0, "launch_share": 1.0 / 3.0},
    }]);
    assert_eq!(json["gaps"], gaps);
}

#[test]
fn steps_are_an_object_and_their_parts_sum_to_them() {
    let json: serde_json::Value = serde_json::from_str(&report(Format::Json, 50)).unwrap();
    let step = serde_json::json!({
        "name": "ProfilerStep#1", "start_ns": 0, "dur_ns": 5000, "is_used": true, "is_outlier": false,
        "breakdown": {
            "kernel_ns": 2500, "memcpy_ns": 500, "memset_ns": 0, "communication_ns": 0, "runtime_ns": 100,
            "dataloader_ns": 0, "cpu_exec_ns": 800, "other_ns": 1100,
        },
        "devices": [{
            "device": 0, "start_ns": 0, "dur_ns": 5000, "compute_ns": 2500, "exposed_comm_ns": 0,
            "exposed_copy_ns": 500, "idle_ns": 2000,
        }],
    });
    let steps = serde_json::json!({
        "source": "ProfilerStep annotations", "regularity": 1.0, "count": 1, "dropped": 0,
        "measured": "step ranges", "mean_ns": 5000, "median_ns": 5000, "min_ns": 5000, "max_ns": 5000, "std_ns": 0, "gpu_utilization": 0.5,
        "devices": [{"device": 0, "gpu_utilization": 0.5}], "list": [step],
    });
    assert_eq!(json["steps"], steps);
    let text = report(Format::Text, 50);
    assert!(text.contains("Step times") && text.contains("ProfilerStep annotations"), "{text}");
    assert!(!text.contains("lengths of ranges"), "steps of the device are as long: {text}");
}

#[test]
fn text_is_aligned_and_has_no_control_characters() {
    let text = report(Format::Text, 50);
    assert!(!text.chars().any(|c| c != '\n' && escape::is_hidden(c)), "{text}");
    assert!(text.contains(r"\u{1b}[2J\u{202e}"), "{text}");
    assert!(text.contains("3.500"), "{text}");
    let kernels: Vec<_> = text.lines().skip_while(|line| *line != "Kernels").skip(1).take(3).collect();
    let name_at: Vec<_> =
        [("Name", 0), ("gemm", 1), ("=cmd", 2)].iter().map(|&(name, i)| kernels[i].find(name)).collect();
    assert!(name_at[1].is_some() && name_at[1] == name_at[2], "{text}");
    assert!(report(Format::Text, 1).contains("and 1 more; --top 0 lists all"));
}

#[test]
fn other_formats_escape_special_characters() {
    let csv = report(Format::Csv, 50);
    assert!(csv.contains(r#","'=cmd(""a"",1)|<script>\u{1b}[2J\u{202e}""#), "{csv}");
    let n_columns = csv.lines().next().unwrap().split(',').count();
    let gemm = csv.lines().find(|line| line.contains("gemm")).unwrap();
    assert_eq!(gemm.split(',').count(), n_columns);
    assert!(report(Format::Html, 50).contains("&lt;script&gt;"));
    assert!(!report(Format::Html, 50).contains("<script"));
    assert!(report(Format::Markdown, 50).contains(r"\|\<script\>"));
}

#[test]
fn findings_are_worst_first_and_cut_like_other_lists() {
    let of = |trace: Trace, top| {
        build::report(&[trace.into()], top, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap()
    };
    let findings = |trace: Trace, top| {
        let found = of(trace, top).findings;
        found.into_iter().map(|finding| (finding.rule, finding.severity)).collect::<Vec<_>>()
    };
    assert_eq!(findings(trace(0), 0), [("import_problem", Severity::Warn)]);
    assert_eq!([0, 1, 9].map(|top| of(leaking(), top).n_more_findings), [0, 2, 0]);
    // The leak is 5 MiB in total, but exactly 1 MiB in each of five steps, which is above the limit of an alarm.
    let expected =
        [("out_of_memory", Severity::High), ("memory_growth", Severity::Warn), ("memory_leak", Severity::Note)];
    assert_eq!(findings(leaking(), 0), expected);
    assert_eq!(findings(leaking(), 1), expected[..1]);
    assert_eq!(findings(out_of_memory(), 0), [("out_of_memory", Severity::High); 3]);
}

#[test]
fn findings_have_the_keys_of_the_contract() {
    let findings = |trace: Trace| {
        let report =
            build::report(&[trace.into()], 0, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
        serde_json::to_value(&report).unwrap()["findings"].clone()
    };
    let mut clean = trace(0);
    clean.import.problems.clear();
    assert_eq!(findings(clean), serde_json::json!([]));
    let problem = serde_json::json!([{
        "rule": "import_problem", "severity": "warn", "text": trace(0).import.problems[0].reason, "measured": 2.0,
        "threshold": 1.0, "unit": "count", "evidence": {"file": "dir/a.json", "names": []}, "advice": [],
    }]);
    assert_eq!(findings(trace(0)), problem);
    let leaking = findings(leaking());
    assert_eq!(leaking[0]["evidence"]["range_ns"].as_array().map(Vec::len), Some(2));
    assert!(leaking[0]["advice"].is_array());
    assert_eq!((&leaking[1]["rule"], &leaking[2]["rule"]), (&"memory_growth".into(), &"memory_leak".into()));
    assert_eq!(leaking[1]["advice"].as_array().map(Vec::len), Some(2));
    assert_eq!(leaking[2]["evidence"]["names"].as_array().map(Vec::len), Some(1));
}

/// The cells of CSV, line by line.
fn parsed(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    for c in csv.replace("\"\"", "\u{0}").chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !is_quoted => {}
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            '\u{0}' => cell.push('"'),
            c => cell.push(c),
        }
    }
    rows
}

#[test]
fn hostile_text_yields_no_formulas_and_no_line_breaks() {
    let mut evil = trace(1_000);
    evil.info.path = EVIL.into();
    evil.info.producer = EVIL.into();
    evil.info.devices[0].name = EVIL.into();
    evil.import.note(Severity::Warn, EVIL, 1, None);
    let mut memory = leaking();
    memory.info.path = EVIL.into();
    let all = build::report(&[evil.into(), memory.into()], 0, KernelsBy::Name, true, Thresholds::default(), (&[], &[]))
        .unwrap();
    let rows = parsed(&written(&all, Format::Csv, None, None).unwrap());
    let parts: std::collections::HashSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    for part in ["files", "problems", "devices", "kernels", "operators", "copies", "annotations", "leaks", "oom"] {
        assert!(parts.contains(part), "{part}");
    }
    for row in &rows {
        assert_eq!(row.len(), rows[0].len(), "{row:?}");
        for cell in row {
            let is_safe = cell.parse::<f64>().is_ok() || !cell.starts_with(['=', '+', '-', '@']);
            assert!(is_safe && !cell.chars().any(escape::is_hidden), "{cell:?}");
        }
    }
    assert!(rows.iter().flatten().filter(|cell| cell.starts_with("'=cmd")).count() >= 7);
    for format in [Format::Text, Format::Markdown, Format::Html, Format::Json] {
        let text = written(&all, format, None, None).unwrap();
        assert!(!text.chars().any(|c| c != '\n' && escape::is_hidden(c)), "{text}");
    }
}

/// A kernel, a copy, and an event without a time; then a file that is not a trace.
#[test]
fn files_are_read_written_and_judged() {
    let folder = std::env::temp_dir().join(format!("lacuna-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [trace, other, out] = ["a.json", "notes.txt", "out.json"].map(|name| folder.join(name));
    let text = r#"{"traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2, "args": {"device": 0, "stream": 7}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 1, "args": {"device": 0, "stream": 7}},
        {"ph": "X", "cat": "kernel", "name": "lost", "pid": 0, "tid": 7}
    ]}"#;
    std::fs::write(&trace, text).unwrap();
    std::fs::write(&other, "no trace").unwrap();
    let args = |paths: &[&PathBuf], fail_on| Args {
        paths: paths.iter().map(|path| (*path).clone()).collect(),
        format: Format::Json,
        out: Some(out.clone()),
        top: Some(0),
        all: false,
        kernels_by: KernelRows::Name,
        by_shape: false,
        fail_on,
        set: Vec::new(),
        thresholds: false,
        compare: None,
        memory_at: Vec::new(),
        reading: input::ReadArgs::default(),
    };
    assert_eq!(run(&args(&[&trace], None)).unwrap(), Outcome::Done);
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let device = &json["devices"][0];
    assert_eq!(
        (&device["window_ns"], &device["busy_ns"], &device["idle_ns"]),
        (&4500.into(), &3000.into(), &1500.into())
    );
    assert_eq!(json["kernels"][0]["calls"], 2);
    assert_eq!(run(&args(&[&trace], Some(Severity::Note))).unwrap(), Outcome::ThresholdMet);
    assert_eq!(run(&args(&[&trace, &other], Some(Severity::Note))).unwrap(), Outcome::PartlyUnreadable);
    assert!(matches!(run(&args(&[&other], None)), Err(Failure::Unreadable)));
    assert!(matches!(run(&args(&[&out], None)), Err(Failure::Usage(_))), "the output is the input");
    std::fs::remove_file(&out).unwrap();
    std::fs::write(&trace, text).unwrap();
    let elsewhere = folder.with_extension("json");
    let as_folder = Args { paths: vec![folder.clone()], out: Some(elsewhere.clone()), ..args(&[], None) };
    assert_eq!(run(&as_folder).unwrap(), Outcome::Done, "a folder may hold other files");
    std::fs::remove_file(&elsewhere).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_log_of_gpu_metrics_is_summed_up() {
    let log = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces/gpu_metrics.jsonl");
    let traces: Vec<_> =
        crate::reader::read(&log, &crate::job::Progress::default()).unwrap().into_iter().map(Into::into).collect();
    let report = build::report(&traces, 1, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let first = serde_json::json!({
        "gpu": "GPU 0: NVIDIA H100", "metric": "GPU utilization", "unit": "%", "readings": 40,
        "mean": 64.575, "min": 25.0, "max": 95.0, "change": 35.0,
    });
    assert_eq!(json["gpu_readings"][0], first);
    assert!(
        json["gpu_readings"].as_array().is_some_and(|all| all.len() == 14),
        "every metric of both, also with --top"
    );
    let text = written(&report, Format::Text, None, None).unwrap();
    assert!(text.contains("GPU readings") && text.contains("22.259    18.626    25.891"), "{text}");
}

#[test]
fn a_memory_timeline_of_sums_is_told_by_category() {
    let file = std::env::temp_dir().join(format!("lacuna-timeline-{}.json", std::process::id()));
    // Of two sums at one time the last holds; the peak is neither where parameters nor where gradients are most.
    std::fs::write(
        &file,
        "[[10, 10, 20, 30], [[0,9,0,0,0,90,0,0,0], [0,40,0,0,0,0,0,0,0], [0,30,0,0,0,20,25,0,0], [0,30,0,0,0,0,40,0,0]]]",
    )
    .unwrap();
    let traces: Vec<_> =
        crate::reader::read(&file, &crate::job::Progress::default()).unwrap().into_iter().map(Into::into).collect();
    std::fs::remove_file(&file).unwrap();
    let report = build::report(&traces, 1, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let row = |category, [peak, end, max]: [u64; 3], at: u64| {
        serde_json::json!({
            "category": category, "peak_bytes": peak, "peak_share": peak as f64 / 75.0, "end_bytes": end,
            "end_share": end as f64 / 70.0, "max_bytes": max, "max_at_ns": at,
        })
    };
    let expected = [
        row("TOTAL", [75, 70, 75], 10_000),
        row("PARAMETER", [30, 30, 40], 0),
        row("ACTIVATION", [20, 0, 20], 10_000),
        row("GRADIENT", [25, 40, 40], 20_000),
    ];
    assert_eq!(json["memory_timeline"], serde_json::json!(expected));
    assert!(written(&report, Format::Text, None, None).unwrap().contains("Memory timeline by category"));
}

#[test]
fn tables_of_idle_time_say_that_most_events_are_missing() {
    let notes = |apart: u32| {
        let traces = [TraceBuilder::with_numbers_apart(apart).finish().into()];
        let report = build::report(&traces, 8, KernelsBy::Name, false, Thresholds::default(), (&[], &[])).unwrap();
        let tables = report.tables_for_people();
        let noted = tables.iter().filter(|table| table.note == LACKS_EVENTS && !table.is_empty());
        let text = written(&report, Format::Text, None, None).unwrap();
        (noted.map(|table| table.key).collect::<Vec<_>>(), text.matches(LACKS_EVENTS).count())
    };
    assert_eq!(notes(1), (vec![], 0));
    let of_idle_time = vec!["devices", "device_time", "gaps", "gap_classes", "top", "clusters", "hta_idle"];
    assert_eq!(notes(40), (of_idle_time, 7));
}

#[test]
fn annotations_say_whose_work_they_have_where_autograd_has_its_own_thread() {
    let note = |backward: &'static str| {
        let note = |name, start, end| ("main", SliceKind::Annotation, name, start, end);
        let trace = TraceBuilder::from_slices(&[note("forward", 10, 50), note(backward, 60, 300)]).finish();
        let report = build::report(&[trace.into()], 8, KernelsBy::Name, false, Thresholds::default(), (&[], &[]));
        let report = report.unwrap();
        let tables = report.tables_for_people();
        tables.iter().find(|table| table.key == "annotations").unwrap().note
    };
    assert!(note("backward").contains("in the backward pass autograd's thread launches"));
    assert_eq!(note("other"), "");
}
