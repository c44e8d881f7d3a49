//! The minimap: an overview of the whole axis, in which the visible range is a window that can be dragged.

use eframe::egui::{
    Color32, CursorIcon, Mesh, Rect, Role, Sense, Shape, Stroke, StrokeKind, Ui, Visuals, WidgetInfo, pos2,
};

use super::{Motion, Scale, centered};
use crate::model::TimeRange;
use crate::session::Navigation;

/// Grab distance of the edges of the window, in points.
const GRIP: f32 = 5.0;
/// The shortest window, along the axis.
const MIN_WINDOW: i64 = 20;

/// What a drag on the minimap moves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Grip {
    Start,
    End,
    Window,
}

/// The minimap of a view.
#[derive(Debug, Default)]
pub struct Minimap {
    grip: Option<Grip>,
}

impl Minimap {
    /// Shows the minimap of `span` in `rect`.
    ///
    /// * `heights`: one per column of equal width, 0 to 1; those above 0 are at least a point high.
    pub fn ui(
        &mut self,
        ui: &mut Ui,
        rect: Rect,
        heights: &[f32],
        navigation: &mut Navigation,
        span: TimeRange,
        motion: &mut Motion,
    ) {
        let scale = Scale::new(span, rect.left(), rect.width(), ui.pixels_per_point());
        paint_heights(ui, rect, heights);
        let response = ui.interact(rect, ui.scope_id().with("minimap"), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::ScrollBar, true, "Minimap"));
        let view = navigation.visible();
        let left = scale.x(view.start);
        let window = Rect::from_x_y_ranges(left..=scale.x(view.end).max(left + 2.0), rect.y_range());
        if let Some(pointer) = response.hover_pos().or_else(|| response.interact_pointer_pos()) {
            // egui recognizes a drag only some points away from the press.
            let origin = ui.input(|input| input.pointer.press_origin()).filter(|_| response.drag_started());
            let near = |x: f32| (origin.unwrap_or(pointer).x - x).abs() <= GRIP;
            let grip = match window.width() > 3.0 * GRIP {
                true if near(window.left()) => Grip::Start,
                true if near(window.right()) => Grip::End,
                _ => Grip::Window,
            };
            let is_edge = self.grip.unwrap_or(grip) != Grip::Window;
            ui.set_cursor_icon(if is_edge { CursorIcon::ResizeHorizontal } else { CursorIcon::Grab });
            if response.drag_started() {
                self.grip = Some(grip);
            }
            let at = scale.time(pointer.x);
            let target = match self.grip.filter(|_| response.dragged()) {
                Some(Grip::Start) => Some(TimeRange { start: at.min(view.end.saturating_sub(MIN_WINDOW)), ..view }),
                Some(Grip::End) => Some(TimeRange { end: at.max(view.start.saturating_add(MIN_WINDOW)), ..view }),
                Some(Grip::Window) => Some(centered(view, at, span)),
                None => response.clicked().then(|| centered(view, at, span)),
            };
            if let Some(target) = target {
                motion.glide(navigation, target, ui.input(|input| input.time));
            }
        }
        if response.drag_stopped() {
            self.grip = None;
        }
        paint_window(ui, rect, window);
    }
}

fn paint_heights(ui: &Ui, rect: Rect, heights: &[f32]) {
    ui.painter().rect_filled(rect, 2.0, ui.visuals().extreme_bg_color);
    let column = rect.width() / heights.len().max(1) as f32;
    let (top, bottom) = (rect.top() + 1.0, rect.bottom() - 1.0);
    let mut mesh = Mesh::default();
    let mut first = 0;
    for run in heights.chunk_by(|a, b| a == b) {
        let after = first + run.len();
        let x = [first, after].map(|i| rect.left() + i as f32 * column);
        if run[0] > 0.0 {
            let height = ((bottom - top) * run[0]).max(1.0);
            let bar = Rect::from_min_max(pos2(x[0], bottom - height), pos2(x[1], bottom));
            mesh.add_colored_rect(bar, bar_color(ui.visuals()));
        }
        first = after;
    }
    ui.painter_at(rect).add(Shape::mesh(mesh));
}

/// Stands out against the canvas in both themes, which what is selected in a list need not.
fn bar_color(visuals: &Visuals) -> Color32 {
    visuals.extreme_bg_color.lerp_to_gamma(visuals.hyperlink_color, 0.75)
}

/// Dims the parts outside of the visible range and outlines it.
fn paint_window(ui: &Ui, rect: Rect, window: Rect) {
    let painter = ui.painter_at(rect);
    let dimmed = ui.visuals().panel_fill.gamma_multiply(0.6);
    painter.rect_filled(Rect::from_min_max(rect.min, pos2(window.left(), rect.bottom())), 0.0, dimmed);
    painter.rect_filled(Rect::from_min_max(pos2(window.right(), rect.top()), rect.max), 0.0, dimmed);
    let stroke = Stroke::new(1.0, ui.visuals().strong_text_color());
    painter.rect_stroke(window.shrink(0.5), 1.0, stroke, StrokeKind::Inside);
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Context, Event, Modifiers, PointerButton, Theme, vec2};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;
    use crate::widget::theme;

    #[test]
    fn bars_stand_out_in_both_themes() {
        let ctx = Context::default();
        theme::apply(&ctx);
        for of in [Theme::Dark, Theme::Light] {
            let visuals = &ctx.style_of(of).visuals;
            let contrast = theme::contrast(bar_color(visuals), visuals.extreme_bg_color);
            assert!(contrast >= 3.0, "{of:?}: {contrast:.2}");
        }
    }

    #[test]
    fn an_edge_follows_a_fast_drag_and_the_window_keeps_its_length() {
        const SPAN: TimeRange = TimeRange { start: 0, end: 1_000 };
        // Presses at one position and has moved to the other by the next frame.
        let dragged = |from: i64, to: i64| {
            let mut navigation = Navigation::default();
            navigation.glide(TimeRange { start: 200, end: 400 });
            let state = (Minimap::default(), navigation, Motion::default());
            let mut harness = Harness::builder().with_size(vec2(600.0, 60.0)).build_ui_state(
                |ui, (minimap, navigation, motion): &mut (Minimap, Navigation, Motion)| {
                    let rect = ui.max_rect();
                    minimap.ui(ui, rect, &[], navigation, SPAN, motion);
                },
                state,
            );
            let rect = harness.get_by_label("Minimap").rect();
            let at = |ts: i64| pos2(rect.left() + ts as f32 / 1_000.0 * rect.width(), rect.center().y);
            let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
            harness.event(Event::PointerMoved(at(from)));
            harness.step();
            harness.event(Event::PointerButton { pos: at(from), button, pressed: true, modifiers });
            harness.step();
            harness.event(Event::PointerMoved(at(to)));
            harness.step();
            harness.state().1.visible()
        };
        let end = dragged(400, 600);
        assert!(end.start == 200 && (end.end - 600).abs() <= 3, "{end:?}");
        let start = dragged(200, 100);
        assert!((start.start - 100).abs() <= 3 && start.end == 400, "{start:?}");
        let window = dragged(300, 700);
        assert!((window.start - 600).abs() <= 3 && window.dur() == 200, "{window:?}");
    }
}
