//! Common clock for several traces: assignment to runs, and time offsets.

use std::collections::BTreeSet;
use std::path::Path;

use hashbrown::HashMap;

use crate::model::{DurNs, TimeNs, TimeRange, Trace};

/// The session clock. Its zero is where the [`content`](super::content::content) of every run begins: of what ran, where
/// that was recorded. Lone events, what nsys noted before its session, and memory and readings of devices beside it may
/// be before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// One per trace, in the given order.
    pub placed: Vec<TraceClock>,
    /// In the order of each run's first trace.
    pub runs: Vec<Run>,
    /// From the first start to the last end, in session time.
    pub span: TimeRange,
}

/// The position of one trace on the session clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceClock {
    /// Offset from trace time to session time, in nanoseconds.
    pub offset: DurNs,
    pub source: ClockSource,
    /// Index of the run that the trace belongs to.
    pub run: usize,
}

/// How a trace was aligned to the session clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// By its recorded UTC time.
    Utc,
    /// Without recorded UTC time: aligned to the start of its run.
    Start,
}

impl ClockSource {
    /// Stable name in the JSON report.
    pub fn key(self) -> &'static str {
        match self {
            Self::Utc => "utc",
            Self::Start => "start",
        }
    }
}

/// Traces of one job on a common clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where its content begins and session time is zero, in nanoseconds since 1970, if any of its traces has UTC times.
    pub origin_utc_ns: Option<TimeNs>,
    pub n_traces: usize,
}

impl Clock {
    /// Time zero in nanoseconds since 1970, if there is one run and all its traces have UTC times.
    pub fn origin_utc_ns(&self) -> Option<TimeNs> {
        let is_utc = self.placed.iter().all(|placed| placed.source == ClockSource::Utc);
        let &[run] = self.runs.as_slice() else { return None };
        run.origin_utc_ns.filter(|_| is_utc)
    }

    /// Moves each run to its UTC time: zero is the start of the first one. Runs without UTC times stay at zero. Which
    /// traces are of one run stays as it is.
    ///
    /// * `traces`: those that were placed.
    pub fn spread(&mut self, traces: &[&Trace]) {
        let first = self.runs.iter().filter_map(|run| run.origin_utc_ns).min().unwrap_or_default();
        for place in &mut self.placed {
            let after = self.runs[place.run].origin_utc_ns.map_or(0, |origin| origin.saturating_sub(first));
            place.offset = place.offset.saturating_add(after);
        }
        self.span = span(traces, &self.placed);
    }

    /// Moves each run so that zero is its first anchor. Runs without one stay as they are.
    ///
    /// * `traces`: those that were placed.
    /// * `anchors`: of each trace a moment in its own time, such as the start of its first step.
    pub fn align(&mut self, traces: &[&Trace], anchors: &[Option<TimeNs>]) {
        let mut first: Vec<Option<TimeNs>> = vec![None; self.runs.len()];
        for (place, anchor) in self.placed.iter().zip(anchors) {
            let anchor = anchor.map(|anchor| anchor.saturating_add(place.offset));
            first[place.run] = first[place.run].into_iter().chain(anchor).min();
        }
        for place in &mut self.placed {
            place.offset = place.offset.saturating_sub(first[place.run].unwrap_or_default());
        }
        self.span = span(traces, &self.placed);
    }
}

/// From the first start to the last end, in session time.
fn span(traces: &[&Trace], placed: &[TraceClock]) -> TimeRange {
    let spans = traces.iter().zip(placed).map(|(trace, place)| trace.span.shifted(place.offset));
    spans.reduce(TimeRange::union).unwrap_or_default()
}

/// How many times what was recorded before or after it a pause within a run takes at most: beside one that is longer,
/// nothing could be read in a picture of both.
const MAX_PAUSE: DurNs = 3;
/// A pause in nanoseconds that does not divide what one process recorded into one folder, as when it is asked to again
/// and again: its times are on one clock however short the recordings are.
const PAUSE_OF_PROCESS: DurNs = 3_600_000_000_000;
/// A pause in nanoseconds that is none beside memory and readings of devices, which no picture of what ran is made for.
const SHORT_PAUSE: DurNs = 10_000_000_000;

