//! The draw list of a frame: shapes with their rectangles, bounded in number by the pixels.

use eframe::egui::{self, Rect};

use super::background::{Background, Summary, SummaryOf};
use super::cells::{WideSlice, layout_row};
use super::peaks::Column;
use super::strips::{Strip, Strips};
use super::track_list::{GROUP_HEIGHT, Line, LineKind, ROW_HEIGHT, STRIP_GROUP_HEIGHT, visible_lines};
use crate::figures::metric::Metric;
use crate::model::{Cell, SliceId, TimeRange, Tint, TrackId, TrackKind};
use crate::session::OpenTrace;
use crate::view::axis::Scale;

/// Free space between two rows, in points.
const ROW_GAP: f32 = 1.0;
/// Half the width of the mark of an instant, in points.
pub const TICK: f32 = 2.5;

/// With more free pixels than this on both sides work stands alone.
const ALONE: usize = 3;
/// Work that stands alone is at most so many pixels wide; what is wider is seen by its area.
const MAX_ALONE: usize = 12;

/// A part of the canvas: the pinned lines, those that scroll, or the headings over these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    pub rect: Rect,
    /// Scroll offset: points from the top of the lines to the top of `rect`.
    pub scroll: f64,
    /// Points at the top that headings cover, whose own rows have scrolled by.
    pub covered: f32,
}

impl Area {
    /// The part of `rect` that nothing covers.
    pub fn clip(&self) -> Rect {
        Rect { min: self.rect.min + egui::vec2(0.0, self.covered), ..self.rect }
    }

    /// Points from the top of the lines to the bottom of `rect`.
    pub fn bottom(&self) -> f64 {
        self.scroll + f64::from(self.rect.height())
    }

    /// The lines that are visible in it.
    pub fn visible<'a>(&self, lines: &'a [Line]) -> &'a [Line] {
        let top = self.scroll + f64::from(self.covered);
        lines.get(visible_lines(lines, top, self.bottom())).unwrap_or_default()
    }

    /// Top of a line on screen; it may lie outside of `rect`.
    pub fn top(&self, line: &Line) -> f32 {
        self.rect.top() + (line.y - self.scroll) as f32
    }

    /// Top of a row of a line on screen, with the height in which its slices are drawn. A row that is folded has none,
    /// and is above those that are shown or below them.
    pub fn row(&self, line: &Line, row: u32) -> (f32, f32) {
        let shown = line.rows();
        let is_shown = line.is_collapsed || shown.contains(&row);
        let place = if line.is_collapsed { 0 } else { row.clamp(shown.start, shown.end) - shown.start };
        let height = if is_shown { line.row_height - ROW_GAP } else { 0.0 };
        match line.kind {
            LineKind::Track(_) => (self.top(line) + place as f32 * line.row_height, height),
            _ if line.has_strip() => (self.top(line) + 3.0, STRIP_GROUP_HEIGHT / 2.0 - 4.0),
            _ => (self.top(line) + 3.0, GROUP_HEIGHT - 6.0),
        }
    }

    /// Top and height of the strip of idle time of a heading: below its row while it is collapsed.
    pub fn strip(&self, line: &Line) -> Option<(f32, f32)> {
        let (row, height) = self.row(line, 0);
        let top = if line.is_collapsed { row + height + 1.0 } else { row };
        line.has_strip().then_some((top, self.top(line) + STRIP_GROUP_HEIGHT - 3.0 - top))
    }
}

/// A slice drawn as a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceBox {
    pub trace: usize,
    pub slice: SliceId,
    pub tint: Tint,
    /// The color that the program chose, as 0xRRGGBB with any higher bits.
    pub color: Option<u32>,
    pub rect: Rect,
    /// Whether it is narrow, with free space around it.
    pub is_alone: bool,
}

/// An instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// Whether it is one of many, such as profiler samples, and is painted as a thin dim line.
    pub is_thin: bool,
    pub x: f32,
    pub top: f32,
}

/// A counter's curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Index among the curves of its track.
    pub index: usize,
    pub rect: Rect,
    /// One per pixel.
    pub columns: Vec<Column>,
    /// Values at the bottom and the top of `rect`.
    pub bottom: f64,
    pub top: f64,
    /// The largest value, with its unit, of the first of a track.
    pub label: Option<String>,
    /// A value at which a line is drawn, if the curve reaches it.
    pub limit: Option<f64>,
}

