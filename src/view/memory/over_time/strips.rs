//! What stands over the picture: the ruler, named stretches, and moments of note.

use eframe::egui::{Align2, Color32, FontId, Id, Painter, Rect, Sense, Shape, Stroke, Ui, pos2, vec2};

use super::Place;
use super::axis::{AxisKind, UNITS};
use super::bands::Bar;
use crate::model::TimeRange;
use crate::view::ViewContext;
use crate::view::timeline::{Scale, paint_ruler};
use crate::widget::labels::Labels;
use crate::widget::text::display_name;
use crate::widget::{format, theme};

use super::LANE_HEIGHT;

/// Paints the ruler, and faint lines at its moments down to the bottom of the picture.
pub fn ruler(ctx: &ViewContext<'_>, ui: &Ui, place: &Place<'_>, scale: &Scale) {
    let (rect, canvas) = (place.parts.ruler, place.parts.canvas);
    let painter = ui.painter_at(rect.union(canvas).expand2(vec2(0.0, 1.0)));
    if place.axis.kind == AxisKind::Time {
        paint_ruler(&painter, rect, canvas, scale, ctx.span.start, format::moment, ui.visuals());
        return;
    }
    let visuals = ui.visuals();
    let per_state = UNITS as f64 / scale.ns_per_point();
    let mut step: i64 = 1;
    while step as f64 * per_state < 90.0 && step < 1 << 40 {
        // 1, 2, 5, 10, 20, …
        step = if step.to_string().starts_with('2') { step / 2 * 5 } else { step * 2 };
    }
    // Events are counted from 0, as everywhere: event i leads to state i + 1, and happens where that begins.
    let at = |event: i64| (event + 1) * UNITS;
    let first = ((scale.view.start / UNITS - 1) / step).max(0) * step;
    for event in (0..).map(|i| first + i * step).take_while(|&event| at(event) <= scale.view.end) {
        let x = scale.x(at(event));
        if event >= i64::from(place.shown.history().last_state()) || x < rect.left() {
            continue;
        }
        painter.vline(x, rect.bottom() - 5.0..=canvas.bottom(), visuals.widgets.noninteractive.bg_stroke);
        let text = format::count(event.unsigned_abs());
        let galley = painter.layout_no_wrap(text, FontId::proportional(11.0), visuals.weak_text_color());
        if x + 3.0 + galley.size().x <= rect.right() {
            let at = pos2(x + 3.0, rect.center().y - galley.size().y / 2.0);
            painter.galley(at, galley, visuals.weak_text_color());
        }
    }
}

/// Paints annotations and steps as named bands; what overlaps too often is counted.
pub fn lanes(
    ctx: &ViewContext<'_>,
    ui: &Ui,
    place: &Place<'_>,
    scale: &Scale,
    kept: &mut Labels<u64>,
    (bars, n_hidden): (&[Bar], u32),
) {
    let rect = place.parts.lanes;
    let painter = ui.painter_at(rect.expand2(vec2(0.0, 1.0)));
    let trace = place.shown.trace();
    let fill = theme::tokens(ctx.is_dark).button[1];
    let edge = theme::tokens(ctx.is_dark).canvas;
    kept.begin(&painter);
    let pointer = ui.ctx().pointer_hover_pos().filter(|pointer| rect.contains(*pointer));
    for bar in bars {
        let bar_rect = bar_rect(rect, scale, bar);
        let Some(bar_rect) = bar_rect else { continue };
        let is_hovered = pointer.is_some_and(|pointer| bar_rect.contains(pointer));
        let color = if is_hovered { theme::tokens(ctx.is_dark).button[2] } else { fill };
        painter.rect_filled(bar_rect, 2.0, color);
        painter.vline(bar_rect.left(), bar_rect.y_range(), Stroke::new(1.0, edge));
        let name = display_name(trace.strings.get(bar.name));
        let words = if bar.count > 1 { format!("{name} and {} more", bar.count - 1) } else { name.into_owned() };
        if bar_rect.width() > 24.0 {
            let cut = |n: usize| {
                if words.chars().count() <= n {
                    words.clone()
                } else {
                    words.chars().take(n - 1).chain(['…']).collect()
                }
            };
            let key = u64::from(bar.name.0) << 32 | u64::from(bar.count);
            if let Some(galley) = kept.fitting(&painter, key, bar_rect.width() - 8.0, cut) {
                let at = pos2(bar_rect.left() + 4.0, bar_rect.center().y - galley.size().y / 2.0);
                painter.galley(at, galley, ui.visuals().text_color());
            }
        }
        if is_hovered {
            let duration = match place.axis.kind {
                AxisKind::Time => format::duration(bar.range.dur()),
                AxisKind::Events => format!("{} events", format::count((bar.range.dur() / UNITS).unsigned_abs())),
            };
            hint(ui, place, "band", bar_rect, &format!("{words}\n{duration}"));
        }
    }
    kept.end(&painter);
    if n_hidden > 0 {
        let at = pos2(rect.left() - 7.0, rect.bottom() - LANE_HEIGHT / 2.0);
        let text = format!("{} more", format::count(n_hidden.into()));
        ui.painter().text(at, Align2::RIGHT_CENTER, text, FontId::proportional(11.0), ui.visuals().weak_text_color());
    }
}

