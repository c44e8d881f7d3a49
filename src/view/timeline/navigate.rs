//! How the visible range moves: held keys, wheel and drags, and the arithmetic behind them.

use std::collections::HashSet;

use eframe::egui::{self, Event, Key, PointerButton};

use super::scale::Scale;
use crate::command::Command;
use crate::model::{DurNs, TimeNs, TimeRange};
use crate::session::Navigation;
use crate::view::ViewContext;

/// The shortest visible range, in nanoseconds.
const MIN_VIEW: DurNs = 20;
/// How far beyond all traces one can zoom out.
const MAX_VIEW_SPANS: f64 = 1.5;
/// Moves closer together than this, in seconds, are one step to undo.
const ONE_MOVE_SECS: f64 = 0.6;

/// `view` scaled by `factor` (below 1 zooms in), with the moment `at` kept at its place on screen.
pub fn zoomed(view: TimeRange, at: TimeNs, factor: f64, span: TimeRange) -> TimeRange {
    let longest = (span.dur() as f64 * MAX_VIEW_SPANS).clamp(MIN_VIEW as f64, i64::MAX as f64 / 4.0);
    let dur = ((view.dur() as f64 * factor).round().clamp(MIN_VIEW as f64, longest)) as DurNs;
    let share = at.saturating_sub(view.start) as f64 / view.dur().max(1) as f64;
    let start = at.saturating_sub((share * dur as f64).round() as DurNs);
    kept_near(TimeRange { start, end: start.saturating_add(dur) }, span)
}

/// Runs the commands that zoom and pan; false if it is none of them.
///
/// * `at`: what keeps its place on screen.
pub fn run(command: &Command, navigation: &mut Navigation, at: TimeNs, span: TimeRange) -> bool {
    let view = navigation.visible();
    let quarter = view.dur() / 4;
    navigation.go(match command {
        Command::ZoomIn => zoomed(view, at, 0.5, span),
        Command::ZoomOut => zoomed(view, at, 2.0, span),
        Command::PanLeft => panned(view, -quarter, span),
        Command::PanRight => panned(view, quarter, span),
        _ => return false,
    });
    true
}

/// What a drag does, by its button and the keys held when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DragKind {
    Pan,
    Zoom,
    Range,
}

impl DragKind {
    /// `None` if it is of no button that drags here.
    pub fn of(response: &egui::Response, modifiers: egui::Modifiers) -> Option<Self> {
        match () {
            () if response.drag_started_by(PointerButton::Middle) => Some(Self::Pan),
            () if !response.drag_started_by(PointerButton::Primary) => None,
            () if modifiers.shift => Some(Self::Pan),
            () if modifiers.alt => Some(Self::Zoom),
            () => Some(Self::Range),
        }
    }
}

/// `view` moved by `by` nanoseconds.
pub fn panned(view: TimeRange, by: DurNs, span: TimeRange) -> TimeRange {
    kept_near(view.shifted(by), span)
}

/// `range` with some room on both sides, long enough to show.
pub fn fitted(range: TimeRange, margin: f64, span: TimeRange) -> TimeRange {
    let room = (range.dur() as f64 * margin) as DurNs;
    let short = (MIN_VIEW - range.dur()).max(0) / 2 + 1;
    let room = if range.dur() < MIN_VIEW { short } else { room };
    let wide = TimeRange { start: range.start.saturating_sub(room), end: range.end.saturating_add(room) };
    zoomed(wide, wide.start, 1.0, span)
}

/// The same length around `at`.
pub fn centered(view: TimeRange, at: TimeNs, span: TimeRange) -> TimeRange {
    let start = at.saturating_sub(view.dur() / 2);
    kept_near(TimeRange { start, end: start.saturating_add(view.dur()) }, span)
}

/// Moved so that its middle lies within `span`: nobody gets lost in the void.
fn kept_near(view: TimeRange, span: TimeRange) -> TimeRange {
    let middle = view.start.saturating_add(view.dur() / 2);
    view.shifted(middle.clamp(span.start, span.end.max(span.start)).saturating_sub(middle))
}

/// What a drag on the canvas does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drag {
    /// Selects a time range from here.
    Range { anchor: TimeNs },
    /// Zooms to what is marked, from here.
    Zoom { anchor: TimeNs },
    /// Moves the view that was visible when it began.
    Pan { view: TimeRange, scroll: f64 },
}

/// Movement under way.
#[derive(Debug, Default)]
pub struct Motion {
    held: HashSet<Key>,
    pub drag: Option<Drag>,
    /// When the view last moved, in seconds.
    moved_at: Option<f64>,
}

impl Motion {
    /// Shows `range`; the first of several quick moves is the step to undo.
    pub fn glide(&mut self, ctx: &mut ViewContext<'_>, range: TimeRange, now: f64) {
        if range != ctx.navigation.visible() {
            self.step(ctx, now);
            ctx.navigation.glide(range);
        }
    }

    /// The same for the bytes on show.
    pub fn glide_bytes(&mut self, ctx: &mut ViewContext<'_>, bytes: Option<TimeRange>, now: f64) {
        if bytes != ctx.navigation.bytes {
            self.step(ctx, now);
            ctx.navigation.bytes = bytes;
        }
    }

    /// Remembers what is on show, if it did not just move.
    fn step(&mut self, ctx: &mut ViewContext<'_>, now: f64) {
        if self.moved_at.is_none_or(|moved| now - moved > ONE_MOVE_SECS) {
            ctx.navigation.remember();
        }
        self.moved_at = Some(now);
    }

