//! A table with sortable columns and a cursor that paints only visible rows.

mod cells;
mod header;
pub mod small;
#[cfg(test)]
mod tests;

use eframe::egui::{self, Align, Event, EventFilter, Key, Layout, Sense, WidgetInfo};
use egui_extras::{Column as Width, TableBuilder, TableRow};

pub use self::cells::number_ui;
use self::cells::{CutNames, aligned, branch_ui, cell_ui};
pub use self::header::header_ui;
use crate::figures::work::INDENT;
use crate::figures::{Cell, Column, Order, Rows, Sort, format};

const ROW_HEIGHT: f32 = 20.0;
/// The widest column of text gives way to others down to this width, or this part of the room: names are what rows are
/// found by.
const LEAST_NAME: f32 = 220.0;
const LEAST_NAME_SHARE: f32 = 0.25;
/// Where that brings every column into sight, words give way further: the widest column of them down to the first of
/// these widths in points, the others to the second.
const LEAST_IN_SIGHT: [f32; 2] = [140.0, 66.0];
/// Words that end where the room does have this width at least, in points.
const LEAST_WORDS: f32 = 90.0;
/// Rows per page: screen positions are `f32`, which is inexact beyond this many.
const PAGE: usize = 500_000;
/// To the right of numbers.
const MARGIN: f32 = 4.0;
/// Room for a scroll bar, in points.
const BAR_WIDTH: f32 = 6.0;

/// What the user did in a table in one frame. Rows are indices into [`Rows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Sort(Sort),
    /// The cursor moved here.
    Select(usize),
    /// Show this row in the view that it comes from.
    Open(usize),
    /// What [`TableSpec::extra`] names.
    Extra(usize),
    /// Fold or unfold this row of a tree.
    Fold(usize),
    CopyName(usize),
    CopyRow(usize),
    CopyAll,
    Export,
}

/// The place of a row in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// How many rows are around it.
    pub depth: u32,
    /// Whether it is folded; `None` without rows below it.
    pub is_folded: Option<bool>,
    pub parent: Option<usize>,
}

/// How a table is shown.
#[derive(Clone, Copy)]
pub struct TableSpec<'a> {
    /// Identifies its column widths, and names it for screen readers.
    pub name: &'a str,
    pub order: &'a Order,
    pub sort: Option<Sort>,
    /// The row that the cursor is on.
    pub selected: Option<usize>,
    /// Whether to scroll to the cursor.
    pub is_moved: bool,
    /// Whether other rows came, which are shown from the first unless the cursor moved.
    pub is_new: bool,
    /// What [`Action::Open`] does, for the menu; `None` if nothing.
    pub open: Option<&'a str>,
    /// What [`Action::Extra`] does, for the menu; `None` if nothing.
    pub extra: Option<&'a str>,
    /// The place of each row, if the rows are a tree: its first column folds and unfolds them.
    pub branch: Option<&'a dyn Fn(usize) -> Branch>,
}

impl std::fmt::Debug for TableSpec<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Paints a table. Up, down, page, home and end move the cursor, Enter opens, Ctrl+C
/// copies the name of its row, a click on a column header sorts. In a
/// tree left folds a row or goes to the one around it, right unfolds it or goes to the first below it.
pub fn table_ui(data: &dyn Rows, spec: TableSpec<'_>, ui: &mut egui::Ui) -> Option<Action> {
    let mut action = None;
    let keyboard = ui.scope_id().with((spec.name, "keyboard"));
    let column_keys: Vec<&str> = data.columns().iter().map(|column| column.key).collect();
    let widths_id = keyboard.with(&column_keys);
    let known: Widths = ui.data(|kept| kept.get_temp(widths_id)).unwrap_or_default();
    let mut widths = known.clone();
    widths.needed.resize(data.columns().len(), 0.0);
    let names_id = keyboard.with("names");
    let mut names: CutNames = ui.data(|kept| kept.get_temp(names_id)).unwrap_or_default();
    let n_rows = spec.order.rows().len();
    let (first, is_turned) = page_ui(spec, keyboard.with("page"), ui);
    // The bars lie beside the last number and the last row, not on them.
    let scroll = std::mem::replace(&mut ui.spacing_mut().scroll.floating_allocated_width, BAR_WIDTH);
    let (room, spacing) = (room((n_rows - first).min(PAGE), ui), ui.spacing().item_spacing.x);
    let area = egui::ScrollArea::horizontal().id_salt(spec.name).auto_shrink(false);
    let shown = area.show(ui, |ui| {
        let mut table = TableBuilder::new(ui)
            .id_salt((spec.name, column_keys))
            .striped(true)
            .cell_layout(Layout::left_to_right(Align::Center))
            .sense(Sense::click())
            .auto_shrink(false)
            .animate_scrolling(false)
            .min_scrolled_height(0.0);
        if widths.fit(data.columns(), room, spacing) {
            table.reset();
        }
        for (&width, &least) in widths.shown.iter().zip(&widths.needed) {
            let least = least.max(36.0);
            table = table.column(Width::initial(width.max(least)).at_least(least).resizable(true).clip(true));
        }
        // A page may be turned in the frame in which the cursor moves.
        let cursor = spec.cursor_position().filter(|_| spec.is_moved && !is_turned);
        if let Some(row) = cursor.and_then(|at| at.checked_sub(first)) {
            table = table.scroll_to_row(row, None);
        } else if is_turned || spec.is_new {
            table = table.scroll_to_row(0, None);
        }
        let header = |row: TableRow<'_, '_>| {
            let (sort, shown) = header_ui(data.columns(), spec.sort, row, &mut widths.needed);
            (action, widths.shown) = (sort.map(Action::Sort), shown);
        };
        table.header(ROW_HEIGHT, header).body(|body| {
            body.rows(ROW_HEIGHT, (n_rows - first).min(PAGE), |row| {
                if let Some(asked) = row_ui(data, spec, first, row, (&mut widths.needed, &mut names)) {
                    action = Some(asked);
                }
            });
        });
    });
    ui.spacing_mut().scroll.floating_allocated_width = scroll;
    if names.turn() {
        ui.ctx().request_repaint();
        ui.data_mut(|kept| kept.insert_temp(names_id, names));
    }
    if widths != known {
        if (&widths.needed, &widths.fitted) != (&known.needed, &known.fitted) {
            ui.ctx().request_repaint();
        }
        ui.data_mut(|kept| kept.insert_temp(widths_id, widths));
    }
    with_keys(spec, (keyboard, shown.inner_rect), action, ui)
}

