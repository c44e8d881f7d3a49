//! Tables: figures, each defined once, and rows.

use std::borrow::Borrow;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::cell::Cell;
use super::rows::Data;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// For programs and spreadsheets, with the unit: `total_ns`. In JSON it is a contract.
    pub key: &'static str,
    /// For people, without the unit.
    pub title: &'static str,
    /// Width in the window to start with, in points.
    pub width: u16,
    /// Whether it holds words, which stand to the left and sort from the first.
    pub is_text: bool,
    /// What the figure is: a sentence or two, without a period at the end.
    pub help: &'static str,
}

/// A figure of rows of type `R`.
#[derive(Debug)]
pub struct Figure<R> {
    pub column: Column,
    pub of: fn(&R) -> Cell,
}

/// The figures of one type of row as a `Vec`, in lines of
///
/// * `words key, title, width in points, cell of the row, help;` for text, which stands to the left,
/// * `number ...` for all else,
/// * `with figures();` for figures that several tables share.
macro_rules! figures {
    ($row:ident: $R:ty; $($line:ident $($part:expr),+;)*) => {{
        let mut all: Vec<$crate::figures::Figure<$R>> = Vec::new();
        $($crate::figures::figures!(@ $line all, $row: $R, $($part),+);)*
        all
    }};
    (@ with $all:ident, $row:ident: $R:ty, $shared:expr) => { $all.extend($shared) };
    (@ words $all:ident, $row:ident: $R:ty, $($part:expr),+) => {
        $crate::figures::figures!(@ true, $all, $row: $R, $($part),+)
    };
    (@ number $all:ident, $row:ident: $R:ty, $($part:expr),+) => {
        $crate::figures::figures!(@ false, $all, $row: $R, $($part),+)
    };
    (@ $is_text:literal, $all:ident, $row:ident: $R:ty, $key:expr, $title:expr, $width:expr, $cell:expr, $help:expr) => {
        $all.extend([$crate::figures::Figure {
            column: $crate::figures::Column { key: $key, title: $title, width: $width, is_text: $is_text, help: $help },
            of: |$row: &$R| $cell,
        }])
    };
}
pub(crate) use figures;

/// The definition of a table: every figure of its rows, and who reads which.
#[derive(Debug)]
pub struct Part<R> {
    /// As in JSON.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    pub figures: Vec<Figure<R>>,
    /// Which figures each reader gets, in their order.
    window: Vec<usize>,
    report: Vec<usize>,
    json: Vec<usize>,
}

impl<R> Part<R> {
    /// A table whose readers all get all figures.
    pub fn new(key: &'static str, title: &'static str, figures: Vec<Figure<R>>) -> Self {
        let all: Vec<usize> = (0..figures.len()).collect();
        debug_assert!(
            figures.iter().enumerate().all(|(i, figure)| {
                let Column { key, title, help, .. } = figure.column;
                let is_twice = figures[..i].iter().any(|other| other.column.key == key);
                !is_twice && !title.is_empty() && !help.is_empty()
            }),
            "a figure of {key} stands there twice, or has no title or no help"
        );
        Self { key, title, figures, window: all.clone(), report: all.clone(), json: all }
    }

    /// The figures that the window shows, by their keys.
    pub fn window(self, keys: &str) -> Self {
        Self { window: self.places(keys), ..self }
    }

    /// The figures in text, Markdown, HTML and CSV.
    pub fn report(self, keys: &str) -> Self {
        Self { report: self.places(keys), ..self }
    }

    /// Without these figures in the window and in text, as of files in which they cannot have a value. JSON keeps them.
    pub fn without(mut self, keys: &str) -> Self {
        let left_out = self.places(keys);
        for shown in [&mut self.window, &mut self.report] {
            shown.retain(|place| !left_out.contains(place));
        }
        self
    }

    /// The figures in JSON.
    pub fn json(self, keys: &str) -> Self {
        Self { json: self.places(keys), ..self }
    }

    /// Where each key is among the figures.
    fn places(&self, keys: &str) -> Vec<usize> {
        let place = |key: &str| {
            let place = self.figures.iter().position(|figure| figure.column.key == key);
            debug_assert!(place.is_some(), "{} has no figure {key}", self.key);
            place
        };
        keys.split_whitespace().filter_map(place).collect()
    }

