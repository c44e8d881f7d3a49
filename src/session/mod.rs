//! The open traces, their clock, and all choices about them: selection, ranges, marks, shown memory.

mod beyond;
mod failures;
mod files;
mod gap_order;
mod history;
mod mark;
mod memory_findings;
mod memory_focus;
mod names;
mod navigation;
mod open;
mod outside;
mod selection;
mod step_focus;
mod stored;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use crate::analysis::rules::Thresholds;
use crate::live::Monitor;
use crate::model::{DurNs, SliceId, TimeNs, TimeRange, Trace};

pub use self::beyond::Beyond;
pub use self::files::{FileChoices, Files};
pub use self::gap_order::GapOrder;
pub use self::history::{History, Visit};
pub use self::mark::{KeptMarks, Mark};
pub use self::memory_findings::{FoundInMemory, MemoryAnswers, joined};
pub use self::memory_focus::{Base, MemoryFocus, OpenMemory, ShownMemory};
pub use self::navigation::Navigation;
pub use self::open::{OpenTrace, OpenTraces, RunPlaces, counts_events, in_order, is_named, picture, track_title};
pub use self::selection::Selection;
pub use self::step_focus::{ChosenStep, StepFocus};
pub use self::stored::lenient;

/// The open traces and all choices about them.
#[derive(Debug, Default)]
pub struct Session {
    /// Changed by [`Session::add`], [`Session::close`] and [`Session::clear`] only.
    pub open: OpenTraces,
    pub navigation: Navigation,
    pub history: History,
    pub selection: Selection,
    /// The selected time range, in session time.
    pub range: Option<TimeRange>,
    /// The step that was chosen last: what the selected range is called.
    pub chosen_step: Option<ChosenStep>,
    /// Sorted by time; no range is there twice.
    pub marks: Vec<Mark>,
    /// Marks of traces that are not open.
    pub kept_marks: KeptMarks,
    /// What the last search found, as (trace, slice), sorted by time.
    pub hits: Arc<Vec<(usize, SliceId)>>,
    pub memory: MemoryFocus,
    /// In which order keys go from gap to gap.
    pub gap_order: GapOrder,
    pub steps: StepFocus,
    /// The files that each table shows.
    pub files: FileChoices,
    /// Of the rules about time.
    pub thresholds: Thresholds,
    /// The watch over this machine's GPUs, which begins when a view asks for it.
    pub live: Arc<Monitor>,
}

impl Session {
    /// A session in which `traces` are open.
    pub fn of(traces: Vec<Trace>) -> Self {
        let mut session = Self::default();
        session.add(traces);
        session
    }

    /// The open traces, in the order in which they were asked for.
    pub fn traces(&self) -> &[OpenTrace] {
        &self.open
    }

    /// From the first start to the last end, in session time. Never empty.
    pub fn span(&self) -> TimeRange {
        self.open.span()
    }

    /// What the first picture shows: see [`OpenTraces::content`].
    pub fn content(&self) -> TimeRange {
        self.open.content()
    }

    /// Opens `traces` beside those that are open.
    ///
    /// What is on screen stays there, also if the clock moves; if everything was visible, everything stays visible.
    pub fn add<T: Into<OpenTrace>>(&mut self, traces: Vec<T>) {
        let shows_all = self.shows_all();
        let (new_index, moved_by) = self.open.add(traces);
        if new_index.iter().enumerate().any(|(old, &new)| old != new) {
            self.follow_indices(|trace| new_index.get(trace).copied());
        }
        self.follow_clock(moved_by, shows_all);
        let mut is_new = vec![true; self.open.len()];
        new_index.iter().for_each(|&known| is_new[known] = false);
        // Where marks are there already, whether they are steps is settled.
        let had_marks = !self.marks.is_empty();
        for (open, _) in self.open.iter().zip(&is_new).filter(|(_, is_new)| **is_new) {
            self.marks.extend(self.kept_marks.of(open));
            self.steps.by_marks |= !had_marks && self.kept_marks.are_steps(open);
        }
        self.marks.sort_by_key(|mark| (mark.range.start, mark.range.end));
        // Each recording keeps its own, also where two have one at the same time.
        self.marks.dedup_by(|a, b| (a.range, &a.of) == (b.range, &b.of));
    }

    /// Closes the traces for which `is_closed` is true, given their index. View, selection and marks of the others
    /// stay; their own marks come back when they are opened again.
    pub fn close(&mut self, is_closed: impl Fn(usize, &Trace) -> bool) {
        let shows_all = self.shows_all();
        self.kept_marks = self.all_marks();
        let closed = |(i, open): (usize, &OpenTrace)| is_closed(i, &open.trace).then(|| Arc::clone(&open.id));
        let closed: Vec<Arc<str>> = self.open.iter().enumerate().filter_map(closed).collect();
        self.marks.retain(|mark| !closed.contains(&mark.of));
        let (new_index, moved_by) = self.open.close(is_closed);
        if self.open.is_empty() {
            return self.clear();
        }
        self.follow_indices(|trace| new_index.get(trace).copied().flatten());
        self.follow_clock(moved_by, shows_all);
        let is_there = |range: &TimeRange| range.intersect(self.open.span()).is_some();
        self.range = self.range.filter(is_there);
        if !is_there(&self.navigation.visible()) {
            self.navigation.go(self.open.content());
        }
    }

