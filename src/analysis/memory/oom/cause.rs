//! Cause of a failed request: demand, fragmentation, or a limit.

use super::OomCard;
use crate::model::memory::SMALL;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OomCause {
    /// What is in use and the request together exceed what the process could get.
    Demand,
    /// Enough is free for the process, with room to spare, but not in one stretch.
    Fragmentation,
    /// The device refused memory that it had, or others hold it.
    Limit,
}

impl OomCause {
    /// Machine name.
    pub fn key(self) -> &'static str {
        match self {
            Self::Demand => "demand",
            Self::Fragmentation => "fragmentation",
            Self::Limit => "limit",
        }
    }
}

/// Memory outside of the allocator that a CUDA context and its libraries account for, in bytes. More than that, or than
/// a tenth of the device, belongs to others.
const CONTEXT: u64 = 2 << 30;

/// Share of what the process could have that must be left over once all that is in use is packed and a segment for the
/// request is served. With less than that the device is full, however well it is packed: pages, rounding and the next
/// request take it.
const ROOM: f64 = 0.01;

/// The same where the device refused memory that it had. The limit is a cause by itself then, and what an allocator
/// leaves unused in any training, a few percent, does not excuse it.
const ROOM_WITHIN_LIMIT: f64 = 0.1;

/// The cause, from the figures of a card:
///
/// 1. Limit, if the device had enough for a segment for the request and refused it, or the settings do not allow that
///    segment, and the free memory of the request's pool would not have done either, or no tenth of what the process
///    could have would be left over: `set_per_process_memory_fraction`, or a limit of the system.
/// 2. Fragmentation, if reserved memory in no block and what the device would have given together suffice for a
///    segment, and one percent of what the process could have is left over.
/// 3. Limit, if that is because others hold so much of the device.
/// 4. Else demand.
pub fn of(card: &OomCard) -> OomCause {
    let requested = card.requested;
    let packed = card.inactive.saturating_add(card.obtainable());
    let has_left = |needed: u64, share: f64| {
        packed.checked_sub(needed).is_some_and(|left| left > 0 && left as f64 >= share * card.most() as f64)
    };
    if card.was_refused() && (card.free < requested || !has_left(requested, ROOM_WITHIN_LIMIT)) {
        return OomCause::Limit;
    }
    if has_left(segment(requested), ROOM) {
        return OomCause::Fragmentation;
    }
    let held_by_others = card.device_total.zip(card.non_pytorch).is_some_and(|(total, others)| {
        let in_use = card.reserved.saturating_sub(card.inactive);
        others >= CONTEXT.min(total / 10) && in_use.saturating_add(requested) <= total
    });
    if held_by_others { OomCause::Limit } else { OomCause::Demand }
}

/// The segment that PyTorch's allocator reserves for a request, in bytes.
pub fn segment(requested: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match requested {
        0..=SMALL => 2 * MIB,
        _ if requested < 10 * MIB => 20 * MIB,
        _ => requested.checked_next_multiple_of(2 * MIB).unwrap_or(u64::MAX),
    }
}
