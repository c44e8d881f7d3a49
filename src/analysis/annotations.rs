//! Annotations: host time, and the device work launched inside them.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;

pub use super::recent_spans::Projection;
use super::recent_spans::RecentSpans;
use super::totals::{Durations, Instance, Part, Scope, group};
use crate::model::{DurNs, SliceId, SliceKind, StringId, TimeNs, TimeRange, Trace, TrackId};

/// Totals of all ranges with one name and domain, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationTotals {
    pub name: String,
    /// Empty for the default domain, and for `record_function`.
    pub domain: String,
    /// Durations on the host.
    pub durations: Durations,
    /// Sum of the lengths of [`Projection::time`].
    pub projected_ns: DurNs,
    pub work_ns: DurNs,
    pub busy_ns: DurNs,
    pub launches: u64,
    pub instances: Vec<Instance>,
}

/// The annotations in scope by name and domain, with their time on the host and on the device.
///
/// A range is projected onto the device work whose API call is on the same thread and starts within
/// the range; call and work are joined by correlation id. Nested ranges are counted in both. Work launched by
/// another thread, such as that of the backward pass, is excluded.
///
/// * Sorted by total on the host, descending, then name.
/// * Cost: O(n log n) for n annotations, calls and device slices, at any nesting.
/// * Source: `nvtx_gpu_proj_sum` of NVIDIA Nsight Systems.
pub fn annotations(scope: &Scope<'_>) -> Vec<AnnotationTotals> {
    let local = |part: &Part<'_>, i: usize| {
        let domain = part.trace.facts.domains.get(SliceId(i as u32)).copied().unwrap_or_default();
        (part.trace.slices.name[i], domain)
    };
    let key = |part: &Part<'_>, &(name, domain): &(StringId, StringId)| {
        let strings = &part.trace.strings;
        (strings.get(name).to_owned(), strings.get(domain).to_owned())
    };
    let groups = group(scope, |kind| kind == SliceKind::Annotation, local, key);
    let wanted = |index: usize| {
        let instances = groups.iter().flat_map(|group| &group.instances);
        let mut slices: Vec<SliceId> =
            instances.filter(|instance| instance.trace as usize == index).map(|instance| instance.slice).collect();
        slices.sort_unstable();
        slices
    };
    let of_trace = |(index, trace): (usize, &&Trace)| projections(trace, &wanted(index), scope.is_cancelled);
    let all: Vec<Vec<(SliceId, Projection)>> = scope.traces.par_iter().enumerate().map(of_trace).collect();
    let totals = |group: super::totals::Group<(String, String)>| {
        let (name, domain) = group.key;
        let mut totals = AnnotationTotals { name, domain, durations: group.durations, ..Default::default() };
        for instance in &group.instances {
            let known = &all[instance.trace as usize];
            if let Ok(at) = known.binary_search_by_key(&instance.slice, |entry| entry.0) {
                let projection = known[at].1;
                totals.projected_ns = totals.projected_ns.saturating_add(projection.time.dur());
                totals.work_ns = totals.work_ns.saturating_add(projection.work_ns);
                totals.busy_ns = totals.busy_ns.saturating_add(projection.busy_ns);
                totals.launches += projection.launches;
            }
        }
        totals.instances = group.instances;
        totals
    };
    groups.into_iter().map(totals).collect()
}

/// Projection of one host range onto the device; `None` if nothing was launched in it.
///
/// Cost: O(slices of its track in its time, and their work), so not for the frame thread.
pub fn projection(trace: &Trace, range: SliceId) -> Option<Projection> {
    let track = trace.slices.track_of(range);
    let time = trace.slices.time(range);
    let mut spans: Vec<TimeRange> = Vec::new();
    for row in trace.rows(track) {
        for call in trace.slices.window(row, time).filter(|&i| time.contains(trace.slices.ts[i])) {
            let call = SliceId(call as u32);
            if trace.slices.kind[call.idx()].is_call() {
                let work = trace.launched_by(call).filter(|&work| trace.launch_of(work) == Some(call));
                spans.extend(work.map(|work| trace.slices.time(work)));
            }
        }
    }
    (!spans.is_empty()).then(|| Projection::of(&mut spans))
}

/// The projections of `wanted`, sorted by slice; those without device work are absent.
fn projections(
    trace: &Trace,
    wanted: &[SliceId],
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Vec<(SliceId, Projection)> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let work = work_by_thread(trace);
    let mut by_track: BTreeMap<TrackId, Vec<SliceId>> = BTreeMap::new();
    for &range in wanted {
        by_track.entry(trace.slices.track_of(range)).or_default().push(range);
    }
    let mut all: Vec<_> = by_track
        .par_iter()
        .filter(|_| !is_cancelled())
        .filter_map(|(track, ranges)| Some(of_thread(trace, work.get(track)?, ranges)))
        .flatten()
        .collect();
    all.sort_unstable_by_key(|entry| entry.0);
    all
}

