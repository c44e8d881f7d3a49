//! Classifies the bytes of a text (quotes, brackets, letters), 32 or 64 at a time.
//!
//! The scanner is written once against [`Bytes`] and compiled twice: for AVX2, chosen at run time,
//! and for any machine. On AVX2 the whole scan loop is compiled with the feature on, since a call
//! at every 64 bytes would cost more than it saves (283 against 820 MB/s when measured).

/// Bit `i` of each mask is for byte `i` of a 64-byte chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    pub quote: u64,
    pub backslash: u64,
    /// `{` `}` `[` `]`
    pub bracket: u64,
    /// `a-z` `A-Z`
    pub letter: u64,
    /// Below 0x20.
    pub control: u64,
}

/// How to classify bytes on this machine.
pub trait Bytes {
    fn masks(chunk: &[u8; 64]) -> Masks;

    /// Bit `i` is set where byte `i` ends the plain part of a string: quote, backslash, control.
    fn string_stops(chunk: &[u8; 32]) -> u32;

    /// How many of the first bytes are decimal digits.
    fn n_digits(chunk: &[u8; 32]) -> usize;

    /// How many of the first bytes are white space as JSON has it.
    fn n_spaces(chunk: &[u8; 32]) -> usize;
}

/// Portable implementation, left to the compiler to vectorize.
#[derive(Debug)]
pub struct Portable;

impl Bytes for Portable {
    #[inline]
    fn masks(chunk: &[u8; 64]) -> Masks {
        let mut masks = Masks::default();
        for (i, &byte) in chunk.iter().enumerate() {
            masks.quote |= u64::from(byte == b'"') << i;
            masks.backslash |= u64::from(byte == b'\\') << i;
            masks.bracket |= u64::from(matches!(byte, b'{' | b'}' | b'[' | b']')) << i;
            masks.letter |= u64::from(byte.is_ascii_alphabetic()) << i;
            masks.control |= u64::from(byte < 0x20) << i;
        }
        masks
    }

    #[inline]
    fn string_stops(chunk: &[u8; 32]) -> u32 {
        let stops = chunk.iter().enumerate().map(|(i, &b)| u32::from(b == b'"' || b == b'\\' || b < 0x20) << i);
        stops.fold(0, |mask, bit| mask | bit)
    }

    #[inline]
    fn n_digits(chunk: &[u8; 32]) -> usize {
        chunk.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(32)
    }

    #[inline]
    fn n_spaces(chunk: &[u8; 32]) -> usize {
        chunk.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).unwrap_or(32)
    }
}

