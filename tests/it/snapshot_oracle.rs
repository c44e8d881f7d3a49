//! Compares the replayed memory of snapshots with an independent replay, state by state.
//!
//! `tests/oracle/memory.py` goes backwards from the segments of the end; the model goes forward.

use std::path::{Path, PathBuf};
use std::process::Command;

use lacuna::analysis::memory::summary::summary;
use lacuna::model::MemoryHistory;
use lacuna::model::memory::MemorySource;
use lacuna::sample::snapshot::{self, Plant, Shape};
use serde_json::{Value, json};

use super::support::{has_python, lacuna, name, project, read, real, scratch};

/// A run of a few steps.
fn shape(plants: &[Plant]) -> Shape {
    Shape {
        steps: 12,
        seed: 5,
        layers: 2,
        protocol: 4,
        has_times: true,
        max_entries: None,
        is_expandable: false,
        plants: plants.to_vec(),
    }
}

/// Each plant, some together, and each form that a file may have.
fn shapes() -> Vec<(&'static str, Shape)> {
    use Plant::{Fragmentation, HistoryLost, Oom, Ratchet, Setup, SteadyLeak, WarmUpCache};
    let expandable = Shape { is_expandable: true, ..shape(&[SteadyLeak, Oom]) };
    vec![
        ("healthy", shape(&[])),
        ("steady-leak", Shape { protocol: 2, ..shape(&[SteadyLeak]) }),
        ("ratchet", Shape { protocol: 3, ..shape(&[Ratchet]) }),
        ("warm-up-cache", Shape { protocol: 5, ..shape(&[WarmUpCache]) }),
        ("setup", Shape { has_times: false, ..shape(&[Setup]) }),
        ("fragmentation", shape(&[Fragmentation])),
        ("demand", shape(&[Oom])),
        ("fragmented-oom", shape(&[Fragmentation, Oom])),
        ("history-lost", Shape { protocol: 1, ..shape(&[SteadyLeak, HistoryLost]) }),
        ("expandable", Shape { protocol: 0, ..expandable.clone() }),
        ("few-entries", Shape { max_entries: Some(77), ..expandable }),
        ("no-entries", Shape { max_entries: Some(0), ..shape(&[Setup]) }),
        ("all", shape(&[SteadyLeak, Ratchet, WarmUpCache, Setup, Fragmentation])),
    ]
}

/// The generated snapshots with their answers.
fn samples(folder: &Path) -> Vec<(PathBuf, Value)> {
    let write = |(name, shape): (&str, Shape)| {
        let path = folder.join(format!("{name}.pickle"));
        let answer = snapshot::write(&shape, &mut std::fs::File::create(&path).unwrap()).unwrap();
        (path, serde_json::to_value(answer).unwrap())
    };
    shapes().into_iter().map(write).collect()
}

/// What the oracle says of a snapshot: one value a device.
fn ask_oracle(path: &Path) -> Vec<Value> {
    let oracle = project().join("tests/oracle/memory.py");
    let output = Command::new("python3").arg(oracle).arg("--full").arg(path).output().unwrap();
    assert!(output.status.success(), "{}: {}", name(path), String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["devices"].as_array().unwrap().clone()
}

fn curve(theirs: &Value, name: &str) -> Vec<u64> {
    serde_json::from_value(theirs["curves"][name]["all"].clone()).unwrap()
}

/// The first difference between two curves, as text.
fn difference(ours: &[u64], theirs: &[u64]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} states, not {}", ours.len(), theirs.len()));
    }
    let at = (0..ours.len()).find(|&state| ours[state] != theirs[state])?;
    let count = ours.iter().zip(theirs).filter(|(a, b)| a != b).count();
    Some(format!("{} in state {at}, not {}; {count} states differ", ours[at], theirs[at]))
}

