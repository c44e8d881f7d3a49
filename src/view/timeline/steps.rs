//! Steps below the ruler: a row of alternating bands with names for each run, and the step picker beside them.

use std::ops::Range;
use std::sync::Arc;

use eframe::egui::{
    Align2, Button, FontId, Id, Label, Layout, Rect, RichText, Sense, Stroke, StrokeKind, Ui, UiBuilder, WidgetInfo,
    vec2,
};

use crate::analysis::steps::Steps;
use crate::answers::Query;
use crate::answers::time::TraceSteps;
use crate::figures::format;
use crate::figures::steps::{left_out_text, lengths, place_text, short_name};
use crate::figures::text::{display_name, without_common_start};
use crate::model::{DurNs, TimeNs, TimeRange};
use crate::session::{OpenTrace, in_order};
use crate::view::ViewContext;
use crate::view::axis::{Scale, fitted};
use crate::view::steps::{BEHIND, choose, chosen, picker_ui, source_text_of};
use crate::view::tables::file_name;
use crate::widget::theme::{Tokens, tokens};

/// Height of a row of bands, in points.
pub const HEIGHT: f32 = 16.0;
/// Bands narrower than this on average, in points, are painted as one.
const MIN_BAND: f32 = 4.0;
/// Least width of a band with a name.
const MIN_NAMED: f32 = 26.0;

/// More runs have no bands: they would take the room of the tracks.
const MAX_ROWS: usize = 4;

/// The steps of the runs in the picture.
#[derive(Debug, Default)]
pub struct StepBands {
    /// One for each row.
    queries: Vec<Query<TraceSteps>>,
    is_waiting: bool,
}

/// A row of bands: the steps of one run.
#[derive(Clone, Debug)]
pub struct Row {
    found: Arc<Option<Steps>>,
    /// Index of the trace that they are of.
    trace: usize,
    /// From its time to session time.
    offset: DurNs,
    /// Whether these are the steps that the other views show.
    is_chosen: bool,
    /// The names of its file and of those of the other rows, where there are several.
    names: Vec<String>,
}

impl Row {
    /// The steps with the offset of their trace.
    pub fn steps(&self) -> Option<(&Steps, DurNs)> {
        Some((self.found.as_ref().as_ref()?, self.offset))
    }
}

impl StepBands {
    /// Whether the steps are still looked for.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// A row for each run whose steps are known. Call it every frame.
    pub fn ask(&mut self, ctx: &ViewContext<'_>) -> Vec<Row> {
        self.is_waiting = false;
        let Some((chosen, ..)) = ctx.trace_steps() else { return Vec::new() };
        let traces = one_of_each_run(ctx.traces, chosen);
        self.queries.resize_with(traces.len().max(self.queries.len()), Query::default);
        let mut rows = Vec::new();
        for (&trace, query) in traces.iter().zip(&mut self.queries) {
            let open = &ctx.traces[trace];
            let answer = query.ask(ctx.answers, &open.trace, &ctx.steps_of(open));
            self.is_waiting |= answer.is_working();
            let Some(found) = answer.newest().filter(|found| found.is_some()) else { continue };
            let (found, is_chosen) = (Arc::clone(found), trace == chosen);
            rows.push(Row { found, trace, offset: open.offset, is_chosen, names: Vec::new() });
        }
        if traces.len() > 1 {
            let name = |row: &Row| file_name(ctx.traces, row.trace);
            let names: Vec<String> = rows.iter().map(name).collect();
            for (i, row) in rows.iter_mut().enumerate() {
                row.names.clone_from(&names);
                row.names.swap(0, i);
            }
        }
        rows
    }
}

