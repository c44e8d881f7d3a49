//! One table on screen: its rows, their order, its cursor, and what is copied from it.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use eframe::egui;

use super::tree::{Folds, Tree};
use crate::analysis::totals::Instance;
use crate::answers::{self, Analysis, Answers, Query, Work};
use crate::command::Command;
use crate::figures::memory::AllocationRows;
use crate::figures::{Cell, Column, Data, Order, Rows, Sort, csv, escape, tsv};
use crate::job::{Job, Poll, Progress};
use crate::widget::busy::busy_ui;
use crate::widget::table::{Action, Branch, TableSpec, table_ui};
use crate::widget::together::together_ui;

/// A table with the slices that its rows stand for.
#[derive(Debug, Default)]
pub struct Answer {
    pub data: Data,
    /// For each row the slice to show: the longest of it.
    pub longest: Vec<Instance>,
    /// For each row its slices, sorted; empty where they are not needed.
    pub instances: Vec<Vec<Instance>>,
    /// Figures of all rows together and remarks on them, each with its explanation.
    pub head: Vec<(String, &'static str)>,
    /// The tree that the rows are in their own order.
    pub tree: Option<Tree>,
    /// Whether its times are those within the selected range, not of whole calls that run in it.
    pub is_clipped: bool,
    /// Of an empty table: whether the whole recording has rows, of which none is in the selected range.
    pub has_elsewhere: bool,
    /// Of an empty table: what to say in place of what is said of such tables, if another advice fits these files.
    pub empty: Option<[&'static str; 2]>,
}

impl Rows for Answer {
    fn columns(&self) -> &[Column] {
        self.data.columns()
    }

    fn n_rows(&self) -> usize {
        self.data.n_rows()
    }

    fn row(&self, row: usize) -> Cow<'_, [Cell]> {
        self.data.row(row)
    }

    fn order(&self, sort: Option<Sort>, filter: &str) -> Vec<u32> {
        self.data.order(sort, filter)
    }
}

/// Finds the row of another table, the last one, that stands for the same as a row of the first.
pub type FindSameRow<T> = fn(&T, usize, &T) -> Option<usize>;

/// The rows of a [`Grid`].
pub trait Table: Rows + Sized + Send + Sync + 'static {
    /// In O(rows). Without it the cursor is taken away when another table comes.
    const SAME_ROW: Option<FindSameRow<Self>> = None;

    /// As [`Rows::order`]; `None` if the work was cancelled.
    fn ordered(&self, sort: Option<Sort>, filter: &str, _work: &Work<'_>) -> Option<Vec<u32>> {
        Some(self.order(sort, filter))
    }

    /// The tree that the rows are in their own order, if they are one.
    fn tree(&self) -> Option<&Tree> {
        None
    }
}

impl Table for Answer {
    const SAME_ROW: Option<FindSameRow<Self>> = Some(same_row);

    fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }
}

impl Table for AllocationRows {}

/// The row of `other` with the same names and shapes, in a tree with the same path.
pub fn same_row(table: &Answer, row: usize, other: &Answer) -> Option<usize> {
    if let (Some(tree), Some(other)) = (&table.tree, &other.tree) {
        return tree.same_row(row, other);
    }
    let is_name = |cell: &&Cell| cell.as_name().is_some() || matches!(cell, Cell::Sides(_));
    let wanted: Vec<&Cell> = table.data.rows.get(row)?.iter().filter(is_name).collect();
    let is_same = |row: &Vec<Cell>| row.iter().filter(is_name).eq(wanted.iter().copied());
    other.data.rows.iter().position(is_same).filter(|_| !wanted.is_empty())
}

/// The order of a table's rows, of those that fit the filter.
#[derive(Debug)]
struct Ordered<T> {
    sort: Option<Sort>,
    filter: String,
    /// Of a tree that is neither sorted nor filtered.
    folds: Option<Arc<Folds>>,
    rows: PhantomData<fn(&T)>,
}

impl<T> Clone for Ordered<T> {
    fn clone(&self) -> Self {
        Self { sort: self.sort, filter: self.filter.clone(), folds: self.folds.clone(), rows: PhantomData }
    }
}

impl<T> PartialEq for Ordered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.sort == other.sort && self.filter == other.filter && self.folds == other.folds
    }
}

impl<T: Table> Analysis for Ordered<T> {
    type Of = Arc<T>;
    type Output = Order;
    const NAME: &'static str = "Sorting the table";

    fn run(&self, of: &Arc<T>, work: &Work<'_>) -> Option<Order> {
        let rows = match of.tree().zip(self.folds.as_ref()) {
            Some((tree, folds)) => folds.listed(tree),
            None => of.ordered(self.sort, &self.filter, work)?,
        };
        let order = Order::new(rows, of.n_rows());
        Some(if self.sort.is_none() && self.folds.is_none() { order.find_sort(&**of) } else { order })
    }
}

