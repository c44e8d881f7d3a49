//! Overlays on the rows: the selection with its flow arrows, search hits, and the hovered slice.

use eframe::egui::epaint::CubicBezierShape;
use eframe::egui::{Color32, Mesh, Painter, Rangef, Rect, Shape, Stroke, StrokeKind, pos2, vec2};

use super::hit::Hit;
use super::layout::{Area, DrawList};
use super::track_list::{Line, LineKind, SPACING, TrackList};
use crate::model::{SliceId, Trace};
use crate::session::{OpenTrace, Selection};
use crate::view::axis::Scale;

/// Arrows drawn for one selection.
const MAX_ARROWS: usize = 200;
/// Height of the mark of a search hit in the ruler, below the labels.
const HIT_MARK: f32 = 3.0;
/// Search hits narrower than this, in points, get a bar instead of a frame: adjacent frames would hide the row.
const MIN_FRAMED_HIT: f32 = 5.0;
/// Search hits examined for one pixel, in all rows together.
const MAX_HITS_PER_PIXEL: usize = 16;

/// Positions of slices on screen in this frame.
#[derive(Clone, Copy, Debug)]
pub struct Geometry<'a> {
    pub traces: &'a [OpenTrace],
    pub list: &'a TrackList,
    pub scale: Scale,
    pub pinned: Area,
    pub scrolled: Area,
}