fn bar_rect(rect: Rect, scale: &Scale, bar: &Bar) -> Option<Rect> {
    let top = rect.top() + bar.lane as f32 * LANE_HEIGHT;
    let (left, right) = (scale.x(bar.range.start).max(rect.left()), scale.x(bar.range.end).min(rect.right()));
    let bar = Rect::from_min_max(pos2(left, top + 1.0), pos2(right.max(left + 1.0), top + LANE_HEIGHT - 1.0));
    (bar.left() < rect.right() && right >= rect.left() && bar.bottom() <= rect.bottom() + 1.0).then_some(bar)
}

/// Words for what the pointer is on.
fn hint(ui: &Ui, place: &Place<'_>, what: &str, rect: Rect, text: &str) {
    let clip = rect.intersect(place.parts.plots());
    ui.interact(clip, Id::unique(("memory strip", what)), Sense::hover()).on_hover_text(text);
}

/// A moment of note.
struct Flag {
    state: u32,
    text: String,
    color: Color32,
}

/// Marks where the device had no memory left and where a snapshot was taken; at most one a pixel.
pub fn flags(ctx: &ViewContext<'_>, ui: &Ui, place: &Place<'_>, scale: &Scale) {
    let history = place.shown.history();
    let tokens = theme::tokens(ctx.is_dark);
    let ooms = |view: TimeRange| {
        let from = history.ooms.partition_point(|oom| place.axis.place(oom.event + 1) < view.start);
        history.ooms.get(from).map(|oom| {
            let free = oom.device_free.map(|free| format!(", {} of the device were free", format::bytes(free as f64)));
            let text =
                format!("Out of memory: {} requested{}", format::bytes(oom.requested as f64), free.unwrap_or_default());
            Flag { state: oom.event + 1, text, color: tokens.severity[2] }
        })
    };
    let snapshots = |view: TimeRange| {
        let from = place.index.snapshots.partition_point(|&event| place.axis.place(event + 1) < view.start);
        let event = *place.index.snapshots.get(from)?;
        let text = format!("Snapshot taken at event {}", format::count(event.into()));
        Some(Flag { state: event + 1, text, color: tokens.accent })
    };
    each_pixel(ui, place, scale, &snapshots);
    each_pixel(ui, place, scale, &ooms);
}

fn each_pixel(ui: &Ui, place: &Place<'_>, scale: &Scale, next: &dyn Fn(TimeRange) -> Option<Flag>) {
    let painter = ui.painter_at(place.parts.plots());
    let step = (scale.ns_per_point() * 2.0) as i64 + 1;
    let mut from = scale.view.start;
    while let Some(flag) = next(TimeRange { start: from, end: scale.view.end }) {
        let at = place.axis.place(flag.state);
        if at > scale.view.end {
            break;
        }
        let (x, ruler) = (scale.x(at), place.parts.ruler);
        painter.vline(
            x,
            ruler.center().y..=place.parts.canvas.bottom(),
            Stroke::new(1.0, flag.color.gamma_multiply(0.7)),
        );
        let top = ruler.bottom() - 10.0;
        let corners = vec![pos2(x, top), pos2(x + 9.0, top + 4.0), pos2(x, top + 8.0)];
        painter.add(Shape::convex_polygon(corners, flag.color, Stroke::NONE));
        let grip = Rect::from_min_max(pos2(x - 2.0, top - 3.0), pos2(x + 11.0, ruler.bottom()));
        if ui.ctx().pointer_hover_pos().is_some_and(|pointer| grip.contains(pointer)) {
            hint(ui, place, "flag", grip, &flag.text);
        }
        from = at.saturating_add(step);
    }
}

/// A frame around what a drag has marked.
pub fn rubber_band(painter: &Painter, rect: Rect, color: Color32) {
    painter.rect_filled(rect, 0.0, color.gamma_multiply(0.12));
    painter.rect_stroke(rect, 0.0, Stroke::new(1.0, color), eframe::egui::StrokeKind::Inside);
}

/// Shades a range of states and says how many there are.
pub fn range_of_states(painter: &Painter, scale: &Scale, canvas: Rect, range: TimeRange, color: Color32) {
    let rect = Rect::from_x_y_ranges(scale.x(range.start)..=scale.x(range.end), canvas.y_range());
    painter.rect_filled(rect, 0.0, color.gamma_multiply(0.12));
    for x in [rect.left(), rect.right()] {
        painter.vline(x, canvas.y_range(), Stroke::new(1.0, color));
    }
    let visible = rect.intersect(canvas);
    if visible.width() > 0.0 {
        let n = range.end.div_euclid(UNITS) - range.start.div_euclid(UNITS);
        let text = format!("{} events", format::count(n.unsigned_abs()));
        let galley = painter.layout_no_wrap(text, FontId::proportional(12.0), Color32::WHITE);
        let most = (canvas.right() - galley.size().x).max(canvas.left());
        let x = (visible.center().x - galley.size().x / 2.0).clamp(canvas.left(), most);
        let at = pos2(x, canvas.bottom() - galley.size().y - 6.0);
        let back = Rect::from_min_size(at, galley.size()).expand2(vec2(5.0, 2.0));
        painter.rect_filled(back, 4.0, Color32::from_black_alpha(200));
        painter.galley(at, galley, Color32::WHITE);
    }
}
