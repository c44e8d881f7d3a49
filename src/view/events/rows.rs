//! The events of a track as rows of a table, made when they come on screen.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::figures::text::telling;
use crate::figures::{Cell, Column, Rows, Sort, sort_by_key};
use crate::model::{DurNs, SliceId, TimeRange, Trace, TrackId};
use crate::session::Selection;
use crate::view::tables::Table;

const COLUMNS: [Column; 5] = [
    Column { key: "start_ns", title: "Start", width: 150, is_text: false, help: "Start time" },
    Column { key: "dur_ns", title: "Duration", width: 100, is_text: false, help: "Duration" },
    Column { key: "name", title: "Name", width: 520, is_text: true, help: "Name of the event" },
    Column { key: "kind", title: "Kind", width: 130, is_text: true, help: "What was recorded" },
    Column { key: "level", title: "Level", width: 60, is_text: false, help: "Row of the track, 1 at the top" },
];

/// Consecutive events of one row, or the instants of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// Its first line.
    first: usize,
    /// Indices into the slices, or into the instants.
    events: Range<usize>,
    /// Row of the slices, 1 at the top; `None` for instants.
    level: Option<u32>,
}

/// An event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Slice(SliceId, u32),
    Instant(usize),
}

/// The events of a track: row after row, then the instants.
#[derive(Debug)]
pub struct EventRows {
    trace: Arc<Trace>,
    /// What to add to the trace's times to get session times.
    offset_ns: DurNs,
    parts: Vec<Part>,
    len: usize,
}

impl EventRows {
    /// All events of a track, or those that touch `range`, in the trace's own time.
    ///
    /// Cost: O(rows of the track · log slices).
    pub fn new(trace: &Arc<Trace>, track: TrackId, range: Option<TimeRange>, offset_ns: DurNs) -> Self {
        let mut listing = Self { trace: Arc::clone(trace), offset_ns, parts: Vec::new(), len: 0 };
        for row in trace.rows(track) {
            let events = range.map_or(row.range(), |range| within(trace, trace.slices.window(row, range), range));
            listing.push(events, Some(row.depth + 1));
        }
        let instants = &trace.instants;
        listing.push(range.map_or_else(|| instants.of_track(track), |range| instants.window(track, range)), None);
        listing
    }

    fn push(&mut self, events: Range<usize>, level: Option<u32>) {
        if !events.is_empty() {
            let first = self.len;
            self.len += events.len();
            self.parts.push(Part { first, events, level });
        }
    }

    /// The event of a line.
    pub fn event(&self, line: usize) -> Option<Event> {
        let part = self.parts.get(self.parts.partition_point(|part| part.first <= line).checked_sub(1)?)?;
        let index = part.events.start + (line - part.first);
        part.events.contains(&index).then_some(match part.level {
            Some(level) => Event::Slice(SliceId(index as u32), level),
            None => Event::Instant(index),
        })
    }

    /// The line of the selected event.
    pub fn line(&self, selection: Selection) -> Option<usize> {
        let (index, is_slice) = match selection {
            Selection::None | Selection::Allocation { .. } | Selection::Gap { .. } => return None,
            Selection::Slice { slice, .. } => (slice.idx(), true),
            Selection::Instant { instant, .. } => (instant, false),
        };
        let has = |part: &&Part| part.level.is_some() == is_slice && part.events.contains(&index);
        self.parts.iter().find(has).map(|part| part.first + index - part.events.start)
    }

    /// Start and end of an event, in session time.
    pub fn time(&self, event: Event) -> TimeRange {
        let time = match event {
            Event::Slice(slice, _) => self.trace.slices.time(slice),
            Event::Instant(instant) => TimeRange::new(self.trace.instants.ts[instant], self.trace.instants.ts[instant]),
        };
        time.shifted(self.offset_ns)
    }

    fn name(&self, event: Event) -> &str {
        match event {
            Event::Slice(slice, _) => self.trace.slice_name(slice),
            Event::Instant(instant) => self.trace.strings.get(self.trace.instants.name[instant]),
        }
    }

    fn kind(&self, event: Event) -> &'static str {
        match event {
            Event::Slice(slice, _) => self.trace.slices.kind[slice.idx()].label(),
            Event::Instant(_) => "Instant",
        }
    }

    /// In nanoseconds; `None` for an instant, and for a slice whose end was not recorded.
    fn duration(&self, event: Event) -> Option<DurNs> {
        let Event::Slice(slice, _) = event else { return None };
        let is_open = self.trace.slices.unfinished.binary_search(&slice).is_ok();
        (!is_open).then(|| self.trace.slices.time(slice).dur())
    }
}

/// Leaves out a slice that ends exactly where the range starts.
fn within(trace: &Trace, window: Range<usize>, range: TimeRange) -> Range<usize> {
    let touches_only =
        |i: usize| window.contains(&i) && trace.slices.ts[i] < range.start && trace.slices.end[i] == range.start;
    window.start + usize::from(touches_only(window.start))..window.end
}

impl Rows for EventRows {
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn n_rows(&self) -> usize {
        self.len
    }

