//! Generated traces with planted causes of idle time: what the report says of each gap against what the definitions
//! say of it.

use std::path::{Path, PathBuf};

use lacuna::sample::nsys::Schema;
use lacuna::sample::planted::{GapPlan, Shape, write_kineto, write_nsys};
use serde_json::Value;

use super::support::{report, scratch};

const SCHEMAS: [Schema; 3] = [Schema::V2022, Schema::V2023, Schema::V2026];

/// Writes a run in both formats; returns their files and answers.
fn samples(folder: &Path, shape: Shape) -> [(PathBuf, Value); 2] {
    let (kineto, nsys) = (folder.join("trace.json"), folder.join("trace.sqlite"));
    let _ = std::fs::remove_file(&nsys);
    let of_kineto = write_kineto(shape, &mut std::fs::File::create(&kineto).unwrap()).unwrap();
    let of_nsys = write_nsys(shape, SCHEMAS[shape.seed as usize % 3], &nsys).unwrap();
    [(kineto, of_kineto), (nsys, of_nsys)].map(|(path, answer)| (path, serde_json::to_value(answer).unwrap()))
}

/// What is wrong with the report of a file; with the seed, which repeats it.
fn check(path: &Path, answer: &Value, seed: u64) -> Vec<String> {
    let report = report(path, "0").unwrap();
    let kind = answer["kind"].as_str().unwrap();
    let mut wrong = Vec::new();
    let file = &report["files"][0];
    let is_loss = |problem: &Value| problem["severity"] != "note";
    if file["events"]["rejected"] != 0 || file["problems"].as_array().unwrap().iter().any(is_loss) {
        wrong.push(format!("problems: {}", file["problems"]));
    }
    for device in answer["gaps"].as_array().unwrap() {
        let same = |row: &&Value| row["device"] == device["device"];
        let found = report["devices"].as_array().unwrap().iter().find(same).unwrap();
        for (key, known) in [("window_ns", &device["window_ns"]), ("idle_ns", &device["total_ns"])] {
            if &found[key] != known {
                wrong.push(format!("device {}: {key} is {}, not {known}", device["device"], found[key]));
            }
        }
    }
    wrong.into_iter().map(|text| format!("lacuna sample {kind} --seed {seed}: {text}")).collect()
}

#[test]
fn planted_gaps_are_read() {
    let folder = scratch("planted");
    let mut wrong = Vec::new();
    for seed in 0..24 {
        let plan = [GapPlan::Various, GapPlan::Various, GapPlan::Recurring, GapPlan::None][seed as usize % 4];
        for (path, answer) in samples(&folder, Shape { steps: 5, seed, plan }) {
            wrong.extend(check(&path, &answer, seed));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
