//! Parses one event strictly, field by field.
//!
//! [`Scanner::event`] fails on anything that is not strict JSON, and [`super::lenient`] then parses that
//! event. The strict pass comes first because a lenient parser alone would misread valid files.

use std::borrow::Cow;
use std::marker::PhantomData;

use super::bytes::{Bytes, escaped, prefix_xor};
use super::nest::{Nest, are_escapes_known, are_words_known};
use super::scalar::Time;
use super::text::{escape_len, unescaped};
use super::work::WorkArgs;

/// Zero bytes that must follow the text in its buffer, so that whole chunks can be loaded.
pub const PADDING: usize = 64;

/// The reason why no event was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// The text ends inside the event.
    Short,
    /// Not strict JSON.
    Irregular,
}

/// The fields of one event, as raw text where they are text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    /// First letter of the phase; 0 if there is none.
    pub phase: u8,
    /// The name without its quotes, still escaped.
    pub name: &'a [u8],
    pub category: &'a [u8],
    pub ts: Time,
    pub dur: Time,
    /// As written, without quotes; empty if absent or null.
    pub pid: &'a [u8],
    pub tid: &'a [u8],
    pub id: &'a [u8],
    pub scope: &'a [u8],
    /// The args object with its braces, or an empty text.
    pub args: &'a [u8],
    /// 0 if absent or not a 32-bit number.
    pub correlation: u32,
    pub external: u32,
    pub work: WorkArgs<'a>,
    /// `bp` is `e`: an arrow's end belongs to the slice around it.
    pub binds_enclosing: bool,
    /// A number was written as a string.
    pub has_text_number: bool,
    /// Args are nested too deeply to be shown.
    pub is_deep: bool,
    pub is_empty: bool,
}

/// A cursor over the text of events.
#[derive(Debug)]
pub struct Scanner<'a, B> {
    /// Padded with [`PADDING`] zero bytes after `len`.
    pub text: &'a [u8],
    pub len: usize,
    pub at: usize,
    is_deep: bool,
    /// A key of the event was written with escapes.
    has_escaped_key: bool,
    bytes: PhantomData<B>,
}

impl<'a, B: Bytes> Scanner<'a, B> {
    /// `text` must end in [`PADDING`] zero bytes that are not part of it.
    #[inline(always)]
    pub fn new(text: &'a [u8], at: usize) -> Self {
        let len = text.len().saturating_sub(PADDING);
        Self { text, len, at, is_deep: false, has_escaped_key: false, bytes: PhantomData }
    }

    #[inline(always)]
    pub fn byte(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    #[inline(always)]
    pub fn fail<T>(&self) -> Result<T, Fail> {
        Err(if self.at >= self.len { Fail::Short } else { Fail::Irregular })
    }

    /// The bytes from `at` on; `None` close to the end of the padding.
    #[inline(always)]
    pub fn chunk<const N: usize>(&self, at: usize) -> Option<&'a [u8; N]> {
        self.text.get(at..).and_then(|rest| rest.first_chunk())
    }

    #[inline(always)]
    pub fn n_digits(&self, at: usize) -> usize {
        self.chunk(at).map_or(0, B::n_digits)
    }

    #[inline(always)]
    pub fn skip_space(&mut self) {
        // No space or a single one in most places; else a line break with its indentation.
        self.at += usize::from(self.byte() == b' ');
        while self.byte() <= b' ' {
            let n = self.chunk(self.at).map_or(0, B::n_spaces);
            self.at += n;
            if n < 32 {
                return;
            }
        }
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Result<(), Fail> {
        if self.byte() != byte {
            return self.fail();
        }
        self.at += 1;
        Ok(())
    }

    /// The contents of the string that starts here.
    #[inline(always)]
    pub fn string(&mut self) -> Result<&'a [u8], Fail> {
        self.quoted::<false>()
    }

