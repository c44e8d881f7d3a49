//! Input on the canvas: wheel, drags and held keys move both axes and select a range.

use eframe::egui::{CursorIcon, Id, Pos2, Response, Role, Sense, Ui, WidgetInfo};

use super::heights::{Heights, panned_bytes, within, zoomed_bytes};
use super::{Chart, MemoryOverTime};
use crate::model::TimeRange;
use crate::view::ViewContext;
use crate::view::axis::{DragAction, Scale, Wheel, fitted, middle, panned};
use crate::view::memory::head::moment_slider;

impl MemoryOverTime {
    /// Reads keys, wheel and drags, and moves view, bytes, range and moment.
    ///
    /// * `all`: the bytes of the whole history.
    pub(super) fn canvas_input(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &Ui,
        chart: &Chart<'_>,
        all: TimeRange,
    ) -> Response {
        let parts = &chart.parts;
        let (scale, _) = self.scales(ctx, ui, chart, all);
        let response = ui.interact(parts.canvas, Id::unique("memory picture"), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Memory picture"));
        let is_over = |pointer: &Pos2| parts.plots().contains(*pointer);
        let ruler = ui.interact(parts.ruler, Id::unique("memory ruler"), Sense::click_and_drag());
        moment_slider(&ruler, chart.shown, ctx);
        let ruler = ruler.on_hover_cursor(CursorIcon::PointingHand);
        let strips = ui.interact(parts.curves.union(parts.lanes), Id::unique("memory strips"), Sense::hover());
        let is_hovered = response.contains_pointer() || ruler.contains_pointer() || strips.contains_pointer();
        let pointer = ui.ctx().pointer_latest_pos().filter(|pointer| is_hovered && is_over(pointer));
        self.pointer_position = pointer.map(|pointer| scale.time(pointer.x));
        let navigation = chart.axis.navigation(&mut self.navigation, ctx.navigation);
        let at = self.pointer_position.unwrap_or(middle(scale.view));
        self.motion.keys(navigation, chart.span, ui.ctx(), (at, ctx.has_keys));
        if let Some(pointer) = pointer {
            self.wheel(ctx, ui, chart, &scale, pointer, all);
        }
        if let Some(pointer) = ruler.interact_pointer_pos().filter(|_| ruler.clicked() || ruler.dragged()) {
            ctx.memory.moment = Some(chart.axis.state(scale.time(pointer.x.clamp(scale.left, scale.right()))));
        }
        let (_, heights) = self.scales(ctx, ui, chart, all);
        self.drag(ctx, ui, chart, (&scale, &heights), &response, all);
        response
    }

    fn wheel(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &Ui,
        chart: &Chart<'_>,
        scale: &Scale,
        pointer: Pos2,
        all: TimeRange,
    ) {
        let (modifiers, now) = ui.input(|input| (input.modifiers, input.time));
        let navigation = chart.axis.navigation(&mut self.navigation, ctx.navigation);
        let heights = Heights::new(navigation.bytes.unwrap_or(all), chart.parts.canvas);
        let mut wheel = Wheel::read(ui.ctx(), ctx.wheel_zooms);
        let mut bytes_zoom = 1.0;
        if modifiers.shift || modifiers.alt {
            bytes_zoom = std::mem::replace(&mut wheel.zoom, 1.0);
        }
        self.motion.wheel(navigation, chart.span, (scale, pointer.x), wheel, now);
        if modifiers.alt && wheel.scroll.y != 0.0 {
            bytes_zoom = f64::from(wheel.scroll.y / 200.0).exp();
        } else if wheel.scroll.y != 0.0
            && let Some(bytes) = navigation.bytes
        {
            let bytes = panned_bytes(bytes, heights.distance(wheel.scroll.y), all);
            self.motion.glide_bytes(navigation, bytes, now);
        }
        if bytes_zoom != 1.0 {
            let bytes = zoomed_bytes(heights.bytes, heights.byte(pointer.y), 1.0 / bytes_zoom, all);
            self.motion.glide_bytes(navigation, bytes, now);
        }
    }

    fn drag(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &Ui,
        chart: &Chart<'_>,
        (scale, heights): (&Scale, &Heights),
        response: &Response,
        all: TimeRange,
    ) {
        let now = ui.input(|input| input.time);
        let range = ctx.range.map(|range| chart.axis.at_times(range));
        let navigation = chart.axis.navigation(&mut self.navigation, ctx.navigation);
        match self.drag.update(ui, response, scale, range, heights.bytes, &|at| scale.time(at.x)) {
            Some(DragAction::Range(range)) => *ctx.range = range.and_then(|range| chart.axis.times(range)),
            Some(DragAction::Zoom(range, [corner, pointer])) => {
                let bytes = TimeRange::new(heights.byte(corner.y), heights.byte(pointer.y));
                if bytes.dur() > 0 {
                    navigation.go(fitted(range, 0.0, chart.span));
                    navigation.bytes = within(bytes, all);
                }
            }
            Some(DragAction::Pan { view, vertical: bytes, moved }) => {
                self.motion.glide(navigation, panned(view, scale.distance(-moved.x), chart.span), now);
                if navigation.bytes.is_some() {
                    self.motion.glide_bytes(navigation, panned_bytes(bytes, heights.distance(moved.y), all), now);
                }
            }
            None => {}
        }
    }
}
