//! What the open files are, shown while nothing is selected: the panel is never empty, and nothing moves when it fills.

use eframe::egui::{self, Label, RichText};

use super::{cut, exact_ui, row_ui};
use crate::analysis::clock::utc_start;
use crate::capture::launch::shown_time;
use crate::figures::{format, text::display_name};
use crate::model::Trace;
use crate::session::{OpenTrace, in_order};

/// Files that are described; of an archive there may be thousands.
const MOST: usize = 8;
/// Facts of one file that are listed.
const MOST_FACTS: usize = 24;

/// The open files in order.
pub fn recordings_ui(traces: &[OpenTrace], ui: &mut egui::Ui) {
    for trace in in_order(traces).into_iter().take(MOST) {
        let open = &traces[trace];
        let title = display_name(&open.trace.info.title()).into_owned();
        let path = open.trace.info.path.display().to_string();
        ui.add(Label::new(RichText::new(title).strong()).truncate().show_tooltip_when_elided(false))
            .on_hover_text(path);
        egui::Grid::new(("recording", trace)).num_columns(2).spacing([12.0, 4.0]).show(ui, |ui| {
            recording_ui(&open.trace, ui);
        });
        // Their names are long.
        egui::Grid::new(("facts", trace)).num_columns(2).spacing([12.0, 4.0]).show(ui, |ui| {
            for (key, value) in open.trace.info.facts.iter().take(MOST_FACTS) {
                row_ui(ui, &display_name(key), &display_name(&cut(value)));
            }
        });
        ui.add_space(8.0);
    }
    let n_more = traces.len().saturating_sub(MOST) as u64;
    if n_more > 0 {
        ui.weak(format!("{} more files are open", format::count(n_more)));
    }
}

fn recording_ui(trace: &Trace, ui: &mut egui::Ui) {
    let info = &trace.info;
    if !info.producer.is_empty() {
        row_ui(ui, "Recorder", &display_name(&info.producer));
    }
    if let Some(start) = utc_start(trace) {
        let ms = u64::try_from(start / 1_000_000).unwrap_or_default();
        row_ui(ui, "Recorded", &format!("{} UTC", shown_time(ms)));
    }
    if !trace.slices.is_empty() || trace.memories.iter().any(|history| history.has_time) {
        let length = trace.span.dur();
        exact_ui(ui, "Length", &format::duration(length), &format::duration_exact(length));
    }
    if let Some(rank) = info.rank {
        let of = info.world_size.map(|size| format!(" of {size}")).unwrap_or_default();
        row_ui(ui, "Rank", &format!("{rank}{of}"));
    }
    for device in info.devices.iter().take(MOST) {
        let memory = device.total_memory_bytes.map(|bytes| format!(", {}", format::bytes(bytes as f64)));
        row_ui(
            ui,
            &format!("GPU {}", device.id),
            &format!("{}{}", display_name(&device.name), memory.unwrap_or_default()),
        );
    }
    row_ui(ui, "Size", &format::bytes(info.bytes as f64));
    let counts = [
        ("Slices", trace.slices.len()),
        ("Tracks", trace.tracks.len()),
        ("Samples", trace.samples.ts.len()),
        ("Allocations", trace.memories.iter().map(|history| history.allocations.len()).sum()),
    ];
    for (label, n) in counts.into_iter().filter(|count| count.1 > 0) {
        row_ui(ui, label, &format::count(n as u64));
    }
    if trace.import.rejected > 0 {
        row_ui(ui, "Not shown", &format!("{} events, see Problems", format::count(trace.import.rejected)));
    }
}
