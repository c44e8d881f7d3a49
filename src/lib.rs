#![doc = include_str!("README.md")]

pub mod analysis;
pub mod app;
pub mod capture;
pub mod cli;
pub mod command;
pub mod escape;
pub mod job;
pub mod memory;
pub mod model;
pub mod reader;
pub mod sample;
pub mod session;
pub mod settings;
pub mod view;
pub mod widget;
