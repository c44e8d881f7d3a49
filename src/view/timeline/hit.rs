//! Hit testing in the model, by row and time: slices too narrow for a box of their own can be hit too.

use eframe::egui::Pos2;

use super::layout::Area;
use super::strips::{Strips, idle_at};
use super::track_list::{Line, LineKind, visible_lines};
use crate::model::{ProcessId, Row, SliceId, TimeNs, TimeRange, Trace, TrackId};
use crate::session::{OpenTrace, Selection};
use crate::view::axis::Scale;

/// Tolerance beside a slice, in points.
const SLACK: f32 = 2.5;

/// What a pointer hits on the canvas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hit {
    #[default]
    Nothing,
    Slice {
        trace: usize,
        slice: SliceId,
    },
    Instant {
        trace: usize,
        instant: usize,
    },
    /// Idle time of a device, in its strip: a gap by its index, the longest of those too narrow to be hit.
    Gap {
        trace: usize,
        process: ProcessId,
        gap: usize,
    },
    /// A line of launched work, by its index.
    Queue {
        trace: usize,
        index: u32,
    },
    /// Free space of a track; `gap` is the time between the slices around it, in the trace's time, and `idle` the
    /// gap of the whole device, by its index.
    Track {
        trace: usize,
        track: TrackId,
        gap: Option<TimeRange>,
        idle: Option<usize>,
    },
}

/// The target at `pointer` in an area that shows `lines`.
pub fn hit(traces: &[OpenTrace], lines: &[Line], area: Area, scale: &Scale, pointer: Pos2, strips: &Strips) -> Hit {
    if !area.clip().contains(pointer) {
        return Hit::Nothing;
    }
    let y = area.scroll + f64::from(pointer.y - area.rect.top());
    let line = lines.get(visible_lines(lines, y, y + 1e-3)).and_then(<[Line]>::first);
    let Some((line, open)) = line.and_then(|line| Some((line, traces.get(line.trace)?))) else { return Hit::Nothing };
    let at = scale.time(pointer.x).saturating_sub(open.offset);
    let slack = (f64::from(SLACK) * scale.ns_per_point()).ceil() as i64;
    let trace = line.trace;
    if let LineKind::Queue(_, index) = line.kind {
        return Hit::Queue { trace, index };
    }
    let LineKind::Track(track) = line.kind else {
        let is_in_strip = area.strip(line).is_some_and(|(top, height)| (top..top + height).contains(&pointer.y));
        let gap = strips.gap_at(line, at, slack).filter(|_| is_in_strip);
        return gap.map_or(Hit::Nothing, |(process, gap)| Hit::Gap { trace, process, gap });
    };
    let below = (y - line.y) as f32;
    if below < 10.0
        && let Some(instant) = nearest_instant(&open.trace, track, at, slack * 2)
    {
        return Hit::Instant { trace, instant };
    }
    let row = row_at(&open.trace, line, track, below);
    match row.and_then(|row| nearest_slice(&open.trace, row, at, slack)) {
        Some(slice) => Hit::Slice { trace, slice },
        None => {
            let ledgers = strips.ready(trace);
            let ledger = ledgers.as_ref().and_then(|ledgers| ledgers.of(open.trace.track(track).process));
            let idle = ledger.and_then(|(ledger, _)| idle_at(ledger, at));
            Hit::Track { trace, track, gap: row.and_then(|row| gap_at(&open.trace, row, at)), idle }
        }
    }
}

/// The row of a line that is shown so many points below its top.
fn row_at<'a>(trace: &'a Trace, line: &Line, track: TrackId, below: f32) -> Option<&'a Row> {
    let row = line.first_row + (below / line.row_height) as u32;
    trace.rows(track).get(row as usize).filter(|_| line.rows().contains(&row))
}

/// The edges of the slices beside a moment, in session time, on the row at a place on screen.
pub fn edges_at(traces: &[OpenTrace], lines: &[Line], area: Area, pointer: Pos2, at: TimeNs) -> Vec<TimeNs> {
    let y = area.scroll + f64::from(pointer.y - area.rect.top());
    let line = lines.get(visible_lines(lines, y, y + 1e-3)).and_then(<[Line]>::first);
    let Some((line, open)) = line.and_then(|line| Some((line, traces.get(line.trace)?))) else { return Vec::new() };
    let LineKind::Track(track) = line.kind else { return Vec::new() };
    let row = row_at(&open.trace, line, track, (y - line.y) as f32).filter(|_| area.clip().contains(pointer));
    row.map(|row| edges_beside(open, row, at)).unwrap_or_default()
}

/// The edges of the slices beside a moment, in session time, on the rows that a line shows.
pub fn edges_of(traces: &[OpenTrace], line: &Line, at: TimeNs) -> Vec<TimeNs> {
    let (Some(open), LineKind::Track(track)) = (traces.get(line.trace), line.kind) else { return Vec::new() };
    let rows = open.trace.rows(track).iter().filter(|row| line.rows().contains(&row.depth));
    rows.flat_map(|row| edges_beside(open, row, at)).collect()
}

