//! Which tables the file has, with which columns and how many rows.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::tables::{self, Role};

/// Tables beyond this many are neither looked into nor named one by one: a real export has 60.
const MAX_TABLES: usize = 1000;

/// A table of the file.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub role: Role,
    /// Its columns, in the order of the file, without generated ones.
    pub columns: Vec<String>,
    /// Smallest and largest row id; `None` if it has no rows.
    pub row_ids: Option<(i64, i64)>,
}

impl Table {
    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name.eq_ignore_ascii_case(column))
    }

    /// A bound of the number of rows, for what must be sized before they are counted.
    pub fn max_rows(&self) -> u64 {
        self.row_ids.map_or(0, |(first, last)| last.abs_diff(first).saturating_add(1))
    }
}

/// All that the file has.
#[derive(Debug, Default)]
pub struct Catalog {
    pub tables: Vec<Table>,
    /// Known names that are views or virtual tables here, which are not read.
    pub not_tables: Vec<String>,
    /// Tables beyond [`MAX_TABLES`].
    pub n_beyond: usize,
}

impl Catalog {
    /// The table of that name.
    pub fn get(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}

/// A name as SQL text.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Reads the schema. Tables with known names come first, so that none of them is beyond the limit.
///
/// Errors: the schema cannot be read; then the file is no database or badly damaged.
pub fn read(connection: &Connection) -> rusqlite::Result<Catalog> {
    let mut catalog = Catalog::default();
    let mut names: Vec<String> = Vec::new();
    let mut statement = connection.prepare("SELECT name, type, rootpage FROM sqlite_master")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let ValueRef::Text(name) = row.get_ref(0)? else { continue };
        let name = String::from_utf8_lossy(name).into_owned();
        let kind = row.get_ref(1)?;
        let is_table = matches!(kind, ValueRef::Text(b"table")) && !matches!(row.get_ref(2)?, ValueRef::Integer(0));
        if name.starts_with("sqlite_") {
            continue;
        }
        if is_table {
            names.push(name);
        } else if !matches!(kind, ValueRef::Text(b"index" | b"trigger")) && tables::is_known(&name) {
            catalog.not_tables.push(name);
        }
    }
    names.sort_by_key(|name| (!tables::is_known(name), name.clone()));
    catalog.n_beyond = names.len().saturating_sub(MAX_TABLES);
    names.truncate(MAX_TABLES);
    for name in names {
        let columns = columns(connection, &name).unwrap_or_default();
        let row_ids = row_ids(connection, &name);
        let role = tables::role(&name, &columns);
        catalog.tables.push(Table { name, role, columns, row_ids });
    }
    Ok(catalog)
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA table_info({})", quoted(table)))?;
    let mut rows = statement.query([])?;
    let mut names = Vec::new();
    while let Some(row) = rows.next()? {
        if let ValueRef::Text(name) = row.get_ref(1)? {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(names)
}

fn row_ids(connection: &Connection, table: &str) -> Option<(i64, i64)> {
    // Two queries: SQLite looks up one end of a table at a time, and would scan for both.
    let end = |which: &str| {
        let sql = format!("SELECT {which}(rowid) FROM {}", quoted(table));
        connection.query_row(&sql, [], |row| row.get::<_, Option<i64>>(0)).ok().flatten()
    };
    Some((end("min")?, end("max")?))
}