/// Everything drawn in one area.
#[derive(Debug, Default, PartialEq)]
pub struct DrawList {
    pub n_pixels: usize,
    /// The cells of all rows, each `n_pixels` long, in the order of `cell_rows`.
    pub cells: Vec<Cell>,
    /// Indices of the cells that stand alone.
    pub alone: Vec<usize>,
    /// Top and height of each row of cells.
    pub cell_rows: Vec<(f32, f32)>,
    pub strips: Vec<Strip>,
    pub boxes: Vec<SliceBox>,
    pub ticks: Vec<Tick>,
    pub curves: Vec<Curve>,
}

/// Lays out the lines that are visible in `area`.
pub fn layout(
    traces: &[OpenTrace],
    lines: &[Line],
    area: Area,
    scale: &Scale,
    background: &mut Background,
    strips: &Strips,
) -> DrawList {
    let mut list = DrawList { n_pixels: scale.n_pixels, ..Default::default() };
    let n_rows: usize = area.visible(lines).iter().map(|line| line.rows().len()).sum();
    list.cells.reserve(n_rows.min((area.rect.height() / ROW_HEIGHT) as usize + 1) * scale.n_pixels);
    for line in area.visible(lines) {
        let Some(open) = traces.get(line.trace) else { continue };
        match line.kind {
            LineKind::Track(track) => {
                list.add_rows(open, line, track, area, scale);
                list.add_ticks(open, line, track, area, scale);
                if open.trace.track(track).kind == TrackKind::Counter {
                    list.add_curves(open, line, track, area, scale, background);
                }
            }
            // Its times are not those of the run in front.
            LineKind::Trace if line.is_collapsed && open.is_behind => {}
            kind => {
                let view = scale.view.shifted(open.offset.saturating_neg());
                list.strips.extend(strips.layout(line, area, view, scale));
                if line.is_collapsed
                    && line.is_heading()
                    && let Some(Summary::Busy(union)) = background.get(line.trace, SummaryOf::Group(kind))
                {
                    let first = list.cells.len();
                    union.cells(view, scale.n_pixels, &mut list.cells);
                    find_alone(&list.cells[first..], first, &mut list.alone);
                    list.cell_rows.push(area.row(line, 0));
                }
            }
        }
    }
    list
}

impl DrawList {
    fn add_rows(&mut self, open: &OpenTrace, line: &Line, track: TrackId, area: Area, scale: &Scale) {
        let view = scale.view.shifted(open.offset.saturating_neg());
        let mut wide: Vec<WideSlice> = Vec::new();
        let shown = open.trace.rows(track).get(line.first_row as usize..line.rows().end as usize).unwrap_or_default();
        let (top_of_line, clip) = (area.top(line), area.clip());
        let place = |y: f32| ((y - top_of_line) / line.row_height).max(0.0) as usize;
        let on_screen = place(clip.top())..shown.len().min(place(clip.bottom()) + 1);
        let height = line.row_height - ROW_GAP;
        for (place, row) in on_screen.clone().zip(shown.get(on_screen).unwrap_or_default()) {
            let top = top_of_line + place as f32 * line.row_height;
            wide.clear();
            let first = self.cells.len();
            layout_row(&open.trace, row, view, scale.n_pixels, &mut self.cells, &mut wide);
            let cells = &self.cells[first..];
            find_alone(cells, first, &mut self.alone);
            self.cell_rows.push((top, height));
            let width = scale.n_pixels as f64;
            let x = |pixels: f64| scale.left + pixels.clamp(-8.0, width + 8.0) as f32 * scale.pixel;
            self.boxes.extend(wide.iter().enumerate().map(|(i, slice)| {
                let is_alone = is_alone((i, slice), &wide, cells);
                let rect = Rect::from_x_y_ranges(x(slice.from)..=x(slice.to), top..=top + height);
                let slice = SliceId(row.slices.start + slice.index as u32);
                let color = open.trace.facts.colors.get(slice).copied();
                SliceBox { trace: line.trace, slice, tint: open.trace.slice_tint(slice), color, rect, is_alone }
            }));
        }
    }

    /// At most one tick per pixel.
    fn add_ticks(&mut self, open: &OpenTrace, line: &Line, track: TrackId, area: Area, scale: &Scale) {
        let instants = &open.trace.instants;
        let view = scale.view.shifted(open.offset.saturating_neg());
        // The mark with which a recording ends is at the last moment of what shows all of it.
        let window = instants.window(track, TimeRange { end: view.end.saturating_add(1), ..view });
        let step = (scale.ns_per_pixel() as i64).max(1);
        let is_thin = open.trace.samples.track.binary_search(&track).is_ok();
        let (top, mut i) = (area.top(line), window.start);
        while i < window.end {
            let ts = instants.ts[i];
            let x = scale.x(ts.saturating_add(open.offset));
            // At the edges it stays whole.
            let x = if is_thin { x } else { x.clamp(scale.left + TICK, (scale.right() - TICK).max(scale.left + TICK)) };
            self.ticks.push(Tick { is_thin, x, top });
            i += 1;
            i += instants.ts[i..window.end].partition_point(|&next| next < ts.saturating_add(step));
        }
    }

