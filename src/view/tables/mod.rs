//! Tables of time by kernel, operator, call, copy and annotation, linked with the timeline.

mod grid;
mod pane;
mod rows;
mod side;
#[cfg(test)]
mod tests;

use eframe::egui::Key;

pub use self::grid::{Answer, Grid, Table};
use self::pane::Pane;
pub use self::pane::range_switch_ui;
pub use self::rows::TableKind;
use super::{Content, DockArea, ViewSpec};
use crate::command::ctrl;

/// Answers to keep of some traces: all tables may be on screen at once, each with its side.
const KEPT: usize = TableKind::ALL.len() + 1;

pub const KERNELS: ViewSpec = ViewSpec {
    id: "kernels",
    title: "Kernels",
    help: "Show which kernels took the device's time",
    keys: &[ctrl(Key::Num1)],
    make: || Box::new(Pane::new(TableKind::Kernels)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

pub const OPERATORS: ViewSpec = ViewSpec {
    id: "operators",
    title: "Operators",
    help: "Show which operators took time on host and device",
    keys: &[ctrl(Key::Num2)],
    make: || Box::new(Pane::new(TableKind::Operators)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

pub const CALLS: ViewSpec = ViewSpec {
    id: "calls",
    title: "Calls",
    help: "Show calls of CUDA and of the operating system, and the profiler's own work",
    keys: &[ctrl(Key::Num3)],
    make: || Box::new(Pane::new(TableKind::Calls)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

pub const COPIES: ViewSpec = ViewSpec {
    id: "copies",
    title: "Copies",
    help: "Show how much memory was moved, and how fast",
    keys: &[ctrl(Key::Num4)],
    make: || Box::new(Pane::new(TableKind::Copies)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

pub const ANNOTATIONS: ViewSpec = ViewSpec {
    id: "annotations",
    title: "Annotations",
    help: "Show named ranges with their time on host and device",
    keys: &[ctrl(Key::Num5)],
    make: || Box::new(Pane::new(TableKind::Annotations)),
    area: DockArea::Bottom,
    content: Content::Slices,
};
