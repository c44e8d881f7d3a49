//! The menu bar: entries from the tables of commands and views.

use eframe::egui::{
    self, Atom, Button, MenuBar, Panel, RectAlign, Role, Shape, Stroke, Tooltip, Vec2, WidgetInfo, vec2,
};

use super::App;
use crate::command::{COMMANDS, Command, CommandSpec, Menu, Needs, key_text};
use crate::session::{RunPlaces, Selection};
use crate::settings::ThemeChoice;
use crate::view::{Content, DockArea, VIEWS, ViewSpec, command_spec};

const MIN_WIDTH: f32 = 230.0;
/// A menu is not lower than this if its entries are not, in points.
const MIN_HEIGHT: f32 = 120.0;
/// The first commands of the groups in menus, but those that begin a menu.
const GROUPS: [Command; 17] = [
    Command::ExportReport,
    Command::CloseTrace,
    Command::Quit,
    Command::CollapseAll,
    Command::ToggleWheelZooms,
    Command::ZoomIn,
    Command::Back,
    Command::UndoZoom,
    Command::NextGap,
    Command::NextStep,
    Command::FollowFlow,
    Command::RangeFromSelection,
    Command::CopyName,
    Command::Deselect,
    Command::SetBase,
    Command::ToggleEventsAxis,
    Command::FindTrack,
];

impl App {
    pub(super) fn menu_ui(&mut self, ui: &mut egui::Ui) {
        Panel::top("menu").show(ui, |ui| {
            MenuBar::new().ui(ui, |ui| {
                for menu in Menu::ALL {
                    ui.menu_button(menu.label(), |ui| scrolled(ui, |ui| self.entries_ui(ui, menu)));
                }
            });
        });
    }

    fn entries_ui(&mut self, ui: &mut egui::Ui, menu: Menu) {
        if menu == Menu::View {
            self.views_ui(ui);
        }
        ui.set_min_width(MIN_WIDTH);
        for spec in COMMANDS.iter().filter(|spec| spec.menu == menu) {
            if GROUPS.contains(&spec.command) {
                ui.separator();
            }
            match spec.command {
                // In its place: a menu has room for every choice.
                Command::SystemTheme => self.theme_ui(ui),
                Command::DarkTheme | Command::LightTheme => {}
                _ => self.entry_ui(ui, spec),
            }
            if spec.command == Command::OpenFolder {
                self.recent_ui(ui);
            }
        }
        if menu == Menu::Help {
            ui.separator();
            let version = concat!("Lacuna ", env!("CARGO_PKG_VERSION"));
            if ui.button((check(false), version)).on_hover_text("Copy the version").clicked() {
                ui.ctx().copy_text(version.to_owned());
            }
        }
    }

    /// The views, those at the bottom of the default layout in two menus of their own: together they are as high as
    /// a small window.
    fn views_ui(&mut self, ui: &mut egui::Ui) {
        let (low, high): (Vec<&ViewSpec>, Vec<&ViewSpec>) =
            VIEWS.iter().partition(|spec| spec.area == DockArea::Bottom);
        let (memory, others): (Vec<&ViewSpec>, Vec<&ViewSpec>) =
            low.into_iter().partition(|spec| spec.content == Content::Memory);
        self.view_entries_ui(ui, &high);
        ui.menu_button((check(false), "Tables and lists"), |ui| {
            scrolled(ui, |ui| self.view_entries_ui(ui, &others));
        });
        ui.menu_button((check(false), "Memory tables"), |ui| {
            scrolled(ui, |ui| self.view_entries_ui(ui, &memory));
        });
        ui.separator();
    }

    fn view_entries_ui(&mut self, ui: &mut egui::Ui, views: &[&ViewSpec]) {
        ui.set_min_width(MIN_WIDTH);
        views.iter().filter_map(|view| command_spec(&Command::Show(view.id))).for_each(|spec| self.entry_ui(ui, spec));
    }

