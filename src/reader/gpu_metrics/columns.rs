//! Readings by device and name, which become counters.

use hashbrown::HashMap;

use crate::model::{
    Counter, CounterUnit, Process, ProcessId, Severity, TimeNs, TraceBuilder, Track, TrackId, TrackKind,
};

/// The most columns of all devices together.
const MAX_COLUMNS: usize = 4096;
/// A pause between readings is long from this multiple of the usual one on,
const LONG_PAUSE: i64 = 5;
/// which is known of so many.
const MIN_PAUSES: usize = 8;

/// Why rows are not shown.
const UNNUMBERED: &str = "Row of a reading in which a GPU is missing or twice, without a column that says which GPU it is \
                          of: not shown. Add index to --query-gpu";
/// How rows were told apart.
const NUMBERED: &str = "The rows do not say which GPU they are of: GPUs are numbered by the order of their rows. Add \
                        index to --query-gpu to be sure";

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
    n_rows_unnumbered: u64,
    is_numbered_by_order: bool,
}

#[derive(Debug)]
struct Column {
    device: usize,
    name: String,
    unit: CounterUnit,
    ts: Vec<TimeNs>,
    value: Vec<f64>,
    /// Times at which it could not be read.
    absent: Vec<TimeNs>,
}

impl Column {
    /// Notes where nothing was read for several times as long as usual: the recorder stood still, or lost the GPU.
    fn find_pauses(&mut self) {
        let pauses = || self.ts.windows(2).map(|two| two[1].saturating_sub(two[0]));
        let mut sorted: Vec<i64> = pauses().collect();
        if sorted.len() < MIN_PAUSES || !self.ts.is_sorted() {
            return;
        }
        let middle = sorted.len() / 2;
        let usual = (*sorted.select_nth_unstable(middle).1).max(1);
        let long = self.ts.iter().zip(pauses()).filter(|(_, pause)| *pause > usual.saturating_mul(LONG_PAUSE));
        let lost: Vec<TimeNs> = long.map(|(&ts, _)| ts.saturating_add(usual)).collect();
        self.absent.extend(lost);
    }
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
                let (ts, value, absent) = <(Vec<_>, Vec<_>, Vec<_>)>::default();
                self.columns.push(Column { device, name: name.to_owned(), unit, ts, value, absent });
                self.by_name.insert((device, name.to_owned()), self.columns.len() - 1);
                self.columns.len() - 1
            }
        };
        self.columns[at].ts.push(ts);
        self.columns[at].value.push(value);
        self.n_shown += 1;
    }

    /// Notes that a value could not be read; nothing of one that never was before.
    pub fn absent(&mut self, device: usize, name: &str, ts: TimeNs) {
        if let Some(&at) = self.by_name.get(&(device, name.to_owned())) {
            self.columns[at].absent.push(ts);
        }
    }

    /// Counts a value that another one says more exactly.
    pub fn repeat(&mut self) {
        self.n_repeated += 1;
    }

    /// Counts a value that should be a number and is none.
    pub fn reject(&mut self) {
        self.n_odd += 1;
    }

    /// Counts rows of which nothing says of which GPU they are.
    pub fn reject_rows(&mut self, n: u64) {
        self.n_rows_unnumbered += n;
    }

    /// Notes that rows did not say of which GPU they are, and were numbered by their order.
    pub fn number_by_order(&mut self) {
        self.is_numbered_by_order = true;
    }

    /// Adds a counter for each column, on a process for each device.
    pub fn add_to(self, builder: &mut TraceBuilder) {
        let import = &mut builder.import;
        import.read += self.n_shown + self.n_repeated + self.n_beyond + self.n_odd + self.n_rows_unnumbered;
        (import.shown, import.merged) = (import.shown + self.n_shown, import.merged + self.n_repeated);
        import.reject(Severity::Warn, "More than 4,096 columns: the rest is not shown", self.n_beyond, None);
        import.reject(Severity::Warn, "Value that is not a finite number: not shown", self.n_odd, None);
        import.reject(Severity::Warn, UNNUMBERED, self.n_rows_unnumbered, None);
        if self.is_numbered_by_order {
            import.note(Severity::Note, NUMBERED, 1, None);
        }
        let first = builder.processes.len();
        for (i, name) in self.names.into_iter().enumerate() {
            builder.processes.push(Process { name, sort_index: i as i64, ..Process::default() });
        }
        for (i, mut column) in self.columns.into_iter().enumerate() {
            column.find_pauses();
            let track = TrackId(builder.tracks.len() as u32);
            builder.tracks.push(Track {
                kind: TrackKind::Counter,
                process: ProcessId((first + column.device) as u32),
                name: column.name,
                tid: String::new(),
                sort_index: i as i64,
            });
            let Column { unit, ts, value, absent, .. } = column;
            builder.counters.push(Counter { track, unit, ts, value, absent, ..Counter::default() });
        }
    }
}
