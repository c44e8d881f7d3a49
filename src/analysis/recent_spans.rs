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
    /// Prefix sums of the work and of the launches.
    sums: Vec<(DurNs, u64)>,
    /// Indices and starts of pieces that start before all later ones.
    starts: Vec<(usize, TimeNs)>,
    /// Indices and ends of pieces that end after all later ones.
    ends: Vec<(usize, TimeNs)>,
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
        if self.sums.is_empty() {
            self.sums.push((0, 0));
        }
        let index = self.sums.len() - 1;
        let (work_ns, launches) = self.sums[index];
        self.sums.push((work_ns.saturating_add(piece.work_ns), launches + piece.launches));
        while self.starts.pop_if(|(_, start)| *start >= piece.time.start).is_some() {}
        self.starts.push((index, piece.time.start));
        while self.ends.pop_if(|(_, end)| *end <= piece.time.end).is_some() {}
        self.ends.push((index, piece.time.end));
        self.last.grow();
        self.last.add(index, piece.busy_ns);
        for span in shared.into_iter().filter(|span| span.dur() > 0) {
            self.cover(span, index);
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
        let at = |stack: &[(usize, TimeNs)]| {
            stack.get(stack.partition_point(|entry| entry.0 < first)).map_or(0, |entry| entry.1)
        };
        let n = self.sums.len() - 1;
        Projection {
            time: TimeRange { start: at(&self.starts), end: at(&self.ends) },
            work_ns: self.sums[n].0 - self.sums[first].0,
            busy_ns: self.last.since(first),
            launches: self.sums[n].1 - self.sums[first].1,
        }
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
            let mut sweep = RecentSpans::default();
            for (n, (spans, is_apart)) in pieces.iter().enumerate() {
                // A piece that nothing overlaps lies in a time of its own.
                let from = if *is_apart { 1_000 * (1 + n as i64) } else { 0 };
                let mut spans: Vec<_> =
                    spans.iter().map(|&(ts, dur)| TimeRange { start: from + ts, end: from + ts + dur }).collect();
                all.push(spans.clone());
                let piece = Projection::of(&mut spans);
                sweep.push(&piece, spans.into_iter().filter(|_| !is_apart));
                for first in 0..=n {
                    prop_assert_eq!(sweep.since(first), Projection::of(&mut all[first..].concat()));
                }
            }
        }
    }
}
