//! What is open, on which clock, and what the person is looking at. One owner for all of it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::analysis::clock;
use crate::command::Command;
use crate::model::{DurNs, SliceId, TimeRange, Trace};
use crate::view::{Mark, Navigation, OpenTrace, Selection, ViewContext};

/// How the times of several traces were brought together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// At most one trace: there is nothing to bring together.
    #[default]
    Single,
    /// Every trace says when it was recorded.
    Utc,
    /// Not every trace does, or they are of different runs, so all start at 0.
    AlignedStarts,
}

impl Clock {
    /// What the person should know about it.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Self::Single => None,
            Self::Utc => Some("All files are on one UTC clock"),
            Self::AlignedStarts => {
                Some("Starts aligned at 0: not every file says when it was recorded, or they are hours apart")
            }
        }
    }
}

/// The open traces and everything that is chosen about them.
#[derive(Debug, Default)]
pub struct Session {
    traces: Vec<OpenTrace>,
    clock: Clock,
    /// From the first start to the last end, in session time. It starts at 0.
    span: TimeRange,
    pub navigation: Navigation,
    pub selection: Selection,
    /// The selected time range, in session time.
    pub range: Option<TimeRange>,
    pub marks: Vec<Mark>,
    /// What the last search found, as (trace, slice), sorted by time.
    pub hits: Arc<Vec<(usize, SliceId)>>,
}

impl Session {
    /// The open traces, in the order in which they were opened.
    pub fn traces(&self) -> &[OpenTrace] {
        &self.traces
    }

    /// How their times were brought together.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// From the first start to the last end, in session time.
    pub fn span(&self) -> TimeRange {
        self.span
    }

    /// Opens `traces` beside those that are open.
    ///
    /// What is on screen stays where it is, on whatever clock it was; a person who looked at
    /// everything goes on to do so.
    pub fn add(&mut self, traces: Vec<Trace>) {
        let looks_at_all = self.traces.is_empty() || self.navigation.visible() == self.span;
        let offset_before = self.traces.first().map(|open| open.offset);
        self.traces.extend(traces.into_iter().map(|trace| OpenTrace { trace: Arc::new(trace), offset: 0 }));
        self.place();
        if let (Some(before), Some(first)) = (offset_before, self.traces.first()) {
            self.shift(first.offset.saturating_sub(before));
        }
        if looks_at_all {
            self.navigation.glide(self.span);
        }
    }

    /// Closes everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a trace of this file is open.
    pub fn has_file(&self, path: &PathBuf) -> bool {
        self.traces.iter().any(|open| open.trace.info.path == *path)
    }

    /// What a view gets for one frame.
    pub fn context<'a>(&'a mut self, is_dark: bool, commands: &'a mut Vec<Command>) -> ViewContext<'a> {
        ViewContext {
            traces: &self.traces,
            span: self.span,
            navigation: &mut self.navigation,
            selection: &mut self.selection,
            range: &mut self.range,
            marks: &mut self.marks,
            hits: &self.hits,
            is_dark,
            commands,
        }
    }

    /// Chooses the clock and gives each trace its offset on it.
    fn place(&mut self) {
        let models: Vec<&Trace> = self.traces.iter().map(|open| &*open.trace).collect();
        let clock::Clock { offsets, origin_utc_ns, span } = clock::clock(&models);
        self.clock = match origin_utc_ns {
            _ if self.traces.len() < 2 => Clock::Single,
            Some(_) => Clock::Utc,
            None => Clock::AlignedStarts,
        };
        for (open, offset) in self.traces.iter_mut().zip(offsets) {
            open.offset = offset;
        }
        // A view of no length cannot be drawn.
        self.span = TimeRange { end: span.end.max(span.start.saturating_add(1)), ..span };
    }

    /// Moves what is on screen and chosen, after the clock moved.
    fn shift(&mut self, by: DurNs) {
        if by != 0 {
            self.navigation.shift(by);
            self.range = self.range.map(|range| range.shifted(by));
            for mark in &mut self.marks {
                mark.range = mark.range.shifted(by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TimeNs, TraceBuilder};

    fn trace(start: TimeNs, end: TimeNs, utc_offset_ns: Option<DurNs>) -> Trace {
        let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", start, end)]);
        builder.info.utc_offset_ns = utc_offset_ns;
        builder.finish()
    }

    fn session_starts(session: &Session) -> Vec<TimeNs> {
        session.traces().iter().map(|open| open.trace.span.start + open.offset).collect()
    }

    #[test]
    fn known_clocks_are_shared() {
        let mut session = Session::default();
        session.add(vec![trace(1_000, 2_000, Some(5_000)), trace(100, 900, Some(5_500))]);
        assert_eq!(session.clock(), Clock::Utc);
        assert_eq!(session_starts(&session), [400, 0]);
        assert_eq!(session.span(), TimeRange { start: 0, end: 1_400 });
        let epoch = 1_700_000_000_000_000_000;
        session.clear();
        session.add(vec![trace(epoch, epoch + 5, None), trace(100, 900, Some(epoch))]);
        assert_eq!((session.clock(), session_starts(&session)), (Clock::Utc, vec![0, 100]));
    }

    #[test]
    fn unknown_clocks_start_together_and_say_so() {
        let mut session = Session::default();
        session.add(vec![trace(1_000, 2_000, Some(5_000)), trace(70, 900, None)]);
        assert_eq!(session_starts(&session), [0, 0]);
        assert!(session.clock().note().unwrap().contains("aligned"));
    }

    #[test]
    fn what_is_on_screen_stays_when_the_clock_moves() {
        let mut session = Session::default();
        session.add(vec![trace(1_000, 2_000, Some(5_000))]);
        let visible = TimeRange { start: 100, end: 200 };
        session.navigation.go(visible);
        session.range = Some(visible);
        session.add(vec![trace(0, 10, Some(5_000))]);
        // The second trace starts 1,000 ns earlier and is the new zero.
        assert_eq!(session.navigation.visible(), visible.shifted(1_000));
        assert_eq!(session.range, Some(visible.shifted(1_000)));
        session.navigation.undo();
        assert_eq!(session.navigation.visible(), TimeRange { start: 1_000, end: 2_000 });
    }

    #[test]
    fn a_trace_without_events_does_not_break_the_clock() {
        let mut session = Session::default();
        session.add(vec![Trace::default()]);
        assert!(session.span().dur() > 0);
        session.add(vec![trace(i64::MAX - 5, i64::MAX, Some(i64::MAX)), trace(i64::MIN, 0, Some(i64::MIN))]);
        assert!(session.span().dur() > 0);
    }
}
