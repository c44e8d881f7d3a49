//! Compares the parts of steps and the GPU utilization with a Python script that has the definitions of PyTorch's
//! TensorBoard plugin.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::support::{has_python, name, project, real, report};

/// Traces with several `ProfilerStep#N`: CPU alone, one GPU of 2021, collectives, AMD.
const FILES: [&str; 7] = [
    "AMD-AGI_TraceLens__mi300-resnet_act_checkpoint",
    "facebookresearch_HolisticTraceAnalysis__05cd72",
    "facebookresearch_HolisticTraceAnalysis__df_index_resolver",
    "facebookresearch_HolisticTraceAnalysis__nccl_parser_config",
    "facebookresearch_HolisticTraceAnalysis__ns_resolution_trace",
    "facebookresearch_HolisticTraceAnalysis__trace_diff",
    "pytorch_kineto__resnet50",
];

#[test]
fn parts_of_steps_are_those_of_the_oracle() {
    let is_wanted = |path: &PathBuf| FILES.iter().any(|start| name(path).starts_with(start));
    let files: Vec<PathBuf> = real("A_kineto").into_iter().filter(is_wanted).collect();
    if files.is_empty() || !has_python() {
        return;
    }
    let output = Command::new("python3").arg(project().join("tests/oracle/steps.py")).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut n_steps, mut n_devices) = (0, 0);
    for (path, theirs) in files.iter().zip(text.lines()) {
        let theirs: Value = serde_json::from_str(theirs).unwrap();
        let ours = report(path, "0").unwrap();
        let list = ours["steps"]["list"].as_array().unwrap();
        let expected = theirs["steps"].as_array().unwrap();
        assert_eq!(list.len(), expected.len(), "{}", name(path));
        for (step, expected) in list.iter().zip(expected) {
            assert_eq!((&step["name"], &step["dur_ns"]), (&expected["name"], &expected["dur"]), "{}", name(path));
            let mut sum = 0;
            for (key, part) in step["breakdown"].as_object().unwrap() {
                assert_eq!(part, &expected[key], "{key} of {} in {}", step["name"], name(path));
                sum += part.as_i64().unwrap();
            }
            assert_eq!(Some(sum), step["dur_ns"].as_i64());
            for device in step["devices"].as_array().into_iter().flatten() {
                // Of the step as the device sees it, which may lag behind the host.
                let keys = ["compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns"];
                assert!(keys.iter().all(|key| device[key].as_i64().is_some_and(|ns| ns >= 0)), "{device}");
            }
            n_steps += 1;
        }
        for device in ours["steps"]["devices"].as_array().into_iter().flatten() {
            let theirs = theirs["utilization"][device["device"].to_string()].as_f64().unwrap();
            let ours = device["gpu_utilization"].as_f64().unwrap();
            assert!((ours - theirs).abs() < 1e-9, "{}: {ours} and {theirs}", name(path));
            n_devices += 1;
        }
    }
    assert!(n_steps >= 30 && n_devices >= 5, "only {n_steps} steps and {n_devices} devices compared");
}
