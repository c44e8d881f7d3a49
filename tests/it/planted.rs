//! Generated traces with planted causes of idle time: what the report says of each gap against what the definitions
//! say of it.

use std::collections::BTreeMap;
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

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn ns(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Sums by class: what is certain, and what is possible.
fn bounds<'a>(gap: &'a Value, out: &mut BTreeMap<&'a str, (i64, i64)>) {
    for part in list(&gap["parts"]) {
        let classes = list(&part["classes"]);
        for class in classes {
            let (low, high) = out.entry(class.as_str().unwrap()).or_default();
            *low += if classes.len() == 1 { ns(&part["dur_ns"]) } else { 0 };
            *high += ns(&part["dur_ns"]);
        }
    }
}

/// What is wrong with the causes of one gap.
fn check_gap(known: &Value, found: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for part in list(&found["parts"]) {
        *sums.entry(part["class"].as_str().unwrap()).or_default() += ns(&part["dur_ns"]);
    }
    if sums.values().sum::<i64>() != ns(&known["dur_ns"]) {
        wrong.push("parts do not sum to the gap".to_owned());
    }
    let mut possible = BTreeMap::new();
    bounds(known, &mut possible);
    for class in sums.keys().chain(possible.keys()) {
        let (low, high) = possible.get(class).copied().unwrap_or_default();
        let sum = sums.get(class).copied().unwrap_or_default();
        if sum < low || sum > high {
            wrong.push(format!("{class} is {sum} ns, should be {low}..={high}"));
        }
    }
    if !list(&known["triggers"]).contains(&found["trigger"]) {
        wrong.push(format!("trigger is {}, should be of {}", found["trigger"], known["triggers"]));
    }
    for part in list(&found["parts"]) {
        wrong.extend(check_names(known, part));
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

/// What is wrong with name and frame of a part.
fn check_names(known: &Value, part: &Value) -> Option<String> {
    let class = &part["class"];
    let same: Vec<&Value> =
        list(&known["parts"]).iter().filter(|known| list(&known["classes"]).contains(class)).collect();
    let is_host = same.iter().any(|known| !list(&known["names"]).is_empty());
    let name = &part["name"];
    if is_host && !name.is_null() && !same.iter().any(|known| list(&known["names"]).contains(name)) {
        return Some(format!("{class} is called {name}"));
    }
    let is_planted = !same.is_empty() && same.iter().all(|known| known["is_planted"] == true);
    if is_planted && name.is_null() {
        return Some(format!("{class} has no name"));
    }
    // The profiler's own time has no place in the program.
    if class == "profiler" {
        return None;
    }
    // However a frame is spelt, it has file and function.
    let is_frame = |frame: &str, found: &str| {
        let (place, function) = frame.split_once("): ").unwrap();
        found.contains(place.split('(').next().unwrap()) && found.contains(function)
    };
    let frames: Vec<Option<&str>> = same.iter().flat_map(|known| list(&known["frames"])).map(Value::as_str).collect();
    match part["frame"].as_str() {
        Some(found) if !frames.iter().flatten().any(|frame| is_frame(frame, found)) && is_host => {
            Some(format!("{class} has the frame {found}, should be of {frames:?}"))
        }
        None if is_host && !frames.is_empty() && frames.iter().all(Option::is_some) => {
            Some(format!("{class} has no frame, should be of {frames:?}"))
        }
        _ => None,
    }
}

/// What is wrong with the list of gaps of a device.
fn check_device(known: &Value, found: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, known) in [("count", &known["count"]), ("total_ns", &known["total_ns"])] {
        if &found[key] != known {
            wrong.push(format!("{key} is {}, not {known}", found[key]));
        }
    }
    let mut possible = BTreeMap::new();
    for gap in list(&known["gaps"]) {
        bounds(gap, &mut possible);
        let same = |row: &&Value| row["start_ns"] == gap["start_ns"] && row["dur_ns"] == gap["dur_ns"];
        let Some(found) = list(&found["top"]).iter().find(same) else {
            wrong.push(format!("no gap at {} of {} ns", gap["start_ns"], gap["dur_ns"]));
            continue;
        };
        let problems = check_gap(gap, found).join("; ");
        if !problems.is_empty() {
            wrong.push(format!("gap at {} of {} ns: {problems}", gap["start_ns"], gap["dur_ns"]));
        }
    }
    // Work that is launched ahead, on a stream or in a graph, has gaps under a microsecond, in which the profiler may
    // be at work.
    for class in ["launch_latency", "graph", "profiler"] {
        possible.entry(class).or_default().1 += ns(&known["micro_ns"]);
    }
    let by_class = found["by_class"].as_object().unwrap();
    for (class, row) in by_class {
        if ns(&row["total_ns"]) > possible.get(class.as_str()).copied().unwrap_or_default().1 {
            wrong.push(format!("{class} in all is {} ns", row["total_ns"]));
        }
    }
    for key in ["by_class", "micro and macro"] {
        let sum: i64 = match key {
            "by_class" => by_class.values().map(|row| ns(&row["total_ns"])).sum(),
            _ => ["micro", "macro"].map(|size| ns(&found[size]["total_ns"])).iter().sum(),
        };
        if sum != ns(&known["total_ns"]) {
            wrong.push(format!("{key} sum to {sum} ns, not {}", known["total_ns"]));
        }
    }
    wrong
}

/// What is wrong with the report of a file; with the seed, which repeats it.
fn check(path: &Path, answer: &Value) -> Vec<String> {
    let report = report(path, "0").unwrap();
    let mut wrong = Vec::new();
    let file = &report["files"][0];
    let is_loss = |problem: &Value| problem["severity"] != "note";
    if file["events"]["rejected"] != 0 || list(&file["problems"]).iter().any(is_loss) {
        wrong.push(format!("problems: {}", file["problems"]));
    }
    for known in list(&answer["gaps"]) {
        let same = |row: &&Value| row["device"] == known["device"];
        let device = list(&report["devices"]).iter().find(same).unwrap();
        for (key, known) in [("window_ns", &known["window_ns"]), ("idle_ns", &known["total_ns"])] {
            if &device[key] != known {
                wrong.push(format!("{key} is {}, not {known}", device[key]));
            }
        }
        let Some(gaps) = list(&report["gaps"]).iter().find(same) else {
            wrong.push("device without gaps".to_owned());
            continue;
        };
        wrong.extend(check_device(known, gaps));
    }
    wrong
}

#[test]
fn planted_gaps_have_their_causes() {
    let folder = scratch("planted");
    let seeds: i64 = std::env::var("LACUNA_SEEDS").map_or(24, |seeds| seeds.parse().unwrap());
    let mut wrong = Vec::new();
    for seed in 0..seeds as u64 {
        let plan = [GapPlan::Various, GapPlan::Various, GapPlan::Recurring, GapPlan::None][seed as usize % 4];
        for (path, answer) in samples(&folder, Shape { steps: 5, seed, plan }) {
            let kind = answer["kind"].as_str().unwrap().replace('_', "-");
            let called = format!("{kind} --scale 5 --gaps {plan:?} --seed {seed}");
            wrong.extend(check(&path, &answer).into_iter().map(|text| format!("{called}: {text}")));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
