//! One table with its choices, and beside it the slices of the chosen row.

use std::sync::{Arc, Weak};

use eframe::egui::{self, CentralPanel, Frame, Panel, TextWrapMode};

use super::KEPT;
use super::files::{Many, file_name, file_switch_ui};
use super::grid::{Answer, Grid};
use super::rows::{COPY_PROFILE, Choice, TimeTable};
use super::side::Side;
use crate::analysis::totals::{Instance, Scope};
use crate::answers::{self, Analysis, Query, Subject as _, SubjectKey, Work};
use crate::command::Command;
use crate::figures::{format, text::display_name};
use crate::model::{TimeRange, Trace};
use crate::session::{Files, OpenTrace, Selection};
use crate::view::states::{RECORD_GPU, failed_ui, how_to_record_gpu, nothing_ui};
use crate::view::{View, ViewContext};
use crate::widget::busy::busy_ui;
use crate::widget::table::Action;

/// The rows of one table.
#[derive(Clone, Debug, PartialEq)]
struct Totals {
    table: &'static TimeTable,
    /// Index into [`TimeTable::choices`].
    choice: usize,
    /// Session time; `None` is everything.
    range: Option<TimeRange>,
    files: Files,
}

impl Analysis for Totals {
    type Of = [OpenTrace];
    type Output = Answer;
    const NAME: &'static str = "The table";
    const KEPT: usize = KEPT;

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Answer> {
        let is_cancelled = || work.is_cancelled();
        let models: Vec<&Trace> = of.iter().map(|open| &*open.trace).collect();
        let ranges = ranges_of(of, self.range, self.files);
        let scope = Scope { traces: &models, ranges, is_cancelled: &is_cancelled };
        let counted: Vec<usize> = self.files.counted(of).collect();
        let is_apart = self.files == Files::Apart && counted.len() > 1;
        let files = counted.into_iter().filter(|_| is_apart).map(|trace| (trace, file_name(of, trace)));
        Some(self.table.choices[self.choice].answer(&scope, files.collect()))
    }
}

/// The part of each trace that counts, in its own time; `None` is everything.
///
/// * `range`: in session time; `None` is everything.
pub fn ranges_of(of: &[OpenTrace], range: Option<TimeRange>, files: Files) -> Option<Vec<TimeRange>> {
    let part = |(index, open): (usize, &OpenTrace)| match range {
        _ if !files.counts(of, index) => Scope::NOTHING,
        Some(range) => range.shifted(open.offset.saturating_neg()),
        None => TimeRange::ALL,
    };
    let is_limited = range.is_some() || files.counted(of).count() < of.len();
    is_limited.then(|| of.iter().enumerate().map(part).collect())
}

/// The row of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowOf(Instance);

impl Analysis for RowOf {
    type Of = Arc<Answer>;
    type Output = Option<usize>;
    const NAME: &'static str = "Looking for the row of the selection";

    fn run(&self, of: &Arc<Answer>, _: &Work<'_>) -> Option<Option<usize>> {
        Some(of.instances.iter().position(|slices| slices.binary_search(&self.0).is_ok()))
    }
}

/// One table.
#[derive(Debug)]
pub struct Pane {
    table: &'static TimeTable,
    /// Index into [`TimeTable::choices`].
    choice: usize,
    /// Whether the user wants the whole trace although a range is selected.
    is_whole: bool,
    /// The traces that the rest is of.
    of: Option<SubjectKey>,
    totals: Query<Totals>,
    grid: Grid,
    side: Side,
    /// The row of the slice that is selected in the timeline.
    found: Query<RowOf>,
    /// The selection that the cursor followed last, and the table in which it did.
    followed: Followed,
    is_waiting: bool,
}

/// In which table which slice was looked for.
#[derive(Clone, Debug, Default)]
struct Followed(Weak<Answer>, Selection);

impl PartialEq for Followed {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0) && self.1 == other.1
    }
}

