//! The table of calls.

use eframe::egui::Key;

use super::grid::Answer;
use super::pane::Pane;
use super::rows::{Choice, TimeTable, with_instances};
use super::side::Related;
use crate::analysis::calls::{CallKind, calls};
use crate::analysis::libraries::libraries;
use crate::analysis::totals::Scope;
use crate::command::ctrl;
use crate::figures::work;
use crate::view::states::RECORD_GPU;
use crate::view::{Content, DockArea, ViewSpec};

pub const SPEC: ViewSpec = ViewSpec {
    id: "calls",
    title: "Calls",
    help: "Show calls of CUDA or HIP and of the operating system, and the profiler's overhead",
    keys: &[ctrl(Key::Num3)],
    make: || Box::new(Pane::new(&TABLE)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

pub(super) static TABLE: TimeTable = TimeTable {
    title: SPEC.title,
    choices: &[
        Choice {
            label: "GPU API",
            help: "Calls of the CUDA or HIP runtime and of the driver",
            rows: |scope| rows(scope, CallKind::Api),
            empty: ["No calls of CUDA or HIP were recorded", RECORD_GPU],
        },
        Choice {
            label: "OS runtime",
            help: "Calls of the operating system",
            rows: |scope| rows(scope, CallKind::Os),
            empty: ["No calls of the operating system were recorded", "Record them with nsys profile --trace=osrt"],
        },
        Choice {
            label: "Libraries",
            help: "Calls of MPI, OpenACC, OpenMP and other libraries, and unified memory",
            rows: |scope| with_instances(&work::libraries(), libraries(scope), |row| row.instances),
            empty: [
                "No calls of other libraries were recorded",
                "Record them with nsys profile --trace=mpi,openacc,openmp",
            ],
        },
        Choice {
            label: "Profiler overhead",
            help: "Overhead of the profiler itself",
            rows: |scope| rows(scope, CallKind::Overhead),
            empty: ["The profiler recorded no overhead of its own", "Not every profiler does"],
        },
    ],
    related: Related::Launched,
    has_profile: false,
};

fn rows(scope: &Scope<'_>, kind: CallKind) -> Answer {
    with_instances(&work::apis(), calls(scope, kind), |row| row.instances)
}
