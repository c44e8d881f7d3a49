//! One event that is not strict JSON, read leniently, and the search for the event after it.
//!
//! Repairs quotes, line breaks and other raw control characters inside strings,
//! backslashes that escape nothing, `NaN` and `Infinity`. All of these come from real recorders.

use super::bytes::Portable;
use super::number::number_of;
use super::scalar::{Time, time_of};
use super::scan::{Event, PADDING, Scanner, first_byte};
use super::text::unescaped;
use super::work::WORK_KEYS;

/// The key that every event has.
const PHASE: &[u8] = b"\"ph\"";

/// The same with escapes.
const ESCAPED_PHASES: [&[u8]; 3] = [br#""\u0070h""#, br#""p\u0068""#, br#""\u0070\u0068""#];

/// An event that must be repaired is taken for one only if it is no longer than this.
const WINDOW: usize = 1 << 16;

/// Keys of events; one of them follows the true end of a string value.
const KEYS: [&[u8]; 20] = [
    b"ph",
    b"cat",
    b"name",
    b"pid",
    b"tid",
    b"ts",
    b"dur",
    b"args",
    b"id",
    b"id2",
    b"bp",
    b"s",
    b"tts",
    b"tdur",
    b"sf",
    b"stack",
    b"cname",
    b"scope",
    b"use_async",
    b"esf",
];

/// The likely start of the next event at or after `from`: a `{` after a comma, bracket or brace
/// and before a key that events start with.
pub fn next_event_start(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr::memchr(b'{', text.get(at..)?)?;
        if is_event_start(text, at) {
            return Some(at);
        }
        at += 1;
    }
}

/// Start of the first object at or after `from` whose first key is one that events start with, regardless of
/// the text before it.
pub fn next_keyed_object(text: &[u8], from: usize) -> Option<usize> {
    let starts = |at: &usize| known_key(text, skip_space(text, at + 1)).is_some();
    memchr::memchr_iter(b'{', text.get(from..)?).map(|at| from + at).find(starts)
}

/// Start of the last such object of the text.
pub fn last_keyed_object(text: &[u8]) -> Option<usize> {
    memchr::memrchr_iter(b'{', text).find(|at| known_key(text, skip_space(text, at + 1)).is_some())
}

/// Start of the next event at or after `from` that has a phase before the one after it starts.
pub fn next_with_phase(text: &[u8], from: usize) -> Option<usize> {
    let mut start = next_event_start(text, from)?;
    loop {
        let end = next_event_start(text, start + 1);
        if has_phase(&text[start..end.unwrap_or(text.len())]) {
            return Some(start);
        }
        start = end?;
    }
}

/// The number of events in a text, by what seems to be their starts; the text starts with one.
pub fn count_with_phase(text: &[u8]) -> u64 {
    let (mut n, mut start) = (0, 0);
    loop {
        let end = next_event_start(text, start + 1);
        n += u64::from(has_phase(&text[start..end.unwrap_or(text.len())]));
        let Some(next) = end else { return n };
        start = next;
    }
}

fn has_phase(text: &[u8]) -> bool {
    memchr::memmem::find(text, PHASE).is_some() || count_escaped_phases(text) > 0
}

/// The number of keys of phases, in text that holds no start of an event.
pub fn count_phases(text: &[u8]) -> u64 {
    memchr::memmem::find_iter(text, PHASE).count() as u64 + count_escaped_phases(text)
}

fn count_escaped_phases(text: &[u8]) -> u64 {
    let Some(first) = memchr::memmem::find(text, br"\u00") else { return 0 };
    let text = &text[first.saturating_sub(2)..];
    ESCAPED_PHASES.iter().map(|phase| memchr::memmem::find_iter(text, phase).count() as u64).sum()
}

