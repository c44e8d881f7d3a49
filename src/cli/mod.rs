//! Headless commands.

pub mod sample;
