//! Parses the text outside the events: the top-level object, its other keys, further documents, and damage.

use super::bytes::Portable;
use super::elsewhere::{self, Value};
use super::lenient;
use super::profile::Profile;
use super::scan::{Fail, PADDING, Scanner};
use super::text::unescaped;
use super::walk::{MAX_EVENT, MIN_VAIN, VAIN_FACTOR};

/// Values of the header that are larger than this are not kept.
const MAX_VALUE: usize = 16 << 20;

/// Longest key with what follows it up to its list, which the end of a text may cut.
const MAX_KEY: usize = 32;

/// The top-level contents outside the event arrays.
#[derive(Debug, Default)]
pub struct Document {
    /// Values by key, in file order; the last value of a repeated key.
    pub values: serde_json::Map<String, serde_json::Value>,
    /// Keys with data of other kinds, which is not shown: (key, byte offset).
    pub unread: Vec<(String, u64)>,
    /// Events outside the list of events, and the offset of the first value that holds some.
    pub elsewhere: Option<(u64, u64)>,
    /// Values that are too deep or not valid, and the offset of the first.
    pub unkept: Option<(u64, u64)>,
    /// The samples of a sampling profiler.
    pub profile: Profile,
    /// Offset of each damaged part outside the events.
    pub damaged: Vec<u64>,
    /// Offset of the second and every further array of events.
    pub further_arrays: Vec<u64>,
    /// Trailing bytes outside any document, and their offset.
    pub trailing: Option<(u64, u64)>,
    pub n_arrays: u32,
    /// Events without an enclosing array.
    pub is_lines: bool,
    pub is_array_form: bool,
    /// An object or array is open.
    pub is_open: bool,
    /// So much was scanned in vain that nothing is read any more that is not an event, which is linear in the text.
    pub is_limited: bool,
    /// Bytes that were scanned and are to be scanned again.
    vain: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Between documents.
    #[default]
    Outside,
    InObject,
    /// In damage, before the next event or list of events.
    Lost,
    /// In the list of samples.
    InSamples,
    /// In the object of stack frames.
    InFrames,
    /// In a skipped value, which begins at this offset.
    Skipping(Value, u64),
}

/// What [`Document::feed`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Events start at this position.
    Events(usize),
    /// Everything up to this position is read; pass the rest again with more text appended.
    More(usize),
}

/// Keys whose values are never kept: they hold recorded environments.
const SECRET_KEYS: [&str; 3] = ["env", "environment", "ENVIRONMENT_VARIABLES"];

/// Keys with data of other kinds, which is not shown.
const DATA_KEYS: [&str; 5] =
    ["systemTraceEvents", "powerTraceAsString", "controllerTraceDataKey", "traceAnnotations", "file_info"];

impl Document {
    /// Reads the text between event arrays.
    ///
    /// * `text`: followed by [`PADDING`] zero bytes; `offset`: its position in the file.
    /// * `is_last`: no text follows.
    pub fn feed(&mut self, text: &[u8], offset: u64, is_last: bool) -> Found {
        let len = text.len() - PADDING;
        let mut scanner = Scanner::<Portable>::new(text, 0);
        loop {
            if let State::Skipping(value, start) = self.state {
                scanner.at = self.skip(&text[..len], scanner.at, (value, start));
            }
            scanner.skip_space();
            let at = scanner.at;
            if at >= len {
                return Found::More(len);
            }
            let step = match self.state {
                State::Lost => self.recover(text, at, offset, is_last),
                _ if self.is_limited => self.recover(text, at, offset, is_last),
                State::Outside => self.outside(text, at, offset),
                State::InSamples | State::InFrames => self.in_profile(text, at, offset, is_last),
                _ => self.in_object(text, at, offset, is_last),
            };
            match step {
                Step::To(next) => scanner.at = next,
                Step::Events(start) => return Found::Events(start),
                Step::More => return Found::More(at),
            }
        }
    }

    /// Notes that the event array was closed.
    pub fn close_array(&mut self) {
        if self.state == State::Outside {
            self.is_open = false;
        }
    }