    fn add_curves(
        &mut self,
        open: &OpenTrace,
        line: &Line,
        track: TrackId,
        area: Area,
        scale: &Scale,
        background: &mut Background,
    ) {
        let counters = &open.trace.counters;
        let first = counters.partition_point(|counter| counter.track < track);
        let of_track = counters.iter().enumerate().skip(first).take_while(|(_, counter)| counter.track == track);
        let of_track: Vec<usize> = of_track.map(|(i, _)| i).collect();
        let mut all = of_track.iter().map(|&i| counters[i].scale);
        let (bottom, top) = all
            .next()
            .map_or((0.0, 0.0), |first| all.fold(first, |scale, other| (scale.0.min(other.0), scale.1.max(other.1))));
        let most = of_track.iter().copied().max_by(|&a, &b| counters[a].max.total_cmp(&counters[b].max));
        let label = most.map(|i| format!("max {}", Metric::of(&open.trace, &counters[i]).text(counters[i].max)));
        let y = area.top(line);
        let rect = Rect::from_x_y_ranges(scale.left..=scale.right(), y..=y + line.height);
        let view = scale.view.shifted(open.offset.saturating_neg());
        for (index, &counter) in of_track.iter().enumerate() {
            let summary = background.get(line.trace, SummaryOf::Counter(counter));
            let Some(Summary::Peaks(peaks)) = summary else { continue };
            let columns = peaks.columns(&counters[counter], view, open.trace.span.end, scale.n_pixels);
            let label = label.clone().filter(|_| index == 0);
            self.curves.push(Curve { index, rect, columns, bottom, top, label, limit: None });
        }
    }
}

/// Finds work that is far from any other: by its share alone it would fade into background and grid.
///
/// * `first`: the index of the first of these cells.
fn find_alone(cells: &[Cell], first: usize, alone: &mut Vec<usize>) {
    let is_busy = |at: &usize| cells.get(*at).is_some_and(|cell| cell.share > 0);
    let mut at = 0;
    while let Some(free) = cells.get(at..).and_then(|rest| rest.iter().position(|cell| cell.share > 0)) {
        let (start, mut last) = (at + free, at + free);
        // From the far end: what is between does not matter.
        while let Some(near) = (last + 1..=last + ALONE).rev().find(is_busy) {
            last = near;
        }
        if last - start < MAX_ALONE {
            alone.extend((start..=last).filter(is_busy).map(|at| first + at));
        }
        at = last + ALONE + 1;
    }
}

