//! The time in which kernels of a group compute, and no other kernel of the device does.
//!
//! That is what fewer or faster kernels of the group save at most: what runs beside them remains. Copies and
//! communication beside them do not count, since these may run beside the kernels that remain.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::analysis::collectives::CollectiveKernels;
use crate::model::{DurNs, ProcessId, SliceId, SliceKind, TimeNs, TimeRange, Trace};

/// Groups of kernels, a bit each. Work of none is 0.
pub type Groups = u8;
const N: usize = Groups::BITS as usize;

/// What computes at one time.
#[derive(Default)]
struct Running {
    at: TimeNs,
    all: u32,
    /// By group.
    of: [u32; N],
    /// So far.
    exposed_ns: [DurNs; N],
    /// By when they end.
    ends: BinaryHeap<Reverse<(TimeNs, Groups)>>,
}

impl Running {
    fn go_to(&mut self, at: TimeNs) {
        let ns = at.saturating_sub(self.at).max(0);
        for (exposed_ns, &of) in self.exposed_ns.iter_mut().zip(&self.of) {
            if of > 0 && of == self.all {
                *exposed_ns = exposed_ns.saturating_add(ns);
            }
        }
        self.at = at.max(self.at);
    }

    fn count(&mut self, groups: Groups, change: impl Fn(&mut u32)) {
        change(&mut self.all);
        for (i, of) in self.of.iter_mut().enumerate() {
            if groups >> i & 1 == 1 {
                change(of);
            }
        }
    }

    /// Ends what is over by a time.
    fn end_until(&mut self, until: TimeNs) {
        while let Some(&Reverse((end, groups))) = self.ends.peek().filter(|next| next.0.0 <= until) {
            self.ends.pop();
            self.go_to(end);
            self.count(groups, |n| *n -= 1);
        }
    }

    fn start(&mut self, time: TimeRange, groups: Groups) {
        self.end_until(time.start);
        self.go_to(time.start);
        self.count(groups, |n| *n += 1);
        self.ends.push(Reverse((time.end, groups)));
    }
}

/// Of the kernels of a device that start in a window, by group, in nanoseconds. `None` where all compute kernels and CUDA
/// graphs of the device lie on one row, so that none runs beside another.
///
/// * `groups`: of a kernel that does not communicate, given by its index.
/// * Cost: O(n log k) for n slices in k rows.
pub fn exposed_ns(
    trace: &Trace,
    process: ProcessId,
    window: TimeRange,
    groups: impl Fn(usize) -> Groups,
) -> Option<[DurNs; N]> {
    let (slices, mut collectives) = (&trace.slices, CollectiveKernels::new(trace));
    let mut computes = |i: usize| match slices.kind[i] {
        SliceKind::Kernel => !collectives.contains(SliceId(i as u32)),
        kind => kind == SliceKind::CudaGraph,
    };
    let mut rows: Vec<_> = trace.rows_of(process).iter().map(|row| row.range()).collect();
    let mut next = |row: &mut std::ops::Range<usize>| row.find(|&i| computes(i)).map(|i| Reverse((slices.ts[i], i)));
    let firsts = rows.iter_mut().enumerate().filter_map(|(row, all)| Some((next(all)?, row)));
    let mut heads: BinaryHeap<(Reverse<(TimeNs, usize)>, usize)> = firsts.collect();
    if heads.len() < 2 {
        return None;
    }
    let mut running = Running { at: TimeNs::MIN, ..Running::default() };
    while let Some((Reverse((start, i)), row)) = heads.pop() {
        let is_judged = window.contains(start) && slices.kind[i] == SliceKind::Kernel;
        let time = slices.time(SliceId(i as u32));
        running.start(time, if is_judged { groups(i) } else { 0 });
        heads.extend(next(&mut rows[row]).map(|head| (head, row)));
    }
    running.end_until(TimeNs::MAX);
    Some(running.exposed_ns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::busy::devices;
    use crate::model::TraceBuilder;

    const KERNEL: SliceKind = SliceKind::Kernel;

    #[test]
    fn kernels_of_one_row_run_alone() {
        let slices = [
            ("stream 7", KERNEL, "a", 0, 100),
            ("stream 7", KERNEL, "b", 100, 150),
            ("stream 8", KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 50, 120),
            ("stream 9", SliceKind::Memcpy, "Memcpy HtoD", 0, 150),
        ];
        let trace = TraceBuilder::from_slices(&slices).finish();
        assert_eq!(exposed_ns(&trace, devices(&trace)[0].process, TimeRange::ALL, |_| 1), None);
    }

    proptest! {
        #[test]
        fn it_agrees_with_counting_single_nanoseconds(
            work in prop::collection::vec((0_i64..200, 1_i64..40, 0_usize..4, 0_usize..4), 2..40),
            cuts in (0_i64..200, 0_i64..200),
        ) {
            let streams = ["stream 7", "stream 8", "stream 9", "stream 10"];
            let sorts = [(KERNEL, "a"), (KERNEL, "b"), (SliceKind::CudaGraph, "graph"), (SliceKind::Memcpy, "Memcpy HtoD")];
            let slices: Vec<_> = work.iter()
                .map(|&(ts, dur, stream, sort)| (streams[stream], sorts[sort].0, sorts[sort].1, ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&slices).finish();
            let window = TimeRange::new(cuts.0, cuts.1);
            let of = |name: &str| Groups::from(name == "a") | Groups::from(name == "b") << 1 | 4;
            let groups = |i: usize| of(trace.strings.get(trace.slices.name[i]));
            prop_assume!(trace.processes.iter().any(|process| process.device.is_some()));
            let process = devices(&trace)[0].process;
            let Some(found) = exposed_ns(&trace, process, window, groups) else { return Ok(()) };
            let mut expected = [0; N];
            for ts in 0..240 {
                let runs = slices.iter().filter(|&&(_, kind, _, start, end)| kind != SliceKind::Memcpy && start <= ts && ts < end);
                let runs: Vec<Groups> = runs
                    .map(|&(_, kind, name, start, _)| if kind == KERNEL && window.contains(start) { of(name) } else { 0 })
                    .collect();
                for (i, ns) in expected.iter_mut().enumerate() {
                    *ns += i64::from(!runs.is_empty() && runs.iter().all(|groups| groups >> i & 1 == 1));
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
