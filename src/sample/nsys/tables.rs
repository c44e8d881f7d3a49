//! Rows into the tables of an export, each of which is made with its first row.

use std::collections::BTreeMap;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Result, Statement};

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum SqlValue<'a> {
    Null,
    Int(i64),
    Text(&'a str),
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Int(value) => ValueRef::Integer(value),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl From<i64> for SqlValue<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<Option<i64>> for SqlValue<'_> {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Int)
    }
}

impl<'a> From<Option<&'a str>> for SqlValue<'a> {
    fn from(value: Option<&'a str>) -> Self {
        value.map_or(Self::Null, Self::Text)
    }
}

impl<'a> From<&'a str> for SqlValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

/// A row from values of any of the kinds above.
macro_rules! row {
    ($($value:expr),* $(,)?) => { &[$($crate::sample::nsys::tables::SqlValue::from($value)),*] };
}
pub(super) use row;

/// A table with the columns that the generator knows, of which a version may lack some.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableColumns {
    pub name: &'static str,
    /// Separated by blanks.
    pub columns: &'static str,
}

/// The tables of one version and the database they go into.
#[derive(Debug)]
pub(super) struct Tables<'c> {
    connection: &'c Connection,
    /// Statements that make the tables of the version.
    schema: &'static str,
    open: Vec<(&'static str, OpenTable<'c>)>,
}

/// A table that has rows.
#[derive(Debug)]
struct OpenTable<'c> {
    insert: Statement<'c>,
    /// For each known column whether the version has it.
    has: Vec<bool>,
    rows: u64,
}

impl<'c> Tables<'c> {
    pub fn new(connection: &'c Connection, schema: &'static str) -> Self {
        Self { connection, schema, open: Vec::new() }
    }

    /// Adds a row, with a value for each column of `spec`; what the version lacks is left out.
    ///
    /// A table that the version lacks altogether takes no rows. Errors: SQLite's.
    pub fn insert(&mut self, spec: &TableColumns, row: &[SqlValue<'_>]) -> Result<()> {
        // Few tables, and the busiest are opened first.
        let at = match self.open.iter().position(|(name, _)| *name == spec.name) {
            Some(at) => at,
            None => {
                let Some(create) = self.create(spec.name) else { return Ok(()) };
                self.open.push((spec.name, OpenTable::new(self.connection, spec, create)?));
                self.open.len() - 1
            }
        };
        let OpenTable { insert, has, rows } = &mut self.open[at].1;
        debug_assert_eq!(row.len(), has.len(), "{}", spec.name);
        for (index, (cell, _)) in (1_usize..).zip(row.iter().zip(has).filter(|(_, has)| **has)) {
            insert.raw_bind_parameter(index, cell)?;
        }
        insert.raw_execute()?;
        *rows += 1;
        Ok(())
    }

    /// The statement that makes a table, if the version has it.
    fn create(&self, name: &str) -> Option<&'static str> {
        let head = format!("CREATE TABLE {name} (");
        self.schema.split_inclusive(";\n").find(|text| text.contains(&head))
    }

    /// Rows of each table that has any.
    pub fn rows(self) -> BTreeMap<&'static str, u64> {
        self.open.into_iter().map(|(name, open)| (name, open.rows)).collect()
    }
}

impl<'c> OpenTable<'c> {
    fn new(connection: &'c Connection, spec: &TableColumns, create: &str) -> Result<Self> {
        connection.execute_batch(create)?;
        let real: Vec<&str> = create.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let has: Vec<bool> = spec.columns.split_whitespace().map(|column| real.contains(&column)).collect();
        let kept = spec.columns.split_whitespace().zip(&has).filter(|(_, has)| **has);
        let names: Vec<String> = kept.map(|(column, _)| format!("\"{column}\"")).collect();
        let marks = vec!["?"; names.len()].join(",");
        let insert =
            connection.prepare(&format!("INSERT INTO {} ({}) VALUES ({marks})", spec.name, names.join(",")))?;
        Ok(Self { insert, has, rows: 0 })
    }
}
