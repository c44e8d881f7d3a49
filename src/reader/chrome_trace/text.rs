//! Unescapes JSON strings and replaces damage.

use std::borrow::Cow;

/// Unescapes the contents of a JSON string.
///
/// Never fails. A backslash that does not begin an escape is kept, as in Windows
/// paths that were written without escaping; half a surrogate pair and bytes that are not UTF-8
/// become U+FFFD.
pub fn unescape(raw: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', raw).is_none() {
        return String::from_utf8_lossy(raw);
    }
    let mut out: Vec<u8> = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = unescape_one(&rest[at + 1..], &mut out);
    }
    out.extend_from_slice(rest);
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// The same for keys and short values, of which hardly any has an escape.
pub fn unescaped(raw: &[u8]) -> Cow<'_, [u8]> {
    match memchr::memchr(b'\\', raw) {
        None => Cow::Borrowed(raw),
        Some(_) => Cow::Owned(unescape(raw).into_owned().into_bytes()),
    }
}

/// Unescapes one escape; `rest` starts after its backslash. Returns the text after it.
fn unescape_one<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let plain = match rest.first() {
        Some(b'"') => b'"',
        Some(b'\\') => b'\\',
        Some(b'/') => b'/',
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'u') if hex4(&rest[1..]).is_some() => return unescape_unicode(&rest[1..], out),
        _ => {
            out.push(b'\\');
            return rest;
        }
    };
    out.push(plain);
    &rest[1..]
}

fn unescape_unicode<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (code, len) = code_point(rest);
    let code = code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
    &rest[len..]
}

/// The code point written as `XXXX` or, for a surrogate pair, `XXXX\uXXXX`, and the length of that
/// text. `None` for half a pair.
fn code_point(rest: &[u8]) -> (Option<u32>, usize) {
    let first = hex4(rest).unwrap_or(0xFFFD);
    match first {
        0xD800..0xDC00 => match rest.get(4..6).filter(|text| *text == b"\\u").and_then(|_| hex4(&rest[6..])) {
            Some(second @ 0xDC00..0xE000) => (Some(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)), 10),
            _ => (None, 4),
        },
        0xDC00..0xE000 => (None, 4),
        code => (Some(code), 4),
    }
}

/// The value of the first four bytes as hexadecimal digits.
pub fn hex4(text: &[u8]) -> Option<u32> {
    let digits = text.first_chunk::<4>()?;
    digits.iter().try_fold(0, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))
}

/// The length of the escape at the start of `text`, if it is one.
pub fn escape_len(text: &[u8]) -> Option<usize> {
    match text.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' if hex4(&text[2..]).is_some() => Some(6),
        _ => None,
    }
}

/// Whether unescaping `raw` replaces anything.
pub fn is_damaged(raw: &[u8]) -> bool {
    if std::str::from_utf8(raw).is_err() {
        return true;
    }
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        rest = &rest[at + 1..];
        if rest.first() == Some(&b'u') {
            let (code, len) = code_point(&rest[1..]);
            if code.is_none() {
                return true;
            }
            rest = rest.get(1 + len..).unwrap_or_default();
        } else {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_as_serde_json_does() {
        for text in [r"a\nb", r#"\"q\" \\ \/ \b\f\r\t"#, r"\u00e9 \ud83d\ude00", "plain", r"\u0000"] {
            let expected: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert_eq!(unescape(text.as_bytes()), expected, "{text}");
            assert!(!is_damaged(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn damage_is_replaced_not_lost() {
        assert_eq!(unescape(br"torch\cuda\__init__.py"), r"torch\cuda\__init__.py");
        assert_eq!(unescape(br"\ud800 x"), "\u{fffd} x");
        assert_eq!(unescape(br"\udc00\ud800\u0041"), "\u{fffd}\u{fffd}A");
        assert_eq!(unescape(b"\xf7F0"), "\u{fffd}F0");
        assert_eq!(unescape(br"\u12"), r"\u12");
        assert_eq!(unescape(br"end\"), r"end\");
        assert!(is_damaged(br"\ud800 x") && is_damaged(b"\xff"));
    }
}
