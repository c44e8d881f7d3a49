//! Start, end and union length of the most recent N spans.

use std::collections::BTreeMap;

use crate::model::{DurNs, TimeNs, TimeRange};

/// The device work launched inside one host range.
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

/// A sequence of spans that supports queries over any number of the most recent ones.
///
/// Cost: O(log n) amortized for adding a span and for a query.
#[derive(Debug, Default)]
pub struct RecentSpans {
    /// Prefix sums of the lengths.
    sums: Vec<DurNs>,
    /// Indices and starts of spans that start before all later ones.
    starts: Vec<(usize, TimeNs)>,
    /// Indices and ends of spans that end after all later ones.
    ends: Vec<(usize, TimeNs)>,
    /// Disjoint time ranges by start, with their end and the last span that covers them.
    cover: BTreeMap<TimeNs, (TimeNs, usize)>,
    /// Fenwick tree over the time that each span is the last to cover.
    last: Fenwick,
}

impl RecentSpans {
    /// Whether no span was added.
    pub fn is_empty(&self) -> bool {
        self.sums.len() < 2
    }

    /// Adds a span.
    pub fn push(&mut self, span: TimeRange) {
        if self.sums.is_empty() {
            self.sums.push(0);
        }
        let index = self.sums.len() - 1;
        self.sums.push(self.sums[index].saturating_add(span.dur()));
        while self.starts.pop_if(|(_, start)| *start >= span.start).is_some() {}
        self.starts.push((index, span.start));
        while self.ends.pop_if(|(_, end)| *end <= span.end).is_some() {}
        self.ends.push((index, span.end));
        self.last.grow();
        if span.dur() > 0 {
            self.cover(span, index);
        }
    }

    /// Makes `index` the last span to cover `span`.
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
        self.last.add(index, span.dur());
    }

    /// The projection of the spans from index `first` to the last, of which there must be at least one.
    pub fn since(&self, first: usize) -> Projection {
        let at = |stack: &[(usize, TimeNs)]| {
            stack.get(stack.partition_point(|entry| entry.0 < first)).map_or(0, |entry| entry.1)
        };
        let n = self.sums.len() - 1;
        Projection {
            time: TimeRange { start: at(&self.starts), end: at(&self.ends) },
            work_ns: self.sums[n] - self.sums[first],
            busy_ns: self.last.since(first),
            launches: (n - first) as u64,
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

/// The projection straight from its definition.
#[cfg(test)]
pub fn plainly(spans: &[TimeRange]) -> Projection {
    let mut union = spans.to_vec();
    crate::model::time::unite(&mut union);
    let time = spans.iter().copied().reduce(TimeRange::union).unwrap_or_default();
    let sum = |spans: &[TimeRange]| spans.iter().map(|span| span.dur()).sum();
    Projection { time, work_ns: sum(spans), busy_ns: sum(&union), launches: spans.len() as u64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_number_of_last_spans_is_known(spans in prop::collection::vec((0_i64..80, 0_i64..30), 1..40)) {
            let spans: Vec<_> = spans.iter().map(|&(start, dur)| TimeRange { start, end: start + dur }).collect();
            let mut sweep = RecentSpans::default();
            for n in 0..spans.len() {
                sweep.push(spans[n]);
                for first in 0..=n {
                    prop_assert_eq!(sweep.since(first), plainly(&spans[first..=n]));
                }
            }
        }
    }
}
