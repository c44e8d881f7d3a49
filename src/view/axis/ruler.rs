//! The ruler: labeled ticks at round positions.

use std::ops::Range;

use eframe::egui::{FontId, Painter, Rangef, Rect, Stroke, Visuals, pos2};

use super::Scale;
use crate::figures::format;
use crate::model::{DurNs, TimeNs, TimeRange};

/// Least distance between two ticks, in points; more where their labels are wider.
const MIN_DISTANCE: f32 = 110.0;
/// Free space beside a label.
const MARGIN: f32 = 8.0;
/// Strength of the lines over the canvas, which slices must stand out against.
const GRID: f32 = 0.55;

/// The numbering and labels of positions.
#[derive(Clone, Debug)]
pub struct RulerLabels {
    /// The position of tick 0.
    origin: TimeNs,
    /// The distance from one tick to the next.
    unit: DurNs,
    /// The valid ticks.
    ticks: Range<i64>,
    /// The smallest round distance between ticks that is at least so long.
    step: fn(f64) -> i64,
    /// The label of a tick, given the distance between ticks.
    label: fn(i64, i64) -> String,
}

impl RulerLabels {
    /// Nanoseconds from `origin`.
    pub fn time(origin: TimeNs) -> Self {
        Self { origin, unit: 1, ticks: i64::MIN..i64::MAX, step: time_step, label: format::moment }
    }

    /// Numbers of events: event 0 is at `origin`, and each has the length `unit`.
    pub fn events(origin: TimeNs, unit: DurNs, n_events: i64) -> Self {
        let label = |event: i64, _| format::count(event.unsigned_abs());
        Self { origin, unit, ticks: 0..n_events, step, label }
    }

    /// The step between ticks, and those in view.
    ///
    /// * `distance`: least distance between two ticks, in points.
    fn ticks(&self, view: TimeRange, width_points: f32, distance: f32) -> (i64, impl Iterator<Item = i64>) {
        let n_units = view.dur() as f64 / self.unit as f64;
        let step = (self.step)(n_units / f64::from(width_points / distance).max(1.0));
        let distance = step.saturating_mul(self.unit);
        let first = view.start.saturating_sub(self.origin).div_euclid(distance);
        let ticks = (first..).take((view.dur() / distance + 2) as usize).map(move |i| i.saturating_mul(step));
        let is_shown = move |&tick: &i64| {
            let at = self.position(tick);
            self.ticks.contains(&tick) && at >= view.start && at <= view.end
        };
        (step, ticks.filter(is_shown))
    }

    fn position(&self, tick: i64) -> TimeNs {
        self.origin.saturating_add(tick.saturating_mul(self.unit))
    }

    /// Paints the ruler, and faint lines at its ticks over `canvas`.
    ///
    /// * `taken`: where other texts stand in the ruler. A label that they would cover a part of is left out: the rest
    ///   of a number would be misread.
    pub fn paint(
        &self,
        painter: &Painter,
        [rect, canvas]: [Rect; 2],
        scale: &Scale,
        visuals: &Visuals,
        taken: &[Rangef],
    ) {
        let color = visuals.weak_text_color();
        let label = |tick, step| painter.layout_no_wrap((self.label)(tick, step), FontId::proportional(11.0), color);
        let (step, ticks) = self.ticks(scale.view, scale.width(), MIN_DISTANCE);
        // Those late in a long recording are wide.
        let widest = ticks.map(|tick| label(tick, step).size().x + MARGIN).fold(MIN_DISTANCE, f32::max);
        let (step, ticks) = self.ticks(scale.view, scale.width(), widest);
        let line = visuals.widgets.noninteractive.bg_stroke;
        for tick in ticks {
            let x = scale.x(self.position(tick));
            painter.vline(x, rect.bottom() - 5.0..=rect.bottom(), line);
            painter.vline(x, rect.bottom()..=canvas.bottom(), Stroke::new(line.width, line.color.gamma_multiply(GRID)));
            let galley = label(tick, step);
            let at = pos2(x + 3.0, rect.center().y - galley.size().y / 2.0);
            let place = Rangef::new(at.x, at.x + galley.size().x);
            // A truncated number would be misread.
            if place.max <= rect.right() && !taken.iter().any(|other| other.intersects(place)) {
                painter.galley(at, galley, color);
            }
        }
    }
}

