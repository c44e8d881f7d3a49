//! Idle time of devices: lists of gaps, of what went on in them and of clusters, and the page of one gap.

mod facts;
mod late;
mod list;
mod page;
mod summary;
#[cfg(test)]
mod tests;
mod waterfall;

use std::sync::{Arc, Weak};

use eframe::egui::{self, ComboBox, Key, RichText, TextEdit, TextWrapMode};

use self::list::{ByClass, ByCluster, GapFilter, GapTable, Listed, Listing};
pub use self::page::GapPage;
pub use self::summary::{MAX_NAME, classes_ui, gap_summary_ui};
use super::states::{answer_ui, nothing_ui};
use super::tables::{Answer as Table, Grid, Many, file_switch_ui, range_switch_ui};
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::analysis::gaps::GapClass;
use crate::answers::Query;
use crate::command::{Command, ctrl};
use crate::figures::gap_rows::{GapRow, GapRows};
use crate::figures::verdicts::LACKS_EVENTS;
use crate::figures::{format, moment};
use crate::model::{ProcessId, Trace};
use crate::session::{GapOrder, Selection, track_title};
use crate::widget::busy::busy_ui;
use crate::widget::gap_color::swatch_ui;
use crate::widget::prose::{plain, prose_ui};
use crate::widget::table::Action;
use crate::widget::together::together_ui;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "gaps",
    title: "Gaps",
    help: "Show where devices wait, why, and which gaps recur",
    keys: &[ctrl(Key::G)],
    area: DockArea::Bottom,
    content: Content::Slices,
    make: || Box::new(GapsView::default()),
};

/// What the idle time of this view is.
const IDLE: &str = "All time of the listed devices in which nothing ran, from their first work to their last or within \
                    the selected range. The overview counts only the judged steps";

/// What is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Gaps,
    Clusters,
    Meanwhile,
}

const WAYS: [(Way, &str, &str); 3] = [
    (Way::Gaps, "Gaps", "Every gap, the longest first"),
    (Way::Clusters, "Clusters", "Gaps between the same work while the same went on, by time per step"),
    (
        Way::Meanwhile,
        "By what went on meanwhile",
        "All idle time of the recording or of the selected range, by what the host did meanwhile. That tells not \
         always what would end it: the overview lists that, of the judged steps",
    ),
];

const ORDERS: [(GapOrder, &str, &str); 2] = [
    (GapOrder::Duration, "longest first", "G and Shift+G go from gap to gap by duration, in the judged steps first"),
    (GapOrder::Time, "along time", "G and Shift+G go from gap to gap in the order of time"),
];

/// The filter as typed and chosen.
#[derive(Debug)]
struct Fields {
    text: String,
    min: String,
    device: Option<(usize, ProcessId)>,
    class: Option<GapClass>,
    /// Whether the whole trace counts although a range is selected.
    is_whole: bool,
}

impl Default for Fields {
    fn default() -> Self {
        Self { text: String::new(), min: "10 µs".to_owned(), device: None, class: None, is_whole: false }
    }
}

/// The gaps view.
#[derive(Debug, Default)]
pub struct GapsView {
    way: Way,
    fields: Fields,
    /// In which order keys go from gap to gap; kept between runs.
    order: GapOrder,
    listed: Query<Listed>,
    grid: Grid<GapRows>,
    by_class: Query<ByClass>,
    by_cluster: Query<ByCluster>,
    table: Grid<Table>,
    /// The selection and the rows for which the cursor was placed.
    followed: (Selection, Weak<GapRows>),
    is_waiting: bool,
}

