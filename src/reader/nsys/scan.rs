//! Reads a range of rows of a table, from its pages or through SQLite, which skips damage.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode};

use crate::job::Progress;
use crate::model::{ImportReport, Severity};

use super::catalog::{Layout, Table, rows_of};
use super::chunk::Chunk;
use super::database::Interrupt;
use super::pages::{self, Leaf, MAX_CELLS};
use super::tables::Spec;

/// Event rows of an ordinary page of 4 KiB are 20 to 60.
const MAX_ROWS_OF_A_PAGE: usize = 200;

/// Rows between checks for cancellation.
const CHECK: u64 = 2048;

/// Damaged places in one range of rows after which the rest of it is skipped.
const MAX_DAMAGES: usize = 200;

/// Row ids from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRange {
    pub first: i64,
    pub last: i64,
}

/// The unreadable rows of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRows {
    /// Rows on damaged pages; an upper bound, since ids may have gaps.
    pub n_damaged: u64,
    /// Rows with a cell of more than 16 MiB.
    pub n_too_large: u64,
    /// SQLite's message for the first damage.
    pub error: Option<String>,
}

impl LostRows {
    pub fn merge(&mut self, other: Self) {
        self.n_damaged = self.n_damaged.saturating_add(other.n_damaged);
        self.n_too_large += other.n_too_large;
        self.error = self.error.take().or(other.error);
    }

    /// Notes damage that cost no row: what is left may be wrong.
    pub fn note_without_loss(&self, table: &str, import: &mut ImportReport) {
        if let Some(error) = self.error.as_ref().filter(|_| self.n_damaged == 0) {
            let text = format!("{table}: damaged ({error}), though no row is missing: export again");
            import.note(Severity::Warn, &text, 1, None);
        }
    }
}

/// Bit position of the table index in source numbers, above the row id.
pub const SOURCE_BITS: u32 = crate::model::SOURCE_ROW_BITS;

/// The source of a row, for details.
#[inline(always)]
pub fn source(table: usize, row_id: i64) -> u64 {
    (table as u64) << SOURCE_BITS | (row_id as u64 & ((1 << SOURCE_BITS) - 1))
}

/// A range of rows of a table, read by one thread.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// Index of the table in the catalog.
    pub index: usize,
    pub table: &'a Table,
    pub spec: &'a Spec,
    pub rows: RowRange,
    /// Its leaf pages, where known.
    pub leaves: Option<Arc<[Leaf]>>,
}

/// The SELECT of the row id and of the cells in the order of the requested columns.
fn select(table: &Table, spec: &Spec) -> String {
    let columns: Vec<String> = spec.columns.iter().map(|wanted| table.column_sql(wanted)).collect();
    format!("SELECT rowid, {} FROM {} WHERE rowid BETWEEN ?1 AND ?2", columns.join(", "), rows_of(&table.name))
}

/// Reads the rows of leaf pages.
///
/// Errors: the pages contain anything unusual.
pub fn scan_pages(
    pages: &mut pages::Reader,
    task: &Task<'_>,
    (leaves, layout): (&[Leaf], Layout),
    chunk: &mut Chunk,
    progress: &Progress,
) -> Result<(), pages::Unexpected> {
    let wanted: Vec<Option<usize>> = task.spec.columns.iter().map(|wanted| task.table.column(wanted)).collect();
    let columns = pages::Columns::new(&wanted, layout.row_id, task.table.columns.len());
    let after = task.rows.first.saturating_sub(1);
    // Ids are consecutive in an export. The minimum size of a row bounds the rows of a page.
    let n_rows = usize::try_from(task.table.max_rows()).unwrap_or(usize::MAX);
    let expected = n_rows.min(leaves.len() * MAX_ROWS_OF_A_PAGE);
    pages.read(leaves, after, &columns, |row_id, cells| {
        chunk.n_read += 1;
        (task.spec.read)(chunk, cells, source(chunk.table, row_id));
        if chunk.n_read == 1 && chunk.slices.len() == 1 {
            chunk.slices.reserve(expected);
        }
        !chunk.n_read.is_multiple_of(CHECK) || !progress.is_cancelled()
    })
}

/// Reads the rows of a task through SQLite. Unreadable rows are skipped as narrowly as SQLite allows and
/// returned as lost.
pub fn scan_rows(
    connection: &Connection,
    task: &Task<'_>,
    chunk: &mut Chunk,
    (interrupt, progress): (&Interrupt, &Progress),
) -> LostRows {
    let Task { table, spec, rows, .. } = *task;
    let sql = select(table, spec);
    let mut lost = LostRows::default();
    let mut first = rows.first;
    for _ in 0..MAX_DAMAGES {
        let (last_read, error) =
            read_rows(connection, &sql, RowRange { first, ..rows }, spec, chunk, || interrupt.saw_row(progress));
        let Some(error) = error else { return lost };
        if progress.is_cancelled() {
            return lost;
        }
        let bad = last_read.map_or(first, |last| last.saturating_add(1));
        let rest = (rows.last.saturating_sub(bad) as u64).saturating_add(1);
        let is_over = error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted);
        let next = match error.sqlite_error_code() {
            Some(ErrorCode::TooBig) => {
                lost.n_too_large += 1;
                after_large(connection, table, RowRange { first: bad, ..rows })
            }
            _ if is_over => None,
            _ => after_damage(connection, &sql, RowRange { first: bad, ..rows }),
        };
        let is_damage = error.sqlite_error_code() != Some(ErrorCode::TooBig);
        if is_damage {
            let n = next.map_or(rest, |next| next.saturating_sub(bad) as u64);
            lost.merge(LostRows { n_damaged: n, error: Some(error.to_string()), ..Default::default() });
        }
        match next {
            Some(next) => first = next,
            None => return lost,
        }
    }
    let rest = (rows.last.saturating_sub(first) as u64).saturating_add(1);
    lost.merge(LostRows { n_damaged: rest, ..Default::default() });
    lost
}

