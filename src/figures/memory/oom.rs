//! Each time that memory ran out.

use std::sync::Arc;

use super::{Owned, Owner, owner};
use crate::analysis::memory::oom::OomCard;
use crate::figures::{Cell, Part, Table, format, number, words};
use crate::model::DurNs;

/// One time that memory ran out.
#[derive(Clone, Debug)]
pub struct OutOfMemory<'a> {
    pub owner: Owner,
    pub card: &'a OomCard,
    /// What to add to the card's time to get session time.
    pub offset_ns: DurNs,
    /// Who had the memory.
    pub by_stack: Arc<Table>,
}

impl Owned for OutOfMemory<'_> {
    fn owner(&self) -> Owner {
        self.owner
    }
}

impl OutOfMemory<'_> {
    /// Settings that might have helped, each with the fact that supports it.
    fn advice(&self) -> Vec<String> {
        let sentence = |what: &crate::analysis::memory::oom::OomHint| match what.setting() {
            "" => what.fact(format::mebibytes),
            setting => format!("{setting}? {}", what.fact(format::mebibytes)),
        };
        self.card.hints.iter().map(sentence).collect()
    }
}

/// Times that memory ran out, with `reserved_bytes == allocated_bytes + awaiting_free_bytes + inactive_bytes`.
pub fn oom<'a>() -> Part<OutOfMemory<'a>> {
    const FREE: &str = "Free where the request is served from: of what is inactive the part in segments of its \
                        stream, private pool and size class";
    let mut figures = Vec::from(owner());
    figures.extend([
        number("at_ns", "At", 100, "When", |row: &OutOfMemory<'a>| {
            Cell::or_empty(row.card.at, |at| Cell::Ns(at.saturating_add(row.offset_ns)))
        }),
        number("requested_bytes", "Requested", 90, "What the program asked for", |row| Cell::Bytes(row.card.requested)),
        number("device_free_bytes", "Free on device", 110, "What the device had left", |row| {
            Cell::or_empty(row.card.device_free, Cell::Bytes)
        }),
        number("reserved_bytes", "Reserved", 90, "What the allocator had", |row| Cell::Bytes(row.card.reserved)),
        number("allocated_bytes", "= Allocated", 90, "In use", |row| Cell::Bytes(row.card.allocated)),
        number("awaiting_free_bytes", "+ Awaiting free", 110, "Freed, but not yet to be used again", |row| {
            Cell::Bytes(row.card.awaiting_free)
        }),
        number("inactive_bytes", "+ Inactive", 90, "In no block", |row| Cell::Bytes(row.card.inactive)),
        number("free_bytes", "Free for it", 90, FREE, |row| Cell::Bytes(row.card.free)),
        number("largest_free_bytes", "Largest of it", 100, "The largest stretch of that", |row| {
            Cell::Bytes(row.card.largest_free)
        }),
        number("free_elsewhere_bytes", "Free elsewhere", 110, "Free in all other segments", |row| {
            Cell::Bytes(row.card.free_elsewhere)
        }),
        number("non_pytorch_bytes", "Other programs", 110, "What others have of the device", |row| {
            Cell::or_empty(row.card.non_pytorch, Cell::Bytes)
        }),
        words("by_stack", "By place", 0, "Who had the memory", |row| Cell::List(Arc::clone(&row.by_stack))),
        words("advice", "What might have helped", 400, "Settings, each with the fact that supports it", |row| {
            Cell::Sentences(row.advice().into())
        }),
    ]);
    #[rustfmt::skip]
    let window: &[&str] = &[
        "device_free_bytes", "reserved_bytes", "allocated_bytes", "awaiting_free_bytes", "inactive_bytes",
        "free_bytes", "largest_free_bytes", "free_elsewhere_bytes", "non_pytorch_bytes",
    ];
    #[rustfmt::skip]
    let report: &[&str] = &[
        "rank", "device", "at_ns", "requested_bytes", "device_free_bytes", "reserved_bytes", "allocated_bytes",
        "awaiting_free_bytes", "inactive_bytes", "free_bytes", "largest_free_bytes", "free_elsewhere_bytes",
        "non_pytorch_bytes", "advice",
    ];
    #[rustfmt::skip]
    let json: &[&str] = &[
        "at_ns", "requested_bytes", "device_free_bytes", "reserved_bytes", "allocated_bytes", "awaiting_free_bytes",
        "inactive_bytes", "free_bytes", "largest_free_bytes", "free_elsewhere_bytes", "non_pytorch_bytes", "by_stack",
        "advice",
    ];
    let part = Part::new("oom", "Out of memory", figures);
    Part { window: Some(window), report: Some(report), json: Some(json), ..part }
}
