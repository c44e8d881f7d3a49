//! Lists of processes on the GPUs, events, and unsupported metrics.

use eframe::egui::{self, RichText, ScrollArea, Ui};

use super::shown::Shown;
use crate::figures::{Natural, Sort, text::display_name};
use crate::live::{ProcessKind, ProcessUse, Unit, text};
use crate::widget::table::small::{Head, small_table_ui, sorted};
use crate::widget::theme;

/// Rows that are painted of a list.
const MAX_ROWS: usize = 200;

/// The height of a list in points, before it scrolls.
const LIST_HEIGHT: f32 = 160.0;

/// The programs that use the GPUs.
///
/// * `sort`: how they are sorted; `None` is as the driver lists them.
pub fn processes_ui(shown: &Shown, sort: &mut Option<Sort>, ui: &mut Ui) {
    ui.add_space(6.0);
    ui.strong(format!("Processes ({})", shown.processes.len()));
    if shown.processes.is_empty() {
        let why = shown.devices.iter().flat_map(|device| &device.absent).find(|absent| absent.0 == "Processes");
        match why {
            Some((_, why)) => ui.weak(format!("The driver does not list the programs: {why}")),
            None => ui.weak("No program uses these GPUs"),
        };
        return;
    }
    let device = |device: usize| shown.devices.get(device).map_or("", |device| device.id.as_str());
    let rows = sorted(&shown.processes, *sort, |(a_device, a), column, (b_device, b)| match column {
        0 => a_device.cmp(b_device),
        1 => a.pid.cmp(&b.pid),
        2 => Natural(&a.name).cmp(&Natural(&b.name)),
        3 => a.memory.cmp(&b.memory),
        4 => a.sm.cmp(&b.sm),
        _ => kind_text(a.kind).cmp(kind_text(b.kind)),
    });
    const HEADS: [Head; 6] = [
        Head::text("GPU"),
        Head { is_descending: false, ..Head::number("Process") },
        Head::text("Program"),
        Head::number("Memory"),
        Head::number("SM"),
        Head::text("For"),
    ];
    let row = |(index, process): &(usize, ProcessUse)| {
        let name = match process.name.as_str() {
            "" => RichText::new("in another container").weak(),
            name => RichText::new(display_name(name)),
        };
        let memory = process.memory.map(|bytes| RichText::new(text(Unit::Bytes, bytes as f64)));
        vec![
            RichText::new(device(*index)),
            RichText::new(process.pid.to_string()),
            name,
            memory.unwrap_or_else(|| RichText::new("not supported").weak()),
            RichText::new(process.sm.map_or(String::new(), |sm| format!("{sm} %"))),
            RichText::new(kind_text(process.kind)).weak(),
        ]
    };
    let rows: Vec<Vec<RichText>> = rows.into_iter().take(MAX_ROWS).map(row).collect();
    list("processes").show(ui, |ui| {
        small_table_ui("processes", &HEADS, &rows, sort, ui);
    });
    if shown.processes.len() > MAX_ROWS {
        ui.weak(format!("and {} more", shown.processes.len() - MAX_ROWS));
    }
}

/// A list scrolls only where it is longer than `LIST_HEIGHT`, however little of the view is left below it.
fn list(name: &str) -> ScrollArea {
    ScrollArea::both().id_salt(name).auto_shrink([false, true]).max_height(LIST_HEIGHT).min_scrolled_height(LIST_HEIGHT)
}

fn kind_text(kind: ProcessKind) -> &'static str {
    match kind {
        ProcessKind::Compute => "computing",
        ProcessKind::Graphics => "graphics",
    }
}

pub fn events_ui(shown: &Shown, ui: &mut Ui) {
    ui.add_space(6.0);
    ui.strong("What happened");
    if shown.events.is_empty() {
        ui.weak("No alarms, errors or lost GPUs since monitoring began");
        return;
    }
    let tokens = theme::tokens(ui.visuals().dark_mode);
    list("events").show(ui, |ui| {
        egui::Grid::new("events").num_columns(3).spacing([18.0, 3.0]).show(ui, |ui| {
            for event in &shown.events {
                ui.weak(crate::live::time_of_day(event.ts));
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
    egui::CollapsingHeader::new("Metrics not available on these GPUs").show(ui, |ui| {
        for device in shown.devices.iter().filter(|device| !device.is_lost && !device.is_removed) {
            let absent: Vec<String> = device.absent.iter().map(|(title, why)| format!("{title}: {why}")).collect();
            let absent = if absent.is_empty() { "nothing".to_owned() } else { absent.join("; ") };
            ui.add(egui::Label::new(format!("GPU {}: {absent}", device.id)).wrap());
        }
    });
}
