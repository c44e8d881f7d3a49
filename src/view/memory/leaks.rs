//! Places whose memory grows from step to step, and the evidence for a leak.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use eframe::egui::{self, CentralPanel, Frame, Key, Panel, RichText};
use egui_plot::{GridInput, GridMark, HoverPosition, Line, Plot, PlotPoints, Points};
use hashbrown::HashMap;

use super::head;
use super::outside::OutsideLine;
use crate::analysis::memory::leaks::LeakCandidate;
use crate::analysis::memory::live::{LiveUntil, live};
use crate::analysis::memory::signature::SignatureId;
use crate::answers::memory::{FoundLeaks, LeakSearch};
use crate::answers::{Analysis, Query, Work};
use crate::command::{Command, ctrl};
use crate::figures::findings;
use crate::figures::format;
use crate::figures::memory::{self, Owner, Places};
use crate::figures::text::display_name;
use crate::model::StackId;
use crate::model::memory::AllocationId;
use crate::session::{OpenMemory, ShownMemory};
use crate::view::states::answer_ui;
use crate::view::tables::{Answer as Table, Grid};
use crate::view::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::widget::busy::busy_ui;
use crate::widget::prose::{plain, prose_ui};
use crate::widget::theme;

/// The choice of list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    Candidates,
    Explained,
    Gains,
}

impl List {
    /// In the order of their numbers, with label and help.
    const ALL: [(Self, &str, &str); 3] = [
        (Self::Candidates, "Candidates", "Memory that grows from step to step and stays"),
        (Self::Explained, "Explained", "Memory that grows or stays for a known reason"),
        (Self::Gains, "Grown", "Stacks with more memory at the end than at the start"),
    ];
}

/// The tables of a search for leaks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LeakTables(LeakSearch);

#[derive(Debug)]
struct Tables {
    found: Arc<FoundLeaks>,
    /// By [`List`], with the signature of each row.
    lists: [(Arc<Table>, Vec<SignatureId>); 3],
    /// What is allocated of each place at the end.
    left: HashMap<SignatureId, Arc<Vec<AllocationId>>>,
}

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "leaks",
    title: "Leaks",
    help: "Show memory that grows from step to step",
    keys: &[ctrl(Key::Num9)],
    area: DockArea::Bottom,
    content: Content::Memory,
    make: || Box::new(LeaksView::default()),
};

/// The view of leaks.
#[derive(Debug, Default)]
pub struct LeaksView {
    list: List,
    /// Whether the user chose the list.
    is_chosen: bool,
    ignores_lines: bool,
    tables: Query<LeakTables>,
    grid: Grid,
    outside: OutsideLine,
    is_waiting: bool,
}

impl View for LeaksView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        let Some(shown) = ctx.memory.resolve(ctx.traces) else {
            head::nothing_ui(ctx, ui);
            return;
        };
        let wanted =
            LeakTables(LeakSearch { ignores_lines: self.ignores_lines, marks: head::marks_as_steps(&shown, ctx) });
        let answer = self.tables.ask(ctx.answers, &shown.of, &wanted);
        self.is_waiting = answer.is_working();
        let Some(tables) = answer_ui(&answer, "Comparing steps…", ui) else {
            self.grid.reset();
            if !self.is_waiting {
                // The choices that led here can be undone.
                ui.checkbox(&mut self.ignores_lines, "Ignore line numbers");
                ui.checkbox(&mut ctx.memory.uses_marks, "Marks are the steps");
            }
            return;
        };
        self.grid.poll_text(ctx.commands, ui.ctx());
        summary_ui(&tables.found, shown.history().is_state_only(), ui);
        self.outside.ui(&shown, ctx.traces, ui);
        self.head_ui(&tables, ctx, ui);
        let has_steps = tables.found.steps.is_some();
        if !self.is_chosen {
            // Without steps the other lists are empty.
            self.list = if !has_steps { List::Gains } else { List::Candidates };
        }
        let table = &tables.lists[self.list as usize].0;
        self.is_waiting |= self.grid.update(table, ctx.answers);
        if table.data.rows.is_empty() {
            let text: Cow<'_, str> = match self.list {
                List::Candidates if has_steps => memory::no_candidate(&tables.found.leaks).into(),
                List::Candidates => {
                    let grown = if tables.found.leaks.gains.is_empty() { "" } else { memory::GROWN };
                    format!("Without steps, leaks cannot be distinguished from work in progress{grown}").into()
                }
                List::Explained => "No other place grew, or has memory since before the judged steps".into(),
                List::Gains if !shown.history().has_changes() => head::ONE_MOMENT.into(),
                // All memory without a stack counts as one place.
                List::Gains if shown.of.trace().stacks.len() <= 1 => {
                    "The file has no call stacks: memory by place compares its categories".into()
                }
                List::Gains => {
                    "No stack has more memory at the end than at the start. Blocks from before the recording have no \
                     stack: one that replaced such a block of the same size counts as no growth"
                        .into()
                }
            };
            ui.add(egui::Label::new(text).wrap());
            return;
        }
        // The previous rows stay until these are sorted.
        let grid = self.grid.shown().filter(|(known, _)| Arc::ptr_eq(known, table));
        if let Some((_, Some(row))) = grid {
            self.side_ui(&tables, row, &shown, ctx, ui);
        }
        CentralPanel::default().frame(Frame::NONE).show(ui, |ui| {
            let action = self.grid.ui("Leaks", Some("Highlight in the picture"), ui).filter(|_| grid.is_some());
            head::highlight(action, |row| Some(self.left(&tables, row)), ctx);
        });
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }

    fn subject(&self, ctx: &mut ViewContext<'_>) -> Option<String> {
        head::shown_title(ctx)
    }
}