/// Aligns traces to a common clock; the content of each run starts at zero, so that runs can be compared.
///
/// * `contents`: of each trace, what [`content`](super::content::content) finds. What lies outside of it counts neither
///   for its start nor for the pauses between recordings.
/// * Traces with UTC times belong to one run if they overlap, or if the pause between them is no more than three times
///   what was recorded before or after it, or one process recorded both into one folder within an hour, and keep their
///   relative offsets. Memory and readings of devices belong to the
///   nearest run of what ran; a pause of ten seconds is none to them.
/// * A trace without UTC times joins a run of its folder or archive that does not yet have its rank; without
///   such a run, or without a rank, it forms its own run. It is aligned to the run's start and does not move
///   other traces.
///
/// Cost: O(n log n) for n traces of a few runs; with O(n) runs in one folder O(n²) steps of look-ups.
pub fn clock(traces: &[&Trace], contents: &[TimeRange]) -> Clock {
    let of_each = || traces.iter().zip(contents);
    let starts: Vec<Option<TimeNs>> = of_each().map(|(trace, content)| utc_at(trace, content.start)).collect();
    let mut run_of = utc_runs(traces, &starts, contents);
    join_by_folder(traces, &mut run_of);
    // Numbers runs in the order of their first traces.
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut placed = Vec::with_capacity(traces.len());
    for &id in &run_of {
        let run = *numbers.entry(id).or_insert_with(|| {
            runs.push(Run { origin_utc_ns: None, n_traces: 0 });
            runs.len() - 1
        });
        runs[run].n_traces += 1;
        placed.push(TraceClock { offset: 0, source: ClockSource::Start, run });
    }
    let mut has_program = vec![false; runs.len()];
    placed.iter().zip(traces).for_each(|(place, trace)| has_program[place.run] |= ran(trace));
    for ((place, start), trace) in placed.iter().zip(&starts).zip(traces) {
        let origin = &mut runs[place.run].origin_utc_ns;
        if ran(trace) || !has_program[place.run] {
            *origin = origin.iter().chain(start).min().copied();
        }
    }
    for ((place, start), content) in placed.iter_mut().zip(&starts).zip(contents) {
        let from_run = start.zip(runs[place.run].origin_utc_ns).map(|(start, origin)| start.saturating_sub(origin));
        place.source = if from_run.is_some() { ClockSource::Utc } else { ClockSource::Start };
        place.offset = from_run.unwrap_or(0).saturating_sub(content.start);
    }
    let span = span(traces, &placed);
    Clock { placed, runs, span }
}

/// Whether it recorded what ran: memory and readings of devices begin long before it, or go on long after.
fn ran(trace: &Trace) -> bool {
    !trace.info.format.is_memory_only() && !trace.slices.is_empty()
}

/// A run while traces are assigned to it: when it began and ended so far, and how much of that was recorded.
struct Recorded {
    range: TimeRange,
    ns: DurNs,
    run: usize,
}

impl Recorded {
    fn new((range, run): (TimeRange, usize)) -> Self {
        Self { range, ns: range.dur(), run }
    }

    /// The time between it and a range; 0 where they overlap.
    fn pause(&self, range: TimeRange) -> DurNs {
        let (before, after) = (self.range.start.saturating_sub(range.end), range.start.saturating_sub(self.range.end));
        before.max(after).max(0)
    }

    /// Whether a pause is short enough for a recording of `ns` nanoseconds beside it.
    fn is_near(&self, pause: DurNs, ns: DurNs) -> bool {
        pause <= self.ns.max(ns).saturating_mul(MAX_PAUSE)
    }

    /// Adds what begins later.
    fn add(&mut self, range: TimeRange) {
        self.ns = self.ns.saturating_add(range.end.saturating_sub(range.start.max(self.range.end)).max(0));
        self.range = self.range.union(range);
    }
}

