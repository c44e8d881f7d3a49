//! What a counter counts, and how people read its values.

use super::{Cell, format};
use crate::model::{Counter, CounterUnit, Trace};

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric<'a> {
    /// The title of its track without the unit.
    pub name: &'a str,
    /// As it was recorded; may be empty.
    pub unit: &'a str,
    kind: CounterUnit,
    /// The largest value of this metric on any device.
    most: f64,
}

impl<'a> Metric<'a> {
    /// Of a counter of `trace`, whose tracks may have their unit in brackets: `Power [W]`.
    pub fn of(trace: &'a Trace, counter: &Counter) -> Self {
        let title = &trace.track(counter.track).name;
        let in_brackets = title.strip_suffix(']').and_then(|title| title.rsplit_once(" ["));
        let is_told = |_: &(&str, &str)| counter.unit == CounterUnit::Plain;
        let (name, unit) = in_brackets.filter(is_told).unwrap_or((title, unit(counter.unit)));
        Self { name, unit, kind: counter.unit, most: counter.scale.0.abs().max(counter.scale.1) }
    }

    /// What a value is divided by for people, and the unit that it then has: the same on all devices.
    fn scale(&self) -> (f64, &'a str) {
        let most = self.most;
        match (self.kind, self.unit) {
            (CounterUnit::Bytes, _) if most < 1024.0 => (1.0, "B"),
            (CounterUnit::Bytes, _) if most < 1_048_576.0 => (1024.0, "KiB"),
            (CounterUnit::Bytes, _) if most < 1_073_741_824.0 => (1_048_576.0, "MiB"),
            (CounterUnit::Bytes, _) => (1_073_741_824.0, "GiB"),
            (CounterUnit::Nanoseconds, _) => (1e6, "ms"),
            (_, "B/s") => (1e9, "GB/s"),
            (_, unit) => (1.0, unit),
        }
    }

    /// A value in [`Self::shown_unit`].
    pub fn shown(&self, value: f64) -> Cell {
        Cell::Plain(value / self.scale().0)
    }

    /// A mean or a difference, which bits have not.
    pub fn shown_if_number(&self, value: f64) -> Cell {
        if self.is_bits() { Cell::Empty } else { self.shown(value) }
    }

    pub fn shown_unit(&self) -> Cell {
        Cell::text(if self.is_bits() { "bits" } else { self.scale().1 })
    }

    /// A value with its unit: `310 W`.
    pub fn text(&self, value: f64) -> String {
        match self.kind {
            CounterUnit::Bytes => format::bytes(value),
            CounterUnit::Nanoseconds => format::duration(value as i64),
            CounterUnit::Plain | CounterUnit::Percent => {
                let (divisor, unit) = self.scale();
                let space = if unit.is_empty() { "" } else { " " };
                format!("{}{space}{unit}", format::value(value / divisor))
            }
        }
    }

    /// Whether each value is a set of bits, not a number.
    fn is_bits(&self) -> bool {
        matches!(self.name, "Throttle reasons" | "clocks_throttle_reasons.active" | "clocks_event_reasons.active")
    }
}

fn unit(unit: CounterUnit) -> &'static str {
    match unit {
        CounterUnit::Plain => "",
        CounterUnit::Bytes => "B",
        CounterUnit::Percent => "%",
        CounterUnit::Nanoseconds => "ns",
    }
}
