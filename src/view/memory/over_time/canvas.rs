//! The canvas: painting in layers, and clicks.

use std::sync::Arc;

use eframe::egui::{Color32, PointerButton, Pos2, Rangef, Rect, Response, Ui, UiBuilder, vec2};

use super::heights::Heights;
use super::paint::{self, Fit, PictureTexture};
use super::work::{Picture, PictureKey};
use super::{Chart, MemoryOverTime, hover, plot, strips};
use crate::figures::memory::lifetime_text;
use crate::model::TimeRange;
use crate::model::memory::AllocationId;
use crate::session::Selection;
use crate::view::ViewContext;
use crate::view::axis::{
    Scale, bracket_place, paint_bracket, paint_hover_line, paint_marks, paint_range, taken_by_marks,
};
use crate::view::memory::head::highlight_ui;
use crate::widget::labels::Labels;
use crate::widget::theme;

/// Least distance between two named amounts, in points.
const TICK_DISTANCE: f64 = 44.0;

/// The inputs of one frame.
pub struct Frame {
    pub scale: Scale,
    pub heights: Heights,
    pub response: Response,
    pub picture: Option<(PictureKey, Arc<Picture>)>,
    /// Why the picture or its colors could not be computed.
    pub failed: Option<Arc<str>>,
}

/// The rows of one block in each column, kept while picture and block are the same.
#[derive(Default)]
struct Outline {
    key: Option<(Arc<Picture>, AllocationId)>,
    rows: Vec<Option<[u32; 2]>>,
}

impl Outline {
    fn rows(&mut self, chart: &Chart<'_>, picture: &Arc<Picture>, id: AllocationId) -> &[Option<[u32; 2]>] {
        let is_same = self.key.as_ref().is_some_and(|(known, of)| Arc::ptr_eq(known, picture) && *of == id);
        if !is_same {
            let all = &chart.shown.history().allocations;
            self.rows = picture.rows_of(id, [all.start[id.idx()], all.end[id.idx()]]);
            self.key = Some((Arc::clone(picture), id));
        }
        &self.rows
    }
}

/// State of the canvas between frames.
#[derive(Default)]
pub struct Canvas {
    texture: PictureTexture,
    labels: Labels<u32>,
    band_labels: Labels<(u64, u32)>,
    selected: Outline,
    hovered: Outline,
    /// The target of the context menu: a block, and the state under the pointer.
    pub menu: Option<(Option<AllocationId>, u32)>,
}

impl Canvas {
    /// Forgets what belongs to another history.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The life of the selected allocation, also of one too small to be seen, and its length as text. Of a state of one
/// moment none is known.
fn lifetime(ctx: &ViewContext<'_>, chart: &Chart<'_>) -> Option<(TimeRange, String)> {
    let id = chart.shown.selected(*ctx.selection)?;
    let history = Some(chart.shown.history()).filter(|history| history.has_changes())?;
    let [start, end] = history.states_of(id);
    let life = chart.axis.range(start, end);
    let [text, _] = lifetime_text(history, id);
    Some((life, format!("lifetime {text}")))
}

/// Ends the highlight, in the picture that it belongs to: in the bar above it would begin a line of its own.
pub fn end_highlight_ui(ctx: &mut ViewContext<'_>, ui: &mut Ui, canvas: Rect) {
    if !ctx.memory.marked.is_empty() {
        let size = vec2(112.0, 22.0).min(canvas.size());
        let corner = Rect::from_min_size(canvas.right_top() + vec2(-4.0 - size.x, 4.0), size);
        ui.scope_builder(UiBuilder::new().max_rect(corner), |ui| highlight_ui(ctx, ui));
    }
}

impl MemoryOverTime {
    /// Paints the canvas and handles clicks.
    pub(super) fn canvas_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, chart: &Chart<'_>, frame: &Frame) {
        let parts = &chart.parts;
        let canvas = parts.canvas;
        let (strong, accent) = (ui.visuals().strong_text_color(), theme::tokens(ctx.is_dark).accent);
        let with_ruler = ui.painter_at(parts.ruler.union(canvas).expand2(vec2(0.0, 1.0)));
        let marks = ctx.marks.iter().map(|mark| (chart.axis.at_times(mark.range), mark.note.as_str()));
        let mut taken = taken_by_marks(&with_ruler, marks, &frame.scale);
        let moments = [ctx.memory.base_of(chart.shown), ctx.memory.moment];
        let life = lifetime(ctx, chart).map(|(life, text)| {
            let lines = moments.iter().flatten().map(|&state| plot::moment_place(chart, &frame.scale, state));
            let lines: Vec<Rangef> = lines.collect();
            let place = |taken: &[Rangef]| bracket_place(&with_ruler, &frame.scale, parts.ruler, life, &text, taken);
            // Where there is no room beside the lines, it covers them.
            let place = place(&[&taken[..], &lines].concat()).or_else(|| place(&taken));
            taken.extend(place);
            (life, (text, place))
        });
        // A state of one moment has nothing to count.
        if chart.shown.history().has_changes() {
            chart.axis.ruler().paint(&with_ruler, [parts.ruler, canvas], &frame.scale, ui.visuals(), &taken);
        }
        frame.heights.paint(ui.painter(), ui.visuals(), TICK_DISTANCE);
        let painter = ui.painter_at(canvas);
        let fit = frame.picture.as_ref().map(|(key, picture)| (Fit::new(key, &frame.scale, &frame.heights), picture));
        let pointer = frame.response.hover_pos().filter(|_| !self.drag.is_active());
        let mut under = None;
        if let Some((fit, picture)) = &fit {
            self.canvas.texture.paint(&painter, picture, fit);
            paint::labels(&painter, &mut self.canvas.labels, &picture.labels, fit);
            under = pointer.and_then(|pointer| fit.under(pointer)).and_then(|[column, row]| picture.at(column, row));
            self.outlines(ctx, &painter, chart, (fit, picture), under);
        }
        if !chart.index.bands.is_empty() && parts.lanes.height() >= 1.0 {
            let bars =
                frame.picture.as_ref().map_or((&[][..], 0), |(_, picture)| (&picture.bars[..], picture.n_hidden));
            strips::lanes(ctx, ui, chart, &frame.scale, &mut self.canvas.band_labels, bars);
        }
        let picture = frame.picture.as_ref().map(|(key, picture)| (key, &**picture));
        if parts.curves.height() >= 1.0 {
            self.curves_ui(ctx, ui, chart, &frame.scale, picture);
        }
        strips::unrecorded(ctx, ui, chart, &frame.scale, &frame.heights);
        strips::flags(ctx, ui, chart, &frame.scale);
        self.ranges(ctx, ui, chart, frame, (strong, accent));
        let with_ruler = ui.painter_at(parts.plots());
        let marks = ctx.marks.iter().map(|mark| (chart.axis.at_times(mark.range), mark.note.as_str()));
        paint_marks(&with_ruler, marks, &frame.scale, [parts.ruler, canvas], ctx.is_dark);
        let colors = [ui.visuals().weak_text_color(), accent];
        for (state, color) in moments.into_iter().zip(colors).filter_map(|(state, color)| Some((state?, color))) {
            plot::moment_line(ui, chart, &frame.scale, state, color);
        }
        if let Some((life, text)) = life {
            paint_bracket(&with_ruler, &frame.scale, parts.ruler, life, text, ctx.is_dark);
        }
        if let Some(pointer) = pointer {
            paint_hover_line(&with_ruler, pointer.x, strong);
        }
        if let Some(why) = &frame.failed {
            painter.text(canvas.center(), eframe::egui::Align2::CENTER_CENTER, why, Default::default(), strong);
        }
        let state = pointer.map(|pointer| self.state_under(chart, frame, pointer));
        self.clicks(ctx, chart, frame, under, state);
        frame.response.context_menu(|ui| self.menu_ui(ctx, ui, chart));
        let at = pointer.map(|pointer| frame.scale.time(pointer.x));
        if let (Some(id), Some(state), Some(at), false) = (under, state, at, frame.response.context_menu_opened()) {
            hover::ui(ui, &frame.response, chart, id, state, at);
        }
    }

