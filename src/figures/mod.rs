//! Every figure that the user or a program reads, defined once: of which rows it is, its key, title, unit and
//! help, and how it sorts. Tables of the window, text, JSON and CSV are all made from these definitions.
//!
//! A [`Part`] defines a table by its figures. The window asks it for [`Data`], the report for a [`Table`].
//! All text that leaves the program goes through [`escape`].

mod advice;
mod cell;
pub mod collectives;
pub mod compared_time;
pub mod devices;
pub mod escape;
pub mod files;
pub mod findings;
pub mod format;
pub mod functions;
pub mod gap_advice;
pub mod gap_clusters;
pub mod gap_lists;
pub mod gap_rows;
pub mod gaps;
pub mod in_short;
pub mod makeup;
pub mod memory;
pub mod metric;
pub mod moment;
mod natural;
pub mod ncu;
pub mod phases;
pub mod range;
pub mod readings;
mod rows;
pub mod stacks;
pub mod steps;
mod table;
#[cfg(test)]
mod tests;
pub mod text;
pub mod verdicts;
pub mod work;

pub use cell::{Cell, MAX_FRAMES, Stack, Word};
pub use natural::Natural;
pub use rows::{Data, Order, Rows, Sort, csv, sort_by_cell, sort_by_key, tsv};
pub(crate) use table::figures;
pub use table::{Column, Figure, Object, Part, Table};
