//! Slices in a time range, summed by track and by name.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use hashbrown::HashMap;
use rayon::prelude::*;

use super::host_roles::{Waiting, Waits, waits};
use super::totals::running_in;
use crate::model::time::{length, unite};
use crate::model::{
    DurNs, ON_CPU, SliceId, SliceKind, SliceTable, StringId, TimeNs, TimeRange, Trace, TrackId, TrackKind,
};

/// Totals of one track in the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackSummary {
    pub track: TrackId,
    /// Slices that overlap the range, or have zero length and lie in it.
    pub count: u64,
    /// Time within the range in which at least one of them ran.
    pub total_ns: DurNs,
    /// The same of their whole durations, also outside of the range.
    pub full_ns: DurNs,
    /// Sum of their times within the range without the slices inside; of a thread its `total_ns`.
    pub self_ns: DurNs,
    /// Time within the range in which at least one slice ran; on a stream, in which the device
    /// worked: an annotation there spans idle time too.
    pub busy_ns: DurNs,
}

/// Totals of all slices with one name and kind in the range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameSummary {
    pub name: String,
    pub kind: SliceKind,
    pub count: u64,
    /// Sum of their durations within the range; of each thread, the time in which at least one of them ran.
    pub total_ns: DurNs,
    /// The same of their whole durations, also outside of the range.
    pub full_ns: DurNs,
    /// Sum of their times within the range without the slices inside.
    pub self_ns: DurNs,
    /// Of that, what is of slices whose end was not recorded: those are taken to last to the end of the trace.
    pub endless_ns: DurNs,
    /// Of the self time, what is of slices that only wait.
    pub waits_ns: DurNs,
    /// The longest of their times within the range.
    pub max_ns: DurNs,
}

/// The summary of one trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSummary {
    /// Tracks on which anything ran, in the trace's order.
    pub tracks: Vec<TrackSummary>,
    /// Sorted by total, descending, then name. Without the times at which threads ran on CPUs.
    pub names: Vec<NameSummary>,
}

type Key = (SliceKind, StringId);

#[derive(Clone, Copy, Default)]
struct NameSums {
    count: u64,
    total_ns: DurNs,
    full_ns: DurNs,
    self_ns: DurNs,
    endless_ns: DurNs,
    waits_ns: DurNs,
    max_ns: DurNs,
    /// Once it is known.
    waits: Option<Waits>,
}

/// Sums the slices in `range`, given in trace time, in nanoseconds.
///
/// * A thread runs one thing at a time: each moment is self time of its innermost slice, also where slices cross, so
///   that they sum to its busy time. On streams and other tracks, slices that cross run side by side: each of them
///   is taken as having nothing inside.
/// * So a call within another of the same name on its thread adds to their count, not to their time.
/// * `is_cancelled` is checked before each track; once it is true the result is incomplete.
/// * Cost: O(n log k) for n slices in the range on k rows of their track, tracks in parallel; O(n log n) for those of a
///   thread of which some cross.
pub fn range_summary(trace: &Trace, range: TimeRange, is_cancelled: &(dyn Fn() -> bool + Sync)) -> RangeSummary {
    let tracks: Vec<TrackId> = (0..trace.tracks.len() as u32).map(TrackId).collect();
    summary_of(trace, &tracks, range, is_cancelled)
}

