//! The state that views share: open traces, navigation and selection.

use crate::analysis::rules::Thresholds;
use crate::answers::Answers;
use crate::answers::time::TraceSteps;
use crate::command::Command;
use crate::live::Monitor;
use crate::model::{SliceId, TimeNs, TimeRange};
use crate::session::{
    ChosenStep, FileChoices, GapOrder, Mark, MemoryFocus, Navigation, OpenTrace, Selection, Session, StepFocus,
};
use std::path::Path;
use std::sync::Arc;

/// What a view may read and change during one frame. Everything else is requested as a [`Command`].
#[derive(Debug)]
pub struct ViewContext<'a> {
    pub traces: &'a [OpenTrace],
    /// From the first start to the last end of all open traces, in session time.
    pub span: TimeRange,
    /// What the first picture shows: see [`crate::session::OpenTraces::content`].
    pub content: TimeRange,
    pub navigation: &'a mut Navigation,
    pub selection: &'a mut Selection,
    /// The selected time range, in session time.
    pub range: &'a mut Option<TimeRange>,
    /// The step that was chosen last, by its time and name.
    pub chosen_step: &'a mut Option<ChosenStep>,
    /// Sorted by time, without duplicate ranges.
    pub marks: &'a mut Vec<Mark>,
    /// Slices found by the last search, as (trace, slice), sorted by time; painted as highlights.
    pub hits: &'a mut Arc<Vec<(usize, SliceId)>>,
    pub memory: &'a mut MemoryFocus,
    /// In which order keys go from gap to gap.
    pub gap_order: &'a mut GapOrder,
    /// The files that each table shows.
    pub files: &'a mut FileChoices,
    /// Whose steps are shown.
    pub steps: &'a mut StepFocus,
    /// Of the rules.
    pub thresholds: &'a mut Thresholds,
    /// The watch over this machine's GPUs.
    pub live: &'a Arc<Monitor>,
    pub answers: &'a Answers,
    pub is_dark: bool,
    /// Whether the plain wheel zooms and Ctrl+wheel scrolls, instead of the other way round.
    pub wheel_zooms: bool,
    /// The user's choice of `nsys`.
    pub nsys: Option<&'a Path>,
    /// Whether held keys go to this view: it was used last of the visible ones.
    pub has_keys: bool,
    /// Run after the frame, in order.
    pub commands: &'a mut Vec<Command>,
}

impl<'a> ViewContext<'a> {
    /// A view's context for one frame.
    ///
    /// * `commands`: gets what the view asks for.
    pub fn new(session: &'a mut Session, answers: &'a Answers, is_dark: bool, commands: &'a mut Vec<Command>) -> Self {
        let Session {
            open,
            navigation,
            selection,
            range,
            chosen_step,
            marks,
            hits,
            memory,
            gap_order,
            steps,
            files,
            thresholds,
            live,
            ..
        } = session;
        Self {
            traces: open,
            span: open.span(),
            content: open.content(),
            navigation,
            selection,
            range,
            chosen_step,
            marks,
            hits,
            memory,
            gap_order,
            steps,
            files,
            thresholds,
            live,
            answers,
            is_dark,
            wheel_zooms: false,
            nsys: None,
            has_keys: true,
            commands,
        }
    }

    /// Marks a moment or a range as the user asked for; says where it is marked already.
    pub fn mark(&mut self, range: TimeRange) {
        let is_new = self.add_mark(Mark::new(range));
        if !is_new {
            self.commands.push(Command::Tell(match range.dur() {
                0 => "This moment is marked already. Marks lists it, with its note, and deletes it",
                _ => "This range is marked already. Marks lists it, with its note, and deletes it",
            }));
        }
    }

    /// Adds a mark in order of time, unless its range is already marked; returns whether it was not.
    ///
    /// A new one is kept with the trace of the selection, else with the first that was recorded then.
    pub fn add_mark(&mut self, mut mark: Mark) -> bool {
        if mark.of.is_empty() {
            let selected = self.selection.trace().and_then(|trace| self.traces.get(trace));
            let is_then = |open: &&OpenTrace| {
                open.trace.span.shifted(open.offset).union(mark.range).dur() == open.trace.span.dur()
            };
            let of = selected.or_else(|| self.traces.iter().find(is_then)).or(self.traces.first());
            mark.of = of.map(|open| Arc::clone(&open.id)).unwrap_or_default();
        }
        let key = |mark: &Mark| (mark.range.start, mark.range.end);
        let place = self.marks.binary_search_by_key(&key(&mark), key);
        if let Err(at) = place {
            self.marks.insert(at, mark);
        }
        place.is_err()
    }

    /// Centers the view on a moment in session time without zooming.
    pub fn center_on(&mut self, ts: TimeNs) {
        let view = self.navigation.visible();
        // A mark in a closed trace may lie outside of all open ones.
        let ts = ts.clamp(self.span.start, self.span.end);
        self.navigation.go(view.shifted(ts.saturating_sub(view.start.saturating_add(view.dur() / 2))));
    }

    /// The trace whose steps are shown, by its index, and what asks for them.
    pub fn trace_steps(&self) -> Option<(usize, &'a OpenTrace, TraceSteps)> {
        let (index, open) = self.steps.open(self.traces)?;
        Some((index, open, self.steps_of(open)))
    }

    /// What asks for the steps of a trace: those that it has, or the user's marks if they are to be the steps.
    pub fn steps_of(&self, open: &OpenTrace) -> TraceSteps {
        TraceSteps { marks: self.steps.marks(self.marks, open) }
    }

    /// The same for each open trace.
    pub fn steps_of_all(&self) -> Vec<TraceSteps> {
        self.traces.iter().map(|open| self.steps_of(open)).collect()
    }

    /// Makes a step of a trace the selected range. A selected gap is of another moment, and is selected no more.
    pub fn choose_step(&mut self, trace: usize, time: TimeRange, name: &str) {
        let Some(open) = self.traces.get(trace) else { return };
        *self.range = Some(time);
        let is_alone = self.traces.iter().filter(|open| open.is_program()).count() < 2;
        let name = if is_alone { name.into() } else { format!("{name} of {}", open.name).into() };
        *self.chosen_step = Some(ChosenStep { time, name, of: Arc::clone(&open.id) });
        if matches!(self.selection, Selection::Gap { .. }) {
            *self.selection = Selection::None;
        }
    }

    /// A moment of one trace as session time.
    pub fn session_time(&self, trace: usize, ts: TimeNs) -> TimeNs {
        ts.saturating_add(self.traces[trace].offset)
    }

    /// What the selected range is called: the step that was chosen, else that it was selected. May contain text from a
    /// file.
    pub fn range_title(&self) -> &str {
        self.step_in_range().map_or("Selected range", |step| &step.name)
    }

    /// The step that is the selected range.
    pub fn step_in_range(&self) -> Option<&ChosenStep> {
        self.chosen_step.as_ref().filter(|step| Some(step.time) == *self.range)
    }

    /// Start and end of the selection, in session time.
    pub fn selected_time(&self) -> Option<TimeRange> {
        self.selection.time(self.traces)
    }
}