/// The run of each trace: shared by traces with UTC times without a long pause between them, else separate.
fn utc_runs(traces: &[&Trace], starts: &[Option<TimeNs>], contents: &[TimeRange]) -> Vec<usize> {
    let mut run_of: Vec<usize> = (0..traces.len()).collect();
    let known = starts.iter().enumerate().filter_map(|(i, start)| Some((i, (*start)?)));
    let range = |(i, start): (usize, TimeNs)| (TimeRange { start, end: start.saturating_add(contents[i].dur()) }, i);
    let mut ranges: Vec<(TimeRange, usize)> = known.map(range).collect();
    ranges.sort_unstable_by_key(|&(range, i)| (range.start, range.end, i));
    let (programs, beside): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|&(_, i)| ran(traces[i]));
    let mut runs: Vec<Recorded> = Vec::new();
    for (range, i) in programs {
        let is_of = |last: &Recorded| {
            let pause = last.pause(range);
            let same = || (0..traces.len()).any(|j| run_of[j] == last.run && is_one_process(traces[i], traces[j]));
            last.is_near(pause, range.dur()) || (pause <= PAUSE_OF_PROCESS && same())
        };
        match runs.last_mut().filter(|last| is_of(last)) {
            Some(last) => {
                last.add(range);
                run_of[i] = last.run;
            }
            None => runs.push(Recorded::new((range, i))),
        }
    }
    // Memory and readings that are near no run are runs of their own.
    let n_programs = runs.len();
    for (range, i) in beside {
        let of_programs = runs[..n_programs].iter_mut().min_by_key(|run| run.pause(range));
        let is_near = |run: &Recorded| {
            let pause = run.pause(range);
            pause <= SHORT_PAUSE || run.is_near(pause, range.dur())
        };
        if let Some(run) = of_programs.filter(|run| is_near(run)) {
            run_of[i] = run.run;
        } else if let Some(last) = runs[n_programs..].last_mut().filter(|last| is_near(last)) {
            last.add(range);
            run_of[i] = last.run;
        } else {
            runs.push(Recorded::new((range, i)));
        }
    }
    run_of
}

/// Whether one process recorded both into one folder.
fn is_one_process(a: &Trace, b: &Trace) -> bool {
    /// Lower numbers are those of devices, and of the processes that every container begins with.
    const FIRST: u32 = 100;
    let pids = |trace: &Trace| -> BTreeSet<u32> {
        let pids = trace.processes.iter().filter_map(|process| process.pid.parse().ok());
        pids.filter(|pid| *pid >= FIRST).collect()
    };
    let is_one_place = folder(a) == folder(b) && a.info.rank == b.info.rank;
    is_one_place && !pids(a).is_disjoint(&pids(b))
}

/// The traces of a run while runs are joined.
#[derive(Default)]
struct Members {
    n: usize,
    /// Those without a rank.
    n_unranked: usize,
    ranks: BTreeSet<u32>,
}

impl Members {
    fn add(&mut self, trace: &Trace) {
        self.n += 1;
        self.n_unranked += usize::from(trace.info.rank.is_none());
        self.ranks.extend(trace.info.rank);
    }
}

/// Merges each trace that is alone in its run, with a rank but without UTC times, into a run of its folder.
fn join_by_folder(traces: &[&Trace], run_of: &mut [usize]) {
    let mut members: HashMap<usize, Members> = HashMap::new();
    let mut runs_in: HashMap<Option<&Path>, BTreeSet<usize>> = HashMap::new();
    for (trace, &run) in traces.iter().zip(run_of.iter()) {
        members.entry(run).or_default().add(trace);
        runs_in.entry(folder(trace)).or_default().insert(run);
    }
    for (i, trace) in traces.iter().enumerate() {
        let is_alone = members.get(&i).is_some_and(|run| run.n == 1);
        let Some(rank) = trace.info.rank.filter(|_| is_alone && utc_offset(trace).is_none()) else { continue };
        let Some(near) = runs_in.get_mut(&folder(trace)) else { continue };
        let is_free = |run: &usize| {
            let members = members.get(run).filter(|_| *run != i);
            members.is_some_and(|run| run.n_unranked == 0 && !run.ranks.contains(&rank))
        };
        if let Some(run) = near.iter().copied().find(is_free) {
            near.remove(&i);
            members.entry(run).or_default().add(trace);
            run_of[i] = run;
        }
    }
}

