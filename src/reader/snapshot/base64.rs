//! The pickle inside of `[{"name": "snapshot.pickle", "base64": "..."}]`, as PyTorch's viewer embeds it.

use std::io::{BufRead as _, BufReader, Read};

/// The bytes of the first `"base64"` text of a stream.
pub struct Embedded<R> {
    inner: BufReader<R>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the text.
    Head,
    Text,
    Over,
}

const KEY: &[u8] = b"\"base64\"";

/// The six bits of a base64 character.
fn bits(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

impl<R: Read> Embedded<R> {
    pub fn new(inner: R) -> Self {
        Self { inner: BufReader::with_capacity(256 << 10, inner), state: State::Head }
    }

    fn next(&mut self) -> std::io::Result<Option<u8>> {
        let byte = self.inner.fill_buf()?.first().copied();
        self.inner.consume(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Advances to the first character of the text.
    fn find(&mut self) -> std::io::Result<()> {
        let mut met = 0;
        while met < KEY.len() {
            let Some(byte) = self.next()? else {
                self.state = State::Over;
                return Ok(());
            };
            met = if byte == KEY[met] { met + 1 } else { usize::from(byte == KEY[0]) };
        }
        self.state = State::Over;
        while let Some(byte) = self.next()? {
            if byte == b'"' {
                self.state = State::Text;
                break;
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Embedded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.state == State::Head {
            self.find()?;
        }
        let mut n = 0;
        while self.state == State::Text && n + 3 <= buffer.len() {
            let (mut word, mut met) = (0_u32, 0);
            while met < 4 {
                match self.next()? {
                    Some(b'=' | b'\\' | b'\n' | b'\r') => {}
                    Some(byte) => match bits(byte) {
                        Some(six) => {
                            word = word << 6 | six;
                            met += 1;
                        }
                        None => {
                            self.state = State::Over;
                            break;
                        }
                    },
                    None => {
                        self.state = State::Over;
                        break;
                    }
                }
            }
            let bytes = (word << (6 * (4 - met))).to_be_bytes();
            let len = (met as usize * 6) / 8;
            buffer[n..n + len].copy_from_slice(&bytes[1..=len]);
            n += len;
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_decoded_wherever_it_is_cut() {
        let decode = |text: &str| {
            let mut out = Vec::new();
            Embedded::new(text.as_bytes()).read_to_end(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(decode(r#"[{"name": "a", "base64": "aGVsbG8gd29ybGQ="}]"#), "hello world");
        assert_eq!(decode(r#"[{"base64":"aGVsbG8gd29y"#), "hello wor");
        assert_eq!(decode(r#"[{"base64":"aGVsbG8"}]"#), "hello");
        assert_eq!(decode(r#"[{"base64":"aA=="}]"#), "h");
        assert_eq!(decode(r#"[{"name": 1}]"#), "");
    }
}
