//! Pairs the calls of two ranks that are the same collective, where sequence numbers were not recorded.

use std::cmp::Reverse;

use hashbrown::HashMap;

use super::calls::{Call, TOGETHER};
use crate::analysis::collectives::CollectiveOp;
use crate::analysis::median;
use crate::model::DurNs;

/// The most calls that one recording may have before the first that both have, beside the difference in number.
const MAX_SHIFT: usize = 16;
/// How many pairs are tried for each shift.
const TRIED: usize = 128;
/// Fewer pairs tell a clock only if the recorded ones agree as closely as [`CLOSE`].
const MIN_PAIRS: usize = 4;
/// Clocks of one host differ by less, in nanoseconds.
const CLOSE: DurNs = 1_000_000;
/// Part of the calls in the time of both recordings that must pair: else they may be of different groups.
const MIN_PAIRED: f64 = 0.8;

/// Pairs the calls of two ranks, each sorted by end: those of the same operation and size, in order, that end together
/// once the difference of the clocks is taken out. Indices into both; empty if most calls find no partner.
///
/// The difference is the one by which most calls in order end together, shifted by up to [`MAX_SHIFT`] calls more than
/// one recording has.
///
/// * `clock`: from the times of `b` to those of `a`, as far as it is recorded; with whether it is.
/// * Cost: O(n + m) for n and m calls.
pub fn pairs(a: &[&Call], b: &[&Call], clock: (DurNs, bool)) -> Vec<(usize, usize)> {
    let Some(offset) = offset(a, b, clock) else { return Vec::new() };
    // Threads of the host may be in several at once, which end in another order on each rank.
    let mut others: HashMap<Alike, (usize, Vec<usize>)> = HashMap::new();
    for (j, y) in b.iter().enumerate() {
        others.entry(alike(y)).or_default().1.push(j);
    }
    let mut pairs = Vec::new();
    for (i, x) in a.iter().enumerate() {
        let Some((next, of)) = others.get_mut(&alike(x)) else { continue };
        while let Some(&j) = of.get(*next) {
            let y = b[j];
            let apart = y.time.end.saturating_add(offset).saturating_sub(x.time.end);
            let is_same = x.ends_with(y, apart);
            if apart > 0 && !is_same {
                break;
            }
            *next += 1;
            if is_same {
                pairs.push((i, j));
                break;
            }
        }
    }
    let is_enough = |of: &[&Call], other: &[&Call], offset: DurNs| {
        let (Some(first), Some(last)) = (other.first(), other.last()) else { return false };
        let in_both = |call: &&&Call| {
            let end = call.time.end.saturating_add(offset);
            first.time.end - TOGETHER <= end && end <= last.time.end + TOGETHER
        };
        pairs.len() as f64 >= MIN_PAIRED * of.iter().filter(in_both).count() as f64
    };
    if is_enough(a, b, -offset) && is_enough(b, a, offset) { pairs } else { Vec::new() }
}

/// What the same call has in common on all ranks.
type Alike = (CollectiveOp, Option<u64>);

fn alike(call: &Call) -> Alike {
    (call.op, call.bytes)
}

/// What to add to times of `b` to get those of `a`; `None` if it cannot be told.
fn offset(a: &[&Call], b: &[&Call], (clock, is_recorded): (DurNs, bool)) -> Option<DurNs> {
    let reach = (a.len().abs_diff(b.len()) + MAX_SHIFT) as isize;
    let mut best = None;
    for shift in -reach..=reach {
        let n = (b.len() as isize - shift).min(a.len() as isize);
        let first = (-shift).max(0);
        if n <= first {
            continue;
        }
        let every = ((n - first) as usize).div_ceil(TRIED);
        let tried = (first..n).step_by(every).map(|i| (a[i as usize], b[(i + shift) as usize]));
        let mut apart: Vec<(DurNs, (&Call, &Call))> = tried
            .filter(|(x, y)| alike(x) == alike(y))
            .map(|(x, y)| (x.time.end.saturating_sub(y.time.end).saturating_sub(clock), (x, y)))
            .collect();
        apart.sort_by_key(|pair| pair.0);
        let Some([(median, _), _]) = median::middle_of(&apart) else { continue };
        if apart.len() < MIN_PAIRS && !(is_recorded && median.abs() <= CLOSE) {
            continue;
        }
        // Where the one of `a` ends later by more than the clocks are apart, that of `b` ends sooner.
        let together =
            apart.iter().filter(|(apart, (x, y))| x.ends_with(y, median.saturating_sub(*apart))).count() * every;
        let mut residuals: Vec<DurNs> = apart.iter().map(|(apart, _)| (apart - median).abs()).collect();
        residuals.sort_unstable();
        let usual = median::of_sorted(&residuals).unwrap_or_default();
        let key = (together, Reverse(usual), Reverse(median.abs()));
        if best.is_none_or(|(other, _)| key > other) {
            best = Some((key, clock.saturating_add(median)));
        }
    }
    best.map(|(_, offset)| offset)
}