/// Where a history differs from what the oracle says.
fn differences(history: &MemoryHistory, theirs: &Value) -> Vec<String> {
    let curves = &history.curves;
    let mut found = Vec::new();
    for (name, ours) in [
        ("allocated", &curves.allocated),
        ("active", &curves.active),
        ("requested", &curves.requested),
        ("reserved", &curves.reserved),
    ] {
        found.extend(difference(ours, &curve(theirs, name)).map(|text| format!("{name}: {text}")));
    }
    for (name, ours) in [("allocated", &curves.allocated), ("active", &curves.active), ("reserved", &curves.reserved)] {
        if ours.last().copied() != theirs["end"][name].as_u64() {
            found.push(format!("{name} at the end: {:?}, not {}", ours.last(), theirs["end"][name]));
        }
    }
    if let Some(ours) = summary(history).fragmentation {
        let theirs = theirs["end"]["fragmentation"].as_f64().unwrap();
        if (ours - theirs).abs() > 1e-9 {
            found.push(format!("fragmentation: {ours}, not {theirs}"));
        }
    }
    let peak = curves.peak(0..history.n_states());
    for (what, ours, theirs) in [
        ("allocations", history.allocations.len() as u64, &theirs["allocations"]),
        ("events", history.events.len() as u64, &theirs["events"]),
        ("peak", u64::from(peak), &theirs["curves"]["active"]["peak_state"]),
        (
            "allocations before",
            history.allocations.start.iter().filter(|&&start| start == 0).count() as u64,
            &theirs["before"],
        ),
    ] {
        if theirs.as_u64() != Some(ours) {
            found.push(format!("{what}: {ours}, not {theirs}"));
        }
    }
    found
}

/// The histories of a file, which must be as many as the oracle finds devices.
fn histories(path: &Path) -> Vec<MemoryHistory> {
    let traces = read(path).unwrap_or_else(|failure| panic!("{}: {failure:?}", name(path)));
    let memories = traces.into_iter().flat_map(|trace| trace.memories);
    memories.filter(|history| history.source == MemorySource::Snapshot).collect()
}

fn assert_agreement(path: &Path) -> Vec<MemoryHistory> {
    let (histories, theirs) = (histories(path), ask_oracle(path));
    let devices: Vec<_> = histories.iter().map(|history| i64::from(history.device)).collect();
    let expected: Vec<_> = theirs.iter().filter_map(|device| device["device"].as_i64()).collect();
    assert_eq!(devices, expected, "{}: devices", name(path));
    for (history, theirs) in histories.iter().zip(&theirs) {
        let differences = differences(history, theirs);
        assert!(differences.is_empty(), "{}: {differences:#?}", name(path));
    }
    histories
}

#[test]
fn agrees_with_the_oracle_on_real_snapshots() {
    if !has_python() {
        return;
    }
    for path in real("C_pickle") {
        assert_agreement(&path);
    }
}

