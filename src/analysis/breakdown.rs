//! The time of a device by what it does: compute, exposed communication, exposed copies, idle.

use super::busy::DeviceBusy;
use crate::model::time::length_within;
use crate::model::{DurNs, TimeRange};

/// The parts of a range of time on one device, in nanoseconds; they sum to its length.
///
/// Source: the compute-absent time of `TraceLens`: communication without compute, then copies and memsets
/// without either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Kernels that do not communicate, and CUDA graphs recorded as a whole.
    pub compute_ns: DurNs,
    /// Communication while nothing computes.
    pub exposed_comm_ns: DurNs,
    /// Copies and memsets while nothing computes or communicates.
    pub exposed_copy_ns: DurNs,
    /// Nothing runs.
    pub idle_ns: DurNs,
}

/// How much of a device's communication is hidden behind compute, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Union of the communication.
    pub comm_ns: DurNs,
    /// Of that, the time with compute on the same device.
    pub overlapped_ns: DurNs,
}

impl Overlap {
    /// Overlapped share, 0 to 1; `None` without communication. The overlap that HTA reports in percent.
    pub fn share(&self) -> Option<f64> {
        (self.comm_ns > 0).then(|| self.overlapped_ns as f64 / self.comm_ns as f64)
    }
}

/// The parts of `range`, such as a step or the device's window.
///
/// Cost: O(log n + busy ranges within), so that disjoint steps cost one sweep.
pub fn breakdown(busy: &DeviceBusy, range: TimeRange) -> Breakdown {
    let busy_ns = length_within(&busy.busy, range);
    let exposed_comm_ns = length_within(&busy.exposed_comm, range);
    let exposed_copy_ns = length_within(&busy.exposed_copies, range);
    Breakdown {
        compute_ns: busy_ns - exposed_comm_ns - exposed_copy_ns,
        exposed_comm_ns,
        exposed_copy_ns,
        idle_ns: range.dur() - busy_ns,
    }
}

/// The overlap of communication and compute within `range`. Cost: as of [`breakdown`].
pub fn overlap(busy: &DeviceBusy, range: TimeRange) -> Overlap {
    let comm_ns = length_within(&busy.comm, range);
    Overlap { comm_ns, overlapped_ns: comm_ns - length_within(&busy.exposed_comm, range) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::busy::device;
    use crate::model::{ProcessId, SliceKind, TraceBuilder};

    proptest! {
        #[test]
        fn parts_agree_with_counting_single_nanoseconds(
            work in prop::collection::vec((0_i64..200, 0_i64..40, 0_usize..3, 0_usize..5), 1..40),
            cuts in (0_i64..260, 0_i64..260),
        ) {
            let streams = ["stream 7", "stream 8", "stream 9"];
            let sorts = [
                (SliceKind::Kernel, "gemm"),
                (SliceKind::Kernel, "ncclDevKernel_AllReduce"),
                (SliceKind::Memcpy, "Memcpy HtoD"),
                (SliceKind::Memset, "Memset"),
                (SliceKind::CudaGraph, "graph"),
            ];
            let slices: Vec<_> = work.iter()
                .map(|&(ts, dur, stream, sort)| (streams[stream], sorts[sort].0, sorts[sort].1, ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&slices).finish();
            let busy = device(&trace, ProcessId(0)).unwrap();
            let range = TimeRange::new(cuts.0, cuts.1);
            let runs = |ts: i64, wanted: &[usize]| {
                work.iter().any(|&(start, dur, _, sort)| wanted.contains(&sort) && start <= ts && ts < start + dur)
            };
            let (mut parts, mut hidden) = (Breakdown::default(), Overlap::default());
            for ts in range.start..range.end {
                let (compute, comm, copy) = (runs(ts, &[0, 4]), runs(ts, &[1]), runs(ts, &[2, 3]));
                let part = match (compute, comm, copy) {
                    (true, ..) => &mut parts.compute_ns,
                    (_, true, _) => &mut parts.exposed_comm_ns,
                    (.., true) => &mut parts.exposed_copy_ns,
                    _ => &mut parts.idle_ns,
                };
                *part += 1;
                hidden.comm_ns += i64::from(comm);
                hidden.overlapped_ns += i64::from(comm && compute);
            }
            prop_assert_eq!(breakdown(&busy, range), parts);
            prop_assert_eq!(overlap(&busy, range), hidden);
            let whole = breakdown(&busy, busy.window);
            prop_assert_eq!(whole.idle_ns, busy.idle_ns);
        }
    }
}
