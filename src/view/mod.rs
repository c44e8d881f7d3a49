//! What is on screen: one file or folder a view. Views paint answers and compute none.

mod context;
pub mod timeline;

pub use context::{Mark, Navigation, OpenTrace, Selection, View, ViewContext};
