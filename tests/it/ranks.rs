//! Compares how long ranks wait for each other with a Python script that pairs their collectives by brute force.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::support::{has_python, lacuna, name, project, real};

/// Ranks of one job each: eight of a training whose ranks are late by turns, and two of which most events were removed.
const JOBS: [&[&str]; 2] = [
    &["facebookresearch_param__dlrm_kineto"],
    &[
        "facebookresearch_HolisticTraceAnalysis__timeline_analysis-sampled_rank-0",
        "facebookresearch_HolisticTraceAnalysis__trace_filter-sampled_rank-1",
    ],
];

fn files(job: &[&str]) -> Vec<PathBuf> {
    let is_of = |path: &PathBuf| job.iter().any(|start| name(path).starts_with(start));
    real("A_kineto").into_iter().filter(is_of).collect()
}

fn report(files: &[PathBuf]) -> Value {
    let args = ["report", "--format", "json", "--top", "0"].map(std::ffi::OsStr::new).into_iter();
    let output = lacuna(&args.chain(files.iter().map(|path| path.as_os_str())).collect::<Vec<_>>());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn waits_of_ranks_are_those_of_the_oracle() {
    if !has_python() {
        return;
    }
    let mut n = 0;
    for job in JOBS {
        let files = files(job);
        if files.len() != job.len() {
            continue;
        }
        let script = project().join("tests/oracle/ranks.py");
        let output = Command::new("python3").arg(script).args(&files).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ours = report(&files);
        let ranks = ours["ranks"].as_array().unwrap();
        assert_eq!(ranks.len(), theirs.as_object().unwrap().len());
        for rank in ranks {
            let expected = &theirs[rank["rank"].to_string()];
            let sum =
                ["matched", "unmatched", "point_to_point"].map(|key| rank[key].as_u64().unwrap()).iter().sum::<u64>();
            assert_eq!(expected["calls"], sum);
            assert_eq!(rank["matched"], expected["matched"], "{rank}");
            n += 1;
            // Without common collectives nothing tells who waited.
            if rank["matched"] == 0 {
                for key in ["late", "wait_ns", "waited_for_ns", "transfer_ns"] {
                    assert!(rank[key].is_null(), "{key} of {rank}");
                }
                continue;
            }
            assert_eq!(rank["late"], expected["late"], "{rank}");
            for key in ["wait", "waited_for"] {
                let [ours, theirs] = [
                    rank[format!("{key}_ns")].as_f64().unwrap(),
                    expected[format!("{key}_us")].as_f64().unwrap() * 1e3,
                ];
                assert!((ours - theirs).abs() < 1.0, "{key} of {rank}: {theirs}");
            }
        }
        // The same waits, by operation.
        let waits = |key: &str| -> i64 {
            let rows = ours["collectives"].as_array().unwrap().iter();
            rows.filter_map(|row| row["ranks"][key].as_i64()).sum()
        };
        let of_ranks = |key: &str| -> i64 { ranks.iter().filter_map(|rank| rank[key].as_i64()).sum() };
        for key in ["wait_ns", "transfer_ns", "matched"] {
            assert_eq!(waits(key), of_ranks(key), "{key}");
        }
        assert_eq!(of_ranks("wait_ns"), of_ranks("waited_for_ns"));
    }
    assert!(n == 10 || real("A_kineto").is_empty(), "only {n} ranks compared");
}

/// Two ranks that exchange gradients with Gloo, of which rank 1 loads its data 25 ms later in each step.
#[test]
fn waits_of_ranks_in_collectives_of_the_host_are_those_of_the_oracle() {
    if !has_python() {
        return;
    }
    let files = [0, 1].map(|rank| project().join(format!("sample_traces/faults/late_rank.rank{rank}.kineto.json.gz")));
    let script = project().join("tests/oracle/host_ranks.py");
    let output = Command::new("python3").arg(script).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ours = report(&files);
    let is_near = |ours: &Value, theirs: &Value| (ours.as_f64().unwrap() - 1e3 * theirs.as_f64().unwrap()).abs() < 20.0;
    let ranks = ours["ranks"].as_array().unwrap();
    assert_eq!((ranks.len(), &ranks[0]["rank"]), (2, &Value::from(1)));
    for rank in ranks {
        let expected = &theirs["ranks"][rank["rank"].to_string()];
        assert_eq!((&rank["matched"], &rank["unmatched"]), (&expected["calls"], &Value::from(0)));
        assert_eq!(rank["late"], expected["late"]);
        for key in ["wait", "waited_for"] {
            let [ours, theirs] = [&rank[format!("{key}_ns")], &expected[format!("{key}_us")]];
            assert!(is_near(ours, theirs), "{key} of {rank}: {theirs}");
        }
    }
    let rows = ours["collectives"].as_array().unwrap();
    assert_eq!(rows.len(), theirs["rows"].as_array().unwrap().len());
    for row in rows {
        assert_eq!(
            (&row["op"], &row["backend"], &row["dtype"]),
            (&"allreduce".into(), &"gloo".into(), &"Float".into())
        );
        assert!(row.get("alg_gb_per_s").is_none() && row.get("bus_gb_per_s").is_none(), "{row}");
        let sizes = format!("[[{}]]", row["bytes"].as_u64().unwrap() / 4);
        let theirs = theirs["rows"].as_array().unwrap().iter().find(|theirs| theirs["sizes"] == *sizes).unwrap();
        assert_eq!(row["count"], theirs["count"]);
        assert!(is_near(&row["total_ns"], &theirs["us"]), "{row}: {theirs}");
        assert_eq!(row["ranks"]["late_rank"], 1);
    }
    // What the finding says that rank 0 waits is no more than the time in which its device did nothing meanwhile, and
    // nearly all of it.
    let findings = ours["findings"].as_array().unwrap();
    let text = |rule: &str| findings.iter().find(|of| of["rule"] == rule).unwrap()["text"].as_str().unwrap();
    let late = findings.iter().find(|of| of["rule"] == "late_rank").unwrap();
    assert!(text("late_rank").starts_with("Rank 1, GPU 0 comes last to "), "{}", text("late_rank"));
    assert!(
        text("late_rank").contains("ms more idle time (Data loading) per step than the other rank"),
        "{}",
        text("late_rank")
    );
    let of_rank_0 = |rows: &str| ours[rows].as_array().unwrap().iter().find(|row| row["rank"] == 0).unwrap().clone();
    let judged_us = of_rank_0("judged")["dur_ns"].as_f64().unwrap() / 1e3;
    let idle_us = theirs["ranks"]["0"]["idle_wait_us"].as_f64().unwrap();
    let share = late["measured"].as_f64().unwrap() * judged_us / idle_us;
    assert!((0.9..=1.02).contains(&share), "{share} of {idle_us} us");
    assert!(text("collective_calls").contains("is waiting for rank 1; most in gloo:all_reduce"));
}

/// Rank 7 of the training of DLRM comes last to most collectives; its step is not longer than that of others. Its
/// recording began 7.5 ms after that of rank 1, for which the first collective is no evidence.
#[test]
fn the_late_rank_of_a_real_job_is_named() {
    let files = files(JOBS[0]);
    if files.is_empty() {
        return;
    }
    let ours = report(&files);
    assert_eq!((&ours["ranks"][0]["rank"], &ours["ranks"][0]["late"]), (&Value::from(7), &Value::from(5)));
    let findings = ours["findings"].as_array().unwrap();
    let text = |rule: &str| {
        let found = findings.iter().find(|finding| finding["rule"] == rule).unwrap_or_else(|| panic!("{rule}"));
        found["text"].as_str().unwrap()
    };
    let late = text("late_rank");
    assert!(late.starts_with("Rank 7, GPU 7 comes last to 4 of 7 judged collectives of the 8 ranks here"), "{late}");
    let exposed = text("exposed_communication");
    assert!(
        exposed.contains("is waiting for others of the 8 ranks here") && exposed.contains("in the first collective")
    );
}
