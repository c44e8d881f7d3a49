//! Memory over time: every allocation, stacked by age.

mod axis;
mod bands;
mod bar;
mod canvas;
mod colors;
mod commands;
mod curves;
mod heights;
mod hover;
mod input;
mod labels;
mod menu;
mod minimap;
mod paint;
mod plot;
mod raster;
mod strips;
#[cfg(test)]
mod tests;
mod tree;
mod work;

use std::sync::Arc;

use eframe::egui::{Context, Frame, Key, Margin, Rect, Sense, Ui, pos2};

pub use self::minimap::Highest;

use self::axis::{Axis, AxisKind, OwnNavigation};
use self::canvas::Canvas;
use self::colors::{ColorBlocks, ColorBy, Colors};
use self::commands::BytesBelow;
use self::curves::{Curve, ShownCurves};
use self::heights::Heights;
use self::work::{Index, MakeIndex, Marked, PictureKey};
use super::head::{InShortLine, choose_ui, in_short_ui, is_small};
use crate::analysis::clock::ClockSource;
use crate::answers::{Answer, Query, Subject as _, SubjectKey};
use crate::command::{Command, ctrl};
use crate::model::TimeRange;
use crate::model::memory::{AllocationId, OutOfMemory};
use crate::session::{OpenTrace, ShownMemory};
use crate::view::axis::{Drag, Minimap, Motion, Scale, fitted};
use crate::view::states::answer_ui;
use crate::view::{self, View, ViewContext, ViewSpec};

const GUTTER: f32 = 72.0;
/// Room of the hatched edge between the scale and the picture.
const EDGE: f32 = 10.0;
const MINIMAP_HEIGHT: f32 = 26.0;
const RULER_HEIGHT: f32 = 20.0;
const LANE_HEIGHT: f32 = 16.0;
const CURVES_HEIGHT: f32 = 96.0;
const MARGIN: f32 = 6.0;
/// The width from which the title and what is in use at a moment share a line.
const READOUT_ABOVE: f32 = 800.0;
/// Room over the highest stack, as a share of it.
const HEADROOM: f64 = 0.04;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "memory",
    title: "Memory over time",
    help: "Show every allocation over time",
    keys: &[ctrl(Key::M)],
    area: view::DockArea::Center,
    content: view::Content::Memory,
    make: || Box::new(MemoryOverTime::default()),
};

/// Memory over time.
#[derive(Default)]
pub struct MemoryOverTime {
    /// Whether the user wants the events axis although there are times.
    wants_events: bool,
    /// Whether the user wants other recordings on the same axis, if the user said so.
    wants_others: Option<bool>,
    /// Whether this recording has an axis of time of its own.
    is_alone: bool,
    /// What is visible of the axes that only this view has; [`Axis::navigation`] chooses.
    navigation: OwnNavigation,
    color_by: ColorBy,
    is_curve_shown: ShownCurves,
    history: Option<SubjectKey>,
    index: Query<MakeIndex>,
    colors: Query<ColorBlocks>,
    pictures: Query<PictureKey>,
    highest: Query<Highest>,
    in_short: InShortLine,
    motion: Motion,
    minimap: Minimap,
    /// With the visible bytes at its start.
    drag: Drag<TimeRange>,
    canvas: Canvas,
    /// Whether what is in use at a moment stands beside the title, not below it.
    is_readout_above: bool,
    /// Position under the pointer while it is over the view.
    pointer_position: Option<i64>,
    /// Whether it was painted in this frame: else the pointer is over another view.
    is_on_screen: bool,
    /// A block to fit in height, by its place in a state.
    wanted: Option<(AllocationId, u32)>,
    below: Query<BytesBelow>,
    is_pending: bool,
}

impl std::fmt::Debug for MemoryOverTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryOverTime").field("color_by", &self.color_by).finish_non_exhaustive()
    }
}

/// Rectangles of the parts of the view.
#[derive(Clone, Copy, Debug)]
struct Parts {
    minimap: Rect,
    ruler: Rect,
    lanes: Rect,
    curves: Rect,
    canvas: Rect,
}

