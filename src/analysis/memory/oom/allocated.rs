//! Allocated bytes of each signature, updated incrementally from state to state.

use std::cmp::Reverse;

use crate::analysis::memory::live::{GroupKey, LiveGroup};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::model::memory::AllocationId;
use crate::model::{MemoryHistory, StackId, Trace};

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
    /// Bytes and blocks of each signature, then of what is from before the recording.
    sums: Vec<(u64, u64)>,
    /// The place of each signature among all of them by name, which decides between equal sums.
    by_name: Vec<u32>,
}

impl<'a> AllocatedSweep<'a> {
    pub fn new(trace: &Trace, history: &'a MemoryHistory, signatures: &'a Signatures) -> Self {
        let freed = &history.allocations.freed;
        let mut by_freed: Vec<u32> = (0..freed.len() as u32).collect();
        by_freed.sort_by_key(|&i| freed[i as usize]);
        let sums = vec![(0, 0); signatures.len() + 1];
        let mut names: Vec<SignatureId> = (0..signatures.len() as u32).map(SignatureId).collect();
        names.sort_by(|&a, &b| signatures.names(trace, a).cmp(signatures.names(trace, b)));
        let mut by_name = vec![u32::MAX; sums.len()];
        names.iter().zip(0..).for_each(|(id, place)| by_name[id.0 as usize] = place);
        Self { history, signatures, by_freed, n_begun: 0, n_freed: 0, sums, by_name }
    }

    /// Advances to `state`, through all states in between.
    pub fn advance(&mut self, state: u32) {
        let all = &self.history.allocations;
        // Allocations come first, so that a block is never freed before it was added.
        while all.start.get(self.n_begun).is_some_and(|&start| start <= state) {
            let group = self.group(self.n_begun);
            let sum = &mut self.sums[group];
            *sum = (sum.0 + all.bytes[self.n_begun], sum.1 + 1);
            self.n_begun += 1;
        }
        while let Some(&block) = self.by_freed.get(self.n_freed).filter(|&&block| all.freed[block as usize] <= state) {
            let group = self.group(block as usize);
            let sum = &mut self.sums[group];
            *sum = (sum.0 - all.bytes[block as usize], sum.1 - 1);
            self.n_freed += 1;
        }
    }

    /// The place of a block in `sums`.
    fn group(&self, block: usize) -> usize {
        let all = &self.history.allocations;
        match all.stack[block] {
            stack if stack == StackId::default() && !all.was_recorded(AllocationId(block as u32)) => {
                self.signatures.len()
            }
            stack => self.signatures.of(stack).0 as usize,
        }
    }

    /// The `top` signatures with the most bytes, and how many have any. Cost: O(signatures + top · log top).
    pub fn most(&self, top: usize) -> (Vec<LiveGroup>, usize) {
        let signatures = (0..self.sums.len() as u32).map(SignatureId);
        let order = |&(signature, &(bytes, _)): &(SignatureId, &(u64, u64))| {
            (Reverse(bytes), self.by_name[signature.0 as usize])
        };
        let mut all: Vec<_> = signatures.zip(&self.sums).filter(|(_, sum)| sum.1 > 0).collect();
        let n = all.len();
        if top < n {
            all.select_nth_unstable_by_key(top, order);
            all.truncate(top);
        }
        all.sort_unstable_by_key(order);
        let group = |(signature, &(bytes, count)): (SignatureId, &(u64, u64))| {
            let is_before = signature.0 as usize == self.signatures.len();
            let group = if is_before { GroupKey::Before } else { GroupKey::Signature(signature) };
            LiveGroup { group, bytes, count }
        };
        (all.into_iter().map(group).collect(), n)
    }
}
