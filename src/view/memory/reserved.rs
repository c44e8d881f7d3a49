//! Causes of growth of reserved memory, and of out-of-memory events.

use std::sync::Arc;

use eframe::egui::{self, CentralPanel, Frame, Panel, RichText};

use super::head;
use super::head::state_text;
use crate::analysis::memory::labels::below_allocator;
use crate::analysis::memory::live::LiveGroup;
use crate::analysis::memory::oom::OomCard;
use crate::analysis::memory::reserved::{Cause, Growth, PinnedRange, shares};
use crate::analysis::memory::summary::summary;
use crate::answers::memory::{CARD_STACKS, GrowthOfReserved, GrowthPins, OomCards, StackLabels, StackSignatures};
use crate::answers::{Analysis, Answer, Query, Work};
use crate::command::Command;
use crate::figures::format;
use crate::figures::memory::{
    AtPlace, HOW_SHARED, OutOfMemory, Owner, Places, ReservedGrowth, cause_text, holder_frames, no_stack_help, oom,
    raise, reserved_growth, shares_sentence, why,
};
use crate::figures::text::{display_name, short_frame};
use crate::figures::{Cell, Column, Data, findings};
use crate::model::StringId;
use crate::session::{OpenMemory, ShownMemory};
use crate::view::states::{answer_ui, failed_ui, nothing_ui, working_ui};
use crate::view::tables::{Answer as Table, Grid};
use crate::view::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::widget::prose::{plain, prose_ui};
use crate::widget::table::Action;
use crate::widget::theme;

/// Stacks listed on a card, and blocks listed beside a row.
const MAX_NAMED: usize = CARD_STACKS;
/// Frames of the stack of a block under the pointer.
const FRAMES_ON_HOVER: usize = 12;
/// A program that catches the error and tries again may run out of memory thousands of times.
const MAX_CARDS: usize = 50;

/// Why the counts of causes may look otherwise than the shares of bytes.
const COUNTS: &str =
    "These are counts, not bytes: memory reserved once because too little was free may serve later requests badly";

/// Computes everything that the view shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReservedTables;

#[derive(Debug)]
struct Tables {
    growth: Arc<Vec<Growth>>,
    /// For each cause, how often reserved memory grew.
    counts: Vec<(Cause, u64)>,
    /// Why it grew in all; empty without segments.
    why: String,
    cards: Arc<Vec<OomCard>>,
    /// A row of figures for each card that is shown.
    figures: Data,
    /// For each of these who had the memory, a line each: its text, and what is said under the pointer.
    holders: Vec<Vec<[String; 2]>>,
    labels: Arc<Vec<StringId>>,
    table: Arc<Table>,
}

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "reserved",
    title: "Reserved and out of memory",
    help: "Show why reserved memory grew, and why memory ran out",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Memory,
    make: || Box::new(ReservedView::default()),
};

/// The view of reserved memory.
#[derive(Debug, Default)]
pub struct ReservedView {
    tables: Query<ReservedTables>,
    grid: Grid,
    /// The blocks that kept the request of a row from being served.
    pins: Query<GrowthPins>,
    /// The moment whose card was scrolled to last.
    followed: Option<u32>,
    is_waiting: bool,
}

