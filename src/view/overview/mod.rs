//! The overview: how busy each device is and why it waits, the time of each step, and what to do about it.

mod cards;
mod chart;
mod list;
mod memory;
mod thresholds;
mod words;
mod work;

use eframe::egui::{self, CentralPanel, Frame, Margin, Panel, ScrollArea};

use self::memory::MemoryFindings;
use self::work::{Chart, Found, Place, Seen, StepCharts, Summarized, Summary};
use super::axis::fitted;
use super::states::{answer_ui, nothing_ui};
use super::tables::{Many, file_switch_ui, range_switch_ui};
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::answers::{Answer, Query};
use crate::command::Command;
use crate::model::TimeRange;
use crate::session::{Files, Selection};
use crate::widget::side_panel::side_panel_ui;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "overview",
    title: "Overview",
    help: "Show how busy each device is, the time and the phases of each step, and what was found",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Slices,
    make: || Box::new(OverviewView::default()),
};

/// The width from which cards, chart and list stand side by side, in points.
const WIDE: f32 = 640.0;

/// What is counted of a selected step.
const OF_STEP: &str = "Count the step as each device ran it, and of each rank of the run its own step of that name. \
                       Tables and gaps are limited to the selected time, which is the same for all ranks";

/// The overview tab.
#[derive(Debug, Default)]
pub struct OverviewView {
    summary: Query<Summary>,
    charts: Query<StepCharts>,
    memory: Query<MemoryFindings>,
    chart: usize,
    list: list::List,
    /// Whether everything counts although a range is selected.
    is_whole: bool,
    /// The range that a finding selected.
    shown_range: Option<TimeRange>,
    is_waiting: bool,
}

impl View for OverviewView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        if ctx.traces.iter().all(|open| open.trace.slices.is_empty()) {
            nothing_ui("Nothing ran in the open files", "Open a profile from PyTorch or Nsight Systems", ui);
            return;
        }
        self.is_whole &= ctx.range.is_some();
        let (steps, files) = (ctx.steps_of_all(), ctx.files.of(SPEC.id));
        let charts = self.charts.ask(ctx.answers, ctx.traces, &StepCharts { steps: steps.clone(), files });
        let range = ctx.range.filter(|_| !self.is_whole);
        let asked = Summary { steps, files, range, thresholds: *ctx.thresholds };
        let summary = self.summary.ask(ctx.answers, ctx.traces, &asked);
        let memory = self.memory.ask(ctx.answers, ctx.traces, &MemoryFindings);
        self.is_waiting = summary.is_working() || charts.is_working() || memory.is_working();
        let memory: Option<Vec<&Found>> = match &memory {
            Answer::Working(_) => None,
            Answer::Failed(_) => Some(Vec::new()),
            Answer::Ready(found) => Some(found.iter().filter(|found| files.has(found.trace)).collect()),
        };
        let memory = memory.as_deref();
        let is_wide = ui.available_width() >= WIDE;
        if is_wide {
            let left = Frame::NONE.inner_margin(Margin { right: 8, ..Margin::ZERO });
            let right = Frame::NONE.inner_margin(Margin { left: 8, ..Margin::ZERO });
            let width = ui.available_width();
            let id = egui::Id::unique("overview devices");
            side_panel_ui((Panel::left(id).frame(left), id, 0), [width * 0.28, width * 0.34], ui, |ui| {
                scroll(ui, "devices", |ui| self.cards_ui(&summary, ctx, ui));
            });
            let id = egui::Id::unique("overview findings");
            side_panel_ui((Panel::right(id).frame(right), id, 0), [width * 0.42, width * 0.46], ui, |ui| {
                scroll(ui, "findings", |ui| {
                    if let Some(summary) = answer_ui(&summary, "Applying the rules…", ui) {
                        let seen = self.list.ui(&summary, memory, ui);
                        seen.into_iter().for_each(|seen| self.show(seen, ctx));
                        thresholds::ui(ctx.thresholds, ui);
                    }
                });
            });
            let middle = Frame::NONE.inner_margin(Margin::symmetric(8, 0));
            CentralPanel::default().frame(middle).show(ui, |ui| {
                self.chart_ui(&charts, None, ctx, ui);
            });
        } else {
            scroll(ui, "all", |ui| {
                if let Some(summary) = answer_ui(&summary, "Applying the rules…", ui) {
                    let seen = self.list.ui(&summary, memory, ui);
                    seen.into_iter().for_each(|seen| self.show(seen, ctx));
                    thresholds::ui(ctx.thresholds, ui);
                    ui.separator();
                }
                self.cards_ui(&summary, ctx, ui);
                ui.separator();
                self.chart_ui(&charts, Some(200.0), ctx, ui);
            });
        }
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }
}

