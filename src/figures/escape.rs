//! Escaping of text that leaves the program: for terminals, JSON, CSV, the clipboard, Markdown and HTML.

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

/// The same for texts that are written one per line, such as the frames of a call stack.
pub fn lines<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.map(visible).collect::<Vec<_>>().join("\n")
}

/// JSON text in which those characters are written as `\u` escapes. What it says stays the same.
pub fn visible_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 1);
    let mut units = [0_u16; 2];
    let is_plain = |byte: u8| matches!(byte, b'\n' | b' '..=b'~');
    let mut rest = json;
    // Nearly all of it is plain.
    while let Some(at) = rest.bytes().position(|byte| !is_plain(byte)) {
        let (plain, other) = rest.split_at(at);
        let Some(c) = other.chars().next() else { break };
        rest = &other[c.len_utf8()..];
        out.push_str(plain);
        if !is_hidden(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out + rest
}

/// The text as one cell of CSV (RFC 4180) that no spreadsheet takes for a formula.
pub fn csv_cell(text: &str) -> String {
    // In some languages spreadsheets part cells there.
    let parts: Vec<_> = text.split(';').map(no_formula).collect();
    let text = parts.join(";");
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// The text as one cell of a table that is pasted into a spreadsheet, whose columns are separated by tabs.
pub fn tsv_cell(text: &str) -> String {
    no_formula(&text.replace(['\t', '\n', '\r'], " ")).into_owned()
}

/// The text as a line that no spreadsheet takes for a formula when it is pasted there.
pub fn no_formula(text: &str) -> Cow<'_, str> {
    // Spreadsheets in some languages take the wide and the small forms as well.
    const FORMS: [char; 8] =
        ['\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}', '\u{fe66}', '\u{fe62}', '\u{fe63}', '\u{fe6b}'];
    // A quotation mark would quote what is pasted: it is taken off, and the cell goes on to the next mark.
    let starts = |c: char| matches!(c, '=' | '+' | '-' | '@' | '"') || FORMS.contains(&c);
    match visible(text) {
        visible if text.trim_start_matches(|c: char| c.is_whitespace() || is_hidden(c)).starts_with(starts) => {
            Cow::Owned(format!("'{visible}"))
        }
        visible => visible,
    }
}

/// The text as a part of Markdown that stands for itself.
pub fn markdown(text: &str) -> String {
    visible(text).chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if matches!(c, '\\' | '|' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '#' | '~' | '&') {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

/// The text as a part of an HTML page, or of an attribute there.
pub fn html(text: &str) -> String {
    visible(text).chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
        out
    })
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

    #[test]
    fn cells_are_no_formulas() {
        assert_eq!(csv_cell("=1+1"), "'=1+1");
        assert_eq!(csv_cell(" @SUM(A1), \"x\""), "\"' @SUM(A1), \"\"x\"\"\"");
        assert_eq!(csv_cell("\t=cmd"), r"'\t=cmd");
        assert_eq!(csv_cell("\u{200b}-1"), r"'\u{200b}-1");
        assert_eq!(tsv_cell("\u{ff1d}1"), "'\u{ff1d}1");
        assert_eq!(csv_cell("\u{fe66}1"), "'\u{fe66}1");
        assert_eq!(csv_cell("a; b;=1;\u{ff0b}1,"), "\"a; b;'=1;'\u{ff0b}1,\"");
        assert_eq!(csv_cell("gemm<a, b>"), "\"gemm<a, b>\"");
        assert_eq!(tsv_cell("\"=1+1\""), "'\"=1+1\"");
        assert_eq!(tsv_cell("-a\tb\nc\u{1b}"), r"'-a b c\u{1b}");
        assert_eq!(tsv_cell("plain"), "plain");
    }
}
