//! Analyses of a trace: pure functions of the model.

pub mod annotations;
pub mod breakdown;
pub mod busy;
pub mod calls;
pub mod clock;
pub mod collectives;
pub mod copies;
pub mod finding;
pub mod frame;
pub mod gaps;
pub mod hta_idle;
pub mod kernels;
pub mod launches;
pub mod memory;
pub mod occupancy;
pub mod operators;
pub mod phases;
pub mod range_summary;
mod recent_spans;
pub mod related;
pub mod rules;
pub mod runway;
pub mod search;
pub mod short_name;
pub mod stacks;
pub mod steps;
pub mod totals;
