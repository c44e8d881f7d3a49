//! Figures of out-of-memory events.

use std::sync::Arc;

use super::{Owned, Owner, owner};
use crate::analysis::memory::oom::{OomCard, OomCause, Shortfall, segment};
use crate::figures::{Cell, Part, Table, figures, format};
use crate::model::DurNs;

/// One time that memory ran out.
#[derive(Clone, Debug)]
pub struct OutOfMemory<'a> {
    pub owner: Owner,
    pub card: &'a OomCard,
    /// What to add to the card's time to get session time.
    pub offset_ns: DurNs,
    /// Holders of the memory.
    pub by_stack: Arc<Table>,
}

impl Owned for OutOfMemory<'_> {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

impl OutOfMemory<'_> {
    /// Settings that might have helped, each with the fact that supports it.
    fn advice(&self) -> Vec<String> {
        let size = |bytes: u64| format::bytes(bytes as f64);
        let sentence = |what: &crate::analysis::memory::oom::OomHint| match what.setting() {
            "" => what.fact(size),
            setting => format!("{setting}? {}", what.fact(size)),
        };
        raise(self.card).into_iter().chain(self.card.hints.iter().map(sentence)).collect()
    }
}

/// What to do about a limit that refused a request.
pub fn raise(card: &OomCard) -> Option<String> {
    (card.cause == OomCause::Limit && card.was_refused()).then(|| {
        "Raise or remove the limit: set_per_process_memory_fraction, or that of the container or the MIG instance"
            .to_owned()
    })
}

/// Out-of-memory events, with `reserved_bytes == allocated_bytes + awaiting_free_bytes + inactive_bytes`.
pub fn oom<'a>() -> Part<OutOfMemory<'a>> {
    const FREE: &str = "Free where the request is served from: of what is unused the part in segments of its \
                        stream, private pool and size class";
    const SHORT: &str = "The request less the largest piece that could have served it: a free range of its pool, or \
                         what the device had left and did not refuse. Empty where the limit that refused it is not \
                         recorded";
    let figures = figures! { row: OutOfMemory<'a>;
        with owner();
        number "at_ns", "At", 100, Cell::or_empty(row.card.at, |at| Cell::Ns(at.saturating_add(row.offset_ns))), "When";
        number "requested_bytes", "Requested", 90, Cell::Bytes(row.card.requested), "Requested by the program";
        number "short_by_bytes", "Short by", 90, lacking(row.card, |short| short.bytes), SHORT;
        number "short_by_demand_bytes", "= Demand", 90, lacking(row.card, |short| short.demand),
            "Lacking even if all that is unused, of any pool, and what the device had left and did not refuse were in \
             one piece";
        number "short_by_fragmentation_bytes", "+ Fragmentation", 110, lacking(row.card, |short| short.fragmentation),
            "In unused pieces that are too small, of another pool, or apart from what the device had left";
        words "cause", "Cause", 110, Cell::name(row.card.cause.key()), "Demand, fragmentation, or a limit";
        words "why", "Why", 300, Cell::name(&why(row.card)), "The figures that decide the cause";
        number "device_free_bytes", "Free on device", 110, Cell::or_empty(row.card.device_free, Cell::Bytes),
            "What the device had left";
        number "reserved_bytes", "Reserved", 90, Cell::Bytes(row.card.reserved), "What the allocator had";
        number "allocated_bytes", "= Allocated", 90, Cell::Bytes(row.card.allocated), "In use";
        number "awaiting_free_bytes", "+ Awaiting a stream", 150, Cell::Bytes(row.card.awaiting_free),
            "Freed by the program, but held until a stream was done with it";
        number "inactive_bytes", "+ Unused", 90, Cell::Bytes(row.card.inactive), "Reserved, but in no block";
        number "free_bytes", "Free for it", 90, Cell::Bytes(row.card.free), FREE;
        number "largest_free_bytes", "Largest of it", 100, Cell::Bytes(row.card.largest_free),
            "The largest contiguous range of it";
        number "free_elsewhere_bytes", "Free elsewhere", 110, Cell::Bytes(row.card.free_elsewhere),
            "Free in all other segments";
        number "free_private_bytes", "In private pools", 110, Cell::Bytes(row.card.free_private),
            "The part of that which only the CUDA graphs of private pools can use";
        number "non_pytorch_bytes", "Outside PyTorch", 120, Cell::or_empty(row.card.non_pytorch, Cell::Bytes),
            "In use on the device, but not reserved here: by the CUDA context, libraries and other processes";
        words "by_stack", "By place", 0, Cell::List(Arc::clone(&row.by_stack)), "Holders of the memory";
        words "advice", "What might have helped", 400, Cell::Sentences(row.advice().into()),
            "Settings, each with the fact that supports it";
    };
    Part::new("oom", "Out of memory", figures)
        .window(
            "requested_bytes short_by_bytes short_by_demand_bytes short_by_fragmentation_bytes device_free_bytes \
             reserved_bytes allocated_bytes awaiting_free_bytes inactive_bytes free_bytes largest_free_bytes \
             free_elsewhere_bytes free_private_bytes non_pytorch_bytes",
        )
        .report(
            "file rank device at_ns cause requested_bytes short_by_bytes short_by_demand_bytes \
             short_by_fragmentation_bytes device_free_bytes reserved_bytes allocated_bytes awaiting_free_bytes \
             inactive_bytes free_bytes largest_free_bytes free_elsewhere_bytes free_private_bytes non_pytorch_bytes \
             advice",
        )
        .json(
            "at_ns requested_bytes short_by_bytes short_by_demand_bytes short_by_fragmentation_bytes cause why \
             device_free_bytes reserved_bytes allocated_bytes awaiting_free_bytes inactive_bytes free_bytes \
             largest_free_bytes free_elsewhere_bytes free_private_bytes non_pytorch_bytes by_stack advice",
        )
}

