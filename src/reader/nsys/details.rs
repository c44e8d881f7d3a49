//! The cells of one row, read again on demand.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::model::{Details, EventDetails, TimeNs};

use super::super::source::Source;
use super::catalog::{Catalog, quoted, rows_of};
use super::chunk::system_ids;
use super::database::{Closed, Database, Interrupt};
use super::scan::SOURCE_BITS;
use super::strings::{call_name, module_name};
use super::tables::{EVENT_LIKE, Role};

/// Most frames read of a call stack.
const MAX_FRAMES: usize = 1000;

/// A damaged table leads elsewhere than all its pages in order do, by which it was read.
const NOT_FOUND: &str = "The row of this event is not found again: the table is damaged. Export again";

/// For the columns of a row that are computed.
const MOST_TIME: Duration = Duration::from_secs(10);

/// Rereads single rows of one export.
#[derive(Debug)]
pub struct NsysDetails {
    source: Source,
    database: Closed,
    /// Names of the catalog's tables, with the column of the time at which their events start.
    tables: Vec<(String, Option<String>)>,
    /// From the first look on.
    opened: Mutex<Option<(Database, Connection)>>,
    interrupt: Interrupt,
}

/// Columns with ids of `StringIds`.
const STRING_COLUMNS: [&str; 13] = [
    "nameId",
    "textId",
    "demangledName",
    "shortName",
    "mangledName",
    "apiCallId",
    "jsonTextId",
    "srcFile",
    "funcName",
    "kernelName",
    "varName",
    "CpuInstruction",
    "module",
];

/// Columns with ids of an enum table.
const ENUMS: [(&str, &str); 13] = [
    ("copyKind", "ENUM_CUDA_MEMCPY_OPER"),
    ("srcKind", "ENUM_CUDA_MEM_KIND"),
    ("dstKind", "ENUM_CUDA_MEM_KIND"),
    ("memKind", "ENUM_CUDA_MEM_KIND"),
    ("syncType", "ENUM_CUPTI_SYNC_TYPE"),
    ("eventType", "ENUM_NSYS_EVENT_TYPE"),
    ("eventClass", "ENUM_NSYS_EVENT_CLASS"),
    ("launchType", "ENUM_CUDA_KERNEL_LAUNCH_TYPE"),
    ("migrationCause", "ENUM_CUDA_UNIF_MEM_MIGRATION"),
    ("threadState", "ENUM_SAMPLING_THREAD_STATE"),
    ("overheadType", "ENUM_CUPTI_OVERHEAD_TYPE"),
    ("faultAccessType", "ENUM_CUDA_UNIF_MEM_ACCESS_TYPE"),
    ("DeviceType", "ENUM_OPENACC_DEVICE"),
];

impl NsysDetails {
    pub fn new(source: Source, database: Database, catalog: &Catalog) -> Self {
        let tables = catalog.tables.iter().map(|table| {
            let spec = match table.role {
                Role::Events(spec) => spec,
                _ => &EVENT_LIKE,
            };
            let start = spec.columns.first().and_then(|start| table.column(start));
            (table.name.clone(), start.map(|start| table.columns[start].clone()))
        });
        let tables = tables.collect();
        let interrupt = Interrupt::of_reading(0);
        Self { source, database: database.close(), tables, opened: Mutex::default(), interrupt }
    }
}

impl Details for NsysDetails {
    fn event(&self, source: u64, start: Option<TimeNs>) -> Result<EventDetails, String> {
        self.source.check_unchanged()?;
        let (table, column) =
            self.tables.get((source >> SOURCE_BITS) as usize).ok_or("The row is not in the file any more")?;
        let row_id = (source << (u64::BITS - SOURCE_BITS)).cast_signed() >> (u64::BITS - SOURCE_BITS);
        let mut guard = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let (database, connection) = match &mut *guard {
            Some(opened) => opened,
            none => {
                let database = self.database.open(&self.source)?;
                let connection = database.connect(&self.interrupt).map_err(|error| error.to_string())?;
                none.insert((database, connection))
            }
        };
        self.interrupt.restart(MOST_TIME);
        let start = column.as_deref().zip(start);
        let details = row(connection, table, row_id, start);
        let details = details.map_err(|error| format!("The row cannot be read ({error})"));
        // Another file may have its name by now, but what was read is open. It may have changed meanwhile.
        database.check(&self.source)?;
        details?.ok_or_else(|| NOT_FOUND.to_owned())
    }
}

