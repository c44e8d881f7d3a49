//! The part of a trace shown first: where its work is, not the hours beside one early event.

use crate::model::memory::{MemoryHistory, MemorySource};
use crate::model::{Format, Row, SliceId, SliceKind, TimeNs, TimeRange, Trace, TrackId, TrackKind};

/// Events are lone if all others are at least so many times as many.
const LONE: u64 = 100;
/// How often the time that is left may be cut in halves: what a millionth of it shows is not a part of the picture.
const MOST_HALVES: u32 = 20;
/// What an nsys session noted before its start is not a part of the picture if all other events are at least so many
/// times as many.
const FEW: u64 = 10;
/// What lies beside the work, and is this part of its time away or less, is shown with it.
const NEAR: i64 = 10;
/// Slices of a row whose durations are looked at.
const MAX_DURATIONS: usize = 64;

/// What the first picture shows of a trace, in its own time: from the first start to the last end of slices, samples
/// and histories of memory, without lone events far from all others; of a trace without any, its span. Single moments
/// and counters near them are in it, such as the mark with which a recorder ends. A session of nsys begins at zero;
/// where the program asks for it later (`--capture-range`), few things are noted before. Cost: O(rows · log slices).
pub fn content(trace: &Trace) -> TimeRange {
    let events = Events::of(trace);
    let main = events.span().map(|all| events.main(all));
    let is_session = main.is_some_and(|work| events.begin_at_zero(work));
    let main = main.map(|work| if is_session { TimeRange { start: 0, ..work } } else { work });
    let work = main.into_iter().chain(histories(trace)).reduce(TimeRange::union).unwrap_or(trace.span);
    let (near, span) = (work.dur() / NEAR, trace.span);
    let [before, after] = [work.start.saturating_sub(span.start), span.end.saturating_sub(work.end)];
    TimeRange {
        start: if before <= near && !is_session { work.start.min(span.start) } else { work.start },
        end: if after <= near { work.end.max(span.end) } else { work.end },
    }
}

/// From the first start to the last end of what a program and its devices did, as far as it was recorded: without
/// what the recorder wrote of itself, such as the moment at which it ended. The span of a trace without any. Cost:
/// O(rows · log slices), and that of the overhead of the recorder.
pub fn worked(trace: &Trace) -> TimeRange {
    let mut events = Events::of(trace);
    events.rows.retain(|row| {
        let is_work = |&kind: &SliceKind| kind != SliceKind::Overhead;
        !is_of_recorder(trace, row.track) && trace.slices.kind[row.range()].iter().any(is_work)
    });
    let work = events.span().map(|work| if events.begin_at_zero(work) { TimeRange { start: 0, ..work } } else { work });
    work.into_iter().chain(histories(trace)).reduce(TimeRange::union).unwrap_or(trace.span)
}

/// The process ids under which Kineto writes the recording as a whole.
const NO_PROCESSES: [&str; 2] = ["Spans", "Traces"];

/// Whether what is on a track tells of the recording as a whole, and not of a process.
pub fn is_of_recorder(trace: &Trace, track: TrackId) -> bool {
    NO_PROCESSES.contains(&trace.process(trace.track(track).process).pid.as_str())
}

/// Whether a track holds nothing but what tells of the recording as a whole: also moments of no process and no thread,
/// as Kineto marks its end.
pub fn is_about_recording(trace: &Trace, track: TrackId) -> bool {
    let of = trace.track(track);
    let is_nowhere = of.tid.is_empty() && trace.process(of.process).pid.is_empty();
    let has_moments_alone = || trace.rows(track).is_empty() && of.kind != TrackKind::Counter;
    is_of_recorder(trace, track) || is_nowhere && has_moments_alone()
}

/// The times of histories of memory that are recordings by themselves: what a profiler recorded of memory lies beside
/// its slices.
fn histories(trace: &Trace) -> impl Iterator<Item = TimeRange> {
    let is_own = |history: &&MemoryHistory| matches!(history.source, MemorySource::Snapshot | MemorySource::Timeline);
    let histories = trace.memories.iter().filter(is_own).filter(|history| history.has_time).map(|history| history.span);
    histories.filter(|range| range.union(trace.span) == trace.span)
}

