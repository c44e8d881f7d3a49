//! The table of collectives.

use super::grid::Answer;
use super::pane::Pane;
use super::rows::{Choice, TimeTable, with_instances};
use super::side::Related;
use crate::analysis::collectives::collectives;
use crate::analysis::totals::Scope;
use crate::figures::collectives as figures;
use crate::view::{Content, DockArea, ViewSpec};

pub const SPEC: ViewSpec = ViewSpec {
    id: "collectives",
    title: "Collectives",
    help: "Show communication between devices, with exposed time and bandwidth",
    keys: &[],
    make: || Box::new(Pane::new(&TABLE)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

const EMPTY: [&str; 2] = [
    "No collectives were recorded",
    "Record a job of several ranks with activities=[CPU, CUDA] in torch.profiler, or with nsys profile \
     --trace=cuda,nvtx",
];

pub(super) static TABLE: TimeTable = TimeTable {
    title: SPEC.title,
    choices: &[
        Choice {
            label: "By size",
            help: "One row for each operation, group, size and type",
            rows: |scope| rows(scope, true),
            empty: EMPTY,
        },
        Choice {
            label: "By operation",
            help: "One row for each operation and group",
            rows: |scope| rows(scope, false),
            empty: EMPTY,
        },
    ],
    related: Related::LaunchedBy,
    has_profile: false,
};

fn rows(scope: &Scope<'_>, by_size: bool) -> Answer {
    const NO_SIZES: &str =
        "Recent versions of PyTorch record them; exports of Nsight Systems hold them in payloads that are not read";
    let rows = collectives(scope, by_size);
    let has_sizes = rows.is_empty() || rows.iter().any(|row| row.total_bytes.is_some());
    let note = (!has_sizes).then(|| ("Sizes were not recorded, so there is no bandwidth".to_owned(), NO_SIZES));
    Answer { head: note.into_iter().collect(), ..with_instances(&figures::collectives(), rows, |row| row.instances) }
}