#[test]
fn agrees_with_the_oracle_and_the_answer_on_samples() {
    if !has_python() {
        return;
    }
    let folder = scratch("snapshot-samples");
    for (path, answer) in samples(&folder) {
        let histories = assert_agreement(&path);
        let [history] = &histories[..] else { panic!("{}: one device", name(&path)) };
        let (curves, last) = (&history.curves, history.last_state() as usize);
        let end = json!({
            "allocated": curves.allocated[last],
            "active": curves.active[last],
            "requested": curves.requested[last],
            "reserved": curves.reserved[last],
        });
        assert_eq!(end, answer["end"], "{}", name(&path));
        let peak = curves.peak(0..history.n_states());
        assert_eq!(json!({"state": peak, "bytes": curves.active[peak as usize]}), answer["peak_active"]);
        assert_eq!(history.events.len() as u64, answer["entries"].as_u64().unwrap());
        assert!(
            history.inconsistencies.iter().all(|(inconsistency, ..)| inconsistency.is_harmless()),
            "{:?}",
            history.inconsistencies
        );
        let oom = history.ooms.first().map(|oom| (u64::from(oom.event), oom.requested, oom.device_free));
        let expected = answer["oom"].as_object().map(|oom| {
            (oom["entry"].as_u64().unwrap(), oom["requested"].as_u64().unwrap(), oom["device_free"].as_u64())
        });
        assert_eq!(oom, expected, "{}", name(&path));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What the generator says of its own file is what the oracle finds there.
#[test]
fn samples_match_their_answers() {
    if !has_python() {
        return;
    }
    let folder = scratch("snapshot-answers");
    for (path, answer) in samples(&folder) {
        let theirs = ask_oracle(&path);
        let [theirs] = &theirs[..] else { panic!("{}: one device", name(&path)) };
        assert_eq!(theirs["events"], answer["entries"], "{}", name(&path));
        for what in ["allocated", "active", "requested", "reserved"] {
            assert_eq!(theirs["curves"][what]["last"], answer["end"][what], "{}: {what}", name(&path));
        }
        for what in ["allocated", "active", "reserved"] {
            assert_eq!(theirs["end"][what], answer["end"][what], "{}: {what}", name(&path));
        }
        for what in ["allocated", "active"] {
            let curve = &theirs["curves"][what];
            let peak = json!({"state": curve["peak_state"], "bytes": curve["peak"]});
            assert_eq!(peak, answer[format!("peak_{what}")], "{}: {what}", name(&path));
        }
        for planted in answer["planted"].as_array().unwrap() {
            assert_planted(&path, planted, theirs);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a stack leaves at the end is what its plant says.
fn assert_planted(path: &Path, planted: &Value, theirs: &Value) {
    let verdict = planted["verdict"].as_str().unwrap();
    let frame = ["name", "file", "line"].map(|key| planted["frame"][key].to_string().replace('"', ""));
    let frame = format!("{}@{}:{}", frame[0], frame[1], frame[2]);
    let live = theirs["live_at_end"].as_array().unwrap();
    let bytes: u64 = live
        .iter()
        .filter(|row| row["stack"].as_str().unwrap().contains(&frame))
        .map(|row| row["bytes"].as_u64().unwrap())
        .sum();
    let number = |key: &str| planted[key].as_u64().unwrap();
    let steps = number("last_step") + 1 - number("first_step");
    let expected = match verdict {
        "leak" | "warm_up_cache" | "setup" => steps * number("bytes_per_step"),
        _ => 0,
    };
    assert_eq!(bytes, expected, "{}: {verdict} at {frame}", name(path));
}

/// Prints how many opcodes each pickle has, and how many of them Python would write otherwise. Frames of
/// protocol 4 may end anywhere.
const SPELLING: &str = "
import pickle, pickletools, sys
def opcodes(text):
    return [(op.name, arg) for op, arg, _ in pickletools.genops(text) if op.name != 'FRAME']
for path in sys.argv[1:]:
    text = open(path, 'rb').read()
    ours = opcodes(text)
    protocol = ours[0][1] if ours[0][0] == 'PROTO' else int(ours[0][0] != 'MARK')
    theirs = opcodes(pickle.dumps(pickle.loads(text), protocol))
    print(len(ours), abs(len(ours) - len(theirs)) + sum(a != b for a, b in zip(ours, theirs)))
";

/// Pickled again by Python, a sample has the same opcodes: all texts, lists and frames are shared as there.
#[test]
fn samples_have_the_opcodes_of_pythons_pickler() {
    if !has_python() {
        return;
    }
    let folder = scratch("snapshot-spelling");
    let paths: Vec<_> = samples(&folder).into_iter().map(|(path, _)| path).collect();
    let output = Command::new("python3").args(["-c", SPELLING]).args(&paths).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), paths.len());
    for (line, path) in lines.iter().zip(&paths) {
        let [total, other] = [0, 1].map(|i| line.split(' ').nth(i).unwrap().parse::<u64>().unwrap());
        assert!(total > 500 && other == 0, "{}: {other} of {total} opcodes differ", name(path));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The committed samples are what the command writes today, so the recipes in their README.md hold.
#[test]
fn committed_samples_are_current() {
    let folder = scratch("snapshot-committed");
    let committed = project().join("sample_traces");
    let readme = std::fs::read_to_string(committed.join("README.md")).unwrap();
    let recipes: Vec<_> = readme.split('`').filter(|text| text.starts_with("lacuna sample snapshot")).collect();
    assert_eq!(recipes.len(), 2, "a recipe for each committed snapshot");
    for recipe in recipes {
        let args: Vec<_> =
            recipe.split(' ').skip(1).map(|arg| arg.replace("sample_traces", &folder.to_string_lossy())).collect();
        assert!(lacuna(&args).status.success(), "{recipe}");
        assert_eq!(lacuna(&args).status.code(), Some(2), "a file that exists is overwritten only when told to");
    }
    for path in super::support::files(&folder) {
        let other = committed.join(name(&path));
        assert!(std::fs::read(&path).unwrap() == std::fs::read(&other).unwrap(), "{} is not current", name(&path));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
