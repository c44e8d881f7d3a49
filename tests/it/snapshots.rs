//! Compares the memory read from snapshots with an independent reading in Python.

use std::path::Path;
use std::process::Command;

use lacuna::model::{Format, Trace};
use serde_json::Value;

use super::support::{has_python, name, read, real, report, scratch};

/// Per device: bytes allocated, active, requested and reserved at the end, and events, as the file's own
/// lists have them.
const SNAPSHOT: &str = r#"
import json, pickle, sys
data = pickle.load(open(sys.argv[1], "rb"))
devices = {}
of = lambda device: devices.setdefault(str(device), {"allocated": 0, "active": 0, "reserved": 0, "events": 0, "blocks": 0})
for segment in data["segments"]:
    sums = of(segment["device"])
    sums["reserved"] += segment["total_size"]
    for block in segment["blocks"]:
        sums["allocated"] += block["size"] * (block["state"] == "active_allocated")
        sums["active"] += block["size"] * block["state"].startswith("active")
        sums["blocks"] += 1
for device, trace in enumerate(data["device_traces"]):
    if trace:
        of(device)["events"] = len(trace)
        of(device)["stack"] = ["%s (%s:%d)" % (f["name"], f["filename"], f["line"]) if f["filename"] not in ("", "??") else f["name"] for f in trace[-1].get("frames", [])]
print(json.dumps(devices))
"#;

/// The same snapshot as JSON.
const AS_JSON: &str =
    "import json, pickle, sys; json.dump(pickle.load(open(sys.argv[1], 'rb')), open(sys.argv[2], 'w'))";

/// Per category of a raw memory timeline: [time, bytes] wherever the bytes change. Then the bytes at the
/// end and before the recording, and the number of rows.
const TIMELINE: &str = r#"
import gzip, json, sys
rows = json.loads(gzip.open(sys.argv[1]).read())
start = min(row[0] for row in rows if row[0] >= 0)
sums, curves = {}, {}
for time, action, size, category in rows:
    sums[category] = sums.get(category, 0) + size
    curve = curves.setdefault(category, [])
    time = max(time, start)
    if curve and curve[-1][0] == time:
        curve.pop()
    curve.append([time, sums[category]])
before = sum(size for time, _, size, _ in rows if time < 0)
print(json.dumps([curves, sum(sums.values()), before, len(rows)]))
"#;

fn python(script: &str, args: &[&Path]) -> Value {
    let output = Command::new("python3").arg("-c").arg(script).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn memory(trace: &Trace) -> String {
    format!("{:?} {:?}", trace.memories, trace.import.tables)
}

#[test]
fn the_end_of_every_real_snapshot_is_that_of_the_file() {
    if !has_python() {
        return;
    }
    for path in real("C_pickle") {
        let trace = read(&path).unwrap().remove(0);
        let expected = python(SNAPSHOT, &[&path]);
        assert_eq!(trace.memories.len(), expected.as_object().unwrap().len(), "{}", name(&path));
        let mut n_blocks = 0;
        for memory in &trace.memories {
            let wanted = &expected[memory.device.to_string()];
            let last = memory.last_state() as usize;
            let curves = &memory.curves;
            for (key, bytes) in [
                ("allocated", curves.allocated[last]),
                ("active", curves.active[last]),
                ("reserved", curves.reserved[last]),
                ("events", memory.events.len() as u64),
            ] {
                assert_eq!(wanted[key].as_u64(), Some(bytes), "{key} of {}", name(&path));
            }
            n_blocks += wanted["blocks"].as_u64().unwrap();
            let stack: Vec<_> = memory.events.stack.last().map_or(Vec::new(), |stack| {
                trace.stacks.frames(*stack).map(|frame| Value::from(trace.strings.get(frame))).collect()
            });
            assert_eq!(wanted["stack"].as_array().cloned().unwrap_or_default(), stack, "{}", name(&path));
            assert!(curves.allocated.iter().zip(&curves.active).all(|(allocated, active)| allocated <= active));
            assert!(curves.active.iter().all(|&bytes| bytes < 1 << 48), "{}: below zero", name(&path));
        }
        let blocks = trace.import.tables.iter().find(|table| table.table == "blocks");
        assert_eq!(blocks.map(|table| (table.read, table.shown)), Some((n_blocks, n_blocks)), "{}", name(&path));
        assert_eq!(trace.import.rejected, 0, "{}", name(&path));
    }
}

#[test]
fn a_snapshot_dumped_as_json_is_the_same() {
    if !has_python() {
        return;
    }
    let folder = scratch("snapshot_json");
    for path in real("C_pickle").iter().filter(|path| path.metadata().is_ok_and(|data| data.len() < 700_000)) {
        let json = folder.join("snapshot.json");
        python(AS_JSON, &[path, &json]);
        let (pickle, json) = (read(path).unwrap().remove(0), read(&json).unwrap().remove(0));
        assert_eq!(json.info.format, Format::Snapshot);
        assert!(memory(&pickle) == memory(&json), "{}", name(path));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn memory_timelines_have_the_bytes_of_each_category() {
    if !has_python() {
        return;
    }
    const CATEGORIES: [&str; 8] =
        ["PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "UNKNOWN"];
    let changes = |points: Vec<(i64, i64)>| {
        let mut kept: Vec<(i64, i64)> = Vec::new();
        for point in points {
            if kept.last().map_or(0, |last| last.1) != point.1 {
                kept.push(point);
            }
        }
        kept
    };
    let files = ["A_kineto_generated_cpu", "C_memory_timeline"].iter().flat_map(|folder| real(folder));
    for path in files.filter(|path| name(path).contains("timeline.raw")) {
        let trace = read(&path).unwrap().remove(0);
        let expected = python(TIMELINE, &[&path]);
        for (i, category) in CATEGORIES.iter().enumerate() {
            let pair = |point: &Value| (point[0].as_i64().unwrap(), point[1].as_i64().unwrap());
            let wanted =
                expected[0][i.to_string()].as_array().map_or(Vec::new(), |curve| curve.iter().map(pair).collect());
            let counter = trace.counters.iter().find(|counter| trace.track(counter.track).name == *category);
            let found = counter.map_or(Vec::new(), |counter| {
                counter.ts.iter().zip(&counter.value).map(|(&ts, &bytes)| (ts, bytes as i64)).collect()
            });
            assert_eq!(changes(found), changes(wanted), "{category} of {}", name(&path));
        }
        let memory = &trace.memories[0];
        assert_eq!(memory.curves.active.last().copied(), expected[1].as_u64(), "{}", name(&path));
        assert_eq!(memory.curves.active.first().copied(), expected[2].as_u64(), "{}", name(&path));
        assert_eq!(report(&path, "5").unwrap()["memory"][0]["events"], expected[3], "{}", name(&path));
        assert_eq!((memory.inconsistencies.len(), trace.import.rejected), (0, 0), "{}", name(&path));
    }
}
