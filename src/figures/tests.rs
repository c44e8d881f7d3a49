//! The definitions hold together, and no text leaves a table as a formula.

use std::sync::Arc;

use super::compared_time::{compared_functions, compared_operators, compared_times, compared_work};
use super::memory::{AtPlace, Owner};
use super::*;
use crate::analysis::compare::{Change, FunctionChange, NamedChange, OperatorChange, TimePart};
use crate::analysis::kernels::{KernelsBy, kernels};
use crate::analysis::memory::fixture::Script;
use crate::analysis::memory::leaks::{Explained, Gain, LeakCandidate, LeakEvidence, Thresholds, Verdict, leaks};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::analysis::memory::steps;
use crate::analysis::operators::operators;
use crate::analysis::range_summary::range_summary;
use crate::analysis::rules::Vendor;
use crate::analysis::totals::Scope;
use crate::model::{Launch, Severity, SliceFacts, SliceKind, StackId, TimeRange, TraceBuilder};

const EVIL: &str = "=cmd|' /C calc'!A0\t,\"\u{1b}[2J";

/// The window's tables whose text comes from files.
fn hostile_tables() -> Vec<Data> {
    let trace = TraceBuilder::from_slices(&[
        ("main", SliceKind::Operator, EVIL, 0, 100),
        ("stream 7", SliceKind::Kernel, EVIL, 10, 90),
    ]);
    let trace = trace.finish();
    let traces = [&trace];
    let stack = Stack::new(vec![EVIL.to_owned(), EVIL.to_owned()]);
    let placed = || Arc::new(stack.clone());
    let (signature, owner) = (SignatureId::default(), Owner::default());
    let candidate = LeakCandidate {
        signature,
        bytes_per_step: -1.0,
        slope_share: 1.0,
        since_step: None,
        growth_bytes: -5,
        live_bytes: Vec::new(),
        live_count: Vec::new(),
        monotonic: 1.0,
        r2: 1.0,
        survivors: 1,
        survivor_steps: 1,
        severity: Severity::High,
        score: 1.0,
        evidence: LeakEvidence::default(),
    };
    let explained = Explained { signature, verdict: Verdict::Offset, bytes: -1, given_up_by: vec![signature] };
    let signatures = Signatures::new(&trace, false);
    let places = memory::Places { trace: &trace, signatures: &signatures, owner: owner.clone() };
    let no_leak = memory::NoLeak::new(&explained, &places);
    let range = TimeRange { start: 0, end: 100 };
    let track = range::TrackTime {
        track: EVIL.to_owned(),
        role: "steps",
        busy: Some(1.0),
        count: 1,
        total_ns: 1,
        full_ns: 2,
        self_ns: 1,
    };
    let sentences = Data {
        columns: vec![Column { key: "doubts", title: "Doubts", width: 0, is_text: true, help: "" }],
        rows: vec![vec![Cell::Sentences([EVIL.to_owned()].into())], vec![Cell::Frames(EVIL.into())]],
    };
    vec![
        work::kernels(Vendor::Nvidia).data(kernels(&Scope::whole(&traces), KernelsBy::Name)),
        work::operators(true).data(operators(&Scope::whole(&traces), true)),
        range::names().data(range_summary(&trace, range, &|| false).names),
        range::tracks().data([track]),
        range::slices().data([range::SliceTime { time: range, within_ns: None, track: EVIL.to_owned() }]),
        files::files().data([files::File { trace: &trace, path: EVIL }]),
        memory::leaks().data([AtPlace {
            owner: owner.clone(),
            stack: placed(),
            of: memory::Leak::new(&candidate, None),
        }]),
        memory::no_leaks().data([AtPlace { owner: owner.clone(), stack: placed(), of: no_leak }]),
        memory::gains().data([AtPlace {
            owner,
            stack: placed(),
            of: Gain { signature, or: Vec::new(), bytes: -1, count: -1 },
        }]),
        sentences,
    ]
}