    #[inline(always)]
    fn quoted<const IS_KEY: bool>(&mut self) -> Result<&'a [u8], Fail> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let Some(chunk) = self.chunk(self.at) else {
                self.at = self.len;
                return Err(Fail::Short);
            };
            let stops = B::string_stops(chunk);
            if stops == 0 {
                self.at += 32;
                continue;
            }
            self.at += stops.trailing_zeros() as usize;
            match self.byte() {
                b'"' => {
                    self.at += 1;
                    return self.text.get(start..self.at - 1).ok_or(Fail::Irregular);
                }
                b'\\' => {
                    self.has_escaped_key |= IS_KEY;
                    self.escape()?;
                }
                _ => return self.fail(),
            }
        }
    }

    /// The key of a member; moves to its value.
    #[inline(always)]
    pub fn key(&mut self) -> Result<&'a [u8], Fail> {
        let key = self.quoted::<true>()?;
        if self.chunk(self.at) == Some(b": ") {
            self.at += 2;
        } else {
            self.skip_space();
            self.expect(b':')?;
        }
        if self.byte() <= b' ' {
            self.skip_space();
        }
        Ok(key)
    }

    #[inline(never)]
    fn escape(&mut self) -> Result<(), Fail> {
        let len = escape_len(&self.text[self.at.min(self.len)..]);
        if self.at + len.unwrap_or(2).max(6) > self.len && len.is_none() {
            self.at = self.len;
        }
        let Some(len) = len else { return self.fail() };
        self.at += len;
        Ok(())
    }

    #[inline(always)]
    pub fn skip_value(&mut self) -> Result<(), Fail> {
        match self.byte() {
            b'"' => self.string().map(drop),
            b'{' | b'[' => self.skip_container(),
            _ => self.scalar().map(drop),
        }
    }

    /// Skips the object or array that starts here, checking that brackets match, that strings
    /// have no raw control characters and that words outside strings are JSON's.
    #[inline(always)]
    pub fn skip_container(&mut self) -> Result<(), Fail> {
        let mut nest = Nest::default();
        let mut in_string = 0_u64;
        let mut escape_carry = false;
        let mut in_word = false;
        loop {
            let Some(chunk) = self.chunk::<64>(self.at) else {
                self.at = self.len;
                return Err(Fail::Short);
            };
            let masks = B::masks(chunk);
            let escapes = match masks.backslash != 0 || escape_carry {
                true => escaped(masks.backslash, &mut escape_carry),
                false => 0,
            };
            let inside = prefix_xor(masks.quote & !escapes) ^ in_string;
            let end = nest.walk(chunk, masks.bracket & !inside)?;
            let seen = end.map_or(u64::MAX, |end| u64::MAX >> (63 - end));
            let words = masks.letter & !inside & seen;
            let rest = &self.text[self.at..];
            if words != 0 && !are_words_known(rest, words, in_word)
                || masks.control & inside & seen != 0
                || escapes & inside & seen != 0 && !are_escapes_known(rest, escapes & inside & seen)
            {
                // Bytes after the end of the text are padding, not control characters of the text.
                return Err(if self.at + 64 > self.len { self.cut_or_irregular() } else { Fail::Irregular });
            }
            if let Some(end) = end {
                self.at += end as usize + 1;
                self.is_deep |= nest.was_deep;
                return Ok(());
            }
            in_string = ((inside as i64) >> 63) as u64;
            in_word = words >> 63 == 1;
            self.at += 64;
        }
    }

    /// Classifies an irregular last chunk: cut off, if more text may complete it, else irregular.
    #[inline(never)]
    fn cut_or_irregular(&mut self) -> Fail {
        self.at = self.len;
        Fail::Short
    }

    /// The event that starts here, at its `{`. After an error the position is undefined.
    #[inline(always)]
    pub fn event(&mut self) -> Result<Event<'a>, Fail> {
        let start = self.at;
        self.has_escaped_key = false;
        let event = self.event_with::<false>();
        if self.has_escaped_key { self.unescaped_event(start) } else { event }
    }

    /// The event at `start`, whose keys are compared as what they stand for.
    #[cold]
    #[inline(never)]
    fn unescaped_event(&mut self, start: usize) -> Result<Event<'a>, Fail> {
        self.at = start;
        self.event_with::<true>()
    }

    #[inline(always)]
    fn event_with<const UNESCAPES: bool>(&mut self) -> Result<Event<'a>, Fail> {
        let mut event = Event::default();
        self.is_deep = false;
        self.expect(b'{')?;
        self.skip_space();
        if self.byte() == b'}' {
            self.at += 1;
            event.is_empty = true;
            return Ok(event);
        }
        loop {
            let raw = self.key()?;
            let plain = if UNESCAPES { unescaped(raw) } else { Cow::Borrowed(raw) };
            match &*plain {
                b"ph" => event.phase = first_byte(self.text_value()?),
                b"cat" => event.category = self.text_value()?,
                b"name" => event.name = self.text_value()?,
                b"pid" => event.pid = self.plain()?,
                b"tid" => event.tid = self.plain()?,
                b"ts" => event.ts = self.time(&mut event.has_text_number)?,
                b"dur" => event.dur = self.time(&mut event.has_text_number)?,
                b"args" if self.byte() == b'{' => self.args::<UNESCAPES>(&mut event)?,
                b"id" | b"id2" => event.id = self.id()?,
                b"scope" => event.scope = self.text_value()?,
                b"bp" => event.binds_enclosing = first_byte(self.text_value()?) == b'e',
                _ => self.skip_value()?,
            }
            if !self.goes_on()? {
                break;
            }
        }
        if self.at > self.len {
            return Err(Fail::Short);
        }
        event.is_deep = self.is_deep;
        Ok(event)
    }

    /// After a member of an object: whether another follows. Consumes the comma or the brace.
    #[inline(always)]
    pub fn goes_on(&mut self) -> Result<bool, Fail> {
        if self.chunk(self.at) == Some(b", \"") {
            self.at += 2;
            return Ok(true);
        }
        self.skip_space();
        match self.byte() {
            b',' => {
                self.at += 1;
                self.skip_space();
                Ok(true)
            }
            b'}' => {
                self.at += 1;
                Ok(false)
            }
            _ => self.fail(),
        }
    }

    #[inline(always)]
    fn id(&mut self) -> Result<&'a [u8], Fail> {
        if self.byte() != b'{' {
            return self.plain();
        }
        let start = self.at;
        self.skip_container()?;
        Ok(&self.text[start..self.at])
    }

    #[inline(always)]
    fn args<const UNESCAPES: bool>(&mut self, event: &mut Event<'a>) -> Result<(), Fail> {
        let start = self.at;
        (event.correlation, event.external, event.work) = (0, 0, WorkArgs::default());
        self.at += 1;
        self.skip_space();
        let mut is_open = self.byte() != b'}';
        self.at += usize::from(!is_open);
        while is_open {
            let raw = self.key()?;
            let plain = if UNESCAPES { unescaped(raw) } else { Cow::Borrowed(raw) };
            match &*plain {
                b"correlation" => event.correlation = self.small_number()?,
                b"External id" | b"external id" => event.external = self.small_number()?,
                _ => {
                    let start = self.at;
                    self.skip_value()?;
                    if let Some(raw) = event.work.slot(&plain) {
                        *raw = self.text.get(start..self.at).unwrap_or_default();
                    }
                }
            }
            is_open = self.goes_on()?;
        }
        event.args = self.text.get(start..self.at).unwrap_or_default();
        Ok(())
    }
}