/// The edges of the slices beside a moment, in session time, on the row of the selected slice.
pub fn edges_of_selected(traces: &[OpenTrace], selection: Selection, at: TimeNs) -> Vec<TimeNs> {
    let Selection::Slice { trace, slice } = selection else { return Vec::new() };
    let open = traces.get(trace);
    let slices = open.map(|open| &open.trace.slices);
    let row = slices.and_then(|slices| slices.rows.get(slices.row_of(slice)));
    open.zip(row).map(|(open, row)| edges_beside(open, row, at)).unwrap_or_default()
}

fn edges_beside(open: &OpenTrace, row: &Row, at: TimeNs) -> Vec<TimeNs> {
    let (slices, all) = (&open.trace.slices, row.range());
    let next = all.start + slices.end[all.clone()].partition_point(|&end| end <= at.saturating_sub(open.offset));
    let beside = (next.saturating_sub(1)..=next + 1).filter(|i| all.contains(i));
    beside.flat_map(|i| [slices.ts[i], slices.end[i]]).map(|ts| ts.saturating_add(open.offset)).collect()
}

/// The gap around `at` between two slices of a row.
fn gap_at(trace: &Trace, row: &Row, at: TimeNs) -> Option<TimeRange> {
    let (slices, all) = (&trace.slices, row.range());
    let next = all.start + slices.end[all.clone()].partition_point(|&end| end <= at);
    let before = next.checked_sub(1).filter(|i| all.contains(i) && all.contains(&next))?;
    let gap = TimeRange { start: slices.end[before], end: slices.ts[next] };
    gap.contains(at).then_some(gap)
}

/// The slice of a row that runs at `at`, else the nearest within `slack` nanoseconds.
fn nearest_slice(trace: &Trace, row: &Row, at: TimeNs, slack: i64) -> Option<SliceId> {
    let slices = &trace.slices;
    let all = row.range();
    // The first slice that ends after the moment, and the one before it.
    let next = all.start + slices.end[all.clone()].partition_point(|&end| end <= at);
    let distance = |&i: &usize| (slices.ts[i].saturating_sub(at)).max(at.saturating_sub(slices.end[i])).max(0);
    let near = [next.checked_sub(1), Some(next)].into_iter().flatten().filter(|i| all.contains(i));
    near.min_by_key(|i| (distance(i), *i != next)).filter(|i| distance(i) <= slack).map(|i| SliceId(i as u32))
}

fn nearest_instant(trace: &Trace, track: TrackId, at: TimeNs, slack: i64) -> Option<usize> {
    let near = TimeRange { start: at.saturating_sub(slack), end: at.saturating_add(slack) };
    let window = trace.instants.window(track, near);
    let after = window.start + trace.instants.ts[window.clone()].partition_point(|&ts| ts < at);
    let near = [after.checked_sub(1), Some(after)].into_iter().flatten().filter(|i| window.contains(i));
    near.min_by_key(|&i| trace.instants.ts[i].abs_diff(at))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{SliceKind, TraceBuilder};
    use crate::view::timeline::settings::TimelineSettings;
    use crate::view::timeline::track_list::{ROW_HEIGHT, TrackList};
    use eframe::egui::{Rect, pos2, vec2};

    #[test]
    fn every_slice_is_hit_at_its_row_and_time() {
        let slices = [
            ("main", SliceKind::Operator, "outer", 100, 200),
            ("main", SliceKind::Operator, "inner", 150, 151),
            ("main", SliceKind::Operator, "last", 300, 310),
        ];
        let trace = Arc::new(TraceBuilder::from_slices(&slices).finish());
        let traces = [OpenTrace::new(trace, 1000)];
        let lines = TrackList::build(&traces, &[], &TimelineSettings::default(), "").scrolled;
        let rect = Rect::from_min_size(pos2(0.0, 0.0), vec2(1000.0, 400.0));
        let (area, scale) = (
            Area { rect, scroll: 0.0, covered: 0.0 },
            Scale::new(TimeRange { start: 1000, end: 2000 }, 0.0, 1000.0, 1.0),
        );
        let main = lines[1].y as f32;
        let name_at = |x: f32, row: f32| {
            let pointer = pos2(x, main + row * ROW_HEIGHT + 12.0);
            match hit(&traces, &lines, area, &scale, pointer, &Strips::default()) {
                Hit::Slice { slice, .. } => traces[0].trace.slice_name(slice).to_owned(),
                other => format!("{other:?}"),
            }
        };
        let track = "Track { trace: 0, track: TrackId(0), gap: None, idle: None }";
        let gap = "Track { trace: 0, track: TrackId(0), gap: Some(TimeRange { start: 200, end: 300 }), \
                   idle: None }";
        assert_eq!(name_at(150.5, 0.0), "outer");
        assert_eq!(name_at(150.5, 1.0), "inner");
        assert_eq!(name_at(153.0, 1.0), "inner", "within the tolerance");
        assert_eq!(name_at(160.0, 1.0), track);
        assert_eq!(name_at(199.5, 0.0), "outer");
        assert_eq!(name_at(250.0, 0.0), gap);
        assert_eq!(name_at(50.0, 0.0), track, "no gap before the first slice");
        assert_eq!(name_at(305.0, 0.0), "last");
        let at = |y| hit(&traces, &lines, area, &scale, pos2(150.0, y), &Strips::default());
        assert_eq!(at(2.0), Hit::Nothing, "a group's heading");
        assert_eq!(at(390.0), Hit::Nothing);
    }
}
