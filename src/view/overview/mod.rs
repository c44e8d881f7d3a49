//! The overview: how busy each device is and why it waits, the time of each step, and what to do about it.

mod cards;
mod chart;
mod list;
mod thresholds;
mod words;
mod work;

use eframe::egui::{self, CentralPanel, Frame, Margin, Panel, ScrollArea};

use self::work::{Place, StepCharts, Summary};
use super::states::{answer_ui, nothing_ui};
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::answers::Query;
use crate::command::Command;
use crate::model::TimeRange;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "overview",
    title: "Overview",
    help: "Show how busy each device is, the time of each step, and what was found",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Slices,
    make: || Box::new(OverviewView::default()),
};

/// The width from which cards, chart and list stand side by side, in points.
const WIDE: f32 = 640.0;

/// The overview tab.
#[derive(Debug, Default)]
pub struct OverviewView {
    summary: Query<Summary>,
    charts: Query<StepCharts>,
    chart: usize,
    list: list::List,
    is_waiting: bool,
}

impl View for OverviewView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        if ctx.traces.iter().all(|open| open.trace.slices.is_empty()) {
            nothing_ui("Nothing ran in what is open", "Open a profile of PyTorch or of Nsight Systems", ui);
            return;
        }
        let summary =
            self.summary.ask(ctx.answers, ctx.traces, &Summary { range: *ctx.range, thresholds: *ctx.thresholds });
        let charts = self.charts.ask(ctx.answers, ctx.traces, &StepCharts);
        self.is_waiting = summary.is_working() || charts.is_working();
        let is_wide = ui.available_width() >= WIDE;
        if is_wide {
            let left = Frame::NONE.inner_margin(Margin { right: 8, ..Margin::ZERO });
            let right = Frame::NONE.inner_margin(Margin { left: 8, ..Margin::ZERO });
            let width = ui.available_width();
            Panel::left(egui::Id::unique("overview devices"))
                .frame(left)
                .default_size(width * 0.28)
                .max_size(width * 0.34)
                .show(ui, |ui| {
                    scroll(ui, "devices", |ui| cards::ui(&summary, *ctx.range, ui));
                });
            Panel::right(egui::Id::unique("overview findings"))
                .frame(right)
                .default_size(width * 0.42)
                .max_size(width * 0.46)
                .show(ui, |ui| {
                    scroll(ui, "findings", |ui| {
                        if let Some(summary) = answer_ui(&summary, "Applying the rules…", ui) {
                            let place = self.list.ui(&summary, ui);
                            place.into_iter().for_each(|place| show(place, ctx));
                            thresholds::ui(ctx.thresholds, ui);
                        }
                    });
                });
            let middle = Frame::NONE.inner_margin(Margin::symmetric(8, 0));
            CentralPanel::default().frame(middle).show(ui, |ui| {
                if let Some(charts) = answer_ui(&charts, "Measuring the steps…", ui) {
                    let height = ui.available_height();
                    chart::ui(&charts, &mut self.chart, height, ctx, ui);
                }
            });
        } else {
            scroll(ui, "all", |ui| {
                if let Some(summary) = answer_ui(&summary, "Applying the rules…", ui) {
                    let place = self.list.ui(&summary, ui);
                    place.into_iter().for_each(|place| show(place, ctx));
                    thresholds::ui(ctx.thresholds, ui);
                    ui.separator();
                }
                cards::ui(&summary, *ctx.range, ui);
                ui.separator();
                if let Some(charts) = answer_ui(&charts, "Measuring the steps…", ui) {
                    chart::ui(&charts, &mut self.chart, 200.0, ctx, ui);
                }
            });
        }
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }
}

fn scroll(ui: &mut egui::Ui, id: &str, content: impl FnOnce(&mut egui::Ui)) {
    ScrollArea::vertical().id_salt(id).auto_shrink(false).show(ui, content);
}

/// Moves the timeline there, and selects the gap if it is one.
fn show(place: Place, ctx: &mut ViewContext<'_>) {
    let Some(time) = place.time else { return };
    let margin = time.dur() / 2;
    ctx.navigation.go(TimeRange { start: time.start.saturating_sub(margin), end: time.end.saturating_add(margin) });
    if let Some(gap) = place.gap {
        *ctx.selection = gap;
        ctx.commands.push(Command::Reveal);
    }
}
