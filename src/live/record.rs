//! Writes what is read to a file, one JSON object a line.
//!
//! Each line has the keys that GPU monitors in guides write (`gpu_id`, `gpu_util_pct`, `memory_util_pct`,
//! `memory_used_gb`, `memory_total_gb`, `power_w`, `temperature_c`, `timestamp`), then the exact time, what the device
//! is, and every other metric that was read since the line before. What a device does not support is absent.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Number, Value};

use super::Monitor;
use super::history::DeviceHistory;
use super::metric::Metric;
use crate::model::TimeNs;

/// The keys of the schema with their metric, and by what its value is divided.
const SCHEMA: [(&str, Metric, f64); 6] = [
    ("gpu_util_pct", Metric::Utilization, 1.0),
    ("memory_util_pct", Metric::MemoryUtilization, 1.0),
    ("memory_used_gb", Metric::MemoryUsed, 1e9),
    ("memory_total_gb", Metric::MemoryTotal, 1e9),
    ("power_w", Metric::Power, 1.0),
    ("temperature_c", Metric::Temperature, 1.0),
];

/// A recording under way. Dropping it ends it.
#[derive(Debug)]
pub struct Recorder {
    line: Arc<Line>,
    monitor: Arc<super::monitor::Shared>,
}

impl Recorder {
    /// Starts to write what the monitor reads to `file`, which `path` names; starts the monitor.
    pub fn start(monitor: &Monitor, file: File, path: &Path) -> Self {
        let line = Arc::new(Line {
            path: path.to_owned(),
            output: Mutex::new(Output { file: BufWriter::new(file), n_lines: 0, error: None }),
            last: Mutex::default(),
        });
        let shared = Arc::clone(monitor.shared());
        shared.recorders.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&line));
        monitor.start();
        Self { line, monitor: shared }
    }

    pub fn path(&self) -> &Path {
        &self.line.path
    }

    pub fn n_lines(&self) -> u64 {
        self.line.lock().n_lines
    }

    /// Why lines could not be written, if so.
    pub fn error(&self) -> Option<String> {
        self.line.lock().error.clone()
    }

    /// Ends it; returns the number of lines.
    ///
    /// Errors: why a line could not be written.
    pub fn stop(self) -> Result<u64, String> {
        self.forget();
        let output = self.line.lock();
        output.error.clone().map_or(Ok(output.n_lines), Err)
    }

    fn forget(&self) {
        let mut recorders = self.monitor.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        recorders.retain(|line| !Arc::ptr_eq(line, &self.line));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.forget();
    }
}

/// The file of a recorder.
#[derive(Debug)]
pub struct Line {
    path: PathBuf,
    output: Mutex<Output>,
    /// When each device's last line was, by its place.
    last: Mutex<Vec<TimeNs>>,
}

#[derive(Debug)]
struct Output {
    file: BufWriter<File>,
    n_lines: u64,
    error: Option<String>,
}

impl Line {
    fn lock(&self) -> std::sync::MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is new of a device since its line before.
    pub fn text(&self, place: usize, device: &DeviceHistory) -> String {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let n = last.len().max(place + 1);
        last.resize(n, i64::MIN);
        let ts = device.latest(Metric::Utilization).map_or_else(super::now, |latest| latest.0);
        let line = line(device, ts, last[place]);
        last[place] = ts;
        line
    }

    /// Writes a line through to the file, so that nothing is lost if Lacuna is killed.
    pub fn write(&self, text: &str) {
        let mut output = self.lock();
        if output.error.is_some() {
            return;
        }
        let written = writeln!(output.file, "{text}").and_then(|()| output.file.flush());
        match written {
            Ok(()) => output.n_lines += 1,
            Err(error) => output.error = Some(format!("Cannot write {}: {error}", self.path.display())),
        }
    }
}

/// The line of a device at a moment, with what was read after `since`.
fn line(device: &DeviceHistory, ts: TimeNs, since: TimeNs) -> String {
    let mut object = Map::new();
    let id = &device.info.id;
    object.insert("gpu_id".to_owned(), id.parse::<u64>().map_or_else(|_| Value::from(id.as_str()), Value::from));
    let fresh = |metric| device.latest(metric).filter(|latest| latest.0 > since).and_then(|latest| latest.1.ok());
    for (key, metric, unit) in SCHEMA {
        if let Some(value) = fresh(metric) {
            object.insert(key.to_owned(), number(value / unit));
        }
    }
    object.insert("timestamp".to_owned(), number(ts as f64 / 1e9));
    object.insert("time_ns".to_owned(), Value::from(ts));
    object.insert("gpu_name".to_owned(), Value::from(device.info.name.as_str()));
    object.insert("uuid".to_owned(), Value::from(device.info.uuid.as_str()));
    for &metric in Metric::ALL {
        let key = metric.spec().key;
        if !object.contains_key(key)
            && let Some(value) = fresh(metric)
        {
            object.insert(key.to_owned(), number(value));
        }
    }
    Value::Object(object).to_string()
}

/// A whole number without a point.
fn number(value: f64) -> Value {
    match value.fract() == 0.0 && value.abs() < 9e15 {
        true => Value::from(value as i64),
        false => Number::from_f64(value).map_or(Value::Null, Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::history::Store;
    use crate::live::source::{Absent, DeviceInfo, Sample};

    #[test]
    fn a_line_has_the_schema_and_only_what_is_new() {
        let mut store = Store::new(["NVIDIA"].into_iter());
        let info = DeviceInfo { id: "1".to_owned(), name: "H100".to_owned(), uuid: "GPU-1".to_owned(), facts: vec![] };
        store.adopt("NVIDIA", &[info]);
        let mut sample = Sample::at(1_700_000_000_500_000_000);
        sample.set(Metric::Utilization, Ok(45.0));
        sample.set(Metric::MemoryUsed, Ok(2.5e9));
        sample.set(Metric::Power, Err(Absent::NotSupported));
        sample.set(Metric::PcieTx, Ok(1000.0));
        store.apply(0, sample);
        assert_eq!(
            line(&store.devices[0], 1_700_000_000_500_000_000, i64::MIN),
            "{\"gpu_id\":1,\"gpu_util_pct\":45,\"memory_used_gb\":2.5,\"timestamp\":1700000000.5,\
             \"time_ns\":1700000000500000000,\"gpu_name\":\"H100\",\"uuid\":\"GPU-1\",\"memory_used_bytes\":2500000000,\
             \"pcie_tx_bytes_per_s\":1000}"
        );
        let mut sample = Sample::at(1_700_000_001_000_000_000);
        sample.set(Metric::Utilization, Ok(50.0));
        store.apply(0, sample);
        let next = line(&store.devices[0], 1_700_000_001_000_000_000, 1_700_000_000_500_000_000);
        assert!(next.contains("\"gpu_util_pct\":50") && !next.contains("pcie"), "{next}");
    }
}
