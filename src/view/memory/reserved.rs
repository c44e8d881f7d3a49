//! Reserved.

use eframe::egui;

use super::head;
use crate::view::{View, ViewContext};

/// The tab.
#[derive(Debug, Default)]
pub struct ReservedView {}

impl View for ReservedView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        if ctx.memory.resolve(ctx.traces).is_none() {
            head::nothing_ui(ui);
        }
    }
}