impl View for GapsView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        let has_device = |trace: &Trace| trace.processes.iter().any(|process| process.device.is_some());
        if !ctx.traces.iter().any(|open| has_device(&open.trace)) {
            nothing_ui("No GPU work recorded", "Without it there are no gaps to show", ui);
            return;
        }
        if self.fields.device.is_some_and(|(trace, process)| {
            !ctx.files.of(SPEC.id).has(trace)
                || ctx.traces.get(trace).is_none_or(|open| process.0 as usize >= open.trace.processes.len())
        }) {
            self.fields.device = None;
        }
        match self.way {
            Way::Gaps => self.gaps_ui(ctx, ui),
            Way::Clusters => {
                let answer = self.by_cluster.ask(ctx.answers, ctx.traces, &ByCluster(self.filter(ctx)));
                self.table_ui(&answer, "Clusters of gaps", ctx, ui);
            }
            Way::Meanwhile => {
                let filter = GapFilter { words: Vec::new(), class: None, min_ns: 0, ..self.filter(ctx) };
                let answer = self.by_class.ask(ctx.answers, ctx.traces, &ByClass(filter));
                self.table_ui(&answer, "Idle time by what went on meanwhile", ctx, ui);
            }
        }
    }

    fn follows_range(&self) -> bool {
        true
    }

    fn update(&mut self, ctx: &mut ViewContext<'_>, _: &egui::Context) {
        *ctx.gap_order = self.order;
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }

    fn save(&self) -> serde_json::Value {
        serde_json::to_value(self.order).unwrap_or_default()
    }

    fn load(&mut self, saved: &serde_json::Value) {
        self.order = serde_json::from_value(saved.clone()).unwrap_or_default();
    }
}

impl GapsView {
    fn filter(&self, ctx: &ViewContext<'_>) -> GapFilter {
        GapFilter {
            steps: ctx.steps_of_all(),
            words: self.fields.text.split_whitespace().map(str::to_lowercase).collect(),
            min_ns: moment::parse(&self.fields.min, "ms").unwrap_or(0),
            device: self.fields.device,
            files: ctx.files.of(SPEC.id),
            class: self.fields.class,
            range: ctx.range.filter(|_| !self.fields.is_whole),
        }
    }

