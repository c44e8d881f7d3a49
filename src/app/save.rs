//! Dialog for the file that a text is exported to, and the export itself, in the background.

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::{self, Context};

use super::dialog::{Asked, PathBox, PathBoxEnd, asked};
use super::{Note, NoteKind};
use crate::cli::output;
use crate::job::{Job, Poll};
use crate::session::Session;

/// Said where the dialog ended without a choice, since it may never have been on screen.
const NOT_EXPORTED: &str =
    "Not exported: no file was chosen. If no dialog appeared, Copy puts the same rows on the clipboard";

/// A text to export.
#[derive(Clone, Debug)]
struct Wanted {
    name: String,
    text: Arc<str>,
}

/// The export dialog and the export that runs.
#[derive(Debug, Default)]
pub struct SaveDialog {
    wanted: Option<Wanted>,
    asking: Option<Job<Asked<PathBuf>>>,
    path_box: Option<PathBox>,
    /// The path that the user chose.
    chosen: Option<PathBuf>,
    writing: Option<Job<Result<PathBuf, (PathBuf, String)>>>,
}

impl SaveDialog {
    /// Starts to ask; does nothing while a question is open.
    pub fn ask(&mut self, ctx: &Context, name: String, text: Arc<str>) {
        if self.wanted.is_some() {
            return;
        }
        let (waker, suggested) = (ctx.clone(), name.clone());
        let pick = move |_: &crate::job::Progress| {
            asked(|| rfd::FileDialog::new().set_title("Export").set_file_name(&suggested).save_file())
        };
        match Job::spawn("file dialog", move || waker.request_repaint(), pick) {
            Ok(job) => self.asking = Some(job),
            Err(_) => self.path_box = Some(PathBox::new(&name)),
        }
        self.wanted = Some(Wanted { name, text });
    }

    /// Whether the window's own path box is on screen.
    pub fn is_open(&self) -> bool {
        self.path_box.is_some()
    }

    /// Takes what the user chose and what became of the file. Never waits; call it once a frame.
    pub fn poll(&mut self, session: &Session, ctx: &Context) -> Option<Note> {
        if let Some(note) = self.poll_dialog() {
            return Some(note);
        }
        if let Some((path, wanted)) = self.chosen.take().zip(self.wanted.clone()) {
            self.wanted = None;
            // What is open is never overwritten.
            let inputs: Vec<PathBuf> = session.traces().iter().map(|open| open.trace.info.path.clone()).collect();
            let waker = ctx.clone();
            let write = move |_: &crate::job::Progress| {
                let written = output::write_file(wanted.text.as_bytes(), &path, &inputs);
                written.map(|()| path.clone()).map_err(|error| (path, error.to_string()))
            };
            self.writing = Job::spawn("export", move || waker.request_repaint(), write).ok();
        }
        let (text, path, kind) = match self.writing.as_ref()?.poll() {
            Poll::Running => return None,
            Poll::Done(Ok(path)) => ("Written:".to_owned(), Some(path), NoteKind::Info),
            Poll::Done(Err((path, error))) => (format!("Not written: {error}"), Some(path), NoteKind::Failed),
            Poll::Crashed(error) => (format!("Not written: {error}"), None, NoteKind::Failed),
        };
        self.writing = None;
        Some(Note { text, path, kind })
    }

    /// Takes the answer of the system's dialog; returns what to say where it is none.
    fn poll_dialog(&mut self) -> Option<Note> {
        let asked = match self.asking.as_ref()?.poll() {
            Poll::Running => return None,
            Poll::Done(asked) => asked,
            Poll::Crashed(_) => Asked::NoDialog,
        };
        self.asking = None;
        match asked {
            Asked::Chosen(path) => self.chosen = Some(path),
            Asked::NoDialog => {
                let name = self.wanted.as_ref().map_or("", |wanted| &wanted.name);
                self.path_box = Some(PathBox::new(name));
            }
            Asked::Nothing => {
                self.wanted = None;
                return Some(Note { text: NOT_EXPORTED.to_owned(), path: None, kind: NoteKind::Info });
            }
        }
        None
    }

    /// Shows the path box, if it is open.
    pub fn ui(&mut self, ctx: &Context) {
        let Some(path_box) = &mut self.path_box else { return };
        let hint = "This system offers no file dialog. Type or paste where to write it";
        let end = path_box.ui(ctx, egui::Id::unique("save box"), ["Export", hint, "Write"]);
        match end {
            None => return,
            Some(PathBoxEnd::Entered(path)) => self.chosen = Some(path),
            Some(PathBoxEnd::Cancelled) => self.wanted = None,
        }
        self.path_box = None;
        ctx.request_repaint();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    fn write(session: &Session, path: &std::path::Path) -> String {
        let wanted = Some(Wanted { name: "kernels.csv".to_owned(), text: "name\r\n".into() });
        let mut dialog = SaveDialog { wanted, chosen: Some(path.to_owned()), ..Default::default() };
        loop {
            if let Some(note) = dialog.poll(session, &Context::default()) {
                assert!(dialog.wanted.is_none(), "the next question can be asked");
                return note.text;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_text_is_written_but_never_over_an_open_trace() {
        let folder = std::env::temp_dir().join(format!("lacuna-save-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [table, trace] = ["kernels.csv", "trace.json"].map(|name| folder.join(name));
        std::fs::write(&trace, "precious").unwrap();
        let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", 0, 1)]);
        builder.info.path = trace.clone();
        let mut session = Session::default();
        session.add(vec![builder.finish()]);
        assert_eq!(write(&session, &table), "Written:");
        assert_eq!(std::fs::read_to_string(&table).unwrap(), "name\r\n");
        assert!(write(&session, &trace).contains("Will not overwrite an input"));
        assert_eq!(std::fs::read_to_string(&trace).unwrap(), "precious");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