/// Slices and samples of a trace that lie outside of a range of its time. Cost: O(rows · log slices) where the range
/// leaves out a part of it.
pub fn n_outside(trace: &Trace, range: TimeRange) -> u64 {
    if range.union(trace.span) == range {
        return 0;
    }
    let events = Events::of(trace);
    // What has no length may lie on the border.
    events.before(range.start.saturating_sub(1)).1 + events.after(range.end.saturating_add(1)).1
}

/// The events of a trace that last, and its samples.
struct Events<'a> {
    trace: &'a Trace,
    rows: Vec<&'a Row>,
    /// Times of samples, each in order.
    samples: Vec<&'a [TimeNs]>,
    n: u64,
}

impl<'a> Events<'a> {
    /// Time stamps that were lost lie outside of the span; a row with such is left out.
    fn of(trace: &'a Trace) -> Self {
        let slices = &trace.slices;
        let is_within = |row: &&Row| {
            let range = row.range();
            !range.is_empty()
                && slices.ts[range.start] >= trace.span.start
                && slices.end[range.end - 1] <= trace.span.end
        };
        let rows: Vec<&Row> = slices.rows.iter().filter(is_within).collect();
        // They are sorted by track.
        let (mut rest, mut at) = (&trace.samples.track[..], 0);
        let samples = std::iter::from_fn(|| {
            let n = rest.partition_point(|track| Some(track) == rest.first());
            (rest, at) = (&rest[n..], at + n);
            (n > 0).then(|| &trace.samples.ts[at - n..at])
        });
        let is_within = |ts: &&[TimeNs]| ts.first() >= Some(&trace.span.start) && ts.last() <= Some(&trace.span.end);
        let samples: Vec<&[TimeNs]> = samples.filter(is_within).collect();
        let n =
            rows.iter().map(|row| row.range().len()).sum::<usize>() + samples.iter().map(|ts| ts.len()).sum::<usize>();
        Self { trace, rows, samples, n: n as u64 }
    }

    /// Whether they are of a session of nsys, which begins at zero, with little that was noted before.
    ///
    /// * `work`: from the first start to the last end.
    fn begin_at_zero(&self, work: TimeRange) -> bool {
        let is_across = work.start < 0 && work.end > 0;
        self.trace.info.format == Format::Nsys && is_across && self.n_from_before(0) * FEW <= self.n
    }

    fn span(&self) -> Option<TimeRange> {
        let slices = &self.trace.slices;
        let of_row =
            |row: &&Row| TimeRange { start: slices.ts[row.range().start], end: slices.end[row.range().end - 1] };
        let of_samples = |ts: &&[TimeNs]| Some(TimeRange { start: *ts.first()?, end: *ts.last()? });
        self.rows.iter().map(of_row).chain(self.samples.iter().filter_map(of_samples)).reduce(TimeRange::union)
    }

    /// The last end of what ends at `time` or before, and how much that is.
    fn before(&self, time: TimeNs) -> (Option<TimeNs>, u64) {
        let ends = self.rows.iter().map(|row| &self.trace.slices.end[row.range()]);
        let ends = ends.map(|ends| &ends[..ends.partition_point(|&end| end <= time)]);
        let samples = self.samples.iter().map(|ts| &ts[..ts.partition_point(|&ts| ts < time)]);
        ends.chain(samples).fold((None, 0), |(last, n), part| (last.max(part.last().copied()), n + part.len() as u64))
    }

    /// The first start of what starts at `time` or after, and how much that is.
    fn after(&self, time: TimeNs) -> (Option<TimeNs>, u64) {
        let starts = self.rows.iter().map(|row| &self.trace.slices.ts[row.range()]);
        let starts = starts.map(|starts| &starts[starts.partition_point(|&start| start < time)..]);
        let samples = self.samples.iter().map(|ts| &ts[ts.partition_point(|&ts| ts <= time)..]);
        let mut out: (Option<TimeNs>, u64) = (None, 0);
        for part in starts.chain(samples) {
            let first = part.first().copied();
            out = (out.0.into_iter().chain(first).min(), out.1 + part.len() as u64);
        }
        out
    }

    /// How much starts before `time`.
    fn n_from_before(&self, time: TimeNs) -> u64 {
        let starts = self.rows.iter().map(|row| &self.trace.slices.ts[row.range()]);
        let n = starts.chain(self.samples.iter().copied()).map(|ts| ts.partition_point(|&ts| ts < time)).sum::<usize>();
        n as u64
    }

