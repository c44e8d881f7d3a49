//! The curves above the picture, on the same horizontal axis.

use eframe::egui::{
    Align2, Color32, FontId, Id, Mesh, Pos2, Rangef, Rect, Role, Sense, Shape, Stroke, Ui, WidgetInfo, pos2, vec2,
};

use super::curves::Curve;
use super::heights::Heights;
use super::work::{Index, Picture, PictureKey};
use super::{Chart, MemoryOverTime};
use crate::analysis::memory::leaks::device_total;
use crate::figures::format;
use crate::model::TimeRange;
use crate::view::ViewContext;
use crate::view::axis::{Scale, centered};
use crate::view::memory::head::{no_peak, state_text};
use crate::widget::theme;

/// A device that holds more than this many times the highest curve is not drawn: the curves would be flat.
const MOST_ROOM: f64 = 2.5;
/// Least distance between two named amounts, in points.
const TICK_DISTANCE: f64 = 32.0;
/// Half the width of the head of the line at a moment, in points.
const HEAD: f32 = 5.0;

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
        // A cast stops at the largest number.
        let heights = Heights::new(TimeRange { start: 0, end: top as i64 }, rect);
        heights.paint(ui.painter(), ui.visuals(), TICK_DISTANCE);
        let y = |bytes: f64| heights.y(bytes as i64);
        if let Some(capacity) = capacity {
            let weak = ui.visuals().weak_text_color();
            let ends = [pos2(rect.left(), y(capacity)), pos2(rect.right(), y(capacity))];
            ui.painter().extend(Shape::dashed_line(&ends, Stroke::new(1.0, weak), 6.0, 5.0));
            let at = pos2(rect.right() - 4.0, y(capacity) + 1.0);
            let text = format!("device {}", format::bytes(capacity));
            ui.painter().text(at, Align2::RIGHT_TOP, text, FontId::proportional(10.5), weak);
        }
        if let Some((key, picture)) = picture {
            let x = |relative: f64| scale.x(key.view.start.saturating_add(relative as i64));
            for (i, curve) in shown() {
                let points = picture.curves[i].iter().map(|point| pos2(x(point.x), y(point.y)));
                ui.painter_at(rect).add(stairs(points, curve.color(ctx.is_dark)));
            }
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
        if no_peak(chart.shown.history()).is_some() {
            return;
        }
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

/// A line through points that are level or upright with their neighbors. A path through so many near points would have
/// slanted corners.
fn stairs(points: impl Iterator<Item = Pos2>, color: Color32) -> Shape {
    const WIDTH: f32 = 1.4;
    let mut mesh = Mesh::default();
    let mut last: Option<Pos2> = None;
    for point in points {
        if let Some(from) = last.filter(|from| *from != point) {
            mesh.add_colored_rect(Rect::from_two_pos(from, point).expand(WIDTH / 2.0), color);
        }
        last = Some(point);
    }
    Shape::mesh(mesh)
}

/// Where the line of a moment stands in the ruler, with its head.
pub fn moment_place(chart: &Chart<'_>, scale: &Scale, state: u32) -> Rangef {
    Rangef::point(scale.x(chart.axis.position(state))).expand(HEAD)
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
    let corners = vec![pos2(x - HEAD, head - 9.0), pos2(x + HEAD, head - 9.0), pos2(x, head - 1.0)];
    painter.add(eframe::egui::Shape::convex_polygon(corners, color, Stroke::NONE));
}
