//! The output of an earlier run, read in the background and shown in the place of that of the latest.

use std::path::PathBuf;

use eframe::egui::{self, Label, RichText, Ui};

use super::output::{OutputSearch, Source};
use crate::capture::launch::{self, Earlier, Output};
use crate::job::{Job, Poll};
use crate::view::states::{failed_ui, working_ui};

/// The output of a run as its folder keeps it.
#[derive(Debug)]
pub struct KeptOutput {
    pub folder: PathBuf,
    command: String,
    started_ms: u64,
    reading: Option<Job<Result<Output, String>>>,
    output: Result<Output, String>,
    search: OutputSearch,
}

impl KeptOutput {
    /// Begins to read it.
    pub fn new(run: &Earlier, egui: &egui::Context) -> Self {
        let (waker, of) = (egui.clone(), run.clone());
        let job = Job::spawn("output", move || waker.request_repaint(), move |_| launch::kept_output(&of));
        let (reading, output) = match job {
            Ok(job) => (Some(job), Ok(Output::default())),
            Err(error) => (None, Err(format!("No thread could be started: {error}"))),
        };
        let Earlier { folder, manifest, .. } = run.clone();
        let search = OutputSearch::default();
        Self { folder, command: manifest.command, started_ms: manifest.started_ms, reading, output, search }
    }

    pub fn is_pending(&self) -> bool {
        self.reading.is_some()
    }

    /// Paints it; true once it is to be closed.
    pub fn ui(&mut self, ui: &mut Ui) -> bool {
        match self.reading.as_ref().map(Job::poll) {
            None | Some(Poll::Running) => {}
            Some(Poll::Done(output)) => (self.output, self.reading) = (output, None),
            Some(Poll::Crashed(why)) => (self.output, self.reading) = (Err(why), None),
        }
        let is_over = ui.horizontal(|ui| {
            let close = ui.button("Close").on_hover_text("Close the output of this earlier run");
            ui.weak(format!("Output of an earlier run, started {}", launch::shown_time(self.started_ms)));
            ui.add(Label::new(RichText::new(&self.command).monospace()).truncate());
            close.clicked()
        });
        match &self.output {
            Ok(_) if self.reading.is_some() => working_ui("Reading the output…", ui),
            Ok(output) => self.search.ui(&Source::Kept(output), ui),
            Err(why) => failed_ui(why, ui),
        }
        is_over.inner
    }
}
