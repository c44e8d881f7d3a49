//! Compares summaries of reports of the committed samples and of real files with those under `tests/golden`.
//!
//! `LACUNA_BLESS=1 cargo test --test it golden` records them anew.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::support::{Failure, name, project, read, real, recording, report, unbalanced};

/// Own samples, in every checkout: each format, with planted idle time and leaks.
const SAMPLES: [&str; 5] = [
    "kineto_10_steps.json.gz",
    "nsys_5_steps.sqlite",
    "snapshot_leak.pickle",
    "snapshot_oom.pickle",
    "gpu_metrics.jsonl",
];

/// A varied choice: eras 2020 to 2026, NVIDIA and ROCm, CPU only, arrays, other producers, a tar; and
/// nsys exports: H100, ranges only, GH200, CUDA graphs; and memory snapshots: with annotations, of torch
/// 2.0, of an NPU with expandable segments; and a memory timeline.
const FILES: &[(&str, &str)] = &[
    ("A_kineto", "pytorch_kineto__2d19c6-resnet50_num_workers_0-worker0.pt.trace.json.gz"),
    (
        "A_kineto",
        "facebookresearch_HolisticTraceAnalysis__ns_resolution_trace-rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    ),
    ("A_kineto", "facebookresearch_HolisticTraceAnalysis__nccl_parser_config-nccl_data.json.gz"),
    ("A_kineto", "facebookresearch_HolisticTraceAnalysis__amd_trace-mi250_minitoy_train_ROCm6_2_kineto.json.gz"),
    ("A_kineto", "AMD-AGI_TraceLens__b200-eager_trace.json.gz"),
    ("A_kineto", "AMD-AGI_TraceLens__inference-vllm_decode_full-graph_execution.json.gz"),
    (
        "A_kineto",
        "facebookresearch_HolisticTraceAnalysis__large_integer_trace-rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz",
    ),
    ("A_kineto", "facebookresearch_param__dlrm_kineto.tar.gz"),
    ("A_kineto_generated_cpu", "generated_torch2.15.0__transformer_minimal.json"),
    ("A_chrome", "catapult-project_catapult__main_thread_has_unclosed_slices.json"),
    ("A_chrome", "gaogaotiantian_viztracer__multithread.json"),
    ("A_chrome", "jlfwong_speedscope__trace-event-simple-partial-trailing-comma.json"),
    ("B_sqlite", "NVIDIA_Fuser__bab695-report2.sqlite"),
    ("B_sqlite", "YoonKyonghwan_EfficientCenterFormer__3a188a-poolformer.sqlite"),
    ("B_sqlite", "openhackathons-org_nways_accelerated_programming__72aa66-jacobi_report.sqlite"),
    ("B_sqlite", "zx3xyy_assignment2-systems__1c3e00-result_2_7B_compile_ro.sqlite"),
    ("C_pickle", "ZidongLiu_DeComFL__2f29ac-memory.pickle"),
    ("C_pickle", "Yiyi-philosophy_LLM-inference__a228b8-1.3b_snapshot.pickle"),
    ("C_pickle", "Yiyi-philosophy_LLM-inference__fc31f1-oom_snapshot.pickle"),
    ("C_pickle", "xiaobingling93-pixel_Ascend-msinsight__snapshot_with_empty_cache_expandable.pkl"),
    ("C_memory_timeline", "facebookresearch_HolisticTraceAnalysis__memory_analysis-memory_timeline.raw.gz"),
];

/// The parts of a report that a change of code should not move without being noticed.
fn summary(path: &Path, mut report: Value) -> Value {
    let mut kept = Map::new();
    for key in ["files", "span_ns", "devices", "steps", "kernels", "operators", "ranks"] {
        let mut part = report[key].take();
        if let Some(files) = part.as_array_mut().filter(|_| key == "files") {
            for file in files {
                file["path"] = name(Path::new(file["path"].as_str().unwrap_or_default())).into();
            }
        }
        // Steps may be many; their figures say enough.
        if let Some(steps) = part.as_object_mut() {
            steps.remove("list");
        }
        if !part.is_null() {
            kept.insert(key.to_owned(), part);
        }
    }
    let memory: Vec<Value> = report["memory"].as_array_mut().into_iter().flatten().map(memory_summary).collect();
    if !memory.is_empty() {
        kept.insert("memory".to_owned(), memory.into());
    }
    let traces = recording(path).unwrap();
    let histories = traces.iter().flat_map(|trace| &trace.memories);
    let counts: Vec<Value> = histories
        .map(|history| json!({"allocations": history.allocations.len(), "segments": history.segments.len()}))
        .collect();
    if !counts.is_empty() {
        kept.insert("memory_counts".to_owned(), counts.into());
    }
    Value::Object(kept)
}

/// The figures of one device's memory, and of each place that grows its line and its verdict.
fn memory_summary(memory: &mut Value) -> Value {
    let mut kept = Map::new();
    for (key, value) in memory.as_object_mut().into_iter().flatten() {
        match (key.as_str(), value.take()) {
            ("oom", Value::Array(mut list)) => {
                let figures = list.iter_mut().map(|oom| {
                    let figures = oom.as_object_mut().unwrap();
                    figures.retain(|key, _| key.ends_with("_bytes") || key == "at_ns");
                    Value::Object(std::mem::take(figures))
                });
                kept.insert(key.clone(), figures.collect());
            }
            // Each with the innermost Python line of its stack.
            ("peak_by_stack" | "live_at_end" | "leaks" | "no_leaks", Value::Array(mut list)) => {
                let innermost = |stack: &Value| {
                    let frames: Vec<&str> = stack.as_array().unwrap().iter().filter_map(Value::as_str).collect();
                    frames.iter().find(|frame| frame.contains(".py:")).or(frames.first()).copied().map(str::to_owned)
                };
                list.iter_mut().for_each(|place| place["stack"] = innermost(&place["stack"]).into());
                kept.insert(key.clone(), list.into());
            }
            ("gains" | "doubts", _) => {}
            (_, figure) => drop(kept.insert(key.clone(), figure)),
        }
    }
    Value::Object(kept)
}

/// Where two summaries first differ, if they do, or why there are not two. Records the new one first if asked to.
fn difference(path: &Path, golden: &Path) -> Option<String> {
    let report = match report(path, "5") {
        Ok(report) => summary(path, report),
        Err(error) => return Some(error),
    };
    if std::env::var_os("LACUNA_BLESS").is_some() {
        let text = serde_json::to_string_pretty(&report).unwrap() + "\n";
        assert!(text.len() < 60_000, "a golden file of {} bytes is too large to review", text.len());
        std::fs::write(golden, text).unwrap();
    }
    match std::fs::read(golden).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) {
        None => Some("not recorded, run with LACUNA_BLESS=1".to_owned()),
        Some(recorded) => first_difference("", &recorded, &report),
    }
}