/// What was done in a table, by mouse or, while it has the keyboard, by keys; a click in a row gives it the keyboard.
///
/// * `by_mouse`: what was done by mouse.
fn with_keys(
    spec: TableSpec<'_>,
    (id, rect): (egui::Id, egui::Rect),
    by_mouse: Option<Action>,
    ui: &egui::Ui,
) -> Option<Action> {
    let response = ui.interact(rect, id, Sense::focusable_noninteractive());
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Table, true, spec.name));
    if matches!(by_mouse, Some(Action::Select(_) | Action::Open(_))) {
        response.request_focus();
    }
    if response.has_focus() {
        let horizontal_arrows = spec.branch.is_some();
        let filter = EventFilter { vertical_arrows: true, horizontal_arrows, ..Default::default() };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(id, filter));
        let page = (rect.height() / (ROW_HEIGHT + ui.spacing().item_spacing.y)) as isize - 2;
        return by_mouse.or_else(|| keys(spec, page.max(1), ui));
    }
    by_mouse
}

/// The width for the columns of a table: beside the scroll bar, if its rows need one.
fn room(n_rows: usize, ui: &egui::Ui) -> f32 {
    let bar = ui.spacing().scroll.allocated_width();
    // With the line of the heads.
    let height = (n_rows + 1) as f32 * (ROW_HEIGHT + ui.spacing().item_spacing.y);
    ui.available_width() - if height > ui.available_height() - bar { bar } else { 0.0 }
}

/// Turns the pages of a table that has more than one, to that of a moved cursor by itself. The first row on screen, and
/// whether the page was turned by hand.
fn page_ui(spec: TableSpec<'_>, id: egui::Id, ui: &mut egui::Ui) -> (usize, bool) {
    let n_rows = spec.order.rows().len();
    let last = n_rows.saturating_sub(1) / PAGE;
    if last == 0 {
        return (0, false);
    }
    let known = ui.data(|kept| kept.get_temp::<usize>(id)).unwrap_or_default().min(last);
    let known = if spec.is_new { 0 } else { known };
    let shown = spec.cursor_position().filter(|_| spec.is_moved).map_or(known, |at| at / PAGE);
    let mut page = shown;
    ui.horizontal_wrapped(|ui| {
        if ui.add_enabled(page > 0, egui::Button::new("Previous page")).clicked() {
            page -= 1;
        }
        if ui.add_enabled(page < last, egui::Button::new("Next page")).clicked() {
            page += 1;
        }
        let (from, to) = (page * PAGE + 1, ((page + 1) * PAGE).min(n_rows));
        ui.label(format!("Rows {} to {}", format::count(from as u64), format::count(to as u64)));
    });
    ui.data_mut(|kept| kept.insert_temp(id, page));
    (page * PAGE, page != shown)
}

/// The widths of the columns of a table, in points.
#[derive(Clone, Debug, Default, PartialEq)]
struct Widths {
    /// Of the title and the widest number that was on screen: no column of numbers is narrower, so that neither is cut.
    needed: Vec<f32>,
    /// As the table was shown last; empty before.
    shown: Vec<f32>,
    /// What each column of words gave so that all are in sight; empty if nothing.
    given: Vec<f32>,
    /// The room and the needed widths that they fit.
    fitted: Option<(f32, Vec<f32>)>,
}

