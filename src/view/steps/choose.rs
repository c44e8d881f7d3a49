//! Choosing a step: it becomes the selected range, and the view follows.

use eframe::egui::{Button, TextStyle, TextWrapMode, Ui, WidgetText};

use crate::analysis::steps::Steps;
use crate::command::Command;
use crate::figures::format;
use crate::figures::steps::{found_by, lengths, place_text, short_name};
use crate::figures::text::display_name;
use crate::model::{DurNs, TimeRange};
use crate::view::ViewContext;
use crate::view::axis::fitted;
use crate::view::tables::file_name;

/// Margin on both sides of a step that is shown, as a share of it.
const MARGIN: f64 = 0.1;

/// What choosing a step does.
const LIMITS: &str = "It is the selected range: overview, tables and gaps are limited to it. Press Escape to clear it";

/// What a step's time is where the host runs ahead of the devices.
pub const BEHIND: &str = "A step is where the device runs its work. The host runs ahead: it launched this work earlier";

/// How steps were found, and in which file where several are open: each has steps of its own, and those of one are
/// shown.
pub fn source_text(ctx: &ViewContext<'_>, steps: &Steps) -> String {
    match ctx.trace_steps() {
        Some((trace, ..)) => source_text_of(ctx, trace, steps),
        None => format!("By {}", found_by(steps)),
    }
}

/// The same of the steps of a trace, whichever are shown.
pub fn source_text_of(ctx: &ViewContext<'_>, trace: usize, steps: &Steps) -> String {
    let by = format!("By {}", found_by(steps));
    match ctx.traces.iter().filter(|open| open.has_events()).count() {
        0 | 1 => by,
        _ => format!("{by} of {}. The view Steps chooses another file", file_name(ctx.traces, trace)),
    }
}

/// The step that is the selected range.
///
/// * `offset`: from trace time to session time.
pub fn chosen(steps: &Steps, offset: DurNs, range: Option<TimeRange>) -> Option<usize> {
    steps.at(range?.shifted(offset.saturating_neg()))
}

/// Makes a step the selected range and shows it. If another step was chosen and the view lies inside it, the view keeps
/// its length and its place within the step, so that the same phase of both can be compared.
pub fn choose(ctx: &mut ViewContext<'_>, steps: &Steps, offset: DurNs, step: usize) {
    let time = steps.extents().get(step).map(|time| time.shifted(offset));
    let Some(((trace, ..), time)) = ctx.trace_steps().zip(time) else { return };
    let view = ctx.navigation.visible();
    let before =
        chosen(steps, offset, *ctx.range).and_then(|step| steps.extents().get(step)).map(|time| time.shifted(offset));
    ctx.choose_step(trace, time, steps.names.get(step).map_or("", String::as_str));
    let is_inside = |outer: TimeRange, inner: TimeRange| outer.start <= inner.start && inner.end <= outer.end;
    match before {
        Some(before) if is_inside(before, view) => {
            ctx.navigation.go(view.shifted(time.start.saturating_sub(before.start)));
        }
        _ if !is_inside(view, time) => ctx.navigation.go(fitted(time, MARGIN, ctx.span)),
        _ => {}
    }
}

/// The step after or before the chosen one. Without one the first that is in view, or back the last; where none is, the
/// next beyond the view.
pub fn neighbor(ctx: &ViewContext<'_>, steps: &Steps, offset: DurNs, is_forward: bool) -> usize {
    let last = steps.len().saturating_sub(1);
    let view = ctx.navigation.visible().shifted(offset.saturating_neg());
    match (chosen(steps, offset, *ctx.range), is_forward) {
        (Some(step), true) => (step + 1).min(last),
        (Some(step), false) => step.saturating_sub(1),
        (None, true) => steps.extents().partition_point(|time| time.end <= view.start).min(last),
        (None, false) => steps.extents().partition_point(|time| time.start < view.end).saturating_sub(1),
    }
}

/// Buttons for the step before and the next, and the number of the chosen one.
///
/// * `has_count`: whether to say how many steps there are while none is chosen.
pub fn picker_ui(ctx: &mut ViewContext<'_>, steps: &Steps, offset: DurNs, has_count: bool, ui: &mut Ui) {
    let (chosen, n) = (chosen(steps, offset, *ctx.range), steps.len());
    let arrow = |text: &str| Button::new(text).small().frame_when_inactive(false);
    let previous = ui.add_enabled(chosen != Some(0), arrow("‹")).on_hover_text("Previous step (Shift+N)");
    previous.widget_info(|| label("Previous step"));
    if previous.clicked() {
        ctx.commands.push(Command::PreviousStep);
    }
    let next = ui.add_enabled(chosen != Some(n - 1), arrow("›")).on_hover_text("Next step (N)");
    next.widget_info(|| label("Next step"));
    if next.clicked() {
        ctx.commands.push(Command::NextStep);
    }
    if chosen.is_none() && !has_count {
        return;
    }
    // The same number as in bands and charts.
    let number = |step: usize| format!("Step {}", short_name(&steps.names[step], step));
    let text = chosen.map_or_else(|| format::steps(n), number);
    let placed = format!("{text}, on the device");
    // Rather left out than cut: the hint says it, too.
    let is_placed = chosen.is_none() && steps.is_of_completions() && button_width(&placed, ui) <= ui.available_width();
    let text = if is_placed { placed } else { text };
    let open = ui.add(Button::new(text).small().frame_when_inactive(false).truncate());
    let mut hint: Vec<String> = Vec::new();
    if let Some(step) = chosen {
        hint.push(format!("{}, {}", display_name(&steps.names[step]), place_text(step, n)));
        hint.extend(lengths(steps, step).into_iter().map(|(length, help)| format!("{length}: {help}")));
        hint.push(LIMITS.to_owned());
    } else if steps.used.len() < n {
        hint.push(format!("{} recorded, {} of them count", format::steps(n), steps.used.len()));
    }
    if steps.is_of_completions() {
        hint.push(BEHIND.to_owned());
    }
    hint.push(source_text(ctx, steps));
    hint.push("Show the table of steps".to_owned());
    if open.on_hover_text(hint.join("\n")).clicked() {
        ctx.commands.push(Command::Show(super::SPEC.id));
    }
}

/// The width of a button with a text, in points.
fn button_width(text: &str, ui: &Ui) -> f32 {
    let text = WidgetText::from(text).into_galley(ui, Some(TextWrapMode::Extend), f32::INFINITY, TextStyle::Button);
    text.size().x + 2.0 * ui.spacing().button_padding.x
}

fn label(text: &str) -> eframe::egui::WidgetInfo {
    eframe::egui::WidgetInfo::labeled(eframe::egui::Role::Button, true, text)
}