impl View for ReservedView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        let Some(shown) = ctx.memory.resolve(ctx.traces) else {
            head::nothing_ui(ctx, ui);
            return;
        };
        let answer = self.tables.ask(ctx.answers, &shown.of, &ReservedTables);
        self.is_waiting = answer.is_working();
        let Some(tables) = answer_ui(&answer, "Finding why memory was reserved…", ui) else {
            self.grid.reset();
            return;
        };
        self.grid.poll_text(ctx.commands, ui.ctx());
        self.is_waiting |= self.grid.update(&tables.table, ctx.answers);
        self.head_ui(&tables, ui);
        if !tables.cards.is_empty() {
            // What failed is what the view was opened for, wherever it failed.
            let width = (ui.available_width() * 0.5).clamp(120.0, 640.0);
            Panel::left(egui::Id::unique("out of memory")).default_size(width).size_range(120.0..=900.0).show(
                ui,
                |ui| {
                    egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                        let is_new = self.followed != ctx.memory.moment;
                        self.followed = ctx.memory.moment;
                        let cards = tables.cards.iter().zip(&tables.figures.rows).zip(&tables.holders);
                        for ((card, figures), holders) in cards {
                            let is_chosen = ctx.memory.moment == Some(card.event);
                            let head = card_ui(&tables.figures.columns, &shown, (card, figures, holders), ctx, ui);
                            if is_chosen && is_new {
                                head.scroll_to_me(Some(egui::Align::TOP));
                            }
                        }
                        if shown.history().ooms.len() > MAX_CARDS {
                            let more = format::count((shown.history().ooms.len() - MAX_CARDS) as u64);
                            ui.weak(format!("and {more} more times out of memory"));
                        }
                    });
                },
            );
        }
        if tables.growth.is_empty() {
            let [what, how] = match shown.history().has_segments() {
                true if !shown.history().has_changes() => [
                    "How memory was reserved is not known",
                    "A history (torch.cuda.memory._record_memory_history) tells",
                ],
                true => ["Nothing was reserved while this was recorded", "All segments predate the recording"],
                false => [
                    "This recording has no events of reserved memory",
                    "A memory history (torch.cuda.memory._dump_snapshot) does; how much is reserved, if that is \
                     known, is in Memory over time",
                ],
            };
            nothing_ui(what, how, ui);
            return;
        }
        let row = self.grid.shown().and_then(|(_, row)| row);
        if let Some((row, growth)) = row.and_then(|row| Some((row, tables.growth.get(row)?))) {
            self.side_ui(&tables, row, growth, &shown, ctx, ui);
        }
        CentralPanel::default().frame(Frame::NONE).show(ui, |ui| {
            let action = self.grid.ui("Growth of reserved memory", Some("Show the state just before"), ui);
            let Some(Action::Open(row) | Action::Select(row)) = action else { return };
            let Some(growth) = tables.growth.get(row) else { return };
            ctx.memory.moment = Some(growth.state());
            if let Some(id) = growth.request {
                *ctx.selection = shown.selection(id);
            }
            if let Some(Action::Open(_)) = action {
                ctx.commands.push(Command::Show(super::STATE.id));
            }
        });
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }

    fn subject(&self, ctx: &mut ViewContext<'_>) -> Option<String> {
        head::shown_title(ctx)
    }
}

impl ReservedView {
    fn head_ui(&mut self, tables: &Tables, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            if !tables.why.is_empty() {
                prose_ui(ui, &tables.why, RichText::strong).on_hover_text(HOW_SHARED);
                ui.separator();
            }
            for &(cause, n) in tables.counts.iter().filter(|count| count.1 > 0) {
                let (label, help) = cause_text(cause);
                // A number stays beside its word.
                let text = format!("{label}: {}", format::of_things(n, "time"));
                ui.add(egui::Label::new(text).extend()).on_hover_text(format!("{help}. {COUNTS}"));
                ui.separator();
            }
            head::grid_tools_ui(&mut self.grid, "Growth of reserved memory", "Filter by cause or place", ui);
        });
    }

    fn side_ui(
        &mut self,
        tables: &Tables,
        row: usize,
        growth: &Growth,
        shown: &ShownMemory,
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) {
        // Pins of another row would be wrong, so only the answer to this one is shown.
        let found = self.pins.ask(ctx.answers, &shown.of, &GrowthPins(row));
        let bytes = |bytes: u64| format::bytes(bytes as f64);
        Panel::right(egui::Id::unique("why reserved"))
            .default_size(300.0)
            .size_range(180.0..=1200.0)
            .frame(Frame::NONE.inner_margin(egui::Margin { left: 8, ..egui::Margin::ZERO }))
            .show(ui, |ui| {
                ui.set_min_size(ui.available_size());
                egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                    ui.strong(cause_text(growth.cause).1);
                    let text = format!(
                        "{} reserved for a request of {}; {} were free in this pool, the largest range {}",
                        bytes(growth.bytes),
                        bytes(growth.requested),
                        bytes(growth.free),
                        bytes(growth.largest_free)
                    );
                    prose_ui(ui, &text, plain);
                    if growth.scattered > 0 || growth.avoidable > 0 {
                        let text = format!(
                            "Of it {} for want of free memory in one piece, {} beyond need",
                            bytes(growth.scattered),
                            bytes(growth.avoidable)
                        );
                        prose_ui(ui, &text, plain);
                    }
                    if growth.released > 0 {
                        let text = format!("{} were returned to the device just before", bytes(growth.released));
                        prose_ui(ui, &text, plain);
                    }
                    if growth.cause != Cause::Fragmentation {
                        return;
                    }
                    ui.add_space(6.0);
                    match &found {
                        Answer::Failed(why) => failed_ui(why, ui),
                        Answer::Working(_) => working_ui("Looking for blocks in the way…", ui),
                        Answer::Ready(pins) => match &**pins {
                            Some(pins) => pins_ui(tables, pins, shown, ctx, ui),
                            None => _ = ui.label("No segment of this pool is as large as the request"),
                        },
                    }
                });
            });
    }
}

