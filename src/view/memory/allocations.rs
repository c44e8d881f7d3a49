//! The table of allocations, filtered; its rows are linked with the picture of memory over time.

use std::sync::{Arc, Weak};

use eframe::egui::{self, ComboBox, Key, TextEdit};

use super::head;
use crate::analysis::memory::find::{Filter, Liveness, find, is_pattern, parse_bytes};
use crate::answers::memory::NamedPlaces;
use crate::answers::{Analysis, Query, Work};
use crate::command::{Command, ctrl};
use crate::figures::memory::AllocationRows;
use crate::figures::{format, moment};
use crate::model::DurNs;
use crate::model::memory::stream_name;
use crate::session::{OpenMemory, Selection, ShownMemory};
use crate::view::states::{answer_ui, nothing_ui};
use crate::view::tables::{Grid, range_switch_ui};
use crate::view::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::widget::busy::busy_ui;
use crate::widget::options::options_ui;
use crate::widget::table::Action;
use crate::widget::theme;

/// Height in which the filter and the buttons stand above the rows, in points; in less they are behind a button.
const LEAST_WITH_TOOLS: f32 = 170.0;

/// Finds the allocations that match a filter.
#[derive(Clone, Debug, PartialEq)]
struct Listed(Filter);

impl Analysis for Listed {
    type Of = OpenMemory;
    type Output = AllocationRows;
    const NAME: &'static str = "Listing the allocations";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<AllocationRows> {
        let ids = find(of.trace(), of.history(), &self.0, &|| work.is_cancelled());
        let of_stack = Arc::clone(&work.get(&of.open.trace, &NamedPlaces)?.of_stack);
        let open = &of.open;
        Some(AllocationRows::new(Arc::clone(&open.trace), of.memory, open.offset, ids, of_stack))
    }
}

/// The filter as the user typed and chose it.
#[derive(Debug, Default)]
struct Fields {
    stack: String,
    /// Whether `stack` is not a valid regular expression.
    is_stack_bad: bool,
    min_bytes: String,
    min_life: String,
    stream: Option<i64>,
    /// Index into [`CHOICES`].
    choice: usize,
    is_whole: bool,
    is_marked_only: bool,
}

/// Label and help of each choice of state.
const CHOICES: [(&str, &str); 7] = [
    ("In any state", "All allocations of the recording"),
    ("Live at the moment", "Live at the chosen moment"),
    ("Live at the end", "Not freed when the recording ended"),
    ("From before", "Allocated before the recording began"),
    ("Temporary", "Allocated and freed within the recording"),
    ("Allocated in the range", "Allocated within the selected time range; all without one"),
    ("Awaiting a stream", "Freed by the program, but held until a stream was done with it"),
];

/// The index of `Allocated in the range`.
const BORN_IN_RANGE: usize = 5;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "allocations",
    title: "Allocations",
    help: "List allocations of memory, filtered by stack, size, lifetime, stream and state",
    keys: &[ctrl(Key::Num7)],
    area: DockArea::Bottom,
    content: Content::Memory,
    make: || Box::new(AllocationsView::default()),
};

/// The view of allocations.
#[derive(Debug, Default)]
pub struct AllocationsView {
    fields: Fields,
    rows: Query<Listed>,
    grid: Grid<AllocationRows>,
    /// The selection and the rows for which the cursor was placed.
    followed: (Selection, Weak<AllocationRows>),
    is_waiting: bool,
}

