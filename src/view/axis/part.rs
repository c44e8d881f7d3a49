//! How long a part of session time is, in words.

use crate::figures::format;
use crate::model::TimeRange;
use crate::session::{OpenTrace, counts_events};

/// A part of the time of some traces, in short and exactly: `2.5 ms`, `2,500,000 ns of 10,000,000 ns`. Where they have
/// no times, `1,234 events`.
pub fn part_text(traces: &[OpenTrace], part: TimeRange, whole: TimeRange) -> [String; 2] {
    if !counts_events(traces) {
        return format::part(part.dur(), whole.dur());
    }
    let [short, whole] = [part, whole].map(|range| match range.dur() {
        1 => "1 event".to_owned(),
        n => format!("{} events", format::count(n.unsigned_abs())),
    });
    let exact = format!("{short} of {whole}");
    [short, exact]
}
