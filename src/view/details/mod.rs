//! Details of the selection: times, links, arguments and call stack.

mod allocation;
mod event;
mod facts;
mod links;
mod recording;

use eframe::egui::{self, RichText};

use self::allocation::allocation_ui;
use self::event::{event_ui, tidy};
use self::facts::Facts;
use self::links::{links_ui, memory_ui};
use self::recording::recordings_ui;
use super::gaps::GapPage;
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::analysis::annotations::{Projection, projection};
use crate::analysis::launches::operator_of;
use crate::answers::{Analysis, Answer, Query, Work};
use crate::command::Command;
use crate::figures::{
    escape, format, ncu,
    text::{display_name, shortened, track_name},
};
use crate::model::memory::AllocationId;
use crate::model::{DurNs, EventDetails, SliceId, SliceKind, StackId, TimeNs, Trace, TrackId};
use crate::session::{OpenTrace, Selection};
use crate::view::states::nothing_ui;
use crate::widget::prose::{plain, prose_ui};

/// The longest text shown, in characters; copies are complete.
const MAX_CHARS: usize = 4096;
/// Of the scroll bar with the space beside it, in points.
const SCROLL_BAR: f32 = 8.0;
/// The longest name shown in full, in characters: the facts below it stay in sight.
const MAX_NAME: usize = 120;
/// The longest name of a fact, in characters: its value has room beside it.
const MAX_LABEL: usize = 28;

/// Looks up facts about an event that take time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LookUp {
    /// `None` for an instant.
    slice: Option<SliceId>,
    /// Its position in the file, and its time there.
    source: u64,
    start: Option<TimeNs>,
}

#[derive(Debug)]
struct Found {
    self_ns: Option<DurNs>,
    /// What launched a piece of device work.
    operator: Option<SliceId>,
    /// The device work of an annotation.
    projection: Option<Projection>,
    /// The command line that profiles a kernel in depth.
    profile: Option<String>,
    /// `None` if the trace has no details.
    event: Option<Result<EventDetails, String>>,
}

/// The command line that profiles a kernel in depth, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelProfile(SliceId);

impl Analysis for KernelProfile {
    type Of = OpenTrace;
    type Output = Result<String, &'static str>;
    const NAME: &'static str = "Counting the launches of the kernel";

    fn run(&self, open: &OpenTrace, _: &Work<'_>) -> Option<Self::Output> {
        Some(ncu::command(&open.trace, self.0))
    }
}

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "details",
    title: "Details",
    help: "Show everything about the selection: times, links, arguments and call stack",
    keys: &[],
    area: DockArea::Side,
    content: Content::Any,
    make: || Box::new(Details::default()),
};

/// The details panel.
#[derive(Debug, Default)]
pub struct Details {
    found: Query<LookUp>,
    /// The kernel whose profiler command is to be copied once it is known, with the index of its trace.
    to_copy: Option<(usize, SliceId)>,
    profile: Query<KernelProfile>,
    gap: GapPage,
    /// The selection that was on show last; `None` before the first.
    shown: Option<Selection>,
    is_waiting: bool,
}

impl View for Details {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        let mut area = egui::ScrollArea::vertical().auto_shrink(false);
        if self.shown.replace(*ctx.selection) != Some(*ctx.selection) {
            area = area.vertical_scroll_offset(0.0);
        }
        area.show(ui, |ui| {
            // The scroll bar covers no text.
            ui.set_max_width((ui.available_width() - SCROLL_BAR).max(0.0));
            match *ctx.selection {
                Selection::None => unselected_ui(ctx, ui),
                Selection::Gap { trace, process, time } => match ctx.traces.get(trace).cloned() {
                    Some(open) => self.is_waiting = self.gap.ui(ctx, &open, (trace, process, time), ui),
                    None => unselected_ui(ctx, ui),
                },
                Selection::Slice { trace, slice } => match ctx.traces.get(trace).cloned() {
                    Some(open) if slice.idx() < open.trace.slices.len() => self.slice_ui(ctx, &open, trace, slice, ui),
                    _ => unselected_ui(ctx, ui),
                },
                Selection::Instant { trace, instant } => match ctx.traces.get(trace).cloned() {
                    Some(open) if instant < open.trace.instants.len() => self.instant_ui(ctx, &open, instant, ui),
                    _ => unselected_ui(ctx, ui),
                },
                Selection::Allocation { trace, memory, id } => match ctx.traces.get(trace).cloned() {
                    Some(open) if has_allocation(&open.trace, memory, id) => {
                        allocation_ui(ctx, &open, (trace, memory), id, ui);
                    }
                    _ => unselected_ui(ctx, ui),
                },
            }
        });
    }

    fn update(&mut self, ctx: &mut ViewContext<'_>, egui: &egui::Context) {
        let Some((trace, slice)) = self.to_copy else { return };
        let open = ctx.traces.get(trace).filter(|open| slice.idx() < open.trace.slices.len());
        let found = open.map(|open| self.profile.ask(ctx.answers, open, &KernelProfile(slice)));
        if found.as_ref().is_some_and(Answer::is_working) {
            return;
        }
        self.to_copy = None;
        if let Some(Ok(command)) = found.as_ref().and_then(|found| found.ready()).map(|found| &**found) {
            egui.copy_text(command.clone());
        }
    }

    fn is_pending(&self) -> bool {
        self.is_waiting || self.to_copy.is_some()
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        self.to_copy = match (command, *ctx.selection) {
            (Command::CopyProfileOf(trace, slice), _) => Some((*trace, *slice)),
            (Command::CopyKernelProfile, Selection::Slice { trace, slice }) => Some((trace, slice)),
            (Command::CopyKernelProfile, _) => None,
            _ => return false,
        };
        true
    }
}

