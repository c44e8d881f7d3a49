//! Zoom and pan by held keys and the wheel, with undo steps.

use std::collections::HashSet;

use eframe::egui::{Context, Event, Key, Vec2, vec2};

use super::{Scale, panned, zoomed};
use crate::model::{DurNs, TimeNs, TimeRange};
use crate::session::Navigation;

/// Moves closer together than this, in seconds, are one undo step.
const ONE_MOVE_SECS: f64 = 0.6;

/// Scroll and zoom of wheel and pinch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wheel {
    /// In points.
    pub scroll: Vec2,
    /// Above 1 zooms in.
    pub zoom: f64,
}

impl Wheel {
    /// * `wheel_zooms`: whether the plain wheel zooms and Ctrl+wheel scrolls.
    pub fn read(egui: &Context, wheel_zooms: bool) -> Self {
        let (scroll, zoom) = egui.input(|input| (input.smooth_scroll_delta(), f64::from(input.zoom_delta())));
        if wheel_zooms {
            let scroll_y = zoom.ln() as f32 * 200.0;
            return Self { scroll: vec2(scroll.x, scroll_y), zoom: f64::from(scroll.y / 200.0).exp() };
        }
        Self { scroll, zoom }
    }
}

/// Movement under way.
#[derive(Debug, Default)]
pub struct Motion {
    held: HashSet<Key>,
    /// When the view last moved, in seconds.
    moved_at: Option<f64>,
}

impl Motion {
    /// Shows `range`; the first of several quick moves is an undo step.
    pub fn glide(&mut self, navigation: &mut Navigation, range: TimeRange, now: f64) {
        if range != navigation.visible() {
            self.step(navigation, now);
            navigation.glide(range);
        }
    }

    /// The same for the visible bytes.
    pub fn glide_bytes(&mut self, navigation: &mut Navigation, bytes: Option<TimeRange>, now: f64) {
        if bytes != navigation.bytes {
            self.step(navigation, now);
            navigation.bytes = bytes;
        }
    }

    /// Adds an undo step, unless the view has just moved.
    fn step(&mut self, navigation: &mut Navigation, now: f64) {
        if self.moved_at.is_none_or(|moved| now - moved > ONE_MOVE_SECS) {
            navigation.remember();
        }
        self.moved_at = Some(now);
    }

    /// Zooms at `at` while W or S is held, and pans while A or D is; by physical position of the keys.
    ///
    /// * `has_keys`: whether held keys go to this view.
    pub fn keys(
        &mut self,
        navigation: &mut Navigation,
        span: TimeRange,
        egui: &Context,
        (at, has_keys): (TimeNs, bool),
    ) {
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
        if is_busy || !has_keys || egui.text_edit_focused() || egui.any_popup_open() {
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
        let view = zoomed(navigation.visible(), at, (zoom * dt * 3.0).exp(), span);
        let by = (pan * dt * 0.9 * view.dur() as f64) as DurNs;
        self.glide(navigation, panned(view, by, span), now);
        egui.request_repaint();
    }

    /// Zooms at `x` and pans along the axis by the wheel.
    pub fn wheel(
        &mut self,
        navigation: &mut Navigation,
        span: TimeRange,
        (scale, x): (&Scale, f32),
        wheel: Wheel,
        now: f64,
    ) {
        let mut view = navigation.visible();
        if wheel.zoom != 1.0 {
            view = zoomed(view, scale.time(x), 1.0 / wheel.zoom, span);
        }
        if wheel.scroll.x != 0.0 {
            view = panned(view, scale.distance(-wheel.scroll.x), span);
        }
        self.glide(navigation, view, now);
    }
}
