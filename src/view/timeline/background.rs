//! Summaries computed once per trace, in the background: busy times of groups and of the whole trace, and
//! peaks of counters.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Weak};

use eframe::egui::{Rect, Ui};
use rayon::prelude::*;

use super::cells::{Spans, layout_spans};
use super::peaks::Peaks;
use super::track_list::LineKind;
use crate::analysis::busy::DeviceBusy;
use crate::answers::time::BusyDevices;
use crate::answers::{Analysis, Answer, Answers, Query, Work};
use crate::model::time::unite;
use crate::model::{
    Cell, KERNEL_COUNTERS, ProcessId, Pyramid, Row, SliceId, SliceKind, TimeNs, TimeRange, Tint, Trace, TrackId,
    TrackKind,
};
use crate::session::OpenTrace;
use crate::view::ViewContext;
use crate::view::axis::Scale;

/// Counters with fewer samples are drawn from their samples.
const MIN_SAMPLES_FOR_PEAKS: usize = 4096;

/// Unions of fewer spans are drawn without a pyramid.
const MIN_SPANS_FOR_PYRAMID: usize = 256;

/// What of a trace is summarized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SummaryOf {
    /// Busy times of all devices; in traces without devices, of all tracks.
    Whole,
    /// Busy times of a group.
    Group(LineKind),
    /// Busy share of a process.
    Share(ProcessId),
    /// Peaks of a counter, by its index.
    Counter(usize),
}

/// A summary of a trace, group or counter.
#[derive(Debug)]
pub enum Summary {
    /// No slices, or the analysis failed.
    Nothing,
    Busy(Union),
    /// Busy time as a share of the trace's, 0 to 1.
    Share(f64),
    Peaks(Peaks),
}

/// Buckets of the whole time of many spans: many times more than a window has pixels, for what is shown may be a part
/// of it.
const MAX_BUCKETS: usize = 1 << 20;

/// Busy times of several rows: the union of their slices.
#[derive(Debug, Default)]
pub struct Union {
    ts: Vec<TimeNs>,
    end: Vec<TimeNs>,
    tint: Vec<Tint>,
    pyramid: Option<Pyramid>,
}

impl Union {
    /// When at least one of some devices was busy, as fine as a view of the whole `span` needs it.
    fn of_devices(busy: &[DeviceBusy], span: TimeRange) -> Self {
        let united = match busy {
            [busy] => Cow::Borrowed(&busy.busy),
            _ => {
                let mut all: Vec<TimeRange> = busy.iter().flat_map(|busy| &busy.busy).copied().collect();
                unite(&mut all);
                Cow::Owned(all)
            }
        };
        let spans = united.iter().map(|time| (time.start, time.end, Tint::default()));
        if united.len() < MAX_BUCKETS {
            return Self::new(&spans.collect::<Vec<_>>(), span);
        }
        Self { pyramid: Some(Pyramid::of_buckets(spans, MAX_BUCKETS, span)), ..Self::default() }
    }

    /// * `spans`: ascending and disjoint.
    fn new(spans: &[(TimeNs, TimeNs, Tint)], span: TimeRange) -> Self {
        let has_many = spans.len() >= MIN_SPANS_FOR_PYRAMID;
        Self {
            ts: spans.iter().map(|span| span.0).collect(),
            end: spans.iter().map(|span| span.1).collect(),
            tint: spans.iter().map(|span| span.2).collect(),
            pyramid: has_many.then(|| Pyramid::build(spans.iter().copied(), span)),
        }
    }

    /// Appends `n_pixels` cells over `view`, in the time of the trace.
    pub fn cells(&self, view: TimeRange, n_pixels: usize, cells: &mut Vec<Cell>) {
        let tint = |index: usize| self.tint.get(index).copied().unwrap_or_default();
        let spans = Spans { ts: &self.ts, end: &self.end, tint: &tint, pyramid: self.pyramid.as_ref() };
        let (first, mut wide) = (cells.len(), Vec::new());
        layout_spans(spans, view, n_pixels, cells, &mut wide);
        for slice in wide {
            let pixel = |x: f64| x.clamp(0.0, n_pixels as f64);
            let (from, to) = (pixel(slice.from.ceil()) as usize, pixel(slice.to.floor()) as usize);
            let tint = tint(slice.index);
            for cell in cells.iter_mut().skip(first + from).take(to.saturating_sub(from)) {
                *cell = Cell { share: u8::MAX, tint };
            }
            // The pixels at its ends are covered in part.
            for (edge, part) in
                [(slice.from.floor(), slice.from.ceil() - slice.from), (slice.to.floor(), slice.to.fract())]
            {
                if (0.0..n_pixels as f64).contains(&edge) && part > 0.0 && part < 1.0 {
                    let cell = &mut cells[first + edge as usize];
                    cell.share = cell.share.saturating_add((part * 255.0) as u8).clamp(1, 254);
                    cell.tint = tint;
                }
            }
        }
    }
}

