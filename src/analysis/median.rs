//! The median where it must be one of the measured values: a step, an interval.

/// The median of sorted values; of an even number the lower of the middle two, since what takes longer is what needs an
/// explanation.
pub fn of_sorted<T>(sorted: &[T]) -> Option<&T> {
    sorted.get(sorted.len().checked_sub(1)? / 2)
}

#[cfg(test)]
mod tests {
    use super::of_sorted;

    #[test]
    fn the_median_of_an_even_number_is_the_lower_of_the_middle_two() {
        assert_eq!(of_sorted::<i64>(&[]), None);
        assert_eq!(
            [&[1][..], &[1, 2], &[1, 2, 3], &[1, 2, 3, 4]].map(|sorted| of_sorted(sorted).copied()),
            [Some(1), Some(1), Some(2), Some(2)]
        );
    }
}
