//! Dialog for the file that a text or a report is exported to, and the export itself, in the background.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::{self, Context};

use super::dialog::{Asked, PathBox, PathBoxEnd, asked};
use super::told::Told;
use super::{Note, NoteKind};
use crate::analysis::rules::Thresholds;
use crate::cli::{Failure, output, report};
use crate::figures::escape;
use crate::job::{Job, Poll};
use crate::model::Trace;
use crate::session::Session;

/// The endings of a report's file.
const FORMATS: [(&str, &str); 5] =
    [("Text", "txt"), ("JSON", "json"), ("Markdown", "md"), ("Web page", "html"), ("CSV", "csv")];

/// What is exported.
#[derive(Clone, Debug)]
pub enum Content {
    Text(Arc<str>),
    /// What `lacuna report` says of these traces.
    Report(Vec<Arc<Trace>>, Box<Thresholds>),
}

impl Content {
    fn title(&self) -> &'static str {
        match self {
            Self::Text(_) => "Export",
            Self::Report(..) => "Export report",
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Text(_) => "This system offers no file dialog. Type or paste where to write it",
            Self::Report(..) => {
                "This system offers no file dialog. Type or paste where to write it: as text, JSON, Markdown, web page \
                 or CSV if the name ends in .txt, .json, .md, .html or .csv"
            }
        }
    }

    /// Said where the dialog ended without a choice, since it may never have been on screen.
    fn not_exported(&self) -> &'static str {
        match self {
            Self::Text(_) => {
                "Not exported: no file was chosen. If no dialog appeared, Copy puts the same rows on the clipboard"
            }
            Self::Report(..) => {
                "Not exported: no file was chosen. If no dialog appeared, `lacuna report` writes the same"
            }
        }
    }

    fn write(&self, path: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
        match self {
            Self::Text(text) => output::write_file(text.as_bytes(), path, inputs),
            Self::Report(traces, thresholds) => {
                // It may take long, for nothing.
                output::check_target(path, inputs)?;
                output::write_file(report::file(path, **thresholds, traces)?.as_bytes(), path, inputs)
            }
        }
    }
}

/// What to export, and the name of its file to begin with.
#[derive(Clone, Debug)]
struct Wanted {
    name: String,
    content: Content,
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
    pub fn ask(&mut self, ctx: &Context, name: String, content: Content) {
        if self.wanted.is_some() {
            return;
        }
        let waker = ctx.clone();
        let mut dialog = rfd::FileDialog::new().set_title(content.title()).set_file_name(&name);
        if matches!(content, Content::Report(..)) {
            dialog = FORMATS.iter().fold(dialog, |dialog, &(name, ending)| dialog.add_filter(name, &[ending]));
        }
        let pick = move |_: &crate::job::Progress| asked(|| dialog.save_file());
        match Job::spawn("file dialog", move || waker.request_repaint(), pick) {
            Ok(job) => self.asking = Some(job),
            Err(_) => self.path_box = Some(PathBox::new(&name)),
        }
        self.wanted = Some(Wanted { name, content });
    }

    /// As if the user had chosen this path for a text.
    #[cfg(test)]
    pub fn enter(&mut self, path: PathBuf) {
        self.wanted = Some(Wanted { name: String::new(), content: Content::Text("".into()) });
        self.chosen = Some(path);
    }

    /// Whether a file is being written.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether the window's own path box is on screen.
    pub fn is_open(&self) -> bool {
        self.path_box.is_some()
    }

    /// Takes what the user chose and what became of the file: what is said for a while, or a note if it failed. Never
    /// waits; call it once a frame.
    pub fn poll(&mut self, session: &Session, ctx: &Context) -> Option<Result<Told, Note>> {
        if let Some(told) = self.poll_dialog() {
            return Some(Ok(told));
        }
        if let Some((path, wanted)) = self.chosen.take().zip(self.wanted.clone()) {
            self.wanted = None;
            // Where it was written is said with its folder.
            let path = std::path::absolute(&path).unwrap_or(path);
            // What is open is never overwritten.
            let inputs: Vec<PathBuf> = session.traces().iter().map(|open| open.trace.info.path.clone()).collect();
            let waker = ctx.clone();
            let write = move |_: &crate::job::Progress| {
                let written = wanted.content.write(&path, &inputs);
                written.map(|()| path.clone()).map_err(|error| (path, error.to_string()))
            };
            self.writing = Job::spawn("export", move || waker.request_repaint(), write).ok();
        }
        let failed = |error, path| Err(Note { text: format!("Not written: {error}"), path, kind: NoteKind::Failed });
        let written = match self.writing.as_ref()?.poll() {
            Poll::Running => return None,
            Poll::Done(Ok(path)) => Ok(Told::said(written_text(&path))),
            Poll::Done(Err((path, error))) => failed(error, Some(path)),
            Poll::Crashed(error) => failed(error, None),
        };
        self.writing = None;
        Some(written)
    }

