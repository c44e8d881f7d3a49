//! Text of JSON, written straight into bytes.

use std::io::Write as _;

/// Appends a text in quotation marks.
pub fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for char in text.chars() {
        match char {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\u{0}'..='\u{1f}' | '\u{7f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            _ => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

/// Appends nanoseconds as microseconds with three decimals, exactly.
pub fn push_microseconds(out: &mut Vec<u8>, ns: i64) {
    let (micros, rest) = (ns.unsigned_abs() / 1000, ns.unsigned_abs() % 1000);
    let sign = if ns < 0 { "-" } else { "" };
    let _ = write!(out, "{sign}{micros}.{rest:03}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let mut out = Vec::new();
        push_text(&mut out, "a\"\\\n\u{1}µ");
        assert_eq!(String::from_utf8(out).unwrap(), r#""a\"\\\n\u0001µ""#);
    }

    #[test]
    fn times_are_exact() {
        for (ns, expected) in [(0, "0.000"), (1_002_003, "1002.003"), (-7, "-0.007"), (-1_500, "-1.500")] {
            let mut out = Vec::new();
            push_microseconds(&mut out, ns);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
