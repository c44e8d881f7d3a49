//! Which moments the ruler names.

use eframe::egui::{Align2, FontId, Painter, Rect, Visuals, pos2};

use super::scale::Scale;
use crate::model::{DurNs, TimeNs, TimeRange};
use crate::widget::format;

/// Least distance between two named moments, in points.
const MIN_DISTANCE: f64 = 110.0;

/// The smallest of 1, 2, 5, 10, 20, … nanoseconds that is at least `ns`.
fn step(ns: f64) -> DurNs {
    let mut unit: DurNs = 1;
    loop {
        for factor in [1, 2, 5] {
            let step = unit.saturating_mul(factor);
            if step as f64 >= ns || step == DurNs::MAX {
                return step;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

/// Moments to name, relative to `origin`, with the step between them.
pub fn ticks(view: TimeRange, origin: TimeNs, width_points: f32) -> (DurNs, Vec<DurNs>) {
    let step = step(view.dur() as f64 / (f64::from(width_points) / MIN_DISTANCE).max(1.0));
    let from = view.start.saturating_sub(origin);
    let first = from.div_euclid(step).saturating_mul(step);
    let n = view.dur() / step + 2;
    let ticks = (0..n).map(|i| first.saturating_add(step.saturating_mul(i)));
    (step, ticks.filter(|&tick| tick >= from && tick <= view.end.saturating_sub(origin)).collect())
}

/// What to call a moment where there is no time, only numbers of events: `2,000`.
pub fn event(tick: DurNs, _step: DurNs) -> String {
    format::count(tick.unsigned_abs())
}

/// Paints the ruler, and faint lines at its moments over `canvas`.
///
/// * `name`: what to call a moment relative to `origin`, of moments that are so far apart.
pub fn paint(
    painter: &Painter,
    rect: Rect,
    canvas: Rect,
    scale: &Scale,
    origin: TimeNs,
    name: fn(DurNs, DurNs) -> String,
    visuals: &Visuals,
) {
    let (step, ticks) = ticks(scale.view, origin, scale.width());
    let line = visuals.widgets.noninteractive.bg_stroke;
    for tick in ticks {
        let x = scale.x(origin.saturating_add(tick));
        painter.vline(x, rect.bottom() - 5.0..=canvas.bottom(), line);
        let at = pos2(x + 3.0, rect.center().y);
        let font = FontId::proportional(11.0);
        painter.text(at, Align2::LEFT_CENTER, name(tick, step), font, visuals.weak_text_color());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_one_two_or_five() {
        let cases = [(0.1, 1), (1.5, 2), (3.0, 5), (6.0, 10), (1e9, 1_000_000_000), (2.1e9, 5_000_000_000)];
        for (ns, expected) in cases {
            assert_eq!(step(ns), expected);
        }
        assert_eq!(step(f64::INFINITY), DurNs::MAX);
    }

    #[test]
    fn ticks_lie_on_the_step_and_in_view() {
        let view = TimeRange { start: 1_000_123, end: 1_002_123 };
        let (step, ticks) = ticks(view, 1_000_000, 1100.0);
        assert_eq!(step, 200);
        assert_eq!(ticks, (1..=10).map(|i| i * 200).collect::<Vec<_>>());
        for shift in 0..60 {
            let view = TimeRange { start: -5, end: 1 << shift };
            assert!(super::ticks(view, 0, 1920.0).1.len() <= 19, "at {shift}");
        }
    }

    #[test]
    fn events_are_named_by_their_number() {
        assert_eq!([event(0, 500), event(2_500, 500)], ["0", "2,500"]);
    }
}
