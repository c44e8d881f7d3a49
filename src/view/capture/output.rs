//! Output of a program, with a search; paints only visible lines.

mod found;

use eframe::egui::text::{LayoutJob, TextFormat};
use eframe::egui::{Button, Key, Label, ScrollArea, TextEdit, TextStyle, Ui};

use self::found::{found_in, is_in};
use crate::capture::launch::{Output, OutputLine, Run, Stream};
use crate::figures::format;
use crate::widget::theme;

/// Bytes of output that are searched in a frame; what is kept may be some megabytes.
const MAX_SEARCHED: usize = 512 << 10;

/// Whose output is shown.
pub enum Source<'a> {
    /// Of a run of this window, which may go on.
    Run(&'a Run),
    /// As the folder of a run keeps it.
    Kept(&'a Output),
}

impl Source<'_> {
    fn with<T>(&self, look: impl FnOnce(&Output) -> T) -> T {
        match self {
            Self::Run(run) => run.with_output(look),
            Self::Kept(output) => look(output),
        }
    }
}

/// The lines that hold a text, found as they come, and the one that was gone to.
#[derive(Debug, Default)]
pub struct OutputSearch {
    query: String,
    /// The query of `hits`, in lower case.
    searched: String,
    /// How many lines of the run were searched.
    n_seen: u64,
    /// Numbers of lines from the first of the run.
    hits: Vec<u64>,
    /// One of them.
    current: Option<u64>,
    /// Whether that one is to be brought into view.
    is_to_go: bool,
}