/// The cause of a failed request as a sentence, with the figures that decide it and what was lacking.
pub fn why(card: &OomCard) -> String {
    let size = |bytes: u64| format::bytes(bytes as f64);
    let OomCard { requested, inactive, free, .. } = *card;
    let in_use = size(card.reserved.saturating_sub(inactive));
    let device_free = card.device_free.unwrap_or_default();
    match card.cause {
        OomCause::Demand => match card.exceeded() {
            Some(whole) => format!(
                "Demand: {} requested, more than the {} that {}{}",
                size(requested),
                size(whole),
                if card.device_total.is_some() { "the device has" } else { "the process could have" },
                short(card, &size)
            ),
            None => demand(card, &size),
        },
        OomCause::Fragmentation if card.shortfall.is_some_and(|short| short.bytes == 0) => in_one_stretch(card, &size),
        OomCause::Fragmentation if card.was_refused() => format!(
            "Fragmentation: {} requested. {}. The device refused more of the {} that it had free{}",
            size(requested),
            scattered(card, &size),
            size(device_free),
            short(card, &size)
        ),
        OomCause::Fragmentation => format!(
            "Fragmentation: {} requested. {}; {} were free on the device{}",
            size(requested),
            scattered(card, &size),
            size(device_free),
            short(card, &size)
        ),
        OomCause::Limit if card.fraction.is_some() => format!(
            "Limit: per_process_memory_fraction allows {:.0} % of the device{}; {} are reserved, of that {} free for \
             the {} requested, {} in one range",
            100.0 * card.fraction.unwrap_or_default(),
            card.allowed().map(|allowed| format!(", {}", size(allowed))).unwrap_or_default(),
            size(card.reserved),
            size(free),
            size(requested),
            size(card.largest_free)
        ),
        OomCause::Limit if device_free >= requested => {
            let [reached, refused] = card.limit();
            format!(
                "Limit: the device had {} free and refused {}; set_per_process_memory_fraction or a limit of the \
                 system lies between {}, which were reserved, and {}, which were not granted. Of the {} that were reserved \
                 {} were free for the request, at most {} in one range{}",
                size(device_free),
                size(requested),
                size(reached),
                size(refused),
                size(card.reserved),
                size(free),
                size(card.largest_free),
                up_to(card, &size)
            )
        }
        OomCause::Limit => format!(
            "Limit: {} of the device's {} belong to other processes or libraries, {in_use} are in use here",
            size(card.non_pytorch.unwrap_or_default()),
            size(card.device_total.unwrap_or_default())
        ),
    }
}

/// That the program caught the error, as a further sentence; empty if it ended.
///
/// * `after`: allocations that came later, from [`crate::analysis::memory::oom::went_on`].
pub fn caught(after: Option<u64>) -> String {
    let after = after.map(|n| format::of_things(n, "allocation"));
    after.map_or_else(String::new, |n| format!(". The program caught it and went on: {n} came after it"))
}

