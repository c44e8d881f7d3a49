//! GPU memory: over time, at a moment, by stack, and what leaks.

mod allocations;
mod commands;
mod head;
mod leak_rows;
mod leaks;
mod live_memory;
mod map;
mod map_canvas;
mod over_time;
mod reserved;
mod rows;
mod stack_colors;
mod state;
mod transport;

pub use allocations::AllocationsView;
pub use head::shown_title;
pub use leaks::LeaksView;
pub use live_memory::LiveMemory;
pub use over_time::MemoryOverTime;
pub use reserved::ReservedView;
pub use state::MemoryState;
