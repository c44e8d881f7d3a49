//! The rows of a table, their order, and the text that a spreadsheet gets of them.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};

use super::cell::Cell;
use super::escape::{csv_cell, tsv_cell};
use super::natural::Natural;
use super::table::Column;

/// Columns of when something was, as a time or as the number of an event.
const MOMENTS: [&str; 3] = ["start_ns", "at_ns", "event"];

/// The rows of a table. They are asked for one by one, so that millions need not be ready.
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

    /// How it is sorted by default; `None` is an order of the rows that no column stands for.
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
    /// The column that the rows turn out to be sorted by.
    pub sorted_by: Option<Sort>,
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
        Self { rows, places, sorted_by: None }
    }

    /// Finds the column that the rows are sorted by: their moment, then an amount, then any other. Names and moments
    /// ascend, figures descend: the other way round it is by chance. Cost: O(cells) at most.
    pub fn find_sort(mut self, of: &impl Rows) -> Self {
        let is_sorted = |sort: &Sort| {
            let order = |pair: &[u32]| {
                let (a, b) = (of.row(pair[0] as usize), of.row(pair[1] as usize));
                let cells = a.get(sort.column).zip(b.get(sort.column));
                cells.map_or(Ordering::Greater, |(a, b)| a.compare(b, sort.is_descending))
            };
            let mut is_different = false;
            let is_sorted = self.rows.windows(2).all(|pair| {
                let order = order(pair);
                is_different |= order.is_lt();
                order.is_le()
            });
            is_sorted && is_different
        };
        let first = self.rows.first().map_or(Cow::Borrowed(&[][..]), |&row| of.row(row as usize));
        let mut sorts: Vec<(u8, Sort)> = Vec::with_capacity(of.columns().len());
        for (column, shown) in of.columns().iter().enumerate() {
            let cell = first.get(column);
            let is_name = shown.is_text || matches!(cell, Some(Cell::Id(_) | Cell::Device(_)));
            let (rank, is_descending) = match cell {
                _ if MOMENTS.contains(&shown.key) => (0, false),
                Some(Cell::Ns(_) | Cell::Bytes(_)) => (1, true),
                // Losses first, or gains.
                Some(Cell::Gain(bytes)) => (1, *bytes >= 0),
                _ => (2, !is_name),
            };
            sorts.push((rank, Sort { column, is_descending }));
        }
        sorts.sort_by_key(|(rank, _)| *rank);
        self.sorted_by = sorts.into_iter().map(|(_, sort)| sort).find(is_sorted);
        self
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
    /// Removes the columns without a value. Cost: O(cells).
    pub fn drop_empty_columns(&mut self) {
        for i in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[i].is_blank()) && !self.rows.is_empty() {
                self.columns.remove(i);
                for row in &mut self.rows {
                    row.remove(i);
                }
            }
        }
    }

    /// Moves a column to the end if it holds the same in all rows. Cost: O(cells).
    pub fn move_uniform_last(&mut self, key: &str) {
        let Some(at) = self.columns.iter().position(|column| column.key == key) else { return };
        if self.rows.windows(2).all(|pair| pair[0][at] == pair[1][at]) {
            self.columns[at..].rotate_left(1);
            self.rows.iter_mut().for_each(|row| row[at..].rotate_left(1));
        }
    }

    fn fits(&self, row: u32, words: &[String]) -> bool {
        if words.is_empty() {
            return true;
        }
        let texts = self.rows[row as usize].iter().filter_map(|cell| cell.words().map(str::to_lowercase));
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
            sort_by_cell(&mut order, is_descending, |row| self.cell(row, column));
        }
        order
    }
}

/// Sorts rows by their cells in one column: names as they are shown, all else by value; empty ones come last either
/// way, and those that sort the same keep their order. Cost: O(n log n).
pub fn sort_by_cell<'a>(order: &mut [u32], is_descending: bool, cell: impl Fn(u32) -> &'a Cell) {
    if order.iter().all(|&row| matches!(cell(row), Cell::Empty | Cell::Text(_) | Cell::Stack(_) | Cell::Frames(_))) {
        sort_by_key(order, is_descending, |row| cell(row).telling().map(Natural));
    } else {
        order.sort_by(|&a, &b| cell(a).compare(cell(b), is_descending));
    }
}

