//! Annotations: host time, and the device work launched inside them.

use std::collections::BTreeMap;
use std::ops::Range;

use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;

use super::launches::{Launched, WorkOfThreads};
pub use super::recent_spans::Projection;
use super::recent_spans::RecentSpans;
use super::totals::{Durations, Group, Instance, Part, Scope, durations, group};
use crate::model::time::{partition_near, unite};
use crate::model::{DurNs, Format, SliceId, SliceKind, StringId, TimeNs, TimeRange, Trace, TrackId, TrackKind};

/// The two kinds of ranges of NVTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RangeStyle {
    /// They nest on a thread.
    PushPop,
    /// They may overlap, and end on another thread.
    StartEnd,
}

/// Totals of all ranges with one name and domain, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationTotals {
    pub name: String,
    /// Empty for the default domain, and for `record_function`.
    pub domain: String,
    /// Which of NVTX's two kinds of ranges it is; `None` where the format has one kind alone.
    pub style: Option<RangeStyle>,
    /// Durations on the host.
    pub durations: Durations,
    /// Sum of the lengths of [`Projection::time`].
    pub projected_ns: DurNs,
    pub work_ns: DurNs,
    pub busy_ns: DurNs,
    pub launches: u64,
    pub instances: Vec<Instance>,
}

/// The annotations in scope by name, domain and style, with their time on the host and on the device.
///
/// What a memory snapshot repeats of a trace of the same program counts once.
///
/// A range is projected onto the device work whose API call is on the same thread and starts within
/// the range; call and work are joined by correlation id. Nested ranges are counted in both. Work launched by
/// another thread, such as that of the backward pass, is excluded.
///
/// * `work`: of the traces of the scope.
/// * Sorted by total on the host, descending, then name.
/// * Cost: O(n log n) for n annotations, calls and device slices, at any nesting.
/// * Source: `nvtx_gpu_proj_sum` of NVIDIA Nsight Systems.
pub fn annotations(scope: &Scope<'_>, work: &WorkOfThreads) -> Vec<AnnotationTotals> {
    let local = |part: &Part<'_>, i: usize| {
        let domain = part.trace.facts.domains.get(SliceId(i as u32)).copied().unwrap_or_default();
        (part.trace.slices.name[i], domain, style(part))
    };
    let key = |part: &Part<'_>, &(name, domain, style): &(StringId, StringId, Option<RangeStyle>)| {
        let strings = &part.trace.strings;
        (strings.get(name).to_owned(), strings.get(domain).to_owned(), style)
    };
    let groups = once(scope, group(scope, |kind| kind == SliceKind::Annotation, local, key, false, |(), _, _| {}));
    let ranges = |index: usize| {
        let of_group = |(group, found): (u32, &Group<Key>)| {
            let instances = found.instances.iter().filter(|instance| instance.trace as usize == index);
            instances.map(|instance| (instance.slice, group)).collect::<Vec<_>>()
        };
        (0..).zip(&groups).flat_map(of_group).collect::<Vec<(SliceId, u32)>>()
    };
    let of_trace = |(index, trace): (usize, &&Trace)| {
        projected(trace, work.of_trace(index), &ranges(index), groups.len(), scope.is_cancelled)
    };
    let all: Vec<Vec<Projected>> = scope.traces.par_iter().enumerate().map(of_trace).collect();
    let totals = |(i, group): (usize, Group<Key>)| {
        let mut sums = Projected::default();
        all.iter().for_each(|of_trace| sums.add(&of_trace[i]));
        let (name, domain, style) = group.key;
        let Projected { projected_ns, work_ns, busy_ns, launches } = sums;
        let (durations, instances) = (group.durations, group.instances);
        AnnotationTotals { name, domain, style, durations, projected_ns, work_ns, busy_ns, launches, instances }
    };
    groups.into_iter().enumerate().map(totals).collect()
}

type Key = (String, String, Option<RangeStyle>);

/// How far apart two recorders of one host date the same moment at most.
const SAME_MOMENT: DurNs = 1_000_000;

