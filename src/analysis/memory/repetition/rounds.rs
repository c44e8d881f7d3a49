//! Live memory over the rounds of a repetition.

use crate::analysis::memory::trend::trend;
use crate::model::MemoryHistory;

/// Share of what a round raises live memory by: below it a level counts as the same.
const SAME_LEVEL: u64 = 10;
/// The same, up to which memory that rises from round to round is more likely a leak than activations of layers.
const SMALL_RISE: u64 = 20;

/// Whether live memory falls from round to round.
pub fn is_falling(history: &MemoryHistory, boundaries: &[u32]) -> bool {
    let live = boundaries.iter().map(|&state| history.curves.active[state as usize] as i64);
    trend(&live.collect::<Vec<_>>()).tau <= -2.0 / 3.0
}

/// Whether most rounds end near the level of live memory at which they began: within half of what they raise it.
pub fn returns_to_level(history: &MemoryHistory, boundaries: &[u32]) -> bool {
    2 * boundaries.windows(2).filter(|pair| Round::of(history, pair).changes_by_at_most(2)).count()
        >= boundaries.len() - 1
}

/// Whether most rounds end very near the level at which they began.
pub fn is_level(history: &MemoryHistory, boundaries: &[u32]) -> bool {
    let is_same = |pair: &&[u32]| Round::of(history, pair).changes_by_at_most(SMALL_RISE);
    2 * boundaries.windows(2).filter(is_same).count() >= boundaries.len() - 1
}

/// Whether live memory falls below the level at both ends of some rounds, but not of most: the ends of what the rounds
/// are in. A single such round may be anything.
pub fn dips(history: &MemoryHistory, boundaries: &[u32]) -> bool {
    let rounds: Vec<Round> = boundaries.windows(2).map(|pair| Round::of(history, pair)).collect();
    let mut rises: Vec<u64> = rounds.iter().map(|round| round.peak - round.lowest).collect();
    rises.sort_unstable();
    let typical = rises[rises.len() / 2];
    let is_dip = |round: &&Round| SAME_LEVEL * (round.start.min(round.end) - round.lowest) > typical;
    let n = rounds.iter().filter(is_dip).count();
    n >= 2 && 2 * n < rounds.len()
}

/// Live bytes of a round.
struct Round {
    start: u64,
    end: u64,
    lowest: u64,
    peak: u64,
}

impl Round {
    /// * `pair`: the states at which it begins and ends. Cost: O(n) for n events in it.
    fn of(history: &MemoryHistory, pair: &[u32]) -> Self {
        let live = &history.curves.active[pair[0] as usize..=pair[1] as usize];
        let (lowest, peak) = live.iter().fold((live[0], live[0]), |(low, high), &at| (low.min(at), high.max(at)));
        Self { start: live[0], end: live[live.len() - 1], lowest, peak }
    }

    /// Whether its ends differ by at most one in `parts` of what it raises live memory by.
    fn changes_by_at_most(&self, parts: u64) -> bool {
        parts * self.start.abs_diff(self.end) <= self.peak - self.start.min(self.end)
    }
}
