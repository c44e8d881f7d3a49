//! Each time that the allocator reserved more memory, and why.

use crate::analysis::memory::reserved::{Cause, Growth};
use crate::figures::{Cell, Part, figures};
use crate::model::memory::stream_name;

/// One time that the allocator reserved more.
#[derive(Clone, Debug)]
pub struct ReservedGrowth<'a> {
    pub growth: &'a Growth,
    /// Session time; the number of the event if the file has no times.
    pub at: Cell,
    /// Handle of the stream.
    pub stream: i64,
    /// The innermost frame in user code.
    pub frame: &'a str,
}

impl ReservedGrowth<'_> {
    fn requested(&self) -> Cell {
        Cell::or_empty(self.growth.request, |_| Cell::Bytes(self.growth.requested))
    }
}

/// * `has_time`: whether the recording has times.
pub fn reserved_growth<'a>(has_time: bool) -> Part<ReservedGrowth<'a>> {
    let figures = figures! { row: ReservedGrowth<'a>;
        number if has_time { "at_ns" } else { "event" }, "When", 100, row.at.clone(), "When it was reserved";
        number "reserved_bytes", "Reserved", 90, Cell::Bytes(row.growth.bytes), "How much was reserved at once";
        words "cause", "Cause", 110, Cell::name(cause_text(row.growth.cause).0), "Why what was free did not serve";
        number "requested_bytes", "Request", 90, row.requested(), "The block that needed it";
        number "free_bytes", "Free", 90, Cell::Bytes(row.growth.free), "Free before, in segments of the same pool";
        number "largest_free_bytes", "Largest free", 90, Cell::Bytes(row.growth.largest_free),
            "The largest free stretch of them";
        words "stream", "Stream", 70, Cell::text(&stream_name(row.stream)), "The stream it was reserved for";
        words "stack", "Allocated at", 340, Cell::frames(row.frame), "The innermost frame in user code";
    };
    Part::new("reserved_growth", "Growth of reserved memory", figures)
}

/// What a cause is called, and what it means.
pub fn cause_text(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::Fragmentation => ("Fragmentation", "Enough was free, but no stretch of it was large enough"),
        Cause::Demand => ("Demand", "Less was free than was asked for"),
        Cause::Unexplained => {
            ("Not explained", "A large enough stretch was free and yet not used: large blocks may be kept whole")
        }
        Cause::NoRequest => ("No request", "No allocation follows that lies in what was reserved"),
    }
}
