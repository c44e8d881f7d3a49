//! Why did reserved memory grow, and why was there too little?

use std::sync::Arc;

use eframe::egui::{self, CentralPanel, Frame, Panel, RichText};

use super::head;
use super::head::state_text;
use crate::analysis::memory::labels::stack_labels;
use crate::analysis::memory::live::Group;
use crate::analysis::memory::oom::{OomCard, cards};
use crate::analysis::memory::reserved::{Cause, Growth, Pins, growth, pins};
use crate::analysis::memory::signature::Signatures;
use crate::command::Command;
use crate::job::{Memo, Progress};
use crate::model::StringId;
use crate::model::memory::stream_name;
use crate::session::{MemoryKey, OpenMemory, ShownMemory};
use crate::view::tables::{Answer as Table, Grid};
use crate::view::{Place, View, ViewContext, ViewSpec, has_memory};
use crate::widget::table::{Action, Cell, Column, Data};
use crate::widget::text::display_name;
use crate::widget::{format, theme};

/// Stacks named on a card, and blocks named beside a row.
const MAX_NAMED: usize = 12;
/// A program that catches the error and tries again may run out of memory thousands of times.
const MAX_CARDS: usize = 50;

#[derive(Debug)]
struct Answer {
    of: OpenMemory,
    growth: Vec<Growth>,
    /// How often reserved memory grew for each cause, and by how much in all.
    sums: Vec<(Cause, u64, u64)>,
    cards: Vec<OomCard>,
    signatures: Signatures,
    labels: Vec<StringId>,
    table: Arc<Table>,
}

/// Its row in the table of views.
pub const SPEC: ViewSpec = ViewSpec {
    id: "reserved",
    title: "Reserved and out of memory",
    help: "Show why reserved memory grew, and why there was too little",
    keys: &[],
    place: Place::Bottom,
    has_content: has_memory,
    make: || Box::new(ReservedView::default()),
};

/// The tab of reserved memory.
#[derive(Debug, Default)]
pub struct ReservedView {
    memo: Memo<MemoryKey, Arc<Answer>>,
    grid: Grid,
    /// What stood in the way of a row's request.
    pins: Memo<(MemoryKey, usize), Option<Pins>>,
    is_waiting: bool,
}

impl View for ReservedView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        let Some(shown) = ctx.memory.resolve(ctx.traces) else {
            head::nothing_ui(ui);
            return;
        };
        let question = shown.key();
        if self.memo.question().is_some_and(|known| *known != question) {
            self.forget();
        }
        let (waker, asked) = (ui.ctx().clone(), shown.of.clone());
        let work = move |progress: &Progress| Arc::new(answer(asked, progress));
        let answer = self.memo.get(&question, move || waker.request_repaint(), work).cloned();
        let Some(answer) = answer else {
            self.is_waiting = !self.memo.has_crashed(&question);
            ui.label(if self.is_waiting {
                "Working out why memory was reserved…"
            } else {
                "This crashed. Please report it"
            });
            return;
        };
        self.grid.poll_text(ctx.commands, ui.ctx());
        self.grid.update(&answer.table, ui.ctx());
        self.head_ui(&answer, ui);
        if !answer.cards.is_empty() {
            Panel::left(egui::Id::unique("out of memory")).default_size(290.0).size_range(200.0..=900.0).show(
                ui,
                |ui| {
                    egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                        for card in answer.cards.iter().take(MAX_CARDS) {
                            card_ui(&answer, card, ctx, ui);
                        }
                        if answer.cards.len() > MAX_CARDS {
                            let more = format::count((answer.cards.len() - MAX_CARDS) as u64);
                            ui.weak(format!("and {more} more times out of memory"));
                        }
                    });
                },
            );
        }
        if answer.growth.is_empty() {
            ui.label(match shown.history().has_segments {
                true => "Nothing was reserved while this was recorded: all segments are from before",
                false => "This recording does not say what was reserved, and when",
            });
            return;
        }
        let row = self.grid.shown().and_then(|(_, row)| row);
        if let Some((row, growth)) = row.and_then(|row| Some((row, answer.growth.get(row)?))) {
            self.side_ui(&answer, &(question, row), growth, &shown, ctx, ui);
        }
        CentralPanel::default().frame(Frame::NONE).show(ui, |ui| {
            match self.grid.ui("Growth of reserved memory", Some("Show the state just before"), ui) {
                Some(Action::Open(row)) => {
                    if let Some(growth) = answer.growth.get(row) {
                        ctx.memory.moment = Some(growth.state());
                        ctx.commands.push(Command::Show(super::STATE.id));
                    }
                }
                Some(Action::Select(row)) => {
                    if let Some(growth) = answer.growth.get(row) {
                        ctx.memory.moment = Some(growth.state());
                    }
                }
                _ => {}
            }
        });
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }

    fn forget(&mut self) {
        *self = Self::default();
    }

    fn subject(&self, ctx: &mut ViewContext<'_>) -> Option<String> {
        head::shown_title(ctx)
    }
}

