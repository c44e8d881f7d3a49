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
/// Cost: O(log n) amortized for adding a piece of one span and for a query.
#[derive(Debug, Default)]
pub struct RecentSpans {
    /// Prefix sums of the work.
    work: Vec<DurNs>,
    /// Prefix sums of the launches.
    launches: Vec<u32>,
    /// Pieces that start before all later ones.
    starts: Utmost,
    /// Pieces that end after all later ones.
    ends: Utmost,
    /// Disjoint time ranges by start, with their end and the last piece that covers them.
    cover: BTreeMap<TimeNs, (TimeNs, usize)>,
    /// Fenwick tree over the time that each piece is the last to cover.
    last: Fenwick,
}

impl RecentSpans {
    /// Adds a piece.
    ///
    /// * `shared`: its spans that overlap those of other pieces, disjoint; more of its spans do no harm.
    pub fn push(&mut self, piece: &Projection, shared: impl IntoIterator<Item = TimeRange>) {
        let index = self.work.len();
        let add = |sum: Option<&DurNs>| sum.copied().unwrap_or(0).saturating_add(piece.work_ns);
        self.work.push(add(self.work.last()));
        self.launches.push(self.launches.last().copied().unwrap_or(0) + piece.launches as u32);
        self.starts.push(index, piece.time.start, |before, new| before >= new);
        self.ends.push(index, piece.time.end, |before, new| before <= new);
        self.last.grow();
        self.last.add(index, piece.busy_ns);
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
            self.last.add(by, -taken.dur());
            if start < span.start {
                break;
            }
        }
        self.cover.insert(span.start, (span.end, index));
    }

    /// The pieces from index `first` to the last together, of which there must be at least one.
    pub fn since(&self, first: usize) -> Projection {
        let last = self.work.len() - 1;
        let (work, launches) = first.checked_sub(1).map_or((0, 0), |before| (self.work[before], self.launches[before]));
        Projection {
            time: TimeRange { start: self.starts.from(first), end: self.ends.from(first) },
            work_ns: self.work[last] - work,
            busy_ns: self.last.since(first),
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

/// Prefix sums over a growing sequence (binary indexed tree, Fenwick 1994).
#[derive(Debug, Default)]
struct Fenwick {
    /// Entry i, counted from 1, holds the sum of the numbers from i - lowbit(i) + 1 to i.
    tree: Vec<DurNs>,
    total: DurNs,
}

impl Fenwick {
    /// Appends a 0.
    fn grow(&mut self) {
        let i = self.tree.len() + 1;
        // The other numbers of the new entry are already present.
        let below = self.up_to(i - 1).saturating_sub(self.up_to(i - (i & i.wrapping_neg())));
        self.tree.push(below);
    }

    fn add(&mut self, index: usize, by: DurNs) {
        self.total = self.total.saturating_add(by);
        let mut i = index + 1;
        while let Some(sum) = self.tree.get_mut(i - 1) {
            *sum = sum.saturating_add(by);
            i += i & i.wrapping_neg();
        }
    }

    /// Sum of the first `n` numbers.
    fn up_to(&self, n: usize) -> DurNs {
        let (mut i, mut sum): (usize, DurNs) = (n, 0);
        while i > 0 {
            sum = sum.saturating_add(self.tree[i - 1]);
            i -= i & i.wrapping_neg();
        }
        sum
    }

    fn since(&self, first: usize) -> DurNs {
        self.total.saturating_sub(self.up_to(first))
    }
}

impl Projection {
    /// Of these spans, which it leaves disjoint and ascending. Cost: O(n log n).
    pub fn of(spans: &mut Vec<TimeRange>) -> Self {
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
            let mut sweep = RecentSpans::default();
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
