//! Recordings of a real training with planted faults, see `sample_traces/README.md`: the report says what was planted,
//! and its figures are those that the program measured by itself.

use std::path::PathBuf;

use serde_json::Value;

use super::support::{files, lacuna, project, report, short_report};

/// The fault of each recording, as the rules that must find it with words of their sentences.
const FAULTS: [(&str, &[(&str, &str)]); 10] = [
    ("none", &[]),
    ("slow_loader", &[("data_loading", "__next__")]),
    ("item", &[("synchronization", "log_norms")]),
    (
        "pageable_copy",
        &[("pageable_copies", "8 copies"), ("pageable_copies", "copy_to_device"), ("exposed_copies", "copy_to_device")],
    ),
    ("tiny_kernels", &[("launch_bound", "GPU 0"), ("tiny_kernels", "elementwise")]),
    ("leak", &[("memory_leak", "remember")]),
    (
        "fragmentation",
        &[
            ("reserved_growth", "Reserved memory grows by"),
            ("memory_leak", "keep_statistics"),
            ("host_bound", "aten::_cudnn_attention"),
        ],
    ),
    ("oom", &[("out_of_memory", "79.18 GiB requested"), ("allocator", "try_a_large_batch")]),
    ("cuda_graph", &[]),
    ("compile", &[]),
];
/// Rules about faults: silent where none was planted.
const SILENT: [&str; 12] = [
    "low_gpu_utilization",
    "data_loading",
    "synchronization",
    "launch_bound",
    "host_bound",
    "allocator",
    "exposed_copies",
    "pageable_copies",
    "tiny_kernels",
    "memory_leak",
    "out_of_memory",
    "reserved_growth",
];
/// Recordings whose steps are alike, so that the median does not depend on which of them count.
const EVEN: [&str; 7] = ["none", "item", "leak", "oom", "pageable_copy", "cuda_graph", "compile"];
/// Its gaps are some microseconds each, before and after each synchronization.
const SYNCHRONIZING: &str = "item";
/// The profiler was started after the most memory was in use: while the graph was captured.
const LATE: &str = "cuda_graph";

/// Faults whose cost is known, for the same training was recorded without them: with the rules about it, and how many
/// times that cost they may say at most. `oom` happens once, not in each step; the model of `tiny_kernels` is another
/// one.
const COSTS: [(&str, &[&str], f64); 4] = [
    ("slow_loader", &["data_loading"], 1.05),
    ("item", &["synchronization"], 1.05),
    ("pageable_copy", &["exposed_copies"], 1.05),
    ("fragmentation", &["host_bound"], 1.15),
];
/// Recordings of the same training differ by this part of a step without any fault, and by the profiler's own overhead.
const NOISE: f64 = 0.005;

fn recordings(name: &str) -> Vec<PathBuf> {
    let start = format!("{name}.");
    let is_own = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&start) && file.ends_with(".gz")
    };
    files(&project().join("sample_traces/recorded")).into_iter().filter(is_own).collect()
}

