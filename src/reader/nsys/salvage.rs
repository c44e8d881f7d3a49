//! Reads the rows that a damaged table still has, in one walk over its pages.
//!
//! No page is read twice and row ids must rise, so that no row is shown twice and the cost is linear in the file.

use std::collections::HashSet;

use rusqlite::types::ValueRef;

use super::pages::{Cell, Columns, INTERIOR, LEAF, Leaf, MAX_CELLS, MAX_RECORD, Owners, Reader, Unexpected};
use super::pages::{is_explained, n_columns, n_missing, u16_at, u32_at, varint};
use super::strays::Strays;

/// The table to salvage.
#[derive(Clone, Copy, Debug)]
pub struct Damaged<'a> {
    /// Index of the table in the catalog.
    pub index: usize,
    pub root: u32,
    pub n_columns: usize,
    pub owners: &'a Owners,
    /// Pages in the place of others.
    pub copies: &'a HashSet<u32>,
}

/// What was found and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub n_rows: u64,
    /// Damaged rows on pages that could be read.
    n_bad: u64,
    pub n_too_large: u64,
    n_leaves: u64,
    /// Pages that could not be read, and of these the last ones, behind which no row id is known.
    n_lost_pages: u64,
    n_lost_last: u64,
    /// Rows with as many columns on pages that no table leads to, where a page with the way to them may be lost.
    n_astray: u64,
    /// Rows missing from the end of the last leaf.
    n_cut: u64,
    first: Option<i64>,
    /// Whether damage came before the first row.
    begins_damaged: bool,
    last: i64,
    /// Largest row id that some page should hold.
    last_known: i64,
    has_gaps: bool,
}

impl Account {
    /// Rows that are lost: exact where the ids of a table have no gaps, as in all tables of events; otherwise by the
    /// usual number of rows of a page, which is that of ids if none can be read.
    pub fn n_lost(&self) -> u64 {
        let known = u64::try_from(self.last_known).unwrap_or(0);
        let of_lost = || known.checked_div(self.n_lost_pages - self.n_lost_last).unwrap_or(1);
        let of_a_page = self.n_rows.checked_div(self.n_leaves).unwrap_or_else(of_lost).max(1);
        let Some(first) = self.first.filter(|_| !self.has_gaps) else {
            let on_pages = self.n_lost_pages.saturating_mul(of_a_page).max(self.n_astray);
            return self.n_bad + self.n_cut + on_pages;
        };
        let first = if self.begins_damaged { first.min(1) } else { first };
        let span = self.last_known.max(self.last).abs_diff(first).saturating_add(1);
        let between = span.saturating_sub(self.n_rows + self.n_too_large);
        let on_pages = self.n_lost_last.saturating_mul(of_a_page).max(self.n_astray);
        let at_the_end = on_pages.saturating_add(self.n_cut);
        between.max(self.n_bad).saturating_add(at_the_end)
    }

    fn lose_page(&mut self, bound: i64) {
        self.n_lost_pages += 1;
        self.begins_damaged |= self.first.is_none();
        match bound {
            i64::MAX => self.n_lost_last += 1,
            _ => self.last_known = self.last_known.max(bound),
        }
    }
}

