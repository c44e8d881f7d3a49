//! The CSV of `nvidia-smi --query-gpu=… --format=csv`, also with `nounits`: a header, then a row a GPU and reading.

use super::Taken;
use super::columns::Columns;
use super::time::Zone;
use crate::model::{CounterUnit, TimeNs};

/// Names that the header of no other CSV has.
const NAMES: [&str; 9] = [
    "utilization.gpu",
    "utilization.memory",
    "memory.used",
    "memory.total",
    "memory.free",
    "power.draw",
    "temperature.gpu",
    "clocks.",
    "pcie.link.",
];

/// Columns that say which GPU a row is of, the best first.
const IDS: [&str; 7] = ["index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial"];

/// Columns that name things.
const TEXTS: [&str; 4] = ["timestamp", "name", "gpu_name", "driver_version"];

/// Whether a line is the header.
pub fn is_header(line: &str) -> bool {
    fields(line).any(|field| NAMES.iter().any(|name| field.starts_with(name)))
}

/// Whether a line is a row: one of its fields is a time as nvidia-smi writes it, `2025/09/08 14:14:37.120`.
pub fn is_row(line: &str) -> bool {
    let is_time = |field: &str| {
        let form = field.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
        form.eq(*b"0000/00/00 00:00:00.000")
    };
    line.contains(',') && fields(line).any(is_time)
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(str::trim)
}

/// The rows read so far.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<Head>,
    /// The time of the row before, and how many rows of it there were: without an id, rows of one reading are of one
    /// GPU after the other.
    last: (TimeNs, usize),
}

#[derive(Debug)]
struct Head {
    /// Without the unit.
    name: String,
    /// The unit in brackets; empty if there is none.
    unit: String,
}

impl Table {
    /// Takes over one line.
    pub fn take(&mut self, line: &str, columns: &mut Columns, zone: &Zone) -> Taken {
        if is_header(line) {
            self.columns = fields(line).map(head).collect();
            return Taken::Header;
        }
        let values: Vec<&str> = fields(line).collect();
        if self.columns.is_empty() || values.len() != self.columns.len() {
            return Taken::NotAReading;
        }
        let value = |name: &str| Some(values[self.columns.iter().position(|column| column.name == name)?]);
        let Some(ts) = value("timestamp").and_then(|text| zone.parse(text)) else { return Taken::NoTime };
        let id = IDS.into_iter().find_map(value).map(ToOwned::to_owned);
        let product = value("name").or_else(|| value("gpu_name")).map(ToOwned::to_owned);
        let nth = if self.last.0 == ts { self.last.1 + 1 } else { 0 };
        self.last = (ts, nth);
        let id = id.unwrap_or_else(|| nth.to_string());
        let name = || product.map_or_else(|| format!("GPU {id}"), |product| format!("GPU {id}: {product}"));
        let device = columns.device(&id, name);
        for (column, text) in self.columns.iter().zip(&values) {
            if TEXTS.contains(&column.name.as_str()) || IDS.contains(&column.name.as_str()) {
                continue;
            }
            if let Some((value, unit)) = number(text, &column.unit) {
                let (unit, scale, suffix) = meaning(unit);
                columns.add(device, &format!("{}{suffix}", column.name), unit, ts, value * scale);
            } else if !column.unit.is_empty() && !is_absent(text) {
                columns.reject();
            }
        }
        Taken::Values
    }
}

/// A field of the header: `memory.used [MiB]`.
fn head(field: &str) -> Head {
    let (name, unit) = field.split_once('[').unwrap_or((field, ""));
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
