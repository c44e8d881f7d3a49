//! Reads the events of one block of text: strictly, then leniently where that fails.

use std::cell::OnceCell;

use super::batch::Batch;
use super::bytes::{Bytes, Portable};
use super::lenient;
use super::scan::{Event, Fail, PADDING, Scanner};
use super::tally::Reason;

/// An event longer than this many bytes is treated as damage.
pub const MAX_EVENT: usize = 64 << 20;

/// Bytes that may be scanned in vain, per byte of text so far: bounds the cost of text that looks like the start of
/// an event everywhere.
pub const VAIN_FACTOR: usize = 16;

/// The same, wherever the text starts.
pub const MIN_VAIN: usize = 1 << 20;

/// The state at the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Between two events, behind this.
    Between(Before),
    /// Inside the event or other value that starts here: read it again with more text appended.
    Inside(usize),
    /// At the `]` that closes the array of events, at this position.
    Closed(usize),
}

/// What comes before a place in the list of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Before {
    /// The start of the list, damage, or a value whose comma was judged.
    #[default]
    Nothing,
    Event,
    Comma,
    /// What the text before ends with, which is still read: a text's first comma is judged where texts are joined.
    Unknown,
}

impl Before {
    /// What is odd about a comma, event or end of the list here.
    #[inline(always)]
    pub fn oddity(self, byte: u8) -> Option<Reason> {
        match (self, byte) {
            (Self::Event, b'{') => Some(Reason::MissingComma),
            (Self::Nothing | Self::Comma, b',') => Some(Reason::ExtraComma),
            (Self::Comma, b']') => Some(Reason::TrailingComma),
            _ => None,
        }
    }
}

/// Text with events: a block of the file, or the rest of one.
#[derive(Clone, Copy, Debug)]
pub struct EventText<'a> {
    /// The text, followed by [`PADDING`] zero bytes.
    pub text: &'a [u8],
    /// Where to start, between events.
    pub start: usize,
    /// Byte offset of the text within the whole file.
    pub offset: u64,
    /// No text follows.
    pub is_last: bool,
    pub before: Before,
    /// Start of the last object of the text that looks like an event, once it was searched for.
    pub last_object: &'a OnceCell<Option<usize>>,
    /// Too much was scanned in vain before.
    pub is_limited: bool,
}

/// Bytes scanned without finding a whole event.
#[derive(Debug, Default)]
struct Vain {
    bytes: usize,
    /// More than may be: each event is now read no further than to where the next seems to start, which is
    /// linear in the text.
    is_limited: bool,
    /// It was before this text.
    is_always_limited: bool,
}

impl Vain {
    fn add(&mut self, bytes: usize, at: usize) {
        self.bytes += bytes;
        self.is_limited =
            self.is_always_limited || self.bytes > MIN_VAIN.saturating_add(at.saturating_mul(VAIN_FACTOR));
    }
}

/// Reads all events of the text into `batch`.
pub fn walk(input: EventText<'_>, batch: &mut Batch) -> End {
    #[cfg(target_arch = "x86_64")]
    if on_avx2::is_found() {
        return on_avx2::walk(input, batch);
    }
    walk_with::<Portable>(input, batch)
}

#[cfg(target_arch = "x86_64")]
mod on_avx2 {
    //! The whole loop, compiled for AVX2.
    #![expect(unsafe_code, reason = "calling a function compiled for AVX2, after it was found")]

    use super::super::bytes::avx2::Avx2;
    use super::{Batch, End, EventText, walk_with};

    /// Whether the machine has every feature that [`walk_avx2`] is compiled for.
    pub fn is_found() -> bool {
        use std::arch::is_x86_feature_detected as has;
        has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt")
    }