impl ReservedView {
    fn head_ui(&mut self, answer: &Answer, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            for &(cause, n, bytes) in answer.sums.iter().filter(|sum| sum.1 > 0) {
                let (label, help) = cause_text(cause);
                let text = format!("{label}: {} times, {}", format::count(n), format::bytes(bytes as f64));
                ui.label(text).on_hover_text(help);
                ui.separator();
            }
            let label = ui.label("Filter");
            let edit = egui::TextEdit::singleline(&mut self.grid.filter).hint_text("Words of a cause or place");
            ui.add(edit.desired_width(160.0)).labelled_by(label.id);
            if ui.button("Copy table").on_hover_text("Copy the listed rows for a spreadsheet").clicked() {
                self.grid.copy(ui.ctx());
            }
            if ui.button("Export…").on_hover_text("Write the listed rows to a file").clicked() {
                self.grid.export("Growth of reserved memory", ui.ctx());
            }
        });
    }

    fn side_ui(
        &mut self,
        answer: &Arc<Answer>,
        key: &(MemoryKey, usize),
        growth: &Growth,
        shown: &ShownMemory,
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) {
        let (waker, asked, row) = (ui.ctx().clone(), Arc::clone(answer), key.1);
        let work = move |progress: &Progress| pins(asked.of.history(), &asked.growth[row], &|| progress.is_cancelled());
        let found = self.pins.get(key, move || waker.request_repaint(), work).cloned();
        let found = found.filter(|_| self.pins.is_current(key));
        let has_crashed = self.pins.has_crashed(key);
        let bytes = |bytes: u64| format::bytes(bytes as f64);
        Panel::right(egui::Id::unique("why reserved"))
            .default_size(300.0)
            .size_range(180.0..=1200.0)
            .frame(Frame::NONE.inner_margin(egui::Margin { left: 8, ..egui::Margin::ZERO }))
            .show(ui, |ui| {
                ui.set_min_size(ui.available_size());
                egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                    ui.strong(cause_text(growth.cause).1);
                    ui.label(format!(
                        "{} reserved for a request of {}; {} were free in this pool, the largest stretch {}",
                        bytes(growth.bytes),
                        bytes(growth.requested),
                        bytes(growth.free),
                        bytes(growth.largest_free)
                    ));
                    if growth.released > 0 {
                        ui.label(format!("{} were given back to the device just before", bytes(growth.released)));
                    }
                    if let Some(id) = growth.request
                        && ui.button("Select the request").clicked()
                    {
                        *ctx.selection = shown.selection(id);
                    }
                    if growth.cause != Cause::Fragmentation {
                        return;
                    }
                    ui.add_space(6.0);
                    match found {
                        None if has_crashed => {
                            ui.label("What stood in the way could not be worked out. Please report it");
                        }
                        None => {
                            ui.spinner();
                        }
                        Some(None) => {
                            ui.label("No segment of this pool is as large as the request");
                        }
                        Some(Some(pins)) => pins_ui(answer, &pins, shown, ctx, ui),
                    }
                });
            });
    }
}

/// The blocks that stood in the way.
fn pins_ui(answer: &Answer, pins: &Pins, shown: &ShownMemory, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
    let all = &answer.of.history().allocations;
    ui.label(format!(
        "{} blocks of {} in all kept a stretch of {} from serving it",
        format::count(pins.blocks.len() as u64),
        format::bytes(pins.blocks_bytes as f64),
        format::bytes(pins.bytes as f64)
    ));
    if ui.button("Highlight them").on_hover_text("Bring them out in the pictures of memory").clicked() {
        let mut ids = pins.blocks.clone();
        ids.sort_unstable();
        ctx.memory.marked = Arc::new(ids);
    }
    for &id in pins.blocks.iter().take(MAX_NAMED) {
        let label = answer.labels.get(all.stack[id.idx()].0 as usize).copied().unwrap_or_default();
        let place = display_name(answer.of.trace().strings.get(label)).into_owned();
        let text = format!("{}, {place}", format::bytes(all.bytes[id.idx()] as f64));
        if ui.add(egui::Button::new(text).truncate()).on_hover_text("Select it").clicked() {
            *ctx.selection = shown.selection(id);
        }
    }
    if pins.blocks.len() > MAX_NAMED {
        ui.weak(format!("and {} more", format::count((pins.blocks.len() - MAX_NAMED) as u64)));
    }
}

/// What a cause is called, and what it means.
fn cause_text(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::Fragmentation => ("Fragmentation", "Enough was free, but no stretch of it was large enough"),
        Cause::Demand => ("Demand", "Less was free than was asked for"),
        Cause::Unexplained => {
            ("Not explained", "A large enough stretch was free and yet not used: large blocks may be kept whole")
        }
        Cause::NoRequest => ("No request", "No allocation follows that lies in what was reserved"),
    }
}

