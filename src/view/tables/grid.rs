//! One table on screen: its rows, their order, its cursor, and what is copied from it.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use eframe::egui;

use crate::analysis::totals::Instance;
use crate::answers::{self, Analysis, Answers, Query, Work};
use crate::command::Command;
use crate::figures::memory::AllocationRows;
use crate::figures::{Cell, Column, Data, Order, Rows, Sort, csv, escape, tsv};
use crate::job::{Job, Poll, Progress};
use crate::widget::table::{Action, Look, table_ui};

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
type FindSameRow<T> = fn(&T, usize, &T) -> Option<usize>;

/// The rows of a [`Grid`].
pub trait Table: Rows + Sized + Send + Sync + 'static {
    /// In O(rows). Without it the cursor is taken away when another table comes.
    const SAME_ROW: Option<FindSameRow<Self>> = None;
}

impl Table for Answer {
    const SAME_ROW: Option<FindSameRow<Self>> = Some(same_row);
}

impl Table for AllocationRows {}

/// The row of `other` with the same names and shapes.
fn same_row(table: &Answer, row: usize, other: &Answer) -> Option<usize> {
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
    rows: PhantomData<fn(&T)>,
}

impl<T> Clone for Ordered<T> {
    fn clone(&self) -> Self {
        Self { sort: self.sort, filter: self.filter.clone(), rows: PhantomData }
    }
}

impl<T> PartialEq for Ordered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.sort == other.sort && self.filter == other.filter
    }
}

impl<T: Table> Analysis for Ordered<T> {
    type Of = Arc<T>;
    type Output = Order;
    const NAME: &'static str = "Sorting the table";

    fn run(&self, of: &Arc<T>, _: &Work<'_>) -> Option<Order> {
        Some(Order::new(of.order(self.sort, &self.filter), of.n_rows()))
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

/// What becomes of the text of a table.
#[derive(Debug)]
enum Target {
    Clipboard,
    /// A file of this name, to begin with.
    File(String),
}

/// A table on screen. Keeps no table alive: the store drops it with its trace.
#[derive(Debug)]
pub struct Grid<T: Table = Answer> {
    pub filter: String,
    /// As in [`Self::new`].
    pub extra: Option<&'static str>,
    sort: Option<Sort>,
    selected: Option<usize>,
    is_moved: bool,
    order: Query<Ordered<T>>,
    same_row: Query<SameRow<T>>,
    /// What is on screen: a table and the order of its rows.
    shown: Option<(Weak<T>, Weak<Order>)>,
    text: Option<(Target, Job<String>)>,
}

impl<T: Table> Default for Grid<T> {
    fn default() -> Self {
        Self {
            filter: String::new(),
            extra: None,
            sort: None,
            selected: None,
            is_moved: false,
            order: Query::default(),
            same_row: Query::default(),
            shown: None,
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

    /// How many rows are listed, of how many.
    pub fn counts(&self) -> (u64, u64) {
        let counts = self.ordered().map(|(table, order)| (order.rows().len() as u64, table.n_rows() as u64));
        counts.unwrap_or_default()
    }

    /// Puts the cursor on a row and scrolls there.
    pub fn go(&mut self, row: usize) {
        self.selected = Some(row);
        self.is_moved = true;
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
        (self.sort, self.selected, self.shown) = (None, None, None);
    }

    /// Puts a table on screen once it is sorted; says whether that is still to come. Call it every frame.
    pub fn update(&mut self, table: &Arc<T>, answers: &Answers) -> bool {
        let sort = self.sort.or(table.own_sort());
        let wanted = Ordered { sort, filter: self.filter.trim().to_owned(), rows: PhantomData };
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
                self.same_row.ask(answers, table, &SameRow { other: Arc::downgrade(&shown), row })
            });
            if found.as_ref().is_some_and(answers::Answer::is_working) {
                return true;
            }
            self.selected = found.and_then(|found| **found.ready()?);
        }
        self.shown = Some((Arc::downgrade(table), Arc::downgrade(&order)));
        self.is_moved = true;
        false
    }

    /// Paints the table; says what the person asked for beyond sorting and copying.
    pub fn ui(&mut self, name: &str, open: Option<&str>, ui: &mut egui::Ui) -> Option<Action> {
        let (answer, order) = self.ordered()?;
        let is_moved = std::mem::take(&mut self.is_moved) && self.selected.is_some();
        let sort = self.sort.or(answer.own_sort());
        let look = Look { name, order: &order, sort, selected: self.selected, is_moved, open, extra: self.extra };
        let action = table_ui(&*answer, look, ui)?;
        match action {
            Action::Sort(sort) => self.sort = Some(sort),
            Action::Select(row) => {
                self.is_moved = self.selected != Some(row);
                self.selected = Some(row);
            }
            Action::Open(row) | Action::Extra(row) => self.selected = Some(row),
            Action::CopyName(row) => {
                let name = answer.row_in_full(row).iter().find_map(|cell| cell.as_name().map(escape::tsv_cell));
                ui.ctx().copy_text(name.unwrap_or_default());
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

    /// Writes the listed rows to a file that the person chooses.
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
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_again_by_its_names_and_not_by_its_figures() {
        let table = |rows: Vec<Vec<Cell>>| Answer { data: Data { rows, ..Data::default() }, ..Answer::default() };
        let row = |name: Cell, side, count| vec![name, Cell::Count(count), Cell::Sides([side, 1, 1])];
        let frame = |name: &str| Cell::Frames(name.into());
        let before = table(vec![row(Cell::name("gemm"), 64, 9), row(frame("step"), 1, 5), vec![Cell::Count(1)]]);
        let after = table(vec![
            vec![Cell::Count(1)],
            row(Cell::name("gemm"), 32, 9),
            row(frame("step"), 1, 7),
            row(Cell::name("gemm"), 64, 1),
        ]);
        let found = [0, 1, 2, 3].map(|row| same_row(&before, row, &after));
        assert_eq!(found, [Some(3), Some(2), None, None], "a row without names stands for nothing");
    }
}
