//! Import problems: what could not be read or was changed while reading, and why.

use std::fmt::Write as _;

use eframe::egui::{self, RichText};

use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::figures::{Natural, Sort, escape, files::severity, format};
use crate::model::{ImportReport, Problem, TableAccount, Trace};
use crate::widget::table::small::{Head, small_table_ui, sorted};
use crate::widget::theme;

/// Rows shown per file; readers merge equal reasons, so more are rare.
const MAX_ROWS: usize = 200;
/// Files shown; the number of others, as in an archive of many ranks, is shown below.
const MAX_FILES: usize = 64;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "problems",
    title: "Problems",
    help: "Show what could not be read, and why",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Any,
    make: || Box::new(Problems::default()),
};

/// The problems tab.
#[derive(Debug, Default)]
pub struct Problems {
    /// How the problems of every file are sorted; at first as they were found.
    sort: Option<Sort>,
    /// The same of the counts of tables.
    tables_sort: Option<Sort>,
}

impl View for Problems {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        if ui.button("Copy all").on_hover_text("Copy the import report of every file as text").clicked() {
            let all: String = ctx.traces.iter().map(|open| report_text(&open.trace)).collect();
            ui.ctx().copy_text(all);
        }
        egui::ScrollArea::both().auto_shrink(false).show(ui, |ui| {
            for (i, open) in ctx.traces.iter().take(MAX_FILES).enumerate() {
                ui.push_id(i, |ui| self.file_ui(&open.trace, ui));
            }
            if ctx.traces.len() > MAX_FILES {
                ui.weak(format!("{} more files are in the copied text", ctx.traces.len() - MAX_FILES));
            }
        });
    }

    fn count(&self, ctx: &ViewContext<'_>) -> usize {
        ctx.traces.iter().map(|open| open.trace.import.problems.len()).sum()
    }
}

impl Problems {
    fn file_ui(&mut self, trace: &Trace, ui: &mut egui::Ui) {
        let ImportReport { read, shown, merged, rejected, tables, problems, .. } = &trace.import;
        let path = trace.info.path.display().to_string();
        ui.label(RichText::new(title(trace)).strong()).on_hover_text(path);
        let read = format::of_things(*read, "event");
        let [shown, merged, rejected] = [shown, merged, rejected].map(|&n| format::count(n));
        ui.label(format!("{read} read = {shown} shown + {merged} merged into others + {rejected} rejected"))
            .on_hover_text("Merged events became part of others, such as the end event of a slice");
        if !tables.is_empty() {
            let title = format!("Tables ({})", tables.len());
            egui::CollapsingHeader::new(title).show(ui, |ui| tables_ui(tables, &mut self.tables_sort, ui));
        }
        if problems.is_empty() {
            ui.weak("Read without problems");
            return;
        }
        problems_ui(problems, &mut self.sort, ui);
        if problems.len() > MAX_ROWS {
            ui.weak(format!("{} more are in the copied text", problems.len() - MAX_ROWS));
        }
        ui.add_space(8.0);
    }
}

fn problems_ui(problems: &[Problem], sort: &mut Option<Sort>, ui: &mut egui::Ui) {
    const HEADS: [Head; 4] = [
        Head { is_descending: true, ..Head::text("Severity") },
        Head::number("Count"),
        Head { is_descending: false, ..Head::number("First at byte") },
        Head::text("Problem"),
    ];
    let tokens = theme::tokens(ui.visuals().dark_mode);
    // Database rows have no byte offset.
    let has_offset = problems.iter().any(|problem| problem.first_offset.is_some());
    let columns: &[usize] = if has_offset { &[0, 1, 2, 3] } else { &[0, 1, 3] };
    let rows = sorted(problems, *sort, |problem, column, other| match columns.get(column) {
        Some(0) => problem.severity.cmp(&other.severity),
        Some(1) => problem.count.cmp(&other.count),
        Some(2) => problem.first_offset.cmp(&other.first_offset),
        _ => Natural(&problem.reason).cmp(&Natural(&other.reason)),
    });
    let text = |problem: &Problem, column: usize| match column {
        0 => RichText::new(severity(problem.severity).label).color(tokens.severity[problem.severity as usize]),
        1 => RichText::new(format::count(problem.count)),
        2 => RichText::new(problem.first_offset.map_or_else(|| "unknown".to_owned(), format::count)),
        _ => RichText::new(&problem.reason),
    };
    let heads: Vec<Head> = columns.iter().map(|&column| HEADS[column]).collect();
    let row = |problem: &Problem| columns.iter().map(|&column| text(problem, column)).collect();
    let rows: Vec<Vec<RichText>> = rows.into_iter().take(MAX_ROWS).map(row).collect();
    small_table_ui("problems", &heads, &rows, sort, ui);
}

/// Row counts of each table.
fn tables_ui(tables: &[TableAccount], sort: &mut Option<Sort>, ui: &mut egui::Ui) {
    const HEADS: [Head; 5] = [
        Head::text("Table"),
        Head::number("Rows read"),
        Head::number("Shown"),
        Head::number("Merged"),
        Head::number("Rejected"),
    ];
    let counts = |account: &TableAccount| [account.read, account.shown, account.merged, account.rejected];
    let rows = sorted(tables, *sort, |account, column, other| match column.checked_sub(1) {
        None => Natural(&account.table).cmp(&Natural(&other.table)),
        Some(count) => counts(account)[count].cmp(&counts(other)[count]),
    });
    let row = |account: &TableAccount| {
        let counts = counts(account).map(|count| RichText::new(format::count(count)));
        [RichText::new(&account.table)].into_iter().chain(counts).collect()
    };
    let rows: Vec<Vec<RichText>> = rows.into_iter().take(MAX_ROWS).map(row).collect();
    small_table_ui("table accounts", &HEADS, &rows, sort, ui);
}

fn title(trace: &Trace) -> String {
    match trace.info.title() {
        title if title.is_empty() => "Trace without a file".to_owned(),
        title => title,
    }
}

fn report_text(trace: &Trace) -> String {
    let ImportReport { read, shown, merged, rejected, tables, problems, .. } = &trace.import;
    let path = trace.info.path.display().to_string();
    let mut text = format!("{}\n", escape::visible(&path));
    if let Some(member) = &trace.info.member {
        text = format!("{text}  {}\n", escape::visible(member));
    }
    // Writing into a String cannot fail.
    let _ = writeln!(text, "  {read} events read = {shown} shown + {merged} merged + {rejected} rejected");
    for TableAccount { table, read, shown, merged, rejected } in tables {
        let table = escape::visible(table);
        let _ = writeln!(text, "  {table}: {read} rows = {shown} shown + {merged} merged + {rejected} rejected");
    }
    for problem in problems {
        let at = problem.first_offset.map(|offset| format!(", first at byte {offset}")).unwrap_or_default();
        let (word, reason) = (severity(problem.severity).label, escape::visible(&problem.reason));
        let _ = writeln!(text, "  {word}: {} × {reason}{at}", problem.count);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Severity;

    #[test]
    fn the_copied_text_has_every_problem() {
        let mut trace = Trace::default();
        trace.info.path = "/traces/a.json".into();
        trace.import.read = 7;
        trace.import.shown = 5;
        trace.import.reject(Severity::Warn, "Not a number", 2, Some(99));
        let text = report_text(&trace);
        assert!(text.contains("/traces/a.json") && text.contains("7 events read = 5 shown + 0 merged + 2 rejected"));
        assert!(text.contains("Warning: 2 × Not a number, first at byte 99"));
    }
}
