//! Analyses of the memory of one device: leaks, live memory, growth of reserved memory, out-of-memory events.
//!
//! All take a [`MemoryHistory`](crate::model::MemoryHistory), whose unit of time is the state.

pub mod around;
pub mod by_place;
pub mod callers;
pub mod categories;
pub mod find;
#[cfg(test)]
pub mod fixture;
mod free;
pub mod grouped;
pub mod labels;
pub mod leaks;
pub mod live;
pub mod moved;
pub mod oom;
pub mod outside;
mod phase;
mod repetition;
pub mod reserved;
pub mod signature;
pub mod state;
pub mod steps;
pub mod summary;
mod trend;
pub mod unused;