    fn gaps_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let answer = self.listed.ask(ctx.answers, ctx.traces, &Listed(self.filter(ctx)));
        self.is_waiting = answer.is_working();
        match answer.newest() {
            Some(listing) => self.is_waiting |= self.grid.update(&listing.rows, ctx.answers),
            // Gaps of other traces must not be shown for even one frame.
            None => self.grid.reset(),
        }
        self.grid.poll_text(ctx.commands, ui.ctx());
        let newest = answer.newest();
        self.head_ui(
            newest.map(|listing| &**listing),
            newest.is_some_and(|listing| listing.whole.lacks_events),
            ctx,
            ui,
        );
        if answer_ui(&answer, "Looking for gaps…", ui).is_none() {
            return;
        }
        self.follow(ctx);
        let Some((rows, _)) = self.grid.shown() else { return };
        if rows.gaps.is_empty() {
            nothing_ui("No matching gaps", "Relax the conditions above, or press Escape to clear the range", ui);
            return;
        }
        match self.grid.ui("Gaps", Some("Show in the timeline"), ui) {
            Some(Action::Select(row)) => self.select(&rows, row, ctx),
            Some(Action::Open(row)) => {
                self.select(&rows, row, ctx);
                ctx.commands.extend([Command::Show(super::timeline::SPEC.id), Command::FocusSelection]);
            }
            _ => {}
        }
    }

    fn select(&mut self, rows: &GapRows, row: usize, ctx: &mut ViewContext<'_>) {
        let Some(&GapRow { device, gap }) = rows.gaps.get(row) else { return };
        let device = &rows.devices[device as usize];
        let (ledger, trace) = (device.ledger(), device.index);
        *ctx.selection = Selection::Gap { trace, process: ledger.process, time: ledger.time(gap as usize) };
        self.followed.0 = *ctx.selection;
        ctx.commands.push(Command::Reveal);
    }

    /// Moves the cursor to the selected gap after the selection or the rows changed.
    fn follow(&mut self, ctx: &ViewContext<'_>) {
        let Some((rows, _)) = self.grid.shown() else { return };
        let (selection, known) = std::mem::replace(&mut self.followed, (*ctx.selection, Arc::downgrade(&rows)));
        if selection == *ctx.selection && std::ptr::eq(known.as_ptr(), Arc::as_ptr(&rows)) {
            return;
        }
        let Selection::Gap { trace, process, time } = *ctx.selection else { return self.grid.leave() };
        let row = rows.devices.iter().zip(0..).find_map(|(device, number)| {
            let ledger = device.ledger();
            let gap = ledger.at(time.start).filter(|_| device.index == trace && ledger.process == process)?;
            rows.row_of(GapRow { device: number, gap: gap as u32 })
        });
        match row {
            Some(row) => self.grid.go(row),
            None => self.grid.leave(),
        }
    }

    /// A table of clusters or of what went on: a row shows its longest gap, and opened lists the gaps in which that went
    /// on.
    fn table_ui(
        &mut self,
        answer: &crate::answers::Answer<GapTable>,
        name: &str,
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) {
        self.is_waiting = answer.is_working();
        match answer.newest() {
            Some(found) => self.is_waiting |= self.table.update(&found.table, ctx.answers),
            None => self.table.reset(),
        }
        self.table.poll_text(ctx.commands, ui.ctx());
        self.head_ui(None, answer.newest().is_some_and(|found| found.lacks_events), ctx, ui);
        let Some(found) = answer_ui(answer, "Adding up…", ui) else { return };
        if found.gaps.is_empty() {
            nothing_ui("No matching idle time", "Relax the conditions above, or press Escape to clear the range", ui);
            return;
        }
        let open =
            if self.way == Way::Meanwhile { "List the gaps in which this went on" } else { "Show in the timeline" };
        let is_shown = self.table.shown().is_some_and(|(shown, _)| Arc::ptr_eq(&shown, &found.table));
        match self.table.ui(name, Some(open), ui).filter(|_| is_shown) {
            Some(Action::Select(row)) => {
                *ctx.selection = found.gaps.get(row).copied().unwrap_or_default();
                ctx.commands.push(Command::Reveal);
            }
            Some(Action::Open(row)) if self.way == Way::Meanwhile => {
                (self.way, self.fields.class) = (Way::Gaps, found.classes.get(row).copied());
            }
            Some(Action::Open(row)) => {
                *ctx.selection = found.gaps.get(row).copied().unwrap_or_default();
                ctx.commands.extend([Command::Show(super::timeline::SPEC.id), Command::FocusSelection]);
            }
            _ => {}
        }
    }

    fn head_ui(&mut self, listing: Option<&Listing>, lacks_events: bool, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            // In a narrow panel lines break between controls, not within their texts.
            ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
            for (way, label, help) in WAYS {
                if ui.selectable_label(self.way == way, label).on_hover_text(help).clicked() && self.way != way {
                    self.way = way;
                    self.table.reset();
                }
            }
            ui.separator();
            let many = if self.way == Way::Meanwhile { Many::Rows } else { Many::Devices };
            file_switch_ui(SPEC.id, many, ctx, ui);
            range_switch_ui(&mut self.fields.is_whole, "List gaps that overlap the selected range", ctx, ui);
            ui.separator();
            if self.way != Way::Meanwhile {
                self.filter_ui(ui);
            }
            self.device_ui(ctx, ui);
            together_ui("order", ui, |ui| {
                ui.label("G goes");
                for (order, label, help) in ORDERS {
                    ui.selectable_value(&mut self.order, order, label).on_hover_text(help);
                }
            });
            self.copy_ui(ui);
            if self.is_waiting {
                busy_ui(ui);
            }
            self.grid.sorting_ui(ui);
        });
        if lacks_events {
            ui.label(RichText::new(LACKS_EVENTS).color(ui.visuals().warn_fg_color));
        }
        if let Some(listing) = listing {
            let of = if ctx.range.is_some() && !self.fields.is_whole { "Selected range" } else { "Whole trace" };
            totals_ui(listing, of, ui);
        }
    }

    fn filter_ui(&mut self, ui: &mut egui::Ui) {
        let hint = "Name, operator, frame…";
        let field =
            TextEdit::singleline(&mut self.fields.text).id_salt("filter gaps").hint_text(hint).desired_width(170.0);
        ui.add(field).accessible_name("Filter gaps");
        together_ui("from", ui, |ui| {
            let label = ui.label("From");
            let min = TextEdit::singleline(&mut self.fields.min).id_salt("shortest gap").hint_text("10 µs");
            ui.add(min.desired_width(54.0))
                .labelled_by(label.id)
                .on_hover_text("Minimum duration of listed gaps, such as 10 µs; empty for all");
        });
        let text = self.fields.class.map_or("Anything meanwhile", GapClass::label);
        let combo = ComboBox::from_id_salt("what went on in gaps").selected_text(text).width(120.0);
        let combo = combo.show_ui(ui, |ui| {
            ui.selectable_value(&mut self.fields.class, None, "Anything meanwhile");
            for class in GapClass::ALL {
                ui.horizontal(|ui| {
                    swatch_ui(class, ui);
                    ui.selectable_value(&mut self.fields.class, Some(class), class.label());
                });
            }
        });
        combo.response.accessible_name("What went on in gaps").on_hover_text("List only gaps in which this went on");
    }

    fn device_ui(&mut self, ctx: &ViewContext<'_>, ui: &mut egui::Ui) {
        let of_trace = |(index, open): (usize, &crate::session::OpenTrace)| {
            let devices =
                (0..).map(ProcessId).zip(&open.trace.processes).filter(|(_, process)| process.device.is_some());
            let title = |process: ProcessId| track_title(ctx.traces, index, &open.trace.process(process).title());
            devices.map(|(process, _)| ((index, process), title(process))).collect::<Vec<_>>()
        };
        // As many as there are processes, of which there are few.
        let is_listed = |trace: &(usize, &crate::session::OpenTrace)| ctx.files.of(SPEC.id).has(trace.0);
        let devices: Vec<_> = ctx.traces.iter().enumerate().filter(is_listed).flat_map(of_trace).collect();
        if devices.len() < 2 {
            return;
        }
        let chosen = devices.iter().find(|device| Some(device.0) == self.fields.device);
        let text = chosen.map_or("All devices", |device| &device.1);
        let combo = ComboBox::from_id_salt("device of gaps").selected_text(text).show_ui(ui, |ui| {
            ui.selectable_value(&mut self.fields.device, None, "All devices");
            for (device, title) in &devices {
                ui.selectable_value(&mut self.fields.device, Some(*device), title);
            }
        });
        combo.response.accessible_name("Device of gaps");
    }

    fn copy_ui(&mut self, ui: &mut egui::Ui) {
        let is_gaps = self.way == Way::Gaps;
        if is_gaps { self.grid.buttons_ui("Gaps", ui) } else { self.table.buttons_ui("Gap table", ui) }
    }
}

