//! What ran in the selected time range? By track and by name, as sortable tables.

use std::cmp::Ordering;
use std::sync::Arc;

use eframe::egui::{self, RichText};
use egui_extras::{Column, TableBuilder};

use super::search::track_title;
use super::{Place, View, ViewContext, ViewSpec, has_slices};
use crate::analysis::range_summary::{NameSummary, TrackSummary, join_names, range_summary};
use crate::command::Command;
use crate::job::Memo;
use crate::model::TimeRange;
use crate::session::{OpenTrace, TraceKey};
use crate::widget::{format, table::sort_mark_ui, text::display_name};

const ROW_HEIGHT: f32 = 20.0;

/// Which table is on show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Table {
    #[default]
    Tracks,
    Names,
}

/// One row of either table, ready to show.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    name: String,
    /// Busy share of a track from 0 to 1; of a name, its kind.
    busy: f64,
    kind: &'static str,
    count: u64,
    total_ns: i64,
    self_ns: i64,
}

#[derive(Debug, Default)]
struct Answer {
    tracks: Vec<Line>,
    names: Vec<Line>,
}

impl Answer {
    fn lines(&self, table: Table) -> &[Line] {
        match table {
            Table::Tracks => &self.tracks,
            Table::Names => &self.names,
        }
    }
}

type Question = (TraceKey, TimeRange);

/// Its row in the table of views.
pub const SPEC: ViewSpec = ViewSpec {
    id: "range",
    title: "Range summary",
    help: "Show what ran in the selected time range",
    keys: &[],
    place: Place::Bottom,
    has_content: has_slices,
    make: || Box::new(RangeSummaryView::default()),
};

/// The range summary tab.
#[derive(Debug, Default)]
pub struct RangeSummaryView {
    memo: Memo<Question, Arc<Answer>>,
    /// The answer that `order` belongs to.
    shown: Arc<Answer>,
    table: Table,
    /// Column to sort by, and whether the largest comes first; `None` is the answer's own order.
    sort: Option<(usize, bool)>,
    /// Indices of lines, as sorted.
    order: Vec<usize>,
}

const COLUMNS: usize = 5;

impl Table {
    fn titles(self) -> [&'static str; COLUMNS] {
        match self {
            Self::Tracks => ["Track", "Busy", "Count", "Total", "Self"],
            Self::Names => ["Name", "Kind", "Count", "Total", "Self"],
        }
    }
}

impl Line {
    /// What a cell says.
    fn cell(&self, table: Table, column: usize) -> String {
        match (column, table) {
            (0, _) => display_name(&self.name).into_owned(),
            (1, Table::Tracks) => format!("{:.1} %", self.busy * 100.0),
            (1, Table::Names) => self.kind.to_owned(),
            (2, _) => format::count(self.count),
            (3, _) => format::duration(self.total_ns),
            _ => format::duration(self.self_ns),
        }
    }

    /// The same for a spreadsheet: exact, without units.
    fn exact(&self, table: Table, column: usize) -> String {
        match (column, table) {
            (0, _) => self.name.replace(['\t', '\n', '\r'], " "),
            (1, Table::Tracks) => format!("{:.6}", self.busy),
            (1, Table::Names) => self.kind.to_owned(),
            (2, _) => self.count.to_string(),
            (3, _) => self.total_ns.to_string(),
            _ => self.self_ns.to_string(),
        }
    }

    fn compare(&self, other: &Self, column: usize) -> Ordering {
        match column {
            0 => self.name.cmp(&other.name),
            1 => self.busy.total_cmp(&other.busy).then(self.kind.cmp(other.kind)),
            2 => self.count.cmp(&other.count),
            3 => self.total_ns.cmp(&other.total_ns),
            _ => self.self_ns.cmp(&other.self_ns),
        }
    }
}

