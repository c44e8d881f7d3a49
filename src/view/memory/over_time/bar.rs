//! The controls above the picture, and the readout of a moment.

use eframe::egui::{self, Button, Color32, ComboBox, Label, RichText, Sense, Ui, vec2};

use super::axis::{Axis, AxisKind};
use super::colors::{ColorBy, Colors, Legend};
use super::curves::Curve;
use super::work::Index;
use super::{MARGIN, MemoryOverTime};
use crate::command::Command;
use crate::figures::format;
use crate::session::ShownMemory;
use crate::view::ViewContext;
use crate::view::memory::head::{is_small, no_peak, state_text};
use crate::widget::options::options_ui;

/// A patch of color.
fn patch(ui: &mut Ui, color: Color32) {
    let (rect, _) = ui.allocate_exact_size(vec2(11.0, 11.0), Sense::hover());
    ui.painter().rect_filled(rect, 2.0, color);
}

impl MemoryOverTime {
    /// The controls, in one line if there is room.
    pub(super) fn bar_ui(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &mut Ui,
        shown: &ShownMemory,
        axis: &Axis<'_>,
        index: &Index,
        colors: Option<&Colors>,
    ) {
        let is_small = is_small(ui);
        if !is_small {
            ui.horizontal_wrapped(|ui| {
                ui.add_space(MARGIN);
                self.tools_ui(ctx, ui, shown, axis, index);
            });
        }
        if is_small || !self.is_readout_above {
            ui.horizontal(|ui| {
                ui.add_space(MARGIN);
                if is_small {
                    options_ui("Options", ui, |ui| {
                        ui.set_max_width(260.0);
                        ui.horizontal_wrapped(|ui| self.tools_ui(ctx, ui, shown, axis, index));
                    });
                }
                if !self.is_readout_above {
                    self.readout_ui(ctx, ui, shown, axis);
                }
            });
        }
        if let Some(colors) = colors.filter(|colors| !is_small && colors.legend != Legend::None) {
            ui.horizontal_wrapped(|ui| {
                ui.add_space(MARGIN);
                legend_ui(ui, colors);
            });
        }
    }

    /// What is drawn, and how.
    fn tools_ui(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &mut Ui,
        shown: &ShownMemory,
        axis: &Axis<'_>,
        index: &Index,
    ) {
        self.axis_ui(ctx, ui, axis);
        self.colors_ui(ui, shown, index);
        ui.separator();
        if shown.history().has_changes() {
            self.curve_switches_ui(ctx, ui, axis, index);
        }
        if ui.button("Zoom to fit").on_hover_text("Show all events and all bytes (0)").clicked() {
            ctx.commands.push(Command::ZoomToFit);
        }
    }

