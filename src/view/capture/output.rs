//! Output of the program, with a search; paints only visible lines.

use eframe::egui::{self, Label, RichText, ScrollArea, TextEdit, Ui};

use crate::capture::launch::{Output, OutputLine, Run, Stream};
use crate::figures::format;
use crate::widget::theme;

/// The lines that hold a text, found as they come.
#[derive(Debug, Default)]
pub struct OutputSearch {
    query: String,
    /// The query of `hits`, in lower case.
    searched: String,
    /// How many lines of the run were searched.
    n_seen: u64,
    /// Numbers of lines from the first of the run.
    hits: Vec<u64>,
}

impl OutputSearch {
    /// Begins anew, for another run.
    pub fn reset(&mut self) {
        *self = Self { query: std::mem::take(&mut self.query), ..Self::default() };
    }

    /// Searches the lines that came since the last frame; all kept ones after the query changed.
    fn follow(&mut self, output: &Output) {
        let query = self.query.to_lowercase();
        if query != self.searched {
            (self.searched, self.n_seen) = (query, 0);
            self.hits.clear();
        }
        let lines = output.lines();
        let first = output.n_lines - lines.len() as u64;
        self.hits.retain(|&line| line >= first);
        let start = self.n_seen.max(first);
        for (i, line) in lines.iter().enumerate().skip((start - first) as usize) {
            if line.text.to_lowercase().contains(&self.searched) {
                self.hits.push(first + i as u64);
            }
        }
        self.n_seen = output.n_lines;
    }

    /// Paints the search field and the output of a run.
    pub fn ui(&mut self, run: &Run, ui: &mut Ui) {
        let (n_lines, n_dropped) = run.with_output(|output| {
            self.follow(output);
            (output.n_lines, output.n_dropped)
        });
        ui.horizontal_wrapped(|ui| {
            ui.strong("Output");
            let edit =
                TextEdit::singleline(&mut self.query).id_salt("search output").hint_text("Search").desired_width(180.0);
            ui.add(edit).accessible_name("Search the output");
            let kept = n_lines - n_dropped;
            let plural = if n_lines == 1 { "" } else { "s" };
            ui.weak(match (self.searched.is_empty(), n_dropped) {
                (false, _) => format!("{} of {} lines", format::count(self.hits.len() as u64), format::count(kept)),
                (true, 0) => format!("{} line{plural}", format::count(n_lines)),
                (true, _) => format!("The last {} of {} lines", format::count(kept), format::count(n_lines)),
            });
            if ui.button("Copy").on_hover_text("Copy the kept output").clicked() {
                let text = run.with_output(|output| {
                    output.lines().iter().flat_map(|line| [line.text.as_str(), "\n"]).collect::<String>()
                });
                ui.ctx().copy_text(text);
            }
        });
        self.lines_ui(run, ui);
    }

    fn lines_ui(&self, run: &Run, ui: &mut Ui) {
        let is_filtered = !self.searched.is_empty();
        let height = ui.text_style_height(&egui::TextStyle::Monospace);
        let n_open = if is_filtered { 0 } else { run.with_output(|output| output.unfinished().count()) };
        let n = if is_filtered { self.hits.len() } else { run.with_output(|output| output.lines().len()) } + n_open;
        let error = theme::tokens(ui.visuals().dark_mode).severity[1];
        ScrollArea::both().id_salt("output").stick_to_bottom(true).auto_shrink(false).show_rows(
            ui,
            height,
            n,
            |ui, rows| {
                let shown: Vec<OutputLine> = run.with_output(|output| {
                    let lines = output.lines();
                    let first = output.n_lines - lines.len() as u64;
                    let at = |row: usize| match is_filtered {
                        true => lines.get(self.hits.get(row)?.checked_sub(first)? as usize).cloned(),
                        false => lines.get(row).cloned().or_else(|| output.unfinished().nth(row - lines.len())),
                    };
                    rows.filter_map(at).collect()
                });
                for line in shown {
                    let text = RichText::new(line.text).monospace();
                    let text = if line.stream == Stream::Err { text.color(error) } else { text };
                    ui.add(Label::new(text).extend());
                }
            },
        );
    }
}
