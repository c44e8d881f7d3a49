//! Bytes of each category as counters.

use super::CATEGORIES;
use crate::model::{Counter, CounterUnit, Process, ProcessId, TimeNs, TraceBuilder, Track, TrackId, TrackKind};

/// Bytes of each category over time: the last value of each moment.
#[derive(Default)]
pub struct Curves {
    by_category: [(Vec<TimeNs>, Vec<f64>); CATEGORIES.len()],
}

impl Curves {
    /// The bytes of a category from a moment on.
    pub fn set(&mut self, at: TimeNs, category: usize, bytes: i64) {
        let (ts, value) = &mut self.by_category[category];
        match (ts.last(), value.last_mut()) {
            (Some(&last), Some(value)) if last == at => *value = bytes as f64,
            (Some(_), Some(value)) if *value == bytes as f64 => {}
            _ => {
                ts.push(at);
                value.push(bytes as f64);
            }
        }
    }

    /// A counter for each category that ever has bytes.
    pub fn add_to(self, builder: &mut TraceBuilder) {
        let process = ProcessId(builder.processes.len() as u32);
        builder.processes.push(Process { name: "Memory by category".to_owned(), ..Process::default() });
        for (i, (ts, value)) in self.by_category.into_iter().enumerate() {
            if value.iter().all(|&bytes| bytes == 0.0) {
                continue;
            }
            let track = TrackId(builder.tracks.len() as u32);
            let name = CATEGORIES[i].to_owned();
            builder.tracks.push(Track {
                kind: TrackKind::Counter,
                process,
                name,
                tid: String::new(),
                sort_index: i as i64,
            });
            builder.counters.push(Counter { track, unit: CounterUnit::Bytes, ts, value, ..Counter::default() });
        }
    }
}
