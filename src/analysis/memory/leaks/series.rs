//! Blocks that are live across step boundaries, and their sums at each boundary.

use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::model::MemoryHistory;
use crate::model::memory::AllocationId;

/// A block that is live at one or more step boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    pub signature: SignatureId,
    pub id: AllocationId,
    /// The first boundary at which it is live.
    pub first: u32,
    /// The first boundary after it was freed.
    pub end: u32,
}

impl Crossing {
    /// The step in which it was allocated; `None` if before the first step.
    pub fn birth(&self) -> Option<usize> {
        self.first.checked_sub(1).map(|step| step as usize)
    }

    /// Whether it was allocated after the warm-up and is live `delay` steps after the end of its step.
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

/// Sums over blocks at the step boundaries, stored sparsely as changes: most signatures have few blocks, and
/// there may be as many signatures as steps.
#[derive(Clone, Debug)]
pub struct Series {
    /// (boundary, sum from there on), ascending.
    changes: Vec<(u32, i64)>,
}

impl Series {
    /// * `of`: the contribution of a block while it is live.
    ///
    /// Cost: O(b log b) for b blocks.
    pub fn new(blocks: &[Crossing], of: impl Fn(&Crossing) -> i64) -> Self {
        let ends = |block: &Crossing| [(block.first, of(block)), (block.end, -of(block))];
        let mut moves: Vec<(u32, i64)> = blocks.iter().flat_map(ends).collect();
        moves.sort_unstable();
        let mut sum = 0;
        let changes = moves.chunk_by(|a, b| a.0 == b.0).filter_map(|same| {
            let change: i64 = same.iter().map(|&(_, amount)| amount).sum();
            sum += change;
            (change != 0).then_some((same[0].0, sum))
        });
        Self { changes: changes.collect() }
    }

    /// The sum at a boundary. Cost: O(log b).
    pub fn at(&self, boundary: usize) -> i64 {
        let after = self.changes.partition_point(|&(from, _)| from as usize <= boundary);
        after.checked_sub(1).map_or(0, |last| self.changes[last].1)
    }

    /// The sums at the first `n` boundaries.
    pub fn dense(&self, n: usize) -> Vec<i64> {
        let mut all = vec![0; n];
        for (i, &(from, sum)) in self.changes.iter().enumerate() {
            let until = self.changes.get(i + 1).map_or(n, |next| next.0 as usize).min(n);
            all[(from as usize).min(until)..until].fill(sum);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_sum_live_blocks_at_each_boundary() {
        let block = |first, end| Crossing { signature: SignatureId(1), id: AllocationId(0), first, end };
        // Live at boundaries 1 to 3, 2 to 3, 3 to the end; two in succession; 5.
        let blocks = [block(1, 4), block(2, 4), block(3, 7), block(1, 2), block(2, 3), block(5, 6)];
        let series = Series::new(&blocks, |_| 10);
        let by_hand: Vec<i64> = (0..7)
            .map(|k| 10 * blocks.iter().filter(|block| (block.first..block.end).contains(&k)).count() as i64)
            .collect();
        assert_eq!(by_hand, [0, 20, 30, 30, 10, 20, 10]);
        assert_eq!(series.dense(7), by_hand);
        assert_eq!((0..7).map(|k| series.at(k)).collect::<Vec<_>>(), by_hand);
        assert_eq!(Series::new(&[], |_| 1).dense(2), [0, 0]);
    }
}
