//! Slanted lines, for what was not recorded.

use eframe::egui::{Color32, Painter, Rect, Stroke, pos2};

/// Fills a rectangle with slanted lines.
pub fn hatch(painter: &Painter, rect: Rect, color: Color32) {
    const DISTANCE: f32 = 9.0;
    let height = rect.height();
    let n = ((rect.width() + height) / DISTANCE).ceil() as usize;
    for i in 0..=n {
        let x = rect.left() + i as f32 * DISTANCE;
        painter.line_segment([pos2(x, rect.top()), pos2(x - height, rect.bottom())], Stroke::new(1.0, color));
    }
}