    fn events(&mut self, start: usize, offset: u64) -> Step {
        self.n_arrays += 1;
        if self.n_arrays > 1 {
            self.further_arrays.push(offset + start as u64);
        }
        Step::Events(start)
    }

    fn outside(&mut self, text: &[u8], at: usize, offset: u64) -> Step {
        let len = text.len() - PADDING;
        match text[at] {
            b'[' => {
                self.is_array_form = true;
                self.is_open = true;
                self.events(at + 1, offset)
            }
            b'{' if self.is_bare_event(text, at) => {
                self.is_lines = true;
                self.events(at, offset)
            }
            b'{' => {
                self.is_open = true;
                self.state = State::InObject;
                Step::To(at + 1)
            }
            0xef if offset + at as u64 == 0 && text.starts_with(b"\xef\xbb\xbf") => Step::To(3),
            _ => {
                let next = memchr::memchr2(b'{', b'[', &text[at..len]).map_or(len, |next| at + next);
                count(&mut self.trailing, (next - at) as u64, offset + at as u64);
                Step::To(next)
            }
        }
    }

    fn in_object(&mut self, text: &[u8], at: usize, offset: u64, is_last: bool) -> Step {
        match text[at] {
            b',' => Step::To(at + 1),
            b'}' => {
                self.state = State::Outside;
                self.is_open = false;
                Step::To(at + 1)
            }
            // A stray bracket closed the event list too early.
            b'{' if self.n_arrays > 0 && self.is_bare_event(text, at) => {
                self.damaged.push(offset + at as u64);
                Step::Events(at)
            }
            _ => match self.member(text, at, offset) {
                Ok(step) => step,
                Err(Fail::Short) if text.len() - PADDING - at > MAX_VALUE && find_events(&text[at + 1..]).is_none() => {
                    self.start_skipping(text, at, offset)
                }
                Err(Fail::Short) if !is_last => Step::More,
                Err(_) => self.recover(text, at, offset, is_last),
            },
        }
    }

    /// Whether the object at `at` is an event, as in files of one event a line.
    fn is_bare_event(&mut self, text: &[u8], at: usize) -> bool {
        // Of an object that holds the events, all of them would be read to find its end.
        let mut scanner = Scanner::new(text, at);
        let holds_events = holds_events(&mut scanner).unwrap_or(false);
        let (is_event, n_scanned) = if holds_events { (false, 0) } else { lenient::is_event(text, at) };
        self.vain += if is_event { 0 } else { n_scanned + scanner.at.saturating_sub(at) };
        is_event
    }

    /// Reads one key and its value.
    fn member(&mut self, text: &[u8], at: usize, offset: u64) -> Result<Step, Fail> {
        let (key, value) = key_of(text, at)?;
        match (key.as_str(), text[value]) {
            ("traceEvents", b'[') => return Ok(self.events(value + 1, offset)),
            ("samples", b'[') => {
                self.state = State::InSamples;
                return Ok(Step::To(value + 1));
            }
            ("stackFrames", b'{') => {
                self.state = State::InFrames;
                return Ok(Step::To(value + 1));
            }
            (key, b'{' | b'[') if DATA_KEYS.contains(&key) => {
                self.unread.push((key.to_owned(), offset + at as u64));
                self.state = State::Skipping(Value::default(), offset + at as u64);
                return Ok(Step::To(value));
            }
            _ => {}
        }
        let mut scanner = Scanner::<Portable>::new(text, value);
        let skipped = scanner.skip_value();
        self.vain += if skipped.is_err() { scanner.at.saturating_sub(at) } else { 0 };
        skipped?;
        // A number at the end of the text may be incomplete.
        if scanner.at >= text.len() - PADDING {
            return Err(Fail::Short);
        }
        // With a bracket missing in the header, a value would swallow the events: treat it as damage.
        if self.n_arrays == 0 && find_events(&text[value..scanner.at]).is_some() {
            return Err(Fail::Irregular);
        }
        let found = elsewhere::n_events(&text[value..scanner.at]);
        count(&mut self.elsewhere, found, offset + at as u64);
        if found > 0 && key != "traceEvents" {
            return Ok(Step::To(scanner.at));
        }
        if let Ok(mut value) = serde_json::from_slice(&text[value..scanner.at]) {
            remove_secrets(&mut value);
            if !SECRET_KEYS.contains(&key.as_str()) {
                self.values.insert(key, value);
            }
        } else {
            count(&mut self.unkept, 1, offset + at as u64);
        }
        Ok(Step::To(scanner.at))
    }

