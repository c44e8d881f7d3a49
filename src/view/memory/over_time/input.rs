//! What wheel, drags and held keys do: both axes move, and a stretch of time is selected.

use eframe::egui::{CursorIcon, Id, Pos2, Response, Role, Sense, Ui, WidgetInfo};

use super::heights::{Heights, panned_bytes, within, zoomed_bytes};
use super::{MemoryOverTime, Place};
use crate::model::TimeRange;
use crate::view::ViewContext;
use crate::view::memory::head::moment_slider;
use crate::view::timeline::{DragKind, Scale, fitted, fixed_edge, panned, wheel, zoomed};

/// What a drag on the picture does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drag {
    /// Selects a range from here.
    Range { anchor: i64 },
    /// Zooms into a rectangle with this corner.
    Zoom { corner: Pos2 },
    /// Moves what was visible when it began.
    Pan { view: TimeRange, bytes: TimeRange },
}

impl MemoryOverTime {
    /// Reads keys, wheel and drags, and moves view, bytes, range and moment.
    ///
    /// * `all`: the bytes of the whole history.
    pub(super) fn canvas_input(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &Ui,
        place: &Place<'_>,
        scale: Scale,
        all: TimeRange,
    ) -> Response {
        let parts = &place.parts;
        let response = ui.interact(parts.canvas, Id::unique("memory picture"), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Memory picture"));
        let is_over = |pointer: &Pos2| parts.plots().contains(*pointer);
        let ruler = ui.interact(parts.ruler, Id::unique("memory ruler"), Sense::click_and_drag());
        moment_slider(&ruler, place.shown, ctx);
        let ruler = ruler.on_hover_cursor(CursorIcon::PointingHand);
        let strips = ui.interact(parts.curves.union(parts.lanes), Id::unique("memory strips"), Sense::hover());
        let is_hovered = response.contains_pointer() || ruler.contains_pointer() || strips.contains_pointer();
        let pointer = ui.ctx().pointer_latest_pos().filter(|pointer| is_hovered && is_over(pointer));
        self.pointer_place = pointer.map(|pointer| scale.time(pointer.x));
        let view = ctx.navigation.visible();
        let at = self.pointer_place.unwrap_or_else(|| view.start.saturating_add(view.dur() / 2));
        self.motion.keys(ctx, ui.ctx(), at);
        let heights = Heights::new(ctx.navigation.bytes.unwrap_or(all), parts.canvas);
        if let Some(pointer) = pointer {
            self.wheel(ctx, ui, (&scale, &heights), pointer, all);
        }
        if let Some(pointer) = ruler.interact_pointer_pos().filter(|_| ruler.clicked() || ruler.dragged()) {
            ctx.memory.moment = Some(place.axis.state(scale.time(pointer.x.clamp(scale.left, scale.right()))));
        }
        let heights = Heights::new(ctx.navigation.bytes.unwrap_or(all), parts.canvas);
        self.drag(ctx, ui, (&scale, &heights), &response, all);
        response
    }

    fn wheel(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &Ui,
        (scale, heights): (&Scale, &Heights),
        pointer: Pos2,
        all: TimeRange,
    ) {
        let (delta, zoom) = wheel(ui.ctx(), ctx.wheel_zooms);
        let (modifiers, now) = ui.input(|input| (input.modifiers, input.time));
        let mut view = ctx.navigation.visible();
        let mut bytes_zoom = 1.0;
        if zoom != 1.0 && (modifiers.shift || modifiers.alt) {
            bytes_zoom = zoom;
        } else if zoom != 1.0 {
            view = zoomed(view, scale.time(pointer.x), 1.0 / zoom, ctx.span);
        }
        if delta.x != 0.0 {
            view = panned(view, (-f64::from(delta.x) * scale.ns_per_point()) as i64, ctx.span);
        }
        self.motion.glide(ctx, view, now);
        if modifiers.alt && delta.y != 0.0 {
            bytes_zoom = f64::from(delta.y / 200.0).exp();
        } else if delta.y != 0.0
            && let Some(bytes) = ctx.navigation.bytes
        {
            let bytes = panned_bytes(bytes, (f64::from(delta.y) * heights.per_point()) as i64, all);
            self.motion.glide_bytes(ctx, bytes, now);
        }
        if bytes_zoom != 1.0 {
            let bytes = zoomed_bytes(heights.bytes, heights.byte(pointer.y), 1.0 / bytes_zoom, all);
            self.motion.glide_bytes(ctx, bytes, now);
        }
    }

    fn drag(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &Ui,
        (scale, heights): (&Scale, &Heights),
        response: &Response,
        all: TimeRange,
    ) {
        let (origin, modifiers, now) = ui.input(|input| (input.pointer.press_origin(), input.modifiers, input.time));
        if self.drag.is_none()
            && let Some(pointer) = response.hover_pos()
        {
            fixed_edge(ui, scale, *ctx.range, pointer);
        }
        if let Some(origin) = origin.filter(|_| response.drag_started()) {
            self.drag = DragKind::of(response, modifiers).map(|kind| match kind {
                DragKind::Pan => Drag::Pan { view: scale.view, bytes: heights.bytes },
                DragKind::Zoom => Drag::Zoom { corner: origin },
                DragKind::Range => {
                    let fixed = fixed_edge(ui, scale, *ctx.range, origin);
                    Drag::Range { anchor: fixed.unwrap_or_else(|| scale.time(origin.x)) }
                }
            });
        }
        let (Some(drag), Some(pointer)) = (self.drag, response.interact_pointer_pos()) else {
            self.drag = self.drag.filter(|_| response.dragged());
            return;
        };
        let at = scale.time(pointer.x.clamp(scale.left, scale.right()));
        match drag {
            Drag::Range { anchor } => *ctx.range = Some(TimeRange::new(anchor, at)).filter(|range| range.dur() > 0),
            Drag::Zoom { corner } if response.drag_stopped() => {
                let range = TimeRange::new(scale.time(corner.x), at);
                let bytes = TimeRange::new(heights.byte(corner.y), heights.byte(pointer.y));
                if range.dur() > 0 && bytes.dur() > 0 {
                    ctx.navigation.go(fitted(range, 0.0, ctx.span));
                    ctx.navigation.bytes = within(bytes, all);
                }
            }
            Drag::Zoom { .. } => {}
            Drag::Pan { view, bytes } => {
                // On release there is no origin any more, and nothing left to move.
                let Some(moved) = origin.map(|origin| pointer - origin) else {
                    self.drag = None;
                    return;
                };
                let by = (-f64::from(moved.x) * scale.ns_per_point()) as i64;
                self.motion.glide(ctx, panned(view, by, ctx.span), now);
                if ctx.navigation.bytes.is_some() {
                    let bytes = panned_bytes(bytes, (f64::from(moved.y) * heights.per_point()) as i64, all);
                    self.motion.glide_bytes(ctx, bytes, now);
                }
                ui.set_cursor_icon(CursorIcon::Grabbing);
            }
        }
        if response.drag_stopped() {
            self.drag = None;
        }
    }
}
