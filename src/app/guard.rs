//! Keeps a view that panics from taking the window down.

use std::panic::{AssertUnwindSafe, catch_unwind};

use eframe::egui::Ui;

use crate::job::panic_message;

/// Remembers why a view failed, and does not paint it again until the user asks for it.
#[derive(Debug, Default)]
pub struct Guard {
    failure: Option<String>,
}

impl Guard {
    /// Whether the view failed and is not painted.
    #[cfg(test)]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Paints the view called `name`, or why it failed.
    pub fn show(&mut self, name: &str, ui: &mut Ui, view: impl FnOnce(&mut Ui)) {
        if let Some(failure) = &self.failure {
            let text = format!("{name} failed: {failure}");
            ui.label(&text);
            ui.label("The other views still work. Please report this with the text above");
            if ui.button("Copy details").clicked() {
                ui.ctx().copy_text(format!("Lacuna {}: {text}", env!("CARGO_PKG_VERSION")));
            }
            if ui.button("Try again").clicked() {
                self.failure = None;
            }
            return;
        }
        if self.catch(|| view(ui)).is_none() {
            ui.ctx().request_repaint();
        }
    }

    /// Runs work of the view that paints nothing; `None` if it fails now or the view failed before.
    pub fn catch<T>(&mut self, work: impl FnOnce() -> T) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| self.failure = Some(panic_message(&*panic))).ok()
    }
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn a_view_that_panics_says_so_and_can_be_tried_again() {
        struct State {
            guard: Guard,
            is_broken: bool,
        }
        let state = State { guard: Guard::default(), is_broken: true };
        let paint = |ui: &mut Ui, state: &mut State| {
            let is_broken = state.is_broken;
            state.guard.show("Timeline", ui, |ui| {
                assert!(!is_broken, "no such row");
                ui.label("All is well");
            });
            ui.label("Another view");
        };
        let mut harness = Harness::new_ui_state(paint, state);
        harness.run();
        harness.get_by_label("Timeline failed: no such row");
        harness.get_by_label("Another view");
        harness.state_mut().is_broken = false;
        harness.get_by_label("Try again").click();
        harness.run();
        harness.get_by_label("All is well");
    }
}
