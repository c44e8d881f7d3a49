//! Phase of a period: where its rounds begin.

use std::ops::Range;

use crate::analysis::steps::common;

/// Part of what a round raises memory by, up to which memory counts as low.
const LOW: i64 = 10;
/// The same, up to which two levels are the same.
const SAME: i64 = 50;
/// Part of that by which the start may rise above the lowest level, from each quarter of the rounds to the next.
const FLAT: i64 = 8;
const QUARTERS: usize = 4;
/// Minimum share of rounds that begin with the same item, and of the items of a round that one before it has as well.
const MIN_SAME: f64 = 0.8;
/// Part of a round by which its start may be early or late where only its place is known.
const DUE: usize = 10;

/// Moves the starts of rounds to where little memory is in use: between two steps only persistent memory is live.
///
/// Rounds begin with the item that is once lowest among those of low memory in most of them; of several with the one
/// at which memory is lowest, of those about as low with the one that comes first in the sequence. A round without it
/// begins at its lowest item. Rounds before the first and after the last start are added if they begin with the same
/// item, near where they are due, and as low. If most rounds have no such item, the starts stay.
///
/// * `symbols`: ascending with their first places.
/// * `starts`: an item in each round, at about the same place of it.
/// * `level`: memory in use before an item, in bytes.
/// * Cost: O(n log n) for n items.
pub fn aligned(symbols: &[u32], starts: &[usize], length: usize, level: &dyn Fn(usize) -> i64) -> Vec<usize> {
    let rounds: Vec<Low> = starts.windows(2).map(|pair| Low::of(symbols, pair[0]..pair[1], level)).collect();
    let mut votes: Vec<(u32, i64)> = rounds.iter().flat_map(Low::single).collect();
    votes.sort_unstable();
    let same_level = rounds.iter().map(|round| round.rise / SAME).max().unwrap_or_default().max(1);
    let excess = |same: &[(u32, i64)]| same.iter().map(|vote| vote.1).sum::<i64>() / same.len() as i64 / same_level;
    let usual = votes.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() as f64 >= MIN_SAME * rounds.len() as f64);
    let single = usual.map(|same| (excess(same), same[0].0)).min().map(|(_, symbol)| symbol);
    // Where it begins ever higher above the lowest, the rounds begin before what is there ever more of.
    let first = match single {
        Some(symbol) if rises(&rounds, symbol, same_level / FLAT) => lowest(&rounds),
        symbol => symbol,
    };
    let Some(first) = first else { return starts.to_vec() };
    let mut moved: Vec<usize> = rounds.iter().map(|round| round.start(first)).collect();
    let mut offsets: Vec<usize> = moved.iter().zip(starts).map(|(moved, start)| moved - start).collect();
    let offset = *offsets.select_nth_unstable(rounds.len() / 2).1;
    let reach = length / DUE;
    let low = |items: Range<usize>, highest: i64, due: usize| {
        let fit = items.filter(|&item| symbols[item] == first && level(item) <= highest);
        fit.min_by_key(|&item| (level(item), item.abs_diff(due)))
    };
    // The first round may be longer, since it makes what later ones reuse.
    let head = (starts[0] + offset + reach + 1).saturating_sub(length).min(starts[0]);
    let second = &symbols[moved[0]..moved.get(1).copied().unwrap_or(starts[starts.len() - 1])];
    let highest = level(moved[0]) + rounds[0].rise / DUE as i64;
    let before = low(head.saturating_sub(length)..head, highest, head);
    let before = before.filter(|&item| has_most(&symbols[item..moved[0]], second));
    // The last one may have kept some.
    let (tail, last) = (starts[starts.len() - 1], rounds.len() - 1);
    let due = tail + offset;
    let after = due.saturating_sub(reach).max(tail)..(due + reach + 1).min(symbols.len());
    let after = low(after, level(moved[last]) + rounds[last].rise / 2, due);
    let after = after.filter(|&item| !is_within(symbols, &moved, first, item));
    moved.splice(0..0, before);
    moved.extend(after);
    moved
}

/// Whether an item after the last start lies where the round before has the same item among the others. A recording may
/// end with a round, so that no other begins where one is due.
fn is_within(symbols: &[u32], starts: &[usize], first: u32, item: usize) -> bool {
    let [.., before, last] = *starts else { return false };
    item > last && item - last < last - before && symbols[before + (item - last)] == first
}

/// Whether the lowest items with a symbol lie ever higher above the lowest of all, from each quarter of the rounds to the
/// next. A leak that begins late raises them once, which shows in two of the quarters at most.
fn rises(rounds: &[Low], symbol: u32, by: i64) -> bool {
    let excess = |round: &Low| Some(round.items.iter().find(|item| item.0 == symbol)?.1 - round.level);
    let mean = |rounds: &[Low]| {
        let (n, sum) = rounds.iter().filter_map(excess).fold((0, 0), |(n, sum), excess| (n + 1, sum + excess));
        sum / n.max(1)
    };
    let means: Vec<i64> = rounds.chunks(rounds.len().div_ceil(QUARTERS).max(1)).map(mean).collect();
    means.len() == QUARTERS && means.windows(2).all(|pair| pair[1] - pair[0] > by)
}

