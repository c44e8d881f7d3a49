//! Reads whole tables whose pages hold anything unusual.
//!
//! SQLite says whether such a table is damaged. If it is not, SQLite reads it; if it is, what it still has is taken
//! from its pages, or through SQLite where only SQLite knows its columns.

use std::collections::HashSet;
use std::sync::Arc;

use rayon::prelude::*;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode};

use crate::job::Progress;

use super::catalog::{Catalog, Table, quoted};
use super::chunk::Chunk;
use super::database::{Database, Interrupt, Unit};
use super::others::Walked;
use super::pages::{self, Columns, Leaf, Mark, Owner, Owners, Reader};
use super::salvage::{Damaged, salvage};
use super::scan::{self, LostRows, RowRange, Task, source};
use super::strays::Strays;
use super::tables::Role;

/// Rows of one task.
const ROWS_PER_TASK: u64 = 250_000;

/// Most tasks of one table, regardless of the range of its row ids.
const MAX_TASKS: u64 = 512;

/// What SQLite finds wrong with a table, or with all of the file, orders of indexes included; `None` if it is whole.
pub fn damage(connection: &Connection, table: Option<&str>) -> Option<String> {
    let of_table = |table| format!("PRAGMA quick_check({})", quoted(table));
    let sql = table.map_or("PRAGMA integrity_check".to_owned(), of_table);
    match connection.query_row(&sql, [], |row| row.get::<_, String>(0)) {
        Ok(answer) if answer == "ok" => None,
        // A cell that is too large costs its row, later.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => None,
        Ok(_) => Some("database disk image is malformed".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// Whether some page of a table is known to be of another.
pub fn has_rows_of_others(pages: &mut Reader, table: &Table, leaves: &[Leaf], copies: Option<&HashSet<u32>>) -> bool {
    let is_copied = |leaf: &Leaf| copies.is_some_and(|copies| copies.contains(&leaf.page));
    leaves.iter().any(is_copied) || pages.has_wider_rows(leaves, table.columns.len())
}

/// Pages that are there in several tables, in the place of others.
///
/// * `leaves`: by table.
/// * `others`: what is known of those without events, by table.
/// * `read`: marks of the pages of events that were read, by table; none where that failed.
pub fn copies<'a>(
    database: &Database,
    catalog: &Catalog,
    leaves: &[Option<Vec<Leaf>>],
    others: &[Walked],
    read: impl Iterator<Item = (usize, &'a [u64])>,
) -> HashSet<u32> {
    let Some(mut pages) = database.pages() else { return HashSet::new() };
    let tables = catalog.tables.iter().zip(leaves);
    let owner = tables.map(|(table, leaves)| Owner {
        leaves: leaves.as_deref().unwrap_or_default(),
        n_columns: table.columns.len(),
        is_of_events: matches!(table.role, Role::Events(_) | Role::EventLike),
    });
    let owners: Vec<Owner<'_>> = owner.collect();
    let mut of_table = vec![Vec::new(); owners.len()];
    for (table, marks) in read {
        of_table[table].extend_from_slice(marks);
    }
    for ((owner, marks), other) in owners.iter().zip(&mut of_table).zip(others) {
        if !owner.is_of_events {
            marks.clone_from(&other.marks);
        } else if owner.leaves.len() != marks.len() {
            *marks = owner.leaves.iter().map(|leaf| pages.mark(leaf.page)).collect();
        }
    }
    let of_table = of_table.into_iter().enumerate();
    let all = of_table.flat_map(|(table, marks)| (0..).zip(marks).map(move |(leaf, mark)| Mark { mark, table, leaf }));
    pages::copies(&mut pages, &owners, all.filter(|mark| mark.mark != 0).collect())
}

/// What reading tables again needs.
pub struct Rereading<'a, 's> {
    pub database: &'a Database,
    pub interrupt: &'a Interrupt,
    pub progress: &'a Progress,
    pub owners: &'a Owners,
    /// Pages in the place of others.
    pub copies: &'a HashSet<u32>,
    /// Leaf pages of no table.
    pub strays: &'a mut Strays<'s>,
    /// The last pages of records that go on on other pages.
    pub ends: Vec<u32>,
    /// The same of tables whose records have been followed.
    pub met: HashSet<u32>,
}

impl Rereading<'_, '_> {
    /// Reads a table through SQLite, or what is left of it. A connection that met damage answers differently
    /// afterwards, so that each table gets connections of its own.
    ///
    /// * `task`: of the whole table.
    /// * `leaves`: its pages, where they are in order.
    /// * `empty`: an empty chunk of the table.
    ///
    /// Returns nothing where all has to be read again, see [`pages::Known::is_shared`].
    ///
    /// Errors: the file cannot be opened again.
    pub fn read(
        &mut self,
        task: &Task<'_>,
        leaves: Option<&[Leaf]>,
        empty: &(dyn Fn() -> Chunk + Sync),
    ) -> rusqlite::Result<Vec<(Chunk, LostRows)>> {
        let table = task.table;
        let leaves = leaves.unwrap_or_default();
        let is_mixed = |mut pages: Reader| has_rows_of_others(&mut pages, table, leaves, Some(self.copies));
        // SQLite checks a table alone, and not whether its texts go on on pages of others.
        let ends = self.database.pages().map_or(Ok(Vec::new()), |mut pages| pages.ends(leaves));
        if ends.iter().flatten().any(|end| !self.met.insert(*end)) {
            self.database.chains.set_shared();
            return Ok(Vec::new());
        }
        let found = match () {
            () if self.owners.contested.contains(&task.index) => Some("a page of two tables".to_owned()),
            () if self.database.pages().is_some_and(is_mixed) => Some("a page of another table".to_owned()),
            // Before SQLite is asked, which follows each text to its end.
            () if ends.is_err() => Some("a text on pages of another".to_owned()),
            () => damage(&self.database.connect(self.interrupt)?, Some(&table.name)),
        };
        let Some(error) = found else {
            self.ends.extend(ends.unwrap_or_default());
            return self.through_sqlite(task, empty);
        };
        let mut chunk = empty();
        let lost = match (table.layout, self.database.pages()) {
            (Some(layout), Some(mut pages)) => {
                let wanted: Vec<_> = task.spec.columns.iter().map(|wanted| table.column(wanted)).collect();
                let columns = Columns::new(&wanted, layout.row_id, table.columns.len());
                let (index, root, n_columns) = (task.index, table.root, table.columns.len());
                let damaged = Damaged { index, root, n_columns, owners: self.owners, copies: self.copies };
                let account = salvage(&mut pages, damaged, &columns, self.strays, |row_id, cells| {
                    chunk.n_read += 1;
                    let decoded = self.database.utf16.map(|unit| decoded(cells, unit)).unwrap_or_default();
                    let decoded: Vec<ValueRef<'_>> = decoded.iter().map(ValueRef::from).collect();
                    let cells = if decoded.is_empty() { cells } else { &decoded };
                    (task.spec.read)(&mut chunk, cells, source(task.index, row_id));
                });
                self.ends.append(&mut pages.chains.ends);
                let (n_damaged, n_too_large) = (account.n_lost(), account.n_too_large);
                LostRows { n_damaged, n_too_large, error: Some(error) }
            }
            _ => {
                let connection = self.database.connect(self.interrupt)?;
                scan::scan_rows(&connection, task, &mut chunk, (self.interrupt, self.progress))
            }
        };
        Ok(vec![(chunk, lost)])
    }

    fn through_sqlite(
        &self,
        task: &Task<'_>,
        empty: &(dyn Fn() -> Chunk + Sync),
    ) -> rusqlite::Result<Vec<(Chunk, LostRows)>> {
        let read = |connection: &mut rusqlite::Result<Connection>, &rows: &RowRange| {
            let connection = connection.as_ref().map_err(|error| error.to_string());
            let mut chunk = empty();
            let lost = match connection {
                Ok(connection) => {
                    let task = Task { rows, ..task.clone() };
                    scan::scan_rows(connection, &task, &mut chunk, (self.interrupt, self.progress))
                }
                Err(error) => LostRows { n_damaged: 1, error: Some(error), ..Default::default() },
            };
            (chunk, lost)
        };
        let ranges = ranges(task.table);
        let connect = || self.database.connect(self.interrupt);
        Ok(ranges.par_iter().with_max_len(1).map_init(connect, read).collect())
    }
}

/// Cells whose texts are in UTF-16, as SQLite would give them.
fn decoded(cells: &[ValueRef<'_>], unit: Unit) -> Vec<Value> {
    let value = |cell: &ValueRef<'_>| match *cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        ValueRef::Text(bytes) => {
            let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|&pair| unit(pair)).collect();
            Value::Text(String::from_utf16_lossy(&units))
        }
    };
    cells.iter().map(value).collect()
}

/// The row ids of a table that is whole, in parts.
fn ranges(table: &Table) -> Vec<RowRange> {
    let Some((first, last)) = table.row_ids else { return Vec::new() };
    let len = ROWS_PER_TASK.max(table.max_rows().div_ceil(MAX_TASKS));
    let mut out = Vec::new();
    let mut at = first;
    loop {
        let end = at.saturating_add_unsigned(len - 1).min(last);
        out.push(RowRange { first: at, last: end });
        if end == last {
            return out;
        }
        at = end + 1;
    }
}

/// An empty chunk of a table.
pub fn chunk(
    task: &Task<'_>,
    wanted: &super::strings::WantedStrings,
    event_types: &Arc<super::generic::EventTypes>,
) -> Chunk {
    Chunk {
        table: task.index,
        kind: super::tables::kind_like(&task.table.name),
        is_call: super::tables::is_call(&task.table.name),
        wanted: Arc::clone(wanted),
        event_types: Arc::clone(event_types),
        ..Default::default()
    }
}