impl Pane {
    pub fn new(table: &'static TimeTable) -> Self {
        Self {
            table,
            choice: 0,
            is_whole: false,
            of: None,
            totals: Query::default(),
            grid: Grid::new(table.has_profile.then_some(COPY_PROFILE)),
            side: Side::new(table),
            found: Query::default(),
            followed: Followed::default(),
            is_waiting: false,
        }
    }
}

impl View for Pane {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let of = Some(ctx.traces.key());
        if self.of != of {
            // Slices of other traces must not be on show for one frame.
            *self = Self { choice: self.choice, is_whole: self.is_whole, of, ..Self::new(self.table) };
        }
        let range = ctx.range.filter(|_| !self.is_whole);
        let totals = Totals { table: self.table, choice: self.choice, range, files: ctx.files.of(self.table.title) };
        let table = self.totals.ask(ctx.answers, ctx.traces, &totals);
        self.is_waiting = table.is_working();
        if let Some(table) = table.newest() {
            self.is_waiting |= self.grid.update(table, ctx.answers);
        }
        self.grid.poll_text(ctx.commands, ui.ctx());
        self.head_ui(table.is_working(), ctx, ui);
        if let answers::Answer::Failed(why) = &table {
            failed_ui(why, ui);
            return;
        }
        self.follow(ctx);
        let Some((shown, selected)) = self.grid.shown() else { return };
        if shown.data.rows.is_empty() {
            self.empty_ui(&shown, ctx, ui);
            return;
        }
        // Above both, for a line that breaks when the slices come would move the row away from the pointer.
        if !shown.head.is_empty() {
            ui.horizontal_wrapped(|ui| {
                ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
                ui.spacing_mut().item_spacing.x = 16.0;
                for (figure, help) in &shown.head {
                    let label = ui.weak(figure);
                    if !help.is_empty() {
                        label.on_hover_text(*help);
                    }
                }
            });
        }
        if let Some(row) = selected {
            Panel::right(egui::Id::unique("slices of a row"))
                .default_size(360.0)
                .size_range(180.0..=1200.0)
                .frame(Frame::NONE.inner_margin(egui::Margin { left: 8, ..egui::Margin::ZERO }))
                .show(ui, |ui| {
                    // It keeps its width, whatever is in it.
                    ui.set_min_size(ui.available_size());
                    self.is_waiting |= self.side.ui((&shown, row, range), ctx, ui);
                });
        }
        CentralPanel::default().frame(Frame::NONE).show(ui, |ui| {
            let action = self.grid.ui(self.table.title, Some("Show the longest in the timeline"), ui);
            let longest = |row: usize| shown.longest.get(row).copied();
            match action {
                Some(Action::Open(row)) if let Some(instance) = longest(row) => {
                    reveal(instance, ctx);
                    self.followed = Followed(Arc::downgrade(&shown), *ctx.selection);
                }
                Some(Action::Extra(row)) => ctx.commands.extend(longest(row).map(copy_profile)),
                _ => {}
            }
        });
    }

    fn follows_range(&self) -> bool {
        true
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }
}

impl Pane {
    /// Moves the cursor to the row of a slice that was selected elsewhere.
    fn follow(&mut self, ctx: &ViewContext<'_>) {
        let Selection::Slice { trace, slice } = *ctx.selection else { return };
        let Some((shown, selected)) = self.grid.shown() else { return };
        let now = Followed(Arc::downgrade(&shown), *ctx.selection);
        // A new table keeps its cursor, if it has one.
        if now == self.followed || (now.1 == self.followed.1 && selected.is_some()) {
            return;
        }
        let found = self.found.ask(ctx.answers, &shown, &RowOf(Instance { trace: trace as u32, slice }));
        if found.is_working() {
            self.is_waiting = true;
            return;
        }
        self.followed = now;
        if let Some(row) = found.ready().and_then(|row| **row) {
            self.grid.go(row);
        }
    }

