//! Number of steps needed to conclude that memory grows, or that it does not.
//!
//! Regularity takes the place of length. With *n* values at the boundaries of steps after the warm-up:
//!
//! * fewer than five say nothing: one batch more or less decides;
//! * five to nine say that memory grows if a series without a trend would rise as steadily in one of a hundred cases at
//!   most ([`rising_tau`], the exact distribution of Kendall's tau): five must all rise, nine may have one pair in six
//!   that falls. What rises less and less is a cache that fills up ([`is_settling`]);
//! * five to nine say that memory is level if all of them lie within the smallest growth of a leak ([`is_level`]): a
//!   leak of four steps would have left that range. Those of the warm-up count if they are as level: nothing had to settle;
//! * ten or more say either by a tau of two thirds, which chance reaches in one of two hundred cases;
//! * growth in some steps only counts from six such steps on, or four if it comes back ([`comes_back`]): the same
//!   number of bytes, as requested, at even distances, those of the warm-up included; or if it is nearly all that
//!   all memory grows by.
//!
//! So an equal gain in each of five steps is enough where ten noisy ones may not be. Peaks and reserved memory need ten
//! in any case: an allocator's caches only rise while they fill. So does an alarm that rests on total memory alone.

/// Kendall's tau from which a long series counts as rising: five of six pairs rise.
pub const RISING: f64 = 2.0 / 3.0;
/// Pairs that may fall in a series of 5 to 9 values: as many or fewer do in at most 1 % of all orders of as many
/// values, by the numbers of permutations with *k* inversions. For 10 values 1 % allows 8, and [`RISING`] 7.
const FALLING: [u32; 5] = [0, 1, 2, 4, 6];
/// Number of values from which a series is long.
const LONG: usize = 10;
/// Fewest steps from which anything follows, if all of them rise or all are level: steps lie between values.
pub const FEWEST_STEPS: usize = LONG - FALLING.len() - 1;
/// Share of the whole growth that the second half of a short series must have.
const SECOND_HALF: f64 = 0.25;
/// Share by which gains that come back may differ from their median.
const SAME: f64 = 0.1;

/// Kendall's tau from which `n` values count as rising.
pub fn rising_tau(n: usize) -> f64 {
    let pairs = (n * n.saturating_sub(1) / 2) as f64;
    match n.checked_sub(LONG - FALLING.len()) {
        None => f64::INFINITY,
        Some(short) => FALLING.get(short).map_or(RISING, |&falling| 1.0 - 2.0 * f64::from(falling) / pairs),
    }
}

/// Whether at least five values lie within less than `least` of each other.
pub fn is_level(series: &[i64], least: f64) -> bool {
    let (lowest, highest) = series.iter().fold((i64::MAX, i64::MIN), |(low, high), &y| (low.min(y), high.max(y)));
    series.len() > FEWEST_STEPS && ((highest - lowest) as f64) < least
}

/// Whether a short series gains hardly anything in its second half: it may be about to become level.
pub fn is_settling(series: &[i64]) -> bool {
    let n = series.len();
    let gain = |from: usize| (series[n - 1] - series[from]) as f64;
    (2..LONG).contains(&n) && gain(n - 1 - (n - 1) / 2) < SECOND_HALF * gain(0)
}

/// How often a series gains, if it never falls and its gains have one size and come at even distances, give or take one
/// step; 0 if not.
pub fn comes_back(series: &[i64]) -> usize {
    let changes: Vec<i64> = series.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let gains: Vec<(usize, i64)> = changes.iter().copied().enumerate().filter(|&(_, gain)| gain > 0).collect();
    let mut sizes: Vec<i64> = gains.iter().map(|&(_, gain)| gain).collect();
    sizes.sort_unstable();
    let Some(&median) = sizes.get(sizes.len() / 2) else { return 0 };
    let has_one_size = sizes.iter().all(|size| size.abs_diff(median) as f64 <= SAME * median as f64);
    let distances = gains.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let (least, most) = distances.fold((usize::MAX, 0), |(least, most), at| (least.min(at), most.max(at)));
    let is_even = most <= least.saturating_add(1);
    if changes.iter().any(|&change| change < 0) || !has_one_size || !is_even { 0 } else { gains.len() }
}

#[cfg(test)]
mod tests {
    use super::super::super::trend::trend;
    use super::*;

    /// All orders of `n` values.
    fn orders(n: usize) -> Vec<Vec<i64>> {
        if n == 0 {
            return vec![Vec::new()];
        }
        let with = |order: Vec<i64>| {
            (0..n).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, n as i64);
                longer
            })
        };
        orders(n - 1).into_iter().flat_map(with).collect()
    }

    #[test]
    fn chance_rises_in_one_of_a_hundred_cases_at_most() {
        for n in 5..8 {
            let all = orders(n);
            let pairs = (n * (n - 1) / 2) as f64;
            let share =
                |tau: f64| all.iter().filter(|order| trend(order).tau >= tau - 1e-9).count() as f64 / all.len() as f64;
            let tau = rising_tau(n);
            assert!(share(tau) <= 0.01 && share(tau - 2.0 / pairs) > 0.01, "{n}: {tau}");
        }
        assert!(rising_tau(4) > 1.0 && (rising_tau(9) - RISING).abs() < 1e-9 && (rising_tau(10) - RISING).abs() < 1e-9);
        assert!((5..40).all(|n| rising_tau(n + 1) <= rising_tau(n) + 1e-9));
    }

    #[test]
    fn short_series_are_level_settle_or_come_back() {
        assert!(is_level(&[7, 9, 7, 8, 7], 3.0) && !is_level(&[7, 10, 7, 8, 7], 3.0) && !is_level(&[7; 4], 3.0));
        assert!(is_settling(&[0, 32, 48, 56, 60, 62]) && is_settling(&[0, 9, 9, 9, 9]));
        assert!(!is_settling(&[0, 3, 8, 10, 14, 15]) && !is_settling(&(0..9).collect::<Vec<_>>()));
        let every = |n: i64, size: &dyn Fn(i64) -> i64| {
            comes_back(&(0..25).map(|k| (1..=k / n).map(size).sum()).collect::<Vec<_>>())
        };
        assert_eq!([3, 5, 7].map(|n| every(n, &|_| 600)), [8, 4, 3]);
        assert_eq!(every(3, &|gain| 600 + 80 * (gain % 2)), 0);
        assert_eq!(comes_back(&[0, 6, 6, 12, 12, 12, 18, 18, 24]), 4);
        assert_eq!(comes_back(&[0, 6, 12, 18, 18, 18, 18, 18, 24]), 0);
        assert_eq!((comes_back(&[0, 6, 5, 11]), comes_back(&[4, 4, 4])), (0, 0));
    }
}
