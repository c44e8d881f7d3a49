//! What lies along the horizontal axis: time, or one event after another.

use crate::model::{MemoryHistory, TimeNs, TimeRange};

/// The unit of the horizontal axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AxisKind {
    /// Nanoseconds of session time.
    #[default]
    Time,
    /// States of the history, each [`UNITS`] long.
    Events,
}

/// Units of the events axis in a state: whole numbers, and still fine enough to zoom into one state.
pub const UNITS: i64 = 1 << 10;

/// No state: nothing is known there.
pub const NO_STATE: u32 = u32::MAX;

/// The horizontal axis of one history. A *place* on it is session time or a multiple of a state.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    pub kind: AxisKind,
    pub history: &'a MemoryHistory,
    /// Add this to the trace's times to get session times.
    pub offset: i64,
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
    /// From the first to the last place of the history.
    pub fn span(&self) -> TimeRange {
        match self.kind {
            AxisKind::Time => self.history.span.shifted(self.offset),
            AxisKind::Events => TimeRange { start: 0, end: i64::from(self.history.n_states()) * UNITS },
        }
    }

    /// The state at a place; the nearest one outside of the history.
    pub fn state(&self, place: i64) -> u32 {
        match self.kind {
            AxisKind::Time => self.history.state_at(place.saturating_sub(self.offset)),
            AxisKind::Events => place.div_euclid(UNITS).clamp(0, i64::from(self.history.last_state())) as u32,
        }
    }

    /// The place at which a state begins; that of the state after the last is the end.
    pub fn place(&self, state: u32) -> i64 {
        match self.kind {
            AxisKind::Time if state > self.history.last_state() => self.span().end,
            AxisKind::Time => self.history.time_of(state).saturating_add(self.offset),
            AxisKind::Events => i64::from(state.min(self.history.n_states())) * UNITS,
        }
    }

    /// A moment of session time as a place.
    pub fn at_time(&self, ts: TimeNs) -> i64 {
        match self.kind {
            AxisKind::Time => ts,
            AxisKind::Events => {
                let after = self.history.state_at(ts.saturating_sub(self.offset));
                i64::from(after) * UNITS
            }
        }
    }

    /// A place as session time.
    pub fn time(&self, place: i64) -> TimeNs {
        match self.kind {
            AxisKind::Time => place,
            AxisKind::Events => self.history.time_of(self.state(place)).saturating_add(self.offset),
        }
    }

    /// The life of blocks and the like, in states, as places.
    pub fn range(&self, start: u32, end: u32) -> TimeRange {
        TimeRange { start: self.place(start), end: self.place(end) }
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
