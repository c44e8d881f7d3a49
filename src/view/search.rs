//! Search for slices by name: a text field, a list of hits, and steps from one to the next.

use std::sync::Arc;

use eframe::egui::{self, Key, Modifiers};

use super::found::FoundSlices;
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::analysis::search::search;
use crate::answers::{Analysis, Answer, Query, Subject as _, SubjectKey, Work};
use crate::command::Command;
use crate::figures::format;
use crate::model::{DurNs, SliceId, TimeRange};
use crate::session::{Files, OpenTrace, Selection};
use crate::view::axis::fitted;
use crate::view::states::failed_ui;
use crate::view::tables::{Grid, Many, file_switch_ui};
use crate::widget::busy::busy_ui;
use crate::widget::table::Action;
use crate::widget::theme;

/// How many slices are listed; all are counted.
const LIMIT: usize = 100_000;

type Hits = Vec<(usize, SliceId)>;

/// Finds slices whose names contain a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Find {
    text: String,
    /// In session time.
    range: Option<TimeRange>,
    files: Files,
}

/// Goes to a slice that is too short to be seen at the current zoom, with time around it.
fn zoom_to_tiny(ctx: &mut ViewContext<'_>, trace: usize, slice: SliceId) {
    /// It can be seen from this part of the visible time on.
    const TINY: DurNs = 500;
    /// Its durations on each side of it.
    const AROUND: f64 = 20.0;
    let Some(open) = ctx.traces.get(trace).filter(|open| slice.idx() < open.trace.slices.len()) else { return };
    let time = open.trace.slices.time(slice).shifted(open.offset);
    // One without length is a mark at any zoom.
    if time.dur() > 0 && time.dur() < ctx.navigation.visible().dur() / TINY {
        ctx.navigation.go(fitted(time, AROUND, ctx.span));
    }
}

#[derive(Debug, Default)]
struct Found {
    total: u64,
    listed: Arc<FoundSlices>,
}

/// The time range to search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scope {
    #[default]
    All,
    /// The visible range of the timeline.
    Visible,
    /// The selected time range; without one, all.
    Range,
}

impl Scope {
    const CHOICES: [(Self, &str, &str); 3] = [
        (Self::All, "Everywhere", "Search all open traces from start to end"),
        (Self::Visible, "In view", "Search the visible time range"),
        (Self::Range, "In the selected range", "Search the selected time range"),
    ];

    /// The effective scope, given whether a range is selected.
    fn or_all(self, has_range: bool) -> Self {
        if self == Self::Range && !has_range { Self::All } else { self }
    }
}

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "search",
    title: "Search results",
    help: "Show the list of slices that the search found",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Slices,
    make: || Box::new(Search::default()),
};

/// The search tab.
#[derive(Debug, Default)]
pub struct Search {
    text: String,
    scope: Scope,
    wants_focus: bool,
    wanted: Find,
    found: Query<Find>,
    /// The traces of the hits.
    of: Option<SubjectKey>,
    is_searching: bool,
    /// Why the search failed.
    failed: Option<Arc<str>>,
    total: u64,
    hits: Arc<Hits>,
    grid: Grid<FoundSlices>,
    /// Index of the current hit.
    current: Option<usize>,
    /// Whether Escape took the marks of the hits from the timeline: until the next search or step to a hit.
    is_unmarked: bool,
    /// Whether a range was selected in the last frame, and whether one is newly selected in this frame.
    had_range: bool,
    is_first_range: bool,
}

impl Search {
    /// Takes the newest answer.
    fn take_answer(&mut self, ctx: &mut ViewContext<'_>) {
        let range = match self.scope {
            Scope::All => None,
            Scope::Visible => Some(ctx.navigation.visible()),
            Scope::Range => *ctx.range,
        };
        let wanted = Find { text: self.text.trim().to_owned(), range, files: ctx.files.of(SPEC.id) };
        let of = Some(ctx.traces.key());
        if self.of != of || self.wanted.text != wanted.text {
            self.is_unmarked = false;
        } else if !self.is_unmarked && !self.hits.is_empty() && ctx.hits.is_empty() {
            // The timeline gave them up.
            self.unmark();
        }
        self.wanted = wanted;
        if self.wanted.text.is_empty() || self.of != of {
            // Slices of other traces must not be shown for even one frame.
            (self.total, self.hits, self.current) = (0, Arc::default(), None);
            self.grid.reset();
        }
        (self.of, self.is_searching, self.failed) = (of, false, None);
        if self.wanted.text.is_empty() {
            self.found = Query::default();
            return;
        }
        match self.found.ask(ctx.answers, ctx.traces, &self.wanted) {
            Answer::Working(_) => self.is_searching = true,
            Answer::Failed(why) => self.failed = Some(why),
            Answer::Ready(found) => {
                let hits = &found.listed.slices;
                if !Arc::ptr_eq(hits, &self.hits) {
                    // The current hit stays current if the new list has it.
                    let at = self.current.and_then(|current| self.hits.get(current));
                    self.current = at.and_then(|at| hits.iter().position(|hit| hit == at));
                    (self.total, self.hits) = (found.total, Arc::clone(hits));
                }
                self.is_searching = self.grid.update(&found.listed, ctx.answers);
            }
        }
    }