/// Passes the rows of a damaged table to `row`, in the order of their ids.
///
/// * `strays`: asked for if the way to further pages is lost; knows the pages that were read for other tables.
pub fn salvage(
    pages: &mut Reader,
    table: Damaged<'_>,
    columns: &Columns,
    strays: &mut Strays<'_>,
    mut row: impl FnMut(i64, &[ValueRef<'_>]),
) -> Account {
    let mut account = Account { last: i64::MIN, last_known: i64::MIN, ..Default::default() };
    let mut waiting = vec![Leaf { page: table.root, last_row: i64::MAX }];
    while let Some(Leaf { page, last_row }) = waiting.pop() {
        let is_other = table.copies.contains(&page) || table.owners.is_of_another(page, table.index);
        let is_new = !strays.visited.contains(&page) && !is_other;
        let kind = if is_new { pages.page(page).map_or(0, |bytes| bytes[0]) } else { 0 };
        let read = match kind {
            INTERIOR => {
                strays.visited.insert(page);
                children(pages, page, last_row).map(|(children, is_whole)| {
                    if !is_whole {
                        account.lose_page(i64::MIN);
                    }
                    waiting.extend(children.into_iter().rev());
                })
            }
            LEAF => read_leaf(pages, (page, last_row), table, columns, &mut account, &mut row).map(|()| {
                strays.visited.insert(page);
            }),
            _ => Err(Unexpected),
        };
        if read.is_err() {
            account.lose_page(last_row);
        }
    }
    if account.n_lost_last > 0 {
        account.n_astray = strays.behind(pages, table.n_columns, account.last);
    }
    account
}

/// The pages below an interior page, in order, and whether there were no others. Bounds that do not rise are replaced
/// by that of the page.
fn children(pages: &mut Reader, page: u32, last_row: i64) -> Result<(Vec<Leaf>, bool), Unexpected> {
    let bytes = pages.page(page)?;
    let (mut found, mut n_bytes) = (Vec::new(), 0);
    for i in 0..usize::from(u16_at(bytes, 3)?) {
        let Ok(cell) = u16_at(bytes, 12 + 2 * i) else { break };
        let mut at = usize::from(cell) + 4;
        let (Ok(child), Ok(bound)) = (u32_at(bytes, at - 4), varint(bytes, &mut at)) else { continue };
        n_bytes += at - usize::from(cell);
        found.push(Leaf { page: child, last_row: bound.min(last_row) });
    }
    let is_whole = is_explained(bytes, found.len(), n_bytes) == Ok(true);
    found.push(Leaf { page: u32_at(bytes, 8)?, last_row });
    for i in (1..found.len()).rev() {
        found[i - 1].last_row = found[i - 1].last_row.min(found[i].last_row);
    }
    Ok((found, is_whole))
}

/// Errors: no row of the page belongs to the table, or the page is damaged as a whole.
fn read_leaf(
    pages: &mut Reader,
    (page, bound): (u32, i64),
    table: Damaged<'_>,
    columns: &Columns,
    account: &mut Account,
    row: &mut impl FnMut(i64, &[ValueRef<'_>]),
) -> Result<(), Unexpected> {
    let bytes = pages.page(page)?;
    let n_cells = usize::from(u16_at(bytes, 3)?).min(bytes.len() / 2);
    let cells: Vec<Option<Cell>> = (0..n_cells).map(|i| Cell::at(bytes, i).ok()).collect();
    let n_bytes = cells.iter().flatten().map(Cell::n_bytes).sum();
    let n_missing = n_missing(bytes, n_cells, n_bytes).unwrap_or(0);
    let before = *account;
    let mut is_next = false;
    for (i, cell) in cells.iter().enumerate() {
        let fits = |cell: &Cell| cell.row_id > account.last && cell.row_id <= bound;
        // Of two ids that do not rise, the first is the damaged one if the second could follow what came before.
        let next = cells[i + 1..].iter().flatten().next().filter(|next| fits(next));
        let good = cell.filter(|cell| fits(cell) && next.is_none_or(|next| next.row_id > cell.row_id));
        let Some(cell) = good else {
            (account.n_bad, is_next) = (account.n_bad + 1, false);
            continue;
        };
        if cell.len > MAX_RECORD {
            account.n_too_large += 1;
        } else {
            let record = pages.own_record(page, &cell);
            let mut values = [ValueRef::Null; MAX_CELLS];
            let is_read = record.as_ref().is_ok_and(|record| {
                n_columns(record) == Ok(table.n_columns) && columns.read(record, cell.row_id, &mut values).is_ok()
            });
            if !is_read {
                (account.n_bad, is_next) = (account.n_bad + 1, false);
                continue;
            }
            row(cell.row_id, &values[..columns.n_cells]);
            account.n_rows += 1;
        }
        account.has_gaps |= is_next && cell.row_id != account.last + 1;
        account.begins_damaged |= account.first.is_none() && account.n_bad > 0;
        account.first.get_or_insert(cell.row_id);
        (account.last, is_next) = (cell.row_id, true);
    }
    // Only a table without rows has a page without any.
    if account.n_rows == before.n_rows && (n_cells > 0 || bound != i64::MAX || n_missing > 0) {
        *account = before;
        return Err(Unexpected);
    }
    account.n_leaves += 1;
    if bound != i64::MAX {
        account.last_known = account.last_known.max(bound);
    } else if n_missing > 0 && account.n_bad == before.n_bad {
        account.n_cut += (n_missing * n_cells / n_bytes.max(1)).max(1) as u64;
    }
    Ok(())
}
