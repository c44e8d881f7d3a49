//! One clock for several traces: which of them belong to one run, and where each starts.

use std::path::Path;

use crate::model::{DurNs, TimeNs, TimeRange, Trace};

/// The session clock. Its zero is the start of every run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// One for each trace, in the order given.
    pub placed: Vec<TraceClock>,
    /// In the order of their first traces.
    pub runs: Vec<Run>,
    /// From the first start to the last end, in session time.
    pub span: TimeRange,
}

/// Where one trace is on the session clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceClock {
    /// Add this to the trace's times to get session times.
    pub offset: DurNs,
    pub source: ClockSource,
    /// Index of the run that the trace is of.
    pub run: usize,
}

/// How a trace came onto the session clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// By the UTC time of its recording.
    Utc,
    /// It does not say when it was recorded: its start is put at the start of its run.
    Start,
}

impl ClockSource {
    /// As the report's JSON has it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Utc => "utc",
            Self::Start => "start",
        }
    }
}

/// Traces of one job, on one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Nanoseconds from 1970 to the run's start, if any of its traces knows it.
    pub origin_utc_ns: Option<TimeNs>,
    pub n_traces: usize,
}

impl Clock {
    /// Nanoseconds from 1970 to zero, if all traces are of one run and on UTC.
    pub fn origin_utc_ns(&self) -> Option<TimeNs> {
        let is_utc = self.placed.iter().all(|placed| placed.source == ClockSource::Utc);
        let &[run] = self.runs.as_slice() else { return None };
        run.origin_utc_ns.filter(|_| is_utc)
    }
}

/// Traces with a longer pause than this between them are not of one run.
const MAX_PAUSE: DurNs = 3_600_000_000_000;

/// Puts traces on one clock, run by run; each run starts at zero, so that runs can be compared.
///
/// * Traces that know their UTC time are of one run if no pause between them exceeds an hour. They keep
///   their distances.
/// * A trace that does not know it joins a run of its own folder or archive in which its rank is not yet
///   taken; without such a run, or without a rank, it is a run of its own. It starts at the run's start,
///   and leaves the others where they are.
///
/// Cost: O(n²) for n traces that do not know their time, else O(n log n).
pub fn clock(traces: &[&Trace]) -> Clock {
    let starts: Vec<Option<TimeNs>> = traces.iter().map(|trace| utc_start(trace)).collect();
    let mut run_of = utc_runs(traces, &starts);
    join_by_folder(traces, &mut run_of);
    // Numbers runs in the order of their first traces.
    let mut numbers: Vec<usize> = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut placed = Vec::with_capacity(traces.len());
    for &id in &run_of {
        let run = numbers.iter().position(|&known| known == id).unwrap_or_else(|| {
            numbers.push(id);
            runs.push(Run { origin_utc_ns: None, n_traces: 0 });
            numbers.len() - 1
        });
        runs[run].n_traces += 1;
        placed.push(TraceClock { offset: 0, source: ClockSource::Start, run });
    }
    for (place, start) in placed.iter().zip(&starts) {
        let origin = &mut runs[place.run].origin_utc_ns;
        *origin = origin.iter().chain(start).min().copied();
    }
    for ((place, start), trace) in placed.iter_mut().zip(&starts).zip(traces) {
        let from_run = start.zip(runs[place.run].origin_utc_ns).map(|(start, origin)| start.saturating_sub(origin));
        place.source = if from_run.is_some() { ClockSource::Utc } else { ClockSource::Start };
        place.offset = from_run.unwrap_or(0).saturating_sub(trace.span.start);
    }
    let spans = traces.iter().zip(&placed).map(|(trace, place)| trace.span.shifted(place.offset));
    let span = spans.reduce(TimeRange::union).unwrap_or_default();
    Clock { placed, runs, span }
}

/// A run for each trace: the same for those that know their time and lie within [`MAX_PAUSE`] of each other,
/// else one of its own.
fn utc_runs(traces: &[&Trace], starts: &[Option<TimeNs>]) -> Vec<usize> {
    let mut run_of: Vec<usize> = (0..traces.len()).collect();
    let known = traces.iter().zip(starts).enumerate();
    let mut ranges: Vec<(TimeNs, TimeNs, usize)> = known
        .filter_map(|(i, (trace, start))| start.map(|start| (start, start.saturating_add(trace.span.dur()), i)))
        .collect();
    ranges.sort_unstable();
    let mut last: Option<(TimeNs, usize)> = None;
    for (start, end, i) in ranges {
        let (last_end, run) = match last {
            Some((last_end, run)) if start.saturating_sub(last_end) <= MAX_PAUSE => (last_end.max(end), run),
            _ => (end, i),
        };
        run_of[i] = run;
        last = Some((last_end, run));
    }
    run_of
}

