//! Small collectives, whose time is latency that a few large ones would have only a few times, and what all transfer.

use hashbrown::HashSet;

use crate::analysis::busy::DeviceBusy;
use crate::analysis::collectives::{CollectiveKernels, Payload, bytes_of, payload_of};
use crate::model::time::{length_within, unite};
use crate::model::{DurNs, ProcessId, SliceId, SliceKind, TimeRange, Trace};

/// A collective that takes longer, in nanoseconds, transfers data or waits for other ranks: NCCL needs 10 to 30 µs for
/// any.
pub(super) const SHORT: DurNs = 50_000;
/// One that moves more bytes is not small however fast it is. NCCL's protocol for small messages ends there.
const SMALL: u64 = 256 << 10;

/// The collectives of a device that start in a window, take at most `SHORT`, and move at most `SMALL` as far as
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
        for (kernel, time) in kernels(trace, busy.process, window) {
            if time.dur() > SHORT || !collectives.contains(kernel) {
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

/// What the collectives of a device that start in a window transfer, as far as it is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfers {
    /// Time of those with a known type, in nanoseconds, and of those of them whose elements have at most 16 bits.
    typed_ns: DurNs,
    narrow_ns: DurNs,
    /// Time of those with a known size and number of ranks, and their bytes times the bus factor.
    sized_ns: DurNs,
    bus_bytes: f64,
    /// The same of those that were matched with other ranks, without the time in which they waited for these.
    matched_ns: DurNs,
    matched_bytes: f64,
    /// Time without compute in which data is sent from one rank to another.
    pub point_to_point_ns: DurNs,
}

impl Transfers {
    /// Cost: O(slices of the device).
    pub fn of(trace: &Trace, busy: &DeviceBusy, window: TimeRange) -> Self {
        let (mut out, mut collectives, mut sent) = (Self::default(), CollectiveKernels::new(trace), Vec::new());
        for (kernel, time) in kernels(trace, busy.process, window) {
            if !collectives.contains(kernel) {
                continue;
            }
            let Payload { element_bytes, bus_bytes, is_point_to_point } = payload_of(trace, kernel);
            sent.extend(is_point_to_point.then_some(time));
            if let Some(bytes) = element_bytes {
                out.typed_ns += time.dur();
                out.narrow_ns += if bytes <= 2 { time.dur() } else { 0 };
            }
            if let Some(bytes) = bus_bytes {
                out.sized_ns += time.dur();
                out.bus_bytes += bytes;
            }
        }
        unite(&mut sent);
        out.point_to_point_ns = sent.iter().map(|&span| length_within(&busy.exposed_comm, span)).sum();
        out
    }

    /// Whether most of their time is of elements of at most 16 bits, such as `BFloat16`.
    pub fn is_narrow(&self) -> bool {
        self.narrow_ns > self.typed_ns - self.narrow_ns
    }

    /// Adds a collective that other ranks have as well.
    ///
    /// * `ns`: its duration without the time in which it waited for them.
    pub(super) fn add_matched(&mut self, trace: &Trace, kernel: SliceId, ns: DurNs) {
        if let Some(bytes) = payload_of(trace, kernel).bus_bytes {
            self.matched_ns += ns;
            self.matched_bytes += bytes;
        }
    }

    /// Bus bandwidth in GB/s (10^9 bytes), and whether it is without waiting for other ranks; else it is a lower bound.
    /// `None` where no size is known.
    pub fn bus_gb_per_s(&self) -> Option<(f64, bool)> {
        let of = |bytes: f64, ns: DurNs| (ns > 0 && bytes > 0.0).then(|| bytes / ns as f64);
        let matched = of(self.matched_bytes, self.matched_ns).map(|speed| (speed, true));
        matched.or_else(|| of(self.bus_bytes, self.sized_ns).map(|speed| (speed, false)))
    }
}

/// The kernels of a device that start in a window.
fn kernels(trace: &Trace, device: ProcessId, window: TimeRange) -> impl Iterator<Item = (SliceId, TimeRange)> {
    let slices = &trace.slices;
    let all = trace
        .tracks_of(device)
        .flat_map(|track| trace.track_slices(track))
        .filter(|&i| slices.kind[i] == SliceKind::Kernel);
    let timed = all.map(|i| (SliceId(i as u32), slices.time(SliceId(i as u32))));
    timed.filter(move |(_, time)| window.contains(time.start))
}
