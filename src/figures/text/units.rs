//! Numbers that stay beside their units where a text wraps.

const NO_BREAK: char = '\u{a0}';
/// Units that follow a number and a space.
const UNITS: [&str; 26] = [
    "%", "ns", "µs", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "kB", "KB", "MB", "GB", "TB", "KB/s",
    "MB/s", "GB/s", "TB/s", "GiB/s", "W", "°C", "MHz", "GHz",
];

/// A sentence with a no-break space between each number and its unit, for texts on screen that may wrap: `40.0 %`.
/// Cost: O(length).
pub fn unbroken(text: &str) -> String {
    between_units(text, ' ', NO_BREAK)
}

/// The sentence again from what [`unbroken`] made of it.
pub fn breakable(text: &str) -> String {
    between_units(text, NO_BREAK, ' ')
}

/// A text with `to` in the place of each `from` between a number and its unit.
fn between_units(text: &str, from: char, to: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, after) = (&rest[..at], &rest[at + from.len_utf8()..]);
        let end = after.find(|c: char| !(c.is_alphabetic() || "%°/".contains(c))).unwrap_or(after.len());
        let is_of_unit = before.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&&after[..end]);
        out.push_str(before);
        out.push(if is_of_unit { to } else { from });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_beside_their_units() {
        let same =
            ["", " ", "stream 7 runs", "in 4 steps", "1 section", "2 hits", "40%", "name ms", "7 ", "a  b", "5 %x"];
        for text in same {
            assert_eq!(unbroken(text), text);
        }
        let plain = "Idle 40.0 % of it (1.5 ms), 2 h 05 min: 3 GB/s";
        let whole = "Idle 40.0\u{a0}% of it (1.5\u{a0}ms), 2\u{a0}h 05\u{a0}min: 3\u{a0}GB/s";
        assert_eq!((unbroken(plain).as_str(), breakable(whole).as_str()), (whole, plain));
    }
}
