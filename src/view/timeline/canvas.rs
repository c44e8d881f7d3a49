//! The canvas: pointer input, and painting in layers.

use std::collections::BTreeSet;
use std::sync::Arc;

use eframe::egui::{
    Color32, FontId, Galley, Id, Painter, Pos2, Rect, Response, Role, Sense, Stroke, Ui, WidgetInfo, pos2, vec2,
};

use super::hit::{Hit, edges_at, edges_of, edges_of_selected, hit};
use super::layout::{Area, DrawList, layout};
use super::overlay::{self, Geometry};
use super::paint::{self, AreaPaint, Labels};
use super::{Parts, Timeline, hover, steps};
use crate::analysis::steps::Steps;
use crate::command::Command;
use crate::figures::format;
use crate::model::{DurNs, TimeNs, TimeRange};
use crate::session::{OpenTrace, Selection, counts_events};
use crate::view::ViewContext;
use crate::view::axis::{DragAction, Scale, Wheel, fitted, middle, paint_hover_line, paint_marks, paint_range, panned};
use crate::widget::slice_color::SliceColors;
use crate::widget::theme;

/// How far from an edge, in points, the end of a dragged range snaps to it.
const SNAP_REACH: f32 = 6.0;
const HIT_COLOR: Color32 = Color32::from_rgb(240, 228, 66);