impl Parts {
    /// * `has_changes`: without them there are no curves, and nothing to move along.
    fn new(rect: Rect, n_lanes: usize, has_changes: bool, pixels_per_point: f32) -> Self {
        // On the pixel grid, so that the picture is not blurred.
        let snap = |x: f32| (x * pixels_per_point).round() / pixels_per_point;
        let (left, right) = (snap(rect.left() + GUTTER), snap(rect.right() - MARGIN));
        // In a small window the picture goes before the strips above it.
        let room = |height: f32, least: f32| if !has_changes || rect.height() < least { 0.0 } else { height };
        let curves_height = room(CURVES_HEIGHT.min(rect.height() * 0.22), 130.0);
        let mut top = snap(rect.top());
        let mut part = |height: f32, gap: f32| {
            let bottom = snap(top + height);
            let part = Rect::from_min_max(pos2(left, top), pos2(right.max(left + 1.0), bottom));
            top = snap(bottom + gap);
            part
        };
        let minimap = part(room(MINIMAP_HEIGHT, 180.0), room(2.0, 180.0));
        let ruler = part(RULER_HEIGHT, 0.0);
        let lanes = part(LANE_HEIGHT * n_lanes as f32, if n_lanes > 0 { 3.0 } else { 0.0 });
        let curves = part(curves_height, room(4.0, 130.0));
        let canvas =
            Rect::from_min_max(pos2(left, top), pos2(right.max(left + 1.0), snap(rect.bottom()).max(top + 1.0)));
        Self { minimap, ruler, lanes, curves, canvas }
    }

    /// Everything that shares the horizontal axis.
    fn plots(&self) -> Rect {
        Rect::from_min_max(self.ruler.min, self.canvas.max)
    }
}

