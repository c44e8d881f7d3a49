//! Which moments and ranges did I mark, and what did I note about them?

use eframe::egui;
use egui_extras::{Column, TableBuilder};

use super::{Content, Place, View, ViewContext, ViewSpec};
use crate::command::Command;
use crate::session::{Mark, TraceKey};
use crate::widget::format;

const ROW_HEIGHT: f32 = 24.0;

/// Its row in the table of views.
pub const SPEC: ViewSpec = ViewSpec {
    id: "marks",
    title: "Marks",
    help: "Show the list of marks with their notes",
    keys: &[],
    place: Place::Bottom,
    content: Content::Any,
    make: || Box::new(Marks::default()),
};

/// The marks tab.
#[derive(Debug, Default)]
pub struct Marks {
    /// The marks before the last deletion, for as long as the clock stays as it was.
    deleted: Option<(TraceKey, Vec<Mark>)>,
}

/// What was clicked at a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Show,
    Delete,
}

impl Marks {
    fn head_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.deleted = self.deleted.take().filter(|(key, _)| *key == TraceKey::new(ctx.traces));
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
                self.deleted = Some((TraceKey::new(ctx.traces), std::mem::take(ctx.marks)));
            }
            if self.deleted.is_some() && ui.button("Undo delete").clicked() {
                // Those that are still there keep what was noted since.
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
            .column(Column::remainder().at_least(160.0).clip(true))
            .column(Column::exact(120.0));
        let header = |mut row: egui_extras::TableRow<'_, '_>| {
            for title in ["Start", "Duration", "Note", ""] {
                row.col(|ui| {
                    ui.strong(title);
                });
            }
        };
        let mut asked = None;
        table.header(20.0, header).body(|body| {
            body.rows(ROW_HEIGHT, ctx.marks.len(), |mut row| {
                let index = row.index();
                let Some(mark) = ctx.marks.get_mut(index) else { return };
                asked = row_ui(mark, &mut row).map(|wish| (index, wish)).or(asked);
            });
        });
        match asked {
            Some((index, Wish::Show)) => show(index, ctx),
            Some((index, Wish::Delete)) => {
                self.deleted = Some((TraceKey::new(ctx.traces), ctx.marks.clone()));
                ctx.marks.remove(index);
            }
            None => {}
        }
    }
}

fn row_ui(mark: &mut Mark, row: &mut egui_extras::TableRow<'_, '_>) -> Option<Wish> {
    let start = format::moment(mark.range.start, 1);
    let dur = if mark.range.dur() == 0 { "Moment".to_owned() } else { format::duration(mark.range.dur()) };
    row.col(|ui| {
        ui.label(&start).on_hover_text(format::duration_exact(mark.range.start));
    });
    row.col(|ui| {
        ui.label(dur).on_hover_text(format::duration_exact(mark.range.dur()));
    });
    row.col(|ui| {
        let edit = egui::TextEdit::singleline(&mut mark.note).hint_text("Note").desired_width(f32::INFINITY);
        ui.add(edit).accessible_name(format!("Note of the mark at {start}"));
    });
    let mut wish = None;
    row.col(|ui| {
        for (text, choice) in [("Show", Wish::Show), ("Delete", Wish::Delete)] {
            if ui.button(text).accessible_name(format!("{text} the mark at {start}")).clicked() {
                wish = Some(choice);
            }
        }
    });
    wish
}

/// Goes to a mark: a range is selected and fills the view, a moment comes to its middle.
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