    /// Takes the marks of the hits away, in the list as well.
    fn unmark(&mut self) {
        (self.is_unmarked, self.current) = (true, None);
        self.grid.leave();
    }

    /// Marks the hits in the timeline again.
    fn mark(&mut self, ctx: &mut ViewContext<'_>) {
        self.is_unmarked = false;
        ctx.hits.clone_from(&self.hits);
    }

    fn go(&mut self, index: usize, ctx: &mut ViewContext<'_>) {
        if let Some(&(trace, slice)) = self.hits.get(index) {
            self.current = Some(index);
            self.mark(ctx);
            self.grid.go(index);
            *ctx.selection = Selection::Slice { trace, slice };
            zoom_to_tiny(ctx, trace, slice);
            ctx.commands.push(Command::Reveal);
        }
    }

    /// The first hit that starts in or after the visible range, else the first of all.
    fn first_ahead(&self, ctx: &ViewContext<'_>) -> usize {
        let start = ctx.navigation.visible().start;
        let is_before = |&(trace, slice): &(usize, SliceId)| {
            let open = ctx.traces.get(trace);
            open.is_some_and(|open| open.trace.slices.ts[slice.idx()].saturating_add(open.offset) < start)
        };
        let ahead = self.hits.partition_point(is_before);
        if ahead < self.hits.len() { ahead } else { 0 }
    }

    fn field_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            let label = ui.label("Find");
            let edit = egui::TextEdit::singleline(&mut self.text)
                .id_salt("search")
                .hint_text("Part of a slice name")
                .desired_width(260.0);
            let edit = ui.add(edit).labelled_by(label.id);
            if std::mem::take(&mut self.wants_focus) {
                edit.request_focus();
            }
            if edit.lost_focus() && ui.input(|input| input.key_pressed(Key::Escape)) {
                self.unmark();
            }
            if edit.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
                let is_back = ui.input(|input| input.modifiers == Modifiers::SHIFT);
                self.run_hidden(if is_back { &Command::PreviousHit } else { &Command::NextHit }, ctx);
                edit.request_focus();
            }
            for (scope, label, help) in Scope::CHOICES {
                let is_possible = scope.or_all(ctx.range.is_some()) == scope;
                let is_chosen = self.scope.or_all(ctx.range.is_some()) == scope;
                let choice = ui.add_enabled(is_possible, egui::Button::selectable(is_chosen, label));
                if choice.on_hover_text(help).on_disabled_hover_text("No time range is selected").clicked() {
                    self.scope = scope;
                }
            }
            file_switch_ui(SPEC.id, Many::List, ctx, ui);
            let has_hits = !self.hits.is_empty();
            if ui
                .add_enabled(has_hits, egui::Button::new("Previous"))
                .on_hover_text("Previous hit (Shift+Enter)")
                .clicked()
            {
                self.run_hidden(&Command::PreviousHit, ctx);
            }
            if ui.add_enabled(has_hits, egui::Button::new("Next")).on_hover_text("Next hit (Enter)").clicked() {
                self.run_hidden(&Command::NextHit, ctx);
            }
            // The count is that of the list, which stays until the next one is ready.
            if let Some(why) = &self.failed {
                failed_ui(why, ui);
            } else if self.is_searching && self.hits.is_empty() {
                ui.weak("Searching…");
            } else if !self.wanted.text.is_empty() {
                ui.label(self.count_text());
                // Functions that allocated are in stacks, and no slices.
                let hint = "List the allocations in whose call stacks it is";
                if self.total == 0
                    && ctx.memory.resolve(ctx.traces).is_some()
                    && ui.button("Find in allocations").on_hover_text(hint).clicked()
                {
                    ctx.commands.push(Command::FindAllocations(self.wanted.text.clone()));
                }
            }
            if self.is_searching {
                busy_ui(ui);
            }
        });
    }

    /// The number of hits: `3 of 128`.
    fn count_text(&self) -> String {
        let total = format::count(self.total);
        let listed = self.hits.len() as u64;
        let cut = if listed < self.total { format!(", first {} listed", format::count(listed)) } else { String::new() };
        match (self.current, self.total) {
            (_, 0) => match (self.scope, self.wanted.range) {
                (Scope::Visible, _) => "No matching slice in view".to_owned(),
                (Scope::Range, Some(_)) => "No matching slice in the selected range".to_owned(),
                _ => "No matching slice".to_owned(),
            },
            (Some(current), _) => {
                let place = self.grid.order().and_then(|order| order.place(current)).unwrap_or(current);
                format!("{} of {total}{cut}", format::count(place as u64 + 1))
            }
            (None, 1) => "1 slice".to_owned(),
            (None, _) => format!("{total} slices{cut}"),
        }
    }

    fn table_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.grid.poll_text(ctx.commands, ui.ctx());
        if let Some(Action::Select(index) | Action::Open(index)) = self.grid.ui("Search results", Some("Show"), ui) {
            self.go(index, ctx);
        }
    }

    /// The hit after or before the current one, as the list is sorted; without one the next or the last before what is
    /// visible.
    fn step(&self, is_forward: bool, ctx: &ViewContext<'_>) -> Option<usize> {
        let step = |at: usize| if is_forward { at + 1 } else { at + self.hits.len() - 1 } % self.hits.len();
        match (self.current, self.grid.order().filter(|order| order.rows().len() == self.hits.len())) {
            _ if self.hits.is_empty() => None,
            (Some(current), Some(order)) => Some(order.rows()[step(order.place(current)?)] as usize),
            (Some(current), None) => Some(step(current)),
            (None, _) if is_forward => Some(self.first_ahead(ctx)),
            (None, _) => Some(step(self.first_ahead(ctx))),
        }
    }
}

