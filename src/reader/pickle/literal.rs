//! Values that protocols 0 and 1 write as text.

/// A whole number in decimal digits; one beyond 128 bits becomes the nearest.
pub fn int(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(if text.starts_with('-') { i128::MIN } else { i128::MAX }))
}

pub fn float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// A whole number in little-endian two's complement; one beyond 128 bits becomes the nearest.
pub fn long(bytes: &[u8]) -> i128 {
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let filler = if is_negative { 0xff } else { 0 };
    let mut wide = [filler; 16];
    for (to, from) in wide.iter_mut().zip(bytes) {
        *to = *from;
    }
    let fits = bytes.iter().skip(16).all(|&byte| byte == filler) && (wide[15] & 0x80 != 0) == is_negative;
    match (fits, is_negative) {
        (true, _) => i128::from_le_bytes(wide),
        (false, true) => i128::MIN,
        (false, false) => i128::MAX,
    }
}

/// A string between quotes, with Python's escapes.
pub fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let quote = *text.first().filter(|byte| matches!(byte, b'\'' | b'"'))?;
    let inner = text[1..].strip_suffix(&[quote])?;
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&escape, after) = rest.split_first()?;
        rest = after;
        let number = |digits: &[u8], radix| u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok();
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'x' => {
                out.push(number(rest.get(..2)?, 16)? as u8);
                rest = &rest[2..];
            }
            b'0'..=b'7' => {
                let more = rest.iter().take(2).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let digits = &inner[inner.len() - rest.len() - 1..inner.len() - rest.len() + more];
                out.push(number(digits, 8)? as u8);
                rest = &rest[more..];
            }
            other => out.push(other),
        }
    }
    Some(out)
}

/// A text in Python's raw-unicode-escape: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
pub fn raw_unicode(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let len = match (byte, after.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => 0,
        };
        let code = after.get(1..=len).filter(|_| len > 0).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                rest = &after[1 + len..];
            }
            None => {
                out.push(char::from(byte));
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length() {
        assert_eq!((int(b"-12"), int(b"1x"), int(b"")), (Some(-12), None, None));
        assert_eq!(int(&[b'9'; 60]), Some(i128::MAX));
        assert_eq!((long(&[]), long(&[0xff]), long(&[0xff, 0])), (0, -1, 255));
        assert_eq!(long(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]), u64::MAX.into());
        assert_eq!((long(&[1; 17]), long(&[0x81; 17])), (i128::MAX, i128::MIN));
        assert_eq!(long(&[[0xff_u8; 16].as_slice(), &[0]].concat()), i128::MAX);
        assert_eq!(float(b"1.5e3"), Some(1500.0));
    }

    #[test]
    fn texts_with_escapes() {
        assert_eq!(quoted(br"'a\'b\n\x41\101\0'").unwrap(), b"a'b\nAA\0");
        assert_eq!(quoted(br#""x""#).unwrap(), b"x");
        assert_eq!((quoted(b"'x"), quoted(b"'\\'"), quoted(b"'\\x4'"), quoted(b"")), (None, None, None, None));
        assert_eq!(raw_unicode(b"a\\u20ac\xe9\\U0001F600\\x\\u12"), "a\u{20ac}\u{e9}\u{1F600}\\x\\u12");
    }
}
