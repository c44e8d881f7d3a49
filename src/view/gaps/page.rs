//! The page of one gap: why the device waits, drawn in time, and what to do about it.

use eframe::egui::{AtomExt as _, Button, CollapsingHeader, Grid, Label, RichText, Ui};

use super::facts::{GapFacts, GapOf, GapRecurrence, OUTSIDE, PARTS, PartLine, SameGap};
use super::late::{LateRank, LateRankOf};
use super::summary::{LEAST_SHARE, classes_ui};
use super::waterfall::waterfall_ui;
use crate::answers::Query;
use crate::command::Command;
use crate::figures::{
    format,
    gap_advice::untold,
    text::{display_name, shortened},
};
use crate::model::{DurNs, ProcessId, SliceId, TimeRange};
use crate::session::{OpenTrace, Selection};
use crate::view::ViewContext;
use crate::view::axis::fitted;
use crate::view::states::{answer_ui, nothing_ui};
use crate::widget::gap_color::swatch_ui;
use crate::widget::prose::{plain, prose_ui};
use crate::widget::slice_color::SliceColors;
use crate::widget::theme::tokens;

/// The page of the selected gap.
#[derive(Debug, Default)]
pub struct GapPage {
    facts: Query<GapOf>,
    late: Query<LateRankOf>,
    colors: Option<SliceColors>,
}

impl GapPage {
    /// Paints the page; says whether it waits for an answer.
    ///
    /// * `gap`: index of its trace, its device, and its time in the trace.
    pub fn ui(
        &mut self,
        ctx: &mut ViewContext<'_>,
        open: &OpenTrace,
        gap: (usize, ProcessId, TimeRange),
        ui: &mut Ui,
    ) -> bool {
        let (trace, process, time) = gap;
        let wanted = GapOf { steps: ctx.steps_of(open), process, start: time.start };
        let answer = self.facts.ask(ctx.answers, &open.trace, &wanted);
        let is_waiting = answer.is_working();
        ui.strong(format!("Idle for {}", format::duration(time.dur())));
        let Some(found) = answer_ui(&answer, "Looking up the gap…", ui).filter(|_| !is_waiting) else {
            return is_waiting;
        };
        let Some(facts) = &*found else {
            nothing_ui("No information about this gap", "Choose one in the Gaps view", ui);
            return false;
        };
        let colors = self.colors.take().filter(|colors| colors.is_for(ctx.is_dark));
        let colors = colors.unwrap_or_else(|| SliceColors::new(ctx.is_dark));
        let late = LateRankOf::new(trace, facts.gap.time, &facts.segments);
        let late = self.late.ask(ctx.answers, ctx.traces, &late);
        let is_waiting = late.is_working();
        let late = late.ready().and_then(|late| **late);
        head_ui(ctx, open, (facts, late), ui);
        ui.add_space(4.0);
        let clicked = waterfall_ui(&open.trace, facts, &colors, ui);
        self.colors = Some(colors);
        let of_parts = parts_ui(open, facts, ui);
        if let Some(late) = late {
            late_ui(ctx, late, ui);
        }
        let linked = links_ui(open, facts, ui);
        if let Some(slice) = clicked.or(of_parts).or(linked) {
            *ctx.selection = Selection::Slice { trace, slice };
            ctx.commands.push(Command::Reveal);
        }
        if let Some(time) = facts.recurrence.as_ref().and_then(|recurrence| same_ui(recurrence, ui)) {
            *ctx.selection = Selection::Gap { trace, process, time };
            ctx.commands.push(Command::Reveal);
        }
        advice_ui(facts, ui);
        is_waiting
    }
}

