//! Controls that stay on one line.

use eframe::egui::{InnerResponse, Ui};

/// Shows controls that belong together, as a word and its field: where lines break, they go to the next one as a whole.
///
/// * `name`: identifies them within the view.
pub fn together_ui<R>(name: &str, ui: &mut Ui, add: impl FnOnce(&mut Ui) -> R) -> R {
    let id = ui.scope_id().with((name, "width"));
    let known: f32 = ui.data(|kept| kept.get_temp(id)).unwrap_or_default();
    if ui.layout().main_wrap() && ui.available_size_before_wrap().x < known {
        ui.end_row();
    }
    let InnerResponse { inner, response } = ui.horizontal(add);
    let width = response.rect.width();
    if (width - known).abs() > 0.5 {
        ui.data_mut(|kept| kept.insert_temp(id, width));
        ui.ctx().request_repaint();
    }
    inner
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn what_belongs_together_goes_to_the_next_line_as_a_whole() {
        let mut harness = Harness::builder().with_size([200.0, 100.0]).build_ui(|ui| {
            ui.horizontal_wrapped(|ui| {
                ui.add_space(120.0);
                together_ui("order", ui, |ui| {
                    ui.label("goes");
                    ui.label("along time");
                });
            });
        });
        harness.run();
        let [word, choice] = ["goes", "along time"].map(|label| harness.get_by_label(label).rect());
        assert!(word.left() < 100.0 && (word.center().y - choice.center().y).abs() < 2.0, "{word} {choice}");
    }
}
