//! Compares leaks with those of an independent Python script on real and generated memory snapshots, and with the
//! known leaks of generated ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use lacuna::analysis::memory::categories::{Category, StackRoles, categories};
use lacuna::analysis::memory::leaks::{self, Leaks, Thresholds, TotalVerdict, Verdict};
use lacuna::analysis::memory::reserved::{Cause, growth, shares};
use lacuna::analysis::memory::signature::{SignatureId, Signatures};
use lacuna::analysis::memory::state::allocator;
use lacuna::analysis::memory::steps::{StepSource, Steps, marked, steps};
use lacuna::analysis::memory::{oom, summary};
use lacuna::model::{MemoryHistory, Trace};
use serde_json::Value;

use super::support::{has_python, lacuna, name, project, read, real, scratch};

/// A generated snapshot and what is planted in it.
fn sample(folder: &Path, plant: &str, args: &[&str]) -> (PathBuf, Value) {
    let [out, answer] = ["pickle", "json"].map(|end| folder.join(format!("{plant}{}.{end}", args.join(""))));
    let mut all = vec!["sample", "snapshot", "--plant", plant, "--overwrite", "--out", out.to_str().unwrap()];
    all.extend(["--answer", answer.to_str().unwrap()]);
    all.extend(args);
    let output = lacuna(&all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (out, serde_json::from_slice(&std::fs::read(answer).unwrap()).unwrap())
}

/// The only trace of a file.
fn trace(path: &Path) -> Trace {
    let mut traces = read(path).unwrap_or_else(|failure| panic!("{}: {failure:?}", path.display()));
    assert_eq!(traces.len(), 1, "{}", path.display());
    traces.remove(0)
}

fn find(trace: &Trace, history: &MemoryHistory, steps: Option<&Steps>, thresholds: &Thresholds) -> Leaks {
    let signatures = Signatures::new(trace, false);
    let capacity = leaks::capacity(trace, history);
    leaks::leaks(trace, history, &signatures, steps, capacity, thresholds, &|| false).1
}

fn label(trace: &Trace, signature: SignatureId) -> String {
    Signatures::new(trace, false).label(trace, signature).unwrap_or_default()
}

/// Where the planted verdicts of this sort are.
fn planted(answer: &Value, verdict: &str) -> Vec<String> {
    let planted = answer["planted"].as_array().unwrap().iter().filter(|planted| planted["verdict"] == verdict);
    let text = |frame: &Value| {
        format!("{} ({}:{})", frame["name"].as_str().unwrap(), frame["file"].as_str().unwrap(), frame["line"])
    };
    let mut places: Vec<String> = planted.map(|planted| text(&planted["frame"])).collect();
    places.sort();
    places
}

/// Steps of a real file that has none of its own: equal parts of its events.
fn parts(history: &MemoryHistory) -> Steps {
    let n = history.last_state() as usize;
    let ts: Vec<i64> =
        (0..=16).filter_map(|part| history.events.ts.get(part * n.saturating_sub(1) / 16).copied()).collect();
    marked(history, &ts).unwrap()
}

/// The steps without those in which the program ends, which say nothing of growth.
fn without_end(history: &MemoryHistory, mut steps: Steps) -> Steps {
    let live = |&state: &u32| history.curves.active[state as usize];
    while let [_, before @ .., last] = &steps.boundaries[..]
        && !before.is_empty()
        && before.iter().all(|at| 2 * live(last) < live(at))
    {
        steps.boundaries.pop();
        steps.names.pop();
    }
    steps
}

fn oracle(path: &Path, device: i32, boundaries: &[u32], folder: &Path) -> Value {
    let list = folder.join("boundaries.json");
    std::fs::write(&list, serde_json::to_vec(boundaries).unwrap()).unwrap();
    let script = project().join("tests/oracle/leaks.py");
    let output = Command::new("python3").arg(script).arg(path).arg(device.to_string()).arg(&list).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The figures that the oracle has of a place from a step on.
fn judged(place: &Value, since: Option<usize>) -> &Value {
    since.map_or(place, |since| &place["late"][since.to_string()])
}

/// Compares each place that grows at all, and whether it is a candidate. Returns how many were compared.
fn assert_agrees(path: &Path, folder: &Path) -> usize {
    let trace = trace(path);
    let signatures = Signatures::new(&trace, false);
    let mut compared = 0;
    for history in trace.memories.iter().filter(|history| history.events.len() > 100) {
        let steps = without_end(history, steps(&trace, history, &|| false).unwrap_or_else(|_| parts(history)));
        let theirs = oracle(path, history.device, &steps.boundaries, folder);
        // Whatever rises in any step, so that there is something to compare.
        let lenient = Thresholds {
            min_bytes_per_step: 1.0,
            min_growth_share: 0.0,
            min_monotonic: 0.01,
            min_survivor_steps: 1,
            min_kept: 0.0,
            min_seldom_steps: usize::MAX,
            min_repeated_steps: usize::MAX,
            min_attributed: f64::INFINITY,
            ..Thresholds::default()
        };
        let ours = find(&trace, history, Some(&steps), &lenient);
        assert_eq!(theirs["warm_up"], ours.warm_up);
        let places = theirs["places"].as_array().unwrap();
        for candidate in &ours.candidates {
            let stack = signatures.frames(&trace, candidate.signature);
            let place = places.iter().find(|place| {
                let frames = place["stack"].as_array().unwrap();
                frames.len() == stack.len() && frames.iter().zip(&stack).all(|(a, b)| a == b.as_ref())
            });
            let place = place.unwrap_or_else(|| panic!("{}: {stack:?} is unknown", path.display()));
            let figures = [candidate.bytes_per_step, candidate.monotonic, candidate.r2];
            let judged = judged(place, candidate.since_step);
            for (ours, key) in figures.into_iter().zip(["slope", "monotonic", "r2"]) {
                let theirs = judged[key].as_f64().unwrap();
                assert!((ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0), "{stack:?}: {key} {ours} {theirs}");
            }
            assert_eq!(judged["growth"], candidate.growth_bytes, "{stack:?}");
            assert_eq!(place["live"], serde_json::to_value(&candidate.live_bytes).unwrap(), "{stack:?}");
            assert_eq!(judged["survivors"], candidate.survivors, "{stack:?}");
            assert_eq!(judged["survivor_steps"], candidate.survivor_steps, "{stack:?}");
            compared += 1;
        }
        // The rule itself, from their figures.
        let strict = Thresholds::default();
        let total: i64 = history.curves.active[*steps.boundaries.last().unwrap() as usize] as i64;
        let at_end: i64 =
            places.iter().map(|place| place["live"].as_array().unwrap().last().unwrap().as_i64().unwrap()).sum();
        assert_eq!(at_end, total, "{}", path.display());
        let found = find(&trace, history, Some(&steps), &strict);
        let least = found.total.unwrap().trend.slope * strict.min_growth_share;
        let least = strict.min_bytes_per_step.max(least);
        let n_counted = steps.len() - found.warm_up;
        let is_candidate = |place: &&Value| {
            let figure = |key: &str| place[key].as_f64().unwrap();
            // What is given back in the last step has not grown.
            let is_steady = figure("growth") > 0.0
                && figure("slope") >= least
                && figure("monotonic") >= strict.min_monotonic
                && figure("survivor_steps") >= strict.min_survivor_steps as f64;
            let is_seldom = figure("growth") / n_counted as f64 >= least
                && figure("kept_steps") >= strict.min_seldom_steps as f64
                && figure("tau") >= strict.min_seldom_tau;
            n_counted >= strict.min_steps && figure("kept") >= strict.min_kept && (is_steady || is_seldom)
        };
        let theirs = places.iter().filter(is_candidate).count();
        let late = found.candidates.iter().filter(|candidate| candidate.since_step.is_some()).count();
        let cleared = |one: &&leaks::Explained| one.verdict != Verdict::Setup;
        let cleared = found.explained.iter().filter(cleared).count();
        let ours = found.candidates.len() - late..=found.candidates.len() + cleared;
        assert!(ours.contains(&theirs), "{}: {theirs} not in {ours:?}", path.display());
    }
    compared
}

#[test]
fn leaks_of_generated_snapshots_are_those_of_the_oracle() {
    if !has_python() {
        return;
    }
    let folder = scratch("memory_leaks");
    let compared = ["none", "steady-leak", "warm-up-cache", "fragmentation", "history-lost"].map(|plant| {
        let (path, _) = sample(&folder, plant, &["--scale", "14", "--layers", "2"]);
        assert_agrees(&path, &folder)
    });
    assert!(compared[1] >= 2, "{compared:?}");
}

#[test]
fn leaks_of_real_snapshots_are_those_of_the_oracle() {
    if !has_python() {
        return;
    }
    let folder = scratch("memory_real_leaks");
    let files = real("C_pickle");
    let compared: usize = files.iter().map(|path| assert_agrees(path, &folder)).sum();
    assert!(files.is_empty() || compared > 0, "nothing to compare");
}

#[test]
fn planted_memory_gets_the_expected_verdict() {
    let folder = scratch("memory_planted");
    for (plant, verdict) in [
        ("none", TotalVerdict::Flat),
        ("steady-leak", TotalVerdict::Growth),
        ("ratchet", TotalVerdict::Ratchet),
        ("setup", TotalVerdict::Flat),
        ("warm-up-cache", TotalVerdict::Flat),
        ("fragmentation", TotalVerdict::FragmentationGrowth),
    ] {
        for args in [&["--scale", "40"][..], &["--scale", "40", "--no-times"], &["--scale", "160", "--layers", "2"]] {
            let (path, answer) = sample(&folder, plant, args);
            let trace = trace(&path);
            let history = &trace.memories[0];
            let steps = steps(&trace, history, &|| false).unwrap();
            let has_times = !args.contains(&"--no-times");
            assert_eq!(steps.source == StepSource::ProfilerStep, has_times, "{plant}: {:?}", steps.source);
            let found = find(&trace, history, Some(&steps), &Thresholds::default());
            let mut candidates: Vec<String> = found.candidates.iter().map(|one| label(&trace, one.signature)).collect();
            candidates.sort();
            assert_eq!(candidates, planted(&answer, "leak"), "{plant} {args:?}");
            for (key, wanted) in [("setup", Verdict::Setup), ("warm_up_cache", Verdict::WarmUpCache)] {
                for place in planted(&answer, key) {
                    let is_it = |one: &&leaks::Explained| label(&trace, one.signature) == place;
                    let one = found.explained.iter().find(is_it);
                    assert_eq!(one.map(|one| one.verdict), Some(wanted), "{plant} {args:?}");
                }
            }
            assert_eq!(found.total.unwrap().verdict, verdict, "{plant} {args:?}: {:?}", found.total);
            // Ever more blocks make a ratchet, so its steps differ.
            let is_sure = has_times && plant != "ratchet";
            let least = if is_sure { leaks::Confidence::High } else { leaks::Confidence::Medium };
            assert!(found.confidence >= least, "{plant} {args:?}: {:?}", found.caveats);
            assert!(has_times || found.confidence == leaks::Confidence::Medium, "{plant} {args:?}");
        }
    }
}

#[test]
fn out_of_memory_is_explained() {
    let folder = scratch("memory_oom");
    for (plant, setting) in [("oom", ""), ("oom,fragmentation", "expandable_segments:True")] {
        let (path, answer) = sample(&folder, plant, &["--scale", "12"]);
        let trace = trace(&path);
        let history = &trace.memories[0];
        let cards = oom::cards(&trace, history, &Signatures::new(&trace, false), 0, &|| false);
        let (card, oom) = (&cards[0], &answer["oom"]);
        assert_eq!((&oom["entry"], &oom["requested"]), (&card.event.into(), &card.requested.into()));
        assert_eq!(oom["device_free"], card.device_free.unwrap());
        assert_eq!(leaks::capacity(&trace, history), answer["device_bytes"].as_u64());
        assert_eq!(card.reserved, card.allocated + card.awaiting_free + card.inactive);
        assert_eq!(oom["cause"], card.cause.key(), "{plant}");
        let is_fragmented = oom["cause"] == "fragmentation";
        assert_eq!(is_fragmented, plant.contains("fragmentation"));
        let settings: Vec<_> = card.hints.iter().map(oom::OomHint::setting).collect();
        assert!(!is_fragmented || settings.contains(&setting), "{plant}: {settings:?}");
    }
}

#[test]
fn growth_of_reserved_memory_is_explained() {
    let folder = scratch("memory_growth");
    let causes = |plant| {
        let (path, _) = sample(&folder, plant, &["--scale", "24"]);
        let trace = trace(&path);
        let found = growth(&trace.memories[0], &|| false);
        assert!(found.iter().all(|growth| growth.cause != Cause::NoRequest), "{plant}");
        let count = |cause| found.iter().filter(|growth| growth.cause == cause).count();
        [Cause::Demand, Cause::Fragmentation, Cause::Unexplained].map(count)
    };
    let [_, scattered, _] = causes("fragmentation");
    assert!(scattered >= 10, "{:?}", causes("fragmentation"));
    assert_eq!(causes("none")[2], 0);
}

/// `--fail-on warn` fails for leaks and for reserved memory that grows, and for nothing that is healthy.
#[test]
fn alarms_of_memory_decide_the_exit_code() {
    let folder = scratch("memory_alarms");
    let args = ["--scale", "60", "--layers", "2"];
    for (plant, is_alarm, rule) in [
        ("none", false, ""),
        ("warm-up-cache", false, ""),
        ("setup", false, ""),
        ("steady-leak", true, "memory_leak"),
        ("fragmentation", true, "reserved_growth"),
    ] {
        let (path, _) = sample(&folder, plant, &args);
        let output = lacuna(&["report", "--format", "json", "--fail-on", "warn", path.to_str().unwrap()]);
        assert_eq!(output.status.success(), !is_alarm, "{plant}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rules: Vec<&str> =
            report["findings"].as_array().unwrap().iter().filter_map(|one| one["rule"].as_str()).collect();
        assert!(is_alarm && rules.contains(&rule) || !is_alarm && rules.is_empty(), "{plant}: {rules:?}");
        let parts = &report["memory"][0]["reserved_growth"];
        let part = |key: &str| parts[key].as_u64().unwrap();
        let sum = part("demand_bytes") + part("fragmentation_bytes") + part("other_bytes");
        assert_eq!(sum, part("bytes"), "{plant}");
        assert_eq!(part("fragmentation_bytes") > part("bytes") / 2, plant == "fragmentation", "{plant}: {parts}");
    }
}

/// The simulated training knows what its blocks hold.
#[test]
fn categories_of_a_generated_training_are_those_of_its_blocks() {
    const MIB: u64 = 1 << 20;
    let folder = scratch("memory_categories");
    let (path, _) = sample(&folder, "none", &["--scale", "6", "--layers", "3"]);
    let trace = trace(&path);
    let found = categories(&trace, &trace.memories[0], &StackRoles::new(&trace));
    let of = |category| found.iter().find(|one| one.category == category).unwrap();
    let layer = [4 << 10, 4 << 10, 6 * MIB + (6 << 10), 2 * MIB + (2 << 10), 8 * MIB + (8 << 10), 8 * MIB];
    let parameters = 3 * layer.iter().sum::<u64>() + 16 * MIB;
    assert_eq!((of(Category::Parameter).peak, of(Category::Parameter).end), (parameters, parameters));
    assert_eq!((of(Category::Optimizer).end, of(Category::Gradient).end), (2 * parameters, parameters));
    // At the end nothing of a step is left; at its peak, activations hold the most.
    assert_eq!((of(Category::Activation).end, of(Category::Unknown).end), (0, 0));
    assert!(of(Category::Activation).peak > 3 * 15 * 8 * MIB, "{found:?}");
}

/// Says what comes out for each real file, so that the user can judge it: `--nocapture`.
#[test]
fn real_snapshots_add_up() {
    // The sample has blocks that await a stream at its end.
    for path in real("C_pickle").into_iter().chain([project().join("sample_traces/snapshot_oom.pickle")]) {
        let trace = trace(&path);
        for history in &trace.memories {
            let figures = summary::summary(history);
            let at_end = allocator(history, history.last_state(), &|| false).sums;
            assert_eq!(at_end.reserved, figures.end_reserved, "{}", path.display());
            assert_eq!(at_end.allocated, figures.end_allocated, "{}", path.display());
            assert_eq!(at_end.unsplit, 0, "{}: blocks at the end are known exactly", path.display());
            let steps = steps(&trace, history, &|| false).ok();
            let found = find(&trace, history, steps.as_ref(), &Thresholds::default());
            if history.curves.allocated[0] == 0 {
                let gained: i64 = found.gains.iter().map(|gain| gain.bytes).sum();
                assert_eq!(gained, figures.end_allocated as i64, "{}: gains sum to the end", path.display());
            }
            let reserved = growth(history, &|| false);
            let curve = &history.curves.reserved;
            let parts = shares(history, &reserved).unwrap();
            assert_eq!(parts.demand + parts.fragmentation + parts.other, parts.bytes, "{}", path.display());
            assert_eq!(parts.bytes, curve.iter().max().unwrap() - curve[0], "{}", path.display());
            assert!(reserved.iter().all(|growth| growth.scattered + growth.avoidable <= growth.bytes));
            let held = categories(&trace, history, &StackRoles::new(&trace));
            let sums = held.iter().fold((0, 0), |sums, one| (sums.0 + one.peak, sums.1 + one.end));
            let peak = figures.peak_allocated.map_or(figures.end_allocated, |peak| peak.bytes);
            let whole = (peak, figures.end_allocated);
            assert!(held.is_empty() || sums == whole, "{}: {held:?}", path.display());
            eprintln!("{}, {}, {} events", name(&path), history.title(), history.events.len());
            if let Some(steps) = &steps {
                eprintln!("  {} steps by {}, {:.2} regular", steps.len(), steps.source.label(), steps.regularity);
            }
            if let Some(total) = &found.total {
                eprintln!(
                    "  {:?}, {:.0} bytes a step, {} in all",
                    total.verdict, total.trend.slope, total.growth_bytes
                );
            }
            eprintln!("  confidence {:?}: {:?}; coverage {:.2}", found.confidence, found.caveats, found.coverage);
            for candidate in &found.candidates {
                let place = label(&trace, candidate.signature);
                let (slope, m, r2) = (candidate.bytes_per_step, candidate.monotonic, candidate.r2);
                eprintln!(
                    "  leak {place}: {slope:.0} bytes a step, m {m:.2}, R² {r2:.2}, {} survivors",
                    candidate.survivors
                );
            }
            for one in found.explained.iter().take(3) {
                eprintln!("  {:?} {}: {} bytes", one.verdict, label(&trace, one.signature), one.bytes);
            }
            for gain in found.gains.iter().take(3) {
                eprintln!("  gain {}: {} bytes, {} blocks", label(&trace, gain.signature), gain.bytes, gain.count);
            }
            let count = |cause| reserved.iter().filter(|growth| growth.cause == cause).count();
            let causes = [Cause::Demand, Cause::Fragmentation, Cause::Unexplained, Cause::NoRequest].map(count);
            eprintln!("  reserved grew by demand, fragmentation, unexplained, without request: {causes:?}");
        }
    }
}