    pub fn walk(input: EventText<'_>, batch: &mut Batch) -> End {
        // SAFETY: the only caller has asked for each of its features.
        unsafe { walk_avx2(input, batch) }
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn walk_avx2(input: EventText<'_>, batch: &mut Batch) -> End {
        walk_with::<Avx2>(input, batch)
    }
}

#[inline(always)]
fn walk_with<B: Bytes>(input: EventText<'_>, batch: &mut Batch) -> End {
    let EventText { text, start, offset, mut before, .. } = input;
    let len = text.len() - PADDING;
    let mut scanner = Scanner::<B>::new(text, start);
    let mut vain = Vain { bytes: 0, is_limited: input.is_limited, is_always_limited: input.is_limited };
    loop {
        scanner.skip_space();
        let at = scanner.at;
        if at >= len {
            return End::Between(before);
        }
        if let Some(reason) = before.oddity(text[at]) {
            batch.tally.count(reason, offset + at as u64);
        }
        match text[at] {
            b',' => {
                before = Before::Comma;
                scanner.at += 1;
            }
            b'{' => {
                let limit = if vain.is_limited { limit(&input, at, &mut vain) } else { None };
                let found = match limit {
                    None => scanner.event(),
                    Some(limit) => limited_event(text, limit, &mut scanner.at),
                };
                match found {
                    Ok(event) => batch.push(&event, offset + at as u64),
                    Err(fail) => {
                        vain.add(scanner.at.saturating_sub(at), at);
                        match again(&input, at, fail, limit, &mut vain, batch) {
                            Some(next) => scanner.at = next,
                            None => return End::Inside(at),
                        }
                    }
                }
                before = Before::Event;
            }
            b']' => return End::Closed(at),
            _ => match skip_other(&input, at, &mut vain, batch) {
                Some((next, what)) => (scanner.at, before) = (next, what),
                None => return End::Inside(at),
            },
        }
    }
}

/// Where the event at `at` ends at the latest while reading is limited: where the next seems to start.
#[cold]
fn limit(input: &EventText<'_>, at: usize, vain: &mut Vain) -> Option<usize> {
    vain.add(0, at);
    let text = &input.text[..input.text.len() - PADDING];
    if vain.is_limited { lenient::next_with_phase(text, at + 1) } else { None }
}

/// The event at `at` if it ends before `limit`; moves `at` behind it.
#[cold]
fn limited_event<'a>(text: &'a [u8], limit: usize, at: &mut usize) -> Result<Event<'a>, Fail> {
    let mut scanner = Scanner::<Portable>::new(&text[..limit + PADDING], *at);
    let event = scanner.event();
    *at = scanner.at;
    event
}

/// Parses the event at `at` leniently. Returns where to continue; `None` if the text ends inside the event
/// and more will follow.
///
/// * `limit`: where the next event seems to start, if reading is limited.
#[cold]
fn again(
    input: &EventText<'_>,
    at: usize,
    fail: Fail,
    limit: Option<usize>,
    vain: &mut Vain,
    batch: &mut Batch,
) -> Option<usize> {
    let EventText { text, offset, is_last, .. } = *input;
    let text = &text[..text.len() - PADDING];
    let next = limit.or_else(|| following_event(input.text, at + 1, vain));
    let may_go_on = next.is_none() && !is_last && text.len() - at <= MAX_EVENT;
    if fail == Fail::Short && may_go_on {
        return None;
    }
    let end = next.unwrap_or(text.len());
    if let Some((event, end)) = lenient::event(&text[..end], at) {
        // The next block may complete this event.
        batch.tally.count(Reason::Repaired, offset + at as u64);
        batch.push(&event, offset + at as u64);
        return Some(end);
    }
    if may_go_on {
        return None;
    }
    // What is given up may hold several events, none of which can be read.
    let n = lenient::count_with_phase(&text[at..end]).max(1);
    let is_cut = next.is_none() && fail == Fail::Short;
    let n_cut = u64::from(is_cut);
    batch.n_read += n;
    batch.tally.add_at(Reason::CutOff, n_cut, offset + at as u64);
    batch.tally.add_at(Reason::Damaged, n - n_cut, offset + at as u64);
    Some(end)
}

/// Start of the next complete event; `text` is padded. Nested objects may look like events, but have no
/// phase.
fn following_event(text: &[u8], from: usize, vain: &mut Vain) -> Option<usize> {
    let len = text.len() - PADDING;
    let mut from = from;
    while let Some(start) = lenient::next_event_start(&text[..len], from) {
        if vain.is_limited {
            return lenient::next_with_phase(&text[..len], start);
        }
        let (is_event, n_scanned) = lenient::is_event(text, start);
        if is_event {
            return Some(start);
        }
        vain.add(n_scanned, start);
        from = start + 1;
    }
    None
}

/// Skips what is no object: a value, or damage up to the next event. Returns where to continue, and what is behind;
/// `None` if the text ends inside it and more will follow.
#[cold]
fn skip_other(input: &EventText<'_>, at: usize, vain: &mut Vain, batch: &mut Batch) -> Option<(usize, Before)> {
    let may_go_on = !input.is_last && input.text.len() - PADDING - at <= MAX_EVENT;
    match value_end(input, at, vain) {
        Ok(end) => {
            let n = lenient::count_phases(&input.text[at..end]).max(1);
            batch.n_read += n;
            batch.tally.add_at(Reason::NotAnObject, n, input.offset + at as u64);
            Some((end, Before::Event))
        }
        Err(Fail::Short) if may_go_on => None,
        Err(_) => Some((skip_damage(input, at, may_go_on, batch)?, Before::Nothing)),
    }
}