    /// The state that the picture shows under the pointer.
    fn state_under(&self, chart: &Chart<'_>, frame: &Frame, pointer: Pos2) -> u32 {
        let drawn = frame.picture.as_ref().and_then(|(key, picture)| {
            let [column, _] = Fit::new(key, &frame.scale, &frame.heights).under(pointer)?;
            picture.columns.get(column).map(|column| column.state)
        });
        let exact = chart.axis.state(frame.scale.time(pointer.x));
        drawn.filter(|&state| state != super::axis::NO_STATE).unwrap_or(exact)
    }

    fn outlines(
        &mut self,
        ctx: &ViewContext<'_>,
        painter: &eframe::egui::Painter,
        chart: &Chart<'_>,
        (fit, picture): (&Fit, &Arc<Picture>),
        under: Option<AllocationId>,
    ) {
        let strong = theme::tokens(ctx.is_dark).strong_text;
        let glow = Color32::from_white_alpha(40);
        if let Some(id) = chart.shown.selected(*ctx.selection) {
            paint::outline(painter, self.canvas.selected.rows(chart, picture, id), fit, (strong, 2.0), glow);
        }
        if let Some(id) = under {
            paint::outline(painter, self.canvas.hovered.rows(chart, picture, id), fit, (strong, 1.0), glow);
        }
    }

    fn ranges(
        &self,
        ctx: &ViewContext<'_>,
        ui: &Ui,
        chart: &Chart<'_>,
        frame: &Frame,
        (strong, accent): (Color32, Color32),
    ) {
        let painter = ui.painter_at(chart.parts.plots());
        let area = Rect::from_min_max(chart.parts.lanes.min, chart.parts.canvas.max);
        if let Some(range) = *ctx.range {
            let range = chart.axis.at_times(range);
            paint_range(&painter, &frame.scale, area, range, chart.axis.length_text(range), accent);
        }
        if let Some(((_, corner), pointer)) = self.drag.zoom_start().zip(ui.ctx().pointer_latest_pos()) {
            strips::rubber_band(&ui.painter_at(chart.parts.canvas), Rect::from_two_pos(corner, pointer), strong);
        }
    }

    fn clicks(
        &mut self,
        ctx: &mut ViewContext<'_>,
        chart: &Chart<'_>,
        frame: &Frame,
        under: Option<AllocationId>,
        state: Option<u32>,
    ) {
        let response = &frame.response;
        if response.secondary_clicked() {
            self.canvas.menu = state.map(|state| (under, state));
        }
        // A click without a pointer comes from the keyboard, and points at nothing in the picture.
        let has_pointer = response.interact_pointer_pos().is_some();
        if has_pointer && (response.clicked() || response.secondary_clicked()) {
            if under.is_none() && response.clicked() && *ctx.selection == Selection::None {
                *ctx.range = None;
            }
            *ctx.selection = under.map_or(Selection::None, |id| chart.shown.selection(id));
        }
        if let (Some(id), Some(state), true) = (under, state, response.double_clicked_by(PointerButton::Primary)) {
            self.zoom_to_block(ctx, &chart.axis, id, state);
        }
    }
}
