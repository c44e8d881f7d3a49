//! Controls of the chosen moment: a strip, steps by event, and playback.

use std::time::Duration;

use eframe::egui::{self, Color32, Sense, Stroke, pos2, vec2};

use super::head::{self, highlight_ui, moment_slider, state_text};
use super::over_time::Highest;
use crate::answers::{Query, Subject as _, SubjectKey};
use crate::command::Command;
use crate::figures::format;
use crate::session::ShownMemory;
use crate::view::ViewContext;
use crate::widget::options::options_ui;
use crate::widget::theme;

/// Seconds to play the whole recording at normal speed.
const WHOLE_SECONDS: f64 = 20.0;
const SPEEDS: [f64; 5] = [0.1, 0.5, 1.0, 2.0, 10.0];
/// Points of width in which the buttons and the text of a moment stand on one row.
const ONE_ROW: f32 = 1050.0;
/// Points of the button that plays and pauses.
const PLAY_WIDTH: f32 = 52.0;
/// Interval between two steps of playback.
const TICK: Duration = Duration::from_millis(50);

/// Playback of the moment.
#[derive(Debug)]
struct Playing {
    of: SubjectKey,
    /// Between two states.
    position: f64,
    /// The moment it set last; playback stops if the user chooses another.
    shown: Option<u32>,
}

/// The controls of the moment.
#[derive(Debug)]
pub struct Transport {
    playing: Option<Playing>,
    speed: f64,
    strip: Query<Highest>,
}

impl Default for Transport {
    fn default() -> Self {
        Self { playing: None, speed: 1.0, strip: Query::default() }
    }
}

impl Transport {
    /// * `on_screen`: the state that the picture below shows, which may be one before the chosen one.
    pub fn ui(&mut self, shown: &ShownMemory, on_screen: Option<u32>, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let history = shown.history();
        let last = history.last_state();
        if !history.has_changes() {
            ui.weak("No history was recorded: this is the state when the snapshot was taken");
            return;
        }
        let state = ctx.memory.moment.unwrap_or(last);
        let is_small = head::is_small(ui);
        // Whether the text has a line of its own depends on the room alone: it changes with the moment, and must not
        // move what is below.
        let has_room = ui.available_width() >= ONE_ROW;
        if !is_small && !has_room {
            ui.horizontal_wrapped(|ui| self.buttons_ui(shown, state, ctx, ui));
        }
        ui.horizontal(|ui| {
            if is_small {
                options_ui("Moment", ui, |ui| self.buttons_ui(shown, state, ctx, ui));
            } else if has_room {
                self.buttons_ui(shown, state, ctx, ui);
                ui.separator();
            }
            ui.add(egui::Label::new(event_text(shown, on_screen.unwrap_or(state))).truncate());
        });
        self.scrub_ui(shown, state, if is_small { 18.0 } else { 36.0 }, ctx, ui);
    }

    fn buttons_ui(&mut self, shown: &ShownMemory, state: u32, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let last = shown.history().last_state();
        let mut to = None;
        let button = |ui: &mut egui::Ui, label: &str, help: &str| ui.button(label).on_hover_text(help).clicked();
        if button(ui, "Start", "Before the first event") {
            to = Some(0);
        }
        if button(ui, "Previous event", "One event back (,)") {
            to = Some(state.saturating_sub(1));
        }
        let play = if self.playing.is_some() { "Pause" } else { "Play" };
        // As wide for both, so that nothing beside it moves.
        let play = ui.add(egui::Button::new(play).min_size(vec2(PLAY_WIDTH, 0.0)));
        if play.on_hover_text("Move through the recording, event after event (Shift+P)").clicked() {
            self.toggle(shown, ctx);
        }
        if button(ui, "Next event", "One event on (.)") {
            to = Some((state + 1).min(last));
        }
        let lacking = head::no_peak(shown.history());
        let peak = ui.add_enabled(lacking.is_none(), egui::Button::new("Peak"));
        let peak = peak.on_hover_text("When most is allocated (P)");
        if peak.on_disabled_hover_text(lacking.unwrap_or_default()).clicked() {
            to = Some(shown.history().curves.fullest());
        }
        if button(ui, "End", "After the last event") {
            to = Some(last);
        }
        let speed = egui::ComboBox::from_id_salt("speed").selected_text(speed_text(self.speed)).width(60.0);
        let speed = speed.show_ui(ui, |ui| {
            for choice in SPEEDS {
                ui.selectable_value(&mut self.speed, choice, speed_text(choice));
            }
        });
        speed.response.accessible_name("Speed");
        if to.is_some() {
            ctx.memory.moment = to;
        }
        highlight_ui(ctx, ui);
    }

