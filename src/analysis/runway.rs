//! Launch-ahead of the host: queued work and runway over time (F6).
//!
//! Work without a recorded launch, such as in recordings of the device only, is left out.

use rayon::prelude::*;

use super::gaps::Ledger;
use crate::model::{Counter, CounterUnit, DurNs, ProcessId, SliceId, TimeNs, Trace, TrackId};

/// Launches that a stream queues before the next one blocks the host, as `HolisticTraceAnalysis` assumes; CUDA does
/// not document a number.
pub const QUEUE_LIMIT: f64 = 1024.0;

/// A gap with less runway before it is marked.
pub const LOW_RUNWAY_NS: DurNs = 1_000_000;

/// How far the host was ahead of one device.
#[derive(Debug)]
pub struct Runway {
    pub process: ProcessId,
    /// Sum of the durations, in nanoseconds, of the work that was launched and has not ended.
    pub runway: Counter,
    /// Streams with launched work, in track order.
    pub streams: Vec<StreamQueue>,
    /// Starts of macro gaps before which the runway was below [`LOW_RUNWAY_NS`], ascending.
    pub low: Vec<TimeNs>,
}

/// The queue of one stream.
#[derive(Debug)]
pub struct StreamQueue {
    pub track: TrackId,
    /// Work launched and not started, counted from the start of the launch call.
    pub depth: Counter,
    /// For each piece of work from its start on: the nanoseconds since its launch call returned; 0 if that was
    /// later.
    pub ahead: Counter,
}

/// A piece of work and its launch call.
#[derive(Clone, Copy, Debug)]
struct Launched {
    /// Start of the call, or of the work if the clocks put that earlier.
    call: TimeNs,
    ahead: DurNs,
    start: TimeNs,
    end: TimeNs,
}

/// The queues of one device; `None` if no launch of its work was recorded.
///
/// * Units: nanoseconds on the trace's clock, pieces of work.
/// * Cost: O(n log n) for n pieces of work, and up to 80 bytes for each.
pub fn runway(trace: &Trace, ledger: &Ledger, is_cancelled: &dyn Fn() -> bool) -> Option<Runway> {
    let mut streams: Vec<StreamQueue> = Vec::new();
    let mut pending: Vec<(TimeNs, DurNs)> = Vec::new();
    for track in trace.tracks_of(ledger.process).take_while(|_| !is_cancelled()) {
        let work = launched(trace, track);
        if work.is_empty() {
            continue;
        }
        pending.extend(work.iter().map(|work| (work.call, work.end - work.start)));
        pending.extend(work.iter().map(|work| (work.end, work.start - work.end)));
        streams.push(queue(track, &work));
    }
    let first = streams.first()?.track;
    let runway = sums(first, CounterUnit::Nanoseconds, pending);
    let gaps = (0..ledger.len()).map(|gap| ledger.time(gap)).filter(|gap| gap.dur() >= ledger.theta_ns);
    let is_low = |start: &TimeNs| value_before(&runway, *start) < LOW_RUNWAY_NS as f64;
    let low = gaps.map(|gap| gap.start).filter(is_low).collect();
    Some(Runway { process: ledger.process, runway, streams, low })
}

/// The work of a track whose launch was recorded, by start.
fn launched(trace: &Trace, track: TrackId) -> Vec<Launched> {
    let slices = &trace.slices;
    let mut work: Vec<Launched> = trace
        .track_slices(track)
        .into_par_iter()
        .filter(|&i| slices.kind[i].is_device_work())
        .filter_map(|i| {
            let call = slices.time(trace.launch_of(SliceId(i as u32))?);
            let (start, end) = (slices.ts[i], slices.end[i]);
            let ahead = start.saturating_sub(call.end).max(0);
            Some(Launched { call: call.start.min(start), ahead, start, end })
        })
        .collect();
    work.par_sort_by_key(|work| work.start);
    work
}

fn queue(track: TrackId, work: &[Launched]) -> StreamQueue {
    let launched = work.iter().map(|work| (work.call, 1));
    let depth = launched.chain(work.iter().map(|work| (work.start, -1))).collect();
    let mut ahead = Counter { track, unit: CounterUnit::Nanoseconds, ..Counter::default() };
    for work in work {
        push(&mut ahead, work.start, work.ahead as f64);
    }
    StreamQueue { track, depth: sums(track, CounterUnit::Plain, depth), ahead }
}

/// The sum of all changes so far, at each time at which it changes.
///
/// `changes`: mostly sorted in long runs, which a stable sort merges.
fn sums(track: TrackId, unit: CounterUnit, mut changes: Vec<(TimeNs, i64)>) -> Counter {
    changes.par_sort_by_key(|change| change.0);
    let mut out = Counter { track, unit, ..Counter::default() };
    let mut sum: i64 = 0;
    for same in changes.chunk_by(|a, b| a.0 == b.0) {
        sum = same.iter().fold(sum, |sum, change| sum.saturating_add(change.1));
        if out.value.last().copied().unwrap_or(0.0) != sum as f64 {
            push(&mut out, same[0].0, sum as f64);
        }
    }
    out
}

