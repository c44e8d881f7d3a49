#![doc = include_str!("README.md")]

pub mod analysis;
pub mod answers;
pub mod app;
pub mod capture;
pub mod cli;
pub mod command;
pub mod figures;
pub mod job;
pub mod malloc;
pub mod model;
pub mod reader;
pub mod sample;
pub mod session;
pub mod settings;
pub mod view;
pub mod widget;
