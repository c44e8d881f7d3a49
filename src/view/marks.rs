//! The list of marked moments and ranges, with their notes.

use eframe::egui;
use egui_extras::{Column, TableBuilder};

use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::answers::{Subject as _, SubjectKey};
use crate::command::Command;
use crate::figures::format;
use crate::model::TimeNs;
use crate::session::Mark;

const ROW_HEIGHT: f32 = 24.0;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "marks",
    title: "Marks",
    help: "Show the list of marks with their notes",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Any,
    make: || Box::new(Marks::default()),
};

/// The marks tab.
#[derive(Debug, Default)]
pub struct Marks {
    /// The marks before the last deletion, until the clock changes.
    deleted: Option<(SubjectKey, Vec<Mark>)>,
}

/// An action on the row of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowAction {
    Show,
    Delete,
}

impl Marks {
    fn head_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.deleted = self.deleted.take().filter(|(key, _)| *key == ctx.traces.key());
        ui.horizontal_wrapped(|ui| {
            let hint = "Mark the start of the selection, or the middle of the view (M)";
            if ui.button("Mark moment").on_hover_text(hint).clicked() {
                ctx.commands.push(Command::MarkMoment);
            }
            let mark_range = ui.add_enabled(ctx.range.is_some(), egui::Button::new("Mark range"));
            if mark_range.on_hover_text("Mark the selected time range (Shift+M)").clicked() {
                ctx.commands.push(Command::MarkRange);
            }
            if ui.add_enabled(!ctx.marks.is_empty(), egui::Button::new("Delete all")).clicked() {
                self.deleted = Some((ctx.traces.key(), std::mem::take(ctx.marks)));
            }
            if self.deleted.is_some() && ui.button("Undo delete").clicked() {
                // Marks that still exist keep their present notes.
                self.deleted.take().into_iter().flat_map(|(_, marks)| marks).for_each(|mark| ctx.add_mark(mark));
            }
        });
    }

    fn table_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let table = TableBuilder::new(ui)
            .id_salt("marks")
            .striped(true)
            .auto_shrink(false)
            .min_scrolled_height(0.0)
            .cell_layout(egui::Layout::left_to_right(egui::Align::Center))
            .column(Column::initial(120.0).resizable(true).clip(true))
            .column(Column::initial(110.0).resizable(true).clip(true))
            .column(Column::initial(110.0).resizable(true).clip(true))
            .column(Column::remainder().at_least(160.0).clip(true))
            .column(Column::exact(120.0));
        let header = |mut row: egui_extras::TableRow<'_, '_>| {
            for title in ["Start", "Since previous", "Duration", "Note", ""] {
                row.col(|ui| {
                    ui.strong(title);
                });
            }
        };
        let mut asked = None;
        table.header(20.0, header).body(|body| {
            body.rows(ROW_HEIGHT, ctx.marks.len(), |mut row| {
                let index = row.index();
                let before = index.checked_sub(1).and_then(|before| ctx.marks.get(before)).map(|mark| mark.range.start);
                let Some(mark) = ctx.marks.get_mut(index) else { return };
                asked = row_ui(mark, before, &mut row).map(|action| (index, action)).or(asked);
            });
        });
        match asked {
            Some((index, RowAction::Show)) => show(index, ctx),
            Some((index, RowAction::Delete)) => {
                self.deleted = Some((ctx.traces.key(), ctx.marks.clone()));
                ctx.marks.remove(index);
            }
            None => {}
        }
    }
}

/// * `before`: the start of the mark above.
fn row_ui(mark: &mut Mark, before: Option<TimeNs>, row: &mut egui_extras::TableRow<'_, '_>) -> Option<RowAction> {
    let start = format::moment(mark.range.start, 1);
    let dur = if mark.range.dur() == 0 { "Moment".to_owned() } else { format::duration(mark.range.dur()) };
    row.col(|ui| {
        ui.label(&start).on_hover_text(format::duration_exact(mark.range.start));
    });
    row.col(|ui| {
        if let Some(since) = before.map(|before| mark.range.start.saturating_sub(before)) {
            ui.label(format::duration(since)).on_hover_text(format::duration_exact(since));
        }
    });
    row.col(|ui| {
        ui.label(dur).on_hover_text(format::duration_exact(mark.range.dur()));
    });
    row.col(|ui| {
        let edit = egui::TextEdit::singleline(&mut mark.note).hint_text("Note").desired_width(f32::INFINITY);
        ui.add(edit).accessible_name(format!("Note of the mark at {start}"));
    });
    let mut action = None;
    row.col(|ui| {
        for (text, choice) in [("Show", RowAction::Show), ("Delete", RowAction::Delete)] {
            if ui.button(text).accessible_name(format!("{text} the mark at {start}")).clicked() {
                action = Some(choice);
            }
        }
    });
    action
}

/// Shows a mark: selects and fits a range, centers a moment.
fn show(index: usize, ctx: &mut ViewContext<'_>) {
    let Some(&Mark { range, .. }) = ctx.marks.get(index) else { return };
    if range.dur() > 0 {
        *ctx.range = Some(range);
        ctx.commands.push(Command::ZoomToRange);
    } else {
        ctx.center_on(range.start);
    }
}

impl View for Marks {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.head_ui(ctx, ui);
        if ctx.marks.is_empty() {
            ui.label("Nothing is marked");
            ui.weak("Press M to mark a moment, or drag over the timeline and press Shift+M to mark a range");
        } else {
            self.table_ui(ctx, ui);
        }
    }

    fn count(&self, ctx: &ViewContext<'_>) -> usize {
        ctx.marks.len()
    }
}
