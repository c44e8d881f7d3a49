//! Waits of streams for events recorded on others.

use std::cell::Cell;

use hashbrown::HashMap;

use super::scenes::Scene;
use crate::model::time::partition_near;
use crate::model::{CopyKind, DurNs, ProcessId, Row, SliceId, StringId, SyncKind, TimeNs, Trace, TrackId, TrackKind};

/// More rows of devices are not looked at for what work of another one waited for.
const MOST_ROWS: usize = 256;

/// A wait of a stream for an event.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// When the call was made.
    ts: TimeNs,
    /// The stream on which the event was recorded, and the call that did.
    event_stream: u32,
    record: u32,
}

/// The recorded waits of a trace (`cudaStreamWaitEvent`) with the events that they waited for.
#[derive(Debug, Default)]
pub struct Waits {
    /// By (device, waiting stream), ascending in time.
    by_stream: HashMap<(Option<u32>, u32), Vec<Wait>>,
    /// The calls that make a stream wait, of each thread, ascending in time. Few recordings have more than these.
    calls: HashMap<TrackId, Vec<TimeNs>>,
    /// Streams by their id; several devices may use the same.
    streams: HashMap<u32, Vec<TrackId>>,
    /// The processes of devices and indices of their rows, where there are several devices; [`MOST_ROWS`] at most.
    rows: Vec<(ProcessId, usize)>,
}

impl Waits {
    /// Cost: O(m + n log n) for m slices and n recorded synchronizations.
    pub fn new(trace: &Trace) -> Self {
        let mut out = Self { calls: wait_calls(trace), rows: rows_of_devices(trace), ..Self::default() };
        for (slice, sync) in trace.facts.syncs.iter().filter(|(_, sync)| sync.kind == SyncKind::StreamWait) {
            let (Some(stream), Some(event_stream)) = (sync.stream, sync.event_stream) else { continue };
            let device = trace.process(trace.track(trace.slices.track_of(slice)).process).device;
            let call = trace.launch_of(slice).unwrap_or(slice);
            let wait = Wait { ts: trace.slices.ts[call.idx()], event_stream, record: sync.event_record };
            out.by_stream.entry((device, stream)).or_default().push(wait);
        }
        if out.by_stream.is_empty() {
            return out;
        }
        out.by_stream.values_mut().for_each(|waits| waits.sort_by_key(|wait| wait.ts));
        for (i, track) in trace.tracks.iter().enumerate().filter(|(_, track)| track.kind == TrackKind::Stream) {
            if let Some(id) = stream_id(&track.tid) {
                out.streams.entry(id).or_default().push(TrackId(i as u32));
            }
        }
        out
    }

    /// Whether a stream was made to wait between two launches by the thread of the second.
    ///
    /// * `near`: where the last one was found, and then this one.
    pub fn is_called_between(&self, trace: &Trace, first: SliceId, second: SliceId, near: &Cell<usize>) -> bool {
        if self.calls.is_empty() {
            return false;
        }
        let slices = &trace.slices;
        let Some(calls) = self.calls.get(&slices.track_of(second)) else { return false };
        let next = partition_near(calls, near.get(), |&ts| ts < slices.ts[first.idx()]);
        near.set(next);
        calls.get(next).is_some_and(|&ts| ts < slices.ts[second.idx()])
    }

