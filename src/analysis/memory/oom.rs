//! Out-of-memory events: memory use at the time, and settings that might have helped.

mod allocated;
mod cause;
#[cfg(test)]
mod tests;

use super::free::FreeSpaceSweep;
use super::leaks;
use super::live::LiveGroup;
use super::signature::Signatures;
use crate::model::memory::{MemoryAction, MemoryPool, OutOfMemory, PoolId, SegmentKind};
use crate::model::{MemoryHistory, TimeNs, Trace};
use allocated::AllocatedSweep;
pub use cause::{OomCause, segment};

/// A setting that might have helped, or the reason why none would, with its figures. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum OomHint {
    /// Enough was free in the pool of the request, with what the device had left, but not contiguously.
    Expandable { free: u64, on_device: u64, requested: u64, largest_free: u64 },
    /// Number of segments that were large enough, but held smaller blocks.
    MaxSplit { segments: usize },
    /// Bytes released only after memory had run out.
    GarbageCollection { released: u64 },
    /// Enough was free in other pools or size classes; most of it in the one named.
    Elsewhere { free: u64, pool: String, in_pool: u64 },
    /// Share of reserved memory that was allocated by the program.
    InUse { share: f64 },
}

impl OomHint {
    /// The option of `PYTORCH_CUDA_ALLOC_CONF`; empty if none helps.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::Expandable { .. } => "expandable_segments:True",
            Self::MaxSplit { .. } => "max_split_size_mb",
            Self::GarbageCollection { .. } => "garbage_collection_threshold",
            Self::Elsewhere { .. } | Self::InUse { .. } => "",
        }
    }

    /// The observation as a sentence; `bytes` formats a size.
    pub fn fact(&self, bytes: impl Fn(u64) -> String) -> String {
        match self {
            Self::Expandable { free, on_device, requested, .. } if free < requested => format!(
                "{} are reserved and unused in the pool of the request and {} are free on the device, together enough for \
                 the {} requested: segments that expand can take both",
                bytes(*free),
                bytes(*on_device),
                bytes(*requested)
            ),
            Self::Expandable { free, requested, largest_free, .. } => format!(
                "{} are reserved and unused in the pool of the request, enough for the {} requested, but the largest \
                 contiguous free range is {}: segments that expand need no contiguous range",
                bytes(*free),
                bytes(*requested),
                bytes(*largest_free)
            ),
            Self::MaxSplit { segments } => format!(
                "{} of the size of the request or larger with smaller blocks: a limit keeps large segments for large \
                 requests",
                match segments {
                    1 => "There is 1 segment".to_owned(),
                    n => format!("There are {n} segments"),
                }
            ),
            Self::GarbageCollection { released } => format!(
                "{} of unused segments were released by the last attempt, and it still failed: a threshold releases \
                 such earlier, which alone would not have served this request",
                bytes(*released)
            ),
            Self::Elsewhere { free, pool, in_pool } => format!(
                "{} are free in other pools, streams or size classes, which do not serve this request; {} of it: \
                 {pool}",
                bytes(*free),
                bytes(*in_pool)
            ),
            Self::InUse { share } => format!(
                "The program itself holds {:.1} % of reserved memory: no setting that packs it better helps",
                100.0 * share
            ),
        }
    }
}

/// What a failed request lacked, in bytes: `bytes = demand + fragmentation`.
///
/// Only one piece serves a request: a free range of its pool, or what the device would have given
/// ([`OomCard::obtainable`]), which extends a free stretch where segments are expandable. `bytes` is the request less
/// the largest such piece. Scattered pieces serve none; before it fails, the allocator has given back every segment
/// without a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    pub bytes: u64,
    /// Lacking even if all that is reserved and unused, in any pool, and what the device would have given were in one
    /// piece.
    pub demand: u64,
    /// What pieces elsewhere hold that cannot serve the request.
    pub fragmentation: u64,
}

