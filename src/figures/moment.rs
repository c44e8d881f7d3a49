//! Moments as people write them.

use crate::model::TimeNs;

const UNITS: [(&str, i128); 8] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ns", 1),
];
/// More digits after the point are below a nanosecond of any unit.
const MAX_DIGITS: usize = 18;

/// The moment that a text says, in nanoseconds: `1.25 s`, `350ms`, `1 h 05 min 02.5 s`, `-1,234,567 ns`. Exact: what is
/// less than a nanosecond is cut off. `None` if it is no time.
///
/// * `unit`: that of a number alone.
pub fn parse(text: &str, unit: &str) -> Option<TimeNs> {
    let text = text.trim();
    let (text, sign) = text.strip_prefix(['-', '\u{2212}']).map_or((text, 1), |rest| (rest, -1));
    let mut rest = text.trim_start();
    let (mut sum, mut above) = (0_i128, i128::MAX);
    loop {
        let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let after = after.trim_start();
        let (word, after) = after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
        // Of several numbers each has its unit.
        let word = if word.is_empty() && number.len() == text.len() { unit } else { word };
        let factor = UNITS.iter().find(|known| word.eq_ignore_ascii_case(known.0))?.1;
        if factor >= above {
            return None;
        }
        above = factor;
        sum = sum.checked_add(scaled(number, factor)?)?;
        rest = after.trim_start();
        if rest.is_empty() {
            return TimeNs::try_from(sign * sum).ok();
        }
    }
}

/// A decimal number times `factor`. Commas may part thousands, and nothing else: in `1,25` it is not known what they
/// mean.
fn scaled(number: &str, factor: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let has_groups = whole.contains(',');
    if (has_groups && !(1..=3).contains(&first.len())) || groups.any(|group| group.len() != 3) {
        return None;
    }
    let whole = whole.replace(',', "");
    if whole.is_empty() && fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(MAX_DIGITS)];
    let integer = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
    let part = integer(fraction)?.checked_mul(factor)? / 10_i128.pow(fraction.len() as u32);
    integer(&whole)?.checked_mul(factor)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::format;

    #[test]
    fn moments_are_read_exactly() {
        let cases = [
            ("1.25 s", 1_250_000_000),
            ("350ms", 350_000_000),
            ("1.25", 1_250_000),
            (" 12,503 ", 12_503_000_000),
            ("-1,234,567 ns", -1_234_567),
            ("1 h 05 min 02.5 s", 3_902_500_000_000),
            ("2 US", 2_000),
            ("0.1 µs", 100),
            (".5 s", 500_000_000),
            ("9007199.254740993 s", 9_007_199_254_740_993),
            ("0.9999999999999999999999 ns", 0),
        ];
        for (text, ns) in cases {
            assert_eq!(parse(text, "ms"), Some(ns), "{text}");
        }
        for ns in [0, 999, 1_234_567, 59_999_999_999, 3_600_000_000_001, -7_530_500_000_000] {
            assert_eq!(parse(&format::moment(ns, 1), "s"), Some(ns), "as the ruler writes it");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        let not = ["", "-", "s", "1.2.3 s", "1,25 s", "1 5 s", "5 s 3 s", "1e3 s", "3 px", ".", "1 s 5", "9e99"];
        for text in not.into_iter().chain(["99999999999999 h", "١ s"]) {
            assert_eq!(parse(text, "ms"), None, "{text}");
        }
    }
}
