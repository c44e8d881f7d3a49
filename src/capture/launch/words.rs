//! Command lines as text: split into words as a POSIX shell splits them, and written so that a shell reads them back.
//!
//! Nothing is expanded and nothing is run: variables, patterns, pipes and redirections are plain text here.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The reason why a line has no words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    #[error("A quotation mark is not closed")]
    OpenQuote,
    #[error("A backslash at the end has nothing to quote")]
    OpenBackslash,
    #[error("The escape after $' is not known: write \\n, \\t, \\r, \\\\, \\', \\\" or \\xHH")]
    UnknownEscape,
}

/// A line as a program with its arguments, and what the line puts into the environment before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Assignments before the program, `NAME=value`.
    pub env: Vec<(OsString, OsString)>,
    /// The program and its arguments; empty if there is no program.
    pub argv: Vec<OsString>,
}

/// Splits a line into words, as a shell does it: blanks separate, `'…'` keeps all, `"…"` keeps all but `\` before
/// `"`, `\`, `$` and a backquote, `\` keeps the next character, and `$'…'` knows escapes such as `\n` and `\xff`.
///
/// Errors: a quotation is not closed, or an escape is not known.
pub fn split(line: &str) -> Result<Line, SplitError> {
    let mut words = Words { rest: line.as_bytes(), found: Vec::new() };
    words.run()?;
    let mut split = Line::default();
    for Word { bytes, plain } in words.found {
        match name_end(&bytes).filter(|&at| at < plain && split.argv.is_empty()) {
            Some(at) => split.env.push((text(bytes[..at].to_vec()), text(bytes[at + 1..].to_vec()))),
            None => split.argv.push(text(bytes)),
        }
    }
    Ok(split)
}

/// Name and value of a word `NAME=value`.
pub fn assignment(word: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = bytes(word);
    let at = name_end(&bytes)?;
    Some((text(bytes[..at].to_vec()), text(bytes[at + 1..].to_vec())))
}

/// Where the name ends in `NAME=value`.
fn name_end(word: &[u8]) -> Option<usize> {
    let end = word.iter().position(|&byte| byte == b'=')?;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_name = word[..end].iter().all(is_part) && word.first().is_some_and(|first| !first.is_ascii_digit());
    (is_name && end > 0).then_some(end)
}

struct Word {
    bytes: Vec<u8>,
    /// Bytes at its start that stood there without any quotation.
    plain: usize,
}

struct Words<'a> {
    rest: &'a [u8],
    found: Vec<Word>,
}

impl Words<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn run(&mut self) -> Result<(), SplitError> {
        let mut word: Option<Vec<u8>> = None;
        let mut plain: Option<usize> = None;
        while let Some(byte) = self.next() {
            if byte.is_ascii_whitespace() {
                if let Some(bytes) = word.take() {
                    let plain = plain.take().unwrap_or(bytes.len());
                    self.found.push(Word { bytes, plain });
                }
                continue;
            }
            if byte == b'\\' && self.rest.first() == Some(&b'\n') {
                // The line goes on.
                self.next();
                continue;
            }
            let bytes = word.get_or_insert_default();
            let quotes = matches!(byte, b'\'' | b'"' | b'\\') || (byte == b'$' && self.rest.first() == Some(&b'\''));
            if quotes {
                plain = plain.or(Some(bytes.len()));
            }
            match byte {
                b'\'' => self.until(b'\'', bytes)?,
                b'"' => self.double(bytes)?,
                b'$' if quotes => self.escaped(bytes)?,
                b'\\' => bytes.push(self.next().ok_or(SplitError::OpenBackslash)?),
                other => bytes.push(other),
            }
        }
        if let Some(bytes) = word {
            let plain = plain.unwrap_or(bytes.len());
            self.found.push(Word { bytes, plain });
        }
        Ok(())
    }

    fn until(&mut self, end: u8, bytes: &mut Vec<u8>) -> Result<(), SplitError> {
        loop {
            match self.next().ok_or(SplitError::OpenQuote)? {
                byte if byte == end => return Ok(()),
                byte => bytes.push(byte),
            }
        }
    }

    fn double(&mut self, bytes: &mut Vec<u8>) -> Result<(), SplitError> {
        loop {
            match self.next().ok_or(SplitError::OpenQuote)? {
                b'"' => return Ok(()),
                b'\\' => match self.next().ok_or(SplitError::OpenQuote)? {
                    b'\n' => {}
                    kept @ (b'"' | b'\\' | b'$' | b'`') => bytes.push(kept),
                    other => bytes.extend([b'\\', other]),
                },
                byte => bytes.push(byte),
            }
        }
    }

    /// The text of `$'…'`, its `$` already taken.
    fn escaped(&mut self, bytes: &mut Vec<u8>) -> Result<(), SplitError> {
        self.next();
        loop {
            let byte = self.next().ok_or(SplitError::OpenQuote)?;
            bytes.push(match byte {
                b'\'' => return Ok(()),
                b'\\' => match self.next().ok_or(SplitError::OpenQuote)? {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    kept @ (b'\\' | b'\'' | b'"') => kept,
                    b'x' => {
                        let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
                        let (high, low) = (digit(self.next()), digit(self.next()));
                        let code = high.zip(low).map(|(high, low)| high * 16 + low);
                        code.and_then(|code| u8::try_from(code).ok()).ok_or(SplitError::UnknownEscape)?
                    }
                    _ => return Err(SplitError::UnknownEscape),
                },
                byte => byte,
            });
        }
    }
}