fn has_allocation(trace: &Trace, memory: usize, id: AllocationId) -> bool {
    trace.memories.get(memory).is_some_and(|history| id.idx() < history.allocations.len())
}

fn unselected_ui(ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
    if let Some(range) = *ctx.range {
        let length = format::duration(range.dur());
        match ctx.step_in_range().map(|step| shortened(&step.name, MAX_NAME)) {
            Some(step) => ui.strong(format!("Selected step: {step}, {length}")),
            None => ui.strong(format!("Selected time: {length}")),
        };
        egui::Grid::new("range").num_columns(2).spacing([12.0, 4.0]).show(ui, |ui| {
            for (label, at) in [("Start", range.start), ("End", range.end)] {
                exact_ui(ui, label, &format::duration(at), &format::duration_exact(at));
            }
        });
        if ui.button("Range summary").on_hover_text("Show what ran in it, and how busy each device was").clicked() {
            ctx.commands.push(Command::Show(super::range_summary::SPEC.id));
        }
        ui.add_space(8.0);
    }
    if ctx.traces.iter().any(|open| !open.trace.tracks.is_empty()) {
        let how = "Click a slice, a gap or an allocation, press / to search for a slice, or G for the next gap";
        let title = if ctx.range.is_some() { "No event is selected" } else { "Nothing is selected" };
        nothing_ui(title, how, ui);
        ui.add_space(8.0);
    }
    recordings_ui(ctx.traces, ui);
}

impl Details {
    fn slice_ui(
        &mut self,
        ctx: &mut ViewContext<'_>,
        open: &OpenTrace,
        trace: usize,
        slice: SliceId,
        ui: &mut egui::Ui,
    ) {
        let model = &open.trace;
        let facts = Facts::new(model, slice);
        let source = model.slices.source[slice.idx()];
        let wanted = LookUp { slice: Some(slice), source, start: model.recorded_start(slice) };
        let found = self.found.ask(ctx.answers, open, &wanted);
        self.is_waiting = found.is_working();
        let own = found.ready().map(|found| found.self_ns);
        let on_device = found.ready().and_then(|found| found.projection);

        name_ui(model.slice_name(slice), ui);
        let track = model.slices.track_of(slice);
        egui::Grid::new("facts").num_columns(2).spacing([12.0, 4.0]).show(ui, |ui| {
            row_ui(ui, "Kind", model.slices.kind[slice.idx()].label());
            time_rows_ui(ui, facts.time.start, open.offset);
            let dur = facts.time.dur();
            exact_ui(ui, "Duration", &format::duration(dur), &format::duration_exact(dur));
            if let Some(operator) = found.ready().and_then(|found| found.operator) {
                row_ui(ui, "Operator", &display_name(model.slice_name(operator)));
            }
            match own {
                Some(Some(own)) => exact_ui(ui, "Self time", &format::duration(own), &format::duration_exact(own)),
                _ => row_ui(ui, "Self time", "…"),
            }
            match facts.queue_ns {
                Some(..0) => row_ui(ui, "Queue time", "None: it started before the call returned"),
                Some(queue) => exact_ui(ui, "Queue time", &format::duration(queue), &format::duration_exact(queue)),
                None => {}
            }
            if let Some(Projection { time, busy_ns, launches, .. }) = on_device {
                exact_ui(ui, "On device", &format::duration(time.dur()), &format::duration_exact(time.dur()));
                exact_ui(ui, "Device busy", &format::duration(busy_ns), &format::duration_exact(busy_ns));
                let start = time.start.saturating_add(open.offset);
                exact_ui(ui, "Device start", &format::duration(start), &format::duration_exact(start));
                row_ui(ui, "Launches", &format::count(launches));
            }
            for (label, value) in &facts.rows {
                row_ui(ui, label, &cut(value));
            }
            row_ui(ui, "Children", &format::count(facts.n_children as u64));
            place_rows_ui(ui, open, track);
            if facts.is_unfinished {
                row_ui(ui, "End", "Not recorded, drawn to the end of the trace");
            }
        });
        if let Some(command) = found.ready().and_then(|found| found.profile.as_deref()) {
            let tool = command.split(' ').next().unwrap_or_default();
            if ui.button(format!("Copy {tool} command")).on_hover_text(command).clicked() {
                ui.ctx().copy_text(command.to_owned());
            }
        }
        links_ui(ctx, open, trace, &facts, ui);
        memory_ui(ctx, open, facts.time, ui);
        event_ui(&found, ui);
    }

