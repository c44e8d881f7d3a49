//! The timeline: when did what run, and where did nothing run?

mod background;
mod cells;
mod hit;
mod layout;
mod navigate;
mod paint;
mod peaks;
mod ruler;
mod scale;
mod settings;
mod track_list;

pub use settings::TimelineSettings;
