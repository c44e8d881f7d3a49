//! Blocks whose category changed while they were allocated, which are an allocation for each of their categories.

use super::{AllocationId, MemoryAction, MemoryEvents, MemorySource};

/// Which allocations are the same block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// For each allocation the first and the last of its block; empty where no category changed.
    ends: Vec<[AllocationId; 2]>,
    n_changes: usize,
}

/// Whether an event gives a block another category. A memory timeline gives every block an address of its own: one that
/// is freed and allocated at once has changed its category.
pub(super) fn changes_category(source: MemorySource, events: &MemoryEvents, event: usize) -> bool {
    let MemoryEvents { action, addr, .. } = events;
    let before = event.checked_sub(1).filter(|_| source == MemorySource::Timeline);
    action[event] == MemoryAction::Alloc
        && before.is_some_and(|before| addr[before] == addr[event] && action[before] == MemoryAction::FreeCompleted)
}

impl Blocks {
    /// * `events`: with their allocations.
    /// * `n`: the number of allocations.
    ///
    /// Cost: O(events + n).
    pub(super) fn new(source: MemorySource, events: &MemoryEvents, n: usize) -> Self {
        let same =
            |event: usize| Some([events.allocation.get(event - 1)?, events.allocation.get(event)?].map(|&id| id));
        let is_known = |pair: &[u32; 2]| pair[0] < pair[1] && (pair[1] as usize) < n;
        let changes = (1..events.len()).filter(|&event| changes_category(source, events, event));
        let changes: Vec<[u32; 2]> = changes.filter_map(same).filter(is_known).collect();
        if changes.is_empty() {
            return Self::default();
        }
        let mut ends: Vec<[AllocationId; 2]> = (0..n as u32).map(|id| [AllocationId(id); 2]).collect();
        for [from, to] in changes.iter().map(|pair| pair.map(|id| id as usize)) {
            ends[to][0] = ends[from][0];
        }
        for [from, to] in changes.iter().rev().map(|pair| pair.map(|id| id as usize)) {
            ends[from][1] = ends[to][1];
        }
        Self { ends, n_changes: changes.len() }
    }

    /// The allocations of the same block in its first and in its last category.
    pub fn ends(&self, id: AllocationId) -> [AllocationId; 2] {
        self.ends.get(id.idx()).copied().unwrap_or([id; 2])
    }

    /// How often a block changed its category.
    pub fn n_changes(&self) -> usize {
        self.n_changes
    }
}