/// The archive of a trace, else the folder of its file.
fn folder(trace: &Trace) -> Option<&Path> {
    match trace.info.member {
        Some(_) => Some(&trace.info.path),
        None => trace.info.path.parent(),
    }
}

/// A time of a trace in nanoseconds since 1970, if it knows.
pub fn utc_at(trace: &Trace, time: TimeNs) -> Option<TimeNs> {
    time.checked_add(utc_offset(trace)?)
}

/// Offset from the times of a trace to UTC, if it records one or its times are UTC.
fn utc_offset(trace: &Trace) -> Option<DurNs> {
    // From 2001 to 2096: uptime clocks never reach these values.
    const EPOCH_LIKE: std::ops::Range<TimeNs> = 1_000_000_000_000_000_000..4_000_000_000_000_000_000;
    trace.info.utc_offset_ns.or_else(|| EPOCH_LIKE.contains(&trace.span.start).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::content::content;
    use crate::model::{Format, SliceKind, TraceBuilder};

    const EPOCH: TimeNs = 1_700_000_000_000_000_000;
    const DAY: DurNs = 86_400_000_000_000;

    /// Start, end, offset to UTC, file and rank.
    type Given<'a> = (TimeNs, TimeNs, Option<DurNs>, &'a str, Option<u32>);

    fn clock_of(traces: &[&Trace]) -> Clock {
        clock(traces, &traces.iter().map(|trace| content(trace)).collect::<Vec<_>>())
    }

    fn place(given: &[Given<'_>]) -> Clock {
        let trace = |&(start, end, utc_offset_ns, path, rank): &Given<'_>| {
            let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", start, end)]);
            builder.info.utc_offset_ns = utc_offset_ns;
            builder.info.path = path.into();
            builder.info.rank = rank;
            builder.finish()
        };
        let traces: Vec<Trace> = given.iter().map(trace).collect();
        clock_of(&traces.iter().collect::<Vec<_>>())
    }

    fn check(given: &[Given<'_>], offsets: &[DurNs], runs: &[usize], origin: Option<TimeNs>, end: TimeNs) {
        let clock = place(given);
        let (found_offsets, found_runs): (Vec<_>, Vec<_>) =
            clock.placed.iter().map(|place| (place.offset, place.run)).unzip();
        assert_eq!((found_offsets.as_slice(), found_runs.as_slice()), (offsets, runs));
        assert_eq!((clock.origin_utc_ns(), clock.span), (origin, TimeRange { start: 0, end }));
    }

    #[test]
    fn traces_of_one_run_keep_their_relative_offsets() {
        let known = [(1_000, 6_000, Some(EPOCH), "a", None), (90_000, 95_000, Some(EPOCH - 80_000), "b", None)];
        check(&known, &[-1_000, -81_000], &[0, 0], Some(EPOCH + 1_000), 14_000);
        check(&[(EPOCH, EPOCH + 5, None, "a", None)], &[-EPOCH], &[0], Some(EPOCH), 5);
        check(&[], &[], &[], None, 0);
    }

    #[test]
    fn a_run_starts_with_what_ran_and_memory_beside_it_may_be_before() {
        let trace = |start, format| {
            let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", start, 9_000)]);
            builder.info.utc_offset_ns = Some(EPOCH);
            builder.info.format = format;
            builder.finish()
        };
        let (memory, program) = (trace(1_000, Format::Snapshot), trace(8_000, Format::ChromeTrace));
        let placed = clock_of(&[&memory, &program]);
        assert_eq!(placed.placed.iter().map(|place| place.offset).collect::<Vec<_>>(), [-8_000, -8_000]);
        let span = TimeRange { start: -7_000, end: 1_000 };
        assert_eq!((placed.span, placed.origin_utc_ns()), (span, Some(EPOCH + 8_000)));
        assert_eq!(clock_of(&[&memory]).placed[0].offset, -1_000, "alone it is what there is");
    }

    #[test]
    fn runs_start_where_their_work_does_not_at_lone_events_far_before() {
        const S: TimeNs = 1_000_000_000;
        // Lone events, then 1,000 of 10 µs every 20 µs.
        let of = |lone: &[TimeNs], start: TimeNs, utc_offset_ns| {
            let op = SliceKind::Operator;
            let mut slices: Vec<_> = lone.iter().map(|&at| ("other", op, "note", at, at + 10)).collect();
            slices.extend((0..1_000).map(|i| ("main", op, "op", start + 20_000 * i, start + 20_000 * i + 10_000)));
            let mut builder = TraceBuilder::from_slices(&slices);
            builder.info.utc_offset_ns = utc_offset_ns;
            builder.finish()
        };
        let offsets = |traces: &[Trace]| {
            let clock = clock_of(&traces.iter().collect::<Vec<_>>());
            let (offsets, runs): (Vec<_>, Vec<_>) = clock.placed.iter().map(|place| (place.offset, place.run)).unzip();
            (offsets, runs, clock.span.start)
        };
        assert_eq!(
            offsets(&[of(&[3 * S], 40 * S, None), of(&[], 7 * S, None)]),
            (vec![-40 * S, -7 * S], vec![0, 1], -37 * S)
        );
        // A minute after the first has ended; what was noted before it began does not join the two.
        let runs = [of(&[], 100 * S, Some(EPOCH)), of(&[60 * S, 90 * S], 160 * S, Some(EPOCH))];
        assert_eq!(offsets(&runs), (vec![-100 * S, -160 * S], vec![0, 1], -100 * S));
        // Of one run: zero is the first work, and they keep their one clock.
        let ranks = [of(&[9 * S], 100 * S, Some(EPOCH)), of(&[], 100 * S + 5, Some(EPOCH))];
        assert_eq!(offsets(&ranks), (vec![-100 * S; 2], vec![0, 0], -91 * S));
        let clock = clock_of(&[&ranks[0], &ranks[1]]);
        assert_eq!(clock.origin_utc_ns(), Some(EPOCH + 100 * S), "zero is where the work begins");
    }

    #[test]
    fn one_trace_without_utc_leaves_the_others_aligned() {
        let known = [(1_000, 6_000, Some(EPOCH), "a", None), (90_000, 95_000, Some(EPOCH - 80_000), "b", None)];
        let given = [known[0], (5, 10, None, "c", None), known[1]];
        check(&given, &[-1_000, -5, -81_000], &[0, 1, 0], None, 14_000);
        let sources: Vec<&str> = place(&given).placed.iter().map(|place| place.source.key()).collect();
        assert_eq!(sources, ["utc", "start", "utc"]);
    }

    #[test]
    fn runs_of_different_days_start_together() {
        let (a, b) = (Some(EPOCH), Some(EPOCH + DAY));
        let given =
            [(0, 5, a, "a", Some(0)), (2, 9, b, "a", Some(0)), (1, 5, a, "a", Some(1)), (3, 9, b, "a", Some(1))];
        check(&given, &[0, -2, 0, -2], &[0, 1, 0, 1], None, 7);
    }

    #[test]
    fn a_pause_that_is_long_beside_what_was_recorded_divides_runs() {
        const S: DurNs = 1_000_000_000;
        let runs = |given: &[(TimeNs, TimeNs)]| {
            let given: Vec<Given<'_>> =
                given.iter().map(|&(start, end)| (start * S, end * S, Some(EPOCH), "a", None)).collect();
            place(&given).placed.iter().map(|place| place.run).collect::<Vec<_>>()
        };
        assert_eq!(runs(&[(0, 5), (15, 20)]), [0, 0], "10 s beside 5 s");
        assert_eq!(runs(&[(0, 5), (15, 20), (80, 85)]), [0, 0, 1], "60 s after 10 s that were recorded");
        assert_eq!(runs(&[(0, 5), (21, 26)]), [0, 1], "16 s beside 5 s");
        assert_eq!(runs(&[(0, 1), (9, 10)]), [0, 1], "8 s beside 1 s");
        assert_eq!(runs(&[(0, 1), (9, 12)]), [0, 0], "8 s beside 3 s");
        assert_eq!(runs(&[(1_700, 1_705), (0, 6), (1_701, 1_702), (2, 3)]), [0, 1, 0, 1]);
    }

    #[test]
    fn what_one_process_recorded_again_and_again_is_one_run() {
        const S: DurNs = 1_000_000_000;
        let runs = |given: &[(i64, &str, &str)]| {
            let trace = |&(start, path, pid): &(i64, &str, &str)| {
                let ops = [("main", SliceKind::Operator, "op", start * S, (start + 1) * S)];
                let mut builder = TraceBuilder::from_slices(&ops);
                builder.info.utc_offset_ns = Some(EPOCH);
                builder.info.path = path.into();
                let mut trace = builder.finish();
                trace.processes = vec![crate::model::Process { pid: pid.to_owned(), ..Default::default() }];
                trace
            };
            let traces: Vec<Trace> = given.iter().map(trace).collect();
            let clock = clock_of(&traces.iter().collect::<Vec<_>>());
            clock.placed.iter().map(|place| (place.run, place.offset / S)).collect::<Vec<_>>()
        };
        assert_eq!(runs(&[(5, "a/1", "4711"), (65, "a/2", "4711")]), [(0, -5), (0, -5)]);
        assert_eq!(runs(&[(5, "a/1", "4711"), (65, "b/2", "4711")]), [(0, -5), (1, -65)], "in another folder");
        assert_eq!(runs(&[(5, "a/1", "4711"), (65, "a/2", "4712")]), [(0, -5), (1, -65)], "of another process");
        assert_eq!(runs(&[(5, "a/1", "1"), (65, "a/2", "1")]), [(0, -5), (1, -65)], "the first of a container");
        assert_eq!(runs(&[(5, "a/1", "4711"), (9_005, "a/2", "4711")]), [(0, -5), (1, -9_005)], "hours later");
    }

    #[test]
    fn memory_and_readings_are_of_the_nearest_run() {
        const S: DurNs = 1_000_000_000;
        let of = |format: Format, start: i64, end: i64| {
            let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", start * S, end * S)]);
            builder.info.utc_offset_ns = Some(EPOCH);
            builder.info.format = format;
            builder.finish()
        };
        let program = |start| of(Format::ChromeTrace, start, start + 1);
        let memory = |start, end| of(Format::Snapshot, start, end);
        let runs = |traces: &[Trace]| {
            clock_of(&traces.iter().collect::<Vec<_>>()).placed.iter().map(|place| place.run).collect::<Vec<_>>()
        };
        // Recorded a minute apart, each with its snapshot a little later.
        assert_eq!(runs(&[program(0), program(60), memory(8, 9), memory(62, 63)]), [0, 1, 0, 1]);
        // A history that lasts through both is of the first.
        assert_eq!(runs(&[program(10), program(60), memory(0, 70)]), [0, 1, 0]);
        assert_eq!(runs(&[program(0), memory(3_600, 3_601)]), [0, 1], "an hour later");
        assert_eq!(runs(&[memory(0, 1), memory(9, 10), memory(7_200, 7_201)]), [0, 0, 1], "of memory alone");
    }

    #[test]
    fn ranks_of_one_folder_are_one_run_without_utc() {
        let rank = |path, rank| (7, 9, None, path, rank);
        let given = [
            rank("x/r0", Some(0)),
            rank("x/r1", Some(1)),
            rank("y/r0", Some(0)),
            rank("x/again", Some(0)),
            rank("x/z", None),
        ];
        check(&given, &[-7; 5], &[0, 0, 1, 2, 3], None, 2);
        // A rank without UTC times joins the run of its folder if that lacks the rank.
        let utc = |path, rank| (7, 9, Some(EPOCH), path, rank);
        check(&[rank("x/r1", Some(1)), utc("x/r0", Some(0))], &[-7; 2], &[0, 0], None, 2);
        check(&[utc("x/r0", Some(0)), rank("x/r1", Some(1))], &[-7; 2], &[0, 0], None, 2);
    }
}