/// The names of what `SELECT *` gives. The library's own list panics at names that are not text.
fn column_names(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA table_xinfo({})", quoted(table)))?;
    let mut rows = statement.query([])?;
    let mut names = Vec::new();
    while let Some(row) = rows.next()? {
        let is_hidden = matches!(row.get_ref(6)?, ValueRef::Integer(1));
        if !is_hidden {
            let name = row.get_ref(1)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(names)
}

/// * `start`: a column, and the time that it must have.
///
/// Returns nothing where such a row is not found.
fn row(
    connection: &Connection,
    table: &str,
    row_id: i64,
    start: Option<(&str, TimeNs)>,
) -> rusqlite::Result<Option<EventDetails>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {} WHERE rowid = ?1", rows_of(table)))?;
    let columns = column_names(connection, table)?;
    let mut rows = statement.query([row_id])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut details = EventDetails { category: table.to_owned(), ..Default::default() };
    let mut chain = None;
    for (i, column) in columns.iter().enumerate() {
        let cell = row.get_ref(i)?;
        match (column.as_str(), cell) {
            (_, ValueRef::Null) => continue,
            (name, found) if start.is_some_and(|(it, ts)| it == name && found != ValueRef::Integer(ts)) => {
                return Ok(None);
            }
            ("callchainId", ValueRef::Integer(id)) if id != 0 => chain = Some(id),
            ("id", ValueRef::Integer(id)) if table == "COMPOSITE_EVENTS" => chain = Some(id),
            _ => {}
        }
        details.args.push((column.clone(), value(connection, column, cell)));
    }
    if table.starts_with("NVTX_EVENTS") {
        name_nvtx(connection, table, row_id, &mut details);
    }
    if let Some(id) = chain {
        let chains = match table {
            "COMPOSITE_EVENTS" => "SAMPLING_CALLCHAINS",
            "OSRT_API" => "OSRT_CALLCHAINS",
            "SYSCALL" => "SYSCALL_CALLCHAINS",
            _ => "CUDA_CALLCHAINS",
        };
        // The row is shown even if its call chain is missing.
        details.stack = stack(connection, chains, id).unwrap_or_default();
    }
    Ok(Some(details))
}

/// The text with an id; none where damage has several with it, of which a search by id finds any.
fn text_of(connection: &Connection, table: &str, column: &str, id: i64) -> Option<String> {
    let sql = format!("SELECT id, {} FROM {} WHERE id BETWEEN ?1 - 1 AND ?1", quoted(column), rows_of(table));
    let mut statement = connection.prepare(&sql).ok()?;
    let mut rows = statement.query([id]).ok()?;
    let mut found = None;
    while let Some(row) = rows.next().ok()? {
        if row.get_ref(0).ok()? != ValueRef::Integer(id) {
            continue;
        }
        let text = match row.get_ref(1).ok()? {
            ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        if found.replace(text).is_some() {
            return None;
        }
    }
    found
}

fn value(connection: &Connection, column: &str, cell: ValueRef<'_>) -> String {
    match cell {
        ValueRef::Integer(id) if STRING_COLUMNS.contains(&column) => {
            text_of(connection, "StringIds", "value", id).unwrap_or_else(|| format!("#{id}"))
        }
        ValueRef::Integer(id) if matches!(column, "globalTid" | "endGlobalTid") => {
            let (pid, tid) = system_ids(id);
            format!("thread {tid} of process {pid}")
        }
        // Stored as signed 64 bits; the first byte of a color is its alpha.
        ValueRef::Integer(number) if column == "uint64Value" => (number as u64).to_string(),
        ValueRef::Integer(number) if column == "color" => format!("#{:06x}", number & 0xff_ffff),
        ValueRef::Integer(id) if column == "globalPid" => format!("process {}", system_ids(id).0),
        ValueRef::Integer(number) => {
            let known = ENUMS.iter().find(|entry| entry.0 == column);
            let label = known.and_then(|(_, table)| text_of(connection, table, "label", number));
            label.map_or_else(|| number.to_string(), |label| format!("{label} ({number})"))
        }
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Blob(bytes) => format!("{} bytes", bytes.len()),
        ValueRef::Null => String::new(),
    }
}

/// Adds the NVTX names of a range's category and domain: rows of the same table, by process.
fn name_nvtx(connection: &Connection, table: &str, row_id: i64, details: &mut EventDetails) {
    let table = quoted(table);
    for (column, event_type) in [("category", 33), ("domainId", 75)] {
        let sql = format!(
            "SELECT named.text, named.textId FROM {table} AS range NOT INDEXED JOIN {table} AS named NOT INDEXED \
             ON named.{column} = range.{column} AND named.globalTid >> 24 = range.globalTid >> 24 \
             WHERE range.rowid = ?1 AND range.{column} != 0 AND named.eventType = {event_type} LIMIT 1"
        );
        let name = |row: &rusqlite::Row<'_>| {
            Ok(match (row.get_ref(0)?, row.get_ref(1)?) {
                (ValueRef::Text(text), _) => Some(String::from_utf8_lossy(text).into_owned()),
                (_, ValueRef::Integer(id)) => text_of(connection, "StringIds", "value", id),
                _ => None,
            })
        };
        // Files without these columns or names add nothing.
        let Ok(Some(name)) = connection.query_row(&sql, [row_id], name) else { continue };
        if let Some(arg) = details.args.iter_mut().find(|arg| arg.0 == column) {
            arg.1 = format!("{name} ({})", arg.1);
        }
    }
}

/// Frames, innermost first.
///
/// The index of call chains is believed only where the rows beside those that it names are of other chains: all of one
/// stand in a row in exports. Otherwise all of the table is read.
fn stack(connection: &Connection, table: &str, id: i64) -> rusqlite::Result<Vec<String>> {
    let sql = format!("SELECT min(rowid), max(rowid) FROM {} WHERE id = ?1", quoted(table));
    let ends = connection.query_row(&sql, [id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    if let Ok((first, last)) = ends {
        let found = frames(connection, table, id, (first.saturating_sub(1), last.saturating_add(1)))?;
        if found.len() as u64 == last.abs_diff(first).saturating_add(1) {
            return Ok(found);
        }
    }
    frames(connection, table, id, (i64::MIN, i64::MAX))
}

/// Those of a range of row ids, both ends included.
fn frames(connection: &Connection, table: &str, id: i64, (first, last): (i64, i64)) -> rusqlite::Result<Vec<String>> {
    let sql = format!(
        "SELECT symbol, module FROM {} WHERE id = ?1 AND rowid BETWEEN ?2 AND ?3 \
         ORDER BY stackDepth LIMIT {MAX_FRAMES}",
        rows_of(table)
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([id, first, last])?;
    let mut frames = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |i: usize| match row.get_ref(i) {
            Ok(ValueRef::Integer(id)) => text_of(connection, "StringIds", "value", id).unwrap_or_default(),
            _ => String::new(),
        };
        let (symbol, module) = (text(0), text(1));
        let name = call_name(&symbol);
        frames.push(if module.is_empty() { name.to_owned() } else { format!("{name} {}", module_name(&module)) });
    }
    Ok(frames)
}
