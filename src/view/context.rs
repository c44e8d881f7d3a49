//! What every view is given: the open traces and the one selection.

use crate::answers::Answers;
use crate::command::Command;
use crate::model::{SliceId, TimeNs, TimeRange};
use crate::session::{Mark, MemoryFocus, Navigation, OpenTrace, Selection, Session, SessionParts};
use std::sync::Arc;

/// What a view may read and change during one frame. All else is a [`Command`].
#[derive(Debug)]
pub struct ViewContext<'a> {
    pub traces: &'a [OpenTrace],
    /// From the first start to the last end of all open traces, in session time.
    pub span: TimeRange,
    pub navigation: &'a mut Navigation,
    pub selection: &'a mut Selection,
    /// The selected time range, in session time.
    pub range: &'a mut Option<TimeRange>,
    /// Sorted by time; no range is there twice.
    pub marks: &'a mut Vec<Mark>,
    /// Slices found by the last search, as (trace, slice), sorted by time; painted as highlights.
    pub hits: &'a mut Arc<Vec<(usize, SliceId)>>,
    pub memory: &'a mut MemoryFocus,
    pub answers: &'a Answers,
    /// Whether moments of different traces can be compared.
    pub is_one_clock: bool,
    pub is_dark: bool,
    /// Whether the plain wheel zooms and Ctrl+wheel scrolls, instead of the other way round.
    pub wheel_zooms: bool,
    /// Whether keys that are held down are meant for this view: of those on screen it was used last.
    pub has_keys: bool,
    /// Run after the frame, in order.
    pub commands: &'a mut Vec<Command>,
}

impl<'a> ViewContext<'a> {
    /// A view's context for one frame.
    ///
    /// * `commands`: gets what the view asks for.
    pub fn new(session: &'a mut Session, answers: &'a Answers, is_dark: bool, commands: &'a mut Vec<Command>) -> Self {
        let SessionParts { open, navigation, selection, range, marks, hits, memory } = session.parts();
        let (span, is_one_clock) = (open.span(), open.is_one_clock());
        let traces: &[OpenTrace] = open;
        Self {
            traces,
            span,
            navigation,
            selection,
            range,
            marks,
            hits,
            memory,
            answers,
            is_one_clock,
            is_dark,
            wheel_zooms: false,
            has_keys: true,
            commands,
        }
    }

    /// Adds a mark at its place in time, unless the very same range is marked already.
    pub fn add_mark(&mut self, mark: Mark) {
        let place = |mark: &Mark| (mark.range.start, mark.range.end);
        if let Err(at) = self.marks.binary_search_by_key(&place(&mark), place) {
            self.marks.insert(at, mark);
        }
    }

    /// Brings a moment, in session time, to the middle of the view; the zoom stays.
    pub fn center_on(&mut self, ts: TimeNs) {
        let view = self.navigation.visible();
        // A mark in a trace that was closed may lie outside of all others.
        let ts = ts.clamp(self.span.start, self.span.end);
        self.navigation.go(view.shifted(ts.saturating_sub(view.start.saturating_add(view.dur() / 2))));
    }

    /// A moment of one trace as session time.
    pub fn session_time(&self, trace: usize, ts: TimeNs) -> TimeNs {
        ts.saturating_add(self.traces[trace].offset)
    }

    /// Start and end of what is selected, in session time.
    pub fn selected_time(&self) -> Option<TimeRange> {
        self.selection.time(self.traces)
    }
}