impl Analysis for SummaryOf {
    type Of = Arc<Trace>;
    type Output = Summary;
    const NAME: &'static str = "The summary of a track";
    /// Every group and counter of the trace.
    const KEPT: usize = usize::MAX;

    fn run(&self, trace: &Arc<Trace>, work: &Work<'_>) -> Option<Summary> {
        let busy = match self {
            Self::Whole => work.get(trace, &BusyDevices)?,
            _ => Arc::default(),
        };
        let summary = match busy.as_slice() {
            [] => summarize(*self, trace, &|| work.is_cancelled()),
            busy => Summary::Busy(Union::of_devices(busy, trace.span)),
        };
        (!work.is_cancelled()).then_some(summary)
    }
}

/// The summaries that are ready, for frames that look up one for each visible group and counter. They are computed
/// one at a time, since each needs up to 24 bytes per slice.
#[derive(Debug, Default)]
pub struct Background {
    answers: Answers,
    opened: Vec<Weak<Trace>>,
    /// By the index of their trace.
    summaries: HashMap<(usize, SummaryOf), Arc<Summary>>,
    running: Option<(usize, SummaryOf)>,
    query: Query<SummaryOf>,
}

impl Background {
    /// Clears everything if the open traces changed; returns whether they did.
    pub fn follow(&mut self, traces: &[OpenTrace], answers: &Answers) -> bool {
        let is_same = |(old, new): (&Weak<Trace>, &OpenTrace)| std::ptr::eq(old.as_ptr(), Arc::as_ptr(&new.trace));
        if self.opened.len() == traces.len() && self.opened.iter().zip(traces).all(is_same) {
            return false;
        }
        let opened = traces.iter().map(|open| Arc::downgrade(&open.trace)).collect();
        *self = Self { answers: answers.clone(), opened, ..Self::default() };
        true
    }

    /// Whether a summary is being computed.
    pub fn is_pending(&self) -> bool {
        self.running.is_some()
    }

    /// The busy share of each pixel of a strip over `span`, 0 to 1: the maximum over all open traces.
    pub fn busy_shares(&mut self, ctx: &ViewContext<'_>, span: TimeRange, rect: Rect, ui: &Ui) -> Vec<f32> {
        let scale = Scale::new(span, rect.left(), rect.width(), ui.pixels_per_point());
        let mut busiest = vec![0_u8; scale.n_pixels];
        let mut cells: Vec<Cell> = Vec::new();
        for (trace, open) in ctx.traces.iter().enumerate() {
            if let Some(Summary::Busy(union)) = self.get(trace, SummaryOf::Whole) {
                cells.clear();
                union.cells(scale.view.shifted(open.offset.saturating_neg()), scale.n_pixels, &mut cells);
                busiest.iter_mut().zip(&cells).for_each(|(max, cell)| *max = cell.share.max(*max));
            }
        }
        busiest.into_iter().map(|share| f32::from(share) / 255.0).collect()
    }

    /// The summary if it is ready; else computes it, one at a time.
    ///
    /// * `trace`: its index among the open traces.
    pub fn get(&mut self, trace: usize, of: SummaryOf) -> Option<&Summary> {
        if !self.summaries.contains_key(&(trace, of)) {
            self.compute((trace, of));
        }
        self.summaries.get(&(trace, of)).map(|summary| &**summary)
    }

    fn compute(&mut self, wanted: (usize, SummaryOf)) {
        let has_few = |trace: &Trace, counter: usize| {
            trace.counters.get(counter).is_none_or(|counter| counter.ts.len() < MIN_SAMPLES_FOR_PEAKS)
        };
        if let (trace, SummaryOf::Counter(counter)) = wanted
            && self.opened.get(trace).and_then(Weak::upgrade).is_some_and(|trace| has_few(&trace, counter))
        {
            self.summaries.insert(wanted, Arc::new(Summary::Peaks(Peaks::default())));
            return;
        }
        // What was begun is finished first, also if it is no longer on screen.
        let (index, of) = *self.running.get_or_insert(wanted);
        let Some(trace) = self.opened.get(index).and_then(Weak::upgrade) else {
            self.running = None;
            return;
        };
        let summary = match self.query.ask(&self.answers, &trace, &of) {
            Answer::Working(_) => return,
            Answer::Ready(summary) => summary,
            Answer::Failed(_) => Arc::new(Summary::Nothing),
        };
        self.summaries.insert((index, of), summary);
        self.running = None;
        if (index, of) != wanted {
            self.compute(wanted);
        }
    }
}

