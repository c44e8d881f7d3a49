//! Window geometry and widget state, which eframe keeps in a file of its own.
//!
//! That file is not whole if its writing is cut short, and of two windows the last one wins. So eframe gets a private
//! file, filled from the settings, and what it writes is taken over into them.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use eframe::Storage;
use eframe::egui::{Context, ViewportCommand};
use serde_json::{Map, Value};

use crate::scratch::{Scratch, private_file};

/// What eframe stores: the place of the window, and the memory of its widgets.
const KEYS: [&str; 2] = ["window", "egui"];
/// A longer file of an earlier version is not read.
const MAX_OLD: u64 = 16 << 20;

/// The seconds within which the system gives a window its frame.
const OPENING: f64 = 5.0;

/// Has a window fill its screen that is larger than that with its frame: else nobody could reach its bottom. It is for
/// a window that opens; later its size is the user's.
pub fn fit(ctx: &Context) {
    let is_too_large = ctx.input(|input| {
        let window = input.viewport();
        let sizes = window.outer_rect.zip(window.monitor_size);
        let is_free = window.maximized != Some(true) && window.fullscreen != Some(true);
        // Points are rounded.
        let exceeds = sizes.is_some_and(|(outer, screen)| (outer.size() - screen).max_elem() > 1.0);
        input.time < OPENING && is_free && exceeds
    });
    if is_too_large {
        ctx.send_viewport_cmd(ViewportCommand::Maximized(true));
    }
}

/// eframe's file for one run.
#[derive(Debug)]
pub struct PlaceFile {
    folder: Scratch,
}

impl PlaceFile {
    /// A file with what the settings hold of the window; where that is nothing, with what earlier versions left. `None`
    /// if it cannot be made: then eframe has its file where it lies.
    ///
    /// * `settings`: the object in the file of settings, which may hold anything.
    pub fn new(settings: Option<&Value>) -> Option<Self> {
        let old = || old(&eframe::storage_dir("lacuna")?.join("app.ron"));
        let window = settings.map(|settings| &settings["window"]).filter(|window| window.is_object());
        let text = window.map(ron).or_else(old).unwrap_or_default();
        let file = Self { folder: Scratch::for_copies().ok()? };
        private_file(&file.path()).and_then(|mut to| to.write_all(&text)).ok()?;
        Some(file)
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("app.ron")
    }
}

/// What eframe wrote itself.
fn old(path: &Path) -> Option<Vec<u8>> {
    let is_short = path.metadata().is_ok_and(|data| data.is_file() && data.len() <= MAX_OLD);
    is_short.then(|| std::fs::read(path).ok())?
}

/// The texts among the values, as eframe's file has them: in RON, whose escapes are those of Rust.
fn ron(window: &Value) -> Vec<u8> {
    let texts = KEYS.iter().filter_map(|key| Some((key, window.get(key)?.as_str()?)));
    let lines: Vec<String> = texts.map(|(key, text)| format!("{key:?}: {text:?},\n")).collect();
    format!("{{\n{}}}\n", lines.concat()).into_bytes()
}

/// What eframe stored, for the settings.
pub fn kept(storage: &dyn Storage) -> Value {
    let value = |key: &&str| Some(((*key).to_owned(), Value::String(storage.get_string(key)?)));
    KEYS.iter().filter_map(value).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use eframe::egui;

    use super::*;

    #[derive(Default)]
    struct Store(BTreeMap<String, String>);

    impl Storage for Store {
        fn get_string(&self, key: &str) -> Option<String> {
            self.0.get(key).cloned()
        }
        fn set_string(&mut self, key: &str, value: String) {
            self.0.insert(key.to_owned(), value);
        }
        fn remove_string(&mut self, key: &str) {
            self.0.remove(key);
        }
        fn flush(&mut self) {}
    }

    /// As eframe reads its file.
    fn read(ron: &[u8]) -> HashMap<String, String> {
        let store = Store([("file".to_owned(), String::from_utf8(ron.to_vec()).unwrap())].into());
        eframe::get_value(&store, "file").unwrap()
    }

    #[test]
    fn what_is_kept_comes_back_whatever_it_is() {
        let mut store = Store::default();
        let texts = ["(size:(x:1.5,y:2.0),maximized:false)", "a \"q\" \\ \n\t\0 \u{7f}\u{301}核\u{202e} {}"];
        for (key, text) in KEYS.iter().zip(texts) {
            store.set_string(key, text.to_owned());
        }
        store.set_string("settings", "(old)".to_owned());
        let kept = kept(&store);
        let expected = KEYS.iter().zip(texts).map(|(key, text)| ((*key).to_owned(), text.to_owned()));
        assert_eq!(read(&ron(&kept)), expected.collect());
    }

    #[test]
    fn values_that_are_no_texts_are_left_out() {
        for window in [Value::Null, serde_json::json!([1]), serde_json::json!({"window": 5, "egui": null, "x": "y"})] {
            assert!(read(&ron(&window)).is_empty(), "{window}");
        }
    }

    #[test]
    fn a_window_that_opens_larger_than_its_screen_fills_it() {
        let asked = |outer: [f32; 2], maximized, time| {
            let mut input = egui::RawInput { time: Some(time), ..Default::default() };
            let window = input.viewports.entry(egui::ViewportId::ROOT).or_default();
            window.monitor_size = Some(egui::vec2(1280.0, 720.0));
            window.outer_rect = Some(egui::Rect::from_min_size(egui::Pos2::ZERO, outer.into()));
            window.maximized = Some(maximized);
            let output = Context::default().run_ui(input, |ui| fit(ui.ctx()));
            let commands = output.viewport_output[&egui::ViewportId::ROOT].commands.clone();
            output.drop_without_applying_deltas();
            commands.contains(&ViewportCommand::Maximized(true))
        };
        // Its frame has no room.
        assert!(asked([1282.0, 742.0], false, 0.5));
        assert!(!asked([1280.0, 720.0], false, 0.5) && !asked([1282.0, 742.0], true, 0.5));
        assert!(!asked([1282.0, 742.0], false, 9.0), "as the user made it");
    }

    #[test]
    fn a_private_file_holds_what_the_settings_do() {
        let settings = serde_json::json!({"scale": 2.0, "window": {"window": "(a:1)"}});
        let file = PlaceFile::new(Some(&settings)).unwrap();
        let path = file.path();
        assert_eq!(read(&std::fs::read(&path).unwrap()), HashMap::from([("window".to_owned(), "(a:1)".to_owned())]));
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn of_an_earlier_version_the_file_is_read_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.ron");
        assert_eq!(old(&path), None);
        std::fs::write(&path, b"{broken").unwrap();
        assert_eq!(old(&path).unwrap(), b"{broken");
        assert!(old(folder.path()).is_none());
    }
}