/// The first byte of a text of one letter, such as a phase; 0 if it is empty.
#[inline(always)]
pub fn first_byte(raw: &[u8]) -> u8 {
    match raw.first() {
        Some(b'\\') => unescaped(raw).first().copied().unwrap_or(0),
        first => first.copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Portable;
    use super::*;

    fn padded(text: &str) -> Vec<u8> {
        [text.as_bytes(), &[0; PADDING]].concat()
    }

    fn fail(text: &str) -> Option<Fail> {
        let text = padded(text);
        Scanner::<Portable>::new(&text, 0).event().err()
    }

    #[test]
    fn fields_are_found_in_any_order() {
        let text = padded(
            r#"{ "args": {"stream": 7, "External id": 12, "correlation": "9", "a": [[1, {"b": "]}"}], true, -1e5]},
            "ph": "X", "name": "a \"b\" \u00e9", "dur": 2, "ts" : "1.5", "tid": -1, "pid": null, "cat":"kernel" } ,"#,
        );
        let mut scanner = Scanner::<Portable>::new(&text, 0);
        let event = scanner.event().unwrap();
        assert_eq!((event.phase, event.correlation, event.external), (b'X', 9, 12));
        assert_eq!((event.ts, event.dur), (Time::Ns(1500), Time::Ns(2000)));
        assert_eq!(event.name, br#"a \"b\" \u00e9"#);
        assert_eq!((event.pid, event.tid), (&b""[..], &b"-1"[..]));
        assert!(event.has_text_number && event.args.starts_with(b"{\"stream\"") && event.args.ends_with(b"-1e5]}"));
        assert_eq!(&text[scanner.at..scanner.at + 2], b" ,");
    }

    #[test]
    fn what_is_not_json_is_irregular() {
        for text in [
            r#"{"name": "a"b"}"#,
            "{\"name\": \"a\nb\"}",
            r#"{"name": "\c"}"#,
            r#"{"args": {"a": [NaN]}}  "#,
            r#"{"args": {"a": [-nan, 1]}}  "#,
            r#"{"args": {"a": NaN}}"#,
            r#"{"args": {"a": [1}]}}"#,
            r#"{"ts": Infinity}"#,
            r#"{"ts": 01}"#,
            r#"{"ts": 1,}"#,
            r#"{"args": {"a": 1,}}"#,
            r#"{"ts": 1 "dur": 2}"#,
            r#"{ts: 1}"#,
        ] {
            let long = format!("{text}{}", " ".repeat(80));
            assert_eq!(fail(&long), Some(Fail::Irregular), "{text}");
        }
    }

    #[test]
    fn a_cut_event_is_short_wherever_it_is_cut() {
        let text =
            r#"{"ph": "X", "name": "a\u00e9\\", "ts": 12.5, "args": {"k": [1, {"s": "x\"]"}, true], "n": null}}"#;
        assert_eq!(fail(text), None);
        for end in 0..text.len() {
            assert_eq!(fail(&text[..end]), Some(Fail::Short), "{}", &text[..end]);
        }
    }

    #[test]
    fn deep_args_are_skipped_without_recursion() {
        let text = format!("{{\"args\": {{\"a\": {}{}}}}}", "{\"a\":[".repeat(100_000), "]}".repeat(100_000));
        let text = padded(&text.replace("[]", "[1]"));
        assert!(Scanner::<Portable>::new(&text, 0).event().unwrap().is_deep);
    }
}
