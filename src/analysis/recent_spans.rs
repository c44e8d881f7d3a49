//! Start, end and union length of the most recent N pieces of device work.

use std::collections::BTreeMap;

use crate::model::time::{length, unite};
use crate::model::{DurNs, TimeNs, TimeRange};

/// Some device work, such as that launched inside one host range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// From the first start to the last end of that work, in trace time.
    pub time: TimeRange,
    /// Sum of the durations in nanoseconds; concurrent work counts twice.
    pub work_ns: DurNs,
    /// Union of its times in nanoseconds, over all devices.
    pub busy_ns: DurNs,
    /// Number of device slices.
    pub launches: u64,
}

/// A sequence of pieces of device work that supports queries over any number of the most recent ones.
///
/// Cost: O(1) for adding a piece, and O(log n) amortized for each of its shared spans and for a query.
#[derive(Debug)]
pub struct RecentSpans {
    /// Prefix sums of the work.
    work: Vec<DurNs>,
    /// Prefix sums of the time that each piece covers.
    busy: Vec<DurNs>,
    /// Prefix sums of the launches.
    launches: Vec<u32>,
    /// Pieces that start before all later ones.
    starts: Utmost,
    /// Pieces that end after all later ones.
    ends: Utmost,
    /// Disjoint time ranges by start, with their end and the last piece that covers them.
    cover: BTreeMap<TimeNs, (TimeNs, usize)>,
    /// Of the time that each piece covers, what later ones cover too.
    covered_again: Fenwick,
}

impl RecentSpans {
    /// For up to `n` pieces.
    pub fn new(n: usize) -> Self {
        let sums = || Vec::with_capacity(n);
        let (launches, starts, ends, cover) = Default::default();
        Self { work: sums(), busy: sums(), launches, starts, ends, cover, covered_again: Fenwick::new(n) }
    }

    /// Adds a piece.
    ///
    /// * `shared`: its spans that overlap those of other pieces, disjoint; more of its spans do no harm.
    pub fn push(&mut self, piece: &Projection, shared: impl IntoIterator<Item = TimeRange>) {
        let index = self.work.len();
        let sum = |sums: &[DurNs], ns: DurNs| sums.last().copied().unwrap_or(0).saturating_add(ns);
        self.work.push(sum(&self.work, piece.work_ns));
        self.busy.push(sum(&self.busy, piece.busy_ns));
        self.launches.push(self.launches.last().copied().unwrap_or(0) + piece.launches as u32);
        self.starts.push(index, piece.time.start, |before, new| before >= new);
        self.ends.push(index, piece.time.end, |before, new| before <= new);
        for span in shared.into_iter().filter(|span| span.dur() > 0) {
            self.cover(span, index);
        }
    }

    /// Frees what was kept for the time before `ts`, in which no further shared span runs.
    pub fn forget_before(&mut self, ts: TimeNs) {
        while self.cover.first_entry().is_some_and(|entry| entry.get().0 <= ts) {
            self.cover.pop_first();
        }
    }

    /// Makes `index` the last piece to cover `span`; takes the time from those that covered it.
    fn cover(&mut self, span: TimeRange, index: usize) {
        // Each iteration but the first removes a range, so there are at most three per span in total.
        while let Some((&start, &(end, by))) = self.cover.range(..span.end).next_back() {
            if end <= span.start {
                break;
            }
            self.cover.remove(&start);
            if end > span.end {
                self.cover.insert(span.end, (end, by));
            }
            if start < span.start {
                self.cover.insert(start, (span.start, by));
            }
            let taken = TimeRange { start: start.max(span.start), end: end.min(span.end) };
            self.covered_again.add(by, taken.dur());
            if start < span.start {
                break;
            }
        }
        self.cover.insert(span.start, (span.end, index));
    }

    /// The pieces from index `first` to the last together, of which there must be at least one.
    pub fn since(&self, first: usize) -> Projection {
        let last = self.work.len() - 1;
        let before = |before: usize| (self.work[before], self.busy[before], self.launches[before]);
        let (work, busy, launches) = first.checked_sub(1).map_or((0, 0, 0), before);
        Projection {
            time: TimeRange { start: self.starts.from(first), end: self.ends.from(first) },
            work_ns: self.work[last] - work,
            busy_ns: self.busy[last] - busy - self.covered_again.since(first),
            launches: u64::from(self.launches[last] - launches),
        }
    }
}

