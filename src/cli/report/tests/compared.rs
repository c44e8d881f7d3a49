//! The parts `time_comparison` and `memory_comparison` of a report: their keys, and that their parts sum to the
//! changes.

use super::memory::leaking_for;
use super::*;
use crate::analysis::compare::tests::{host, training};

const MIB: u64 = 1 << 20;

fn compared(of: Trace, base: Trace) -> Result<keys::Report, Failure> {
    let bases = [Arc::new(base)];
    build::report(&[of.into()], 0, KernelsBy::Name, true, Thresholds::default(), (&[], &bases))
}

#[test]
fn memory_is_compared_with_that_of_another_file() {
    let mut base = leaking_for(4);
    base.info.path = "dir/before.pickle".into();
    let report = compared(leaking_for(6), base).unwrap();
    let json: serde_json::Value = serde_json::to_value(&report).unwrap();
    let row = &json["memory_comparison"][0];
    let forward = 19 * 4096;
    let amount = |amount: &str, before: u64, after: u64| serde_json::json!({"amount": amount, "bytes": after - before, "before_bytes": before, "after_bytes": after});
    let place = |at: &str| {
        serde_json::json!({
            "at": at, "place": "append (/me/losses.py:12)", "whose": "user", "bytes": 2 * MIB, "count": 2, "share": 1.0,
            "before_bytes": 4 * MIB, "after_bytes": 6 * MIB,
        })
    };
    let stack = |at: &str| {
        serde_json::json!({
            "at": at, "place": "append (/me/losses.py:12)", "stack": ["append (/me/losses.py:12)"], "bytes": 2 * MIB, "before_bytes": 4 * MIB,
            "after_bytes": 6 * MIB,
        })
    };
    let expected = serde_json::json!({
        "rank": 3, "device": 0, "base": "before.pickle", "text": row["text"],
        "compared_amounts": [
            amount("peak_allocated", 4 * MIB + forward, 6 * MIB + forward), amount("peak_reserved", 64 * MIB, 64 * MIB),
            amount("end_allocated", 4 * MIB, 6 * MIB), amount("end_reserved", 64 * MIB, 64 * MIB),
        ],
        "compared_categories": row["compared_categories"],
        "compared_places": [place("peak"), place("end")],
        "compared_stacks": [stack("peak"), stack("end")],
    });
    assert_eq!(*row, expected);
    for (at, total) in [("peak", 2 * MIB), ("end", 2 * MIB)] {
        let of = row["compared_categories"].as_array().unwrap().iter().filter(|row| row["at"] == at);
        assert_eq!(of.map(|row| row["bytes"].as_i64().unwrap()).sum::<i64>(), total as i64);
    }
    let text = written(&report, Format::Text, Some(100), Some(glance(0))).unwrap();
    let said = "Rank 3, GPU 0, beside before.pickle: peak allocated 6.07 MiB, 2.00 MiB more than the 4.07 MiB there; peak \
                reserved 64.00 MiB, as much as the 64.00 MiB there; allocated at end 6.00 MiB";
    let told = row["text"].as_str().unwrap();
    let most = ". At the peak append (losses.py:12) changed most: 2.00 MiB more";
    assert!(told.starts_with(said) && told.contains(most), "{told}");
    for said in ["Memory compared", "before.pickle", "Peak allocated", "append (losses.py:12)"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn growth_from_step_to_step_is_compared() {
    let text = |of: u32, base: u32| {
        let report = compared(leaking_for(of), leaking_for(base)).unwrap();
        serde_json::to_value(&report).unwrap()["memory_comparison"][0]["text"].as_str().unwrap().to_owned()
    };
    let grows = "Memory between steps grows by 1.00 MiB a step, at 1 place";
    assert!(text(12, 12).ends_with(&format!(". In both: {grows}")), "{}", text(12, 12));
    let differ = text(12, 4);
    assert!(differ.contains(". There: Too few steps") && differ.ends_with(&format!(". Here: {grows}")), "{differ}");
}

#[test]
fn memory_of_other_ranks_and_files_without_any_are_not_compared() {
    let other = |rank| {
        let mut trace = leaking_for(4);
        trace.info.rank = Some(rank);
        trace
    };
    // One memory on each side is compared whosever it is.
    assert!(compared(leaking_for(6), other(1)).is_ok());
    let bases = [other(1), other(3)].map(Arc::new);
    let report =
        build::report(&[leaking_for(6).into()], 0, KernelsBy::Name, true, Thresholds::default(), (&[], &bases))
            .unwrap();
    assert_eq!(report.memory_comparison.rows.len(), 1);
    let without = TraceBuilder::default().finish();
    let Err(Failure::Usage(why)) = compared(leaking_for(6), without) else { panic!("nothing to compare with") };
    assert!(why.contains("Nothing to compare: "), "{why}");
}

#[test]
fn steps_are_compared_with_those_of_another_file() {
    const MS: i64 = 1_000_000;
    let base = || {
        let mut base = training(&[10 * MS; 8], &[("gemm", 6 * MS), ("copy_kernel", MS)]);
        base.info.path = "dir/before.json".into();
        base
    };
    let of = |step: i64, gemm: i64| training(&[step * MS; 8], &[("gemm", gemm * MS)]);
    let report = compared(of(12, 9), base()).unwrap();
    let json: serde_json::Value = serde_json::to_value(&report).unwrap();
    let row = &json["time_comparison"][0];
    let time = |part: &str, ns: [i64; 2]| {
        let mut row = serde_json::json!({
            "part": part, "change_ns": ns[1] - ns[0], "margin_ns": 0, "before_ns": ns[0], "after_ns": ns[1],
        });
        if ns[0] > 0 {
            row["change_share"] = ((ns[1] - ns[0]) as f64 / ns[0] as f64).into();
        }
        row
    };
    let times = row["compared_times"].as_array().unwrap();
    let parts = [
        time("step", [10 * MS, 12 * MS]),
        time("compute", [7 * MS, 9 * MS]),
        time("exposed_comm", [0, 0]),
        time("exposed_copies", [0, 0]),
        time("idle", [3 * MS, 3 * MS]),
    ];
    assert_eq!(times[..5], parts);
    let causes = times[5..]
        .iter()
        .map(|row| (row["part"].as_str(), row["change_ns"].as_i64().unwrap(), row["cause"].is_string()));
    assert!(times.len() > 5 && causes.clone().all(|cause| cause.0 == Some("idle") && cause.2), "{times:?}");
    assert_eq!(causes.map(|cause| cause.1).sum::<i64>(), 0);
    let work = |name: &str, before: i64, after: i64| {
        serde_json::json!({
            "name": name, "change_ns": after - before, "before_ns": before, "after_ns": after,
            "before_calls": 1.0, "after_calls": if after > 0 { 1.0 } else { 0.0 },
        })
    };
    assert_eq!(row["compared_work"], serde_json::json!([work("gemm", 6 * MS, 9 * MS), work("copy_kernel", MS, 0)]));
    let said = serde_json::json!(["before.json", "slower", 200_000, 6, 6]);
    let told = ["base", "verdict", "noise_ns", "before_steps", "after_steps"].map(|key| row[key].clone());
    assert_eq!(serde_json::json!(told), said);
    let found: Vec<_> = report.findings.iter().filter(|finding| finding.rule == "slower_than_base").collect();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].severity, found[0].measured, found[0].ceiling_ns_per_step),
        (Severity::Warn, 0.2, Some(2 * MS))
    );
    let text = written(&report, Format::Text, Some(120), Some(glance(0))).unwrap();
    for said in [
        "a step takes 12.000 ms, 2.000 ms (20.0 %) more than the 10.000 ms in before.json. Slower: the difference is \
         beyond the noise between the steps of each recording, 200.000 µs (2 % of a step; means of 6 and 6 steps). \
         Whether the program is slower, or the run as a whole, one recording of each does not tell: repeat both",
        "What changed most: compute +2.000 ms; gemm +3.000 ms; copy_kernel \u{2212}1.000 ms",
    ] {
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{said}: {text}");
    }
    // Faster, and as fast, is no finding; both are said.
    for (step, verdict) in [(8, "faster"), (10, "same")] {
        let report = compared(of(step, 6), base()).unwrap();
        assert!(report.findings.iter().all(|finding| finding.rule != "slower_than_base"));
        assert_eq!(serde_json::to_value(&report).unwrap()["time_comparison"][0]["verdict"], verdict);
    }
}

