//! Trend of a series: robust slope, fit, and share of rises.

/// Longer series are thinned to this many points for pairwise comparison, which bounds its cost.
const MAX_POINTS: usize = 200;

/// Trend of a series with one value per step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trend {
    /// Theil-Sen slope, the median of the slopes between all pairs of points, in units per step. Robust
    /// against outliers.
    pub slope: f64,
    /// Coefficient of determination of the least-squares line, 0 to 1; 0 if all points are equal.
    pub r2: f64,
    /// Share of steps in which the value rises.
    pub monotonic: f64,
    /// Kendall's tau, -1 to 1: share of rising pairs minus share of falling pairs.
    pub tau: f64,
}

/// The trend of a series; all zero for fewer than two points.
///
/// * Series of more than 200 points are thinned evenly for `slope` and `tau`, keeping both ends.
/// * Cost: O(n + 200²).
pub fn trend(series: &[i64]) -> Trend {
    let n = series.len();
    if n < 2 {
        return Trend::default();
    }
    let picked: Vec<usize> = if n <= MAX_POINTS {
        (0..n).collect()
    } else {
        (0..MAX_POINTS).map(|i| i * (n - 1) / (MAX_POINTS - 1)).collect()
    };
    let mut slopes = Vec::with_capacity(picked.len() * (picked.len() - 1) / 2);
    let mut balance = 0_i64;
    for (i, &from) in picked.iter().enumerate() {
        for &to in &picked[i + 1..] {
            let rise = series[to].saturating_sub(series[from]);
            balance += rise.signum();
            slopes.push(rise as f64 / (to - from) as f64);
        }
    }
    let rises = series.windows(2).filter(|pair| pair[1] > pair[0]).count();
    Trend {
        tau: balance as f64 / slopes.len() as f64,
        slope: median(&mut slopes),
        r2: r2(series),
        monotonic: rises as f64 / (n - 1) as f64,
    }
}

/// The median; for an even number the mean of the middle two. Reorders the values.
fn median(figures: &mut [f64]) -> f64 {
    let (middle, is_even) = (figures.len() / 2, figures.len().is_multiple_of(2));
    if figures.is_empty() {
        return 0.0;
    }
    let (below, &mut upper, _) = figures.select_nth_unstable_by(middle, f64::total_cmp);
    match below.iter().copied().max_by(f64::total_cmp).filter(|_| is_even) {
        Some(lower) => f64::midpoint(lower, upper),
        None => upper,
    }
}

fn r2(series: &[i64]) -> f64 {
    let n = series.len() as f64;
    let (mean_x, mean_y) = ((n - 1.0) / 2.0, series.iter().map(|&y| y as f64).sum::<f64>() / n);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, &y) in series.iter().enumerate() {
        let (x, y) = (x as f64 - mean_x, y as f64 - mean_y);
        (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
    }
    if xx > 0.0 && yy > 0.0 { (xy * xy / (xx * yy)).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_of_a_line_is_robust_against_outliers() {
        let line: Vec<i64> = (0..10).map(|k| 7 + 5 * k).collect();
        assert_eq!(trend(&line), Trend { slope: 5.0, r2: 1.0, monotonic: 1.0, tau: 1.0 });
        let mut odd = line;
        odd[4] = 10_000;
        let with_odd = trend(&odd);
        assert!((with_odd.slope - 5.0).abs() < 1.0 && with_odd.r2 < 0.1, "{with_odd:?}");
        assert_eq!(trend(&[3; 10]), Trend::default());
        assert_eq!(trend(&[3]), Trend::default());
        // Slopes of the pairs: 0-4 4, 0-2 1, 4-2 -2; the median is 1.
        let three = trend(&[0, 4, 2]);
        assert_eq!((three.slope, three.monotonic, three.tau), (1.0, 0.5, 1.0 / 3.0));
    }

    #[test]
    fn long_series_are_thinned() {
        let line: Vec<i64> = (0..5000).map(|k| 3 * k + k % 7).collect();
        let trend = trend(&line);
        assert!((trend.slope - 3.0).abs() < 0.01, "{trend:?}");
        assert!((trend.tau - 1.0).abs() < 1e-9);
    }
}