impl LeaksView {
    fn head_ui(&mut self, tables: &Tables, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            for (list, label, help) in List::ALL {
                let n = tables.lists[list as usize].0.data.rows.len();
                let text = format!("{label} ({})", format::count(n as u64));
                if ui.selectable_label(self.list == list, text).on_hover_text(help).clicked() && self.list != list {
                    (self.list, self.is_chosen) = (list, true);
                    self.grid.reset();
                }
            }
            ui.separator();
            ui.checkbox(&mut self.ignores_lines, "Ignore line numbers")
                .on_hover_text("Treat the same functions at different lines as one place");
            let hint = "Use the time between your marks as steps (M marks a moment)";
            ui.add_enabled(ctx.marks.len() > 1, egui::Checkbox::new(&mut ctx.memory.uses_marks, "Marks are the steps"))
                .on_hover_text(hint)
                .on_disabled_hover_text("Set two marks or more first: M marks a moment");
            ui.separator();
            head::grid_tools_ui(&mut self.grid, "Leaks", "Filter by stack", ui);
            if self.is_waiting {
                busy_ui(ui);
            }
        });
    }

    fn signature(&self, tables: &Tables, row: usize) -> Option<SignatureId> {
        tables.lists[self.list as usize].1.get(row).copied()
    }

    /// What is allocated of the row's stack at the end.
    fn left(&self, tables: &Tables, row: usize) -> Arc<Vec<AllocationId>> {
        let gain = tables.found.leaks.gains.get(row).filter(|_| self.list == List::Gains);
        let others = gain.map_or(&[][..], |gain| &gain.or);
        let mut of_each = self
            .signature(tables, row)
            .into_iter()
            .chain(others.iter().copied())
            .filter_map(|one| tables.left.get(&one));
        match (of_each.next(), others) {
            (None, _) => Arc::default(),
            (Some(ids), []) => Arc::clone(ids),
            (Some(ids), _) => Arc::new(ids.iter().chain(of_each.flat_map(|ids| ids.iter())).copied().collect()),
        }
    }

    /// The stack of a row, and the evidence for a candidate.
    fn side_ui(&self, tables: &Tables, row: usize, shown: &ShownMemory, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let Some(signature) = self.signature(tables, row) else { return };
        Panel::right(egui::Id::unique("evidence"))
            .default_size(420.0)
            .size_range(180.0..=1200.0)
            .frame(Frame::NONE.inner_margin(egui::Margin { left: 8, ..egui::Margin::ZERO }))
            .show(ui, |ui| {
                ui.set_min_size(ui.available_size());
                egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                    let found = &tables.found;
                    let candidate = found.leaks.candidates.get(row).filter(|_| self.list == List::Candidates);
                    if let Some(candidate) = candidate {
                        evidence_ui(found, candidate, shown, ctx, ui);
                    }
                    ui.strong("Stack, innermost first");
                    for frame in found.signatures.frames(shown.trace(), signature).iter().take(64) {
                        ui.add(egui::Label::new(RichText::new(display_name(frame)).monospace()).wrap());
                    }
                });
            });
    }
}