/// One failed request, with the memory use at that time. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct OomCard {
    pub event: u32,
    /// `None` if the history has no times.
    pub at: Option<TimeNs>,
    pub requested: u64,
    /// What was lacking, with its parts; `None` where the limit that refused the request is not recorded: see
    /// [`OomCard::lacking_at_most`].
    pub shortfall: Option<Shortfall>,
    pub cause: OomCause,
    pub device_free: Option<u64>,
    /// Total memory of the device, if known.
    pub device_total: Option<u64>,
    pub reserved: u64,
    /// The most that was reserved up to then.
    pub most_reserved: u64,
    pub allocated: u64,
    /// Freed by the program, but not yet reusable.
    pub awaiting_free: u64,
    /// Reserved, but not part of a block.
    pub inactive: u64,
    /// Free in segments that can serve the request: those of its stream, private pool and size class.
    pub free: u64,
    /// The largest contiguous range of those.
    pub largest_free: u64,
    /// The largest of them that an expandable segment can extend with what the device has left: it lies beside room
    /// that is not mapped.
    pub extendable: u64,
    /// Free in all other segments.
    pub free_elsewhere: u64,
    /// Of that in private pools, which only their own CUDA graphs can use.
    pub free_private: u64,
    /// Device memory used outside of this allocator: by other processes, the CUDA context, libraries. `None`
    /// unless the total and free memory of the device are known.
    pub non_pytorch: Option<u64>,
    /// Share of the device that the allocator's settings allow this process, 0 to 1; `None` if they set none.
    pub fraction: Option<f64>,
    /// Allocated memory by signature, descending; the first of [`Self::n_stacks`].
    pub stacks: Vec<LiveGroup>,
    /// How many signatures had memory.
    pub n_stacks: usize,
    /// Hints derived from these figures alone.
    pub hints: Vec<OomHint>,
}

impl OomCard {
    fn lacking(&self) -> Option<Shortfall> {
        if self.lacking_at_most().is_some() {
            return None;
        }
        let obtainable = self.obtainable();
        let largest = self.largest_free.max(obtainable.saturating_add(self.extendable));
        let bytes = self.requested.saturating_sub(largest);
        let demand = self.requested.saturating_sub(self.inactive).saturating_sub(obtainable).min(bytes);
        Some(Shortfall { bytes, demand, fragmentation: bytes - demand })
    }

    /// The most that a request lacked, in bytes, where a limit refused it that is not recorded; `None` where one
    /// stretch was large enough, and where [`Self::shortfall`] tells. The least is nothing but the last byte: any limit
    /// below what was refused refuses it.
    pub fn lacking_at_most(&self) -> Option<u64> {
        if !self.was_refused() || self.allowed().is_some() || self.largest_free >= self.requested {
            return None;
        }
        let [reached, refused] = self.limit();
        let of_limit = (refused - reached).saturating_sub(self.extendable);
        Some(of_limit.min(self.requested - self.largest_free))
    }

    /// What the device would have given this process at least, in bytes: as [`Self::obtainable`]; where a limit refused
    /// it that is not recorded, what the most that was reserved up to then proves.
    pub fn left(&self) -> u64 {
        match self.was_refused() && self.allowed().is_none() {
            true => (self.limit()[0] - self.reserved).min(self.device_free.unwrap_or_default()),
            false => self.obtainable(),
        }
    }

    /// Whether the device had a segment for the request left, or the settings do not allow it.
    pub fn was_refused(&self) -> bool {
        let segment = segment(self.requested);
        self.device_free.is_some_and(|free| free >= segment)
            || self.allowed().is_some_and(|allowed| self.reserved.saturating_add(segment) > allowed)
    }

    /// What the device would have given this process beyond what is reserved, in bytes: what it had left; where it
    /// refused, what the settings allow of that, or nothing if they do not tell.
    pub fn obtainable(&self) -> u64 {
        let left = self.device_free.unwrap_or_default();
        let within = self.allowed().map_or(0, |allowed| allowed.saturating_sub(self.reserved));
        if self.was_refused() { left.min(within) } else { left }
    }

    /// What the process could have at that time: reserved, and what the device would have given, in bytes.
    pub fn most(&self) -> u64 {
        self.reserved.saturating_add(self.obtainable())
    }

    /// Bytes of the device that the settings allow this process, if they limit it and the device's total is known.
    pub fn allowed(&self) -> Option<u64> {
        Some((self.fraction? * self.device_total? as f64) as u64)
    }

    /// Between which bytes the limit lies that refused a segment for the request: what was reserved before, and what
    /// would have been. A limit that came after the most was reserved is lower than that.
    pub fn limit(&self) -> [u64; 2] {
        let refused = self.reserved.saturating_add(segment(self.requested));
        [if self.most_reserved < refused { self.most_reserved } else { self.reserved }, refused]
    }

