//! The smallest and largest value of a counter over any range, without reading all of its samples.

use crate::model::{Counter, TimeNs, TimeRange};

const FAN_OUT: usize = 16;

/// Smallest and largest values of blocks of 16 samples, of 256, and so on.
#[derive(Debug, Default)]
pub struct Peaks {
    levels: Vec<Vec<(f64, f64)>>,
}

/// What one pixel of a counter shows; `None` where it is not known: before its first sample, where it had no
/// value, and after its trace.
pub type Column = Option<(f64, f64)>;

fn join(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

const NOTHING: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

impl Peaks {
    /// Cost: O(samples).
    pub fn build(values: &[f64]) -> Self {
        let block = |part: &[f64]| part.iter().fold(NOTHING, |all, &value| join(all, (value, value)));
        let mut levels: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut level: Vec<_> = values.chunks(FAN_OUT).map(block).collect();
        while level.len() > 1 {
            let above = level.chunks(FAN_OUT).map(|part| part.iter().copied().fold(NOTHING, join)).collect();
            levels.push(std::mem::replace(&mut level, above));
        }
        Self { levels }
    }

    /// Smallest and largest of `values[from..to]`. Cost: O(log samples) where levels were built.
    fn of(&self, values: &[f64], mut from: usize, mut to: usize) -> (f64, f64) {
        let mut all = NOTHING;
        let mut level: Option<usize> = None;
        while from < to {
            let get = |i: usize| match level {
                None => (values[i], values[i]),
                Some(level) => self.levels[level][i],
            };
            let next = level.map_or(0, |level| level + 1);
            let (inner_from, inner_to) = (from.div_ceil(FAN_OUT), to / FAN_OUT);
            if next >= self.levels.len() || inner_from >= inner_to {
                return (from..to).map(get).fold(all, join);
            }
            all = (from..inner_from * FAN_OUT).chain(inner_to * FAN_OUT..to).map(get).fold(all, join);
            (from, to, level) = (inner_from, inner_to, Some(next));
        }
        all
    }

    /// Smallest and largest value in each of `n_pixels` parts of `view`, in the time of the trace.
    ///
    /// A sample holds as [`Counter::holds_until`] says; `until` is the end of its trace. Cost:
    /// O(pixels · log samples) where levels were built.
    pub fn columns(&self, counter: &Counter, view: TimeRange, until: TimeNs, n_pixels: usize) -> Vec<Column> {
        let ns_per_pixel = view.dur() as f64 / n_pixels as f64;
        let mut from = counter.ts.partition_point(|&ts| ts < view.start);
        let mut start = view.start;
        (1..=n_pixels)
            .map(|pixel| {
                let end = view.start.saturating_add((pixel as f64 * ns_per_pixel).ceil() as i64);
                let to = from + counter.ts[from..].partition_point(|&ts| ts < end);
                // Where it changes at the edge of a pixel, the step is drawn within it.
                let holds =
                    |before: usize| counter.holds_until(before, until) > start.saturating_sub(i64::from(to > from));
                let before = from.checked_sub(1).filter(|&before| holds(before));
                let held = before.unwrap_or(from)..to;
                (from, start) = (to, end);
                (!held.is_empty()).then(|| self.of(&counter.value, held.start, held.end))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peak_is_kept_at_every_zoom() {
        let n = 10_000;
        let value: Vec<f64> = (0..n).map(|i| ((i * 7919) % 10_007) as f64).collect();
        let counter = Counter { ts: (0..n).map(|i| i * 10).collect(), value, ..Default::default() };
        let peaks = Peaks::build(&counter.value);
        for n_pixels in [1, 7, 100, 3000] {
            let columns = peaks.columns(&counter, TimeRange { start: 0, end: n * 10 }, n * 10, n_pixels);
            for (pixel, column) in columns.iter().enumerate() {
                let bound = |pixel: usize| (pixel as f64 * ((n * 10) as f64 / n_pixels as f64)).ceil() as i64;
                let inside = |&i: &usize| (bound(pixel)..bound(pixel + 1)).contains(&counter.ts[i]);
                let first = (0..n as usize).find(inside);
                let held = first.unwrap_or_else(|| counter.ts.partition_point(|&ts| ts < bound(pixel)));
                let all = (0..n as usize).filter(inside).chain(held.checked_sub(1));
                let expected = all.map(|i| counter.value[i]).fold(NOTHING, |all, v| join(all, (v, v)));
                assert_eq!(*column, Some(expected), "pixel {pixel} of {n_pixels}");
            }
        }
    }

    #[test]
    fn before_the_first_sample_there_is_nothing() {
        let counter = Counter { ts: vec![50], value: vec![3.0], ..Default::default() };
        let columns = Peaks::build(&counter.value).columns(&counter, TimeRange { start: 0, end: 100 }, 100, 4);
        assert_eq!(columns, [None, None, Some((3.0, 3.0)), Some((3.0, 3.0))]);
    }

    #[test]
    fn a_value_that_could_not_be_read_is_not_drawn_as_the_one_before() {
        let absent = vec![25, 30, 70];
        let counter = Counter { ts: vec![10, 50], value: vec![1.0, 3.0], absent, ..Default::default() };
        let columns = Peaks::build(&counter.value).columns(&counter, TimeRange { start: 0, end: 100 }, 100, 10);
        let (one, three) = (Some((1.0, 1.0)), Some((3.0, 3.0)));
        assert_eq!(columns, [None, one, one, None, None, three, three, None, None, None]);
    }

    #[test]
    fn the_last_value_holds_until_the_trace_ends() {
        let counter = Counter { ts: vec![10, 50], value: vec![1.0, 3.0], ..Default::default() };
        let columns =
            |until| Peaks::build(&counter.value).columns(&counter, TimeRange { start: 0, end: 100 }, until, 5);
        let (both, last) = (Some((1.0, 3.0)), Some((3.0, 3.0)));
        assert_eq!(columns(100), [Some((1.0, 1.0)), Some((1.0, 1.0)), both, last, last]);
        assert_eq!(columns(75), [Some((1.0, 1.0)), Some((1.0, 1.0)), both, last, None]);
        // A sample after the nominal end of the trace, as from a faulty clock, is shown.
        assert_eq!(columns(30), [Some((1.0, 1.0)), Some((1.0, 1.0)), both, None, None]);
    }
}
