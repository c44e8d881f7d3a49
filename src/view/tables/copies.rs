//! The table of copies.

use eframe::egui::Key;

use super::grid::Answer;
use super::pane::Pane;
use super::rows::{Choice, TimeTable, with_instances};
use super::side::Related;
use crate::analysis::copies::copies;
use crate::analysis::totals::Scope;
use crate::command::ctrl;
use crate::figures::work;
use crate::view::states::RECORD_GPU;
use crate::view::{Content, DockArea, ViewSpec};

pub const SPEC: ViewSpec = ViewSpec {
    id: "copies",
    title: "Copies",
    help: "Show how much memory was moved, and how fast",
    keys: &[ctrl(Key::Num4)],
    make: || Box::new(Pane::new(&TABLE)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

const EMPTY: [&str; 2] = ["No copies or memsets were recorded", RECORD_GPU];

pub(super) static TABLE: TimeTable = TimeTable {
    title: SPEC.title,
    choices: &[
        Choice {
            label: "By direction",
            help: "One row for each direction and kind of host memory",
            rows: |scope| rows(scope, false),
            empty: EMPTY,
        },
        Choice {
            label: "By size",
            help: "One row for each power of two of the size as well",
            rows: |scope| rows(scope, true),
            empty: EMPTY,
        },
    ],
    related: Related::LaunchedBy,
    has_profile: false,
};

fn rows(scope: &Scope<'_>, by_size: bool) -> Answer {
    let rows = copies(scope, by_size);
    let has_sizes = rows.is_empty() || rows.iter().any(|row| row.bytes.is_some());
    let note = (!has_sizes).then(|| ("Sizes were not recorded, so there is no speed".to_owned(), ""));
    Answer { head: note.into_iter().collect(), ..with_instances(&work::copies(), rows, |row| row.instances) }
}
