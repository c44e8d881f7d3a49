//! Keeps the settings in their file, in the background.

use std::io::Result;
use std::time::{Duration, Instant};

use eframe::egui;

use super::{App, Note, NoteKind};
use crate::job::{Job, Poll};
use crate::model::TimeRange;
use crate::settings::{SettingsFile, ThemeChoice};

/// The file of settings and what is being written to it. Without a file nothing is kept.
#[derive(Debug, Default)]
pub struct Keeper {
    file: Option<SettingsFile>,
    writing: Option<Job<(SettingsFile, Result<Option<String>>)>>,
    /// Whether the user knows that settings cannot be written.
    has_complained: bool,
    /// The ranges that were marked in the last frame.
    marks: Vec<TimeRange>,
    /// What the user had chosen by keys and menus then: theme, text scale, and whether the wheel zooms.
    choices: (ThemeChoice, f32, bool),
    /// When what has changed is to be written.
    due: Option<Instant>,
}

/// How long after a frame what may have changed in it is written: a panel that is dragged changes in each.
const PAUSE: Duration = Duration::from_millis(700);
/// How soon a file that is being written is looked at again.
const SOON: Duration = Duration::from_millis(50);

impl Keeper {
    /// Takes what became of the last writing: a note where it failed for the first time, or met a file that could not
    /// be read.
    pub fn poll(&mut self) -> Option<Note> {
        let outcome = match self.writing.as_ref()?.poll() {
            Poll::Running => return None,
            Poll::Done((file, written)) => {
                self.file = Some(file);
                written.map_err(|error| error.to_string())
            }
            Poll::Crashed(error) => Err(error),
        };
        self.writing = None;
        self.judge(outcome)
    }

    /// What the user is to know of a writing.
    fn judge(&mut self, outcome: std::result::Result<Option<String>, String>) -> Option<Note> {
        match outcome {
            Ok(problem) => problem.map(|text| Note { path: None, ..note(text) }),
            Err(_) if std::mem::replace(&mut self.has_complained, true) => None,
            Err(error) => Some(note(format!("Settings, recent files and marks cannot be kept: {error}"))),
        }
    }
}

fn note(text: String) -> Note {
    Note { text, path: SettingsFile::place(), kind: NoteKind::Info }
}

impl App {
    /// From now on what changes in the settings is kept in `file`; all of them unless it holds them already.
    ///
    /// * `problems`: what was wrong with it.
    pub fn keep_settings(&mut self, file: Option<SettingsFile>, is_kept: bool, problems: Vec<String>) {
        self.keeper.file = file;
        let settings = self.settings();
        if let Some(file) = self.keeper.file.as_mut().filter(|_| is_kept) {
            file.follow(&settings);
        }
        let note = |text| Note { text, path: None, kind: NoteKind::Info };
        self.notes.extend(problems.into_iter().map(note));
    }

    /// Writes the settings if they changed, in the background.
    pub fn save_settings(&mut self) {
        let settings = self.settings().to_json();
        let Some(mut file) = self.keeper.file.take_if(|file| file.is_changed(&settings)) else { return };
        let spare = file.clone();
        let write = move |_: &crate::job::Progress| {
            let written = file.write(&settings);
            (file, written)
        };
        match Job::spawn("settings", || {}, write) {
            Ok(job) => self.keeper.writing = Some(job),
            Err(_) => self.keeper.file = Some(spare),
        }
    }

    /// Writes what has changed soon, and at once what was chosen by a key or in a menu, and marks that were set, moved
    /// or deleted, in the background, for nothing tells of a program that is killed or loses its display. No other
    /// frame may follow for hours, so one is asked for.
    pub fn keep_changes(&mut self, ctx: &egui::Context) {
        let keeper = &mut self.keeper;
        if keeper.file.is_none() && keeper.writing.is_none() {
            return;
        }
        let now = Instant::now();
        let due = keeper.due.get_or_insert(now + PAUSE);
        let marks = &self.session.marks;
        if !marks.iter().map(|mark| &mark.range).eq(&keeper.marks) {
            *due = now;
            keeper.marks = marks.iter().map(|mark| mark.range).collect();
        }
        let choices = (self.settings.theme, self.settings.scale, self.settings.wheel_zooms);
        if choices != keeper.choices {
            *due = now;
            keeper.choices = choices;
        }
        let left = due.saturating_duration_since(now);
        if !left.is_zero() || keeper.writing.is_some() {
            return ctx.request_repaint_after(left.max(SOON));
        }
        keeper.due = None;
        self.save_settings();
        // What became of it is said, though nothing more happens.
        if self.keeper.writing.is_some() && !self.keeper.has_complained {
            ctx.request_repaint_after(SOON);
        }
    }

    /// Waits for settings that are being written, and writes what changed since.
    ///
    /// Errors: why they are not kept, or that a file of settings could not be read, unless the user knows.
    pub fn save_settings_now(&mut self) -> std::result::Result<(), String> {
        let mut notes = Vec::new();
        while self.keeper.writing.is_some() {
            notes.extend(self.keeper.poll());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let settings = self.settings().to_json();
        if let Some(file) = self.keeper.file.as_mut().filter(|file| file.is_changed(&settings)) {
            let written = file.write(&settings).map_err(|error| error.to_string());
            notes.extend(self.keeper.judge(written));
        }
        notes.pop().map_or(Ok(()), |note| Err(note.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn what_is_chosen_is_written_at_once_and_the_rest_soon() {
        let folder = tempfile::tempdir().unwrap();
        let ctx = egui::Context::default();
        let mut app = App::with_traces(&ctx, Settings::default(), Vec::new());
        let (file, _, _) = SettingsFile::open(&folder.path().join("settings.json"));
        app.keep_settings(Some(file), true, Vec::new());
        let mut is_written = |change: &dyn Fn(&mut App)| {
            change(&mut app);
            app.keep_changes(&ctx);
            let is_written = app.keeper.writing.is_some();
            app.save_settings_now().unwrap();
            app.keeper.due = None;
            is_written
        };
        is_written(&|_| {});
        assert!(!is_written(&|app| app.settings.remember(std::path::Path::new("/a.json"))));
        assert!(is_written(&|app| app.settings.set_scale(1.5)));
        assert!(is_written(&|app| app.settings.wheel_zooms = true));
        assert!(is_written(&|app| app.settings.theme = ThemeChoice::Light));
        assert!(!is_written(&|_| {}), "nothing changed");
    }
}
