//! Every allocation over time: stacked by age, at every zoom all of them.

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
use self::curves::Curve;
use self::heights::Heights;
use self::input::Drag;
use self::minimap::Overview;
use self::work::{Index, Marked, Picture, Question};
use super::head::choose_ui;
use crate::command::{Command, ctrl};
use crate::job::Memo;
use crate::model::TimeRange;
use crate::model::memory::AllocationId;
use crate::session::{Mark, MemoryKey, Navigation, ShownMemory};
use crate::view::timeline::{Minimap, Motion, Scale, fitted};
use crate::view::{self, View, ViewContext, ViewSpec, has_memory};

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
    has_content: has_memory,
    make: || Box::new(MemoryOverTime::default()),
};

/// Memory over time.
pub struct MemoryOverTime {
    /// Whether the person wants events along the axis where there is time as well.
    wants_events: bool,
    /// What of the events axis is visible.
    navigation: Navigation,
    color_by: ColorBy,
    /// Which curves are on show, in the order of [`curves::Curve::ALL`].
    is_curve_shown: [bool; 4],
    history: Option<MemoryKey>,
    index: Memo<MemoryKey, Arc<Index>>,
    colors: Memo<(MemoryKey, ColorBy, bool), Arc<Colors>>,
    pictures: Memo<Question, Arc<Picture>>,
    overview: Overview,
    motion: Motion,
    minimap: Minimap,
    drag: Option<Drag>,
    canvas: Canvas,
    /// Where the pointer is on the axis, while it is over the view.
    pointer_place: Option<i64>,
    /// A block to be fitted in height, by where it lies in a state.
    wanted: Option<(AllocationId, u32)>,
    below: Memo<(MemoryKey, AllocationId, u32), u64>,
    /// Whether working out the colors that were asked for crashed.
    have_colors_crashed: bool,
    is_pending: bool,
}

impl Default for MemoryOverTime {
    fn default() -> Self {
        Self {
            wants_events: false,
            navigation: Navigation::default(),
            color_by: ColorBy::default(),
            is_curve_shown: [true, false, true, false],
            history: None,
            index: Memo::default(),
            colors: Memo::default(),
            pictures: Memo::default(),
            overview: Overview::default(),
            motion: Motion::default(),
            minimap: Minimap::default(),
            drag: None,
            canvas: Canvas::default(),
            pointer_place: None,
            wanted: None,
            below: Memo::default(),
            have_colors_crashed: false,
            is_pending: false,
        }
    }
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

