//! Questions about a trace and their answers: pure functions of the model.

pub mod busy;
pub mod clock;
pub mod launches;
pub mod operators;
pub mod range_summary;
pub mod search;
pub mod totals;
