//! The median: the middle one of sorted values, of an even number the mean of the middle two.

use crate::model::DurNs;

/// The middle two of sorted values, of an odd number twice the same; `None` without values.
pub fn middle_of<T: Copy>(sorted: &[T]) -> Option<[T; 2]> {
    let last = sorted.len().checked_sub(1)?;
    Some([sorted[last / 2], sorted[sorted.len() / 2]])
}

/// The median of sorted times, in their unit; `None` without times.
pub fn of_sorted(sorted: &[DurNs]) -> Option<DurNs> {
    middle_of(sorted).map(between)
}

/// The mean of two times, in their unit, rounded towards the first.
pub fn between([low, high]: [DurNs; 2]) -> DurNs {
    low + (high - low) / 2
}

#[cfg(test)]
mod tests {
    use super::of_sorted;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(of_sorted(&[]), None);
        let all = [&[1][..], &[1, 3], &[1, 2, 9], &[1, 2, 6, 9], &[i64::MIN / 2, i64::MAX / 2]];
        assert_eq!(all.map(of_sorted), [Some(1), Some(2), Some(2), Some(4), Some(-1)]);
    }
}
