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
    let starts_word = |i: usize| i == 0 || !text[i - 1].is_alphanumeric();
    // The best score of the letters so far, by where the last of them stands.
    let mut ends: Option<Vec<Option<i32>>> = None;
    for wanted in query.chars().filter(|c| !c.is_whitespace()) {
        let mut best_before = None;
        let end = |i: usize| {
            let before = match &ends {
                None => Some(0),
                Some(ends) => {
                    let last = i.checked_sub(1).and_then(|last| ends[last]);
                    best_before = best_before.max(last);
                    best_before.max(last.map(|score| score + FOLLOWS))
                }
            };
            let is_wanted = text[i].to_lowercase().eq(wanted.to_lowercase());
            let own = 1 + if starts_word(i) { STARTS_WORD } else { 0 };
            before.filter(|_| is_wanted).map(|before| before + own)
        };
        ends = Some((0..text.len()).map(end).collect());
    }
    let total = ends.map_or(Some(0), |ends| ends.into_iter().flatten().max())?;
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
        // Letters are not given away to an earlier word that lacks the next ones.
        assert_eq!(best("first steps", &["Runs from their first steps"]), Some("Runs from their first steps"));
    }

    #[test]
    fn an_empty_query_matches_everything() {
        assert!(score("", "anything").is_some());
        assert!(score("", "").is_some());
        assert_eq!(score("a", ""), None);
    }
}
