//! Tables of time by kernel, operator, call, copy and annotation, linked with the timeline.

mod grid;
mod pane;
mod rows;
mod side;
#[cfg(test)]
mod tests;

use eframe::egui;

pub use self::grid::{Answer, Grid, Table};
use self::pane::Pane;
pub use self::pane::range_switch_ui;
pub use self::rows::TableKind;
use super::{View, ViewContext};

/// The tables, of which one is on show.
#[derive(Debug)]
pub struct Tables {
    kind: TableKind,
    panes: [Pane; 5],
}

impl Default for Tables {
    fn default() -> Self {
        Self { kind: TableKind::default(), panes: TableKind::ALL.map(Pane::new) }
    }
}

impl Tables {
    /// Puts this table on show.
    pub fn choose(&mut self, kind: TableKind) {
        self.kind = kind;
    }
}

impl View for Tables {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let index = TableKind::ALL.iter().position(|&kind| kind == self.kind).unwrap_or_default();
        self.panes[index].ui(ctx, ui);
    }
}
