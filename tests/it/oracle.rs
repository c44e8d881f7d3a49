//! Compares busy time, collectives and waits of Kineto traces with a Python script and the generator's answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use lacuna::model::{SliceKind, Trace};
use serde_json::Value;

use super::support::{has_python, name, project, real, recording, report, scratch, short_report};

/// The oracle's answer for some files: one object each.
fn ask_oracle(files: &[PathBuf]) -> Vec<Value> {
    let output = Command::new("python3").arg(project().join("tests/oracle/kineto.py")).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The oracle's answers for all real Kineto traces, asked once for all tests.
fn answers(files: &[PathBuf]) -> &'static [Value] {
    static ANSWERS: OnceLock<Vec<Value>> = OnceLock::new();
    ANSWERS.get_or_init(|| ask_oracle(files))
}

/// What both sides say of each device: number, kernels, copies, sets, window, busy and idle ns; sorted.
fn facts(devices: &[Value], count: fn(&Value, &str) -> Option<u64>) -> Vec<[Option<u64>; 7]> {
    let facts = |device: &Value| {
        let figure = |key: &str| device[key].as_u64();
        let [kernels, memcpys, memsets] = ["kernels", "memcpys", "memsets"].map(|key| count(device, key));
        [figure("device"), kernels, memcpys, memsets, figure("window_ns"), figure("busy_ns"), figure("idle_ns")]
    };
    let mut all: Vec<_> = devices.iter().map(facts).collect();
    all.sort_unstable();
    all
}

fn array(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Our devices of a report.
fn ours(report: &Value) -> Vec<[Option<u64>; 7]> {
    // A kind of work that did not occur may be absent.
    facts(&array(&report["devices"]), |device, key| Some(device[key]["count"].as_u64().unwrap_or(0)))
}

#[test]
fn agrees_with_the_oracle_on_every_real_kineto_trace() {
    let files = real("A_kineto");
    if files.is_empty() || !has_python() {
        return;
    }
    let mut wrong = Vec::new();
    let mut n_devices = 0;
    for (path, answer) in files.iter().zip(answers(&files)) {
        if let Some(error) = answer["error"].as_str() {
            wrong.push(format!("{}: the oracle cannot read it: {error}", name(path)));
            continue;
        }
        let devices: Vec<_> = array(&answer["traces"]).iter().flat_map(|trace| array(&trace["devices"])).collect();
        let theirs = facts(&devices, |device, key| device[key].as_u64());
        n_devices += theirs.len();
        match short_report(path).map(ours) {
            Ok(ours) if ours == theirs => {}
            Ok(ours) => wrong.push(format!("{}:\n  ours   {ours:?}\n  theirs {theirs:?}", name(path))),
            Err(error) => wrong.push(format!("{}: {error}", name(path))),
        }
    }
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), files.len(), wrong.join("\n"));
    assert!(n_devices > 20, "only {n_devices} devices compared");
}