impl OutputSearch {
    /// Begins anew, for another run: a search in the last one does not keep the new lines out of view.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Searches lines that were not searched yet, a bounded part of them; all kept ones after the query changed.
    /// Whether more are left.
    fn follow(&mut self, output: &Output) -> bool {
        let query = self.query.to_lowercase();
        if query != self.searched {
            (self.searched, self.n_seen, self.current) = (query, 0, None);
            self.hits.clear();
        }
        let lines = output.lines();
        let first = output.n_lines - lines.len() as u64;
        if self.searched.is_empty() {
            return false;
        }
        self.hits.retain(|&line| line >= first);
        let mut left = MAX_SEARCHED;
        self.n_seen = self.n_seen.max(first);
        for line in lines.range((self.n_seen - first) as usize..) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(line.text.len() + 1);
            if is_in(&line.text, &self.searched) {
                self.hits.push(self.n_seen);
            }
            self.n_seen += 1;
        }
        self.current = self.current.filter(|&line| line >= first);
        if self.current.is_none() && !self.hits.is_empty() {
            (self.current, self.is_to_go) = (self.hits.first().copied(), true);
        }
        self.n_seen < output.n_lines
    }

    /// The place of the line that was gone to among the hits.
    fn place(&self) -> Option<usize> {
        self.hits.binary_search(&self.current?).ok()
    }

    /// Goes to the next hit, or the one before; after the last comes the first.
    fn step(&mut self, is_back: bool) {
        let n = self.hits.len();
        let Some(place) = self.place() else { return };
        self.current = Some(self.hits[if is_back { place + n - 1 } else { place + 1 } % n]);
        self.is_to_go = true;
    }

    /// Paints the search field and the output.
    pub fn ui(&mut self, source: &Source<'_>, ui: &mut Ui) {
        let (n_lines, n_dropped, is_more) =
            source.with(|output| (output.n_lines, output.n_dropped, self.follow(output)));
        if is_more {
            ui.ctx().request_repaint();
        }
        ui.horizontal_wrapped(|ui| {
            ui.strong("Output");
            self.field_ui(is_more, ui);
            let kept = n_lines - n_dropped;
            let plural = if n_lines == 1 { "" } else { "s" };
            ui.weak(match n_dropped {
                0 => format!("{} line{plural}", format::count(n_lines)),
                _ => format!("The last {} of {} lines", format::count(kept), format::count(n_lines)),
            });
            if ui.button("Copy").on_hover_text("Copy the kept output").clicked() {
                ui.ctx().copy_text(source.with(Output::text));
            }
        });
        self.lines_ui(source, ui);
    }

    fn field_ui(&mut self, is_more: bool, ui: &mut Ui) {
        let edit =
            TextEdit::singleline(&mut self.query).id_salt("search output").hint_text("Search").desired_width(180.0);
        let edit = ui.add(edit).accessible_name("Search the output");
        if edit.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
            self.step(ui.input(|input| input.modifiers.shift));
            edit.request_focus();
        }
        if self.searched.is_empty() {
            return;
        }
        let has_hits = !self.hits.is_empty();
        for (name, help, is_back) in [
            ("Previous", "The line before that has this text (Shift+Enter)", true),
            ("Next", "The next line that has this text (Enter)", false),
        ] {
            if ui.add_enabled(has_hits, Button::new(name)).on_hover_text(help).clicked() {
                self.step(is_back);
            }
        }
        let n = format::count(self.hits.len() as u64);
        let count = match self.place() {
            Some(place) => format!("{} of {n}", format::count(place as u64 + 1)),
            None if is_more => "Searching…".to_owned(),
            None => "No match".to_owned(),
        };
        ui.label(count).on_hover_text("Lines that have this text");
    }

    fn lines_ui(&mut self, source: &Source<'_>, ui: &mut Ui) {
        let height = ui.text_style_height(&TextStyle::Monospace);
        let (first, n) = source.with(|output| {
            let n = output.lines().len();
            (output.n_lines - n as u64, n + output.unfinished().count())
        });
        // What was found stays in view while more comes.
        let mut area = ScrollArea::both().id_salt("output").stick_to_bottom(self.current.is_none()).auto_shrink(false);
        if let Some(line) = self.current.filter(|_| std::mem::take(&mut self.is_to_go)) {
            let top = line.saturating_sub(first) as f32 * (height + ui.spacing().item_spacing.y);
            area = area.vertical_scroll_offset((top - (ui.available_height() - height) / 2.0).max(0.0));
        }
        let shown = area.show_rows(ui, height, n, |ui, rows| {
            let lines: Vec<(u64, OutputLine)> = source.with(|output| {
                let lines = output.lines();
                let at = |row: usize| lines.get(row).cloned().or_else(|| output.unfinished().nth(row - lines.len()));
                rows.filter_map(|row| Some((first + row as u64, at(row)?))).collect()
            });
            for (number, line) in lines {
                ui.add(Label::new(self.line(number, &line, ui)).extend());
            }
        });
        // It keeps the wheel, also at its ends: else what it lies in would scroll on, and it would leave the pointer.
        let is_longer = shown.content_size.y > shown.inner_rect.height();
        if is_longer && ui.rect_contains_pointer(shown.inner_rect) {
            ui.input_mut(|input| input.smooth_scroll_delta.y = 0.0);
        }
    }

    /// A line with what was found in it.
    fn line(&self, number: u64, line: &OutputLine, ui: &Ui) -> LayoutJob {
        let tokens = theme::tokens(ui.visuals().dark_mode);
        let color = if line.stream == Stream::Err { tokens.severity[1] } else { tokens.text };
        let plain = TextFormat::simple(TextStyle::Monospace.resolve(ui.style()), color);
        let is_current = self.current == Some(number);
        let background = if is_current { tokens.accent.gamma_multiply(0.55) } else { tokens.selected };
        let color = if is_current { tokens.strong_text } else { color };
        let found = TextFormat { background, color, ..plain.clone() };
        let (mut job, mut at) = (LayoutJob::default(), 0);
        for range in found_in(&line.text, &self.searched) {
            job.append(&line.text[at..range.start], 0.0, plain.clone());
            job.append(&line.text[range.clone()], 0.0, found.clone());
            at = range.end;
        }
        job.append(&line.text[at..], 0.0, plain);
        job
    }
}