    /// Reads one sample or stack frame.
    fn in_profile(&mut self, text: &[u8], at: usize, offset: u64, is_last: bool) -> Step {
        let in_samples = self.state == State::InSamples;
        let read = match (text[at], in_samples) {
            (b',', _) => Ok(at + 1),
            (b']', true) | (b'}', false) => {
                self.state = State::InObject;
                Ok(at + 1)
            }
            (_, true) => self.profile.read_sample(text, at, offset),
            (_, false) => self.profile.read_frame(text, at, offset),
        };
        match read {
            Ok(next) => Step::To(next),
            Err(Fail::Short) if !is_last && text.len() - PADDING - at <= MAX_VALUE => Step::More,
            Err(_) => {
                if in_samples {
                    self.profile.damage(offset + at as u64);
                }
                self.state = State::InObject;
                self.recover(text, at, offset, is_last)
            }
        }
    }

    /// Skips a value that is too large to keep.
    fn start_skipping(&mut self, text: &[u8], at: usize, offset: u64) -> Step {
        let Ok((key, value)) = key_of(text, at) else { return Step::To(text.len() - PADDING) };
        self.unread.push((key, offset + at as u64));
        self.state = State::Skipping(Value::default(), offset + at as u64);
        Step::To(value)
    }

    fn skip(&mut self, text: &[u8], from: usize, (mut value, start): (Value, u64)) -> usize {
        let before = value.n_events;
        let end = value.end(&text[from..]);
        count(&mut self.elsewhere, value.n_events - before, start);
        self.state = if end.is_some() { State::InObject } else { State::Skipping(value, start) };
        end.map_or(text.len(), |end| from + end)
    }

    /// Resumes after damage, at the next list of events or the next event: a stray bracket may have closed the list
    /// too early, or its key may be damaged.
    fn recover(&mut self, text: &[u8], at: usize, offset: u64, is_last: bool) -> Step {
        let len = text.len() - PADDING;
        let rest = &text[..len];
        if self.damaged.is_empty() {
            self.damaged.push(offset + at as u64);
        }
        let event = lenient::next_with_phase(rest, at);
        self.state = if self.is_array_form { State::Outside } else { State::InObject };
        let list = || find_events(&rest[at..event.unwrap_or(len)]);
        if let Some(list) = if self.is_limited { None } else { list() } {
            return Step::To(at + list);
        }
        if let Some(event) = event {
            self.n_arrays = self.n_arrays.max(1);
            let most = VAIN_FACTOR as u64 * (offset + at as u64) + MIN_VAIN as u64;
            self.is_limited |= self.vain as u64 > most;
            return Step::Events(event);
        }
        if is_last {
            // Damage may hide the closing brace: treat the object as closed at the end of the text.
            self.is_open &= !rest.trim_ascii_end().ends_with(b"}");
            return Step::To(len);
        }
        self.state = State::Lost;
        // What seems to be the start of an event may be one once there is more text.
        let start = lenient::last_event_start(rest, at).filter(|start| len - start <= MAX_EVENT);
        match start.unwrap_or(len).min(len.saturating_sub(MAX_KEY)) {
            next if next > at => Step::To(next),
            _ => Step::More,
        }
    }
}

/// Adds to a count, which keeps the first offset.
fn count(counted: &mut Option<(u64, u64)>, n: u64, offset: u64) {
    if n > 0 {
        let (known, first) = counted.unwrap_or((0, offset));
        *counted = Some((known + n, first));
    }
}

enum Step {
    To(usize),
    Events(usize),
    More,
}

