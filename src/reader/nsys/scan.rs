//! Reads a stretch of a table, row by row, past damage.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode};

use crate::job::Progress;

use super::catalog::{Table, quoted};
use super::database::Stop;
use super::part::Part;
use super::strings::Wanted;
use super::tables::{self, Spec};

/// Most columns of a [`Spec`].
const MAX_COLUMNS: usize = 20;

/// Damaged places in one stretch after which the rest of it is given up.
const MAX_DAMAGES: usize = 200;

/// Rows from one id to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub first: i64,
    pub last: i64,
}

/// What could not be read of a stretch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Rows on damaged pages. Ids may have holes, so this is a bound.
    pub n_damaged: u64,
    /// Rows with a cell of more than 16 MiB.
    pub n_too_large: u64,
    /// What SQLite said of the first damage.
    pub error: Option<String>,
}

impl Lost {
    pub fn merge(&mut self, other: Self) {
        self.n_damaged = self.n_damaged.saturating_add(other.n_damaged);
        self.n_too_large += other.n_too_large;
        self.error = self.error.take().or(other.error);
    }
}

/// Where a table's source numbers carry its index, above 48 bits of row id.
pub const SOURCE_BITS: u32 = 48;

/// The source of a row, for details.
#[inline(always)]
pub fn source(table: usize, row_id: i64) -> u64 {
    (table as u64) << SOURCE_BITS | (row_id as u64 & ((1 << SOURCE_BITS) - 1))
}

/// The SELECT that gives row id and cells in the order of `spec`; a missing column is NULL.
fn select(table: &Table, spec: &Spec) -> String {
    let column = |wanted: &&str| {
        let found = wanted.split('|').find(|name| table.has(name));
        found.map_or_else(|| "NULL".to_owned(), quoted)
    };
    let columns: Vec<String> = spec.columns.iter().map(column).collect();
    format!("SELECT rowid, {} FROM {} WHERE rowid BETWEEN ?1 AND ?2", columns.join(", "), quoted(&table.name))
}

/// Reads a stretch of the table with this index in the catalog. What cannot be read is skipped as
/// narrowly as SQLite allows and returned as lost.
pub fn scan(
    connection: &Connection,
    (index, table, spec): (usize, &Table, &Spec),
    stretch: Stretch,
    wanted: &Wanted,
    (stop, progress): (&Stop, &Progress),
) -> (Part, Lost) {
    let mut part = Part {
        table: index,
        kind: tables::kind_like(&table.name),
        is_call: tables::is_call(&table.name),
        wanted: Arc::clone(wanted),
        ..Default::default()
    };
    let sql = select(table, spec);
    let mut lost = Lost::default();
    let mut first = stretch.first;
    for _ in 0..MAX_DAMAGES {
        let (last_read, error) =
            read_rows(connection, &sql, Stretch { first, ..stretch }, spec, &mut part, |_| stop.saw_row(progress));
        let Some(error) = error else { return (part, lost) };
        if progress.is_cancelled() {
            return (part, lost);
        }
        let bad = last_read.map_or(first, |last| last.saturating_add(1));
        let rest = (stretch.last.saturating_sub(bad) as u64).saturating_add(1);
        let is_over = error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted);
        let next = match error.sqlite_error_code() {
            Some(ErrorCode::TooBig) => {
                lost.n_too_large += 1;
                after_large(connection, table, Stretch { first: bad, ..stretch })
            }
            _ if is_over => None,
            _ => after_damage(connection, &sql, Stretch { first: bad, ..stretch }),
        };
        let is_damage = error.sqlite_error_code() != Some(ErrorCode::TooBig);
        if is_damage {
            let n = next.map_or(rest, |next| next.saturating_sub(bad) as u64);
            lost.merge(Lost { n_damaged: n, error: Some(error.to_string()), ..Default::default() });
        }
        match next {
            Some(next) => first = next,
            None => return (part, lost),
        }
    }
    let rest = (stretch.last.saturating_sub(first) as u64).saturating_add(1);
    lost.merge(Lost { n_damaged: rest, ..Default::default() });
    (part, lost)
}

/// Reads until the end or an error; returns the last row id that was read, and the error.
fn read_rows(
    connection: &Connection,
    sql: &str,
    stretch: Stretch,
    spec: &Spec,
    part: &mut Part,
    mut go_on: impl FnMut(i64) -> bool,
) -> (Option<i64>, Option<Error>) {
    let mut last_read = None;
    let mut read = || -> Result<(), Error> {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([stretch.first, stretch.last])?;
        let n_columns = spec.columns.len().min(MAX_COLUMNS);
        let mut until_check = 0_u32;
        while let Some(row) = rows.next()? {
            let row_id = match row.get_ref(0)? {
                ValueRef::Integer(id) => id,
                _ => -1,
            };
            let mut cells = [ValueRef::Null; MAX_COLUMNS];
            for (i, cell) in cells.iter_mut().enumerate().take(n_columns) {
                *cell = row.get_ref(i + 1)?;
            }
            part.n_read += 1;
            (spec.read)(part, &cells[..n_columns], source(part.table, row_id));
            last_read = Some(row_id);
            if until_check == 0 {
                until_check = 2048;
                if !go_on(row_id) {
                    return Ok(());
                }
            }
            until_check -= 1;
        }
        Ok(())
    };
    let error = read().err();
    (last_read, error)
}

/// The first row after one that is too large to read. Looking for an id loads no cell.
fn after_large(connection: &Connection, table: &Table, stretch: Stretch) -> Option<i64> {
    let sql = format!("SELECT min(rowid) FROM {} WHERE rowid BETWEEN ?1 AND ?2", quoted(&table.name));
    let large: i64 = connection.query_row(&sql, [stretch.first, stretch.last], |row| row.get(0)).ok()?;
    large.checked_add(1).filter(|&next| next <= stretch.last)
}

/// The first row after a damaged place: in growing strides until one can be read, then back as far
/// as it goes.
fn after_damage(connection: &Connection, sql: &str, stretch: Stretch) -> Option<i64> {
    let mut statement = connection.prepare(&format!("{sql} LIMIT 1")).ok()?;
    let mut readable = |first: i64| statement.query_row([first, stretch.last], |row| row.get::<_, i64>(0)).ok();
    let (mut bad, mut stride) = (stretch.first, 1_i64);
    let mut found = loop {
        let at = bad.checked_add(stride).filter(|&at| at <= stretch.last)?;
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
