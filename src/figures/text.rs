//! Names from a file as the screen shows them: short enough, and without hidden characters.

use std::borrow::Cow;

/// What memory of the host is called instead of by the index of a device.
pub const HOST: &str = "host";

/// The longest name that reaches the screen, in characters.
pub const MAX_CHARS: usize = 256;

/// A name from a file, fit for the screen: at most [`MAX_CHARS`] characters, with control and
/// direction marks made visible, so that no name can look like another or break a line.
pub fn display_name(name: &str) -> Cow<'_, str> {
    // A cheap look at the bytes: nearly every name is short plain text.
    if name.len() <= MAX_CHARS && name.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len().min(4 * MAX_CHARS));
    for (n, c) in name.chars().enumerate() {
        if n == MAX_CHARS {
            out.push('…');
            break;
        }
        out.push(visible(c));
    }
    Cow::Owned(out)
}

/// The same in at most `max` characters, `…` not counted.
pub fn display_name_within(name: &str, max: usize) -> String {
    let shown = display_name(name);
    match shown.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", shown[..end].trim_end()),
        None => shown.into_owned(),
    }
}

/// Marks that every font has.
fn visible(c: char) -> char {
    match c {
        '\n' => '¶',
        '\t' => '»',
        // Other controls, and all that reorders, joins or hides its neighbors.
        c if c.is_control() => '¤',
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => '¤',
        c => c,
    }
}

/// The function's own name in a C++ signature, without return type, scopes, template and call
/// arguments: `gemm` of `void ns::gemm<float>(int)`. Other names are returned as they are.
pub fn function_name(signature: &str) -> &str {
    const ANONYMOUS: &str = "(anonymous namespace)::";
    let scoped = signature.rsplit_once(ANONYMOUS).map_or(signature, |(_, rest)| rest);
    let without_args = scoped.split(['<', '(']).next().unwrap_or(scoped);
    let words = without_args.trim_end().rsplit([' ', ':']).next().unwrap_or_default();
    if words.is_empty() { signature } else { words }
}

/// A frame in few letters: `forward (model.py:12)` of `forward (/home/me/model.py:12)`.
pub fn short_frame(frame: &str) -> String {
    let Some((name, place)) = frame.rsplit_once(" (") else { return frame.to_owned() };
    let file = place.rsplit(['/', '\\']).next().unwrap_or(place);
    format!("{name} ({file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_not_copied() {
        assert!(matches!(display_name("aten::mm"), Cow::Borrowed("aten::mm")));
        assert_eq!(display_name("größe 大"), "größe 大");
    }

    #[test]
    fn marks_become_visible_and_long_names_are_cut() {
        assert_eq!(display_name("a\nb\u{202e}c\0"), "a¶b¤c¤");
        let cut = display_name(&"é".repeat(1000)).into_owned();
        assert_eq!(cut.chars().count(), MAX_CHARS + 1);
        assert!(cut.ends_with('…'));
    }

    #[test]
    fn functions_are_found_in_their_signatures() {
        let cases = [
            (
                "void at::native::vectorized_elementwise_kernel<4, Add<float>>(int, Add<float>)",
                "vectorized_elementwise_kernel",
            ),
            ("void at::native::(anonymous namespace)::softmax<float>(float*)", "softmax"),
            ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
            ("<lambda>", "<lambda>"),
            ("", ""),
        ];
        for (signature, expected) in cases {
            assert_eq!(function_name(signature), expected);
        }
    }

    #[test]
    fn cut_names_say_so() {
        assert_eq!(display_name_within("größe", 5), "größe");
        assert_eq!(display_name_within("größe", 3), "grö…");
        assert_eq!(display_name_within("a b", 2), "a…");
    }

    #[test]
    fn frames_are_cut_to_the_name_of_their_file() {
        assert_eq!(short_frame("forward (/home/me/model.py:9)"), "forward (model.py:9)");
        assert_eq!(short_frame("?? (C:\\a\\b.py:1)"), "?? (b.py:1)");
        assert_eq!(short_frame("odd"), "odd");
    }
}
