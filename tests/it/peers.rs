//! Compares figures that follow the rule of another tool with that rule in Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use lacuna::analysis::busy::devices;
use lacuna::analysis::gaps::Ground;
use serde_json::Value;

use super::support::{has_python, name, project, read, real, short_report};

/// The lines that a script of `tests/oracle` prints for some files, one for each.
fn ask(script: &str, files: &[PathBuf]) -> Vec<Value> {
    let script = project().join("tests/oracle").join(script);
    let output = Command::new("python3").arg(script).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// (device, stream, host wait, kernel wait, other), sorted.
fn streams(rows: &Value) -> Vec<[i64; 5]> {
    let figures = |row: &Value| {
        let figure = |key: &str| row[key].as_f64().unwrap() as i64;
        ["device", "stream", "host_wait_us", "kernel_wait_us", "other_us"].map(figure)
    };
    let mut all: Vec<_> = rows.as_array().map(|rows| rows.iter().map(figures).collect()).unwrap_or_default();
    // HTA ignores work without a recorded stream. The one file that has some has a single kernel.
    all.retain(|stream| stream[2..] != [0; 3]);
    all.sort_unstable();
    all
}

fn idle_by_hta_rule(path: &Path) -> Vec<[i64; 5]> {
    streams(&short_report(path).unwrap()["hta_idle"])
}

#[test]
fn idle_time_of_streams_is_that_of_hta() {
    let mut files = real("A_kineto");
    // HTA does not read archives.
    files.retain(|path| !name(path).contains(".tar"));
    if files.is_empty() || !has_python() {
        return;
    }
    let mut wrong = Vec::new();
    let mut n_streams = 0;
    for (path, answer) in files.iter().zip(ask("hta_idle.py", &files)) {
        let (ours, theirs) = (idle_by_hta_rule(path), streams(&answer["streams"]));
        n_streams += theirs.len();
        if answer["error"].is_string() || ours != theirs {
            wrong.push(format!("{}:\n  ours   {ours:?}\n  theirs {theirs:?}", name(path)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), files.len(), wrong.join("\n"));
    assert!(n_streams > 30, "only {n_streams} streams compared");
}

#[test]
fn gaps_are_those_of_nsys_analyze() {
    const LISTED_BY_NSYS: i64 = 500_000_000;
    let mut files = real("B_sqlite");
    files.extend(real("B_sqlite_exported_here"));
    if files.is_empty() || !has_python() {
        return;
    }
    let (mut n_gaps, mut n_listed) = (0, 0);
    for (path, answer) in files.iter().zip(ask("gpu_gaps.py", &files)) {
        let trace = read(path).unwrap().pop().unwrap();
        let busy = devices(&trace);
        let ledgers = Ground::new(&trace).ledgers(&busy, None, &|| false);
        let ours = ledgers.iter().flat_map(|ledger| (0..ledger.len()).map(|i| (ledger.device, ledger.gap(i))));
        let theirs = answer["gaps"].as_array().unwrap();
        assert_eq!(ours.clone().count(), theirs.len(), "{}", name(path));
        let mut ours: Vec<_> = ours.collect();
        ours.sort_by_key(|(device, gap)| (*device, gap.time.start));
        for ((device, gap), theirs) in ours.into_iter().zip(theirs) {
            let time = serde_json::json!([device, gap.time.start, gap.time.end]);
            assert_eq!(time.as_array().unwrap()[..], theirs.as_array().unwrap()[..3], "{}", name(path));
            for (slice, candidates) in [(gap.after, &theirs[3]), (gap.ended_by, &theirs[4])] {
                let correlation = Value::from(trace.slices.correlation[slice.idx()]);
                assert!(candidates.as_array().unwrap().contains(&correlation), "{}: {theirs}", name(path));
            }
            n_gaps += 1;
            n_listed += u32::from(gap.time.dur() > LISTED_BY_NSYS);
        }
    }
    assert!(n_gaps > 1_000 && n_listed > 0, "only {n_gaps} gaps compared, {n_listed} of over 500 ms");
}
