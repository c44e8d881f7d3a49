//! A card for each device: what it is, what it does now, what is wrong with it.

use eframe::egui::{self, Color32, Rect, RichText, Sense, Ui, vec2};

use super::shown::{Device, Shown};
use crate::figures::text::display_name;
use crate::live::{Alarm, LOST, Unit, text, time_of_day};
use crate::widget::series_color::series_color;
use crate::widget::slice_color::oklch;
use crate::widget::theme;

/// The width of a card, in points; where there are more than so many, cards are narrow and low, so that plots are in
/// view below them.
const WIDTH: f32 = 400.0;
const MAX_LARGE: usize = 3;
const NARROW: f32 = 300.0;

/// The color of a device by its place: that of its lines.
pub fn color(device: usize, is_dark: bool) -> Color32 {
    /// Those of series without the gray of what is idle, the most distinct first.
    const ORDER: [usize; 6] = [4, 1, 6, 5, 0, 2];
    /// Hue in degrees, chroma and lightness of two more, in light and dark: a machine often has eight.
    const MORE: [(f32, f32, [f32; 2]); 2] = [(145.0, 0.15, [0.60, 0.80]), (60.0, 0.08, [0.46, 0.55])];
    const N: usize = ORDER.len() + MORE.len();
    let place = device % N;
    let color = match place.checked_sub(ORDER.len()).and_then(|more| MORE.get(more)) {
        Some(&(hue, chroma, lightness)) => oklch(lightness[usize::from(is_dark)], chroma, hue),
        // Lines are thinner than bars.
        None if is_dark => series_color(ORDER[place], is_dark),
        None => series_color(ORDER[place], is_dark).lerp_to_gamma(Color32::BLACK, 0.35),
    };
    let is_again = device / N % 2 == 1;
    if is_again { color.lerp_to_gamma(if is_dark { Color32::WHITE } else { Color32::BLACK }, 0.3) } else { color }
}

/// * `hidden`: UUIDs of devices whose lines are hidden.
pub fn ui(shown: &Shown, hidden: &mut Vec<String>, ui: &mut Ui) {
    let layout = egui::Layout::left_to_right(egui::Align::TOP).with_main_wrap(true);
    ui.with_layout(layout, |ui| {
        let there = shown.devices.iter().enumerate().filter(|(_, device)| !device.is_removed);
        let n = there.clone().count();
        let (is_one_of_many, is_low) = (n > 1, n > MAX_LARGE);
        let width = if is_low { NARROW } else { WIDTH };
        for (i, device) in there {
            let tokens = theme::tokens(ui.visuals().dark_mode);
            let margin = if is_low { egui::Margin::symmetric(8, 4) } else { egui::Margin::same(8) };
            let frame =
                egui::Frame::NONE.fill(tokens.panel).stroke((1.0, tokens.line)).corner_radius(4).inner_margin(margin);
            ui.allocate_ui(vec2(width, 0.0), |ui| {
                frame.show(ui, |ui| {
                    ui.vertical(|ui| {
                        ui.set_width(width - 18.0);
                        if is_low {
                            ui.spacing_mut().item_spacing.y = 2.0;
                        }
                        card_ui(i, device, [is_one_of_many, is_low], hidden, ui);
                    });
                });
            });
        }
    });
}

/// * `is_low`: whether what it says beside utilization and memory is in one line each, which may be cut.
fn card_ui(place: usize, device: &Device, [is_one_of_many, is_low]: [bool; 2], hidden: &mut Vec<String>, ui: &mut Ui) {
    let tokens = theme::tokens(ui.visuals().dark_mode);
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(10.0, 10.0), Sense::hover());
        ui.painter().rect_filled(rect, 2.0, color(place, ui.visuals().dark_mode));
        let title = format!("GPU {}", device.id);
        if is_one_of_many {
            let mut is_visible = !hidden.contains(&device.uuid);
            let toggle = ui.checkbox(&mut is_visible, RichText::new(title).strong());
            if toggle.on_hover_text("Show its lines").changed() {
                hidden.retain(|uuid| *uuid != device.uuid);
                if !is_visible {
                    hidden.push(device.uuid.clone());
                }
            }
        } else {
            ui.strong(title);
        }
        let facts: Vec<String> = device.facts.iter().map(|(what, value)| format!("{what}: {value}")).collect();
        let name = egui::Label::new(RichText::new(display_name(&device.name)).weak()).truncate();
        ui.add(name).on_hover_text(format!("{}\n{}\n{}", device.name, device.uuid, facts.join("\n")));
    });
    if device.is_lost {
        let error = RichText::new(LOST).color(tokens.severity[2]);
        ui.add(egui::Label::new(error).wrap()).on_hover_text("Lacuna retries every few seconds");
        return error_ui(device, ui);
    }
    if let Some(share) = device.utilization {
        bar_ui("Utilization", share / 100.0, &format!("{share:.0} %"), color(place, ui.visuals().dark_mode), ui);
    }
    if let Some((used, total)) = device.memory {
        let value = format!("{} of {}", text(Unit::Bytes, used), text(Unit::Bytes, total));
        bar_ui("Memory", used / total.max(1.0), &value, color(place, ui.visuals().dark_mode), ui);
    }
    if is_low {
        let values: Vec<String> = device.values.iter().map(|(title, value)| format!("{title} {value}")).collect();
        let line = RichText::new(values.join(", ")).weak().small();
        ui.add(egui::Label::new(line).truncate()).on_hover_text(values.join("\n"));
        return warnings_ui(device, is_low, ui);
    }
    egui::Grid::new(("values", place)).num_columns(4).spacing([10.0, 2.0]).show(ui, |ui| {
        for pair in device.values.chunks(2) {
            for (title, value) in pair {
                ui.weak(*title);
                ui.label(value);
            }
            ui.end_row();
        }
    });
    warnings_ui(device, is_low, ui);
}

