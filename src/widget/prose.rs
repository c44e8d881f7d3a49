//! Text that may wrap, in which no number parts from its unit.

use eframe::egui::{Label, Response, RichText, Role, Ui, WidgetInfo};

use crate::figures::text::unbroken;

/// A label whose numbers stay beside their units where it wraps. Its accessible name has usual spaces.
///
/// * `style`: of the text: `RichText::weak`.
pub fn prose_ui(ui: &mut Ui, text: &str, style: impl FnOnce(RichText) -> RichText) -> Response {
    let response = ui.add(Label::new(style(RichText::new(unbroken(text)))).wrap());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    response
}

/// The style of usual text.
pub fn plain(text: RichText) -> RichText {
    text
}
