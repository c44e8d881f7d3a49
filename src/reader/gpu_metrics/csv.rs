//! The CSV of `nvidia-smi --query-gpu=… --format=csv`, also with `nounits`: a header, then a row a GPU and reading; and
//! that of `--query-compute-apps`, a row a process.

use std::borrow::Cow;
use std::io::Read as _;

use super::columns::Columns;
use super::time::Zone;
use super::{Lines, Taken};
use crate::model::{CounterUnit, TimeNs};
use crate::reader::source::Source;
use crate::reader::{Options, ReadError};

/// What names begin with that the header of no other CSV has.
const NAMES: [&str; 15] = [
    "utilization.",
    "memory.",
    "power.draw",
    "power.limit",
    "enforced.power.limit",
    "temperature.",
    "clocks.",
    "clocks_throttle_reasons.",
    "clocks_event_reasons.",
    "pcie.link.",
    "fan.speed",
    "pstate",
    "ecc.errors.",
    "encoder.stats.",
    "used_gpu_memory",
];

/// Columns that say which GPU a row is of, the best first.
const IDS: [&str; 7] = ["index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial"];

/// Columns that say of which process on the GPU a row is.
const PROCESS: [&str; 2] = ["pid", "process_name"];

/// Columns that name things.
const TEXTS: [&str; 4] = ["timestamp", "name", "gpu_name", "driver_version"];

/// Text that is looked at before the rest, in bytes, to know which rows are of one reading.
const START: u64 = 64 << 10;
/// Rows of one reading seldom are further apart, in nanoseconds.
const AT_ONCE: i64 = 200_000_000;
/// The most GPUs in a machine that are told apart where rows do not say of which they are.
const MOST_GPUS: usize = 16;

/// Whether a line is the header: names, with units in brackets, among them one that only nvidia-smi has.
pub fn is_header(line: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let is_name = |field: &Cow<'_, str>| !field.is_empty() && head(field).name.chars().all(is_of_name);
    let is_known = |field: &Cow<'_, str>| NAMES.iter().any(|name| field.starts_with(name));
    let fields = fields(line);
    fields.iter().all(is_name) && fields.iter().any(is_known)
}

/// Whether a line is a row: one of its fields is a time as nvidia-smi writes it, `2025/09/08 14:14:37.120`, or several
/// are numbers with its units.
pub fn is_row(line: &str) -> bool {
    let is_time = |field: &str| {
        let form = field.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
        form.eq(*b"0000/00/00 00:00:00.000")
    };
    let has_unit = |field: &&Cow<'_, str>| {
        let number = ["%", "MiB", "W", "MHz"].into_iter().find_map(|unit| field.strip_suffix(unit)?.strip_suffix(' '));
        number.is_some_and(|number| number.parse::<f64>().is_ok())
    };
    let fields = fields(line);
    fields.len() > 1 && (fields.iter().any(|field| is_time(field)) || fields.iter().filter(has_unit).count() > 1)
}

/// The fields of a line; a program that saved the log anew may have put them in quotes.
fn fields(line: &str) -> Vec<Cow<'_, str>> {
    if !line.contains('"') {
        return line.split(',').map(|field| field.trim().into()).collect();
    }
    let (mut fields, mut is_quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.iter_mut().next_back().into_iter().for_each(|field| field.push(c)),
        }
    }
    fields.into_iter().map(|field| field.trim().to_owned().into()).collect()
}

/// The rows read so far.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<Head>,
    numbering: Numbering,
    /// The rows of the reading that goes on, where they do not say of which GPU they are.
    held: Vec<(TimeNs, Vec<String>)>,
}

/// How rows are told apart that do not say of which GPU they are: those of one reading are of one GPU after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbering {
    pub n_gpus: usize,
    /// The longest time between rows of one reading, in nanoseconds: nvidia-smi asks one GPU after the other, and notes
    /// the time of each.
    within: i64,
}

impl Default for Numbering {
    fn default() -> Self {
        Self { n_gpus: 1, within: 0 }
    }
}

#[derive(Debug)]
struct Head {
    /// Without the unit.
    name: String,
    /// The unit in brackets; empty if there is none.
    unit: String,
}

