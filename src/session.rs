//! What is open, on which clock, and what the person is looking at. One owner for all of it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::analysis::clock;
use crate::command::Command;
use crate::model::{DurNs, SliceId, TimeRange, Trace};
use crate::view::memory::MemoryFocus;
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
    /// Sorted by time; no range is there twice.
    pub marks: Vec<Mark>,
    /// What the last search found, as (trace, slice), sorted by time.
    pub hits: Arc<Vec<(usize, SliceId)>>,
    pub memory: MemoryFocus,
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
        let shows_all = self.shows_all();
        self.traces.extend(traces.into_iter().map(|trace| OpenTrace { trace: Arc::new(trace), offset: 0 }));
        self.place(shows_all);
    }

    /// Closes the traces that `is_closed` says, by their index; the others stay as they are on
    /// screen, and so does what is chosen about them. Marks stay, since their notes are the
    /// person's own.
    pub fn close(&mut self, is_closed: impl Fn(usize, &Trace) -> bool) {
        let shows_all = self.shows_all();
        let mut n_kept = 0;
        let mut new_index = Vec::with_capacity(self.traces.len());
        for (i, open) in self.traces.iter().enumerate() {
            let is_kept = !is_closed(i, &open.trace);
            new_index.push(is_kept.then_some(n_kept));
            n_kept += usize::from(is_kept);
        }
        if n_kept == 0 {
            return self.clear();
        }
        let mut is_kept = new_index.iter().map(Option::is_some);
        self.traces.retain(|_| is_kept.next().unwrap_or(true));
        let moved = |trace: usize| new_index.get(trace).copied().flatten();
        self.selection = match self.selection {
            Selection::None => None,
            Selection::Slice { trace, slice } => moved(trace).map(|trace| Selection::Slice { trace, slice }),
            Selection::Instant { trace, instant } => moved(trace).map(|trace| Selection::Instant { trace, instant }),
            Selection::Allocation { trace, memory, id } => {
                moved(trace).map(|trace| Selection::Allocation { trace, memory, id })
            }
        }
        .unwrap_or_default();
        let hits = self.hits.iter().filter_map(|&(trace, slice)| Some((moved(trace)?, slice)));
        self.hits = Arc::new(hits.collect());
        self.memory.follow(moved);
        self.place(shows_all);
        let is_there = |range: &TimeRange| range.intersect(self.span).is_some();
        self.range = self.range.filter(is_there);
        if !is_there(&self.navigation.visible()) {
            self.navigation.go(self.span);
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
            hits: &mut self.hits,
            memory: &mut self.memory,
            is_one_clock: self.clock != Clock::AlignedStarts,
            is_dark,
            wheel_zooms: false,
            has_keys: true,
            commands,
        }
    }

    /// Whether everything is on screen, from start to end.
    fn shows_all(&self) -> bool {
        self.traces.is_empty() || self.navigation.visible().union(self.span) == self.navigation.visible()
    }

    /// Chooses the clock, gives each trace its offset on it, and moves what is on screen along
    /// with the first trace; or shows everything, if `shows_all`.
    fn place(&mut self, shows_all: bool) {
        let offset_before = self.traces.first().map_or(0, |open| open.offset);
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
        self.shift(self.traces.first().map_or(0, |open| open.offset).saturating_sub(offset_before));
        if shows_all {
            self.navigation.glide(self.span);
        }
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
    fn closing_one_of_three_keeps_clock_selection_and_hits_of_the_others() {
        let mut session = Session::default();
        let known = |start| trace(start, start + 1_000, Some(0));
        session.add(vec![known(1_000), known(3_000), known(6_000)]);
        let last = Arc::clone(&session.traces()[2].trace);
        session.selection = Selection::Slice { trace: 2, slice: SliceId(0) };
        session.hits = Arc::new(vec![(0, SliceId(0)), (1, SliceId(0)), (2, SliceId(0))]);
        let on_last = TimeRange { start: 5_100, end: 5_200 };
        session.navigation.go(on_last);
        session.range = Some(on_last);
        session.marks.push(Mark { range: on_last, note: "slow".to_owned() });

        session.close(|i, _| i == 0);
        // The second trace, which started 2,000 ns later, is the new zero.
        assert_eq!(session_starts(&session), [0, 3_000]);
        assert_eq!((session.clock(), session.span()), (Clock::Utc, TimeRange { start: 0, end: 4_000 }));
        assert!(Arc::ptr_eq(&session.traces()[1].trace, &last));
        assert_eq!(session.selection, Selection::Slice { trace: 1, slice: SliceId(0) });
        assert_eq!(*session.hits, [(0, SliceId(0)), (1, SliceId(0))]);
        let moved = on_last.shifted(-2_000);
        assert_eq!((session.navigation.visible(), session.range), (moved, Some(moved)));
        assert_eq!(session.marks[0].range, moved);

        session.close(|i, _| i == 1);
        assert_eq!((session.clock(), session.selection), (Clock::Single, Selection::None));
        assert_eq!(session.range, None, "nothing is left there");
        assert_eq!(session.navigation.visible(), session.span());
        assert_eq!(session.marks[0].note, "slow");

        session.close(|_, _| true);
        assert!(session.traces().is_empty());
    }

    #[test]
    fn all_traces_of_one_file_close_in_one_step() {
        let of_file = |path: &str, rank| {
            let mut trace = trace(0, 100, None);
            trace.info.path = path.into();
            trace.info.rank = Some(rank);
            trace
        };
        let mut session = Session::default();
        session.add(vec![of_file("a.tar", 0), of_file("a.tar", 1), of_file("b.json", 0)]);
        session.close(|_, trace| trace.info.path == *"a.tar");
        assert_eq!(session.traces().len(), 1);
        assert!(session.has_file(&PathBuf::from("b.json")) && !session.has_file(&PathBuf::from("a.tar")));
        assert_eq!(session.navigation.visible(), session.span());
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
