//! Tables of time by kernel, operator, call, copy and annotation, linked with the timeline.

pub mod annotations;
pub mod calls;
pub mod collectives;
pub mod copies;
mod files;
mod grid;
pub mod kernels;
pub mod operators;
mod pane;
mod rows;
mod side;
#[cfg(test)]
mod tests;
mod tree;

pub use self::files::{Many, apart, file_name, file_switch_ui};
pub use self::grid::{Answer, FindSameRow, Grid, Table, same_row};
pub use self::pane::{range_switch_ui, ranges_of, reveal};
use self::rows::TimeTable;

/// Every table, in the order of the tabs.
const ALL: [&TimeTable; 6] =
    [&kernels::TABLE, &operators::TABLE, &calls::TABLE, &copies::TABLE, &collectives::TABLE, &annotations::TABLE];

/// Answers to keep of some traces: all tables may be on screen at once, each with its side.
const KEPT: usize = ALL.len() + 1;