impl Analysis for LeakTables {
    type Of = OpenMemory;
    type Output = Tables;
    const NAME: &'static str = "The list of leaks";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Tables> {
        let found = work.get(of, &self.0)?;
        let (history, signatures, leaks) = (of.history(), &found.signatures, &found.leaks);
        let places = Places { trace: of.trace(), signatures, owner: Owner::default() };
        let list = |data, signatures| (Arc::new(Table { data, ..Table::default() }), signatures);
        let named = |one| memory::Leak::new(one, (*found.steps).as_ref());
        let candidates = places.placed(leaks.candidates.iter().map(|one| (one.signature, named(one))));
        let explained =
            places.placed(leaks.explained.iter().map(|one| (one.signature, memory::NoLeak::new(one, &places))));
        let gains = places.gained(&leaks.gains);
        let lists = [
            list(memory::leaks().data(candidates), leaks.candidates.iter().map(|one| one.signature).collect()),
            list(memory::no_leaks().data(explained), leaks.explained.iter().map(|one| one.signature).collect()),
            list(memory::gains().data(gains), leaks.gains.iter().map(|one| one.signature).collect()),
        ];
        let mut left: HashMap<SignatureId, Vec<AllocationId>> = HashMap::new();
        for id in live(history, history.last_state(), LiveUntil::Allocated) {
            left.entry(signatures.of(history.allocations.stack[id.idx()])).or_default().push(id);
        }
        let left = left.into_iter().map(|(signature, ids)| (signature, Arc::new(ids))).collect();
        Some(Tables { lists, left, found })
    }
}

/// The growth of all memory, the steps that were compared, and the confidence.
///
/// * `is_state_only`: whether there is no history to compare anything in.
fn summary_ui(found: &FoundLeaks, is_state_only: bool, ui: &mut egui::Ui) {
    if is_state_only {
        ui.label("This recording holds a single moment, so nothing can be seen to grow");
        ui.weak(
            "Record the history: call torch.cuda.memory._record_memory_history(max_entries=1000000) early in the program",
        );
        return;
    }
    let tokens = theme::tokens(ui.visuals().dark_mode);
    ui.horizontal_wrapped(|ui| {
        if let Some((total, steps)) = found.leaks.total.zip(found.steps.as_ref().as_ref()) {
            let text = memory::growth_sentence(&found.leaks, steps);
            let alarm =
                findings::growth(&found.leaks, steps).or_else(|| findings::reserved_growth(&found.leaks, steps));
            let color = alarm.map(|finding| tokens.severity[finding.severity as usize]);
            prose_ui(ui, &text, |text| color.into_iter().fold(text.strong(), RichText::color));
            if total.is_judged() {
                let sign = if total.growth_bytes < 0 { "-" } else { "+" };
                let total_text = format!("{sign}{} in all", format::bytes(total.growth_bytes.unsigned_abs() as f64));
                prose_ui(ui, &total_text, plain);
            }
            if let Some(steps) = total.steps_to_oom {
                let text = format!("out of memory in about {}", format::steps(steps as usize));
                ui.colored_label(tokens.severity[2], text);
            }
            ui.separator();
        }
        match &*found.steps {
            Some(steps) => {
                let median = steps.durations.as_ref().map(|durations| {
                    let of = |ns| format::duration(ns);
                    format!(
                        ", median {} ({} to {})",
                        of(durations.median_ns),
                        of(durations.min_ns),
                        of(durations.max_ns)
                    )
                });
                let warm_up = found.leaks.warm_up;
                let text = format!("{} by {}", format::steps(steps.len()), steps.source.label());
                prose_ui(ui, &format!("{text}{}", median.unwrap_or_default()), plain);
                match warm_up {
                    0 => {}
                    1 => _ = ui.weak("growth is judged after the first, the warm-up"),
                    n => _ = ui.weak(format!("growth is judged after the first {n}, the warm-up")),
                }
            }
            None => {
                let reason = found.leaks.no_steps.as_ref().map(|lacking| format!(": {}", lacking.reason()));
                ui.label(format!("No steps were found{}", reason.unwrap_or_default()));
                ui.weak("Mark the starts of steps with M and choose \"Marks are the steps\"");
            }
        }
        // Where nothing was judged there is nothing to be confident of.
        if found.leaks.candidates.is_empty() && found.leaks.total.is_some_and(|total| !total.is_judged()) {
            return;
        }
        ui.separator();
        ui.label(format!("Confidence: {}", found.leaks.confidence.key()));
        if !found.leaks.caveats.is_empty() {
            ui.weak(found.leaks.caveats.join("; "));
        }
    });
}

