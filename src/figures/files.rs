//! Figures of files: event counts, problems, and clock offsets.

use std::sync::Arc;

use super::{Cell, Object, Part, Word, number, words};
use crate::model::{DurNs, Problem, Severity, TableAccount, Trace};

/// A trace under the name of its file.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    pub trace: &'a Trace,
    pub path: &'a str,
}

/// A problem of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileProblem<'a> {
    pub problem: &'a Problem,
    pub path: &'a str,
}

/// How a file came onto the session clock.
#[derive(Clone, Copy, Debug)]
pub struct FileClock<'a> {
    pub path: &'a str,
    /// Add this to the file's times to get session times.
    pub offset_ns: DurNs,
    /// `utc`: by the time since 1970 that the file records; `start`: its first event is at zero, because not
    /// every file records that.
    pub source: &'static str,
}

/// Files, with `read == shown + merged + rejected` events each.
pub fn files<'a>() -> Part<File<'a>> {
    let figures = vec![
        words("format", "Format", 90, "Machine name of the format", |file: &File<'a>| {
            Cell::name(file.trace.info.format.key())
        }),
        words("producer", "Producer", 140, "What wrote the file", |file| Cell::text(&file.trace.info.producer)),
        number("rank", "Rank", 50, "Rank of the process", |file| Cell::number(file.trace.info.rank)),
        number("bytes", "Size", 90, "Size of the file on disk", |file| Cell::Bytes(file.trace.info.bytes)),
        number("read", "Events read", 90, "Events found, whole or broken", |file| Cell::Count(file.trace.import.read)),
        number("shown", "= Shown", 90, "Events on screen in their own right", |file| {
            Cell::Count(file.trace.import.shown)
        }),
        number("merged", "+ Merged", 90, "Events that became part of another item", |file| {
            Cell::Count(file.trace.import.merged)
        }),
        number("rejected", "+ Rejected", 90, "Events that are not shown, each for one of the problems", |file| {
            Cell::Count(file.trace.import.rejected)
        }),
        words("path", "File", 300, "Path, and the name within an archive", |file| Cell::name(file.path)),
        words("events", "Events", 0, "What became of the events", |file| Cell::Object(Box::new(events(file)))),
        words("tables", "Tables", 0, "The same by table, where the format has tables", |file| {
            match file.trace.import.tables.as_slice() {
                [] => Cell::Empty,
                tables => Cell::List(Arc::new(accounts().table(tables, 0))),
            }
        }),
        words("problems", "Problems", 0, "Problems met, worst first", |file| {
            let rows = file.trace.import.problems.iter().map(|problem| FileProblem { problem, path: file.path });
            Cell::List(Arc::new(problems().table(rows, 0)))
        }),
    ];
    let report: &[&str] = &["format", "producer", "rank", "bytes", "read", "shown", "merged", "rejected", "path"];
    let json: &[&str] = &["path", "format", "bytes", "producer", "rank", "events", "tables", "problems"];
    Part { report: Some(report), json: Some(json), ..Part::new("files", "Files", figures) }
}

fn events(file: &File<'_>) -> Object {
    let import = &file.trace.import;
    let counts = [import.read, import.shown, import.merged, import.rejected].map(Cell::Count);
    Object(["read", "shown", "merged", "rejected"].into_iter().zip(counts).collect())
}

/// What became of the rows of each table of a file.
fn accounts() -> Part<TableAccount> {
    let figures = vec![
        words("table", "Table", 200, "Name in the file", |account: &TableAccount| Cell::name(&account.table)),
        number("read", "Rows read", 90, "Rows found", |account| Cell::Count(account.read)),
        number("shown", "= Shown", 90, "Rows on screen in their own right", |account| Cell::Count(account.shown)),
        number("merged", "+ Merged", 90, "Rows that became part of another item", |account| {
            Cell::Count(account.merged)
        }),
        number("rejected", "+ Rejected", 90, "Rows that are not shown", |account| Cell::Count(account.rejected)),
    ];
    Part::new("tables", "Tables", figures)
}

/// Problems met while reading.
pub fn problems<'a>() -> Part<FileProblem<'a>> {
    let figures = vec![
        words("severity", "Severity", 70, "A note, a loss, or an error", |row: &FileProblem<'a>| {
            Cell::Word(severity(row.problem.severity))
        }),
        number("count", "Count", 70, "How often it was met", |row| Cell::Count(row.problem.count)),
        number("first_offset", "First at byte", 100, "Where in the file's text, after decompression", |row| {
            Cell::or_empty(row.problem.first_offset, Cell::Count)
        }),
        words("reason", "Problem", 400, "What happened, and what to do", |row| Cell::name(&row.problem.reason)),
        words("path", "File", 200, "Path, and the name within an archive", |row| Cell::name(row.path)),
    ];
    let json: &[&str] = &["severity", "reason", "count", "first_offset"];
    Part { json: Some(json), ..Part::new("problems", "Import problems", figures) }
}

/// The word for how bad an import problem is.
pub fn severity(severity: Severity) -> &'static Word {
    match severity {
        Severity::Note => &Word { rank: 0, key: "note", label: "Note" },
        Severity::Loss => &Word { rank: 1, key: "loss", label: "Loss" },
        Severity::Error => &Word { rank: 2, key: "error", label: "Error" },
    }
}

/// Where files are on the session clock.
pub fn clock<'a>() -> Part<FileClock<'a>> {
    let figures = vec![
        number("offset_ns", "Offset", 110, "What is added to the file's times", |row: &FileClock<'a>| {
            Cell::Ns(row.offset_ns)
        }),
        words("source", "Placed by", 90, "By the time since 1970, or by its first event", |row| Cell::name(row.source)),
        words("path", "File", 300, "Path, and the name within an archive", |row| Cell::name(row.path)),
    ];
    let json: &[&str] = &["path", "offset_ns", "source"];
    Part { json: Some(json), ..Part::new("clock", "Clock", figures) }
}
