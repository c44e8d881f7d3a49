//! Two recordings beside each other: parts sum to what they are parts of, and a file is no slower than itself.

use serde_json::Value;

use super::support::{lacuna, name, project, real};

/// Of what a comparison has rows.
const LISTS: [&str; 4] = ["compared_times", "compared_work", "compared_operators", "compared_functions"];

/// The comparison of each device, and what was said.
fn compared(after: &str, before: &str) -> (Vec<Value>, String) {
    let output = lacuna(&["report", after, "--compare", before, "--format", "json", "--top", "0"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (json["time_comparison"].as_array().cloned().unwrap_or_default(), said)
}

/// All that a row of `times` sums over, with how many nanoseconds rounding may take of each.
fn wrong_sums(of: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let times = of["compared_times"].as_array().unwrap();
    for key in ["before_ns", "after_ns"] {
        let sum = |wanted: &dyn Fn(&Value) -> bool| {
            let all = times.iter().filter(|row| wanted(row)).map(|row| row[key].as_i64().unwrap());
            (all.clone().sum::<i64>(), all.count() as i64)
        };
        let is = |row: &Value, part: &str| row["part"] == part && row["cause"].is_null();
        let is_whole = |row: &Value| is(row, "step") || is(row, "judged");
        let (whole, _) = sum(&is_whole);
        let (parts, n) = sum(&|row| !is_whole(row) && row["cause"].is_null());
        if n > 0 && (whole - parts).abs() > n {
            wrong.push(format!("{key}: parts {parts}, step {whole}"));
        }
        let (idle, _) = sum(&|row| is(row, "idle"));
        let (causes, n) = sum(&|row| row["cause"].is_string());
        if (idle - causes).abs() > n + 1 {
            wrong.push(format!("{key}: causes {causes}, idle {idle}"));
        }
    }
    for row in LISTS.iter().flat_map(|list| of[list].as_array().unwrap()) {
        for [change, before, after] in [
            ["change_ns", "before_ns", "after_ns"],
            ["device_change_ns", "before_device_ns", "after_device_ns"],
            ["host_change_ns", "before_host_ns", "after_host_ns"],
        ] {
            if let (Some(change), Some(before), Some(after)) =
                (row[change].as_i64(), row[before].as_i64(), row[after].as_i64())
                && change != after - before
            {
                wrong.push(row.to_string());
            }
        }
    }
    wrong
}

#[test]
fn a_recording_beside_itself_has_no_difference() {
    const LARGE: u64 = 1 << 20;
    let mut files = real("A_kineto");
    files.extend(real("B_sqlite"));
    files.retain(|path| path.metadata().is_ok_and(|metadata| metadata.len() < LARGE));
    files.extend(
        ["kineto_10_steps.json.gz", "nsys_5_steps.sqlite"].map(|name| project().join("sample_traces").join(name)),
    );
    let mut n_compared = 0;
    for path in files {
        let file = path.to_string_lossy();
        for of in compared(&file, &file).0 {
            let rows = LISTS.map(|list| of[list].as_array().unwrap());
            let changes = ["change_ns", "device_change_ns", "host_change_ns"];
            let is_level = |row: &Value| changes.iter().all(|key| row[key].as_i64().unwrap_or_default() == 0);
            assert!(rows.iter().all(|rows| rows.iter().all(is_level)), "{}", name(&path));
            assert!(of["verdict"] == "same" || of["noise_ns"].is_null(), "{}: {}", name(&path), of["verdict"]);
            assert_eq!(wrong_sums(&of), Vec::<String>::new(), "{}", name(&path));
            n_compared += 1;
        }
    }
    assert!(n_compared >= 2, "the samples at least");
}

#[test]
fn one_training_as_two_recorders_wrote_it_does_the_same_work() {
    let [kineto, nsys] = ["kineto_10_steps.json.gz", "nsys_5_steps.sqlite"]
        .map(|name| project().join("sample_traces").join(name).to_string_lossy().into_owned());
    let (found, said) = compared(&nsys, &kineto);
    let [of] = &found[..] else { panic!("one device: {said}") };
    assert_eq!(wrong_sums(of), Vec::<String>::new());
    // Steps by other ranges are other steps, for all that is known.
    assert_eq!(of["verdict"], "unknown");
    let work = of["compared_work"].as_array().unwrap();
    let kernels = work.iter().filter(|row| row["name"].as_str().is_some_and(|name| name.contains("gemm")));
    let calls: Vec<_> = kernels.map(|row| (row["before_calls"].as_f64(), row["after_calls"].as_f64())).collect();
    assert!(!calls.is_empty() && calls.iter().all(|(before, after)| before == after), "{calls:?}");
    assert_eq!(of["compared_operators"].as_array().map(Vec::len), Some(0), "nsys records no operators");
}
