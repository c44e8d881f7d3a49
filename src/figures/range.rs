//! Figures of a time range: by track, by name, and by slice.

use super::metric::Metric;
use super::{Cell, Part, figures};
use crate::analysis::counters::CounterSummary;
use crate::analysis::range_summary::NameSummary;
use crate::model::TimeRange;

/// What one track did in a time range.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackTime {
    pub track: String,
    /// What its thread does, in words; empty if nothing tells.
    pub role: &'static str,
    /// Busy share of the range; `None` of a thread that only waits: its calls run, and nothing else does.
    pub busy: Option<f64>,
    pub count: u64,
    /// Nanoseconds within the range in which any of its slices ran.
    pub total_ns: i64,
    /// Nanoseconds within the range of each slice without what lies directly inside.
    pub self_ns: i64,
    /// Nanoseconds of the same slices, also outside of it.
    pub full_ns: i64,
}

/// What a counter was in a time range.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterTime<'a> {
    pub device: String,
    pub metric: Metric<'a>,
    pub summary: CounterSummary,
}

/// One slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceTime {
    pub time: TimeRange,
    /// Nanoseconds of it within the selected range; `None` without one.
    pub within_ns: Option<i64>,
    pub track: String,
}

const BUSY: &str =
    "Share of the range in which anything ran; empty for threads that only wait, whose waiting calls run all the time";
const COUNT: &str = "Slices that share time with the range";
const FULL: &str = "The same of their whole durations, also outside of the range: all other times are those within it";
const SELF: &str = "Time within the range, less what the slices directly inside took of it";

/// Tracks in a time range.
pub fn tracks() -> Part<TrackTime> {
    const TOTAL: &str = "Time within the range in which any of its slices ran: nested ones count once";
    let figures = figures! { row: TrackTime;
        words "track", "Track", 300, Cell::name(&row.track), "Its track";
        words "role", "Role", 130, Cell::text(row.role), "What its thread does in the whole recording";
        number "busy_share", "Busy", 110, Cell::or_empty(row.busy, Cell::Share), BUSY;
        number "count", "Count", 110, Cell::Count(row.count), COUNT;
        number "total_ns", "In range", 110, Cell::Ns(row.total_ns), TOTAL;
        number "full_ns", "In full", 110, Cell::Ns(row.full_ns), FULL;
        number "self_ns", "Self in range", 110, Cell::Ns(row.self_ns), SELF;
    };
    Part::new("range_tracks", "Range by track", figures)
}

/// Counters in a time range.
pub fn counters<'a>() -> Part<CounterTime<'a>> {
    const MEAN: &str = "Mean over the time within the range; each value holds until the next";
    const CHANGE: &str = "The last value in the range less the first: of energy, what was drawn";
    let figures = figures! { row: CounterTime<'a>;
        words "device", "Process or device", 200, Cell::name(&row.device), "The process or device that it is of";
        words "counter", "Counter", 260, Cell::name(row.metric.name), "What was counted";
        number "mean", "Mean", 90, row.metric.shown_if_number(row.summary.mean), MEAN;
        number "min", "Least", 90, row.metric.shown(row.summary.min), "The lowest value in the range";
        number "max", "Most", 90, row.metric.shown(row.summary.max), "The highest value in the range";
        number "change", "Change", 90, row.metric.shown_if_number(row.summary.last - row.summary.first), CHANGE;
        words "unit", "Unit", 60, row.metric.shown_unit(), "Unit of the values";
        number "count", "Samples", 90, Cell::Count(row.summary.count), "Values that were recorded within the range";
    };
    Part::new("range_counters", "Range by counter", figures)
}

/// Names in a time range.
pub fn names() -> Part<NameSummary> {
    const TOTAL: &str = "Sum of their durations within the range; a call inside another of the same name on its thread \
                         counts once";
    let figures = figures! { row: NameSummary;
        words "name", "Name", 300, Cell::name(&row.name), "Name of the slices";
        words "kind", "Kind", 110, Cell::name(row.kind.label()), "What the slices are";
        number "count", "Count", 110, Cell::Count(row.count), COUNT;
        number "total_ns", "In range", 110, Cell::Ns(row.total_ns), TOTAL;
        number "full_ns", "In full", 110, Cell::Ns(row.full_ns), FULL;
        number "self_ns", "Self in range", 110, Cell::Ns(row.self_ns), SELF;
    };
    Part::new("range_names", "Range by name", figures)
}

/// Slices one by one.
pub fn slices() -> Part<SliceTime> {
    let figures = figures! { row: SliceTime;
        number "dur_ns", "Duration", 90, Cell::Ns(row.time.dur()), "How long it took";
        number "in_range_ns", "In range", 90, Cell::or_empty(row.within_ns, Cell::Ns), "Its time within the selected \
            range";
        number "start_ns", "Start", 96, Cell::Ns(row.time.start), "Start time, from the start of the session";
        words "track", "Track", 140, Cell::text(&row.track), "Its track";
    };
    Part::new("instances", "Instances", figures)
}
