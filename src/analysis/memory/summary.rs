//! Summary figures of a memory history: peaks, means, fragmentation.

use super::state::{self, AllocatorState, PoolState};
use super::unused::Unused;
use crate::model::MemoryHistory;
use crate::model::memory::{MemoryAction, highest};

/// A peak, and the first state that reaches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    pub bytes: u64,
    pub state: u32,
}

/// Memory in bytes over a history.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// `None` if no allocation was recorded: what was allocated before the frees that were, nobody knows.
    pub peak_allocated: Option<Peak>,
    /// `None` if neither an allocation nor a reservation was recorded.
    pub peak_reserved: Option<Peak>,
    pub start_allocated: u64,
    pub start_reserved: u64,
    pub end_allocated: u64,
    pub end_reserved: u64,
    pub mean_allocated: f64,
    pub mean_reserved: f64,
    /// Whether the means are weighted by the duration of each state; otherwise all states count equally,
    /// because the file has no times.
    pub is_by_time: bool,
    /// Fragmentation of free memory at the end, 0 to 1; see
    /// [`MemorySums::fragmentation`](state::MemorySums::fragmentation). `None` if segments are unknown.
    pub fragmentation: Option<f64>,
    /// Free bytes at the end in segments that cannot be released; `None` if segments are unknown.
    pub end_pinned: Option<u64>,
    /// Blocks at the end, those awaiting their free included.
    pub end_active: u64,
    /// The largest contiguous free range at the end; `None` if segments are unknown.
    pub end_largest_free: Option<u64>,
    /// What of reserved memory is unused at the end; `None` if segments are unknown.
    pub end_unused_parts: Option<Unused>,
    /// Segments of private pools at the end; `None` if there are none.
    pub end_private: Option<PrivatePools>,
}

/// Memory of private pools: those of CUDA graphs and of `torch.cuda.MemPool`. Only what was captured or allocated with
/// them can use it, and it goes back to the device only once they are gone. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivatePools {
    pub count: usize,
    pub reserved: u64,
    /// Reserved, but in no block. A graph writes there when it is replayed, although no block is live then.
    pub unused: u64,
}

impl PrivatePools {
    fn of(history: &MemoryHistory, state: &AllocatorState) -> Option<Self> {
        let mut found = Self::default();
        let mut ids = Vec::new();
        for PoolState { pool, sums, .. } in &state.pools {
            let Some(of) = history.pools.get(pool.0 as usize).filter(|of| of.private != (0, 0)) else { continue };
            ids.push(of.private);
            found.reserved += sums.reserved;
            found.unused += sums.reserved.saturating_sub(sums.allocated + sums.awaiting_free);
        }
        ids.sort_unstable();
        ids.dedup();
        found.count = ids.len();
        (found.count > 0).then_some(found)
    }
}

impl Summary {
    /// Reserved at the end, but in no block.
    pub fn end_unused(&self) -> u64 {
        self.end_reserved.saturating_sub(self.end_active)
    }

    /// Mean allocated by mean reserved bytes, 0 to 1; `None` if nothing is reserved, or less than is allocated, as a
    /// damaged file says.
    pub fn efficiency(&self) -> Option<f64> {
        let share = (self.mean_reserved > 0.0).then(|| self.mean_allocated / self.mean_reserved);
        share.filter(|share| *share <= 1.0)
    }
}

/// Summarizes a history. Cost: O(n + m log m) for n events and m blocks.
pub fn summary(history: &MemoryHistory) -> Summary {
    let curves = &history.curves;
    let has_reserved = || history.events.action.contains(&MemoryAction::SegmentAlloc);
    let of = |curve: &[u64]| (curve.first().copied().unwrap_or_default(), curve.last().copied().unwrap_or_default());
    let weights = weights(history);
    let is_by_time = weights.is_some();
    let weights = weights.unwrap_or_else(|| vec![1; curves.allocated.len()]);
    let whole: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let mean = |curve: &[u64]| {
        let sum: f64 = curve.iter().zip(&weights).map(|(&bytes, &weight)| bytes as f64 * weight as f64).sum();
        sum / whole.max(1) as f64
    };
    let (start_allocated, end_allocated) = of(&curves.allocated);
    let (start_reserved, end_reserved) = of(&curves.reserved);
    let at_end = (!history.segments.is_empty()).then(|| state::allocator(history, history.last_state(), &|| false));
    let end_private = at_end.as_ref().and_then(|state| PrivatePools::of(history, state));
    let end_unused_parts = at_end.as_ref().map(|state| Unused::of(history, state));
    let at_end = at_end.map(|state| state.sums);
    Summary {
        peak_allocated: peak_state(history).map(|state| Peak { bytes: curves.allocated[state as usize], state }),
        peak_reserved: (has_peak(history) || has_reserved()).then(|| {
            let (state, bytes) = highest(&curves.reserved);
            Peak { bytes, state }
        }),
        start_allocated,
        start_reserved,
        end_allocated,
        end_reserved,
        mean_allocated: mean(&curves.allocated),
        mean_reserved: mean(&curves.reserved),
        is_by_time,
        fragmentation: at_end.map(|sums| sums.fragmentation()),
        end_pinned: at_end.map(|sums| sums.pinned),
        end_active: of(&curves.active).1,
        end_largest_free: at_end.map(|sums| sums.largest_free),
        end_unused_parts,
        end_private,
    }
}

