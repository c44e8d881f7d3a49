//! What is in a table, in which order, and what does a spreadsheet get of it?

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::escape::{csv_cell, tsv_cell};
use crate::model::time::DurNs;
use crate::widget::format;
use crate::widget::text::{display_name, short_frame};

/// The most frames that are shown in a cell; no column is wide enough for more.
pub const MAX_FRAMES: usize = 8;

/// One value of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// Unknown, or does not apply. Sorts last either way.
    #[default]
    Empty,
    Text(Box<str>),
    /// A word that sorts by its rank: `High` is more than `Low`.
    Rank(u8, &'static str),
    /// Frames of a call stack, innermost first, with `; ` between them. The window leaves out their
    /// folders, which would crowd out the rest.
    Frames(Box<str>),
    Count(u64),
    /// How many more, or fewer.
    Change(i64),
    Ns(DurNs),
    Bytes(i64),
    /// 0 to 1.
    Share(f64),
    /// 10^9 bytes per second.
    GbPerS(f64),
    /// Sides in x, y and z; sorts by their product.
    Sides([u32; 3]),
}

impl Cell {
    pub fn text(text: &str) -> Self {
        if text.is_empty() { Self::Empty } else { Self::Text(text.into()) }
    }

    pub fn frames(frames: &str) -> Self {
        if frames.is_empty() { Self::Empty } else { Self::Frames(frames.into()) }
    }

    /// A name, if it holds one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Frames(text) => Some(text),
            Self::Rank(_, word) => Some(word),
            _ => None,
        }
    }

    /// `value` as `cell` has it; `None` is empty.
    pub fn or_empty<T>(value: Option<T>, cell: impl Fn(T) -> Self) -> Self {
        value.map_or(Self::Empty, cell)
    }

    /// What the window says, with its unit.
    pub fn shown(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => display_name(text).into_owned(),
            Self::Frames(frames) => {
                let frames: Vec<String> = frames.split("; ").take(MAX_FRAMES).map(short_frame).collect();
                display_name(&frames.join("; ")).into_owned()
            }
            Self::Rank(_, word) => (*word).to_owned(),
            Self::Count(n) => format::count(*n),
            Self::Change(n) if *n < 0 => format!("-{}", format::count(n.unsigned_abs())),
            Self::Change(n) => format!("+{}", format::count(n.unsigned_abs())),
            Self::Ns(ns) => format::duration(*ns),
            Self::Bytes(bytes) => format::bytes(*bytes as f64),
            Self::Share(share) => format!("{:.1} %", share * 100.0),
            Self::GbPerS(speed) => format!("{speed:.3} GB/s"),
            Self::Sides(sides) => sides_text(*sides),
        }
    }

    /// The same in full, where the window says less.
    pub fn in_full(&self) -> Option<String> {
        match self {
            Self::Ns(ns) if ns.unsigned_abs() >= 1000 => Some(format::duration_exact(*ns)),
            Self::Bytes(bytes) if bytes.unsigned_abs() >= 1024 => {
                let sign = if *bytes < 0 { "-" } else { "" };
                Some(format!("{sign}{} B", format::count(bytes.unsigned_abs())))
            }
            Self::Share(share) => Some(format!("{:.4} %", share * 100.0)),
            _ => None,
        }
    }

    /// For a spreadsheet: exact, without unit.
    fn exact(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) | Self::Frames(text) => text.to_string(),
            Self::Rank(_, word) => (*word).to_owned(),
            Self::Count(n) => n.to_string(),
            Self::Change(n) | Self::Ns(n) | Self::Bytes(n) => n.to_string(),
            Self::Share(figure) | Self::GbPerS(figure) => figure.to_string(),
            Self::Sides([x, y, z]) => format!("{x}x{y}x{z}"),
        }
    }

    /// Empty cells come last in either direction.
    fn compare(&self, other: &Self, is_descending: bool) -> Ordering {
        let volume = |sides: &[u32; 3]| sides.iter().fold(1_u128, |n, &side| n * u128::from(side));
        let order = match (self, other) {
            (Self::Empty, Self::Empty) => return Ordering::Equal,
            (Self::Empty, _) => return Ordering::Greater,
            (_, Self::Empty) => return Ordering::Less,
            (Self::Text(a), Self::Text(b)) | (Self::Frames(a), Self::Frames(b)) => a.cmp(b),
            (Self::Count(a), Self::Count(b)) => a.cmp(b),
            (Self::Rank(a, _), Self::Rank(b, _)) => a.cmp(b),
            (Self::Change(a), Self::Change(b)) | (Self::Ns(a), Self::Ns(b)) | (Self::Bytes(a), Self::Bytes(b)) => {
                a.cmp(b)
            }
            (Self::Share(a), Self::Share(b)) | (Self::GbPerS(a), Self::GbPerS(b)) => a.total_cmp(b),
            (Self::Sides(a), Self::Sides(b)) => volume(a).cmp(&volume(b)).then(a.cmp(b)),
            // A column holds one sort of value.
            _ => Ordering::Equal,
        };
        if is_descending { order.reverse() } else { order }
    }
}

