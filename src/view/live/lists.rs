//! Who uses the GPUs, what happened to them, and what they do not tell.

use eframe::egui::{self, RichText, ScrollArea, Ui};

use super::shown::Shown;
use crate::figures::text::display_name;
use crate::live::{ProcessKind, Unit, text};
use crate::widget::theme;

/// Rows that are painted of a list.
const MAX_ROWS: usize = 200;

pub fn processes_ui(shown: &Shown, ui: &mut Ui) {
    ui.add_space(6.0);
    ui.strong(format!("Processes ({})", shown.processes.len()));
    if shown.processes.is_empty() {
        ui.weak("No program uses these GPUs, or the driver does not tell which");
        return;
    }
    ScrollArea::vertical().id_salt("processes").max_height(160.0).show(ui, |ui| {
        egui::Grid::new("processes").num_columns(6).striped(true).spacing([18.0, 3.0]).show(ui, |ui| {
            for title in ["GPU", "Process", "Program", "Memory", "SM", "For"] {
                ui.weak(title);
            }
            ui.end_row();
            for (device, process) in shown.processes.iter().take(MAX_ROWS) {
                ui.label(shown.devices.get(*device).map_or("", |device| device.id.as_str()));
                ui.label(process.pid.to_string());
                match process.name.as_str() {
                    "" => ui.weak("in another container"),
                    name => ui.label(display_name(name)),
                };
                match process.memory {
                    Some(bytes) => ui.label(text(Unit::Bytes, bytes as f64)),
                    None => ui.weak("not supported"),
                };
                ui.label(process.sm.map_or(String::new(), |sm| format!("{sm} %")));
                ui.weak(match process.kind {
                    ProcessKind::Compute => "computing",
                    ProcessKind::Graphics => "graphics",
                });
                ui.end_row();
            }
        });
    });
}

pub fn events_ui(shown: &Shown, ui: &mut Ui) {
    ui.add_space(6.0);
    ui.strong("What happened");
    if shown.events.is_empty() {
        ui.weak("No alarm, error or loss of a GPU since the watch began");
        return;
    }
    let tokens = theme::tokens(ui.visuals().dark_mode);
    ScrollArea::vertical().id_salt("events").max_height(140.0).show(ui, |ui| {
        egui::Grid::new("events").num_columns(3).spacing([18.0, 3.0]).show(ui, |ui| {
            for event in &shown.events {
                ui.weak(crate::live::utc(event.ts));
                ui.label(if event.device.is_empty() { String::new() } else { format!("GPU {}", event.device) });
                let color = if event.is_alarm { tokens.severity[2] } else { tokens.text };
                ui.label(RichText::new(display_name(&event.text)).color(color));
                ui.end_row();
            }
        });
    });
}

pub fn absent_ui(shown: &Shown, ui: &mut Ui) {
    ui.add_space(6.0);
    egui::CollapsingHeader::new("What these GPUs do not tell").show(ui, |ui| {
        for device in shown.devices.iter().filter(|device| !device.is_lost) {
            let absent: Vec<String> = device.absent.iter().map(|(title, why)| format!("{title}: {why}")).collect();
            let absent = if absent.is_empty() { "nothing".to_owned() } else { absent.join("; ") };
            ui.add(egui::Label::new(format!("GPU {}: {absent}", device.id)).wrap());
        }
    });
}
