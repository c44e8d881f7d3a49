//! Allocated bytes of each signature, updated incrementally from state to state.

use crate::analysis::memory::live::{GroupKey, LiveGroup, sort_first};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::model::{MemoryHistory, Trace};

/// Allocated bytes and blocks by signature in a state that only advances. Cost: O(m log m) for m blocks,
/// independent of the number of states queried.
pub struct AllocatedSweep<'a> {
    history: &'a MemoryHistory,
    signatures: &'a Signatures,
    /// Blocks by the state in which the program frees them.
    by_freed: Vec<u32>,
    /// Number of blocks that were allocated and freed so far.
    n_begun: usize,
    n_freed: usize,
    /// Bytes and blocks of each signature.
    sums: Vec<(u64, u64)>,
}

impl<'a> AllocatedSweep<'a> {
    pub fn new(history: &'a MemoryHistory, signatures: &'a Signatures) -> Self {
        let freed = &history.allocations.freed;
        let mut by_freed: Vec<u32> = (0..freed.len() as u32).collect();
        by_freed.sort_by_key(|&i| freed[i as usize]);
        let sums = vec![(0, 0); signatures.len()];
        Self { history, signatures, by_freed, n_begun: 0, n_freed: 0, sums }
    }

    /// Advances to `state`, through all states in between.
    pub fn advance(&mut self, state: u32) {
        let all = &self.history.allocations;
        // Allocations come first, so that a block is never freed before it was added.
        while all.start.get(self.n_begun).is_some_and(|&start| start <= state) {
            let sum = &mut self.sums[self.signatures.of(all.stack[self.n_begun]).0 as usize];
            *sum = (sum.0 + all.bytes[self.n_begun], sum.1 + 1);
            self.n_begun += 1;
        }
        while let Some(&block) = self.by_freed.get(self.n_freed).filter(|&&block| all.freed[block as usize] <= state) {
            let sum = &mut self.sums[self.signatures.of(all.stack[block as usize]).0 as usize];
            *sum = (sum.0 - all.bytes[block as usize], sum.1 - 1);
            self.n_freed += 1;
        }
    }

    /// The `top` signatures with the most bytes, or all for 0. Cost: O(signatures + top · log top).
    pub fn most(&self, trace: &Trace, top: usize) -> Vec<LiveGroup> {
        let signatures = (0..self.sums.len() as u32).map(SignatureId);
        let groups = signatures.zip(&self.sums).filter(|(_, sum)| sum.1 > 0);
        let mut groups: Vec<LiveGroup> = groups
            .map(|(signature, &(bytes, count))| LiveGroup { group: GroupKey::Signature(signature), bytes, count })
            .collect();
        sort_first(&mut groups, top, |group| group.frames(trace, self.signatures));
        if top > 0 {
            groups.truncate(top);
        }
        groups
    }
}