    /// W and S zoom, A and D pan, as long as they are held, by their place on the keyboard.
    pub fn keys(&mut self, ctx: &mut ViewContext<'_>, egui: &egui::Context, at: TimeNs) {
        let (is_busy, now, dt) = egui.input(|input| {
            for event in &input.events {
                if let Event::Key { key, physical_key, pressed, .. } = event {
                    let key = physical_key.unwrap_or(*key);
                    if *pressed {
                        self.held.insert(key)
                    } else {
                        self.held.remove(&key)
                    };
                }
            }
            let modifiers = input.modifiers;
            (modifiers.ctrl || modifiers.alt || modifiers.command || !input.focused, input.time, input.stable_dt)
        });
        if is_busy || !ctx.has_keys || egui.text_edit_focused() || egui.any_popup_open() {
            self.held.clear();
            return;
        }
        let dt = f64::from(dt.min(0.1));
        let direction = |plus: Key, minus: Key| {
            f64::from(i8::from(self.held.contains(&plus))) - f64::from(i8::from(self.held.contains(&minus)))
        };
        let (zoom, pan) = (direction(Key::S, Key::W), direction(Key::D, Key::A));
        if zoom == 0.0 && pan == 0.0 {
            return;
        }
        let view = zoomed(ctx.navigation.visible(), at, (zoom * dt * 3.0).exp(), ctx.span);
        let by = (pan * dt * 0.9 * view.dur() as f64) as DurNs;
        let view = panned(view, by, ctx.span);
        self.glide(ctx, view, now);
        egui.request_repaint();
    }

    /// Wheel and pinch over the canvas; returns by how many points the tracks scroll.
    pub fn wheel(
        &mut self,
        ctx: &mut ViewContext<'_>,
        egui: &egui::Context,
        (scale, pointer): (&Scale, egui::Pos2),
        wheel_zooms: bool,
    ) -> f32 {
        let (delta, zoom) = wheel(egui, wheel_zooms);
        let now = egui.input(|input| input.time);
        let mut view = ctx.navigation.visible();
        if zoom != 1.0 {
            view = zoomed(view, scale.time(pointer.x), 1.0 / zoom, ctx.span);
        }
        if delta.x != 0.0 {
            view = panned(view, (-f64::from(delta.x) * scale.ns_per_point()) as DurNs, ctx.span);
        }
        self.glide(ctx, view, now);
        delta.y
    }
}

/// What wheel and pinch ask for: by how many points to scroll, and by which factor to zoom.
///
/// * `wheel_zooms`: whether the plain wheel zooms and Ctrl+wheel scrolls.
pub fn wheel(egui: &egui::Context, wheel_zooms: bool) -> (egui::Vec2, f64) {
    let (delta, zoom) = egui.input(|input| (input.smooth_scroll_delta(), f64::from(input.zoom_delta())));
    if wheel_zooms {
        return (egui::vec2(delta.x, zoom.ln() as f32 * 200.0), f64::from(delta.y / 200.0).exp());
    }
    (delta, zoom)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: TimeRange = TimeRange { start: 1_000_000_000_000, end: 1_100_000_000_000 };

    #[test]
    fn zooming_in_and_out_keeps_the_moment_under_the_pointer() {
        let mut view = SPAN;
        let width = 1920.0;
        let pointer = 700.0;
        let at = Scale::new(view, 0.0, width, 1.0).time(pointer);
        let mut steps = 0;
        while view.dur() > 100 {
            view = zoomed(view, at, 0.8, SPAN);
            let share = (at - view.start) as f64 / view.dur() as f64;
            let error_ns = (share - f64::from(pointer) / f64::from(width)).abs() * view.dur() as f64;
            assert!(error_ns <= steps as f64 + 1.5, "{error_ns} ns after {steps} steps of rounding");
            let under = Scale::new(view, 0.0, width, 1.0).x(at);
            assert!(view.dur() < 10_000 || (under - pointer).abs() < 0.5, "{under} at {view:?}");
            steps += 1;
        }
        assert_eq!(zoomed(view, at, 1e-9, SPAN).dur(), MIN_VIEW);
        assert_eq!(zoomed(view, at, 1e30, SPAN).dur(), 150_000_000_000);
    }

    #[test]
    fn one_zoom_is_exact_to_the_nanosecond() {
        let view = TimeRange { start: SPAN.start, end: SPAN.start + 1_000 };
        let zoomed = zoomed(view, SPAN.start + 250, 0.5, SPAN);
        assert_eq!(zoomed, TimeRange { start: SPAN.start + 125, end: SPAN.start + 625 });
    }

    #[test]
    fn the_view_never_leaves_the_traces() {
        let far = panned(SPAN, 1_000_000_000_000, SPAN);
        assert_eq!(far.start + far.dur() / 2, SPAN.end);
        assert_eq!(far.dur(), SPAN.dur());
        let _ = panned(SPAN, i64::MAX, SPAN);
        let _ = zoomed(TimeRange { start: 0, end: 1 }, i64::MIN, 3.0, TimeRange::default());
    }

    #[test]
    fn a_moment_can_be_fitted() {
        let at = TimeRange { start: SPAN.start + 5, end: SPAN.start + 5 };
        let view = fitted(at, 0.1, SPAN);
        assert!(view.contains(at.start) && view.dur() >= MIN_VIEW, "{view:?}");
        let all = fitted(SPAN, 0.02, SPAN);
        assert!(all.start < SPAN.start && all.end > SPAN.end);
    }
}
