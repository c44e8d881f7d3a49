//! JSON lines: an object a line, with a time and numbers.

use serde_json::{Map, Value};

use super::columns::Columns;
use super::time::{Zone, decimal_ns};
use super::{Lines, Taken};
use crate::model::{CounterUnit, TimeNs};

/// The keys of times, the most exact first.
pub const TIMES: [&str; 3] = ["time_ns", "timestamp", "time"];

/// Keys that say which device a reading is of, the best first.
const IDS: [&str; 3] = ["uuid", "gpu_id", "gpu"];

/// Words of keys as the user writes them.
const WORDS: [(&str, &str); 11] = [
    ("gpu", "GPU"),
    ("cpu", "CPU"),
    ("util", "utilization"),
    ("sm", "SM"),
    ("pcie", "PCIe"),
    ("nvlink", "NVLink"),
    ("nvlinks", "NVLinks"),
    ("ecc", "ECC"),
    ("dram", "DRAM"),
    ("tx", "sent"),
    ("rx", "received"),
];

/// Endings of keys: the unit, by what values are multiplied, and what is added to the name.
const UNITS: [(&str, CounterUnit, f64, &str); 15] = [
    ("_bytes_per_s", CounterUnit::Plain, 1.0, " [B/s]"),
    ("_pct", CounterUnit::Percent, 1.0, ""),
    ("_percent", CounterUnit::Percent, 1.0, ""),
    ("_bytes", CounterUnit::Bytes, 1.0, ""),
    ("_gb", CounterUnit::Bytes, 1e9, ""),
    ("_gib", CounterUnit::Bytes, 1_073_741_824.0, ""),
    ("_mb", CounterUnit::Bytes, 1e6, ""),
    ("_mib", CounterUnit::Bytes, 1_048_576.0, ""),
    ("_w", CounterUnit::Plain, 1.0, " [W]"),
    ("_watts", CounterUnit::Plain, 1.0, " [W]"),
    ("_c", CounterUnit::Plain, 1.0, " [°C]"),
    ("_mhz", CounterUnit::Plain, 1.0, " [MHz]"),
    ("_j", CounterUnit::Plain, 1.0, " [J]"),
    ("_rpm", CounterUnit::Plain, 1.0, " [rpm]"),
    ("_ms", CounterUnit::Nanoseconds, 1e6, ""),
];

/// Each line an object.
#[derive(Debug)]
pub struct Objects;

impl Lines for Objects {
    fn take(&mut self, line: &str, columns: &mut Columns, zone: &Zone) -> Taken {
        let Some(object) = object(line, columns) else { return Taken::NotAReading };
        let Some(ts) = time(line, &object, zone) else { return Taken::NoTime };
        let key = IDS.iter().find_map(|&id| object.get(id)).map(ToString::to_string).unwrap_or_default();
        let device = columns.device(&key, || device_name(&object));
        for (key, value) in &object {
            if value.is_null() {
                columns.absent(device, &meaning(key).0, ts);
            }
            let Some(value) = value.as_f64().filter(|_| !TIMES.contains(&key.as_str()) && !IDS.contains(&key.as_str()))
            else {
                continue;
            };
            let (name, unit, scale) = meaning(key);
            // A value in bytes is more exact than one in gigabytes.
            if key.strip_suffix("_gb").is_some_and(|stem| object.contains_key(&format!("{stem}_bytes"))) {
                columns.repeat();
                continue;
            }
            columns.add(device, &name, unit, ts, value * scale);
        }
        Taken::Values
    }
}

/// The object of a line. Numbers that Python writes and JSON has not, `NaN` and `Infinity`, are counted and absent.
fn object(line: &str, columns: &mut Columns) -> Option<Map<String, Value>> {
    serde_json::from_str(line).ok().or_else(|| {
        let (mut text, mut n) = (line.to_owned(), 0);
        for word in ["-Infinity", "Infinity", "NaN"] {
            // A value: behind a colon, and not within a text.
            for before in [": ", ":"] {
                let number = format!("\"{before}{word}");
                n += text.matches(&number).count();
                text = text.replace(&number, &format!("\"{before}null"));
            }
        }
        let object = serde_json::from_str(&text).ok().filter(|_| n > 0)?;
        (0..n).for_each(|_| columns.reject());
        Some(object)
    })
}

/// `GPU 1: NVIDIA H100`, or `Metrics` of a log that is of no device.
fn device_name(object: &Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let id = object.get("gpu_id").or_else(|| object.get("gpu")).map(text);
    let product = object.get("gpu_name").or_else(|| object.get("name")).and_then(Value::as_str);
    match (id, product) {
        (Some(id), Some(product)) => format!("GPU {id}: {product}"),
        (Some(id), None) => format!("GPU {id}"),
        (None, Some(product)) => product.to_owned(),
        (None, None) => "Metrics".to_owned(),
    }
}

fn time(line: &str, object: &Map<String, Value>, zone: &Zone) -> Option<TimeNs> {
    let key = TIMES.into_iter().find(|&key| object.contains_key(key))?;
    match &object[key] {
        Value::String(text) => zone.parse(text),
        Value::Number(number) if key == "time_ns" => number.as_i64(),
        Value::Number(number) => {
            // The text, since a number of this size has lost its nanoseconds.
            let digits = digits_of(line, key, number.as_f64()?);
            digits.and_then(decimal_ns).or_else(|| decimal_ns(&number.to_string()))
        }
        _ => None,
    }
}

/// The text of a number behind its key: objects within the line may have the same key.
fn digits_of<'a>(line: &'a str, key: &str, value: f64) -> Option<&'a str> {
    let behind = line.match_indices(key).filter_map(|(at, _)| line[at + key.len()..].strip_prefix('"'));
    let mut numbers = behind.filter_map(|rest| {
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        Some(&rest[..rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len())])
    });
    numbers.find(|digits| digits.parse() == Ok(value))
}

/// The name, the unit and the scale of a key.
fn meaning(key: &str) -> (String, CounterUnit, f64) {
    let lower = key.to_ascii_lowercase();
    let known = UNITS.iter().find(|unit| lower.ends_with(unit.0) && lower.len() > unit.0.len());
    let (stem, unit, scale, suffix) = match known {
        Some(&(ending, unit, scale, suffix)) => (&lower[..lower.len() - ending.len()], unit, scale, suffix),
        None if lower.contains("utilization") => (lower.as_str(), CounterUnit::Percent, 1.0, ""),
        None => (lower.as_str(), CounterUnit::Plain, 1.0, ""),
    };
    let words = stem.split('_').map(|word| WORDS.iter().find(|known| known.0 == word).map_or(word, |known| known.1));
    let mut name = words.collect::<Vec<_>>().join(" ");
    if let Some(first) = name.get(..1).map(str::to_ascii_uppercase) {
        name.replace_range(..1, &first);
    }
    (name + suffix, unit, scale)
}
