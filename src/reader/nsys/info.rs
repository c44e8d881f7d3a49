//! Metadata of an export: version, clock, devices and names.

use std::collections::HashMap;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::model::{DeviceInfo, TraceInfo};

use super::catalog::{Catalog, Table, rows_of};

/// The newest known schema: 2026.4.
pub const NEWEST_SCHEMA: i64 = 3;

/// Most rows read of any of these tables: real ones have thousands of processes and threads.
const MAX_ROWS: usize = 1_000_000;

/// Longest text of a fact; longer values are data.
const MAX_FACT: usize = 400;

/// A cell value of a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Int(i64),
    Text(String),
}

impl Value {
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }
}

/// The named columns of a small table; a missing column is all NULL. Rows after damage are left out.
pub fn rows(connection: &Connection, catalog: &Catalog, table: &str, columns: &[&str]) -> Vec<Vec<Value>> {
    let Some(table) = catalog.get(table) else { return Vec::new() };
    let mut out = Vec::new();
    // Unreadable rows become missing names, which are counted where they are used.
    let _ = read_rows(connection, table, columns, &mut out);
    out
}

fn read_rows(
    connection: &Connection,
    table: &Table,
    columns: &[&str],
    out: &mut Vec<Vec<Value>>,
) -> rusqlite::Result<()> {
    let list: Vec<String> = columns.iter().map(|wanted| table.column_sql(wanted)).collect();
    let mut statement = connection.prepare(&format!("SELECT {} FROM {}", list.join(", "), rows_of(&table.name)))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if out.len() >= MAX_ROWS {
            break;
        }
        let value = |i: usize| {
            Ok(match row.get_ref(i)? {
                ValueRef::Integer(value) => Value::Int(value),
                ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                _ => Value::Null,
            })
        };
        out.push((0..columns.len()).map(value).collect::<rusqlite::Result<_>>()?);
    }
    Ok(())
}

/// The facts of the export, by key. Only the keys listed here are read: the file also holds command lines,
/// folders, host names and the whole environment of the recorded program.
pub fn facts(connection: &Connection, catalog: &Catalog) -> (HashMap<String, String>, Vec<(String, String)>) {
    const EXPORT: [(&str, &str); 6] = [
        ("EXPORT_PRODUCT_NAME", "product"),
        ("EXPORT_PRODUCT_VERSION", "product version"),
        ("EXPORT_SCHEMA_VERSION", "schema version"),
        ("EXPORT_PLATFORM", "platform"),
        ("EXPORT_ARCH", "architecture"),
        ("EXPORT_TIME_UTC", "exported (UTC)"),
    ];
    const CAPTURE: [&str; 5] = [
        "CAPTURE_EVENT_TYPE",
        "CUDA_GRAPH_TRACE_OPTIONS:MODE",
        "COLLECT_GPU_MEMORY_USAGE",
        "RUN_DURATION_MS",
        "CUDA_TRACE_SCOPE",
    ];
    const SYSTEM: [&str; 6] =
        ["CudaDriverVersion", "NvDriverVersion", "OsVersion", "CpuArchitecture", "CpuCores", "KernelVersion"];
    let mut export = HashMap::new();
    for table in ["EXPORT_META_DATA", "META_DATA_EXPORT"] {
        for row in rows(connection, catalog, table, &["name", "value"]) {
            export.insert(row[0].text().to_owned(), row[1].text().to_owned());
        }
    }
    let known = EXPORT.iter().filter_map(|(key, title)| Some(((*title).to_owned(), export.get(*key)?.clone())));
    let mut facts: Vec<(String, String)> = known.collect();
    for row in rows(connection, catalog, "META_DATA_CAPTURE", &["name", "value"]) {
        let key = row[0].text();
        let plain = key.rsplit_once("PROCESS_0:").map_or(key, |(_, key)| key);
        if CAPTURE.contains(&plain) {
            facts.push((plain.to_owned(), row[1].text().to_owned()));
        }
    }
    for row in rows(connection, catalog, "TARGET_INFO_SYSTEM_ENV", &["name", "value"]) {
        if SYSTEM.contains(&row[0].text()) {
            facts.push((row[0].text().to_owned(), row[1].text().to_owned()));
        }
    }
    facts.retain(|(_, value)| value.len() <= MAX_FACT);
    facts.dedup();
    (export, facts)
}

/// The schema version, if recorded: (major, minor).
pub fn schema(export: &HashMap<String, String>) -> Option<(i64, i64)> {
    let mut parts = export.get("EXPORT_SCHEMA_VERSION")?.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next().flatten().unwrap_or(0)))
}

/// What to add to the export's times to get nanoseconds since 1970.
///
/// Exports can be shifted (`nsys export --ts-normalize`, `--ts-shift`): the shift is recorded.
pub fn utc_offset(connection: &Connection, catalog: &Catalog, export: &HashMap<String, String>) -> Option<i64> {
    let start = rows(connection, catalog, "TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"]);
    let start = start.first()?.first()?.int()?;
    let shift = |key: &str| export.get(key).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let shift = shift("EXPORT_CONFIG_TIME_SHIFT").checked_add(shift("EXPORT_PARAM_TIME_SHIFT"))?;
    start.checked_sub(shift)
}

/// The GPUs of the machine, including idle ones.
pub fn devices(connection: &Connection, catalog: &Catalog) -> Vec<DeviceInfo> {
    const COLUMNS: &[&str] = &[
        "id|deviceId",
        "name",
        "totalMemory",
        "smCount",
        "computeMajor",
        "computeMinor",
        "threadsPerWarp",
        "maxWarpsPerSm",
        "maxBlocksPerSm",
        "maxRegistersPerSm",
        "maxShmemPerSm",
    ];
    let device = |row: Vec<Value>| {
        let number = |i: usize| row[i].int().and_then(|value| u32::try_from(value).ok()).filter(|&value| value > 0);
        let version = |i: usize| row[i].int().and_then(|value| u32::try_from(value).ok());
        Some(DeviceInfo {
            id: u32::try_from(row[0].int()?).ok()?,
            name: row[1].text().to_owned(),
            total_memory_bytes: row[2].int().and_then(|bytes| u64::try_from(bytes).ok()).filter(|&bytes| bytes > 0),
            n_sms: number(3),
            compute_major: version(4),
            compute_minor: version(5),
            threads_per_warp: number(6),
            max_warps_per_sm: number(7),
            max_blocks_per_sm: number(8),
            registers_per_sm: number(9),
            shared_bytes_per_sm: number(10),
        })
    };
    let mut devices: Vec<DeviceInfo> =
        rows(connection, catalog, "TARGET_INFO_GPU", COLUMNS).into_iter().filter_map(device).collect();
    devices.sort_by_key(|device| device.id);
    devices
}

/// Writes the export's metadata into the trace's info.
pub fn apply(connection: &Connection, catalog: &Catalog, info: &mut TraceInfo) -> Option<(i64, i64)> {
    let (export, facts) = facts(connection, catalog);
    info.producer = match export.get("EXPORT_PRODUCT_VERSION") {
        Some(version) => format!("Nsight Systems {version}"),
        None => "Nsight Systems".to_owned(),
    };
    info.utc_offset_ns = utc_offset(connection, catalog, &export);
    info.devices = devices(connection, catalog);
    info.facts = facts;
    schema(&export)
}
