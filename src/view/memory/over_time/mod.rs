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

use eframe::egui::{self, Frame, Key, Margin, Rect, Sense, Ui, pos2};

use self::axis::{Axis, AxisKind};
use self::canvas::Canvas;
use self::colors::{ColorBy, Colors};
use self::curves::{Curve, ShownCurves};
use self::heights::Heights;
use self::minimap::Overview;
use self::work::{Index, Marked, Picture, PictureKey};
use super::head::choose_ui;
use crate::command::{Command, ctrl};
use crate::job::Memo;
use crate::model::TimeRange;
use crate::model::memory::AllocationId;
use crate::session::{MemoryKey, Navigation, ShownMemory};
use crate::view::axis::{Drag, Minimap, Motion, Scale, fitted};
use crate::view::{self, View, ViewContext, ViewSpec};

const GUTTER: f32 = 72.0;
const MINIMAP_HEIGHT: f32 = 26.0;
const RULER_HEIGHT: f32 = 20.0;
const LANE_HEIGHT: f32 = 16.0;
const CURVES_HEIGHT: f32 = 96.0;
const MARGIN: f32 = 6.0;
/// Room over the highest stack, as a share of it.
const HEADROOM: f64 = 0.04;

/// Its row in the table of views.
pub const SPEC: ViewSpec = ViewSpec {
    id: "memory",
    title: "Memory over time",
    help: "Show every allocation over time",
    keys: &[ctrl(Key::M)],
    place: view::Place::Center,
    content: view::Content::Memory,
    make: || Box::new(MemoryOverTime::default()),
};

/// Memory over time.
#[derive(Default)]
pub struct MemoryOverTime {
    /// Whether the person wants events along the axis where there is time as well.
    wants_events: bool,
    /// What of the events axis is visible; [`Axis::navigation`] chooses between it and session time.
    navigation: Navigation,
    color_by: ColorBy,
    is_curve_shown: ShownCurves,
    history: Option<MemoryKey>,
    index: Memo<MemoryKey, Arc<Index>>,
    colors: Memo<(MemoryKey, ColorBy, bool), Arc<Colors>>,
    pictures: Memo<PictureKey, Arc<Picture>>,
    overview: Overview,
    motion: Motion,
    minimap: Minimap,
    /// Remembers the bytes on show.
    drag: Drag<TimeRange>,
    canvas: Canvas,
    /// Where the pointer is on the axis, while it is over the view.
    pointer_position: Option<i64>,
    /// A block to be fitted in height, by where it lies in a state.
    wanted: Option<(AllocationId, u32)>,
    below: Memo<(MemoryKey, AllocationId, u32), u64>,
    /// Whether the computation of the chosen colors crashed.
    have_colors_crashed: bool,
    is_pending: bool,
}

impl std::fmt::Debug for MemoryOverTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryOverTime").field("color_by", &self.color_by).finish_non_exhaustive()
    }
}

/// Where the parts of the view are.
#[derive(Clone, Copy, Debug)]
struct Parts {
    minimap: Rect,
    ruler: Rect,
    lanes: Rect,
    curves: Rect,
    canvas: Rect,
}

impl Parts {
    fn new(rect: Rect, n_lanes: usize, pixels_per_point: f32) -> Self {
        // On the pixel grid, so that the picture is not blurred.
        let snap = |x: f32| (x * pixels_per_point).round() / pixels_per_point;
        let (left, right) = (snap(rect.left() + GUTTER), snap(rect.right() - MARGIN));
        let curves_height = CURVES_HEIGHT.min(rect.height() * 0.22);
        let mut top = snap(rect.top());
        let mut part = |height: f32, gap: f32| {
            let bottom = snap(top + height);
            let part = Rect::from_min_max(pos2(left, top), pos2(right.max(left + 1.0), bottom));
            top = snap(bottom + gap);
            part
        };
        let minimap = part(MINIMAP_HEIGHT, 2.0);
        let ruler = part(RULER_HEIGHT, 0.0);
        let lanes = part(LANE_HEIGHT * n_lanes as f32, if n_lanes > 0 { 3.0 } else { 0.0 });
        let curves = part(curves_height, 4.0);
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
        Axis { kind, history, offset: shown.open.offset }
    }

