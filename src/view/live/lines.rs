//! The points of a ring as lines of a bounded number of points.

use std::collections::VecDeque;

use crate::live::Point;
use crate::model::TimeNs;

/// Points of a line, at most about this many: a plot is a few hundred pixels wide.
const MAX_POINTS: i64 = 400;

/// Without a reading for so long a line ends.
const GAP_NS: i64 = 30_000_000_000;

/// The lines through the points of the last `window_ns` before `end`: in seconds from `end`, so at most 0, and values.
///
/// Where there are more points than pixels, each stretch of time has its lowest and its highest point. The stretches
/// stay where they are as time goes on, so that lines move but do not flicker.
pub fn lines(points: &VecDeque<Point>, end: TimeNs, window_ns: i64) -> Vec<Vec<[f64; 2]>> {
    let start = end.saturating_sub(window_ns);
    // One point more, so that the line begins at the edge.
    let first = points.partition_point(|point| point.ts < start).saturating_sub(1);
    let last = points.partition_point(|point| point.ts <= end);
    let in_window = points.range(first..last.max(first));
    let n = in_window.len() as i64;
    let stretch = if n <= MAX_POINTS { 1 } else { (window_ns / (MAX_POINTS / 2)).max(1) };
    let mut all: Vec<Vec<[f64; 2]>> = Vec::new();
    let mut bucket: Option<Bucket> = None;
    let mut previous: Option<Point> = None;
    let mut line = Vec::new();
    for &point in in_window {
        let is_end = point.value.is_nan() || previous.is_some_and(|before| point.ts - before.ts > GAP_NS);
        let key = point.ts.div_euclid(stretch);
        if is_end || bucket.as_ref().is_some_and(|bucket| bucket.key != key) {
            bucket.take().into_iter().for_each(|bucket| bucket.add_to(&mut line, end));
        }
        if is_end && !line.is_empty() {
            all.push(std::mem::take(&mut line));
        }
        previous = Some(point);
        if !point.value.is_nan() {
            bucket.get_or_insert(Bucket { key, low: point, high: point }).take(point);
        }
    }
    bucket.into_iter().for_each(|bucket| bucket.add_to(&mut line, end));
    all.push(line);
    all.retain(|line| !line.is_empty());
    all
}

/// The lowest and the highest point of a stretch of time.
struct Bucket {
    key: i64,
    low: Point,
    high: Point,
}

impl Bucket {
    fn take(&mut self, point: Point) {
        if point.value < self.low.value {
            self.low = point;
        }
        if point.value > self.high.value {
            self.high = point;
        }
    }

    fn add_to(self, line: &mut Vec<[f64; 2]>, end: TimeNs) {
        let at = |point: Point| [(point.ts - end) as f64 / 1e9, point.value];
        let (first, second) = if self.low.ts <= self.high.ts { (self.low, self.high) } else { (self.high, self.low) };
        line.push(at(first));
        if second != first {
            line.push(at(second));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn ring(values: impl IntoIterator<Item = (i64, f64)>) -> VecDeque<Point> {
        values.into_iter().map(|(ts, value)| Point { ts, value }).collect()
    }

    #[test]
    fn few_points_are_all_there() {
        let points = ring([(0, 1.0), (S, 2.0), (2 * S, 3.0), (3 * S, 4.0)]);
        assert_eq!(lines(&points, 3 * S, 2 * S), [vec![[-3.0, 1.0], [-2.0, 2.0], [-1.0, 3.0], [0.0, 4.0]]]);
        assert_eq!(lines(&ring([]), S, S), Vec::<Vec<[f64; 2]>>::new());
    }

    #[test]
    fn a_line_ends_where_the_device_was_lost_or_nothing_was_read() {
        let points = ring([(0, 1.0), (S, f64::NAN), (2 * S, 3.0), (40 * S, 4.0)]);
        let found = lines(&points, 40 * S, 60 * S);
        assert_eq!(found, [vec![[-40.0, 1.0]], vec![[-38.0, 3.0]], vec![[0.0, 4.0]]]);
    }

    #[test]
    fn many_points_keep_every_peak() {
        let n = 7200;
        let value = |i: i64| {
            if i == 5000 {
                99.0
            } else if i == 6000 {
                -5.0
            } else {
                (i % 7) as f64
            }
        };
        let points = ring((0..n).map(|i| (i * S / 4, value(i))));
        let found = lines(&points, n * S / 4, n * S / 4);
        assert_eq!(found.len(), 1);
        assert!(found[0].len() <= MAX_POINTS as usize + 4, "{}", found[0].len());
        assert!(found[0].iter().any(|at| at[1] == 99.0) && found[0].iter().any(|at| at[1] == -5.0));
        assert!(found[0].is_sorted_by(|a, b| a[0] < b[0]));
    }
}