/// Whether the object at `at` is an event, if need be with repairs, and how many bytes were scanned in vain if not;
/// `text` is padded.
pub fn is_event(text: &[u8], at: usize) -> (bool, usize) {
    let mut scanner = Scanner::<Portable>::new(text, at);
    let window = &text[at..(text.len() - PADDING).min(at + WINDOW)];
    let is_strict = scanner.event().is_ok_and(|event| event.phase != 0);
    let is_event = is_strict || event(window, 0).is_some();
    (is_event, if is_event { 0 } else { scanner.at.saturating_sub(at) + window.len() })
}

/// The same as [`next_event_start`], searching backwards from the end; nothing before `from` is looked at.
pub fn last_event_start(text: &[u8], from: usize) -> Option<usize> {
    let mut end = text.len();
    loop {
        let at = from + memchr::memrchr(b'{', text.get(from..end)?)?;
        if is_event_start(text, at) {
            return Some(at);
        }
        end = at;
    }
}

fn is_event_start(text: &[u8], at: usize) -> bool {
    let before = text[..at].iter().rev().find(|byte| !byte.is_ascii_whitespace());
    let is_behind = before.is_none_or(|byte| matches!(byte, b',' | b'[' | b'}'));
    let key = skip_space(text, at + 1);
    is_behind && known_key(text, key).is_some()
}

/// End of the key at `at`, quotes included, if it is a key of events.
fn known_key(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?.strip_prefix(b"\"")?;
    let len = rest.iter().take(12).position(|&byte| matches!(byte, b'"' | b'\\'))?;
    if rest[len] == b'"' {
        return KEYS.contains(&&rest[..len]).then_some(at + len + 2);
    }
    let len = rest.iter().take(64).position(|&byte| byte == b'"')?;
    KEYS.contains(&&*unescaped(&rest[..len])).then_some(at + len + 2)
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Reads the event that starts at `start` and must end before the end of `text`.
///
/// `text` should end where the next event starts, so that damage cannot swallow the next event. Returns
/// the event and its end; `None` if it cannot be repaired.
pub fn event(text: &[u8], start: usize) -> Option<(Event<'_>, usize)> {
    let mut event = Event::default();
    let mut at = start + 1;
    loop {
        at = skip_space(text, at);
        match text.get(at)? {
            b',' => at += 1,
            b'}' => return (event.phase != 0).then_some((event, at + 1)),
            b'"' => at = field(text, at, &mut event)?,
            _ => return None,
        }
    }
}

/// Reads one key and its value; returns where they end.
fn field<'a>(text: &'a [u8], at: usize, event: &mut Event<'a>) -> Option<usize> {
    let key_len = text[at + 1..].iter().take(256).position(|&byte| byte == b'"')?;
    let key = &text[at + 1..at + 1 + key_len];
    let colon = skip_space(text, at + key_len + 2);
    if text.get(colon) != Some(&b':') {
        return None;
    }
    let start = skip_space(text, colon + 1);
    let end = value_end(text, start, false)?;
    let value = &text[start..end];
    let plain = value.strip_prefix(b"\"").map_or(value, |rest| rest.strip_suffix(b"\"").unwrap_or(rest));
    let plain = if value == b"null" { b"" } else { plain };
    match &*unescaped(key) {
        b"ph" => event.phase = first_byte(plain),
        b"cat" => event.category = plain,
        b"name" => event.name = plain,
        b"pid" => event.pid = plain,
        b"tid" => event.tid = plain,
        b"ts" => event.ts = time(plain),
        b"dur" => event.dur = time(plain),
        b"id" | b"id2" => event.id = plain,
        b"scope" => event.scope = plain,
        b"bp" => event.binds_enclosing = first_byte(plain) == b'e',
        b"args" if value.starts_with(b"{") => {
            event.args = value;
            event.correlation = number_after(value, b"correlation");
            event.external = number_after(value, b"External id").max(number_after(value, b"external id"));
            for key in WORK_KEYS {
                if let (Some(slot), Some(raw)) = (event.work.slot(key), value_after(value, key)) {
                    *slot = raw;
                }
            }
        }
        _ => {}
    }
    Some(end)
}