/// The row that stands for the same as a row of another table.
#[derive(Debug)]
struct SameRow<T> {
    other: Weak<T>,
    row: usize,
}

impl<T> Clone for SameRow<T> {
    fn clone(&self) -> Self {
        Self { other: Weak::clone(&self.other), row: self.row }
    }
}

impl<T> PartialEq for SameRow<T> {
    fn eq(&self, other: &Self) -> bool {
        self.other.ptr_eq(&other.other) && self.row == other.row
    }
}

impl<T: Table> Analysis for SameRow<T> {
    type Of = Arc<T>;
    type Output = Option<usize>;
    const NAME: &'static str = "Looking for the row of the cursor";

    fn run(&self, of: &Arc<T>, _: &Work<'_>) -> Option<Option<usize>> {
        let other = self.other.upgrade();
        Some(T::SAME_ROW.zip(other).and_then(|(same_row, other)| same_row(&other, self.row, of)))
    }
}

/// Rows that are sorted within a frame.
const FEW: usize = 500;

/// What becomes of the text of a table.
#[derive(Debug)]
enum Target {
    Clipboard,
    /// A file of this name, to begin with.
    File(String),
}

/// A table that is sorted, and what is on screen until it is. Both would be gone, and nothing be on screen, where
/// tables come faster than they are sorted, as while the moment of memory plays.
#[derive(Debug)]
struct Coming<T> {
    next: Arc<T>,
    _on_screen: Option<(Arc<T>, Arc<Order>)>,
}

/// A table on screen. Keeps no table alive once it is sorted: the store drops it with its trace.
#[derive(Debug)]
pub struct Grid<T: Table = Answer> {
    pub filter: String,
    /// As in [`Self::new`].
    pub extra: Option<&'static str>,
    sort: Option<Sort>,
    /// The order on screen, while another is asked for.
    shown_sort: Option<Sort>,
    folds: Arc<Folds>,
    selected: Option<usize>,
    is_moved: bool,
    /// Whether other rows came: what was scrolled was another table, or was so before a restart.
    is_new: bool,
    order: Query<Ordered<T>>,
    same_row: Query<SameRow<T>>,
    /// What is on screen: a table and the order of its rows.
    shown: Option<(Weak<T>, Weak<Order>)>,
    coming: Option<Coming<T>>,
    text: Option<(Target, Job<String>)>,
}

impl<T: Table> Default for Grid<T> {
    fn default() -> Self {
        Self {
            filter: String::new(),
            extra: None,
            sort: None,
            shown_sort: None,
            folds: Arc::default(),
            selected: None,
            is_moved: false,
            is_new: true,
            order: Query::default(),
            same_row: Query::default(),
            shown: None,
            coming: None,
            text: None,
        }
    }
}

impl<T: Table> Grid<T> {
    /// * `extra`: a further entry of the rows' menu, for [`Action::Extra`].
    pub fn new(extra: Option<&'static str>) -> Self {
        Self { extra, ..Self::default() }
    }

    /// The table on screen, and the row that the cursor is on.
    pub fn shown(&self) -> Option<(Arc<T>, Option<usize>)> {
        Some((self.shown.as_ref()?.0.upgrade()?, self.selected))
    }

    fn ordered(&self) -> Option<(Arc<T>, Arc<Order>)> {
        let (table, order) = self.shown.as_ref()?;
        Some((table.upgrade()?, order.upgrade()?))
    }

    /// The order of the rows on screen.
    pub fn order(&self) -> Option<Arc<Order>> {
        Some(self.ordered()?.1)
    }

    /// How many rows are listed, of how many.
    pub fn counts(&self) -> (u64, u64) {
        let counts = self.ordered().map(|(table, order)| (order.rows().len() as u64, table.n_rows() as u64));
        counts.unwrap_or_default()
    }

    /// Puts the cursor on a row and scrolls there; unfolds what hides it.
    pub fn go(&mut self, row: usize) {
        self.selected = Some(row);
        self.is_moved = true;
        let shown = self.shown();
        let Some(tree) = shown.as_ref().and_then(|(table, _)| table.tree()) else { return };
        let hiding: Vec<usize> = self.folds.hiding(tree, row).collect();
        if !hiding.is_empty() {
            let folds = Arc::make_mut(&mut self.folds);
            hiding.into_iter().for_each(|row| folds.toggle(tree, row));
        }
    }

    /// Folds or unfolds a row of a tree. The cursor leaves what is hidden.
    fn fold(&mut self, tree: &Tree, row: usize) {
        Arc::make_mut(&mut self.folds).toggle(tree, row);
        if let Some(outermost) = self.selected.and_then(|selected| self.folds.hiding(tree, selected).last()) {
            self.selected = Some(outermost);
        }
    }

