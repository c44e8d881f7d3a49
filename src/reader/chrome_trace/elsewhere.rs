//! Values beside the list of events: where they end, and how many events they hold.

/// How far a value is read; it may go on in the next text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
    met: Met,
    /// Depth of the event that was counted last; 0 outside of it.
    event: u32,
    /// Objects with a phase. Those inside an event are its own.
    pub n_events: u64,
}

/// How much of `"ph": "` comes before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Met {
    #[default]
    Nothing,
    Quote,
    P,
    Ph,
    Key,
    Colon,
    /// In an escape that may stand for the `p`, so many of its bytes behind the backslash.
    EscapedP(usize),
    /// The same for the `h`.
    EscapedH(usize),
}

/// How escapes write `p` and `h`.
const ESCAPED: [[u8; 5]; 2] = [*b"u0070", *b"u0068"];

impl Met {
    /// What a backslash in a string begins.
    fn escape(self) -> Self {
        match self {
            Self::Quote => Self::EscapedP(0),
            Self::P => Self::EscapedH(0),
            _ => Self::Nothing,
        }
    }

    /// Goes on with a byte of an escape.
    fn escaped(self, byte: u8) -> Self {
        match self {
            Self::EscapedP(n) if ESCAPED[0][n] == byte => {
                if n == 4 {
                    Self::P
                } else {
                    Self::EscapedP(n + 1)
                }
            }
            Self::EscapedH(n) if ESCAPED[1][n] == byte => {
                if n == 4 {
                    Self::Ph
                } else {
                    Self::EscapedH(n + 1)
                }
            }
            _ => Self::Nothing,
        }
    }
}

impl Value {
    /// Reads on; returns the end of the value, if it is in this text.
    pub fn end(&mut self, text: &[u8]) -> Option<usize> {
        for (i, &byte) in text.iter().enumerate() {
            self.met = match (byte, self.met) {
                _ if self.is_escaped => {
                    self.is_escaped = false;
                    self.met.escaped(byte)
                }
                (b'\\', met) if self.in_string => {
                    self.is_escaped = true;
                    met.escape()
                }
                (b'0'..=b'9', met @ (Met::EscapedP(_) | Met::EscapedH(_))) => met.escaped(byte),
                (b'"', met) => {
                    self.in_string = !self.in_string;
                    match met {
                        Met::Colon => self.count(),
                        Met::Ph => Met::Key,
                        _ if self.in_string => Met::Quote,
                        _ => Met::Nothing,
                    }
                }
                (b'p', Met::Quote) => Met::P,
                (b'h', Met::P) => Met::Ph,
                _ if self.in_string => Met::Nothing,
                (b':', Met::Key) => Met::Colon,
                (b' ' | b'\t' | b'\n' | b'\r', met) => met,
                (b'{' | b'[', _) => {
                    self.depth += 1;
                    Met::Nothing
                }
                (b'}' | b']', _) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.event = if self.depth < self.event { 0 } else { self.event };
                    Met::Nothing
                }
                _ => Met::Nothing,
            };
            if self.depth == 0 && !self.in_string && matches!(byte, b'}' | b']' | b'"') {
                return Some(i + 1);
            }
        }
        None
    }

    fn count(&mut self) -> Met {
        if self.event == 0 {
            self.event = self.depth;
            self.n_events += 1;
        }
        Met::Nothing
    }
}

/// The number of events in a value that is whole.
pub fn n_events(text: &[u8]) -> u64 {
    let is_in = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    if !is_in(b"\"ph\"") && !is_in(br"\u00") {
        return 0;
    }
    let mut value = Value::default();
    value.end(text);
    value.n_events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_wherever_the_text_is_cut() {
        for (text, n) in [
            (r#"[{"ph":"X","args":{"ph":"X"}},{"name":"\"ph\":\"","ph" : "i"},{"ph":1},"ph"]"#, 2),
            (r#"{"a":{"ph":"B","ph":"B"},"b":[[{"x":"}","ph":"E"}]],"ph\u0020":"X"}"#, 2),
            (r#"["ph","ph",{"alph":"X"}]"#, 0),
            (r#"[{"\u0070h":"X"},{"p\u0068":"X"},{"\u0070\u0068" : "X"},{"\u0070\u0070":"X"},{"\\u0070h":"X"}]"#, 3),
            (r#"[{"\u0070h\u0068":"X"},{"\u007h":"X"},{"\p\h":"X"},{"a\u0070h":"X"}]"#, 0),
            (r#""ph""#, 0),
        ] {
            assert_eq!(n_events(text.as_bytes()), n, "{text}");
            for cut in 0..text.len() {
                let mut value = Value::default();
                assert_eq!(value.end(&text.as_bytes()[..cut]), None, "{text}: {cut}");
                assert_eq!(value.end(&text.as_bytes()[cut..]), Some(text.len() - cut), "{text}: {cut}");
                assert_eq!(value.n_events, n, "{text}: {cut}");
            }
        }
    }
}