/// A call and a piece of device work that it launched.
type Launched = (SliceId, SliceId);

/// The device work that each thread launched, by the start of the call. Each device slice occurs once.
fn work_by_thread(trace: &Trace) -> BTreeMap<TrackId, Vec<Launched>> {
    let mut by_thread: BTreeMap<TrackId, Vec<Launched>> = BTreeMap::new();
    for i in (0..trace.slices.len()).filter(|&i| trace.slices.kind[i].is_device_work()) {
        let work = SliceId(i as u32);
        if let Some(call) = trace.launch_of(work) {
            by_thread.entry(trace.slices.track_of(call)).or_default().push((call, work));
        }
    }
    let start = |&(call, work): &Launched| (trace.slices.ts[call.idx()], call, work);
    by_thread.par_iter_mut().for_each(|(_, work)| work.sort_unstable_by_key(start));
    by_thread
}

/// * `work`: all that the thread of the ranges launched.
fn of_thread(trace: &Trace, work: &[Launched], ranges: &[SliceId]) -> Vec<(SliceId, Projection)> {
    let slices = &trace.slices;
    let launched_before = |ts: TimeNs| work.partition_point(|(call, _)| slices.ts[call.idx()] < ts);
    let launches = |&range: &SliceId| {
        let TimeRange { start, end } = slices.time(range);
        (range, launched_before(start)..launched_before(end))
    };
    let mut wanted: Vec<(SliceId, Range<usize>)> = ranges.iter().map(launches).collect();
    wanted.retain(|(_, work)| !work.is_empty());
    wanted.sort_by_key(|(_, work)| work.end);
    // Work between two borders is in the same ranges.
    let mut borders: Vec<usize> = wanted.iter().flat_map(|(_, work)| [work.start, work.end]).collect();
    borders.sort_unstable();
    borders.dedup();
    let mut spans: Vec<TimeRange> = Vec::new();
    let piece = |from: usize, spans: &mut Vec<TimeRange>| {
        spans.clear();
        spans.extend(work[borders[from]..borders[from + 1]].iter().map(|&(_, work)| slices.time(work)));
        Projection::of(spans)
    };
    let pieces: Vec<Projection> = (1..borders.len()).map(|to| piece(to - 1, &mut spans)).collect();
    let shared = shared(&pieces, |i, spans| {
        piece(i, spans);
    });
    let mut sums = RecentSpans::default();
    let (mut next, mut next_shared) = (0, 0);
    let place = |border: usize| borders.partition_point(|&other| other < border);
    let project = |(range, work): (SliceId, Range<usize>)| {
        while next < place(work.end) {
            let rest = &shared[next_shared..];
            let rest = &rest[..rest.partition_point(|(_, piece)| *piece as usize == next)];
            sums.push(&pieces[next], rest.iter().map(|(span, _)| *span));
            next_shared += rest.len();
            next += 1;
        }
        (range, sums.since(place(work.start)))
    };
    wanted.into_iter().map(project).collect()
}

/// The spans of pieces of work that overlap those of other pieces, by piece: few, where work runs in the order of its
/// launch.
///
/// * `spans`: sets the spans of a piece, disjoint and ascending.
/// * Cost: O(n log n) for n spans, and memory for those of pieces that run among one another.
fn shared(pieces: &[Projection], spans: impl Fn(usize, &mut Vec<TimeRange>)) -> Vec<(TimeRange, u32)> {
    let mut order: Vec<u32> = (0..pieces.len() as u32).collect();
    order.sort_unstable_by_key(|&i| pieces[i as usize].time.start);
    let mut out: Vec<(TimeRange, u32)> = Vec::new();
    let (mut of_piece, mut all) = (Vec::new(), Vec::new());
    let mut from = 0;
    while from < order.len() {
        // Pieces whose times overlap, from the first start to the last end.
        let mut to = from + 1;
        let mut reach = pieces[order[from] as usize].time.end;
        while let Some(&next) = order.get(to).filter(|&&next| pieces[next as usize].time.start < reach) {
            reach = reach.max(pieces[next as usize].time.end);
            to += 1;
        }
        if to - from > 1 {
            all.clear();
            for &i in &order[from..to] {
                spans(i as usize, &mut of_piece);
                all.extend(of_piece.iter().map(|&span| (span, i)));
            }
            keep_overlapping(&mut all);
            out.append(&mut all);
        }
        from = to;
    }
    out.sort_unstable_by_key(|(span, piece)| (*piece, span.start));
    out
}