    /// Takes the answer of the system's dialog; returns what to say where it is none.
    fn poll_dialog(&mut self) -> Option<Told> {
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
                let wanted = self.wanted.take()?;
                return Some(Told::refusal(wanted.content.not_exported()));
            }
        }
        None
    }

    /// Shows the path box, if it is open.
    pub fn ui(&mut self, ctx: &Context) {
        let Some((path_box, wanted)) = self.path_box.as_mut().zip(self.wanted.as_ref()) else { return };
        let words = [wanted.content.title(), wanted.content.hint(), "Write"];
        let end = path_box.ui(ctx, egui::Id::unique("save box"), words);
        match end {
            None => return,
            Some(PathBoxEnd::Entered(path)) => self.chosen = Some(path),
            Some(PathBoxEnd::Cancelled) => self.wanted = None,
        }
        self.path_box = None;
        ctx.request_repaint();
    }
}

/// Says that a file was written; its name first, for a long path is cut.
fn written_text(path: &Path) -> String {
    let visible = |path: &Path| escape::visible(&path.to_string_lossy()).into_owned();
    let name = visible(Path::new(path.file_name().unwrap_or(path.as_os_str())));
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => format!("Written: {name} in {}", visible(folder)),
        None => format!("Written: {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    fn write(session: &Session, path: &Path) -> String {
        write_content(session, path, Content::Text("name\r\n".into()))
    }

    fn write_content(session: &Session, path: &Path, content: Content) -> String {
        let wanted = Some(Wanted { name: "kernels.csv".to_owned(), content });
        let mut dialog = SaveDialog { wanted, chosen: Some(path.to_owned()), ..Default::default() };
        loop {
            if let Some(said) = dialog.poll(session, &Context::default()) {
                assert!(dialog.wanted.is_none(), "the next question can be asked");
                return said.map_or_else(|note| note.text, |told| told.text.into_owned());
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
        assert_eq!(write(&session, &table), format!("Written: kernels.csv in {}", folder.display()));
        assert_eq!(std::fs::read_to_string(&table).unwrap(), "name\r\n");
        assert!(write(&session, &trace).contains("Will not overwrite an input"));
        assert_eq!(std::fs::read_to_string(&trace).unwrap(), "precious");
        std::fs::remove_dir_all(&folder).unwrap();
    }
    #[test]
    fn a_report_is_what_the_command_writes_and_its_ending_is_its_format() {
        let folder = std::env::temp_dir().join(format!("lacuna-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let slices = [("main", SliceKind::Operator, "aten::mm", 0, 9), ("stream 7", SliceKind::Kernel, "gemm", 3, 5)];
        let mut session = Session::default();
        session.add(vec![TraceBuilder::from_slices(&slices).finish()]);
        let traces: Vec<Arc<Trace>> = session.traces().iter().map(|open| Arc::clone(&open.trace)).collect();
        let text = |name: &str| {
            let path = folder.join(name);
            let content = Content::Report(traces.clone(), Box::new(session.thresholds));
            assert!(write_content(&session, &path, content).starts_with("Written:"), "{name}");
            std::fs::read_to_string(path).unwrap()
        };
        let json: serde_json::Value = serde_json::from_str(&text("report.JSON")).unwrap();
        assert_eq!(json["kernels"][0]["name"], "gemm");
        assert!(text("report.html").starts_with("<!"));
        assert!(text("report.csv").starts_with("part,"));
        assert!(text("report.md").contains("| gemm"));
        let args = report::Args { out: Some("report".into()), ..report::Args::default() };
        let (expected, _) = report::answer(&args, session.thresholds, &traces, &[]).unwrap();
        assert_eq!(text("report.txt"), expected);
        assert_eq!(text("report"), expected);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