/// Without the annotations of snapshots that a trace has as well: both record `record_function`, and begin at the same
/// time of day. Each of a trace stands for one of a snapshot. Cost: O(n log n).
fn once(scope: &Scope<'_>, mut groups: Vec<Group<Key>>) -> Vec<Group<Key>> {
    let is_snapshot = |index: u32| scope.traces[index as usize].info.format == Format::Snapshot;
    let starts = |of: &Group<Key>, of_snapshots: bool| {
        let utc = |instance: &Instance| {
            let trace = scope.traces[instance.trace as usize];
            let offset = trace.info.utc_offset_ns?;
            let start = trace.slices.ts[instance.slice.idx()].saturating_add(offset);
            (is_snapshot(instance.trace) == of_snapshots).then_some((start, *instance))
        };
        let mut found: Vec<(TimeNs, Instance)> = of.instances.iter().filter_map(utc).collect();
        found.sort_by_key(|found| found.0);
        found
    };
    let is_other = |a: &Instance, b: &Instance| {
        let [a, b] = [a, b].map(|instance| scope.traces[instance.trace as usize].info.rank);
        a.zip(b).is_some_and(|(a, b)| a != b)
    };
    for group in &mut groups {
        let snapshots = starts(group, true);
        if snapshots.is_empty() {
            continue;
        }
        let of_traces = starts(group, false);
        let mut is_taken = vec![false; of_traces.len()];
        let mut repeated: HashSet<(u32, SliceId)> = HashSet::new();
        for (start, instance) in snapshots {
            let first = of_traces.partition_point(|&(at, _)| at < start.saturating_sub(SAME_MOMENT));
            let mut near =
                (first..of_traces.len()).take_while(|&i| of_traces[i].0 <= start.saturating_add(SAME_MOMENT));
            if let Some(i) = near.find(|&i| !is_taken[i] && !is_other(&instance, &of_traces[i].1)) {
                is_taken[i] = true;
                repeated.insert((instance.trace, instance.slice));
            }
        }
        if !repeated.is_empty() {
            group.instances.retain(|instance| !repeated.contains(&(instance.trace, instance.slice)));
            group.durations = durations(scope.traces, &group.instances);
        }
    }
    groups.sort_by(|a, b| (b.durations.total_ns, &a.key).cmp(&(a.durations.total_ns, &b.key)));
    groups
}

fn style(part: &Part<'_>) -> Option<RangeStyle> {
    let is_nvtx = part.trace.info.format == Format::Nsys;
    is_nvtx.then(|| match part.trace.track(part.track).kind {
        TrackKind::Async => RangeStyle::StartEnd,
        _ => RangeStyle::PushPop,
    })
}

/// Sums of projections.
#[derive(Clone, Copy, Debug, Default)]
struct Projected {
    projected_ns: DurNs,
    work_ns: DurNs,
    busy_ns: DurNs,
    launches: u64,
}

impl Projected {
    fn add(&mut self, other: &Self) {
        self.projected_ns = self.projected_ns.saturating_add(other.projected_ns);
        self.work_ns = self.work_ns.saturating_add(other.work_ns);
        self.busy_ns = self.busy_ns.saturating_add(other.busy_ns);
        self.launches += other.launches;
    }
}

impl From<Projection> for Projected {
    fn from(Projection { time, work_ns, busy_ns, launches }: Projection) -> Self {
        Self { projected_ns: time.dur(), work_ns, busy_ns, launches }
    }
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
                spans.extend(trace.launches(call).map(|work| trace.slices.time(work)));
            }
        }
    }
    (!spans.is_empty()).then(|| Projection::of(&mut spans))
}