fn head_ui(ctx: &mut ViewContext<'_>, open: &OpenTrace, (facts, late): (&GapFacts, Option<LateRank>), ui: &mut Ui) {
    let dur = facts.gap.time.dur();
    // As in the tooltip of the gap.
    ui.weak("Meanwhile");
    classes_ui(ui, &facts.classes, dur);
    if facts.is_outside {
        ui.colored_label(tokens(ctx.is_dark).severity[1], OUTSIDE)
            .on_hover_text("No figure per step has it. In those steps the device may wait for other reasons");
    }
    ui.horizontal(|ui| {
        if ui.small_button("Copy text").on_hover_text("Copy this page as text").clicked() {
            let late = late.map(|late| format!("{}\n", late_text(late))).unwrap_or_default();
            ui.ctx().copy_text(facts.text(&open.trace, open.offset) + &late);
        }
        if ui.small_button("Zoom to gap").on_hover_text("Show it in the timeline with what runs around it").clicked() {
            ctx.commands.push(Command::Show(crate::view::timeline::SPEC.id));
            let time = facts.gap.time.shifted(open.offset);
            ctx.navigation.go(fitted(time, 0.5, ctx.span));
        }
    });
    let share = |of: DurNs| format!("{:.1} %", dur as f64 / of.max(1) as f64 * 100.0);
    Grid::new("gap").num_columns(2).spacing([12.0, 4.0]).show(ui, |ui| {
        let mut row = |label: &str, value: String| {
            ui.weak(label);
            prose_ui(ui, &value, plain);
            ui.end_row();
        };
        row("Device", display_name(&facts.device).into_owned());
        row("Duration", format::duration_in_full(dur));
        let start = facts.gap.time.start.saturating_add(open.offset);
        row("Start", format::duration_in_full(start));
        if let Some((step, time)) = &facts.step {
            row(
                "Step",
                format!(
                    "{} of {}, which takes this device {}",
                    share(time.dur()),
                    display_name(step),
                    format::duration(time.dur())
                ),
            );
        }
        let gaps = format::of_things(facts.n_gaps as u64, "gap");
        row("Idle time", format!("{} of {} in {gaps}", share(facts.idle_ns), format::duration(facts.idle_ns)));
        let none = match facts.lost_lead {
            None => "None: no synchronization, step or graph ended before it",
            Some(_) => "None right before it",
        };
        row("Trigger", facts.trigger.as_ref().map_or(none, |trigger| trigger.0).to_owned());
    });
    let trigger = facts.trigger.as_ref().map(|trigger| trigger.1.as_str());
    let texts = trigger.into_iter().chain(facts.lost_lead.as_deref());
    for text in texts {
        ui.add(Label::new(RichText::new(text).weak()).wrap());
    }
}

/// The longest name of a link, in characters: what tells names apart stays in sight.
const MAX_LINK: usize = 36;

/// The parts as a table; returns a slice that was clicked.
fn parts_ui(open: &OpenTrace, facts: &GapFacts, ui: &mut Ui) -> Option<SliceId> {
    let mut clicked = None;
    ui.add_space(4.0);
    ui.strong(PARTS);
    let share = |ns: DurNs| ns as f64 / facts.gap.time.dur().max(1) as f64 * 100.0;
    // The parts are sorted; those that would show as 0.0 % are folded.
    let n_large = facts.parts.partition_point(|part| share(part.ns) >= LEAST_SHARE).max(1).min(facts.parts.len());
    let (large, small) = facts.parts.split_at(n_large);
    large.iter().for_each(|part| clicked = part_ui(open, part, share(part.ns), ui).or(clicked));
    let (rest, rest_ns) = facts.rest;
    let n_small = small.iter().map(|part| part.count).sum::<usize>() + rest;
    if n_small == 0 {
        return clicked;
    }
    let small_ns = small.iter().map(|part| part.ns).sum::<DurNs>() + rest_ns;
    let count = |n: usize| format::count(n as u64);
    let noun = if n_small == 1 { "other" } else { "others" };
    let title = format!("{} {noun}, {} ({:.1} %)", count(n_small), format::duration(small_ns), share(small_ns));
    CollapsingHeader::new(title).id_salt("small parts").show(ui, |ui| {
        small.iter().for_each(|part| clicked = part_ui(open, part, share(part.ns), ui).or(clicked));
        if rest > 0 {
            ui.weak(format!("{} more, {}", count(rest), format::duration(rest_ns)));
        }
    });
    clicked
}

/// One part; returns its slice if that was clicked.
fn part_ui(open: &OpenTrace, part: &PartLine, share: f64, ui: &mut Ui) -> Option<SliceId> {
    let PartLine { class, slice, ns, count, frame, .. } = part;
    let mut clicked = None;
    // A line that is longer than the panel would make all below it as long.
    ui.horizontal_wrapped(|ui| {
        swatch_ui(*class, ui);
        ui.label(format!("{share:.1} %"));
        ui.label(format::duration(*ns));
        ui.label(class.label());
        if *count > 1 {
            let times = format::count(*count as u64);
            ui.weak(if slice.is_some() { format!("{times} times") } else { format!("in {times} parts") });
        }
    });
    if let Some(slice) = *slice {
        let name = open.trace.slice_name(slice);
        let button = ui.add(Button::new(shortened(name, MAX_LINK)).truncate());
        if button.on_hover_text(format!("{}\nSelect the longest of these", display_name(name))).clicked() {
            clicked = Some(slice);
        }
    }
    if let Some(inferred) = part.inferred() {
        ui.add(Label::new(RichText::new(inferred).weak()).wrap());
    }
    if let Some(frame) = frame {
        ui.add(Label::new(RichText::new(display_name(frame)).weak().monospace().size(10.5)).wrap());
    }
    clicked
}

fn late_text(late: LateRank) -> String {
    format!("Waits {} for rank {}, which comes last to the collective", format::duration(late.wait_ns), late.rank)
}