fn check(paths: impl Iterator<Item = PathBuf>) {
    let folder = project().join("tests/golden");
    let one = |path: PathBuf| {
        let difference = difference(&path, &folder.join(format!("{}.golden.json", name(&path))));
        difference.map(|text| format!("{}: {text}", name(&path)))
    };
    let wrong: Vec<String> = paths.filter_map(one).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn reports_of_samples_are_as_recorded() {
    check(SAMPLES.iter().map(|file| project().join("sample_traces").join(file)));
}

#[test]
fn reports_of_real_files_are_as_recorded() {
    check(FILES.iter().filter_map(|(group, file)| real(group).into_iter().find(|path| name(path) == *file)));
}

#[test]
fn a_difference_is_found() {
    let old = json!({"a": [1, {"b": 2}], "c": null});
    assert_eq!(first_difference("", &old, &old), None);
    for new in [json!({"a": [1, {"b": 3}]}), json!({"a": [1]}), json!({"a": [1, {"b": 2}], "d": 1})] {
        assert!(first_difference("", &old, &new).is_some(), "{new}");
    }
}

/// Where two values first differ, and how.
fn first_difference(at: &str, old: &Value, new: &Value) -> Option<String> {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| first_difference(&format!("{at}.{key}"), &old[key], &new[key]))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            (0..a.len()).find_map(|i| first_difference(&format!("{at}[{i}]"), &a[i], &b[i]))
        }
        (a, b) => (a != b).then(|| format!("{at} was {a}, is {b}")),
    }
}

/// Recordings of other things, which must be refused by name.
fn is_no_trace(path: &Path) -> bool {
    name(path).ends_with(".html")
}

#[test]
fn every_event_of_every_real_file_is_accounted_for() {
    let mut wrong = Vec::new();
    let folders = ["A_kineto", "A_kineto_generated_cpu", "A_chrome", "C_pickle", "C_memory_timeline"];
    let files: Vec<PathBuf> = folders.iter().flat_map(|folder| real(folder)).collect();
    for path in files.iter().filter(|path| !is_no_trace(path)) {
        match recording(path) {
            Ok(traces) => {
                let bad = traces.iter().filter_map(|trace| unbalanced(&trace.import));
                wrong.extend(bad.map(|text| format!("{}: {text}", name(path))));
                if traces.iter().all(|trace| trace.import.read == 0) {
                    wrong.push(format!("{}: no event was read", name(path)));
                }
            }
            Err(failure) => wrong.push(format!("{}: {failure:?}", name(path))),
        }
    }
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

#[test]
fn a_tar_of_eight_ranks_gives_eight_traces() {
    for path in real("A_kineto").iter().filter(|path| name(path).ends_with(".tar.gz")) {
        let traces = recording(path).unwrap();
        assert_eq!(traces.len(), 8, "{}", name(path));
        let ranks: Vec<_> = traces.iter().map(|trace| trace.info.rank).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert!(traces.iter().all(|trace| trace.info.member.is_some()));
    }
}

#[test]
fn other_files_are_refused_by_name() {
    let files: Vec<_> = ["A_kineto_generated_cpu", "A_chrome"].iter().flat_map(|f| real(f)).collect();
    for path in files.iter().filter(|path| is_no_trace(path)) {
        let what = ["html", "web page", "systrace"];
        match read(path) {
            Err(Failure::Refused(error)) => {
                let text = error.to_string();
                let is_named = what.iter().any(|what| text.to_lowercase().contains(what));
                assert!(is_named, "{}: does not say what it is: {text}", name(path));
                assert!(!text.ends_with('.') && text.len() < 300, "{}: {text}", name(path));
            }
            other => panic!("{}: {:?}", name(path), other.map(|traces| traces.len())),
        }
    }
}