    /// The stretch around a moment in which nothing runs; `None` if something does.
    fn empty_around(&self, time: TimeNs) -> Option<TimeRange> {
        let (end, n_before) = self.before(time);
        let (start, n_after) = self.after(time);
        (n_before + n_after == self.n).then_some(TimeRange { start: end?, end: start? })
    }

    /// Whether what lies beside `rest` is lone: few events, which take less time than is left.
    fn is_lone(&self, n: u64, part: TimeRange, rest: TimeRange) -> bool {
        if n * LONE >= self.n {
            return false;
        }
        let slices = &self.trace.slices;
        let worked = |row: &&Row| {
            let range = row.range();
            let first = range.start + slices.ts[range.clone()].partition_point(|&start| start < part.start);
            let last = range.start + slices.end[range].partition_point(|&end| end <= part.end);
            let step = last.saturating_sub(first).div_ceil(MAX_DURATIONS).max(1);
            (first..last).step_by(step).map(|i| slices.time(SliceId(i as u32)).dur() as f64).sum::<f64>() * step as f64
        };
        self.rows.iter().map(worked).fold(0.0, f64::max) < rest.dur() as f64
    }

    /// `all` without lone events before and after stretches in which nothing runs and that are longer than all that is
    /// left.
    ///
    /// A stretch that is longer than what follows it holds a moment that is half, a quarter, an eighth … of the time
    /// before the end.
    fn main(&self, mut all: TimeRange) -> TimeRange {
        loop {
            let moments = (1..=MOST_HALVES).map(|halves| all.dur() >> halves);
            let leading = moments.clone().filter_map(|ns| {
                let empty = self.empty_around(all.end - ns)?;
                let (part, rest) = (TimeRange { end: empty.start, ..all }, TimeRange { start: empty.end, ..all });
                (empty.dur() > rest.dur() && self.is_lone(self.before(part.end).1, part, rest)).then_some(rest)
            });
            let trailing = moments.filter_map(|ns| {
                let empty = self.empty_around(all.start + ns)?;
                let (part, rest) = (TimeRange { start: empty.end, ..all }, TimeRange { end: empty.start, ..all });
                (empty.dur() > rest.dur() && self.is_lone(self.after(part.start).1, part, rest)).then_some(rest)
            });
            let Some(rest) = leading.chain(trailing).filter(|rest| rest.dur() > 0).min_by_key(|rest| rest.dur()) else {
                return all;
            };
            all = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    /// Lone slices, and `n` of 10 ns every 20 ns from `start` on.
    fn of(lone: &[(TimeNs, TimeNs)], (start, n): (TimeNs, i64)) -> (TimeRange, u64) {
        let op = SliceKind::Operator;
        let mut slices: Vec<_> = lone.iter().map(|&(start, end)| ("other", op, "lone", start, end)).collect();
        slices.extend((0..n).map(|i| ("main", op, "op", start + 20 * i, start + 20 * i + 10)));
        let trace = TraceBuilder::from_slices(&slices).finish();
        let range = content(&trace);
        (range, n_outside(&trace, range))
    }

    #[test]
    fn lone_events_far_from_the_work_are_outside() {
        let check = |lone: &[(TimeNs, TimeNs)], work, range: (TimeNs, TimeNs), n_outside| {
            let range = TimeRange { start: range.0, end: range.1 };
            assert_eq!(of(lone, work), (range, n_outside), "{lone:?}");
        };
        let work = (100_000, 1_000);
        check(&[], work, (100_000, 119_990), 0);
        check(&[(0, 10)], work, (100_000, 119_990), 1);
        check(&[(0, 10), (7_000, 7_010), (50_000, 50_100)], work, (100_000, 119_990), 3);
        check(&[(900_000, 900_001)], work, (100_000, 119_990), 1);
        check(&[(0, 10), (900_000, 900_001)], work, (100_000, 119_990), 2);
        // Too near, and too long to be lone.
        check(&[(90_000, 90_010)], work, (90_000, 119_990), 0);
        check(&[(0, 50_000)], work, (0, 119_990), 0);
        // Not few beside the others.
        check(&[(0, 10)], (100_000, 20), (0, 100_390), 0);
    }

    #[test]
    fn moments_near_the_work_are_shown_with_it() {
        let check = |[before, after]: [TimeNs; 2], (start, end): (TimeNs, TimeNs)| {
            let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", 10_000, 20_000)]);
            let instants = &mut builder.instants;
            for ts in [before, after] {
                instants.ts.push(ts);
                instants.name.push(crate::model::StringId::EMPTY);
                instants.track.push(crate::model::TrackId(0));
                instants.source.push(0);
            }
            assert_eq!(content(&builder.finish()), TimeRange { start, end });
        };
        check([9_500, 20_900], (9_500, 20_900));
        check([8_900, 20_900], (10_000, 20_900));
        check([15_000, 21_100], (10_000, 20_000));
    }

    #[test]
    fn what_the_recorder_says_of_itself_is_no_work() {
        let op = SliceKind::Operator;
        let slices = [
            ("main", op, "mm", 100, 200),
            ("stream 7", SliceKind::Kernel, "gemm", 150, 260),
            ("recorder", SliceKind::Overhead, "flush", 10, 300),
            ("whole", SliceKind::Other, "PyTorch Profiler (0)", 0, 400),
        ];
        let mut builder = TraceBuilder::from_slices(&slices);
        let whole = builder.tracks.iter().position(|track| track.name == "whole").unwrap();
        let mut process = builder.processes[0].clone();
        process.pid = "Traces".to_owned();
        builder.tracks[whole].process = crate::model::ProcessId(builder.processes.len() as u32);
        builder.processes.push(process);
        let name = builder.strings.intern("Record Window End");
        builder.instants.ts.push(500);
        builder.instants.name.push(name);
        builder.instants.track.push(crate::model::TrackId(0));
        builder.instants.source.push(0);
        let trace = builder.finish();
        assert_eq!(trace.span, TimeRange { start: 0, end: 500 });
        assert_eq!(worked(&trace), TimeRange { start: 100, end: 260 });
        // Of nothing else it is all that there is.
        let mut builder = TraceBuilder::from_slices(&slices[2..3]);
        builder.info.format = Format::ChromeTrace;
        assert_eq!(worked(&builder.finish()), TimeRange { start: 10, end: 300 });
    }

    #[test]
    fn a_session_of_nsys_begins_at_zero_unless_much_was_noted_before() {
        let check = |format, n_before: i64, start| {
            let op = SliceKind::Operator;
            let mut slices: Vec<_> = (0..n_before).map(|i| ("other", op, "graph", i - 900, i - 899)).collect();
            slices.push(("main", op, "open before", -500, 200));
            slices.extend((0..40).map(|i| ("main", op, "op", 300 + 10 * i, 305 + 10 * i)));
            let mut builder = TraceBuilder::from_slices(&slices);
            builder.info.format = format;
            let trace = builder.finish();
            let range = content(&trace);
            assert_eq!((range.start, n_outside(&trace, range)), (start, if start == 0 { n_before as u64 } else { 0 }));
        };
        check(Format::Nsys, 3, 0);
        check(Format::ChromeTrace, 3, -900);
        check(Format::Nsys, 5, -900);
        // What is near is not in it either: sessions that stand beside each other begin together.
        let op = SliceKind::Operator;
        let mut slices: Vec<_> = (0..40).map(|i| ("main", op, "op", 300 + 10 * i, 305 + 10 * i)).collect();
        slices.push(("other", op, "note", -20, -15));
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.info.format = Format::Nsys;
        assert_eq!(content(&builder.finish()), TimeRange { start: 0, end: 695 });
    }

    #[test]
    fn what_runs_all_the_time_and_samples_keep_the_whole() {
        let long = of(&[(0, 10), (5, 119_000)], (100_000, 1_000));
        assert_eq!(long.0.start, 0);
        let op = SliceKind::Operator;
        let mut slices = vec![("other", op, "lone", 0, 10)];
        slices.extend((0..1_000).map(|i| ("main", op, "op", 100_000 + 20 * i, 100_010 + 20 * i)));
        let mut builder = TraceBuilder::from_slices(&slices);
        let track = crate::model::TrackId(0);
        for ts in (0..100_000).step_by(1_000) {
            builder.samples.ts.push(ts);
            builder.samples.track.push(track);
            builder.samples.stack.push(crate::model::StackId(0));
        }
        assert_eq!(content(&builder.finish()).start, 0);
    }
}