    /// Folds or unfolds all rows of a tree.
    pub fn fold_all(&mut self, is_folded: bool) {
        self.folds = Arc::new(Folds::all(is_folded));
        let shown = self.shown();
        if let Some((table, Some(selected))) = &shown
            && let Some(tree) = table.tree().filter(|_| is_folded)
        {
            self.selected = Some(tree.around(*selected).last().unwrap_or(*selected));
        }
        self.is_moved = true;
    }

    /// Whether the table on screen is a tree, and whether it is shown as one: neither sorted nor filtered.
    pub fn is_tree(&self) -> Option<bool> {
        let (table, _) = self.shown()?;
        table.tree().map(|_| self.sort.is_none() && self.filter.trim().is_empty())
    }

    /// Takes the cursor away.
    pub fn leave(&mut self) {
        self.selected = None;
    }

    /// Back to the table's own order: other columns come.
    pub fn unsort(&mut self) {
        self.sort = None;
    }

    /// Forgets what is on screen, and how it was sorted: another table comes.
    pub fn reset(&mut self) {
        (self.sort, self.selected, self.shown, self.coming) = (None, None, None, None);
    }

    /// Puts a table on screen once it is sorted; says whether that is still to come. Call it every frame. A table that
    /// is sorted already comes first.
    pub fn update(&mut self, table: &Arc<T>, answers: &Answers) -> bool {
        // Held to the end: what is on screen may live by it alone.
        let coming = self.coming.take();
        let mut next = coming.as_ref().map_or(table, |coming| &coming.next);
        let mut is_waiting = self.put(next, answers);
        let on_screen = self.ordered();
        if !is_waiting && !Arc::ptr_eq(next, table) {
            next = table;
            is_waiting = self.put(next, answers);
        }
        if is_waiting {
            self.coming = Some(Coming { next: Arc::clone(next), _on_screen: on_screen });
        }
        is_waiting
    }

    fn put(&mut self, table: &Arc<T>, answers: &Answers) -> bool {
        let sort = self.sort.or(table.own_sort());
        let filter = self.filter.trim().to_owned();
        let is_tree = table.tree().is_some() && sort.is_none() && filter.is_empty();
        let folds = is_tree.then(|| Arc::clone(&self.folds));
        let is_folding = folds.is_some() && self.order.shown().is_some_and(|shown| shown.folds.is_some());
        let wanted = Ordered { sort, filter, folds, rows: PhantomData };
        if table.n_rows() <= FEW {
            // Sorted in this frame, and found by what follows: it comes no later than what else is of its moment.
            answers.get(table, &wanted);
        }
        let order = match self.order.ask(answers, table, &wanted) {
            answers::Answer::Working(_) => return true,
            answers::Answer::Failed(_) => return false,
            answers::Answer::Ready(order) => order,
        };
        let before = self.ordered();
        let is_same_table = before.as_ref().is_some_and(|(shown, _)| Arc::ptr_eq(shown, table));
        if is_same_table && before.as_ref().is_some_and(|(_, shown)| Arc::ptr_eq(shown, &order)) {
            return false;
        }
        if !is_same_table {
            let cursor = before.zip(self.selected).filter(|_| T::SAME_ROW.is_some());
            let found = cursor.map(|((shown, _), row)| {
                let same = SameRow { other: Arc::downgrade(&shown), row };
                if table.n_rows() <= FEW {
                    answers.get(table, &same);
                }
                self.same_row.ask(answers, table, &same)
            });
            if found.as_ref().is_some_and(answers::Answer::is_working) {
                return true;
            }
            self.selected = found.and_then(|found| **found.ready()?);
            self.is_new = true;
        }
        self.shown = Some((Arc::downgrade(table), Arc::downgrade(&order)));
        self.shown_sort = self.sort;
        // What is folded elsewhere does not scroll the table to its cursor.
        self.is_moved |= !(is_same_table && is_folding);
        false
    }

    /// The field of the filter.
    pub fn filter_ui(&mut self, hint: &str, ui: &mut egui::Ui) {
        together_ui("filter", ui, |ui| {
            let label = ui.label("Filter");
            let edit = egui::TextEdit::singleline(&mut self.filter).id_salt("filter").hint_text(hint);
            ui.add(edit.desired_width(150.0)).labelled_by(label.id);
        });
    }