    /// Which curves are drawn, and what leads to the highest point.
    fn curve_switches_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, axis: &Axis<'_>, index: &Index) {
        for (i, curve) in Curve::ALL.into_iter().enumerate() {
            let is_known = index.peak(curve).1 > 0;
            let is_on = self.is_curve_shown.0[i] && is_known;
            ui.spacing_mut().item_spacing.x = 4.0;
            patch(ui, curve.color(ctx.is_dark).gamma_multiply(if is_on { 1.0 } else { 0.35 }));
            let toggle = ui.add_enabled(is_known, Button::selectable(is_on, curve.label()));
            let toggle = toggle.on_hover_text(curve.help());
            if toggle.on_disabled_hover_text("The recording does not say").clicked() {
                self.is_curve_shown.0[i] ^= true;
            }
        }
        ui.separator();
        let lacking = no_peak(axis.history);
        let peak = ui.add_enabled(lacking.is_none(), Button::new("Go to peak"));
        let peak = peak.on_hover_text("Go to the moment at which most is allocated (P)");
        if peak.on_disabled_hover_text(lacking.unwrap_or_default()).clicked() {
            self.go_to_peak(ctx, axis, axis.history.curves.fullest());
        }
    }

    fn axis_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, axis: &Axis<'_>) {
        if !axis.history.has_changes() {
            return;
        }
        if !axis.history.has_time || axis.history.span.dur() <= 0 {
            ui.label("Axis: events (no times were recorded)");
            ui.separator();
            return;
        }
        ui.label("Axis");
        for (wants_events, label, help) in [
            (false, "Time", "Real time, the same range as on the timeline"),
            (true, "Events", "One event after another, each equally wide"),
        ] {
            let is_chosen = (axis.kind == AxisKind::Events) == wants_events;
            if ui.add(Button::selectable(is_chosen, label)).on_hover_text(help).clicked() {
                self.choose_axis(axis, wants_events, ctx);
            }
        }
        if ctx.traces.len() > 1 && axis.kind == AxisKind::Time {
            let mut is_shared = !self.is_alone;
            let hint = "Share the axis with all other open recordings, whenever they were made";
            if ui.checkbox(&mut is_shared, "Of all files").on_hover_text(hint).clicked() {
                self.wants_others = Some(is_shared);
            }
        }
        ui.separator();
    }

    /// Shows time or events; the visible amounts stay.
    pub(super) fn choose_axis(&mut self, axis: &Axis<'_>, wants_events: bool, ctx: &mut ViewContext<'_>) {
        let bytes = axis.navigation(&mut self.navigation, ctx.navigation).bytes;
        self.wants_events = wants_events;
        let kind = if wants_events { AxisKind::Events } else { AxisKind::Time };
        Axis { kind, ..*axis }.navigation(&mut self.navigation, ctx.navigation).bytes = bytes;
    }

    fn colors_ui(&mut self, ui: &mut Ui, shown: &ShownMemory, index: &Index) {
        let label = ui.label("Color");
        let combo = ComboBox::from_id_salt("memory colors").selected_text(self.color_by.label()).show_ui(ui, |ui| {
            for (by, label, help) in ColorBy::ALL {
                let is_known = by.is_known(shown.history(), index);
                let choice = ui.add_enabled(is_known, Button::selectable(self.color_by == by, label));
                if choice.on_hover_text(help).on_disabled_hover_text("The recording does not say").clicked() {
                    self.color_by = by;
                }
            }
        });
        let help = ColorBy::ALL.iter().find(|choice| choice.0 == self.color_by).map_or("", |choice| choice.2);
        combo.response.on_hover_text(help).labelled_by(label.id);
    }

    /// Memory in use at the chosen moment, else under the pointer. It never wraps: it changes with the pointer, and
    /// must not move the picture below.
    pub(super) fn readout_ui(&self, ctx: &ViewContext<'_>, ui: &mut Ui, shown: &ShownMemory, axis: &Axis<'_>) {
        if !shown.history().has_changes() {
            let text = "No history was recorded: these are the blocks that were live when the snapshot was taken";
            ui.add(Label::new(RichText::new(text).weak()).truncate());
            return;
        }
        let (text, state) = match (ctx.memory.moment, self.pointer_position) {
            (Some(state), _) => (format!("Moment: {}", state_text(shown, state)), state),
            (None, Some(position)) => (pointer_text(shown, axis, position), axis.state(position)),
            (None, None) => {
                let last = shown.history().last_state();
                (format!("End: {}", state_text(shown, last)), last)
            }
        };
        let moment = RichText::new(text).strong();
        ui.add(Label::new(moment).truncate());
        for curve in [Curve::Allocated, Curve::Active, Curve::Reserved] {
            let bytes = curve.values(shown.history()).get(state as usize).copied().unwrap_or(0);
            if curve == Curve::Reserved && !shown.history().has_reserved {
                continue;
            }
            let text = format!("{} {}", curve.label().to_lowercase(), format::bytes(bytes as f64));
            if ui.available_width() > 20.0 {
                ui.add(Label::new(text).truncate()).on_hover_text(format!("{} B", format::count(bytes)));
            }
        }
    }
}

/// What is under the pointer: `Pointer: 62 ms, after event 1,395 at 24.9 ms`, or an event where these are the axis.
fn pointer_text(shown: &ShownMemory, axis: &Axis<'_>, position: i64) -> String {
    let state = axis.state(position);
    let event = state_text(shown, state);
    let time = format::duration(position);
    match axis.kind {
        AxisKind::Events => format!("Pointer: {event}"),
        AxisKind::Time if state == 0 => format!("Pointer: {time}, {event}"),
        AxisKind::Time => format!("Pointer: {time}, after {event}"),
    }
}

fn legend_ui(ui: &mut Ui, colors: &Colors) {
    ui.spacing_mut().item_spacing.x = 4.0;
    match &colors.legend {
        Legend::None => {}
        Legend::List(names, n_more) => {
            for (color, name) in names {
                patch(ui, *color);
                ui.label(RichText::new(name).small());
                ui.add_space(4.0);
            }
            if *n_more > 0 {
                ui.weak(format!("and {} more", format::count(*n_more as u64)));
            }
        }
        Legend::Ramp(ramp, least, most) => {
            ui.label(RichText::new(least).small());
            let (rect, _) = ui.allocate_exact_size(vec2(120.0, 11.0), Sense::hover());
            let width = rect.width() / ramp.len() as f32;
            for (i, color) in ramp.iter().enumerate() {
                let left = rect.left() + i as f32 * width;
                let part = egui::Rect::from_x_y_ranges(left..=left + width, rect.y_range());
                ui.painter().rect_filled(part, 0.0, *color);
            }
            ui.label(RichText::new(most).small());
        }
    }
}
