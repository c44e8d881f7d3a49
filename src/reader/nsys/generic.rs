//! Events described at run time: the GPU metrics of exports before 2023, and whatever else a plugin recorded.

use std::collections::HashSet;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value as Json};

use super::catalog::Catalog;
use super::chunk::{Cells, Chunk, NameKey, TrackKey};
use super::info::rows;
use super::tables::Spec;
use super::tally::Reason;

const TABLE: &str = "GENERIC_EVENTS";

/// The types of generic events, by `typeId`.
#[derive(Debug, Default)]
pub struct EventTypes {
    /// Those that are described.
    described: HashSet<i64>,
    /// Samples of GPU metrics.
    metrics: HashSet<i64>,
    /// Those of them that `GPU_METRICS` holds as well.
    repeated: HashSet<i64>,
}

impl EventTypes {
    /// Reads the descriptions, if there are generic events.
    pub fn new(connection: &Connection, catalog: &Catalog) -> Self {
        let has_rows = |name| catalog.get(name).is_some_and(|table| table.row_ids.is_some());
        if !has_rows(TABLE) {
            return Self::default();
        }
        let ids = |table, columns: &[&str]| rows(connection, catalog, table, columns);
        let of_metrics: HashSet<i64> = ids("GENERIC_EVENT_SOURCES", &["sourceId", "data"])
            .iter()
            .filter(|row| is_metrics(row[1].text()))
            .filter_map(|row| row[0].int())
            .collect();
        let types: Vec<(i64, Option<i64>)> = ids("GENERIC_EVENT_TYPES", &["typeId", "sourceId"])
            .iter()
            .filter_map(|row| Some((row[0].int()?, row[1].int())))
            .collect();
        let named: HashSet<i64> =
            ids("TARGET_INFO_GPU_METRICS", &["typeId"]).iter().filter_map(|row| row[0].int()).collect();
        let mut metrics = named.clone();
        metrics
            .extend(types.iter().filter(|(_, source)| source.is_some_and(|id| of_metrics.contains(&id))).map(|t| t.0));
        let repeated = match (has_rows("GPU_METRICS"), named.is_empty()) {
            (false, _) => HashSet::new(),
            (true, false) => named,
            (true, true) => metrics.clone(),
        };
        Self { described: types.into_iter().map(|(id, _)| id).collect(), metrics, repeated }
    }
}

/// Whether a source of events is the sampler of GPU metrics, by its description in JSON: `{"Name": "GpuMetrics"}`.
fn is_metrics(description: &str) -> bool {
    let name = serde_json::from_str::<Json>(description).ok().and_then(|of| Some(of.get("Name")?.as_str()?.to_owned()));
    name.is_some_and(|name| name.replace(' ', "").to_ascii_lowercase().contains("gpumetrics"))
}

pub const GENERIC: Spec = Spec { table: TABLE, columns: &["timestamp", "rawTimestamp", "typeId", "data"], read };

fn read(chunk: &mut Chunk, cells: &Cells<'_>, source: u64) {
    // Exports of 2022 have the raw time alone, which is on the clock of the session there.
    let time = if matches!(cells[0], ValueRef::Null) { cells[1] } else { cells[0] };
    let Some(ts) = chunk.time(time) else { return };
    let type_id = chunk.int_or_0(cells[2]);
    let types = &chunk.event_types;
    if types.repeated.contains(&type_id) {
        chunk.n_merged += 1;
        return;
    }
    let may_be_metrics = types.metrics.contains(&type_id) || !types.described.contains(&type_id);
    let text = match cells[3] {
        ValueRef::Text(text) => text,
        _ => &[],
    };
    if may_be_metrics && let Some(values) = values(text) {
        samples(chunk, ts, type_id, &values);
        return;
    }
    let name =
        if text.is_empty() || text.len() >= 200 { chunk.key(NameKey::Table(chunk.table)) } else { chunk.text(text) };
    let track = chunk.track(TrackKey::Table(0, chunk.table));
    chunk.instant(track, ts, name, source);
}

/// The values of one sample by metric, if all are numbers: `{"SM Active": "12", ...}`.
fn values(text: &[u8]) -> Option<Vec<(String, f64)>> {
    let object: Map<String, Json> = serde_json::from_slice(text).ok()?;
    let number =
        |value: &Json| value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|v| v.is_finite());
    let values: Option<Vec<_>> = object.into_iter().map(|(name, value)| Some((name, number(&value)?))).collect();
    values.filter(|values| !values.is_empty())
}