    /// The work for which the work after a gap waited, if a wait of its stream is recorded: the last that was
    /// launched on the other stream before the event was recorded there, if it ended in the gap or at its
    /// start.
    ///
    /// While it runs, its own device is not idle: so it ran on another device, or right before the gap.
    pub fn producer(&self, trace: &Trace, scene: &Scene) -> Option<SliceId> {
        let slices = &trace.slices;
        let launch = |work: SliceId| trace.launch_of(work).map(|call| slices.ts[call.idx()]);
        let track = trace.track(slices.track_of(scene.ended_by));
        let key = (trace.process(track.process).device, stream_id(&track.tid)?);
        let waits = self.by_stream.get(&key)?;
        // A wait before the work before it on the stream held up that.
        let from = scene.before_on_stream.and_then(launch).unwrap_or(TimeNs::MIN);
        let until = launch(scene.ended_by)?;
        let first = waits.partition_point(|wait| wait.ts < from);
        let waits = waits[first..].iter().take_while(|wait| wait.ts <= until);
        let producers = waits.flat_map(|wait| {
            let recorded = trace.correlations.slices(&slices.correlation, wait.record).first();
            let recorded = recorded.map_or(wait.ts, |call| slices.ts[call.idx()]);
            let streams = self.streams.get(&wait.event_stream).map_or(&[][..], Vec::as_slice);
            let launched_before = move |&work: &SliceId| launch(work).is_some_and(|ts| ts <= recorded);
            streams.iter().filter_map(move |&stream| {
                let rows = trace.rows(stream).iter();
                let last = rows.filter_map(|row| {
                    let range = row.range();
                    let ended = slices.end[range.clone()].partition_point(|&end| end <= scene.gap.end);
                    let work = (range.start..range.start + ended).rev().map(|i| SliceId(i as u32));
                    work.filter(|work| slices.kind[work.idx()].is_device_work()).find(launched_before)
                });
                last.max_by_key(|work| slices.end[work.idx()])
            })
        });
        producers
            .filter(|&work| slices.end[work.idx()] >= scene.gap.start && work != scene.ended_by)
            .max_by_key(|work| slices.end[work.idx()])
    }

    /// The same where no such wait is recorded, as far as times and calls tell: the last work of the same program on
    /// another device, if the work after the gap began right when it ended and was launched after it. It is a copy
    /// between devices, or a stream was made to wait between the two launches. Cost: O(log n) for each row of a device.
    ///
    /// * `latency`: within that of the end work begins that waited for it, in nanoseconds.
    pub fn producer_elsewhere(&self, trace: &Trace, scene: &Scene, latency: DurNs) -> Option<SliceId> {
        let (slices, call) = (&trace.slices, scene.call?);
        let process = |slice: SliceId| trace.track(slices.track_of(slice)).process;
        let own = process(scene.ended_by);
        let last = |&(_, row): &(ProcessId, usize)| {
            let range = slices.rows[row].range();
            let ended = slices.end[range.clone()].partition_point(|&end| end <= scene.gap.end);
            (range.start..range.start + ended).next_back().map(|i| SliceId(i as u32))
        };
        let others = self.rows.iter().filter(|row| row.0 != own).filter_map(last);
        let work = others.max_by_key(|work| slices.end[work.idx()])?;
        let launch = trace.launch_of(work).filter(|&launch| process(launch) == process(call))?;
        let end = slices.end[work.idx()];
        let is_in_time = end > scene.gap.start && scene.gap.end.saturating_sub(end) < latency;
        let is_before = slices.ts[launch.idx()] < slices.ts[call.idx()];
        let is_peer_copy = || trace.facts.copies.get(work).is_some_and(|copy| copy.kind == CopyKind::PtoP);
        let is_called = || self.is_called_between(trace, launch, call, &Cell::default());
        (is_in_time && is_before && (is_peer_copy() || is_called())).then_some(work)
    }
}

/// The rows of all devices with the process of each; none of a single one.
fn rows_of_devices(trace: &Trace) -> Vec<(ProcessId, usize)> {
    let of_row = |(row, of): (usize, &Row)| (trace.track(of.track).process, row);
    let rows = trace.slices.rows.iter().enumerate().map(of_row);
    let rows: Vec<_> = rows.filter(|of| trace.process(of.0).device.is_some()).take(MOST_ROWS).collect();
    if rows.iter().any(|of| of.0 != rows[0].0) { rows } else { Vec::new() }
}

/// The calls of each thread that make a stream wait for another. Cost: O(slices).
fn wait_calls(trace: &Trace) -> HashMap<TrackId, Vec<TimeNs>> {
    let slices = &trace.slices;
    let is_wait = |(_, name): (StringId, &str)| name.contains("StreamWaitEvent");
    let is_wait: Vec<bool> = trace.strings.iter().map(is_wait).collect();
    let mut calls: HashMap<TrackId, Vec<TimeNs>> = HashMap::new();
    if is_wait.contains(&true) {
        for i in (0..slices.len()).filter(|&i| is_wait[slices.name[i].0 as usize] && slices.kind[i].is_call()) {
            calls.entry(slices.track_of(SliceId(i as u32))).or_default().push(slices.ts[i]);
        }
        calls.values_mut().for_each(|calls| calls.sort_unstable());
    }
    calls
}

fn stream_id(tid: &str) -> Option<u32> {
    tid.trim_start_matches("stream ").parse().ok()
}
