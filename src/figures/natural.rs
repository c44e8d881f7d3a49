//! The order of names in which numbers sort by value.

use std::cmp::Ordering;

/// A name that sorts before another if its first difference is smaller; where both have a number there, by its value:
/// `step 9` before `step 10`. Equal only if all characters are.
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
    while let ([first, rest_a @ ..], [second, rest_b @ ..]) = (a, b) {
        if !(first.is_ascii_digit() && second.is_ascii_digit()) {
            if first != second {
                return first.cmp(second);
            }
            (a, b) = (rest_a, rest_b);
            continue;
        }
        let [(number_a, after_a), (number_b, after_b)] = [number(a), number(b)];
        let order = number_a.len().cmp(&number_b.len()).then_with(|| number_a.cmp(number_b));
        if order.is_ne() {
            return order;
        }
        (a, b) = (after_a, after_b);
    }
    a.len().cmp(&b.len())
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
        let long = ["99999999999999999999999999999998", "99999999999999999999999999999999"];
        assert_eq!(Natural(long[0]).cmp(&Natural(long[1])), Ordering::Less);
    }

    proptest! {
        #[test]
        fn it_is_an_order(names in prop::collection::vec("[a0-2]{0,5}", 3)) {
            let [a, b, c] = [0, 1, 2].map(|i| Natural(names[i].as_str()));
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
            prop_assert!(!(a.cmp(&b).is_le() && b.cmp(&c).is_le()) || a.cmp(&c).is_le());
        }
    }
}
