//! Leaks.

use eframe::egui;

use super::head;
use crate::view::{View, ViewContext};

/// The tab.
#[derive(Debug, Default)]
pub struct LeaksView {}

impl View for LeaksView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        if ctx.memory.resolve(ctx.traces).is_none() {
            head::nothing_ui(ui);
        }
    }
}