/// Whether an allocation was recorded, so that the highest allocated bytes are a peak. Cost: O(1): ids ascend with the
/// state of allocation.
pub fn has_peak(history: &MemoryHistory) -> bool {
    history.allocations.start.last().is_some_and(|&start| start > 0)
}

/// The first state of the highest allocated bytes; `None` if no peak is known.
pub fn peak_state(history: &MemoryHistory) -> Option<u32> {
    has_peak(history).then(|| history.curves.fullest())
}

/// The state in which most is known to be allocated: that of the peak, else the last.
pub fn fullest_state(history: &MemoryHistory) -> u32 {
    peak_state(history).unwrap_or(history.last_state())
}

/// A memory whose peak is below this many bytes tells nothing beside a larger one.
const TRIFLE: u64 = 1 << 20;

/// Whether a memory holds next to nothing: the profiler also records the host's allocator, of which a training on a
/// device uses a few bytes.
pub fn is_trifle(history: &MemoryHistory) -> bool {
    history.curves.allocated.get(fullest_state(history) as usize).is_none_or(|&bytes| bytes < TRIFLE)
}

/// Duration of each state in nanoseconds; `None` if all are zero or the history has no times.
fn weights(history: &MemoryHistory) -> Option<Vec<u64>> {
    let last = history.last_state();
    let end = |state: u32| if state == last { history.span.end } else { history.time_of(state + 1) };
    let lasted = |state: u32| u64::try_from(end(state).saturating_sub(history.time_of(state))).unwrap_or_default();
    let weights: Vec<u64> = (0..=last).map(lasted).collect();
    (history.has_time && weights.iter().any(|&weight| weight > 0)).then_some(weights)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::StackId;
    use crate::model::memory::MemoryPool;

    fn script() -> Script {
        let mut script = Script::default();
        script.event(MemoryAction::SegmentAlloc, 0, 8192, StackId(0));
        script.alloc(0, 1024, StackId(0));
        script.alloc(2048, 2048, StackId(0));
        script.event(MemoryAction::FreeRequested, 0, 1024, StackId(0));
        script.event(MemoryAction::FreeCompleted, 0, 1024, StackId(0));
        script
    }

    #[test]
    fn means_are_weighted_by_duration() {
        let mut script = script();
        script.raw.events.ts = vec![0, 10, 20, 50, 60];
        let trace = script.finish();
        let found = summary(history(&trace));
        assert_eq!(found.peak_allocated, Some(Peak { bytes: 3072, state: 3 }));
        assert_eq!(found.peak_reserved, Some(Peak { bytes: 8192, state: 1 }));
        assert_eq!((found.start_allocated, found.end_allocated, found.end_reserved), (0, 2048, 8192));
        // 10 ns nothing, 10 ns 1024, 30 ns 3072, 10 ns 2048, of 60 ns.
        let mean = (10.0 * 1024.0 + 30.0 * 3072.0 + 10.0 * 2048.0) / 60.0;
        assert!(found.is_by_time && (found.mean_allocated - mean).abs() < 1e-9, "{found:?}");
        assert!((found.mean_reserved - 8192.0).abs() < 1e-9);
        assert_eq!(found.efficiency(), Some(mean / 8192.0));
        // Free are 2048 and 4096 bytes.
        let fragmentation = 1.0 - f64::from(2048 * 2048 + 4096 * 4096) / f64::from(6144 * 6144);
        assert!((found.fragmentation.unwrap() - fragmentation).abs() < 1e-12);
    }

    #[test]
    fn without_times_all_states_count_equally() {
        let mut script = script();
        script.raw.has_time = false;
        let trace = script.finish();
        let found = summary(history(&trace));
        assert!(!found.is_by_time && (found.mean_allocated - (1024 + 3072 + 2048 + 2048) as f64 / 6.0).abs() < 1e-9);
        let empty = Script::default().finish();
        let found = summary(history(&empty));
        assert_eq!((found.efficiency(), found.fragmentation), (None, None));
    }

    #[test]
    fn without_an_allocation_there_is_no_peak() {
        let mut script = Script::default();
        script.event(MemoryAction::FreeRequested, 0x1000, 4096, StackId(0));
        script.free(0x1000, 4096);
        let trace = script.finish();
        let (history, found) = (history(&trace), summary(history(&trace)));
        assert_eq!((found.start_allocated, found.peak_allocated, found.peak_reserved), (4096, None, None));
        assert_eq!(fullest_state(history), history.last_state());
    }

    #[test]
    fn memory_of_private_pools_is_known() {
        assert_eq!(summary(history(&script().finish())).end_private, None);
        let mut script = script();
        for (stream, id) in [(0, 1), (7, 1), (0, 2)] {
            script.pool = script.raw.pool(MemoryPool { stream, private: (0, id) });
            let addr = 0x10_0000 * (1 + 2 * id + u64::from(stream > 0));
            script.event(MemoryAction::SegmentAlloc, addr, 8192, StackId(0));
            script.alloc(addr, 1024, StackId(0));
        }
        let expected = PrivatePools { count: 2, reserved: 3 * 8192, unused: 3 * 7168 };
        assert_eq!(summary(history(&script.finish())).end_private, Some(expected));
    }
}
