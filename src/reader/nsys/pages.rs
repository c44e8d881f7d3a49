//! Reads the rows of a table directly from its pages, several times as fast as through SQLite's VM.
//!
//! An export is written once, in order, and never changed, so a table is a sequence of full leaf pages.
//! [`Reader::read`] accounts for every byte of them and fails on anything else: nothing is repaired or guessed here.
//! Where a table fails, [`super::whole`] asks SQLite, and [`super::salvage`] reads what a damaged table still has.
//!
//! Format: <https://www.sqlite.org/fileformat2.html#b_tree_pages>

mod copies;
mod interior;
mod overflow;
mod owners;
mod trees;

use std::fs::File;
use std::sync::Arc;

use rusqlite::types::ValueRef;

use self::copies::mark;
pub use self::copies::{Mark, Owner, copies};
pub use self::interior::is_explained;
use self::overflow::{Chains, Size};
pub use self::overflow::{Known, MAX_RECORD};
pub use self::owners::Owners;
pub use self::trees::CATALOG;
use super::opened::read_exact_at;

/// A structure that only SQLite should read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unexpected;

/// A page of a table, and the largest row id that it and those below it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub page: u32,
    pub last_row: i64,
}

pub const LEAF: u8 = 0x0d;
pub const INTERIOR: u8 = 0x05;

/// Deeper trees would exceed the largest possible file.
const MAX_DEPTH: usize = 12;

/// Most consecutive pages read at once.
const MAX_AHEAD: u64 = 64;

/// A database file with a window of recently read pages.
#[derive(Debug)]
pub struct Reader {
    file: File,
    pub size: Size,
    window: Vec<u8>,
    /// The first page in the window, counted from 0.
    first: u64,
    n_ahead: u64,
    /// By leaf that was read, what tells it from others; 0 for those without rows.
    pub marks: Vec<u64>,
    /// Records that go on on other pages.
    pub chains: Chains,
}

impl Reader {
    /// Reads a database file whose header was checked.
    ///
    /// * `known`: what was found of its chains.
    ///
    /// Errors: it cannot be read.
    pub fn open(mut file: File, known: Arc<Known>) -> std::io::Result<Self> {
        let mut head = [0_u8; 100];
        read_exact_at(&mut file, &mut head, 0)?;
        let page_size = match u16::from_be_bytes([head[16], head[17]]) {
            1 => 65_536,
            size => usize::from(size),
        };
        let n_pages = file.metadata()?.len() / page_size.max(1) as u64;
        let usable = page_size.saturating_sub(usize::from(head[20]));
        let size = Size { page: page_size, usable, n_pages };
        let chains = Chains::new(known);
        Ok(Self { file, size, window: Vec::new(), first: 0, n_ahead: 1, marks: Vec::new(), chains })
    }

    /// Puts a page, counted from 1 as SQLite does, into the window; returns where it starts there.
    fn load(&mut self, page: u32) -> Result<usize, Unexpected> {
        let index = u64::from(page).checked_sub(1).filter(|&index| index < self.size.n_pages).ok_or(Unexpected)?;
        let n_held = (self.window.len() / self.size.page) as u64;
        if let Some(inside) = index.checked_sub(self.first).filter(|&inside| inside < n_held) {
            return Ok(inside as usize * self.size.page);
        }
        // Read ahead only where the pages of the table are consecutive.
        let is_next = n_held > 0 && index == self.first + n_held;
        self.n_ahead = if is_next { (self.n_ahead * 2).min(MAX_AHEAD) } else { 1 };
        let n = self.n_ahead.min(self.size.n_pages - index);
        self.window.resize(n as usize * self.size.page, 0);
        self.first = index;
        if read_exact_at(&mut self.file, &mut self.window, index * self.size.page as u64).is_err() {
            self.window.clear();
            return Err(Unexpected);
        }
        Ok(0)
    }

    /// The usable bytes of a page.
    ///
    /// Errors: it is not in the file.
    pub fn page(&mut self, page: u32) -> Result<&[u8], Unexpected> {
        let start = self.load(page)?;
        Ok(&self.window[start..start + self.size.usable])
    }

