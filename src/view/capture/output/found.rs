//! Where a line has a text, in upper or lower case.

use std::ops::Range;

/// Whether a line has this text, which is in lower case.
pub fn is_in(line: &str, text: &str) -> bool {
    line.to_lowercase().contains(text)
}

/// The places in bytes where a line has this text, which is in lower case; they do not overlap.
pub fn found_in(line: &str, text: &str) -> Vec<Range<usize>> {
    if text.is_empty() {
        return Vec::new();
    }
    let lower = line.to_lowercase();
    // A letter may have more bytes in lower case than as it stands, or fewer.
    let ends = line.char_indices().scan(0, |end, (at, c)| {
        *end += c.to_lowercase().map(char::len_utf8).sum::<usize>();
        Some((*end, at..at + c.len_utf8()))
    });
    let ends: Vec<(usize, Range<usize>)> = ends.collect();
    let place = |found: (usize, &str)| {
        let first = ends.partition_point(|(end, _)| *end <= found.0);
        let last = ends.partition_point(|(end, _)| *end < found.0 + found.1.len());
        Some(ends.get(first)?.1.start..ends.get(last)?.1.end)
    };
    let mut places: Vec<Range<usize>> = lower.match_indices(text).filter_map(place).collect();
    // Two may share a letter that is two in lower case.
    places.dedup_by(|a, b| a.start < b.end);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_where_it_stands_whatever_its_case() {
        let of = |line: &'static str, text: &str| -> Vec<&'static str> {
            found_in(line, text).into_iter().map(|range| &line[range]).collect()
        };
        assert_eq!(of("Step 3: LOSS=2, loss=1", "loss"), ["LOSS", "loss"]);
        assert_eq!(of("ÄÖÜ ß", "öü"), ["ÖÜ"]);
        // In lower case İ is two characters, and the Kelvin sign K is one byte.
        assert_eq!(of("İİx \u{212a}1", "k1"), ["\u{212a}1"]);
        assert_eq!(of("İİx", "x"), ["x"]);
        assert_eq!(of("aaa", "aa"), ["aa"]);
        assert!(of("abc", "").is_empty() && of("", "a").is_empty());
    }
}
