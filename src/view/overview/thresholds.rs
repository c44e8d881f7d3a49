//! The thresholds of the rules, to be changed.

use eframe::egui::{self, DragValue, Grid, RichText};

use crate::analysis::rules::{Kind, Level, Threshold, Thresholds};
use crate::figures::findings::severity;
use crate::figures::verdicts::limit_text;

/// A section that is closed at first. What is changed applies at once, and is kept.
pub fn ui(thresholds: &mut Thresholds, ui: &mut egui::Ui) {
    egui::CollapsingHeader::new("Thresholds").show(ui, |ui| {
        let all = thresholds.all();
        let n_changed = all.iter().filter(|one| one.is_changed()).count();
        ui.horizontal_wrapped(|ui| {
            ui.weak("From these values on there is a finding. Shares are of the time that is judged");
            let reset = ui.add_enabled(n_changed > 0, egui::Button::new("Reset all").small());
            if reset.on_hover_text("Give every threshold its default").clicked() {
                *thresholds = Thresholds::default();
            }
        });
        Grid::new("thresholds").num_columns(4).striped(true).show(ui, |ui| {
            let mut last = "";
            for one in &all {
                let is_first = std::mem::replace(&mut last, one.of) != one.of;
                row_ui(one, is_first, thresholds, ui);
                ui.end_row();
            }
        });
    });
}

fn row_ui(one: &Threshold, is_first: bool, thresholds: &mut Thresholds, ui: &mut egui::Ui) {
    ui.label(RichText::new(if is_first { one.of } else { "" }).small()).on_hover_text(one.help);
    ui.label(match one.level {
        Level::Of(level) => severity(level).label,
        Level::Counts => "",
    });
    let (factor, suffix, speed) = match one.kind {
        Kind::Share => (100.0, " %", 0.1),
        Kind::Ratio => (1.0, "x", 0.01),
        Kind::Count => (1.0, "", 1.0),
        Kind::Time => (1e-3, " \u{b5}s", 1.0),
        Kind::Bytes => (1.0, " B", 1000.0),
    };
    let mut shown = one.value * factor;
    let field = DragValue::new(&mut shown).speed(speed).max_decimals(3).suffix(suffix);
    let field = ui.add(field).on_hover_text(one.help);
    let name = one.name();
    field.widget_info(|| egui::WidgetInfo::labeled(egui::Role::SpinButton, true, &name));
    if field.changed() {
        // What it cannot be, it does not become.
        _ = thresholds.set(&name, shown / factor);
    }
    if one.is_changed() {
        let hint = format!("The default is {}", limit_text(one.default, one.kind));
        if ui.small_button("Reset").on_hover_text(hint).clicked() {
            _ = thresholds.set(&name, one.default);
        }
    }
}