impl RangeSummaryView {
    fn sort(&mut self) {
        let lines = self.shown.lines(self.table);
        self.order = (0..lines.len()).collect();
        if let Some((column, is_descending)) = self.sort {
            self.order.sort_by(|&a, &b| {
                let order = lines[a].compare(&lines[b], column);
                if is_descending { order.reverse() } else { order }
            });
        }
    }

    fn head_ui(&mut self, range: TimeRange, is_current: bool, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            for (table, label) in [(Table::Tracks, "By track"), (Table::Names, "By name")] {
                if ui.selectable_label(self.table == table, label).clicked() {
                    (self.table, self.sort) = (table, None);
                    self.sort();
                }
            }
            ui.label(RichText::new(format!("{} selected", format::duration(range.dur()))).strong())
                .on_hover_text(format::duration_exact(range.dur()));
            if ui.button("Zoom to range").on_hover_text("Show only this time").clicked() {
                ctx.commands.push(Command::ZoomToRange);
            }
            let hint = "Copy this table for a spreadsheet, with exact nanoseconds";
            if ui.button("Copy table").on_hover_text(hint).clicked() {
                ui.ctx().copy_text(tsv(self.table, &self.shown, &self.order));
            }
            if ui.button("Clear range").on_hover_text("Select no time range").clicked() {
                *ctx.range = None;
            }
            if !is_current {
                ui.spinner();
                ui.weak("Adding up…");
            }
        });
    }

    fn table_ui(&mut self, ui: &mut egui::Ui) {
        let mut clicked = None;
        let sort = self.sort;
        let (table, shown, order) = (self.table, Arc::clone(&self.shown), &self.order);
        let builder = TableBuilder::new(ui)
            .id_salt(("range summary", table == Table::Tracks))
            .striped(true)
            .auto_shrink(false)
            .min_scrolled_height(0.0)
            .column(Column::remainder().at_least(160.0).clip(true))
            .columns(Column::initial(110.0).resizable(true).clip(true), COLUMNS - 1);
        let header = |mut row: egui_extras::TableRow<'_, '_>| {
            for (column, title) in table.titles().into_iter().enumerate() {
                row.col(|ui| {
                    let head = ui.add(egui::Button::new(RichText::new(title).strong()).frame(false));
                    if let Some((_, is_descending)) = sort.filter(|sort| sort.0 == column) {
                        sort_mark_ui(&head, title, is_descending, ui);
                    }
                    if head.on_hover_text(format!("Sort by {}", title.to_lowercase())).clicked() {
                        clicked = Some(column);
                    }
                });
            }
        };
        builder.header(ROW_HEIGHT, header).body(|body| {
            body.rows(ROW_HEIGHT, order.len(), |mut row| {
                let line = order.get(row.index()).and_then(|&i| shown.lines(table).get(i));
                for column in 0..COLUMNS {
                    row.col(|ui| {
                        if let Some(line) = line {
                            let cell = ui.add(egui::Label::new(line.cell(table, column)).truncate());
                            if column >= 3 {
                                cell.on_hover_text(format!("{} ns", line.exact(table, column)));
                            }
                        }
                    });
                }
            });
        });
        if let Some(column) = clicked {
            // Numbers start with the largest, names with the first.
            let starts_descending = column >= 2 || (column == 1 && table == Table::Tracks);
            self.sort = Some(match sort {
                Some((by, is_descending)) if by == column => (column, !is_descending),
                _ => (column, starts_descending),
            });
            self.sort();
        }
    }
}

fn tsv(table: Table, answer: &Answer, order: &[usize]) -> String {
    let units = match table {
        Table::Tracks => "track\tbusy_share\tcount\ttotal_ns\tself_ns\n",
        Table::Names => "name\tkind\tcount\ttotal_ns\tself_ns\n",
    };
    let mut text = units.to_owned();
    for line in order.iter().filter_map(|&i| answer.lines(table).get(i)) {
        let cells: Vec<String> = (0..COLUMNS).map(|column| line.exact(table, column)).collect();
        text.push_str(&cells.join("\t"));
        text.push('\n');
    }
    text
}

