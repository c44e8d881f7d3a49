//! The output of an earlier run with what was said of it, read in the background and shown in the place of that of the
//! latest.

use std::path::PathBuf;

use eframe::egui::{self, Label, RichText, Ui};

use super::earlier::end_text;
use super::output::{OutputSearch, Source};
use crate::capture::launch::{self, Earlier, Manifest, Output};
use crate::job::{Job, Poll};
use crate::view::states::{failed_ui, working_ui};
use crate::widget::theme;

/// The output of a run as its folder keeps it.
#[derive(Debug)]
pub struct KeptOutput {
    pub folder: PathBuf,
    manifest: Manifest,
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
        Self { folder, manifest, reading, output, search: OutputSearch::default() }
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
            let Manifest { started_ms, command, .. } = &self.manifest;
            let (started, end) = (launch::shown_time(*started_ms), end_text(&self.manifest));
            ui.weak(format!("Output of an earlier run, started {started}: {end}"));
            ui.add(Label::new(RichText::new(command).monospace()).truncate());
            close.clicked()
        });
        let color = theme::tokens(ui.visuals().dark_mode).severity[1];
        for note in &self.manifest.notes {
            ui.colored_label(color, note);
        }
        match &self.output {
            Ok(_) if self.reading.is_some() => working_ui("Reading the output…", ui),
            Ok(output) => self.search.ui(&Source::Kept(output), ui),
            Err(why) => failed_ui(why, ui),
        }
        is_over.inner
    }
}
