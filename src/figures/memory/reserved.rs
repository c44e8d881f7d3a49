//! Figures of the growth of reserved memory, event by event.

use super::{AtPlace, Owned, Owner, holder_frames, owner, private_pools};
use crate::analysis::memory::live::LiveGroup;
use crate::analysis::memory::reserved::{Cause, Growth, GrowthShares};
use crate::analysis::memory::summary::PrivatePools;
use crate::figures::{Cell, Object, Part, figures, format};
use crate::model::memory::stream_name;

/// One time that the allocator reserved more.
#[derive(Clone, Debug)]
pub struct ReservedGrowth<'a> {
    pub growth: &'a Growth,
    /// Session time; the number of the event if the file has no times.
    pub at: Cell,
    /// Handle of the stream.
    pub stream: i64,
    /// The innermost frame in user code, as [`holder_frames`] has it.
    pub frame: String,
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
            "The largest contiguous free range of them";
        number "scattered_bytes", "Scattered", 90, Cell::Bytes(row.growth.scattered),
            "What of the request the free memory could have held if it had lain in one piece: fragmentation";
        number "other_bytes", "Other", 90, Cell::Bytes(row.growth.avoidable),
            "Reserved for neither that nor need: what a segment is larger than its request, what other pools had free, \
             or all of it where no cause is known";
        words "stream", "Stream", 70, Cell::text(&stream_name(row.stream)), "The stream it was reserved for";
        words "stack", "Allocated at", 340, Cell::frames(&row.frame), "The innermost frame in user code";
    };
    Part::new("reserved_growth", "Growth of reserved memory", figures)
}

/// How the shares of the growth of reserved memory are formed.
pub const HOW_SHARED: &str = "Demand is a share of bytes: the most that was in use at once, less what was reserved at \
                              the start. What grew beyond it is split over fragmentation and other as the sums of the \
                              columns Scattered and Other are. Free memory may have been scattered also where all of it \
                              was too little";

/// What the cause of a single growth is called, and what it means. These are counts of events; demand and fragmentation
/// are shares of bytes, see [`shares_sentence`].
pub fn cause_text(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::Fragmentation => (
            "Free but scattered",
            "Fragmentation: enough was free in the pool, but no contiguous range was large enough",
        ),
        Cause::Demand => ("Too little free", "Demand: less was free in the pool than was asked for"),
        Cause::Unexplained => {
            ("Not explained", "A large enough range was free but was not used: large blocks may be kept whole")
        }
        Cause::NoRequest => ("No request", "No allocation follows that lies in what was reserved"),
    }
}

/// The shares of the growth of reserved memory of one device.
#[derive(Clone, Debug)]
pub struct ReservedShares {
    pub owner: Owner,
    pub shares: GrowthShares,
    /// What [`in_the_way`] says of the request for which most was reserved in spite of free memory, if there is one.
    pub pins: Option<String>,
}

impl Owned for ReservedShares {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

/// The growth of reserved memory by cause, one row for each device.
pub fn reserved_shares() -> Part<ReservedShares> {
    let figures = figures! { row: ReservedShares;
        with owner();
        number "bytes", "Growth", 90, Cell::Bytes(row.shares.bytes), "From the start to the highest reserved";
        number "demand_bytes", "= Demand", 90, Cell::Bytes(row.shares.demand),
            "The most in use at once, less what was reserved at the start";
        number "fragmentation_bytes", "+ Fragmentation", 110, Cell::Bytes(row.shares.fragmentation),
            "Of what grew beyond demand: as much was free in the same pool, but scattered";
        number "other_bytes", "+ Other", 90, Cell::Bytes(row.shares.other),
            "Of what grew beyond demand: as much was free in other pools, streams or size classes; segments \
             larger than their requests";
        number "other_streams_bytes", "of it other streams", 120, Cell::or_empty(Some(row.shares.of_streams).filter(|&bytes| bytes > 0), Cell::Bytes),
            "Of that what another stream had free in one piece: each stream has a pool of its own";
        words "in_the_way", "In the way", 300, Cell::or_empty(row.pins.clone(), |pins| Cell::Sentences([pins].into())),
            "Where most was reserved although as much was free: the blocks that lay in between, by stack, the largest \
             first";
    };
    Part::new("reserved_shares", "Why reserved memory grew", figures)
}

/// Which blocks lay between the free memory that a request could not use, by stack: `For 50.00 MiB with 96.00 MiB free,
/// in the way: 4.50 MiB in 2 blocks of forward (model.py:9)`.
pub fn in_the_way(growth: &Growth, held: &[AtPlace<LiveGroup>]) -> String {
    let size = |bytes: u64| format::bytes(bytes as f64);
    let each = held.iter().map(|held| {
        let count = format::of_things(held.of.count, "block");
        format!("{} in {count} of {}", size(held.of.bytes), holder_frames(held.stack.name()))
    });
    let each: Vec<String> = each.collect();
    format!("For {} with {} free, in the way: {}", size(growth.requested), size(growth.free), each.join(", "))
}

/// The shares of the growth of reserved memory, in bytes, under their keys. They sum to `bytes`, without what is
/// a part of `other_bytes`.
pub fn shares_object(shares: &GrowthShares) -> Object {
    let GrowthShares { bytes, demand, fragmentation, other, of_streams } = *shares;
    let all = [
        ("bytes", bytes),
        ("demand_bytes", demand),
        ("fragmentation_bytes", fragmentation),
        ("other_bytes", other),
        ("other_streams_bytes", of_streams),
    ];
    Object(all.map(|(key, bytes)| (key, Cell::Bytes(bytes))).into())
}

/// The same as a sentence.
///
/// * `shares`: `None` where only one moment was recorded.
/// * `unused`: reserved and in no block at the end, in bytes.
/// * `private`: the private pools at the end, if there are any.
pub fn shares_sentence(shares: Option<&GrowthShares>, unused: u64, private: Option<PrivatePools>) -> String {
    let size = |bytes: u64| format::bytes(bytes as f64);
    let private = private.map(|pools| private_pools(&pools)).unwrap_or_default();
    let Some(&GrowthShares { bytes, demand, fragmentation, other, of_streams }) = shares else {
        return format!("Only one moment was recorded: {} are unused then{private}", size(unused));
    };
    if bytes == 0 {
        return format!("Reserved memory did not grow; {} are unused at the end{private}", size(unused));
    }
    let streams = match of_streams {
        0 => String::new(),
        bytes => format!(" (of it {} as only other streams had that free)", size(bytes)),
    };
    format!(
        "Reserved grew by {} to its peak: {} demand, {} fragmentation, {} other{streams}; {} are unused at the end{private}",
        size(bytes),
        size(demand),
        size(fragmentation),
        size(other),
        size(unused)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_one_moment_is_not_said_to_have_grown() {
        let none = GrowthShares::default();
        assert_eq!(
            shares_sentence(Some(&none), 1024, None),
            "Reserved memory did not grow; 1.00 KiB are unused at the end"
        );
        assert_eq!(shares_sentence(None, 1024, None), "Only one moment was recorded: 1.00 KiB are unused then");
    }
}
