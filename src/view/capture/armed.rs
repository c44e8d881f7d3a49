//! A button that removes something: it asks at the first click, and does it at the second.

use std::time::Duration;

use eframe::egui::{self, Ui};

/// After so many seconds the question is withdrawn.
const SECONDS: f64 = 5.0;

/// What one of several such buttons asks about, until a click elsewhere, Escape or a few seconds later.
#[derive(Debug)]
pub struct Armed<T> {
    what: Option<T>,
    /// When the question is withdrawn, in seconds of egui's clock.
    until: f64,
}

impl<T> Default for Armed<T> {
    fn default() -> Self {
        Self { what: None, until: 0.0 }
    }
}

impl<T: PartialEq> Armed<T> {
    /// Paints the button of `what`; true once it is to be done.
    ///
    /// * `before`, `asking`: its text and help before the first click and after it.
    pub fn button_ui(&mut self, what: T, before: [&str; 2], asking: [&str; 2], ui: &mut Ui) -> bool {
        // As the system delivered it: commands of the window take the key away before views are painted.
        let escape =
            |event: &egui::Event| matches!(event, egui::Event::Key { key: egui::Key::Escape, pressed: true, .. });
        let (now, is_escape) = ui.input(|input| (input.time, input.raw.events.iter().any(escape)));
        let is_armed = self.what.as_ref() == Some(&what);
        let [name, help] = if is_armed { asking } else { before };
        let text = egui::RichText::new(name);
        let text = if is_armed { text.color(ui.visuals().warn_fg_color) } else { text };
        let button = ui.button(text).on_hover_text(help);
        if button.clicked() {
            (self.what, self.until) = ((!is_armed).then_some(what), now + SECONDS);
            return is_armed;
        }
        if is_armed && (button.clicked_elsewhere() || is_escape || now >= self.until) {
            self.what = None;
            ui.ctx().request_repaint();
        } else if is_armed {
            ui.ctx().request_repaint_after(Duration::from_secs_f64(self.until - now));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Key, vec2};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn it_asks_and_forgets_the_question_by_a_click_elsewhere_escape_and_time() {
        let paint = |ui: &mut Ui, (armed, n): &mut (Armed<u32>, u32)| {
            // As the window does with the keys of commands.
            ui.input_mut(|input| input.consume_key(egui::Modifiers::NONE, Key::Escape));
            *n += u32::from(armed.button_ui(1, ["Delete", ""], ["Delete?", ""], ui));
            _ = ui.button("Other");
        };
        let builder = Harness::builder().with_size(vec2(200.0, 100.0)).with_step_dt(0.3);
        let mut harness = builder.build_ui_state(paint, (Armed::default(), 0));
        let click = |harness: &mut Harness<'_, (Armed<u32>, u32)>, name| {
            harness.get_by_label(name).click();
            harness.run_steps(2);
        };
        click(&mut harness, "Delete");
        click(&mut harness, "Other");
        click(&mut harness, "Delete");
        harness.key_press(Key::Escape);
        harness.run_steps(2);
        click(&mut harness, "Delete");
        harness.run_steps(20);
        harness.get_by_label("Delete");
        assert_eq!(harness.state().1, 0);
        click(&mut harness, "Delete");
        click(&mut harness, "Delete?");
        harness.get_by_label("Delete");
        assert_eq!(harness.state().1, 1);
    }
}
