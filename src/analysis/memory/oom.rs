//! Why did memory run out?

use super::live::{self, Live, LiveGroup};
use super::signature::Signatures;
use super::state::{AllocatorState, allocator};
use crate::model::memory::{MemoryAction, OutOfMemory};
use crate::model::{MemoryHistory, TimeNs};

/// A setting of the allocator that might have helped, and the fact that speaks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhatIf {
    /// As in `PYTORCH_CUDA_ALLOC_CONF`; empty where no setting helps.
    pub setting: &'static str,
    pub fact: String,
}

/// One request that the device could not serve, and what was so then. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomCard {
    pub event: u32,
    /// `None` if the history has no times.
    pub at: Option<TimeNs>,
    pub requested: u64,
    pub device_free: Option<u64>,
    pub reserved: u64,
    pub allocated: u64,
    /// Given back by the program, but not yet to be used again.
    pub awaiting_free: u64,
    /// Reserved, but no block has it.
    pub inactive: u64,
    /// The largest free stretch of all segments.
    pub largest_free: u64,
    /// What others than this allocator have of the device: other processes, CUDA itself, libraries.
    /// `None` unless the device's size and what it had left are known.
    pub non_pytorch: Option<u64>,
    /// What is allocated, by place in the program, the most first.
    pub stacks: Vec<LiveGroup>,
    /// What might have helped, by these figures. A guess, not an experiment.
    pub what_ifs: Vec<WhatIf>,
}

/// A card for each time that memory ran out.
///
/// * `device_total`: the device's memory, if known.
/// * Cost: O(m log m) for m blocks, each time.
pub fn cards(history: &MemoryHistory, signatures: &Signatures, device_total: Option<u64>) -> Vec<OomCard> {
    history.ooms.iter().map(|oom| card(history, signatures, device_total, oom)).collect()
}

fn card(history: &MemoryHistory, signatures: &Signatures, device_total: Option<u64>, oom: &OutOfMemory) -> OomCard {
    // The event itself changes nothing, so the state before it is that after it.
    let state = oom.event.min(history.last_state());
    let at = |curve: &[u64]| curve.get(state as usize).copied().unwrap_or_default();
    let curves = &history.curves;
    let (reserved, active, allocated) = (at(&curves.reserved), at(&curves.active), at(&curves.allocated));
    let held = allocator(history, state);
    let time = history.events.ts.get(oom.event as usize).copied();
    let mut card = OomCard {
        event: oom.event,
        at: time.filter(|_| history.has_time),
        requested: oom.requested,
        device_free: oom.device_free,
        reserved,
        allocated,
        awaiting_free: active - allocated,
        inactive: reserved.saturating_sub(active),
        largest_free: held.sums.largest_free,
        non_pytorch: device_total
            .zip(oom.device_free)
            .and_then(|(total, free)| total.checked_sub(free)?.checked_sub(reserved)),
        stacks: live::groups(history, state, Live::Allocated, live::by_signature(history, signatures)),
        what_ifs: Vec::new(),
    };
    card.what_ifs = what_ifs(history, &card, &held);
    card
}

/// Share of what is reserved from which on it counts as in use.
const IN_USE: f64 = 0.9;

