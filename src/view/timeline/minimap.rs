//! Where in the whole recording the view lies, and when the devices were busy.

use eframe::egui::{Color32, CursorIcon, Id, Mesh, Rect, Role, Sense, Shape, Stroke, Ui, WidgetInfo, pos2};

use super::background::{Answer, Background, Question};
use super::navigate::{Motion, centered};
use super::scale::Scale;
use crate::model::{Cell, TimeRange};
use crate::view::ViewContext;

/// How near the pointer must be to an edge of the window to move it, in points.
const GRIP: f32 = 5.0;

/// What a drag on the minimap moves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Grip {
    Start,
    End,
    Window,
}

/// The strip over the timeline.
#[derive(Debug, Default)]
pub struct Minimap {
    grip: Option<Grip>,
}

impl Minimap {
    /// Shows the strip in `rect`; dragging its window moves the view.
    pub fn ui(
        &mut self,
        ctx: &mut ViewContext<'_>,
        ui: &mut Ui,
        rect: Rect,
        background: &mut Background,
        motion: &mut Motion,
    ) {
        let scale = Scale::new(ctx.span, rect.left(), rect.width(), ui.pixels_per_point());
        self.density(ctx, ui, rect, &scale, background);
        self.window_ui(ctx, ui, rect, motion);
    }

    /// Shows which part of the strip in `rect` is visible; dragging that window moves the view.
    pub fn window_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, rect: Rect, motion: &mut Motion) {
        let scale = Scale::new(ctx.span, rect.left(), rect.width(), ui.pixels_per_point());
        let response = ui.interact(rect, Id::unique("timeline minimap"), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::ScrollBar, true, "Minimap"));
        let view = ctx.navigation.visible();
        let window = Rect::from_x_y_ranges(
            scale.x(view.start)..=scale.x(view.end).max(scale.x(view.start) + 2.0),
            rect.y_range(),
        );
        if let Some(pointer) = response.hover_pos().or_else(|| response.interact_pointer_pos()) {
            let near = |x: f32| (pointer.x - x).abs() <= GRIP;
            let grip = match window.width() > 3.0 * GRIP {
                true if near(window.left()) => Grip::Start,
                true if near(window.right()) => Grip::End,
                _ => Grip::Window,
            };
            let shown = self.grip.unwrap_or(grip);
            let is_edge = shown != Grip::Window;
            ui.set_cursor_icon(if is_edge { CursorIcon::ResizeHorizontal } else { CursorIcon::Grab });
            if response.drag_started() {
                self.grip = Some(grip);
            }
            let at = scale.time(pointer.x);
            let target = match self.grip.filter(|_| response.dragged()) {
                Some(Grip::Start) => Some(TimeRange { start: at.min(view.end.saturating_sub(20)), end: view.end }),
                Some(Grip::End) => Some(TimeRange { start: view.start, end: at.max(view.start.saturating_add(20)) }),
                Some(Grip::Window) => Some(centered(view, at, ctx.span)),
                None => response.clicked().then(|| centered(view, at, ctx.span)),
            };
            if let Some(target) = target {
                motion.glide(ctx, target, ui.input(|input| input.time));
            }
        }
        if response.drag_stopped() {
            self.grip = None;
        }
        paint_window(ui, rect, window);
    }

    /// The busy density of all open traces: the busiest of them at each pixel.
    fn density(&self, ctx: &ViewContext<'_>, ui: &Ui, rect: Rect, scale: &Scale, background: &mut Background) {
        let visuals = ui.visuals();
        ui.painter().rect_filled(rect, 2.0, visuals.extreme_bg_color);
        let mut busiest = vec![0_u8; scale.n_pixels];
        let mut cells: Vec<Cell> = Vec::new();
        for (trace, open) in ctx.traces.iter().enumerate() {
            if let Some(Answer::Busy(union)) = background.get(Question::Whole(trace), &open.trace, ui.ctx()) {
                cells.clear();
                union.cells(scale.view.shifted(open.offset.saturating_neg()), scale.n_pixels, &mut cells);
                busiest.iter_mut().zip(&cells).for_each(|(max, cell)| *max = cell.share.max(*max));
            }
        }
        let color = visuals.selection.bg_fill;
        let mut mesh = Mesh::default();
        let mut x = rect.left();
        for run in busiest.chunk_by(|a, b| a == b) {
            let right = x + run.len() as f32 * scale.pixel;
            let height = (rect.height() - 2.0) * f32::from(run[0]) / 255.0;
            if run[0] > 0 {
                mesh.add_colored_rect(
                    Rect::from_min_max(pos2(x, rect.bottom() - height - 1.0), pos2(right, rect.bottom() - 1.0)),
                    color,
                );
            }
            x = right;
        }
        ui.painter().add(Shape::mesh(mesh));
    }
}

fn paint_window(ui: &Ui, rect: Rect, window: Rect) {
    let painter = ui.painter().with_clip_rect(rect);
    let veil = ui.visuals().panel_fill.gamma_multiply(0.6);
    painter.rect_filled(Rect::from_min_max(rect.min, pos2(window.left(), rect.bottom())), 0.0, veil);
    painter.rect_filled(Rect::from_min_max(pos2(window.right(), rect.top()), rect.max), 0.0, veil);
    let stroke = Stroke::new(1.0, ui.visuals().strong_text_color());
    painter.rect_stroke(window.shrink(0.5), 1.0, stroke, eframe::egui::StrokeKind::Inside);
    painter.rect_filled(window, 0.0, Color32::TRANSPARENT);
}