#[test]
fn no_cell_leaves_a_table_as_a_formula() {
    for data in hostile_tables() {
        let rows: Vec<u32> = (0..data.rows.len() as u32).collect();
        let text = tsv(&data, &rows);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.len(), 1 + data.rows.len(), "{text}");
        assert!(text.contains("'=cmd"), "{text}");
        for cell in lines.iter().flatten() {
            assert!(cell.parse::<f64>().is_ok() || !cell.starts_with(['=', '+', '-', '@']), "{cell:?} of {text}");
            assert!(!cell.chars().any(escape::is_hidden), "{cell:?}");
        }
        let file = csv(&data, &rows);
        assert!(file.contains("\"'=cmd|' /C calc'!A0\\t,\"\"\\u{1b}[2J"), "{file}");
        assert_eq!(file.lines().count(), 1 + data.rows.len());
    }
}

/// A leak of so many bytes a step in all of 20 steps.
fn leaking(bytes: i64) -> LeakCandidate {
    LeakCandidate {
        signature: SignatureId(1),
        bytes_per_step: bytes as f64,
        slope_share: 0.5,
        since_step: None,
        growth_bytes: 20 * bytes,
        live_bytes: (0..21).map(|step| step * bytes).collect(),
        live_count: (0..21).collect(),
        monotonic: 1.0,
        r2: 1.0,
        survivors: 20,
        survivor_steps: 20,
        severity: Severity::Note,
        score: 0.5,
        evidence: LeakEvidence { freed_at_end: 20, allocated: 20, ..LeakEvidence::default() },
    }
}

#[test]
fn the_only_place_that_leaks_is_all_of_the_growth_however_its_steps_are_spaced() {
    let mut script = Script::default();
    let place = script.stack(&["gather (/me/eval.py:33)"]);
    script.alloc(0, 100 << 20, StackId(0));
    for step in 0..28 {
        let start = script.now();
        script.alloc(1 << 30, 30 << 20, StackId(0));
        if step % 5 == 4 {
            script.alloc((1 + step) << 40, 10 << 20, place);
        }
        script.free(1 << 30, 30 << 20);
        let end = script.now();
        script.annotate(&format!("ProfilerStep#{step}"), start, end);
    }
    let trace = script.finish();
    let (history, signatures) = (&trace.memories[0], Signatures::new(&trace, false));
    let steps = steps::steps(&trace, history, &|| false).unwrap();
    let found = leaks(&trace, history, &signatures, Some(&steps), None, &Thresholds::default(), &|| false).1;
    let advice = findings::growth(&found, &steps).unwrap().advice;
    assert_eq!(advice[0], "Start with the place that leaks: 100 % of the growth");
}

#[test]
fn stacks_of_one_place_are_one_leak_with_the_sum_and_what_differs() {
    let candidate = leaking(3 << 20);
    let stack = |inner: &str| {
        let frames = [inner, "_call_impl (/x/site-packages/torch/nn/modules/module.py:9)", "step (/me/train.py:7)"];
        Stack::new(frames.map(str::to_owned).to_vec())
    };
    let one = findings::leak(&[(&candidate, stack("aten::mm"))], None, "").unwrap();
    assert_eq!(one.text, "step (/me/train.py:7) leaks 3.00 MiB a step");
    assert_eq!(one.severity, Severity::Warn);
    let nowhere = findings::leak(&[(&candidate, Stack::new(Vec::new()))], None, "ACTIVATION of 3.00 MiB").unwrap();
    assert_eq!(nowhere.text, "Blocks without a call stack (ACTIVATION of 3.00 MiB) leak 3.00 MiB a step");
    let several = ["aten::mm", "aten::gelu", "aten::mm"].map(|inner| (&candidate, stack(inner)));
    let all = findings::leak(&several, Some("step 9".to_owned()), "").unwrap();
    assert_eq!(
        all.text,
        "step (/me/train.py:7) leaks 9.00 MiB a step since step 9, by 3 call stacks: aten::mm, aten::gelu"
    );
    assert_eq!((all.severity, all.measured), (Severity::High, f64::from(9 << 20)));
    assert!(
        all.advice.iter().any(|advice| advice.contains("60 of its 60 blocks were freed only as the recording ends"))
    );
    assert_eq!(findings::leak(&[], None, ""), None);
}

