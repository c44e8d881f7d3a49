//! Compares the figures of operators with a Python script on real recordings and with PyTorch itself on new ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use lacuna::analysis::operators::{operators, passed_on};
use lacuna::analysis::totals::{Instance, Scope};
use lacuna::model::{SliceId, SliceKind, TimeRange, Trace};
use serde_json::Value;

use super::support::{has_python, name, project, real, recording, scratch};

/// By name and shapes: calls, host total and self, device total and self, then host, host self,
/// device and device self bytes.
type Table = BTreeMap<(String, Option<String>), [Option<i64>; 9]>;

fn ours(traces: &[&Trace], by_shape: bool) -> Table {
    let row = |row: lacuna::analysis::operators::OperatorTotals| {
        let times =
            [row.host.calls as i64, row.host.total_ns, row.host_self_ns, row.device_total_ns, row.device_self_ns];
        let bytes = [row.host_bytes, row.host_self_bytes, row.device_bytes, row.device_self_bytes];
        let figures: Vec<_> = times.map(Some).into_iter().chain(bytes).collect();
        ((row.name, row.shapes), figures.try_into().unwrap())
    };
    operators(&Scope::whole(traces), by_shape).into_iter().map(row).collect()
}

/// A table as JSON: name, shapes, figures.
fn theirs(rows: &Value) -> BTreeMap<(String, Option<String>), Vec<Option<i64>>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let row = |row: &Value| {
        let key = (text(&row[0]).unwrap(), text(&row[1]));
        (key, row.as_array().unwrap()[2..].iter().map(Value::as_i64).collect())
    };
    rows.as_array().unwrap().iter().map(row).collect()
}

fn ask(python: &str, script: &str, args: &[PathBuf]) -> std::process::Output {
    Command::new(python).arg(project().join("tests/oracle").join(script)).args(args).output().unwrap()
}

fn lines(output: &std::process::Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The first row that differs.
fn difference(ours: &Table, theirs: &BTreeMap<(String, Option<String>), Vec<Option<i64>>>) -> Option<String> {
    let keys: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let differs = |key: &&&(String, Option<String>)| {
        ours.get(**key).map(<[_; 9]>::as_slice) != theirs.get(**key).map(Vec::as_slice)
    };
    let key = keys.iter().find(differs)?;
    Some(format!("{key:?}:\n  ours   {:?}\n  theirs {:?}", ours.get(*key), theirs.get(*key)))
}

fn traces_of(path: &Path) -> &'static [Trace] {
    recording(path).unwrap_or_else(|failure| panic!("{}: {failure:?}", path.display()))
}