impl Geometry<'_> {
    /// The rectangle of a slice, visible or not, and that of the area with its row.
    pub fn slice(&self, trace: usize, slice: SliceId) -> Option<(Rect, Rect)> {
        let open = self.traces.get(trace)?;
        let row = open.trace.slices.rows.get(open.trace.slices.row_of(slice))?;
        let at = self.list.line_of(trace, row.track)?;
        let (line, area) = (self.list.line(at)?, if at.is_pinned { self.pinned } else { self.scrolled });
        let (top, height) = area.row(line, row.depth);
        let time = open.trace.slices.time(slice).shifted(open.offset);
        let (left, right) = (self.scale.x(time.start), self.scale.x(time.end));
        let rect = Rect::from_min_max(pos2(left, top), pos2(right.max(left + 1.5), top + height));
        Some((rect, area.clip()))
    }

    /// The vertical ranges of some visible lines, joined where they touch.
    fn rows_of(&self, is_wanted: impl Fn(&Line) -> bool) -> Vec<Rangef> {
        let mut all: Vec<Rangef> = Vec::new();
        for (lines, area) in [(&self.list.pinned, self.pinned), (&self.list.scrolled, self.scrolled)] {
            for line in area.visible(lines) {
                if !is_wanted(line) {
                    continue;
                }
                let top = area.top(line);
                let rows = Rangef::new(top, top + line.height + SPACING).intersection(area.clip().y_range());
                match all.last_mut().filter(|last| last.max + 1.0 > rows.min) {
                    Some(last) => last.max = rows.max,
                    None => all.push(rows),
                }
            }
        }
        all
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

/// The flows and launches that start or end at a slice, as (from, to).
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

/// Paints the selected slice with its arrows, the selected instant, or the lifetime of the selected allocation.
pub fn selection(painter: &Painter, geometry: &Geometry<'_>, selection: Selection, color: Color32) {
    match selection {
        Selection::None => {}
        Selection::Gap { trace, process, time } => {
            let Some(open) = geometry.traces.get(trace) else { return };
            let time = time.shifted(open.offset);
            let (left, right) = (geometry.scale.x(time.start), geometry.scale.x(time.end));
            let is_of_device = |line: &Line| {
                line.trace == trace
                    && match line.kind {
                        LineKind::Trace | LineKind::Fold(..) => false,
                        LineKind::Process(other) | LineKind::Queue(other, _) => other == process,
                        LineKind::Track(track) => open.trace.track(track).process == process,
                    }
            };
            for rows in geometry.rows_of(is_of_device) {
                painter.rect_filled(Rect::from_x_y_ranges(left..=right, rows), 0.0, color.gamma_multiply(0.12));
                painter.vline(left, rows, Stroke::new(1.0, color));
                painter.vline(right, rows, Stroke::new(1.0, color));
            }
        }
        Selection::Allocation { trace, memory, id } => {
            let Some(open) = geometry.traces.get(trace) else { return };
            let Some(history) = open.trace.memories.get(memory).filter(|history| history.has_time) else { return };
            let life = history.life(id).shifted(open.offset);
            let (left, right) = (geometry.scale.x(life.start), geometry.scale.x(life.end));
            let is_comparable =
                |line: &Line| geometry.traces.get(line.trace).is_some_and(|other| other.shares_clock(open));
            for rows in geometry.rows_of(is_comparable) {
                painter.rect_filled(Rect::from_x_y_ranges(left..=right, rows), 0.0, color.gamma_multiply(0.07));
                painter.vline(left, rows, Stroke::new(1.5, color));
            }
        }
        Selection::Instant { trace, instant } => {
            let Some(open) = geometry.traces.get(trace) else { return };
            let instants = &open.trace.instants;
            let (Some(&ts), Some(&track)) = (instants.ts.get(instant), instants.track.get(instant)) else { return };
            let Some(at) = geometry.list.line_of(trace, track) else { return };
            let Some(line) = geometry.list.line(at) else { return };
            let area = if at.is_pinned { geometry.pinned } else { geometry.scrolled };
            let center = pos2(geometry.scale.x(ts.saturating_add(open.offset)), area.top(line) + 5.0);
            painter.with_clip_rect(area.clip()).circle_stroke(center, 6.0, Stroke::new(2.0, color));
        }
        Selection::Slice { trace, slice } => {
            let Some(open) = geometry.traces.get(trace) else { return };
            for (from, to) in arrows(&open.trace, slice) {
                arrow(painter, geometry, trace, (from, to), color);
                let other = if from == slice { to } else { from };
                geometry.frame(painter, trace, other, Stroke::new(1.5, color.gamma_multiply(0.8)));
            }
            geometry.frame(painter, trace, slice, Stroke::new(2.0, color));
        }
    }
}

/// A curve from the start of one slice to the start of another.
fn arrow(painter: &Painter, geometry: &Geometry<'_>, trace: usize, (from, to): (SliceId, SliceId), color: Color32) {
    let (Some((from, _)), Some((to, _))) = (geometry.slice(trace, from), geometry.slice(trace, to)) else { return };
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
pub fn hovered(painter: &Painter, geometry: &Geometry<'_>, lists: &[DrawList], hit: Hit, color: Color32) {
    let Hit::Slice { trace, slice } = hit else { return };
    let Some(open) = geometry.traces.get(trace) else { return };
    let names = &open.trace.slices.name;
    let glow = Color32::from_white_alpha(45);
    let mut mesh = Mesh::default();
    for other in lists.iter().flat_map(|list| &list.boxes) {
        if other.trace == trace && names[other.slice.idx()] == names[slice.idx()] {
            mesh.add_colored_rect(other.rect, glow);
        }
    }
    painter.add(Shape::mesh(mesh));
    geometry.frame(painter, trace, slice, Stroke::new(1.0, color));
    for (from, to) in arrows(&open.trace, slice).into_iter().take(64) {
        geometry.frame(painter, trace, if from == slice { to } else { from }, Stroke::new(1.5, color));
    }
}

/// Frames the search hits in view, with a bar on narrow ones, and marks them in the ruler. Bounded: per pixel,
/// one hit per row and [`MAX_HITS_PER_PIXEL`] in all.
pub fn hits(painter: &Painter, geometry: &Geometry<'_>, hits: &[(usize, SliceId)], ruler: Rect, color: Color32) {
    let start = |&(trace, slice): &(usize, SliceId)| {
        geometry
            .traces
            .get(trace)
            .map_or(i64::MAX, |open| open.trace.slices.ts[slice.idx()].saturating_add(open.offset))
    };
    let view = geometry.scale.view;
    let step = (geometry.scale.ns_per_pixel() as i64).max(1);
    let mut next = hits.partition_point(|hit| start(hit) < view.start);
    for _ in 0..geometry.scale.n_pixels {
        let Some(first) = hits.get(next).filter(|hit| start(hit) < view.end) else { break };
        let ts = start(first);
        painter.vline(geometry.scale.x(ts), ruler.bottom() - HIT_MARK..=ruler.bottom(), Stroke::new(1.5, color));
        let in_pixel = &hits[next..next + hits[next..].partition_point(|hit| start(hit) < ts.saturating_add(step))];
        let mut tops = [f32::NAN; MAX_HITS_PER_PIXEL];
        for (hit, n) in in_pixel.iter().zip(0..MAX_HITS_PER_PIXEL) {
            let Some((rect, area)) = geometry.slice(hit.0, hit.1) else { continue };
            if tops.contains(&rect.top()) {
                continue;
            }
            tops[n] = rect.top();
            if rect.width() < MIN_FRAMED_HIT {
                let bar = Rect::from_min_size(rect.min, vec2(rect.width(), 3.0));
                painter.with_clip_rect(area.intersect(painter.clip_rect())).rect_filled(bar, 0.0, color);
            } else {
                geometry.frame(painter, hit.0, hit.1, Stroke::new(1.5, color));
            }
        }
        next += in_pixel.len();
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::{CentralPanel, Context, RawInput};

    use super::*;
    use crate::analysis::clock::ClockSource;
    use crate::model::memory::{AllocationId, MemoryAction, MemoryEvent, MemoryPool, RawMemory};
    use crate::model::{SliceKind, StackId, TimeRange, TraceBuilder};
    use crate::view::timeline::TimelineSettings;

    #[test]
    fn the_lifetime_of_an_allocation_is_shaded_on_rows_of_its_clock() {
        let step = [("main", SliceKind::Operator, "step", 0, 1000)];
        let mut builder = TraceBuilder::from_slices(&step);
        let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
        let pool = raw.pool(MemoryPool::default());
        for (ts, action) in [(100, MemoryAction::Alloc), (400, MemoryAction::FreeCompleted)] {
            raw.events.push(MemoryEvent { ts, action, addr: 512, bytes: 512, pool, stack: StackId(0) });
        }
        builder.memories.push(raw);
        let other = TraceBuilder::from_slices(&step).finish();
        let mut traces = [builder.finish(), other].map(|trace| OpenTrace::new(trace, 0));
        let list = TrackList::build(&traces, &[], &TimelineSettings::default(), "");
        let scale = Scale::new(TimeRange { start: 0, end: 1000 }, 0.0, 500.0, 1.0);
        let rect = Rect::from_min_size(pos2(0.0, 0.0), vec2(500.0, 400.0));
        let [pinned, scrolled] = [Rect::from_min_size(rect.min, vec2(500.0, 0.0)), rect].map(|rect| Area {
            rect,
            scroll: 0.0,
            covered: 0.0,
        });
        let bands = |traces: &[OpenTrace]| {
            let output = Context::default().run_ui(RawInput::default(), |ui| {
                let geometry = Geometry { traces, list: &list, scale, pinned, scrolled };
                let allocation = Selection::Allocation { trace: 0, memory: 0, id: AllocationId(0) };
                CentralPanel::default().show(ui, |ui| selection(ui.painter(), &geometry, allocation, Color32::RED));
            });
            let band = |shape: &Shape| match shape {
                Shape::Rect(band) if band.rect.left() == 50.0 => Some(band.rect),
                _ => None,
            };
            let bands: Vec<Rect> = output.shapes.iter().filter_map(|clipped| band(&clipped.shape)).collect();
            output.drop_without_applying_deltas();
            bands
        };
        let end_of = |trace| {
            let last = list.scrolled.iter().rev().find(|line| line.trace == trace).unwrap();
            scrolled.top(last) + last.height + SPACING
        };
        let until = |bottom| vec![Rect::from_min_max(pos2(50.0, 0.0), pos2(200.0, bottom))];
        assert_eq!(bands(&traces), until(end_of(0)), "the other trace has a clock of its own");
        traces.iter_mut().for_each(|open| open.source = ClockSource::Utc);
        assert_eq!(bands(&traces), until(end_of(1)));
    }

    #[test]
    fn hits_at_one_moment_show_in_every_row() {
        let kernel = SliceKind::Kernel;
        let slices = [("stream 7", kernel, "k", 500, 501), ("stream 9", kernel, "k", 500, 501)];
        let traces = [OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0)];
        let list = TrackList::build(&traces, &[], &TimelineSettings::default(), "");
        let scale = Scale::new(TimeRange { start: 0, end: 1000 }, 0.0, 500.0, 1.0);
        let rect = Rect::from_min_size(pos2(0.0, 20.0), vec2(500.0, 400.0));
        let [pinned, scrolled] = [Rect::from_min_size(rect.min, vec2(500.0, 0.0)), rect].map(|rect| Area {
            rect,
            scroll: 0.0,
            covered: 0.0,
        });
        let found = [(0, SliceId(0)), (0, SliceId(1))];
        let output = Context::default().run_ui(RawInput::default(), |ui| {
            let geometry = Geometry { traces: &traces, list: &list, scale, pinned, scrolled };
            let ruler = Rect::from_min_size(pos2(0.0, 0.0), vec2(500.0, 20.0));
            CentralPanel::default().show(ui, |ui| hits(ui.painter(), &geometry, &found, ruler, Color32::YELLOW));
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