/// The symbol of the lowest item, if most rounds have the same.
fn lowest(rounds: &[Low]) -> Option<u32> {
    let mut symbols: Vec<u32> = rounds.iter().filter_map(Low::symbol).collect();
    symbols.sort_unstable();
    let most = symbols.chunk_by(|a, b| a == b).max_by_key(|same| same.len())?;
    (most.len() as f64 >= MIN_SAME * rounds.len() as f64).then(|| most[0])
}

/// Whether a round has most items of another.
fn has_most(round: &[u32], other: &[u32]) -> bool {
    let [a, b] = [round, other].map(|items| {
        let mut items = items.to_vec();
        items.sort_unstable();
        items
    });
    common(&a, &b) as f64 >= MIN_SAME * b.len() as f64
}

/// The items of a round at which memory is low: symbol, level, item, ascending.
struct Low {
    items: Vec<(u32, i64, usize)>,
    /// The first of the lowest, and its level.
    lowest: usize,
    level: i64,
    /// What the round raises memory by.
    rise: i64,
}

impl Low {
    fn of(symbols: &[u32], round: Range<usize>, level: &dyn Fn(usize) -> i64) -> Self {
        let all = round.map(|item| (symbols[item], level(item), item));
        let mut items: Vec<(u32, i64, usize)> = all.collect();
        let lowest = items.iter().min_by_key(|item| item.1).copied().unwrap_or_default();
        let rise = items.iter().map(|item| item.1 - lowest.1).max().unwrap_or_default();
        items.retain(|item| item.1 - lowest.1 <= rise / LOW);
        items.sort_unstable();
        Self { items, lowest: lowest.2, level: lowest.1, rise }
    }

    /// The symbol of the lowest item.
    fn symbol(&self) -> Option<u32> {
        self.items.iter().find(|item| item.2 == self.lowest).map(|item| item.0)
    }

    /// The symbols of which one item is lower than all others, with its level above the lowest.
    fn single(&self) -> impl Iterator<Item = (u32, i64)> {
        let same = self.items.chunk_by(|a, b| a.0 == b.0);
        let is_single = |same: &&[(u32, i64, usize)]| same.len() == 1 || same[1].1 - same[0].1 > self.rise / SAME;
        same.filter(is_single).map(move |same| (same[0].0, same[0].1 - self.level))
    }

    /// The lowest item with a symbol, else the lowest of all.
    fn start(&self, symbol: u32) -> usize {
        self.items.iter().find(|item| item.0 == symbol).map_or(self.lowest, |item| item.2)
    }
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn rounds_begin_where_memory_is_low() {
        // Rounds of a batch, two layers, a loss and what frees them; a start before the first loss is found by its
        // place.
        let round = [(0, 10), (1, 20), (1, 40), (2, 60), (3, 30)];
        let items: Vec<(u32, i64)> = round.iter().copied().cycle().take(5 * 8).collect();
        let symbols: Vec<u32> = items.iter().map(|item| item.0).collect();
        let starts: Vec<usize> = (0..8).map(|k| 3 + 5 * k).collect();
        let batches: Vec<usize> = (0..8).map(|k| 5 * k).collect();
        let level = |item: usize| items[item].1;
        assert_eq!(aligned(&symbols, &starts, 5, &level), batches);
        // A leak moves nothing, nor does an odd item, nor a round that lacks the first.
        assert_eq!(aligned(&symbols, &starts, 5, &|item| items[item].1 + item as i64 / 5), batches);
        let mut odd = symbols.clone();
        odd[20] = 9;
        assert_eq!(aligned(&odd, &starts, 5, &level), batches);
        // Where nothing is low at one place, the starts stay.
        assert_eq!(aligned(&symbols, &starts, 5, &|item| (item * item % 7) as i64), starts);
        // What comes before at a higher level may be another part of the program.
        assert_eq!(aligned(&symbols, &starts, 5, &|item| if item == 0 { 99 } else { items[item].1 }), batches[1..]);
    }

    #[test]
    fn where_the_recording_ends_with_a_round_none_begins() {
        // The last item of a round is like the first, but not as low.
        let round = [(0, 10), (1, 20), (1, 40), (2, 60), (0, 30)];
        let items: Vec<(u32, i64)> = round.iter().copied().cycle().take(5 * 8).collect();
        let symbols: Vec<u32> = items.iter().map(|item| item.0).collect();
        let starts: Vec<usize> = (0..8).map(|k| 4 + 5 * k).collect();
        let batches: Vec<usize> = (0..8).map(|k| 5 * k).collect();
        assert_eq!(aligned(&symbols, &starts, 5, &|item| items[item].1), batches);
    }
}
