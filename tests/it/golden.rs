//! Has what we say about real files changed? Summaries of reports, kept under `tests/golden`.
//!
//! `LACUNA_BLESS=1 cargo test --test it golden` records them anew.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::support::{Failure, name, project, read, real, report, unbalanced};

/// A varied dozen: eras 2020 to 2026, NVIDIA and ROCm, CPU only, arrays, other producers, a tar; and
/// nsys exports: H100, ranges only, GH200, CUDA graphs; and memory snapshots: with annotations, of torch
/// 2.0, of an NPU with expandable segments.
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
    ("C_pickle", "xiaobingling93-pixel_Ascend-msinsight__snapshot_with_empty_cache_expandable.pkl"),
];

/// The parts of a report that a change of code should not move without being noticed.
fn summary(mut report: Value) -> Value {
    let mut kept = Map::new();
    for key in ["files", "span_ns", "devices", "steps", "kernels", "operators"] {
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
    Value::Object(kept)
}

#[test]
fn reports_are_as_recorded() {
    let is_blessing = std::env::var_os("LACUNA_BLESS").is_some();
    let folder = project().join("tests/golden");
    let mut wrong = Vec::new();
    for (group, file) in FILES {
        let Some(path) = real(group).into_iter().find(|path| name(path) == *file) else { continue };
        let golden = folder.join(format!("{file}.golden.json"));
        let report = match report(&path, "5") {
            Ok(report) => summary(report),
            Err(error) => {
                wrong.push(format!("{file}: {error}"));
                continue;
            }
        };
        if is_blessing {
            std::fs::create_dir_all(&folder).unwrap();
            let text = serde_json::to_string_pretty(&report).unwrap() + "\n";
            assert!(text.len() < 60_000, "{file}: a golden file of {} bytes is too large to review", text.len());
            std::fs::write(&golden, text).unwrap();
        }
        let recorded = std::fs::read(&golden).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        match recorded {
            None => wrong.push(format!("{file}: not recorded, run with LACUNA_BLESS=1")),
            Some(recorded) => {
                wrong.extend(first_difference("", &recorded, &report).map(|text| format!("{file}: {text}")));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
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
        match read(path) {
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
        let traces = read(path).unwrap();
        assert_eq!(traces.len(), 8, "{}", name(path));
        let ranks: Vec<_> = traces.iter().map(|trace| trace.info.rank).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert!(traces.iter().all(|trace| trace.info.member.is_some()));
    }
}

#[test]
fn what_is_no_trace_is_refused_by_name() {
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
