//! The order of names in which numbers sort by value, and letters whatever their case.

use std::cmp::Ordering;

/// A name that sorts before another if its first difference is smaller; where both have a number there, by its value:
/// `step 9` before `step 10`. The case of a letter (of ASCII) is a difference only where nothing else is: `memcpy`
/// before `Memset`. Equal only if all characters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Natural<T>(pub T);

impl<T: AsRef<str> + Eq> Ord for Natural<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.0.as_ref(), other.0.as_ref());
        by_value(a.as_bytes(), b.as_bytes()).then_with(|| a.cmp(b))
    }
}

impl<T: AsRef<str> + Eq> PartialOrd for Natural<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn by_value<'a>(mut a: &'a [u8], mut b: &'a [u8]) -> Ordering {
    loop {
        let same = same_start(a, b);
        // A number that both begin with may go on in one of them.
        let digits = a[..same].iter().rev().take_while(|c| c.is_ascii_digit()).count();
        (a, b) = (&a[same - digits..], &b[same - digits..]);
        let is_number = |text: &[u8]| text.first().is_some_and(u8::is_ascii_digit);
        if !(is_number(a) && is_number(b)) {
            let first = |text: &[u8]| text.first().map(u8::to_ascii_lowercase);
            return first(a).cmp(&first(b));
        }
        let [(number_a, after_a), (number_b, after_b)] = [number(a), number(b)];
        let order = number_a.len().cmp(&number_b.len()).then_with(|| number_a.cmp(number_b));
        if order.is_ne() {
            return order;
        }
        (a, b) = (after_a, after_b);
    }
}

/// How many bytes two texts have in common at their start, but for the case of letters. Names of one recording often
/// differ late, or not at all.
fn same_start(a: &[u8], b: &[u8]) -> usize {
    const CHUNK: usize = 16;
    let is_same = |(a, b): &(&[u8], &[u8])| a == b || a.eq_ignore_ascii_case(b);
    let n_chunks = a.chunks_exact(CHUNK).zip(b.chunks_exact(CHUNK)).take_while(is_same).count();
    let start = n_chunks * CHUNK;
    start + a[start..].iter().zip(&b[start..]).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
}

/// The digits that a text begins with, without leading zeros, and what follows.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len());
    let zeros = text[..end].iter().take_while(|&&c| c == b'0').count();
    (&text[zeros..end], &text[end..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_sort_by_value_wherever_they_stand() {
        let sorted = ["", "1", "2", "10", "a", "a01", "a1", "a1b", "a2", "a10", "a10b3", "a10b12", "b", "é9"];
        for pair in sorted.windows(2) {
            assert_eq!(Natural(pair[0]).cmp(&Natural(pair[1])), Ordering::Less, "{pair:?}");
        }
        assert_eq!(Natural("kernel of a long name 0128").cmp(&Natural("kernel of a long name 129")), Ordering::Less);
        assert_eq!(Natural("x01y02").cmp(&Natural("x1y10")), Ordering::Less);
    }

    #[test]
    fn the_case_of_letters_decides_last() {
        let sorted = [
            "_start",
            "cudaFree",
            "cudaMemcpy",
            "cudamemcpy",
            "cudaMemset",
            "read 2",
            "Read 10",
            "write",
            "Zeta_of_more_than_a_chunk_1",
            "zeta_of_MORE_than_a_chunk_2",
        ];
        for pair in sorted.windows(2) {
            assert_eq!(Natural(pair[0]).cmp(&Natural(pair[1])), Ordering::Less, "{pair:?}");
        }
        let long = ["99999999999999999999999999999998", "99999999999999999999999999999999"];
        assert_eq!(Natural(long[0]).cmp(&Natural(long[1])), Ordering::Less);
    }

    /// The names as they are read: characters, and numbers by their values.
    fn words(name: &str) -> Vec<(u8, u128)> {
        let mut words: Vec<(u8, u128)> = Vec::new();
        let mut is_in_number = false;
        for c in name.bytes() {
            match words.last_mut().filter(|_| is_in_number && c.is_ascii_digit()) {
                Some((_, value)) => *value = *value * 10 + u128::from(c - b'0'),
                // All numbers sort alike beside characters.
                None if c.is_ascii_digit() => words.push((b'0', u128::from(c - b'0'))),
                None => words.push((c.to_ascii_lowercase(), 0)),
            }
            is_in_number = c.is_ascii_digit();
        }
        words
    }

    proptest! {
        #[test]
        fn names_sort_as_they_are_read(start in "[aAb]{0,20}", a in "[abB0-2]{0,7}", b in "[abB0-2]{0,7}") {
            let [a, b] = [a, b].map(|end| format!("{start}{end}"));
            let expected = words(&a).cmp(&words(&b)).then_with(|| a.cmp(&b));
            prop_assert_eq!(Natural(&a).cmp(&Natural(&b)), expected);
        }

        #[test]
        fn it_is_an_order(names in prop::collection::vec("[aAb0-2]{0,5}", 3)) {
            let [a, b, c] = [0, 1, 2].map(|i| Natural(names[i].as_str()));
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
            prop_assert!(!(a.cmp(&b).is_le() && b.cmp(&c).is_le()) || a.cmp(&c).is_le());
        }
    }
}
