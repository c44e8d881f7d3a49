//! The events of one track as a table, accessible by keyboard and screen reader.

use std::ops::Range;
use std::sync::{Arc, Weak};

use eframe::egui;
use egui_extras::{Column, TableBuilder};

use super::states::failed_ui;
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::answers::{Analysis, Work};
use crate::command::Command;
use crate::figures::{format, text::display_name};
use crate::model::{SliceId, TimeRange, Trace, TrackId};
use crate::session::{OpenTrace, Selection, track_title};

const ROW_HEIGHT: f32 = 20.0;
/// Lines per page: screen positions are `f32`, which is inexact beyond this many.
const PAGE: usize = 500_000;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "events",
    title: "Events",
    help: "Show the list of events of the selected track",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Tracks,
    make: || Box::new(Events::default()),
};

/// The events tab.
#[derive(Debug, Default)]
pub struct Events {
    track: Option<(Weak<Trace>, TrackId)>,
    /// Whether to list the whole track even if a time range is selected.
    is_unbound: bool,
    /// The selection of the last frame: a new selection shows its track.
    followed: Selection,
    page: usize,
    /// The line to scroll to.
    target: Option<usize>,
}

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
enum Event {
    Slice(SliceId, u32),
    Instant(usize),
}

/// The events of a track, or those that touch a range of the trace's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EventsOf(TrackId, Option<TimeRange>);

impl Analysis for EventsOf {
    type Of = Arc<Trace>;
    type Output = Listing;
    const NAME: &'static str = "The list of events";

    fn run(&self, of: &Arc<Trace>, _: &Work<'_>) -> Option<Listing> {
        Some(Listing::new(of, self.0, self.1))
    }
}

/// The events of a track as ranges of the columns: row after row, then the instants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listing {
    parts: Vec<Part>,
    len: usize,
}

impl Listing {
    /// All events of a track, or those that touch `range`, in the trace's own time.
    ///
    /// Cost: O(rows of the track · log slices).
    fn new(trace: &Trace, track: TrackId, range: Option<TimeRange>) -> Self {
        let mut listing = Self::default();
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

    fn event(&self, line: usize) -> Option<Event> {
        let part = self.parts.get(self.parts.partition_point(|part| part.first <= line).checked_sub(1)?)?;
        let index = part.events.start + (line - part.first);
        part.events.contains(&index).then_some(match part.level {
            Some(level) => Event::Slice(SliceId(index as u32), level),
            None => Event::Instant(index),
        })
    }

    fn line(&self, selection: Selection) -> Option<usize> {
        let (index, is_slice) = match selection {
            Selection::None | Selection::Allocation { .. } | Selection::Gap { .. } => return None,
            Selection::Slice { slice, .. } => (slice.idx(), true),
            Selection::Instant { instant, .. } => (instant, false),
        };
        let has = |part: &&Part| part.level.is_some() == is_slice && part.events.contains(&index);
        self.parts.iter().find(has).map(|part| part.first + index - part.events.start)
    }
}

/// Leaves out a slice that ends exactly where the range starts.
fn within(trace: &Trace, window: Range<usize>, range: TimeRange) -> Range<usize> {
    let touches_only =
        |i: usize| window.contains(&i) && trace.slices.ts[i] < range.start && trace.slices.end[i] == range.start;
    window.start + usize::from(touches_only(window.start))..window.end
}

impl Events {
    /// Lists a track regardless of the selection.
    fn show(&mut self, ctx: &ViewContext<'_>, trace: usize, track: TrackId) {
        self.track = ctx.traces.get(trace).map(|open| (Arc::downgrade(&open.trace), track));
        self.followed = *ctx.selection;
        self.page = 0;
        self.target = Some(0);
    }

    /// Switches to the track of a new selection; returns whether there is one.
    fn follow(&mut self, ctx: &ViewContext<'_>) -> bool {
        if std::mem::replace(&mut self.followed, *ctx.selection) == *ctx.selection {
            return false;
        }
        let (trace, track) = match *ctx.selection {
            Selection::None | Selection::Allocation { .. } | Selection::Gap { .. } => return false,
            Selection::Slice { trace, slice } => {
                (trace, ctx.traces.get(trace).map(|open| open.trace.slices.track_of(slice)))
            }
            Selection::Instant { trace, instant } => {
                (trace, ctx.traces.get(trace).and_then(|open| open.trace.instants.track.get(instant).copied()))
            }
        };
        self.track = ctx.traces.get(trace).and_then(|open| Some((Arc::downgrade(&open.trace), track?)));
        true
    }

