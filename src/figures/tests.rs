//! The definitions hold together, and no text leaves a table as a formula.

use std::sync::Arc;

use super::memory::{AtPlace, Owner};
use super::*;
use crate::analysis::kernels::{KernelsBy, kernels};
use crate::analysis::memory::leaks::{Explained, Gain, LeakCandidate, LeakEvidence, Verdict};
use crate::analysis::memory::signature::SignatureId;
use crate::analysis::operators::operators;
use crate::analysis::range_summary::range_summary;
use crate::analysis::totals::Scope;
use crate::model::{Severity, SliceKind, TimeRange, TraceBuilder};

const EVIL: &str = "=cmd|' /C calc'!A0\t,\"\u{1b}[2J";

/// The window's tables whose text comes from files.
fn hostile_tables() -> Vec<Data> {
    let trace = TraceBuilder::from_slices(&[
        ("main", SliceKind::Operator, EVIL, 0, 100),
        ("stream 7", SliceKind::Kernel, EVIL, 10, 90),
    ]);
    let trace = trace.finish();
    let traces = [&trace];
    let stack = Stack { label: EVIL.to_owned(), frames: vec![EVIL.to_owned(), EVIL.to_owned()] };
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
    let explained = Explained { signature, verdict: Verdict::Setup, bytes: -1 };
    let range = TimeRange { start: 0, end: 100 };
    let track = range::TrackTime { track: EVIL.to_owned(), busy: 1.0, count: 1, total_ns: 1, self_ns: 1 };
    let sentences = Data {
        columns: vec![Column { key: "doubts", title: "Doubts", width: 0, is_text: true, help: "" }],
        rows: vec![vec![Cell::Sentences([EVIL.to_owned()].into())], vec![Cell::Frames(EVIL.into())]],
    };
    vec![
        work::kernels().data(kernels(&Scope::whole(&traces), KernelsBy::Name)),
        work::operators().data(operators(&Scope::whole(&traces), true)),
        range::names().data(range_summary(&trace, range, &|| false).names),
        range::tracks().data([track]),
        range::slices().data([range::SliceTime { time: range, track: EVIL.to_owned() }]),
        files::files().data([files::File { trace: &trace, path: EVIL }]),
        memory::leaks().data([AtPlace {
            owner: owner.clone(),
            stack: placed(),
            of: memory::Leak::new(&candidate, None),
        }]),
        memory::no_leaks().data([AtPlace { owner: owner.clone(), stack: placed(), of: explained }]),
        memory::gains().data([AtPlace { owner, stack: placed(), of: Gain { signature, bytes: -1, count: -1 } }]),
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