/// Words as one line that [`split`] and a shell read back exactly, whatever bytes they hold.
pub fn joined<T: AsRef<OsStr>>(words: impl IntoIterator<Item = T>) -> String {
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// One word in that form, quoted only where it needs to be.
pub fn quoted(word: &OsStr) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+,:@%=".contains(c);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_plain) && !text.contains('=') => text.to_owned(),
        // An option with its value reads better bare; an assignment must not look like one.
        Some(text) if text.starts_with('-') && text.chars().all(is_plain) => text.to_owned(),
        Some(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => ansi(&bytes(word)),
    }
}

/// A path as text that [`path`] reads back exactly: as it is where nothing in it needs escapes.
pub fn path_text(path: &Path) -> String {
    let is_plain = |text: &&str| !text.starts_with("$'") && text.trim() == *text && !text.chars().any(char::is_control);
    let bytes = || ansi(&bytes(path.as_os_str()));
    path.to_str().filter(is_plain).map_or_else(bytes, str::to_owned)
}

/// The path that a text stands for: the text itself, or `$'…'` with escapes such as `\xff`.
///
/// Errors: the quotation is not closed, or an escape is not known.
pub fn path(text: &str) -> Result<PathBuf, SplitError> {
    if !text.starts_with("$'") {
        return Ok(PathBuf::from(text));
    }
    let words = split(text)?.argv;
    Ok(<[OsString; 1]>::try_from(words).map_or_else(|_| PathBuf::from(text), |[path]| PathBuf::from(path)))
}

/// `$'…'` with an escape for each byte that is not printable ASCII.
fn ansi(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = "$'".to_owned();
    for &byte in bytes {
        match byte {
            b'\n' => text.push_str(r"\n"),
            b'\t' => text.push_str(r"\t"),
            b'\r' => text.push_str(r"\r"),
            b'\\' | b'\'' => text.extend(['\\', byte as char]),
            b' '..=b'~' => text.push(byte as char),
            other => _ = write!(text, "\\x{other:02x}"),
        }
    }
    text.push('\'');
    text
}

#[cfg(unix)]
fn bytes(word: &OsStr) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(word).to_vec()
}

#[cfg(not(unix))]
fn bytes(word: &OsStr) -> Vec<u8> {
    word.to_string_lossy().into_owned().into_bytes()
}

#[cfg(unix)]
fn text(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn text(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap().argv.iter().map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn quotes_and_backslashes_are_those_of_a_shell() {
        assert_eq!(words("python3  train.py\t--lr 1e-3"), ["python3", "train.py", "--lr", "1e-3"]);
        assert_eq!(words(r#"a 'b c' "d e" f\ g '' "" x'y'"z""#), ["a", "b c", "d e", "f g", "", "", "xyz"]);
        assert_eq!(words(r#""\"\\\$\`\n" '\n' \n"#), ["\"\\$`\\n", "\\n", "n"]);
        assert_eq!(words("a \\\n b"), ["a", "b"]);
        assert_eq!(
            words(r"echo $HOME *.py | cat > x; y && $'a\x41\n'"),
            ["echo", "$HOME", "*.py", "|", "cat", ">", "x;", "y", "&&", "aA\n"]
        );
        assert_eq!(split("'a"), Err(SplitError::OpenQuote));
        assert_eq!(split("a\\"), Err(SplitError::OpenBackslash));
        assert_eq!(split(r"$'\q'"), Err(SplitError::UnknownEscape));
        assert_eq!(split("  \n"), Ok(Line::default()));
    }

    #[test]
    fn assignments_before_the_program_are_of_the_environment() {
        let line = split(r#"NCCL_DEBUG=INFO A='x y' _b= python t.py --lr=3 C=4"#).unwrap();
        let env: Vec<_> =
            line.env.iter().map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap())).collect();
        assert_eq!(env, [("NCCL_DEBUG", "INFO"), ("A", "x y"), ("_b", "")]);
        assert_eq!(line.argv, ["python", "t.py", "--lr=3", "C=4"]);
        // A quoted name and one that begins with a digit are not names.
        for program in [r#""A"=1"#, r"A\=1", "1A=2", "=3", "A-B=4"] {
            let line = split(program).unwrap();
            assert_eq!((line.env.len(), line.argv.len()), (0, 1), "{program}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn words_are_written_so_that_a_shell_reads_them_back() {
        use std::os::unix::ffi::OsStrExt as _;
        let hostile: [&[u8]; 9] =
            [b"a b", b"it's", b"\"", b"$HOME", b"new\nline", b"\xff\xfe/x", b"", b"A=1", b"\\`!#~*?[]{}()<>|&;\x07"];
        let hostile = hostile.map(OsStr::from_bytes);
        let line = joined(hostile);
        assert_eq!(split(&line).unwrap().argv, hostile);
        // Where bash is not there, `sh` may not know `$'…'`.
        let said = std::process::Command::new("bash").arg("-c").arg(format!("printf '%s\\0' {line}")).output();
        if let Ok(said) = said {
            assert_eq!(said.stdout, [hostile.map(OsStr::as_bytes).join(&0), vec![0]].concat(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_words_come_back(words in prop::collection::vec(any::<Vec<u8>>(), 0..5)) {
            let words: Vec<OsString> = words.into_iter().map(text).collect();
            let line = split(&joined(&words)).unwrap();
            prop_assert!(line.env.is_empty());
            prop_assert_eq!(line.argv, words);
        }

        #[test]
        fn any_path_comes_back(bytes in any::<Vec<u8>>(), quote in any::<bool>()) {
            let start = if quote { "$'" } else { "" };
            let path = PathBuf::from(text([start.as_bytes(), &bytes].concat()));
            prop_assert_eq!(super::path(&path_text(&path)).unwrap(), path);
        }

        #[test]
        fn no_line_breaks_the_splitter(line in any::<String>()) {
            if let Ok(split) = split(&line) {
                prop_assert!(split.argv.len() + split.env.len() <= line.len());
            }
        }
    }
}
