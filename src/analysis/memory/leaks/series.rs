//! Which blocks outlive the boundaries of steps?

use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::model::MemoryHistory;
use crate::model::memory::AllocationId;

/// A block that is live at one boundary at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    pub signature: SignatureId,
    pub id: AllocationId,
    /// The boundaries at which it is live: from this
    pub first: u32,
    /// to before this.
    pub end: u32,
}

impl Crossing {
    /// The step in which it was allocated; `None` if before the first.
    pub fn birth(&self) -> Option<usize> {
        self.first.checked_sub(1).map(|step| step as usize)
    }

    /// Whether it was allocated in a step that counts and is live at a boundary `delay` steps after the
    /// end of its own.
    pub fn survives(&self, warm_up: usize, n_steps: usize, delay: usize) -> bool {
        let at = self.first as usize + delay;
        self.birth().is_some_and(|step| step >= warm_up) && at <= n_steps && at < self.end as usize
    }
}

/// The blocks that are live at a boundary, by signature, then id. Cost: O(m log m) for m blocks.
pub fn crossings(history: &MemoryHistory, signatures: &Signatures, boundaries: &[u32]) -> Vec<Crossing> {
    let all = &history.allocations;
    let at = |state: u32| boundaries.partition_point(|&boundary| boundary < state) as u32;
    let mut found: Vec<Crossing> = Vec::new();
    for id in all.ids() {
        let (first, end) = (at(all.start[id.idx()]), at(all.end[id.idx()]));
        if first < end {
            found.push(Crossing { signature: signatures.of(all.stack[id.idx()]), id, first, end });
        }
    }
    found.sort_by_key(|block| (block.signature, block.id));
    found
}

/// What blocks sum to at each of `n` boundaries. Cost: O(blocks + n).
pub fn sums(blocks: &[Crossing], n: usize, of: impl Fn(&Crossing) -> i64) -> Vec<i64> {
    let mut sums = vec![0_i64; n];
    for block in blocks {
        let amount = of(block);
        sums[block.first as usize] += amount;
        if let Some(after) = sums.get_mut(block.end as usize) {
            *after -= amount;
        }
    }
    let mut sum = 0;
    for at in &mut sums {
        sum += *at;
        *at = sum;
    }
    sums
}
