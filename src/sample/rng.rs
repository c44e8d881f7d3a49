//! Random numbers from a seed alone, the same on every machine.

/// Splitmix64: 64 bits of state, every seed is a good one.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number from `low` to `high`, `high` excluded; `low` if the range is empty.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = u64::try_from(high.saturating_sub(low)).unwrap_or(0).max(1);
        low + i64::try_from(self.next() % width).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_are_those_of_the_published_algorithm() {
        // Reference outputs of splitmix64 for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        assert_eq!([rng.next(), rng.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn between_stays_within_its_bounds() {
        let mut rng = Rng::new(1);
        assert!((0..10_000).all(|_| (-3..4).contains(&rng.between(-3, 4))));
        assert_eq!(rng.between(5, 5), 5);
    }
}