fn scroll(ui: &mut egui::Ui, id: &str, content: impl FnOnce(&mut egui::Ui)) {
    // Text keeps its distance from the bar.
    let beside = Frame::NONE.inner_margin(Margin { right: 10, ..Margin::ZERO });
    ScrollArea::vertical().id_salt(id).auto_shrink(false).show(ui, |ui| beside.show(ui, content));
}

impl OverviewView {
    fn cards_ui(&mut self, summary: &Answer<Summarized>, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        if Files::Together.counted(ctx.traces).count() > 1 {
            file_switch_ui(SPEC.id, Many::Devices, ctx, ui);
        }
        if ctx.range.is_some() {
            let is_step = ctx.step_in_range().is_some();
            let hint = if is_step { OF_STEP } else { "Count what lies in the selected time range" };
            ui.horizontal_wrapped(|ui| range_switch_ui(&mut self.is_whole, hint, ctx, ui));
            let n_programs = ctx.traces.iter().filter(|open| open.is_program()).count();
            if is_step && n_programs > 1 && !self.is_whole {
                ui.weak("Each rank in its own step of that name").on_hover_text(OF_STEP);
            }
        }
        cards::ui(summary, ctx.range.is_some() && !self.is_whole, ui);
    }

    /// * `height`: of all of it, in points; `None` for all that there is.
    fn chart_ui(
        &mut self,
        charts: &Answer<Vec<Chart>>,
        height: Option<f32>,
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) {
        let Some(charts) = answer_ui(charts, "Measuring the steps…", ui) else { return };
        let height = height.unwrap_or_else(|| ui.available_height());
        // A step is chosen to see what it is made of.
        self.is_whole &= !chart::ui(&charts, &mut self.chart, height, ctx, ui);
    }

    fn show(&mut self, seen: Seen, ctx: &mut ViewContext<'_>) {
        match seen {
            Seen::Place(place) => self.show_place(place, ctx),
            Seen::Memory { trace, memory, view } => {
                ctx.memory.show(trace, memory);
                ctx.commands.push(Command::Visit(view));
            }
        }
    }

    /// Shows a place in the timeline and selects what it is: a gap, a piece of work, or the time itself. Findings about
    /// everything stay on screen.
    fn show_place(&mut self, place: Place, ctx: &mut ViewContext<'_>) {
        *ctx.selection = place.selection;
        let is_time = place.selection == Selection::None;
        if self.is_whole || ctx.range.is_none() {
            // That of another finding goes away again.
            let is_stale = ctx.range.is_some() && *ctx.range == self.shown_range;
            self.is_whole = is_time || !is_stale && ctx.range.is_some();
            if is_time || is_stale {
                *ctx.range = is_time.then_some(place.time);
            }
            self.shown_range = ctx.range.filter(|_| is_time);
        }
        ctx.navigation.go(fitted(place.time, if is_time { 0.1 } else { 0.75 }, ctx.span));
        ctx.commands.push(Command::Show(super::timeline::SPEC.id));
        if !is_time {
            ctx.commands.push(Command::Reveal);
        }
    }
}