fn push(counter: &mut Counter, ts: TimeNs, value: f64) {
    counter.ts.push(ts);
    counter.value.push(value);
    counter.min = counter.min.min(value);
    counter.max = counter.max.max(value);
}

/// The value just before a time; 0 before the first sample.
fn value_before(counter: &Counter, ts: TimeNs) -> f64 {
    let next = counter.ts.partition_point(|&sample| sample < ts);
    next.checked_sub(1).map_or(0.0, |i| counter.value[i])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::{busy, gaps};
    use crate::model::{SliceKind, TraceBuilder};

    type Work = (i64, i64, i64, i64, usize);

    /// A call from `.0` for `.1` and work on stream `.4` from `.2` for `.3`.
    fn trace(work: &[Work]) -> Trace {
        let mut slices = Vec::new();
        for &(call, call_dur, start, dur, stream) in work {
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", call, call + call_dur));
            slices.push((["stream 7", "stream 9"][stream], SliceKind::Kernel, "k", start, start + dur));
        }
        // Not launched by a recorded call.
        slices.push(("stream 7", SliceKind::Memset, "Memset", 5_000, 5_010));
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation =
            (0..slices.len() as u32).map(|i| if i / 2 < work.len() as u32 { 1 + i / 2 } else { 0 }).collect();
        builder.finish()
    }

    fn runway_of(trace: &Trace) -> Option<Runway> {
        let device = busy::devices(trace).remove(0);
        runway(trace, &gaps::ledger(trace, &device, None, &|| false), &|| false)
    }

    #[test]
    fn launches_fill_the_queue_and_starts_empty_it() {
        // Three launches ahead of the device, then one that it waits for.
        let trace = trace(&[(0, 10, 40, 20, 0), (10, 10, 60, 20, 0), (20, 10, 80, 5, 0), (200, 10, 215, 5, 0)]);
        let found = runway_of(&trace).unwrap();
        let shown =
            |counter: &Counter| counter.ts.iter().copied().zip(counter.value.iter().copied()).collect::<Vec<_>>();
        let queue = &found.streams[0];
        let depth = [(0, 1.0), (10, 2.0), (20, 3.0), (40, 2.0), (60, 1.0), (80, 0.0), (200, 1.0), (215, 0.0)];
        assert_eq!(shown(&queue.depth), depth);
        assert_eq!((queue.depth.min, queue.depth.max), (0.0, 3.0));
        assert_eq!(shown(&queue.ahead), [(40, 30.0), (60, 40.0), (80, 50.0), (215, 5.0)]);
        let runway = [(0, 20.0), (10, 40.0), (20, 45.0), (60, 25.0), (80, 5.0), (85, 0.0), (200, 5.0), (220, 0.0)];
        assert_eq!(shown(&found.runway), runway);
        assert_eq!(found.low, [85, 220]);
    }

    #[test]
    fn a_long_kernel_before_a_gap_is_enough_runway() {
        let trace = trace(&[(0, 10, 40, 2_000, 0), (2_500, 10, 2_600, 2_000_000, 0), (3_000_000, 1, 3_000_100, 5, 0)]);
        assert_eq!(runway_of(&trace).unwrap().low, [2_040]);
    }

    #[test]
    fn without_launches_there_is_no_runway() {
        assert!(runway_of(&trace(&[])).is_none());
    }

    proptest! {
        #[test]
        fn curves_equal_a_count_at_every_time(
            work in prop::collection::vec((0_i64..80, 0_i64..9, -3_i64..40, 0_i64..12, 0_usize..2), 1..30),
        ) {
            let work = work.into_iter().map(|(call, dur, after, kernel, on)| (call, dur, call + after, kernel, on));
            let work: Vec<Work> = work.collect();
            let trace = trace(&work);
            let found = runway_of(&trace).unwrap();
            let at = |counter: &Counter, ts: TimeNs| value_before(counter, ts + 1) as i64;
            for queue in &found.streams {
                let on = usize::from(trace.track(queue.track).title() == "stream 9");
                let own: Vec<&Work> = work.iter().filter(|work| work.4 == on).collect();
                for ts in -5..140 {
                    let queued = own.iter().filter(|work| work.0.min(work.2) <= ts && ts < work.2).count();
                    prop_assert_eq!(at(&queue.depth, ts), queued as i64, "{}", ts);
                }
                let ahead = own.iter().map(|work| (work.2, (work.2 - work.0 - work.1).max(0)));
                let mut ahead: Vec<(i64, i64)> = ahead.collect();
                let shown = queue.ahead.ts.iter().zip(&queue.ahead.value).map(|(&ts, &value)| (ts, value as i64));
                let mut shown: Vec<(i64, i64)> = shown.collect();
                ahead.sort();
                shown.sort();
                prop_assert_eq!(shown, ahead);
                prop_assert!(queue.ahead.ts.is_sorted());
            }
            for ts in -5..140 {
                let pending = |work: &&Work| work.0.min(work.2) <= ts && ts < work.2 + work.3;
                let sum: i64 = work.iter().filter(pending).map(|work| work.3).sum();
                prop_assert_eq!(at(&found.runway, ts), sum, "{}", ts);
            }
        }
    }
}
