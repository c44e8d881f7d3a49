//! Evidence for leak candidates: surviving blocks, and where blocks of the same signature are freed.

use super::series::Crossing;
use super::{Leaks, Thresholds};
use crate::analysis::memory::signature::Signatures;
use crate::analysis::memory::steps::Steps;
use crate::model::memory::{AllocationId, PoolId};
use crate::model::{MemoryHistory, StackId, StringId};

/// Example allocations listed per candidate.
const MAX_EXAMPLES: usize = 256;
/// Distinct notes, categories and stacks listed per candidate.
const MAX_NAMED: usize = 16;

/// Evidence about the blocks of one candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeakEvidence {
    /// Blocks that outlived their steps, by age: at most 256, evenly sampled over the recording.
    pub examples: Vec<AllocationId>,
    /// The pools of the blocks that outlived their steps.
    pub pools: Vec<PoolId>,
    /// The first and last step in which such a block was allocated.
    pub first_step: usize,
    pub last_step: usize,
    /// Categories recorded for them, such as `PARAMETER`.
    pub categories: Vec<StringId>,
    /// Notes recorded with their allocations, as (key, text).
    pub notes: Vec<(StringId, StringId)>,
    /// Stacks of the forward pass that correspond to their allocations.
    pub forward: Vec<StackId>,
    /// Stacks that free blocks of the same signature, with counts, the most frequent first.
    pub freed_by: Vec<(StackId, u64)>,
    /// Number of blocks of the same signature that were freed while the program went on, and that were allocated.
    pub freed: u64,
    pub allocated: u64,
    /// Number of blocks of the same signature that were freed once no more is allocated than in a step.
    pub freed_at_end: u64,
    /// Number of blocks that the program freed, but that still await a stream at the end of the recording.
    pub awaiting: u64,
}

/// Signature without a candidate.
const NONE: u32 = u32::MAX;

/// Collects the evidence for each candidate.
///
/// * `until`: the state after which what is freed is freed as the recording ends.
///
/// Cost: O(blocks + stacks).
pub fn gather(
    history: &MemoryHistory,
    signatures: &Signatures,
    steps: &Steps,
    until: u32,
    crossings: &[Crossing],
    thresholds: &Thresholds,
    found: &mut Leaks,
) {
    for candidate in &mut found.candidates {
        let first = crossings.partition_point(|block| block.signature < candidate.signature);
        let blocks = crossings[first..].iter().take_while(|block| block.signature == candidate.signature);
        let survives = |block: &&Crossing| block.survives(found.warm_up, steps.len(), thresholds.survivor_delay);
        candidate.evidence = of_survivors(history, &blocks.filter(survives).copied().collect::<Vec<_>>());
    }
    let mut candidate_of = vec![NONE; signatures.len()];
    for (candidate, i) in found.candidates.iter().zip(0..) {
        candidate_of[candidate.signature.0 as usize] = i;
    }
    let all = &history.allocations;
    let mut freed: Vec<(u32, StackId)> = Vec::new();
    for id in all.ids() {
        let index = candidate_of[signatures.of(all.stack[id.idx()]).0 as usize];
        let Some(candidate) = found.candidates.get_mut(index as usize) else { continue };
        candidate.evidence.allocated += 1;
        let (freed_in, end) = (all.freed[id.idx()], all.end[id.idx()]);
        candidate.evidence.freed_at_end += u64::from((until + 1..history.last_state() + 1).contains(&end));
        candidate.evidence.awaiting += u64::from(freed_in < end && end > history.last_state());
        if let Some(stack) = freed_by(history, id).filter(|_| all.end[id.idx()] <= until) {
            candidate.evidence.freed += 1;
            freed.push((index, stack));
        }
    }
    freed.sort_unstable();
    for same in freed.chunk_by(|a, b| a == b) {
        let (candidate, stack) = same[0];
        found.candidates[candidate as usize].evidence.freed_by.push((stack, same.len() as u64));
    }
    for candidate in &mut found.candidates {
        let freed_by = &mut candidate.evidence.freed_by;
        freed_by.sort_by_key(|&(stack, count)| (std::cmp::Reverse(count), stack));
        freed_by.truncate(MAX_NAMED);
    }
}

/// The stack that freed a block; `None` if it was not freed.
fn freed_by(history: &MemoryHistory, id: AllocationId) -> Option<StackId> {
    let event = history.allocations.freed[id.idx()].checked_sub(1)? as usize;
    let is_its = history.events.allocation.get(event) == Some(&id.0);
    is_its.then(|| history.events.stack[event])
}

fn of_survivors(history: &MemoryHistory, survivors: &[Crossing]) -> LeakEvidence {
    let mut evidence = LeakEvidence {
        first_step: survivors.iter().filter_map(Crossing::birth).min().unwrap_or_default(),
        last_step: survivors.iter().filter_map(Crossing::birth).max().unwrap_or_default(),
        ..LeakEvidence::default()
    };
    let n_examples = survivors.len().min(MAX_EXAMPLES);
    evidence.examples = (0..n_examples).map(|i| survivors[i * survivors.len() / n_examples].id).collect();
    for block in survivors {
        add(&mut evidence.pools, history.allocations.pool[block.id.idx()]);
        let category = history.allocations.category(block.id);
        if category != StringId::EMPTY {
            add(&mut evidence.categories, category);
        }
        let Some(event) = history.alloc_event(block.id) else { continue };
        for note in history.notes_of(event) {
            add(&mut evidence.notes, (note.key, note.text));
        }
        let first = history.forward.partition_point(|forward| forward.0 < event);
        if let Some(&(_, stack)) = history.forward.get(first).filter(|forward| forward.0 == event) {
            add(&mut evidence.forward, stack);
        }
    }
    evidence
}

fn add<T: PartialEq>(named: &mut Vec<T>, one: T) {
    if named.len() < MAX_NAMED && !named.contains(&one) {
        named.push(one);
    }
}