/// The pieces whose time is before, or after, that of all later ones.
#[derive(Debug, Default)]
struct Utmost {
    pieces: Vec<u32>,
    times: Vec<TimeNs>,
}

impl Utmost {
    /// * `is_passed`: whether the time of a piece before is not beyond that of the new one.
    fn push(&mut self, piece: usize, time: TimeNs, is_passed: impl Fn(TimeNs, TimeNs) -> bool) {
        while self.times.pop_if(|before| is_passed(*before, time)).is_some() {
            self.pieces.pop();
        }
        self.pieces.push(piece as u32);
        self.times.push(time);
    }

    /// The utmost time of the pieces from `first` on.
    fn from(&self, first: usize) -> TimeNs {
        let at = self.pieces.partition_point(|&piece| (piece as usize) < first);
        self.times.get(at).copied().unwrap_or_default()
    }
}

/// Sums over any number of the last of some numbers (binary indexed tree, Fenwick 1994).
#[derive(Debug)]
struct Fenwick {
    /// Entry i, counted from 1, holds the sum of the numbers from i - lowbit(i) + 1 to i.
    tree: Vec<DurNs>,
    total: DurNs,
}

impl Fenwick {
    /// Of `n` zeros.
    fn new(n: usize) -> Self {
        Self { tree: vec![0; n], total: 0 }
    }

    fn add(&mut self, index: usize, by: DurNs) {
        self.total = self.total.saturating_add(by);
        let mut i = index + 1;
        while let Some(sum) = self.tree.get_mut(i - 1) {
            *sum = sum.saturating_add(by);
            i += i & i.wrapping_neg();
        }
    }

    /// Sum of the numbers from index `first` on.
    fn since(&self, first: usize) -> DurNs {
        if self.total == 0 {
            return 0;
        }
        let (mut i, mut before): (usize, DurNs) = (first, 0);
        while i > 0 {
            before = before.saturating_add(self.tree[i - 1]);
            i -= i & i.wrapping_neg();
        }
        self.total.saturating_sub(before)
    }
}

impl Projection {
    /// Of these spans, which it leaves disjoint and ascending. Cost: O(n log n).
    pub fn of(spans: &mut Vec<TimeRange>) -> Self {
        if let [time] = spans[..] {
            return Self { time, work_ns: time.dur(), busy_ns: time.dur(), launches: 1 };
        }
        let time = spans.iter().copied().reduce(TimeRange::union).unwrap_or_default();
        let work_ns = length(spans);
        let launches = spans.len() as u64;
        unite(spans);
        Self { time, work_ns, busy_ns: length(spans), launches }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_number_of_last_pieces_is_known(
            pieces in prop::collection::vec((prop::collection::vec((0_i64..80, 0_i64..30), 1..4), any::<bool>()), 1..20),
        ) {
            let mut all: Vec<Vec<TimeRange>> = Vec::new();
            let shared = |from: usize| pieces[from..].iter().filter(|piece| !piece.1).flat_map(|piece| &piece.0);
            let earliest: Vec<_> =
                (0..pieces.len()).map(|n| shared(n).map(|span| span.0).min().unwrap_or(i64::MAX)).collect();
            let mut sweep = RecentSpans::new(pieces.len());
            for (n, (spans, is_apart)) in pieces.iter().enumerate() {
                // A piece that nothing overlaps lies in a time of its own.
                let from = if *is_apart { 1_000 * (1 + n as i64) } else { 0 };
                let mut spans: Vec<_> =
                    spans.iter().map(|&(ts, dur)| TimeRange { start: from + ts, end: from + ts + dur }).collect();
                all.push(spans.clone());
                let piece = Projection::of(&mut spans);
                // Forgets all but what this piece and later ones may overlap.
                sweep.forget_before(if *is_apart { 0 } else { earliest[n] });
                sweep.push(&piece, spans.into_iter().filter(|_| !is_apart));
                for first in 0..=n {
                    prop_assert_eq!(sweep.since(first), Projection::of(&mut all[first..].concat()));
                }
            }
        }
    }
}