/// The rank that comes late; a click shows its call and selects it.
fn late_ui(ctx: &mut ViewContext<'_>, late: LateRank, ui: &mut Ui) {
    let Some(open) = ctx.traces.get(late.trace) else { return };
    ui.add_space(4.0);
    prose_ui(ui, &late_text(late), plain);
    let name = open.trace.slice_name(late.call);
    let button = ui.add(Button::new(format!("Show rank {}: {}", late.rank, shortened(name, MAX_LINK))).truncate());
    let hint = format!("{}\nShow what rank {} did until then, and select its call", display_name(name), late.rank);
    if button.on_hover_text(hint).clicked() {
        *ctx.selection = Selection::Slice { trace: late.trace, slice: late.call };
        ctx.commands.push(Command::Show(crate::view::timeline::SPEC.id));
        ctx.commands.push(Command::Reveal);
    }
}

/// What ran before and after, the launch with its operators, and what the host was in; returns a slice that was
/// clicked.
fn links_ui(open: &OpenTrace, facts: &GapFacts, ui: &mut Ui) -> Option<SliceId> {
    let mut clicked = None;
    let trace = &open.trace;
    let mut link = |ui: &mut Ui, title: &str, slice: SliceId| {
        ui.weak(title);
        let track = trace.track(trace.slices.track_of(slice));
        let name = trace.slice_name(slice);
        let duration = format::duration(trace.slices.time(slice).dur());
        // Where there is no room for both, the name gives way.
        let text = (format!("{},", shortened(name, MAX_LINK)).atom_shrink(true), duration);
        let link = ui.add(Button::new(text).truncate());
        // What is cut in the middle is whole here.
        let hint = format!("{}\nSelect this slice on {}", display_name(name), display_name(&track.name));
        if link.on_hover_text(hint).clicked() {
            clicked = Some(slice);
        }
    };
    ui.add_space(4.0);
    if let Some(slice) = facts.gap.trigger_slice {
        link(ui, "Triggered by", slice);
    }
    link(ui, "Work before", facts.gap.after);
    link(ui, "Work after", facts.gap.ended_by);
    match facts.call {
        Some(call) => match facts.launched_before(trace) {
            Some(before) => link(ui, &format!("Launched {before} by"), call),
            None => link(ui, "Launched by", call),
        },
        None => _ = ui.weak("Launched by: not recorded"),
    }
    if facts.operators.is_empty() && facts.call.is_some() {
        ui.weak("Operator: no operator is around the launch");
    }
    for (title, path) in [("Operator", &facts.operators), ("Host in most of the gap", &facts.host)] {
        for (i, &slice) in path.iter().enumerate() {
            link(ui, if i == 0 { title } else { "in" }, slice);
        }
    }
    match &facts.frame {
        None => _ = ui.weak("Python frame: not recorded"),
        Some(frame) => {
            ui.weak("Python frame");
            ui.add(Label::new(RichText::new(display_name(frame)).monospace()).wrap());
        }
    }
    clicked
}

/// The same gap in other steps; returns the time of one that was clicked.
pub(super) fn same_ui(recurrence: &GapRecurrence, ui: &mut Ui) -> Option<TimeRange> {
    let mut clicked = None;
    ui.add_space(4.0);
    ui.strong("Comes back");
    prose_ui(ui, &recurrence.sentence(), plain);
    if !recurrence.same.is_empty() {
        ui.weak(recurrence.list_title());
    }
    ui.horizontal_wrapped(|ui| {
        for SameGap { step, is_counted, time } in &recurrence.same {
            let name = display_name(step);
            let step = if step.is_empty() { String::new() } else { format!("{name}:") };
            let is_left_out = !is_counted && recurrence.steps.1 > 0;
            let left_out = if is_left_out { " (not judged)" } else { "" };
            let duration = format!("{}{left_out}", format::duration(time.dur()));
            let hint = if is_left_out {
                "Select this gap. Its step is not one of the judged steps: it is the first, with warm-up, or the last"
            } else {
                "Select this gap"
            };
            let button = match step.is_empty() {
                true => Button::new(duration),
                false => Button::new((step.atom_shrink(true), duration)),
            };
            if ui.add(button.small().truncate()).on_hover_text(format!("{name}\n{hint}").trim_start()).clicked() {
                clicked = Some(*time);
            }
        }
    });
    clicked
}

fn advice_ui(facts: &GapFacts, ui: &mut Ui) {
    ui.add_space(4.0);
    if facts.is_untold {
        prose_ui(ui, &untold(), plain);
        return;
    }
    ui.strong("What to do");
    for (class, advice) in facts.advice() {
        ui.horizontal(|ui| {
            swatch_ui(class, ui);
            ui.label(class.label());
        });
        for fix in advice.fixes {
            prose_ui(ui, &format!("• {fix}"), plain);
        }
        prose_ui(ui, &format!("Check: {}", advice.check), RichText::weak);
    }
    for text in facts.to_record() {
        prose_ui(ui, &format!("To know more: {text}"), plain);
    }
}
