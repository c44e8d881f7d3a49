//! Sums of call trees over real recordings, and modules and tensor cores against a Python script.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use lacuna::analysis::call_tree::{CallTotals, Frames, Weigh, call_tree, operators_by_stack, time_flame};
use lacuna::analysis::kernels::{KernelsBy, kernels, summary};
use lacuna::analysis::stacks::Threads;
use lacuna::analysis::totals::Scope;
use lacuna::model::{SliceId, SliceKind, TimeRange, Trace, TrackId, TrackKind};
use serde_json::Value;

use super::support::{has_python, name, project, real, recording};

/// Recordings of PyTorch 2 with Python functions and modules, on NVIDIA and AMD.
const WITH_MODULES: [&str; 4] = ["b200-eager", "h100-Qwen", "mi300-ddp_resnet18", "mi300-resnet_act_checkpoint"];

fn traces_of(path: &std::path::Path) -> &'static [Trace] {
    recording(path).unwrap_or_else(|failure| panic!("{}: {failure:?}", path.display()))
}

/// Time in which each thread ran anything, summed over threads: by edges.
fn union_of_threads(trace: &Trace) -> i64 {
    let is_host = |track: &TrackId| {
        let of = trace.track(*track);
        let process = trace.process(of.process);
        // Kineto writes the recording as a whole as a process; the profiler's own overhead is on tracks of its own.
        let is_process = !["Spans", "Traces"].contains(&process.pid.as_str());
        let is_overhead = |i: usize| trace.slices.kind[i] == SliceKind::Overhead;
        let is_overhead = trace.track_slices(*track).all(is_overhead);
        // When threads ran on CPUs is not what they ran.
        let is_code = !is_overhead && !of.name.ends_with(": on CPU");
        of.kind == TrackKind::Thread && process.device.is_none() && is_process && is_code
    };
    let length = |track: TrackId| {
        let slices = trace.track_slices(track);
        let mut edges: Vec<(i64, i32)> =
            slices.flat_map(|i| [(trace.slices.ts[i], 1), (trace.slices.end[i], -1)]).collect();
        edges.sort_unstable();
        let (mut sum, mut depth, mut before) = (0, 0, 0);
        for (at, change) in edges {
            sum += if depth > 0 { at - before } else { 0 };
            (depth, before) = (depth + change, at);
        }
        sum
    };
    (0..trace.tracks.len() as u32).map(TrackId).filter(is_host).map(length).sum()
}

#[test]
fn trees_sum_to_what_ran_on_every_real_trace() {
    let files: Vec<PathBuf> =
        ["A_kineto", "A_kineto_generated_cpu", "A_chrome", "B_sqlite", "B_sqlite_exported_here"].map(real).concat();
    let (mut n_host, mut n_device, mut n_modules, mut n_stacks) = (0, 0, 0, 0);
    for path in &files {
        // Damaged files and other kinds are the business of other tests.
        let Ok(traces) = recording(path) else { continue };
        for trace in traces {
            let one = [trace];
            let (scope, name) = (Scope::whole(&one), name(path));
            let host = union_of_threads(trace);
            let all = (0..trace.slices.len() as u32).map(SliceId);
            let work = all.filter(|id| trace.slices.kind[id.idx()].is_device_work());
            let device: i64 = work.map(|id| trace.slices.time(id).dur()).sum();
            for frames in [Frames::All, Frames::Operators, Frames::Modules, Frames::Stacks] {
                for (weigh, expected) in [(Weigh::Host, host), (Weigh::Device, device)] {
                    let (tree, threads) = time_flame(&scope, frames, weigh, Threads::All);
                    assert_eq!(tree.total(), expected, "{name}: {frames:?}, {weigh:?}");
                    let of_threads: i64 = threads.iter().map(|thread| thread.weight).sum();
                    assert!(of_threads == host || weigh == Weigh::Device && of_threads <= device, "{name}");
                    // Long traces are cut no other way than short ones.
                    if trace.slices.len() < 10_000 {
                        let middle = trace.span.start + trace.span.dur() / 2;
                        let halves = [(i64::MIN, middle), (middle, i64::MAX)].map(|(start, end)| {
                            let scope = Scope { ranges: Some(vec![TimeRange { start, end }]), ..Scope::whole(&one) };
                            time_flame(&scope, frames, weigh, Threads::All).0.total()
                        });
                        assert_eq!(halves[0] + halves[1], expected, "{name}: {frames:?}, {weigh:?}");
                    }
                }
                let rows = call_tree(&scope, frames);
                let sums =
                    rows.iter().fold([0; 2], |sums, row| [sums[0] + row.host_self_ns, sums[1] + row.device_self_ns]);
                assert_eq!(sums, [host, device], "{name}: {frames:?}");
                n_modules += usize::from(frames == Frames::Modules && rows.iter().any(|row| row.depth > 1));
            }
            n_stacks += usize::from(operators_by_stack(&scope).iter().any(|row| !row.path.is_empty()));
            (n_host, n_device) = (n_host + usize::from(host > 0), n_device + usize::from(device > 0));
        }
    }
    let counts = (n_host, n_device, n_modules, n_stacks);
    assert!(files.is_empty() || n_host > 50 && n_device > 25 && n_modules > 5 && n_stacks > 5, "{counts:?}");
}

