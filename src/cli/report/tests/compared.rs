//! The part `memory_comparison` of a report: its keys, and that its parts sum to the changes.

use super::memory::leaking_for;
use super::*;

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
            "at": at, "stack": ["append (/me/losses.py:12)"], "bytes": 2 * MIB, "before_bytes": 4 * MIB,
            "after_bytes": 6 * MIB,
        })
    };
    let expected = serde_json::json!({
        "rank": 3, "device": 0, "base": "before.pickle",
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
    let text = written(&report, Format::Text, Some(100), Some(8)).unwrap();
    for said in ["Memory compared", "before.pickle", "Peak allocated", "append (losses.py:12)"] {
        assert!(text.contains(said), "{said}: {text}");
    }
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
    assert!(why.contains("memory that was recorded"), "{why}");
}
