//! The allocator's segments and blocks at a moment.

use eframe::egui;

use super::head::choose_ui;
use crate::view::{View, ViewContext};

/// The state at a moment, in the middle of the window.
#[derive(Debug, Default)]
pub struct MemoryState {}

impl View for MemoryState {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let _ = choose_ui(ctx, ui);
    }
}
