//! Start of the rise in a series over steps, and whether it continues.

use crate::analysis::memory::trend::{Trend, trend};

/// Fewest steps that a late rise, or the level after a rise, must last.
pub const MIN_STEPS_OF_RISE: usize = 4;
/// Share of the mean growth per step below which a series counts as level.
pub const LEVEL: f64 = 0.1;
/// A late start must explain the series so much better than one line: the largest share of its squared error.
const BETTER: f64 = 0.5;

/// The trailing rise of a series on which it rises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rise {
    /// The point from which it rises; 0 for the whole series.
    pub from: usize,
    /// The trend from there on.
    pub trend: Trend,
    /// The point from which it is level, if it rose before.
    pub level_since: Option<usize>,
}

impl Rise {
    /// The rise of a series with one value per step boundary.
    ///
    /// * `least`: the fewest steps of a late rise.
    /// * Cost: O(n + 200²).
    pub fn of(series: &[i64], least: usize) -> Self {
        let from = onset(series).filter(|from| series.len() - 1 - from >= least).unwrap_or(0);
        Self { from, trend: trend(&series[from..]), level_since: level_since(series) }
    }
}

/// Where a series that is level first begins to rise: the break of the best fit of a constant and a line, by least
/// squares. `None` if one line fits the whole series about as well, or without four steps on either side.
///
/// Cost: O(n).
pub fn onset(series: &[i64]) -> Option<usize> {
    let n = series.len();
    let mean = series.iter().map(|&y| y as f64).sum::<f64>() / n.max(1) as f64;
    let all: f64 = series.iter().map(|&y| (y as f64 - mean).powi(2)).sum();
    // Of x = max(0, k - from): the sum of the products with y, by suffix sums.
    let (mut sum_y, mut sum_ky) = (0.0, 0.0);
    let mut best: Option<(f64, usize)> = None;
    let mut of_line = all;
    for from in (0..n).rev() {
        let y = series[from] as f64 - mean;
        (sum_y, sum_ky) = (sum_y + y, sum_ky + from as f64 * y);
        let steps = (n - 1 - from) as f64;
        let (sum_x, sum_xx) = (steps * (steps + 1.0) / 2.0, steps * (steps + 1.0) * (2.0 * steps + 1.0) / 6.0);
        let (xx, xy) = (sum_xx - sum_x * sum_x / n as f64, sum_ky - from as f64 * sum_y);
        if xx <= 0.0 || xy <= 0.0 {
            continue;
        }
        let rest = all - xy * xy / xx;
        if from == 0 {
            of_line = rest;
        } else if from >= MIN_STEPS_OF_RISE && from + MIN_STEPS_OF_RISE < n && best.is_none_or(|best| rest < best.0) {
            best = Some((rest, from));
        }
    }
    // Errors of a line through its own points are mere rounding.
    best.filter(|best| of_line > 1e-9 * all && best.0 < BETTER * of_line).map(|best| best.1)
}

/// The point from which a series that rose is level: for at least four steps, and twice the longest pause before.
///
/// Cost: O(n).
pub fn level_since(series: &[i64]) -> Option<usize> {
    let (&first, &last) = series.first().zip(series.last())?;
    let n = series.len() - 1;
    let growth = (last - first) as f64;
    let rate = growth / n.max(1) as f64;
    if rate <= 0.0 {
        return None;
    }
    // Nothing after it may leave the level: what is collected now and then rises again.
    let reach = series.iter().rposition(|&y| (y - last).abs() as f64 > LEVEL * growth).map_or(0, |last| last + 1);
    let is_level = |from: &usize| (last - series[*from]) as f64 <= LEVEL * rate * (n - *from) as f64;
    let since = (reach.max(1)..=n.checked_sub(MIN_STEPS_OF_RISE)?).find(is_level)?;
    let rises = (0..since).filter(|&k| (series[k + 1] - series[k]) as f64 > LEVEL * rate);
    let rises: Vec<usize> = rises.collect();
    let longest = rises.windows(2).map(|pair| pair[1] - pair[0] - 1).max().unwrap_or(0);
    (n - since >= 2 * longest).then_some(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(n: usize, of: impl Fn(i64) -> i64) -> Vec<i64> {
        (0..n as i64).map(of).collect()
    }

    #[test]
    fn a_late_rise_is_found_with_its_own_slope() {
        for onset in [5, 17, 33] {
            // Noise of a tenth of a step's growth.
            let late = series(40, |k| 70_000 * (k - onset).max(0) + k * 37 % 11 * 700);
            let rise = Rise::of(&late, MIN_STEPS_OF_RISE);
            assert!(rise.from.abs_diff(onset as usize) <= 1, "{onset}: {rise:?}");
            assert!((rise.trend.slope / 70_000.0 - 1.0).abs() < 0.1, "{onset}: {rise:?}");
            assert_eq!(rise.level_since, None);
        }
    }

    #[test]
    fn steady_rises_have_no_late_start() {
        for of in [|k: i64| 900 * k, |k| 900 * (k / 2), |k| 9_000 * ((k + 6) / 10), |k| 900 * k + k * 7 % 5 * 300] {
            let rise = Rise::of(&series(60, of), MIN_STEPS_OF_RISE);
            assert_eq!((rise.from, rise.level_since), (0, None), "{rise:?}");
        }
        assert_eq!(Rise::of(&[], MIN_STEPS_OF_RISE).from, 0);
        assert_eq!(Rise::of(&[4, 5], MIN_STEPS_OF_RISE).from, 0);
    }

    #[test]
    fn a_rise_that_ended_is_level() {
        assert_eq!(Rise::of(&series(30, |k| 500 * k.min(21)), MIN_STEPS_OF_RISE).level_since, Some(21));
        // A pause as long as those before is none; one of three steps is too short.
        assert_eq!(Rise::of(&series(36, |k| 500 * ((k + 3) / 8)), MIN_STEPS_OF_RISE).level_since, None);
        assert_eq!(Rise::of(&series(30, |k| 500 * k.min(26)), MIN_STEPS_OF_RISE).level_since, None);
        assert_eq!(Rise::of(&[7; 30], MIN_STEPS_OF_RISE).level_since, None);
        assert_eq!(Rise::of(&series(33, |k| 500 * (k % 9)), MIN_STEPS_OF_RISE).level_since, None);
    }
}