/// Where the unused memory lay that did not serve a request: in ranges that were too small, or in other pools.
fn scattered(card: &OomCard, size: &impl Fn(u64) -> String) -> String {
    let own = match card.free {
        0 => "Nothing was unused in the segments that could serve it".to_owned(),
        free => format!(
            "{} were unused in the segments that could serve it, in ranges of at most {}",
            size(free),
            size(card.largest_free)
        ),
    };
    match card.free_elsewhere {
        0 => own,
        free => format!("{own}; {} in other pools, streams or size classes", size(free)),
    }
}

/// Why a request failed although one stretch was large enough.
fn in_one_stretch(card: &OomCard, size: &impl Fn(u64) -> String) -> String {
    let device_free = card.device_free.unwrap_or_default();
    let (requested, unused) = (size(card.requested), size(card.inactive));
    if card.largest_free < card.requested {
        format!(
            "Fragmentation: {} are free on the device, but {requested} need a segment of {}; of {unused} reserved and \
             unused in all pools, the largest free range for it is {}",
            size(device_free),
            size(segment(card.requested)),
            size(card.largest_free)
        )
    } else {
        format!(
            "Fragmentation: a free range of {} would fit the {requested}, but the allocator did not use it, as \
             where max_split_size keeps large blocks whole; {unused} are reserved and unused in all pools, {} free on \
             the device",
            size(card.largest_free),
            size(device_free)
        )
    }
}

/// Why what is in use leaves no room for the request: what was requested, what was free, and what would have been
/// enough.
fn demand(card: &OomCard, size: &impl Fn(u64) -> String) -> String {
    let free = size(card.most().saturating_sub(card.reserved.saturating_sub(card.inactive)));
    let [on_device, reserved] = [card.obtainable(), card.inactive].map(size);
    let free = match card.device_free {
        Some(_) => format!("{free} were free, {on_device} on the device and {reserved} in reserved memory"),
        None => format!("{free} were free in reserved memory"),
    };
    let in_use = size(card.reserved.saturating_sub(card.inactive));
    format!("Demand: {} requested while {in_use} were in use: {free}{}", size(card.requested), short(card, size))
}

/// What could have served the request at most, and what that lacked, as further sentences. Empty if it lacked nothing.
fn short(card: &OomCard, size: &impl Fn(u64) -> String) -> String {
    let Some(shortfall) = card.shortfall else {
        return format!(
            ". The largest piece that could serve it was {} in reserved memory{}",
            size(card.largest_free),
            up_to(card, size)
        );
    };
    if shortfall.bytes == 0 {
        return String::new();
    }
    let obtainable = card.obtainable();
    let on_device = obtainable.saturating_add(card.extendable);
    let [largest, in_pool] = [card.largest_free, card.extendable].map(size);
    let piece = match card.device_free {
        _ if card.was_refused() && obtainable == 0 => format!("{largest} in reserved memory"),
        None => format!("{largest} in reserved memory"),
        Some(_) if card.largest_free >= on_device => {
            format!("{largest} in reserved memory ({} on the device)", size(obtainable))
        }
        Some(_) if card.extendable > 0 => {
            format!("{}, {} on the device with the {in_pool} beside it", size(on_device), size(obtainable))
        }
        Some(_) => format!("{} on the device ({largest} in reserved memory)", size(on_device)),
    };
    let missing = size(shortfall.bytes);
    let enough = match shortfall {
        Shortfall { fragmentation: 0, .. } => String::new(),
        Shortfall { demand: 0, .. } => "; if all free memory were one piece, it would have been enough".to_owned(),
        Shortfall { demand, .. } => {
            format!("; even if all free memory were one piece, {} would have been missing", size(demand))
        }
    };
    let private = match card.free_private {
        0 => String::new(),
        bytes => format!(". {} were free in private pools, for their CUDA graphs only", size(bytes)),
    };
    format!(". The largest piece that could serve it was {piece}: {missing} too small{enough}{private}")
}

/// What was missing at most, where a limit refused the request that is not recorded, as a further sentence.
fn up_to(card: &OomCard, size: &impl Fn(u64) -> String) -> String {
    card.lacking_at_most().map_or_else(String::new, |bytes| {
        format!(
            ". At most {} were missing: the limit is not recorded, so it is not known how much exactly",
            size(bytes)
        )
    })
}

/// A part of what was missing; empty where only a range is known.
fn lacking(card: &OomCard, part: impl Fn(Shortfall) -> u64) -> Cell {
    Cell::or_empty(card.shortfall.map(part), Cell::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_was_caught_is_told_as_such() {
        assert_eq!(caught(None), "");
        assert_eq!(caught(Some(40)), ". The program caught it and went on: 40 allocations came after it");
    }
}
