//! The vertical axis: the mapping between bytes and y coordinates, and zoom and pan of the visible bytes.

use eframe::egui::{Align2, FontId, Painter, Rect, Visuals, pos2};

use super::EDGE;
use crate::figures::format;
use crate::model::TimeRange;
use crate::view::axis::zoomed;

/// The vertical axis for one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heights {
    /// The bytes from bottom to top; not empty.
    pub bytes: TimeRange,
    pub rect: Rect,
}

impl Heights {
    pub fn new(bytes: TimeRange, rect: Rect) -> Self {
        Self { bytes: TimeRange { end: bytes.end.max(bytes.start.saturating_add(1)), ..bytes }, rect }
    }

    /// The y of an amount, in points; amounts far outside stop just beyond the edge.
    pub fn y(&self, byte: i64) -> f32 {
        let height = f64::from(self.rect.height());
        let up = byte.saturating_sub(self.bytes.start) as f64 / self.bytes.dur() as f64 * height;
        self.rect.bottom() - up.clamp(-64.0, height + 64.0) as f32
    }

    /// The amount at `y` points.
    pub fn byte(&self, y: f32) -> i64 {
        self.bytes.start.saturating_add((f64::from(self.rect.bottom() - y) * self.per_point()).floor() as i64)
    }

    /// Bytes in `points`.
    pub fn distance(&self, points: f32) -> i64 {
        (f64::from(points) * self.per_point()) as i64
    }

    /// Bytes in a point.
    fn per_point(&self) -> f64 {
        self.bytes.dur() as f64 / f64::from(self.rect.height()).max(1.0)
    }

    /// The bytes between two labels: where a low picture would have none but that of 0, half as many.
    ///
    /// * `distance`: the least between two of them, in points.
    fn step(&self, distance: f64) -> i64 {
        /// Labels that are as high as the distance between them are still read apart.
        const LEAST: f64 = 16.0;
        let wanted = step(distance * self.per_point());
        let is_room = (wanted / 2) as f64 >= LEAST * self.per_point();
        if wanted >= self.bytes.dur() && is_room { wanted / 2 } else { wanted }
    }

    /// Paints labels of amounts at the left edge.
    ///
    /// * `distance`: the least between two of them, in points.
    pub fn paint(&self, painter: &Painter, visuals: &Visuals, distance: f64) {
        let line = visuals.widgets.noninteractive.bg_stroke;
        let left = self.rect.left() - EDGE;
        let step = self.step(distance);
        let first = self.bytes.start.max(0).div_euclid(step).saturating_mul(step);
        let n = self.bytes.dur() / step + 2;
        let ticks = (0..n).map(|i| first.saturating_add(step.saturating_mul(i)));
        for tick in ticks.filter(|&tick| tick >= self.bytes.start && tick <= self.bytes.end) {
            let y = self.y(tick);
            painter.hline(left - 3.0..=left, y, line);
            // Whole also at the edges.
            let middle = y.min(self.rect.bottom() - 6.0).max(self.rect.top() + 6.0);
            let at = pos2(left - 5.0, middle);
            painter.text(
                at,
                Align2::RIGHT_CENTER,
                amount(tick, step),
                FontId::proportional(11.0),
                visuals.weak_text_color(),
            );
        }
        painter.vline(left, self.rect.y_range(), line);
    }
}

/// The smallest of 1, 2, 4, 8, … bytes that is at least `bytes`.
fn step(bytes: f64) -> i64 {
    let mut step: i64 = 1;
    while (step as f64) < bytes && step < 1 << 61 {
        step *= 2;
    }
    step
}