fn samples(chunk: &mut Chunk, ts: i64, type_id: i64, values: &[(String, f64)]) {
    // As in `GPU_METRICS`: no metric is negative, and no share is more than the whole.
    let is_possible = |(name, value): &&(String, f64)| *value >= 0.0 && (!name.contains('%') || *value <= 100.0);
    let possible: Vec<&(String, f64)> = values.iter().filter(is_possible).collect();
    if possible.is_empty() {
        chunk.tally.add(Reason::MetricOutOfRange, 1);
        return;
    }
    chunk.n_shown += 1;
    chunk.tally.add(Reason::ValueOutOfRange, (values.len() - possible.len()) as u64);
    for (name, value) in possible {
        let name = chunk.texts.intern(name);
        let counter = chunk.named_counters.intern((type_id, name));
        chunk.named_samples.push((counter, ts, *value));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::export;
    use crate::model::{CounterUnit, Trace};

    const ROWS: &str = r#"
        CREATE TABLE GENERIC_EVENT_SOURCES (sourceId INTEGER PRIMARY KEY, data TEXT);
        CREATE TABLE GENERIC_EVENT_TYPES (typeId INTEGER PRIMARY KEY, sourceId, data TEXT);
        INSERT INTO GENERIC_EVENT_SOURCES VALUES (7, '{"Name": "GpuMetrics"}'), (8, '{"Name": "FTrace"}');
        INSERT INTO GENERIC_EVENT_TYPES VALUES (257, 7, '{"Name": "GPU Metrics"}'), (300, 8, '{}');
        CREATE TABLE GENERIC_EVENTS (rawTimestamp, timestamp, typeId, data TEXT);
        INSERT INTO GENERIC_EVENTS VALUES
            (100, NULL, 257, '{"SM Active": "12", "DRAM Read [Throughput %]": "60"}'),
            (200, NULL, 257, '{"SM Active": "13", "DRAM Read [Throughput %]": "160"}'),
            (300, NULL, 257, '{"SM Active": -1}'),
            (150, NULL, 300, '{"cpu": 3}');"#;

    fn counters(trace: &Trace) -> Vec<(&str, CounterUnit, Vec<i64>, Vec<f64>)> {
        let counters = trace.counters.iter();
        let one = |counter: &crate::model::Counter| {
            (trace.track(counter.track).name.clone(), counter.unit, counter.ts.clone(), counter.value.clone())
        };
        let mut all: Vec<_> = counters.map(one).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let name = |name: String| if name.contains("DRAM") { "DRAM Read" } else { "SM Active" };
        all.into_iter().map(|(track, unit, ts, value)| (name(track), unit, ts, value)).collect()
    }

    #[test]
    fn metrics_of_2022_are_read_from_json() {
        let (_file, trace) = export(ROWS);
        let expected = [
            ("DRAM Read", CounterUnit::Percent, vec![100], vec![60.0]),
            ("SM Active", CounterUnit::Plain, vec![100, 200], vec![12.0, 13.0]),
        ];
        assert_eq!(counters(&trace), expected);
        let import = &trace.import;
        assert_eq!((import.read, import.shown, import.merged, import.rejected), (4, 3, 0, 1));
    }

    #[test]
    fn metrics_that_gpu_metrics_holds_too_are_merged() {
        let (_file, trace) = export(&format!(
            "{ROWS}
             CREATE TABLE TARGET_INFO_GPU_METRICS (typeId, sourceId, typeName, metricId, metricName);
             INSERT INTO TARGET_INFO_GPU_METRICS VALUES (257, 7, 'GPU Metrics', 1, 'SM Active');
             CREATE TABLE GPU_METRICS (timestamp, typeId, metricId, value);
             INSERT INTO GPU_METRICS VALUES (100, 257, 1, 12), (200, 257, 1, 13);"
        ));
        assert_eq!(counters(&trace), [("SM Active", CounterUnit::Plain, vec![100, 200], vec![12.0, 13.0])]);
        let import = &trace.import;
        assert_eq!((import.read, import.shown, import.merged, import.rejected), (6, 3, 3, 0));
        assert!(import.problems.iter().all(|problem| !problem.reason.contains("GENERIC_EVENTS")));
    }
}