fn evidence_ui(
    found: &FoundLeaks,
    candidate: &LeakCandidate,
    shown: &ShownMemory,
    ctx: &mut ViewContext<'_>,
    ui: &mut egui::Ui,
) {
    let trace = shown.trace();
    let evidence = &candidate.evidence;
    growth_ui(candidate, found.leaks.warm_up, ui);
    let frames: Vec<String> =
        found.signatures.frames(trace, candidate.signature).into_iter().map(String::from).collect();
    for sentence in memory::leak_advice(&[candidate], &frames) {
        ui.add(egui::Label::new(sentence).wrap());
    }
    let steps = |index: usize| {
        let name = (*found.steps).as_ref().and_then(|steps| steps.names.get(index));
        name.map_or_else(|| format!("step {index}"), |name| display_name(name).into_owned())
    };
    ui.label(format!(
        "{} of {} of this stack {} freed; {} outlived their step, from {} to {}",
        format::count(evidence.freed),
        format::of_things(evidence.allocated, "block"),
        if evidence.freed == 1 { "was" } else { "were" },
        format::count(candidate.survivors),
        steps(evidence.first_step),
        steps(evidence.last_step)
    ));
    for &category in &evidence.categories {
        ui.label(format!("Category {}", display_name(trace.strings.get(category))));
    }
    for &(key, text) in &evidence.notes {
        ui.label(format!("{}: {}", display_name(trace.strings.get(key)), display_name(trace.strings.get(text))));
    }
    if let Some(&id) = evidence.examples.last()
        && ui.button("Select the latest").on_hover_text("Select the latest block that stayed").clicked()
    {
        *ctx.selection = shown.selection(id);
        ctx.commands.extend([Command::Show(super::OVER_TIME.id), Command::FocusSelection]);
    }
    if !evidence.freed_by.is_empty() {
        ui.add_space(6.0);
        ui.strong("Where other blocks of this stack were freed");
        for &(stack, count) in &evidence.freed_by {
            let frame = innermost(found, shown, stack);
            ui.add(
                egui::Label::new(format!("{} at {}", format::of_things(count, "time"), display_name(&frame))).wrap(),
            );
        }
    }
    ui.add_space(6.0);
}

fn innermost(found: &FoundLeaks, shown: &ShownMemory, stack: StackId) -> String {
    let trace = shown.trace();
    let label = found.signatures.label(trace, found.signatures.of(stack));
    label.unwrap_or_else(|| "an unknown place".to_owned())
}

/// About four grid lines at powers of two.
fn byte_marks(input: &GridInput) -> Vec<GridMark> {
    let (low, high) = input.bounds;
    let step = ((high - low) / 4.0).max(1.0).log2().ceil().exp2();
    if !step.is_finite() {
        return Vec::new();
    }
    let first = (low / step).ceil();
    (0..16)
        .map(|i| (first + f64::from(i)) * step)
        .take_while(|&value| value <= high)
        .map(|value| GridMark { value, step_size: step })
        .collect()
}

/// Live bytes at the boundaries of steps.
fn growth_ui(candidate: &LeakCandidate, warm_up: usize, ui: &mut egui::Ui) {
    // A plot of more than a few thousand points is slow: of more boundaries every nth is shown.
    let stride = candidate.live_bytes.len().div_ceil(2_000).max(1);
    let points: Vec<[f64; 2]> = candidate
        .live_bytes
        .iter()
        .enumerate()
        .step_by(stride)
        .map(|(step, &bytes)| [step as f64, bytes as f64])
        .collect();
    // A value holds until the next step ends.
    let held = points.windows(2).map(|two| [two[1][0], two[0][1]]);
    let stairs: Vec<[f64; 2]> = points.iter().zip(held).flat_map(|(&point, held)| [point, held]).collect();
    let stairs: Vec<[f64; 2]> = stairs.into_iter().chain(points.last().copied()).collect();
    let tokens = theme::tokens(ui.visuals().dark_mode);
    ui.strong("Live memory of this stack at the end of each step");
    if warm_up > 0 {
        ui.weak("The upright line is the end of the warm-up");
    }
    let plot = Plot::new("growth")
        .height(140.0)
        .x_axis_label("Step")
        .allow_drag(false)
        .allow_zoom(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .show_grid([false, true])
        .include_y(0.0)
        .y_grid_spacer(|input| byte_marks(&input))
        .y_axis_formatter(|mark, _| format::bytes(mark.value))
        .label_formatter(|at| match at {
            HoverPosition::NearDataPoint { position, .. } => {
                Some(format!("step {:.0}\n{}", position.x, format::bytes(position.y)))
            }
            HoverPosition::Elsewhere { .. } => None,
        });
    plot.show(ui, |plot| {
        plot.line(Line::new("Live at the ends of steps", PlotPoints::from(stairs)).color(tokens.accent).width(1.5));
        if points.len() <= 200 {
            plot.points(
                Points::new("Live at the ends of steps", PlotPoints::from(points)).color(tokens.accent).radius(2.0),
            );
        }
        if warm_up > 0 {
            plot.vline(egui_plot::VLine::new("Warm-up", warm_up as f64).color(tokens.weak_text).width(1.0));
        }
    });
}
