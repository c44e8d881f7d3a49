//! Generated traces with planted causes of idle time: what the report says of each gap against what the definitions
//! say of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lacuna::sample::nsys::Schema;
use lacuna::sample::planted::{GapPlan, Shape, write_kineto, write_nsys};
use serde_json::Value;

use super::support::{lacuna, report, scratch};

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

/// Classes that one kind of finding is about.
const RULES: [(&str, &str); 7] = [
    ("sync", "synchronization"),
    ("data_loading", "data_loading"),
    ("copy", "exposed_copies"),
    ("allocator", "allocator"),
    ("module_load", "module_load"),
    ("gc", "garbage_collection"),
    ("dependency", "stream_dependency"),
];
/// Classes that ending their cause removes, and those that clusters take together.
const RECOVERABLE: [&str; 12] = [
    "sync",
    "data_loading",
    "copy",
    "allocator",
    "module_load",
    "gc",
    "collective",
    "launch",
    "cpu_op",
    "python",
    "blocked",
    "dependency",
];
const SLOW_HOST: [&str; 4] = ["launch", "cpu_op", "python", "unknown"];

/// The steps that figures per step are of: where the first begins and the last ends, and where each begins.
struct Steps {
    range: (i64, i64),
    starts: Vec<i64>,
}

impl Steps {
    /// The steps of a device that the report judges, by the lengths of their parts: they begin with the work that they
    /// launched. `None` if it judges no steps.
    fn of(report: &Value, device: &Value) -> Option<Self> {
        let is_own = |row: &&Value| row["device"] == *device;
        let judged = list(&report["judged"]).iter().find(|row| is_own(row) && row["basis"] == "steps")?;
        let used = list(&report["steps"]["list"]).iter().filter(|step| step["is_used"] == true);
        let (mut starts, mut at) = (Vec::new(), ns(&judged["start_ns"]));
        for step in used {
            let parts = list(&step["devices"]).iter().find(is_own)?.as_object()?;
            starts.push(at);
            let is_part = |key: &str| key.ends_with("_ns") && key != "start_ns" && key != "dur_ns";
            let dur = parts.iter().filter(|part| is_part(part.0)).map(|part| ns(part.1)).sum::<i64>();
            assert_eq!((at, dur), (ns(&parts["start_ns"]), ns(&parts["dur_ns"])), "{step}");
            at += dur;
            assert!(at > ns(&step["start_ns"]) + ns(&step["dur_ns"]) / 2, "the device is ahead of the host: {step}");
        }
        // The last one may last beyond the last work.
        let end = ns(&judged["start_ns"]) + ns(&judged["dur_ns"]);
        assert!(end <= at && starts.last().is_some_and(|&last| last < end), "{judged}: {starts:?} to {at}");
        Some(Self { range: (starts[0], end), starts })
    }

    /// The step of the work that ends a gap.
    fn step_of(&self, gap: &Value) -> Option<usize> {
        let end = ns(&gap["start_ns"]) + ns(&gap["dur_ns"]);
        let is_within = self.range.0 < end && end <= self.range.1;
        is_within.then(|| self.starts.partition_point(|&step| step < end).saturating_sub(1))
    }
}

/// Gaps of the answer that belong to one cluster.
#[derive(Default)]
struct Group<'a> {
    class: &'a str,
    /// Names and frames of the longest part.
    places: Option<[&'a Value; 2]>,
    gaps: Vec<&'a Value>,
    in_steps: i64,
    steps: std::collections::BTreeSet<usize>,
    /// Bounds of the time in the steps that ending the cause removes.
    recoverable: (i64, i64),
}

/// The class of most of a gap as clusters have it, if that is certain, and its names and frames.
fn dominant(gap: &Value) -> Option<(&str, [&Value; 2])> {
    let part = list(&gap["parts"]).iter().find(|part| 2 * ns(&part["dur_ns"]) > ns(&gap["dur_ns"]))?;
    let classes: Vec<&str> = list(&part["classes"]).iter().filter_map(Value::as_str).collect();
    let class = match classes[..] {
        _ if classes.iter().all(|class| SLOW_HOST.contains(class)) => "slow host",
        [class] => class,
        _ => return None,
    };
    Some((class, [&part["names"], &part["frames"]]))
}

