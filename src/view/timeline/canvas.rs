//! The canvas: pointer input, and painting in layers.

use eframe::egui::{Color32, Id, Pos2, Rect, Response, Role, Sense, Stroke, Ui, WidgetInfo};

use super::hit::{Hit, hit};
use super::layout::{Area, DrawList, layout};
use super::overlay::{self, Geometry};
use super::paint::{self, AreaPaint, Labels};
use super::track_list::{LineKind, visible_lines};
use super::{Parts, Timeline, hover};
use crate::figures::format;
use crate::model::TimeRange;
use crate::session::Selection;
use crate::view::ViewContext;
use crate::view::axis::{DragAction, Scale, Wheel, fitted, middle, paint_hover_line, paint_marks, paint_range, panned};
use crate::widget::slice_color::SliceColors;

const HIT_COLOR: Color32 = Color32::from_rgb(240, 228, 66);

/// State of the canvas between frames.
#[derive(Default)]
pub struct Canvas {
    colors: Option<SliceColors>,
    areas: [AreaPaint; 2],
    labels: Labels,
    response: Option<Response>,
}

impl Canvas {
    /// Clears what belongs to other traces.
    pub fn forget(&mut self) {
        self.labels.clear();
    }
}

impl Timeline {
    /// Applies keys, wheel and drags to the view, the scroll offset and the selected range.
    pub(super) fn canvas_input(&mut self, ctx: &mut ViewContext<'_>, ui: &Ui, rect: Rect) {
        let response = ui.interact(rect, Id::unique("timeline canvas"), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Timeline canvas"));
        let view = ctx.navigation.visible();
        let scale = Scale::new(view, rect.left(), rect.width(), ui.pixels_per_point());
        let (pointer, now) = (response.hover_pos(), ui.input(|input| input.time));
        self.pointer_time = pointer.map(|pointer| scale.time(pointer.x));
        self.motion.keys(ctx.navigation, ctx.span, ui.ctx(), (self.pointer_time.unwrap_or(middle(view)), ctx.has_keys));
        if let Some(pointer) = pointer {
            let wheel = Wheel::read(ui.ctx(), ctx.wheel_zooms);
            self.motion.wheel(ctx.navigation, ctx.span, (&scale, pointer.x), wheel, now);
            let [pinned, _] = self.areas(rect);
            let index = usize::from(!pinned.rect.contains(pointer));
            self.scroll[index] -= f64::from(wheel.scroll.y);
        }
        match self.drag.update(ui, &response, &scale, *ctx.range, self.scroll[1]) {
            Some(DragAction::Range(range)) => *ctx.range = range,
            Some(DragAction::Zoom(range, _)) => ctx.navigation.go(fitted(range, 0.0, ctx.span)),
            Some(DragAction::Pan { view, vertical, moved }) => {
                let view = panned(view, scale.distance(-moved.x), ctx.span);
                self.motion.glide(ctx.navigation, view, now);
                self.scroll[1] = vertical - f64::from(moved.y);
            }
            None => {}
        }
        self.canvas.response = Some(response);
    }

    /// Paints the canvas and handles clicks.
    pub(super) fn canvas_ui(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &mut Ui,
        parts: &Parts,
        areas: [Area; 2],
        scale: Scale,
    ) {
        let is_dark = ctx.is_dark;
        let colors = self.canvas.colors.take().filter(|colors| colors.is_for(is_dark));
        let colors = colors.unwrap_or_else(|| SliceColors::new(is_dark));
        let [pinned, scrolled] = areas;
        let lines = [&self.tracks.pinned, &self.tracks.scrolled];
        let visible = [0, 1].map(|i| visible_lines(lines[i], areas[i].scroll, areas[i].bottom()));
        let on_screen = [0, 1].into_iter().flat_map(|i| lines[i].get(visible[i].clone()).unwrap_or_default());
        self.strips.ask(ctx, on_screen);
        let (background, strips) = (&mut self.background, &self.strips);
        let mut lists = [0, 1].map(|i| layout(ctx.traces, lines[i], areas[i], &scale, background, strips, ui.ctx()));
        for ((list, lines), area) in lists.iter_mut().zip(lines).zip(areas) {
            self.queues.draw(list, ctx.traces, lines, area, &scale);
        }
        let tick_color = ui.visuals().strong_text_color();
        for ((list, area), kept) in lists.iter().zip(areas).zip(&mut self.canvas.areas) {
            let painter = ui.painter_at(area.rect);
            kept.rows(&painter, list, &colors, scale.left, scale.pixel);
            paint::curves(&painter, list, &colors, scale.pixel);
            paint::curve_scales(&painter, list, ui.visuals().text_color());
            paint::boxes(&painter, list, &colors);
            paint::ticks(&painter, list, tick_color, scale.pixel);
            self.canvas.labels.paint(&painter, ctx.traces, list, area.rect);
        }
        self.canvas.colors = Some(colors);
        self.paint_separators(ui, parts, areas);
        let response = self.canvas.response.take();
        let Some(response) = response else { return };
        let pointer = response.hover_pos().filter(|_| !self.drag.is_active());
        let under = pointer.map_or(Hit::Nothing, |pointer| self.hit(ctx, areas, &scale, pointer));
        let geometry = Geometry { traces: ctx.traces, list: &self.tracks, scale, pinned, scrolled };
        let zoom = self.drag.zoom_start().zip(ui.ctx().pointer_latest_pos());
        let zoom = zoom.map(|((anchor, _), pointer)| TimeRange::new(anchor, scale.time(pointer.x)));
        paint_overlay(ctx, ui, parts, &geometry, [&lists[0], &lists[1]], (under, zoom));
        if let Some(pointer) = pointer {
            paint_hover_line(&ui.painter_at(parts.canvas), pointer.x, ui.visuals().strong_text_color());
        }
        self.clicks(ctx, &response, under);
        response.context_menu(|ui| self.menu_ui(ctx, ui));
        if pointer.is_some() && !response.context_menu_opened() {
            hover::ui(
                ctx,
                ui,
                &response,
                under,
                scale.time(pointer.unwrap_or_default().x),
                (&self.strips, &self.queues),
            );
        }
    }

    fn hit(&self, ctx: &ViewContext<'_>, areas: [Area; 2], scale: &Scale, pointer: Pos2) -> Hit {
        let lines = [&self.tracks.pinned, &self.tracks.scrolled];
        let index = usize::from(!areas[0].rect.contains(pointer));
        hit(ctx.traces, lines[index], areas[index], scale, pointer, &self.strips)
    }

    fn clicks(&mut self, ctx: &mut ViewContext<'_>, response: &Response, under: Hit) {
        if response.secondary_clicked() {
            self.menu = under;
        }
        // A click without a pointer comes from the keyboard and has no position.
        let has_pointer = response.interact_pointer_pos().is_some();
        if has_pointer && (response.clicked() || response.secondary_clicked()) {
            let is_empty = matches!(under, Hit::Nothing | Hit::Queue { .. } | Hit::Track { idle: None, .. });
            if is_empty && response.clicked() && *ctx.selection == Selection::None {
                *ctx.range = None;
            }
            *ctx.selection = match under {
                Hit::Slice { trace, slice } => Selection::Slice { trace, slice },
                Hit::Instant { trace, instant } => Selection::Instant { trace, instant },
                Hit::Gap { trace, process, gap } => self.strips.selection(trace, process, gap),
                Hit::Track { trace, track, idle: Some(gap), .. } => {
                    self.strips.selection(trace, ctx.traces[trace].trace.track(track).process, gap)
                }
                Hit::Track { .. } | Hit::Queue { .. } | Hit::Nothing => Selection::None,
            };
        }
        if response.double_clicked() {
            match under {
                Hit::Slice { .. } | Hit::Gap { .. } => {
                    if let Some(time) = ctx.selected_time() {
                        ctx.navigation.go(fitted(time, 0.1, ctx.span));
                    }
                }
                Hit::Track { trace, gap: Some(gap), .. } => {
                    *ctx.range = ctx.traces.get(trace).map(|open| gap.shifted(open.offset));
                }
                _ => {}
            }
        }
    }

    /// Bands behind headings of groups, and the border of the pinned tracks.
    fn paint_separators(&self, ui: &Ui, parts: &Parts, areas: [Area; 2]) {
        let visuals = ui.visuals();
        let line = visuals.widgets.noninteractive.bg_stroke;
        let whole = parts.labels.union(parts.canvas);
        for (lines, area) in [&self.tracks.pinned, &self.tracks.scrolled].into_iter().zip(areas) {
            let clip = Rect::from_x_y_ranges(whole.x_range(), area.rect.y_range());
            let painter = ui.painter_at(clip);
            for entry in lines.get(visible_lines(lines, area.scroll, area.bottom())).unwrap_or_default() {
                let top = area.top(entry);
                if !matches!(entry.kind, LineKind::Track(_) | LineKind::Queue(..)) {
                    let band = Rect::from_x_y_ranges(parts.labels.x_range(), top..=top + entry.height);
                    painter.rect_filled(band, 0.0, visuals.faint_bg_color);
                    painter.hline(clip.x_range(), top, line);
                }
            }
        }
        if areas[0].rect.height() > 0.0 {
            ui.painter().hline(whole.x_range(), areas[0].rect.bottom(), Stroke::new(2.0, line.color));
        }
        ui.painter().vline(parts.canvas.left() - 1.0, whole.y_range(), line);
    }
}

fn paint_overlay(
    ctx: &ViewContext<'_>,
    ui: &Ui,
    parts: &Parts,
    geometry: &Geometry<'_>,
    lists: [&DrawList; 2],
    (under, zoom): (Hit, Option<TimeRange>),
) {
    let painter = ui.painter_at(parts.canvas);
    let with_ruler = ui.painter_at(parts.canvas.union(parts.ruler));
    let strong = ui.visuals().strong_text_color();
    let accent = ui.visuals().selection.stroke.color;
    overlay::hits(&with_ruler, geometry, ctx.hits, parts.ruler, HIT_COLOR);
    for (range, color) in [(*ctx.range, accent), (zoom, strong)] {
        if let Some(range) = range {
            paint_range(&painter, &geometry.scale, parts.canvas, range, format::duration(range.dur()), color);
        }
    }
    let marks = ctx.marks.iter().map(|mark| (mark.range, mark.note.as_str()));
    paint_marks(&with_ruler, marks, &geometry.scale, [parts.ruler, parts.canvas], ctx.is_dark);
    overlay::selection(&painter, geometry, *ctx.selection, strong);
    overlay::hovered(&painter, geometry, lists, under, strong);
}