fn sides_text([x, y, z]: [u32; 3]) -> String {
    format!("{x} × {y} × {z}")
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub title: &'static str,
    /// For spreadsheets and programs, with the unit: `total_ns`.
    pub key: &'static str,
    /// What the figure is: a sentence or two, without a period at the end.
    pub help: &'static str,
    /// Width to start with, in points.
    pub width: u16,
    /// Whether it holds names, which stand to the left and sort from the first.
    pub is_text: bool,
}

/// What a table is made of. Rows are asked for one by one, so that millions need not lie ready.
pub trait Rows {
    fn columns(&self) -> &[Column];

    /// How many rows there are.
    fn n_rows(&self) -> usize;

    /// A cell for each column. No cells if there is no such row.
    fn row(&self, row: usize) -> Cow<'_, [Cell]>;

    /// The same with texts that a row on screen has in part.
    fn row_in_full(&self, row: usize) -> Cow<'_, [Cell]> {
        self.row(row)
    }

    /// How it is sorted as long as nobody asks otherwise; `None` is an order that no head stands for.
    fn own_sort(&self) -> Option<Sort> {
        None
    }

    /// Indices of the rows that fit `filter`, sorted; without `sort` in the table's own order.
    ///
    /// Rows that sort the same keep their order. Not for the frame thread.
    fn order(&self, sort: Option<Sort>, filter: &str) -> Vec<u32>;
}

/// The listed rows in order, and the place of each: a cursor on one of ten million is found at once.
#[derive(Debug, Default)]
pub struct Order {
    rows: Vec<u32>,
    /// By row; `u32::MAX` if it is not listed.
    places: Vec<u32>,
}

impl Order {
    /// * `n_rows`: how many rows the table has, listed or not.
    ///
    /// Cost: O(n).
    pub fn new(rows: Vec<u32>, n_rows: usize) -> Self {
        let mut places = vec![u32::MAX; n_rows];
        for (place, &row) in (0..).zip(&rows) {
            places[row as usize] = place;
        }
        Self { rows, places }
    }

    /// As indices into [`Rows`].
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Where a row is listed.
    pub fn place(&self, row: usize) -> Option<usize> {
        self.places.get(row).filter(|&&place| place != u32::MAX).map(|&place| place as usize)
    }
}

/// A table, its rows in an order of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    pub columns: Vec<Column>,
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// By which column, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: usize,
    pub is_descending: bool,
}

impl Data {
    /// Takes away the columns that say nothing. Cost: O(cells).
    pub fn drop_empty_columns(&mut self) {
        for i in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[i] == Cell::Empty) && !self.rows.is_empty() {
                self.columns.remove(i);
                for row in &mut self.rows {
                    row.remove(i);
                }
            }
        }
    }

    fn fits(&self, row: u32, words: &[String]) -> bool {
        if words.is_empty() {
            return true;
        }
        let texts = self.rows[row as usize].iter().filter_map(|cell| cell.name().map(str::to_lowercase));
        let texts = texts.collect::<Vec<_>>().join("\n");
        words.iter().all(|word| texts.contains(word))
    }

    fn cell(&self, row: u32, column: usize) -> &Cell {
        self.rows.get(row as usize).and_then(|row| row.get(column)).unwrap_or(&Cell::Empty)
    }
}

impl Rows for Data {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn n_rows(&self) -> usize {
        self.rows.len()
    }

    fn row(&self, row: usize) -> Cow<'_, [Cell]> {
        Cow::Borrowed(self.rows.get(row).map_or(&[], Vec::as_slice))
    }

    /// A row fits if each word of the filter occurs in its texts, in any case. Cost: O(n log n).
    fn order(&self, sort: Option<Sort>, filter: &str) -> Vec<u32> {
        let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
        let mut order: Vec<u32> = (0..self.rows.len() as u32).filter(|&row| self.fits(row, &words)).collect();
        if let Some(Sort { column, is_descending }) = sort.filter(|sort| sort.column < self.columns.len()) {
            order.sort_by(|&a, &b| self.cell(a, column).compare(self.cell(b, column), is_descending));
        }
        order
    }
}