impl Widths {
    /// Where the room or a number has changed, the widest column of text gives or takes the difference, so that no
    /// column leaves the room as long as there is enough; the others keep their widths. Whether it did.
    fn fit(&mut self, columns: &[Column], room: f32, spacing: f32) -> bool {
        let now = Some((room, self.needed.clone()));
        if self.fitted == now {
            return false;
        }
        if self.shown.len() != columns.len() {
            self.shown = columns.iter().map(|column| f32::from(column.width)).collect();
        }
        // Asked for anew.
        let given = std::mem::take(&mut self.given);
        self.shown.iter_mut().zip(given).for_each(|(shown, given)| *shown += given);
        let wide = self.shown.iter().zip(&self.needed).map(|(&shown, &needed)| shown.max(needed) + spacing);
        let rest = room - wide.sum::<f32>();
        let names = || columns.iter().enumerate().filter(|(_, column)| column.is_text);
        if let Some((i, column)) = names().max_by_key(|(_, column)| column.width) {
            let least = LEAST_NAME.max(room * LEAST_NAME_SHARE).min(f32::from(column.width));
            self.shown[i] = (self.shown[i] + rest).max(least);
            let words: Vec<usize> = names().map(|(i, _)| i).collect();
            if !self.all_in_sight(&words, i, room, spacing) {
                self.end_at_a_border(&words, room, spacing);
            }
        }
        // The widths that an earlier run has kept are known once they were shown.
        let is_shown = self.fitted.is_some();
        self.fitted = if is_shown { now } else { Some((0.0, Vec::new())) };
        is_shown
    }
}

impl Widths {
    /// Where the columns do not fit, has those of words give way if then all are in sight. Whether they are.
    ///
    /// * `words`: indices of the columns of words; `main` is the widest of them.
    fn all_in_sight(&mut self, words: &[usize], main: usize, room: f32, spacing: f32) -> bool {
        let wide = self.shown.iter().zip(&self.needed).map(|(&shown, &needed)| shown.max(needed) + spacing);
        let missing = wide.sum::<f32>() - room;
        if missing <= 0.0 {
            return true;
        }
        // The names that rows are found by come last.
        for [least_name, least] in [[f32::INFINITY, LEAST_WORDS], LEAST_IN_SIGHT] {
            let can_give = |i: usize| (self.shown[i] - if i == main { least_name } else { least }).max(0.0);
            let all: f32 = words.iter().map(|&i| can_give(i)).sum();
            if missing <= all {
                let mut given = vec![0.0; self.shown.len()];
                words.iter().for_each(|&i| given[i] = can_give(i) * missing / all);
                self.shown.iter_mut().zip(&given).for_each(|(shown, given)| *shown -= given);
                self.given = given;
                return true;
            }
        }
        false
    }

    /// Where the columns do not fit, has one of them end where the room does, so that no number is cut in half there:
    /// words take what there is, and of a number the widest column of words before it takes the rest of the room, or
    /// gives up to a third of its own.
    ///
    /// * `words`: indices of the columns of words.
    fn end_at_a_border(&mut self, words: &[usize], room: f32, spacing: f32) {
        let mut ends = 0.0;
        let wide: Vec<f32> =
            self.shown.iter().zip(&self.needed).map(|(&shown, &needed)| shown.max(needed) + spacing).collect();
        let next = wide.iter().position(|width| {
            ends += width;
            ends > room + 0.5
        });
        let Some(next) = next else { return };
        let (missing, left) = (ends - room, wide[next] - (ends - room));
        // Words are legible in less room, and more of use than the void in a column before them.
        if words.contains(&next) && left - spacing >= LEAST_WORDS {
            self.shown[next] = left - spacing;
            return;
        }
        let before = words.iter().copied().filter(|&column| column < next);
        let Some(words) = before.max_by(|&a, &b| self.shown[a].total_cmp(&self.shown[b])) else { return };
        let can_give = missing <= left && missing <= self.shown[words] / 3.0;
        self.shown[words] += if can_give { -missing } else { left };
    }
}

impl TableSpec<'_> {
    /// Position of the cursor among the listed rows.
    fn cursor_position(&self) -> Option<usize> {
        self.order.place(self.selected?)
    }
}