    /// The listed track with the index of its trace, if that is still open.
    fn listed_track(&self, traces: &[OpenTrace]) -> Option<(usize, TrackId)> {
        let (trace, track) = self.track.as_ref()?;
        let index = traces.iter().position(|open| std::ptr::eq(trace.as_ptr(), Arc::as_ptr(&open.trace)))?;
        Some((index, *track))
    }

    fn head_ui(&mut self, ctx: &ViewContext<'_>, (trace, track): (usize, TrackId), len: usize, ui: &mut egui::Ui) {
        let Some(open) = ctx.traces.get(trace) else { return };
        ui.horizontal_wrapped(|ui| {
            let info = open.trace.track(track);
            ui.strong(track_title(ctx.traces, trace, &info.title()));
            ui.weak(display_name(&open.trace.process(info.process).title()));
            let events = if len == 1 { "event" } else { "events" };
            ui.label(format!("{} {events}", format::count(len as u64)));
            if ctx.range.is_some() {
                let mut is_bound = !self.is_unbound;
                if ui.checkbox(&mut is_bound, "Only in the selected range").changed() {
                    self.is_unbound = !is_bound;
                }
            }
            if len > PAGE {
                let n_pages = len.div_ceil(PAGE);
                let (from, to) = (self.page * PAGE + 1, ((self.page + 1) * PAGE).min(len));
                let mut page = self.page;
                if ui.add_enabled(page > 0, egui::Button::new("Previous page")).clicked() {
                    page -= 1;
                }
                if ui.add_enabled(page + 1 < n_pages, egui::Button::new("Next page")).clicked() {
                    page += 1;
                }
                if page != self.page {
                    (self.page, self.target) = (page, Some(page * PAGE));
                }
                ui.label(format!("Showing {} to {}", format::count(from as u64), format::count(to as u64)));
            }
        });
    }

