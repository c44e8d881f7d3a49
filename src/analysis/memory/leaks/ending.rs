//! Where a recording that goes on to the end of the program still tells of its steps.
//!
//! At its end a program gives back what its functions held, a leak as well: that is no sign that the memory was needed
//! for some time only. What is given back counts if the program goes on after it.

use crate::analysis::memory::steps::Steps;
use crate::model::MemoryHistory;
use crate::model::memory::MemoryAction;

/// The last state after which the program still allocates as often as in the median step; the last of all if it never
/// allocates in steps. What is live then counts as kept.
///
/// Cost: O(events).
pub fn goes_on_until(history: &MemoryHistory, steps: &Steps) -> u32 {
    let is_alloc = |event: &usize| history.events.action[*event] == MemoryAction::Alloc;
    let count = |pair: &[u32]| (pair[0] as usize..pair[1] as usize).filter(is_alloc).count();
    let mut counts: Vec<usize> = steps.boundaries.windows(2).map(count).collect();
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or_default();
    let last = (0..history.events.len()).rev().filter(is_alloc).nth(median.saturating_sub(1));
    last.filter(|_| median > 0).map_or(history.last_state(), |event| event as u32)
}

/// The steps without the last, if the program ended in it: of what is live between all steps before, more than half is
/// gone after it. No step gives back so much, as the parameters are a part of it.
pub fn without_end(history: &MemoryHistory, steps: &Steps) -> Option<Steps> {
    let live = |&state: &u32| history.curves.active[state as usize];
    let (last, before) = steps.boundaries.split_last()?;
    let least = before.get(1..)?.iter().map(live).min()?;
    let mut shorter = steps.clone();
    shorter.boundaries.pop();
    shorter.names.truncate(shorter.len());
    (2 * live(last) < least).then_some(shorter)
}