    /// The leaf pages of the table with this root, in order; all its pages are claimed for it.
    ///
    /// Errors: the tree is not well-formed.
    pub fn leaves(&mut self, root: u32, table: usize, owners: &mut Owners) -> Result<Vec<Leaf>, Unexpected> {
        if root < 2 {
            return Err(Unexpected);
        }
        let mut level = vec![Leaf { page: root, last_row: i64::MAX }];
        if u64::from(root) <= self.size.n_pages {
            owners.claim(root, table);
        }
        for _ in 0..MAX_DEPTH {
            // All leaves have the same depth, so the first page determines the type of its level.
            let start = self.load(level[0].page)?;
            match self.window[start] {
                LEAF => return Ok(level),
                INTERIOR => {
                    level = self.children(&level)?;
                    let n_pages = self.size.n_pages;
                    let inside = level.iter().filter(|leaf| u64::from(leaf.page) <= n_pages);
                    inside.for_each(|leaf| owners.claim(leaf.page, table));
                }
                _ => return Err(Unexpected),
            }
        }
        Err(Unexpected)
    }

    fn children(&mut self, parents: &[Leaf]) -> Result<Vec<Leaf>, Unexpected> {
        let mut children = Vec::new();
        let mut last = i64::MIN;
        for parent in parents {
            let start = self.load(parent.page)?;
            let page = &self.window[start..start + self.size.usable];
            if page[0] != INTERIOR {
                return Err(Unexpected);
            }
            let n_cells = usize::from(u16_at(page, 3)?);
            let mut n_bytes = 0;
            for i in 0..n_cells {
                let cell = usize::from(u16_at(page, 12 + 2 * i)?);
                let child = u32_at(page, cell)?;
                let mut end = cell + 4;
                let last_row = varint(page, &mut end)?;
                n_bytes += end - cell;
                if last_row < last || last_row > parent.last_row {
                    return Err(Unexpected);
                }
                last = last_row;
                children.push(Leaf { page: child, last_row });
            }
            if !is_explained(page, n_cells, n_bytes)? {
                return Err(Unexpected);
            }
            children.push(Leaf { page: u32_at(page, 8)?, last_row: parent.last_row });
            last = parent.last_row;
            // A tree with a cycle would never end.
            if children.len() as u64 > self.size.n_pages {
                return Err(Unexpected);
            }
        }
        Ok(children)
    }

    /// Reads the rows of these leaves into cells, as `columns` says; `row` takes each over, until it
    /// returns false. All ids are above `after`.
    ///
    /// Errors: an unexpected structure; earlier rows were already passed on.
    pub fn read(
        &mut self,
        leaves: &[Leaf],
        after: i64,
        columns: &Columns,
        mut row: impl FnMut(i64, &[ValueRef<'_>]) -> bool,
    ) -> Result<(), Unexpected> {
        let mut last_row = after;
        for leaf in leaves {
            let start = self.load(leaf.page)?;
            let page = &self.window[start..start + self.size.usable];
            if page[0] != LEAF {
                return Err(Unexpected);
            }
            let n_cells = usize::from(u16_at(page, 3)?);
            if n_cells == 0 {
                self.marks.push(0);
            }
            // Once for all rows of the page: each row fills the same cells, and a column that the table lacks stays
            // NULL.
            let mut cells = [ValueRef::Null; MAX_CELLS];
            let mut n_bytes = 0;
            for i in 0..n_cells {
                let cell = Cell::at(page, i)?;
                if cell.row_id <= last_row || cell.row_id > leaf.last_row {
                    return Err(Unexpected);
                }
                last_row = cell.row_id;
                n_bytes += cell.n_bytes();
                if i == 0 {
                    self.marks.push(mark(page));
                    if n_columns(&page[cell.start..cell.start + cell.local])? != columns.n_of_table {
                        return Err(Unexpected);
                    }
                }
                if let Some(overflow) = cell.overflow {
                    // Of rows that nobody looks at the way is enough.
                    if columns.n_cells == 0 {
                        let chain = (overflow, cell.len - cell.local);
                        let end = self.chains.end_of(&mut self.file, self.size, chain)?;
                        self.chains.ends.push(end);
                        if !row(cell.row_id, &[]) {
                            return Ok(());
                        }
                        continue;
                    }
                    let local = page[cell.start..cell.start + cell.local].to_vec();
                    let (record, end) = self.chains.record(&mut self.file, self.size, (local, overflow, cell.len))?;
                    self.chains.ends.push(end);
                    self.chains.known.take(end)?;
                    let mut cells = [ValueRef::Null; MAX_CELLS];
                    columns.read(&record, cell.row_id, &mut cells)?;
                    if !row(cell.row_id, &cells[..columns.n_cells]) {
                        return Ok(());
                    }
                    continue;
                }
                columns.read(&page[cell.start..cell.start + cell.local], cell.row_id, &mut cells)?;
                if !row(cell.row_id, &cells[..columns.n_cells]) {
                    return Ok(());
                }
            }
            // The rightmost leaf has no largest row; the others end with theirs.
            let ends_well = leaf.last_row == i64::MAX || (n_cells > 0 && last_row == leaf.last_row);
            if !ends_well || n_missing(page, n_cells, n_bytes)? != 0 {
                return Err(Unexpected);
            }
        }
        Ok(())
    }

    /// The whole record of a cell.
    ///
    /// Errors: its chain is not of its length, or not in the file.
    pub fn record(&mut self, page: u32, cell: &Cell) -> Result<Vec<u8>, Unexpected> {
        let bytes = self.page(page)?;
        let local = bytes.get(cell.start..cell.start + cell.local).ok_or(Unexpected)?.to_vec();
        match cell.overflow {
            Some(overflow) => Ok(self.chains.record(&mut self.file, self.size, (local, overflow, cell.len))?.0),
            None => Ok(local),
        }
    }
}

/// A row on a leaf page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub row_id: i64,
    /// Bytes of the record.
    pub len: usize,
    /// Where the cell starts on the page, and its record.
    cell: usize,
    start: usize,
    /// Bytes of the record on this page.
    local: usize,
    /// The page on which the record goes on.
    overflow: Option<u32>,
}

impl Cell {
    /// The row with this number on a page.
    ///
    /// Errors: it is not within the page.
    #[inline(always)]
    pub fn at(page: &[u8], i: usize) -> Result<Self, Unexpected> {
        let cell = usize::from(u16_at(page, 8 + 2 * i)?);
        let mut at = cell;
        let len = usize::try_from(varint(page, &mut at)?).map_err(|_| Unexpected)?;
        let row_id = varint(page, &mut at)?;
        if len > page.len() - 35 {
            return Self::large(page, (cell, at), len, row_id);
        }
        if at + len > page.len() {
            return Err(Unexpected);
        }
        Ok(Self { row_id, len, cell, start: at, local: len, overflow: None })
    }

