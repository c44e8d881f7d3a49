//! Figures of a memory timeline that holds sums by category, and no single block.

use std::sync::Arc;

use crate::figures::{Cell, Part, figures};
use crate::model::{Counter, DurNs, Format, TimeNs, Trace};

/// The memory of one category, or of all.
#[derive(Clone, Debug)]
pub struct TimelineCategory<'a> {
    /// Title of the file, where another is a memory timeline too.
    pub file: Option<Arc<str>>,
    name: &'a str,
    /// Of this category, and of all: where the sum of all is highest first, and at the end, in bytes.
    peak: (u64, u64),
    end: (u64, u64),
    /// The most of this category, and when that is first, in session time.
    most: (u64, TimeNs),
}

impl<'a> TimelineCategory<'a> {
    /// All categories together, then each in the order of the file; none of files that hold blocks.
    ///
    /// * `offset`: of the trace on the session clock.
    /// * Cost: O(n) for n values.
    pub fn all(trace: &'a Trace, file: Option<&Arc<str>>, offset: DurNs) -> Vec<Self> {
        let has_blocks = !trace.memories.is_empty();
        // The reader puts the sum of all before them.
        let Some(total) = trace.counters.first().filter(|_| trace.info.format == Format::MemoryTimeline && !has_blocks)
        else {
            return Vec::new();
        };
        let when = |counter: &Counter| {
            let most = counter.value.iter().position(|&value| value == counter.max);
            most.map_or(0, |most| counter.ts[most])
        };
        let peak = when(total);
        let bytes = |value: Option<&f64>| value.map_or(0, |value| value.max(0.0) as u64);
        let at_peak = |counter: &Counter| {
            let held = counter.ts.partition_point(|&ts| ts <= peak).checked_sub(1);
            bytes(held.and_then(|held| counter.value.get(held)))
        };
        let whole = (at_peak(total), bytes(total.value.last()));
        let of = |counter: &'a Counter| Self {
            file: file.cloned(),
            name: &trace.track(counter.track).name,
            peak: (at_peak(counter), whole.0),
            end: (bytes(counter.value.last()), whole.1),
            most: (bytes(Some(&counter.max)), when(counter).saturating_add(offset)),
        };
        trace.counters.iter().map(of).collect()
    }

    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Bytes of it where the sum of all is highest first.
    pub fn at_peak(&self) -> u64 {
        self.peak.0
    }

    /// Bytes of it when the recording ended.
    pub fn at_end(&self) -> u64 {
        self.end.0
    }
}

/// Memory of a timeline by category, one row each. The first row is all of it: the others sum to that.
pub fn timeline_categories<'a>() -> Part<TimelineCategory<'a>> {
    fn share((bytes, whole): (u64, u64)) -> Cell {
        Cell::or_empty((whole > 0).then_some(bytes as f64 / whole as f64), Cell::Share)
    }
    let figures = figures! { row: TimelineCategory<'a>;
        words "file", "File", 140, Cell::or_empty(row.file.as_deref(), Cell::name), "The file, where there are several";
        words "category", "Category", 130, Cell::name(row.name), "As PyTorch's memory profiler told it";
        number "peak_bytes", "At the peak", 100, Cell::Bytes(row.peak.0), "Where all categories together are most";
        number "peak_share", "Share", 60, share(row.peak), "Of all categories then";
        number "end_bytes", "At the end", 100, Cell::Bytes(row.end.0), "When the recording ended";
        number "end_share", "Share at the end", 100, share(row.end), "Of all categories then";
        number "max_bytes", "Most", 100, Cell::Bytes(row.most.0), "The most of this category alone";
        number "max_at_ns", "When most", 100, Cell::Ns(row.most.1), "When that is first, from the start of the session";
    };
    Part::new("memory_timeline", "Memory timeline by category", figures)
}
