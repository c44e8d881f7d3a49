//! Recordings of trainings whose fault can be taken away, see `sample_traces/README.md`: the report says first what is
//! wrong, and its ceiling holds what ending it gained when the program ran without.

use std::path::PathBuf;

use serde_json::Value;

use super::support::{files, lacuna, project};

/// Each fault, the rule whose ceiling is the largest, and words of its finding.
const FAULTS: [(&str, &str, &str); 5] = [
    ("garbage", "garbage_collection", "while Python collects garbage"),
    ("empty_cache", "allocator", "cudaFree at faults.py(88): empty_cache"),
    ("collate", "data_loading", "_SingleProcessDataLoaderIter.__next__"),
    ("late_rank", "data_loading", "Rank 1, GPU 0 waits"),
    ("checkpoint", "host_bound", "every 3rd step"),
];
/// How far below the gain a ceiling may be: the program's own times of two runs differ by up to a tenth.
const NOISE: f64 = 0.1;

/// The report of all recordings of one fault.
fn report(fault: &str) -> Value {
    let start = format!("{fault}.");
    let is_own = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&start) && file.ends_with(".gz")
    };
    let paths = files(&project().join("sample_traces/faults")).into_iter().filter(is_own);
    let args = ["report", "--format", "json", "--top", "50"].map(Into::into).into_iter();
    let output = lacuna(&args.chain(paths).collect::<Vec<PathBuf>>());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn answer(fault: &str) -> Value {
    let path = project().join(format!("sample_traces/faults/{fault}.answer.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn findings(report: &Value) -> &[Value] {
    report["findings"].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn the_largest_ceiling_is_that_of_the_fault_and_holds_its_gain() {
    for (fault, rule, words) in FAULTS {
        let (report, answer) = (report(fault), answer(fault));
        let ceiling = |finding: &&Value| finding["ceiling_ns_per_step"].as_i64();
        let first = findings(&report).iter().max_by_key(ceiling).unwrap();
        assert_eq!(first["rule"], rule, "{fault}: {first:#}");
        assert!(first["text"].as_str().unwrap().contains(words), "{fault}: {first:#}");
        // Recording slows steps down, what they do without a fault as well: their parts are compared.
        let known = |key: &str| answer[key]["median"].as_f64().unwrap();
        let gain = 1.0 - known("ms_per_step_without") / known("ms_per_step");
        let ceiling = ceiling(&first).unwrap() as f64;
        let share = ceiling / report["steps"]["mean_ns"].as_f64().unwrap();
        assert!(share >= (1.0 - NOISE) * gain, "{fault}: {share:.3} of a step at most, {gain:.3} gained");
        // What the recorder took is not a gain: a program cannot save more than its steps take without one.
        let alone = known("ms_per_step") * 1e6;
        assert!(ceiling <= (1.0 + NOISE) * alone, "{fault}: {ceiling} ns of {alone}");
    }
}

#[test]
fn a_checkpoint_is_named_and_is_no_synchronization() {
    let report = report("checkpoint");
    let first = &findings(&report)[0];
    assert!(first["text"].as_str().unwrap().contains("save"), "{first:#}");
    assert!(first["advice"].to_string().to_lowercase().contains("checkpoint"), "{first:#}");
    let cause = findings(&report).iter().find(|finding| finding["rule"] == "synchronization");
    let measured = cause.and_then(|finding| finding["measured"].as_f64()).unwrap_or_default();
    assert!(measured < 0.1, "{cause:#?}");
    // Its copies and the step that it makes long are not causes of their own.
    let rules: Vec<&str> = findings(&report).iter().filter_map(|finding| finding["rule"].as_str()).collect();
    for rule in ["irregular_steps", "exposed_copies", "pageable_copies", "synchronization"] {
        assert!(!rules.contains(&rule), "{rules:?}");
    }
    assert!(first["evidence"]["notes"].to_string().contains("the longest"), "{first:#}");
}

#[test]
fn a_list_of_losses_is_one_leak_with_its_line() {
    let report = report("leak");
    let leaks: Vec<&Value> = findings(&report).iter().filter(|finding| finding["rule"] == "memory_leak").collect();
    assert_eq!(leaks.len(), 1, "{leaks:#?}");
    let text = leaks[0]["text"].as_str().unwrap();
    assert!(text.contains("leak (faults.py:159) leaks 256.00 MiB a step"), "{text}");
}
