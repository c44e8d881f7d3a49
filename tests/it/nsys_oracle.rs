//! Compares the reading of nsys exports with plain SQL and with the generator's answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use lacuna::analysis::busy;
use lacuna::analysis::kernels::{KernelsBy, add_queue_times, kernels};
use lacuna::analysis::launches::WorkOfThreads;
use lacuna::analysis::range_kernels::range_kernels;
use lacuna::analysis::totals::Scope;
use lacuna::model::{SliceId, SliceKind, Trace, Track, TrackKind};
use lacuna::sample::nsys::{self, Schema, Shape};
use serde_json::{Value, json};

use super::support::{beside, files, has_python, lacuna, name, project, read, real, scratch, unbalanced};

const SCHEMAS: [(Schema, &str); 3] = [(Schema::V2022, "2022"), (Schema::V2023, "2023"), (Schema::V2026, "2026")];

/// The oracle's answer for some files: one object each.
fn ask_oracle(files: &[PathBuf]) -> Vec<Value> {
    let output = Command::new("python3").arg(project().join("tests/oracle/nsys.py")).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// {name: [count, sum of ns]} of slices of one kind.
fn by_name(trace: &Trace, is_wanted: fn(SliceKind) -> bool) -> Value {
    let slices = &trace.slices;
    let mut sums: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for i in (0..slices.len()).filter(|&i| is_wanted(slices.kind[i])) {
        let sum = sums.entry(trace.strings.get(slices.name[i])).or_default();
        *sum = (sum.0 + 1, sum.1 + slices.end[i] - slices.ts[i]);
    }
    sums.into_iter().map(|(name, (count, ns))| (name.to_owned(), json!([count, ns]))).collect()
}

/// The same for annotations on tracks of `kind`, without those that never ended.
fn annotations(trace: &Trace, kind: TrackKind) -> Value {
    let slices = &trace.slices;
    let mut sums: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for row in slices.rows.iter().filter(|row| trace.track(row.track).kind == kind) {
        for i in row.range().filter(|&i| slices.kind[i] == SliceKind::Annotation) {
            if slices.unfinished.binary_search(&SliceId(i as u32)).is_err() {
                let sum = sums.entry(trace.strings.get(slices.name[i])).or_default();
                *sum = (sum.0 + 1, sum.1 + slices.end[i] - slices.ts[i]);
            }
        }
    }
    sums.into_iter().map(|(name, (count, ns))| (name.to_owned(), json!([count, ns]))).collect()
}

/// {name: [count, sum of ns]} of calls of the operating system on their threads. What lies on tracks of
/// its own comes from other tables.
fn os_calls(trace: &Trace) -> Value {
    let slices = &trace.slices;
    let mut sums: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    let is_thread = |track: &Track| track.kind == TrackKind::Thread && !track.name.ends_with(": on CPU");
    for row in slices.rows.iter().filter(|row| is_thread(trace.track(row.track))) {
        for i in row.range().filter(|&i| slices.kind[i] == SliceKind::Os) {
            let sum = sums.entry(trace.strings.get(slices.name[i])).or_default();
            *sum = (sum.0 + 1, sum.1 + slices.end[i] - slices.ts[i]);
        }
    }
    sums.into_iter().map(|(name, (count, ns))| (name.to_owned(), json!([count, ns]))).collect()
}

/// {direction: [count, sum of ns, sum of bytes]} of copies and memsets.
fn bytes(trace: &Trace) -> Value {
    let slices = &trace.slices;
    let mut sums: BTreeMap<&str, (u64, i64, u64)> = BTreeMap::new();
    for i in 0..slices.len() {
        if matches!(slices.kind[i], SliceKind::Memcpy | SliceKind::Memset) {
            let copy = trace.facts.copies.get(SliceId(i as u32)).unwrap();
            let sum = sums.entry(copy.kind.label()).or_default();
            *sum = (sum.0 + 1, sum.1 + slices.end[i] - slices.ts[i], sum.2 + copy.bytes.unwrap_or(0));
        }
    }
    sums.into_iter().map(|(kind, (count, ns, bytes))| (kind.to_owned(), json!([count, ns, bytes]))).collect()
}

/// [start, kind, stream, event, stream and correlation id of its record] of each wait, sorted by start; no
/// kind where the oracle has none either, for want of a call.
fn syncs(trace: &Trace, oracle: &Value) -> Value {
    let slices = &trace.slices;
    let mut all: Vec<_> = trace.facts.syncs.iter().collect();
    all.sort_by_key(|(slice, _)| (slices.ts[slice.idx()], slices.correlation[slice.idx()]));
    let theirs = oracle["syncs"].as_array().cloned().unwrap_or_default();
    let rows = all.into_iter().enumerate().map(|(i, (slice, wait))| {
        let kind = theirs.get(i).is_some_and(|row| !row[1].is_null()).then(|| wait.kind.label());
        let record = Some(wait.event_record).filter(|&id| id != 0);
        json!([slices.ts[slice.idx()], kind, wait.stream, wait.event, wait.event_stream, record])
    });
    rows.collect()
}

/// [start, graph, executable] of each graph that was recorded as one, by start.
fn graphs(trace: &Trace) -> Value {
    let nodes = trace.facts.graph_nodes.iter();
    let graphs = nodes.filter(|(slice, _)| trace.slices.kind[slice.idx()] == SliceKind::CudaGraph);
    let mut rows: Vec<_> = graphs.map(|(slice, node)| (trace.slices.ts[slice.idx()], node.graph, node.exec)).collect();
    rows.sort_unstable();
    json!(rows)
}

/// {kernel: [count, sum of ns]} of times between launch and start.
fn queue(trace: &Trace) -> Value {
    let traces = [trace];
    let mut rows = kernels(&Scope::whole(&traces), KernelsBy::Name);
    add_queue_times(&traces, &mut rows);
    let mut sums: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.queue.calls > 0 && !row.is_graph) {
        let sum = sums.entry(&row.name).or_default();
        *sum = (sum.0 + row.queue.calls, sum.1 + row.queue.total_ns);
    }
    sums.into_iter().map(|(name, (count, ns))| (name.to_owned(), json!([count, ns]))).collect()
}