/// The sums of the projections of the ranges of each group.
///
/// * `ranges`: each with its group, of which there are `n_groups`.
fn projected(
    trace: &Trace,
    work: &[(TrackId, Vec<Launched>)],
    ranges: &[(SliceId, u32)],
    n_groups: usize,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Vec<Projected> {
    let mut sums = vec![Projected::default(); n_groups];
    if ranges.is_empty() {
        return sums;
    }
    let mut by_track: BTreeMap<TrackId, Vec<(SliceId, u32)>> = BTreeMap::new();
    for &range in ranges {
        by_track.entry(trace.slices.track_of(range.0)).or_default().push(range);
    }
    let of_thread = |(track, work): &(TrackId, Vec<Launched>)| {
        // Not one for each group: there may be as many groups as threads.
        let mut sums: HashMap<u32, Projected> = HashMap::new();
        let ranges = by_track.get(track).map_or(&[][..], Vec::as_slice);
        project(trace, work, ranges, &mut |group, projection| {
            sums.entry(group).or_default().add(&projection.into());
        });
        sums
    };
    let found: Vec<_> = work.par_iter().filter(|_| !is_cancelled()).map(of_thread).collect();
    for of_thread in found {
        of_thread.iter().for_each(|(&group, other)| sums[group as usize].add(other));
    }
    sums
}

/// Projects the ranges of a thread, each with its group; those without device work are left out.
///
/// * `work`: all that the thread launched.
fn project(trace: &Trace, work: &[Launched], ranges: &[(SliceId, u32)], add: &mut dyn FnMut(u32, Projection)) {
    let slices = &trace.slices;
    // The ranges of a group are in order, row by row.
    let mut near = 0;
    let mut launched_before = |ts: TimeNs| {
        near = partition_near(work, near, |work| slices.ts[work.call.idx()] < ts);
        near as u32
    };
    let mut launches = |&(range, group): &(SliceId, u32)| {
        let TimeRange { start, end } = slices.time(range);
        (launched_before(start)..launched_before(end), group)
    };
    let mut wanted: Vec<(Range<u32>, u32)> = ranges.iter().map(&mut launches).collect();
    wanted.retain(|(work, _)| !work.is_empty());
    wanted.sort_unstable_by_key(|(work, _)| work.end);
    // Work between two borders is in the same ranges.
    let mut is_border = vec![false; work.len() + 1];
    wanted.iter().flat_map(|(work, _)| [work.start, work.end]).for_each(|border| is_border[border as usize] = true);
    let borders: Vec<u32> = (0..=work.len() as u32).filter(|&at| is_border[at as usize]).collect();
    drop(is_border);
    let of_piece = |piece: usize| {
        let work = &work[borders[piece] as usize..borders[piece + 1] as usize];
        work.iter().map(|launched| slices.time(launched.work))
    };
    let hull = |piece: usize| of_piece(piece).reduce(TimeRange::union).unwrap_or_default();
    let hulls: Vec<TimeRange> = (1..borders.len()).map(|piece| hull(piece - 1)).collect();
    let mut spans: Vec<TimeRange> = Vec::new();
    let shared = shared(&hulls, |piece, all| {
        spans.clear();
        spans.extend(of_piece(piece));
        unite(&mut spans);
        all.extend(spans.iter().map(|&span| (span, piece as u32)));
    });
    drop(hulls);
    // When the first span runs of each so many and all after them.
    const BATCH: usize = 1 << 10;
    let first = |spans: &[(TimeRange, u32)]| spans.iter().map(|(span, _)| span.start).min();
    let mut starts: Vec<TimeNs> = shared.chunks(BATCH).filter_map(first).collect();
    for i in (1..starts.len()).rev() {
        starts[i - 1] = starts[i - 1].min(starts[i]);
    }
    let mut sums = RecentSpans::new(borders.len());
    let (mut next, mut next_shared) = (0, 0);
    for (work, group) in wanted {
        let end = partition_near(&borders, next, |&border| border < work.end);
        while next < end {
            let rest = &shared[next_shared..];
            let rest = &rest[..partition_near(rest, 0, |(_, piece)| *piece as usize == next)];
            spans.clear();
            spans.extend(of_piece(next));
            sums.push(&Projection::of(&mut spans), rest.iter().map(|(span, _)| *span));
            let batch = next_shared / BATCH;
            next_shared += rest.len();
            if next_shared / BATCH > batch {
                sums.forget_before(starts.get(next_shared / BATCH).copied().unwrap_or(TimeNs::MAX));
            }
            next += 1;
        }
        // Most ranges hold few pieces.
        add(group, sums.since(partition_near(&borders, end, |&border| border < work.start)));
    }
}

/// The spans of pieces of work that overlap those of other pieces, by piece: few, where work runs in the order of its
/// launch.
///
/// * `hulls`: from the first start to the last end of each piece.
/// * `add_spans`: appends the spans of a piece, disjoint and ascending.
/// * Cost: O(n log n) for n spans, and memory for those of pieces that run among one another.
fn shared(hulls: &[TimeRange], mut add_spans: impl FnMut(usize, &mut Vec<(TimeRange, u32)>)) -> Vec<(TimeRange, u32)> {
    let mut order: Vec<u32> = (0..hulls.len() as u32).collect();
    order.sort_unstable_by_key(|&i| hulls[i as usize].start);
    let mut out: Vec<(TimeRange, u32)> = Vec::new();
    let mut all: Vec<(TimeRange, u32)> = Vec::new();
    let mut from = 0;
    while from < order.len() {
        // Pieces that run among one another.
        let mut to = from + 1;
        let mut reach = hulls[order[from] as usize].end;
        while let Some(&next) = order.get(to).filter(|&&next| hulls[next as usize].start < reach) {
            reach = reach.max(hulls[next as usize].end);
            to += 1;
        }
        if to - from > 1 {
            all.clear();
            order[from..to].iter().for_each(|&piece| add_spans(piece as usize, &mut all));
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

    fn of(traces: &[&Trace]) -> Vec<AnnotationTotals> {
        annotations(&Scope::whole(traces), &WorkOfThreads::of(traces))
    }

    #[test]
    fn what_a_snapshot_repeats_of_a_trace_counts_once() {
        let trace = |format, offset, rank, starts: &[TimeNs]| {
            let slices: Vec<_> = starts.iter().map(|&at| ("main", NOTE, "forward", at, at + 4_000_000)).collect();
            let mut builder = TraceBuilder::from_slices(&slices);
            builder.info.format = format;
            builder.info.utc_offset_ns = offset;
            builder.info.rank = rank;
            builder.finish()
        };
        const MS: TimeNs = 1_000_000;
        let starts: Vec<TimeNs> = (0..12).map(|step| 10 * MS * step).collect();
        let count = |snapshot_offset, rank| {
            // The profiler ran for six of the twelve steps, and dates them by half a millisecond later.
            let profile = trace(Format::ChromeTrace, Some(MS / 2), Some(3), &starts[4..10]);
            let snapshot = trace(Format::Snapshot, snapshot_offset, rank, &starts);
            let rows = of(&[&profile, &snapshot]);
            (rows[0].durations.calls, rows[0].durations.total_ns / (4 * MS), rows[0].instances.len())
        };
        assert_eq!([count(Some(0), None), count(Some(0), Some(3))], [(12, 12, 12); 2]);
        assert_eq!(count(Some(0), Some(1)), (18, 18, 18), "another rank");
        assert_eq!(count(Some(3 * MS), None), (18, 18, 18), "other moments");
        assert_eq!(count(None, None), (18, 18, 18), "no common clock");
    }

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
        let rows = of(&[&trace]);
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
        let row = &of(&[&trace])[0];
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
            for row in of(&[&trace]) {
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
