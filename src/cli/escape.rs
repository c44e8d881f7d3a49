//! How does text from a file reach a terminal without commanding it?

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character would act on the terminal or reorder the text around it instead of being
/// seen: control characters, and the marks that set the direction of writing.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The text with every such character written out, `\u{1b}` for example.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().fold(String::with_capacity(text.len() + 8), |mut out, c| {
        if is_hidden(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    }))
}

/// JSON text in which those characters are written as `\u` escapes. What it says stays the same.
pub fn visible_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0_u16; 2];
    for c in json.chars() {
        if is_hidden(c) && c != '\n' {
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_commands_and_direction_marks_are_written_out() {
        assert_eq!(visible("plain ‚é ラクーナ‘"), "plain ‚é ラクーナ‘");
        assert_eq!(visible("a\u{1b}[2Jb\u{202e}c\n\u{9b}d"), r"a\u{1b}[2Jb\u{202e}c\n\u{9b}d");
    }

    #[test]
    fn json_says_the_same_after_escaping() {
        let text = "a\u{1b}b\u{202e}c\u{9b}\u{7f}";
        let json = visible_json(&serde_json::to_string_pretty(&[text]).unwrap());
        assert!(!json.chars().any(|c| is_hidden(c) && c != '\n'), "{json}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [text]);
    }
}
