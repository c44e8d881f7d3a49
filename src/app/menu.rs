//! The menu bar, made from the tables of commands and views.

use eframe::egui::{self, Button, MenuBar, Panel};

use super::App;
use crate::command::{Command, CommandSpec, Menu, key_text};
use crate::settings::ThemeChoice;
use crate::view::{Place, all_commands, command_spec};

impl App {
    pub(super) fn menu_ui(&mut self, ui: &mut egui::Ui) {
        Panel::top("menu").show(ui, |ui| {
            MenuBar::new().ui(ui, |ui| {
                for menu in Menu::ALL {
                    ui.menu_button(menu.label(), |ui| self.entries_ui(ui, menu));
                }
            });
        });
    }

    fn entries_ui(&mut self, ui: &mut egui::Ui, menu: Menu) {
        ui.set_min_width(230.0);
        for spec in all_commands().iter().filter(|spec| spec.menu == menu) {
            if entry_ui(ui, spec, self.is_possible(&spec.command), self.is_on(&spec.command)).clicked() {
                self.commands.push(spec.command.clone());
            }
            if spec.command == Command::OpenFolder {
                self.recent_ui(ui);
            }
            if spec.command == Command::ToggleTheme {
                self.theme_ui(ui);
            }
        }
    }

    fn recent_ui(&mut self, ui: &mut egui::Ui) {
        ui.add_enabled_ui(!self.settings.recent.is_empty(), |ui| {
            ui.menu_button("Open recent", |ui| {
                for path in &self.settings.recent {
                    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                    let entry = ui.button(name.as_ref()).on_hover_text(path.display().to_string());
                    if entry.clicked() {
                        self.commands.push(Command::OpenPath(path.clone()));
                    }
                }
            });
        });
    }

    fn theme_ui(&mut self, ui: &mut egui::Ui) {
        ui.menu_button("Theme", |ui| {
            let choices = [
                (ThemeChoice::System, "As the system"),
                (ThemeChoice::Dark, "Dark theme"),
                (ThemeChoice::Light, "Light theme"),
            ];
            for (choice, label) in choices {
                if ui.radio(self.settings.theme == choice, label).clicked() {
                    self.settings.theme = choice;
                    self.apply_settings(ui.ctx());
                }
            }
        });
    }

    /// For a command that is a switch, whether it is on.
    fn is_on(&self, command: &Command) -> Option<bool> {
        match command {
            Command::Show(id) => Some(self.layout.is_open(id)),
            Command::ToggleSidePanel => Some(self.layout.is_place_shown(Place::Side)),
            Command::ToggleBottomPanel => Some(self.layout.is_place_shown(Place::Bottom)),
            Command::ToggleWheelZooms => Some(self.settings.wheel_zooms),
            _ => None,
        }
    }

    /// Whether a command could do anything now. Those that could not are shown, but gray.
    fn is_possible(&self, command: &Command) -> bool {
        let is_open = !self.session.traces().is_empty();
        match command {
            Command::CloseTrace => is_open,
            Command::CloseAll => is_open || !self.loads.is_idle(),
            Command::ZoomToRange | Command::MarkRange => self.session.range.is_some(),
            Command::NextHit | Command::PreviousHit => !self.session.hits.is_empty(),
            Command::CopyName | Command::RangeFromSelection | Command::FocusSelection | Command::Reveal => {
                self.session.selection != crate::session::Selection::None
            }
            other => {
                let spec = command_spec(other);
                is_open || spec.is_none_or(|spec| matches!(spec.menu, Menu::File | Menu::View | Menu::Help))
            }
        }
    }
}

fn entry_ui(ui: &mut egui::Ui, spec: &CommandSpec, is_enabled: bool, is_on: Option<bool>) -> egui::Response {
    let mut button = match is_on {
        Some(is_on) => Button::selectable(is_on, spec.label),
        None => Button::new(spec.label),
    };
    if let Some(key) = spec.keys.first() {
        button = button.shortcut_text(key_text(ui.ctx(), key));
    }
    ui.add_enabled(is_enabled, button).on_hover_text(spec.help)
}
