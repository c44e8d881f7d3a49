//! Writes what is read to a file, one JSON object a line.
//!
//! Each line has the keys that GPU monitors in guides write (`gpu_id`, `gpu_util_pct`, `memory_util_pct`,
//! `memory_used_gb`, `memory_total_gb`, `power_w`, `temperature_c`, `timestamp`), then the exact time, what the device
//! is, and every other metric that was read since the line before. What a device does not support is absent.
//!
//! A thread of its own writes, so that a slow disk delays no reading.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::{Map, Number, Value};

use super::Monitor;
use super::history::DeviceHistory;
use super::metric::Metric;
use crate::job;
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

/// Lines that may wait for the disk, which are minutes of many GPUs; further ones are lost, and counted.
const MAX_WAITING: usize = 16_384;

/// How long the end of a recording, or of Lacuna, waits for a disk that writes nothing.
const LAST_LINES: Duration = Duration::from_secs(5);
/// How long it waits for one that is slow.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// All files whose lines may not be written yet.
static FILES: Mutex<Vec<Weak<Line>>> = Mutex::new(Vec::new());

/// Ends all recordings, and waits until the lines that wait for the disk are written, as long as it writes. For the end
/// of Lacuna.
pub fn end_recordings() {
    let files: Vec<Arc<Line>> = lock(&FILES).iter().filter_map(Weak::upgrade).collect();
    files.iter().for_each(|line| line.close());
    let until = Instant::now() + MOST_WAIT;
    for line in files {
        line.wait(until);
    }
}

/// A recording under way. Dropping it ends it, without waiting for the disk.
#[derive(Debug)]
pub struct Recorder {
    line: Arc<Line>,
    monitor: Arc<super::monitor::Shared>,
}

impl Recorder {
    /// Starts to write what the monitor reads to `file`, which `path` names; starts the monitor.
    pub fn start(monitor: &Monitor, file: File, path: &Path) -> Self {
        let line = Line::new(file, path, MAX_WAITING);
        let shared = Arc::clone(monitor.shared());
        shared.recorders().push(Arc::clone(&line));
        monitor.start();
        Self { line, monitor: shared }
    }

    pub fn path(&self) -> &Path {
        &self.line.path
    }

    /// What was written so far, and what was lost.
    pub fn written(&self) -> Written {
        self.line.written().clone()
    }

    /// Ends it, and waits until the lines that wait for the disk are written, as long as it writes.
    pub fn stop(self) -> Written {
        self.forget();
        if !self.line.wait(Instant::now() + MOST_WAIT) {
            self.line.fail("the disk does not answer");
        }
        self.written()
    }