/// The same of some tracks, in their order.
pub fn summary_of(
    trace: &Trace,
    tracks: &[TrackId],
    range: TimeRange,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> RangeSummary {
    let waiting = Waiting::of(trace);
    let of_track = |&track: &TrackId| {
        let is_wanted = !is_cancelled() && !trace.rows(track).is_empty();
        is_wanted.then(|| summarize_track(trace, track, range, &waiting))
    };
    let parts: Vec<_> = tracks.par_iter().filter_map(of_track).collect();
    let mut tracks = Vec::new();
    let mut by_name: HashMap<Key, NameSums> = HashMap::new();
    for (summary, names) in parts {
        if summary.count > 0 {
            tracks.push(summary);
        }
        // When a thread ran on which CPU has no name of what it ran.
        for (key, part) in names.into_iter().filter(|_| !trace.track(summary.track).name.ends_with(ON_CPU)) {
            let sums = by_name.entry(key).or_default();
            sums.count += part.count;
            sums.total_ns = sums.total_ns.saturating_add(part.total_ns);
            sums.full_ns = sums.full_ns.saturating_add(part.full_ns);
            sums.self_ns = sums.self_ns.saturating_add(part.self_ns);
            sums.endless_ns = sums.endless_ns.saturating_add(part.endless_ns);
            sums.waits_ns = sums.waits_ns.saturating_add(part.waits_ns);
            sums.max_ns = sums.max_ns.max(part.max_ns);
        }
    }
    let name = |((kind, name), sums): (Key, NameSums)| NameSummary {
        name: trace.strings.get(name).to_owned(),
        kind,
        count: sums.count,
        total_ns: sums.total_ns,
        full_ns: sums.full_ns,
        self_ns: sums.self_ns,
        endless_ns: sums.endless_ns,
        waits_ns: sums.waits_ns,
        max_ns: sums.max_ns,
    };
    let mut names: Vec<NameSummary> = by_name.into_iter().map(name).collect();
    sort_names(&mut names);
    RangeSummary { tracks, names }
}

/// Merges the names of several traces, sorted as in [`RangeSummary::names`]. Cost: O(n log n) for n names.
pub fn join_names(parts: impl Iterator<Item = Vec<NameSummary>>) -> Vec<NameSummary> {
    let mut all: Vec<NameSummary> = Vec::new();
    let mut known: HashMap<(SliceKind, String), usize> = HashMap::new();
    for part in parts.flatten() {
        match known.get(&(part.kind, part.name.clone())).and_then(|&i| all.get_mut(i)) {
            Some(sums) => {
                sums.count += part.count;
                sums.total_ns = sums.total_ns.saturating_add(part.total_ns);
                sums.full_ns = sums.full_ns.saturating_add(part.full_ns);
                sums.self_ns = sums.self_ns.saturating_add(part.self_ns);
                sums.endless_ns = sums.endless_ns.saturating_add(part.endless_ns);
                sums.waits_ns = sums.waits_ns.saturating_add(part.waits_ns);
                sums.max_ns = sums.max_ns.max(part.max_ns);
            }
            None => {
                known.insert((part.kind, part.name.clone()), all.len());
                all.push(part);
            }
        }
    }
    sort_names(&mut all);
    all
}

fn sort_names(names: &mut [NameSummary]) {
    names.par_sort_by(|a, b| (b.total_ns, &a.name, a.kind).cmp(&(a.total_ns, &b.name, b.kind)));
}

fn summarize_track(
    trace: &Trace,
    track: TrackId,
    range: TimeRange,
    waiting: &Waiting<'_>,
) -> (TrackSummary, HashMap<Key, NameSums>) {
    let slices = &trace.slices;
    let rows = trace.rows(track);
    let first_row = trace.track_rows[track.0 as usize].start as usize;
    let mut summary = TrackSummary { track, ..Default::default() };
    let mut names: HashMap<Key, NameSums> = HashMap::new();
    let kind = trace.track(track).kind;
    let windows: Vec<_> = rows.iter().map(|row| running_in(slices, row, range)).collect();
    let is_crossed = rows.iter().any(|row| row.is_overflow);
    let own = if is_crossed && kind == TrackKind::Thread {
        innermost_times(slices, &windows, range)
    } else {
        let of_row = |(i, window): (usize, &Range<usize>)| slices.self_times(first_row + i, window.clone(), range);
        windows.iter().enumerate().flat_map(of_row).collect()
    };
    let tops = || rows.iter().zip(&windows).filter(|(row, _)| row.depth == 0 || row.is_overflow);
    let tops = || tops().flat_map(|(_, window)| window.clone());
    let clipped = |slice| slices.clipped(slice, range);
    summary.total_ns = union(tops().map(clipped));
    summary.full_ns = union(tops().map(|slice| slices.time(SliceId(slice as u32))));
    summary.busy_ns = if kind == TrackKind::Stream {
        let all = windows.iter().cloned().flatten();
        union(all.filter(|&slice| slices.kind[slice].is_device_work()).map(clipped))
    } else {
        summary.total_ns
    };
    let mut all: Vec<(usize, DurNs)> = windows.into_iter().flatten().zip(own).collect();
    if kind == TrackKind::Thread {
        all.sort_by_key(|&(slice, _)| slices.ts[slice]);
    }
    // Of a thread: until when the slices of each name ran so far.
    let mut ran_until: HashMap<Key, TimeNs> = HashMap::new();
    for (slice, own) in all {
        let key = (slices.kind[slice], slices.name[slice]);
        let mut time = slices.time(SliceId(slice as u32));
        if kind == TrackKind::Thread {
            let until = ran_until.entry(key).or_insert(TimeNs::MIN);
            time.start = time.start.max(*until).min(time.end);
            *until = time.end.max(*until);
        }
        let start = time.start.max(range.start);
        let part = TimeRange { start, end: time.end.min(range.end).max(start) };
        summary.count += 1;
        summary.self_ns = summary.self_ns.saturating_add(own);
        let sums = names.entry(key).or_default();
        sums.count += 1;
        sums.total_ns = sums.total_ns.saturating_add(part.dur());
        sums.full_ns = sums.full_ns.saturating_add(time.dur());
        sums.self_ns = sums.self_ns.saturating_add(own);
        if slices.unfinished.binary_search(&SliceId(slice as u32)).is_ok() {
            sums.endless_ns = sums.endless_ns.saturating_add(own);
        }
        let waits = *sums.waits.get_or_insert_with(|| waits(key.0, trace.strings.get(key.1)));
        if waiting.is_wait(SliceId(slice as u32), waits) {
            sums.waits_ns = sums.waits_ns.saturating_add(own);
        }
        sums.max_ns = sums.max_ns.max(clipped(slice).dur());
    }
    (summary, names)
}

/// Time in which at least one of `spans` runs, in nanoseconds.
fn union(spans: impl Iterator<Item = TimeRange>) -> DurNs {
    let mut spans: Vec<TimeRange> = spans.collect();
    unite(&mut spans);
    length(&spans)
}

/// Time within `range` in which each slice was the innermost that ran: of those running, the one that started last.
///
/// * `windows`: the slices of each row that run in `range`; the result is in their order.
/// * Cost: O(n log n) for n slices.
fn innermost_times(slices: &SliceTable, windows: &[Range<usize>], range: TimeRange) -> Vec<DurNs> {
    let all = windows.iter().cloned().flatten().enumerate();
    // From outer to inner.
    let mut order: Vec<_> = all.map(|(at, i)| (slices.ts[i], Reverse(slices.end[i]), at)).collect();
    order.par_sort_unstable();
    let mut own: Vec<DurNs> = vec![0; order.len()];
    let (mut now, mut running) = (range.start, BinaryHeap::new());
    let mut run_until = |until: TimeNs, running: &mut BinaryHeap<usize>| {
        while let Some(&inner) = running.peek() {
            let (_, Reverse(end), at) = order[inner];
            let to = end.min(until).max(now);
            own[at] += to - now;
            now = to;
            if end > until {
                break;
            }
            running.pop();
        }
        now = now.max(until);
    };
    for (next, &(start, ..)) in order.iter().enumerate() {
        run_until(start.clamp(range.start, range.end), &mut running);
        running.push(next);
    }
    run_until(range.end, &mut running);
    own
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TraceBuilder;

    const OP: SliceKind = SliceKind::Operator;

    #[test]
    fn parts_outside_the_range_do_not_count() {
        let trace = TraceBuilder::from_slices(&[
            ("main", OP, "outer", 0, 100),
            ("main", OP, "inner", 40, 60),
            ("main", OP, "later", 200, 300),
            ("stream 7", SliceKind::Kernel, "gemm", 10, 50),
        ])
        .finish();
        let summary = range_summary(&trace, TimeRange { start: 50, end: 200 }, &|| false);
        let main = TrackSummary { track: TrackId(0), count: 2, total_ns: 50, full_ns: 100, self_ns: 50, busy_ns: 50 };
        assert_eq!(summary.tracks, [main]);
        let names: Vec<_> =
            summary.names.iter().map(|n| (n.name.as_str(), n.count, n.total_ns, n.full_ns, n.self_ns)).collect();
        assert_eq!(names, [("outer", 1, 50, 100, 40), ("inner", 1, 10, 20, 10)]);
        assert!(summary.names.iter().all(|name| name.max_ns == name.total_ns), "of one call each");
    }

    #[test]
    fn calls_inside_others_of_the_same_name_count_without_their_time() {
        let trace = TraceBuilder::from_slices(&[
            ("main", OP, "visit", 0, 100),
            ("main", OP, "other", 10, 90),
            ("main", OP, "visit", 20, 80),
            ("main", OP, "visit", 30, 40),
            ("main", OP, "visit", 200, 300),
            ("second", OP, "visit", 0, 100),
        ])
        .finish();
        let summary = range_summary(&trace, TimeRange { start: 50, end: 250 }, &|| false);
        let names: Vec<_> =
            summary.names.iter().map(|n| (n.name.as_str(), n.count, n.total_ns, n.full_ns, n.self_ns)).collect();
        assert_eq!(names, [("visit", 4, 150, 300, 140), ("other", 1, 40, 80, 10)]);
        let tracks: Vec<_> = summary.tracks.iter().map(|t| (t.count, t.total_ns, t.full_ns, t.self_ns)).collect();
        assert_eq!(tracks, [(4, 100, 200, 100), (1, 50, 100, 50)]);
    }

    #[test]
    fn kernels_side_by_side_on_a_stream_count_each() {
        let kernel = SliceKind::Kernel;
        let slices = [("stream 7", kernel, "gemm", 0, 60), ("stream 7", kernel, "gemm", 40, 100)];
        let summary =
            range_summary(&TraceBuilder::from_slices(&slices).finish(), TimeRange { start: 0, end: 100 }, &|| false);
        assert_eq!((summary.names[0].total_ns, summary.tracks[0].total_ns), (120, 100));
    }

    #[test]
    fn an_annotation_does_not_make_a_stream_busy() {
        let trace = TraceBuilder::from_slices(&[
            ("stream 7", SliceKind::GpuAnnotation, "step", 0, 100),
            ("stream 7", SliceKind::Kernel, "a", 10, 30),
            ("stream 7", SliceKind::Kernel, "b", 20, 60),
        ])
        .finish();
        let summary = range_summary(&trace, TimeRange { start: 0, end: 100 }, &|| false);
        assert_eq!(summary.tracks[0].busy_ns, 50);
    }

    #[test]
    fn names_of_several_traces_are_joined() {
        let part =
            |name: &str, total_ns| NameSummary { name: name.to_owned(), total_ns, count: 1, ..Default::default() };
        let all = join_names([vec![part("a", 5), part("b", 9)], vec![part("a", 7)]].into_iter());
        let all: Vec<_> = all.iter().map(|n| (n.name.as_str(), n.count, n.total_ns)).collect();
        assert_eq!(all, [("a", 2, 12), ("b", 1, 9)]);
    }

    #[test]
    fn self_time_of_a_thread_fits_into_a_range_inside_slices_that_cross() {
        let slices = [("main", OP, "a", 0, 60), ("main", OP, "b", 10, 80), ("main", OP, "c", 20, 100)];
        let trace = TraceBuilder::from_slices(&slices).finish();
        assert!(trace.rows(TrackId(0)).iter().any(|row| row.is_overflow));
        let own = |start, end| {
            let summary = range_summary(&trace, TimeRange { start, end }, &|| false);
            let mut names: Vec<_> = summary.names.iter().map(|n| (n.name.clone(), n.self_ns)).collect();
            names.sort();
            (summary.tracks[0].self_ns, names.iter().map(|name| name.1).collect::<Vec<_>>())
        };
        assert_eq!(own(30, 50), (20, vec![0, 0, 20]));
        assert_eq!(own(5, 90), (85, vec![5, 10, 70]));
    }

    /// Whether two slices have the same times: which of them is the inner one is open.
    fn has_equals(raw: &[(&str, SliceKind, &str, i64, i64)]) -> bool {
        raw.iter().enumerate().any(|(i, a)| raw[..i].iter().any(|b| (a.3, a.4) == (b.3, b.4)))
    }

    proptest! {
        #[test]
        fn sums_agree_with_counting_nanoseconds(
            work in prop::collection::vec((0_i64..120, 0_i64..50, 0_usize..3), 1..50),
            start in 0_i64..120, dur in 1_i64..80,
        ) {
            let names = ["x", "y", "z"];
            let raw: Vec<_> = work.iter().map(|&(ts, dur, n)| ("main", OP, names[n], ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&raw).finish();
            let range = TimeRange { start, end: start + dur };
            let summary = range_summary(&trace, range, &|| false);
            let inside: Vec<_> = raw.iter()
                .filter(|s| (s.3 < range.end && s.4 > range.start) || (s.3 == s.4 && range.contains(s.3)))
                .collect();
            let busy = (range.start..range.end).filter(|t| raw.iter().any(|s| s.3 <= *t && *t < s.4)).count();
            let track = summary.tracks.first().copied().unwrap_or_default();
            prop_assert_eq!((track.count, track.total_ns), (inside.len() as u64, busy as i64));
            prop_assert_eq!(track.busy_ns, busy as i64);
            let full = (0..200).filter(|&t| inside.iter().any(|s| s.3 <= t && t < s.4)).count();
            prop_assert_eq!(track.full_ns, full as i64);
            for name in &summary.names {
                let runs = |t: i64| inside.iter().any(|s| s.2 == name.name && s.3 <= t && t < s.4);
                let total = (range.start..range.end).filter(|&t| runs(t)).count();
                prop_assert_eq!((name.total_ns, name.full_ns), (total as i64, (0..200).filter(|&t| runs(t)).count() as i64));
            }
            prop_assert!(summary.names.iter().all(|n| n.self_ns >= 0 && n.self_ns <= n.total_ns));
            // Each moment is self time of one slice, however the slices cross.
            let innermost = |t: i64| raw.iter().filter(|s| s.3 <= t && t < s.4).max_by_key(|s| (s.3, -s.4));
            for name in summary.names.iter().filter(|_| !has_equals(&raw)) {
                let own = (range.start..range.end).filter(|&t| innermost(t).is_some_and(|s| s.2 == name.name)).count();
                prop_assert_eq!(name.self_ns, own as i64, "{}", name.name);
            }
            prop_assert_eq!((track.self_ns, summary.names.iter().map(|n| n.self_ns).sum()), (busy as i64, busy as i64));
        }
    }
}
