//! Every allocation over time.

use eframe::egui;

use super::head::choose_ui;
use crate::view::{View, ViewContext};

/// Memory over time, in the middle of the window.
#[derive(Debug, Default)]
pub struct MemoryOverTime {}

impl View for MemoryOverTime {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let _ = choose_ui(ctx, ui);
    }
}
