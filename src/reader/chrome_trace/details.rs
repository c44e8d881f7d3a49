//! Args and stack of one event, decoded from the file on demand.

use std::collections::VecDeque;
use std::io::Read as _;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::model::{Details, EventDetails, TimeNs};

use super::super::source::Source;
use super::bytes::Portable;
use super::lenient;
use super::profile::{Frame, Profile};
use super::scan::{Fail, PADDING, Scanner};
use super::text::unescape;
use super::walk::MAX_EVENT;

/// Number of cached text windows of [`WINDOW`] bytes: the next event shown is often near the last.
const MAX_WINDOWS: usize = 8;
const WINDOW: usize = 4 << 20;

/// Rereads single events of one file.
#[derive(Debug)]
pub struct ChromeDetails {
    source: Source,
    /// The frames that events and samples refer to.
    profile: Profile,
    /// (offset, text), newest last.
    windows: Mutex<VecDeque<(u64, Vec<u8>)>>,
}

impl ChromeDetails {
    pub fn new(source: Source, mut profile: Profile) -> Self {
        profile.samples = Vec::new();
        Self { source, profile, windows: Mutex::default() }
    }

    /// Text from `offset` on, at least `len` bytes unless the file ends first.
    fn text_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, String> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        for (start, text) in windows.iter() {
            let inside = offset.checked_sub(*start).map(|inside| inside as usize);
            if let Some(part) = inside.and_then(|inside| text.get(inside..)).filter(|part| part.len() >= len) {
                return Ok(part[..len].to_vec());
            }
        }
        self.source.check_unchanged()?;
        let reader = self.source.open_at(offset).map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        let wanted = if self.source.layers.is_empty() { len } else { len.max(WINDOW) };
        let read = reader.take(wanted as u64).read_to_end(&mut text).map_err(|error| error.to_string());
        // It may have changed meanwhile.
        self.source.check_unchanged()?;
        read?;
        let part = text[..len.min(text.len())].to_vec();
        if text.len() >= WINDOW {
            windows.push_back((offset, text));
            while windows.len() > MAX_WINDOWS {
                windows.pop_front();
            }
        }
        Ok(part)
    }
}

impl ChromeDetails {
    /// Adds the fields outside the args: stacks, and the fields of a sample.
    fn add_outer(&self, text: &[u8], details: &mut EventDetails) {
        let Ok(Value::Object(event)) = serde_json::from_slice::<Value>(text) else { return };
        let is_sample = !event.contains_key("ph");
        for (key, value) in event {
            match key.as_str() {
                "sf" | "stack" if details.stack.is_empty() => details.stack = self.frames(&value),
                "esf" | "estack" => {
                    details.args.push((format!("{key} (stack at the end)"), self.frames(&value).join(" < ")));
                }
                "name" | "cpu" | "weight" | "comm" if is_sample => {
                    details.args.push((key, value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
                }
                _ => {}
            }
        }
    }

    /// The frames of a stack, innermost first: a list of names, or the id of a frame.
    fn frames(&self, value: &Value) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match value {
            Value::Array(frames) => frames.iter().map(text).collect(),
            id => {
                let name = |frame: Frame| unescape(self.profile.text(frame.name)).into_owned();
                self.profile.frames_from(text(id).as_bytes()).map(name).collect()
            }
        }
    }
}

impl Details for ChromeDetails {
    fn event(&self, source: u64, _: Option<TimeNs>) -> Result<EventDetails, String> {
        let mut len = 16 << 10;
        loop {
            let mut text = self.text_at(source, len)?;
            let is_all = text.len() < len || len > MAX_EVENT;
            text.resize(text.len() + PADDING, 0);
            let mut scanner = Scanner::<Portable>::new(&text, 0);
            match scanner.event() {
                Ok(event) => {
                    let mut details = decode(event.category, event.args);
                    self.add_outer(&text[..scanner.at], &mut details);
                    return Ok(details);
                }
                Err(Fail::Short) if !is_all => len *= 8,
                Err(_) => {
                    let text = &text[..text.len() - PADDING];
                    let end = lenient::next_event_start(text, 1).unwrap_or(text.len());
                    let event = lenient::event(&text[..end], 0).ok_or("The event's text is damaged")?;
                    return Ok(decode(event.0.category, event.0.args));
                }
            }
        }
    }
}

fn decode(category: &[u8], args: &[u8]) -> EventDetails {
    let mut details = EventDetails { category: unescape(category).into_owned(), ..Default::default() };
    match serde_json::from_slice::<Value>(args) {
        Ok(Value::Object(args)) => {
            for (key, value) in args {
                match (key.as_str(), value) {
                    ("Call stack" | "stack" | "Stack", Value::String(stack)) => {
                        details.stack = stack.split([';', '\n']).map(|frame| frame.trim().to_owned()).collect();
                        details.stack.retain(|frame| !frame.is_empty());
                    }
                    (key, _) if key.eq_ignore_ascii_case("env") => {}
                    (key, Value::String(text)) => details.args.push((key.to_owned(), text)),
                    (key, value) => details.args.push((key.to_owned(), value.to_string())),
                }
            }
        }
        _ if args.is_empty() => {}
        _ => details.args.push(("args".to_owned(), String::from_utf8_lossy(args).into_owned())),
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn args_are_shown_as_written() {
        let details =
            decode(b"kernel", br#"{"a": "x\ny", "big": 18446744073709551615, "dims": [[1, 2]], "Call stack": "f;g"}"#);
        let args: Vec<_> = details.args.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(args, [("a", "x\ny"), ("big", "18446744073709551615"), ("dims", "[[1,2]]")]);
        assert_eq!(details.stack, ["f", "g"]);
    }

    #[test]
    fn damaged_args_are_shown_raw() {
        let details = decode(b"", b"{\"a\": NaN}");
        assert_eq!(details.args[0].1, "{\"a\": NaN}");
    }

    #[test]
    fn stacks_beside_the_args_are_shown() {
        let mut profile = Profile::default();
        let frames =
            br#""1": {"name": "main"}, "2": {"name": "f\u00e9", "parent": 1}, "3": {"name": "c", "parent": "3"}"#;
        let text = [&frames[..], &[0; PADDING]].concat();
        let mut at = 0;
        while at < frames.len() {
            at = profile.read_frame(&text, at, 0).unwrap() + 2;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{").unwrap();
        let source = Source::file(file.path()).unwrap();
        let shown = ChromeDetails::new(source, profile);
        let outer = |text: &[u8]| {
            let mut details = EventDetails::default();
            shown.add_outer(text, &mut details);
            details
        };
        let details = outer(br#"{"ph": "X", "name": "n", "sf": 2, "esf": "1"}"#);
        assert_eq!(details.stack, ["fé", "main"]);
        assert_eq!(details.args, [("esf (stack at the end)".to_owned(), "main".to_owned())]);
        assert_eq!(outer(br#"{"ph": "i", "stack": ["0x1", "0x2"]}"#).stack, ["0x1", "0x2"]);
        let sample = outer(br#"{"ts": 1, "weight": 5, "cpu": 0, "name": "cycles", "sf": 9}"#);
        assert_eq!((sample.stack.len(), sample.args.len()), (0, 3));
        // A cycle of frames terminates.
        assert_eq!(outer(br#"{"ph": "i", "sf": 3}"#).stack.len(), super::super::profile::MAX_DEPTH as usize);
    }
}