impl Analysis for Find {
    type Of = [OpenTrace];
    type Output = Found;
    const NAME: &'static str = "The search";
    const KEPT: usize = 2;

    fn run(&self, traces: &[OpenTrace], work: &Work<'_>) -> Option<Found> {
        let mut total = 0;
        let mut hits = Vec::new();
        for (i, open) in traces.iter().enumerate().filter(|(i, _)| self.files.has(*i)) {
            let range = self.range.map(|range| range.shifted(open.offset.saturating_neg()));
            let found = search(&open.trace, &self.text, range, LIMIT, &|| work.is_cancelled());
            total += found.total;
            hits.extend(found.slices.into_iter().map(|slice| (i, slice)));
        }
        if traces.len() > 1 {
            hits.sort_by_key(|&(i, slice): &(usize, SliceId)| {
                traces.get(i).map(|open| open.trace.slices.ts[slice.idx()].saturating_add(open.offset))
            });
            hits.truncate(LIMIT);
        }
        Some(Found { total, listed: Arc::new(FoundSlices::new(traces, hits)) })
    }
}

impl View for Search {
    fn update(&mut self, ctx: &mut ViewContext<'_>, _egui: &egui::Context) {
        self.take_answer(ctx);
        // Even while the tab is hidden, since the timeline highlights the hits.
        *ctx.hits = if self.is_unmarked { Arc::default() } else { Arc::clone(&self.hits) };
        let has_range = ctx.range.is_some();
        self.is_first_range = has_range && !std::mem::replace(&mut self.had_range, has_range);
    }

    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.field_ui(ctx, ui);
        if self.text.trim().is_empty() {
            if self.is_first_range {
                // Without a search text, a newly selected range brings up its summary.
                ctx.commands.push(Command::Show(super::range_summary::SPEC.id));
            }
            let tokens = theme::tokens(ctx.is_dark);
            ui.colored_label(
                tokens.weak_text,
                "Type part of a name, such as gemm or nccl; Enter goes to the next match",
            );
        } else {
            self.table_ui(ctx, ui);
        }
    }

    fn is_pending(&self) -> bool {
        self.is_searching
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let is_forward = match command {
            Command::Search => {
                self.wants_focus = true;
                self.mark(ctx);
                ctx.commands.push(Command::Show(SPEC.id));
                return true;
            }
            Command::NextHit => true,
            Command::PreviousHit => false,
            _ => return false,
        };
        if let Some(index) = self.step(is_forward, ctx) {
            self.go(index, ctx);
        }
        true
    }
}
