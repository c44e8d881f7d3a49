#![doc = include_str!("README.md")]

pub mod command;
pub mod job;
pub mod model;
pub mod reader;
pub mod view;
pub mod widget;
