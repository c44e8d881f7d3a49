//! The memory of each device over time.

use std::sync::Arc;

use super::outside::{KEYS, OutsideMemory, outside_memory};
use super::{Headline, MemoryGrowth, Owned, Owner, categories_object, growth, owner, shares_object};
use crate::analysis::memory::categories::CategoryBytes;
use crate::analysis::memory::leaks::Leaks;
use crate::analysis::memory::outside::Outside;
use crate::analysis::memory::reserved::GrowthShares;
use crate::analysis::memory::summary::Summary;
use crate::figures::{Cell, Figure, Part, Table, figures};
use crate::model::memory::MemorySource;
use crate::model::{DurNs, MemoryHistory, Trace};

/// The memory of one device, with the lists that belong to it.
#[derive(Debug)]
pub struct DeviceMemory<'a> {
    /// Title of the file, where rank and device are those of another file's memory too.
    pub file: Option<Arc<str>>,
    pub trace: &'a Trace,
    pub history: &'a MemoryHistory,
    pub summary: Summary,
    pub headline: Headline,
    /// Total memory of the device in bytes, if the file tells.
    pub device_total: Option<u64>,
    /// Why reserved memory grew; `None` without segments, and of a state of one moment.
    pub reserved_growth: Option<GrowthShares>,
    /// Empty if no block has a category.
    pub categories: Vec<CategoryBytes>,
    /// What to add to the trace's times to get session times.
    pub offset_ns: DurNs,
    /// `None` without steps.
    pub growth: Option<MemoryGrowth>,
    pub found: &'a Leaks,
    /// GPU memory outside PyTorch, where the driver was read beside it.
    pub outside: Option<Outside>,
    /// Out-of-memory events, in order.
    pub oom: Arc<Table>,
    pub peak_by_stack: Arc<Table>,
    pub live_at_end: Arc<Table>,
    pub by_place: Arc<Table>,
    pub change_by_place: Arc<Table>,
    pub leaks: Arc<Table>,
    pub no_leaks: Arc<Table>,
    pub gains: Arc<Table>,
}

impl Owned for DeviceMemory<'_> {
    fn owner(&self) -> Owner {
        Owner { file: self.file.clone(), rank: self.trace.info.rank, device: self.history.device }
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
        if self.history.has_reserved { Cell::Bytes(bytes) } else { Cell::Empty }
    }

    /// A figure that a state of one moment does not have.
    fn of_history(&self, figure: Cell) -> Cell {
        if self.history.is_state_only() { Cell::Empty } else { figure }
    }

    fn growth_object(&self) -> Cell {
        const KEYS: &str = "verdict step_source regularity steps counted warm_up bytes_per_step since since_step \
                            peak_bytes_per_step reserved_bytes_per_step growth_bytes alarm reserved_alarm steps_to_oom";
        Cell::or_empty(self.growth.as_ref(), |total| Cell::Object(Box::new(growth().object(total, KEYS))))
    }

    fn reserved_growth_object(&self) -> Cell {
        Cell::or_empty(self.reserved_growth.as_ref(), |shares| Cell::Object(Box::new(shares_object(shares))))
    }

    fn outside_object(&self) -> Cell {
        Cell::or_empty(self.outside, |outside| {
            let row = OutsideMemory { owner: self.owner(), outside };
            Cell::Object(Box::new(outside_memory().object(&row, KEYS)))
        })
    }

    fn categories_object(&self) -> Cell {
        Cell::or_empty(categories_object(&self.categories, self.summary.peak_allocated.is_some()), |all| {
            Cell::Object(Box::new(all))
        })
    }

    fn peak_at(&self) -> Cell {
        let peak = self.summary.peak_allocated.filter(|_| self.history.has_time);
        Cell::or_empty(peak, |peak| Cell::Ns(self.history.time_of(peak.state).saturating_add(self.offset_ns)))
    }
}

fn recorded(history: &MemoryHistory) -> &'static str {
    if history.is_state_only() { "state" } else { "history" }
}

/// Memory by device.
pub fn memory<'a>() -> Part<DeviceMemory<'a>> {
    let figures = figures! { row: DeviceMemory<'a>;
        with owner();
        with amounts();
        with lists();
    };
    Part::new("memory", "Memory", figures)
        .report(
            "file rank device pid source recorded events peak_allocated_bytes peak_allocated_at peak_reserved_bytes \
             start_allocated_bytes end_allocated_bytes end_awaiting_free_bytes end_reserved_bytes end_unused_bytes end_largest_free_bytes \
             end_pinned_bytes end_private_bytes end_private_unused_bytes fragmentation efficiency device_total_bytes \
             confidence",
        )
        .json(
            "rank device pid source events peak_allocated_bytes peak_allocated_at peak_reserved_bytes \
             end_allocated_bytes end_awaiting_free_bytes end_reserved_bytes start_allocated_bytes fragmentation end_pinned_bytes efficiency \
             end_unused_bytes end_largest_free_bytes end_private_bytes end_private_unused_bytes device_total_bytes \
             summary categories reserved_growth oom peak_by_stack live_at_end by_place change_by_place growth \
             outside_pytorch leaks no_leaks gains confidence doubts",
        )
}

