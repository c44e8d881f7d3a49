#![doc = include_str!("README.md")]

pub mod analysis;
pub mod cli;
pub mod command;
pub mod job;
pub mod model;
pub mod reader;
pub mod view;
pub mod widget;
