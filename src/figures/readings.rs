//! Figures of logs of GPU metrics: least, mean and most of each metric of each device.

use std::sync::Arc;

use super::metric::Metric;
use super::{Cell, Part, figures};
use crate::model::{Counter, Format, Trace};

/// Metrics that people look at first, as `lacuna monitor` and nvidia-smi name them.
const FIRST: [&str; 14] = [
    "GPU utilization",
    "utilization.gpu",
    "Memory used",
    "memory.used",
    "Power",
    "power.draw",
    "Temperature",
    "temperature.gpu",
    "SM clock",
    "clocks.sm",
    "clocks.current.sm",
    "Memory utilization",
    "utilization.memory",
    "Energy",
];

/// The readings of one metric of one device.
#[derive(Clone, Debug)]
pub struct Readings<'a> {
    /// Title of the file, where another has readings too.
    pub file: Option<Arc<str>>,
    pub device: &'a str,
    metric: Metric<'a>,
    counter: &'a Counter,
    mean: f64,
}

impl<'a> Readings<'a> {
    /// All readings of a log of GPU metrics, none of other files: the metrics that people look at first come first,
    /// those that never changed last. Cost: O(readings).
    pub fn all(trace: &'a Trace, file: Option<&Arc<str>>) -> Vec<Self> {
        if trace.info.format != Format::GpuMetrics {
            return Vec::new();
        }
        let of = |counter: &'a Counter| {
            let mean = counter.value.iter().sum::<f64>() / counter.value.len().max(1) as f64;
            let process = trace.processes.get(trace.track(counter.track).process.0 as usize);
            let device = process.map_or("", |process| &process.name);
            // Rounding must not take it out of its bounds.
            let mean = mean.clamp(counter.min, counter.max);
            Self { file: file.cloned(), device, metric: Metric::of(trace, counter), counter, mean }
        };
        let mut all: Vec<Self> = trace.counters.iter().filter(|counter| !counter.value.is_empty()).map(of).collect();
        all.sort_by_key(|readings| readings.rank());
        all
    }

    fn rank(&self) -> (bool, usize) {
        rank(&self.metric, self.counter.min == self.counter.max)
    }

    fn change(&self) -> f64 {
        match (self.counter.value.first(), self.counter.value.last()) {
            (Some(first), Some(last)) => last - first,
            _ => 0.0,
        }
    }
}

/// The place of a metric among others: those that people look at first come first, those that never changed last.
pub fn rank(metric: &Metric<'_>, is_constant: bool) -> (bool, usize) {
    let place = FIRST.iter().position(|name| *name == metric.name);
    (place.is_none() && is_constant, place.unwrap_or(FIRST.len()))
}

/// Metrics of logs of GPUs. JSON has exact values; text has those of one metric in one unit.
pub fn readings<'a>() -> Part<Readings<'a>> {
    let figures = figures! { row: Readings<'a>;
        words "file", "File", 140, Cell::or_empty(row.file.as_deref(), Cell::name), "The file, where there are several";
        words "gpu", "GPU", 140, Cell::name(row.device), "The device that was read";
        words "metric", "Metric", 160, Cell::name(row.metric.name), "What was read";
        number "readings", "Readings", 70, Cell::Count(row.counter.value.len() as u64), "How often it was read";
        words "unit", "Unit", 60, Cell::text(row.metric.unit), "Unit of the values";
        number "mean", "Mean", 90, Cell::Plain(row.mean), "Mean of all readings";
        number "min", "Least", 90, Cell::Plain(row.counter.min), "The lowest reading";
        number "max", "Most", 90, Cell::Plain(row.counter.max), "The highest reading";
        number "change", "Change", 90, Cell::Plain(row.change()), "The last reading less the first";
        number "shown_mean", "Mean", 90, row.metric.shown_if_number(row.mean), "Mean of all readings";
        number "shown_min", "Least", 90, row.metric.shown(row.counter.min), "The lowest reading";
        number "shown_max", "Most", 90, row.metric.shown(row.counter.max), "The highest reading";
        number "shown_change", "Change", 90, row.metric.shown_if_number(row.change()), "The last reading less the first: of energy, what was drawn";
        words "shown_unit", "Unit", 60, row.metric.shown_unit(), "Unit of the values";
    };
    Part::new("gpu_readings", "GPU readings", figures)
        .report("file metric gpu shown_mean shown_min shown_max shown_change shown_unit readings")
        .json("file gpu metric unit readings mean min max change")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CounterUnit, Process, ProcessId, TraceBuilder, Track, TrackId, TrackKind};

    #[test]
    fn what_people_look_at_comes_first_and_what_never_changed_last() {
        let mut builder = TraceBuilder::default();
        builder.info.format = Format::GpuMetrics;
        builder.processes.push(Process { name: "GPU 0".to_owned(), ..Process::default() });
        let gib = f64::from(1 << 30);
        let columns = [
            ("Retired pages", CounterUnit::Plain, vec![0.0, 0.0]),
            ("Throttle reasons", CounterUnit::Plain, vec![0.0, 4.0]),
            ("PCIe sent [B/s]", CounterUnit::Plain, vec![5e9, 7e9]),
            ("Memory used", CounterUnit::Bytes, vec![gib, 4.0 * gib]),
            ("GPU utilization", CounterUnit::Percent, vec![20.0, 50.0]),
        ];
        for (i, (name, unit, value)) in columns.into_iter().enumerate() {
            builder.tracks.push(Track {
                kind: TrackKind::Counter,
                process: ProcessId(0),
                name: name.to_owned(),
                tid: String::new(),
                sort_index: i as i64,
            });
            builder.counters.push(Counter {
                track: TrackId(i as u32),
                unit,
                ts: vec![1, 2],
                value,
                ..Counter::default()
            });
        }
        let trace = builder.finish();
        let found = Readings::all(&trace, None);
        let names: Vec<&str> = found.iter().map(|readings| readings.metric.name).collect();
        assert_eq!(names, ["GPU utilization", "Memory used", "Throttle reasons", "PCIe sent", "Retired pages"]);
        let table = readings().table(&found, 0);
        let json = serde_json::to_value(&table).unwrap();
        let memory = serde_json::json!({"gpu": "GPU 0", "metric": "Memory used", "unit": "B", "readings": 2,
            "mean": 2.5 * gib, "min": gib, "max": 4.0 * gib, "change": 3.0 * gib});
        assert_eq!(json[1], memory);
        assert_eq!(table.cell(1, "shown_mean"), &Cell::Plain(2.5));
        // Bits have no mean, and rates are many bytes.
        let cells = |row| ["shown_mean", "shown_max", "shown_unit"].map(|key| table.cell(row, key).clone());
        assert_eq!(cells(2), [Cell::Empty, Cell::Plain(4.0), Cell::text("bits")]);
        assert_eq!(cells(3), [Cell::Plain(6.0), Cell::Plain(7.0), Cell::text("GB/s")]);
        assert_eq!((found[3].metric.unit, found[4].metric.unit), ("B/s", ""));
    }
}
