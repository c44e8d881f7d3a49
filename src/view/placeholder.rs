//! Stands where the timeline will: paints the names of the tracks.

use eframe::egui;

use super::{View, ViewContext};

/// A list of tracks.
#[derive(Debug, Default)]
pub struct Placeholder;

impl View for Placeholder {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let names: Vec<_> =
            ctx.traces.iter().flat_map(|open| open.trace.tracks.iter().map(|track| &track.name)).collect();
        egui::ScrollArea::vertical().auto_shrink(false).show_rows(ui, 18.0, names.len(), |ui, rows| {
            names.get(rows).unwrap_or_default().iter().for_each(|name| {
                ui.label(name.as_str());
            });
        });
    }
}
