//! The GPU's own counters: shares of each millisecond, from the work on the compute stream.

use std::collections::VecDeque;

use super::recorder::VM;
use super::schema::{METRIC_NAMES, METRICS};
use super::tables::{SqlValue, TableColumns, row};
use crate::sample::training::{COMPUTE, OnGpu, Range};

/// Time between two values, in ns.
const PERIOD: i64 = 1_000_000;
/// What is measured. The ids are their places in this list.
pub(super) const NAMES: [&str; 3] =
    ["GR Active [Throughput %]", "SMs Active [Throughput %]", "PCIe RX Throughput [Throughput %]"];

/// Busy ns of periods that are not over yet, from the `first` on.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    first: i64,
    /// Kernels, copies.
    busy: VecDeque<[i64; 2]>,
}

impl Metrics {
    pub fn add_kernel(&mut self, gpu: OnGpu) {
        self.add(gpu, 0);
    }

    pub fn add_copy(&mut self, gpu: OnGpu) {
        self.add(gpu, 1);
    }

    /// One stream alone, since work on it never overlaps.
    fn add(&mut self, gpu: OnGpu, what: usize) {
        let (mut start, end): Range = gpu.range;
        while start < end && gpu.stream.id == COMPUTE.id {
            let period = start / PERIOD;
            let until = end.min((period + 1) * PERIOD);
            let at = usize::try_from(period - self.first).unwrap_or(0);
            if self.busy.len() <= at {
                self.busy.resize(at + 1, [0; 2]);
            }
            self.busy[at][what] += until - start;
            start = until;
        }
    }

    /// Writes the values of all periods that end by `now`.
    pub fn flush(&mut self, now: i64, mut insert: impl FnMut(&TableColumns, &[SqlValue<'_>])) {
        while (self.first + 1) * PERIOD <= now {
            let [kernels, copies] = self.busy.pop_front().unwrap_or_default();
            let shares = [kernels + copies, kernels, copies].map(|busy| busy * 100 / PERIOD);
            self.first += 1;
            let at = self.first * PERIOD;
            for (metric, share) in (0_i64..).zip(shares) {
                insert(&METRICS, row![at, at, VM, metric, share]);
            }
        }
    }
}

/// Names what is measured.
pub(super) fn describe(mut insert: impl FnMut(&TableColumns, &[SqlValue<'_>])) {
    for (metric, name) in (0_i64..).zip(NAMES) {
        insert(&METRIC_NAMES, row![VM, VM, "GPU Metrics [0]", metric, name]);
    }
}
