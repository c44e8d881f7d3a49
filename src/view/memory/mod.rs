//! Views of GPU memory: over time, at a moment, by place, by stack, and leaks.

mod allocations;
mod commands;
mod head;
mod leaks;
mod live_memory;
mod map;
mod map_canvas;
mod outside;
mod over_time;
mod places;
mod reserved;
mod stack_colors;
mod state;
mod transport;

pub use allocations::SPEC as ALLOCATIONS;
pub use leaks::SPEC as LEAKS;
pub use live_memory::SPEC as LIVE;
pub use over_time::SPEC as OVER_TIME;
pub use places::SPEC as PLACES;
pub use reserved::SPEC as RESERVED;
pub use state::SPEC as STATE;