/// One trace of each run in the picture, in order: ranks of one job share their steps.
///
/// * `chosen`: the one of its run.
fn one_of_each_run(traces: &[OpenTrace], chosen: usize) -> Vec<usize> {
    // A job may have many ranks, and this is asked in every frame.
    if traces.iter().all(|open| open.run == traces[chosen].run) {
        return vec![chosen];
    }
    let mut shown: Vec<usize> = Vec::new();
    for trace in in_order(traces) {
        let open = &traces[trace];
        let has_row = |&other: &usize| traces[other].run == open.run;
        let is_other = open.run != traces[chosen].run && open.is_program() && !open.is_behind;
        let n_others = shown.iter().filter(|&&other| other != chosen).count();
        if trace == chosen || is_other && n_others + 1 < MAX_ROWS && !shown.iter().any(has_row) {
            shown.push(trace);
        }
    }
    shown
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

/// Paints a row of bands; a click chooses a step, a double click zooms to it.
///
/// * `head`: beside the bands, for the picker.
pub fn ui(ctx: &mut ViewContext<'_>, ui: &mut Ui, row: &Row, scale: &Scale, [head, rect]: [Rect; 2]) {
    let Some((steps, offset)) = row.steps() else { return };
    let builder = UiBuilder::new().max_rect(head.shrink2(vec2(3.0, 0.0))).id_salt(("step picker", row.trace));
    ui.scope_builder(builder.layout(Layout::left_to_right(eframe::egui::Align::Center)), |ui| {
        head_ui(ctx, ui, row, steps);
    });
    let response = ui.interact(rect, Id::unique(("timeline steps", row.trace)), Sense::click());
    let label = match row.names.first() {
        Some(name) => format!("Steps of {name} on the timeline"),
        None => "Steps on the timeline".to_owned(),
    };
    response.widget_info(|| WidgetInfo::labeled(eframe::egui::Role::Group, true, &label));
    let shown = visible(steps, scale.view.shifted(offset.saturating_neg()));
    let chosen = chosen(steps, offset, *ctx.range).filter(|_| row.is_chosen);
    paint(ui, (steps, offset), (shown.clone(), chosen), tokens(ctx.is_dark), (scale, rect));
    let Some(pointer) = response.hover_pos() else { return };
    let at = scale.time(pointer.x).saturating_sub(offset);
    let times = &steps.extents()[shown.clone()];
    let Some(step) = times.iter().position(|time| time.contains(at)).map(|step| shown.start + step) else { return };
    if response.clicked() {
        if !row.is_chosen {
            ctx.steps.trace = Some(row.trace);
        }
        choose(ctx, steps, offset, step);
    }
    if response.double_clicked()
        && let Some(range) = *ctx.range
    {
        ctx.navigation.go(fitted(range, 0.1, ctx.span));
    }
    let source = source_text_of(ctx, row.trace, steps);
    response.on_hover_ui_at_pointer(|ui| tooltip_ui(steps, step, &source, ui));
}

/// The picker of the steps that the other views show, of others a button that makes them those; and where there are
/// several runs whose steps they are.
fn head_ui(ctx: &mut ViewContext<'_>, ui: &mut Ui, row: &Row, steps: &Steps) {
    ui.spacing_mut().item_spacing.x = 2.0;
    if row.is_chosen {
        picker_ui(ctx, steps, row.offset, true, ui);
    } else {
        let button = Button::new(format::steps(steps.len())).small().frame_when_inactive(false);
        if ui.add(button).on_hover_text("Show these steps in the other views, too").clicked() {
            ctx.steps.trace = Some(row.trace);
        }
    }
    let [name, others @ ..] = &row.names[..] else { return };
    let text = without_common_start(name, others.iter().map(String::as_str));
    let label = Label::new(RichText::new(text.as_ref().unwrap_or(name)).weak().size(11.0))
        .truncate()
        .show_tooltip_when_elided(false);
    ui.add(label).on_hover_text(format!("The steps of {name}"));
}

/// * `shown`: the steps that are in view, and which of them is chosen.
fn paint(
    ui: &Ui,
    (steps, offset): (&Steps, DurNs),
    (shown, chosen): (Range<usize>, Option<usize>),
    tokens: &Tokens,
    (scale, rect): (&Scale, Rect),
) {
    let band = |step: usize| {
        let time = steps.extents()[step].shifted(offset);
        Rect::from_x_y_ranges(scale.x(time.start)..=scale.x(time.end), rect.y_range()).intersect(rect)
    };
    let painter = ui.painter().with_clip_rect(rect);
    let Some(whole) = shown.clone().next().map(|first| band(first).union(band(shown.end - 1))) else { return };
    if whole.width() < MIN_BAND * shown.len() as f32 {
        painter.rect_filled(whole, 0.0, tokens.button[0]);
        let text = format!("{} steps: zoom in to see them", format::count(shown.len() as u64));
        let galley = painter.layout_no_wrap(text, FontId::proportional(11.0), tokens.weak_text);
        if galley.size().x < whole.width() {
            let place = Align2::CENTER_CENTER.align_size_within_rect(galley.size(), whole).min;
            painter.galley(place, galley, tokens.weak_text);
        }
        return;
    }
    for step in shown {
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
