//! Painting of the map of the allocator's state; hovering and clicks on its boxes.

use std::borrow::Cow;

use eframe::egui::text::{LayoutJob, TextWrapping};
use eframe::egui::{self, Color32, CornerRadius, Pos2, Rect, Stroke, StrokeKind, pos2, vec2};

use super::map::{Fill, MapBox, MapLine};
use super::state::StateMap;
use crate::analysis::memory::state::{MemorySums, PartKind, PoolState};
use crate::figures::format;
use crate::figures::text::display_name;
use crate::model::memory::{AllocationId, SegmentKind};
use crate::session::{Selection, ShownMemory};
use crate::view::ViewContext;
use crate::widget::theme;

pub const LINE_HEIGHT: f32 = 18.0;
pub const LINE_GAP: f32 = 3.0;
/// Boxes at least this wide have a border.
const MIN_BORDERED: f32 = 4.0;

pub fn free_color(is_dark: bool) -> Color32 {
    if is_dark { Color32::from_gray(48) } else { Color32::from_gray(222) }
}

pub fn unsplit_color(is_dark: bool) -> Color32 {
    if is_dark { Color32::from_gray(84) } else { Color32::from_gray(178) }
}

pub fn awaiting_color(is_dark: bool) -> Color32 {
    theme::tokens(is_dark).severity[1]
}

/// `Large segments, default stream`.
fn pool_title(shown: &ShownMemory, pool: &PoolState) -> String {
    let known = shown.history().pools.get(pool.pool.0 as usize).copied().unwrap_or_default();
    let kind = match pool.kind {
        SegmentKind::Small => "Small segments",
        SegmentKind::Large => "Large segments",
        SegmentKind::Unknown => "Segments",
    };
    format!("{kind}, {known}")
}

/// What a pool has, and what of it is free for which requests.
fn heading(title: &str, n_segments: usize, sums: &MemorySums) -> String {
    let bytes = |bytes: u64| format::bytes(bytes as f64);
    format!(
        "{title}: {} in {} segment{}; free {}: largest range {}, {} in partly used segments",
        bytes(sums.reserved),
        format::count(n_segments as u64),
        if n_segments == 1 { "" } else { "s" },
        bytes(sums.free),
        bytes(sums.largest_free),
        bytes(sums.pinned),
    )
}

/// The map and its place on screen.
pub struct Canvas<'a> {
    pub map: &'a StateMap,
    pub shown: &'a ShownMemory,
    pub origin: Pos2,
}

