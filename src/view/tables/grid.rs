//! One table on screen: its rows, their order, its cursor, and what is copied from it.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use eframe::egui;

use crate::analysis::totals::Instance;
use crate::command::Command;
use crate::figures::memory::AllocationRows;
use crate::figures::{Cell, Column, Data, Order, Rows, Sort, csv, escape, tsv};
use crate::job::{Job, Memo, Poll, Progress};
use crate::widget::table::{Action, Look, table_ui};

/// A table with the slices that its rows stand for.
#[derive(Debug, Default)]
pub struct Answer {
    pub data: Data,
    /// For each row the slice to show: the longest of it.
    pub longest: Vec<Instance>,
    /// For each row its slices, sorted; empty where they are not needed.
    pub instances: Vec<Vec<Instance>>,
    /// The row that is what the cursor was on when the answer was asked for.
    pub kept: Option<usize>,
    /// What the person should know of the figures.
    pub note: Option<&'static str>,
}

impl Answer {
    /// The row of the same names and shapes as `row` of `other`.
    pub fn same_row(&self, other: &Self, row: usize) -> Option<usize> {
        let id = |row: &Vec<Cell>| -> Vec<Cell> {
            row.iter().filter(|cell| matches!(cell, Cell::Text(_) | Cell::Sides(_))).cloned().collect()
        };
        let wanted = id(other.data.rows.get(row)?);
        self.data.rows.iter().position(|row| id(row) == wanted)
    }
}

/// The rows of a [`Grid`].
pub trait Table: Rows + Send + Sync + 'static {
    /// The row that is what the cursor was on when the table was asked for.
    fn kept(&self) -> Option<usize> {
        None
    }
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

impl Table for Answer {
    fn kept(&self) -> Option<usize> {
        self.kept
    }
}

impl Table for AllocationRows {}

#[derive(Debug)]
struct OrderKey<T> {
    answer: Weak<T>,
    sort: Option<Sort>,
    filter: String,
}

impl<T> Clone for OrderKey<T> {
    fn clone(&self) -> Self {
        Self { answer: Weak::clone(&self.answer), sort: self.sort, filter: self.filter.clone() }
    }
}

impl<T> PartialEq for OrderKey<T> {
    fn eq(&self, other: &Self) -> bool {
        self.answer.ptr_eq(&other.answer) && self.sort == other.sort && self.filter == other.filter
    }
}

#[derive(Debug)]
struct Ordered<T> {
    answer: Arc<T>,
    order: Arc<Order>,
}

/// What becomes of the text of a table.
#[derive(Debug)]
enum Target {
    Clipboard,
    /// A file of this name, to begin with.
    File(String),
}

/// A table on screen.
#[derive(Debug)]
pub struct Grid<T = Answer> {
    pub filter: String,
    sort: Option<Sort>,
    selected: Option<usize>,
    is_moved: bool,
    memo: Memo<OrderKey<T>, Ordered<T>>,
    /// What is on screen: an answer and the order of its rows.
    shown: Option<(Arc<T>, Arc<Order>)>,
    text: Option<(Target, Job<String>)>,
}

impl<T> Default for Grid<T> {
    fn default() -> Self {
        Self {
            filter: String::new(),
            sort: None,
            selected: None,
            is_moved: false,
            memo: Memo::default(),
            shown: None,
            text: None,
        }
    }
}

impl<T: Table> Grid<T> {
    /// The answer on screen, and the row that the cursor is on.
    pub fn shown(&self) -> Option<(&Arc<T>, Option<usize>)> {
        self.shown.as_ref().map(|(answer, _)| (answer, self.selected))
    }

    /// How many rows are listed, of how many.
    pub fn counts(&self) -> (u64, u64) {
        let counts = self.shown.as_ref().map(|(answer, order)| (order.rows().len() as u64, answer.n_rows() as u64));
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

    /// Back to the order of the answer: other columns come.
    pub fn unsort(&mut self) {
        self.sort = None;
    }

    /// Forgets what is on screen, and how it was sorted: another table comes.
    pub fn reset(&mut self) {
        (self.sort, self.selected, self.shown, self.memo) = (None, None, None, Memo::default());
    }

    /// Takes the newest order of `answer`. Call it every frame.
    pub fn update(&mut self, answer: &Arc<T>, ctx: &egui::Context) {
        let filter = self.filter.trim().to_owned();
        let sort = self.sort.or(answer.own_sort());
        let key = OrderKey { answer: Arc::downgrade(answer), sort, filter };
        let (waker, asked, table) = (ctx.clone(), key.clone(), Arc::clone(answer));
        let work = move |_: &Progress| {
            let order = table.order(asked.sort, &asked.filter);
            let order = Order::new(order, table.n_rows());
            Ordered { answer: table, order: Arc::new(order) }
        };
        let Some(ordered) = self.memo.get(&key, move || waker.request_repaint(), work) else { return };
        let is_same = |(answer, order): &(Arc<T>, Arc<Order>)| {
            Arc::ptr_eq(answer, &ordered.answer) && Arc::ptr_eq(order, &ordered.order)
        };
        if self.shown.as_ref().is_some_and(is_same) {
            return;
        }
        let before = self.shown.replace((Arc::clone(&ordered.answer), Arc::clone(&ordered.order)));
        if before.is_none_or(|(before, _)| !Arc::ptr_eq(&before, &ordered.answer)) {
            self.selected = ordered.answer.kept();
        }
        self.is_moved = true;
    }

    /// Paints the table; says what the person asked for beyond sorting and copying.
    pub fn ui(&mut self, name: &str, open: Option<&str>, ui: &mut egui::Ui) -> Option<Action> {
        let (answer, order) = self.shown.clone()?;
        let is_moved = std::mem::take(&mut self.is_moved) && self.selected.is_some();
        let sort = self.sort.or(answer.own_sort());
        let look = Look { name, order: &order, sort, selected: self.selected, is_moved, open };
        let action = table_ui(&*answer, look, ui)?;
        match action {
            Action::Sort(sort) => self.sort = Some(sort),
            Action::Select(row) => {
                self.is_moved = self.selected != Some(row);
                self.selected = Some(row);
            }
            Action::Open(row) => self.selected = Some(row),
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
        let Some((answer, order)) = self.shown.clone() else { return };
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
