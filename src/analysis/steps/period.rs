//! Detection of the periods of a sequence.

use hashbrown::HashMap;

/// The period of a sequence in which most items repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// Median number of items per round.
    pub length: usize,
    /// Share of items that also occur in the previous round, or belong to the first round.
    pub share: f64,
    /// The first item of each round, ascending. Items after the last one do not form a whole round.
    pub starts: Vec<usize>,
}

/// Minimum number of consecutive rounds.
const MIN_ROUNDS: usize = 3;
/// Minimum items per round where other items are about: shorter periods come from inner loops.
pub const MIN_LENGTH: usize = 4;
/// Minimum share of items within the rounds, and of those that also occur in the previous round.
const MIN_SHARE: f64 = 0.5;
const MIN_REPEATED: f64 = 0.85;
/// Minimum share of rounds with nearly the items of one of the two before, where some have many more, as with an
/// evaluation now and then.
const MIN_ALIKE: f64 = 0.8;
/// Share of its items that a round has in common with one that it repeats.
const SAME: f64 = 0.95;
/// Minimum share of rounds with about the same number of items between anchors.
const MIN_EVEN: f64 = 0.8;
/// A shorter period is preferred unless a longer one explains this share of items more.
const TOLERANCE: f64 = 0.003;
/// Number of period lengths tried.
const MAX_LENGTHS: usize = 24;
/// Numbers of consecutive items that are compared as one where single items do not tell: if none occurs once a round.
const WIDTHS: [usize; 2] = [8, 64];
/// Share of repeated items from which single items suffice: layers alone explain nearly all of a pass with many.
const ENOUGH_REPEATED: f64 = 0.999;

/// The same of all items: what begins late may be no more than a leak.
const ENOUGH_EXPLAINED: f64 = 0.9;

/// A possible start of rounds: an item that recurs at nearly constant distance.
struct Anchor {
    symbol: u32,
    /// The median distance, in items.
    length: usize,
    /// From its first to its last, in items.
    span: usize,
    /// How many of its distances are about the median, and how many are not.
    even: usize,
    uneven: usize,
}

/// The periods of a sequence in which most of its items take part: those that explain most or nearly most come first,
/// the shortest of them in front, then the others from the shortest. Empty once cancelled.
///
/// * `symbols`: a number below the number of items for each item, the same for equal ones, ascending with
///   their first places.
/// * `shortest`: the fewest items of a round, [`MIN_LENGTH`] unless that finds none.
///
/// Layers repeat inside of a step, so several periods may hold: which of them is that of steps is for the caller to
/// judge.
///
/// Rounds begin at an item that comes at an even distance: about the median, or about that before. Of the commonest
/// distances, each weighted with what it covers, the most even item counts, and of such the first. A length explains
/// an item if the round before has the same, wherever in it: so an odd item now and then moves nothing.
/// Cost: O(n log n); a few dozen bytes an item.
pub fn periods(symbols: &[u32], shortest: usize, is_cancelled: &dyn Fn() -> bool) -> Vec<Period> {
    let mut found = candidates(symbols, symbols, (1, shortest), is_cancelled).unwrap_or_default();
    for width in WIDTHS {
        let is_enough = |candidate: &Candidate| {
            candidate.0 >= ENOUGH_REPEATED && candidate.1 as f64 >= ENOUGH_EXPLAINED * symbols.len() as f64
        };
        if found.iter().any(is_enough) || symbols.len() < 2 * width {
            break;
        }
        found.extend(candidates(symbols, &grams(symbols, width), (width, shortest), is_cancelled).unwrap_or_default());
    }
    if is_cancelled() {
        return Vec::new();
    }
    let most = found.iter().map(|candidate| candidate.0).max_by(f64::total_cmp).unwrap_or_default();
    // Of one length that of single items, which are there in an odd round too, unless others explain more.
    found.sort_by_key(|candidate| candidate.3.length);
    found.dedup_by(|next, kept| {
        let is_same = next.3.length == kept.3.length;
        if is_same && next.1 as f64 > kept.1 as f64 + TOLERANCE * symbols.len() as f64 {
            std::mem::swap(next, kept);
        }
        is_same
    });
    found.sort_by_key(|candidate| candidate.0 < most - TOLERANCE);
    let period = |(_, explained, starts, anchor): Candidate| Period {
        length: anchor.length,
        share: explained as f64 / symbols.len() as f64,
        starts,
    };
    found.into_iter().map(period).collect()
}