fn answer(name: &str) -> Value {
    let path = project().join(format!("sample_traces/recorded/{name}.answer.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn planted_faults_are_found_and_no_others() {
    for (name, faults) in FAULTS {
        let reports: Vec<Value> = recordings(name).iter().map(|path| report(path, "50").unwrap()).collect();
        let found: Vec<&Value> = reports.iter().flat_map(|report| list(&report["findings"])).collect();
        assert!(found.iter().all(|finding| !finding.to_string().contains(" object at 0x")), "{name}: {found:#?}");
        for (rule, words) in faults {
            let says = |finding: &&&Value| {
                finding["rule"] == **rule && finding["text"].as_str().is_some_and(|text| text.contains(words))
            };
            assert!(found.iter().any(|finding| says(&finding)), "{name}: {rule} with {words}: {found:#?}");
        }
        if faults.is_empty() {
            let wrong = |finding: &&&Value| finding["rule"].as_str().is_some_and(|rule| SILENT.contains(&rule));
            assert_eq!(found.iter().find(wrong), None, "{name}");
        }
    }
}

/// One cause is one finding, and its advice is about what happened.
#[test]
fn advice_is_about_the_planted_fault() {
    let findings = |name: &str| -> Value {
        let path = recordings(name).into_iter().find(|path| path.to_string_lossy().contains("kineto")).unwrap();
        report(&path, "50").unwrap()["findings"].clone()
    };
    let of = |findings: &Value, rule: &str| list(findings).iter().find(|finding| finding["rule"] == rule).cloned();
    assert_eq!(of(&findings("item"), "launch_bound"), None);
    let oom = findings("oom");
    assert_eq!(of(&oom, "synchronization"), None);
    let advice = of(&oom, "allocator").unwrap()["advice"].to_string();
    assert!(advice.contains("found no room") && !advice.contains("empty_cache"), "{advice}");
    let advice = of(&findings("fragmentation"), "host_bound").unwrap()["advice"].to_string();
    assert!(advice.contains("pad or bucket") && !advice.contains("Many small operators"), "{advice}");
}

#[test]
fn the_gap_that_costs_most_is_that_after_a_synchronization() {
    let path = recordings(SYNCHRONIZING).into_iter().find(|path| path.to_string_lossy().contains("kineto")).unwrap();
    let cluster = &short_report(&path).unwrap()["gaps"][0]["clusters"][0];
    assert_eq!(cluster["trigger"], "sync");
    assert!(cluster["frame"].as_str().is_some_and(|frame| frame.ends_with("log_norms")), "{cluster:#}");
}

/// Duration of the steps that are judged, and of the compute and the overhead of the profiler in them, in nanoseconds
/// per step.
fn judged_step(name: &str) -> (Value, f64, f64, f64) {
    let path = recordings(name).into_iter().find(|path| path.to_string_lossy().contains("kineto")).unwrap();
    let report = report(&path, "50").unwrap();
    let (judged, summary) = (&report["judged"][0], &report["summary"][0]);
    let step = judged["dur_ns"].as_f64().unwrap() / judged["steps"].as_f64().unwrap();
    let compute = summary["compute_share"].as_f64().unwrap() * step;
    let profiler = list(&summary["causes"]).iter().find(|cause| cause["cause"] == "profiler_overhead");
    let profiler = profiler.map_or(0.0, |cause| cause["share"].as_f64().unwrap() * step);
    (report, step, compute, profiler)
}

/// What a finding says that ending a fault gains at most, with what the recorder took of that time, is not less than
/// what it costs, by a recording without it; the compute that comes with the fault, such as the norms that are read
/// back, is not idle time and not counted. It is not much more either, and all findings together gain no more than the
/// time without compute.
#[test]
fn at_most_is_what_a_fault_costs() {
    let (_, without, usual, _) = judged_step("none");
    for (name, rules, most) in COSTS {
        let (report, step, compute, profiler) = judged_step(name);
        let ns = |finding: &Value, key: &str| finding[key].as_f64().unwrap_or_default();
        let ceiling = |finding: &Value| ns(finding, "ceiling_ns_per_step") + ns(finding, "recorder_ns_per_step");
        let findings = list(&report["findings"]).iter();
        let said: f64 =
            findings.clone().filter(|finding| rules.iter().any(|rule| finding["rule"] == *rule)).map(ceiling).sum();
        let cost = (step - compute - profiler) - (without - usual);
        assert!(said >= cost - NOISE * step, "{name}: at most {said}, measured {cost}");
        assert!(said <= cost * most, "{name}: at most {said}, measured {cost}");
        let all: f64 = findings.map(ceiling).sum();
        assert!(all <= step - compute, "{name}: {all} of {}", step - compute);
    }
}

#[test]
fn steps_last_as_long_as_events_on_the_device_say() {
    for name in EVEN {
        let answer = answer(name);
        let path = recordings(name).into_iter().find(|path| path.to_string_lossy().contains("kineto")).unwrap();
        let steps = &short_report(&path).unwrap()["steps"];
        assert_eq!(steps["count"], answer["steps_recorded"], "{name}");
        let [found, known] = [steps["median_ns"].as_f64().unwrap() / 1e6, answer["median_device_ms"].as_f64().unwrap()];
        assert!((found - known).abs() < 0.01 * known, "{name}: {found} ms, by events {known} ms");
    }
}

#[test]
fn memory_is_what_the_allocator_counted() {
    let mut n = 0;
    for (name, _) in FAULTS {
        let answer = answer(name);
        let known = |key: &str| answer[key].as_u64().unwrap();
        for path in recordings(name) {
            let memories = list(&short_report(&path).unwrap()["memory"]);
            let Some(memory) = memories.iter().find(|memory| memory["device"] == 0) else { continue };
            assert_eq!(memory["end_allocated_bytes"], answer["allocated_bytes_at_end"], "{}", path.display());
            let (peak, known_peak) = (memory["peak_allocated_bytes"].as_u64().unwrap(), known("peak_allocated_bytes"));
            if name != LATE {
                assert_eq!(peak, known_peak, "{}", path.display());
            }
            n += 1;
        }
    }
    assert!(n >= 16, "{n} memories compared");
}

#[test]
fn a_trace_and_a_history_of_one_run_report_a_leak_once() {
    let paths = recordings("leak");
    let args = ["report", "--format", "json", "--top", "50"].map(std::ffi::OsStr::new).into_iter();
    let output = lacuna(&args.chain(paths.iter().map(|path| path.as_os_str())).collect::<Vec<_>>());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (rule, words) in [("memory_leak", "remember (train.py:160)"), ("memory_growth", "24.00 MiB a step")] {
        let of_rule: Vec<&Value> = list(&report["findings"]).iter().filter(|finding| finding["rule"] == rule).collect();
        assert!(of_rule.len() == 1 && of_rule[0]["text"].as_str().unwrap().contains(words), "{of_rule:#?}");
    }
}

#[test]
fn a_shortfall_is_what_the_allocator_itself_reported() {
    let path = recordings("oom").into_iter().find(|path| path.to_string_lossy().contains("snapshot")).unwrap();
    let report = short_report(&path).unwrap();
    let card = &report["memory"][0]["oom"][0];
    let bytes = |key: &str| card[key].as_u64().unwrap();
    // 79.18 GiB requested, of which 75.92 GiB are free; 377.84 MiB are reserved but unallocated.
    assert_eq!(bytes("short_by_bytes"), bytes("requested_bytes") - bytes("device_free_bytes"));
    assert_eq!(bytes("short_by_fragmentation_bytes"), bytes("inactive_bytes"));
    assert_eq!((bytes("inactive_bytes") * 100 + (1 << 19)) >> 20, 37_784);
    assert_eq!(report["memory"][0]["growth"]["verdict"], "flat", "one step of twelve failed, the others are level");
}