impl Canvas<'_> {
    fn rect(&self, place: &MapBox) -> Rect {
        let top = self.origin.y + place.line as f32 * (LINE_HEIGHT + LINE_GAP);
        Rect::from_min_max(
            pos2(self.origin.x + place.x[0], top),
            pos2(self.origin.x + place.x[1].max(place.x[0] + 1.0), top + LINE_HEIGHT),
        )
    }

    fn label(&self, id: AllocationId) -> Cow<'_, str> {
        let stack = self.shown.history().allocations.stack[id.idx()].0 as usize;
        display_name(self.shown.trace().strings.get(self.map.labels.get(stack).copied().unwrap_or_default()))
    }

    fn color(&self, fill: Fill, ctx: &ViewContext<'_>) -> Color32 {
        let block = |id: AllocationId| {
            let color = self.map.colors.color(self.shown.history().allocations.stack[id.idx()]);
            let is_dimmed = !ctx.memory.marked.is_empty() && ctx.memory.marked.binary_search(&id).is_err();
            if is_dimmed { color.lerp_to_gamma(free_color(ctx.is_dark), 0.75) } else { color }
        };
        match fill {
            Fill::One(PartKind::Allocated(id)) => block(id),
            Fill::One(PartKind::AwaitingFree(_)) => awaiting_color(ctx.is_dark),
            Fill::One(PartKind::Unsplit) => unsplit_color(ctx.is_dark),
            Fill::One(PartKind::Free) => free_color(ctx.is_dark),
            Fill::Mixed(id, held) => {
                let color = id.map_or(unsplit_color(ctx.is_dark), block);
                free_color(ctx.is_dark).lerp_to_gamma(color, held)
            }
        }
    }

    pub fn paint(&self, lines: std::ops::Range<u32>, ctx: &ViewContext<'_>, ui: &egui::Ui) {
        let tokens = theme::tokens(ctx.is_dark);
        let painter = ui.painter();
        let font = egui::TextStyle::Body.resolve(ui.style());
        for line in lines.clone() {
            if let Some(MapLine::Heading(pool)) = self.map.map.lines.get(line as usize) {
                let pool = &self.map.state.pools[*pool as usize];
                let text = heading(&pool_title(self.shown, pool), pool.segments.len(), &pool.sums);
                let at = self.origin + vec2(0.0, (line + 1) as f32 * (LINE_HEIGHT + LINE_GAP) - LINE_GAP - 2.0);
                let mut job = LayoutJob::simple_singleline(text, font.clone(), tokens.text);
                job.wrap = TextWrapping::truncate_at_width(
                    (ui.clip_rect().right().min(ui.max_rect().right()) - at.x).max(1.0),
                );
                let galley = painter.layout_job(job);
                painter.galley(at - vec2(0.0, galley.size().y), galley, tokens.text);
            }
        }
        let selected = self.shown.selected(*ctx.selection);
        let mut mesh = egui::Mesh::default();
        let mut borders = Vec::new();
        let mut outlines = Vec::new();
        for place in self.map.map.of_lines(lines) {
            let rect = self.rect(place);
            mesh.add_colored_rect(rect, self.color(place.fill, ctx));
            if rect.width() >= MIN_BORDERED {
                borders.push(Rect::from_min_max(pos2(rect.right() - 1.0, rect.top()), rect.max));
            }
            if let Fill::One(PartKind::Allocated(id) | PartKind::AwaitingFree(id)) | Fill::Mixed(Some(id), _) =
                place.fill
                && Some(id) == selected
            {
                outlines.push(rect);
            }
        }
        for border in borders {
            mesh.add_colored_rect(border, tokens.canvas);
        }
        painter.add(mesh);
        for rect in outlines {
            painter.rect_stroke(
                rect.expand(1.0),
                CornerRadius::ZERO,
                Stroke::new(2.0, tokens.accent),
                StrokeKind::Outside,
            );
        }
    }

    pub fn interact(&self, response: &egui::Response, ctx: &mut ViewContext<'_>) {
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, "Map of the allocator's memory"));
        let Some(at) = response.hover_pos() else { return };
        let line = ((at.y - self.origin.y) / (LINE_HEIGHT + LINE_GAP)).max(0.0) as u32;
        let Some(place) = self.map.map.at(line, at.x - self.origin.x) else { return };
        let id = match place.fill {
            Fill::One(PartKind::Allocated(id) | PartKind::AwaitingFree(id)) | Fill::Mixed(Some(id), _) => Some(id),
            _ => None,
        };
        if response.clicked() {
            *ctx.selection = id.map_or(Selection::None, |id| self.shown.selection(id));
        }
        let text = self.hover_text(place, id);
        response.clone().on_hover_ui_at_pointer(|ui| {
            ui.set_max_width(560.0);
            ui.label(text);
        });
    }

    fn hover_text(&self, place: &MapBox, id: Option<AllocationId>) -> String {
        let all = &self.shown.history().allocations;
        let bytes = |bytes: u64| format::bytes(bytes as f64);
        let what = match (place.fill, id) {
            (Fill::One(PartKind::Free), _) => format!("Free, {}", bytes(place.bytes)),
            (Fill::One(PartKind::Unsplit), _) => {
                format!("{} left unsplit: too little behind the block to be given out", bytes(place.bytes))
            }
            (Fill::One(PartKind::AwaitingFree(_)), Some(id)) => {
                format!("Freed, awaiting a stream, {}\n{}", bytes(all.bytes[id.idx()]), self.label(id))
            }
            (Fill::One(_), Some(id)) => format!("{}\n{}", bytes(all.bytes[id.idx()]), self.label(id)),
            (_, Some(id)) => format!(
                "Several blocks in one pixel, {} in all; the largest {}\n{}",
                bytes(place.bytes),
                bytes(all.bytes[id.idx()]),
                self.label(id)
            ),
            (_, None) => format!("Free and unsplit memory, {}", bytes(place.bytes)),
        };
        let pool = &self.map.state.pools[place.pool as usize];
        let segment = &pool.segments[place.segment as usize];
        let expandable = if segment.is_expandable { ", expandable" } else { "" };
        format!(
            "{what}\nAt {:#x}, in a segment of {}{expandable} with {} free",
            place.addr,
            bytes(segment.bytes),
            bytes(segment.sums.free)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_says_what_of_a_pool_is_free_and_not_that_nothing_is_fragmented() {
        const MIB: u64 = 1 << 20;
        let mut sums = MemorySums::default();
        (sums.reserved, sums.free) = (400 * MIB, 150 * MIB);
        (sums.largest_free, sums.pinned) = (80 * MIB, 70 * MIB);
        assert_eq!(
            heading("Large segments, default stream", 12, &sums),
            "Large segments, default stream: 400.00 MiB in 12 segments; free 150.00 MiB: largest range 80.00 MiB, \
             70.00 MiB in partly used segments"
        );
    }
}