/// The blocks that kept the request from being served.
fn pins_ui(tables: &Tables, pins: &PinnedRange, shown: &ShownMemory, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
    let all = &shown.history().allocations;
    let text = format!(
        "{} of {} in all kept a range of {} from serving it",
        format::of_things(pins.blocks.len() as u64, "block"),
        format::bytes(pins.blocks_bytes as f64),
        format::bytes(pins.bytes as f64)
    );
    prose_ui(ui, &text, plain);
    if ui.button("Highlight them").on_hover_text("Highlight them in the pictures of memory").clicked() {
        let mut ids = pins.blocks.clone();
        ids.sort_unstable();
        ctx.memory.marked = Arc::new(ids);
    }
    for &id in pins.blocks.iter().take(MAX_NAMED) {
        let label = tables.labels.get(all.stack[id.idx()].0 as usize).copied().unwrap_or_default();
        let place = holder_frames(shown.trace().strings.get(label));
        let text = format!("{}, {place}", format::bytes(all.bytes[id.idx()] as f64));
        let frames = shown.trace().stacks.frames(all.stack[id.idx()]).map(|frame| shown.trace().strings.get(frame));
        let button = ui.add(egui::Button::new(text).truncate()).on_hover_ui(|ui| {
            ui.label("Select it. Its stack, innermost first:");
            for frame in below_allocator(frames.collect()).into_iter().take(FRAMES_ON_HOVER) {
                ui.label(display_name(&short_frame(frame)));
            }
        });
        if button.clicked() {
            *ctx.selection = shown.selection(id);
        }
    }
    if pins.blocks.len() > MAX_NAMED {
        ui.weak(format!("and {} more", format::count((pins.blocks.len() - MAX_NAMED) as u64)));
    }
}

/// One failed request; returns its head.
fn card_ui(
    columns: &[Column],
    shown: &ShownMemory,
    (card, figures, holders): (&OomCard, &[Cell], &[[String; 2]]),
    ctx: &mut ViewContext<'_>,
    ui: &mut egui::Ui,
) -> egui::Response {
    let tokens = theme::tokens(ctx.is_dark);
    let bytes = |bytes: u64| format::bytes(bytes as f64);
    let finding = findings::out_of_memory(card, "", 1, None, None, None);
    let text = format!("Out of memory: {} requested", bytes(card.requested));
    let color = tokens.severity[finding.severity as usize];
    let head = prose_ui(ui, &text, |text| text.strong().color(color));
    // Who had it is in sight with the reason, also where the pane is low.
    let spacing = std::mem::replace(&mut ui.spacing_mut().item_spacing.y, 1.0);
    prose_ui(ui, &why(card), plain);
    ui.weak("Who had it");
    for [text, hint] in holders {
        ui.add(egui::Label::new(text).truncate()).on_hover_text(hint);
    }
    ui.spacing_mut().item_spacing.y = spacing;
    let state = card.event.saturating_add(1).min(shown.history().last_state());
    prose_ui(ui, &state_text(shown, state), RichText::weak);
    egui::Grid::new(("out of memory", card.event)).num_columns(2).spacing([12.0, 2.0]).show(ui, |ui| {
        for (column, cell) in columns.iter().zip(figures) {
            if *cell != Cell::Empty {
                ui.weak(column.title).on_hover_text(column.help);
                ui.label(cell.shown());
                ui.end_row();
            }
        }
    });
    if let Some(raise) = raise(card) {
        prose_ui(ui, &raise, plain);
    }
    for what_if in &card.hints {
        if !what_if.setting().is_empty() {
            ui.label(RichText::new(what_if.setting()).monospace());
        }
        prose_ui(ui, &what_if.fact(bytes), plain);
    }
    if ui.button("Show the state then").clicked() {
        ctx.memory.moment = Some(card.event.min(shown.history().last_state()));
        ctx.commands.push(Command::Show(super::STATE.id));
    }
    ui.separator();
    head
}