/// {range, newline, kernel: [count, sum of ns]}
fn kernels_of_ranges(trace: &Trace) -> Value {
    let mut sums: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    // Graphs recorded as one stand in a table of their own, which the oracle does not read for this.
    let rows = range_kernels(&Scope::whole(&[trace]), &WorkOfThreads::of(&[trace]), 0, false).0.into_iter();
    for row in rows.filter(|row| !row.kernel.starts_with("CUDA graph ")) {
        let sum = sums.entry(format!("{}\n{}", row.range, row.kernel)).or_default();
        *sum = (sum.0 + row.durations.calls, sum.1 + row.durations.total_ns);
    }
    sums.into_iter().map(|(name, (count, ns))| (name, json!([count, ns]))).collect()
}

/// Device, kernels, copies, sets, graphs, window, busy and idle of each device; sorted.
fn devices(trace: &Trace) -> Vec<[i64; 8]> {
    let facts = |device: &busy::DeviceBusy| {
        let counts = [device.kernels, device.memcpys, device.memsets, device.graphs].map(|work| work.count as i64);
        let [kernels, memcpys, memsets, graphs] = counts;
        let window = device.window.end - device.window.start;
        [i64::from(device.device), kernels, memcpys, memsets, graphs, window, device.busy_ns, device.idle_ns]
    };
    let mut all: Vec<_> = busy::devices(trace).iter().map(facts).collect();
    all.sort_unstable();
    all
}

fn devices_of(answer: &Value) -> Vec<[i64; 8]> {
    const KEYS: [&str; 8] = ["device", "kernels", "memcpys", "memsets", "graphs", "window_ns", "busy_ns", "idle_ns"];
    let facts = |device: &Value| KEYS.map(|key| device[key].as_i64().unwrap_or(0));
    let mut all: Vec<_> = answer["devices"].as_array().unwrap().iter().map(facts).collect();
    all.sort_unstable();
    all
}

