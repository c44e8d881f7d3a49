//! Memory on the timeline: curves as counters, annotations as slices.

use super::MemoryHistory;
use crate::model::{
    Counter, CounterUnit, Process, ProcessId, RawSlice, RawSlices, SliceKind, TimeNs, Track, TrackId, TrackKind,
};

/// Adds a memory snapshot to the timeline as a separate process: allocated and reserved bytes as counters,
/// annotations as slices. Histories from other sources already have counters.
pub fn add_to_timeline(
    history: &MemoryHistory,
    processes: &mut Vec<Process>,
    tracks: &mut Vec<Track>,
    slices: &mut Vec<RawSlices>,
    counters: &mut Vec<Counter>,
) {
    let process = ProcessId(processes.len() as u32);
    processes.push(Process { name: history.title(), sort_index: i64::from(history.device), ..Process::default() });
    let mut add_track = |kind, name: &str, sort_index| {
        tracks.push(Track { kind, process, name: name.to_owned(), tid: String::new(), sort_index });
        TrackId(tracks.len() as u32 - 1)
    };
    if !history.annotations.is_empty() {
        let track = add_track(TrackKind::Thread, "annotations", 0);
        let mut part = RawSlices::default();
        for annotation in &history.annotations {
            part.push(RawSlice {
                ts: annotation.start,
                end: annotation.end.max(annotation.start),
                name: annotation.name,
                kind: SliceKind::Annotation,
                track,
                ..RawSlice::default()
            });
        }
        slices.push(part);
    }
    for (name, curve) in [("allocated", &history.curves.allocated), ("reserved", &history.curves.reserved)] {
        if curve.iter().all(|&bytes| bytes == 0) {
            continue;
        }
        let (ts, value) = steps(history, curve);
        let track = add_track(TrackKind::Counter, name, 1);
        counters.push(Counter { track, unit: CounterUnit::Bytes, ts, value, ..Counter::default() });
    }
}

/// The times at which a curve changes, and its values from there on.
fn steps(history: &MemoryHistory, curve: &[u64]) -> (Vec<TimeNs>, Vec<f64>) {
    let (mut ts, mut value) = (Vec::new(), Vec::new());
    let mut last = None;
    for (state, &bytes) in curve.iter().enumerate() {
        if last != Some(bytes) {
            ts.push(history.time_of(state as u32));
            value.push(bytes as f64);
            last = Some(bytes);
        }
    }
    (ts, value)
}
