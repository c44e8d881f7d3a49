//! The horizontal axis: session time, or one event after another.

use crate::figures::format;
use crate::model::{MemoryHistory, TimeNs, TimeRange};
use crate::session::Navigation;
use crate::view::axis::{MARGIN, RulerLabels};

/// The unit of the horizontal axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AxisKind {
    /// Nanoseconds of session time.
    #[default]
    Time,
    /// States of the history, each [`UNITS`] long.
    Events,
}

/// Units of the events axis per state: fine enough to zoom into one state.
pub const UNITS: i64 = 1 << 10;

/// Stands for no state, outside of the history.
pub const NO_STATE: u32 = u32::MAX;

/// The horizontal axis of one history. A *position* on it is session time, or a multiple of [`UNITS`] a state.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    pub kind: AxisKind,
    pub history: &'a MemoryHistory,
    /// Add this to the trace's times to get session times.
    pub offset: i64,
    /// Whether time goes from the start to the end of this recording, and not of all.
    pub is_alone: bool,
}

/// What is visible of the axes that only memory over time has.
#[derive(Debug, Default)]
pub struct OwnNavigation {
    pub events: Navigation,
    /// Of a recording that shares its axis with no other.
    pub time: Navigation,
}

/// The states under one pixel column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The state that is drawn: the first of the highest `active`; [`NO_STATE`] outside of the history.
    pub state: u32,
    /// First and last state that overlap the column.
    pub first: u32,
    pub last: u32,
}

impl Axis<'_> {
    /// The visible range of this axis: of events, of this recording, or of session time.
    pub fn navigation<'n>(&self, own: &'n mut OwnNavigation, session: &'n mut Navigation) -> &'n mut Navigation {
        match self.kind {
            AxisKind::Time if self.is_alone => &mut own.time,
            AxisKind::Time => session,
            AxisKind::Events => &mut own.events,
        }
    }

    /// From the first to the last position of all: a shared time axis has what the others show, and all of the history.
    ///
    /// * `session`: of the other traces.
    pub fn reach(&self, session: TimeRange) -> TimeRange {
        match self.kind {
            AxisKind::Time if !self.is_alone => session.union(self.span()),
            _ => self.span(),
        }
    }

    /// Margin on both sides where everything is shown, as a share of it.
    pub fn margin(&self) -> f64 {
        match self.kind {
            AxisKind::Time if self.is_alone => MARGIN,
            _ => 0.0,
        }
    }

    /// How the ruler counts: session time, or events.
    pub fn ruler(&self) -> RulerLabels {
        match self.kind {
            AxisKind::Time => RulerLabels::time(0),
            // Event i leads to state i + 1, and happens where that begins.
            AxisKind::Events => RulerLabels::events(UNITS, UNITS, i64::from(self.history.last_state())),
        }
    }

    /// The length of a range as text: `2.5 ms` or `1,234 events`.
    pub fn length_text(&self, range: TimeRange) -> String {
        match self.kind {
            AxisKind::Time => format::duration(range.dur()),
            AxisKind::Events => {
                let n = range.end.div_euclid(UNITS).abs_diff(range.start.div_euclid(UNITS));
                // All states are one more than the events between them.
                format::of_things(n.min(self.history.last_state().into()), "event")
            }
        }
    }

    /// The same of a part of a whole: `2.5 ms`, and exactly `2,500,000 ns of 10,000,000 ns`.
    pub fn part_text(&self, part: TimeRange, whole: TimeRange) -> [String; 2] {
        match self.kind {
            AxisKind::Time => format::part(part.dur(), whole.dur()),
            AxisKind::Events => {
                let [short, whole] = [part, whole].map(|range| self.length_text(range));
                let exact = format!("{short} of {whole}");
                [short, exact]
            }
        }
    }

    /// From the first to the last position of the history.
    pub fn span(&self) -> TimeRange {
        match self.kind {
            AxisKind::Time => self.history.span.shifted(self.offset),
            AxisKind::Events => TimeRange { start: 0, end: i64::from(self.history.n_states()) * UNITS },
        }
    }

    /// The state at a position; the nearest one outside of the history.
    pub fn state(&self, position: i64) -> u32 {
        match self.kind {
            AxisKind::Time => self.history.state_at(position.saturating_sub(self.offset)),
            AxisKind::Events => position.div_euclid(UNITS).clamp(0, i64::from(self.history.last_state())) as u32,
        }
    }

    /// The position at which a state begins; that of the state after the last is the end.
    pub fn position(&self, state: u32) -> i64 {
        match self.kind {
            AxisKind::Time if state > self.history.last_state() => self.span().end,
            AxisKind::Time => self.history.time_of(state).saturating_add(self.offset),
            AxisKind::Events => i64::from(state.min(self.history.n_states())) * UNITS,
        }
    }

    /// A moment of session time as a position.
    pub fn at_time(&self, ts: TimeNs) -> i64 {
        match self.kind {
            AxisKind::Time => ts,
            AxisKind::Events => {
                let after = self.history.state_at(ts.saturating_sub(self.offset));
                i64::from(after) * UNITS
            }
        }
    }

    /// A range of session time in positions.
    pub fn at_times(&self, range: TimeRange) -> TimeRange {
        TimeRange { start: self.at_time(range.start), end: self.at_time(range.end) }
    }

    /// A range of positions in session time; `None` if it has no length there.
    pub fn times(&self, range: TimeRange) -> Option<TimeRange> {
        let range = TimeRange { start: self.time(range.start), end: self.time(range.end) };
        Some(range).filter(|range| range.dur() > 0)
    }

    /// A position as session time.
    pub fn time(&self, position: i64) -> TimeNs {
        match self.kind {
            AxisKind::Time => position,
            AxisKind::Events => self.history.time_of(self.state(position)).saturating_add(self.offset),
        }
    }

    /// A range of states, such as the life of a block, in positions.
    pub fn range(&self, start: u32, end: u32) -> TimeRange {
        TimeRange { start: self.position(start), end: self.position(end) }
    }

    /// What each of `n` pixel columns over `view` shows.
    pub fn columns(&self, view: TimeRange, n: usize) -> Vec<Column> {
        let span = self.span();
        let edge = |i: usize| {
            let part = i128::from(view.dur()) * i as i128 / n.max(1) as i128;
            view.start.saturating_add(part as i64)
        };
        let mut left = edge(0);
        let column = |i: usize| {
            let (from, to) = (left, edge(i + 1));
            left = to;
            // The last moment of a history belongs to it: there its last event happened.
            let is_inside = to > span.start
                && (from < span.end || from == span.start || from <= span.end && self.kind == AxisKind::Time);
            if !is_inside {
                return Column { state: NO_STATE, first: NO_STATE, last: NO_STATE };
            }
            let first = self.state(from);
            let last = self.state((to - 1).max(from)).max(first);
            Column { state: self.history.curves.peak(first..last + 1), first, last }
        };
        (0..n).map(column).collect()
    }
}
