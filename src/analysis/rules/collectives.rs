//! Small collectives: their time is latency, which a few large ones would have only a few times.

use hashbrown::HashSet;

use crate::analysis::busy::DeviceBusy;
use crate::analysis::collectives::{CollectiveKernels, bytes_of};
use crate::model::time::{length_within, unite};
use crate::model::{DurNs, SliceId, SliceKind, TimeRange, Trace, TrackId};

/// A collective that takes longer, in nanoseconds, transfers data or waits for other ranks: NCCL needs 10 to 30 µs for
/// any.
const SHORT: DurNs = 50_000;
/// One that moves more bytes is not small however fast it is. NCCL's protocol for small messages ends there.
const SMALL: u64 = 256 << 10;

/// The collectives of a device that start in a window, take at most [`SHORT`], and move at most [`SMALL`] as far as
/// that is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmallCollectives {
    pub count: u64,
    /// Sum of their durations in nanoseconds.
    pub total_ns: DurNs,
    /// Sum of the bytes that they move; `None` unless recorded for all.
    pub bytes: Option<u64>,
    /// Of their time, that without compute.
    pub exposed_ns: DurNs,
    pub longest: Option<TimeRange>,
}

impl SmallCollectives {
    /// With the collectives themselves. Cost: O(slices of the device + c log n) for c collectives.
    pub fn of(trace: &Trace, busy: &DeviceBusy, window: TimeRange) -> (Self, HashSet<SliceId>) {
        let (mut out, mut all) = (Self { bytes: Some(0), ..Self::default() }, HashSet::new());
        if busy.comm.is_empty() {
            return (Self::default(), all);
        }
        let (mut collectives, mut spans) = (CollectiveKernels::new(trace), Vec::new());
        let slices = &trace.slices;
        let tracks = (0..trace.tracks.len() as u32).map(TrackId);
        let tracks = tracks.filter(|&track| trace.track(track).process == busy.process);
        for kernel in tracks.flat_map(|track| trace.track_slices(track)).map(|i| SliceId(i as u32)) {
            let time = slices.time(kernel);
            let is_short = slices.kind[kernel.idx()] == SliceKind::Kernel && time.dur() <= SHORT;
            if !is_short || !window.contains(time.start) || !collectives.contains(kernel) {
                continue;
            }
            let bytes = bytes_of(trace, kernel);
            if bytes.is_none_or(|bytes| bytes <= SMALL) {
                out.count += 1;
                out.total_ns += time.dur();
                out.bytes = out.bytes.zip(bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
                out.longest = out.longest.into_iter().chain([time]).max_by_key(|time| time.dur());
                spans.push(time);
                all.insert(kernel);
            }
        }
        unite(&mut spans);
        out.exposed_ns = spans.iter().map(|&span| length_within(&busy.exposed_comm, span)).sum();
        (out, all)
    }
}