fn card_ui(answer: &Answer, card: &OomCard, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
    let tokens = theme::tokens(ctx.is_dark);
    let bytes = |bytes: u64| format::bytes(bytes as f64);
    ui.label(
        RichText::new(format!("Out of memory: {} requested", bytes(card.requested))).strong().color(tokens.severity[2]),
    );
    let state = card.event.saturating_add(1).min(answer.of.history().last_state());
    ui.weak(state_text(&answer.of, state));
    egui::Grid::new(("out of memory", card.event)).num_columns(2).spacing([12.0, 2.0]).show(ui, |ui| {
        let rows = [
            ("Free on the device", card.device_free),
            ("Reserved", Some(card.reserved)),
            ("Allocated", Some(card.allocated)),
            ("Awaiting a stream", Some(card.awaiting_free).filter(|&bytes| bytes > 0)),
            ("Reserved, but unused", Some(card.inactive)),
            ("Free for this request", Some(card.free)),
            ("Largest stretch of it", Some(card.largest_free)),
            ("Free in other pools", Some(card.free_elsewhere)),
            ("Used by others", card.non_pytorch),
        ];
        for (label, value) in rows {
            if let Some(value) = value {
                ui.weak(label);
                ui.label(bytes(value));
                ui.end_row();
            }
        }
    });
    for what_if in &card.what_ifs {
        if !what_if.setting().is_empty() {
            ui.label(RichText::new(what_if.setting()).monospace());
        }
        ui.add(egui::Label::new(what_if.fact(bytes)).wrap());
    }
    if ui.button("Show the state then").clicked() {
        ctx.memory.moment = Some(card.event.min(answer.of.history().last_state()));
        ctx.commands.push(Command::Show(super::STATE.id));
    }
    ui.weak("Who had it");
    for group in &card.stacks {
        let Group::Signature(signature) = group.group else { continue };
        let label = answer.signatures.label(answer.of.trace(), signature);
        let label = label.as_deref().unwrap_or("(no call stack)");
        ui.add(
            egui::Label::new(format!(
                "{} in {}: {}",
                bytes(group.bytes),
                format::count(group.count),
                display_name(label)
            ))
            .truncate(),
        );
    }
    ui.separator();
}

fn answer(of: OpenMemory, progress: &Progress) -> Answer {
    let (trace, history) = (of.trace(), of.history());
    let growth = growth(history, &|| progress.is_cancelled());
    let signatures = Signatures::new(trace, false);
    let cards = cards(trace, history, &signatures, MAX_NAMED, &|| progress.is_cancelled());
    let labels = stack_labels(trace);
    let column = |title, key, help, width, is_text| Column { title, key, help, width, is_text };
    let when = if history.has_time { "at_ns" } else { "event" };
    let columns = vec![
        column("When", when, "When it was reserved", 100, false),
        column("Reserved", "reserved_bytes", "How much was reserved at once", 90, false),
        column("Cause", "cause", "Why what was free did not serve", 110, true),
        column("Request", "requested_bytes", "The block that needed it", 90, false),
        column("Free", "free_bytes", "Free before, in segments of the same pool", 90, false),
        column("Largest free", "largest_free_bytes", "The largest free stretch of them", 90, false),
        column("Stream", "stream", "The stream it was reserved for", 70, true),
        column("Where", "frame", "The innermost frame of the person's own program", 340, true),
    ];
    let row = |growth: &Growth| {
        let event = growth.events.end.saturating_sub(1);
        let ts = history.events.ts[event as usize].saturating_add(of.open.offset);
        let pool = history.pools.get(growth.pool.0 as usize).copied().unwrap_or_default();
        let stack = match growth.request {
            Some(id) => history.allocations.stack[id.idx()],
            None => history.events.stack[event as usize],
        };
        let label = labels.get(stack.0 as usize).copied().unwrap_or_default();
        vec![
            if history.has_time { Cell::Ns(ts) } else { Cell::Count(u64::from(event)) },
            Cell::Bytes(growth.bytes as i64),
            Cell::text(cause_text(growth.cause).0),
            if growth.request.is_some() { Cell::Bytes(growth.requested as i64) } else { Cell::Empty },
            Cell::Bytes(growth.free as i64),
            Cell::Bytes(growth.largest_free as i64),
            Cell::text(&stream_name(pool.stream)),
            Cell::frames(trace.strings.get(label)),
        ]
    };
    let data = Data { columns, rows: growth.iter().map(row).collect() };
    let table = Arc::new(Table { data, ..Table::default() });
    let sum = |cause: Cause| {
        let of_cause = growth.iter().filter(|growth| growth.cause == cause);
        of_cause.fold((cause, 0, 0_u64), |(_, n, bytes), growth| (cause, n + 1, bytes.saturating_add(growth.bytes)))
    };
    let sums = [Cause::Fragmentation, Cause::Demand, Cause::Unexplained, Cause::NoRequest].map(sum);
    Answer { sums: sums.into(), growth, cards, signatures, labels, table, of }
}