    fn head_ui(&mut self, is_working: bool, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            // In a narrow panel lines break between controls, not within their texts.
            ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
            if self.table.choices.len() > 1 {
                for (i, Choice { label, help, .. }) in self.table.choices.iter().enumerate() {
                    let is_chosen = self.choice == i;
                    if ui.selectable_label(is_chosen, *label).on_hover_text(*help).clicked() && !is_chosen {
                        self.choice = i;
                        self.grid.unsort();
                    }
                }
                ui.separator();
            }
            let hint = "Count what runs in the selected time range, also what only runs through it";
            file_switch_ui(self.table.title, Many::Rows, ctx, ui);
            range_switch_ui(&mut self.is_whole, hint, ctx, ui);
            ui.separator();
            self.grid.filter_ui("Filter by name", ui);
            let (listed, all) = self.grid.counts();
            let (listed_text, all_text) = (format::count(listed), format::count(all));
            let rows = if all == 1 { "row" } else { "rows" };
            ui.label(if listed == all {
                format!("{all_text} {rows}")
            } else {
                format!("{listed_text} of {all_text} {rows}")
            });
            self.grid.buttons_ui(self.table.title, ui);
            self.tree_ui(ui);
            if is_working {
                busy_ui(ui);
                ui.weak("Adding up…");
            }
        });
    }

    /// What folds and unfolds all rows of a tree, or makes a tree of the sorted rows again.
    fn tree_ui(&mut self, ui: &mut egui::Ui) {
        match self.grid.is_tree() {
            Some(true) => {
                if ui.button("Fold all").on_hover_text("Show the outermost rows only").clicked() {
                    self.grid.fold_all(true);
                }
                if ui.button("Unfold all").on_hover_text("Show every row").clicked() {
                    self.grid.fold_all(false);
                }
            }
            Some(false) => {
                let hint = "Show what runs inside below what is around it, without order and filter";
                if ui.button("As tree").on_hover_text(hint).clicked() {
                    self.grid.unsort();
                    self.grid.filter.clear();
                }
            }
            None => {}
        }
    }

    fn empty_ui(&self, shown: &Answer, ctx: &ViewContext<'_>, ui: &mut egui::Ui) {
        if shown.has_elsewhere {
            ui.label("Nothing of this kind runs in the selected time range");
            ui.weak("Choose the whole trace above, or press Escape to clear the range");
            return;
        }
        let [what, how] = shown.empty.unwrap_or(self.table.choices[self.choice].empty);
        let of_gpu = || how_to_record_gpu(ctx.traces.iter().map(|open| &open.trace.info));
        nothing_ui(what, if how == RECORD_GPU { of_gpu() } else { how }, ui);
    }
}

/// Selects a slice and scrolls the timeline to it.
pub fn reveal(instance: Instance, ctx: &mut ViewContext<'_>) {
    *ctx.selection = Selection::Slice { trace: instance.trace as usize, slice: instance.slice };
    ctx.commands.push(Command::Reveal);
}

/// Copies the command that profiles a kernel in depth.
pub fn copy_profile(Instance { trace, slice }: Instance) -> Command {
    Command::CopyProfileOf(trace as usize, slice)
}

fn whole(ctx: &ViewContext<'_>) -> &'static str {
    if ctx.traces.len() > 1 { "All of the time" } else { "Whole trace" }
}

/// The choice between everything and the selected time range, where there is one.
///
/// * `hint`: what counts in a range.
pub fn range_switch_ui(is_whole: &mut bool, hint: &str, ctx: &ViewContext<'_>, ui: &mut egui::Ui) {
    let Some(range) = *ctx.range else {
        let label = egui::Label::new(egui::RichText::new(whole(ctx)).weak()).extend();
        ui.add(label).on_hover_text("Drag over the timeline to limit the figures to a time range");
        return;
    };
    if ui.selectable_label(*is_whole, whole(ctx)).on_hover_text("Count everything").clicked() {
        *is_whole = true;
    }
    let label = format!("{}, {}", display_name(ctx.range_title()), format::duration(range.dur()));
    if ui.selectable_label(!*is_whole, label).on_hover_text(hint).clicked() {
        *is_whole = false;
    }
}
