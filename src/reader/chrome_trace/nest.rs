//! Validates a skipped object or array: matching brackets, literals, escapes.

use super::scan::Fail;
use super::text::hex4;

/// Deeper args are not validated.
const MAX_DEPTH: u32 = 100;

/// The open brackets.
#[derive(Debug, Default)]
pub struct Nest {
    depth: u32,
    /// One bit a level, 1 for braces; levels beyond [`MAX_DEPTH`] are only counted.
    kinds: u128,
    /// Whether the depth exceeded [`MAX_DEPTH`].
    pub was_deep: bool,
}

impl Nest {
    /// Tracks the brackets of a chunk; returns the position of the outermost closing bracket.
    #[inline(always)]
    pub fn walk(&mut self, chunk: &[u8; 64], mut brackets: u64) -> Result<Option<u32>, Fail> {
        while brackets != 0 {
            let at = brackets.trailing_zeros();
            brackets &= brackets - 1;
            let byte = chunk[at as usize];
            let is_brace = byte & 0x20 != 0;
            // `{` and `[` have bits 1 and 0 set, `}` and `]` differ in bit 1.
            if byte & 2 != 0 {
                self.depth += 1;
                if self.depth <= MAX_DEPTH {
                    self.kinds = self.kinds << 1 | u128::from(is_brace);
                } else {
                    self.was_deep = true;
                }
                continue;
            }
            if self.depth <= MAX_DEPTH {
                if (self.kinds & 1 == 1) != is_brace {
                    return Err(Fail::Irregular);
                }
                self.kinds >>= 1;
            }
            self.depth -= 1;
            if self.depth == 0 {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

/// Whether the letters outside strings belong to `true`, `false`, `null` or an exponent.
#[inline(never)]
pub fn are_words_known(rest: &[u8], words: u64, mut in_word: bool) -> bool {
    let mut at = 0;
    while at < 64 {
        let is_letter = words >> at & 1 == 1;
        if is_letter && !in_word {
            let word = &rest[at..];
            let is_known = word.starts_with(b"true")
                || word.starts_with(b"false")
                || word.starts_with(b"null")
                || matches!(word, [b'e' | b'E', b'0'..=b'9' | b'+' | b'-', ..]);
            if !is_known {
                return false;
            }
        }
        in_word = is_letter;
        at += 1;
    }
    true
}

/// Whether the escaped bytes form valid JSON escapes.
#[inline(never)]
pub fn are_escapes_known(rest: &[u8], mut escapes: u64) -> bool {
    while escapes != 0 {
        let at = escapes.trailing_zeros() as usize;
        escapes &= escapes - 1;
        let is_known = match rest[at] {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => true,
            b'u' => hex4(&rest[at + 1..]).is_some(),
            _ => false,
        };
        if !is_known {
            return false;
        }
    }
    true
}
