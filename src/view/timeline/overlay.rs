//! What is painted over the rows: the selection and its arrows, the selected range, marks, search
//! hits and what the pointer hovers.

use eframe::egui::{
    Color32, CursorIcon, FontId, Mesh, Painter, Pos2, Rect, Shape, Stroke, StrokeKind, Ui, epaint::CubicBezierShape,
    pos2, vec2,
};

use super::hit::Hit;
use super::layout::{Area, DrawList};
use super::scale::Scale;
use super::track_list::TrackList;
use crate::model::{SliceId, TimeRange, Trace};
use crate::session::{OpenTrace, Selection};
use crate::view::ViewContext;
use crate::widget::{format, theme};

/// Arrows drawn for one selection.
const MAX_ARROWS: usize = 200;
/// Narrower search hits have a bar instead of a frame, in points: frames side by side would hide
/// the row.
const MIN_FRAMED_HIT: f32 = 5.0;
/// Search hits looked at for one pixel, in all rows together.
const MAX_HITS_PER_PIXEL: usize = 16;

/// Where everything is on this frame.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub traces: &'a [OpenTrace],
    pub list: &'a TrackList,
    pub scale: Scale,
    pub pinned: Area,
    pub scrolled: Area,
}

impl Places<'_> {
    /// Where a slice is, or would be if its row were on screen, with the area it belongs to.
    pub fn slice(&self, trace: usize, slice: SliceId) -> Option<(Rect, Rect)> {
        let open = self.traces.get(trace)?;
        let row = open.trace.slices.rows.get(open.trace.slices.row_of(slice))?;
        let place = self.list.place(trace, row.track)?;
        let (line, area) = (self.list.line(place)?, if place.is_pinned { self.pinned } else { self.scrolled });
        let (top, height) = area.row(line, row.depth);
        let time = open.trace.slices.time(slice).shifted(open.offset);
        let (left, right) = (self.scale.x(time.start), self.scale.x(time.end));
        let rect = Rect::from_min_max(pos2(left, top), pos2(right.max(left + 1.5), top + height));
        Some((rect, area.rect))
    }

    fn frame(&self, painter: &Painter, trace: usize, slice: SliceId, stroke: Stroke) {
        if let Some((rect, area)) = self.slice(trace, slice) {
            painter.with_clip_rect(area.expand(1.0).intersect(painter.clip_rect())).rect_stroke(
                rect,
                1.0,
                stroke,
                StrokeKind::Outside,
            );
        }
    }
}

