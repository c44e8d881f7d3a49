//! The context menu of the canvas.

use eframe::egui::Ui;

use super::Timeline;
use super::hit::Hit;
use super::hover::nothing_on;
use super::labels::{LabelAction, apply};
use crate::command::Command;
use crate::figures::{escape, format, text::shortened};
use crate::model::{TimeRange, TrackId};
use crate::session::Selection;
use crate::view::ViewContext;
use crate::view::axis::fitted;
use crate::view::gaps::MAX_NAME;

impl Timeline {
    /// The menu of the slice, instant or track that was right-clicked.
    pub(super) fn menu_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        let (trace, track, time) = match self.menu {
            Hit::Nothing | Hit::Queue { .. } => (0, None, None),
            Hit::Slice { trace, slice } => {
                let Some(open) = ctx.traces.get(trace) else { return };
                let name = open.trace.slice_name(slice);
                ui.weak(shortened(name, MAX_NAME));
                if ui.button("Copy name").clicked() {
                    ui.ctx().copy_text(escape::visible(name).into_owned());
                }
                let time = open.trace.slices.time(slice);
                if ui.button("Copy duration in ns").clicked() {
                    ui.ctx().copy_text(time.dur().to_string());
                }
                (trace, Some(open.trace.slices.track_of(slice)), Some(time.shifted(open.offset)))
            }
            Hit::Instant { trace, instant } => {
                let Some(open) = ctx.traces.get(trace) else { return };
                let instants = &open.trace.instants;
                let name = instants.name.get(instant).map_or("", |&name| open.trace.strings.get(name));
                if ui.button("Copy name").clicked() {
                    ui.ctx().copy_text(escape::visible(name).into_owned());
                }
                (trace, instants.track.get(instant).copied(), None)
            }
            Hit::Gap { trace, process, gap } => {
                let Some(open) = ctx.traces.get(trace) else { return };
                let Selection::Gap { time, .. } = self.strips.selection(trace, process, gap) else { return };
                ui.weak(format!("Idle for {}", format::duration(time.dur())));
                if ui.button("Copy duration in ns").clicked() {
                    ui.ctx().copy_text(time.dur().to_string());
                }
                (trace, None, Some(time.shifted(open.offset)))
            }
            Hit::Track { trace, track, gap, .. } => {
                let Some(open) = ctx.traces.get(trace) else { return };
                if let Some(gap) = gap {
                    ui.weak(format!("{} for {}", nothing_on(&open.trace, track), format::duration(gap.dur())));
                }
                (trace, Some(track), gap.map(|gap| gap.shifted(open.offset)))
            }
        };
        if let Some(time) = time {
            time_ui(ctx, ui, time);
        }
        if let Some(track) = track {
            self.track_ui(ctx, ui, trace, track);
        }
        ui.separator();
        if ui.button("Zoom to fit").clicked() {
            ctx.commands.push(Command::ZoomToFit);
        }
    }

    fn track_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, trace: usize, track: TrackId) {
        let line = self.tracks.line_of(trace, track).and_then(|at| self.tracks.line(at)).cloned();
        let Some(line) = line else { return };
        ui.separator();
        if ui.button("List events of track").clicked() {
            ctx.commands.push(Command::ListEvents(trace, track));
        }
        let pin = if line.is_pinned { "Unpin track" } else { "Pin track" };
        for (text, action) in [(pin, LabelAction::TogglePinned), ("Hide track", LabelAction::Hide)] {
            if ui.button(text).clicked() {
                apply(&mut self.settings, &self.tracks, &line, action);
                self.is_stale = true;
            }
        }
    }
}

fn time_ui(ctx: &mut ViewContext<'_>, ui: &mut Ui, time: TimeRange) {
    if ui.button("Zoom to time range").clicked() {
        ctx.navigation.go(fitted(time, 0.1, ctx.span));
    }
    if time.dur() > 0 && ui.button("Select time range").clicked() {
        *ctx.range = Some(time);
    }
}