fn summarize(of: SummaryOf, trace: &Trace, is_cancelled: &dyn Fn() -> bool) -> Summary {
    let busy = |is_member: &dyn Fn(TrackId) -> bool| {
        union(trace, is_member, is_cancelled).map_or(Summary::Nothing, Summary::Busy)
    };
    match of {
        SummaryOf::Whole | SummaryOf::Group(LineKind::Trace) => busy(&|track| has_times(trace, track)),
        SummaryOf::Group(LineKind::Process(process)) => busy(&|track| trace.track(track).process == process),
        SummaryOf::Group(LineKind::Track(track)) => busy(&|other| other == track),
        SummaryOf::Group(LineKind::Fold(..) | LineKind::Queue(..)) => Summary::Nothing,
        SummaryOf::Share(process) => busy_share(trace, process, is_cancelled).map_or(Summary::Nothing, Summary::Share),
        SummaryOf::Counter(counter) => {
            trace.counters.get(counter).map_or(Summary::Nothing, |counter| Summary::Peaks(Peaks::build(&counter.value)))
        }
    }
}

/// Whether the slices of a track ran when they are drawn.
fn has_times(trace: &Trace, track: TrackId) -> bool {
    trace.track(track).name != KERNEL_COUNTERS
}

/// The share of the trace's time in which at least one slice of a process ran. Cost: O(n log k) for n outermost slices
/// in k rows, and no memory that grows with them.
fn busy_share(trace: &Trace, process: ProcessId, is_cancelled: &dyn Fn() -> bool) -> Option<f64> {
    let (slices, span) = (&trace.slices, trace.span);
    let is_of = |row: &&Row| {
        let is_outer = row.depth == 0 || row.is_overflow;
        is_outer && trace.track(row.track).process == process && has_times(trace, row.track)
    };
    let rows: Vec<std::ops::Range<usize>> = slices.rows.iter().filter(is_of).map(Row::range).collect();
    let next = |(at, row): (usize, usize)| rows[row].contains(&at).then(|| Reverse((slices.ts[at], at, row)));
    let first = rows.iter().enumerate().filter_map(|(row, range)| next((range.start, row)));
    let mut waiting: BinaryHeap<_> = first.collect();
    let (mut busy, mut until, mut n) = (0_i64, span.start, 0_u32);
    while let Some(Reverse((_, first, row))) = waiting.pop() {
        // Until another row is ahead.
        let ahead = waiting.peek().map_or(TimeNs::MAX, |Reverse((start, ..))| *start);
        let end_of_row = rows[row].end;
        let mut at = first;
        while at < end_of_row && (at == first || slices.ts[at] <= ahead) {
            n = n.wrapping_add(1);
            if n.is_multiple_of(1 << 16) && is_cancelled() {
                return None;
            }
            let end = slices.end[at].min(span.end);
            busy += end.saturating_sub(slices.ts[at].max(until)).max(0);
            until = until.max(end);
            at += 1;
        }
        waiting.extend(next((at, row)));
    }
    (n > 0 && span.dur() > 0).then(|| busy as f64 / span.dur() as f64)
}