impl Table {
    /// Of a log, at whose start it looks which rows are of one reading.
    ///
    /// Errors: the file cannot be read.
    pub fn of(source: &Source, options: Options) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        source.open(options)?.reader.take(START).read_to_end(&mut bytes)?;
        let (mut table, zone) = (Self::default(), Zone::default());
        let text = String::from_utf8_lossy(&bytes);
        let times: Vec<TimeNs> = text.lines().filter_map(|line| table.row(line, &zone)?.ts).collect();
        Ok(Self { numbering: Numbering::of(&times), ..Self::default() })
    }

    /// A line as a row below the header; `None` if it is none, or is a header, which counts from then on.
    fn row<'a>(&mut self, line: &'a str, zone: &Zone) -> Option<Row<'a>> {
        let mut values = fields(line);
        if is_header(line) {
            self.columns = values.iter().map(|field| head(field)).collect();
            return None;
        }
        let at = |name: &str| self.columns.iter().position(|column| column.name == name);
        // A comma in the name of a GPU or a process looks like one between fields.
        let n_more = values.len().saturating_sub(self.columns.len());
        let name = ["name", "gpu_name", "process_name"].into_iter().find_map(at);
        if let Some(name) = name.filter(|_| n_more > 0 && !self.columns.is_empty()) {
            let joined = values.splice(name..=name + n_more, []).collect::<Vec<_>>().join(", ");
            values.insert(name, joined.into());
        }
        if values.len() != self.columns.len() {
            return None;
        }
        let ts = at("timestamp").and_then(|at| zone.parse(&values[at]));
        Some(Row { values, ts })
    }

    /// The field of a row in a column.
    fn value<'a>(&self, values: &'a [impl AsRef<str>], name: &str) -> Option<&'a str> {
        Some(values[self.columns.iter().position(|column| column.name == name)?].as_ref())
    }

    /// Adds the values of a row.
    ///
    /// * `nth`: which row of its reading it is, where it does not say of which GPU it is.
    fn add(&self, values: &[impl AsRef<str>], ts: TimeNs, nth: usize, columns: &mut Columns) {
        let product = self.value(values, "name").or_else(|| self.value(values, "gpu_name"));
        let process = self
            .value(values, "pid")
            .map(|pid| format!(" of {} ({pid})", self.value(values, "process_name").unwrap_or("process")));
        let id = match IDS.into_iter().find_map(|name| self.value(values, name)) {
            Some(id) => id.to_owned(),
            None if process.is_some() => "not told".to_owned(),
            None => nth.to_string(),
        };
        let name = || product.map_or_else(|| format!("GPU {id}"), |product| format!("GPU {id}: {product}"));
        let device = columns.device(&id, name);
        for (column, text) in self.columns.iter().zip(values) {
            if [&TEXTS[..], &IDS, &PROCESS].iter().any(|names| names.contains(&column.name.as_str())) {
                continue;
            }
            let text = text.as_ref();
            let found = number(text, &column.unit);
            let (unit, scale, suffix) = meaning(found.map_or(&column.unit, |(_, unit)| unit));
            let name = format!("{}{}{suffix}", column.name, process.as_deref().unwrap_or_default());
            match found {
                Some((value, _)) => columns.add(device, &name, unit, ts, value * scale),
                None if is_absent(text) => columns.absent(device, &name, ts),
                None if !column.unit.is_empty() => columns.reject(),
                None => {}
            }
        }
    }

    /// Adds the rows of the reading that ends. Where one is missing, none says of which GPU the others are.
    fn end_of_reading(&mut self, columns: &mut Columns) {
        let held = std::mem::take(&mut self.held);
        if held.len() != self.numbering.n_gpus {
            columns.reject_rows(held.len() as u64);
            return;
        }
        for (nth, (ts, values)) in held.iter().enumerate() {
            self.add(values, *ts, nth, columns);
        }
        columns.number_by_order();
    }
}

impl Lines for Table {
    fn take(&mut self, line: &str, columns: &mut Columns, zone: &Zone) -> Taken {
        if is_header(line) {
            self.end_of_reading(columns);
            self.row(line, zone);
            return Taken::Header;
        }
        let Some(Row { values, ts }) = self.row(line, zone) else { return Taken::NotAReading };
        let Some(ts) = ts else { return Taken::NoTime };
        let says_which = IDS.iter().chain(&PROCESS).any(|name| self.value(&values, name).is_some());
        if says_which || self.numbering.n_gpus == 1 {
            self.add(&values, ts, 0, columns);
            return Taken::Values;
        }
        let goes_on = |last: &(TimeNs, _)| (0..=self.numbering.within).contains(&(ts - last.0));
        if !self.held.last().is_some_and(goes_on) {
            self.end_of_reading(columns);
        }
        if self.held.len() > self.numbering.n_gpus {
            columns.reject_rows(1);
        } else {
            self.held.push((ts, values.into_iter().map(Cow::into_owned).collect()));
        }
        Taken::Values
    }