    /// Runs `act` with a context whose times are places on the axis, so that whatever is made for
    /// session time works for events too.
    fn on_axis<R>(
        &mut self,
        axis: &Axis<'_>,
        ctx: &mut ViewContext<'_>,
        act: impl FnOnce(&mut Self, &mut ViewContext<'_>) -> R,
    ) -> R {
        if axis.kind == AxisKind::Time {
            return act(self, ctx);
        }
        let mut navigation = std::mem::take(&mut self.navigation);
        // Amounts are the same on either axis.
        navigation.bytes = ctx.navigation.bytes;
        let place = |range: TimeRange| TimeRange { start: axis.at_time(range.start), end: axis.at_time(range.end) };
        let before = ctx.range.map(place);
        let mut range = before;
        let mark = |mark: &Mark| Mark { range: place(mark.range), note: mark.note.clone() };
        let mut marks: Vec<Mark> = ctx.marks.iter().map(mark).collect();
        let result = act(
            self,
            &mut ViewContext {
                traces: ctx.traces,
                span: axis.span(),
                navigation: &mut navigation,
                selection: &mut *ctx.selection,
                range: &mut range,
                marks: &mut marks,
                hits: &mut *ctx.hits,
                memory: &mut *ctx.memory,
                is_one_clock: ctx.is_one_clock,
                is_dark: ctx.is_dark,
                wheel_zooms: ctx.wheel_zooms,
                has_keys: ctx.has_keys,
                commands: &mut *ctx.commands,
            },
        );
        ctx.navigation.bytes = navigation.bytes;
        self.navigation = navigation;
        if range != before {
            let time = |range: TimeRange| TimeRange { start: axis.time(range.start), end: axis.time(range.end) };
            *ctx.range = range.map(time).filter(|range| range.dur() > 0);
        }
        result
    }

    /// Forgets what belongs to another history.
    fn follow(&mut self, ctx: &mut ViewContext<'_>, shown: &ShownMemory) -> MemoryKey {
        let key = shown.key();
        if self.history.as_ref() != Some(&key) {
            self.history = Some(key.clone());
            self.navigation = Navigation::default();
            ctx.navigation.forget_bytes();
            self.drag = None;
            self.wanted = None;
            self.canvas.forget();
        }
        key
    }

    /// All bytes that there ever were, with some room above.
    fn all_bytes(index: &Index) -> TimeRange {
        let highest = index.peak(Curve::Active).1.max(1);
        TimeRange { start: 0, end: (highest as f64 * (1.0 + HEADROOM)).ceil().min(i64::MAX as f64 / 4.0) as i64 + 1 }
    }

    /// The picture for what is on show, or the last one while it is being made.
    fn picture(
        &mut self,
        wanted: &Question,
        shown: &ShownMemory,
        index: &Arc<Index>,
        colors: &Arc<Colors>,
        egui: &egui::Context,
    ) -> Option<(Question, Arc<Picture>)> {
        let (waker, question) = (egui.clone(), wanted.clone());
        let (of, index, colors) = (shown.of.clone(), Arc::clone(index), Arc::clone(colors));
        let made = self.pictures.get_in_turn(
            wanted,
            |asked| asked.is_near(wanted),
            move || waker.request_repaint(),
            move |progress| Arc::new(work::picture(&of, &index, &colors, &question, progress)),
        );
        let made = made.map(Arc::clone);
        self.is_pending |= !self.pictures.is_current(wanted) && !self.pictures.has_crashed(wanted);
        let (made, question) = (made?, self.pictures.question()?.clone());
        (question.history == wanted.history && question.axis == wanted.axis).then_some((question, made))
    }

    /// What is worked out once for the history, and the color of each of its allocations.
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
        self.on_axis(&axis, ctx, |this, ctx| {
            if ctx.navigation.visible().dur() <= 0 {
                let margin = if axis.kind == AxisKind::Events { 0.0 } else { 0.02 };
                ctx.navigation.glide(fitted(ctx.span, margin, ctx.span));
            }
            let (rect, _) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
            if rect.width() < 160.0 || rect.height() < 120.0 {
                return;
            }
            let parts = Parts::new(rect, index.n_lanes, ui.pixels_per_point());
            let place = Place { shown, axis, index: &index, key: &key, parts };
            this.parts_ui(ctx, ui, &place, colors.as_ref());
        });
    }

    fn parts_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, place: &Place<'_>, colors: Option<&Arc<Colors>>) {
        let parts = &place.parts;
        let all = Self::all_bytes(place.index);
        let scale = |ctx: &ViewContext<'_>, ui: &Ui| {
            let canvas = place.parts.canvas;
            Scale::new(ctx.navigation.visible(), canvas.left(), canvas.width(), ui.pixels_per_point())
        };
        self.fit_wanted(ctx, place, ui.ctx());
        let before = scale(ctx, ui);
        let response = self.canvas_input(ctx, ui, place, before, all);
        let scale = scale(ctx, ui);
        let heights = Heights::new(ctx.navigation.bytes.unwrap_or(all), parts.canvas);
        // Textures have a largest size.
        let most = ui.input(|input| input.max_texture_side);
        let n_rows = (parts.canvas.height() * ui.pixels_per_point()).round() as usize;
        let wanted = Question {
            history: place.key.clone(),
            axis: place.axis.kind,
            view: scale.view,
            bytes: heights.bytes,
            size: [scale.n_pixels.min(most), n_rows.min(most)],
            pixel: scale.pixel,
            // What the person has just chosen comes when it is worked out.
            colors: colors.map_or((self.color_by, ctx.is_dark), |colors| (colors.by, colors.is_dark)),
            marked: Marked(Arc::clone(&ctx.memory.marked)),
        };
        let picture = colors.and_then(|colors| self.picture(&wanted, place.shown, place.index, colors, ui.ctx()));
        let has_crashed = self.have_colors_crashed || self.pictures.has_crashed(&wanted);
        self.canvas_ui(ctx, ui, place, &canvas::Frame { scale, heights, response, picture, has_crashed });
        self.overview.paint(ui, place, ctx.span);
        self.is_pending |= self.overview.is_pending();
        self.minimap.window_ui(ctx, ui, parts.minimap, &mut self.motion);
    }
}

/// What is on show, and where.
struct Place<'a> {
    shown: &'a ShownMemory,
    axis: Axis<'a>,
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