/// What is listed beside all idle time, and how much of that is explained.
///
/// * `of`: the time that counts.
fn totals_ui(listing: &Listing, of: &str, ui: &mut egui::Ui) {
    let (rows, whole) = (&listing.rows, listing.whole);
    let share = |part: i64, of: i64| format!("{:.1} %", part as f64 / of.max(1) as f64 * 100.0);
    ui.horizontal_wrapped(|ui| {
        let n = format::count(rows.gaps.len() as u64);
        let listed = format!("{n} of {} gaps, {}", format::count(whole.gaps), format::duration(listing.listed_ns));
        prose_ui(ui, &listed, plain)
            .on_hover_text("Only the part of a gap within the selected range counts here. The list has full durations");
        let idle = format!(
            "{of}: idle {} of {}, {}",
            format::duration(whole.idle_ns),
            format::duration(whole.window_ns),
            share(whole.idle_ns, whole.window_ns)
        );
        prose_ui(ui, &idle, RichText::weak).on_hover_text(IDLE);
        let [operator, frame] = whole.known_ns.map(|ns| share(ns, whole.idle_ns));
        let known = format!("operator known {operator}, frame known {frame}");
        prose_ui(ui, &known, RichText::weak).on_hover_text(
            "Share of this idle time at which the recording has an operator, or a Python frame of the program",
        );
    });
}
