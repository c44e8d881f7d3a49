//! Captures of PyTorch itself, where it is installed, on the CPU. `LACUNA_PYTHON` names an interpreter that has it; other tests
//! have a stub in its place.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{has_python, report, scratch};

/// Steps of two layers, and a wait in each.
const TRAINING: &str = "import sys, time, torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(int(sys.argv[1])):
    time.sleep(0.02)
    optimizer.zero_grad()
    model(torch.randn(16, 64)).sum().backward()
    optimizer.step()
";

/// The interpreter that has torch, and the script; nothing where there is none.
fn training(folder: &Path) -> Option<(String, PathBuf)> {
    let python = std::env::var("LACUNA_PYTHON").unwrap_or_else(|_unset| "python3".to_owned());
    let has_torch = || Command::new(&python).args(["-c", "import torch"]).output().unwrap().status.success();
    if !has_python() || !has_torch() {
        eprintln!("skipped: no torch");
        return None;
    }
    let script = folder.join("it's a training.py");
    std::fs::write(&script, TRAINING).unwrap();
    Some((python, script))
}

/// What `lacuna capture` says of a training with so many steps, and the traces that it recorded.
fn captured(folder: &Path, options: &[&str], n_steps: &str) -> Option<(String, Vec<PathBuf>)> {
    let (python, script) = training(folder)?;
    let out = folder.join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    command.args(["capture", "--no-gpu-counters", "--out"]).arg(&out).args(options).args(["--", &python]);
    let said = command.arg(script).arg(n_steps).output().unwrap();
    let entries = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let traces = entries.filter(|path| path.to_string_lossy().ends_with(".pt.trace.json")).collect();
    Some((String::from_utf8_lossy(&said.stderr).into_owned(), traces))
}

/// How often an operator ran.
fn calls(report: &serde_json::Value, name: &str) -> u64 {
    let operators = report["operators"].as_array().unwrap();
    operators.iter().find(|operator| operator["name"] == name).map_or(0, |found| found["calls"].as_u64().unwrap())
}

#[test]
fn the_profiler_records_the_steps_that_were_asked_for() {
    let folder = scratch("torch-profiler");
    if let Some((said, traces)) = captured(&folder, &["--steps", "3:7"], "12") {
        let [trace] = &traces[..] else { panic!("{said}") };
        assert!(!said.contains("has no torch") && !said.contains("Nothing was recorded"), "{said}");
        let report = report(trace, "0").unwrap();
        assert_eq!((report["steps"]["count"].as_u64(), calls(&report, "aten::addmm")), (Some(4), 8));
        // The waits of the two steps that are neither the first nor the last are of no operator.
        let time = |row: &serde_json::Value| row["total_ns"].as_u64();
        let other = report["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == "other");
        assert!(other.and_then(time).is_some_and(|ns| ns >= 40_000_000), "{}", report["phases"]);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_running_program_is_recorded_on_demand_again_and_again() {
    let folder = scratch("torch-demand");
    let options = ["--backend", "on-demand", "--every", "2", "--for", "0.5", "--seconds", "30"];
    if let Some((said, traces)) = captured(&folder, &options, "1000000") {
        assert!(traces.len() >= 2, "{said}");
        let n: Vec<u64> = traces.iter().map(|trace| calls(&report(trace, "0").unwrap(), "aten::addmm")).collect();
        assert!(n.iter().all(|&n| n > 2), "{n:?}: {said}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
