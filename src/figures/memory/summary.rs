//! The memory of each device over time.

use std::sync::Arc;

use super::{MemoryGrowth, Owned, Owner, growth, owner};
use crate::analysis::memory::leaks::Leaks;
use crate::analysis::memory::summary::Summary;
use crate::figures::{Cell, Part, Table, number, words};
use crate::model::memory::MemorySource;
use crate::model::{DurNs, MemoryHistory, Trace};

/// The memory of one device, with the lists that belong to it.
#[derive(Debug)]
pub struct DeviceMemory<'a> {
    pub trace: &'a Trace,
    pub history: &'a MemoryHistory,
    pub summary: Summary,
    /// What to add to the trace's times to get session times.
    pub offset_ns: DurNs,
    /// `None` without steps.
    pub growth: Option<MemoryGrowth>,
    pub found: &'a Leaks,
    /// Times that memory ran out, in order.
    pub oom: Arc<Table>,
    pub peak_by_stack: Arc<Table>,
    pub live_at_end: Arc<Table>,
    pub leaks: Arc<Table>,
    pub no_leaks: Arc<Table>,
    pub gains: Arc<Table>,
}

impl Owned for DeviceMemory<'_> {
    fn owner(&self) -> Owner {
        Owner { rank: self.trace.info.rank, device: self.history.device }
    }
}

impl DeviceMemory<'_> {
    /// Of a memory timeline the rows of the file: they become events by pairs, and those from before the
    /// recording none.
    fn n_events(&self) -> u64 {
        match self.history.source {
            MemorySource::Timeline => self.trace.import.read,
            _ => self.history.events.len() as u64,
        }
    }

    /// Only a file that records segments says what was reserved.
    fn reserved(&self, bytes: u64) -> Cell {
        if self.history.has_segments { Cell::Bytes(bytes) } else { Cell::Empty }
    }

    fn peak_at(&self) -> Cell {
        let (history, peak) = (self.history, self.summary.peak_allocated);
        if !history.has_time {
            return Cell::Empty;
        }
        Cell::Ns(history.time_of(peak.state).saturating_add(self.offset_ns))
    }
}

/// Memory by device.
pub fn memory<'a>() -> Part<DeviceMemory<'a>> {
    let mut figures = Vec::from(owner());
    figures.extend(amounts());
    figures.extend(lists());
    #[rustfmt::skip]
    let report: &[&str] = &[
        "rank", "device", "pid", "source", "events", "peak_allocated_bytes", "peak_allocated_at",
        "peak_reserved_bytes", "start_allocated_bytes", "end_allocated_bytes", "end_reserved_bytes", "efficiency",
        "fragmentation", "end_pinned_bytes", "confidence",
    ];
    #[rustfmt::skip]
    let json: &[&str] = &[
        "rank", "device", "pid", "source", "events", "peak_allocated_bytes", "peak_allocated_at",
        "peak_reserved_bytes", "end_allocated_bytes", "end_reserved_bytes", "start_allocated_bytes", "fragmentation",
        "end_pinned_bytes", "efficiency", "oom", "peak_by_stack", "live_at_end", "growth", "leaks", "no_leaks",
        "gains", "confidence", "doubts",
    ];
    Part { report: Some(report), json: Some(json), ..Part::new("memory", "Memory", figures) }
}

fn amounts<'a>() -> Vec<crate::figures::Figure<DeviceMemory<'a>>> {
    const EFFICIENCY: &str = "Mean of what is allocated over mean of what is reserved, by time; by event without times";
    const FRAGMENTATION: &str = "Of what is free at the end, 1 - sum of squares / square of the sum over the free \
                                 stretches of each segment; the mean of the segments, weighted by their free bytes";
    const PINNED: &str = "Free at the end, but in segments that blocks keep from being given back to the device";
    vec![
        number(
            "pid",
            "Process",
            80,
            "Whose memory it is, where the file separates processes",
            |row: &DeviceMemory<'a>| Cell::or_empty(row.history.pid, Cell::Id),
        ),
        words("source", "Source", 110, "What recorded it", |row| Cell::name(row.history.source.key())),
        number("events", "Events", 80, "Events of the device; rows of a memory timeline", |row| {
            Cell::Count(row.n_events())
        }),
        number("peak_allocated_bytes", "Peak allocated", 110, "The most that was allocated", |row| {
            Cell::Bytes(row.summary.peak_allocated.bytes)
        }),
        number("peak_allocated_at", "Peak at", 100, "When that is reached first", DeviceMemory::peak_at),
        number("peak_reserved_bytes", "Peak reserved", 110, "The most that was reserved", |row| {
            row.reserved(row.summary.peak_reserved.bytes)
        }),
        number("start_allocated_bytes", "Allocated at start", 120, "Allocated before the recording", |row| {
            Cell::Bytes(row.summary.start_allocated)
        }),
        number("end_allocated_bytes", "Allocated at end", 120, "Allocated when the recording ended", |row| {
            Cell::Bytes(row.summary.end_allocated)
        }),
        number("end_reserved_bytes", "Reserved at end", 120, "Reserved when the recording ended", |row| {
            row.reserved(row.summary.end_reserved)
        }),
        number("efficiency", "Allocated share", 110, EFFICIENCY, |row| {
            Cell::or_empty(row.summary.efficiency(), Cell::Share)
        }),
        number("fragmentation", "Fragmentation", 110, FRAGMENTATION, |row| {
            Cell::or_empty(row.summary.fragmentation, Cell::Share)
        }),
        number("end_pinned_bytes", "Pinned at end", 110, PINNED, |row| {
            Cell::or_empty(row.summary.end_pinned, Cell::Bytes)
        }),
    ]
}

fn lists<'a>() -> Vec<crate::figures::Figure<DeviceMemory<'a>>> {
    fn list(table: &Arc<Table>) -> Cell {
        Cell::List(Arc::clone(table))
    }
    vec![
        words("confidence", "Confidence", 90, "How far leaks and growth can be trusted", |row: &DeviceMemory<'a>| {
            Cell::name(row.found.confidence.key())
        }),
        words("doubts", "Doubts", 300, "Why they cannot be trusted further", |row| {
            Cell::Sentences(row.found.caveats.as_slice().into())
        }),
        words("growth", "Growth", 0, "What all memory does from step to step", |row| {
            const KEYS: &[&str] = &[
                "verdict",
                "step_source",
                "steps",
                "warm_up",
                "bytes_per_step",
                "peak_bytes_per_step",
                "reserved_bytes_per_step",
                "growth_bytes",
                "alarm",
                "steps_to_oom",
            ];
            Cell::or_empty(row.growth.as_ref(), |total| Cell::Object(Box::new(growth().object(total, KEYS))))
        }),
        words("oom", "Out of memory", 0, "Times that memory ran out", |row| list(&row.oom)),
        words("peak_by_stack", "At the peak", 0, "Allocated at the peak, by place", |row| list(&row.peak_by_stack)),
        words("live_at_end", "At the end", 0, "Allocated at the end, by place", |row| list(&row.live_at_end)),
        words("leaks", "Leaks", 0, "Places that leak, the likeliest first", |row| list(&row.leaks)),
        words("no_leaks", "No leaks", 0, "Places that do not, the most bytes first", |row| list(&row.no_leaks)),
        words("gains", "Gains", 0, "Places that have more at the end, the most bytes first", |row| list(&row.gains)),
    ]
}