/// The smallest of 1, 2, 5, 10, 20, … that is at least `units`.
fn step(units: f64) -> i64 {
    let mut decade: i64 = 1;
    loop {
        for factor in [1, 2, 5] {
            let step = decade.saturating_mul(factor);
            if step as f64 >= units || step == i64::MAX {
                return step;
            }
        }
        decade = decade.saturating_mul(10);
    }
}

/// The same of nanoseconds: from half a minute on those of a clock, and then hours of whole days.
fn time_step(ns: f64) -> i64 {
    const SECOND: i64 = 1_000_000_000;
    const HOUR: i64 = 3_600 * SECOND;
    let clock = [30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200].map(|secs| secs * SECOND);
    let of_clock = clock.into_iter().find(|&step| step as f64 >= ns);
    match ns <= (20 * SECOND) as f64 {
        true => step(ns),
        false => of_clock.unwrap_or_else(|| step(ns / (24 * HOUR) as f64).saturating_mul(24 * HOUR)),
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Context, RawInput, Shape, vec2};

    use super::*;

    #[test]
    fn steps_are_one_two_or_five() {
        let cases = [(0.1, 1), (1.5, 2), (3.0, 5), (6.0, 10), (1e9, 1_000_000_000), (2.1e9, 5_000_000_000)];
        for (units, expected) in cases {
            assert_eq!(step(units), expected);
        }
        assert_eq!(step(f64::INFINITY), i64::MAX);
        let minutes = [(20.0, 20), (21.0, 30), (31.0, 60), (200.0, 300), (2_000.0, 3_600), (50_000.0, 86_400)];
        for (secs, expected) in minutes {
            assert_eq!(time_step(secs * 1e9), expected * 1_000_000_000);
        }
        assert_eq!(time_step(f64::INFINITY), i64::MAX);
    }

    #[test]
    fn a_label_that_another_text_would_cover_is_left_out() {
        let labels = |taken: &[Rangef]| {
            let output = Context::default().run_ui(RawInput::default(), |ui| {
                let ruler = Rect::from_min_size(pos2(0.0, 0.0), vec2(500.0, 20.0));
                let scale = Scale::new(TimeRange { start: -10, end: 490 }, 0.0, 500.0, 1.0);
                let painter = ui.painter().with_clip_rect(ruler);
                RulerLabels::time(0).paint(&painter, [ruler, ruler], &scale, ui.visuals(), taken);
            });
            let text = |shape: &Shape| match shape {
                Shape::Text(text) => Some(text.galley.text().to_owned()),
                _ => None,
            };
            let found: Vec<String> = output.shapes.iter().filter_map(|clipped| text(&clipped.shape)).collect();
            output.drop_without_applying_deltas();
            found
        };
        assert_eq!(labels(&[]), ["0 ns", "200 ns", "400 ns"]);
        assert_eq!(labels(&[Rangef::new(216.0, 230.0)]), ["0 ns", "400 ns"]);
        assert_eq!(labels(&[Rangef::new(180.0, 212.0)]), ["0 ns", "200 ns", "400 ns"]);
    }

    #[test]
    fn ticks_lie_on_the_step_and_in_view() {
        let view = TimeRange { start: 1_000_123, end: 1_002_123 };
        let labels = RulerLabels::time(1_000_000);
        let (step, ticks) = labels.ticks(view, 1100.0, MIN_DISTANCE);
        assert_eq!(step, 200);
        assert_eq!(ticks.collect::<Vec<_>>(), (1..=10).map(|i| i * 200).collect::<Vec<_>>());
        for shift in 0..60 {
            let view = TimeRange { start: -5, end: 1 << shift };
            assert!(RulerLabels::time(0).ticks(view, 1920.0, MIN_DISTANCE).1.count() <= 19, "at {shift}");
        }
    }

    #[test]
    fn ticks_of_events_are_numbers_that_exist() {
        let labels = RulerLabels::events(1024, 1024, 3_000);
        let view = TimeRange { start: -500 * 1024, end: 4_001 * 1024 };
        let (step, ticks) = labels.ticks(view, 1100.0, MIN_DISTANCE);
        let names: Vec<String> = ticks.map(|tick| (labels.label)(tick, step)).collect();
        assert_eq!(names, ["0", "500", "1,000", "1,500", "2,000", "2,500"]);
        assert_eq!(labels.position(2_500), 2_501 * 1024, "an event is where the state after it begins");
    }
}