fn keys(spec: TableSpec<'_>, page: isize, ui: &egui::Ui) -> Option<Action> {
    let rows = spec.order.rows();
    let last = rows.len().checked_sub(1)?;
    let all = isize::MAX / 2;
    let by = |key| match key {
        Key::ArrowDown => Some(1),
        Key::ArrowUp => Some(-1),
        Key::PageDown => Some(page),
        Key::PageUp => Some(-page),
        Key::Home => Some(-all),
        Key::End => Some(all),
        _ => None,
    };
    let pressed = ui.input(|input| {
        let keys = input.events.iter().filter_map(|event| match event {
            Event::Key { key, pressed: true, modifiers, .. } if modifiers.is_none() => Some(*key),
            _ => None,
        });
        keys.collect::<Vec<_>>()
    });
    let at = spec.cursor_position();
    let row = |at: usize| rows.get(at).map(|&row| row as usize);
    if ui.input(|input| input.events.contains(&Event::Copy)) {
        return Some(Action::CopyName(row(at?)?));
    }
    if pressed.contains(&Key::Enter) {
        return Some(Action::Open(row(at?)?));
    }
    let is_left = pressed.contains(&Key::ArrowLeft);
    if let Some(branch) = spec.branch.filter(|_| is_left || pressed.contains(&Key::ArrowRight)) {
        let row = row(at?)?;
        let Branch { is_folded, parent, .. } = branch(row);
        return match is_folded {
            // Folds, or unfolds.
            Some(is_folded) if is_folded != is_left => Some(Action::Fold(row)),
            Some(_) if !is_left => Some(Action::Select(row + 1)),
            _ => parent.filter(|_| is_left).map(Action::Select),
        };
    }
    let steps: Vec<isize> = pressed.into_iter().filter_map(by).collect();
    if steps.is_empty() {
        return None;
    }
    // Without a cursor the first key puts it on the first row.
    let to = steps.into_iter().fold(at.map_or(-1, |at| at as isize), isize::saturating_add);
    Some(Action::Select(row((to.max(0) as usize).min(last))?))
}

/// * `first`: the first row of the page.
/// * `needed`: the width of the widest number of each column so far, in points.
/// * `names`: the names that are on screen.
fn row_ui(
    data: &dyn Rows,
    spec: TableSpec<'_>,
    first: usize,
    mut row: TableRow<'_, '_>,
    (needed, names): (&mut [f32], &mut CutNames),
) -> Option<Action> {
    let index = *spec.order.rows().get(first + row.index())? as usize;
    let cells = data.row(index);
    row.set_selected(spec.selected == Some(index));
    let mut folded = None;
    for (i, (column, cell)) in data.columns().iter().zip(&*cells).enumerate() {
        let in_full = || data.row_in_full(index).get(i).cloned().unwrap_or_default();
        let branch = spec.branch.filter(|_| i == 0).map(|branch| branch(index));
        row.col(|ui| {
            aligned(column, ui, |ui| {
                let Some(branch) = branch else {
                    // Of a tree that is listed: rows above are not around those below.
                    let listed = cell.as_name().filter(|name| i == 0 && name.starts_with(INDENT));
                    let listed = listed.map(|name| Cell::name(name.trim_start()));
                    let cell = listed.as_ref().unwrap_or(cell);
                    let width = cell_ui(cell, !column.is_text, in_full, names, ui);
                    if let Some(needed) = needed.get_mut(i).filter(|_| !column.is_text) {
                        *needed = needed.max(width.ceil());
                    }
                    return;
                };
                // Elsewhere spaces stand for the levels.
                let name = cell.as_name().map(|name| Cell::name(name.trim_start()));
                if branch_ui(branch, cell, ui) {
                    folded = Some(Action::Fold(index));
                }
                cell_ui(name.as_ref().unwrap_or(cell), false, in_full, names, ui);
            });
        });
    }
    let response = row.response();
    if spec.selected == Some(index) {
        outline_ui(&response);
    }
    let mut action = folded;
    if action.is_none() && response.double_clicked() {
        action = Some(Action::Open(index));
    } else if action.is_none() && (response.clicked() || response.secondary_clicked()) {
        action = Some(Action::Select(index));
    }
    response.context_menu(|ui| {
        let choices = [
            (spec.open.unwrap_or_default(), Action::Open(index)),
            (spec.extra.unwrap_or_default(), Action::Extra(index)),
            ("Copy name", Action::CopyName(index)),
            ("Copy row", Action::CopyRow(index)),
            ("Copy table", Action::CopyAll),
            ("Export as CSV…", Action::Export),
        ];
        for (label, choice) in choices.into_iter().filter(|choice| !choice.0.is_empty()) {
            if ui.button(label).clicked() {
                action = Some(choice);
                ui.close();
            }
        }
    });
    action
}

/// The line around the row that the cursor is on: its background alone differs little from that of others.
fn outline_ui(row: &egui::Response) {
    let style = row.ctx.global_style();
    let painter = row.ctx.layer_painter(row.layer_id).with_clip_rect(row.interact_rect);
    painter.rect_stroke(row.interact_rect, 0.0, (1.0, style.visuals.hyperlink_color), egui::StrokeKind::Inside);
}
