//! Figures of files: event counts, problems, and clock offsets.

use std::sync::Arc;

use super::{Cell, Object, Part, Word, figures};
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
    let figures = figures! { row: File<'a>;
        words "format", "Format", 90, Cell::name(row.trace.info.format.key()), "Machine name of the format";
        words "producer", "Producer", 140, Cell::text(&row.trace.info.producer), "What wrote the file";
        number "rank", "Rank", 50, Cell::number(row.trace.info.rank), "Rank of the process";
        number "bytes", "Size", 90, Cell::Bytes(row.trace.info.bytes), "Size of the file on disk";
        number "read", "Events read", 90, Cell::Count(row.trace.import.read), "Events found, whole or broken";
        number "shown", "= Shown", 90, Cell::Count(row.trace.import.shown), "Events on screen in their own right";
        number "merged", "+ Merged", 90, Cell::Count(row.trace.import.merged),
            "Events that became part of another item";
        number "rejected", "+ Rejected", 90, Cell::Count(row.trace.import.rejected),
            "Events that are not shown, each for one of the problems";
        words "path", "File", 300, Cell::name(row.path), "Path, and the name within an archive";
        words "events", "Events", 0, Cell::Object(Box::new(events(row))), "Event counts";
        words "tables", "Tables", 0, tables(row), "The same by table, where the format has tables";
        words "problems", "Problems", 0, problems_of(row), "Problems met, worst first";
    };
    Part::new("files", "Files", figures)
        .report("format producer rank bytes read shown merged rejected path")
        .json("path format bytes producer rank events tables problems")
}

fn events(file: &File<'_>) -> Object {
    let import = &file.trace.import;
    let counts = [import.read, import.shown, import.merged, import.rejected].map(Cell::Count);
    Object(["read", "shown", "merged", "rejected"].into_iter().zip(counts).collect())
}

fn tables(file: &File<'_>) -> Cell {
    match file.trace.import.tables.as_slice() {
        [] => Cell::Empty,
        tables => Cell::List(Arc::new(accounts().table(tables, 0))),
    }
}

fn problems_of(file: &File<'_>) -> Cell {
    let rows = file.trace.import.problems.iter().map(|problem| FileProblem { problem, path: file.path });
    Cell::List(Arc::new(problems().table(rows, 0)))
}

/// What became of the rows of each table of a file.
fn accounts() -> Part<TableAccount> {
    let figures = figures! { row: TableAccount;
        words "table", "Table", 200, Cell::name(&row.table), "Name in the file";
        number "read", "Rows read", 90, Cell::Count(row.read), "Rows found";
        number "shown", "= Shown", 90, Cell::Count(row.shown), "Rows on screen in their own right";
        number "merged", "+ Merged", 90, Cell::Count(row.merged), "Rows that became part of another item";
        number "rejected", "+ Rejected", 90, Cell::Count(row.rejected), "Rows that are not shown";
    };
    Part::new("tables", "Tables", figures)
}

/// Problems met while reading.
pub fn problems<'a>() -> Part<FileProblem<'a>> {
    let figures = figures! { row: FileProblem<'a>;
        words "severity", "Severity", 70, Cell::Word(severity(row.problem.severity)), "A note, a warning that \
            something was lost, repaired or moved, or an error";
        number "count", "Count", 70, Cell::Count(row.problem.count), "How often it was met";
        number "first_offset", "First at byte", 100, Cell::or_empty(row.problem.first_offset, Cell::Count),
            "Where in the file's text, after decompression";
        words "reason", "Problem", 400, Cell::name(&row.problem.reason), "What happened, and what to do";
        words "path", "File", 200, Cell::name(row.path), "Path, and the name within an archive";
    };
    Part::new("problems", "Import problems", figures).json("severity reason count first_offset")
}

/// The word for the severity of an import problem; findings have others.
pub fn severity(severity: Severity) -> &'static Word {
    match severity {
        Severity::Note => &Word { rank: 0, key: "note", label: "Note" },
        Severity::Warn => &Word { rank: 1, key: "loss", label: "Warning" },
        Severity::High => &Word { rank: 2, key: "error", label: "Error" },
    }
}

/// Where files are on the session clock.
pub fn clock<'a>() -> Part<FileClock<'a>> {
    let figures = figures! { row: FileClock<'a>;
        number "offset_ns", "Offset", 110, Cell::Ns(row.offset_ns), "What is added to the file's times";
        words "source", "Placed by", 90, Cell::name(row.source), "By the time since 1970, or by its first event";
        words "path", "File", 300, Cell::name(row.path), "Path, and the name within an archive";
    };
    Part::new("clock", "Clock", figures).json("path offset_ns source")
}
