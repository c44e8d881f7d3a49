//! A button with options that are changed one after another.

use eframe::egui::{Popup, PopupCloseBehavior, Ui};

/// A button that opens options. They stay open while they are changed: a click elsewhere, on the button or Escape
/// closes them. A menu would close at the click into a field, and what is typed then would be taken for commands; and
/// it would close where a list of choices opens, of which a window has one at a time.
pub fn options_ui(label: &str, ui: &mut Ui, add: impl FnOnce(&mut Ui)) {
    let button = ui.button(label);
    let id = button.id.with("options");
    let was_open = ui.data(|kept| kept.get_temp::<bool>(id)).unwrap_or_default();
    let mut is_open = was_open != button.clicked();
    // A click into a list of choices is none elsewhere.
    let has_list = Popup::is_any_open(ui.ctx());
    let popup = Popup::menu(&button).open_bool(&mut is_open).close_behavior(PopupCloseBehavior::IgnoreClicks);
    let shown = popup.show(add);
    is_open &= !shown.is_some_and(|shown| was_open && !has_list && shown.response.clicked_elsewhere());
    ui.data_mut(|kept| kept.insert_temp(id, is_open));
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
                    eframe::egui::ComboBox::from_label("Speed").selected_text("slow").show_ui(ui, |ui| {
                        ui.selectable_value(text, "fast".to_owned(), "quick");
                    });
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
        harness.get_by_label("Speed").click();
        harness.run();
        harness.get_by_label("quick").click();
        harness.run();
        assert_eq!(harness.state(), "fast");
        assert!(field(&harness), "a choice from a list");
        harness.get_by_label("Options").click();
        harness.run();
        assert!(!field(&harness));
        harness.get_by_label("Options").click();
        harness.run();
        assert!(field(&harness));
        harness.get_by_label("Elsewhere").click();
        harness.run();
        assert!(!field(&harness));
    }
}