/// Where the value at `at` ends, if it is a whole one of the list that is no object and holds no event.
fn value_end(input: &EventText<'_>, at: usize, vain: &mut Vain) -> Result<usize, Fail> {
    let mut scanner = Scanner::<Portable>::new(input.text, at);
    let is_list = scanner.byte() == b'[';
    if is_list && vain.is_limited {
        return Err(Fail::Irregular);
    }
    let skipped = scanner.skip_value();
    let end = scanner.at;
    if skipped.is_err() || is_list && lenient::next_keyed_object(&input.text[..end], at).is_some() {
        vain.add(end.saturating_sub(at), at);
        return skipped.and(Err(Fail::Irregular));
    }
    scanner.skip_space();
    match scanner.byte() {
        b']' => Ok(end),
        b',' => {
            // An event that lost its beginning may start with a value, but goes on with a key.
            scanner.at += 1;
            scanner.skip_space();
            let is_key = scanner.byte() == b'"' && scanner.key().is_ok();
            let is_cut = scanner.at >= scanner.len && !input.is_last;
            if is_cut { Err(Fail::Short) } else { (!is_key).then_some(end).ok_or(Fail::Irregular) }
        }
        _ if scanner.at < scanner.len => Err(Fail::Irregular),
        _ => Err(Fail::Short),
    }
}

/// Skips to the next event; returns its start, or `None` if more text that follows may hold it.
#[cold]
fn skip_damage(input: &EventText<'_>, at: usize, may_go_on: bool, batch: &mut Batch) -> Option<usize> {
    let text = &input.text[..input.text.len() - PADDING];
    let is_before = |last: &Option<usize>| last.is_some_and(|last| at <= last);
    let has_next = is_before(input.last_object.get_or_init(|| lenient::last_keyed_object(text)));
    let next = if has_next { lenient::next_keyed_object(text, at) } else { None }.unwrap_or(text.len());
    // Resume at the end of the array if no event precedes it.
    let next = match memchr::memchr(b']', &text[at..next]) {
        Some(close) if next == text.len() => at + close,
        None if next == text.len() && may_go_on => return None,
        _ => next,
    };
    // What is skipped may hold several events that lost their first brace.
    let n = lenient::count_phases(&text[at..next]).max(1);
    batch.n_read += n;
    batch.tally.add_at(Reason::Damaged, n, input.offset + at as u64);
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of a text that is padded.
    fn whole<'a>(text: &'a [u8], is_last: bool, last_object: &'a OnceCell<Option<usize>>) -> EventText<'a> {
        EventText { text, start: 0, offset: 0, is_last, before: Before::Nothing, last_object, is_limited: false }
    }

    fn check(text: &str, n_shown: u64, n_rejected: u64, end: End) {
        let padded = [text.as_bytes(), &[0; PADDING]].concat();
        let last_object = &OnceCell::new();
        let input = whole(&padded, true, last_object);
        for portable in [false, true] {
            let mut batch = Batch::default();
            let found = if portable { walk_with::<Portable>(input, &mut batch) } else { walk(input, &mut batch) };
            assert_eq!(found, end, "{text}");
            let counts = (batch.n_shown, batch.tally.n_rejected());
            assert_eq!(counts, (n_shown, n_rejected), "{text}");
            assert_eq!(batch.n_read, n_shown + n_rejected + batch.n_merged, "{text}");
        }
    }

    const A: &str = r#"{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2}"#;

    #[test]
    fn whole_events() {
        check("", 0, 0, End::Between(Before::Nothing));
        check(&format!("{A},{A},"), 2, 0, End::Between(Before::Comma));
        check(&format!("{A} {A}] rest"), 2, 0, End::Closed(A.len() * 2 + 1));
        check(&format!("{{}}, {A}]"), 1, 0, End::Closed(A.len() + 4));
    }

    #[test]
    fn damage_costs_one_event() {
        let cut = &A[..20];
        check(&format!("{A},{cut},{A}]"), 2, 1, End::Closed(A.len() * 2 + 22));
        check(&format!("{A},{cut}"), 1, 1, End::Between(Before::Event));
        let headless = &A[1..];
        check(&format!("{A},{headless},{headless},{A}]"), 2, 2, End::Closed(4 * A.len() + 1));
        check(&format!("{A}, garbage {A}]"), 2, 1, End::Closed(A.len() * 2 + 10));
        check(&A.replace("\"ts\":1", "\"ts\":Infinity"), 0, 1, End::Between(Before::Event));
    }

    #[test]
    fn text_made_of_event_starts_ends_soon() {
        // Without a limit each of these would be scanned to the end of the text.
        for part in [r#","{"args":{"#, r#",{"args":{"#, r#",{"ph":"X","args":[[["#, r#",{"name":"\""#] {
            let text = part.repeat((1 << 20) / part.len());
            let padded = [text.as_bytes(), &[0; PADDING]].concat();
            let last_object = &OnceCell::new();
            let input = whole(&padded, true, last_object);
            let mut batch = Batch::default();
            walk(input, &mut batch);
            assert_eq!(batch.n_shown, 0, "{part}");
        }
    }

    #[test]
    fn an_event_that_may_go_on_is_left_for_more_text() {
        let text = [A.as_bytes(), b",", &A.as_bytes()[..30], &[0; PADDING]].concat();
        let last_object = &OnceCell::new();
        let input = whole(&text, false, last_object);
        let mut batch = Batch::default();
        assert_eq!(walk(input, &mut batch), End::Inside(A.len() + 1));
        assert_eq!(batch.n_read, 1);
    }
}
