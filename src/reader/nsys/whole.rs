//! Reads whole tables whose pages hold anything unusual.
//!
//! SQLite says whether such a table is damaged. If it is not, SQLite reads it; if it is, what it still has is taken
//! from its pages, or through SQLite where only SQLite knows its columns.

use std::sync::Arc;

use rayon::prelude::*;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode};

use crate::job::Progress;

use super::catalog::{Table, quoted};
use super::chunk::Chunk;
use super::database::{Database, Interrupt, Unit};
use super::pages::{Columns, Owners};
use super::salvage::{Damaged, Stray, Visited, salvage};
use super::scan::{self, LostRows, RowRange, Task, source};

/// Rows of one task.
const ROWS_PER_TASK: u64 = 250_000;

/// Most tasks of one table, regardless of the range of its row ids.
const MAX_TASKS: u64 = 512;

/// What SQLite finds wrong with a table; `None` if it is whole.
pub fn damage(connection: &Connection, table: &Table) -> Option<String> {
    let sql = format!("PRAGMA quick_check({})", quoted(&table.name));
    match connection.query_row(&sql, [], |row| row.get::<_, String>(0)) {
        Ok(answer) if answer == "ok" => None,
        // A cell that is too large costs its row, later.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => None,
        Ok(_) => Some("database disk image is malformed".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// What reading tables again needs.
pub struct Rereading<'a> {
    pub database: &'a Database,
    pub interrupt: &'a Interrupt,
    pub progress: &'a Progress,
    pub owners: &'a Owners,
    pub visited: Visited,
    /// Leaf pages of no table, once they were asked for.
    pub strays: Option<Vec<Stray>>,
}

impl Rereading<'_> {
    /// Reads a table through SQLite, or what is left of it. A connection that met damage answers differently
    /// afterwards, so that each table gets connections of its own.
    ///
    /// * `task`: of the whole table.
    /// * `empty`: an empty chunk of the table.
    ///
    /// Errors: the file cannot be opened again.
    pub fn read(
        &mut self,
        task: &Task<'_>,
        empty: &(dyn Fn() -> Chunk + Sync),
    ) -> rusqlite::Result<Vec<(Chunk, LostRows)>> {
        let table = task.table;
        let is_contested = self.owners.contested.contains(&task.index);
        let found = match is_contested {
            true => Some("a page of two tables".to_owned()),
            false => damage(&self.database.connect(self.interrupt)?, table),
        };
        let Some(error) = found else { return self.through_sqlite(task, empty) };
        let mut chunk = empty();
        let lost = match (table.layout, self.database.pages()) {
            (Some(layout), Some(mut pages)) => {
                let wanted: Vec<_> = task.spec.columns.iter().map(|wanted| table.column(wanted)).collect();
                let columns = Columns::new(&wanted, layout.row_id);
                let (index, root, n_columns) = (task.index, layout.root, table.columns.len());
                let damaged = Damaged { index, root, n_columns, owners: self.owners };
                let account =
                    salvage(&mut pages, damaged, &columns, (&mut self.visited, &mut self.strays), |row_id, cells| {
                        chunk.n_read += 1;
                        let decoded = self.database.utf16.map(|unit| decoded(cells, unit)).unwrap_or_default();
                        let decoded: Vec<ValueRef<'_>> = decoded.iter().map(ValueRef::from).collect();
                        let cells = if decoded.is_empty() { cells } else { &decoded };
                        (task.spec.read)(&mut chunk, cells, source(task.index, row_id));
                    });
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
