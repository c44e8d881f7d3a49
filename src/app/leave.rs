//! The question before the window closes while a program runs that the user started here.

use eframe::egui::{self, Context, Modal};

use crate::widget::busy::busy_ui;

/// What the user is asked, and what they said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Asking,
    /// The run was told to end; the window closes when it has.
    Stopping,
    /// The window may close.
    Agreed,
}

/// What the window does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    Close,
    StopTheRun,
}

/// The question, while it is open.
#[derive(Debug, Default)]
pub struct Leaving(Stage);

impl Leaving {
    /// Whether the window may close now; asks if not.
    ///
    /// * `has_run`: whether a program runs.
    pub fn may_close(&mut self, has_run: bool) -> bool {
        let may_close = !has_run || self.0 == Stage::Agreed;
        if !may_close && self.0 == Stage::Idle {
            self.0 = Stage::Asking;
        }
        may_close
    }

    /// Whether the question is on screen.
    pub fn is_open(&self) -> bool {
        matches!(self.0, Stage::Asking | Stage::Stopping)
    }

    /// Paints the question, if it is open.
    pub fn ui(&mut self, has_run: bool, ctx: &Context) -> Option<Leave> {
        if !self.is_open() {
            return None;
        }
        if !has_run {
            // It ended by itself: whoever was still asked is not thrown out.
            let is_agreed = self.0 == Stage::Stopping;
            self.0 = if is_agreed { Stage::Agreed } else { Stage::Idle };
            return is_agreed.then_some(Leave::Close);
        }
        let mut leave = None;
        let modal = Modal::new(egui::Id::unique("leave")).show(ctx, |ui| {
            ui.set_width(420.0);
            if self.0 == Stage::Asking {
                ui.heading("A program that you started is running");
                ui.label("Lacuna cannot be closed without stopping it. What it recorded until then is kept.");
            } else {
                ui.heading("Stopping the run");
                ui.horizontal(|ui| {
                    busy_ui(ui);
                    ui.label("Lacuna closes when the program has ended and its recording is written.");
                });
            }
            ui.add_space(6.0);
            ui.horizontal(|ui| {
                let is_kept = ui.button("Keep Lacuna open").clicked();
                if self.0 == Stage::Asking {
                    if ui.button("Stop the run and quit").clicked() {
                        (self.0, leave) = (Stage::Stopping, Some(Leave::StopTheRun));
                    }
                } else {
                    let now = ui.button("Quit now");
                    if now.on_hover_text("What is not written ten seconds from now is lost").clicked() {
                        (self.0, leave) = (Stage::Agreed, Some(Leave::Close));
                    }
                }
                is_kept
            })
            .inner
        });
        if modal.inner || modal.should_close() {
            self.0 = Stage::Idle;
        }
        leave
    }
}