/// The clusters that the gaps of at least `theta` ns of an answer make; `None` for those that are open.
fn groups<'a>(known: &'a Value, theta: i64, steps: &Steps) -> BTreeMap<[&'a str; 2], Option<Group<'a>>> {
    let mut out: BTreeMap<[&str; 2], Option<Group<'_>>> = BTreeMap::new();
    for gap in list(&known["gaps"]).iter().filter(|gap| ns(&gap["dur_ns"]) >= theta) {
        let work = ["after", "ended_by"].map(|key| gap[key].as_str().unwrap());
        let cause = dominant(gap);
        let new = || cause.map(|cause| Group { class: cause.0, places: Some(cause.1), ..Group::default() });
        let group = out.entry(work).or_insert_with(new);
        // What may be more than one cluster.
        if group.as_ref().and_then(|group| Some((group.class, group.places?))) != cause {
            *group = None;
        }
        let Some(group) = group else { continue };
        group.gaps.push(gap);
        if let Some(step) = steps.step_of(gap) {
            group.in_steps += ns(&gap["dur_ns"]);
            group.steps.insert(step);
            // Time without a record can be gained where the trigger of the gap can be ended; launch latency where a
            // host that is ahead would have it while the device works.
            let triggers = list(&gap["triggers"]);
            let is_gained = |class: &str, is_all: bool| {
                let ends: &[&str] = match class {
                    "unknown" | "launch_latency" => &["sync", "launch_bound"],
                    _ => &[],
                };
                let is_to_end = |trigger: &Value| ends.iter().any(|to_end| trigger == to_end);
                if is_all { triggers.iter().all(is_to_end) } else { triggers.iter().any(is_to_end) }
            };
            for part in list(&gap["parts"]) {
                let is_recoverable = |class: &Value, is_all: bool| {
                    let class = class.as_str().unwrap();
                    RECOVERABLE.contains(&class) || is_gained(class, is_all)
                };
                let classes = list(&part["classes"]);
                let is_certain = classes.iter().all(|class| is_recoverable(class, true));
                let is_possible = classes.iter().any(|class| is_recoverable(class, false));
                group.recoverable.0 += if is_certain { ns(&part["dur_ns"]) } else { 0 };
                group.recoverable.1 += if is_possible { ns(&part["dur_ns"]) } else { 0 };
            }
        }
    }
    out
}

/// What is wrong with the clusters of a device, and how many were compared that are in every step.
fn check_clusters(known: &Value, found: &Value, steps: &Steps) -> (Vec<String>, usize) {
    let (mut wrong, mut n_in_every_step) = (Vec::new(), 0);
    let n_steps = steps.starts.len();
    for (work, group) in groups(known, ns(&found["theta_ns"]), steps) {
        let Some(group) = group.filter(|group| group.gaps.len() > 1) else { continue };
        let class = group.class;
        let total: i64 = group.gaps.iter().map(|gap| ns(&gap["dur_ns"])).sum();
        let is_same = |row: &&Value| ns(&row["count"]) == group.gaps.len() as i64 && ns(&row["total_ns"]) == total;
        let Some(row) = list(&found["clusters"]).iter().find(is_same) else {
            wrong.push(format!("no cluster of {} gaps of {total} ns in {class} between {work:?}", group.gaps.len()));
            continue;
        };
        let mut differs = |key: &str, is_right: bool, expected: String| {
            if !is_right {
                wrong.push(format!("cluster of {class} between {work:?}: {key} is {}, not {expected}", row[key]));
            }
        };
        let is_class =
            row["class"] == class || class == "slow host" && SLOW_HOST.iter().any(|host| row["class"] == *host);
        differs("class", is_class, class.to_owned());
        for (key, work) in [("prev", work[0]), ("next", work[1])] {
            // Without its return type, template and arguments.
            let is_same = row[key].as_str().is_some_and(|name| !name.is_empty() && work.contains(name));
            differs(key, is_same, work.to_owned());
        }
        differs("steps_present", ns(&row["steps_present"]) == group.steps.len() as i64, format!("{:?}", group.steps));
        let per_step = group.in_steps / n_steps as i64;
        differs("ns_per_step", ns(&row["ns_per_step"]) == per_step, per_step.to_string());
        let (low, high) = (group.recoverable.0 / n_steps as i64, group.recoverable.1 / n_steps as i64);
        // What the recorder took is not a part of it.
        let ceiling = ns(&row["ceiling_ns_per_step"]) + row["recorder_ns_per_step"].as_i64().unwrap_or_default();
        differs("ceiling_ns_per_step", low - 1 <= ceiling && ceiling <= high, format!("{low}..={high}"));
        let is_trigger = group.gaps.iter().any(|gap| list(&gap["triggers"]).contains(&row["trigger"]));
        differs("trigger", is_trigger, format!("{}", group.gaps[0]["triggers"]));
        let [names, frames] = group.places.unwrap().map(list);
        let op = row["op"].as_str().and_then(|op| op.rsplit(" > ").next());
        // The profiler's own time has no place in the program.
        let is_of_program = class != "profiler";
        differs("op", !is_of_program || op.is_none_or(|op| names.iter().any(|name| name == op)), format!("{names:?}"));
        let is_frame = match row["frame"].is_null() {
            true => frames.is_empty() || frames.contains(&Value::Null),
            false => frames.contains(&row["frame"]),
        };
        differs("frame", !is_of_program || is_frame, format!("{frames:?}"));
        n_in_every_step += usize::from(group.steps.len() == n_steps);
    }
    (wrong, n_in_every_step)
}

/// What is wrong with the findings about one cause: a class with much certain time must have one.
///
/// * `steps`: of each device.
fn check_findings(answer: &Value, report: &Value, steps: &[Steps]) -> (Vec<String>, usize) {
    let (mut wrong, mut n_found) = (Vec::new(), 0);
    for (class, rule) in RULES {
        let mut shares: Vec<f64> = Vec::new();
        for (device, steps) in list(&answer["gaps"]).iter().zip(steps) {
            let window = steps.range.1 - steps.range.0;
            let mut sums = BTreeMap::new();
            // Without gaps across an end of the window.
            let is_within = |gap: &&Value| steps.step_of(gap).is_some() && ns(&gap["start_ns"]) >= steps.range.0;
            list(&device["gaps"]).iter().filter(is_within).for_each(|gap| bounds(gap, &mut sums));
            shares.push(sums.get(class).map_or(0.0, |&(low, _): &(i64, i64)| low as f64 / window as f64));
        }
        let share = shares.into_iter().fold(0.0, f64::max);
        let found = list(&report["findings"]).iter().find(|finding| finding["rule"] == rule);
        // Every rule has a level of 5 % or less.
        match found {
            Some(found) => {
                n_found += usize::from(share > 0.05);
                let measured = found["measured"].as_f64().unwrap();
                if measured < share - 1e-9 || measured < found["threshold"].as_f64().unwrap() {
                    wrong.push(format!("{rule} measures {measured}, but {class} has {share}: {found}"));
                }
                // Its own time, without that of other causes.
                let part = |key: &str| found[key].as_i64().unwrap_or_default();
                let per_step = part("ceiling_ns_per_step") - part("ahead_ns_per_step");
                let per_share = |steps: &Steps| (steps.range.1 - steps.range.0) as f64 / steps.starts.len() as f64;
                let most = steps.iter().map(per_share).fold(0.0, f64::max);
                if per_step as f64 > (measured + 1e-9) * most + 1.0 {
                    wrong.push(format!("{rule} would save {per_step} ns a step of {measured}"));
                }
            }
            None if share > 0.051 => wrong.push(format!("no finding {rule}, but {class} has {share}")),
            None => {}
        }
    }
    (wrong, n_found)
}

#[test]
fn planted_causes_that_come_back_are_clusters_and_findings() {
    let folder = scratch("recurring");
    let seeds: i64 = std::env::var("LACUNA_SEEDS").map_or(40, |seeds| seeds.parse().unwrap());
    let (mut wrong, mut n_clusters, mut n_findings) = (Vec::new(), 0, 0);
    for seed in 100..100 + seeds as u64 {
        let steps = 5 + seed as u32 % 4;
        for (path, answer) in samples(&folder, Shape { steps, seed, plan: GapPlan::Recurring }) {
            let kind = answer["kind"].as_str().unwrap().replace('_', "-");
            let called = format!("{kind} --scale {steps} --gaps recurring --seed {seed}");
            let report = report(&path, "0").unwrap();
            let devices = list(&answer["gaps"]).iter().map(|known| Steps::of(&report, &known["device"]));
            let Some(steps) = devices.collect::<Option<Vec<_>>>() else { continue };
            let (problems, n) = check_findings(&answer, &report, &steps);
            n_findings += n;
            wrong.extend(problems.into_iter().map(|text| format!("{called}: {text}")));
            for (known, steps) in list(&answer["gaps"]).iter().zip(&steps) {
                let same = |row: &&Value| row["device"] == known["device"];
                let found = list(&report["gaps"]).iter().find(same).unwrap();
                let (problems, n) = check_clusters(known, found, steps);
                n_clusters += n;
                wrong.extend(problems.into_iter().map(|text| format!("{called}: {text}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        2 * n_clusters as i64 > seeds && 2 * n_findings as i64 > seeds,
        "{n_clusters} clusters, {n_findings} findings"
    );
}

#[test]
fn a_stall_takes_none_of_the_gaps_long_after_it() {
    let folder = scratch("stall");
    let [path, answer] = ["trace", "answer.json"].map(|name| folder.join(name));
    // A step of these is paced by that before the last: in two steps a host has the lead again that a stall took.
    for (kind, seed) in ["kineto", "nsys"].iter().flat_map(|kind| [1, 9, 25, 26].map(|seed| (*kind, seed))) {
        let seed = format!("{seed}");
        let [out, known] = [&path, &answer].map(|path| path.to_str().unwrap());
        let args = ["sample", kind, "--scale", "10", "--seed", &seed, "--overwrite", "--out", out, "--answer", known];
        assert!(lacuna(&args).status.success());
        let known: Value = serde_json::from_slice(&std::fs::read(&answer).unwrap()).unwrap();
        let report = report(&path, "0").unwrap();
        let judged = ns(&report["judged"][0]["dur_ns"]) as f64;
        for (rule, cause, off) in [("allocator", "allocator", 0.02), ("data_loading", "loader", 0.08)] {
            let check = list(&report["checks"]).iter().find(|check| check["rule"] == rule).unwrap();
            let planted = list(&known["devices"][0]["planted"]).iter().find(|planted| planted["cause"] == cause);
            let planted = ns(&planted.unwrap()["dur_ns"]) as f64;
            let measured = check["measured"].as_f64().unwrap() * judged;
            assert!((measured - planted).abs() < off * planted, "{kind} {seed}: {rule} {measured} of {planted}");
        }
    }
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    let folder = scratch("nothing");
    for seed in 200..216 {
        for (path, answer) in samples(&folder, Shape { steps: 6, seed, plan: GapPlan::None }) {
            let report = report(&path, "0").unwrap();
            let called = format!("{} --scale 6 --gaps none --seed {seed}", answer["kind"]);
            // What kernels the samples have is nothing that was planted.
            let found = list(&report["findings"]).iter().find(|finding| finding["rule"] != "unfused_elementwise");
            assert_eq!(found, None, "{called}");
            for gaps in list(&report["gaps"]) {
                assert_eq!((&gaps["macro"]["count"], list(&gaps["clusters"])), (&Value::from(0), &[][..]), "{called}");
            }
        }
    }
}
