//! Overlays on a canvas: the selected range, marks, and the line at the pointer.

use std::sync::Arc;

use eframe::egui::{Color32, FontId, Galley, Painter, Rangef, Rect, Shape, Stroke, pos2, vec2};

use super::Scale;
use crate::model::TimeRange;
use crate::widget::theme;

const MARK_COLOR: Color32 = Color32::from_rgb(230, 159, 0);
/// The longest note shown, in characters.
const MAX_NOTE_CHARS: usize = 40;
/// From a mark to its note, in points: its flag stands between.
const NOTE_LEFT: f32 = 11.0;
/// Height of a bracket at the bottom of the ruler, in points: below the labels of the ticks.
const BRACKET: f32 = 3.0;

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

/// A thin bracket in the ruler over a range, with `text` where [`bracket_place`] found room for it.
pub fn paint_bracket(
    painter: &Painter,
    scale: &Scale,
    ruler: Rect,
    range: TimeRange,
    (text, place): (String, Option<Rangef>),
    is_dark: bool,
) {
    let color = theme::tokens(is_dark).strong_text;
    let (left, right) = (scale.x(range.start), scale.x(range.end).max(scale.x(range.start) + 1.0));
    if right < ruler.left() || left > ruler.right() {
        return;
    }
    let stroke = Stroke::new(1.0, color);
    let (top, bottom) = (ruler.bottom() - BRACKET, ruler.bottom());
    // An end that is out of sight has no corner.
    let visible = left.max(ruler.left())..=right.min(ruler.right());
    for x in [left, right].into_iter().filter(|x| ruler.x_range().contains(*x)) {
        painter.vline(x, top..=bottom, stroke);
    }
    painter.hline(visible, top, stroke);
    if let Some(place) = place {
        let galley = painter.layout_no_wrap(text, FontId::proportional(10.0), color);
        // Covers the line.
        let back = Rect::from_x_y_ranges(place, ruler.y_range());
        painter.rect_filled(back, 0.0, theme::tokens(is_dark).panel);
        painter.galley(back.center() - galley.size() / 2.0, galley, color);
    }
}

/// Where the text of [`paint_bracket`] stands in the ruler: within the bracket, and nearest to its middle where nothing
/// else stands; `None` without room for it.
///
/// * `taken`: where notes of marks and the like stand, which would cover it.
pub fn bracket_place(
    painter: &Painter,
    scale: &Scale,
    ruler: Rect,
    range: TimeRange,
    text: &str,
    taken: &[Rangef],
) -> Option<Rangef> {
    let galley = painter.layout_no_wrap(text.to_owned(), FontId::proportional(10.0), Color32::PLACEHOLDER);
    let [left, right] = [range.start, range.end].map(|at| scale.x(at).clamp(ruler.left(), ruler.right()));
    let (middle, half) = ((left + right) / 2.0, galley.size().x / 2.0 + 4.0);
    let beside = taken.iter().flat_map(|other| [other.min - half - 3.0, other.max + half + 3.0]);
    let places = beside.chain([middle]).filter(|at| at - half >= left + 4.0 && at + half <= right - 4.0);
    let places = places.map(|at| (at, Rangef::new(at - half, at + half)));
    let free = places.filter(|(_, place)| !taken.iter().any(|other| other.intersects(*place)));
    free.min_by(|a, b| (a.0 - middle).abs().total_cmp(&(b.0 - middle).abs())).map(|(_, place)| place)
}

/// A flag to the right of `x`, with its upper corner at `top`.
pub fn paint_flag(painter: &Painter, x: f32, top: f32, color: Color32) {
    let corners = [pos2(x, top), pos2(x + 9.0, top + 4.0), pos2(x, top + 8.0)];
    painter.add(Shape::convex_polygon(corners.to_vec(), color, Stroke::NONE));
}

/// Where marks stand in the ruler, for [`super::RulerLabels::paint`].
pub fn taken_by_marks<'a>(
    painter: &Painter,
    marks: impl Iterator<Item = (TimeRange, &'a str)>,
    scale: &Scale,
) -> Vec<Rangef> {
    let place = |(range, note): (TimeRange, &str)| {
        let (left, width) = (scale.x(range.start), note_galley(painter, note).size().x);
        [Rangef::new(left, left + NOTE_LEFT + width), Rangef::point(scale.x(range.end))]
    };
    marks.filter(|mark| is_visible(mark.0, scale)).flat_map(place).collect()
}

