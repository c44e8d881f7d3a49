//! What the window shows before anything is open, and while files hover over it.

use eframe::egui::{self, Align2, CentralPanel, Color32, Context, FontId, Frame, Id, LayerId, Order, RichText};

use super::App;
use crate::command::{Command, key_text};
use crate::view::{capture, command_spec, live};
use crate::widget::theme;

/// The keys that are named before anything is open.
const FIRST_KEYS: [Command; 5] =
    [Command::OpenFile, Command::Palette, Command::Search, Command::FocusSelection, Command::Shortcuts];
const MAX_RECENT_SHOWN: usize = 8;

impl App {
    pub(super) fn welcome_ui(&mut self, ui: &mut egui::Ui) {
        let tokens = theme::tokens(ui.visuals().dark_mode);
        let frame = Frame::NONE.fill(tokens.canvas).inner_margin(24);
        CentralPanel::default().frame(frame).show(ui, |ui| {
            egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                let width = ui.available_width().min(560.0);
                ui.add_space((ui.available_height() * 0.12).clamp(0.0, 120.0));
                ui.horizontal(|ui| {
                    ui.add_space((ui.available_width() - width).max(0.0) / 2.0);
                    ui.vertical(|ui| {
                        ui.set_width(width);
                        self.welcome_text_ui(ui);
                    });
                });
            });
        });
    }

    fn welcome_text_ui(&mut self, ui: &mut egui::Ui) {
        ui.label(RichText::new("Lacuna").size(34.0).strong());
        ui.label(RichText::new("See where your GPU waits, and why").size(16.0).weak());
        ui.add_space(18.0);
        if !self.loads.is_idle() {
            ui.horizontal(|ui| {
                ui.spinner();
                ui.label("Reading…");
            });
        }
        ui.horizontal_wrapped(|ui| {
            if ui.button(RichText::new("Open file…").size(16.0)).clicked() {
                self.commands.push(Command::OpenFile);
            }
            ui.weak("or drop files and folders anywhere on this window");
        });
        ui.add_space(6.0);
        ui.label(
            "Lacuna opens traces of the PyTorch profiler and other Chrome trace JSON, also compressed and in archives, \
             SQLite exports and, where nsys is installed, reports of Nsight Systems, and memory snapshots of PyTorch",
        );
        ui.add_space(6.0);
        for (spec, text) in
            [(&capture::SPEC, "Run a program and record it"), (&live::SPEC, "Watch the GPUs of this machine")]
        {
            if ui.link(text).on_hover_text(spec.help).clicked() {
                self.commands.push(Command::Show(spec.id));
            }
        }
        ui.add_space(18.0);
        self.recent_files_ui(ui);
        ui.strong("Keys to start with");
        egui::Grid::new("first keys").num_columns(2).spacing([18.0, 4.0]).show(ui, |ui| {
            for spec in FIRST_KEYS.iter().filter_map(command_spec) {
                let key = spec.keys.first().map(|key| key_text(ui.ctx(), key)).unwrap_or_default();
                ui.monospace(key);
                ui.label(spec.help);
                ui.end_row();
            }
            ui.monospace("W A S D");
            ui.label("Zoom in, pan left, zoom out, pan right");
            ui.end_row();
        });
    }

    fn recent_files_ui(&mut self, ui: &mut egui::Ui) {
        if self.settings.recent.is_empty() {
            return;
        }
        ui.strong("Opened recently");
        for path in self.settings.recent.iter().take(MAX_RECENT_SHOWN) {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            ui.horizontal(|ui| {
                if ui.link(name.as_ref()).on_hover_text(path.display().to_string()).clicked() {
                    self.commands.push(Command::OpenPath(path.clone()));
                }
                let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
                ui.add(egui::Label::new(RichText::new(folder).weak()).truncate());
            });
        }
        ui.add_space(18.0);
    }
}

/// Says what will happen, while files hover over the window.
pub(super) fn drop_ui(ctx: &Context) {
    let n = ctx.input(|input| input.raw.hovered_files.len());
    if n == 0 {
        return;
    }
    let tokens = theme::tokens(ctx.global_style().visuals.dark_mode);
    let painter = ctx.layer_painter(LayerId::new(Order::Foreground, Id::unique("drop")));
    let rect = ctx.content_rect();
    painter.rect_filled(rect, 0.0, tokens.canvas.gamma_multiply(0.85));
    painter.rect_stroke(rect.shrink(12.0), 8.0, (3.0, tokens.accent), egui::StrokeKind::Inside);
    let text = if n == 1 { "Drop to open this".to_owned() } else { format!("Drop to open these {n}") };
    let color: Color32 = tokens.strong_text;
    painter.text(rect.center(), Align2::CENTER_CENTER, text, FontId::proportional(24.0), color);
}
