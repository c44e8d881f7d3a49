//! Search for slices by name: a text field, a list, and a step to the next hit.

use std::sync::Arc;

use eframe::egui::{self, Key, Modifiers};
use egui_extras::{Column, TableBuilder};

use super::{Place, View, ViewContext, ViewSpec, has_slices};
use crate::analysis::search::search;
use crate::command::Command;
use crate::job::Memo;
use crate::model::{SliceId, TimeRange};
use crate::session::{OpenTrace, Selection, TraceKey};
use crate::widget::{format, text::display_name, theme};

/// How many slices are listed; all are counted.
const LIMIT: usize = 100_000;
const ROW_HEIGHT: f32 = 20.0;

type Hits = Vec<(usize, SliceId)>;

#[derive(Clone, Debug, Default, PartialEq)]
struct Question {
    traces: TraceKey,
    text: String,
    range: Option<TimeRange>,
}

#[derive(Debug, Default)]
struct Answer {
    total: u64,
    hits: Arc<Hits>,
}

/// In which part of the time slices are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scope {
    #[default]
    All,
    /// What the timeline shows.
    Visible,
    /// The selected time range; without one, everything.
    Range,
}

impl Scope {
    const CHOICES: [(Self, &str, &str); 3] = [
        (Self::All, "Everywhere", "Search all open traces from start to end"),
        (Self::Visible, "In view", "Search what the timeline shows; the list follows as it moves"),
        (Self::Range, "In the selected range", "Search the selected time range"),
    ];

    /// The scope that counts, given whether a range is selected.
    fn or_all(self, has_range: bool) -> Self {
        if self == Self::Range && !has_range { Self::All } else { self }
    }
}

/// Its row in the table of views.
pub const SPEC: ViewSpec = ViewSpec {
    id: "search",
    title: "Search results",
    help: "Show the list of slices that the search found",
    keys: &[],
    place: Place::Bottom,
    has_content: has_slices,
    make: || Box::new(Search::default()),
};

/// The search tab.
#[derive(Debug, Default)]
pub struct Search {
    text: String,
    scope: Scope,
    wants_focus: bool,
    question: Question,
    memo: Memo<Question, Answer>,
    total: u64,
    hits: Arc<Hits>,
    /// Index of the hit that was gone to last.
    current: Option<usize>,
    /// Whether the list is to be scrolled to it.
    is_moved: bool,
    /// Whether a range was selected in the last frame, and whether the one of this frame is the first.
    had_range: bool,
    is_first_range: bool,
}

impl Search {
    /// Takes the newest answer.
    fn take_answer(&mut self, ctx: &ViewContext<'_>, egui: &egui::Context) {
        let range = match self.scope {
            Scope::All => None,
            Scope::Visible => Some(ctx.navigation.visible()),
            Scope::Range => *ctx.range,
        };
        let question = Question { traces: TraceKey::new(ctx.traces), text: self.text.trim().to_owned(), range };
        if question.text.is_empty() || question.traces != self.question.traces {
            // Slices of other traces must not be on show for one frame.
            (self.total, self.hits, self.current) = (0, Arc::default(), None);
        }
        self.question = question;
        if self.question.text.is_empty() {
            return;
        }
        let waker = egui.clone();
        let (asked, open) = (self.question.clone(), ctx.traces.to_vec());
        let answer = self.memo.get(
            &self.question,
            move || waker.request_repaint(),
            move |progress| find(&open, &asked, &|| progress.is_cancelled()),
        );
        let Some(answer) = answer else { return };
        let (total, hits) = (answer.total, Arc::clone(&answer.hits));
        if self.memo.is_current(&self.question) && !Arc::ptr_eq(&hits, &self.hits) {
            // The hit one stands on stays the present one, wherever it is in the new list.
            let at = self.current.and_then(|current| self.hits.get(current));
            self.current = at.and_then(|at| hits.iter().position(|hit| hit == at));
            (self.total, self.hits) = (total, hits);
        }
    }

    fn is_searching(&self) -> bool {
        !self.question.text.is_empty()
            && !self.memo.is_current(&self.question)
            && !self.memo.has_crashed(&self.question)
    }