    /// The memory of the device, or what the process could have of it, in bytes, if the request alone is larger.
    pub fn exceeded(&self) -> Option<u64> {
        let whole = self.device_total.or_else(|| self.device_free.map(|_| self.most()));
        whole.filter(|&whole| self.requested > whole)
    }
}

/// The `per_process_memory_fraction` of the allocator's settings, as a key of its own or in the text of
/// `PYTORCH_CUDA_ALLOC_CONF`, if it limits the process.
fn fraction(settings: &[(String, String)]) -> Option<f64> {
    const KEY: &str = "per_process_memory_fraction";
    let of = |(key, text): &(String, String)| match key == KEY {
        true => text.parse().ok(),
        false => {
            text.split(',').find_map(|option| option.trim().strip_prefix(KEY)?.strip_prefix(':')?.trim().parse().ok())
        }
    };
    settings.iter().find_map(of).filter(|&share| share > 0.0 && share < 1.0)
}

/// Most failed requests of a history that get a card: of more, the first and the last of them. Programs that try again
/// with less reach tens.
pub const MOST_CARDS: usize = 1000;
/// About how many signatures all cards together list, if they list all.
const LISTED: usize = 100_000;

/// A card for each out-of-memory event, in event order, at most [`MOST_CARDS`]; incomplete once cancelled.
///
/// * `top`: the number of signatures listed per card; 0 lists all, of many cards as many as a file of that size may
///   cost.
/// * Cost: O((n + m) log m) for n events and m blocks, and O(signatures + segments) per card.
pub fn cards(
    trace: &Trace,
    history: &MemoryHistory,
    signatures: &Signatures,
    top: usize,
    is_cancelled: &dyn Fn() -> bool,
) -> Vec<OomCard> {
    let ooms = &history.ooms;
    if ooms.is_empty() {
        return Vec::new();
    }
    let half = ooms.len().min(MOST_CARDS / 2);
    let last = &ooms[ooms.len().saturating_sub(MOST_CARDS - half).max(half)..];
    let shown = ooms[..half].iter().chain(last);
    let top = if top == 0 { LISTED.max(signatures.len()) / shown.clone().count() } else { top };
    let mut setting = Setting {
        history,
        device_total: leaks::device_total(trace, history),
        fraction: fraction(&history.settings),
        is_expandable: history.segments.iter().any(|segment| segment.is_expandable),
        most_reserved: 0,
    };
    let mut sweep = FreeSpaceSweep::new(history);
    let mut allocated = AllocatedSweep::new(trace, history, signatures);
    let mut next = 0;
    let running = shown.take_while(|_| !is_cancelled());
    let card = |oom: &OutOfMemory| {
        // The event itself does not change the state.
        let state = oom.event.min(history.last_state());
        sweep.advance(state);
        allocated.advance(state);
        let until = history.curves.reserved.len().min(oom.event as usize + 1).max(next);
        let since = history.curves.reserved[next..until].iter().copied().max();
        setting.most_reserved = setting.most_reserved.max(since.unwrap_or_default());
        next = until;
        card(&setting, &sweep, oom, allocated.most(top))
    };
    running.map(card).collect()
}

/// Share of all allocations that come after the last failed request where the program caught the error: what cleans up
/// after a failure allocates hardly any.
const WENT_ON: f64 = 0.05;

/// How many allocations came after the last failed request, if the program went on. Cost: O(events).
pub fn went_on(history: &MemoryHistory) -> Option<u64> {
    let last = history.ooms.last()?.event as usize;
    let count = |from: usize| (from..history.events.len()).filter(|&event| history.allocates(event)).count();
    let (all, after) = (count(0), count(last));
    (after > 0 && after as f64 >= WENT_ON * all as f64).then_some(after as u64)
}

/// What all failed requests of a history have in common.
struct Setting<'a> {
    history: &'a MemoryHistory,
    device_total: Option<u64>,
    fraction: Option<f64>,
    /// Whether any segment was expandable.
    is_expandable: bool,
    /// The most that was reserved up to the last of them.
    most_reserved: u64,
}

