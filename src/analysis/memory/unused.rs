//! Memory that is reserved and unused, and what keeps it from the device.

use super::leaks::Thresholds;
use super::state::{AllocatorState, allocator};
use super::summary::{fullest_state, peak_state};
use crate::model::MemoryHistory;

/// Reserved memory of one state in bytes: `reserved = used + pinned + empty + private + other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unused {
    pub reserved: u64,
    /// In blocks, those awaiting their free included.
    pub used: u64,
    /// Free in segments that blocks keep from being returned; expandable ones return whole pages.
    pub pinned: u64,
    /// Segments without blocks, which can be returned.
    pub empty: u64,
    /// Free in private pools, which only their own CUDA graphs can use.
    pub private: u64,
    /// Free in expandable segments with blocks, and remainders behind blocks.
    pub other: u64,
}

impl Unused {
    /// Reserved, but in no block and not in private pools.
    pub fn bytes(&self) -> u64 {
        self.pinned + self.empty + self.other
    }

    /// Its share of what is reserved, 0 to 1.
    pub fn share(&self) -> f64 {
        self.bytes() as f64 / self.reserved.max(1) as f64
    }

    /// Whether it is worth a word: by the bytes and the share of [`Thresholds`].
    pub fn is_much(&self) -> bool {
        let thresholds = Thresholds::default();
        self.bytes() >= thresholds.min_unused && self.share() >= thresholds.min_unused_share
    }

    /// Of one state of the allocator. Cost: O(segments).
    pub fn of(history: &MemoryHistory, state: &AllocatorState) -> Self {
        let mut found = Self::default();
        for pool in &state.pools {
            let is_private = history.pools.get(pool.pool.0 as usize).is_some_and(|of| of.private != (0, 0));
            for segment in &pool.segments {
                let sums = &segment.sums;
                let used = sums.allocated + sums.awaiting_free;
                let free = sums.reserved - used;
                found.reserved += sums.reserved;
                found.used += used;
                match free {
                    _ if is_private => found.private += free,
                    _ if used == 0 => found.empty += free,
                    _ if segment.is_expandable => found.other += free,
                    _ => {
                        found.pinned += sums.pinned;
                        found.other += free - sums.pinned;
                    }
                }
            }
        }
        found
    }
}

/// What is unused at the first state of the highest allocated bytes and at the end. Where only the state of one moment
/// is known, both are of that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedOver {
    pub peak: Unused,
    pub end: Unused,
    /// Whether a peak is known.
    pub has_history: bool,
}

/// What is unused at the peak and at the end; `None` if segments are unknown. Cost: O(n + m log m) for n events and m
/// blocks.
pub fn unused(history: &MemoryHistory) -> Option<UnusedOver> {
    let at = |state: u32| Unused::of(history, &allocator(history, state, &|| false));
    (!history.segments.is_empty()).then(|| UnusedOver {
        peak: at(fullest_state(history)),
        end: at(history.last_state()),
        has_history: peak_state(history).is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::StackId;
    use crate::model::memory::{MemoryAction, MemoryPool};

    #[test]
    fn what_is_unused_is_told_apart_by_what_keeps_it() {
        let mut script = Script::default();
        assert_eq!(unused(history(&Script::default().finish())), None);
        for segment in 0..2 {
            script.event(MemoryAction::SegmentAlloc, segment << 30, 1 << 20, StackId(0));
            script.alloc(segment << 30, 1 << 18, StackId(0));
        }
        script.pool = script.raw.pool(MemoryPool { stream: 0, private: (0, 1) });
        script.event(MemoryAction::SegmentAlloc, 1 << 40, 1 << 20, StackId(0));
        script.alloc(1 << 40, 1 << 19, StackId(0));
        script.pool = script.raw.pool(MemoryPool::default());
        script.event(MemoryAction::FreeRequested, 1 << 30, 1 << 18, StackId(0));
        script.free(1 << 30, 1 << 18);
        let found = unused(history(&script.finish())).unwrap();
        let mib = 1 << 20;
        let peak =
            Unused { reserved: 3 * mib, used: mib, pinned: 2 * (mib - mib / 4), private: mib / 2, ..Unused::default() };
        let end = Unused { used: mib * 3 / 4, pinned: mib - mib / 4, empty: mib, ..peak };
        assert_eq!(found, UnusedOver { peak, end, has_history: true });
        assert_eq!((end.bytes(), end.reserved), (mib * 7 / 4, end.used + end.bytes() + end.private));
        let mut script = Script::default();
        script.event(MemoryAction::SegmentMap, 0, 1 << 20, StackId(0));
        script.alloc(0, 1 << 18, StackId(0));
        let expandable = unused(history(&script.finish())).unwrap().end;
        assert_eq!((expandable.pinned, expandable.other), (0, mib * 3 / 4), "no other setting of segments helps");
    }
}
