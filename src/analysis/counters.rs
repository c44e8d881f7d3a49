//! Values of counters in a time range.

use crate::model::{Counter, TimeRange, Trace};

/// What a counter was in the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterSummary {
    /// Index in [`Trace::counters`].
    pub counter: usize,
    /// Samples in the range.
    pub count: u64,
    /// Over the time within the range in which the value is known; each value holds until the next. Where that is no
    /// time, of the samples.
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    pub first: f64,
    pub last: f64,
}

/// Sums up the counters that have a value in `range`, in trace time, in their order. Cost: O(samples in the range).
pub fn counters_in(trace: &Trace, range: TimeRange) -> Vec<CounterSummary> {
    let all = trace.counters.iter().enumerate();
    all.filter_map(|(i, counter)| summarize(i, counter, range, trace.span.end)).collect()
}

fn summarize(index: usize, counter: &Counter, range: TimeRange, until: i64) -> Option<CounterSummary> {
    let first_inside = counter.ts.partition_point(|&ts| ts < range.start);
    // The last sample may lie at the end of its trace.
    let end = counter.ts.partition_point(|&ts| ts < range.end || ts == range.end && ts >= until).max(first_inside);
    let before = first_inside.checked_sub(1).filter(|&before| counter.holds_until(before, until) > range.start);
    let samples = before.unwrap_or(first_inside)..end;
    let (mut area, mut known) = (0.0, 0.0);
    for i in samples.clone() {
        let held = counter.holds_until(i, until).min(range.end).saturating_sub(counter.ts[i].max(range.start)).max(0);
        known += held as f64;
        area += held as f64 * counter.value[i];
    }
    let values = counter.value.get(samples)?;
    let (first, last) = (*values.first()?, *values.last()?);
    let (min, max) = values.iter().fold((first, first), |(min, max), &value| (min.min(value), max.max(value)));
    let mean = if known > 0.0 { area / known } else { values.iter().sum::<f64>() / values.len() as f64 };
    let count = (end - first_inside) as u64;
    // Rounding must not take it out of its bounds.
    Some(CounterSummary { counter: index, count, mean: mean.clamp(min, max), min, max, first, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_as_long_as_it_holds() {
        let counter = Counter {
            ts: vec![0, 10, 40, 90],
            value: vec![1.0, 5.0, 2.0, 8.0],
            absent: vec![60],
            ..Counter::default()
        };
        let of = |start, end| summarize(0, &counter, TimeRange { start, end }, 100);
        let all = of(0, 100).unwrap();
        // 10 of 1, 30 of 5, 20 of 2, 30 of nothing, 10 of 8.
        assert_eq!((all.count, all.mean), (4, (10.0 + 150.0 + 40.0 + 80.0) / 70.0));
        assert_eq!((all.min, all.max, all.first, all.last), (1.0, 8.0, 1.0, 8.0));
        assert_eq!(summarize(0, &counter, TimeRange { start: 0, end: 90 }, 90).map(|all| all.last), Some(8.0));
        assert_eq!(of(0, 90).map(|part| part.last), Some(2.0));
        let part = of(20, 50).unwrap();
        assert_eq!((part.count, part.mean, part.first, part.last), (1, (20.0 * 5.0 + 10.0 * 2.0) / 30.0, 5.0, 2.0));
        // Inside one value, in the time without one, and before the first.
        assert_eq!(of(20, 30).map(|part| (part.count, part.mean)), Some((0, 5.0)));
        assert_eq!(of(70, 80), None);
        assert_eq!(of(-20, -10), None);
        let lone = summarize(
            0,
            &Counter { ts: vec![7], value: vec![3.0], ..Counter::default() },
            TimeRange { start: 0, end: 10 },
            7,
        );
        assert_eq!(lone.map(|lone| (lone.count, lone.mean)), Some((1, 3.0)));
    }
}
