//! Parses strings as texts, numbers, words and times, strictly.

use super::bytes::Bytes;
use super::number::{TimeError, from_digits, is_json_number, number_of, us_to_ns};
use super::scan::{Fail, Scanner};
use super::text::unescaped;

/// A time field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    #[default]
    Absent,
    Ns(i64),
    Bad(TimeError),
}

impl<'a, B: Bytes> Scanner<'a, B> {
    /// The token of a number or a word that starts here.
    #[inline(always)]
    fn token(&mut self) -> &'a [u8] {
        let start = self.at;
        while !matches!(self.byte(), b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' | b':' | b'"' | b'{' | b'[' | 0)
        {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Whether so many digits are a number, without zeros before it.
    #[inline(always)]
    fn is_whole(&self, start: usize, n_digits: usize) -> bool {
        n_digits == 1 || (n_digits > 1 && self.text[start] != b'0')
    }

    /// A number or word, checked.
    #[inline(always)]
    pub fn scalar(&mut self) -> Result<&'a [u8], Fail> {
        let start = self.at;
        let n_digits = self.n_digits(start);
        if self.is_whole(start, n_digits) {
            self.at += n_digits;
            let n_decimals = if self.byte() == b'.' { self.n_digits(self.at + 1) } else { 0 };
            self.at += if n_decimals == 0 { 0 } else { 1 + n_decimals };
            if matches!(self.byte(), b',' | b'}' | b']' | b'\n' | b' ') {
                return Ok(&self.text[start..self.at]);
            }
        }
        self.at = start;
        self.odd_scalar()
    }

    #[inline(never)]
    fn odd_scalar(&mut self) -> Result<&'a [u8], Fail> {
        let start = self.at;
        let token = self.token();
        let is_known = matches!(token, b"true" | b"false" | b"null") || is_json_number(token);
        if self.at < self.len && is_known {
            return Ok(token);
        }
        if self.at < self.len {
            self.at = start;
        }
        self.fail()
    }

    /// A string or scalar as plain text; null is empty.
    #[inline(always)]
    pub fn plain(&mut self) -> Result<&'a [u8], Fail> {
        if self.byte() == b'"' {
            return self.string();
        }
        let token = self.scalar()?;
        Ok(if token == b"null" { b"" } else { token })
    }

    /// The contents of a string; any other value is skipped and yields an empty text.
    #[inline(always)]
    pub fn text_value(&mut self) -> Result<&'a [u8], Fail> {
        if self.byte() == b'"' {
            return self.string();
        }
        self.skip_value()?;
        Ok(b"")
    }

    #[inline(always)]
    pub fn time(&mut self, has_text_number: &mut bool) -> Result<Time, Fail> {
        /// The largest number of microseconds that fits, in nanoseconds, into 63 bits.
        const MAX_US: u64 = 9_223_372_036_854_774;
        let start = self.at;
        let n_digits = self.n_digits(start);
        if n_digits <= 16 && self.is_whole(start, n_digits) {
            let us = self.chunk(start).map_or(u64::MAX, |digits| from_digits(digits, n_digits));
            self.at += n_digits;
            let mut ns = 0;
            if self.byte() == b'.' {
                let n_decimals = self.n_digits(self.at + 1);
                match self.chunk::<4>(self.at) {
                    Some([_, a, b, c]) if n_decimals == 3 => ns = decimals([*a, *b, *c]),
                    Some([_, a, b, _]) if n_decimals == 2 => ns = decimals([*a, *b, b'0']),
                    Some([_, a, ..]) if n_decimals == 1 => ns = decimals([*a, b'0', b'0']),
                    _ => return self.odd_time_at(start, has_text_number),
                }
                self.at += 1 + n_decimals;
            }
            if us <= MAX_US && matches!(self.byte(), b',' | b'}' | b'\n' | b' ') {
                return Ok(Time::Ns(us as i64 * 1000 + ns));
            }
        }
        self.odd_time_at(start, has_text_number)
    }

    #[inline(never)]
    fn odd_time_at(&mut self, start: usize, has_text_number: &mut bool) -> Result<Time, Fail> {
        self.at = start;
        if self.byte() == b'"' {
            *has_text_number = true;
            return Ok(time_of(&unescaped(self.string()?)));
        }
        let token = self.scalar()?;
        Ok(if token == b"null" { Time::Absent } else { time_of(token) })
    }

    /// A 32-bit number, also as a string; 0 for any other value.
    #[inline(always)]
    pub fn small_number(&mut self) -> Result<u32, Fail> {
        let start = self.at;
        let n_digits = self.n_digits(start);
        if n_digits <= 10 && self.is_whole(start, n_digits) {
            self.at += n_digits;
            if matches!(self.byte(), b',' | b'}' | b'\n' | b' ') {
                let value = self.chunk(start).map_or(0, |digits| from_digits(digits, n_digits));
                return Ok(u32::try_from(value).unwrap_or(0));
            }
        }
        self.at = start;
        if matches!(self.byte(), b'{' | b'[') {
            self.skip_container()?;
            return Ok(0);
        }
        Ok(number_of(&unescaped(self.plain()?)))
    }
}

/// Thousandths in three digits.
#[inline(always)]
fn decimals(digits: [u8; 3]) -> i64 {
    let [a, b, c] = digits.map(|digit| i64::from(digit - b'0'));
    a * 100 + b * 10 + c
}

/// Microseconds in text to a time.
pub fn time_of(text: &[u8]) -> Time {
    match us_to_ns(text) {
        Ok(ns) => Time::Ns(ns),
        Err(error) => Time::Bad(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Portable;
    use super::super::scan::PADDING;
    use super::*;

    #[test]
    fn numbers_are_those_of_the_slow_way() {
        for n_whole in 1..=20 {
            for decimals in ["", ".5", ".07", ".123", ".1239", "e3", "."] {
                for first in ["1", "9", "0", "-4"] {
                    let number = format!("{first}{}{decimals}", &"92233720368547758079"[1..n_whole]);
                    let text = [number.as_bytes(), b"}", &[0; PADDING]].concat();
                    let is_json = is_json_number(number.as_bytes());
                    let mut scanner = Scanner::<Portable>::new(&text, 0);
                    let time = scanner.time(&mut false).ok();
                    assert_eq!(time, is_json.then(|| time_of(number.as_bytes())), "{number}");
                    assert!(time.is_none() || scanner.at == number.len(), "{number}");
                    let found = Scanner::<Portable>::new(&text, 0).scalar().ok();
                    assert_eq!(found, is_json.then_some(number.as_bytes()), "{number}");
                    let small = Scanner::<Portable>::new(&text, 0).small_number().ok();
                    assert_eq!(small, is_json.then(|| number_of(number.as_bytes())), "{number}");
                }
            }
        }
    }
}
