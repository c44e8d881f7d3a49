//! Figures of a time range: by track, by name, and by slice.

use super::{Cell, Part, number, words};
use crate::analysis::range_summary::NameSummary;
use crate::model::TimeRange;

/// What one track did in a time range.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackTime {
    pub track: String,
    /// Busy share of the range.
    pub busy: f64,
    pub count: u64,
    /// Nanoseconds within the range; `self_ns` without what lies directly inside.
    pub total_ns: i64,
    pub self_ns: i64,
}

/// One slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceTime {
    pub time: TimeRange,
    pub track: String,
}

const COUNT: &str = "Slices that share time with the range";
const TOTAL: &str = "Sum of their durations within the range; nested slices count twice";
const SELF: &str = "The same, less what the slices directly inside took";

/// Tracks in a time range.
pub fn tracks() -> Part<TrackTime> {
    let figures = vec![
        words("track", "Track", 300, "Where it ran", |row: &TrackTime| Cell::name(&row.track)),
        number("busy_share", "Busy", 110, "Share of the range in which anything ran", |row| Cell::Share(row.busy)),
        number("count", "Count", 110, COUNT, |row| Cell::Count(row.count)),
        number("total_ns", "Total", 110, TOTAL, |row| Cell::Ns(row.total_ns)),
        number("self_ns", "Self", 110, SELF, |row| Cell::Ns(row.self_ns)),
    ];
    Part::new("range_tracks", "Range by track", figures)
}

/// Names in a time range.
pub fn names() -> Part<NameSummary> {
    let figures = vec![
        words("name", "Name", 300, "Name of the slices", |row: &NameSummary| Cell::name(&row.name)),
        words("kind", "Kind", 110, "What the slices are", |row| Cell::name(row.kind.label())),
        number("count", "Count", 110, COUNT, |row| Cell::Count(row.count)),
        number("total_ns", "Total", 110, TOTAL, |row| Cell::Ns(row.total_ns)),
        number("self_ns", "Self", 110, SELF, |row| Cell::Ns(row.self_ns)),
    ];
    Part::new("range_names", "Range by name", figures)
}

/// Slices one by one.
pub fn slices() -> Part<SliceTime> {
    let figures = vec![
        number("dur_ns", "Duration", 90, "How long it took", |row: &SliceTime| Cell::Ns(row.time.dur())),
        number("start_ns", "Start", 96, "When it started, from the start of the session", |row| {
            Cell::Ns(row.time.start)
        }),
        words("track", "Track", 140, "Where it ran", |row| Cell::text(&row.track)),
    ];
    Part::new("instances", "Instances", figures)
}