impl View for AllocationsView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let Some(shown) = ctx.memory.resolve(ctx.traces) else {
            self.is_waiting = false;
            head::nothing_ui(ctx, ui);
            return;
        };
        let wanted = Listed(self.filter(&shown, ctx));
        // While the moment moves, the allocations of the previous moment stay.
        let is_near = |known: &Listed| match (known.0.liveness, wanted.0.liveness) {
            (Liveness::LiveIn(_), at @ Liveness::LiveIn(_)) => Filter { liveness: at, ..known.0.clone() } == wanted.0,
            _ => false,
        };
        let answer = self.rows.ask_in_turn(ctx.answers, &shown.of, &wanted, is_near);
        self.is_waiting = answer.is_working();
        match answer.newest() {
            Some(rows) => self.is_waiting |= self.grid.update(rows, ctx.answers),
            // Allocations of another history must not be shown for even one frame.
            None => self.grid.reset(),
        }
        self.grid.poll_text(ctx.commands, ui.ctx());
        self.head_ui(&shown, ctx, ui);
        if answer_ui(&answer, "Listing allocations…", ui).is_none() {
            return;
        }
        self.follow(&shown, ctx);
        let Some((rows, _)) = self.grid.shown() else { return };
        if rows.ids.is_empty() {
            nothing_ui("No matching allocations", "Relax the conditions above", ui);
            return;
        }
        match self.grid.ui("Allocations", Some("Show in the picture"), ui) {
            Some(Action::Select(row)) => self.select(&rows, row, &shown, ctx),
            Some(Action::Open(row)) => {
                self.select(&rows, row, &shown, ctx);
                ctx.commands.extend([Command::Show(super::OVER_TIME.id), Command::FocusSelection]);
            }
            _ => {}
        }
    }

    fn follows_range(&self) -> bool {
        true
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        match command {
            &Command::ListAllocations(range) => {
                *ctx.range = Some(range);
                self.look_in_range();
            }
            Command::FindAllocations(text) => {
                self.fields = Fields { stack: text.clone(), is_stack_bad: !is_pattern(text), ..Fields::default() };
            }
            _ => return false,
        }
        ctx.commands.push(Command::Show(SPEC.id));
        true
    }

    fn subject(&self, ctx: &mut ViewContext<'_>) -> Option<String> {
        head::shown_title(ctx)
    }
}

impl AllocationsView {
    /// Lists what was allocated in the selected range, and resets all other conditions.
    pub fn look_in_range(&mut self) {
        self.fields = Fields { choice: BORN_IN_RANGE, ..Fields::default() };
    }

    fn filter(&self, shown: &ShownMemory, ctx: &ViewContext<'_>) -> Filter {
        let fields = &self.fields;
        let history = shown.history();
        let life = match history.has_time {
            true => moment::parse(&fields.min_life, "ms"),
            false => fields.min_life.trim().parse::<DurNs>().ok(),
        };
        let moment = ctx.memory.moment.unwrap_or(history.last_state());
        let wanted = [
            Liveness::Any,
            Liveness::LiveIn(moment),
            Liveness::LiveAtEnd,
            Liveness::FromBefore,
            Liveness::FreedWithin,
            Liveness::BornInRange,
            Liveness::AwaitingFree,
        ];
        let range = ctx.range.filter(|_| !fields.is_whole);
        Filter {
            stack: fields.stack.trim().to_owned(),
            bytes: (parse_bytes(&fields.min_bytes).unwrap_or(0), u64::MAX),
            life: (life.unwrap_or(0), DurNs::MAX),
            stream: fields.stream.filter(|stream| history.pools.iter().any(|pool| pool.stream == *stream)),
            category: None,
            liveness: wanted[fields.choice],
            range: range.map(|range| range.shifted(shown.open.offset.saturating_neg())),
            among: Some(Arc::clone(&ctx.memory.marked)).filter(|marked| fields.is_marked_only && !marked.is_empty()),
        }
    }

    fn select(&mut self, rows: &AllocationRows, row: usize, shown: &ShownMemory, ctx: &mut ViewContext<'_>) {
        if let Some(&id) = rows.ids.get(row) {
            *ctx.selection = shown.selection(id);
            self.followed.0 = *ctx.selection;
        }
    }

    /// Moves the cursor to the selected allocation after the selection or the rows changed.
    fn follow(&mut self, shown: &ShownMemory, ctx: &ViewContext<'_>) {
        let Some((rows, _)) = self.grid.shown() else { return };
        let (selection, known) = std::mem::replace(&mut self.followed, (*ctx.selection, Arc::downgrade(&rows)));
        if selection == *ctx.selection && std::ptr::eq(known.as_ptr(), Arc::as_ptr(&rows)) {
            return;
        }
        match shown.selected(*ctx.selection).and_then(|id| rows.row_of(id)) {
            Some(row) => self.grid.go(row),
            None => self.grid.leave(),
        }
    }

    fn head_ui(&mut self, shown: &ShownMemory, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let (listed, _) = self.grid.counts();
        // Where lines are few, the rows have them.
        let is_small = ui.available_width() < head::SMALL[0] || ui.available_height() < LEAST_WITH_TOOLS;
        ui.horizontal_wrapped(|ui| {
            if is_small {
                options_ui("Options", ui, |ui| {
                    self.filter_ui(shown, ctx, ui);
                    self.buttons_ui(listed > 0, ctx, ui);
                });
            } else {
                self.filter_ui(shown, ctx, ui);
            }
            let bytes = self.grid.shown().map_or(0, |(rows, _)| rows.bytes);
            let all = shown.history().n_blocks() as u64;
            let of = if listed == all { String::new() } else { format!(" of {}", format::count(all)) };
            ui.label(format!("{}{of} allocations, {}", format::count(listed), format::bytes(bytes as f64)));
            if self.is_waiting {
                busy_ui(ui);
            }
            if !is_small {
                self.buttons_ui(listed > 0, ctx, ui);
            }
        });
    }

