//! Reads the events of one block of text: strictly, then leniently where that fails.

use super::batch::Batch;
use super::bytes::{Bytes, Portable};
use super::lenient;
use super::scan::{Event, Fail, PADDING, Scanner};
use super::tally::Reason;

/// An event longer than this many bytes is treated as damage.
pub const MAX_EVENT: usize = 64 << 20;

/// Bytes that may be rescanned after damage, per byte of text: bounds the cost of text that looks like the
/// start of an event everywhere.
const BUDGET_FACTOR: usize = 32;

/// The same, for short texts.
const MIN_BUDGET: usize = 1 << 20;

/// The state at the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Between two events. `after_comma`: the last thing seen was a comma.
    Between { after_comma: bool },
    /// Inside the event that starts here: read it again with more text appended.
    Inside(usize),
    /// At the `]` that closes the array of events, at this position.
    Closed(usize),
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
    /// Whether an event, rather than a comma or the start of the array, came before.
    pub after_event: bool,
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
    let EventText { text, start, offset, mut after_event, .. } = input;
    let len = text.len() - PADDING;
    let mut scanner = Scanner::<B>::new(text, start);
    let mut after_comma = false;
    let mut budget = MIN_BUDGET.saturating_add(len.saturating_mul(BUDGET_FACTOR));
    loop {
        scanner.skip_space();
        let at = scanner.at;
        if at >= len {
            return End::Between { after_comma };
        }
        match text[at] {
            b',' => {
                if !after_event {
                    batch.tally.count(Reason::ExtraComma, offset + at as u64);
                }
                (after_event, after_comma) = (false, true);
                scanner.at += 1;
            }
            b'{' => {
                if after_event {
                    batch.tally.count(Reason::MissingComma, offset + at as u64);
                }
                match scanner.event() {
                    Ok(event) => batch.push(&event, offset + at as u64),
                    Err(fail) => {
                        budget = budget.saturating_sub(scanner.at.saturating_sub(at));
                        match again(&input, at, fail, &mut budget, batch) {
                            Some(next) => scanner.at = next,
                            None => return End::Inside(at),
                        }
                    }
                }
                (after_event, after_comma) = (true, false);
            }
            b']' => {
                if after_comma {
                    batch.tally.count(Reason::TrailingComma, offset + at as u64);
                }
                return End::Closed(at);
            }
            _ => {
                scanner.at = skip_damage(&input, at, batch);
                (after_event, after_comma) = (false, false);
            }
        }
    }
}

/// Parses the event at `at` leniently. Returns where to continue; `None` if the text ends inside the event
/// and more will follow.
#[cold]
fn again(input: &EventText<'_>, at: usize, fail: Fail, budget: &mut usize, batch: &mut Batch) -> Option<usize> {
    let EventText { text, offset, is_last, .. } = *input;
    let text = &text[..text.len() - PADDING];
    if *budget == 0 {
        batch.n_read += 1;
        batch.tally.count(Reason::TooMuchDamage, offset + at as u64);
        return Some(text.len());
    }
    let next = following_event(input.text, at + 1, budget);
    let is_whole = is_last || next.is_some() || text.len() - at > MAX_EVENT;
    if fail == Fail::Short && !is_whole {
        return None;
    }
    let limit = next.unwrap_or(text.len());
    if let Some((event, end)) = lenient::event(&text[..limit], at) {
        // The next block may complete this event.
        batch.tally.count(Reason::Repaired, offset + at as u64);
        batch.push(&event, offset + at as u64);
        return Some(end);
    }
    if next.is_none() && !is_last && text.len() - at <= MAX_EVENT {
        return None;
    }
    let reason = if next.is_none() && fail == Fail::Short { Reason::CutOff } else { Reason::Damaged };
    batch.n_read += 1;
    batch.tally.count(reason, offset + at as u64);
    Some(next.unwrap_or(text.len()))
}

/// Start of the next complete event; `text` is padded. Nested objects may look like events, but have no
/// phase.
fn following_event(text: &[u8], from: usize, budget: &mut usize) -> Option<usize> {
    const WINDOW: usize = 1 << 16;
    let len = text.len() - PADDING;
    let mut from = from;
    while let Some(start) = lenient::next_event_start(&text[..len], from) {
        let mut scanner = Scanner::<Portable>::new(text, start);
        let is_event = |event: Event<'_>| event.phase != 0;
        if *budget == 0 || scanner.event().is_ok_and(is_event) {
            return Some(start);
        }
        let window = &text[start..len.min(start + WINDOW)];
        *budget = budget.saturating_sub(scanner.at.saturating_sub(start) + window.len());
        if lenient::event(window, 0).is_some() {
            return Some(start);
        }
        from = start + 1;
    }
    None
}

/// Skips to the next event; returns its start.
#[cold]
fn skip_damage(input: &EventText<'_>, at: usize, batch: &mut Batch) -> usize {
    let text = &input.text[..input.text.len() - PADDING];
    batch.n_read += 1;
    batch.tally.count(Reason::Damaged, input.offset + at as u64);
    let next = lenient::next_keyed_object(text, at).unwrap_or(text.len());
    // Resume at the end of the array if no event precedes it.
    match memchr::memchr(b']', &text[at..next]) {
        Some(close) if next == text.len() => at + close,
        _ => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, n_shown: u64, n_rejected: u64, end: End) {
        let padded = [text.as_bytes(), &[0; PADDING]].concat();
        let input = EventText { text: &padded, start: 0, offset: 0, is_last: true, after_event: false };
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
        check("", 0, 0, End::Between { after_comma: false });
        check(&format!("{A},{A},"), 2, 0, End::Between { after_comma: true });
        check(&format!("{A} {A}] rest"), 2, 0, End::Closed(A.len() * 2 + 1));
        check(&format!("{{}}, {A}]"), 1, 0, End::Closed(A.len() + 4));
    }

    #[test]
    fn damage_costs_one_event() {
        let cut = &A[..20];
        check(&format!("{A},{cut},{A}]"), 2, 1, End::Closed(A.len() * 2 + 22));
        check(&format!("{A},{cut}"), 1, 1, End::Between { after_comma: false });
        check(&format!("{A}, garbage {A}]"), 2, 1, End::Closed(A.len() * 2 + 10));
        check(&A.replace("\"ts\":1", "\"ts\":Infinity"), 0, 1, End::Between { after_comma: false });
    }

    #[test]
    fn text_made_of_event_starts_ends_soon() {
        // Without a limit each of these would be scanned to the end of the text.
        for part in [r#","{"args":{"#, r#",{"args":{"#, r#",{"ph":"X","args":[[["#, r#",{"name":"\""#] {
            let text = part.repeat((1 << 20) / part.len());
            let padded = [text.as_bytes(), &[0; PADDING]].concat();
            let input = EventText { text: &padded, start: 0, offset: 0, is_last: true, after_event: false };
            let mut batch = Batch::default();
            walk(input, &mut batch);
            assert_eq!(batch.n_shown, 0, "{part}");
        }
    }

    #[test]
    fn an_event_that_may_go_on_is_left_for_more_text() {
        let text = [A.as_bytes(), b",", &A.as_bytes()[..30], &[0; PADDING]].concat();
        let input = EventText { text: &text, start: 0, offset: 0, is_last: false, after_event: false };
        let mut batch = Batch::default();
        assert_eq!(walk(input, &mut batch), End::Inside(A.len() + 1));
        assert_eq!(batch.n_read, 1);
    }
}
