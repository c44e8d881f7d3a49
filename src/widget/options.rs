//! A button with options that are changed one after another.

use eframe::egui::containers::menu::{MenuButton, MenuConfig};
use eframe::egui::{PopupCloseBehavior, Ui};

/// A button that opens options. They stay open while they are changed: a click elsewhere or Escape closes them. A menu would
/// close at the click into a field, and what is typed then would be taken for commands.
pub fn options_ui(label: &str, ui: &mut Ui, add: impl FnOnce(&mut Ui)) {
    let config = MenuConfig::new().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    MenuButton::new(label).config(config).ui(ui, add);
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn options_stay_open_while_a_field_is_filled() {
        let mut harness = Harness::new_ui_state(
            |ui, text: &mut String| {
                options_ui("Options", ui, |ui| {
                    let label = ui.label("Filter");
                    ui.text_edit_singleline(text).labelled_by(label.id);
                });
                ui.add_space(200.0);
                ui.label("Elsewhere");
            },
            String::new(),
        );
        harness.get_by_label("Options").click();
        harness.run();
        let field =
            |harness: &Harness<'_, String>| harness.query_by_role(eframe::egui::accesskit::Role::TextInput).is_some();
        harness.get_by_role(eframe::egui::accesskit::Role::TextInput).click();
        harness.run();
        assert!(field(&harness));
        harness.event(eframe::egui::Event::Text("forward".to_owned()));
        harness.run();
        assert_eq!(harness.state(), "forward");
        harness.get_by_label("Elsewhere").click();
        harness.run();
        assert!(!field(&harness));
    }
}
