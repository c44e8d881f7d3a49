//! Figures of what the threads of a recording without device work ran.

use std::sync::Arc;

use super::{Cell, Part, figures};
use crate::analysis::range_summary::NameSummary;
use crate::analysis::rules::SelfTimes;
use crate::model::DurNs;

/// The calls of one function in the judged time.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    /// Title of the file, where its rank does not distinguish it.
    pub file: Option<Arc<str>>,
    pub rank: Option<u32>,
    pub of: &'a NameSummary,
    /// Self time of all functions of the file.
    pub all_ns: DurNs,
}

impl<'a> Function<'a> {
    /// All of one file.
    pub fn all(of: &'a SelfTimes, file: Option<&Arc<str>>, rank: Option<u32>) -> impl Iterator<Item = Self> {
        let file = file.cloned();
        of.functions.iter().map(move |name| Self { file: file.clone(), rank, of: name, all_ns: of.total_ns })
    }
}

/// Functions by self time, which sums to that of the threads in short.
pub fn functions<'a>() -> Part<Function<'a>> {
    let figures = figures! { row: Function<'a>;
        words "file", "File", 140, Cell::or_empty(row.file.as_deref(), Cell::name),
            "The file, where the rank is ambiguous";
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "calls", "Calls", 60, Cell::Count(row.of.count), "How often it ran";
        number "self_ns", "Self", 84, Cell::Ns(row.of.self_ns), "Time in it without what ran inside";
        number "share", "Share", 70, Cell::Share(row.of.self_ns as f64 / row.all_ns.max(1) as f64),
            "Share of the self time of all functions";
        number "total_ns", "Total", 84, Cell::Ns(row.of.total_ns),
            "Time in it with what ran inside; a call within another of the same name counts once";
        number "max_ns", "Longest", 84, Cell::Ns(row.of.max_ns), "The longest call, as far as it is in the judged time";
        words "name", "Name", 330, Cell::name(&row.of.name), "Name of the function, operator or range";
    };
    Part::new("functions", "Functions by self time, in the judged time", figures)
        .json("rank name calls self_ns share total_ns max_ns")
}
