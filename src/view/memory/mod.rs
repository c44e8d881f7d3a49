//! GPU memory: over time, at a moment, by stack, and what leaks.

mod focus;
mod head;
mod over_time;
mod state;

pub use focus::{MemoryFocus, ShownMemory};
pub use over_time::MemoryOverTime;
pub use state::MemoryState;
