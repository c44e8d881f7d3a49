//! Bytes of each category, and of all, as counters.

use super::CATEGORIES;
use crate::model::{Counter, CounterUnit, Process, ProcessId, TimeNs, TraceBuilder, Track, TrackId, TrackKind};

/// What all categories together are called; PyTorch's own are in capitals, too.
const TOTAL: &str = "TOTAL";

/// Bytes of each category, and of all, over time: the last value of each moment.
#[derive(Default)]
pub struct Curves {
    by_category: [Curve; CATEGORIES.len()],
    total: Curve,
}

#[derive(Default)]
struct Curve {
    ts: Vec<TimeNs>,
    value: Vec<f64>,
    now: i64,
}

impl Curve {
    fn set(&mut self, at: TimeNs, bytes: i64) {
        self.now = bytes;
        match (self.ts.last(), self.value.last_mut()) {
            (Some(&last), Some(value)) if last == at => *value = bytes as f64,
            (Some(_), Some(value)) if *value == bytes as f64 => {}
            _ => {
                self.ts.push(at);
                self.value.push(bytes as f64);
            }
        }
    }
}

impl Curves {
    /// The bytes of a category from a moment on.
    pub fn set(&mut self, at: TimeNs, category: usize, bytes: i64) {
        self.by_category[category].set(at, bytes);
        let total = self.by_category.iter().fold(0_i64, |sum, curve| sum.saturating_add(curve.now));
        self.total.set(at, total);
    }

    /// A counter of all categories, and one for each that ever has bytes.
    pub fn add_to(self, builder: &mut TraceBuilder) {
        let process = ProcessId(builder.processes.len() as u32);
        builder.processes.push(Process { name: "Memory by category".to_owned(), ..Process::default() });
        let each = CATEGORIES.into_iter().zip(self.by_category);
        for (i, (name, Curve { ts, value, .. })) in [(TOTAL, self.total)].into_iter().chain(each).enumerate() {
            if value.iter().all(|&bytes| bytes == 0.0) {
                continue;
            }
            let track = TrackId(builder.tracks.len() as u32);
            builder.tracks.push(Track {
                kind: TrackKind::Counter,
                process,
                name: name.to_owned(),
                tid: String::new(),
                sort_index: i as i64,
            });
            builder.counters.push(Counter { track, unit: CounterUnit::Bytes, ts, value, ..Counter::default() });
        }
    }
}
