//! Where do the views lie: timeline in the middle, details at the right, tables below.

use eframe::egui::{self, CentralPanel, Frame, Panel};

use super::App;
use crate::model::Severity;
use crate::settings::{BottomTab, CenterTab};
use crate::view::memory::shown_title;
use crate::view::tables::TableKind;
use crate::view::{View as _, ViewContext};
use crate::widget::theme;

/// The tabs of the tables, from left to right.
const TABLES: [(BottomTab, TableKind); 5] = [
    (BottomTab::Kernels, TableKind::Kernels),
    (BottomTab::Operators, TableKind::Operators),
    (BottomTab::Calls, TableKind::Calls),
    (BottomTab::Copies, TableKind::Copies),
    (BottomTab::Annotations, TableKind::Annotations),
];

/// The tabs about memory, from left to right.
const MEMORY_TABS: [(BottomTab, &str); 4] = [
    (BottomTab::Allocations, "Allocations"),
    (BottomTab::LiveMemory, "Live by stack"),
    (BottomTab::Leaks, "Leaks"),
    (BottomTab::Reserved, "Reserved and out of memory"),
];

impl App {
    pub(super) fn panels_ui(&mut self, ui: &mut egui::Ui) {
        let is_dark = ui.visuals().dark_mode;
        // Before anything is painted, so that no hit is of a trace that is gone; and also while its
        // tab is hidden, so that the timeline shows what was found.
        let visible = self.session.navigation.visible();
        self.search.update(self.session.traces(), visible, self.session.range, self.session.answers());
        self.session.hits = self.search.hits();

        let mut is_side_open = self.settings.is_side_open;
        Panel::right("details").default_size(320.0).size_range(200.0..=900.0).show_collapsible(
            ui,
            &mut is_side_open,
            |ui| {
                let mut view = ViewContext::new(&mut self.session, is_dark, &mut self.commands);
                self.guards[1].show("Details", ui, |ui| self.details.ui(&mut view, ui));
            },
        );
        self.settings.is_side_open = is_side_open;

        let mut is_bottom_open = self.settings.is_bottom_open;
        Panel::bottom("tables").default_size(240.0).size_range(90.0..=1200.0).show_collapsible(
            ui,
            &mut is_bottom_open,
            |ui| self.tabs_ui(ui),
        );
        self.settings.is_bottom_open = is_bottom_open;

        let frame = Frame::NONE.fill(theme::tokens(is_dark).canvas);
        let had_range = self.session.range.is_some();
        let center = self.center_tab();
        let wheel_zooms = self.timeline.settings().wheel_zooms;
        (self.memory.wheel_zooms, self.memory_state.wheel_zooms) = (wheel_zooms, wheel_zooms);
        if self.has_memories() {
            self.center_tabs_ui(ui);
        }
        CentralPanel::default().frame(frame).show(ui, |ui| {
            let mut view = ViewContext::new(&mut self.session, is_dark, &mut self.commands);
            match center {
                CenterTab::Timeline => self.guards[0].show("Timeline", ui, |ui| self.timeline.ui(&mut view, ui)),
                CenterTab::Memory => self.guards[3].show("Memory", ui, |ui| self.memory.ui(&mut view, ui)),
                CenterTab::MemoryState => {
                    self.guards[4].show("Memory state", ui, |ui| self.memory_state.ui(&mut view, ui));
                }
            }
        });
        // A first range asks what is in it; a search that is under way and a list that is being read
        // are left alone.
        let is_free = self.settings.bottom_tab == BottomTab::Search && self.search.is_empty();
        if !had_range && self.session.range.is_some() && is_free {
            self.settings.bottom_tab = BottomTab::Range;
        }
    }

    /// Whether any open trace knows of memory.
    fn has_memories(&self) -> bool {
        self.session.traces().iter().any(|open| !open.trace.memories.is_empty())
    }

    /// What is in the middle.
    pub(super) fn center_tab(&self) -> CenterTab {
        if self.has_memories() { self.settings.center_tab } else { CenterTab::Timeline }
    }