#[cfg(target_arch = "x86_64")]
pub mod avx2 {
    //! The same with 256-bit registers.
    #![expect(unsafe_code, reason = "the scan loop is the hottest of the program: 3 times faster with AVX2")]

    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8,
        _mm256_or_si256, _mm256_set1_epi8, _mm256_sub_epi8,
    };

    use super::{Bytes, Masks};

    /// Must only be used where AVX2 was detected, inside functions compiled for it.
    #[derive(Debug)]
    pub struct Avx2;

    impl Bytes for Avx2 {
        #[inline(always)]
        fn masks(chunk: &[u8; 64]) -> Masks {
            // SAFETY: `Avx2` is used only by `scan_avx2`, which runs only after AVX2 was detected.
            unsafe { masks(chunk) }
        }

        #[inline(always)]
        fn string_stops(chunk: &[u8; 32]) -> u32 {
            // SAFETY: as above.
            unsafe { string_stops(chunk) }
        }

        #[inline(always)]
        fn n_digits(chunk: &[u8; 32]) -> usize {
            // SAFETY: as above.
            unsafe { n_digits(chunk) }
        }

        #[inline(always)]
        fn n_spaces(chunk: &[u8; 32]) -> usize {
            // SAFETY: as above.
            unsafe { n_spaces(chunk) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(chunk: &[u8; 32]) -> __m256i {
        // SAFETY: the array is 32 bytes long, and this load needs no alignment.
        unsafe { _mm256_loadu_si256(chunk.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn equal(bytes: __m256i, byte: u8) -> __m256i {
        _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte as i8))
    }

    /// Bytes that are at most `limit`, unsigned.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn at_most(bytes: __m256i, limit: u8) -> __m256i {
        _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, _mm256_set1_epi8(limit as i8)), bytes)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn bits(low: __m256i, high: __m256i) -> u64 {
        let [low, high] = [low, high].map(|half| u64::from(_mm256_movemask_epi8(half) as u32));
        low | high << 32
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn half_masks(bytes: __m256i) -> [__m256i; 5] {
        // Bit 0x20 maps `[` to `{`, `]` to `}`, and upper case to lower case.
        let folded = _mm256_or_si256(bytes, _mm256_set1_epi8(0x20));
        let letters = at_most(_mm256_sub_epi8(folded, _mm256_set1_epi8(b'a' as i8)), 25);
        // Folding maps no other byte to a letter, but bit 7 must be clear.
        let ascii = at_most(bytes, 0x7f);
        [
            equal(bytes, b'"'),
            equal(bytes, b'\\'),
            _mm256_or_si256(equal(folded, b'{'), equal(folded, b'}')),
            _mm256_and_si256(letters, ascii),
            at_most(bytes, 0x1f),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn masks(chunk: &[u8; 64]) -> Masks {
        let (halves, _) = chunk.as_chunks::<32>();
        let (low, high) = (half_masks(load(&halves[0])), half_masks(load(&halves[1])));
        Masks {
            quote: bits(low[0], high[0]),
            backslash: bits(low[1], high[1]),
            bracket: bits(low[2], high[2]),
            letter: bits(low[3], high[3]),
            control: bits(low[4], high[4]),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn string_stops(chunk: &[u8; 32]) -> u32 {
        let bytes = load(chunk);
        let marks = _mm256_or_si256(equal(bytes, b'"'), equal(bytes, b'\\'));
        _mm256_movemask_epi8(_mm256_or_si256(marks, at_most(bytes, 0x1f))) as u32
    }

    /// The length of the run of set bytes at the start.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn run(set: __m256i) -> usize {
        (_mm256_movemask_epi8(set) as u32).trailing_ones() as usize
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn n_digits(chunk: &[u8; 32]) -> usize {
        run(at_most(_mm256_sub_epi8(load(chunk), _mm256_set1_epi8(b'0' as i8)), 9))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn n_spaces(chunk: &[u8; 32]) -> usize {
        let bytes = load(chunk);
        let breaks = _mm256_or_si256(equal(bytes, b'\n'), equal(bytes, b'\r'));
        run(_mm256_or_si256(_mm256_or_si256(equal(bytes, b' '), equal(bytes, b'\t')), breaks))
    }

    #[cfg(test)]
    mod tests {
        use super::super::Portable;
        use super::*;

        #[test]
        fn both_ways_agree_on_every_byte() {
            if !std::arch::is_x86_feature_detected!("avx2") {
                return;
            }
            for first in 0..=255_u8 {
                let chunk: [u8; 64] = std::array::from_fn(|i| first.wrapping_add((i * 37) as u8));
                assert_eq!(Avx2::masks(&chunk), Portable::masks(&chunk));
                let half: &[u8; 32] = chunk.first_chunk().unwrap();
                assert_eq!(Avx2::string_stops(half), Portable::string_stops(half));
            }
            for (run, n) in [b' ', b'\n', b'\t', b'\r', b'0', b'7', b'9', 0, 0x0b, b'/', b':', 0x80, 0xb0]
                .into_iter()
                .flat_map(|byte| [0, 1, 7, 31, 32].map(|n| (byte, n)))
            {
                let chunk: [u8; 32] = std::array::from_fn(|i| if i < n { run } else { b'x' });
                assert_eq!(Avx2::n_digits(&chunk), Portable::n_digits(&chunk), "{n} of {run}");
                assert_eq!(Avx2::n_spaces(&chunk), Portable::n_spaces(&chunk), "{n} of {run}");
                let is_digit = run.is_ascii_digit();
                assert_eq!(Portable::n_digits(&chunk), if is_digit { n } else { 0 }, "{n} of {run}");
            }
        }
    }
}

/// Bytes that are escaped by a preceding backslash.
///
/// `carry`: whether the first byte is escaped by the last byte of the previous chunk.
#[inline(always)]
pub fn escaped(backslash: u64, carry: &mut bool) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let backslash = backslash & !u64::from(*carry);
    let follows = backslash << 1 | u64::from(*carry);
    // In a run of backslashes every second one is itself escaped; adding carries through the run
    // and yields, from the parity of the run's start, which byte after it is escaped.
    let odd_starts = backslash & !EVEN & !follows;
    let (runs, overflow) = odd_starts.overflowing_add(backslash);
    *carry = overflow;
    (EVEN ^ (runs << 1)) & follows
}

/// Bit `i` of the result is the parity of bits `0..=i`: 1 between quotes.
#[inline(always)]
pub fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_a_slow_walk() {
        let mut seed = 7_u64;
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let bits = seed & (seed >> 17) | (seed >> 40);
            for start in [false, true] {
                let mut carry = start;
                let fast = escaped(bits, &mut carry);
                let (mut slow, mut is_escaped) = (0_u64, start);
                for i in 0..64 {
                    let here = is_escaped;
                    slow |= u64::from(here) << i;
                    is_escaped = !here && bits >> i & 1 == 1;
                }
                assert_eq!((fast, carry), (slow, is_escaped), "{bits:064b}");
            }
        }
    }

    #[test]
    fn parity() {
        assert_eq!(prefix_xor(0b1001_0010), 0b1000_1110 | (u64::MAX << 8));
        assert_eq!(prefix_xor(0), 0);
    }
}
