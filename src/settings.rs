//! What survives a restart.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::view::timeline::TimelineSettings;

/// Which theme the window has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ThemeChoice {
    /// Whatever the desktop says; dark where it says nothing.
    #[default]
    System,
    Dark,
    Light,
}

/// What is in the middle of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CenterTab {
    #[default]
    Timeline,
    Memory,
    MemoryState,
}

/// A tab of the bottom panel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BottomTab {
    #[default]
    Search,
    Range,
    Events,
    Marks,
    Problems,
    Kernels,
    Operators,
    Calls,
    Copies,
    Annotations,
    Samples,
    Allocations,
    LiveMemory,
    Leaks,
    Reserved,
}

/// A person's choices. Unknown or broken stored text gives the defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub theme: ThemeChoice,
    /// Factor on all sizes, 1 being normal.
    pub scale: f32,
    /// Files opened lately, the latest first.
    pub recent: Vec<PathBuf>,
    pub is_side_open: bool,
    pub is_bottom_open: bool,
    pub center_tab: CenterTab,
    pub bottom_tab: BottomTab,
    /// The `nsys` that converts reports of Nsight Systems; without one it is looked for.
    pub nsys: Option<PathBuf>,
    /// How the tracks are arranged.
    pub timeline: TimelineSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: ThemeChoice::System,
            scale: 1.0,
            recent: Vec::new(),
            is_side_open: true,
            is_bottom_open: true,
            center_tab: CenterTab::Timeline,
            bottom_tab: BottomTab::Search,
            nsys: None,
            timeline: TimelineSettings::default(),
        }
    }
}

impl Settings {
    /// Where eframe's storage keeps them.
    pub const KEY: &'static str = "settings";
    /// How many recent files are remembered.
    pub const MAX_RECENT: usize = 20;
    const SCALES: std::ops::RangeInclusive<f32> = 0.5..=3.0;

    /// Puts `path` first among the recent files.
    pub fn remember(&mut self, path: &Path) {
        self.recent.retain(|known| known != path);
        self.recent.insert(0, path.to_owned());
        self.recent.truncate(Self::MAX_RECENT);
    }

    /// Sets the scale, rounded to tenths and kept within what is usable.
    pub fn set_scale(&mut self, scale: f32) {
        let scale = if scale.is_finite() { scale } else { 1.0 };
        self.scale = ((scale * 10.0).round() / 10.0).clamp(*Self::SCALES.start(), *Self::SCALES.end());
    }

    /// Brings values from a file, which may hold anything, into bounds.
    pub fn checked(mut self) -> Self {
        self.set_scale(self.scale);
        self.recent.truncate(Self::MAX_RECENT);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_files_are_unique_and_few() {
        let mut settings = Settings::default();
        for i in 0..30 {
            settings.remember(Path::new(&format!("/traces/{}", i % 25)));
        }
        settings.remember(Path::new("/traces/9"));
        assert_eq!(settings.recent.len(), Settings::MAX_RECENT);
        assert_eq!(settings.recent[0], Path::new("/traces/9"));
        assert_eq!(settings.recent.iter().filter(|path| path.ends_with("9")).count(), 1);
    }

    #[test]
    fn values_out_of_bounds_are_mended() {
        for (given, expected) in [(f32::NAN, 1.0), (1e9, 3.0), (-4.0, 0.5), (1.26, 1.3)] {
            assert_eq!(Settings { scale: given, ..Default::default() }.checked().scale, expected);
        }
    }

    #[test]
    fn missing_fields_are_defaults() {
        let settings: Settings = serde_json::from_str(r#"{"scale":2.0,"unknown":1}"#).unwrap();
        assert_eq!(settings, Settings { scale: 2.0, ..Default::default() });
    }
}