/// What differs between our reading of a file and the oracle's.
fn differences(trace: &Trace, oracle: &Value) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(unbalanced(&trace.import));
    for account in &trace.import.tables {
        let theirs = &oracle["rows"][&account.table];
        if theirs.as_u64() != Some(account.read) {
            found.push(format!("{}: {} rows read, {theirs} are there", account.table, account.read));
        }
        if account.read != account.shown + account.merged + account.rejected {
            found.push(format!("{account:?} does not add up"));
        }
    }
    // Every table whose rows have a time must be in the account.
    for (table, rows) in oracle["rows"].as_object().unwrap() {
        let is_events = table.starts_with("CUPTI_ACTIVITY_KIND_") || table.ends_with("_EVENTS") || table == "OSRT_API";
        let is_known = trace.import.tables.iter().any(|account| account.table == *table);
        if is_events && rows.as_u64() != Some(0) && !is_known {
            found.push(format!("{table}: {rows} rows are not accounted for"));
        }
    }
    let ours = [
        ("kernels", by_name(trace, |kind| kind == SliceKind::Kernel)),
        ("runtime", by_name(trace, |kind| kind == SliceKind::Runtime)),
        ("driver", by_name(trace, |kind| kind == SliceKind::Driver)),
        ("os", os_calls(trace)),
        ("push_pop", annotations(trace, TrackKind::Thread)),
        ("start_end", annotations(trace, TrackKind::Async)),
        ("bytes", bytes(trace)),
        ("queue", queue(trace)),
        ("range_kernels", kernels_of_ranges(trace)),
        ("never_ended", json!(trace.slices.unfinished.len())),
        ("syncs", syncs(trace, oracle)),
        ("graphs", graphs(trace)),
        ("graph_nodes", json!(trace.facts.graph_nodes.iter().filter(|(_, node)| node.node != 0).count())),
    ];
    for (what, ours) in ours {
        let theirs = &oracle[what];
        if ours != *theirs && !(ours.is_null() && *theirs == json!({})) {
            found.push(format!("{what}:{}", difference(&ours, theirs)));
        }
    }
    let (ours, theirs) = (devices(trace), devices_of(oracle));
    if ours != theirs {
        found.push(format!("devices:\n    ours   {ours:?}\n    theirs {theirs:?}"));
    }
    found
}

/// The first few entries in which two objects differ.
fn difference(ours: &Value, theirs: &Value) -> String {
    let empty = serde_json::Map::new();
    let [a, b] = [ours, theirs].map(|value| value.as_object().unwrap_or(&empty));
    let keys: std::collections::BTreeSet<_> =
        a.keys().chain(b.keys()).filter(|key| a.get(*key) != b.get(*key)).collect();
    let line = |key: &&String| format!("\n    {key:?}: ours {:?}, theirs {:?}", a.get(*key), b.get(*key));
    if keys.is_empty() { format!(" ours {ours}, theirs {theirs}") } else { keys.iter().take(4).map(line).collect() }
}

/// Compares all `files` and returns how many devices they have.
fn compare(files: &[PathBuf]) -> usize {
    let mut wrong = Vec::new();
    let mut n_devices = 0;
    for (path, oracle) in files.iter().zip(ask_oracle(files)) {
        if let Some(error) = oracle["error"].as_str() {
            wrong.push(format!("{}: the oracle cannot read it: {error}", name(path)));
            continue;
        }
        match read(path) {
            Ok(traces) if traces.len() == 1 => {
                n_devices += devices(&traces[0]).len();
                wrong.extend(differences(&traces[0], &oracle).iter().map(|text| format!("{}: {text}", name(path))));
            }
            other => wrong.push(format!("{}: {other:?}", name(path))),
        }
    }
    assert!(wrong.is_empty(), "{} differences in {} files:\n{}", wrong.len(), files.len(), wrong.join("\n"));
    n_devices
}

