//! The definition of a table of time, and the parts that these tables share.

use super::files::apart;
use super::grid::Answer;
use super::side::Related;
use crate::analysis::totals::{self, Instance, Scope};
use crate::figures::{Cell, Column, Part, Rows as _, Sort};
use crate::model::{TimeRange, Trace};

/// A table of time. Equal to itself only.
#[derive(Debug)]
pub struct TimeTable {
    pub title: &'static str,
    /// Ways to see it, the first to begin with; without buttons if there is one only.
    pub choices: &'static [Choice],
    /// What is listed beside a row, besides its slices.
    pub related: Related,
    /// Whether the rows are kernels, for which there is a command that profiles them in depth.
    pub has_profile: bool,
}

/// What that command is called in menus and on buttons.
pub const COPY_PROFILE: &str = "Copy profiler command";

/// One way to see a table.
#[derive(Debug)]
pub struct Choice {
    pub label: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Cost: that of the analysis; not for the frame thread.
    pub rows: fn(&Scope<'_>) -> Answer,
    /// What to say where nothing of the sort was recorded, and how to record it.
    pub empty: [&'static str; 2],
}

impl PartialEq for TimeTable {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Choice {
    /// The rows without empty columns, each with its longest slice.
    ///
    /// * `files`: the names of traces whose rows are kept apart, with their indices; without any, rows of all are added
    ///   up.
    pub fn answer(&self, scope: &Scope<'_>, files: Vec<(usize, String)>) -> Answer {
        let of_file = |(trace, name)| {
            let range = |index: usize| match scope.range(index) {
                _ if index != trace => Scope::NOTHING,
                range => range.unwrap_or(TimeRange::ALL),
            };
            let ranges = Some((0..scope.traces.len()).map(range).collect());
            (name, (self.rows)(&Scope { traces: scope.traces, ranges, is_cancelled: scope.is_cancelled }))
        };
        let mut answer =
            if files.is_empty() { (self.rows)(scope) } else { apart(files.into_iter().map(of_file).collect()) };
        answer.data.drop_empty_columns();
        if scope.has_range() {
            let whole = || (self.rows)(&Scope { traces: scope.traces, ranges: None, is_cancelled: scope.is_cancelled });
            answer.has_elsewhere = answer.data.rows.is_empty() && !whole().data.rows.is_empty();
            answer.add_time_within(scope);
        }
        if answer.longest.is_empty() {
            answer.longest = answer.instances.iter().map(|slices| longest(scope.traces, slices)).collect();
        }
        answer
    }
}

/// The part of the times that lies in the selected range.
const IN_RANGE: Column = Column {
    key: "in_range_ns",
    title: "In range",
    width: 100,
    is_text: false,
    help: "Their time within the selected range. Calls and all other times are of every call that runs in the range, \
           in full, also outside of it",
};

/// The times of which a part lies in the selected range.
const IN_FULL: Column = Column {
    key: "full_ns",
    title: "In full",
    width: 100,
    is_text: false,
    help: "The durations of the calls that run in the selected range, also outside of it. All other times are those \
           within it",
};

/// What the times of a table are while a range is selected.
const OF_CALLS: (&str, &str) = ("Times are of whole calls, also outside of the range", IN_RANGE.help);
const OF_RANGE: (&str, &str) = ("Times are those within the range", IN_FULL.help);

impl Answer {
    /// Adds the time within the selected range, beside the total, and sorts by it; to a table whose times are all
    /// within the range the time in full.
    fn add_time_within(&mut self, scope: &Scope<'_>) {
        if self.instances.len() != self.data.rows.len() || self.data.rows.is_empty() {
            return;
        }
        // Of an operator it is time on the host, beside that of its work on the device, by which it is sorted.
        let at = |key: &str| self.data.columns.iter().position(|column| column.key == key);
        let (of_host, of_all) = (at("host_total_ns"), at("total_ns"));
        let at = of_host.or(of_all).map_or(self.data.columns.len(), |at| at + 1);
        let (mut column, (text, help)) = if self.is_clipped { (IN_FULL, OF_RANGE) } else { (IN_RANGE, OF_CALLS) };
        if of_host.is_some() {
            column.title = if self.is_clipped { "Host in full" } else { "Host in range" };
        }
        // Rows in groups keep their order.
        let by_total =
            of_all.filter(|&total| self.data.rows.is_sorted_by(|a, b| a[total].compare(&b[total], true).is_le()));
        self.data.columns.insert(at, column);
        for (row, instances) in self.data.rows.iter_mut().zip(&self.instances) {
            let time = match self.is_clipped {
                true => totals::durations(scope.traces, instances).total_ns,
                false => scope.time_within(instances),
            };
            row.insert(at, if instances.is_empty() { Cell::Empty } else { Cell::Ns(time) });
        }
        self.head.insert(0, (text.to_owned(), help));
        if by_total.is_some() {
            self.reorder(&self.data.order(Some(Sort { column: at, is_descending: true }), ""));
        }
    }

    /// Puts the rows in this order.
    fn reorder(&mut self, order: &[u32]) {
        fn taken<T: Default>(from: &mut [T], order: &[u32]) -> Vec<T> {
            order.iter().filter_map(|&row| from.get_mut(row as usize).map(std::mem::take)).collect()
        }
        self.data.rows = taken(&mut self.data.rows, order);
        self.instances = taken(&mut self.instances, order);
        self.longest = taken(&mut self.longest, order);
    }
}

/// The longest of some slices; of equal ones the first.
pub fn longest(traces: &[&Trace], slices: &[Instance]) -> Instance {
    let dur = |instance: &Instance| traces[instance.trace as usize].slices.time(instance.slice).dur();
    slices.iter().copied().rev().max_by_key(dur).unwrap_or_default()
}

/// Rows with their slices.
pub fn with_instances<R>(part: &Part<R>, rows: Vec<R>, instances: fn(R) -> Vec<Instance>) -> Answer {
    let data = part.data(&rows);
    Answer { data, instances: rows.into_iter().map(instances).collect(), ..Answer::default() }
}