#[test]
fn agree_with_the_oracle_on_every_real_kineto_trace() {
    let files = real("A_kineto");
    if files.is_empty() || !has_python() {
        return;
    }
    let mut wrong = Vec::new();
    let (mut n_files, mut n_with_shapes, mut n_with_bytes) = (0, 0, 0);
    for (path, answer) in files.iter().zip(lines(&ask("python3", "operators.py", &files))) {
        if let Some(error) = answer["error"].as_str() {
            wrong.push(format!("{}: the oracle has no answer: {error}", name(path)));
            continue;
        }
        let traces = traces_of(path);
        let traces: Vec<&Trace> = traces.iter().collect();
        for (by_shape, rows) in [(false, &answer["by_name"]), (true, &answer["by_shape"])] {
            let (ours, theirs) = (ours(&traces, by_shape), theirs(rows));
            wrong.extend(difference(&ours, &theirs).map(|text| format!("{}: {text}", name(path))));
            n_files += usize::from(!by_shape && !ours.is_empty());
            n_with_shapes += usize::from(ours.keys().any(|key| key.1.as_ref().is_some_and(|text| !text.is_empty())));
            n_with_bytes += usize::from(!by_shape && ours.values().any(|row| row[5..].iter().any(Option::is_some)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), files.len(), wrong.join("\n"));
    assert!(n_files > 20 && n_with_shapes > 8 && n_with_bytes > 3, "{n_files}, {n_with_shapes}, {n_with_bytes}");
}

/// The calls of a row are those that a table lists beside it, and their time in a range is at most their time in full.
#[test]
fn rows_count_the_calls_that_are_listed() {
    let mut n_rows = 0;
    for path in real("A_kineto").iter().chain(&real("B_sqlite")) {
        for trace in recording(path).iter().copied().flatten() {
            let passed_on = passed_on(trace);
            let span = trace.span;
            let third = span.dur() / 3;
            let ranges = vec![TimeRange { start: span.start + third, end: span.end - third }];
            let scope = Scope { traces: &[trace], ranges: Some(ranges), is_cancelled: &|| false };
            // How long each call took, and in the range.
            let mut listed: BTreeMap<String, (Vec<i64>, i64)> = BTreeMap::new();
            for part in scope.parts() {
                let calls = part.slices.map(|i| SliceId(i as u32));
                let is_listed =
                    |id: &SliceId| trace.slices.kind[id.idx()] == SliceKind::Operator && !passed_on.contains(id);
                for slice in calls.filter(is_listed) {
                    let row = listed.entry(trace.slice_name(slice).to_owned()).or_default();
                    row.0.push(trace.slices.time(slice).dur());
                    row.1 += scope.time_of(Instance { trace: 0, slice });
                }
            }
            let rows = operators(&scope, false);
            n_rows += rows.len();
            for row in &rows {
                let (mut durs, in_range) = listed.remove(&row.name).unwrap_or_default();
                durs.sort_unstable();
                let n = durs.len();
                let expected =
                    [n as i64, durs.iter().sum(), durs[0], (durs[(n - 1) / 2] + durs[n / 2]) / 2, durs[n - 1]];
                let host = row.host;
                let found = [host.calls as i64, host.total_ns, host.min_ns, host.median_ns, host.max_ns];
                assert_eq!(found, expected, "{}: {}", name(path), row.name);
                assert!(in_range <= row.host.total_ns, "{}: {}", name(path), row.name);
            }
            assert!(listed.is_empty(), "{}: {listed:?}", name(path));
        }
    }
    assert!(real("A_kineto").is_empty() || n_rows > 1_000, "{n_rows}");
}

/// What the input shapes, launches and copies of a recording should be, from its raw text.
#[test]
fn columns_match_the_raw_text() {
    let mut n_checked = [0; 3];
    for path in real("A_kineto") {
        for trace in traces_of(&path) {
            let Some(details) = trace.details.clone() else { continue };
            let step = (trace.slices.len() / 300).max(1);
            for id in (0..trace.slices.len() as u32).step_by(step).map(SliceId) {
                let kind = trace.slices.kind[id.idx()];
                let place = match kind {
                    SliceKind::Operator => 0,
                    SliceKind::Kernel => 1,
                    SliceKind::Memcpy | SliceKind::Memset => 2,
                    _ => continue,
                };
                let args: BTreeMap<_, _> = details
                    .event(trace.slices.source[id.idx()], trace.recorded_start(id))
                    .unwrap()
                    .args
                    .into_iter()
                    .collect();
                let arg = |key: &str| args.get(key).map(|text| text.replace(' ', ""));
                let number = |key: &str| arg(key).and_then(|text| text.parse::<u64>().ok());
                let is_right = match kind {
                    SliceKind::Operator => {
                        let text = arg("Input Dims").or_else(|| arg("Input dims")).filter(|text| text != "[]");
                        trace.input_shapes(id) == text.unwrap_or_default().replace(',', ", ")
                    }
                    SliceKind::Kernel => {
                        let launch = trace.facts.launches.get(id).copied().unwrap_or_default();
                        let sides = |sides: [u32; 3]| format!("{sides:?}").replace(' ', "");
                        let call = trace.launch_of(id).map_or("", |call| trace.slice_name(call));
                        let grid = arg("grid").and_then(|text| serde_json::from_str(&text).ok());
                        let mut grid: [u32; 3] = grid.unwrap_or_default();
                        // Of all calls only this one takes work-items.
                        if call == "hipExtModuleLaunchKernel" {
                            grid.iter_mut().zip(launch.block).for_each(|(n, of)| *n = n.div_ceil(of.max(1)));
                        }
                        launch.grid == grid
                            && sides(launch.block) == arg("block").unwrap_or("[0,0,0]".to_owned())
                            && launch.registers_per_thread.map(u64::from) == number("registers per thread")
                            && launch.shared_bytes.map(u64::from) == number("shared memory")
                            && launch.recorded_occupancy.map(u64::from) == number("est. achieved occupancy %")
                    }
                    _ => trace.facts.copies.get(id).is_some_and(|copy| copy.bytes == number("bytes")),
                };
                assert!(is_right, "{}: {} {args:?}", name(&path), trace.slice_name(id));
                n_checked[place] += 1;
            }
        }
    }
    assert!(real("A_kineto").is_empty() || n_checked.iter().all(|&n| n > 50), "{n_checked:?}");
}

/// Where PyTorch is installed. `LACUNA_PYTHON` names an interpreter that has it.
#[test]
fn agree_with_pytorch_itself() {
    let python = std::env::var("LACUNA_PYTHON").unwrap_or_else(|_unset| "python3".to_owned());
    if !has_python() {
        return;
    }
    let folder = scratch("pytorch");
    let output = ask(&python, "torch_operators.py", std::slice::from_ref(&folder));
    if output.status.code() == Some(77) {
        eprintln!("skipped: PyTorch is not installed for {python}");
        return;
    }
    let said = lines(&output);
    assert_eq!(said.len(), 3);
    for table in said {
        let path = PathBuf::from(table["file"].as_str().unwrap());
        let traces = traces_of(&path);
        for (by_shape, rows) in [(false, &table["by_name"]), (true, &table["by_shape"])] {
            let ours = ours(&[&traces[0]], by_shape);
            assert!(ours.len() > 100, "{} rows", ours.len());
            let mut theirs = theirs(rows);
            for row in theirs.values_mut() {
                // They give calls, times and host bytes; there is no device.
                let [calls, total, own, bytes, own_bytes] = row[..] else { panic!("{row:?}") };
                let has_bytes = name(&path) == "memory.json";
                let [bytes, own_bytes] = [bytes, own_bytes].map(|bytes| bytes.filter(|_| has_bytes));
                *row = vec![calls, total, own, Some(0), Some(0), bytes, own_bytes, None, None];
            }
            let wrong = difference(&ours, &theirs);
            assert!(wrong.is_none(), "{} of {}: {}", name(&path), table["torch"], wrong.unwrap_or_default());
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
