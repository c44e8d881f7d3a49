//! Every list of the contract is present in the report as JSON, also when it is empty.

use serde_json::Value;

use super::support::{lacuna, project, real};

/// Lists, by the path to them; `*` stands for every item of a list.
const LISTS: [&str; 33] = [
    "files",
    "files/*/problems",
    "clock/per_file",
    "devices",
    "gaps",
    "gaps/*/top",
    "gaps/*/top/*/parts",
    "gaps/*/clusters",
    "hta_idle",
    "operators",
    "kernels",
    "copies",
    "device_trace/list",
    "collectives",
    "apis",
    "os_calls",
    "libraries",
    "annotations",
    "range_kernels",
    "phases",
    "memory",
    "memory/*/doubts",
    "memory/*/peak_by_stack",
    "memory/*/live_at_end",
    "memory/*/by_place",
    "memory/*/change_by_place",
    "memory/*/leaks",
    "memory/*/no_leaks",
    "memory/*/gains",
    "memory/*/oom",
    "memory/*/oom/*/by_stack",
    "findings",
    "findings/*/evidence/names",
];

/// What is wrong under a path.
fn missing(value: &Value, path: &str) -> bool {
    match path.split_once('/') {
        None if path == "*" => false,
        Some(("*", rest)) => value.as_array().is_none_or(|items| items.iter().any(|item| missing(item, rest))),
        Some((key, rest)) => missing(&value[key], rest),
        None => !value[path].is_array(),
    }
}

#[test]
fn every_list_is_present_also_when_empty() {
    let sample = |name: &str| project().join("sample_traces").join(name);
    let mut files =
        vec![sample("kineto_10_steps.json.gz"), sample("nsys_5_steps.sqlite"), sample("snapshot_oom.pickle")];
    // A trace of seven events, an export without GPU work, and a snapshot without steps.
    for (folder, part) in
        [("A_kineto", "d80ade-critical_path"), ("B_sqlite", "nsys_profile"), ("C_pickle", "fc31f1-oom_snapshot")]
    {
        files.extend(real(folder).into_iter().filter(|path| path.to_string_lossy().contains(part)));
    }
    for file in files {
        let output = lacuna(&["report", "--format", "json", "--top", "3", &file.to_string_lossy()]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let absent: Vec<&str> = LISTS.into_iter().filter(|path| missing(&report, path)).collect();
        assert_eq!(absent, [""; 0], "{}", file.display());
        assert!(missing(&report, "absent") && missing(&report, "files/*/absent"), "the test sees what is absent");
    }
}