impl MemoryOverTime {
    /// The axis of a history: events where it has no times.
    fn axis<'a>(&self, shown: &'a ShownMemory) -> Axis<'a> {
        let history = shown.history();
        let has_time = history.has_time && history.span.dur() > 0;
        let kind = if has_time && !self.wants_events { AxisKind::Time } else { AxisKind::Events };
        Axis { kind, history, offset: shown.open.offset, is_alone: self.is_alone }
    }

    /// Forgets what belongs to another history.
    fn follow(&mut self, ctx: &mut ViewContext<'_>, shown: &ShownMemory) {
        let is_shared = || meets_others(ctx.traces, shown) && is_told_in(ctx, shown);
        self.is_alone = !self.wants_others.unwrap_or_else(is_shared);
        let key = Some(shown.of.key());
        if self.history != key {
            self.history = key;
            self.navigation = OwnNavigation::default();
            ctx.navigation.forget_bytes();
            self.drag = Drag::default();
            self.wanted = None;
            self.canvas.forget();
        }
    }

    /// From 0 to the highest active bytes, with some room above.
    fn all_bytes(index: &Index) -> TimeRange {
        let highest = index.peak(Curve::Active).1.max(1);
        TimeRange { start: 0, end: (highest as f64 * (1.0 + HEADROOM)).ceil().min(i64::MAX as f64 / 4.0) as i64 + 1 }
    }

    /// The color of each allocation; the previous colors until the chosen ones are ready.
    fn colors(&mut self, shown: &ShownMemory, index: &Index, ctx: &ViewContext<'_>) -> Answer<Colors> {
        if !self.color_by.is_known(shown.history(), index) {
            // Recordings of profilers have no stacks; sizes are always known.
            let choices = [ColorBy::Stack, ColorBy::Category, ColorBy::Size];
            let known = choices.into_iter().find(|by| by.is_known(shown.history(), index));
            self.color_by = known.unwrap_or_default();
        }
        let wanted = ColorBlocks { by: self.color_by, is_dark: ctx.is_dark };
        let colors = self.colors.ask(ctx.answers, &shown.of, &wanted);
        self.is_pending |= colors.is_working();
        colors
    }

    fn shown_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, shown: &ShownMemory) {
        let index = self.index.ask(ctx.answers, &shown.of, &MakeIndex);
        self.is_pending |= index.is_working();
        let Some(index) = answer_ui(&index, "Reading the history of memory…", ui) else { return };
        let colors = self.colors(shown, &index, ctx);
        let axis = self.axis(shown);
        self.bar_ui(ctx, ui, shown, &axis, &index, colors.newest().map(|colors| &**colors));
        let history = shown.history();
        if history.allocations.is_empty() {
            ui.add_space(MARGIN);
            ui.label("No allocations to show");
            ui.weak("The recording has no events of blocks, and no block was live at its end");
            return;
        }
        let (rect, _) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
        if rect.width() < 160.0 || rect.height() < 40.0 {
            return;
        }
        let n_lanes = if rect.height() < 180.0 { 0 } else { index.n_lanes };
        let parts = Parts::new(rect, n_lanes, history.has_changes(), ui.pixels_per_point());
        let chart = Chart { shown, span: axis.reach(ctx.span), axis, index: &index, parts };
        self.parts_ui(ctx, ui, &chart, &colors);
    }

    fn parts_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, chart: &Chart<'_>, colors: &Answer<Colors>) {
        let parts = &chart.parts;
        let all = Self::all_bytes(chart.index);
        let navigation = chart.axis.navigation(&mut self.navigation, ctx.navigation);
        if navigation.visible().dur() <= 0 {
            navigation.glide(fitted(chart.span, chart.axis.margin(), chart.span));
        }
        self.fit_wanted(ctx, chart);
        let response = self.canvas_input(ctx, ui, chart, all);
        let (scale, heights) = self.scales(ctx, ui, chart, all);
        // Textures have a largest size.
        let most = ui.input(|input| input.max_texture_side);
        let n_rows = (parts.canvas.height() * ui.pixels_per_point()).round() as usize;
        let wanted = PictureKey {
            axis: chart.axis.kind,
            view: scale.view,
            bytes: heights.bytes,
            size: [scale.n_pixels.min(most), n_rows.min(most)],
            pixel: scale.pixel,
            // Colors that were just chosen come when they are computed.
            colors: colors.newest().map_or(ColorBlocks::default(), |colors| colors.of),
            marked: Marked(Arc::clone(&ctx.memory.marked)),
        };
        let (mut picture, mut failed) = (None, None);
        if let Answer::Failed(why) = colors {
            failed = Some(Arc::clone(why));
        } else if colors.newest().is_some() {
            // Until it is ready, the previous one stays, stretched.
            let made = self.pictures.ask_in_turn(ctx.answers, &chart.shown.of, &wanted, |known| known.is_near(&wanted));
            self.is_pending |= made.is_working();
            let key = self.pictures.shown().filter(|key| key.axis == wanted.axis);
            picture = key.cloned().zip(made.newest().cloned());
            if let Answer::Failed(why) = made {
                failed = Some(why);
            }
        }
        self.canvas_ui(ctx, ui, chart, &canvas::Frame { scale, heights, response, picture, failed });
        canvas::end_highlight_ui(ctx, ui, parts.canvas);
        if parts.minimap.height() >= 1.0 {
            self.minimap_ui(ctx, ui, chart);
        }
    }

    fn minimap_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, chart: &Chart<'_>) {
        let rect = chart.parts.minimap;
        let n_pixels = (rect.width() * ui.pixels_per_point()).round().clamp(1.0, 16_384.0) as usize;
        let wanted = Highest { axis: chart.axis.kind, span: chart.span, n_pixels };
        let answer = self.highest.ask(ctx.answers, &chart.shown.of, &wanted);
        self.is_pending |= answer.is_working();
        // Columns of another axis are wrong; those of another width are stretched.
        let is_alike = |known: &Highest| Highest { n_pixels, ..known.clone() } == wanted;
        let heights = answer.newest().filter(|_| self.highest.shown().is_some_and(is_alike));
        let heights = heights.map_or(&[][..], |heights| heights);
        let navigation = chart.axis.navigation(&mut self.navigation, ctx.navigation);
        self.minimap.ui(ui, rect, heights, navigation, chart.span, &mut self.motion);
    }

    /// Both axes of the canvas as they are now.
    ///
    /// * `all`: the bytes of the whole history.
    fn scales(&mut self, ctx: &mut ViewContext<'_>, ui: &Ui, chart: &Chart<'_>, all: TimeRange) -> (Scale, Heights) {
        let canvas = chart.parts.canvas;
        let navigation = chart.axis.navigation(&mut self.navigation, ctx.navigation);
        let scale = Scale::new(navigation.visible(), canvas.left(), canvas.width(), ui.pixels_per_point());
        (scale, Heights::new(navigation.bytes.unwrap_or(all), canvas))
    }
}

