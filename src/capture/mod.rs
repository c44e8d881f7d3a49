//! Other programs at work for us: found, started, watched and ended.

mod child;
pub mod nsys;
