//! Settings that are kept from one run to the next, also those of earlier versions.

mod file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use eframe::{Storage, get_value};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::analysis::rules::Thresholds;
use crate::session::lenient;

pub use self::file::SettingsFile;

/// Paths that a text can hold.
fn unicode<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().filter_map(|path| path.to_str()))
}

fn unicode_alone<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().and_then(|path| path.to_str()).serialize(serializer)
}

/// Which theme the window has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ThemeChoice {
    /// Whatever the desktop says; dark where it says nothing.
    #[default]
    System,
    Dark,
    Light,
}

/// The panels of versions without docking; read only.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OldLayout {
    pub is_side_open: bool,
    pub is_bottom_open: bool,
    #[serde(deserialize_with = "variant")]
    center_tab: Option<String>,
    #[serde(deserialize_with = "variant")]
    bottom_tab: Option<String>,
    /// With the direction of the wheel, which is a setting of the window now.
    timeline: Value,
}

impl Default for OldLayout {
    fn default() -> Self {
        Self { is_side_open: true, is_bottom_open: true, center_tab: None, bottom_tab: None, timeline: Value::Null }
    }
}

impl OldLayout {
    /// The ids of the views whose tabs were in front: `LiveMemory` was `live-memory`.
    pub fn tabs(&self) -> impl Iterator<Item = String> {
        let id = |name: &String| {
            let dashed = |(i, c): (usize, char)| (i > 0 && c.is_uppercase()).then_some('-').into_iter().chain([c]);
            name.chars().enumerate().flat_map(dashed).collect::<String>().to_lowercase()
        };
        [&self.center_tab, &self.bottom_tab].into_iter().flatten().map(id)
    }
}

/// The name of an enum's variant, whatever enum it was of.
fn variant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    struct Name;
    impl Visitor<'_> for Name {
        type Value = String;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a name")
        }

        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<String, E> {
            Ok(name.to_owned())
        }
    }
    deserializer.deserialize_identifier(Name).map(Some)
}

/// What was chosen. A value that cannot be read is the default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub theme: ThemeChoice,
    /// Factor on all sizes, 1 being normal.
    pub scale: f32,
    /// Files opened recently, the latest first. Names that are not Unicode are not stored.
    #[serde(serialize_with = "unicode")]
    pub recent: Vec<PathBuf>,
    /// Whether the plain wheel zooms and Ctrl+wheel scrolls, instead of the other way round.
    pub wheel_zooms: bool,
    /// The `nsys` that converts reports of Nsight Systems; `None` looks for one.
    #[serde(serialize_with = "unicode_alone")]
    pub nsys: Option<PathBuf>,
    /// Thresholds of rules that differ from the defaults, by name. It may hold anything; see [`Self::rules`].
    pub thresholds: Value,
    /// Marks of files, as [`crate::session::KeptMarks`]. It may hold anything.
    pub marks: Value,
    /// Where the views are; null is the default layout. It may hold anything.
    pub layout: Value,
    /// What each view keeps, by its id. It may hold anything.
    pub views: BTreeMap<String, Value>,
    /// What eframe keeps of its window, in its own notation. It may hold anything.
    pub window: Value,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: ThemeChoice::System,
            scale: 1.0,
            recent: Vec::new(),
            wheel_zooms: false,
            nsys: None,
            thresholds: Value::Null,
            marks: Value::Null,
            layout: Value::Null,
            views: BTreeMap::new(),
            window: Value::Null,
        }
    }
}

impl Settings {
    /// Where eframe's storage kept them in versions without a file of their own.
    pub const KEY: &'static str = "settings";
    /// How many recent files are remembered.
    pub const MAX_RECENT: usize = 20;
    const SCALES: std::ops::RangeInclusive<f32> = 0.5..=3.0;

    /// The settings of a version without a file of its own, and its panels if it had no docking.
    pub fn load_old(storage: Option<&dyn Storage>) -> (Self, OldLayout) {
        let Some(storage) = storage else { return Default::default() };
        let whole = get_value(storage, Self::KEY);
        let mut settings: Self = whole.unwrap_or_else(|| lenient(&get_value(storage, Self::KEY).unwrap_or_default()));
        if !settings.layout.is_null() {
            return (settings, OldLayout::default());
        }
        let mut old: OldLayout = get_value(storage, Self::KEY).unwrap_or_default();
        if let timeline @ Value::Object(_) = old.timeline.take() {
            settings.wheel_zooms = timeline["wheel_zooms"] == true;
            settings.views.insert("timeline".to_owned(), timeline);
        }
        (settings, old)
    }

    /// What the file of settings holds.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

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

    /// The thresholds of the rules. Unknown names and values that a threshold cannot have are left out.
    pub fn rules(&self) -> Thresholds {
        let mut rules = Thresholds::default();
        for (name, value) in self.thresholds.as_object().into_iter().flatten() {
            _ = value.as_f64().map(|value| rules.set(name, value));
        }
        rules
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

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_not_unicode_costs_itself_alone() {
        use std::os::unix::ffi::OsStrExt as _;
        let strange = PathBuf::from(std::ffi::OsStr::from_bytes(b"/a\xff"));
        let settings =
            Settings { recent: vec![strange.clone(), "/b".into()], nsys: Some(strange), ..Default::default() };
        let stored = settings.to_json();
        assert_eq!(lenient::<Settings>(&stored).recent, [PathBuf::from("/b")]);
        assert_eq!(stored["nsys"], Value::Null);
    }

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
    fn a_wrong_threshold_costs_that_one_alone() {
        let of = |thresholds: Value| Settings { thresholds, ..Default::default() }.rules().changed();
        let kept = serde_json::json!({
            "data_loading.note": 0.01, "data_loading.warn": "much", "allocator.high": 7, "gone": 0.5,
            "tiny_kernel_ns": 5_000,
        });
        let expected = [("data_loading.note".to_owned(), 0.01), ("tiny_kernel_ns".to_owned(), 5_000.0)];
        assert_eq!(of(kept), BTreeMap::from(expected));
        assert_eq!(of(serde_json::json!(["data_loading.note"])), BTreeMap::new());
    }

    #[test]
    fn missing_fields_are_defaults() {
        let settings: Settings = serde_json::from_str(r#"{"scale":2.0,"unknown":1}"#).unwrap();
        assert_eq!(settings, Settings { scale: 2.0, ..Default::default() });
    }
}