    fn instant_ui(&mut self, ctx: &mut ViewContext<'_>, open: &OpenTrace, instant: usize, ui: &mut egui::Ui) {
        let instants = &open.trace.instants;
        let wanted = LookUp { slice: None, source: instants.source[instant], start: Some(instants.ts[instant]) };
        let found = self.found.ask(ctx.answers, open, &wanted);
        self.is_waiting = found.is_working();
        name_ui(open.trace.strings.get(instants.name[instant]), ui);
        egui::Grid::new("facts").num_columns(2).spacing([12.0, 4.0]).show(ui, |ui| {
            row_ui(ui, "Kind", "Instant");
            time_rows_ui(ui, instants.ts[instant], open.offset);
            place_rows_ui(ui, open, instants.track[instant]);
        });
        event_ui(&found, ui);
    }
}

impl Analysis for LookUp {
    type Of = OpenTrace;
    type Output = Found;
    const NAME: &'static str = "Reading the arguments";

    fn run(&self, open: &OpenTrace, _: &Work<'_>) -> Option<Found> {
        let model = &open.trace;
        let annotation = self.slice.filter(|slice| model.slices.kind[slice.idx()] == SliceKind::Annotation);
        Some(Found {
            self_ns: self.slice.map(|slice| model.slices.self_time(slice)),
            operator: self
                .slice
                .filter(|id| model.slices.kind[id.idx()].is_device_work())
                .and_then(|id| operator_of(model, id)),
            projection: annotation.and_then(|slice| projection(model, slice)),
            profile: self.slice.and_then(|slice| ncu::command(model, slice).ok()),
            event: model.details.as_ref().map(|details| details.event(self.source, self.start).map(tidy)),
        })
    }
}

/// The name, wrapped, with a button to copy it.
fn name_ui(name: &str, ui: &mut egui::Ui) {
    let cut = cut(name);
    let short = if name.is_empty() { "(no name)".to_owned() } else { shortened(&cut, MAX_NAME) };
    let label = ui.add(egui::Label::new(RichText::new(short).strong()).wrap());
    if name.chars().count() > MAX_NAME {
        label.on_hover_text(&*cut);
    }
    ui.horizontal_wrapped(|ui| {
        if ui.small_button("Copy name").clicked() {
            ui.ctx().copy_text(escape::visible(name).into_owned());
        }
        if cut.len() < name.len() {
            ui.weak(format!("Truncated, {} characters in all", format::count(name.chars().count() as u64)));
        }
    });
}

/// At most [`MAX_CHARS`] characters.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn row_ui(ui: &mut egui::Ui, label: &str, value: &str) {
    short_row_ui(ui, &shortened(label, MAX_LABEL), label, value);
}

/// A row whose label is `short` for something.
fn short_row_ui(ui: &mut egui::Ui, short: &str, label: &str, value: &str) {
    let shown = ui.weak(short);
    if short != label {
        shown.on_hover_text(label);
    }
    prose_ui(ui, value, plain);
    ui.end_row();
}

/// A value with its exact form beside it.
fn exact_ui(ui: &mut egui::Ui, label: &str, value: &str, exact: &str) {
    ui.weak(label);
    let font = egui::TextStyle::Body.resolve(ui.style());
    let both = ui.painter().layout_no_wrap(format!("{value} {exact}"), font, egui::Color32::PLACEHOLDER);
    let values = |ui: &mut egui::Ui| {
        prose_ui(ui, value, plain);
        if value != exact {
            prose_ui(ui, exact, RichText::weak);
        }
    };
    // A grid gives what wraps beside something else the height of one line.
    match both.size().x + ui.spacing().item_spacing.x <= ui.available_width() {
        true => ui.horizontal(values),
        false => ui.vertical(values),
    };
    ui.end_row();
}

fn time_rows_ui(ui: &mut egui::Ui, ts: i64, offset: DurNs) {
    let start = ts.saturating_add(offset);
    exact_ui(ui, "Start", &format::duration(start), &format::duration_exact(start));
    row_ui(ui, "Time in file", &format::duration_exact(ts));
}

fn place_rows_ui(ui: &mut egui::Ui, open: &OpenTrace, track: TrackId) {
    let track = open.trace.track(track);
    row_ui(ui, "Track", &track_name(track));
    row_ui(ui, "Process", &display_name(&open.trace.process(track.process).title()));
    if let Some(rank) = open.trace.info.rank {
        row_ui(ui, "Rank", &rank.to_string());
    }
    row_ui(ui, "File", &display_name(&open.trace.info.title()));
}

/// A call stack of a trace as text, innermost first, one frame per line.
pub fn stack_text(trace: &Trace, stack: StackId) -> String {
    escape::lines(trace.stacks.frames(stack).map(|frame| trace.strings.get(frame)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(MAX_CHARS + 1);
        assert_eq!(cut(&long).chars().count(), MAX_CHARS + 1);
        assert!(cut(&long).ends_with('…'));
        assert_eq!(cut("short"), "short");
    }
}