    /// A record that goes on on other pages.
    #[cold]
    fn large(page: &[u8], (cell, start): (usize, usize), len: usize, row_id: i64) -> Result<Self, Unexpected> {
        let local = overflow::n_local(page.len(), len, page.len() - 35);
        let overflow = Some(u32_at(page, start + local)?);
        Ok(Self { row_id, len, cell, start, local, overflow })
    }

    /// Bytes of the cell on this page.
    #[inline(always)]
    pub fn n_bytes(&self) -> usize {
        (self.start - self.cell + self.local + if self.overflow.is_some() { 4 } else { 0 }).max(4)
    }
}

/// Bytes of a leaf's content that neither its cells nor its fragments explain; 1 at least if it has free blocks, or
/// overlaps.
pub fn n_missing(page: &[u8], n_cells: usize, n_bytes: usize) -> Result<usize, Unexpected> {
    let start = match u16_at(page, 5)? {
        0 => 65_536,
        start => usize::from(start),
    };
    let n_content = page.len().checked_sub(start).ok_or(Unexpected)?;
    let is_odd = u16_at(page, 1)? != 0 || 8 + 2 * n_cells > start;
    let n_explained = n_bytes + usize::from(page[7]);
    Ok(n_content.abs_diff(n_explained).max(usize::from(is_odd)))
}

/// Most cells requested of one table.
pub const MAX_CELLS: usize = 20;

/// Maps columns of a table to cells.
#[derive(Clone, Debug)]
pub struct Columns {
    /// By column: its cell, if requested. Ends with the last requested column.
    cell_of: Vec<Option<u8>>,
    /// The column that aliases the row id, stored as NULL in records.
    row_id: Option<usize>,
    pub n_cells: usize,
    n_of_table: usize,
}

impl Columns {
    /// * `wanted`: for each cell the index of its column, or `None` if the table lacks it.
    /// * `row_id`: the column declared `INTEGER PRIMARY KEY`.
    /// * `n_of_table`: columns of the table.
    pub fn new(wanted: &[Option<usize>], row_id: Option<usize>, n_of_table: usize) -> Self {
        let n_columns = wanted.iter().flatten().max().map_or(0, |last| last + 1);
        let mut cell_of = vec![None; n_columns];
        for (cell, column) in wanted.iter().enumerate() {
            if let Some(column) = column {
                cell_of[*column] = Some(cell as u8);
            }
        }
        Self { cell_of, row_id, n_cells: wanted.len().min(MAX_CELLS), n_of_table }
    }