    fn row(&self, row: usize) -> Cow<'_, [Cell]> {
        let Some(event) = self.event(row) else { return Cow::default() };
        let duration = match (event, self.duration(event)) {
            (_, Some(duration)) => Cell::Ns(duration),
            (Event::Slice(..), None) => Cell::text("Not recorded"),
            (Event::Instant(_), None) => Cell::Empty,
        };
        let level = match event {
            Event::Slice(_, level) => Cell::Count(level.into()),
            Event::Instant(_) => Cell::Empty,
        };
        let start = Cell::Moment(self.time(event).start);
        Cow::Owned(vec![start, duration, Cell::name(self.name(event)), Cell::text(self.kind(event)), level])
    }

    fn own_sort(&self) -> Option<Sort> {
        Some(Sort { column: 0, is_descending: false })
    }

    /// An event fits if each word of the filter occurs in its name, in any case. Cost: O(n log n).
    fn order(&self, sort: Option<Sort>, filter: &str) -> Vec<u32> {
        let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
        let fits = |&line: &u32| {
            let name = self.event(line as usize).map(|event| self.name(event).to_lowercase()).unwrap_or_default();
            words.iter().all(|word| name.contains(word))
        };
        let mut order: Vec<u32> = (0..self.len as u32).collect();
        if !words.is_empty() {
            order.retain(fits);
        }
        let Some(Sort { column, is_descending }) = sort else { return order };
        let event = |line: u32| self.event(line as usize);
        match column {
            0 => sort_by_key(&mut order, is_descending, |line| event(line).map(|event| self.time(event).start)),
            1 => sort_by_key(&mut order, is_descending, |line| event(line).and_then(|event| self.duration(event))),
            2 => sort_by_key(&mut order, is_descending, |line| event(line).map(|event| telling(self.name(event)))),
            3 => sort_by_key(&mut order, is_descending, |line| event(line).map(|event| self.kind(event))),
            _ => sort_by_key(&mut order, is_descending, |line| match event(line)? {
                Event::Slice(_, level) => Some(level),
                Event::Instant(_) => None,
            }),
        }
        order
    }
}

impl Table for EventRows {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    const OP: SliceKind = SliceKind::Operator;

    fn lines(listing: &EventRows) -> Vec<Event> {
        (0..listing.len + 3).map_while(|line| listing.event(line)).collect()
    }

    #[test]
    fn a_track_lists_every_row_and_its_instants_once() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", OP, "outer", 0, 100),
            ("main", OP, "inner", 10, 20),
            ("main", OP, "next", 100, 200),
            ("stream 7", SliceKind::Kernel, "gemm", 0, 50),
        ]);
        let name = builder.strings.intern("here");
        builder.instants.ts = vec![30, 150];
        builder.instants.name = vec![name; 2];
        builder.instants.track = vec![TrackId(0); 2];
        builder.instants.source = vec![0; 2];
        let trace = Arc::new(builder.finish());
        let all = EventRows::new(&trace, TrackId(0), None, 0);
        let (slice, instant) = (|id, level| Event::Slice(SliceId(id), level), Event::Instant);
        assert_eq!(lines(&all), [slice(0, 1), slice(1, 1), slice(2, 2), instant(0), instant(1)]);
        assert_eq!(trace.track_slices(TrackId(0)).len() + 2, all.len);
        for line in 0..all.len {
            assert_eq!(all.line(super::super::selection(0, all.event(line).unwrap())), Some(line));
        }
        let late = EventRows::new(&trace, TrackId(0), Some(TimeRange { start: 100, end: 160 }), 0);
        assert_eq!(lines(&late), [slice(1, 1), instant(1)], "a slice that ends at its start is left out");
        let sorted = |column, is_descending| all.order(Some(Sort { column, is_descending }), "");
        assert_eq!(sorted(0, false), [0, 2, 3, 1, 4], "outer, inner, here, next, here");
        assert_eq!(sorted(1, true), [0, 1, 2, 3, 4], "instants have no duration");
        assert_eq!(sorted(2, false), [3, 4, 2, 1, 0]);
        assert_eq!(sorted(4, true), [2, 0, 1, 3, 4]);
        assert_eq!(all.order(None, "NE t"), [1], "every word of the filter occurs");
        assert_eq!(EventRows::new(&trace, TrackId(1), None, 0).len, 1);
        let none = EventRows::new(&trace, TrackId(1), Some(TimeRange { start: 60, end: 90 }), 0);
        assert_eq!(
            (none.len, none.event(0), none.line(Selection::Slice { trace: 0, slice: SliceId(3) })),
            (0, None, None)
        );
    }

    #[test]
    fn a_listing_grows_with_the_rows_and_not_with_the_slices() {
        let slices: Vec<_> = (0..200_000).map(|i| ("main", OP, "op", i * 10, i * 10 + 5)).collect();
        let trace = Arc::new(TraceBuilder::from_slices(&slices).finish());
        let listing = EventRows::new(&trace, TrackId(0), Some(TimeRange { start: 1_000, end: 1_000_000 }), 0);
        assert_eq!((listing.parts.len(), listing.len), (1, 99_900));
        assert_eq!(listing.event(7), Some(Event::Slice(SliceId(107), 1)));
    }
}