/// Joins each trace that is alone in its run, has a rank and no UTC time, with the traces of its folder.
fn join_by_folder(traces: &[&Trace], run_of: &mut [usize]) {
    for i in 0..traces.len() {
        let (trace, is_alone) = (traces[i], !run_of.iter().enumerate().any(|(j, &run)| j != i && run == i));
        if trace.info.rank.is_none() || utc_start(trace).is_some() || !is_alone {
            continue;
        }
        let near = (0..traces.len()).filter(|&j| j != i && folder(traces[j]) == folder(trace)).map(|j| run_of[j]);
        let is_free = |run: &usize| {
            let members = run_of.iter().zip(traces).filter(|member| member.0 == run);
            members
                .map(|member| member.1)
                .all(|member| member.info.rank.is_some_and(|rank| Some(rank) != trace.info.rank))
        };
        if let Some(run) = near.filter(is_free).min() {
            run_of[i] = run;
        }
    }
}

/// The archive that a trace was in, else the folder of its file.
fn folder(trace: &Trace) -> Option<&Path> {
    match trace.info.member {
        Some(_) => Some(&trace.info.path),
        None => trace.info.path.parent(),
    }
}

/// When the trace starts, in nanoseconds since 1970, if it says so or its own times are such.
fn utc_start(trace: &Trace) -> Option<TimeNs> {
    // From 2001 to 2096. No clock that counts from the start of a machine reaches these.
    const EPOCH_LIKE: std::ops::Range<TimeNs> = 1_000_000_000_000_000_000..4_000_000_000_000_000_000;
    let own = trace.span.start;
    match trace.info.utc_offset_ns {
        Some(offset) => own.checked_add(offset),
        None => EPOCH_LIKE.contains(&own).then_some(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    const EPOCH: TimeNs = 1_700_000_000_000_000_000;
    const DAY: DurNs = 86_400_000_000_000;

    /// Start, end, offset to UTC, file and rank.
    type Given<'a> = (TimeNs, TimeNs, Option<DurNs>, &'a str, Option<u32>);

    fn place(given: &[Given<'_>]) -> Clock {
        let trace = |&(start, end, utc_offset_ns, path, rank): &Given<'_>| {
            let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", start, end)]);
            builder.info.utc_offset_ns = utc_offset_ns;
            builder.info.path = path.into();
            builder.info.rank = rank;
            builder.finish()
        };
        let traces: Vec<Trace> = given.iter().map(trace).collect();
        clock(&traces.iter().collect::<Vec<_>>())
    }

    fn check(given: &[Given<'_>], offsets: &[DurNs], runs: &[usize], origin: Option<TimeNs>, end: TimeNs) {
        let clock = place(given);
        let (found_offsets, found_runs): (Vec<_>, Vec<_>) =
            clock.placed.iter().map(|place| (place.offset, place.run)).unzip();
        assert_eq!((found_offsets.as_slice(), found_runs.as_slice()), (offsets, runs));
        assert_eq!((clock.origin_utc_ns(), clock.span), (origin, TimeRange { start: 0, end }));
    }

    #[test]
    fn traces_of_one_run_keep_their_distances() {
        let known = [(1_000, 6_000, Some(EPOCH), "a", None), (90_000, 95_000, Some(EPOCH - 80_000), "b", None)];
        check(&known, &[-1_000, -81_000], &[0, 0], Some(EPOCH + 1_000), 14_000);
        check(&[(EPOCH, EPOCH + 5, None, "a", None)], &[-EPOCH], &[0], Some(EPOCH), 5);
        check(&[], &[], &[], None, 0);
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
        // A rank without UTC joins the run of its folder, where that rank is free.
        let utc = |path, rank| (7, 9, Some(EPOCH), path, rank);
        check(&[rank("x/r1", Some(1)), utc("x/r0", Some(0))], &[-7; 2], &[0, 0], None, 2);
        check(&[utc("x/r0", Some(0)), rank("x/r1", Some(1))], &[-7; 2], &[0, 0], None, 2);
    }
}