    fn filter_ui(&mut self, shown: &ShownMemory, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let history = shown.history();
        let life_hint = if history.has_time { "10 ms" } else { "100" };
        let fields = &mut self.fields;
        let is_bad = |text: &str, parsed: bool| !text.trim().is_empty() && !parsed;
        if field_ui(ui, "Stack", &mut fields.stack, "Regular expression", 180.0, fields.is_stack_bad) {
            fields.is_stack_bad = !is_pattern(fields.stack.trim());
        }
        let bad_bytes = is_bad(&fields.min_bytes, parse_bytes(&fields.min_bytes).is_some());
        field_ui(ui, "Size from", &mut fields.min_bytes, "1 MiB", 64.0, bad_bytes);
        let parsed = match history.has_time {
            true => moment::parse(&fields.min_life, "ms").is_some(),
            false => fields.min_life.trim().parse::<DurNs>().is_ok(),
        };
        let label = if history.has_time { "Lifetime from" } else { "Lifetime in events from" };
        let bad_life = is_bad(&fields.min_life, parsed);
        field_ui(ui, label, &mut fields.min_life, life_hint, 64.0, bad_life);
        self.choices_ui(ctx, ui);
    }

    fn choices_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let fields = &mut self.fields;
        let combo = ComboBox::from_id_salt("state of allocations").selected_text(CHOICES[fields.choice].0);
        let combo = combo.width(130.0).show_ui(ui, |ui| {
            for (i, (label, help)) in CHOICES.iter().enumerate() {
                ui.selectable_value(&mut fields.choice, i, *label).on_hover_text(*help);
            }
        });
        combo.response.accessible_name("State of allocations");
        // Computed with the rows, since a program may have thousands of streams.
        let rows = self.grid.shown();
        let streams = rows.as_ref().map_or(&[][..], |(rows, _)| &rows.streams);
        if streams.len() > 1 {
            let text = |stream: Option<i64>| {
                stream.map_or("All streams".to_owned(), |stream| format!("Stream {}", stream_name(stream)))
            };
            let combo = ComboBox::from_id_salt("stream of allocations").selected_text(text(fields.stream));
            let combo = combo.show_ui(ui, |ui| {
                for stream in std::iter::once(None).chain(streams.iter().copied().map(Some)) {
                    ui.selectable_value(&mut fields.stream, stream, text(stream));
                }
            });
            combo.response.accessible_name("Stream of allocations");
        }
        if ctx.range.is_some() {
            range_switch_ui(&mut fields.is_whole, "List what is live at any moment of the selected range", ctx, ui);
        }
        let has_marked = !ctx.memory.marked.is_empty();
        ui.add_enabled(has_marked, egui::Checkbox::new(&mut fields.is_marked_only, "Highlighted only"))
            .on_hover_text("List only what is highlighted in the picture")
            .on_disabled_hover_text("Nothing is highlighted in the picture");
    }

    fn buttons_ui(&mut self, has_rows: bool, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let hint = "Highlight these allocations in the picture of memory over time";
        if ui.add_enabled(has_rows, egui::Button::new("Highlight")).on_hover_text(hint).clicked() {
            if let Some((rows, _)) = self.grid.shown() {
                ctx.memory.marked = Arc::clone(&rows.ids);
            }
            ctx.commands.push(Command::Show(super::OVER_TIME.id));
        }
        head::highlight_ui(ctx, ui);
        self.grid.buttons_ui("Allocations", ui);
    }
}

/// A labelled text field, red if its text is invalid. Returns whether the text changed.
fn field_ui(ui: &mut egui::Ui, label: &str, text: &mut String, hint: &str, width: f32, is_bad: bool) -> bool {
    let name = ui.label(label);
    let mut edit = TextEdit::singleline(text).id_salt(label).hint_text(hint).desired_width(width);
    if is_bad {
        edit = edit.text_color(theme::tokens(ui.visuals().dark_mode).severity[2]);
    }
    let edit = ui.add(edit).labelled_by(name.id);
    let is_changed = edit.changed();
    if is_bad {
        let help = match label {
            "Stack" => "Not a valid regular expression: searched for as plain text".to_owned(),
            _ => format!("Not understood, so it is ignored. Example: {hint}"),
        };
        edit.on_hover_text(help);
    }
    is_changed
}