/// A multiple of `step`, a power of two, as it is: in the largest unit of which it takes few digits, if there is one.
fn amount(bytes: i64, step: i64) -> String {
    const MOST_DIGITS: u32 = 3;
    const MOST_UNITS: i64 = 100_000;
    let units = [(1_i64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
    // A half takes one digit, a quarter two.
    let digits = |unit: i64| unit.trailing_zeros().saturating_sub(step.trailing_zeros());
    let fits = |&(unit, _): &(i64, &str)| bytes >= unit && digits(unit) <= MOST_DIGITS;
    let (unit, name) = units.into_iter().find(fits).unwrap_or((1, "B"));
    match digits(unit) as usize {
        0 if bytes / unit >= MOST_UNITS => format::bytes(bytes as f64),
        0 => format!("{} {name}", format::count((bytes / unit) as u64)),
        digits => format!("{:.digits$} {name}", bytes as f64 / unit as f64),
    }
}

/// `bytes` scaled by `factor` (below 1 zooms in), with the amount `at` kept where it is on screen.
/// `None` if all of `all` is visible.
pub fn zoomed_bytes(bytes: TimeRange, at: i64, factor: f64, all: TimeRange) -> Option<TimeRange> {
    within(zoomed(bytes, at, factor, all), all)
}

/// `bytes` moved by `by`.
pub fn panned_bytes(bytes: TimeRange, by: i64, all: TimeRange) -> Option<TimeRange> {
    // Limited, so that no sum overflows.
    within(bytes.shifted(by.clamp(-all.dur(), all.dur())), all)
}

/// `bytes` moved and cut to lie in `all`; `None` if it is all.
pub fn within(bytes: TimeRange, all: TimeRange) -> Option<TimeRange> {
    let dur = bytes.dur().max(1);
    if dur >= all.dur() {
        return None;
    }
    let start = bytes.start.clamp(all.start, all.end - dur);
    Some(TimeRange { start, end: start + dur })
}

#[cfg(test)]
mod tests {
    use super::*;
    use eframe::egui::vec2;

    #[test]
    fn amounts_and_places_agree() {
        let rect = Rect::from_min_size(pos2(10.0, 20.0), vec2(100.0, 400.0));
        let heights = Heights::new(TimeRange { start: 1 << 40, end: (1 << 40) + 4_000 }, rect);
        assert_eq!(heights.y(1 << 40), 420.0);
        assert_eq!(heights.y((1 << 40) + 1_000), 320.0);
        assert_eq!(heights.byte(320.0), (1 << 40) + 1_000);
        assert_eq!(heights.y(i64::MAX), 20.0 - 64.0);
        // 7.7 GiB on 73 points: 4 GiB is labelled, though its distance to 0 is below 40 points.
        let low =
            Heights::new(TimeRange { start: 0, end: 7_700 << 20 }, Rect::from_min_size(rect.min, vec2(100.0, 73.0)));
        assert_eq!([low.step(40.0), low.step(20.0)], [4 << 30, 4 << 30]);
    }

    #[test]
    fn the_bytes_on_show_stay_within_all() {
        let all = TimeRange { start: 0, end: 1_000_000 };
        let near = zoomed_bytes(all, 500_000, 0.5, all).unwrap();
        assert_eq!(near, TimeRange { start: 250_000, end: 750_000 });
        assert_eq!(zoomed_bytes(near, 500_000, 100.0, all), None);
        assert_eq!(panned_bytes(near, -900_000, all), Some(TimeRange { start: 0, end: 500_000 }));
        assert_eq!(panned_bytes(near, i64::MAX, all), Some(TimeRange { start: 500_000, end: 1_000_000 }));
    }

    #[test]
    fn neighboring_amounts_are_distinct() {
        assert_eq!(amount(3 << 30, 1 << 30), "3 GiB");
        assert_eq!(amount(3 << 29, 1 << 29), "1.5 GiB");
        assert_eq!(amount(0, 1 << 20), "0 B");
        assert_eq!(amount(5 << 28, 1 << 28), "1.25 GiB");
        assert_eq!(amount(9 << 27, 1 << 27), "1.125 GiB");
        assert_eq!(amount(17 << 26, 1 << 26), "1,088 MiB");
        assert_eq!(amount((1 << 40) + 4096, 4096), "1.00 TiB");
        assert_eq!(amount(100 << 20, 1 << 20), "100 MiB");
        assert!(step(1000.0) == 1024 && step(f64::INFINITY) == 1 << 61);
    }
}
