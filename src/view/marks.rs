//! The list of marked moments and ranges, with their notes.

use eframe::egui;
use egui_extras::{Column as Width, TableBuilder};

use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::answers::{Subject as _, SubjectKey};
use crate::command::Command;
use crate::figures::{Column, Natural, Sort, format, sort_by_key};
use crate::model::DurNs;
use crate::session::Mark;
use crate::widget::table::{header_ui, number_ui};

const ROW_HEIGHT: f32 = 24.0;

const COLUMNS: [Column; 5] = [
    Column { key: "start_ns", title: "Start", width: 110, is_text: false, help: "Time, or start of the range" },
    Column {
        key: "since_ns",
        title: "Since previous",
        width: 110,
        is_text: false,
        help: "Time since the start of the previous mark",
    },
    Column { key: "dur_ns", title: "Duration", width: 100, is_text: false, help: "Duration of the marked range" },
    Column { key: "note", title: "Note", width: 160, is_text: true, help: "Your note" },
    Column { key: "", title: "", width: 120, is_text: true, help: "" },
];

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
#[derive(Debug)]
pub struct Marks {
    sort: Sort,
    /// The widths of the widest head and number of each column so far, in points.
    needed: [f32; COLUMNS.len()],
    /// What each deletion took, the last at the end, until the clock changes.
    deleted: Vec<Vec<Mark>>,
    /// The traces on whose clock they are.
    of: Option<SubjectKey>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            sort: Sort { column: 0, is_descending: false },
            needed: Default::default(),
            deleted: Vec::new(),
            of: None,
        }
    }
}

/// An action on the row of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowAction {
    Show,
    Delete,
}

impl Marks {
    /// The marks as they are listed: the index of each, and the time since the mark before it.
    fn order(&self, marks: &[Mark]) -> Vec<(usize, Option<DurNs>)> {
        let start = |i: usize| marks.get(i).map(|mark| mark.range.start);
        let since = |i: u32| {
            let i = i as usize;
            Some(start(i)?.saturating_sub(start(i.checked_sub(1)?)?))
        };
        let mut order: Vec<u32> = (0..marks.len() as u32).collect();
        let down = self.sort.is_descending;
        match COLUMNS[self.sort.column].key {
            "since_ns" => sort_by_key(&mut order, down, since),
            "dur_ns" => sort_by_key(&mut order, down, |i| marks.get(i as usize).map(|mark| mark.range.dur())),
            "note" => sort_by_key(&mut order, down, |i| {
                marks.get(i as usize).map(|mark| Natural(mark.note.as_str())).filter(|note| !note.0.is_empty())
            }),
            _ => sort_by_key(&mut order, down, |i| start(i as usize)),
        }
        order.into_iter().map(|i| (i as usize, since(i))).collect()
    }

    fn head_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            let hint = "Mark the start of the selection; without one the middle of the view (M)";
            if ui.button("Mark moment").on_hover_text(hint).clicked() {
                ctx.commands.push(Command::MarkMoment);
            }
            let mark_range = ui.add_enabled(ctx.range.is_some(), egui::Button::new("Mark range"));
            if mark_range.on_hover_text("Mark the selected time range (Shift+M)").clicked() {
                ctx.commands.push(Command::MarkRange);
            }
            if ui.add_enabled(!ctx.marks.is_empty(), egui::Button::new("Delete all")).clicked() {
                self.deleted.push(std::mem::take(ctx.marks));
            }
            let hint = "Bring back the marks that were deleted last (Ctrl+Z)";
            if !self.deleted.is_empty() && ui.button("Undo delete").on_hover_text(hint).clicked() {
                ctx.commands.push(Command::UndoDelete);
            }
        });
    }

    fn table_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let mut table = TableBuilder::new(ui)
            .id_salt("marks")
            .striped(true)
            .sense(egui::Sense::click())
            .auto_shrink(false)
            .min_scrolled_height(0.0)
            .cell_layout(egui::Layout::left_to_right(egui::Align::Center));
        for (column, &needed) in COLUMNS.iter().zip(&self.needed) {
            let width = f32::from(column.width).max(needed);
            table = table.column(match column.key {
                "note" => Width::remainder().at_least(width).clip(true),
                "" => Width::exact(width),
                _ => Width::initial(width).at_least(needed).resizable(true).clip(true),
            });
        }
        let order = self.order(ctx.marks);
        let mut asked = None;
        let mut sort = None;
        let before = self.needed;
        let needed = &mut self.needed;
        let header = |row: egui_extras::TableRow<'_, '_>| sort = header_ui(&COLUMNS, Some(self.sort), row, needed).0;
        table.header(20.0, header).body(|body| {
            body.rows(ROW_HEIGHT, order.len(), |mut row| {
                let (index, since) = order[row.index()];
                let Some(mark) = ctx.marks.get_mut(index) else { return };
                let action = row_ui(mark, since, &mut self.needed, &mut row);
                // The row itself shows its mark, as in other tables.
                let action = action.or_else(|| row.response().double_clicked().then_some(RowAction::Show));
                asked = action.map(|action| (index, action)).or(asked);
            });
        });
        self.sort = sort.unwrap_or(self.sort);
        if self.needed != before {
            ui.ctx().request_repaint();
        }
        match asked {
            Some((index, RowAction::Show)) => show(index, ctx),
            Some((index, RowAction::Delete)) => self.deleted.push(vec![ctx.marks.remove(index)]),
            None => {}
        }
    }
}

/// * `since`: the time since the mark before it.
/// * `needed`: the widths of the columns, see [`Marks::needed`].
fn row_ui(
    mark: &mut Mark,
    since: Option<DurNs>,
    needed: &mut [f32; COLUMNS.len()],
    row: &mut egui_extras::TableRow<'_, '_>,
) -> Option<RowAction> {
    let start = format::moment(mark.range.start, 1);
    let dur = if mark.range.dur() == 0 { "Moment".to_owned() } else { format::duration(mark.range.dur()) };
    row.col(|ui| {
        number_ui(&start, &mut needed[0], ui).on_hover_text(format::duration_exact(mark.range.start));
    });
    row.col(|ui| {
        if let Some(since) = since {
            number_ui(&format::duration(since), &mut needed[1], ui).on_hover_text(format::duration_exact(since));
        }
    });
    row.col(|ui| {
        number_ui(&dur, &mut needed[2], ui).on_hover_text(format::duration_exact(mark.range.dur()));
    });
    row.col(|ui| {
        let edit = egui::TextEdit::singleline(&mut mark.note)
            .id_salt((mark.range.start, mark.range.end, mark.of.clone()))
            .hint_text("Note")
            .desired_width(f32::INFINITY);
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
            ui.label("No marks");
            ui.weak("Press M to mark a moment, or drag over the timeline and press Shift+M to mark a range");
        } else {
            self.table_ui(ctx, ui);
        }
    }

    fn update(&mut self, ctx: &mut ViewContext<'_>, _: &egui::Context) {
        let of = Some(ctx.traces.key());
        if self.of != of {
            self.of = of;
            self.deleted.clear();
        }
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        if *command != Command::UndoDelete {
            return false;
        }
        match self.deleted.pop() {
            Some(marks) => marks.into_iter().for_each(|mark| _ = ctx.add_mark(mark)),
            None => ctx.commands.push(Command::Tell("No mark was deleted that could come back")),
        }
        true
    }

    fn count(&self, ctx: &ViewContext<'_>) -> usize {
        ctx.marks.len()
    }
}