/// The key at `at`, and where its value starts.
fn key_of(text: &[u8], at: usize) -> Result<(String, usize), Fail> {
    let mut scanner = Scanner::<Portable>::new(text, at);
    let key = scanner.string()?;
    let key = super::text::unescape(key).into_owned();
    scanner.skip_space();
    scanner.expect(b':')?;
    scanner.skip_space();
    if scanner.at >= text.len() - PADDING {
        return Err(Fail::Short);
    }
    Ok((key, scanner.at))
}

/// Position of the key `traceEvents` with a list as its value.
fn find_events(text: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(text, b"\"traceEvents\"").find(|&at| {
        let rest = text[at + b"\"traceEvents\"".len()..].trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"["))
    })
}

/// Whether the object that begins here has a list of events before it has a phase.
fn holds_events(scanner: &mut Scanner<'_, Portable>) -> Result<bool, Fail> {
    scanner.expect(b'{')?;
    scanner.skip_space();
    loop {
        match &*unescaped(scanner.key()?) {
            b"traceEvents" if scanner.byte() == b'[' => return Ok(true),
            b"ph" => return Ok(false),
            _ => scanner.skip_value()?,
        }
        if !scanner.goes_on()? {
            return Ok(false);
        }
    }
}

/// Removes recorded environments from a value: they contain passwords and tokens.
fn remove_secrets(value: &mut serde_json::Value) {
    // The depth is bounded by what serde_json accepts.
    match value {
        serde_json::Value::Object(map) => {
            map.retain(|key, _| !SECRET_KEYS.contains(&key.as_str()));
            map.values_mut().for_each(remove_secrets);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(remove_secrets),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(document: &mut Document, text: &str) -> Found {
        let padded = [text.as_bytes(), &[0; PADDING]].concat();
        document.feed(&padded, 0, true)
    }

    #[test]
    fn the_header_is_read_and_secrets_are_not() {
        let mut document = Document::default();
        let text = r#"{"a": {"env": {"TOKEN": "x"}, "b": 1}, "env": {"T": 1}, "traceEvents" : [ {"#;
        assert_eq!(feed(&mut document, text), Found::Events(text.len() - 2));
        assert_eq!(serde_json::to_string(&document.values).unwrap(), r#"{"a":{"b":1}}"#);
    }

    #[test]
    fn damage_in_the_header_loses_no_events() {
        let mut document = Document::default();
        let text = r#"{"note": "say /"hi/" now", "traceEvents": [{"#;
        assert_eq!(feed(&mut document, text), Found::Events(text.len() - 1));
        assert_eq!(document.damaged, [16]);
    }

    #[test]
    fn large_data_of_another_kind_is_skipped_across_texts() {
        let mut document = Document::default();
        assert!(matches!(feed(&mut document, r#"{"systemTraceEvents": [{"a": "]\"""#), Found::More(_)));
        let found = feed(&mut document, r#"}], "traceEvents": ["#);
        assert_eq!(found, Found::Events(20));
        assert_eq!(document.unread[0].0, "systemTraceEvents");
    }

    #[test]
    fn events_under_other_keys_are_counted() {
        let mut document = Document::default();
        let text = r#"{"mine": [{"ph":"X","ts":1},{"ph":"X","ts":2}], "x": {"y": [{"ph":"i"}]}, "bad": [01],
            "systemTraceEvents": [{"ph":"X"}], "rank": 3, "traceEvents": ["#;
        assert_eq!(feed(&mut document, text), Found::Events(text.len()));
        let bad = text.find("\"bad\"").unwrap() as u64;
        assert_eq!((document.elsewhere, document.unkept), (Some((4, 1)), Some((1, bad))));
        assert_eq!(document.values.keys().collect::<Vec<_>>(), ["rank"]);
    }

    #[test]
    fn lines_of_events_are_events() {
        let mut document = Document::default();
        assert_eq!(feed(&mut document, "\n{\"ph\":\"X\",\"ts\":1}\n"), Found::Events(1));
        assert!(document.is_lines);
    }
}