/// Sorts rows by a key; those without one come last either way, and those that sort the same keep their order.
///
/// Cost: O(n log n), and each key once.
pub fn sort_by_key<K: Ord>(order: &mut [u32], is_descending: bool, key: impl Fn(u32) -> Option<K>) {
    match is_descending {
        true => order.sort_by_cached_key(|&row| key(row).map_or((true, None), |key| (false, Some(Reverse(key))))),
        false => order.sort_by_cached_key(|&row| key(row).map_or((true, None), |key| (false, Some(key)))),
    }
}

/// These rows below a head, separated by tabs, for pasting into a spreadsheet.
pub fn tsv(table: &dyn Rows, rows: &[u32]) -> String {
    text(table, rows, "\t", "\n", tsv_cell)
}

/// These rows below a head as comma-separated values (RFC 4180).
pub fn csv(table: &dyn Rows, rows: &[u32]) -> String {
    text(table, rows, ",", "\r\n", csv_cell)
}

fn text(table: &dyn Rows, rows: &[u32], comma: &str, end: &str, escape: impl Fn(&str) -> String) -> String {
    let keys: Vec<&str> = table.columns().iter().map(|column| column.key).collect();
    let mut out = keys.join(comma) + end;
    for &row in rows.iter().filter(|&&row| (row as usize) < table.n_rows()) {
        for (i, cell) in table.row_in_full(row as usize).iter().enumerate() {
            out.push_str(if i == 0 { "" } else { comma });
            out.push_str(&cell.exact(&escape));
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
            vec![Cell::text(name), Cell::Ns(ns), Cell::or_empty(bytes, Cell::Gain), Cell::Empty]
        };
        Data {
            columns,
            rows: vec![row("Gemm fp16", 5, None), row("=softmax", 9, Some(-7)), row("gemm fp32", 1, Some(2))],
        }
    }

    #[test]
    fn changes_are_sorted_from_gains_or_from_losses() {
        let sorted_by = |gains: [i64; 3]| {
            let columns = vec![column("bytes", false), column("before", false)];
            let rows = gains.map(|gain| vec![Cell::Gain(gain), Cell::Bytes(gain.unsigned_abs())]).into();
            let order = Order::new(vec![0, 1, 2], 3).find_sort(&Data { columns, rows });
            order.sorted_by.map(|sort| (sort.column, sort.is_descending))
        };
        assert_eq!(sorted_by([9, 2, -1]), Some((0, true)));
        assert_eq!(sorted_by([-9, -2, 1]), Some((0, false)));
    }

    #[test]
    fn names_sort_as_they_are_shown() {
        let names = ["void ns::gamma<int>(int)", "beta", "", "void ns::alpha<ns::Add<float> >(int)", "ns::delta<3>"];
        let cell = |name: &&str| Cell::text(name);
        let cells: Vec<Cell> = names.iter().map(cell).collect();
        let mut order = [0, 1, 2, 3, 4];
        sort_by_cell(&mut order, false, |row| &cells[row as usize]);
        assert_eq!(order, [3, 1, 4, 0, 2]);
        let shown = order.map(|row| cells[row as usize].telling().unwrap_or_default().into_owned());
        assert_eq!(shown, ["alpha<Add<float> >", "beta", "delta<3>", "gamma<int>", ""]);
        sort_by_cell(&mut order, true, |row| &cells[row as usize]);
        assert_eq!(order, [0, 4, 1, 3, 2]);
        // Numbers in names sort by value.
        let cells = ["step 10", "step 9", "step 100, late", "step", "1"].map(Cell::text);
        sort_by_cell(&mut order, false, |row| &cells[row as usize]);
        assert_eq!(order, [4, 3, 1, 0, 2]);
        assert_eq!(cells[0].compare(&cells[1], false), Ordering::Greater);
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
        let order = Order::new(vec![2, 0], 3);
        assert_eq!([0, 1, 2, 3].map(|row| order.place(row)), [Some(1), None, Some(0), None]);
    }

    #[test]
    fn the_order_that_rows_have_is_found() {
        let data = data();
        let found = |rows: Vec<u32>| Order::new(rows, 3).find_sort(&data).sorted_by;
        assert_eq!(found(vec![1, 0, 2]), Some(Sort { column: 1, is_descending: true }));
        assert_eq!(found(vec![2, 0, 1]), None, "figures that ascend do so by chance");
        assert_eq!(found(vec![1, 2]), Some(Sort { column: 1, is_descending: true }));
        assert_eq!(found(vec![0, 1, 2]), None);
        assert_eq!(found(vec![0]), None);
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