/// Whether a slice of a row is narrow, with free space around it.
fn is_alone((i, slice): (usize, &WideSlice), wide: &[WideSlice], cells: &[Cell]) -> bool {
    let is_far = |other: &WideSlice| (slice.from - other.to).max(other.from - slice.to) > ALONE as f64;
    let pixel = |x: f64| (x.max(0.0) as usize).min(cells.len());
    let around = pixel(slice.from).saturating_sub(ALONE)..(pixel(slice.to.ceil()) + ALONE).min(cells.len());
    slice.to - slice.from <= MAX_ALONE as f64
        && i.checked_sub(1).is_none_or(|before| is_far(&wide[before]))
        && wide.get(i + 1).is_none_or(is_far)
        && cells[around].iter().all(|cell| cell.share == 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{Counter, SliceKind, StringId, TraceBuilder, Track};
    use crate::view::timeline::settings::TimelineSettings;
    use crate::view::timeline::track_list::TrackList;

    fn draw(traces: &[OpenTrace], view: TimeRange) -> DrawList {
        let lines = TrackList::build(traces, &[], &TimelineSettings::default(), "").scrolled;
        let rect = Rect::from_min_size(egui::pos2(200.0, 50.0), egui::vec2(1000.0, 600.0));
        let scale = Scale::new(view, rect.left(), rect.width(), 1.0);
        let area = Area { rect, scroll: 0.0, covered: 0.0 };
        let (background, strips) = (&mut Background::default(), &Strips::default());
        background.follow(traces, &crate::answers::Answers::default());
        layout(traces, &lines, area, &scale, background, strips)
    }

    #[test]
    fn a_million_slices_on_a_hundred_rows_are_bounded_by_pixels() {
        let names: Vec<String> = (0..100).map(|i| format!("stream {i}")).collect();
        let slice = |i: i64| {
            let start = i / 100 * 100;
            (names[i as usize % 100].as_str(), SliceKind::Kernel, "k", start, start + 70)
        };
        let slices: Vec<_> = (0..1_000_000).map(slice).collect();
        let traces = [OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 500)];
        for dur in [1_000_000, 100_000, 10_000, 1_000, 100, 10] {
            let view = TimeRange { start: 400_500, end: 400_500 + dur };
            let list = draw(&traces, view);
            let rows = list.cell_rows.len();
            assert!((20..=34).contains(&rows), "{rows} rows: only those on screen");
            assert_eq!(list.cells.len(), rows * 1000);
            assert!(list.boxes.len() <= rows * 336, "{} boxes at {dur} ns", list.boxes.len());
            assert_eq!(list, draw(&traces, view));
        }
    }

    #[test]
    fn a_counter_ends_with_its_own_trace() {
        let trace = |end| {
            let mut builder = TraceBuilder::from_slices(&[("stream 7", SliceKind::Kernel, "k", 0, end)]);
            builder.tracks.push(Track { kind: TrackKind::Counter, name: "memory".to_owned(), ..Default::default() });
            let samples = Counter { track: TrackId(1), ts: vec![100], value: vec![5.0], ..Default::default() };
            builder.counters.push(samples);
            Arc::new(builder.finish())
        };
        let traces = [OpenTrace::new(trace(300), 0), OpenTrace::new(trace(200), 500)];
        let list = draw(&traces, TimeRange { start: 0, end: 1000 });
        let drawn = |curve: &Curve| {
            let mut shown = curve.columns.iter().enumerate().filter(|(_, column)| column.is_some());
            (shown.next().map(|(pixel, _)| pixel), shown.next_back().map(|(pixel, _)| pixel))
        };
        let ends: Vec<_> = list.curves.iter().map(drawn).collect();
        assert_eq!(ends, [(Some(100), Some(299)), (Some(600), Some(699))]);
    }

    #[test]
    fn a_mark_at_the_last_moment_is_in_the_picture_of_all() {
        let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", 0, 900)]);
        let instants = &mut builder.instants;
        for ts in [0, 1000] {
            instants.ts.push(ts);
            instants.name.push(StringId::EMPTY);
            instants.track.push(TrackId(0));
            instants.source.push(0);
        }
        let traces = [OpenTrace::new(Arc::new(builder.finish()), 0)];
        let ticks =
            |end| draw(&traces, TimeRange { start: 0, end }).ticks.iter().map(|tick| tick.x).collect::<Vec<_>>();
        assert_eq!(ticks(1000), [200.0 + TICK, 1200.0 - TICK], "in the canvas, which is 200 to 1200");
        assert_eq!(ticks(999), [200.0 + TICK]);
    }

    #[test]
    fn the_offset_of_a_trace_moves_its_slices() {
        let trace = Arc::new(TraceBuilder::from_slices(&[("stream 7", SliceKind::Kernel, "k", 100, 200)]).finish());
        let list = draw(&[OpenTrace::new(trace, 50)], TimeRange { start: 0, end: 1000 });
        assert_eq!(list.boxes.len(), 1);
        assert_eq!((list.boxes[0].rect.left(), list.boxes[0].rect.right()), (350.0, 450.0));
    }

    #[test]
    fn work_that_stands_alone_is_found_and_dense_work_is_not() {
        let mut cells = vec![Cell::default(); 80];
        let few = [0, 10, 11, 20, 22];
        for at in few.into_iter().chain(40..60) {
            cells[at].share = 9;
        }
        let mut alone = Vec::new();
        find_alone(&cells, 1_000, &mut alone);
        assert_eq!(alone, few.map(|at| 1_000 + at), "single ones, and two beside each other, but no dense stretch");
    }

    #[test]
    fn a_short_slice_alone_stands_out_at_every_zoom() {
        let slices = [
            ("main", SliceKind::Os, "short", 1_000_000, 1_000_300),
            ("main", SliceKind::Os, "far", 9_000_000, 9_900_000),
        ];
        let traces = [OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0)];
        for zoom in 0..40 {
            let dur = (10_000_000.0 / 1.3_f64.powi(zoom)) as i64;
            let view = TimeRange { start: 1_000_150 - dur / 2, end: 1_000_150 + dur / 2 };
            let list = draw(&traces, view);
            let width = 300.0 * list.n_pixels as f64 / dur as f64;
            let is_seen = |slice: &SliceBox| slice.is_alone || slice.rect.width() > MAX_ALONE as f32;
            assert!(
                list.alone.iter().any(|&at| (495..505).contains(&at)) || list.boxes.iter().any(is_seen),
                "{width} pixels wide"
            );
        }
    }
}
