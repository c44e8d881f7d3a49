//! Where the rows are scrolled to, by hand and so that something is seen.

use eframe::egui::{self, Id, Rect, Sense, Ui, pos2, vec2};

use super::Timeline;
use super::layout::Area;
use super::track_list::{Line, LineKind, STRIP_GROUP_HEIGHT, total_height};
use crate::model::ProcessId;
use crate::view::ViewContext;

impl Timeline {
    /// Scrolls to the row of the slice to reveal.
    ///
    /// * `most`: how far it may be scrolled in points, where something above it is to be seen as well; then no further
    ///   than it takes.
    pub(super) fn scroll_to_revealed(&mut self, ctx: &ViewContext<'_>, areas: [Area; 3], most: Option<f64>) {
        let Some((trace, slice)) = self.reveal.take() else { return };
        let Some(open) = ctx.traces.get(trace) else { return };
        let Some(row) = open.trace.slices.rows.get(open.trace.slices.row_of(slice)) else { return };
        let Some(at) = self.tracks.line_of(trace, row.track) else { return };
        let Some(line) = self.tracks.line(at) else { return };
        let index = usize::from(!at.is_pinned);
        let area = areas[index];
        let (top, height) = area.row(line, row.depth);
        let below = top + height * 2.0 - area.rect.bottom();
        // Headings may come to cover the top.
        let above = area.rect.top() + height + STRIP_GROUP_HEIGHT - top;
        if let Some(most) = most.filter(|_| below > 0.0) {
            self.scroll[index] += f64::from(below).min(most);
        } else if below > 0.0 || above > 0.0 {
            self.scroll[index] += f64::from(top - area.rect.center().y);
        }
    }

    pub(super) fn device_heading(&self, trace: usize, process: ProcessId) -> Option<&Line> {
        self.tracks.scrolled.iter().find(|line| line.trace == trace && line.kind == LineKind::Process(process))
    }

    /// Scrolls to the heading of the device to show, or to its first row on screen.
    pub(super) fn scroll_to_device(&mut self, areas: [Area; 3]) {
        let Some((trace, process)) = self.scroll_to.take() else { return };
        let Some(line) = self.device_heading(trace, process) else { return };
        let (top, area) = (areas[1].top(line), areas[1].rect);
        // With some rows below it.
        if top < area.top() || top + line.height * 3.0 > area.bottom() {
            self.scroll[1] += f64::from(top - area.top() - area.height() / 4.0);
        }
    }

    pub(super) fn scroll_bar_ui(&mut self, ui: &Ui, rect: Rect, area: Area) {
        let total = total_height(&self.tracks.scrolled).max(1.0);
        let shown = f64::from(area.rect.height()) / total;
        if shown >= 1.0 {
            return;
        }
        let rect = Rect::from_x_y_ranges(rect.x_range(), area.rect.y_range());
        let response = ui.interact(rect, Id::unique("timeline scroll bar"), Sense::click_and_drag());
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ScrollBar, true, "Scroll tracks"));
        let height = (rect.height() * shown as f32).max(16.0);
        let room = f64::from(rect.height() - height);
        let range = total - f64::from(area.rect.height());
        if let Some(pointer) = response.interact_pointer_pos().filter(|_| response.dragged() || response.clicked()) {
            let share = f64::from(pointer.y - rect.top() - height / 2.0) / room.max(1.0);
            self.scroll[1] = share.clamp(0.0, 1.0) * range;
        }
        let top = rect.top() + (self.scroll[1] / range * room) as f32;
        let handle = Rect::from_min_size(pos2(rect.left(), top), vec2(rect.width() - 1.0, height));
        let visuals = ui.style().interact(&response);
        ui.painter().rect_filled(handle, 4.0, visuals.bg_fill);
    }
}
