//! What the open files are, shown while nothing is selected: the panel is never empty, and nothing moves when it fills.

use eframe::egui::{self, Align, Label, Layout, RichText, vec2};

use super::cut;
use crate::analysis::clock::utc_start;
use crate::capture::launch::shown_time;
use crate::figures::{format, text::display_name};
use crate::model::Trace;
use crate::session::{OpenTrace, in_order};

/// Files that are described; of an archive there may be thousands.
const MOST: usize = 8;
/// Of the names of facts, in points.
const LABEL_WIDTH: f32 = 110.0;
/// Facts of one file that are listed.
const MOST_FACTS: usize = 24;

/// The open files in order.
pub fn recordings_ui(traces: &[OpenTrace], ui: &mut egui::Ui) {
    for trace in in_order(traces).into_iter().take(MOST) {
        let open = &traces[trace];
        let title = display_name(&open.heading()).into_owned();
        let path = open.trace.info.path.display().to_string();
        ui.add(Label::new(RichText::new(title).strong()).truncate().show_tooltip_when_elided(false))
            .on_hover_text(path);
        recording_ui(&open.trace, ui);
        for (key, value) in open.trace.info.facts.iter().take(MOST_FACTS) {
            row_ui(ui, &display_name(key), &display_name(&cut(value)));
        }
        ui.add_space(8.0);
    }
    let n_more = traces.len().saturating_sub(MOST) as u64;
    if n_more > 0 {
        ui.weak(format!("{} more files are open", format::count(n_more)));
    }
}

/// A fact. Its value has a place of its own at once: a grid knows its columns only in a later frame.
fn row_ui(ui: &mut egui::Ui, label: &str, value: &str) {
    ui.horizontal_top(|ui| {
        let size = vec2(LABEL_WIDTH.min(ui.available_width() * 0.45), ui.spacing().interact_size.y);
        ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Min), |ui| {
            ui.set_min_width(size.x);
            ui.add(Label::new(RichText::new(label).weak()).truncate());
        });
        ui.add(Label::new(value).wrap());
    });
}

fn recording_ui(trace: &Trace, ui: &mut egui::Ui) {
    let info = &trace.info;
    if !info.producer.is_empty() {
        row_ui(ui, "Recorder", &display_name(&info.producer));
    }
    if let Some(start) = utc_start(trace) {
        let ms = u64::try_from(start / 1_000_000).unwrap_or_default();
        row_ui(ui, "Recorded", &shown_time(ms));
    }
    if !trace.slices.is_empty() || trace.memories.iter().any(|history| history.has_time) {
        let length = trace.span.dur();
        row_ui(ui, "Length", &format::duration_in_full(length));
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
