//! The table of annotations.

use eframe::egui::Key;

use super::pane::Pane;
use super::rows::{Choice, TimeTable, with_instances};
use super::side::Related;
use crate::analysis::annotations::annotations;
use crate::analysis::launches::WorkOfThreads;
use crate::analysis::range_kernels::range_kernels;
use crate::command::ctrl;
use crate::figures::work;
use crate::view::{Content, DockArea, ViewSpec};

pub const SPEC: ViewSpec = ViewSpec {
    id: "annotations",
    title: "Annotations",
    help: "Show named ranges with their time on host and device",
    keys: &[ctrl(Key::Num5)],
    make: || Box::new(Pane::new(&TABLE)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

const NAME_RANGES: &str =
    "Name ranges with torch.profiler.record_function, or with torch.cuda.nvtx and nsys profile --trace=nvtx";

pub(super) static TABLE: TimeTable = TimeTable {
    title: SPEC.title,
    choices: &[
        Choice {
            label: "By name",
            help: "One row for each name, domain and style",
            rows: |scope| {
                let rows = annotations(scope, &WorkOfThreads::of(scope.traces));
                with_instances(&work::annotations(), rows, |row| row.instances)
            },
            empty: ["No annotations were recorded", NAME_RANGES],
        },
        Choice {
            label: "Kernels in them",
            help: "One row for each kernel launched in ranges of a name",
            rows: |scope| {
                let (rows, _) = range_kernels(scope, &WorkOfThreads::of(scope.traces), 0, true);
                with_instances(&work::range_kernels(), rows, |row| row.instances)
            },
            empty: ["No kernel was launched in a named range", NAME_RANGES],
        },
    ],
    related: Related::Launched,
    has_profile: false,
};
