//! One clock for several traces.

use crate::model::{DurNs, TimeNs, TimeRange, Trace};

/// The session clock. Its zero is the earliest start of all traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// For each trace: add this to its times to get session times.
    pub offsets: Vec<DurNs>,
    /// Nanoseconds from 1970 to zero, if every trace says when it was recorded. Else each trace
    /// starts at zero.
    pub origin_utc_ns: Option<TimeNs>,
    /// From the first start to the last end, in session time.
    pub span: TimeRange,
}

/// Traces with a longer pause than this between them are not of one run.
const MAX_PAUSE: DurNs = 3_600_000_000_000;

/// Puts traces on one clock: by the time since 1970 if all of them know it, else all start at zero.
///
/// Mixing the two would show an order of events that nothing vouches for. Traces that were recorded
/// more than an hour apart start at zero too: a clock that spans days shows none of them.
pub fn clock(traces: &[&Trace]) -> Clock {
    let starts: Option<Vec<TimeNs>> = traces.iter().map(|trace| utc_start(trace)).collect();
    let starts = starts.filter(|starts| are_of_one_run(traces, starts));
    let origin_utc_ns = starts.as_ref().and_then(|starts| starts.iter().min().copied());
    let mut offsets = Vec::with_capacity(traces.len());
    for (i, trace) in traces.iter().enumerate() {
        let start = starts.as_ref().and_then(|starts| starts.get(i)).copied();
        let place = start.zip(origin_utc_ns).map_or(0, |(start, origin)| start.saturating_sub(origin));
        offsets.push(place.saturating_sub(trace.span.start));
    }
    let spans = traces.iter().zip(&offsets).map(|(trace, &offset)| trace.span.shifted(offset));
    let span = spans.reduce(TimeRange::union).unwrap_or_default();
    Clock { offsets, origin_utc_ns, span }
}

fn are_of_one_run(traces: &[&Trace], starts: &[TimeNs]) -> bool {
    let range = |(trace, &start): (&&Trace, &TimeNs)| (start, start.saturating_add(trace.span.dur()));
    let mut ranges: Vec<(TimeNs, TimeNs)> = traces.iter().zip(starts).map(range).collect();
    ranges.sort_unstable();
    let mut last_end = ranges.first().map_or(0, |range| range.0);
    ranges.iter().all(|&(start, end)| {
        let is_near = start.saturating_sub(last_end) <= MAX_PAUSE;
        last_end = last_end.max(end);
        is_near
    })
}

/// When the trace starts, in nanoseconds since 1970, if it says so or its own times are such.
fn utc_start(trace: &Trace) -> Option<TimeNs> {
    // From 2001 to 2096; counted from a machine's start, nobody gets there.
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

    fn check(traces: &[(TimeNs, TimeNs, Option<DurNs>)], offsets: &[DurNs], origin: Option<TimeNs>, end: TimeNs) {
        let trace = |&(start, end, utc_offset_ns): &(TimeNs, TimeNs, Option<DurNs>)| {
            let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", start, end)]);
            builder.info.utc_offset_ns = utc_offset_ns;
            builder.finish()
        };
        let traces: Vec<Trace> = traces.iter().map(trace).collect();
        let clock = clock(&traces.iter().collect::<Vec<_>>());
        assert_eq!((clock.offsets.as_slice(), clock.origin_utc_ns), (offsets, origin));
        assert_eq!(clock.span, TimeRange { start: 0, end });
    }

    #[test]
    fn traces_that_know_the_time_are_placed_by_it_if_all_do() {
        let known = [(1_000, 6_000, Some(EPOCH)), (90_000, 95_000, Some(EPOCH - 80_000))];
        check(&known, &[-1_000, -81_000], Some(EPOCH + 1_000), 14_000);
        check(&[known[0], known[1], (5, 10, None)], &[-1_000, -90_000, -5], None, 5_000);
        check(&[(EPOCH, EPOCH + 5, None)], &[-EPOCH], Some(EPOCH), 5);
        check(&[], &[], None, 0);
        let day = 86_400_000_000_000;
        check(&[(0, 5, Some(EPOCH)), (0, 9, Some(EPOCH + day))], &[0, 0], None, 9);
    }
}