    fn go(&mut self, index: usize, ctx: &mut ViewContext<'_>) {
        if let Some(&(trace, slice)) = self.hits.get(index) {
            self.current = Some(index);
            self.is_moved = true;
            *ctx.selection = Selection::Slice { trace, slice };
            ctx.commands.push(Command::Reveal);
        }
    }

    /// The first hit that starts in or after what is on screen, else the first of all.
    fn first_ahead(&self, ctx: &ViewContext<'_>) -> usize {
        let start = ctx.navigation.visible().start;
        let is_before = |&(trace, slice): &(usize, SliceId)| {
            let open = ctx.traces.get(trace);
            open.is_some_and(|open| open.trace.slices.ts[slice.idx()].saturating_add(open.offset) < start)
        };
        let ahead = self.hits.partition_point(is_before);
        if ahead < self.hits.len() { ahead } else { 0 }
    }

    fn field_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            let label = ui.label("Find");
            let edit =
                egui::TextEdit::singleline(&mut self.text).hint_text("Part of a slice's name").desired_width(260.0);
            let edit = ui.add(edit).labelled_by(label.id);
            if std::mem::take(&mut self.wants_focus) {
                edit.request_focus();
            }
            if edit.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
                let is_back = ui.input(|input| input.modifiers == Modifiers::SHIFT);
                self.run_hidden(if is_back { &Command::PreviousHit } else { &Command::NextHit }, ctx);
                edit.request_focus();
            }
            for (scope, label, help) in Scope::CHOICES {
                let is_possible = scope.or_all(ctx.range.is_some()) == scope;
                let is_chosen = self.scope.or_all(ctx.range.is_some()) == scope;
                let choice = ui.add_enabled(is_possible, egui::Button::selectable(is_chosen, label));
                if choice.on_hover_text(help).on_disabled_hover_text("No time range is selected").clicked() {
                    self.scope = scope;
                }
            }
            let has_hits = !self.hits.is_empty();
            if ui
                .add_enabled(has_hits, egui::Button::new("Previous"))
                .on_hover_text("Previous hit (Shift+Enter)")
                .clicked()
            {
                self.run_hidden(&Command::PreviousHit, ctx);
            }
            if ui.add_enabled(has_hits, egui::Button::new("Next")).on_hover_text("Next hit (Enter)").clicked() {
                self.run_hidden(&Command::NextHit, ctx);
            }
            // The count belongs to the list, which stays until the next one is there.
            let is_searching = self.is_searching();
            if is_searching && self.hits.is_empty() {
                ui.weak("Searching…");
            } else if !self.question.text.is_empty() {
                ui.label(self.count_text());
            }
            if is_searching {
                ui.spinner();
            }
        });
    }

    /// `3 of 128`, or what else there is to say about the number of hits.
    fn count_text(&self) -> String {
        let total = format::count(self.total);
        let listed = self.hits.len() as u64;
        let cut = if listed < self.total { format!(", first {} listed", format::count(listed)) } else { String::new() };
        match (self.current, self.total) {
            _ if self.memo.has_crashed(&self.question) => "The search crashed. Please report it".to_owned(),
            (_, 0) => match (self.scope, self.question.range) {
                (Scope::Visible, _) => "No slice has such a name in view".to_owned(),
                (Scope::Range, Some(_)) => "No slice has such a name in the selected range".to_owned(),
                _ => "No slice has such a name".to_owned(),
            },
            (Some(current), _) => format!("{} of {total}{cut}", format::count(current as u64 + 1)),
            (None, 1) => "1 slice".to_owned(),
            (None, _) => format!("{total} slices{cut}"),
        }
    }

    fn table_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let mut table = TableBuilder::new(ui)
            .id_salt("hits")
            .striped(true)
            .sense(egui::Sense::click())
            .auto_shrink(false)
            .min_scrolled_height(0.0)
            .column(Column::remainder().at_least(160.0).clip(true))
            .column(Column::initial(200.0).resizable(true).clip(true))
            .column(Column::initial(110.0).resizable(true).clip(true))
            .column(Column::initial(100.0).clip(true));
        if std::mem::take(&mut self.is_moved)
            && let Some(current) = self.current
        {
            table = table.scroll_to_row(current, None);
        }
        let header = |mut row: egui_extras::TableRow<'_, '_>| {
            for title in ["Name", "Track", "Start", "Duration"] {
                row.col(|ui| {
                    ui.strong(title);
                });
            }
        };
        let mut clicked = None;
        let hits = Arc::clone(&self.hits);
        table.header(ROW_HEIGHT, header).body(|body| {
            body.rows(ROW_HEIGHT, hits.len(), |mut row| {
                let index = row.index();
                let Some(&(trace, slice)) = hits.get(index) else { return };
                let Some(open) = ctx.traces.get(trace) else { return };
                row.set_selected(*ctx.selection == Selection::Slice { trace, slice });
                let time = open.trace.slices.time(slice);
                let track = open.trace.track(open.trace.slices.track_of(slice));
                let cells = [
                    display_name(open.trace.slice_name(slice)).into_owned(),
                    track_title(ctx.traces, trace, &track.name),
                    format::moment(time.start.saturating_add(open.offset), 1),
                    format::duration(time.dur()),
                ];
                for cell in cells {
                    row.col(|ui| {
                        ui.add(egui::Label::new(cell).selectable(false).truncate());
                    });
                }
                if row.response().clicked() {
                    clicked = Some(index);
                }
            });
        });
        if let Some(index) = clicked {
            self.go(index, ctx);
        }
    }
}