/// The union of the slices of some tracks: outermost slices of threads, device work of streams. Annotations on
/// streams are left out, since they span idle time too.
fn union(trace: &Trace, is_member: &dyn Fn(TrackId) -> bool, is_cancelled: &dyn Fn() -> bool) -> Option<Union> {
    let is_stream = |row: &Row| trace.track(row.track).kind == TrackKind::Stream;
    let is_wanted = |row: &&Row| row.depth == 0 || row.is_overflow || is_stream(row);
    let rows = trace.slices.rows.iter().filter(is_wanted).filter(|row| is_member(row.track));
    let mut all: Vec<(TimeNs, TimeNs, Tint)> = Vec::new();
    for row in rows {
        if is_cancelled() {
            return None;
        }
        let is_stream = is_stream(row);
        let ran = |i: &usize| match trace.slices.kind[*i] {
            SliceKind::GpuAnnotation => false,
            kind => !is_stream || kind.is_device_work(),
        };
        all.extend(row.range().filter(ran).map(|i| {
            let slice = SliceId(i as u32);
            let start = trace.slices.ts[i].max(trace.span.start);
            (start, trace.slices.end[i].clamp(start, trace.span.end.max(start)), trace.slice_tint(slice))
        }));
    }
    all.par_sort_unstable();
    all.dedup_by(|next, last| {
        let overlaps = next.0 <= last.1;
        if overlaps {
            last.1 = last.1.max(next.1);
        }
        overlaps
    });
    (!all.is_empty()).then(|| Union::new(&all, trace.span))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    /// The summary of the only open trace.
    fn wait(background: &mut Background, of: SummaryOf) -> &Summary {
        while background.get(0, of).is_none() {
            std::thread::yield_now();
        }
        background.get(0, of).unwrap()
    }

    fn opened(trace: Trace) -> (OpenTrace, Background) {
        let (open, mut background) = (OpenTrace::new(trace, 0), Background::default());
        background.follow(std::slice::from_ref(&open), &Answers::default());
        (open, background)
    }

    fn shares(background: &mut Background, of: SummaryOf) -> Vec<u8> {
        let Summary::Busy(union) = wait(background, of) else { return Vec::new() };
        let mut cells: Vec<Cell> = Vec::new();
        union.cells(TimeRange { start: 0, end: 1024 }, 4, &mut cells);
        cells.iter().map(|cell| cell.share).collect()
    }

    #[test]
    fn the_busy_share_of_a_process_counts_each_moment_once() {
        let op = SliceKind::Operator;
        let trace = TraceBuilder::from_slices(&[
            ("main", op, "outer", 0, 300),
            ("main", op, "inner", 100, 200),
            ("main", op, "later", 600, 700),
            ("other", op, "beside", 250, 400),
            ("stream 7", SliceKind::Kernel, "k", 0, 1_000),
        ]);
        let trace = Arc::new(trace.finish());
        let process = trace.tracks.iter().find(|track| track.kind == TrackKind::Thread).unwrap().process;
        assert_eq!(busy_share(&trace, process, &|| false), Some(0.5));
    }

    #[test]
    fn counters_of_kernels_are_not_busy_when_they_are_drawn() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", SliceKind::Operator, "aten::mm", 0, 256),
            ("counters", SliceKind::Other, "gemm", 0, 1024),
        ]);
        let counters = builder.tracks.iter_mut().find(|track| track.name == "counters").unwrap();
        (counters.kind, counters.name) = (TrackKind::Async, KERNEL_COUNTERS.to_owned());
        let (open, mut background) = opened(builder.finish());
        let process = open.trace.tracks[0].process;
        assert_eq!(busy_share(&open.trace, process, &|| false), Some(0.25));
        assert_eq!(shares(&mut background, SummaryOf::Whole), [255, 0, 0, 0]);
    }

    #[test]
    fn overlapping_streams_count_once_and_host_threads_not_at_all() {
        let kernel = SliceKind::Kernel;
        let trace = TraceBuilder::from_slices(&[
            ("stream 7", kernel, "a", 0, 256),
            ("stream 8", kernel, "b", 128, 512),
            ("stream 8", kernel, "b", 896, 1024),
            ("stream 8", SliceKind::GpuAnnotation, "step", 100, 1024),
            ("main", SliceKind::Operator, "op", 0, 1024),
        ]);
        let (open, mut background) = opened(trace.finish());
        assert_eq!(shares(&mut background, SummaryOf::Whole), [255, 255, 0, 127]);
        let device = open.trace.track(TrackId(1)).process;
        assert_eq!(shares(&mut background, SummaryOf::Group(LineKind::Process(device))), [255, 255, 0, 127]);
        assert_eq!(shares(&mut background, SummaryOf::Group(LineKind::Trace)), [255; 4]);
    }

    #[test]
    fn a_strip_with_more_pixels_than_buckets_is_not_blank() {
        let n = 2 * MIN_SPANS_FOR_PYRAMID as i64;
        let slices: Vec<_> = (0..n).map(|i| ("stream 7", SliceKind::Kernel, "k", i * 100, i * 100 + 50)).collect();
        let (open, mut background) = opened(TraceBuilder::from_slices(&slices).finish());
        let Summary::Busy(union) = wait(&mut background, SummaryOf::Whole) else { panic!("nothing") };
        for n_pixels in [n as usize / 4, n as usize * 2] {
            let mut cells: Vec<Cell> = Vec::new();
            union.cells(open.trace.span, n_pixels, &mut cells);
            let busy: f64 = cells.iter().map(|cell| f64::from(cell.share) / 255.0).sum();
            assert!((busy / n_pixels as f64 - 0.5).abs() < 0.02, "{n_pixels} pixels");
        }
    }

    #[test]
    fn opening_another_trace_computes_nothing_again() {
        let slices = [("stream 7", SliceKind::Kernel, "a", 0, 256)];
        let trace = || OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0);
        let (both, answers) = ([trace(), trace()], Answers::default());
        let mut background = Background::default();
        assert!(background.follow(&both[..1], &answers));
        wait(&mut background, SummaryOf::Whole);
        assert!(background.follow(&both, &answers));
        assert!(background.get(0, SummaryOf::Whole).is_some(), "at once");
        assert!(background.get(1, SummaryOf::Whole).is_none());
    }
}
