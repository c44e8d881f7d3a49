//! Analyses of the memory of one device: what grows, what is live, what is reserved and why.
//!
//! All work on a [`MemoryHistory`](crate::model::MemoryHistory), whose unit of time is the state.

pub mod around;
pub mod find;
#[cfg(test)]
pub mod fixture;
mod free;
pub mod grouped;
pub mod labels;
pub mod leaks;
pub mod live;
pub mod oom;
mod repetition;
pub mod reserved;
pub mod signature;
pub mod state;
pub mod steps;
pub mod summary;
mod trend;