/// These rows with a head, the cells parted by tabs, for pasting into a spreadsheet.
pub fn tsv(table: &dyn Rows, rows: &[u32]) -> String {
    text(table, rows, "\t", "\n", tsv_cell)
}

/// The same as a file of comma-separated values.
pub fn csv(table: &dyn Rows, rows: &[u32]) -> String {
    text(table, rows, ",", "\r\n", csv_cell)
}

fn text(table: &dyn Rows, rows: &[u32], comma: &str, end: &str, escape: impl Fn(&str) -> String) -> String {
    let keys: Vec<&str> = table.columns().iter().map(|column| column.key).collect();
    let mut out = keys.join(comma) + end;
    for &row in rows.iter().filter(|&&row| (row as usize) < table.n_rows()) {
        for (i, cell) in table.row_in_full(row as usize).iter().enumerate() {
            out.push_str(if i == 0 { "" } else { comma });
            match cell {
                // A negative number is no formula.
                Cell::Text(text) => out.push_str(&escape(text)),
                figure => out.push_str(&figure.exact()),
            }
        }
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn column(key: &'static str, is_text: bool) -> Column {
        Column { title: key, key, help: "", width: 80, is_text }
    }

    fn data() -> Data {
        let columns = vec![column("name", true), column("total_ns", false), column("bytes", false), column("x", false)];
        let row = |name: &str, ns, bytes: Option<i64>| {
            vec![Cell::text(name), Cell::Ns(ns), Cell::or_empty(bytes, Cell::Bytes), Cell::Empty]
        };
        Data {
            columns,
            rows: vec![row("Gemm fp16", 5, None), row("=softmax", 9, Some(-7)), row("gemm fp32", 1, Some(2))],
        }
    }

    #[test]
    fn rows_sort_either_way_with_the_empty_ones_last() {
        let data = data();
        let order = |column, is_descending| data.order(Some(Sort { column, is_descending }), "");
        assert_eq!(order(1, true), [1, 0, 2]);
        assert_eq!(order(1, false), [2, 0, 1]);
        assert_eq!(order(2, true), [2, 1, 0]);
        assert_eq!(order(2, false), [1, 2, 0]);
        assert_eq!(order(9, false), [0, 1, 2], "a column that is gone");
        assert_eq!(Cell::Change(10).compare(&Cell::Change(2), false), Ordering::Greater);
        assert_eq!([Cell::Change(10), Cell::Change(-2000)].map(|cell| cell.shown()), ["+10", "-2,000"]);
        assert_eq!(Cell::Rank(2, "High").compare(&Cell::Rank(1, "Medium"), true), Ordering::Less);
        let order = Order::new(vec![2, 0], 3);
        assert_eq!([0, 1, 2, 3].map(|row| order.place(row)), [Some(1), None, Some(0), None]);
        assert_eq!(Cell::Sides([2, 3, 1]).compare(&Cell::Sides([7, 1, 1]), false), Ordering::Less);
    }

    #[test]
    fn every_word_of_the_filter_must_occur() {
        let data = data();
        assert_eq!(data.order(None, "GEMM"), [0, 2]);
        assert_eq!(data.order(None, " 32 gem "), [2]);
        assert_eq!(data.order(None, "gemm softmax"), [0_u32; 0]);
    }

    #[test]
    fn spreadsheets_get_exact_figures_and_no_formulas() {
        let mut data = data();
        data.drop_empty_columns();
        assert_eq!(csv(&data, &[1, 0]), "name,total_ns,bytes\r\n'=softmax,9,-7\r\nGemm fp16,5,\r\n");
        assert_eq!(tsv(&data, &[2]), "name\ttotal_ns\tbytes\ngemm fp32\t1\t2\n");
    }

    proptest! {
        #[test]
        fn an_order_holds_each_row_once_and_is_sorted(figures in prop::collection::vec(prop::option::of(0_i64..9), 0..40)) {
            let rows = figures.iter().map(|&ns| vec![Cell::or_empty(ns, Cell::Ns)]).collect();
            let data = Data { columns: vec![column("ns", false)], rows };
            let order = data.order(Some(Sort { column: 0, is_descending: true }), "");
            let sorted: Vec<i64> = order.iter().map(|&row| figures[row as usize].unwrap_or(-1)).collect();
            prop_assert!(sorted.is_sorted_by(|a, b| a >= b));
            let mut rows = order;
            rows.sort_unstable();
            prop_assert_eq!(rows, (0..figures.len() as u32).collect::<Vec<_>>());
        }
    }
}