/// Leaves the spans that overlap another, by start.
fn keep_overlapping(spans: &mut Vec<(TimeRange, u32)>) {
    spans.sort_by_key(|(span, _)| span.start);
    let mut overlaps = vec![false; spans.len()];
    // The one that ends last of those before.
    let mut last = 0;
    for i in 1..spans.len() {
        if spans[i].0.start < spans[last].0.end {
            (overlaps[last], overlaps[i]) = (true, true);
        }
        if spans[last].0.end < spans[i].0.end {
            last = i;
        }
    }
    let mut overlaps = overlaps.into_iter();
    spans.retain(|_| overlaps.next() == Some(true));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{SliceFacts, TraceBuilder};

    const NOTE: SliceKind = SliceKind::Annotation;
    const CALL: SliceKind = SliceKind::Runtime;

    #[test]
    fn a_range_is_projected_onto_the_work_it_launched() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", NOTE, "step", 0, 100),
            ("main", NOTE, "forward", 10, 50),
            ("main", CALL, "cudaLaunchKernel", 20, 25),
            ("main", CALL, "cudaLaunchKernel", 45, 55),
            ("main", CALL, "cudaLaunchKernel", 60, 65),
            ("other", CALL, "cudaLaunchKernel", 30, 35),
            ("main", NOTE, "nothing", 70, 80),
            ("stream 7", SliceKind::Kernel, "a", 100, 140),
            ("stream 20", SliceKind::Kernel, "b", 130, 200),
            ("stream 7", SliceKind::Memcpy, "c", 300, 310),
            ("stream 7", SliceKind::Kernel, "others", 400, 500),
        ]);
        builder.slices[0].correlation = vec![0, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4];
        let domain = builder.strings.intern("NCCL");
        builder.set_facts(1, SliceFacts { domain, ..Default::default() });
        let trace = builder.finish();
        let rows = annotations(&Scope::whole(&[&trace]));
        let figures: Vec<_> = rows
            .iter()
            .map(|row| {
                (row.name.as_str(), row.domain.as_str(), row.projected_ns, row.work_ns, row.busy_ns, row.launches)
            })
            .collect();
        let expected =
            [("step", "", 210, 120, 110, 3), ("forward", "NCCL", 100, 110, 100, 2), ("nothing", "", 0, 0, 0, 0)];
        assert_eq!(figures, expected);
        let forward = projection(&trace, rows[1].instances[0].slice).unwrap();
        assert_eq!(forward.time, TimeRange { start: 100, end: 200 });
        assert_eq!(projection(&trace, rows[2].instances[0].slice), None);
    }

    #[test]
    fn work_of_a_runtime_and_a_driver_call_counts_once() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", NOTE, "step", 0, 100),
            ("main", CALL, "cudaLaunchKernel", 20, 40),
            ("main", SliceKind::Driver, "cuLaunchKernel", 25, 35),
            ("stream 7", SliceKind::Kernel, "a", 100, 140),
        ]);
        builder.slices[0].correlation = vec![0, 1, 1, 1];
        let trace = builder.finish();
        let row = &annotations(&Scope::whole(&[&trace]))[0];
        assert_eq!((row.launches, row.work_ns), (1, 40));
        assert_eq!(projection(&trace, row.instances[0].slice).unwrap().launches, 1);
    }

    proptest! {
        #[test]
        fn rows_agree_with_asking_range_by_range(
            notes in prop::collection::vec((0_i64..100, 0_i64..60, 0_usize..2), 1..15),
            calls in prop::collection::vec((0_i64..120, 0_i64..200, 0_i64..40), 0..25),
        ) {
            let names = ["x", "y"];
            let mut slices: Vec<_> =
                notes.iter().map(|&(ts, dur, n)| ("main", NOTE, names[n], ts, ts + dur)).collect();
            slices.extend(calls.iter().map(|&(ts, ..)| ("main", CALL, "launch", ts, ts + 1)));
            slices.extend(calls.iter().map(|&(_, ts, dur)| ("stream 7", SliceKind::Kernel, "k", ts, ts + dur)));
            let mut builder = TraceBuilder::from_slices(&slices);
            let ids = 1..=calls.len() as u32;
            builder.slices[0].correlation = notes.iter().map(|_| 0).chain(ids.clone()).chain(ids).collect();
            let trace = builder.finish();
            for row in annotations(&Scope::whole(&[&trace])) {
                let mut sums = Projection::default();
                let mut projected = 0;
                for instance in &row.instances {
                    let time = trace.slices.time(instance.slice);
                    let mut inside: Vec<_> = calls.iter().filter(|call| time.contains(call.0))
                        .map(|call| TimeRange { start: call.1, end: call.1 + call.2 }).collect();
                    let expected = Projection::of(&mut inside);
                    prop_assert_eq!(projection(&trace, instance.slice).unwrap_or_default(), expected);
                    projected += expected.time.dur();
                    sums.work_ns += expected.work_ns;
                    sums.busy_ns += expected.busy_ns;
                    sums.launches += expected.launches;
                }
                prop_assert_eq!((row.projected_ns, row.work_ns), (projected, sums.work_ns));
                prop_assert_eq!((row.busy_ns, row.launches), (sums.busy_ns, sums.launches));
            }
        }
    }
}