/// Rounds with the share of items repeated, the items explained, their starts, and what they begin with.
type Candidate = (f64, usize, Vec<usize>, Anchor);

/// * `marks`: what rounds may begin with: a symbol for each run of `width` items.
/// * `shortest`: the fewest items of a round.
fn candidates(
    symbols: &[u32],
    marks: &[u32],
    (width, shortest): (usize, usize),
    is_cancelled: &dyn Fn() -> bool,
) -> Option<Vec<Candidate>> {
    let mut found = Vec::new();
    for anchor in anchors(marks, shortest) {
        if is_cancelled() {
            return None;
        }
        let mut starts: Vec<usize> = (0..marks.len()).filter(|&i| marks[i] == anchor.symbol).collect();
        add_last(symbols, &mut starts, anchor.length, width);
        let (explained, repeated) = explained(symbols, &starts);
        if repeated >= MIN_REPEATED || regularity(symbols, &starts, 2) >= MIN_ALIKE {
            found.push((repeated, explained, starts, anchor));
        }
    }
    Some(found)
}

/// Adds the rounds that begin in the last items, of which there is no run of `width`: near where one is due, with the
/// items of the round before up to the end. Cost: O(width²).
fn add_last(symbols: &[u32], starts: &mut Vec<usize>, length: usize, width: usize) {
    let n = symbols.len();
    while let Some(&last) = starts.last() {
        let due = last + length;
        let is_next = |&at: &usize| at.abs_diff(due) <= length / 10 && symbols[at..] == symbols[last..last + n - at];
        match ((n + 1).saturating_sub(width).max(last + 1)..n).find(is_next) {
            Some(next) => starts.push(next),
            None => return,
        }
    }
}

/// A symbol for each run of `width` items, ascending with their first places. Cost: O(n).
fn grams(symbols: &[u32], width: usize) -> Vec<u32> {
    // A polynomial modulo 2^64, updated from run to run.
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
    let top = (1..width).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let add = |hash: u64, symbol: u32| hash.wrapping_mul(BASE).wrapping_add(u64::from(symbol) + 1);
    let mut hash = symbols[..width].iter().fold(0, |hash, &symbol| add(hash, symbol));
    let mut known: HashMap<u64, u32> = HashMap::new();
    let mut of = |hash: u64| {
        let next = known.len() as u32;
        *known.entry(hash).or_insert(next)
    };
    let mut out = vec![of(hash)];
    for i in width..symbols.len() {
        hash = hash.wrapping_sub(top.wrapping_mul(u64::from(symbols[i - width]) + 1));
        hash = add(hash, symbols[i]);
        out.push(of(hash));
    }
    out
}

/// For each of the commonest distances what best begins a round of that length.
fn anchors(symbols: &[u32], shortest: usize) -> Vec<Anchor> {
    let mut by_symbol: Vec<u32> = (0..symbols.len() as u32).collect();
    by_symbol.sort_by_key(|&i| symbols[i as usize]);
    let mut all: Vec<Anchor> = Vec::new();
    let mut distances = Vec::new();
    for places in by_symbol.chunk_by(|&a, &b| symbols[a as usize] == symbols[b as usize]) {
        let (first, last) = (places[0] as usize, places[places.len() - 1] as usize);
        distances.clear();
        distances.extend(places.windows(2).map(|pair| (pair[1] - pair[0]) as usize));
        if distances.len() < MIN_ROUNDS || ((last - first) as f64) < MIN_SHARE * symbols.len() as f64 {
            continue;
        }
        let about = |distance: usize, other: usize| distance.abs_diff(other) <= other / 10;
        let mut sorted = distances.clone();
        let length = *sorted.select_nth_unstable(distances.len() / 2).1;
        let is_even = |i: &usize| about(distances[*i], length);
        let even = (0..distances.len()).filter(is_even).count();
        let is_kept = |i: &usize| *i > 0 && about(distances[*i], distances[*i - 1]);
        let kept = (0..distances.len()).filter(|i| is_even(i) || is_kept(i)).count();
        if length < shortest || (kept as f64) < MIN_EVEN * distances.len() as f64 {
            continue;
        }
        all.push(Anchor { symbol: symbols[first], length, span: last - first, even, uneven: distances.len() - even });
    }
    all.sort_by_key(|anchor| anchor.length);
    let mut best: Vec<(usize, Anchor)> = Vec::new();
    let mut rest = all.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut same = vec![first];
        while let Some(next) = rest.next_if(|next| next.length == same[0].length) {
            same.push(next);
        }
        let covered = same.iter().map(|anchor| anchor.span).sum();
        let most = same.iter().map(|anchor| anchor.even).max().unwrap_or_default();
        // One that begins late would leave rounds out.
        same.retain(|anchor| anchor.even + 1 >= most);
        // Symbols ascend with where they come first.
        let first = same.into_iter().min_by_key(|anchor| (anchor.uneven, anchor.symbol));
        best.extend(first.map(|anchor| (covered, anchor)));
    }
    best.sort_by_key(|anchor| std::cmp::Reverse(anchor.0));
    best.into_iter().take(MAX_LENGTHS).map(|anchor| anchor.1).collect()
}