/// Reads until the end or an error; returns the last row id that was read, and the error.
fn read_rows(
    connection: &Connection,
    sql: &str,
    range: RowRange,
    spec: &Spec,
    chunk: &mut Chunk,
    mut go_on: impl FnMut() -> bool,
) -> (Option<i64>, Option<Error>) {
    let mut last_read = None;
    let mut read = || -> Result<(), Error> {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([range.first, range.last])?;
        let n_columns = spec.columns.len().min(MAX_CELLS);
        while let Some(row) = rows.next()? {
            let row_id = match row.get_ref(0)? {
                ValueRef::Integer(id) => id,
                _ => -1,
            };
            let mut cells = [ValueRef::Null; MAX_CELLS];
            for (i, cell) in cells.iter_mut().enumerate().take(n_columns) {
                *cell = row.get_ref(i + 1)?;
            }
            // A damaged tree may lead to the same rows again.
            if last_read.is_some_and(|last| row_id <= last) {
                return Err(Error::InvalidQuery);
            }
            chunk.n_read += 1;
            (spec.read)(chunk, &cells[..n_columns], source(chunk.table, row_id));
            last_read = Some(row_id);
            if chunk.n_read.is_multiple_of(CHECK) && !go_on() {
                return Ok(());
            }
        }
        Ok(())
    };
    let error = read().err();
    (last_read, error)
}

/// The first row after one that is too large to read. The query for an id loads no cell.
fn after_large(connection: &Connection, table: &Table, range: RowRange) -> Option<i64> {
    let sql = format!("SELECT min(rowid) FROM {} WHERE rowid BETWEEN ?1 AND ?2", rows_of(&table.name));
    let large: i64 = connection.query_row(&sql, [range.first, range.last], |row| row.get(0)).ok()?;
    large.checked_add(1).filter(|&next| next <= range.last)
}

/// The first row after a damaged place: searches forward in growing strides until a row is readable, then
/// backward to the first readable one.
fn after_damage(connection: &Connection, sql: &str, range: RowRange) -> Option<i64> {
    let mut statement = connection.prepare(&format!("{sql} LIMIT 1")).ok()?;
    let mut readable = |first: i64| statement.query_row([first, range.last], |row| row.get::<_, i64>(0)).ok();
    let (mut bad, mut stride) = (range.first, 1_i64);
    let mut found = loop {
        let at = bad.checked_add(stride).filter(|&at| at <= range.last)?;
        match readable(at) {
            Some(row) => break row,
            None => bad = at,
        }
        stride = stride.saturating_mul(2);
    };
    while found.saturating_sub(bad) > 1 {
        let middle = bad + (found - bad) / 2;
        match readable(middle) {
            Some(row) if row < found => found = row,
            Some(_) => found = middle.max(bad + 1),
            None => bad = middle,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::database::Database;
    use super::super::strings::WantedStrings;
    use super::super::tables::Role;
    use super::super::{Options, Plan, Source, catalog, whole};
    use super::*;

    /// All available exports: the committed samples, and real exports where the checkout has them.
    fn exports() -> Vec<PathBuf> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let folders = ["sample_traces", "../shared/data/real/B_sqlite", "../shared/data/nsys_cpu"];
        let entries = folders.iter().filter_map(|folder| std::fs::read_dir(root.join(folder)).ok()).flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "sqlite")).collect()
    }

    #[test]
    fn pages_and_sqlite_give_the_same_rows() {
        let (interrupt, progress) = (Interrupt::of_reading(0), Progress::default());
        let mut n_rows = 0;
        for path in exports() {
            let source = Source::file(&path).unwrap();
            let database = Database::new(&source, Options::default(), &progress).unwrap();
            let connection = database.connect(&interrupt).unwrap();
            let catalog = catalog::read(&connection).unwrap();
            let mut pages = database.pages().unwrap();
            let plan = Plan::new(database.pages(), &catalog, false);
            for (index, table) in catalog.tables.iter().enumerate() {
                let Role::Events(spec) = table.role else { continue };
                let Some(rows) = table.row_ids else { continue };
                for task in plan.tasks(index, table, spec) {
                    let empty = || whole::chunk(&task, &WantedStrings::default(), &Arc::default());
                    let (mut by_pages, mut by_sqlite) = (empty(), empty());
                    let leaves = task.leaves.clone().unwrap();
                    let read = (&leaves[..], table.layout.unwrap());
                    scan_pages(&mut pages, &task, read, &mut by_pages, &progress).unwrap();
                    let rows = RowRange { first: task.rows.first.max(rows.0), last: task.rows.last.min(rows.1) };
                    let through = Task { rows, ..task.clone() };
                    let lost = scan_rows(&connection, &through, &mut by_sqlite, (&interrupt, &progress));
                    let rows =
                        |chunk: &Chunk| format!("{:?} {:?} {:?}", chunk.slices, chunk.instants, chunk.names.items);
                    assert_eq!(lost, LostRows::default(), "{}: {}", path.display(), table.name);
                    assert!(rows(&by_pages) == rows(&by_sqlite), "{}: {}", path.display(), table.name);
                    assert_eq!(by_pages.n_read, by_sqlite.n_read);
                    n_rows += by_pages.n_read;
                }
            }
        }
        assert!(n_rows > 1000, "only {n_rows} rows in reach");
    }
}
