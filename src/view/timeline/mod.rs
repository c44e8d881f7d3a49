//! The timeline: when did what run, and where did nothing run?

mod background;
mod cells;
mod layout;
mod peaks;
mod scale;
mod settings;
mod track_list;

pub use settings::TimelineSettings;
