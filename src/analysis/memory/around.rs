//! The slices that were running at a given time, to relate memory events to the timeline.

use crate::model::{SliceId, TimeNs, TimeRange, Trace, TrackId, TrackKind};

/// Limit on the tracks searched, which bounds the cost for recordings with thousands of threads.
const MAX_TRACKS: usize = 512;

/// The innermost slice of each thread and stream at time `ts` in trace time; threads first.
///
/// Cost: O(rows · log slices) over at most 512 tracks.
pub fn running_at(trace: &Trace, ts: TimeNs) -> Vec<SliceId> {
    let of_kind = |kind| {
        let tracks = (0..trace.tracks.len() as u32).map(TrackId);
        tracks.filter(move |&track| trace.track(track).kind == kind).take(MAX_TRACKS)
    };
    of_kind(TrackKind::Thread)
        .chain(of_kind(TrackKind::Stream))
        .filter_map(|track| innermost(trace, track, ts))
        .collect()
}

fn innermost(trace: &Trace, track: TrackId, ts: TimeNs) -> Option<SliceId> {
    let moment = TimeRange { start: ts, end: ts.saturating_add(1) };
    let at = |row| {
        let window = trace.slices.window(row, moment);
        let is_there = |&slice: &usize| trace.slices.ts[slice] <= ts && ts < trace.slices.end[slice];
        window.rev().find(is_there).map(|slice| SliceId(slice as u32))
    };
    // Of two slices that contain `ts`, the later one is nested inside.
    trace.rows(track).iter().filter_map(at).max_by_key(|slice| trace.slices.ts[slice.idx()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn the_innermost_of_each_thread_is_found() {
        let trace = TraceBuilder::from_slices(&[
            ("main", SliceKind::Operator, "step", 0, 100),
            ("main", SliceKind::Operator, "linear", 10, 50),
            ("main", SliceKind::Operator, "empty", 20, 30),
            ("other", SliceKind::Operator, "load", 40, 60),
        ])
        .finish();
        let names = |ts| running_at(&trace, ts).into_iter().map(|slice| trace.slice_name(slice)).collect::<Vec<_>>();
        assert_eq!(names(25), ["empty"]);
        assert_eq!(names(30), ["linear"]);
        assert_eq!(names(45), ["linear", "load"]);
        assert_eq!(names(99), ["step"]);
        assert!(names(100).is_empty());
    }
}
