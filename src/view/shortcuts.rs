//! The cheat sheet of keyboard shortcuts and mouse actions.

use eframe::egui::{self, RichText};

use super::all_commands;
use crate::command::{Menu, key_text};

/// Held keys and mouse actions, which are not commands.
const MOUSE_AND_HELD_KEYS: [(&str, &str); 18] = [
    ("W, S held", "Zoom in, out at the pointer"),
    ("A, D held", "Pan left, right"),
    ("Wheel", "Scroll the tracks"),
    ("Ctrl+Wheel", "Zoom at the pointer"),
    ("Shift+Wheel", "Pan"),
    ("Alt+Wheel", "Zoom the bytes of memory over time"),
    ("Drag", "Select a time range, also on the ruler; its ends snap to edges"),
    ("Ctrl+Drag", "Select a time range without snapping"),
    ("Shift+Drag", "Pan"),
    ("Alt+Drag", "Zoom to the dragged range"),
    ("Click", "Select a slice; deselect on free space"),
    ("Click the ruler", "In memory over time, choose the moment on show"),
    ("Double-click", "Zoom to a slice"),
    ("Back, Forward button", "Go to the place visited before, after"),
    ("Right-click", "Context menu of a slice or track"),
    ("Drop files", "Open them in addition to the open files"),
    ("Drag a tab", "Move a view beside, below or into a group of others"),
    ("Ctrl+Tab", "Next tab of the group under the pointer"),
];

/// Width of the column of keys.
const KEYS_WIDTH: f32 = 175.0;

/// The cheat sheet, generated from the command table.
#[derive(Debug, Default)]
pub struct Shortcuts {
    is_open: bool,
}

impl Shortcuts {
    /// Shows or hides the sheet.
    pub fn toggle(&mut self) {
        self.is_open = !self.is_open;
    }

    /// Whether the sheet is on screen.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Paints the sheet, if it is open.
    ///
    /// * `wheel_zooms`: whether the plain wheel zooms, instead of Ctrl+wheel.
    pub fn ui(&mut self, ctx: &egui::Context, wheel_zooms: bool) {
        if !self.is_open {
            return;
        }
        let screen = ctx.content_rect().size();
        let modal = egui::Modal::new(egui::Id::unique("shortcuts")).show(ctx, |ui| {
            ui.set_width((screen.x - 80.0).clamp(200.0, 1080.0));
            let is_closed = ui
                .horizontal(|ui| {
                    ui.heading("Keyboard and mouse");
                    ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| ui.button("Close").clicked())
                        .inner
                })
                .inner;
            ui.separator();
            let height = (screen.y - 160.0).max(60.0);
            egui::ScrollArea::vertical().max_height(height).min_scrolled_height(height).show(ui, |ui| {
                let n_columns = if ui.available_width() > 640.0 { 2 } else { 1 };
                ui.columns(n_columns, |columns| {
                    let last = columns.len() - 1;
                    if let [first, ..] = columns {
                        mouse_ui(first, wheel_zooms);
                        [Menu::File, Menu::Search, Menu::Help, Menu::View]
                            .into_iter()
                            .for_each(|menu| menu_ui(menu, first));
                    }
                    if let Some(column) = columns.get_mut(last) {
                        [Menu::Navigate, Menu::Select, Menu::Memory].into_iter().for_each(|menu| menu_ui(menu, column));
                    }
                });
            });
            is_closed
        });
        if modal.inner || modal.should_close() {
            self.is_open = false;
        }
    }
}

/// Rows of keys and what they do, which break within the width of `ui`.
fn rows(id: &str, ui: &egui::Ui) -> egui::Grid {
    let spacing = 12.0;
    let rest = ui.available_width() - KEYS_WIDTH - spacing;
    egui::Grid::new(id)
        .num_columns(2)
        .min_col_width(KEYS_WIDTH)
        .max_col_width(rest.max(KEYS_WIDTH))
        .spacing([spacing, 3.0])
}

fn menu_ui(menu: Menu, ui: &mut egui::Ui) {
    ui.label(RichText::new(menu.label()).strong());
    rows(menu.label(), ui).show(ui, |ui| {
        for spec in all_commands().iter().filter(|spec| spec.menu == menu && !spec.keys.is_empty()) {
            let keys: Vec<_> = spec.keys.iter().map(|key| key_text(ui.ctx(), key)).collect();
            ui.monospace(keys.join(", "));
            ui.label(spec.label).on_hover_text(spec.help);
            ui.end_row();
        }
    });
    ui.add_space(8.0);
}

fn mouse_ui(ui: &mut egui::Ui, wheel_zooms: bool) {
    ui.label(RichText::new("Timeline").strong());
    rows("mouse", ui).show(ui, |ui| {
        for (what, does) in MOUSE_AND_HELD_KEYS {
            let what = match what {
                "Wheel" if wheel_zooms => "Ctrl+Wheel",
                "Ctrl+Wheel" if wheel_zooms => "Wheel",
                other => other,
            };
            ui.monospace(what);
            ui.label(does);
            ui.end_row();
        }
    });
    ui.add_space(8.0);
}