/// Whether no other open trace is known to be of another time. With those of other hours on its axis, this one would
/// be a few pixels wide.
fn meets_others(traces: &[OpenTrace], shown: &ShownMemory) -> bool {
    let is_utc = |open: &OpenTrace| open.source == ClockSource::Utc;
    let span = shown.history().span.shifted(shown.open.offset);
    traces.iter().all(|open| {
        let is_other_run = open.run != shown.open.run && is_utc(open) && is_utc(&shown.open);
        let other = open.trace.span.shifted(open.offset);
        !is_other_run && other.start <= span.end && span.start <= other.end
    })
}

/// Whether something happens to the memory in what the other traces show first, and no failure lies outside of it: a
/// short trace beside a long history would otherwise open that where there is nothing to see.
fn is_told_in(ctx: &ViewContext<'_>, shown: &ShownMemory) -> bool {
    let (history, content) = (shown.history(), ctx.content);
    if !ctx.traces.iter().enumerate().any(|(i, open)| i != shown.index && open.is_program()) {
        return true;
    }
    let is_inside = |oom: Option<&OutOfMemory>| {
        let at = oom.map(|oom| shown.session_time(oom.event.saturating_add(1)));
        at.is_none_or(|at| content.start <= at && at <= content.end)
    };
    let has_events = shown.state_at(content.start.saturating_sub(1)) < shown.state_at(content.end);
    // They are sorted: those between lie between.
    has_events && is_inside(history.ooms.first()) && is_inside(history.ooms.last())
}

/// What is shown in this frame, and where.
struct Chart<'a> {
    shown: &'a ShownMemory,
    axis: Axis<'a>,
    /// From the first to the last position that can be reached.
    span: TimeRange,
    index: &'a Arc<Index>,
    parts: Parts,
}

impl View for MemoryOverTime {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        (self.is_pending, self.is_on_screen) = (false, true);
        let frame = Frame::NONE.inner_margin(Margin { left: 0, right: 0, top: 4, bottom: 4 });
        frame.show(ui, |ui| {
            // The picture has the line.
            self.is_readout_above = ui.available_width() >= READOUT_ABOVE && !is_small(ui);
            let head = ui.horizontal(|ui| {
                ui.add_space(MARGIN);
                let shown = choose_ui(ctx, ui)?;
                self.follow(ctx, &shown);
                if self.is_readout_above {
                    ui.add_space(2.0 * MARGIN);
                    self.readout_ui(ctx, ui, &shown, &self.axis(&shown));
                }
                Some(shown)
            });
            if let Some(shown) = head.inner {
                let margin = Frame::NONE.inner_margin(Margin::symmetric(MARGIN as i8, 0));
                self.is_pending |= margin.show(ui, |ui| in_short_ui(&mut self.in_short, &shown, ctx, ui)).inner;
                self.shown_ui(ctx, ui, &shown);
            }
        });
    }

    fn update(&mut self, _ctx: &mut ViewContext<'_>, _egui: &Context) {
        self.is_on_screen = false;
    }

    fn is_pending(&self) -> bool {
        self.is_pending
    }

    fn visible(&mut self, ctx: &mut ViewContext<'_>) -> Option<[String; 2]> {
        let shown = ctx.memory.resolve(ctx.traces)?;
        let axis = self.axis(&shown);
        let visible = axis.navigation(&mut self.navigation, ctx.navigation).visible();
        // In its first frame nothing is, and without a history there is nothing to measure.
        let has_length = visible.dur() > 0 && shown.history().has_changes();
        let all = axis.reach(ctx.span);
        // Beside what was recorded there is nothing to see.
        has_length.then(|| axis.part_text(visible.intersect(all).unwrap_or_default(), all))
    }

    fn run(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        self.run_command(command, ctx)
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let Some(shown) = ctx.memory.resolve(ctx.traces) else { return false };
        self.follow(ctx, &shown);
        let position = self.pointer_position.filter(|_| self.is_on_screen);
        let under = position.map(|position| self.axis(&shown).state(position));
        if super::commands::run_hidden(command, under, ctx) {
            return true;
        }
        match command {
            Command::GoToPeak => {
                if let Some(why) = super::head::no_peak(shown.history()) {
                    ctx.commands.push(Command::Tell(why));
                    return true;
                }
                let axis = self.axis(&shown);
                self.go_to_peak(ctx, &axis, shown.history().curves.fullest());
            }
            Command::ToggleEventsAxis => {
                let axis = self.axis(&shown);
                self.choose_axis(&axis, axis.kind == AxisKind::Time, ctx);
            }
            _ => return false,
        }
        true
    }
}
