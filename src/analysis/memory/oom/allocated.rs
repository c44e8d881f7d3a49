//! Who has how much, state by state?

use crate::analysis::memory::live::{GroupKey, LiveGroup, sort_first};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::model::{MemoryHistory, Trace};

/// What is allocated, by place in the program, brought forward from state to state. Cost: O(m log m)
/// for m blocks, however many states are asked for.
pub struct AllocatedSweep<'a> {
    history: &'a MemoryHistory,
    signatures: &'a Signatures,
    /// Blocks by the state in which the program gives them back.
    by_freed: Vec<u32>,
    /// How many blocks began, and how many were given back.
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

    /// Goes on to `state`, the states in between included.
    pub fn advance(&mut self, state: u32) {
        let all = &self.history.allocations;
        // Blocks begin before they are given back, so whatever ends by now is among those that began.
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

    /// The `top` places with the most, or all for 0. Cost: O(places + top · log top).
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
