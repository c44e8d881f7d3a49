//! Steps below the ruler: alternating bands with names, and the step picker beside them.

use std::ops::Range;

use eframe::egui::{Align2, FontId, Id, Layout, Rect, Sense, Stroke, StrokeKind, Ui, UiBuilder, WidgetInfo, vec2};

use crate::analysis::steps::Steps;
use crate::answers::Query;
use crate::answers::time::TraceSteps;
use crate::figures::format;
use crate::figures::steps::{left_out_text, lengths, place_text, short_name};
use crate::figures::text::display_name;
use crate::model::{DurNs, TimeNs, TimeRange};
use crate::view::ViewContext;
use crate::view::axis::{Scale, fitted};
use crate::view::steps::{BEHIND, choose, chosen, picker_ui, source_text};
use crate::widget::theme::tokens;

/// Height of the bands, in points.
pub const HEIGHT: f32 = 16.0;
/// Bands narrower than this on average, in points, are painted as one.
const MIN_BAND: f32 = 4.0;
/// Least width of a band with a name.
const MIN_NAMED: f32 = 26.0;

/// The steps of the trace that the views show.
#[derive(Debug, Default)]
pub struct StepBands {
    query: Query<TraceSteps>,
    is_waiting: bool,
}

impl StepBands {
    /// Whether the steps are still looked for.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// The steps with the offset of their trace; `None` until they are known, or without steps. Call it every frame.
    pub fn ask(&mut self, ctx: &ViewContext<'_>) -> Option<(std::sync::Arc<Option<Steps>>, DurNs)> {
        let (_, open, wanted) = ctx.trace_steps()?;
        let answer = self.query.ask(ctx.answers, &open.trace, &wanted);
        self.is_waiting = answer.is_working();
        let found = answer.newest().cloned()?;
        found.is_some().then_some((found, open.offset))
    }
}

/// The steps that touch the view. Cost: O(log n).
fn visible(steps: &Steps, view: TimeRange) -> Range<usize> {
    let first = steps.extents().partition_point(|time| time.end <= view.start);
    let last = steps.extents().partition_point(|time| time.start < view.end);
    first..last.max(first)
}

/// The edges of the steps beside a moment, in session time. Cost: O(log n).
pub fn edges(steps: &Steps, offset: DurNs, at: TimeNs) -> impl Iterator<Item = TimeNs> {
    let extents = steps.extents();
    let next = extents.partition_point(|time| time.end <= at.saturating_sub(offset));
    let beside = next.saturating_sub(1)..(next + 2).min(extents.len());
    extents[beside].iter().map(move |time| time.shifted(offset)).flat_map(|time| [time.start, time.end])
}

/// Paints the bands; a click chooses a step, a double click zooms to it.
///
/// * `head`: beside the bands, for the picker.
pub fn ui(
    ctx: &mut ViewContext<'_>,
    ui: &mut Ui,
    steps: &Steps,
    offset: DurNs,
    scale: &Scale,
    [head, rect]: [Rect; 2],
) {
    let builder = UiBuilder::new().max_rect(head.shrink2(vec2(3.0, 0.0))).id_salt("step picker");
    ui.scope_builder(builder.layout(Layout::left_to_right(eframe::egui::Align::Center)), |ui| {
        ui.spacing_mut().item_spacing.x = 2.0;
        picker_ui(ctx, steps, offset, true, ui);
    });
    let in_trace = scale.view.shifted(offset.saturating_neg());
    let shown = visible(steps, in_trace);
    let response = ui.interact(rect, Id::unique("timeline steps"), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(eframe::egui::Role::Group, true, "Steps on the timeline"));
    let band = |step: usize| {
        let time = steps.extents()[step].shifted(offset);
        Rect::from_x_y_ranges(scale.x(time.start)..=scale.x(time.end), rect.y_range()).intersect(rect)
    };
    let tokens = tokens(ctx.is_dark);
    let painter = ui.painter().with_clip_rect(rect);
    let Some(whole) = shown.clone().next().map(|first| band(first).union(band(shown.end - 1))) else { return };
    if whole.width() < MIN_BAND * shown.len() as f32 {
        painter.rect_filled(whole, 0.0, tokens.button[0]);
        let text = format!("{} steps: zoom in to see them", format::count(shown.len() as u64));
        let galley = painter.layout_no_wrap(text, FontId::proportional(11.0), tokens.weak_text);
        if galley.size().x < whole.width() {
            painter.galley(
                Align2::CENTER_CENTER.align_size_within_rect(galley.size(), whole).min,
                galley,
                tokens.weak_text,
            );
        }
    } else {
        let chosen = chosen(steps, offset, *ctx.range);
        for step in shown.clone() {
            let band = band(step);
            let fill = match step % 2 {
                _ if chosen == Some(step) => tokens.selected,
                0 => tokens.button[0],
                _ => tokens.stripe,
            };
            painter.rect_filled(band, 0.0, fill);
            if !steps.used.contains(&step) {
                painter.rect_stroke(band.shrink(1.0), 0.0, Stroke::new(1.0, tokens.line), StrokeKind::Inside);
            }
            if band.width() >= MIN_NAMED {
                name(&painter, band, &steps.names[step], step, tokens.text);
            }
        }
    }
    let Some(pointer) = response.hover_pos() else { return };
    let at = scale.time(pointer.x).saturating_sub(offset);
    let Some(step) =
        steps.extents().get(shown.start..shown.end).and_then(|times| times.iter().position(|time| time.contains(at)))
    else {
        return;
    };
    let step = shown.start + step;
    if response.clicked() {
        choose(ctx, steps, offset, step);
    }
    if response.double_clicked()
        && let Some(range) = *ctx.range
    {
        ctx.navigation.go(fitted(range, 0.1, ctx.span));
    }
    let source = source_text(ctx, steps);
    response.on_hover_ui_at_pointer(|ui| tooltip_ui(steps, step, &source, ui));
}

/// The name of a step as far as it fits: whole, else the number that it ends in, else its place, else none.
fn name(painter: &eframe::egui::Painter, band: Rect, name: &str, step: usize, color: eframe::egui::Color32) {
    let font = FontId::proportional(11.0);
    for text in [display_name(name).into_owned(), short_name(name, step)] {
        let galley = painter.layout_no_wrap(text, font.clone(), color);
        if galley.size().x + 4.0 <= band.width() {
            painter.galley(Align2::CENTER_CENTER.align_size_within_rect(galley.size(), band).min, galley, color);
            return;
        }
    }
}

fn tooltip_ui(steps: &Steps, step: usize, source: &str, ui: &mut Ui) {
    let dur = steps.extents()[step].dur();
    ui.strong(display_name(&steps.names[step]).as_ref());
    ui.label(place_text(step, steps.len()));
    for (length, help) in lengths(steps, step) {
        ui.label(format!("{length}: {help}"));
    }
    if let Some(median) = steps.durations.map(|durations| durations.median_ns).filter(|&median| median > 0) {
        let change = (dur - median) as f64 / median as f64 * 100.0;
        ui.label(format!("{change:+.1} % of the median {}", format::duration(median)));
    }
    if steps.is_outlier(step) {
        ui.label("Outlier");
    }
    if !steps.used.contains(&step) {
        ui.label(left_out_text(steps));
    }
    if steps.is_of_completions() {
        ui.label(BEHIND);
    }
    ui.weak("Click to limit overview, tables and gaps to it");
    ui.weak(source);
}
