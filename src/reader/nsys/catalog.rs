//! The tables of an export, with their columns and row ids.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::tables::{self, Role};

/// Tables beyond this number are not inspected or listed individually: a real export has 60.
const MAX_TABLES: usize = 1000;

/// A table of the file.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    /// Root page of the B-tree.
    pub root: u32,
    pub role: Role,
    /// Its columns, in the order of the file.
    pub columns: Vec<String>,
    /// Some of them are expressions.
    pub is_computed: bool,
    /// Smallest and largest row id; `None` if it has no rows.
    pub row_ids: Option<(i64, i64)>,
    /// Record layout, if its pages can be read without SQLite.
    pub layout: Option<Layout>,
}

/// Record layout of a table.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The column that aliases the row id.
    pub row_id: Option<usize>,
}

impl Table {
    pub fn has(&self, column: &str) -> bool {
        self.column(column).is_some()
    }

    /// Index of the first of these columns that the table has: `shortName|demangledName`.
    pub fn column(&self, wanted: &str) -> Option<usize> {
        let place = |wanted: &str| self.columns.iter().position(|name| name.eq_ignore_ascii_case(wanted));
        wanted.split('|').find_map(place)
    }

    /// The same as SQL text, NULL if it has none of them.
    pub fn column_sql(&self, wanted: &str) -> String {
        self.column(wanted).map_or_else(|| "NULL".to_owned(), |column| quoted(&self.columns[column]))
    }

    /// An upper bound of the number of rows, for sizing before they are counted.
    pub fn max_rows(&self) -> u64 {
        self.row_ids.map_or(0, |(first, last)| last.abs_diff(first).saturating_add(1))
    }
}

/// The schema of the file.
#[derive(Debug, Default)]
pub struct Catalog {
    pub tables: Vec<Table>,
    /// Names of known tables that are views or virtual tables in this file, which are not read.
    pub not_tables: Vec<String>,
    /// Tables whose rows have no ids, by which rows are read and found again.
    pub without_row_ids: Vec<String>,
    /// Tables beyond [`MAX_TABLES`].
    pub n_beyond: usize,
    /// Roots of all that is not in `tables`: indexes, tables WITHOUT ROWID, those beyond the limit and SQLite's own.
    pub other_roots: Vec<u32>,
    /// Those of them that may be tables with row ids.
    pub other_tables: Vec<u32>,
}

impl Catalog {
    /// The table with this name.
    pub fn get(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}

/// A name as SQL text.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table in a SELECT, without its indexes: a damaged one leads to other rows.
pub fn rows_of(table: &str) -> String {
    quoted(table) + " NOT INDEXED"
}

/// Reads the schema. Tables with known names come first, so that the limit never drops one of them.
///
/// Errors: the schema cannot be read: the file is not a database, or badly damaged.
pub fn read(connection: &Connection) -> rusqlite::Result<Catalog> {
    let mut catalog = Catalog::default();
    let mut names: Vec<(String, u32)> = Vec::new();
    let mut statement = connection.prepare("SELECT name, type, rootpage FROM sqlite_master")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let ValueRef::Text(name) = row.get_ref(0)? else { continue };
        let name = String::from_utf8_lossy(name).into_owned();
        let kind = row.get_ref(1)?;
        let root = match row.get_ref(2)? {
            ValueRef::Integer(root) => u32::try_from(root).unwrap_or(0),
            _ => 0,
        };
        // A virtual table has no root.
        let is_table = matches!(kind, ValueRef::Text(b"table")) && root > 0;
        let is_own = name.starts_with("sqlite_");
        match is_table {
            true if !is_own => {
                names.push((name, root));
                continue;
            }
            true => catalog.other_tables.push(root),
            false => catalog.other_roots.extend((root > 0).then_some(root)),
        }
        if is_own {
            continue;
        }
        if !matches!(kind, ValueRef::Text(b"index" | b"trigger")) && tables::is_known(&name) {
            catalog.not_tables.push(name);
        }
    }
    names.sort_by_key(|(name, _)| (!tables::is_known(name), name.clone()));
    catalog.n_beyond = names.len().saturating_sub(MAX_TABLES);
    let beyond = names.drain(MAX_TABLES.min(names.len())..).map(|(_, root)| root);
    catalog.other_tables.extend(beyond);
    catalog.other_roots.extend(&catalog.other_tables);
    for (name, root) in names {
        if !has_row_ids(connection, &name) {
            catalog.without_row_ids.push(name);
            catalog.other_roots.push(root);
            continue;
        }
        let (columns, row_id, is_computed) = columns(connection, &name).unwrap_or_default();
        let row_ids = row_ids(connection, &name);
        let role = tables::role(&name, &columns);
        let layout = row_id.map(|row_id| Layout { row_id: row_id.column() });
        catalog.tables.push(Table { name, root, role, columns, is_computed, row_ids, layout });
    }
    Ok(catalog)
}

/// The alias of the row id in ordinary records.
#[derive(Clone, Copy, Debug)]
enum RowId {
    Hidden,
    Column(usize),
}

impl RowId {
    fn column(self) -> Option<usize> {
        match self {
            Self::Hidden => None,
            Self::Column(column) => Some(column),
        }
    }
}

/// The columns, the alias of the row id, and whether columns are expressions; no alias for tables that only SQLite
/// should read, such as these.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<(Vec<String>, Option<RowId>, bool)> {
    let mut statement = connection.prepare(&format!("PRAGMA table_xinfo({})", quoted(table)))?;
    let mut rows = statement.query([])?;
    let mut names = Vec::new();
    let (mut keys, mut is_plain, mut is_computed) = (Vec::new(), true, false);
    while let Some(row) = rows.next()? {
        let (ValueRef::Text(name), ValueRef::Text(kind)) = (row.get_ref(1)?, row.get_ref(2)?) else {
            is_plain = false;
            continue;
        };
        if matches!(row.get_ref(5)?, ValueRef::Integer(1..)) {
            keys.push((names.len(), kind.eq_ignore_ascii_case(b"INTEGER")));
        }
        // 2 and 3 are generated, when read and when written.
        is_computed |= matches!(row.get_ref(6)?, ValueRef::Integer(2 | 3));
        names.push(String::from_utf8_lossy(name).into_owned());
    }
    let row_id = match keys[..] {
        [(column, true)] => RowId::Column(column),
        _ => RowId::Hidden,
    };
    Ok((names, (is_plain && !is_computed).then_some(row_id), is_computed))
}

/// Whether a table has row ids; also if it is too damaged to tell.
fn has_row_ids(connection: &Connection, table: &str) -> bool {
    let prepared = connection.prepare(&format!("SELECT rowid FROM {}", quoted(table)));
    !prepared.is_err_and(|error| error.to_string().contains("no such column"))
}

fn row_ids(connection: &Connection, table: &str) -> Option<(i64, i64)> {
    // Two queries: SQLite finds one extreme by index, but scans the table for both.
    let end = |which: &str| {
        let sql = format!("SELECT {which}(rowid) FROM {}", rows_of(table));
        connection.query_row(&sql, [], |row| row.get::<_, Option<i64>>(0))
    };
    match (end("min"), end("max")) {
        (Ok(first), Ok(last)) => first.zip(last),
        // A table that cannot be read is damaged, not empty.
        (first, last) => Some((first.ok().flatten().unwrap_or(1), last.ok().flatten().unwrap_or(i64::MAX))),
    }
}
