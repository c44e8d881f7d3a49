//! Readings by device and name, which become counters.

use hashbrown::HashMap;

use crate::model::{
    Counter, CounterUnit, Process, ProcessId, Severity, TimeNs, TraceBuilder, Track, TrackId, TrackKind,
};

/// The most columns of all devices together.
const MAX_COLUMNS: usize = 4096;

/// The columns of a log.
#[derive(Debug, Default)]
pub struct Columns {
    /// By their keys.
    devices: HashMap<String, usize>,
    names: Vec<String>,
    by_name: HashMap<(usize, String), usize>,
    columns: Vec<Column>,
    n_shown: u64,
    n_repeated: u64,
    n_beyond: u64,
    n_odd: u64,
}

#[derive(Debug)]
struct Column {
    device: usize,
    name: String,
    unit: CounterUnit,
    ts: Vec<TimeNs>,
    value: Vec<f64>,
}

impl Columns {
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The place of a device.
    ///
    /// * `key`: the same for all its readings.
    /// * `name`: for the user.
    pub fn device(&mut self, key: &str, name: impl FnOnce() -> String) -> usize {
        if let Some(&device) = self.devices.get(key) {
            return device;
        }
        let device = self.names.len();
        self.names.push(name());
        self.devices.insert(key.to_owned(), device);
        device
    }

    /// Adds a value; one that is not finite is counted as no number.
    pub fn add(&mut self, device: usize, name: &str, unit: CounterUnit, ts: TimeNs, value: f64) {
        if !value.is_finite() {
            return self.reject();
        }
        let at = match self.by_name.get(&(device, name.to_owned())) {
            Some(&at) => at,
            None if self.columns.len() >= MAX_COLUMNS => {
                self.n_beyond += 1;
                return;
            }
            None => {
                let (ts, value) = (Vec::new(), Vec::new());
                self.columns.push(Column { device, name: name.to_owned(), unit, ts, value });
                self.by_name.insert((device, name.to_owned()), self.columns.len() - 1);
                self.columns.len() - 1
            }
        };
        self.columns[at].ts.push(ts);
        self.columns[at].value.push(value);
        self.n_shown += 1;
    }

    /// Counts a value that another one says more exactly.
    pub fn repeat(&mut self) {
        self.n_repeated += 1;
    }

    /// Counts a value that should be a number and is none.
    pub fn reject(&mut self) {
        self.n_odd += 1;
    }

    /// Adds a counter for each column, on a process for each device.
    pub fn add_to(self, builder: &mut TraceBuilder) {
        let import = &mut builder.import;
        import.read += self.n_shown + self.n_repeated + self.n_beyond + self.n_odd;
        (import.shown, import.merged) = (import.shown + self.n_shown, import.merged + self.n_repeated);
        import.reject(Severity::Warn, "More than 4,096 columns: the rest is not shown", self.n_beyond, None);
        import.reject(Severity::Warn, "Value that is not a finite number: not shown", self.n_odd, None);
        let first = builder.processes.len();
        for (i, name) in self.names.into_iter().enumerate() {
            builder.processes.push(Process { name, sort_index: i as i64, ..Process::default() });
        }
        for (i, column) in self.columns.into_iter().enumerate() {
            let track = TrackId(builder.tracks.len() as u32);
            builder.tracks.push(Track {
                kind: TrackKind::Counter,
                process: ProcessId((first + column.device) as u32),
                name: column.name,
                tid: String::new(),
                sort_index: i as i64,
            });
            let Column { unit, ts, value, .. } = column;
            builder.counters.push(Counter { track, unit, ts, value, ..Counter::default() });
        }
    }
}