    /// Forgets what belongs to another history.
    fn follow(&mut self, ctx: &mut ViewContext<'_>, shown: &ShownMemory) -> MemoryKey {
        let key = shown.key();
        if self.history.as_ref() != Some(&key) {
            self.history = Some(key.clone());
            self.navigation = Navigation::default();
            ctx.navigation.forget_bytes();
            self.drag = Drag::default();
            self.wanted = None;
            self.canvas.forget();
        }
        key
    }

    /// From 0 to the most bytes that were active at once, with some room above.
    fn all_bytes(index: &Index) -> TimeRange {
        let highest = index.peak(Curve::Active).1.max(1);
        TimeRange { start: 0, end: (highest as f64 * (1.0 + HEADROOM)).ceil().min(i64::MAX as f64 / 4.0) as i64 + 1 }
    }

    /// The picture for what is on show, or the last one while it is being made.
    fn picture(
        &mut self,
        wanted: &PictureKey,
        shown: &ShownMemory,
        index: &Arc<Index>,
        colors: &Arc<Colors>,
        egui: &egui::Context,
    ) -> Option<(PictureKey, Arc<Picture>)> {
        let (waker, key) = (egui.clone(), wanted.clone());
        let (of, index, colors) = (shown.of.clone(), Arc::clone(index), Arc::clone(colors));
        let made = self.pictures.get_in_turn(
            wanted,
            |known| known.is_near(wanted),
            move || waker.request_repaint(),
            move |progress| Arc::new(work::picture(&of, &index, &colors, &key, progress)),
        );
        let made = made.map(Arc::clone);
        self.is_pending |= !self.pictures.is_current(wanted) && !self.pictures.has_crashed(wanted);
        let (made, key) = (made?, self.pictures.question()?.clone());
        (key.history == wanted.history && key.axis == wanted.axis).then_some((key, made))
    }

    /// The index of the history, and the color of each of its allocations.
    fn prepare(
        &mut self,
        key: &MemoryKey,
        shown: &ShownMemory,
        is_dark: bool,
        egui: &egui::Context,
    ) -> Option<(Arc<Index>, Option<Arc<Colors>>)> {
        let (waker, open) = (egui.clone(), shown.of.clone());
        let index = self.index.get(
            key,
            move || waker.request_repaint(),
            move |progress| Arc::new(Index::build(&open, progress)),
        );
        let index = index.cloned().filter(|_| self.index.is_current(key))?;
        if !self.color_by.is_known(shown.history(), &index) {
            // What a profiler records has no stacks; sizes are always known.
            let choices = [ColorBy::Stack, ColorBy::Category, ColorBy::Size];
            let known = choices.into_iter().find(|by| by.is_known(shown.history(), &index));
            self.color_by = known.unwrap_or_default();
        }
        let (by, color_key) = (self.color_by, (key.clone(), self.color_by, is_dark));
        let (waker, open, steps) = (egui.clone(), shown.of.clone(), Arc::clone(&index));
        let work = move |_: &crate::job::Progress| {
            Arc::new(Colors::build(open.trace(), open.history(), steps.steps.as_ref(), by, is_dark))
        };
        let colors = self.colors.get(&color_key, move || waker.request_repaint(), work).cloned();
        self.have_colors_crashed = self.colors.has_crashed(&color_key);
        self.is_pending |= !self.colors.is_current(&color_key) && !self.have_colors_crashed;
        // Until the new colors are there, the picture keeps those that it has.
        let is_same = self.colors.question().is_some_and(|known| known.0 == *key);
        Some((index, colors.filter(|_| is_same)))
    }