#[test]
fn agrees_with_the_oracle_on_every_real_export() {
    let mut all = [real("B_sqlite"), real("B_sqlite_exported_here")].concat();
    all.extend(beside("data/nsys_cpu").map(|folder| files(&folder)).unwrap_or_default());
    all.retain(|path| path.extension().is_some_and(|extension| extension == "sqlite"));
    if all.is_empty() || !has_python() {
        return;
    }
    let n_devices = compare(&all);
    assert!(n_devices >= 9, "only {n_devices} devices in {} files", all.len());
}

/// A generated export of each schema, with its known answer.
fn samples(folder: &Path) -> Vec<(PathBuf, Value)> {
    let sample = |(schema, name): (Schema, &str)| {
        let path = folder.join(format!("{name}.sqlite"));
        let answer = nsys::write(Shape { steps: 12, seed: 7, schema }, &path).unwrap();
        (path, serde_json::to_value(answer).unwrap())
    };
    SCHEMAS.into_iter().map(sample).collect()
}

#[test]
fn agrees_with_the_oracle_on_samples_of_all_schemas() {
    if !has_python() {
        return;
    }
    let folder = scratch("nsys-oracle");
    let paths: Vec<_> = samples(&folder).into_iter().map(|(path, _)| path).collect();
    assert_eq!(compare(&paths), paths.len());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn agrees_with_the_generator() {
    let folder = scratch("nsys-generated");
    // [count, ns] and [count, ns, bytes], as the oracle has them.
    let sums = |value: &Value| -> Value {
        let sum = |sum: &Value| {
            let figures = ["count", "ns", "bytes"].map(|key| sum[key].clone());
            Value::Array(figures.into_iter().filter(|figure| !figure.is_null()).collect())
        };
        value.as_object().unwrap().iter().map(|(name, value)| (name.clone(), sum(value))).collect()
    };
    for (path, answer) in samples(&folder) {
        let trace = read(&path).unwrap().remove(0);
        assert!(trace.import.problems.iter().all(|problem| problem.severity == lacuna::model::Severity::Note));
        assert_eq!(devices(&trace), devices_of(&answer), "{}", name(&path));
        assert_eq!(by_name(&trace, |kind| kind == SliceKind::Kernel), sums(&answer["kernels"]));
        assert_eq!(by_name(&trace, |kind| kind == SliceKind::Runtime), sums(&answer["calls"]));
        assert_eq!(by_name(&trace, |kind| kind == SliceKind::Annotation), sums(&answer["nvtx"]));
        let copies = sums(&answer["copies"]);
        let memsets = sums(&json!({"Memset": answer["memsets"]}));
        assert_eq!(
            bytes(&trace),
            json!({"HtoD": copies["1"], "DtoH": copies["2"], "Memset": memsets["Memset"]}),
            "{}",
            name(&path)
        );
        for account in &trace.import.tables {
            assert_eq!(answer["rows"][&account.table].as_u64(), Some(account.read), "{}", account.table);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The committed sample is what the command writes today, so the recipe in its README.md holds.
#[test]
fn committed_sample_is_current() {
    let folder = scratch("nsys-committed");
    let [out, answer] = ["sample.sqlite", "answer.json"].map(|name| folder.join(name));
    let args = ["sample", "nsys", "--scale", "5", "--seed", "1", "--out"].map(Into::into).to_vec();
    let args = [args, vec![out.clone().into_os_string(), "--answer".into(), answer.clone().into_os_string()]].concat();
    assert!(lacuna(&args).status.success());
    assert_eq!(lacuna(&args).status.code(), Some(2), "a file that exists is overwritten only when told to");
    let committed = project().join("sample_traces");
    let mut bytes = [&out, &committed.join("nsys_5_steps.sqlite")].map(|path| std::fs::read(path).unwrap());
    // The header names the version of SQLite that wrote the file.
    bytes.iter_mut().for_each(|bytes| bytes[92..100].fill(0));
    assert!(bytes[0] == bytes[1], "sample_traces/nsys_5_steps.sqlite differs from what its recipe writes");
    assert!(bytes[1].len() < 300_000);
    let text =
        [&answer, &committed.join("nsys_5_steps.answer.json")].map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(text[0], text[1]);
    std::fs::remove_dir_all(&folder).unwrap();
}
