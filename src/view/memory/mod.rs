//! GPU memory: over time, at a moment, by stack, and what leaks.

mod allocations;
mod focus;
mod head;
mod over_time;
mod rows;
mod state;

pub use allocations::AllocationsView;
pub use focus::{MemoryFocus, ShownMemory};
pub use over_time::MemoryOverTime;
pub use state::MemoryState;
