//! All work of all devices in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::totals::Instance;
use crate::model::{DurNs, SliceId, TimeNs, Trace};

/// The earliest device work of some traces, and how much there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceWork {
    /// Kernels, copies, memsets, and graphs recorded as one.
    pub count: u64,
    /// By start, then trace and slice.
    pub first: Vec<Instance>,
}

/// The first `n` kernels, copies, memsets and graphs by start; 0 stands for all.
///
/// * `offsets`: from the time of each trace to the clock that they share.
/// * Cost: one byte of each slice to count, and O(n log(rows)) to merge the rows, which are sorted.
pub fn device_work(traces: &[&Trace], offsets: &[DurNs], n: usize) -> DeviceWork {
    let mut count = 0;
    // The next of each row, earliest on top: (start, trace, slice, end of the row).
    let mut next: BinaryHeap<Reverse<(TimeNs, u32, usize, usize)>> = BinaryHeap::new();
    let from = |trace: u32, at: usize, end: usize| {
        let slices = &traces[trace as usize].slices;
        let at = (at..end).find(|&i| slices.kind[i].is_device_work())?;
        Some(Reverse((slices.ts[at].saturating_add(offsets[trace as usize]), trace, at, end)))
    };
    for (index, trace) in (0..).zip(traces) {
        for row in &trace.slices.rows {
            let range = row.range();
            count += trace.slices.kind[range.clone()].iter().filter(|kind| kind.is_device_work()).count() as u64;
            next.extend(from(index, range.start, range.end));
        }
    }
    let mut first = Vec::new();
    while n == 0 || first.len() < n {
        let Some(Reverse((_, trace, at, end))) = next.pop() else { break };
        first.push(Instance { trace, slice: SliceId(at as u32) });
        next.extend(from(trace, at + 1, end));
    }
    DeviceWork { count, first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn work_of_all_streams_and_traces_comes_by_start() {
        let a = TraceBuilder::from_slices(&[
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 0, 5),
            ("stream 7", SliceKind::Kernel, "a", 10, 20),
            ("stream 7", SliceKind::Memset, "b", 40, 50),
            ("stream 8", SliceKind::Memcpy, "c", 30, 60),
        ])
        .finish();
        let b = TraceBuilder::from_slices(&[("stream 7", SliceKind::Kernel, "d", 0, 9)]).finish();
        let traces = [&a, &b];
        let names = |n: usize| {
            let found = device_work(&traces, &[0, 35], n);
            let name = |work: &Instance| traces[work.trace as usize].slice_name(work.slice).to_owned();
            (found.count, found.first.iter().map(name).collect::<Vec<_>>())
        };
        assert_eq!(names(0), (4, ["a", "c", "d", "b"].map(str::to_owned).to_vec()));
        assert_eq!(names(2), (4, ["a", "c"].map(str::to_owned).to_vec()));
    }
}