    #[inline(always)]
    pub fn read<'a>(
        &self,
        record: &'a [u8],
        row_id: i64,
        cells: &mut [ValueRef<'a>; MAX_CELLS],
    ) -> Result<(), Unexpected> {
        let mut head = 0;
        let head_len = usize::try_from(varint(record, &mut head)?).map_err(|_| Unexpected)?;
        // A record of a table that was altered later ends early, which is an error of `varint`.
        let header = record.get(..head_len).ok_or(Unexpected)?;
        let mut body = head_len;
        for (column, cell) in self.cell_of.iter().enumerate() {
            let kind = varint(header, &mut head)?;
            let Some(cell) = *cell else {
                body = body.saturating_add(len_of(kind)?);
                continue;
            };
            let (value, len) = match kind {
                0 if self.row_id == Some(column) => (ValueRef::Integer(row_id), 0),
                _ => value_of(kind, record.get(body..).ok_or(Unexpected)?)?,
            };
            *cells.get_mut(usize::from(cell)).ok_or(Unexpected)? = value;
            body += len;
        }
        Ok(())
    }
}

/// Bytes of a value of this serial type.
#[inline(always)]
fn len_of(kind: i64) -> Result<usize, Unexpected> {
    match kind {
        0 | 8 | 9 => Ok(0),
        1..=4 => Ok(kind as usize),
        5 => Ok(6),
        6 | 7 => Ok(8),
        12.. => usize::try_from((kind - 12) / 2).map_err(|_| Unexpected),
        _ => Err(Unexpected),
    }
}

/// The value of this serial type at the start of `bytes`, and its length.
#[inline(always)]
fn value_of(kind: i64, bytes: &[u8]) -> Result<(ValueRef<'_>, usize), Unexpected> {
    let int = |value: Option<i64>| value.map(ValueRef::Integer);
    let value = match kind {
        0 => Some(ValueRef::Null),
        1 => int(bytes.first().map(|&byte| i64::from(byte as i8))),
        2 => int(bytes.first_chunk().map(|&bytes| i64::from(i16::from_be_bytes(bytes)))),
        3 => int(bytes.first_chunk().map(|&[a, b, c]| i64::from(i32::from_be_bytes([a, b, c, 0]) >> 8))),
        4 => int(bytes.first_chunk().map(|&bytes| i64::from(i32::from_be_bytes(bytes)))),
        5 => int(bytes.first_chunk().map(|&[a, b, c, d, e, f]| i64::from_be_bytes([a, b, c, d, e, f, 0, 0]) >> 16)),
        6 => int(bytes.first_chunk().map(|&bytes| i64::from_be_bytes(bytes))),
        7 => bytes.first_chunk().map(|&bytes| ValueRef::Real(f64::from_be_bytes(bytes))),
        8 => Some(ValueRef::Integer(0)),
        9 => Some(ValueRef::Integer(1)),
        _ => bytes.get(..len_of(kind)?).map(if kind % 2 == 1 { ValueRef::Text } else { ValueRef::Blob }),
    };
    Ok((value.ok_or(Unexpected)?, len_of(kind)?))
}

pub fn u16_at(page: &[u8], at: usize) -> Result<u16, Unexpected> {
    match page.get(at..at + 2) {
        Some(&[a, b]) => Ok(u16::from_be_bytes([a, b])),
        _ => Err(Unexpected),
    }
}

pub fn u32_at(page: &[u8], at: usize) -> Result<u32, Unexpected> {
    match page.get(at..at + 4) {
        Some(&[a, b, c, d]) => Ok(u32::from_be_bytes([a, b, c, d])),
        _ => Err(Unexpected),
    }
}

/// Number of columns of a record.
pub fn n_columns(record: &[u8]) -> Result<usize, Unexpected> {
    let mut at = 0;
    let len = usize::try_from(varint(record, &mut at)?).map_err(|_| Unexpected)?;
    let header = record.get(..len).ok_or(Unexpected)?;
    let mut n = 0;
    while at < len {
        varint(header, &mut at)?;
        n += 1;
    }
    Ok(n)
}

/// A number of 1 to 9 bytes, seven bits each but for the ninth; moves `at` behind it.
#[inline(always)]
pub fn varint(bytes: &[u8], at: &mut usize) -> Result<i64, Unexpected> {
    let first = *bytes.get(*at).ok_or(Unexpected)?;
    *at += 1;
    if first < 0x80 {
        return Ok(i64::from(first));
    }
    long_varint(bytes, at, first)
}

#[inline(never)]
fn long_varint(bytes: &[u8], at: &mut usize, first: u8) -> Result<i64, Unexpected> {
    let mut value = u64::from(first & 0x7f);
    for i in 1..9 {
        let byte = *bytes.get(*at).ok_or(Unexpected)?;
        *at += 1;
        if i == 8 {
            return Ok((value << 8 | u64::from(byte)) as i64);
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            break;
        }
    }
    Ok(value as i64)
}

#[cfg(test)]
mod tests;
