//! Slices in a time range, summed by track and by name.

use hashbrown::HashMap;
use rayon::prelude::*;

use super::totals::running_in;
use crate::model::time::{length, unite};
use crate::model::{DurNs, SliceKind, StringId, TimeRange, Trace, TrackId, TrackKind};

/// Totals of one track in the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackSummary {
    pub track: TrackId,
    /// Slices that overlap the range, or have zero length and lie in it.
    pub count: u64,
    /// Sum of their durations within the range; nested slices count twice.
    pub total_ns: DurNs,
    /// The same without the time of slices directly inside.
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
    /// Sum of their durations within the range.
    pub total_ns: DurNs,
    /// The same without the time of slices directly inside.
    pub self_ns: DurNs,
}

/// The summary of one trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSummary {
    /// Tracks on which anything ran, in the trace's order.
    pub tracks: Vec<TrackSummary>,
    /// Sorted by total, descending, then name.
    pub names: Vec<NameSummary>,
}

type Key = (SliceKind, StringId);

#[derive(Clone, Copy, Default)]
struct NameSums {
    count: u64,
    total_ns: DurNs,
    self_ns: DurNs,
}

/// Sums the slices in `range`, given in trace time, in nanoseconds.
///
/// * The self times of a track's nested slices sum to the time in which its top row was busy,
///   exactly; slices that cross others are taken as having nothing inside.
/// * `is_cancelled` is checked before each track; once it is true the result is incomplete.
/// * Cost: O(slices in the range), tracks in parallel.
pub fn range_summary(trace: &Trace, range: TimeRange, is_cancelled: &(dyn Fn() -> bool + Sync)) -> RangeSummary {
    let of_track = |track: usize| {
        let track = TrackId(track as u32);
        let is_wanted = !is_cancelled() && !trace.rows(track).is_empty();
        is_wanted.then(|| summarize_track(trace, track, range))
    };
    let parts: Vec<_> = (0..trace.tracks.len()).into_par_iter().filter_map(of_track).collect();
    let mut tracks = Vec::new();
    let mut by_name: HashMap<Key, NameSums> = HashMap::new();
    for (summary, names) in parts {
        if summary.count > 0 {
            tracks.push(summary);
        }
        for (key, part) in names {
            let sums = by_name.entry(key).or_default();
            sums.count += part.count;
            sums.total_ns = sums.total_ns.saturating_add(part.total_ns);
            sums.self_ns = sums.self_ns.saturating_add(part.self_ns);
        }
    }
    let name = |((kind, name), NameSums { count, total_ns, self_ns }): (Key, NameSums)| NameSummary {
        name: trace.strings.get(name).to_owned(),
        kind,
        count,
        total_ns,
        self_ns,
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
                sums.self_ns = sums.self_ns.saturating_add(part.self_ns);
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

fn summarize_track(trace: &Trace, track: TrackId, range: TimeRange) -> (TrackSummary, HashMap<Key, NameSums>) {
    let slices = &trace.slices;
    let rows = trace.rows(track);
    let first_row = trace.track_rows[track.0 as usize].start as usize;
    let mut summary = TrackSummary { track, ..Default::default() };
    let mut names: HashMap<Key, NameSums> = HashMap::new();
    let mut spans: Vec<TimeRange> = Vec::new();
    let is_stream = trace.track(track).kind == TrackKind::Stream;
    for (i, row) in rows.iter().enumerate() {
        let window = running_in(slices, row, range);
        let own = slices.self_times(first_row + i, window.clone(), range);
        for (slice, own) in window.zip(own) {
            let part = slices.clipped(slice, range);
            summary.count += 1;
            summary.total_ns = summary.total_ns.saturating_add(part.dur());
            summary.self_ns = summary.self_ns.saturating_add(own);
            let sums = names.entry((slices.kind[slice], slices.name[slice])).or_default();
            sums.count += 1;
            sums.total_ns = sums.total_ns.saturating_add(part.dur());
            sums.self_ns = sums.self_ns.saturating_add(own);
            let is_top = row.depth == 0 || row.is_overflow;
            if if is_stream { slices.kind[slice].is_device_work() } else { is_top } {
                spans.push(part);
            }
        }
    }
    unite(&mut spans);
    summary.busy_ns = length(&spans);
    (summary, names)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Row, TraceBuilder};

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
        let main = TrackSummary { track: TrackId(0), count: 2, total_ns: 60, self_ns: 50, busy_ns: 50 };
        assert_eq!(summary.tracks, [main]);
        let names: Vec<_> = summary.names.iter().map(|n| (n.name.as_str(), n.count, n.total_ns, n.self_ns)).collect();
        assert_eq!(names, [("outer", 1, 50, 40), ("inner", 1, 10, 10)]);
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
            let total: i64 = inside.iter().map(|s| s.4.min(range.end) - s.3.max(range.start)).sum();
            let track = summary.tracks.first().copied().unwrap_or_default();
            prop_assert_eq!((track.count, track.total_ns, track.busy_ns), (inside.len() as u64, total, busy as i64));
            prop_assert_eq!(summary.names.iter().map(|n| n.total_ns).sum::<i64>(), total);
            prop_assert!(summary.names.iter().all(|n| n.self_ns >= 0 && n.self_ns <= n.total_ns));
            // Each nested level's time is taken off the level above, so what is left is the union
            // of the top row, and all of the rows that cross.
            let part = |row: &Row| -> i64 {
                row.range().map(|i| trace.slices.clipped(i, range).dur()).sum()
            };
            let own: i64 = trace.rows(TrackId(0)).iter().filter(|r| r.depth == 0 || r.is_overflow).map(part).sum();
            prop_assert_eq!(summary.names.iter().map(|n| n.self_ns).sum::<i64>(), own);
        }
    }
}