    /// What copies the listed rows or writes them to a file.
    ///
    /// * `name`: what the file is called to begin with.
    pub fn buttons_ui(&mut self, name: &str, ui: &mut egui::Ui) {
        let has_rows = self.counts().0 > 0;
        together_ui("copy and export", ui, |ui| {
            let hint = "Copy the listed rows for a spreadsheet, with exact figures";
            if ui.add_enabled(has_rows, egui::Button::new("Copy table")).on_hover_text(hint).clicked() {
                self.copy(ui.ctx());
            }
            let hint = "Write the listed rows to a file of comma-separated values, with exact figures";
            if ui.add_enabled(has_rows, egui::Button::new("Export…")).on_hover_text(hint).clicked() {
                self.export(name, ui.ctx());
            }
        });
    }

    /// How far the sorting is, and a way back to the order on screen; nothing while neither takes long.
    pub fn sorting_ui(&mut self, ui: &mut egui::Ui) {
        /// Fewer rows are sorted before this could be read.
        const LONG: u64 = 20_000;
        let Some((done, total)) = self.order.progress().filter(|&(_, total)| total >= LONG) else { return };
        busy_ui(ui);
        ui.weak(format!("Sorting, {} %", done * 100 / total));
        if ui.button("Cancel").on_hover_text("Keep the order on screen").clicked() {
            self.sort = self.shown_sort;
        }
    }

    /// Paints the table; says what the user asked for beyond sorting and copying.
    pub fn ui(&mut self, name: &str, open: Option<&str>, ui: &mut egui::Ui) -> Option<Action> {
        let (answer, order) = self.ordered()?;
        if order.rows().is_empty() && answer.n_rows() > 0 && !self.filter.trim().is_empty() {
            ui.label(format!("No row has “{}” in its texts", self.filter.trim()));
            if ui.button("Clear filter").clicked() {
                self.filter.clear();
            }
            return None;
        }
        let is_moved = std::mem::take(&mut self.is_moved) && self.selected.is_some();
        let sort = self.sort.or(answer.own_sort()).or(order.sorted_by);
        let folds = Arc::clone(&self.folds);
        let tree = answer.tree().filter(|_| self.is_tree() == Some(true));
        let branch = tree.map(|tree| |row| folds.branch(tree, row));
        let branch = branch.as_ref().map(|branch| branch as &dyn Fn(usize) -> Branch);
        let selected = self.selected;
        let is_new = std::mem::take(&mut self.is_new);
        let spec = TableSpec { name, order: &order, sort, selected, is_moved, is_new, open, extra: self.extra, branch };
        let action = table_ui(&*answer, spec, ui)?;
        match action {
            Action::Sort(sort) => self.sort = Some(sort),
            Action::Select(row) => {
                self.is_moved = self.selected != Some(row);
                self.selected = Some(row);
            }
            Action::Open(row) | Action::Extra(row) => self.selected = Some(row),
            Action::Fold(row) => tree.into_iter().for_each(|tree| self.fold(tree, row)),
            Action::CopyName(row) => {
                let name = answer
                    .row_in_full(row)
                    .iter()
                    .find_map(|cell| cell.as_name().map(|name| escape::tsv_cell(name.trim_start())));
                // A row without a name has nothing else to copy.
                ui.ctx().copy_text(name.unwrap_or_else(|| tsv(&*answer, &[row as u32])));
            }
            Action::CopyRow(row) => ui.ctx().copy_text(tsv(&*answer, &[row as u32])),
            Action::CopyAll => self.copy(ui.ctx()),
            Action::Export => self.export(name, ui.ctx()),
        }
        Some(action)
    }

    /// Copies the listed rows for a spreadsheet.
    pub fn copy(&mut self, ctx: &egui::Context) {
        self.write(Target::Clipboard, ctx);
    }

    /// Writes the listed rows to a file that the user chooses.
    pub fn export(&mut self, name: &str, ctx: &egui::Context) {
        self.write(Target::File(format!("{}.csv", name.to_lowercase().replace(' ', "_"))), ctx);
    }

    fn write(&mut self, target: Target, ctx: &egui::Context) {
        let Some((answer, order)) = self.ordered() else { return };
        let (waker, is_csv) = (ctx.clone(), matches!(target, Target::File(_)));
        let work = move |_: &Progress| if is_csv { csv(&*answer, order.rows()) } else { tsv(&*answer, order.rows()) };
        self.text = Job::spawn("table text", move || waker.request_repaint(), work).ok().map(|job| (target, job));
    }

    /// Takes the text of a table that was asked for. Call it every frame.
    pub fn poll_text(&mut self, commands: &mut Vec<Command>, ctx: &egui::Context) {
        let done = self.text.as_ref().map(|(_, job)| job.poll());
        match done {
            None | Some(Poll::Running) => return,
            Some(Poll::Crashed(_)) => {}
            Some(Poll::Done(text)) => match self.text.take() {
                Some((Target::File(name), _)) => commands.push(Command::SaveText(name, text.into())),
                _ => ctx.copy_text(text),
            },
        }
        self.text = None;
    }
}

#[cfg(test)]
mod tests;
