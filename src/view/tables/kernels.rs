//! The table of kernels.

use eframe::egui::Key;

use super::grid::Answer;
use super::pane::Pane;
use super::rows::{Choice, TimeTable, with_instances};
use super::side::Related;
use crate::analysis::kernels::{KernelTotals, KernelsBy, SLOW_NS, TINY_NS, add_queue_times, kernels, summary};
use crate::analysis::totals::Scope;
use crate::command::ctrl;
use crate::figures::work;
use crate::view::states::RECORD_GPU;
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

const EMPTY: [&str; 2] = ["No GPU work was recorded", RECORD_GPU];

pub(super) static TABLE: TimeTable = TimeTable {
    title: SPEC.title,
    choices: &[
        Choice {
            label: "By name",
            help: "One row for each full name",
            rows: |scope| rows(scope, KernelsBy::Name, |_| true),
            empty: EMPTY,
        },
        Choice {
            label: "By short name",
            help: "One row for each name without template and call arguments",
            rows: |scope| rows(scope, KernelsBy::Short, |_| true),
            empty: EMPTY,
        },
        Choice {
            label: "By shape",
            help: "One row for each full name, grid, block, registers and shared memory",
            rows: |scope| rows(scope, KernelsBy::Shape, |_| true),
            empty: EMPTY,
        },
        Choice {
            label: "Tiny",
            help: "Kernels by name with a mean below 10 µs: launching one takes about as long",
            rows: |scope| rows(scope, KernelsBy::Name, |row| row.durations.mean_ns < TINY_NS),
            empty: ["No kernel takes less than 10 µs on average", ""],
        },
        Choice {
            label: "Slow",
            help: "Kernels by name with a mean above 1 ms",
            rows: |scope| rows(scope, KernelsBy::Name, |row| row.durations.mean_ns > SLOW_NS),
            empty: ["No kernel takes more than 1 ms on average", ""],
        },
    ],
    related: Related::LaunchedBy,
    has_profile: true,
};

fn rows(scope: &Scope<'_>, by: KernelsBy, is_listed: fn(&KernelTotals) -> bool) -> Answer {
    let mut rows = kernels(scope, by);
    let vendor = work::vendor(scope.traces, &rows);
    let head = work::kernel_summary(&summary(scope, &rows), vendor);
    rows.retain(is_listed);
    add_queue_times(scope.traces, &mut rows);
    let mut answer = Answer { head, ..with_instances(&work::kernels(vendor), rows, |row| row.instances) };
    // They distinguish rows of one name, or nothing.
    ["rank", "device"].into_iter().for_each(|key| answer.data.move_uniform_last(key));
    answer
}
