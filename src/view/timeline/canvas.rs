//! The canvas itself: what a pointer does there, and in which order its parts are painted.

use eframe::egui::{Color32, CursorIcon, Id, Pos2, Rect, Response, Role, Sense, Stroke, Ui, WidgetInfo};

use super::hit::{Hit, hit};
use super::layout::{Area, DrawList, layout};
use super::navigate::{Drag, DragKind, fitted, panned};
use super::overlay::{self, Places};
use super::paint::{self, AreaPaint, Labels};
use super::scale::Scale;
use super::track_list::{LineKind, visible_lines};
use super::{Parts, Timeline, hover};
use crate::model::TimeRange;
use crate::session::Selection;
use crate::view::ViewContext;
use crate::widget::slice_color::SliceColors;

const MARK_COLOR: Color32 = Color32::from_rgb(230, 159, 0);
const HIT_COLOR: Color32 = Color32::from_rgb(240, 228, 66);

/// What the canvas keeps from frame to frame.
#[derive(Default)]
pub struct Canvas {
    colors: Option<SliceColors>,
    areas: [AreaPaint; 2],
    labels: Labels,
    response: Option<Response>,
}

impl Canvas {
    /// Forgets what belongs to other traces.
    pub fn forget(&mut self) {
        self.labels.clear();
    }
}

impl Timeline {
    /// Reads keys, wheel and drags, and moves view, scroll and range.
    pub(super) fn canvas_input(&mut self, ctx: &mut ViewContext<'_>, ui: &Ui, rect: Rect) {
        let response = ui.interact(rect, Id::unique("timeline canvas"), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Timeline canvas"));
        let view = ctx.navigation.visible();
        let scale = Scale::new(view, rect.left(), rect.width(), ui.pixels_per_point());
        let pointer = response.hover_pos();
        self.pointer_time = pointer.map(|pointer| scale.time(pointer.x));
        let at = self.pointer_time.unwrap_or_else(|| view.start.saturating_add(view.dur() / 2));
        self.motion.keys(ctx, ui.ctx(), at);
        if let Some(pointer) = pointer {
            let scroll = self.motion.wheel(ctx, ui.ctx(), (&scale, pointer), ctx.wheel_zooms);
            let [pinned, _] = self.areas(rect);
            let index = usize::from(!pinned.rect.contains(pointer));
            self.scroll[index] -= f64::from(scroll);
        }
        self.drag(ctx, ui, &scale, &response);
        self.canvas.response = Some(response);
    }

    fn drag(&mut self, ctx: &mut ViewContext<'_>, ui: &Ui, scale: &Scale, response: &Response) {
        let (origin, modifiers, now) = ui.input(|input| (input.pointer.press_origin(), input.modifiers, input.time));
        if self.motion.drag.is_none()
            && let Some(pointer) = response.hover_pos()
        {
            overlay::fixed_edge(ui, scale, *ctx.range, pointer);
        }
        if let Some(origin) = origin.filter(|_| response.drag_started()) {
            let anchor = scale.time(origin.x);
            self.motion.drag = DragKind::of(response, modifiers).map(|kind| match kind {
                DragKind::Pan => Drag::Pan { view: scale.view, scroll: self.scroll[1] },
                DragKind::Zoom => Drag::Zoom { anchor },
                DragKind::Range => {
                    let fixed = overlay::fixed_edge(ui, scale, *ctx.range, origin);
                    Drag::Range { anchor: fixed.unwrap_or(anchor) }
                }
            });
        }
        let (Some(drag), Some(pointer)) = (self.motion.drag, response.interact_pointer_pos()) else {
            self.motion.drag = self.motion.drag.filter(|_| response.dragged());
            return;
        };
        let at = scale.time(pointer.x.clamp(scale.left, scale.right()));
        match drag {
            Drag::Range { anchor } => *ctx.range = Some(TimeRange::new(anchor, at)).filter(|range| range.dur() > 0),
            Drag::Zoom { anchor } if response.drag_stopped() => {
                let range = TimeRange::new(anchor, at);
                if range.dur() > 0 {
                    ctx.navigation.go(fitted(range, 0.0, ctx.span));
                }
            }
            Drag::Zoom { .. } => {}
            Drag::Pan { view, scroll } => {
                // On release there is no origin any more, and nothing left to move.
                let moved = origin.map(|origin| pointer - origin);
                let Some(moved) = moved else {
                    self.motion.drag = None;
                    return;
                };
                let by = (-f64::from(moved.x) * scale.ns_per_point()) as i64;
                self.motion.glide(ctx, panned(view, by, ctx.span), now);
                self.scroll[1] = scroll - f64::from(moved.y);
                ui.set_cursor_icon(CursorIcon::Grabbing);
            }
        }
        if response.drag_stopped() {
            self.motion.drag = None;
        }
    }

    /// Paints everything on the canvas, and acts on clicks.
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
        let lists = [0, 1].map(|i| layout(ctx.traces, lines[i], areas[i], &scale, &mut self.background, ui.ctx()));
        let tick_color = ui.visuals().strong_text_color();
        for ((list, area), kept) in lists.iter().zip(areas).zip(&mut self.canvas.areas) {
            let painter = ui.painter_at(area.rect);
            kept.rows(&painter, list, &colors, scale.left, scale.pixel);
            paint::curves(&painter, list, &colors, scale.pixel);
            paint::curve_scales(&painter, ctx.traces, list, ui.visuals().text_color());
            paint::boxes(&painter, list, &colors);
            paint::ticks(&painter, list, tick_color, scale.pixel);
            self.canvas.labels.paint(&painter, ctx.traces, list, area.rect);
        }
        self.canvas.colors = Some(colors);
        self.paint_separators(ui, parts, areas);
        let response = self.canvas.response.take();
        let Some(response) = response else { return };
        let pointer = response.hover_pos().filter(|_| self.motion.drag.is_none());
        let under = pointer.map_or(Hit::Nothing, |pointer| self.hit(ctx, areas, &scale, pointer));
        let places = Places { traces: ctx.traces, list: &self.tracks, scale, pinned, scrolled };
        paint_overlay(ctx, ui, parts, &places, [&lists[0], &lists[1]], (under, self.motion.drag));
        if let Some(pointer) = pointer {
            overlay::cross_hair(&ui.painter_at(parts.canvas), pointer.x, ui.visuals().strong_text_color());
        }
        self.clicks(ctx, &response, under);
        response.context_menu(|ui| self.menu_ui(ctx, ui));
        if pointer.is_some() && !response.context_menu_opened() {
            hover::ui(ctx, ui, &response, under, scale.time(pointer.unwrap_or_default().x));
        }
    }