    fn forget(&self) {
        // What is known now is written.
        let _store = self.monitor.lock();
        self.monitor.recorders().retain(|line| !Arc::ptr_eq(line, &self.line));
        self.line.close();
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
    /// `None` once it has ended.
    to_writer: Mutex<Option<Queue>>,
    written: Mutex<Written>,
    /// Whether all lines are written, or none will be any more.
    is_over: Mutex<bool>,
    ended: Condvar,
    /// When each device's last line was, by its place.
    last: Mutex<Vec<TimeNs>>,
}

#[derive(Debug)]
struct Queue {
    sender: SyncSender<String>,
    /// Lines that were lost since the last one that was not.
    n_lost: u64,
}

/// What became of the lines of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub n_lines: u64,
    /// Lines that were lost because the disk was too slow; the line after them says so too.
    pub n_lost: u64,
    /// Why lines could not be written, if so.
    pub error: Option<String>,
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} line{}", self.n_lines, if self.n_lines == 1 { "" } else { "s" })?;
        match self.n_lost {
            0 => Ok(()),
            lost => write!(f, " ({lost} lost: the disk is too slow)"),
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    /// With a thread that writes.
    fn new(file: File, path: &Path, max_waiting: usize) -> Arc<Self> {
        let (sender, waiting) = sync_channel(max_waiting);
        let line = Arc::new(Self {
            path: path.to_owned(),
            to_writer: Mutex::new(Some(Queue { sender, n_lost: 0 })),
            written: Mutex::default(),
            is_over: Mutex::new(false),
            ended: Condvar::new(),
            last: Mutex::default(),
        });
        let (of_writer, at_end) = (Arc::clone(&line), Arc::clone(&line));
        let end = move |outcome: Result<(), String>| {
            if let Err(panic) = outcome {
                at_end.fail(panic);
            }
            at_end.end();
        };
        if let Err(error) = job::start("gpu recording", move || of_writer.write_all(file, &waiting), end) {
            line.fail(error);
            line.end();
        }
        let mut files = lock(&FILES);
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(&line));
        line
    }

    fn end(&self) {
        *lock(&self.is_over) = true;
        self.ended.notify_all();
    }

    /// Takes no more lines; the writer ends once it has written what waits.
    fn close(&self) {
        *lock(&self.to_writer) = None;
    }

    /// Waits until the writer has ended, as long as it goes on; whether it has.
    fn wait(&self, until: Instant) -> bool {
        loop {
            let (n_lines, left) = (self.written().n_lines, until.saturating_duration_since(Instant::now()));
            let is_over = lock(&self.is_over);
            let is_over = self.ended.wait_timeout_while(is_over, left.min(LAST_LINES), |is_over| !*is_over);
            let is_over = *is_over.unwrap_or_else(PoisonError::into_inner).0;
            if is_over || left.is_zero() || self.written().n_lines == n_lines {
                return is_over;
            }
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        lock(&self.written)
    }

    fn fail(&self, why: impl std::fmt::Display) {
        self.written().error = Some(format!("Cannot write {}: {why}", self.path.display()));
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

    /// Has a line written, an object; never waits.
    pub fn write(&self, text: &str) {
        let mut to_writer = lock(&self.to_writer);
        let Some(queue) = &mut *to_writer else { return };
        let line = match (queue.n_lost, text.strip_prefix('{')) {
            (lost @ 1.., Some(rest)) => format!("{{\"lines_lost_before\":{lost},{rest}\n"),
            _ => format!("{text}\n"),
        };
        match queue.sender.try_send(line) {
            Ok(()) => queue.n_lost = 0,
            Err(TrySendError::Full(_)) => {
                queue.n_lost += 1;
                self.written().n_lost += 1;
            }
            // The writer has failed and says so.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Writes each line as it comes, so that little is lost if Lacuna is killed.
    fn write_all(&self, mut file: File, waiting: &Receiver<String>) {
        for line in waiting {
            if let Err(error) = file.write_all(line.as_bytes()) {
                return self.fail(error);
            }
            self.written().n_lines += 1;
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

    /// A pipe that nobody reads holds some lines; one more waits in the hands of the writer.
    #[cfg(unix)]
    #[test]
    fn a_disk_that_does_not_write_delays_nobody_and_what_is_lost_is_counted() {
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let line = Line::new(File::from(std::os::fd::OwnedFd::from(pipe)), Path::new("x"), 10);
        let text = format!("{{\"x\":\"{}\"}}", "y".repeat(1000));
        let started = std::time::Instant::now();
        while line.written().n_lost < 50 {
            line.write(&text);
            assert!(started.elapsed() < std::time::Duration::from_secs(20), "every line was taken");
        }
        let text = std::thread::scope(|scope| {
            let read = scope.spawn(|| std::io::read_to_string(&mut reader).unwrap());
            while line.written().n_lines < 5 || lock(&line.to_writer).as_ref().unwrap().n_lost > 0 {
                line.write(&text);
            }
            line.close();
            assert!(line.wait(Instant::now() + Duration::from_secs(60)));
            read.join().unwrap()
        });
        let found = line.written().clone();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let lost: u64 = lines.iter().filter_map(|line| line["lines_lost_before"].as_u64()).sum();
        assert_eq!((lines.len() as u64, lost, &found.error), (found.n_lines, found.n_lost, &None), "{found}");
        assert!(found.to_string().contains("lost: the disk is too slow"), "{found}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error() {
        let Ok(full) = File::options().write(true).open("/dev/full") else { return };
        let line = Line::new(full, Path::new("/dev/full"), 10);
        line.write("{}");
        assert!(line.wait(Instant::now() + Duration::from_secs(60)));
        line.write("{}");
        let found = line.written().clone();
        assert_eq!((found.n_lines, found.n_lost), (0, 0));
        assert!(found.error.unwrap().starts_with("Cannot write /dev/full: "));
    }

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
