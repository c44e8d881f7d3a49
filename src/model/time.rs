//! Times, durations and time ranges in integer nanoseconds.

/// A time in nanoseconds on the clock of its trace.
///
/// Not a float: for microseconds since 1970 the spacing of `f64` is a quarter of a microsecond, which makes
/// adjacent slices overlap.
pub type TimeNs = i64;

/// A duration in nanoseconds.
pub type DurNs = i64;

/// A half-open time range: `start` inclusive, `end` exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct TimeRange {
    pub start: TimeNs,
    pub end: TimeNs,
}

impl TimeRange {
    /// All of time.
    pub const ALL: Self = Self { start: TimeNs::MIN, end: TimeNs::MAX };

    /// The range between two times, given in either order.
    pub fn new(a: TimeNs, b: TimeNs) -> Self {
        Self { start: a.min(b), end: a.max(b) }
    }

    /// Its length in nanoseconds, saturating.
    pub fn dur(self) -> DurNs {
        self.end.saturating_sub(self.start)
    }

    /// Whether `ts` lies inside.
    pub fn contains(self, ts: TimeNs) -> bool {
        self.start <= ts && ts < self.end
    }

    /// The intersection with `other`; `None` if empty.
    pub fn intersect(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }

    /// The smallest range that holds both.
    pub fn union(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The same range, `offset` nanoseconds later.
    pub fn shifted(self, offset: DurNs) -> Self {
        Self { start: self.start.saturating_add(offset), end: self.end.saturating_add(offset) }
    }
}

/// Sum of the lengths in nanoseconds, saturating.
pub fn length(spans: &[TimeRange]) -> DurNs {
    spans.iter().fold(0, |sum, span| sum.saturating_add(span.dur()))
}

/// The union of ranges in any order: sorted, disjoint, not adjacent, none empty.
///
/// The sort merges ascending runs, so k sorted rows cost O(n log k).
pub fn unite(spans: &mut Vec<TimeRange>) {
    spans.retain(|span| span.start < span.end);
    spans.sort_by_key(|span| span.start);
    let mut n = 0;
    for i in 0..spans.len() {
        let span = spans[i];
        if n > 0 && span.start <= spans[n - 1].end {
            spans[n - 1].end = spans[n - 1].end.max(span.end);
        } else {
            spans[n] = span;
            n += 1;
        }
    }
    spans.truncate(n);
}

/// The parts of `spans` outside `others`. Both are as [`unite`] makes them, and so is the result.
///
/// Cost: O(n log m) for n spans and m others, and the others within the spans.
pub fn subtract(spans: &[TimeRange], others: &[TimeRange]) -> Vec<TimeRange> {
    let mut left = Vec::new();
    let mut others = others;
    for &TimeRange { mut start, end } in spans {
        others = &others[partition_near(others, 0, |other| other.end <= start)..];
        for other in others.iter().take_while(|other| other.start < end) {
            if start < other.start {
                left.push(TimeRange { start, end: other.start });
            }
            start = other.end;
        }
        if start < end {
            left.push(TimeRange { start, end });
        }
    }
    left
}

/// [`slice::partition_point`] found from an index near to it: O(log d) where that is d away.
#[inline]
pub fn partition_near<T>(items: &[T], near: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let near = near.min(items.len());
    let (mut low, mut high, mut step) = (near, near, 1);
    // Twice as far each time.
    while high < items.len() && is_before(&items[high]) {
        low = high + 1;
        high = (low + step).min(items.len());
        step *= 2;
    }
    while low <= near && low > 0 && !is_before(&items[low - 1]) {
        high = low - 1;
        low = high.saturating_sub(step);
        step *= 2;
    }
    low + items[low..high].partition_point(is_before)
}

/// Sum of the lengths within `range` in nanoseconds, saturating; `spans` are as [`unite`] makes them.
///
/// Cost: O(log n + spans within).
pub fn length_within(spans: &[TimeRange], range: TimeRange) -> DurNs {
    let first = spans.partition_point(|span| span.end <= range.start);
    let within = spans[first..].iter().map_while(|span| span.intersect(range));
    within.fold(0, |sum, span| sum.saturating_add(span.dur()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_partition_point_is_found_from_anywhere(n in 0_usize..70, at in 0_usize..70, near in 0_usize..80) {
            let items: Vec<usize> = (0..n).collect();
            let is_before = |&item: &usize| item < at;
            prop_assert_eq!(partition_near(&items, near, is_before), items.partition_point(is_before));
        }
    }
}