fn amounts<'a>() -> Vec<Figure<DeviceMemory<'a>>> {
    const EFFICIENCY: &str = "Mean of what is allocated over mean of what is reserved, by time; by event without times";
    const FRAGMENTATION: &str = "Of what is free at the end, 1 - sum of squares / square of the sum over the free ranges of each segment; the mean of the segments, weighted by their free bytes. \
                                 What is free in different segments does not count as scattered here, although no request can have it in one piece";
    const PRIVATE: &str = "Reserved for private pools, of CUDA graphs or of torch.cuda.MemPool: only these can use it, \
                           and it is returned once they are gone";
    const PINNED: &str = "Free at the end, but in segments that still hold live blocks and so cannot be returned to \
                          the device; of an expandable segment in its mapped parts with live blocks, of which only \
                          whole pages without one can be returned";
    figures! { row: DeviceMemory<'a>;
        number "pid", "Process", 80, Cell::or_empty(row.history.pid, Cell::Id),
            "The process, where the file separates processes";
        words "source", "Source", 110, Cell::name(row.history.source.key()), "What recorded it";
        words "recorded", "Recorded", 80, Cell::name(recorded(row.history)),
            "A history, or only the state at one moment, which has no peak and no growth";
        number "events", "Events", 80, Cell::Count(row.n_events()), "Events of the device; rows of a memory timeline";
        number "peak_allocated_bytes", "Peak allocated", 110, Cell::or_empty(row.summary.peak_allocated, |peak| Cell::Bytes(peak.bytes)),
            "The most that was allocated, in blocks as the allocator cuts them (torch.cuda.max_memory_allocated): what \
             was requested sums to less. Unknown where no allocation was recorded";
        number "peak_allocated_at", "Peak at", 100, row.peak_at(), "When that is reached first";
        number "peak_reserved_bytes", "Peak reserved", 110,
            Cell::or_empty(row.summary.peak_reserved, |peak| row.reserved(peak.bytes)),
            "The most that was reserved";
        number "start_allocated_bytes", "Allocated at start", 120, row.of_history(Cell::Bytes(row.summary.start_allocated)),
            "Allocated before the recording";
        number "end_allocated_bytes", "Allocated at end", 120, Cell::Bytes(row.summary.end_allocated),
            "Allocated when the recording ended";
        number "end_awaiting_free_bytes", "Awaiting a stream at end", 150,
            Cell::Bytes(row.summary.end_active.saturating_sub(row.summary.end_allocated)),
            "Freed by the program when the recording ended, but another stream might still use it: reserved is what is \
             allocated, this and what is unused";
        number "end_reserved_bytes", "Reserved at end", 120, row.reserved(row.summary.end_reserved),
            "Reserved when the recording ended";
        number "end_unused_bytes", "Unused at end", 110, row.reserved(row.summary.end_unused()),
            "Reserved when the recording ended, but in no block";
        number "end_largest_free_bytes", "Largest free at end", 120,
            Cell::or_empty(row.summary.end_largest_free, Cell::Bytes), "The largest contiguous free range of it";
        number "end_private_bytes", "In private pools at end", 140,
            Cell::or_empty(row.summary.end_private, |pools| Cell::Bytes(pools.reserved)), PRIVATE;
        number "end_private_unused_bytes", "Unused of it", 90,
            Cell::or_empty(row.summary.end_private, |pools| Cell::Bytes(pools.unused)),
            "Of what is unused at the end the part in private pools: a graph writes there when it is replayed";
        number "device_total_bytes", "Memory of device", 110, Cell::or_empty(row.device_total, Cell::Bytes),
            "Total memory of the device, if recorded";
        number "efficiency", "Allocated share", 110, row.of_history(Cell::or_empty(row.summary.efficiency(), Cell::Share)), EFFICIENCY;
        number "fragmentation", "Fragmentation within segments", 180, Cell::or_empty(row.summary.fragmentation, Cell::Share),
            FRAGMENTATION;
        number "end_pinned_bytes", "Free in partly used segments at end", 210, Cell::or_empty(row.summary.end_pinned, Cell::Bytes), PINNED;
    }
}

fn lists<'a>() -> Vec<Figure<DeviceMemory<'a>>> {
    fn list(table: &Arc<Table>) -> Cell {
        Cell::List(Arc::clone(table))
    }
    figures! { row: DeviceMemory<'a>;
        words "confidence", "Confidence in growth", 130, Cell::name(row.found.confidence.key()),
            "How far leaks and growth can be trusted";
        words "doubts", "Doubts", 300, Cell::Sentences(row.found.caveats.as_slice().into()),
            "Why they cannot be trusted further";
        words "summary", "In short", 0, Cell::name(&row.headline.text), "Peak, end, unused, largest holder, verdict";
        words "categories", "Categories", 0, row.categories_object(), "What it holds";
        words "reserved_growth", "Growth of reserved", 0, row.reserved_growth_object(), "Why reserved memory grew";
        words "growth", "Growth", 0, row.growth_object(), "What all memory does from step to step";
        words "outside_pytorch", "Outside PyTorch", 0, row.outside_object(), "What GPU memory outside PyTorch does";
        words "oom", "Out of memory", 0, list(&row.oom), "Out-of-memory events";
        words "peak_by_stack", "At the peak", 0, list(&row.peak_by_stack), "Allocated at the peak, by stack";
        words "live_at_end", "At the end", 0, list(&row.live_at_end), "Allocated at the end, by stack";
        words "by_place", "By place", 0, list(&row.by_place), "Who holds the memory, at the peak and at the end";
        words "change_by_place", "Change by place", 0, list(&row.change_by_place),
            "Who holds more or less at the end than at the start, or at one given moment than at the other";
        words "leaks", "Leaks", 0, list(&row.leaks), "Places that leak, the likeliest first";
        words "no_leaks", "No leaks", 0, list(&row.no_leaks), "Places that do not, the most bytes first";
        words "gains", "Gains", 0, list(&row.gains), "Places that have more at the end, the most bytes first";
    }
}
