//! Fuzzy matching of typed text against names.

/// The match score of `query` in `text`, higher is better; `None` if its letters do not occur in order.
///
/// Case does not count. Letters that start a word or follow one another weigh more, so that `zf`
/// finds "Zoom to fit" before "Size of". An empty query matches everything.
///
/// Cost: O(text · query); both are short.
pub fn score(query: &str, text: &str) -> Option<i32> {
    const FOLLOWS: i32 = 8;
    const STARTS_WORD: i32 = 10;
    let text: Vec<char> = text.chars().collect();
    let mut total = 0;
    let mut from = 0;
    for wanted in query.chars().filter(|c| !c.is_whitespace()) {
        let is_wanted = |&i: &usize| text[i].to_lowercase().eq(wanted.to_lowercase());
        let starts_word = |i: usize| i == 0 || !text[i - 1].is_alphanumeric();
        let next = (from..text.len()).find(is_wanted)?;
        let at = match from > 0 && next == from {
            true => next,
            // Prefer the start of a later word to the middle of this one.
            false => (from..text.len()).filter(is_wanted).find(|&i| starts_word(i)).unwrap_or(next),
        };
        total += 1;
        total += if starts_word(at) { STARTS_WORD } else { 0 };
        total += if from > 0 && at == from { FOLLOWS } else { 0 };
        from = at + 1;
    }
    // Of equal matches the shorter name wins.
    Some(total * 64 - text.len().min(63) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best<'a>(query: &str, names: &[&'a str]) -> Option<&'a str> {
        let scored = names.iter().filter_map(|name| Some((score(query, name)?, *name)));
        scored.max_by_key(|scored| scored.0).map(|scored| scored.1)
    }

    #[test]
    fn starts_of_words_win() {
        let names = ["Size of things", "Zoom to fit", "Zoom out", "Fizz"];
        assert_eq!(best("zf", &names), Some("Zoom to fit"));
        assert_eq!(best("zo", &names), Some("Zoom out"));
        assert_eq!(best("ZOOM FIT", &names), Some("Zoom to fit"));
        assert_eq!(best("xyz", &names), None);
    }

    #[test]
    fn an_empty_query_matches_everything() {
        assert!(score("", "anything").is_some());
        assert!(score("", "").is_some());
        assert_eq!(score("a", ""), None);
    }
}