fn what_ifs(history: &MemoryHistory, card: &OomCard, held: &AllocatorState) -> Vec<WhatIf> {
    let mut found = Vec::new();
    let mut add = |setting, fact| found.push(WhatIf { setting, fact });
    let is_expandable = history.segments.iter().any(|segment| segment.is_expandable);
    let is_scattered = card.inactive >= card.requested && card.largest_free < card.requested;
    if is_scattered && !is_expandable {
        let fact = format!(
            "{} bytes are reserved and unused, more than the {} requested, but the largest free stretch has {}: \
             pieces that can be mapped anywhere need no stretch",
            card.inactive, card.requested, card.largest_free
        );
        add("expandable_segments:True", fact);
    }
    // Only a large block that was split keeps the rest of its segment from a large request.
    let segments = || held.pools.iter().flat_map(|pool| &pool.segments);
    let is_split = |bytes: u64, free: u64| bytes >= card.requested && free > 0 && free < bytes;
    let split = segments().filter(|segment| is_split(segment.bytes, segment.sums.free)).count();
    if is_scattered && !is_expandable && split > 0 {
        let fact = format!(
            "{split} segments are large enough for the request, but smaller blocks lie in them: a limit keeps large \
             segments for large requests"
        );
        add("max_split_size_mb", fact);
    }
    let before = (0..card.event as usize).rev();
    let freed = before.take_while(|&event| {
        matches!(history.events.action[event], MemoryAction::SegmentFree | MemoryAction::SegmentUnmap)
    });
    let released: u64 = freed.fold(0, |sum, event| sum.saturating_add(history.events.bytes[event]));
    if released > 0 {
        let fact = format!(
            "{released} bytes of unused segments were given back only when memory had run out: a threshold does it earlier"
        );
        add("garbage_collection_threshold", fact);
    }
    if !is_scattered && card.allocated as f64 >= IN_USE * card.reserved as f64 && card.reserved > 0 {
        let share = 100.0 * card.allocated as f64 / card.reserved as f64;
        let fact =
            format!("The program itself has {share:.1} % of what is reserved: no setting of the allocator helps");
        add("", fact);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::StackId;
    use crate::model::memory::MemoryAction::{FreeRequested, SegmentAlloc, SegmentFree};

    const MIB: u64 = 1 << 20;

    fn card_of(script: Script, device_total: Option<u64>) -> OomCard {
        let trace = script.finish();
        let mut cards = cards(history(&trace), &Signatures::new(&trace, false), device_total);
        assert_eq!(cards.len(), 1);
        cards.remove(0)
    }

    #[test]
    fn the_card_accounts_for_the_device() {
        let mut script = Script::default();
        let stack = script.stack(&["grow (train.py:3)"]);
        script.event(SegmentAlloc, 0, 40 * MIB, StackId(0));
        for block in 0..10 {
            script.alloc(block * 4 * MIB, 4 * MIB, stack);
        }
        for block in [1, 3, 5, 7] {
            script.free(block * 4 * MIB, 4 * MIB);
        }
        script.event(FreeRequested, 0, 4 * MIB, StackId(0));
        script.event(SegmentFree, 100 * MIB, 2 * MIB, StackId(0));
        script.oom(10 * MIB, Some(3 * MIB));
        let card = card_of(script, Some(64 * MIB));
        assert_eq!((card.requested, card.device_free, card.reserved), (10 * MIB, Some(3 * MIB), 40 * MIB));
        assert_eq!((card.allocated, card.awaiting_free, card.inactive), (20 * MIB, 4 * MIB, 16 * MIB));
        assert_eq!((card.largest_free, card.non_pytorch, card.at), (4 * MIB, Some(21 * MIB), Some(170)));
        assert_eq!((card.stacks[0].bytes, card.stacks[0].count), (20 * MIB, 5));
        let settings: Vec<_> = card.what_ifs.iter().map(|what| what.setting).collect();
        assert_eq!(settings, ["expandable_segments:True", "max_split_size_mb", "garbage_collection_threshold"]);
        assert!(card.what_ifs[0].fact.contains("16777216 bytes are reserved and unused"), "{card:?}");
    }

    #[test]
    fn where_the_program_has_it_all_no_setting_helps() {
        let mut script = Script::default();
        script.event(SegmentAlloc, 0, 20 * MIB, StackId(0));
        script.alloc(0, 20 * MIB, StackId(0));
        script.oom(10 * MIB, None);
        let card = card_of(script, Some(64 * MIB));
        assert_eq!((card.non_pytorch, card.inactive), (None, 0));
        assert_eq!(card.what_ifs.iter().map(|what| what.setting).collect::<Vec<_>>(), [""]);
    }
}