    fn end(&mut self, columns: &mut Columns) {
        self.end_of_reading(columns);
    }
}

/// A line below the header.
struct Row<'a> {
    values: Vec<Cow<'a, str>>,
    ts: Option<TimeNs>,
}

impl Numbering {
    /// Judged by the times of the first rows, of which some may be missing: the pauses between readings are at least
    /// three times as long as those within one, and there is a number of rows that none exceeds and many have.
    pub fn of(times: &[TimeNs]) -> Self {
        let mut pauses: Vec<i64> = times.windows(2).map(|two| two[1].saturating_sub(two[0])).collect();
        pauses.retain(|&pause| pause >= 0);
        pauses.sort_unstable();
        let jumps =
            pauses.windows(2).map(|two| (two[0], two[1])).filter(|jump| jump.0.max(1).saturating_mul(3) < jump.1);
        // Also where all rows are of one time.
        let splits = jumps.chain([(0, 1)]).filter_map(|(short, long)| {
            // Halfway by their ratio, so that neither a late row nor an early reading is taken for the other.
            let within = (short.max(1) as f64 * long as f64).sqrt() as i64;
            let sizes = reading_sizes(times, within);
            let n_gpus = sizes.iter().copied().max().filter(|most| (2..=MOST_GPUS).contains(most))?;
            let n_whole = sizes.iter().filter(|&&size| size == n_gpus).count();
            // One GPU is not read twice in so short a time; longer pauses may be those of one GPU and an uneven pace.
            let is_enough = match short {
                0 => true,
                ..AT_ONCE => n_whole > 1 && n_whole * 5 >= sizes.len(),
                _ => n_whole > 1 && n_whole * 2 > sizes.len(),
            };
            is_enough.then_some((n_whole * n_gpus, Self { n_gpus, within }))
        });
        splits.max_by_key(|split| split.0).map_or_else(Self::default, |split| split.1)
    }
}

/// How many rows each reading has.
///
/// * `within`: the longest time between two rows of a reading, in nanoseconds.
fn reading_sizes(times: &[TimeNs], within: i64) -> Vec<usize> {
    times.chunk_by(|a, b| (0..=within).contains(&b.saturating_sub(*a))).map(<[_]>::len).collect()
}

/// A field of the header: `memory.used [MiB]`.
fn head(field: &str) -> Head {
    // Temperatures are the only readings whose unit it does not write.
    let own = if field.starts_with("temperature.") { "°C" } else { "" };
    let (name, unit) = field.split_once('[').unwrap_or((field, own));
    Head { name: name.trim().to_owned(), unit: unit.trim_end_matches(']').to_owned() }
}

/// The number in a field with its unit; `None` for what is not supported, and for words.
///
/// * `unit`: that of the column, for fields without one.
fn number<'a>(text: &'a str, unit: &'a str) -> Option<(f64, &'a str)> {
    match text {
        "Active" | "Enabled" => return Some((1.0, "")),
        "Not Active" | "Disabled" => return Some((0.0, "")),
        _ => {}
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(|bits| (bits as f64, ""));
    }
    let digits = text.strip_prefix('P').unwrap_or(text);
    let (digits, own) = digits.split_once(' ').unwrap_or((digits, unit));
    digits.parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| (value, own))
}

/// Whether a field says that there is no value: `[N/A]`, `[Not Supported]`, `[Unknown Error]`.
fn is_absent(text: &str) -> bool {
    matches!(text, "" | "N/A") || text.starts_with('[')
}

/// The unit of a counter, the scale, and what is added to the name.
fn meaning(unit: &str) -> (CounterUnit, f64, String) {
    match unit {
        "%" => (CounterUnit::Percent, 1.0, String::new()),
        "MiB" => (CounterUnit::Bytes, 1_048_576.0, String::new()),
        "KiB" => (CounterUnit::Bytes, 1024.0, String::new()),
        "" => (CounterUnit::Plain, 1.0, String::new()),
        other => (CounterUnit::Plain, 1.0, format!(" [{other}]")),
    }
}
