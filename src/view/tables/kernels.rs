//! The table of kernels.

use eframe::egui::Key;

use super::grid::Answer;
use super::pane::Pane;
use super::rows::{Choice, TimeTable, with_instances};
use super::side::Related;
use crate::analysis::kernels::{KernelsBy, kernels};
use crate::analysis::totals::Scope;
use crate::command::ctrl;
use crate::figures::work;
use crate::view::{Content, DockArea, ViewSpec};

pub const SPEC: ViewSpec = ViewSpec {
    id: "kernels",
    title: "Kernels",
    help: "Show which kernels took the device's time",
    keys: &[ctrl(Key::Num1)],
    make: || Box::new(Pane::new(&TABLE)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

const EMPTY: [&str; 2] = [
    "No GPU work was recorded",
    "Record it with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=cuda",
];

pub(super) static TABLE: TimeTable = TimeTable {
    title: SPEC.title,
    choices: &[
        Choice {
            label: "By name",
            help: "One row for each full name",
            rows: |scope| rows(scope, KernelsBy::Name),
            empty: EMPTY,
        },
        Choice {
            label: "By short name",
            help: "One row for each name without template and call arguments",
            rows: |scope| rows(scope, KernelsBy::Short),
            empty: EMPTY,
        },
        Choice {
            label: "By shape",
            help: "One row for each full name, grid, block, registers and shared memory",
            rows: |scope| rows(scope, KernelsBy::Shape),
            empty: EMPTY,
        },
    ],
    related: Related::LaunchedBy,
};

fn rows(scope: &Scope<'_>, by: KernelsBy) -> Answer {
    with_instances(&work::kernels(), kernels(scope, by), |row| row.instances)
}