fn is_visible(range: TimeRange, scale: &Scale) -> bool {
    range.start <= scale.view.end && range.end >= scale.view.start
}

fn note_galley(painter: &Painter, note: &str) -> Arc<Galley> {
    let text: String = note.chars().take(MAX_NOTE_CHARS).collect();
    painter.layout_no_wrap(text, FontId::proportional(10.0), MARK_COLOR)
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
    for (range, note) in marks.filter(|mark| is_visible(mark.0, scale)) {
        let (left, right) = (scale.x(range.start), scale.x(range.end));
        painter.vline(left, ruler.top()..=canvas.bottom(), Stroke::new(1.0, color));
        if right > left {
            let band = Rect::from_min_max(pos2(left, ruler.bottom() - 4.0), pos2(right, ruler.bottom()));
            painter.rect_filled(band, 0.0, color.gamma_multiply(0.7));
            painter.vline(right, ruler.top()..=canvas.bottom(), Stroke::new(1.0, color));
        }
        paint_flag(painter, left, ruler.top(), color);
        if !note.is_empty() {
            let galley = note_galley(painter, note);
            let at = pos2(left + NOTE_LEFT, ruler.top());
            // Covers the notes of other marks.
            let back = Rect::from_min_size(at, galley.size()).expand2(vec2(2.0, 0.0));
            painter.rect_filled(back, 2.0, theme::tokens(is_dark).canvas);
            painter.galley(at, galley, color);
        }
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Context, RawInput};

    use super::*;
    use crate::view::axis::RulerLabels;

    #[test]
    fn a_bracket_strikes_through_no_label_of_the_ruler() {
        let output = Context::default().run_ui(RawInput::default(), |ui| {
            let ruler = Rect::from_min_size(pos2(0.0, 0.0), vec2(500.0, 20.0));
            let scale = Scale::new(TimeRange { start: -10, end: 490 }, 0.0, 500.0, 1.0);
            let painter = ui.painter().with_clip_rect(ruler);
            RulerLabels::time(0).paint(&painter, [ruler, ruler], &scale, ui.visuals(), &[]);
            paint_bracket(&painter, &scale, ruler, TimeRange { start: 0, end: 490 }, (String::new(), None), true);
        });
        let (mut labels_end, mut bracket) = (0.0_f32, None);
        for clipped in &output.shapes {
            match &clipped.shape {
                Shape::Text(text) if !text.galley.text().is_empty() => {
                    labels_end = labels_end.max(text.visual_bounding_rect().bottom());
                }
                Shape::LineSegment { points: [from, to], .. } if from.y == to.y => bracket = Some(from.y),
                _ => {}
            }
        }
        output.drop_without_applying_deltas();
        assert!(labels_end > 0.0 && bracket.is_some_and(|y| y > labels_end), "{bracket:?} below {labels_end}");
    }
    #[test]
    fn the_text_of_a_bracket_stands_where_no_note_of_a_mark_does() {
        let output = Context::default().run_ui(RawInput::default(), |ui| {
            let ruler = Rect::from_min_size(pos2(0.0, 0.0), vec2(500.0, 20.0));
            let scale = Scale::new(TimeRange { start: 0, end: 500 }, 0.0, 500.0, 1.0);
            let place = |range: [i64; 2], taken: &[Rangef]| {
                let range = TimeRange { start: range[0], end: range[1] };
                bracket_place(ui.painter(), &scale, ruler, range, "lifetime 12 ms", taken)
            };
            let free = place([0, 500], &[]).unwrap();
            assert_eq!(free.center(), 250.0);
            // A note right in the middle, and one that leaves no room on its left.
            let notes = [Rangef::new(200.0, 260.0), Rangef::new(150.0, 190.0)];
            let beside = place([0, 500], &notes).unwrap();
            assert!(notes.iter().all(|note| !note.intersects(beside)) && beside.min > 260.0, "{beside:?}");
            assert_eq!(beside.span(), free.span());
            let inside = place([100, 500], &[Rangef::new(250.0, 500.0)]).unwrap();
            assert!(inside.min >= 100.0 && inside.max <= 250.0, "{inside:?}");
            assert_eq!(place([0, 500], &[Rangef::new(0.0, 500.0)]), None);
            assert_eq!(place([0, 20], &[]), None);
        });
        output.drop_without_applying_deltas();
    }
}