    /// Plays, from the start if the moment is the end, or stops.
    pub fn toggle(&mut self, shown: &ShownMemory, ctx: &ViewContext<'_>) {
        let last = shown.history().last_state();
        let state = ctx.memory.moment.unwrap_or(last);
        self.playing = match self.playing {
            Some(_) => None,
            None => {
                let position = if state == last { 0.0 } else { f64::from(state) };
                Some(Playing { of: shown.key(), position, shown: ctx.memory.moment })
            }
        };
    }

    /// Steps event by event.
    pub fn run(&mut self, command: &Command, shown: &ShownMemory, ctx: &mut ViewContext<'_>) -> bool {
        let last = shown.history().last_state();
        let state = ctx.memory.moment.unwrap_or(last);
        let to = match command {
            Command::NextSlice => (state + 1).min(last),
            Command::PreviousSlice => state.saturating_sub(1),
            _ => return false,
        };
        ctx.memory.moment = Some(to);
        true
    }

    /// Moves on while it plays.
    pub fn play(&mut self, shown: &ShownMemory, ctx: &mut ViewContext<'_>, ui: &egui::Ui) {
        let last = shown.history().last_state();
        let is_left = |playing: &Playing| playing.shown != ctx.memory.moment || playing.of != shown.key();
        if self.playing.as_ref().is_some_and(is_left) {
            self.playing = None;
        }
        let Some(playing) = &mut self.playing else { return };
        let seconds = f64::from(ui.input(|input| input.stable_dt)).min(0.25);
        playing.position += f64::from(last) * seconds / WHOLE_SECONDS * self.speed;
        ui.ctx().request_repaint_after(TICK);
        // All of one moment is on screen before the next: events are skipped where that takes longer.
        if !std::mem::replace(&mut ctx.memory.is_followed, true) {
            return;
        }
        playing.shown = Some((playing.position as u32).min(last));
        ctx.memory.moment = playing.shown;
        if playing.shown == Some(last) {
            self.playing = None;
        }
    }

    /// The active curve over all states; a click or drag sets the moment.
    fn scrub_ui(&mut self, shown: &ShownMemory, state: u32, height: f32, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let history = shown.history();
        let n = history.n_states();
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::click_and_drag());
        moment_slider(&response, shown, ctx);
        let tokens = theme::tokens(ctx.is_dark);
        let state_at =
            |x: f32| (f64::from((x - rect.left()) / rect.width()).clamp(0.0, 1.0) * f64::from(n - 1)).round();
        let x_of = |state: u32| rect.left() + (f64::from(state) / f64::from(n - 1).max(1.0)) as f32 * rect.width();
        let wanted = Highest::of_states(shown, rect.width() as usize);
        let strip = self.strip.ask(ctx.answers, &shown.of, &wanted);
        let heights = strip.ready().map_or(&[][..], |strip| &strip[..]);
        let mut mesh = egui::Mesh::default();
        for (column, height) in heights.iter().enumerate() {
            let x = rect.left() + column as f32;
            let top = rect.bottom() - height * rect.height();
            let bar = egui::Rect::from_min_max(pos2(x, top), pos2(x + 1.0, rect.bottom()));
            mesh.add_colored_rect(bar, tokens.accent.gamma_multiply(0.45));
        }
        ui.painter().rect_filled(rect, 0.0, tokens.stripe);
        ui.painter().add(mesh);
        let stroke = Stroke::new(2.0, tokens.strong_text);
        ui.painter().vline(x_of(state), rect.y_range(), stroke);
        if let Some(base) = ctx.memory.base_of(shown) {
            ui.painter().vline(x_of(base), rect.y_range(), Stroke::new(1.0, Color32::GRAY));
        }
        if let Some(at) = response.interact_pointer_pos().filter(|_| response.dragged() || response.clicked()) {
            ctx.memory.moment = Some(state_at(at.x) as u32);
        }
        if let Some(at) = response.hover_pos() {
            let text = event_text(shown, state_at(at.x) as u32);
            response.on_hover_ui_at_pointer(|ui| {
                ui.label(text);
            });
        }
    }
}

fn speed_text(speed: f64) -> String {
    format!("× {speed}")
}

/// The event that led to a state, and the memory in use.
fn event_text(shown: &ShownMemory, state: u32) -> String {
    let history = shown.history();
    let active = format::bytes(history.curves.active[state as usize] as f64);
    let place = state_text(shown, state);
    match state.checked_sub(1) {
        Some(event) => {
            let (action, bytes) = (history.events.action[event as usize], history.events.bytes[event as usize]);
            let action = action.name().replace('_', " ");
            let size = if bytes > 0 { format!(" {}", format::bytes(bytes as f64)) } else { String::new() };
            format!("{place}: {action}{size}, {active} active")
        }
        None => format!("{place}: {active} active"),
    }
}
