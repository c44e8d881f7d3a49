//! Counters: `C` events, and the totals of PyTorch's allocator.

use std::collections::HashMap;

use crate::model::{
    AllocationTable, CHANGE_SINCE_START, Counter, CounterUnit, ProcessId, StringId, TraceBuilder, Track, TrackId,
    TrackKind,
};

use super::assemble::{ProcessTracks, Thread};
use super::batch::{AllocatorEvent, CounterSample};

/// Counters from `C` events: one per process, name and series.
pub fn add_counters(
    samples: &[CounterSample],
    threads: &[Thread],
    builder: &TraceBuilder,
    process_tracks: &mut ProcessTracks,
) -> Vec<Counter> {
    let mut known: HashMap<(ProcessId, StringId, StringId), usize> = HashMap::new();
    let mut counters: Vec<Counter> = Vec::new();
    for sample in samples {
        let process = process_tracks.process(&threads[sample.track.0 as usize].pid);
        let index = *known.entry((process, sample.name, sample.series)).or_insert_with(|| {
            let [name, series] = [sample.name, sample.series].map(|id| builder.strings.get(id));
            let title = match (name, series) {
                (name, "" | "value") => name.to_owned(),
                ("", series) => series.to_owned(),
                (name, series) => format!("{name}: {series}"),
            };
            let track =
                process_tracks.add(Track { kind: TrackKind::Counter, process, name: title, ..Default::default() });
            counters.push(Counter { track, series: series.to_owned(), unit: sample.unit, ..Default::default() });
            counters.len() - 1
        });
        counters[index].ts.push(sample.ts);
        counters[index].value.push(sample.value);
    }
    counters
}

/// Counters from `[memory]` events, one per device and figure, and the events as allocations.
///
/// * `events`: sorted by time.
///
/// Recordings of 2021 have only the change: their counter is the sum of changes since the start, and is
/// named accordingly.
pub fn add_memory(
    events: &[AllocatorEvent],
    threads: &[Thread],
    track_ids: &[Option<TrackId>],
    process_tracks: &mut ProcessTracks,
    allocations: &mut AllocationTable,
) -> Vec<Counter> {
    let mut known: HashMap<(ProcessId, i64, i64, &str), (usize, i64)> = HashMap::new();
    let mut counters: Vec<Counter> = Vec::new();
    for event in events {
        let device = process_tracks
            .processes
            .iter()
            .position(|p| event.device_type != 0 && p.device.map(i64::from) == Some(event.device_id));
        let process = match device {
            Some(index) => ProcessId(index as u32),
            None => process_tracks.process(&threads[event.track.0 as usize].pid),
        };
        let values = match (event.allocated, event.reserved) {
            (None, None) => [Some((CHANGE_SINCE_START, event.bytes)), None],
            (allocated, reserved) => {
                // The host's allocator of PyTorch reserves nothing, and says 0.
                let says_nothing = allocated.is_some() && event.device_type == 0;
                let reserved = reserved.filter(|&bytes| bytes != 0 || !says_nothing);
                [allocated.map(|bytes| ("allocated", bytes)), reserved.map(|bytes| ("reserved", bytes))]
            }
        };
        // A thread without other events has no track.
        let mut track = track_ids[event.track.0 as usize];
        for (series, value) in values.into_iter().flatten() {
            let key = (process, event.device_type, event.device_id, series);
            let entry = known.entry(key).or_insert_with(|| {
                let device = match event.device_type {
                    0 => "CPU".to_owned(),
                    _ => format!("GPU {}", event.device_id),
                };
                let name = format!("{device} memory {series}");
                let track = process_tracks.add(Track { kind: TrackKind::Counter, process, name, ..Default::default() });
                let unit = CounterUnit::Bytes;
                counters.push(Counter { track, series: series.to_owned(), unit, ..Default::default() });
                (counters.len() - 1, 0)
            });
            entry.1 = if series == CHANGE_SINCE_START { entry.1.saturating_add(value) } else { value };
            counters[entry.0].ts.push(event.ts);
            counters[entry.0].value.push(entry.1 as f64);
            track.get_or_insert(counters[entry.0].track);
        }
        allocations.push(event.ts, track.unwrap_or_default(), event.device(), event.bytes);
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::super::assemble::Assembly;
    use super::super::pipeline;
    use crate::job::Progress;

    #[test]
    fn allocations_of_both_forms_belong_to_their_threads() {
        let text = br#"[
            {"ph":"X","cat":"cpu_op","name":"aten::empty","pid":1,"tid":2,"ts":1,"dur":5},
            {"ph":"i","name":"[memory]","pid":1,"tid":2,"ts":4,"args":{"Device Type":0,"Device Id":-1,"Bytes":-64}},
            {"ph":"i","name":"[memory]","pid":1,"tid":2,"ts":2,"args":{"Device Type":1,"Device Id":3,"Bytes":512,
                "Total Allocated":512,"Total Reserved":2048}},
            {"ph":"i","name":"[memory]","pid":5,"tid":5,"ts":5,"args":{"Device Type":0,"Device Id":-1,"Bytes":64,
                "Total Allocated":64,"Total Reserved":0}},
            {"ph":"i","name":"[memory]","pid":1,"tid":9,"ts":3,"args":{"Device Type":0,"Device Id":-1,"Bytes":8}}
        ]"#;
        let mut assembly = Assembly::default();
        let _ = pipeline::read(&text[..], &Progress::default(), &mut assembly);
        let trace = assembly.finish(&Default::default()).finish();
        let all = &trace.allocations;
        assert_eq!(
            (&all.ts[..], &all.device[..], &all.bytes[..]),
            (&[2000, 3000, 4000, 5000][..], &[3, -1, -1, -1][..], &[512, 8, -64, 64][..])
        );
        let names: Vec<_> = all.track.iter().map(|&track| trace.track(track).name.as_str()).collect();
        // The second thread only allocated: its only track is that of the counter.
        assert_eq!(names, ["Thread 2", "CPU memory change since start", "Thread 2", "CPU memory allocated"]);
        assert_eq!((trace.import.read, trace.import.shown), (5, 5));
        let counters: Vec<_> = trace.counters.iter().map(|counter| counter.series.as_str()).collect();
        assert!(
            !counters[..].ends_with(&["reserved"]) && counters.len() == 4,
            "the host reserves nothing: {counters:?}"
        );
    }
}
