//! Dialog for files and folders: the system's, or a path box in the window where there is none.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use eframe::egui::{self, Context, Key, Modal};

use crate::job::{Job, Poll};
use crate::reader;

/// A dialog that ends sooner was never on screen: no user is that fast.
const NO_DIALOG: Duration = Duration::from_millis(400);

/// What became of asking with a system's dialog.
#[derive(Debug)]
pub enum Asked<T> {
    Chosen(T),
    /// Nothing was chosen, or the system failed to show its dialog after trying for long.
    Nothing,
    /// The system has no dialog.
    NoDialog,
}

/// Asks with a system's dialog, and measures on this thread how long that took: a frame may come late.
///
/// Without portal and zenity the answer is the same as after Cancel, only faster.
pub fn asked<T>(pick: impl FnOnce() -> Option<T>) -> Asked<T> {
    let start = Instant::now();
    match pick() {
        Some(chosen) => Asked::Chosen(chosen),
        None if start.elapsed() < NO_DIALOG => Asked::NoDialog,
        None => Asked::Nothing,
    }
}

/// Said where a dialog ended without a choice, since it may never have been on screen.
const NOTHING_CHOSEN: &str =
    "No file was chosen. If no dialog appeared, drop the files on the window or name them on the command line";

/// What a system's dialog can offer at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    Files,
    Folders,
}

/// Asking for files or folders.
#[derive(Debug, Default)]
pub struct OpenDialog {
    asking: Option<Job<Asked<Vec<PathBuf>>>>,
    /// The text of the window's own path box, while that is open.
    path_box: Option<PathBox>,
    /// Whether this machine has shown that it has no system dialog.
    has_no_system_dialog: bool,
}

impl OpenDialog {
    /// One that never asks the system.
    #[cfg(test)]
    pub fn in_window() -> Self {
        Self { has_no_system_dialog: true, ..Self::default() }
    }

    /// Starts to ask; does nothing if a dialog is open already.
    pub fn ask(&mut self, ctx: &Context, what: Pick) {
        if self.asking.is_some() || self.path_box.is_some() {
            return;
        }
        if self.has_no_system_dialog {
            self.path_box = Some(PathBox::default());
            return;
        }
        let waker = ctx.clone();
        let wake = move || waker.request_repaint();
        // The call waits until the user has chosen, so it has a thread of its own.
        let pick = move |_: &crate::job::Progress| {
            let dialog = rfd::FileDialog::new().set_title("Open traces");
            let extensions = [reader::extensions().as_slice(), reader::CONVERTED].concat();
            asked(|| match what {
                Pick::Folders => dialog.pick_folders(),
                Pick::Files => dialog
                    .add_filter("Traces and memory snapshots", &extensions)
                    .add_filter("All files", &["*"])
                    .pick_files(),
            })
        };
        match Job::spawn("file dialog", wake, pick) {
            Ok(job) => self.asking = Some(job),
            Err(_) => self.path_box = Some(PathBox::default()),
        }
    }

    /// What the user chose in the system's dialog, or what to say where that was nothing. Never waits; call it once a
    /// frame.
    pub fn poll(&mut self) -> Result<Vec<PathBuf>, &'static str> {
        let asked = match self.asking.as_ref().map(Job::poll) {
            None | Some(Poll::Running) => return Ok(Vec::new()),
            Some(Poll::Done(asked)) => asked,
            Some(Poll::Crashed(_)) => Asked::NoDialog,
        };
        self.asking = None;
        match asked {
            Asked::Chosen(paths) => return Ok(paths),
            Asked::Nothing => return Err(NOTHING_CHOSEN),
            Asked::NoDialog => {
                self.has_no_system_dialog = true;
                self.path_box = Some(PathBox::default());
            }
        }
        Ok(Vec::new())
    }

    /// Whether the path box is on screen.
    pub fn is_open(&self) -> bool {
        self.path_box.is_some()
    }

    /// Shows the path box, if it is open; returns what was entered.
    pub fn ui(&mut self, ctx: &Context) -> Option<PathBuf> {
        const HINT: &str = "This system offers no file dialog. Type or paste a path, or drop files on the window";
        let end =
            self.path_box.as_mut()?.ui(ctx, egui::Id::unique("path box"), ["Open file or folder", HINT, "Open"])?;
        self.path_box = None;
        match end {
            PathBoxEnd::Entered(path) => Some(path),
            PathBoxEnd::Cancelled => None,
        }
    }
}

/// How a [`PathBox`] was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathBoxEnd {
    Entered(PathBuf),
    Cancelled,
}

/// A dialog in the window in which a path is typed.
#[derive(Debug, Default)]
pub struct PathBox {
    text: String,
}

impl PathBox {
    /// One that already holds a path.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// Paints it; says once how it was left.
    ///
    /// * `words`: the heading, a sentence, and what the button says.
    pub fn ui(&mut self, ctx: &Context, id: egui::Id, words: [&str; 3]) -> Option<PathBoxEnd> {
        let [heading, hint, verb] = words;
        let mut entered = None;
        let text = &mut self.text;
        let modal = Modal::new(id).show(ctx, |ui| {
            ui.set_width(460.0);
            ui.heading(heading);
            ui.label(hint);
            let label = ui.label("Path");
            let edit =
                egui::TextEdit::singleline(text).hint_text("/path/to/trace.json.gz").desired_width(f32::INFINITY);
            let edit = ui.add(edit).labelled_by(label.id);
            if !edit.lost_focus() {
                edit.request_focus();
            }
            let is_entered = edit.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            ui.horizontal(|ui| {
                let has_text = !text.trim().is_empty();
                let button = ui.add_enabled(has_text, egui::Button::new(verb));
                if has_text && (button.clicked() || is_entered) {
                    entered = Some(PathBoxEnd::Entered(expand_home(text.trim())));
                }
                ui.button("Cancel").clicked()
            })
            .inner
        });
        let is_cancelled = modal.inner || modal.should_close();
        entered.or_else(|| is_cancelled.then_some(PathBoxEnd::Cancelled))
    }
}

/// `~/x` as a shell reads it.
fn expand_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}