impl Analysis for ReservedTables {
    type Of = OpenMemory;
    type Output = Tables;
    const NAME: &'static str = "Listing what was reserved";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Tables> {
        let growth = work.get(of, &GrowthOfReserved)?;
        let signatures = work.get(&of.open.trace, &StackSignatures { ignores_lines: false })?;
        let cards = work.get(of, &OomCards(MAX_NAMED))?;
        let labels = work.get(&of.open.trace, &StackLabels)?;
        let table = Arc::new(growth_table(of, &growth, &labels));
        let offset_ns = of.open.offset;
        let figures = |card| OutOfMemory { owner: Owner::default(), card, offset_ns, by_stack: Arc::default() };
        let figures = oom().data(cards.iter().take(MAX_CARDS).map(figures));
        let places = Places { trace: of.trace(), signatures: &signatures, owner: Owner::default() };
        let holders = cards.iter().take(MAX_CARDS).map(|card| holders(card, &places)).collect();
        let count = |cause: Cause| (cause, growth.iter().filter(|growth| growth.cause == cause).count() as u64);
        let counts = [Cause::Fragmentation, Cause::Demand, Cause::Unexplained, Cause::NoRequest].map(count).into();
        let summary = summary(of.history());
        let shares = shares(of.history(), &growth);
        let why = shares.as_ref().map_or_else(String::new, |shares| {
            let known = Some(shares).filter(|_| of.history().has_changes());
            shares_sentence(known, summary.end_unused(), summary.end_private)
        });
        Some(Tables { counts, why, growth, cards, figures, holders, labels, table })
    }
}

/// Who had the memory when a request failed: a line each, and what is said of it under the pointer.
fn holders(card: &OomCard, places: &Places<'_>) -> Vec<[String; 2]> {
    let line = |held: AtPlace<LiveGroup>| {
        let label = held.stack.name();
        let (size, count) = (format::bytes(held.of.bytes as f64), format::of_things(held.of.count, "block"));
        let text = format!("{size} in {count}: {}", holder_frames(label));
        [text, no_stack_help(label).map_or_else(|| display_name(label), Into::into).into_owned()]
    };
    places.live(&card.stacks).into_iter().map(line).collect()
}

fn growth_table(of: &OpenMemory, growth: &[Growth], labels: &[StringId]) -> Table {
    let (trace, history) = (of.trace(), of.history());
    let rows = growth.iter().map(|growth| {
        let event = growth.events.end.saturating_sub(1);
        let ts = history.events.ts[event as usize].saturating_add(of.open.offset);
        let stack = match growth.request {
            Some(id) => history.allocations.stack[id.idx()],
            None => history.events.stack[event as usize],
        };
        ReservedGrowth {
            growth,
            at: if history.has_time { Cell::Ns(ts) } else { Cell::Count(u64::from(event)) },
            stream: history.pools.get(growth.pool.0 as usize).copied().unwrap_or_default().stream,
            frame: holder_frames(trace.strings.get(labels.get(stack.0 as usize).copied().unwrap_or_default())),
        }
    });
    let data = reserved_growth(history.has_time).data(rows);
    Table { data, ..Table::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::fixture::Script;
    use crate::analysis::memory::labels::stack_labels;
    use crate::analysis::memory::reserved::growth;
    use crate::model::StackId;
    use crate::model::memory::MemoryAction::SegmentAlloc;
    use crate::session::OpenTrace;

    #[test]
    fn a_node_of_the_backward_pass_is_named_without_arguments() {
        const NODE: &str =
            "torch::autograd::generated::MulBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)";
        let mut script = Script::default();
        let stack = script.stack(&["c10::cuda::CUDACachingAllocator::malloc(void**)", NODE]);
        script.event(SegmentAlloc, 0, 2 << 20, StackId(0));
        script.alloc(0, 1 << 20, stack);
        let trace = script.finish();
        let labels = stack_labels(&trace);
        let of = OpenMemory { open: OpenTrace::new(trace, 0), memory: 0 };
        let table = growth_table(&of, &growth(of.history(), &|| false), &labels);
        let stack = table.data.columns.iter().position(|column| column.key == "stack").unwrap();
        assert_eq!(table.data.rows[0][stack].shown(), "torch::autograd::generated::MulBackward0::apply");
    }
}
