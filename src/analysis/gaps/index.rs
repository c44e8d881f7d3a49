//! Fast look-ups in a ledger for views: idle time by cause up to a moment, the longest gap of several,
//! and the gaps by duration.

use std::cmp::Reverse;
use std::ops::Range;

use rayon::prelude::*;

use super::{GapClass, Ledger};
use crate::model::{DurNs, TimeNs, TimeRange};

/// Idle time by [`GapClass`], in nanoseconds.
pub type IdleByClass = [DurNs; GapClass::N];

/// Parts between two sums, and gaps or entries below one entry of [`LedgerIndex::longest`].
const STRIDE: usize = 64;
/// Shorter gaps are not ranked.
const MIN_RANKED_NS: DurNs = 10_000;

/// The place of a gap among others: those in judged steps before the others, of both the longest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u64);

/// Sums and ranks of one [`Ledger`].
#[derive(Clone, Debug, Default)]
pub struct LedgerIndex {
    /// Gaps of at least [`Self::ranked_from_ns`] in the order of [`Self::rank`].
    pub ranked: Vec<u32>,
    /// The judged steps, as the device sees them; `None` without steps.
    counted: Option<TimeRange>,
    /// At least 10 µs, and never less than the ledger's theta.
    pub ranked_from_ns: DurNs,
    /// Start of every 64th part.
    starts: Vec<TimeNs>,
    sums: Vec<Sum>,
    /// Level `k` holds the longest of each 64^(k + 1) gaps.
    longest: Vec<Vec<u32>>,
}

/// The state before a part.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// Its gap, and its place among the parts of that.
    gap: u32,
    part: u32,
    idle: IdleByClass,
}

impl LedgerIndex {
    /// * `counted`: the judged steps, as the device sees them; `None` without steps.
    /// * Cost: O(n log n) for n gaps, 3 to 7 bytes each. Incomplete if cancelled.
    pub fn new(ledger: &Ledger, counted: Option<TimeRange>, is_cancelled: &dyn Fn() -> bool) -> Self {
        let mut out = Self { ranked_from_ns: ledger.theta_ns.max(MIN_RANKED_NS), counted, ..Self::default() };
        out.add_sums(ledger, is_cancelled);
        let dur = |gap: u32| ledger.time(gap as usize).dur();
        let n = ledger.len();
        let stretches = (0..n.div_ceil(STRIDE)).into_par_iter().map(|at| at * STRIDE..n.min((at + 1) * STRIDE));
        let mut level: Vec<u32> = stretches.filter_map(|gaps| longest_of(gaps.map(|gap| gap as u32), dur)).collect();
        while level.len() > 1 {
            let next = level.par_chunks(STRIDE).filter_map(|gaps| longest_of(gaps.iter().copied(), dur)).collect();
            out.longest.push(std::mem::replace(&mut level, next));
        }
        let is_ranked = |&gap: &u32| dur(gap) >= out.ranked_from_ns;
        // Gaps ascend with their starts.
        let rank = |gap: u32| (out.rank(ledger.time(gap as usize)).0, gap);
        let mut ranked: Vec<(Rank, u32)> = (0..n as u32).into_par_iter().filter(is_ranked).map(rank).collect();
        ranked.par_sort_unstable();
        Self { ranked: ranked.into_iter().map(|(_, gap)| gap).collect(), ..out }
    }

    /// The place of a gap: those in judged steps before the others, of both the longest first; of equal ones the
    /// first.
    pub fn rank(&self, gap: TimeRange) -> (Rank, TimeNs) {
        let outside = u64::from(self.is_outside(gap)) << 63;
        (Rank(outside | (i64::MAX - gap.dur()) as u64), gap.start)
    }

    /// Whether there are judged steps.
    pub fn has_steps(&self) -> bool {
        self.counted.is_some()
    }

    /// Whether a gap is in none of the judged steps, of which there are some.
    pub fn is_outside(&self, gap: TimeRange) -> bool {
        self.counted.is_some_and(|counted| !is_of_steps(gap, counted))
    }

    fn add_sums(&mut self, ledger: &Ledger, is_cancelled: &dyn Fn() -> bool) {
        let mut idle = IdleByClass::default();
        let mut n = 0_usize;
        for gap in 0..ledger.len() {
            if n.is_multiple_of(1 << 16) && is_cancelled() {
                return;
            }
            for (i, part) in (0..).zip(ledger.parts(gap)) {
                if n.is_multiple_of(STRIDE) {
                    self.starts.push(part.time.start);
                    self.sums.push(Sum { gap: gap as u32, part: i, idle });
                }
                idle[part.class as usize] += part.time.dur();
                n += 1;
            }
        }
    }

    /// Idle time before `time` by cause. Cost: O(log n).
    pub fn idle_until(&self, ledger: &Ledger, time: TimeNs) -> IdleByClass {
        let Some(at) = self.starts.partition_point(|&start| start < time).checked_sub(1) else {
            return IdleByClass::default();
        };
        let Sum { gap, part, mut idle } = self.sums[at];
        let of_first = ledger.parts_from(gap as usize, part as usize);
        let of_others = (gap as usize + 1..ledger.len()).flat_map(|gap| ledger.parts(gap));
        let parts = of_first.chain(of_others).take(STRIDE);
        for part in parts.take_while(|part| part.time.start < time) {
            idle[part.class as usize] += part.time.end.min(time) - part.time.start;
        }
        idle
    }

