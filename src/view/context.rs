//! What every view is given: the open traces and the one selection.

use std::sync::Arc;

use crate::command::Command;
use crate::model::memory::AllocationId;
use crate::model::{DurNs, SliceId, TimeNs, TimeRange, Trace};

use super::memory::MemoryFocus;

/// An open trace and its place on the session's clock.
#[derive(Clone, Debug)]
pub struct OpenTrace {
    pub trace: Arc<Trace>,
    /// Add this to the trace's times to get session times.
    pub offset: DurNs,
}

/// What is selected: one value, the same in every view. `trace` is an index into the open traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    #[default]
    None,
    Slice {
        trace: usize,
        slice: SliceId,
    },
    /// `instant` is an index into the trace's instants.
    Instant {
        trace: usize,
        instant: usize,
    },
    /// `memory` is an index into the trace's memories.
    Allocation {
        trace: usize,
        memory: usize,
        id: AllocationId,
    },
}

/// A moment or range that the person marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Session time; a moment has equal start and end.
    pub range: TimeRange,
    pub note: String,
}

/// The visible time range, with the ones before it.
#[derive(Clone, Debug, Default)]
pub struct Navigation {
    visible: TimeRange,
    /// The bytes on show in the picture of memory, from bottom to top; `None` is all.
    pub bytes: Option<TimeRange>,
    undo: Vec<Seen>,
    redo: Vec<Seen>,
}

/// What was on show: time and bytes.
type Seen = (TimeRange, Option<TimeRange>);

/// Takes the last that is not what is on show already.
fn last_other(steps: &mut Vec<Seen>, now: Seen) -> Option<Seen> {
    std::iter::from_fn(|| steps.pop()).find(|&seen| seen != now)
}

impl Navigation {
    const MAX_UNDO: usize = 100;

    /// What the timeline shows, in session time. Never empty once something is open.
    pub fn visible(&self) -> TimeRange {
        self.visible
    }

    /// Shows `range` without a step to undo: for the many small moves of one drag or wheel turn.
    pub fn glide(&mut self, range: TimeRange) {
        if range.dur() > 0 {
            self.visible = range;
        }
    }

    /// Remembers the present range, as the start of a movement to undo.
    pub fn remember(&mut self) {
        let seen = self.seen();
        if self.undo.last() != Some(&seen) {
            self.undo.push(seen);
            let surplus = self.undo.len().saturating_sub(Self::MAX_UNDO);
            self.undo.drain(..surplus);
        }
        self.redo.clear();
    }

    /// Shows `range`, as one step to undo.
    pub fn go(&mut self, range: TimeRange) {
        self.remember();
        self.glide(range);
    }

    /// Moves all ranges by `offset` nanoseconds, after the session's clock moved.
    pub fn shift(&mut self, offset: DurNs) {
        let seen = self.undo.iter_mut().chain(&mut self.redo).map(|seen| &mut seen.0);
        seen.chain([&mut self.visible]).for_each(|range| *range = range.shifted(offset));
    }

    /// Shows all bytes, and forgets which were on show: they are of another memory.
    pub fn forget_bytes(&mut self) {
        self.bytes = None;
        self.undo.iter_mut().chain(&mut self.redo).for_each(|seen| seen.1 = None);
    }

    /// Back to what was on show before; false if there was nothing else.
    pub fn undo(&mut self) -> bool {
        let now = self.seen();
        let Some(seen) = last_other(&mut self.undo, now) else { return false };
        self.redo.push(now);
        (self.visible, self.bytes) = seen;
        true
    }

    /// Forward again; false if nothing was undone.
    pub fn redo(&mut self) -> bool {
        let now = self.seen();
        let Some(seen) = last_other(&mut self.redo, now) else { return false };
        self.undo.push(now);
        (self.visible, self.bytes) = seen;
        true
    }

    fn seen(&self) -> Seen {
        (self.visible, self.bytes)
    }
}

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

/// Whether there is no time in all of these, only numbers of events.
pub fn counts_events(traces: &[OpenTrace]) -> bool {
    traces.iter().all(|open| {
        let memories = &open.trace.memories;
        !memories.is_empty() && memories.iter().all(|history| !history.has_time) && open.trace.slices.is_empty()
    })
}

impl ViewContext<'_> {
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
        match *self.selection {
            Selection::None => None,
            Selection::Slice { trace, slice } => {
                let open = self.traces.get(trace)?;
                Some(open.trace.slices.time(slice).shifted(open.offset))
            }
            Selection::Instant { trace, instant } => {
                let open = self.traces.get(trace)?;
                let ts = open.trace.instants.ts.get(instant)?.saturating_add(open.offset);
                Some(TimeRange { start: ts, end: ts })
            }
            Selection::Allocation { trace, memory, id } => {
                let open = self.traces.get(trace)?;
                Some(open.trace.memories.get(memory)?.life(id).shifted(open.offset))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: TimeNs, end: TimeNs) -> TimeRange {
        TimeRange { start, end }
    }

    #[test]
    fn every_step_back_is_seen_and_bytes_are_of_one_memory() {
        let mut navigation = Navigation::default();
        navigation.glide(range(0, 100));
        // One that moves nothing, one that moves time, one that moves bytes.
        navigation.go(range(0, 100));
        navigation.go(range(10, 20));
        navigation.remember();
        navigation.bytes = Some(range(0, 7));
        assert!(navigation.undo());
        assert_eq!((navigation.visible(), navigation.bytes), (range(10, 20), None));
        assert!(navigation.redo());
        assert_eq!(navigation.bytes, Some(range(0, 7)));
        navigation.forget_bytes();
        assert!(navigation.undo());
        assert_eq!((navigation.visible(), navigation.bytes), (range(0, 100), None));
        assert!(!navigation.undo());
        while navigation.redo() {}
        assert_eq!((navigation.visible(), navigation.bytes), (range(10, 20), None));
    }
}