fn card(
    setting: &Setting<'_>,
    sweep: &FreeSpaceSweep<'_>,
    oom: &OutOfMemory,
    (stacks, n_stacks): (Vec<LiveGroup>, usize),
) -> OomCard {
    let &Setting { history, device_total, fraction, most_reserved, .. } = setting;
    let event = oom.event as usize;
    let at = |curve: &[u64]| curve.get(event).copied().unwrap_or_default();
    let curves = &history.curves;
    let (reserved, active, allocated) = (at(&curves.reserved), at(&curves.active), at(&curves.allocated));
    let own = (history.events.pool.get(event).copied().unwrap_or_default(), SegmentKind::serving(oom.requested));
    let (free, largest_free) = sweep.free(own.0, own.1);
    let inactive = reserved.saturating_sub(active);
    let is_private =
        |pool: PoolId| history.pools.get(pool.0 as usize).is_some_and(|pool: &MemoryPool| pool.private != (0, 0));
    let time = history.events.ts.get(event).copied();
    let mut card = OomCard {
        event: oom.event,
        at: time.filter(|_| history.has_time),
        requested: oom.requested,
        shortfall: None,
        cause: OomCause::Demand,
        device_free: oom.device_free,
        device_total,
        reserved,
        most_reserved,
        allocated,
        awaiting_free: active - allocated,
        inactive,
        free,
        largest_free,
        extendable: sweep.extendable(own.0, own.1),
        free_elsewhere: sweep.each().filter(|of| of.0 != own).map(|of| of.1).sum(),
        free_private: sweep.each().filter(|&(of, _)| of != own && is_private(of.0)).map(|of| of.1).sum(),
        non_pytorch: device_total
            .zip(oom.device_free)
            .and_then(|(total, free)| total.checked_sub(free)?.checked_sub(reserved)),
        fraction,
        stacks,
        n_stacks,
        hints: Vec::new(),
    };
    card.shortfall = card.lacking();
    card.cause = cause::of(&card);
    card.hints = hints(setting, &card, sweep, own);
    card
}

/// Share of reserved memory from which it counts as fully used.
const IN_USE: f64 = 0.9;

/// Settings that could have let the request in; none for a request larger than the device, and none for demand, which
/// no packing helps.
fn hints(
    &Setting { history, is_expandable, .. }: &Setting<'_>,
    card: &OomCard,
    sweep: &FreeSpaceSweep<'_>,
    own: (PoolId, SegmentKind),
) -> Vec<OomHint> {
    let mut found = Vec::new();
    if card.exceeded().is_some() {
        return found;
    }
    let is_demand = card.cause == OomCause::Demand;
    let &OomCard { requested, free, largest_free, free_elsewhere, .. } = card;
    let on_device = card.obtainable();
    let is_scattered = !is_demand && free.saturating_add(on_device) >= requested && largest_free < requested;
    if is_scattered && !is_expandable {
        found.push(OomHint::Expandable { free, on_device, requested, largest_free });
    }
    if is_scattered && !is_expandable && free >= requested {
        // Only blocks split from a large segment prevent it from serving a large request.
        let segments = sweep.split_segments(own.0, own.1, requested);
        let is_large = own.1 != SegmentKind::Small;
        found.extend((is_large && segments > 0).then_some(OomHint::MaxSplit { segments }));
    }
    let before = (0..card.event as usize).rev();
    let freed = before.take_while(|&event| {
        matches!(history.events.action[event], MemoryAction::SegmentFree | MemoryAction::SegmentUnmap)
    });
    let released: u64 = freed.fold(0, |sum, event| sum.saturating_add(history.events.bytes[event]));
    found.extend((!is_demand && released > 0).then_some(OomHint::GarbageCollection { released }));
    let others = sweep.each().filter(|other| other.0 != own);
    if !is_demand
        && free < requested
        && free_elsewhere >= requested
        && let Some(((pool, kind), in_pool)) = others.max_by_key(|other| other.1)
    {
        let kind = if kind == SegmentKind::Small { "small" } else { "large" };
        let pool = format!("{}, {kind} segments", history.pools.get(pool.0 as usize).copied().unwrap_or_default());
        found.push(OomHint::Elsewhere { free: free_elsewhere, pool, in_pool });
    }
    // Where what is free would do in one piece, packing it does help.
    if card.cause != OomCause::Fragmentation
        && !is_scattered
        && card.allocated as f64 >= IN_USE * card.reserved as f64
        && card.reserved > 0
    {
        found.push(OomHint::InUse { share: card.allocated as f64 / card.reserved as f64 });
    }
    found
}
