//! Decimal text to integer nanoseconds, exactly.

/// The reason why a text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// Not a number, or not a finite one.
    NotANumber,
    /// More than 2^63 nanoseconds (292 years), which no 64-bit clock holds.
    OutOfRange,
}

/// Decimal microseconds to nanoseconds; finer fractions are rounded half away from zero.
///
/// Not via `f64`, whose resolution is a quarter microsecond at current epoch times.
pub fn us_to_ns(text: &[u8]) -> Result<i64, TimeError> {
    let (digits, is_negative) = match text {
        [b'-', rest @ ..] => (rest, true),
        [b'+', rest @ ..] => (rest, false),
        rest => (rest, false),
    };
    let (mantissa, exponent) = match digits.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(at) => (&digits[..at], parse_exponent(&digits[at + 1..])?),
        None => (digits, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|&b| b == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[][..]),
    };
    let mut all = whole.iter().chain(fraction);
    if whole.len() + fraction.len() == 0 || !all.all(u8::is_ascii_digit) {
        return Err(TimeError::NotANumber);
    }
    // The decimal point is this many places from the left of the digits; three more for ns.
    let point = whole.len() as i64 + exponent + 3;
    let mut value = 0_i64;
    let mut seen = 0_i64;
    for &digit in whole.iter().chain(fraction) {
        if seen == point {
            let round_up = i64::from(digit >= b'5');
            value = value.checked_add(round_up).ok_or(TimeError::OutOfRange)?;
            break;
        }
        if seen > point {
            break;
        }
        value = push_digit(value, digit - b'0')?;
        seen += 1;
    }
    while seen < point && value != 0 {
        value = push_digit(value, 0)?;
        seen += 1;
    }
    Ok(if is_negative { -value } else { value })
}

fn push_digit(value: i64, digit: u8) -> Result<i64, TimeError> {
    let value = value.checked_mul(10).and_then(|value| value.checked_add(i64::from(digit)));
    value.ok_or(TimeError::OutOfRange)
}

fn parse_exponent(text: &[u8]) -> Result<i64, TimeError> {
    let text = std::str::from_utf8(text).map_err(|_utf8| TimeError::NotANumber)?;
    match text.parse::<i64>() {
        Ok(exponent) => Ok(exponent.clamp(-1_000_000, 1_000_000)),
        Err(_) => Err(TimeError::NotANumber),
    }
}

/// The number that the first `n` bytes write, 1 to 16 decimal digits.
#[inline(always)]
pub fn from_digits(bytes: &[u8; 16], n: usize) -> u64 {
    debug_assert!((1..=16).contains(&n) && bytes[..n].iter().all(u8::is_ascii_digit), "no digits");
    let (halves, _) = bytes.as_chunks::<8>();
    if n <= 8 {
        return from_eight(halves[0], n);
    }
    from_eight(halves[0], 8) * 10_u64.pow(n as u32 - 8) + from_eight(halves[1], n - 8)
}

/// The same of 1 to 8 digits: pairs of digits are joined, then pairs of those, then both halves.
#[inline(always)]
fn from_eight(bytes: [u8; 8], n: usize) -> u64 {
    // The first digit is the lowest byte. What comes in below it are zeros before the number.
    let digits = (u64::from_le_bytes(bytes) & 0x0f0f_0f0f_0f0f_0f0f) << (64 - 8 * n);
    let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    quads.wrapping_mul(10_000 << 32 | 1) >> 32
}

/// A 32-bit number, or 0.
pub fn number_of(text: &[u8]) -> u32 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Whether `text` is a number as JSON writes it.
pub fn is_json_number(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let n_whole = n_digits(text);
    let mut rest = &text[n_whole..];
    if n_whole == 0 || (n_whole > 1 && text[0] == b'0') {
        return false;
    }
    if let [b'.', fraction @ ..] = rest {
        let n = n_digits(fraction);
        if n == 0 {
            return false;
        }
        rest = &fraction[n..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', digits @ ..] => digits,
            digits => digits,
        };
        let n = n_digits(exponent);
        return n > 0 && n == exponent.len();
    }
    rest.is_empty()
}

fn n_digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<i64, TimeError>) {
        assert_eq!(us_to_ns(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn times_are_exact() {
        check("0", Ok(0));
        check("1", Ok(1000));
        check("1712195495622655.947", Ok(1_712_195_495_622_655_947));
        check("100.5", Ok(100_500));
        check("100.50", Ok(100_500));
        check("-0.001", Ok(-1));
        check(".5", Ok(500));
        check("0.0004", Ok(0));
        check("0.0005", Ok(1));
        check("0.00051", Ok(1));
        check("1.9999999", Ok(2000));
        check("1.5e3", Ok(1_500_000));
        check("15E-1", Ok(1500));
        check("9.4e15", Err(TimeError::OutOfRange));
        check("1e400", Err(TimeError::OutOfRange));
        check("0e400", Ok(0));
        check("1e-400", Ok(0));
        check("9223372036854775.807", Ok(i64::MAX));
        check("9223372036854775.808", Err(TimeError::OutOfRange));
    }

    #[test]
    fn other_text_is_not_a_time() {
        for text in ["", "-", ".", "100a", "NaN", "Infinity", "-1.-23", "1e", "1.2.3", "0x10", "null"] {
            check(text, Err(TimeError::NotANumber));
        }
    }

    #[test]
    fn json_numbers() {
        for text in ["0", "-0", "1.5", "10", "1e5", "1E-5", "-1.25e+10"] {
            assert!(is_json_number(text.as_bytes()), "{text}");
        }
        for text in ["", "-", "01", "1.", ".5", "+1", "1e", "NaN", "1a", "1 "] {
            assert!(!is_json_number(text.as_bytes()), "{text}");
        }
    }
}