fn time(text: &[u8]) -> Time {
    if text.is_empty() { Time::Absent } else { time_of(text) }
}

/// The number of a key of args, also in quotes; 0 if there is none.
fn number_after(args: &[u8], key: &[u8]) -> u32 {
    let is_key = |&at: &usize| args[..at].ends_with(b"\"") && args[at + key.len()..].starts_with(b"\"");
    let rest = match memchr::memmem::find_iter(args, key).find(is_key) {
        Some(at) => &args[at + key.len() + 1..],
        None => escaped_value_after(args, key).unwrap_or_default(),
    };
    let is_gap = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b':' | b'"');
    let start = rest.iter().take_while(|byte| is_gap(byte)).count();
    let len = rest[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    number_of(&rest[start..start + len])
}

/// The raw value of a key of args.
pub fn value_after<'a>(args: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let is_key = |&at: &usize| args[..at].ends_with(b"\"") && args[at + key.len()..].starts_with(b"\"");
    let Some(at) = memchr::memmem::find_iter(args, key).find(is_key) else { return escaped_value_after(args, key) };
    let colon = skip_space(args, at + key.len() + 1);
    let start = skip_space(args, colon + 1);
    let end = value_end(args, start, true)?;
    (args.get(colon) == Some(&b':')).then_some(&args[start..end])
}

/// The same of a key that is written with escapes.
fn escaped_value_after<'a>(args: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    memchr::memchr(b'\\', args)?;
    let mut at = 1;
    loop {
        let quote = skip_space(args, at);
        let end = (args.get(quote) == Some(&b'"')).then(|| string_end(args, quote, true)).flatten()?;
        let colon = skip_space(args, end);
        let start = skip_space(args, colon + 1);
        let value = (args.get(colon) == Some(&b':')).then(|| value_end(args, start, true)).flatten()?;
        if *unescaped(&args[quote + 1..end - 1]) == *key {
            return Some(&args[start..value]);
        }
        at = skip_space(args, value) + 1;
    }
}

/// Where the value at `start` ends.
fn value_end(text: &[u8], start: usize, is_nested: bool) -> Option<usize> {
    match text.get(start)? {
        b'"' => string_end(text, start, is_nested),
        b'{' | b'[' => container_end(text, start),
        _ => {
            let len = text[start..].iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b'\n'))?;
            let len = text[start..start + len].trim_ascii_end().len();
            (len > 0).then_some(start + len)
        }
    }
}

fn container_end(text: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_u32;
    let mut at = start;
    loop {
        match text.get(at)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'"' => {
                at = string_end(text, at, true)?;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
}

/// Where the string that starts at `start` ends, its closing quote included: at the first quote
/// that something follows which can follow a value.
fn string_end(text: &[u8], start: usize, is_nested: bool) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'\\' {
            // A path may end with a backslash.
            if !is_nested
                && text.get(at + 1) == Some(&b'"')
                && text.get(at + 2) == Some(&b',')
                && closes(text, at + 2, false)
            {
                return Some(at + 2);
            }
            at += 2;
            continue;
        }
        if closes(text, at + 1, is_nested) {
            return Some(at + 1);
        }
        at += 1;
    }
}

/// Whether what starts at `at` can follow a string value, or a key if `is_nested`.
fn closes(text: &[u8], at: usize, is_nested: bool) -> bool {
    let at = skip_space(text, at);
    let after = skip_space(text, at + 1);
    match text.get(at) {
        None => true,
        Some(b':' | b']') => is_nested,
        Some(b',') if is_nested => {
            let starts =
                |byte: &u8| matches!(byte, b'"' | b'[' | b'{' | b'-' | b'0'..=b'9') || byte.is_ascii_alphabetic();
            text.get(after).is_some_and(starts)
        }
        Some(b',') => known_key(text, after).is_some_and(|end| text.get(skip_space(text, end)) == Some(&b':')),
        Some(b'}') if is_nested => text.get(after).is_none_or(|byte| matches!(byte, b',' | b']' | b'}' | b'{' | 0)),
        // The event ends here as well.
        Some(b'}') => match text.get(after) {
            None | Some(b']' | b'}' | b'{' | 0) => true,
            Some(b',') => goes_on_with_an_event(text, skip_space(text, after + 1)),
            _ => false,
        },
        _ => false,
    }
}

