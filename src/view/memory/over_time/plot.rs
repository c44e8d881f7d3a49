//! The curves above the picture, on the same horizontal axis.

use eframe::egui::{Align2, Color32, FontId, Id, Rect, Role, Sense, Stroke, Ui, UiBuilder, WidgetInfo, pos2, vec2};
use egui_plot::{HLine, Line, LineStyle, Plot, PlotBounds, PlotPoints};

use super::curves::Curve;
use super::heights::Heights;
use super::work::{Index, Picture, PictureKey};
use super::{Chart, MemoryOverTime};
use crate::analysis::memory::leaks::device_total;
use crate::figures::format;
use crate::model::TimeRange;
use crate::view::ViewContext;
use crate::view::axis::{Scale, centered};
use crate::view::memory::head::state_text;
use crate::widget::theme;

/// A device that holds more than this many times the highest curve is not drawn: the curves would be flat.
const MOST_ROOM: f64 = 2.5;
/// Least distance between two named amounts, in points.
const TICK_DISTANCE: f64 = 32.0;

impl MemoryOverTime {
    /// The shown curves with their indices in [`Curve::ALL`]; without those that were not recorded.
    fn shown_curves(&self, index: &Index) -> impl Iterator<Item = (usize, Curve)> {
        let is_shown = |(i, curve): &(usize, Curve)| self.is_curve_shown.0[*i] && index.peak(*curve).1 > 0;
        Curve::ALL.into_iter().enumerate().filter(is_shown)
    }

    /// Paints the curves, their highest points and the scale.
    pub(super) fn curves_ui(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &mut Ui,
        chart: &Chart<'_>,
        scale: &Scale,
        picture: Option<(&PictureKey, &Picture)>,
    ) {
        let rect = chart.parts.curves;
        let shown = || self.shown_curves(chart.index);
        let highest = shown().map(|(_, curve)| chart.index.peak(curve).1).max().unwrap_or(0).max(1) as f64;
        let capacity = device_total(chart.shown.trace(), chart.shown.history())
            .map(|bytes| bytes as f64)
            .filter(|&bytes| bytes <= highest * MOST_ROOM);
        let top = highest.max(capacity.unwrap_or(0.0)) * 1.08;
        ui.painter().rect_filled(rect, 0.0, theme::tokens(ctx.is_dark).canvas);
        if let Some((key, picture)) = picture {
            let base = key.view.start;
            let bounds = PlotBounds::from_min_max(
                [scale.view.start.saturating_sub(base) as f64, 0.0],
                [scale.view.end.saturating_sub(base) as f64, top],
            );
            let lines: Vec<_> = shown().map(|(i, curve)| (curve, picture.curves[i].as_slice())).collect();
            let weak = ui.visuals().weak_text_color();
            let is_dark = ctx.is_dark;
            ui.scope_builder(UiBuilder::new().max_rect(rect), |ui| {
                let plot =
                    Plot::new("memory curves").width(rect.width()).height(rect.height()).min_size(vec2(1.0, 1.0));
                let plot = plot.show_axes(false).show_grid(false).show_background(false).show_crosshair(false);
                let plot = plot.show_x(false).show_y(false).set_margin_fraction(vec2(0.0, 0.0)).auto_bounds(false);
                let plot = plot.allow_zoom(false).allow_drag(false).allow_scroll(false).allow_boxed_zoom(false);
                let plot = plot.allow_double_click_reset(false).sense(Sense::hover());
                plot.show(ui, |plot| {
                    plot.set_plot_bounds(bounds);
                    if let Some(capacity) = capacity {
                        plot.hline(
                            HLine::new("Device", capacity).color(weak).width(1.0).style(LineStyle::dashed_loose()),
                        );
                    }
                    for (curve, points) in lines {
                        let line = Line::new(curve.label(), PlotPoints::Borrowed(points));
                        plot.line(line.color(curve.color(is_dark)).width(1.3).allow_hover(false));
                    }
                });
            });
        }
        // A cast stops at the largest number.
        let heights = Heights::new(TimeRange { start: 0, end: top as i64 }, rect);
        heights.paint(ui.painter(), ui.visuals(), TICK_DISTANCE);
        let y = |bytes: f64| heights.y(bytes as i64);
        if let Some(capacity) = capacity {
            let at = pos2(rect.right() - 4.0, y(capacity) + 1.0);
            let text = format!("device {}", format::bytes(capacity));
            ui.painter().text(at, Align2::RIGHT_TOP, text, FontId::proportional(10.5), ui.visuals().weak_text_color());
        }
        self.peaks_ui(ctx, ui, chart, scale, &y);
    }

    /// Dots on the highest points, with value and moment on hover.
    fn peaks_ui(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &Ui,
        chart: &Chart<'_>,
        scale: &Scale,
        y: &impl Fn(f64) -> f32,
    ) {
        for (_, curve) in self.shown_curves(chart.index) {
            let (state, bytes) = chart.index.peak(curve);
            let at = chart.axis.position(state);
            if at < scale.view.start || at > scale.view.end {
                continue;
            }
            // Whole also at the edges.
            let x = scale.x(at).min(scale.right() - 3.0).max(scale.left + 3.0);
            let center = pos2(x, y(bytes as f64));
            let painter = ui.painter();
            painter.circle(center, 3.5, curve.color(ctx.is_dark), Stroke::new(1.0, theme::tokens(ctx.is_dark).canvas));
            let id = Id::unique(("memory peak", curve.label()));
            let dot = ui.interact(Rect::from_center_size(center, vec2(12.0, 12.0)), id, Sense::click());
            let name = format!("Peak {}", curve.label().to_lowercase());
            dot.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
            let text = format!("{name}: {}, {}", format::bytes(bytes as f64), state_text(chart.shown, state));
            if dot.on_hover_text(text).clicked() {
                ctx.memory.moment = Some(state);
            }
        }
    }

    /// Chooses the moment of the highest `active`, and shows it.
    pub(super) fn go_to_peak(&mut self, ctx: &mut ViewContext<'_>, axis: &super::Axis<'_>, state: u32) {
        ctx.memory.moment = Some(state);
        let navigation = axis.navigation(&mut self.navigation, ctx.navigation);
        let (at, view) = (axis.position(state), navigation.visible());
        if !(TimeRange { end: view.end.saturating_add(1), ..view }).contains(at) {
            navigation.go(centered(view, at, axis.reach(ctx.span)));
        }
    }
}

/// A line from top to bottom at the chosen moment.
pub fn moment_line(ui: &Ui, chart: &Chart<'_>, scale: &Scale, state: u32, color: Color32) {
    let at = chart.axis.position(state);
    if at < scale.view.start || at > scale.view.end {
        return;
    }
    let x = scale.x(at);
    let painter = ui.painter_at(chart.parts.plots());
    painter.vline(x, chart.parts.plots().y_range(), Stroke::new(1.5, color));
    let head = chart.parts.ruler.bottom();
    let corners = vec![pos2(x - 5.0, head - 9.0), pos2(x + 5.0, head - 9.0), pos2(x, head - 1.0)];
    painter.add(eframe::egui::Shape::convex_polygon(corners, color, Stroke::NONE));
}
