//! Each time that the allocator reserved more memory, and why.

use crate::analysis::memory::reserved::{Cause, Growth};
use crate::figures::{Cell, Part, number, words};
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

/// * `has_time`: whether the recording has times.
pub fn reserved_growth<'a>(has_time: bool) -> Part<ReservedGrowth<'a>> {
    let figures = vec![
        number(
            if has_time { "at_ns" } else { "event" },
            "When",
            100,
            "When it was reserved",
            |row: &ReservedGrowth<'a>| row.at.clone(),
        ),
        number("reserved_bytes", "Reserved", 90, "How much was reserved at once", |row| Cell::Bytes(row.growth.bytes)),
        words("cause", "Cause", 110, "Why what was free did not serve", |row| {
            Cell::name(cause_text(row.growth.cause).0)
        }),
        number("requested_bytes", "Request", 90, "The block that needed it", |row| {
            Cell::or_empty(row.growth.request, |_| Cell::Bytes(row.growth.requested))
        }),
        number("free_bytes", "Free", 90, "Free before, in segments of the same pool", |row| {
            Cell::Bytes(row.growth.free)
        }),
        number("largest_free_bytes", "Largest free", 90, "The largest free stretch of them", |row| {
            Cell::Bytes(row.growth.largest_free)
        }),
        words("stream", "Stream", 70, "The stream it was reserved for", |row| Cell::text(&stream_name(row.stream))),
        words("stack", "Allocated at", 340, "The innermost frame in user code", |row| Cell::frames(row.frame)),
    ];
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