/// {"values|of|one": count} of the collectives and of the waits of some traces, as the oracle writes them.
fn said(traces: &[Trace]) -> [BTreeMap<String, u64>; 2] {
    fn text<T: ToString>(value: Option<T>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let [mut collectives, mut syncs]: [BTreeMap<String, u64>; 2] = Default::default();
    for trace in traces {
        for (slice, call) in trace.facts.collectives.iter() {
            let category = match trace.slices.kind[slice.idx()] {
                SliceKind::Kernel => "kernel",
                SliceKind::Operator => "cpu_op",
                _ => "other",
            };
            let [op, group, dtype] = [call.op, call.group, call.dtype].map(|id| trace.strings.get(id));
            let (n_ranks, seq) = (text(call.n_ranks), text(call.seq));
            let [input, output] = [call.in_bytes(), call.out_bytes()].map(text);
            let key = format!("{category}|{op}|{group}|{n_ranks}|{seq}|{dtype}|{input}|{output}");
            *collectives.entry(key).or_default() += 1;
        }
        for (_, wait) in trace.facts.syncs.iter() {
            let [stream, event, event_stream] = [wait.stream, wait.event, wait.event_stream].map(text);
            let record = text(Some(wait.event_record).filter(|&id| id != 0));
            let key = format!("{}|{stream}|{event}|{event_stream}|{record}", wait.kind.label());
            *syncs.entry(key).or_default() += 1;
        }
    }
    [collectives, syncs]
}

#[test]
fn collectives_and_waits_are_those_of_the_oracle() {
    let files = real("A_kineto");
    if files.is_empty() || !has_python() {
        return;
    }
    let mut n_values = [0; 2];
    for (path, answer) in files.iter().zip(answers(&files)) {
        let mut theirs: [BTreeMap<String, u64>; 2] = Default::default();
        for trace in array(&answer["traces"]) {
            for (all, key) in theirs.iter_mut().zip(["collectives", "syncs"]) {
                let counts: BTreeMap<String, u64> = serde_json::from_value(trace[key].clone()).unwrap();
                counts.into_iter().for_each(|(values, count)| *all.entry(values).or_default() += count);
            }
        }
        let traces = recording(path).unwrap_or_else(|failure| panic!("{}: {failure:?}", name(path)));
        let ours = said(traces);
        assert_eq!(ours, theirs, "{}", name(path));
        n_values = [0, 1].map(|i| n_values[i] + ours[i].len());
    }
    assert!(n_values[0] > 20 && n_values[1] > 8, "{n_values:?} distinct collectives and waits compared");
}

#[test]
fn agrees_with_the_generator() {
    let folder = scratch("generated");
    for (file, seed, steps) in [("a.json", "2", "13"), ("b.json.gz", "3", "7"), ("c.json", "4", "1")] {
        let (out, answer) = (folder.join(file), folder.join("answer.json"));
        let args = [
            ["sample", "kineto", "--overwrite", "--seed", seed, "--scale", steps, "--out"].map(Into::into).to_vec(),
            vec![out.clone().into_os_string(), "--answer".into(), answer.clone().into_os_string()],
        ];
        let output = super::support::lacuna(&args.concat());
        assert!(output.status.success(), "{output:?}");
        let answer: Value = serde_json::from_slice(&std::fs::read(&answer).unwrap()).unwrap();
        let theirs = facts(&array(&answer["devices"]), |device, key| device[key].as_u64());
        let report = report(&out, "1").unwrap();
        assert_eq!(ours(&report), theirs, "{file}");
        // As in real traces, calls that launch nothing have an arrow's end without a start.
        let lonely = answer["flow_ends"].as_u64().unwrap() - answer["flow_starts"].as_u64().unwrap();
        assert_eq!(report["files"][0]["events"]["rejected"].as_u64(), Some(lonely), "{file}");
        let severities = array(&report["files"][0]["problems"]);
        assert!(severities.iter().all(|problem| problem["severity"] == "note"), "{file}: {severities:?}");
        let read =
            ["slices", "flow_starts", "flow_ends", "instants", "metadata"].map(|key| answer[key].as_u64().unwrap());
        assert_eq!(report["files"][0]["events"]["read"].as_u64(), Some(read.iter().sum()), "{file}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The committed sample is what the generator writes today, so the recipe in its README.md holds.
#[test]
fn committed_sample_is_current() {
    let folder = project().join("sample_traces");
    let shape = lacuna::sample::kineto::Shape { steps: 10, seed: 1, is_array: false };
    let mut text = Vec::new();
    let answer = lacuna::sample::kineto::write(shape, &mut text).unwrap();
    let mut committed = Vec::new();
    let file = std::fs::File::open(folder.join("kineto_10_steps.json.gz")).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut committed).unwrap();
    assert!(text == committed, "sample_traces/kineto_10_steps.json.gz differs from what its recipe writes");
    let committed: Value =
        serde_json::from_slice(&std::fs::read(folder.join("kineto_10_steps.answer.json")).unwrap()).unwrap();
    assert_eq!(serde_json::to_value(&answer).unwrap(), committed);
    if has_python() {
        let said = ask_oracle(&[folder.join("kineto_10_steps.json.gz")]);
        let theirs = facts(&array(&said[0]["traces"][0]["devices"]), |device, key| device[key].as_u64());
        assert_eq!(facts(&array(&committed["devices"]), |device, key| device[key].as_u64()), theirs);
    }
}