    pub(super) fn entry_ui(&mut self, ui: &mut egui::Ui, spec: &CommandSpec) {
        let is_on = self.is_on(&spec.command);
        let mut button = Button::new((check(is_on == Some(true)), spec.label)).frame_when_inactive(false);
        if let Some(key) = spec.keys.first() {
            button = button.shortcut_text(key_text(ui.ctx(), key));
        }
        let is_possible = self.has(spec.needs);
        let entry = ui.add_enabled(is_possible, button);
        if let Some(is_on) = is_on {
            entry.widget_info(|| WidgetInfo::selected(Role::CheckBox, is_possible, is_on, spec.label));
        }
        // Beside the menu, for below it would cover the next entries.
        let mut help = if is_possible { Tooltip::for_enabled(&entry) } else { Tooltip::for_disabled(&entry) };
        help.popup = help.popup.align(RectAlign::RIGHT_START);
        help.show(|ui| {
            ui.label(spec.help);
            if !is_possible {
                ui.weak(spec.needs.lack());
            }
        });
        if entry.clicked() {
            self.commands.push(spec.command.clone());
        }
    }

    fn recent_ui(&mut self, ui: &mut egui::Ui) {
        ui.add_enabled_ui(!self.settings.recent.is_empty(), |ui| {
            ui.menu_button((check(false), "Open recent"), |ui| {
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
        ui.menu_button((check(false), "Theme"), |ui| {
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
            Command::Show(id) => Some(!self.session.traces().is_empty() && self.layout.is_in_sight(id)),
            Command::ToggleSidePanel => Some(self.layout.is_area_shown(DockArea::Side)),
            Command::ToggleBottomPanel => Some(self.layout.is_area_shown(DockArea::Bottom)),
            Command::RunsFromStarts => Some(self.session.open.places() == RunPlaces::Starts),
            Command::RunsFromSteps => {
                Some(matches!(self.session.open.places(), RunPlaces::FirstSteps | RunPlaces::ChosenSteps))
            }
            Command::RunsOnOneClock => Some(self.session.open.places() == RunPlaces::Recorded),
            Command::ToggleWheelZooms => Some(self.settings.wheel_zooms),
            Command::SystemTheme => Some(self.settings.theme == ThemeChoice::System),
            Command::DarkTheme => Some(self.settings.theme == ThemeChoice::Dark),
            Command::LightTheme => Some(self.settings.theme == ThemeChoice::Light),
            _ => None,
        }
    }

    fn has(&self, needs: Needs) -> bool {
        let is_open = !self.session.traces().is_empty();
        match needs {
            Needs::Nothing => true,
            Needs::Trace => is_open,
            Needs::TraceOrLoad => is_open || !self.loads.is_idle(),
            Needs::Runs => self.session.open.runs().len() > 1,
            Needs::RecordedRuns => self.session.open.can_spread(),
            Needs::Memory => Content::Memory.is_in(self.session.traces()),
            Needs::Selection => self.session.selection != Selection::None,
            Needs::Range => self.session.range.is_some(),
            Needs::Run => self.views.has_run(),
            Needs::Hits => !self.session.hits.is_empty(),
        }
    }
}

/// A menu that scrolls where the window is lower than it.
fn scrolled(ui: &mut egui::Ui, entries: impl FnOnce(&mut egui::Ui)) {
    let frame = ui.style().spacing.menu_margin.sum().y + 2.0;
    let room = ui.ctx().content_rect().bottom() - ui.cursor().top() - frame;
    egui::ScrollArea::vertical().max_height(room.max(MIN_HEIGHT)).show(ui, entries);
}

/// The left edge of an entry: a check mark where something is on, or room for one.
fn check(is_on: bool) -> Atom<'static> {
    Atom::paint(Vec2::splat(10.0), move |ui, args| {
        if is_on {
            let [left, low, right] =
                [[-4.0, 0.5], [-1.5, 3.5], [4.0, -3.0]].map(|[x, y]| args.rect.center() + vec2(x, y));
            ui.painter().add(Shape::line(vec![left, low, right], Stroke::new(1.5, args.fallback_text_color)));
        }
    })
}