/// The slices at the other ends of arrows and launches: (from, to).
pub fn arrows(trace: &Trace, slice: SliceId) -> Vec<(SliceId, SliceId)> {
    let flows = &trace.flows;
    let out = flows.outgoing(slice).map(|i| (slice, flows.to[i]));
    let into = flows.incoming(slice).map(|i| (flows.from[i], slice));
    let launched = trace.launched_by(slice).filter(|_| !trace.slices.kind[slice.idx()].is_device_work());
    let launched = launched.map(|kernel| (slice, kernel));
    let launch = trace.launch_of(slice).filter(|_| trace.slices.kind[slice.idx()].is_device_work());
    let launch = launch.map(|launch| (launch, slice));
    let mut all: Vec<_> = out.chain(into).chain(launched).chain(launch).take(MAX_ARROWS).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Paints the selected slice or instant with its arrows.
pub fn selection(painter: &Painter, places: &Places<'_>, selection: Selection, color: Color32) {
    match selection {
        Selection::None | Selection::Allocation { .. } => {}
        Selection::Instant { trace, instant } => {
            let Some(open) = places.traces.get(trace) else { return };
            let instants = &open.trace.instants;
            let (Some(&ts), Some(&track)) = (instants.ts.get(instant), instants.track.get(instant)) else { return };
            let Some(place) = places.list.place(trace, track) else { return };
            let Some(line) = places.list.line(place) else { return };
            let area = if place.is_pinned { places.pinned } else { places.scrolled };
            let center = pos2(places.scale.x(ts.saturating_add(open.offset)), area.top(line) + 5.0);
            painter.with_clip_rect(area.rect).circle_stroke(center, 6.0, Stroke::new(2.0, color));
        }
        Selection::Slice { trace, slice } => {
            let Some(open) = places.traces.get(trace) else { return };
            for (from, to) in arrows(&open.trace, slice) {
                arrow(painter, places, trace, (from, to), color);
                let other = if from == slice { to } else { from };
                places.frame(painter, trace, other, Stroke::new(1.5, color.gamma_multiply(0.8)));
            }
            places.frame(painter, trace, slice, Stroke::new(2.0, color));
        }
    }
}

/// Shades the life of the selected allocation through all rows, with a line where it begins. Where the
/// clocks of the traces are not one, nothing can be said of other rows.
pub fn allocation(painter: &Painter, ctx: &ViewContext<'_>, scale: &Scale, color: Color32) {
    let Selection::Allocation { trace, memory, .. } = *ctx.selection else { return };
    let history = ctx.traces.get(trace).and_then(|open| open.trace.memories.get(memory));
    let life = ctx.selected_time().filter(|_| ctx.is_one_clock && history.is_some_and(|history| history.has_time));
    let Some(life) = life else { return };
    let canvas = painter.clip_rect();
    let (left, right) = (scale.x(life.start), scale.x(life.end));
    painter.rect_filled(Rect::from_x_y_ranges(left..=right, canvas.y_range()), 0.0, color.gamma_multiply(0.07));
    painter.vline(left, canvas.y_range(), Stroke::new(1.5, color));
}

/// A curve from the start of one slice to the start of another.
fn arrow(painter: &Painter, places: &Places<'_>, trace: usize, (from, to): (SliceId, SliceId), color: Color32) {
    let (Some((from, _)), Some((to, _))) = (places.slice(trace, from), places.slice(trace, to)) else { return };
    let start =
        pos2(from.left() + from.width().min(6.0), if to.top() > from.top() { from.bottom() } else { from.top() });
    let end = to.left_center();
    if !painter.clip_rect().intersects(Rect::from_two_pos(start, end).expand(40.0)) {
        return;
    }
    let bend = vec2(((end.x - start.x).abs() * 0.4).clamp(12.0, 120.0), 0.0);
    let stroke = Stroke::new(1.2, color.gamma_multiply(0.75));
    let points = [start, start + bend, end - bend, end];
    painter.add(CubicBezierShape::from_points_stroke(points, false, Color32::TRANSPARENT, stroke));
    let tip = [end, end + vec2(-6.0, -3.5), end + vec2(-6.0, 3.5)];
    painter.add(Shape::convex_polygon(tip.to_vec(), stroke.color, Stroke::NONE));
}

/// Paints the hovered slice, its launch or kernels, and brightens all of the same name.
pub fn hovered(painter: &Painter, places: &Places<'_>, lists: [&DrawList; 2], hit: Hit, color: Color32) {
    let Hit::Slice { trace, slice } = hit else { return };
    let Some(open) = places.traces.get(trace) else { return };
    let names = &open.trace.slices.name;
    let glow = Color32::from_white_alpha(45);
    let mut mesh = Mesh::default();
    for other in lists.iter().flat_map(|list| &list.boxes) {
        if other.trace == trace && names[other.slice.idx()] == names[slice.idx()] {
            mesh.add_colored_rect(other.rect, glow);
        }
    }
    painter.add(Shape::mesh(mesh));
    places.frame(painter, trace, slice, Stroke::new(1.0, color));
    for (from, to) in arrows(&open.trace, slice).into_iter().take(64) {
        places.frame(painter, trace, if from == slice { to } else { from }, Stroke::new(1.5, color));
    }
}

/// A line through all rows at the pointer.
pub fn cross_hair(painter: &Painter, x: f32, color: Color32) {
    painter.vline(x, painter.clip_rect().y_range(), Stroke::new(1.0, color.gamma_multiply(0.35)));
}

/// Shades a time range and writes its length.
pub fn range(painter: &Painter, scale: &Scale, canvas: Rect, range: TimeRange, color: Color32) {
    let (left, right) = (scale.x(range.start), scale.x(range.end));
    let rect = Rect::from_x_y_ranges(left..=right, canvas.y_range());
    painter.rect_filled(rect, 0.0, color.gamma_multiply(0.12));
    for x in [left, right] {
        painter.vline(x, canvas.y_range(), Stroke::new(1.0, color));
    }
    let visible = rect.intersect(canvas);
    if visible.width() > 0.0 {
        let text = format::duration(range.dur());
        let galley = painter.layout_no_wrap(text, FontId::proportional(12.0), Color32::WHITE);
        let x = (visible.center().x - galley.size().x / 2.0)
            .clamp(canvas.left(), (canvas.right() - galley.size().x).max(canvas.left()));
        let at = pos2(x, canvas.bottom() - galley.size().y - 6.0);
        painter.rect_filled(
            Rect::from_min_size(at, galley.size()).expand2(vec2(5.0, 2.0)),
            4.0,
            Color32::from_black_alpha(200),
        );
        painter.galley(at, galley, Color32::WHITE);
    }
}

/// Marks as flags in the ruler, with a line or a band over the rows.
pub fn marks(painter: &Painter, ctx: &ViewContext<'_>, scale: &Scale, [ruler, canvas]: [Rect; 2], color: Color32) {
    let background = theme::tokens(ctx.is_dark).canvas;
    for mark in ctx.marks.iter().filter(|mark| mark.range.start <= scale.view.end && mark.range.end >= scale.view.start)
    {
        let (left, right) = (scale.x(mark.range.start), scale.x(mark.range.end));
        painter.vline(left, ruler.top()..=canvas.bottom(), Stroke::new(1.0, color));
        if right > left {
            let band = Rect::from_min_max(pos2(left, ruler.bottom() - 4.0), pos2(right, ruler.bottom()));
            painter.rect_filled(band, 0.0, color.gamma_multiply(0.7));
            painter.vline(right, ruler.top()..=canvas.bottom(), Stroke::new(1.0, color));
        }
        let flag = [pos2(left, ruler.top()), pos2(left + 9.0, ruler.top() + 4.0), pos2(left, ruler.top() + 8.0)];
        painter.add(Shape::convex_polygon(flag.to_vec(), color, Stroke::NONE));
        if !mark.note.is_empty() {
            let text: String = mark.note.chars().take(40).collect();
            let galley = painter.layout_no_wrap(text, FontId::proportional(10.0), color);
            let at = pos2(left + 11.0, ruler.top());
            let place = Rect::from_min_size(at, galley.size()).expand2(vec2(2.0, 0.0));
            // The ruler's own words lie behind.
            painter.rect_filled(place, 2.0, background);
            painter.galley(at, galley, color);
        }
    }
}

/// Frames the search hits in view, or puts a bar on them if they are narrow, and marks them in the
/// ruler; at most one a pixel of each row, and of few rows.
pub fn hits(painter: &Painter, places: &Places<'_>, hits: &[(usize, SliceId)], ruler: Rect, color: Color32) {
    let start = |&(trace, slice): &(usize, SliceId)| {
        places.traces.get(trace).map_or(i64::MAX, |open| open.trace.slices.ts[slice.idx()].saturating_add(open.offset))
    };
    let view = places.scale.view;
    let step = (places.scale.ns_per_pixel() as i64).max(1);
    let mut next = hits.partition_point(|hit| start(hit) < view.start);
    for _ in 0..places.scale.n_pixels {
        let Some(first) = hits.get(next).filter(|hit| start(hit) < view.end) else { break };
        let ts = start(first);
        painter.vline(places.scale.x(ts), ruler.bottom() - 6.0..=ruler.bottom(), Stroke::new(1.5, color));
        let in_pixel = &hits[next..next + hits[next..].partition_point(|hit| start(hit) < ts.saturating_add(step))];
        let mut tops = [f32::NAN; MAX_HITS_PER_PIXEL];
        for (hit, n) in in_pixel.iter().zip(0..MAX_HITS_PER_PIXEL) {
            let Some((rect, area)) = places.slice(hit.0, hit.1) else { continue };
            if tops.contains(&rect.top()) {
                continue;
            }
            tops[n] = rect.top();
            if rect.width() < MIN_FRAMED_HIT {
                let bar = Rect::from_min_size(rect.min, vec2(rect.width(), 3.0));
                painter.with_clip_rect(area.intersect(painter.clip_rect())).rect_filled(bar, 0.0, color);
            } else {
                places.frame(painter, hit.0, hit.1, Stroke::new(1.5, color));
            }
        }
        next += in_pixel.len();
    }
}

/// Lets the edges of the selected range be dragged: the fixed edge of the one at the pointer.
pub fn fixed_edge(ui: &Ui, scale: &Scale, range: Option<TimeRange>, pointer: Pos2) -> Option<i64> {
    let range = range?;
    let near = |ts: i64| (scale.x(ts) - pointer.x).abs() <= 4.0;
    let fixed = match (near(range.start), near(range.end)) {
        (_, true) => range.start,
        (true, false) => range.end,
        _ => return None,
    };
    ui.set_cursor_icon(CursorIcon::ResizeHorizontal);
    Some(fixed)
}

#[cfg(test)]
mod tests {
    use eframe::egui::{CentralPanel, Context, RawInput};

    use super::*;
    use crate::model::memory::{AllocationId, MemoryAction, MemoryEvent, MemoryPool, RawMemory};
    use crate::model::{SliceKind, StackId, TraceBuilder};
    use crate::view::timeline::TimelineSettings;

    #[test]
    fn the_life_of_an_allocation_shows_on_the_timeline() {
        let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "step", 0, 1000)]);
        let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
        let pool = raw.pool(MemoryPool::default());
        for (ts, action) in [(100, MemoryAction::Alloc), (400, MemoryAction::FreeCompleted)] {
            raw.events.push(MemoryEvent { ts, action, addr: 512, bytes: 512, pool, stack: StackId(0) });
        }
        builder.memories.push(raw);
        let traces = [OpenTrace::new(builder.finish(), 0)];
        let scale = Scale::new(TimeRange { start: 0, end: 1000 }, 0.0, 500.0, 1.0);
        let output = Context::default().run_ui(RawInput::default(), |ui| {
            let color = Color32::from_rgb(1, 2, 3);
            let ctx = ViewContext {
                traces: &traces,
                span: scale.view,
                navigation: &mut Default::default(),
                selection: &mut Selection::Allocation { trace: 0, memory: 0, id: AllocationId(0) },
                range: &mut None,
                marks: &mut Vec::new(),
                hits: &mut Default::default(),
                memory: &mut Default::default(),
                is_one_clock: true,
                is_dark: true,
                wheel_zooms: false,
                has_keys: true,
                commands: &mut Vec::new(),
            };
            CentralPanel::default().show(ui, |ui| allocation(ui.painter(), &ctx, &scale, color));
        });
        let band = output.shapes.iter().find_map(|clipped| match &clipped.shape {
            Shape::Rect(band) if band.rect.left() == 50.0 => Some(band.rect.right()),
            _ => None,
        });
        assert_eq!(band, Some(200.0));
        output.drop_without_applying_deltas();
    }

    #[test]
    fn hits_at_one_moment_show_in_every_row() {
        let kernel = SliceKind::Kernel;
        let slices = [("stream 7", kernel, "k", 500, 501), ("stream 9", kernel, "k", 500, 501)];
        let traces = [OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0)];
        let list = TrackList::build(&traces, &TimelineSettings::default(), "");
        let scale = Scale::new(TimeRange { start: 0, end: 1000 }, 0.0, 500.0, 1.0);
        let rect = Rect::from_min_size(pos2(0.0, 20.0), vec2(500.0, 400.0));
        let [pinned, scrolled] =
            [Rect::from_min_size(rect.min, vec2(500.0, 0.0)), rect].map(|rect| Area { rect, scroll: 0.0 });
        let found = [(0, SliceId(0)), (0, SliceId(1))];
        let output = Context::default().run_ui(RawInput::default(), |ui| {
            let places = Places { traces: &traces, list: &list, scale, pinned, scrolled };
            let ruler = Rect::from_min_size(pos2(0.0, 0.0), vec2(500.0, 20.0));
            CentralPanel::default().show(ui, |ui| hits(ui.painter(), &places, &found, ruler, Color32::YELLOW));
        });
        let bars = |shape: &Shape| match shape {
            Shape::Rect(bar) if bar.fill == Color32::YELLOW => Some(bar.rect.top()),
            _ => None,
        };
        let mut tops: Vec<f32> = output.shapes.iter().filter_map(|clipped| bars(&clipped.shape)).collect();
        tops.dedup();
        assert_eq!(tops.len(), 2, "{tops:?}");
        output.drop_without_applying_deltas();
    }
}
