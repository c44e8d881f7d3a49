//! What is on screen: one file or folder a view. Views paint answers and compute none.

mod axis;
mod context;
pub mod details;
pub mod events;
pub mod flame;
mod flame_pane;
pub mod marks;
pub mod memory;
pub mod palette;
pub mod problems;
pub mod range_summary;
pub mod search;
pub mod shortcuts;
mod states;
pub mod tables;
pub mod timeline;

pub use context::{View, ViewContext};