/// Share of the rounds, from the second on, that have nearly the items of one of those before, in any order. An odd
/// round counts once against it where that is one of two.
///
/// * `bounds`: the first item of each round, and the end of the last.
/// * `before`: how many rounds before count.
///
/// Cost: O(n log n) for the items of a round.
pub fn regularity(symbols: &[u32], bounds: &[usize], before: usize) -> f64 {
    let round = |pair: &[usize]| {
        let mut items = symbols[pair[0]..pair[1]].to_vec();
        items.sort_unstable();
        items
    };
    let rounds: Vec<Vec<u32>> = bounds.windows(2).map(round).collect();
    let is_alike = |a: &[u32], b: &[u32]| common(a, b) as f64 >= SAME * a.len().max(b.len()) as f64;
    let repeats = |&k: &usize| rounds[k.saturating_sub(before)..k].iter().any(|other| is_alike(other, &rounds[k]));
    (1..rounds.len()).filter(repeats).count() as f64 / rounds.len().saturating_sub(1).max(1) as f64
}

/// How many items two sorted lists have in common.
pub fn common(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut n) = (0, 0, 0);
    while let Some((x, y)) = a.get(i).zip(b.get(j)) {
        n += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    n
}

/// How many items are also in the round before or in the first round, and the share of those
/// after the first round that are. Cost: O(n).
fn explained(symbols: &[u32], starts: &[usize]) -> (usize, f64) {
    // How often each symbol is left in the round before, and in which round that was.
    let mut left = vec![(0_usize, 0_u32); symbols.len()];
    let (mut repeated, mut whole) = (0, 0);
    for (round, pair) in starts.windows(2).enumerate() {
        let mut found = 0;
        for &symbol in &symbols[pair[0]..pair[1]] {
            let (of, count) = &mut left[symbol as usize];
            if round > 0 && *of == round && *count > 0 {
                *count -= 1;
                found += 1;
            }
        }
        if round > 0 {
            let before = pair[0] - starts[round - 1];
            repeated += found;
            whole += before.max(pair[1] - pair[0]);
        }
        for &symbol in &symbols[pair[0]..pair[1]] {
            let of = &mut left[symbol as usize];
            *of = (round + 1, if of.0 == round + 1 { of.1 + 1 } else { 1 });
        }
    }
    let first = starts.get(1).zip(starts.first()).map_or(0, |(end, start)| end - start);
    (first + repeated, repeated as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::{MIN_LENGTH, periods};

    #[test]
    fn what_the_first_step_makes_at_one_place_is_no_rounds() {
        // Parameters, then steps: a batch, six layers, a loss, six gradients, and a buffer of the optimizer, which
        // makes its twelve states in the first step at the same place. A leak begins late.
        let (gradient, buffer, leak) = (10, 11, 12);
        let mut symbols = vec![0; 6];
        for step in 0..40 {
            symbols.push(1);
            symbols.extend((0..6).flat_map(|layer| [2, 3 + layer]));
            symbols.push(9);
            symbols.extend([gradient; 6]);
            symbols.extend(vec![gradient; if step == 0 { 6 } else { 0 }]);
            symbols.extend(vec![buffer; if step == 0 { 13 } else { 1 }]);
            symbols.extend((step >= 23).then_some(leak));
        }
        let found = periods(&symbols, MIN_LENGTH, &|| false);
        let starts = &found[0].starts;
        assert_eq!((found[0].length, symbols[starts[0]], starts.len()), (21, 1, 40), "{starts:?}");
    }
}