    /// Places runs on the session clock, and shows all of them. The ranges move along with the trace of the selection, marks
    /// each with their own.
    ///
    /// * `aligned_steps`: of each trace, where the step begins in its own time that is aligned; else none.
    pub fn place_runs(&mut self, places: RunPlaces, aligned_steps: &[Option<TimeNs>]) {
        let moved = self.open.place_runs(places, aligned_steps);
        let of_trace = |trace: usize| moved.get(trace).copied().unwrap_or_default();
        let leading = of_trace(self.selection.trace().unwrap_or_default());
        let marks = std::mem::take(&mut self.marks);
        self.follow_clock(leading, false);
        self.marks = marks;
        for mark in &mut self.marks {
            let of = self.open.iter().position(|open| open.id == mark.of);
            mark.range = mark.range.shifted(of.map_or(leading, of_trace));
        }
        self.marks.sort_by_key(|mark| (mark.range.start, mark.range.end));
        self.navigation.go(self.content());
    }

    /// Lets the picture be of the run of one trace alone: the others stay open behind it. If everything was visible,
    /// everything of it is.
    pub fn bring_to_front(&mut self, trace: usize) {
        let shows_all = self.shows_all();
        self.open.bring_to_front(trace);
        self.follow_clock(0, shows_all);
    }

    /// Lets the picture be of what it was of before this trace was opened: its run stays behind. If everything was
    /// visible, everything of that is.
    pub fn put_behind(&mut self, trace: usize) {
        let shows_all = self.shows_all();
        self.open.put_behind(trace);
        self.follow_clock(0, shows_all);
    }

    /// Closes everything. The thresholds and the watch over the GPUs stay.
    pub fn clear(&mut self) {
        let live = std::mem::take(&mut self.live);
        *self = Self { thresholds: self.thresholds, kept_marks: self.all_marks(), live, ..Self::default() };
    }

    /// The marks of all traces, open or not.
    pub fn all_marks(&self) -> KeptMarks {
        let mut all = self.kept_marks.clone();
        self.open.iter().for_each(|open| all.put(open, &self.marks, self.steps.by_marks));
        all
    }

    /// What is chosen and on show.
    ///
    /// * `views`: those in front.
    pub fn place(&self, views: Vec<&'static str>) -> Visit {
        let MemoryFocus { history: memory, moment, .. } = self.memory;
        let visible = self.navigation.visible();
        Visit { selection: self.selection, range: self.range, memory, moment, visible, views }
    }

    /// Goes to a place of [`Self::history`].
    pub fn go(&mut self, place: &Visit) {
        (self.selection, self.range) = (place.selection, place.range);
        if let Some((trace, memory)) = place.memory {
            self.memory.show(trace, memory);
        }
        self.memory.moment = place.moment;
        if self.navigation.visible() != place.visible {
            self.navigation.go(place.visible);
        }
    }

    /// Whether a trace of this file is open.
    pub fn has_file(&self, path: &Path) -> bool {
        self.open.iter().any(|open| open.trace.info.path == path)
    }

    /// Whether all content is on screen, from start to end.
    fn shows_all(&self) -> bool {
        self.open.is_empty() || self.navigation.visible().union(self.content()) == self.navigation.visible()
    }

    /// Gives all choices the indices that the traces have now.
    ///
    /// * `moved`: the new index of a trace, if it is still open.
    fn follow_indices(&mut self, moved: impl Fn(usize) -> Option<usize> + Copy) {
        self.selection = self.selection.moved(moved);
        let hits = self.hits.iter().filter_map(|&(trace, slice)| Some((moved(trace)?, slice)));
        self.hits = Arc::new(hits.collect());
        self.memory.follow(moved);
        self.steps.trace = self.steps.trace.and_then(moved);
        self.files.follow(moved);
        self.history.keep(moved);
    }

    /// Moves the visible and the selected ranges along with the first trace; shows everything if `shows_all`.
    fn follow_clock(&mut self, moved_by: DurNs, shows_all: bool) {
        if moved_by != 0 {
            self.navigation.shift(moved_by);
            self.history.shift(moved_by);
            self.range = self.range.map(|range| range.shifted(moved_by));
            if let Some(step) = &mut self.chosen_step {
                step.time = step.time.shifted(moved_by);
            }
            for mark in &mut self.marks {
                mark.range = mark.range.shifted(moved_by);
            }
        }
        if shows_all {
            self.navigation.glide(self.content());
        }
    }
}