    fn hit(&self, ctx: &ViewContext<'_>, areas: [Area; 2], scale: &Scale, pointer: Pos2) -> Hit {
        let lines = [&self.tracks.pinned, &self.tracks.scrolled];
        let index = usize::from(!areas[0].rect.contains(pointer));
        hit(ctx.traces, lines[index], areas[index], scale, pointer)
    }

    fn clicks(&mut self, ctx: &mut ViewContext<'_>, response: &Response, under: Hit) {
        if response.secondary_clicked() {
            self.menu = under;
        }
        // A click without a pointer comes from the keyboard, and means no place on the canvas.
        let has_pointer = response.interact_pointer_pos().is_some();
        if has_pointer && (response.clicked() || response.secondary_clicked()) {
            let is_empty = matches!(under, Hit::Nothing | Hit::Track { .. });
            if is_empty && response.clicked() && *ctx.selection == Selection::None {
                *ctx.range = None;
            }
            *ctx.selection = match under {
                Hit::Slice { trace, slice } => Selection::Slice { trace, slice },
                Hit::Instant { trace, instant } => Selection::Instant { trace, instant },
                _ => Selection::None,
            };
        }
        if response.double_clicked() {
            match under {
                Hit::Slice { .. } => {
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
            let bottom = area.scroll + f64::from(area.rect.height());
            for entry in lines.get(visible_lines(lines, area.scroll, bottom)).unwrap_or_default() {
                let top = area.top(entry);
                if !matches!(entry.kind, LineKind::Track(_)) {
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
    places: &Places<'_>,
    lists: [&DrawList; 2],
    (under, drag): (Hit, Option<Drag>),
) {
    let painter = ui.painter_at(parts.canvas);
    let with_ruler = ui.painter_at(parts.canvas.union(parts.ruler));
    let strong = ui.visuals().strong_text_color();
    let accent = ui.visuals().selection.stroke.color;
    overlay::hits(&with_ruler, places, ctx.hits, parts.ruler, HIT_COLOR);
    if let Some(range) = *ctx.range {
        overlay::range(&painter, &places.scale, parts.canvas, range, accent);
    }
    if let (Some(Drag::Zoom { anchor }), Some(pointer)) = (drag, ui.ctx().pointer_latest_pos()) {
        let range = TimeRange::new(anchor, places.scale.time(pointer.x));
        overlay::range(&painter, &places.scale, parts.canvas, range, strong);
    }
    overlay::marks(&with_ruler, ctx, &places.scale, [parts.ruler, parts.canvas], MARK_COLOR);
    overlay::selection(&painter, places, *ctx.selection, strong);
    overlay::allocation(&painter, ctx, &places.scale, strong);
    overlay::hovered(&painter, places, lists, under, strong);
}