/// Calls, host total and device total by path. Without host total where slices cross others.
type Modules = BTreeMap<Vec<String>, [Option<i64>; 3]>;

fn ours(rows: &[CallTotals]) -> Modules {
    let mut around: Vec<String> = Vec::new();
    let mut found = Modules::new();
    for row in rows {
        around.truncate(row.depth as usize);
        around.push(row.name.clone());
        found.insert(around.clone(), [row.calls as i64, row.host_total_ns, row.device_total_ns].map(Some));
    }
    found.retain(|path, _| !matches!(path[0].as_str(), "(outside of modules)" | "(launch not recorded)"));
    found
}

#[test]
fn modules_and_tensor_cores_agree_with_the_oracle() {
    let files: Vec<PathBuf> =
        real("A_kineto").into_iter().filter(|path| WITH_MODULES.iter().any(|part| name(path).contains(part))).collect();
    if files.is_empty() || !has_python() {
        return;
    }
    let output = Command::new("python3").arg(project().join("tests/oracle/modules.py")).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Value> =
        std::str::from_utf8(&output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((files.len(), answers.len()), (WITH_MODULES.len(), WITH_MODULES.len()));
    for (path, answer) in files.iter().zip(answers) {
        let traces = traces_of(path);
        let traces: Vec<&Trace> = traces.iter().collect();
        let scope = Scope::whole(&traces);
        let row = |row: &Value| {
            let names = row[0].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
            (names, [1, 2, 3].map(|i| row[i].as_i64()))
        };
        let theirs: Modules = answer["modules"].as_array().unwrap().iter().map(row).collect();
        let mut ours = ours(&call_tree(&scope, Frames::Modules));
        let crossing: Vec<_> = theirs.iter().filter(|(_, row)| row[1].is_none()).map(|(path, _)| path).collect();
        assert!(crossing.len() < ours.len() / 10, "{}: {crossing:?}", name(path));
        for path in crossing {
            ours.entry(path.clone()).and_modify(|row| row[1] = None);
        }
        let differs = |path: &&&Vec<String>| ours.get(**path) != theirs.get(**path);
        let all: Vec<&Vec<String>> = ours.keys().chain(theirs.keys()).collect();
        let wrong = all.iter().find(differs).map(|path| (path, ours.get(*path), theirs.get(*path)));
        assert_eq!(wrong, None, "{}: path, ours, theirs", name(path));
        assert!(ours.keys().any(|path| path.len() > 2), "{}", name(path));
        let all = summary(&scope, &kernels(&scope, KernelsBy::Name));
        let sums = ["kernel_ns", "tensor_ns", "unknown_ns"].map(|key| answer[key].as_i64().unwrap());
        assert_eq!([all.within_ns, all.tensor_ns, all.unknown_ns], sums, "{}", name(path));
        assert!(all.tensor_ns > 0, "{}", name(path));
    }
}
