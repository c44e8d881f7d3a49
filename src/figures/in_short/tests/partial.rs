//! Files that are not whole, and those of whose time nothing can be told.

use super::*;
use crate::analysis::rules::tests::judged;
use crate::model::{SliceKind, TraceBuilder};

/// The paragraphs of one trace, judged by itself.
fn told(trace: &Trace) -> Vec<String> {
    let verdicts = judged(trace, None);
    paragraphs(&[Judged { trace, name: None, path: "", offset: 0, verdicts: &verdicts }])
}

const CUT: &str = "The file ends early or is damaged";

#[test]
fn that_a_file_is_not_whole_comes_first() {
    let mut trace = rank(0, 4 * MS, 0);
    assert!(told(&trace)[0].starts_with("Rank 0"));
    trace.import.lose("The file ends early", 1, None);
    assert!(told(&trace)[0].starts_with(CUT));
    // Also where nothing is left.
    let mut empty = Trace::default();
    empty.import.lose("The file ends early", 1, None);
    let told = told(&empty);
    assert!(told.len() == 2 && told[0].starts_with(CUT) && told[1].contains("holds no events"), "{told:#?}");
}

#[test]
fn of_several_files_the_one_that_is_not_whole_is_named() {
    let traces = [(3, false), (5, true)].map(|(number, is_partial)| {
        let mut trace = rank(number, 4 * MS, 0);
        trace.import.is_partial = is_partial;
        trace
    });
    let verdicts = judged_together(&traces);
    let of = |(trace, verdicts)| Judged { trace, name: None, path: "", offset: 0, verdicts };
    let texts = paragraphs(&traces.iter().zip(&verdicts).map(of).collect::<Vec<_>>());
    assert!(texts[0].starts_with("The file of rank 5 ends early or is damaged"), "{texts:#?}");
    assert!(texts[1].starts_with("Job of 2 ranks"), "{texts:#?}");
}

#[test]
fn what_a_cut_file_lacks_has_no_other_cause() {
    let text = |is_partial: bool| {
        let slices = [
            ("main", SliceKind::Operator, "aten::relu", 0, 50 * MS),
            ("main", SliceKind::Runtime, "hipLaunchKernel", 10 * MS, 20 * MS),
        ];
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.import.is_partial = is_partial;
        let trace = builder.finish();
        let rules: Vec<Rule> = judged(&trace, None).hits.iter().map(|hit| hit.rule).collect();
        (told(&trace).join("\n"), rules)
    };
    let (whole, rules) = text(false);
    assert!(whole.contains("No device work was recorded") && whole.contains("No call stacks were recorded"), "{whole}");
    assert_eq!(rules, [Rule::NoDeviceWork]);
    let (cut, rules) = text(true);
    assert!(cut.contains("No device work is in that part: whether any was recorded is not known"), "{cut}");
    assert!(!cut.contains("were recorded:") && rules.is_empty(), "{cut} {rules:?}");
}

#[test]
fn time_of_slices_without_a_recorded_end_is_told_apart() {
    let text = |is_ended: bool| {
        let other = SliceKind::Other;
        let slices = [
            ("main", other, "loop", 0, if is_ended { 30 * MS } else { 0 }),
            ("main", other, "task", 10 * MS, 20 * MS),
            ("second", other, "task", 0, 100 * MS),
        ];
        let mut builder = TraceBuilder::from_slices(&slices);
        if !is_ended {
            builder.unfinished = vec![builder.slices[0].source[0]];
        }
        told(&builder.finish()).remove(0)
    };
    let ended = text(true);
    assert!(ended.ends_with("task 84.6 %, loop 15.4 %"), "{ended}");
    let endless = text(false);
    let expected = "task 55.0 %, loop 45.0 %. 45.0 % of it is of slices whose end was not recorded: they are taken to last \
                    to the end of the trace";
    assert!(endless.ends_with(expected), "{endless}");
}