/// State of the canvas between frames.
#[derive(Default)]
pub struct Canvas {
    colors: Option<SliceColors>,
    areas: [AreaPaint; 3],
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
    ///
    /// * `of_runs`: the steps that are shown, with the offset of their trace.
    pub(super) fn canvas_input(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &Ui,
        parts: &Parts,
        of_runs: &[(&Steps, DurNs)],
    ) {
        let rect = parts.canvas;
        let response = ui.interact(rect, Id::unique("timeline canvas"), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Timeline canvas"));
        let latest = ui.ctx().pointer_latest_pos();
        if self.placed.0.replace(rect).is_some_and(|before| before != rect) {
            self.placed.1 = latest;
        }
        self.placed.1 = self.placed.1.filter(|&at| Some(at) == latest);
        let view = ctx.navigation.visible();
        let scale = Scale::new(view, rect.left(), rect.width(), ui.pixels_per_point());
        // The bands of steps below it take clicks, but no drags.
        let ruler = parts.ruler.union(parts.steps[1]);
        let ruler = ui.interact(ruler, Id::unique("timeline ruler"), Sense::click_and_drag());
        ruler.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Timeline ruler"));
        let (pointer, now) = (response.hover_pos(), ui.input(|input| input.time));
        self.pointer_time = pointer.or(ruler.hover_pos()).map(|pointer| scale.time(pointer.x));
        self.motion.keys(ctx.navigation, ctx.span, ui.ctx(), (self.pointer_time.unwrap_or(middle(view)), ctx.has_keys));
        if let Some(pointer) = pointer {
            let wheel = Wheel::read(ui.ctx(), ctx.wheel_zooms);
            self.motion.wheel(ctx.navigation, ctx.span, (&scale, pointer.x), wheel, now);
            let [pinned, ..] = self.areas(rect);
            let index = usize::from(!pinned.rect.contains(pointer));
            self.scroll[index] -= f64::from(wheel.scroll.y);
        }
        let areas = self.areas(rect);
        let is_free = ui.input(|input| input.modifiers.command);
        let [mut drag, mut ruler_drag] = [std::mem::take(&mut self.drag), std::mem::take(&mut self.ruler_drag)];
        for (drag, response) in [(&mut drag, &response), (&mut ruler_drag, &ruler)] {
            let place =
                |at: Pos2| if is_free { scale.time(at.x) } else { self.snapped(ctx, areas, &scale, of_runs, at) };
            let (range, is_range) = (*ctx.range, drag.is_range());
            match drag.update(ui, response, &scale, range, self.scroll[1], &place) {
                Some(DragAction::Range(range)) => *ctx.range = range,
                Some(DragAction::Zoom(range, _)) => ctx.navigation.go(fitted(range, 0.0, ctx.span)),
                Some(DragAction::Pan { view, vertical, moved }) => {
                    let view = panned(view, scale.distance(-moved.x), ctx.span);
                    self.motion.glide(ctx.navigation, view, now);
                    self.scroll[1] = vertical - f64::from(moved.y);
                }
                None => {}
            }
            if is_range && response.drag_stopped() {
                ctx.commands.extend(ctx.range.map(Command::ShowRange));
            }
        }
        (self.drag, self.ruler_drag) = (drag, ruler_drag);
        self.canvas.response = Some(response);
    }

    /// The time at the pointer, where the axis is time.
    pub(super) fn measured(&self, traces: &[OpenTrace]) -> Option<TimeNs> {
        self.pointer_time.filter(|_| !counts_events(traces))
    }

    /// The session time at a place on screen: that of an edge nearby, of the slices of the row there, of the selection
    /// or of a mark. The ruler is of no row: there it is the row of the selected slice, and the steps, and where these
    /// have no edge nearby, all rows on screen.
    fn snapped(
        &self,
        ctx: &ViewContext<'_>,
        areas: [Area; 3],
        scale: &Scale,
        of_runs: &[(&Steps, DurNs)],
        at: Pos2,
    ) -> TimeNs {
        let time = scale.time(at.x);
        let nearest = |edges: Vec<TimeNs>| {
            let nearest = edges.into_iter().min_by_key(|edge| edge.abs_diff(time));
            nearest.filter(|&edge| (scale.x(edge) - at.x).abs() <= SNAP_REACH)
        };
        let is_on_ruler = at.y < areas[0].rect.top();
        let mut edges: Vec<TimeNs> = if is_on_ruler {
            let steps = of_runs.iter().flat_map(|&(steps, offset)| steps::edges(steps, offset, time));
            steps.chain(edges_of_selected(ctx.traces, *ctx.selection, time)).collect()
        } else {
            let (lines, area) = self.lines_at(areas, at);
            edges_at(ctx.traces, lines, area, at, time)
        };
        let marks = ctx.marks.iter().map(|mark| mark.range);
        edges.extend(marks.chain(ctx.selected_time()).flat_map(|range| [range.start, range.end]));
        let of_all = || nearest(self.on_screen(areas).flat_map(|line| edges_of(ctx.traces, line, time)).collect());
        nearest(edges).or_else(|| is_on_ruler.then(of_all).flatten()).unwrap_or(time)
    }

    /// Paints the canvas and handles clicks.
    pub(super) fn canvas_ui(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &mut Ui,
        parts: &Parts,
        areas: [Area; 3],
        scale: Scale,
    ) {
        let is_dark = ctx.is_dark;
        let colors = self.canvas.colors.take().filter(|colors| colors.is_for(is_dark));
        let colors = colors.unwrap_or_else(|| SliceColors::new(is_dark));
        let [pinned, scrolled, _] = areas;
        let lines = [&*self.tracks.pinned, &self.tracks.scrolled, &self.stuck];
        self.strips.ask(ctx, lines.into_iter().zip(areas).flat_map(|(lines, area)| area.visible(lines)));
        let (background, strips) = (&mut self.background, &self.strips);
        let mut lists = [0, 1, 2].map(|i| layout(ctx.traces, lines[i], areas[i], &scale, background, strips));
        for ((list, lines), area) in lists.iter_mut().zip(lines).zip(areas) {
            self.queues.draw(list, ctx.traces, lines, area, &scale);
        }
        let tick_color = ui.visuals().strong_text_color();
        for ((list, area), kept) in lists.iter().zip(areas).zip(&mut self.canvas.areas) {
            let painter = ui.painter_at(area.clip());
            kept.rows(&painter, list, &colors, scale.left, scale.pixel);
            paint::curves(&painter, list, &colors, scale.pixel);
            paint::curve_scales(&painter, list, ui.visuals().text_color(), ui.visuals().panel_fill);
            paint::boxes(&painter, list, &colors);
            paint::ticks(&painter, list, tick_color, scale.pixel);
            self.canvas.labels.paint(&painter, ctx.traces, list, area.clip());
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
        paint_overlay(ctx, ui, parts, &geometry, &lists, (under, zoom));
        if let Some(at) = ctx.navigation.moment {
            let line = Stroke::new(1.5, ui.visuals().strong_text_color());
            ui.painter_at(parts.canvas).vline(scale.x(at), parts.canvas.y_range(), line);
        }
        // Above the flags of marks, of which one stands where the pointer has just set it.
        paint_times(ui, parts, time_labels(ui, parts, &scale, [ctx.navigation.moment, self.measured(ctx.traces)]));
        if let Some(pointer) = pointer {
            paint_hover_line(&ui.painter_at(parts.canvas), pointer.x, ui.visuals().strong_text_color());
        }
        self.clicks(ctx, &response, under);
        response.context_menu(|ui| self.menu_ui(ctx, ui));
        // What moved under a pointer that rests is not what the user points at.
        if pointer.is_some() && self.placed.1.is_none() && !response.context_menu_opened() {
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

    fn hit(&self, ctx: &ViewContext<'_>, areas: [Area; 3], scale: &Scale, pointer: Pos2) -> Hit {
        let (lines, area) = self.lines_at(areas, pointer);
        hit(ctx.traces, lines, area, scale, pointer, &self.strips)
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
            ctx.navigation.moment = None;
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
    fn paint_separators(&self, ui: &Ui, parts: &Parts, areas: [Area; 3]) {
        let visuals = ui.visuals();
        let line = visuals.widgets.noninteractive.bg_stroke;
        let whole = parts.labels.union(parts.canvas);
        for (lines, area) in [&*self.tracks.pinned, &self.tracks.scrolled, &self.stuck].into_iter().zip(areas) {
            let clip = Rect::from_x_y_ranges(whole.x_range(), area.clip().y_range());
            let painter = ui.painter_at(clip);
            for entry in area.visible(lines) {
                let top = area.top(entry);
                if entry.is_heading() {
                    let band = Rect::from_x_y_ranges(parts.labels.x_range(), top..=top + entry.height);
                    painter.rect_filled(band, 0.0, visuals.faint_bg_color);
                    painter.hline(clip.x_range(), top, line);
                }
            }
        }
        if !self.stuck.is_empty() {
            ui.painter().hline(whole.x_range(), areas[2].rect.bottom(), line);
        }
        if areas[0].rect.height() > 0.0 {
            ui.painter().hline(whole.x_range(), areas[0].rect.bottom(), Stroke::new(2.0, line.color));
        }
        ui.painter().vline(parts.canvas.left() - 1.0, whole.y_range(), line);
    }
}

/// A time as text, and its place in the ruler.
type TimeLabel = (Arc<Galley>, Rect);

/// The chosen time, where it is in view, and that at the pointer, which stands beside it.
pub(super) fn time_labels(
    ui: &Ui,
    parts: &Parts,
    scale: &Scale,
    [chosen, pointer]: [Option<TimeNs>; 2],
) -> Vec<TimeLabel> {
    let chosen = chosen.filter(|&at| parts.ruler.x_range().contains(scale.x(at)));
    let chosen = chosen.map(|at| time_label(ui, parts, scale, at));
    let taken = chosen.as_ref().map(|label| label.1);
    let pointer = pointer.map(|at| time_label(ui, parts, scale, at));
    let beside = |(galley, place)| (galley, taken.map_or(place, |taken| beside(place, taken, parts.ruler)));
    chosen.into_iter().chain(pointer.map(beside)).collect()
}

fn time_label(ui: &Ui, parts: &Parts, scale: &Scale, at: TimeNs) -> TimeLabel {
    let step = (scale.ns_per_point() as i64).max(1);
    let text = format::moment(at, step);
    let painter = ui.painter_at(parts.ruler);
    let galley = painter.layout_no_wrap(text, FontId::proportional(11.0), ui.visuals().strong_text_color());
    let (width, x) = (galley.size().x + 8.0, scale.x(at));
    let left = (x - width / 2.0).clamp(parts.ruler.left(), (parts.ruler.right() - width).max(parts.ruler.left()));
    let back = Rect::from_min_size(pos2(left, parts.ruler.top() + 1.0), vec2(width, parts.ruler.height() - 3.0));
    (galley, back)
}

/// Where a label stands that must not cover another one: on its side of that, or on the other where the ruler ends.
fn beside(place: Rect, taken: Rect, ruler: Rect) -> Rect {
    const APART: f32 = 2.0;
    if !place.intersects(taken) {
        return place;
    }
    let [left, right] = [taken.left() - APART - place.width(), taken.right() + APART];
    let is_left = place.center().x < taken.center().x;
    let is_left = if is_left { left >= ruler.left() } else { right + place.width() > ruler.right() };
    Rect::from_min_size(pos2(if is_left { left } else { right }, place.top()), place.size())
}

fn paint_times(ui: &Ui, parts: &Parts, labels: Vec<TimeLabel>) {
    let painter = ui.painter_at(parts.ruler);
    for (galley, back) in labels {
        painter.rect_filled(back, 3.0, ui.visuals().widgets.active.weak_bg_fill);
        painter.galley(back.center() - galley.size() / 2.0, galley, Color32::WHITE);
    }
}

/// Writes the time from each start or end of a mark to the next, where there is room: so the length of a range and the
/// time from it to another mark stand beside each other.
fn paint_distances(painter: &Painter, ctx: &ViewContext<'_>, scale: &Scale, canvas: Rect) {
    let color = theme::tokens(ctx.is_dark).text;
    let edges: BTreeSet<TimeNs> = ctx.marks.iter().flat_map(|mark| [mark.range.start, mark.range.end]).collect();
    for (&from, &to) in edges.iter().zip(edges.iter().skip(1)) {
        let [left, right] = [from, to].map(|ts| scale.x(ts).clamp(canvas.left(), canvas.right()));
        let text = format::duration(to.saturating_sub(from));
        let galley = painter.layout_no_wrap(text, FontId::proportional(11.0), color);
        if right - left < galley.size().x + 16.0 {
            continue;
        }
        let (y, middle) = (canvas.top() + 8.0, (left + right) / 2.0);
        let half = galley.size().x / 2.0 + 4.0;
        painter.hline(left + 2.0..=middle - half, y, Stroke::new(1.0, color));
        painter.hline(middle + half..=right - 2.0, y, Stroke::new(1.0, color));
        let back = Rect::from_center_size(pos2(middle, y), galley.size() + vec2(6.0, 0.0));
        painter.rect_filled(back, 2.0, theme::tokens(ctx.is_dark).canvas);
        painter.galley(back.center() - galley.size() / 2.0, galley, color);
    }
}

fn paint_overlay(
    ctx: &ViewContext<'_>,
    ui: &Ui,
    parts: &Parts,
    geometry: &Geometry<'_>,
    lists: &[DrawList],
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
    paint_distances(&painter, ctx, &geometry.scale, parts.canvas);
    overlay::selection(&painter, geometry, *ctx.selection, strong);
    overlay::hovered(&painter, geometry, lists, under, strong);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_label_covers_another() {
        let ruler = Rect::from_min_max(pos2(100.0, 0.0), pos2(500.0, 20.0));
        let label = |left: f32| Rect::from_min_size(pos2(left, 1.0), vec2(60.0, 17.0));
        let placed = |left: f32, taken: f32| beside(label(left), label(taken), ruler).left();
        assert_eq!(placed(200.0, 300.0), 200.0, "far enough apart");
        assert_eq!([placed(290.0, 300.0), placed(310.0, 300.0)], [238.0, 362.0]);
        // Where the ruler ends.
        assert_eq!([placed(101.0, 110.0), placed(439.0, 430.0)], [172.0, 368.0]);
    }
}