    fn table_ui(&mut self, ctx: &mut ViewContext<'_>, trace: usize, listing: &Listing, ui: &mut egui::Ui) {
        let Some(open) = ctx.traces.get(trace) else { return };
        let mut table = TableBuilder::new(ui)
            .id_salt("events")
            .striped(true)
            .sense(egui::Sense::click())
            .auto_shrink(false)
            .min_scrolled_height(0.0)
            .column(Column::initial(150.0).resizable(true).clip(true))
            .column(Column::initial(100.0).resizable(true).clip(true))
            .column(Column::remainder().at_least(160.0).clip(true))
            .column(Column::initial(130.0).resizable(true).clip(true))
            .column(Column::initial(50.0).clip(true));
        let first = self.page * PAGE;
        if let Some(target) = self.target.take() {
            table = table.scroll_to_row(target.saturating_sub(first), None);
        }
        let header = |mut row: egui_extras::TableRow<'_, '_>| {
            for title in ["Start", "Duration", "Name", "Kind", "Level"] {
                row.col(|ui| {
                    ui.strong(title);
                });
            }
        };
        let mut clicked = None;
        table.header(ROW_HEIGHT, header).body(|body| {
            body.rows(ROW_HEIGHT, listing.len.saturating_sub(first).min(PAGE), |mut row| {
                let Some(event) = listing.event(first + row.index()) else { return };
                row.set_selected(*ctx.selection == selection(trace, event));
                for cell in cells(open, event) {
                    row.col(|ui| {
                        ui.add(egui::Label::new(cell).selectable(false).truncate());
                    });
                }
                if row.response().clicked() {
                    clicked = Some(event);
                }
            });
        });
        if let Some(event) = clicked {
            *ctx.selection = selection(trace, event);
            // The clicked line is visible: no need to scroll.
            self.followed = *ctx.selection;
            match event {
                Event::Slice(..) => ctx.commands.push(Command::Reveal),
                Event::Instant(instant) => {
                    let ts = ctx.session_time(trace, open.trace.instants.ts[instant]);
                    if !ctx.navigation.visible().contains(ts) {
                        ctx.center_on(ts);
                    }
                }
            }
        }
    }
}

fn selection(trace: usize, event: Event) -> Selection {
    match event {
        Event::Slice(slice, _) => Selection::Slice { trace, slice },
        Event::Instant(instant) => Selection::Instant { trace, instant },
    }
}

fn cells(open: &OpenTrace, event: Event) -> [String; 5] {
    let start = |ts: i64| format::moment(ts.saturating_add(open.offset), 1);
    match event {
        Event::Slice(slice, level) => {
            let time = open.trace.slices.time(slice);
            let is_open = open.trace.slices.unfinished.binary_search(&slice).is_ok();
            [
                start(time.start),
                if is_open { "Not recorded".to_owned() } else { format::duration(time.dur()) },
                display_name(open.trace.slice_name(slice)).into_owned(),
                open.trace.slices.kind[slice.idx()].label().to_owned(),
                level.to_string(),
            ]
        }
        Event::Instant(instant) => {
            let instants = &open.trace.instants;
            let name = display_name(open.trace.strings.get(instants.name[instant])).into_owned();
            [start(instants.ts[instant]), String::new(), name, "Instant".to_owned(), String::new()]
        }
    }
}

impl View for Events {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let is_new = self.follow(ctx);
        let Some((trace, track)) = self.listed_track(ctx.traces) else {
            ui.label("No track is chosen");
            ui.weak("Select a slice to list the events of its track, or right-click a track's name");
            return;
        };
        let Some(open) = ctx.traces.get(trace) else { return };
        let range = ctx.range.filter(|_| !self.is_unbound);
        let in_trace = range.map(|range| range.shifted(open.offset.saturating_neg()));
        // Two binary searches a row, within the frame: 0.13 ms for 50 rows of 200,000 slices, even unoptimized.
        let Some(listing) = ctx.answers.get(&open.trace, &EventsOf(track, in_trace)) else {
            failed_ui("The list of events crashed. Please report it", ui);
            return;
        };
        if is_new && let Some(line) = listing.line(*ctx.selection) {
            (self.page, self.target) = (line / PAGE, Some(line));
        }
        self.page = self.page.min(listing.len.saturating_sub(1) / PAGE);
        self.head_ui(ctx, (trace, track), listing.len, ui);
        if listing.len == 0 && range.is_some() {
            ui.label("No events on this track in the selected range");
        } else if listing.len == 0 {
            ui.label("This is a counter track without events");
        } else {
            self.table_ui(ctx, trace, &listing, ui);
        }
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let &Command::ListEvents(trace, track) = command else { return false };
        self.show(ctx, trace, track);
        ctx.commands.push(Command::Show(SPEC.id));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    const OP: SliceKind = SliceKind::Operator;

    fn lines(listing: &Listing) -> Vec<Event> {
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
        let trace = builder.finish();
        let all = Listing::new(&trace, TrackId(0), None);
        let (slice, instant) = (|id, level| Event::Slice(SliceId(id), level), Event::Instant);
        assert_eq!(lines(&all), [slice(0, 1), slice(1, 1), slice(2, 2), instant(0), instant(1)]);
        assert_eq!(trace.track_slices(TrackId(0)).len() + 2, all.len);
        for line in 0..all.len {
            assert_eq!(all.line(selection(0, all.event(line).unwrap())), Some(line));
        }
        let late = Listing::new(&trace, TrackId(0), Some(TimeRange { start: 100, end: 160 }));
        assert_eq!(lines(&late), [slice(1, 1), instant(1)], "a slice that ends at its start is left out");
        assert_eq!(Listing::new(&trace, TrackId(1), None).len, 1);
        let none = Listing::new(&trace, TrackId(1), Some(TimeRange { start: 60, end: 90 }));
        assert_eq!(
            (none.len, none.event(0), none.line(Selection::Slice { trace: 0, slice: SliceId(3) })),
            (0, None, None)
        );
    }

    #[test]
    fn a_listing_grows_with_the_rows_and_not_with_the_slices() {
        let slices: Vec<_> = (0..200_000).map(|i| ("main", OP, "op", i * 10, i * 10 + 5)).collect();
        let trace = TraceBuilder::from_slices(&slices).finish();
        let listing = Listing::new(&trace, TrackId(0), Some(TimeRange { start: 1_000, end: 1_000_000 }));
        assert_eq!((listing.parts.len(), listing.len), (1, 99_900));
        assert_eq!(listing.event(7), Some(Event::Slice(SliceId(107), 1)));
    }
}