    /// The longest of some gaps; of equal ones the first. Cost: O(log n).
    pub fn longest(&self, ledger: &Ledger, gaps: Range<usize>) -> Option<usize> {
        let dur = |gap: u32| ledger.time(gap as usize).dur();
        let mut best: Option<u32> = None;
        let mut add = |gap: u32| {
            let is_longer = |best: u32| (Reverse(dur(gap)), gap) < (Reverse(dur(best)), best);
            if best.is_none_or(is_longer) {
                best = Some(gap);
            }
        };
        // The ends of the range at each level, and what lies between at the next.
        let (mut from, mut to) = (gaps.start, gaps.end.min(ledger.len()));
        for level in 0..=self.longest.len() {
            let entry = |i: usize| level.checked_sub(1).map_or(i as u32, |level| self.longest[level][i]);
            let is_last = level == self.longest.len();
            while from < to && (is_last || !from.is_multiple_of(STRIDE)) {
                add(entry(from));
                from += 1;
            }
            while from < to && !to.is_multiple_of(STRIDE) {
                to -= 1;
                add(entry(to));
            }
            (from, to) = (from / STRIDE, to / STRIDE);
        }
        best.map(|gap| gap as usize)
    }
}

/// The moment whose step a gap belongs to: its middle, since that step has most of it, and so most of its idle time
/// where idle time is added up by step. A boundary lies near its start, where the device waits for the first work of a
/// step or lags behind the host, or near its end, where a step ends with what the device waits for.
pub fn moment_of(gap: TimeRange) -> TimeNs {
    gap.start + gap.dur() / 2
}

/// Whether a gap is in these steps: see [`moment_of`].
pub fn is_of_steps(gap: TimeRange, steps: TimeRange) -> bool {
    (steps.start..steps.end).contains(&moment_of(gap))
}

/// The longest of some gaps; of equal ones the first.
fn longest_of(gaps: impl Iterator<Item = u32>, dur: impl Fn(u32) -> DurNs) -> Option<u32> {
    gaps.min_by_key(|&gap| (Reverse(dur(gap)), gap))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::gaps::Gap;
    use crate::model::{SliceId, TimeRange};

    /// Gaps of parts, as (distance from the last gap, lengths and classes of parts).
    fn ledger_of(gaps: &[(i64, Vec<(i64, usize)>)]) -> Ledger {
        let (mut out, mut now) = (Ledger::default(), -50_i64);
        for (busy, parts) in gaps {
            now += busy;
            let start = now;
            let mut parts_of = Vec::new();
            for &(dur, class) in parts {
                parts_of.push((now, GapClass::ALL[class], None));
                now += dur;
            }
            let (after, ended_by) = (SliceId(0), SliceId(1));
            let time = TimeRange { start, end: now };
            out.push(Gap { time, after, ended_by, trigger: None, trigger_slice: None, refill: None }, parts_of);
        }
        out
    }

    proptest! {
        #[test]
        fn sums_ranks_and_the_longest_equal_those_of_the_whole_list(
            gaps in prop::collection::vec((1_i64..9, prop::collection::vec((prop_oneof![9 => 1_i64..6_000, 1 => Just(i64::from(u32::MAX) - 1), 1 => Just(9_000_000_000)], 0_usize..GapClass::N), 1..9)), 0..300),
            at in prop::collection::vec((prop_oneof![0_i64..1_500_000, 0_i64..90_000_000_000], 0_usize..300, 0_usize..300), 12),
        ) {
            let ledger = ledger_of(&gaps);
            let index = LedgerIndex::new(&ledger, None, &|| false);
            let dur = |gap: usize| ledger.gap(gap).time.dur();
            for (time, a, b) in at {
                let totals = ledger.totals(TimeRange { start: i64::MIN, end: time });
                prop_assert_eq!(index.idle_until(&ledger, time), totals.by_class.map(|of_class| of_class.total_ns));
                let expected = (a..b.min(ledger.len())).min_by_key(|&gap| (Reverse(dur(gap)), gap));
                prop_assert_eq!(index.longest(&ledger, a..b), expected);
            }
            let mut expected: Vec<usize> = (0..ledger.len()).filter(|&gap| dur(gap) >= 10_000).collect();
            expected.sort_by_key(|&gap| Reverse(dur(gap)));
            prop_assert_eq!(index.ranked.iter().map(|&gap| gap as usize).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn the_longest_of_many_is_found_through_all_levels() {
        let gaps: Vec<_> = (0..200_000).map(|i| (1, vec![(1 + i * 7_919 % 200_003, 11)])).collect();
        let ledger = ledger_of(&gaps);
        let index = LedgerIndex::new(&ledger, None, &|| false);
        assert_eq!(index.longest.len(), 2);
        for range in [0..200_000, 1..63, 63..130, 4_000..4_200, 5..199_990, 70_000..70_001, 9..9] {
            let expected = range.clone().max_by_key(|&gap| ledger.gap(gap).time.dur());
            assert_eq!(index.longest(&ledger, range.clone()), expected, "{range:?}");
        }
    }
}