fn summarize(traces: &[OpenTrace], range: TimeRange, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Answer {
    let mut tracks = Vec::new();
    let mut names = Vec::new();
    for (i, open) in traces.iter().enumerate() {
        let summary = range_summary(&open.trace, range.shifted(open.offset.saturating_neg()), is_cancelled);
        tracks.extend(summary.tracks.iter().map(|track| track_line(traces, i, track, range)));
        names.push(summary.names);
    }
    let name_line = |NameSummary { name, kind, count, total_ns, self_ns }| Line {
        name,
        kind: crate::model::SliceKind::label(kind),
        count,
        total_ns,
        self_ns,
        busy: 0.0,
    };
    Answer { tracks, names: join_names(names.into_iter()).into_iter().map(name_line).collect() }
}

fn track_line(traces: &[OpenTrace], trace: usize, summary: &TrackSummary, range: TimeRange) -> Line {
    let TrackSummary { track, count, total_ns, self_ns, busy_ns } = *summary;
    let model = traces.get(trace).map(|open| &open.trace);
    let name = model.map_or_else(String::new, |model| {
        let track = model.track(track);
        format!("{}, {}", model.process(track.process).title(), track.name)
    });
    let busy = busy_ns as f64 / range.dur().max(1) as f64;
    Line { name: track_title(traces, trace, &name), busy, kind: "", count, total_ns, self_ns }
}

impl View for RangeSummaryView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let Some(range) = *ctx.range else {
            ui.label("No time range is selected");
            ui.weak("Drag over the timeline, or select a slice and press R");
            return;
        };
        let question = (TraceKey::new(ctx.traces), range);
        let (traces, waker) = (ctx.traces.to_vec(), ui.ctx().clone());
        let answer = self.memo.get(
            &question,
            move || waker.request_repaint(),
            move |progress| Arc::new(summarize(&traces, range, &|| progress.is_cancelled())),
        );
        if let Some(answer) = answer.filter(|answer| !Arc::ptr_eq(answer, &self.shown)) {
            self.shown = Arc::clone(answer);
            self.sort();
        }
        if self.memo.has_crashed(&question) {
            ui.label("The summary crashed. Please report it");
            return;
        }
        let is_current = self.memo.is_current(&question);
        self.head_ui(range, is_current, ctx, ui);
        if is_current && self.shown.tracks.is_empty() {
            ui.label("Nothing ran in this time range");
        } else {
            self.table_ui(ui);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn the_copied_table_is_exact() {
        let trace = TraceBuilder::from_slices(&[
            ("main", SliceKind::Operator, "tab\there", 0, 1_500_000),
            ("stream 7", SliceKind::Kernel, "gemm", 500_000, 1_000_000),
        ]);
        let traces = [OpenTrace::new(trace.finish(), 0)];
        let answer = summarize(&traces, TimeRange { start: 0, end: 1_000_000 }, &|| false);
        let order: Vec<usize> = (0..answer.names.len()).collect();
        let expected = "name\tkind\tcount\ttotal_ns\tself_ns\n\
                        tab here\tOperator\t1\t1000000\t1000000\n\
                        gemm\tKernel\t1\t500000\t500000\n";
        assert_eq!(tsv(Table::Names, &answer, &order), expected);
        assert_eq!(answer.tracks[1].cell(Table::Tracks, 1), "50.0 %");
    }

    #[test]
    fn a_table_sorts_by_any_column() {
        let line = |name: &str, count, total_ns| Line { name: name.to_owned(), count, total_ns, ..Line::default() };
        let mut view = RangeSummaryView {
            shown: Arc::new(Answer {
                tracks: vec![line("b", 1, 9), line("a", 3, 5), line("c", 2, 7)],
                names: Vec::new(),
            }),
            ..Default::default()
        };
        for (sort, expected) in [((0, false), [1, 0, 2]), ((2, true), [1, 2, 0]), ((3, false), [1, 2, 0])] {
            view.sort = Some(sort);
            view.sort();
            assert_eq!(view.order, expected);
        }
    }
}