/// What is wrong, in lines that are always there: nothing moves when alarms ring and clocks change.
fn warnings_ui(device: &Device, is_low: bool, ui: &mut Ui) {
    let tokens = theme::tokens(ui.visuals().dark_mode);
    let alarm = |alarm: &Alarm| format!("{} {:.0} {}", alarm.kind.title(), alarm.level, alarm.kind.unit());
    let alarms: Vec<String> = device.ringing.iter().map(alarm).collect();
    let alarms = match alarms.is_empty() {
        true => ("No alarm".to_owned(), tokens.weak_text),
        false => (format!("Alarm: {}", alarms.join(", ")), tokens.severity[2]),
    };
    let clocks = match &device.slowed_by {
        Some(reasons) => Some((format!("Clocks limited by: {reasons}"), tokens.severity[1])),
        None => device.are_clocks_known.then(|| ("Clocks not limited".to_owned(), tokens.weak_text)),
    };
    for (text, color) in [Some(alarms), clocks].into_iter().flatten() {
        let text = egui::Label::new(RichText::new(text).color(color));
        // A truncated one shows all of it where the pointer is.
        ui.add(if is_low { text.truncate() } else { text.wrap() });
    }
    error_ui(device, ui);
}

/// The last error of the device, which stays: it may be the reason of what is seen long after it.
fn error_ui(device: &Device, ui: &mut Ui) {
    let Some(error) = &device.error else { return };
    let text = format!("{} {}", time_of_day(error.ts), display_name(&error.text));
    let text = RichText::new(text).color(theme::tokens(ui.visuals().dark_mode).severity[2]);
    ui.add(egui::Label::new(text).wrap()).on_hover_text("The last error that the driver reported of this GPU");
}

/// A share of a whole with its value in words.
fn bar_ui(title: &str, share: f64, value: &str, color: Color32, ui: &mut Ui) {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 16.0), Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, format!("{title}: {value}")));
    let tokens = theme::tokens(ui.visuals().dark_mode);
    let painter = ui.painter();
    painter.rect_filled(rect, 2.0, tokens.stripe);
    let filled = Rect::from_min_size(rect.min, vec2(rect.width() * share.clamp(0.0, 1.0) as f32, rect.height()));
    painter.rect_filled(filled, 2.0, color.gamma_multiply(0.45));
    let font = egui::TextStyle::Small.resolve(ui.style());
    let [left, right] = [rect.left_center() + vec2(5.0, 0.0), rect.right_center() - vec2(5.0, 0.0)];
    painter.text(left, egui::Align2::LEFT_CENTER, title, font.clone(), tokens.strong_text);
    painter.text(right, egui::Align2::RIGHT_CENTER, value, font, tokens.strong_text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpus_of_one_machine_differ_in_color() {
        for is_dark in [false, true] {
            let colors: Vec<Color32> = (0..8).map(|device| color(device, is_dark)).collect();
            for (i, a) in colors.iter().enumerate() {
                for b in &colors[..i] {
                    let distance: u32 = (0..3).map(|part| u32::from(a[part].abs_diff(b[part]))).sum();
                    assert!(distance > 50, "{a:?} and {b:?}, dark {is_dark}");
                }
                // Neither can be taken for the text, or for what is behind it.
                let light = (0..3).map(|part| u32::from(a[part])).sum::<u32>() / 3;
                assert!((70..200).contains(&light), "{a:?}, dark {is_dark}");
            }
        }
    }
}