    fn shown_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, shown: &ShownMemory) {
        let key = self.follow(ctx, shown);
        let prepared = self.prepare(&key, shown, ctx.is_dark, ui.ctx());
        self.is_pending |= prepared.is_none();
        let axis = self.axis(shown);
        let Some((index, colors)) = prepared else {
            if self.index.has_crashed(&key) {
                self.is_pending = false;
                ui.label("This memory could not be worked out");
            } else {
                ui.spinner();
            }
            return;
        };
        self.bar_ui(ctx, ui, shown, &axis, &index, colors.as_deref());
        let history = shown.history();
        if history.allocations.is_empty() {
            ui.add_space(MARGIN);
            ui.label("No allocation is known");
            ui.weak("The recording has no events of blocks, and no block was live at its end");
            return;
        }
        let (rect, _) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
        if rect.width() < 160.0 || rect.height() < 120.0 {
            return;
        }
        let parts = Parts::new(rect, index.n_lanes, ui.pixels_per_point());
        let chart = Chart { shown, span: axis.reach(ctx.span), axis, index: &index, key: &key, parts };
        self.parts_ui(ctx, ui, &chart, colors.as_ref());
    }

    fn parts_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, chart: &Chart<'_>, colors: Option<&Arc<Colors>>) {
        let parts = &chart.parts;
        let all = Self::all_bytes(chart.index);
        let navigation = chart.axis.navigation(&mut self.navigation, ctx.navigation);
        if navigation.visible().dur() <= 0 {
            navigation.glide(fitted(chart.span, chart.axis.margin(), chart.span));
        }
        self.fit_wanted(ctx, chart, ui.ctx());
        let response = self.canvas_input(ctx, ui, chart, all);
        let (scale, heights) = self.scales(ctx, ui, chart, all);
        // Textures have a largest size.
        let most = ui.input(|input| input.max_texture_side);
        let n_rows = (parts.canvas.height() * ui.pixels_per_point()).round() as usize;
        let wanted = PictureKey {
            history: chart.key.clone(),
            axis: chart.axis.kind,
            view: scale.view,
            bytes: heights.bytes,
            size: [scale.n_pixels.min(most), n_rows.min(most)],
            pixel: scale.pixel,
            // Colors that were just chosen come when they are computed.
            colors: colors.map_or((self.color_by, ctx.is_dark), |colors| (colors.by, colors.is_dark)),
            marked: Marked(Arc::clone(&ctx.memory.marked)),
        };
        let picture = colors.and_then(|colors| self.picture(&wanted, chart.shown, chart.index, colors, ui.ctx()));
        let has_crashed = self.have_colors_crashed || self.pictures.has_crashed(&wanted);
        self.canvas_ui(ctx, ui, chart, &canvas::Frame { scale, heights, response, picture, has_crashed });
        let columns = self.overview.heights(ui, chart);
        self.is_pending |= self.overview.is_pending();
        let navigation = chart.axis.navigation(&mut self.navigation, ctx.navigation);
        self.minimap.ui(ui, parts.minimap, &columns, navigation, chart.span, &mut self.motion);
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

/// What is on show in this frame, and where.
struct Chart<'a> {
    shown: &'a ShownMemory,
    axis: Axis<'a>,
    /// From the first to the last position that can be reached.
    span: TimeRange,
    index: &'a Arc<Index>,
    key: &'a MemoryKey,
    parts: Parts,
}

impl View for MemoryOverTime {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        self.is_pending = false;
        let frame = Frame::NONE.inner_margin(Margin { left: 0, right: 0, top: 4, bottom: 4 });
        frame.show(ui, |ui| {
            let shown = ui
                .horizontal_wrapped(|ui| {
                    ui.add_space(MARGIN);
                    choose_ui(ctx, ui)
                })
                .inner;
            if let Some(shown) = shown {
                self.shown_ui(ctx, ui, &shown);
            }
        });
    }

    fn is_pending(&self) -> bool {
        self.is_pending
    }

    fn forget(&mut self) {
        // What the person chose stays, and what is on show if it is still open.
        *self = Self {
            wants_events: self.wants_events,
            navigation: std::mem::take(&mut self.navigation),
            color_by: self.color_by,
            is_curve_shown: self.is_curve_shown,
            history: self.history.take(),
            ..Self::default()
        };
    }

    fn run(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        self.run_command(command, ctx)
    }
}