    /// Chooses what is in the middle, where there is a choice.
    fn center_tabs_ui(&mut self, ui: &mut egui::Ui) {
        Panel::top("center").show(ui, |ui| {
            ui.horizontal(|ui| {
                let tabs = [
                    (CenterTab::Timeline, "Timeline"),
                    (CenterTab::Memory, "Memory over time"),
                    (CenterTab::MemoryState, "Memory state"),
                ];
                for (tab, label) in tabs {
                    ui.selectable_value(&mut self.settings.center_tab, tab, label);
                }
            });
        });
    }

    fn tabs_ui(&mut self, ui: &mut egui::Ui) {
        let is_dark = ui.visuals().dark_mode;
        ui.horizontal(|ui| {
            let n_problems = self.session.traces().iter().map(|open| open.trace.import.problems.len()).sum::<usize>();
            let problems = if n_problems == 0 { "Problems".to_owned() } else { format!("Problems ({n_problems})") };
            let n_marks = self.session.marks.len();
            let marks = if n_marks == 0 { "Marks".to_owned() } else { format!("Marks ({n_marks})") };
            let tabs = [
                (BottomTab::Search, "Search results".to_owned()),
                (BottomTab::Range, "Range summary".to_owned()),
                (BottomTab::Events, "Events".to_owned()),
                (BottomTab::Marks, marks),
                (BottomTab::Problems, problems),
            ];
            let is_memory = self.center_tab() != CenterTab::Timeline;
            let now = self.settings.bottom_tab;
            let mut tab_ui = |ui: &mut egui::Ui, is_in_place: bool, tab: BottomTab, label: &str| {
                // What is out of place is there only while it is on show.
                if is_in_place || tab == now {
                    ui.selectable_value(&mut self.settings.bottom_tab, tab, label);
                }
            };
            for (tab, label) in tabs {
                let is_general = matches!(tab, BottomTab::Marks | BottomTab::Problems);
                tab_ui(ui, !is_memory || is_general, tab, &label);
            }
            ui.separator();
            for (tab, kind) in TABLES {
                tab_ui(ui, !is_memory, tab, kind.label());
            }
            tab_ui(ui, !is_memory, BottomTab::Samples, "Samples");
            for (tab, label) in MEMORY_TABS {
                tab_ui(ui, is_memory, tab, label);
            }
            // These tabs list one memory, which where there are several is not told by the tab alone.
            if MEMORY_TABS.iter().any(|(tab, _)| *tab == self.settings.bottom_tab) {
                let mut view = ViewContext::new(&mut self.session, is_dark, &mut self.commands);
                if let Some(title) = shown_title(&mut view) {
                    ui.separator();
                    ui.add(egui::Label::new(egui::RichText::new(format!("of {title}")).weak()).truncate());
                }
            }
        });
        ui.separator();
        // The panel keeps its height whatever is in it.
        ui.set_min_height(ui.available_height());
        let mut view = ViewContext::new(&mut self.session, is_dark, &mut self.commands);
        let tab = self.settings.bottom_tab;
        if let Some((_, kind)) = TABLES.iter().find(|table| table.0 == tab) {
            self.tables.choose(*kind);
        }
        self.guards[2].show("The table", ui, |ui| match tab {
            BottomTab::Search => self.search.ui(&mut view, ui),
            BottomTab::Range => self.range_summary.ui(&mut view, ui),
            BottomTab::Events => self.events.ui(&mut view, ui),
            BottomTab::Marks => self.marks.ui(&mut view, ui),
            BottomTab::Problems => self.problems.ui(&mut view, ui),
            BottomTab::Samples => self.flame.ui(&mut view, ui),
            BottomTab::Kernels
            | BottomTab::Operators
            | BottomTab::Calls
            | BottomTab::Copies
            | BottomTab::Annotations => self.tables.ui(&mut view, ui),
            BottomTab::Allocations => self.allocations.ui(&mut view, ui),
            BottomTab::LiveMemory => self.live_memory.ui(&mut view, ui),
            BottomTab::Leaks => self.leaks.ui(&mut view, ui),
            BottomTab::Reserved => self.reserved.ui(&mut view, ui),
        });
    }

    /// The worst that happened while reading, with the number of problems.
    pub(super) fn worst_problem(&self) -> Option<(Severity, usize)> {
        let reports = || self.session.traces().iter().map(|open| &open.trace.import);
        let worst = reports().filter_map(crate::model::ImportReport::worst).max()?;
        Some((worst, reports().map(|report| report.problems.len()).sum()))
    }
}