    /// For the window.
    pub fn data<T: Borrow<R>>(&self, rows: impl IntoIterator<Item = T>) -> Data {
        let row = |row: T| self.window.iter().map(|&place| (self.figures[place].of)(row.borrow())).collect();
        let columns = self.window.iter().map(|&place| self.figures[place].column).collect();
        Data { columns, rows: rows.into_iter().map(row).collect() }
    }

    /// For the report: the first `top` rows, 0 takes all. Rows that are left out are not even made.
    pub fn table<T: Borrow<R>>(
        &self,
        rows: impl IntoIterator<IntoIter: ExactSizeIterator<Item = T>>,
        top: usize,
    ) -> Table {
        let is_read = |place: &usize| self.report.contains(place) || self.json.contains(place);
        let used: Vec<usize> = (0..self.figures.len()).filter(is_read).collect();
        let rows = rows.into_iter();
        let n_hidden = if top == 0 { 0 } else { rows.len().saturating_sub(top) };
        let n_shown = rows.len() - n_hidden;
        let row = |row: T| used.iter().map(|&place| (self.figures[place].of)(row.borrow())).collect();
        let kept = |places: &[usize]| places.iter().filter_map(|place| used.binary_search(place).ok()).collect();
        Table {
            key: self.key,
            title: self.title,
            columns: used.iter().map(|&place| self.figures[place].column).collect(),
            rows: rows.take(n_shown).map(row).collect(),
            n_hidden,
            note: "",
            report: kept(&self.report),
            json: kept(&self.json),
        }
    }

    /// Some figures of one row, as an object in JSON.
    pub fn object(&self, row: &R, keys: &str) -> Object {
        let figures = self.places(keys).into_iter().map(|place| &self.figures[place]);
        Object(figures.map(|figure| (figure.column.key, (figure.of)(row))).collect())
    }

    /// The tables of this definition as one, for reports that are flat. What all of them call otherwise, it does too.
    pub fn joined<'a>(&self, tables: impl IntoIterator<Item = &'a Table>) -> Table {
        let mut all = self.table(std::iter::empty::<R>(), 0);
        let tables: Vec<&Table> = tables.into_iter().collect();
        let mut listed = tables.iter().filter(|table| !table.is_empty());
        if let Some(first) = listed.next()
            && listed.all(|other| other.title == first.title)
        {
            (all.title, all.columns) = (first.title, first.columns.clone());
        }
        for table in tables {
            all.n_hidden += table.n_hidden;
            all.rows.extend_from_slice(&table.rows);
        }
        all
    }
}

/// Figures under their keys. In JSON it is an object, in which empty figures are absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Object(pub Vec<(&'static str, Cell)>);

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        object(self.0.iter().map(|(key, cell)| (*key, cell)), serializer)
    }
}

fn object<'a, S: Serializer>(
    figures: impl Iterator<Item = (&'static str, &'a Cell)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (key, cell) in figures.filter(|figure| *figure.1 != Cell::Empty) {
        map.serialize_entry(key, cell)?;
    }
    map.end()
}

/// One part of the report. In JSON it is a list of objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// As in JSON.
    pub key: &'static str,
    pub title: &'static str,
    pub columns: Vec<Column>,
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Rows that were left out.
    pub n_hidden: usize,
    /// What the user must know to read it; empty if nothing.
    pub note: &'static str,
    /// Indices of the columns that flat reports have, in their order.
    pub report: Vec<usize>,
    json: Vec<usize>,
}

impl Table {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// These columns for the window, in this order, as far as any row has a value there.
    pub fn window(&self, keys: &str) -> Data {
        let place = |key: &str| self.columns.iter().position(|column| column.key == key);
        let is_told = |&place: &usize| self.rows.iter().any(|row| row[place] != Cell::Empty);
        let places: Vec<usize> = keys.split_whitespace().filter_map(place).filter(is_told).collect();
        let row = |row: &Vec<Cell>| places.iter().map(|&place| row[place].clone()).collect();
        let columns = places.iter().map(|&place| self.columns[place]).collect();
        Data { columns, rows: self.rows.iter().map(row).collect() }
    }

    /// The cell under a key of a row.
    pub fn cell(&self, row: usize, key: &str) -> &Cell {
        let place = self.columns.iter().position(|column| column.key == key);
        place.and_then(|place| self.rows.get(row)?.get(place)).unwrap_or(&Cell::Empty)
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|cells| Row { table: self, cells }))
    }
}

struct Row<'a> {
    table: &'a Table,
    cells: &'a [Cell],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        object(self.table.json.iter().map(|&i| (self.table.columns[i].key, &self.cells[i])), serializer)
    }
}