/// Whether what starts at `at`, behind a comma, may follow an event in its list.
fn goes_on_with_an_event(text: &[u8], at: usize) -> bool {
    let key_end = |at: usize| Some(at + 1 + text.get(at + 1..)?.iter().take(64).position(|&byte| byte == b'"')?);
    match text.get(at) {
        None | Some(b']' | b'}' | b',' | 0) => true,
        Some(b'{') => {
            let key = skip_space(text, at + 1);
            let end = if text.get(key) == Some(&b'"') { key_end(key) } else { None };
            end.is_none_or(|end| text.get(skip_space(text, end + 1)).is_none_or(|&byte| byte == b':'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Option<String> {
        event(text.as_bytes(), 0).map(|(event, _)| String::from_utf8_lossy(event.name).into_owned())
    }

    #[test]
    fn quotes_inside_names_stay() {
        let text = r#"{"ph": "X", "name": "{"device": "cpu", "dtype": "float32"}(12): run", "pid": 1}"#;
        assert_eq!(name(text).unwrap(), r#"{"device": "cpu", "dtype": "float32"}(12): run"#);
        let text = "{\"ph\": \"X\", \"name\": \"x = Library(\"_test\", \"IMPL\")\n(1): <module>\", \"pid\": 1}";
        assert_eq!(name(text).unwrap(), "x = Library(\"_test\", \"IMPL\")\n(1): <module>");
    }

    #[test]
    fn a_name_ends_with_its_event_only_where_the_list_goes_on() {
        for part in [r#"f({"x"}, {"y"})"#, r#"run({"a": "b"}, 5)"#, r#"{"a"}, b"#] {
            for end in ["}", "},", "}]", "}, ]}", "}, {\"zz\": 1}"] {
                let text = format!(r#"{{"ph": "X", "ts": 1, "name": "{part}"{end}"#);
                assert_eq!(name(&text).as_deref(), Some(part), "{text}");
            }
        }
    }

    #[test]
    fn invalid_numbers_are_kept_in_args_and_refused_as_times() {
        let text = br#"{"ph":"X","ts":Infinity,"args":{"a":[NaN, -Infinity],"correlation": 7, "grid" : [1, 2,3]}}"#;
        let (event, end) = event(text, 0).unwrap();
        assert_eq!(end, text.len());
        assert!(matches!(event.ts, Time::Bad(_)));
        assert_eq!((event.correlation, event.work.grid), (7, &b"[1, 2,3]"[..]));
    }

    #[test]
    fn keys_of_args_may_be_escaped() {
        let text = br#"{"ph":"X","ts":1,"args":{"a":NaN,"corre\u006cation":7,"Extern\u0061l id":"9"}}"#;
        let (event, _) = event(text, 0).unwrap();
        assert_eq!((event.correlation, event.external), (7, 9));
    }

    #[test]
    fn a_lost_quote_loses_the_event_and_no_other() {
        let text = br#"[{"ph":"X","name":"a, "pid":1,"ts":1}, {"ph":"X","name":"b"}]"#;
        let next = next_event_start(text, 2).unwrap();
        assert!(text[next..].starts_with(br#"{"ph":"X","name":"b""#));
        assert!(event(&text[..next], 1).is_none());
        assert_eq!(last_event_start(text, 0), Some(next));
    }

    #[test]
    fn args_do_not_look_like_events() {
        let text = br#"{"ph":"M","args":{"name":"x"}}"#;
        assert_eq!(next_event_start(text, 1), None);
    }
}