/// The track's name; with several traces open, also which one.
pub(super) fn track_title(traces: &[OpenTrace], trace: usize, name: &str) -> String {
    let name = display_name(name.trim());
    match traces.get(trace).filter(|_| traces.len() > 1).map(|open| &open.trace.info) {
        Some(info) => match info.rank {
            Some(rank) => format!("{name}, rank {rank}"),
            None => format!("{name}, {}", info.title()),
        },
        None => name.into_owned(),
    }
}

fn find(traces: &[OpenTrace], question: &Question, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Answer {
    let mut total = 0;
    let mut hits = Vec::new();
    for (i, open) in traces.iter().enumerate() {
        let range = question.range.map(|range| range.shifted(open.offset.saturating_neg()));
        let found = search(&open.trace, &question.text, range, LIMIT, is_cancelled);
        total += found.total;
        hits.extend(found.slices.into_iter().map(|slice| (i, slice)));
    }
    if traces.len() > 1 {
        hits.sort_by_key(|&(i, slice): &(usize, SliceId)| {
            traces.get(i).map(|open| open.trace.slices.ts[slice.idx()].saturating_add(open.offset))
        });
        hits.truncate(LIMIT);
    }
    Answer { total, hits: Arc::new(hits) }
}

impl View for Search {
    fn update(&mut self, ctx: &mut ViewContext<'_>, egui: &egui::Context) {
        self.take_answer(ctx, egui);
        // Also while the tab is hidden, so that the timeline shows what was found.
        ctx.hits.clone_from(&self.hits);
        let has_range = ctx.range.is_some();
        self.is_first_range = has_range && !std::mem::replace(&mut self.had_range, has_range);
    }

    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.field_ui(ctx, ui);
        if self.text.trim().is_empty() {
            if self.is_first_range {
                // Whoever selects a range and searches for nothing wants to know what is in the range.
                ctx.commands.push(Command::Show(super::range_summary::SPEC.id));
            }
            let tokens = theme::tokens(ctx.is_dark);
            ui.colored_label(
                tokens.weak_text,
                "Type a part of a name, such as gemm or nccl. Enter goes to the next one",
            );
        } else {
            self.table_ui(ctx, ui);
        }
    }

    fn is_pending(&self) -> bool {
        self.is_searching()
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let len = self.hits.len();
        let index = match (command, self.current) {
            (Command::Search, _) => {
                self.wants_focus = true;
                ctx.commands.push(Command::Show(SPEC.id));
                return true;
            }
            (Command::NextHit | Command::PreviousHit, _) if len == 0 => return true,
            (Command::NextHit, Some(current)) => (current + 1) % len,
            (Command::PreviousHit, Some(current)) => (current + len - 1) % len,
            (Command::NextHit, None) => self.first_ahead(ctx),
            (Command::PreviousHit, None) => (self.first_ahead(ctx) + len - 1) % len,
            _ => return false,
        };
        self.go(index, ctx);
        true
    }
}