#[test]
fn rows_that_are_not_shown_are_not_made() {
    let made = std::cell::Cell::new(0);
    let part = Part::new("n", "N", figures! { n: u64; number "n", "N", 0, Cell::Count(*n), "A number"; });
    let all = [1_u64, 2, 3, 4, 5].iter().map(|n| {
        made.set(made.get() + 1);
        *n
    });
    let cut = part.table(all, 2);
    assert_eq!((cut.rows.len(), cut.n_hidden, made.get()), (2, 3, 2));
    assert_eq!(serde_json::to_string(&cut).unwrap(), r#"[{"n":1},{"n":2}]"#);
}

#[test]
fn figures_that_cannot_have_a_value_stay_in_json_alone() {
    let trace = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "aten::mm", 0, 100)]).finish();
    let traces = [&trace];
    let rows = operators(&Scope::whole(&traces), false);
    let keys = |has_device: bool| {
        let part = work::operators(has_device);
        let of = |keys: &[Column]| keys.iter().filter(|column| column.key.starts_with("device_total")).count();
        let table = part.table(&rows, 0);
        let shown: Vec<Column> = table.report.iter().map(|&place| table.columns[place]).collect();
        let json = serde_json::to_string(&table).unwrap();
        (of(&part.data(&rows).columns), of(&shown), json.contains("\"device_total_ns\":0"))
    };
    assert_eq!(keys(false), (0, 0, true));
    assert_eq!(keys(true), (1, 1, true));
}

#[test]
fn a_comparison_begins_with_what_was_before_what_is_after_and_the_change() {
    let columns = [
        compared_times().data::<compared_time::Row<'_, (TimePart, Change)>>([]).columns,
        compared_work().data::<compared_time::Row<'_, NamedChange>>([]).columns,
        compared_functions().data::<compared_time::Row<'_, FunctionChange>>([]).columns,
        compared_operators().data::<compared_time::Row<'_, OperatorChange>>([]).columns,
    ];
    for columns in columns {
        let titles: Vec<&str> = columns[1..4].iter().map(|column| column.title).collect();
        assert!(titles[0].ends_with("efore") && titles[1].ends_with("fter"), "{titles:?}");
        assert!(titles[2].to_lowercase().contains("change"), "{titles:?}");
        // As wide as the table is in a window of 1280 points.
        assert!(columns[..4].iter().map(|column| column.width).sum::<u16>() < 600, "{titles:?}");
    }
}

#[test]
fn registers_and_shared_memory_that_were_not_recorded_are_blank_and_none_used_is_zero() {
    let kernel = SliceKind::Kernel;
    let mut builder =
        TraceBuilder::from_slices(&[("stream 7", kernel, "a", 0, 300), ("stream 7", kernel, "b", 400, 500)]);
    let bare = Launch { grid: [80, 2, 1], block: [64, 1, 1], ..Default::default() };
    let known = Launch { registers_per_thread: Some(0), shared_bytes: Some(0), ..bare };
    for (slice, launch) in [(0, bare), (1, known)] {
        builder.set_facts(slice, SliceFacts { launch: Some(launch), ..Default::default() });
    }
    let trace = builder.finish();
    let traces = [&trace];
    let table = work::kernels(Vendor::Amd).table(kernels(&Scope::whole(&traces), KernelsBy::Name), 0);
    let rows = serde_json::to_value(&table).unwrap();
    let [bare, known] = [&rows[0], &rows[1]];
    assert_eq!((&bare["grid"], &known["grid"]), (&serde_json::json!([80, 2, 1]), &serde_json::json!([80, 2, 1])));
    for key in ["registers", "shared_bytes"] {
        assert_eq!((bare.get(key), known.get(key)), (None, Some(&serde_json::json!(0))), "{key}");
    }
}

#[test]
fn whose_memory_it_is_is_said_as_far_as_it_is_known() {
    use crate::model::memory::{UNKNOWN_DEVICE, device_name, is_of_host};
    let of = |device| {
        let cell = Cell::Device(device);
        (device_name(device), cell.shown(), serde_json::to_value(&cell).unwrap(), is_of_host(device))
    };
    assert_eq!(of(1), ("GPU 1".to_owned(), "1".to_owned(), serde_json::json!(1), false));
    assert_eq!(of(-1), ("Host".to_owned(), "host".to_owned(), serde_json::json!(-1), true));
    assert_eq!(of(UNKNOWN_DEVICE), ("Unknown device".to_owned(), "unknown".to_owned(), serde_json::Value::Null, false));
}
