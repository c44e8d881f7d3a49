//! Composition of each step's time.

use super::Steps;
use crate::analysis::breakdown::{Breakdown, breakdown};
use crate::analysis::busy::DeviceBusy;
use crate::analysis::roles::{RoleTimes, role_times};
use crate::model::{DurNs, TimeNs, TimeRange, Trace};

/// A step as a device sees it, see [`Steps::on`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePart {
    /// From the completion of the work of the step before to that of its own.
    pub time: TimeRange,
    /// Sums to `time`.
    pub parts: Breakdown,
}

/// The parts of the steps of a trace, each summing to its step.
#[derive(Clone, Debug, Default)]
pub struct StepParts {
    /// Of hosts and devices together while the host took the step, as in the TensorBoard plugin; one per step asked
    /// for.
    pub roles: Vec<RoleTimes>,
    /// For each device with work its index and the parts of each of these steps as the device sees it, see
    /// [`Steps::on`]; none where another process launches on the device and takes another number of steps.
    pub devices: Vec<(u32, Vec<DevicePart>)>,
    /// For each device its index and the share of the steps that statistics are of, on the host, in which a kernel
    /// runs: the GPU utilization of the TensorBoard plugin, which includes warm-up and the step in which the
    /// profiler stops.
    pub utilization: Vec<(u32, f64)>,
}

/// * `n`: how many steps, the first, get parts; 0 stands for all.
/// * Cost: one sweep over the slices of these steps together: O(m log k) for m slices in k rows.
pub fn step_parts(trace: &Trace, steps: &Steps, busy: &[DeviceBusy], n: usize) -> StepParts {
    let n = if n == 0 { steps.len() } else { n.min(steps.len()) };
    let of_device = |busy: &DeviceBusy| {
        let boundaries = steps.on(busy.process).device;
        let is_alike = boundaries.len() == steps.boundaries.len();
        let part = |time| DevicePart { time, parts: breakdown(busy, time) };
        let parts = ranges(boundaries).take(n).filter(|_| is_alike).map(part).collect();
        (busy.device, parts)
    };
    StepParts {
        roles: role_times(trace, &steps.times[..n.min(steps.times.len())]),
        devices: busy.iter().map(of_device).collect(),
        utilization: busy.iter().map(|busy| (busy.device, utilization(steps, busy))).collect(),
    }
}

fn utilization(steps: &Steps, busy: &DeviceBusy) -> f64 {
    let host = steps.counted_on(busy.process).host;
    let own = &steps.boundaries[steps.used.start..=steps.used.end];
    let times = if host == own { steps.times[steps.used.clone()].to_vec() } else { ranges(host).collect() };
    let kernels = |&time: &TimeRange| {
        let parts = breakdown(busy, time);
        parts.compute_ns + parts.exposed_comm_ns
    };
    let all: DurNs = times.iter().map(|time| time.dur()).sum();
    times.iter().map(kernels).sum::<DurNs>() as f64 / all.max(1) as f64
}

fn ranges(boundaries: &[TimeNs]) -> impl Iterator<Item = TimeRange> {
    boundaries.windows(2).map(|pair| TimeRange { start: pair[0], end: pair[1] })
}
