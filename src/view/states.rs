//! What stands where an answer is to be shown: the work on it, why it failed, or that nothing was found.

use std::sync::Arc;

use eframe::egui;

use crate::answers::Answer;
use crate::figures::text::display_name;
use crate::widget::theme;

/// What to show of an answer: itself, or until it comes the one before. Where there is neither, says so.
///
/// * `doing`: what is being worked out: `Comparing steps…`.
pub fn answer_ui<T>(answer: &Answer<T>, doing: &str, ui: &mut egui::Ui) -> Option<Arc<T>> {
    match answer {
        Answer::Failed(why) => failed_ui(why, ui),
        Answer::Working(None) => working_ui(doing, ui),
        Answer::Working(Some(_)) | Answer::Ready(_) => {}
    }
    answer.newest().cloned()
}

/// Says that something is being worked out.
pub fn working_ui(doing: &str, ui: &mut egui::Ui) {
    ui.horizontal(|ui| {
        ui.spinner();
        ui.weak(doing);
    });
}

/// Says why an answer failed.
pub fn failed_ui(why: &str, ui: &mut egui::Ui) {
    let error = theme::tokens(ui.visuals().dark_mode).severity[2];
    ui.add(egui::Label::new(egui::RichText::new(display_name(why)).color(error)).wrap());
}

/// Says that there is nothing to show.
///
/// * `how`: what the person can do about it, or why that is so.
pub fn nothing_ui(what: &str, how: &str, ui: &mut egui::Ui) {
    ui.label(what);
    ui.weak(how);
}
