//! What each step was spent on.

use super::Steps;
use crate::analysis::breakdown::{Breakdown, breakdown};
use crate::analysis::busy::DeviceBusy;
use crate::analysis::roles::{RoleTimes, role_times};
use crate::model::{DurNs, Trace};

/// The parts of the steps of a trace, each summing to its step.
#[derive(Clone, Debug, Default)]
pub struct StepParts {
    /// Of hosts and devices together, one per step.
    pub roles: Vec<RoleTimes>,
    /// For each device with work its index and the parts of each step.
    pub devices: Vec<(u32, Vec<Breakdown>)>,
}

/// The parts are of the time that the host took for a step, as in the TensorBoard plugin. A device that lags behind
/// works on earlier steps meanwhile; the rules use [`super::device_boundaries`] instead.
///
/// Cost: one sweep over the slices for all steps together: O(n log k) for n slices in k rows.
pub fn step_parts(trace: &Trace, steps: &Steps, busy: &[DeviceBusy]) -> StepParts {
    let of_device = |busy: &DeviceBusy| {
        let parts = steps.times.iter().map(|&time| breakdown(busy, time)).collect();
        (busy.device, parts)
    };
    StepParts { roles: role_times(trace, &steps.times), devices: busy.iter().map(of_device).collect() }
}

impl StepParts {
    /// The share of the steps that statistics are of in which a kernel runs, by the index of each device: the GPU
    /// utilization of the TensorBoard plugin, which includes warm-up and the step in which the profiler stops.
    pub fn utilization(&self, steps: &Steps) -> Vec<(u32, f64)> {
        let all: DurNs = steps.times[steps.used.clone()].iter().map(|time| time.dur()).sum();
        let kernels = |parts: &[Breakdown]| -> DurNs {
            let used = parts.get(steps.used.clone()).unwrap_or_default();
            used.iter().map(|parts| parts.compute_ns + parts.exposed_comm_ns).sum()
        };
        let share = |(device, parts): &(u32, Vec<Breakdown>)| (*device, kernels(parts) as f64 / all.max(1) as f64);
        self.devices.iter().map(share).collect()
    }
}