#[test]
fn devices_without_a_counterpart_are_told() {
    use crate::figures::compared_time::without_counterpart;
    assert_eq!(without_counterpart([0, 0]), None);
    let told = without_counterpart([1, 3]).unwrap();
    assert!(told.ends_with(": 1 device before, 3 devices after"), "{told}");
}

#[test]
fn devices_are_not_compared_with_hosts_alone() {
    let host = || {
        let names: Vec<String> = (0..6).map(|step| format!("ProfilerStep#{step}")).collect();
        let steps = (0..).step_by(10_000_000).zip(&names);
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        let slices = steps.flat_map(|(at, name)| {
            let step = ("main", SliceKind::Annotation, name.as_str(), at, at + 10_000_000);
            [step, ("main", SliceKind::Operator, loader, at, at + 4_000_000)]
        });
        let mut builder = TraceBuilder::from_slices(&slices.collect::<Vec<_>>());
        builder.info.path = "dir/cpu.json".into();
        builder.finish()
    };
    let mut device = training(&[10_000_000; 6], &[("a", 4_000_000)]);
    device.info.path = "dir/gpu.json".into();
    let missing = compared(device, host()).unwrap_err().to_string();
    assert!(missing.contains("gpu.json has work of a device and cpu.json only what its host did"), "{missing}");
    let json = serde_json::to_value(compared(host(), host()).unwrap()).unwrap();
    assert_eq!(json["time_comparison"][0]["verdict"], "same");
}

