//! Overlays on a canvas: the selected range, marks, and the line at the pointer.

use eframe::egui::{Color32, FontId, Painter, Rect, Shape, Stroke, pos2, vec2};

use super::Scale;
use crate::model::TimeRange;
use crate::widget::theme;

const MARK_COLOR: Color32 = Color32::from_rgb(230, 159, 0);
/// The longest note shown, in characters.
const MAX_NOTE_CHARS: usize = 40;

/// A line through the canvas at the pointer.
pub fn paint_hover_line(painter: &Painter, x: f32, color: Color32) {
    painter.vline(x, painter.clip_rect().y_range(), Stroke::new(1.0, color.gamma_multiply(0.35)));
}

/// Shades a range and writes its length, as `text`, at the bottom of `canvas`.
pub fn paint_range(painter: &Painter, scale: &Scale, canvas: Rect, range: TimeRange, text: String, color: Color32) {
    let rect = Rect::from_x_y_ranges(scale.x(range.start)..=scale.x(range.end), canvas.y_range());
    painter.rect_filled(rect, 0.0, color.gamma_multiply(0.12));
    for x in [rect.left(), rect.right()] {
        painter.vline(x, canvas.y_range(), Stroke::new(1.0, color));
    }
    let visible = rect.intersect(canvas);
    if visible.width() > 0.0 {
        let galley = painter.layout_no_wrap(text, FontId::proportional(12.0), Color32::WHITE);
        let last_x = (canvas.right() - galley.size().x).max(canvas.left());
        let x = (visible.center().x - galley.size().x / 2.0).clamp(canvas.left(), last_x);
        let at = pos2(x, canvas.bottom() - galley.size().y - 6.0);
        let back = Rect::from_min_size(at, galley.size()).expand2(vec2(5.0, 2.0));
        painter.rect_filled(back, 4.0, Color32::from_black_alpha(200));
        painter.galley(at, galley, Color32::WHITE);
    }
}

/// A thin bracket in the ruler over a range, with `text` in its middle where there is room for it.
pub fn paint_bracket(painter: &Painter, scale: &Scale, ruler: Rect, range: TimeRange, text: String, is_dark: bool) {
    let color = theme::tokens(is_dark).strong_text;
    let (left, right) = (scale.x(range.start), scale.x(range.end).max(scale.x(range.start) + 1.0));
    if right < ruler.left() || left > ruler.right() {
        return;
    }
    let stroke = Stroke::new(1.0, color);
    let (top, bottom) = (ruler.bottom() - 6.0, ruler.bottom());
    // An end that is out of sight has no corner.
    let visible = left.max(ruler.left())..=right.min(ruler.right());
    let middle = (visible.start() + visible.end()) / 2.0;
    for x in [left, right].into_iter().filter(|x| ruler.x_range().contains(*x)) {
        painter.vline(x, top..=bottom, stroke);
    }
    let galley = painter.layout_no_wrap(text, FontId::proportional(10.0), color);
    let has_room = visible.end() - visible.start() >= galley.size().x + 16.0;
    painter.hline(visible, top, stroke);
    if has_room {
        // Covers the line and the labels of the ruler.
        let back = Rect::from_center_size(pos2(middle, ruler.center().y), vec2(galley.size().x + 8.0, ruler.height()));
        painter.rect_filled(back, 0.0, theme::tokens(is_dark).panel);
        painter.galley(back.center() - galley.size() / 2.0, galley, color);
    }
}

/// A flag to the right of `x`, with its upper corner at `top`.
pub fn paint_flag(painter: &Painter, x: f32, top: f32, color: Color32) {
    let corners = [pos2(x, top), pos2(x + 9.0, top + 4.0), pos2(x, top + 8.0)];
    painter.add(Shape::convex_polygon(corners.to_vec(), color, Stroke::NONE));
}

/// Marks, each a range with its note, as flags in the ruler with lines over the canvas.
pub fn paint_marks<'a>(
    painter: &Painter,
    marks: impl Iterator<Item = (TimeRange, &'a str)>,
    scale: &Scale,
    [ruler, canvas]: [Rect; 2],
    is_dark: bool,
) {
    let color = MARK_COLOR;
    let is_visible = |range: TimeRange| range.start <= scale.view.end && range.end >= scale.view.start;
    for (range, note) in marks.filter(|mark| is_visible(mark.0)) {
        let (left, right) = (scale.x(range.start), scale.x(range.end));
        painter.vline(left, ruler.top()..=canvas.bottom(), Stroke::new(1.0, color));
        if right > left {
            let band = Rect::from_min_max(pos2(left, ruler.bottom() - 4.0), pos2(right, ruler.bottom()));
            painter.rect_filled(band, 0.0, color.gamma_multiply(0.7));
            painter.vline(right, ruler.top()..=canvas.bottom(), Stroke::new(1.0, color));
        }
        paint_flag(painter, left, ruler.top(), color);
        if !note.is_empty() {
            let text: String = note.chars().take(MAX_NOTE_CHARS).collect();
            let galley = painter.layout_no_wrap(text, FontId::proportional(10.0), color);
            let at = pos2(left + 11.0, ruler.top());
            // Covers the labels of the ruler.
            let back = Rect::from_min_size(at, galley.size()).expand2(vec2(2.0, 0.0));
            painter.rect_filled(back, 2.0, theme::tokens(is_dark).canvas);
            painter.galley(at, galley, color);
        }
    }
}
