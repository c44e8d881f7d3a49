//! Messages that the user reads and may then close.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use eframe::egui::{self, RichText};

use super::App;
use crate::figures::{escape, format};
use crate::reader::Options;
use crate::widget::theme;

/// More files that were not opened share a line.
const MOST_UNOPENED: usize = 2;
/// So many of them are listed where the pointer is on it.
const MOST_LISTED: usize = 20;
/// How long files that were not opened are told of over the views. From then on the line at the bottom tells: what is
/// covered is read, too.
pub(super) const SHOW_UNOPENED: Duration = Duration::from_secs(12);

/// Something the user should read and may then close.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub text: String,
    pub path: Option<PathBuf>,
    pub kind: NoteKind,
}

/// What a note asks of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoteKind {
    /// To know it.
    Info,
    /// A file was not opened.
    Unopened,
    /// Something else failed, as the text says.
    Failed,
    /// To agree before a file is read.
    Consent,
}

impl App {
    fn unopened(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| note.kind == NoteKind::Unopened)
    }

    /// Whether files that were not opened are told of over the views: for a while, or as long as nothing else is open.
    /// Call it every frame.
    pub(super) fn shows_unopened(&mut self, ctx: &egui::Context) -> bool {
        let n = self.unopened().count();
        let known = self.unopened_since.filter(|&(known, _)| n <= known);
        let since = known.map_or_else(Instant::now, |(_, since)| since);
        self.unopened_since = (n > 0).then_some((n, since));
        let left = SHOW_UNOPENED.checked_sub(since.elapsed());
        left.into_iter().for_each(|left| ctx.request_repaint_after(left));
        n > 0 && (left.is_some() || self.session.traces().is_empty())
    }

    /// Tells of files that were not opened over the views for a while more.
    pub(super) fn reveal_unopened(&mut self) {
        self.unopened_since = self.unopened_since.map(|(n, _)| (n, Instant::now()));
    }

    /// Closes what is said of files that were not opened: they were tried beside others, which are closed now.
    pub(super) fn forget_unopened(&mut self) {
        self.notes.retain(|note| note.kind != NoteKind::Unopened);
    }

    /// Says in the line at the bottom that files were not opened, once that no longer stands over the views.
    pub(super) fn unopened_button_ui(&mut self, ui: &mut egui::Ui) {
        let n = self.unopened().count();
        if n == 0 || self.shows_unopened(ui.ctx()) {
            return;
        }
        let plural = if n == 1 { "" } else { "s" };
        let text = RichText::new(format!("{} file{plural} not opened", format::count(n as u64)));
        let text = text.color(theme::tokens(ui.visuals().dark_mode).severity[2]);
        let hint = format!("{}\nShow or dismiss the messages", listed(&self.unopened_lines()));
        if ui.button(text).on_hover_text(hint).clicked() {
            self.reveal_unopened();
        }
    }

    /// Each file that was not opened, with the reason.
    fn unopened_lines(&self) -> Vec<String> {
        let line = |note: &Note| {
            let path = note.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
            format!("{path}: {}", note.text)
        };
        self.unopened().map(line).collect()
    }

    /// One line for each message, and one for many files of a folder that were not opened.
    ///
    /// * `has_unopened`: whether those about files that were not opened are among them.
    pub(super) fn notes_ui(&mut self, has_unopened: bool, ui: &mut egui::Ui) {
        let tokens = theme::tokens(ui.visuals().dark_mode);
        let are_many = self.unopened().count() > MOST_UNOPENED;
        if are_many && has_unopened {
            self.unopened_ui(ui);
        }
        let (mut closed, mut agreed) = (None, None);
        let is_single = |note: &Note| note.kind != NoteKind::Unopened || has_unopened && !are_many;
        for (i, note) in self.notes.iter().enumerate().filter(|(_, note)| is_single(note)) {
            ui.horizontal_top(|ui| {
                if ui.button("Dismiss").clicked() {
                    closed = Some(i);
                }
                let path = note.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
                if note.kind == NoteKind::Consent
                    && ui.button("Open anyway").on_hover_text("Open it anyway, whatever memory it takes").clicked()
                {
                    (closed, agreed) = (Some(i), note.path.clone());
                }
                if note.kind != NoteKind::Info {
                    let text = format!("{}\n{path}", note.text);
                    if ui.button("Copy").on_hover_text("Copy this message").clicked() {
                        ui.ctx().copy_text(escape::lines(text.lines()));
                    }
                    if note.kind != NoteKind::Failed {
                        ui.colored_label(tokens.severity[2], "Not opened:");
                    }
                }
                ui.vertical(|ui| {
                    ui.add(egui::Label::new(&note.text).wrap());
                    ui.add(egui::Label::new(RichText::new(path).weak()).wrap());
                });
            });
        }
        if let Some(i) = closed {
            self.notes.remove(i);
        }
        if let Some(path) = agreed {
            self.open(path, Options { allow_any_ratio: true });
        }
    }

    /// The files that were not opened, in one line, and the reason of the last in the next.
    fn unopened_ui(&mut self, ui: &mut egui::Ui) {
        let name = |note: &Note| Some(note.path.as_ref()?.file_name()?.to_string_lossy().into_owned());
        let names: Vec<String> = self.unopened().filter_map(name).collect();
        let lines = self.unopened_lines();
        let listed = listed(&lines);
        let mut is_closed = false;
        ui.horizontal_top(|ui| {
            is_closed = ui.button("Dismiss all").clicked();
            if ui.button("Copy").on_hover_text("Copy these messages").clicked() {
                ui.ctx().copy_text(escape::lines(lines.iter().map(String::as_str)));
            }
            ui.colored_label(theme::tokens(ui.visuals().dark_mode).severity[2], "Not opened:");
            ui.vertical(|ui| {
                let text = format!("{} files: {}", format::count(lines.len() as u64), names.join(", "));
                ui.add(egui::Label::new(text).truncate().show_tooltip_when_elided(false)).on_hover_text(listed);
                // Why the one that was opened last was not.
                if let Some((name, last)) = names.last().zip(self.unopened().last()) {
                    ui.add(egui::Label::new(RichText::new(format!("{name}: {}", last.text)).weak()).wrap());
                }
            });
        });
        if is_closed {
            self.notes.retain(|note| note.kind != NoteKind::Unopened);
        }
    }
}

/// The first of some lines, and how many more there are.
fn listed(lines: &[String]) -> String {
    let n_more = lines.len().saturating_sub(MOST_LISTED);
    let more = (n_more > 0).then(|| format!("{} more", format::count(n_more as u64)));
    lines.iter().take(MOST_LISTED).cloned().chain(more).collect::<Vec<_>>().join("\n")
}
