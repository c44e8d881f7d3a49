//! Shares of demand and fragmentation in the growth of reserved memory.

use super::Growth;
use crate::model::MemoryHistory;

/// Parts of the growth of reserved memory, in bytes: `bytes = demand + fragmentation + other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrowthShares {
    /// From the start of the recording to the highest reserved.
    pub bytes: u64,
    /// What the blocks in use needed: an allocator without any fragmentation had to reserve it as well.
    pub demand: u64,
    /// Reserved although as much was free in the same pool, but scattered.
    pub fragmentation: u64,
    /// Reserved although as much was free in other pools, streams or size classes; segments larger than their
    /// requests; what no request or no cause explains.
    pub other: u64,
    /// Of that what a free range of another stream would have held.
    pub of_streams: u64,
}

/// Splits the growth of reserved memory by cause. `None` if the recording has no segments.
///
/// One growth serves many requests, so events are not summed as causes. With reserved memory growing by G from R at the
/// start to its highest, and at most A bytes active in all the recording, demand is `min(G, max(0, A - R))`. Only the
/// rest is avoidable; it is split in proportion to [`Growth::scattered`] and [`Growth::avoidable`] of the single
/// growths, and is `other` if they have neither. Garbage that is collected late counts as demand, since it was active.
///
/// * `growth`: all growths of the history.
/// * Cost: O(states + growths).
pub fn shares(history: &MemoryHistory, growth: &[Growth]) -> Option<GrowthShares> {
    let reserved = &history.curves.reserved;
    let start = reserved.first().copied().filter(|_| history.has_reserved)?;
    let bytes = reserved.iter().max().map_or(0, |highest| highest - start);
    let demand = bytes.min(history.curves.highest().1.saturating_sub(start));
    let sum = |of: fn(&Growth) -> u64| growth.iter().map(|growth| u128::from(of(growth))).sum::<u128>();
    let (scattered, avoidable) = (sum(|growth| growth.scattered), sum(|growth| growth.avoidable));
    let rest = u128::from(bytes - demand);
    // At most `rest`, which has 64 bits.
    let part = |of: u128| (rest * of).checked_div(scattered + avoidable).unwrap_or_default() as u64;
    let fragmentation = part(scattered);
    let of_streams = part(sum(|growth| growth.of_streams));
    Some(GrowthShares { bytes, demand, fragmentation, other: bytes - demand - fragmentation, of_streams })
}