#[test]
fn hosts_are_compared_by_phases_and_functions() {
    const MS: i64 = 1_000_000;
    let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let of = |loads: i64| {
        let mut trace = host(&[(loader, loads * MS), ("aten::mm", 4 * MS)]);
        trace.info.path = "dir/before.json".into();
        trace
    };
    let report = compared(of(1), of(6)).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let row = &json["time_comparison"][0];
    let parts = row["compared_times"].as_array().unwrap();
    let parts: Vec<_> = parts.iter().map(|part| (part["part"].as_str().unwrap(), part["change_ns"].clone())).collect();
    assert_eq!(parts, [("step", (-5 * MS).into()), ("data_loading", (-5 * MS).into()), ("other", 0.into())]);
    let function = |name: &str, before: i64, after: i64| {
        serde_json::json!({
            "name": name, "change_ns": after - before, "before_ns": before, "after_ns": after, "before_calls": 1.0,
            "after_calls": 1.0,
        })
    };
    assert_eq!(
        row["compared_functions"],
        serde_json::json!([function(loader, 6 * MS, MS), function("aten::mm", 4 * MS, 4 * MS)])
    );
    let text = written(&report, Format::Text, Some(120), Some(glance(0))).unwrap();
    let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["What changed most: data loading \u{2212}5.000 ms; ", "Functions compared, by self time on the host"] {
        assert!(told.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_run_that_was_slower_as_a_whole_is_no_finding() {
    const MS: i64 = 1_000_000;
    let names = ["aten::mm", "aten::add", "aten::mul", "aten::sum", "aten::copy_"];
    let of = |ms: i64| host(&names.map(|name| (name, ms * MS)));
    let report = compared(of(3), of(2)).unwrap();
    assert!(report.findings.iter().all(|finding| finding.rule != "slower_than_base"));
    let json = serde_json::to_value(&report).unwrap();
    let row = &json["time_comparison"][0];
    assert_eq!(row["verdict"], "unknown");
    let said = "Whether the program is slower is not known: nearly all operators and functions take at least 1.50 times as \
                long, which points to the load or the clocks of the machine, or";
    assert!(row["text"].as_str().unwrap().contains(said), "{}", row["text"]);
    let faster = serde_json::to_value(compared(of(2), of(3)).unwrap()).unwrap();
    let said = "nearly all operators and functions took at least 1.50 times as long before, which";
    assert!(faster["time_comparison"][0]["text"].as_str().unwrap().contains(said), "{}", faster["time_comparison"]);
    // Where more than that changed it is one, and says what may be of the run.
    let mixed =
        |first: i64, ms: i64| host(&[&[("aten::conv2d", first * MS)], &names.map(|name| (name, ms * MS))[..]].concat());
    let report = compared(mixed(60, 6), mixed(20, 5)).unwrap();
    let found = report.findings.iter().find(|finding| finding.rule == "slower_than_base").unwrap();
    assert!(found.text.ends_with("does not tell a change of the program from a run that was slower as a whole"));
    let json = serde_json::to_value(&report).unwrap();
    let text = json["time_comparison"][0]["text"].as_str().unwrap();
    let said = "repeat both. Also nearly all operators and functions take at least 1.20 times as long: so much of";
    assert!(text.contains("Slower: ") && text.contains(said), "{text}");
}
