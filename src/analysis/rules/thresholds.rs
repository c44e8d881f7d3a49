//! Thresholds of the rules.

use serde::{Deserialize, Serialize};

use crate::model::Severity;

/// The values from which a finding is a note, a warning, and high. `None` for a level that the rule does not have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    pub note: Option<f64>,
    pub warn: Option<f64>,
    pub high: Option<f64>,
}

impl Levels {
    const fn new(note: f64, warn: f64, high: f64) -> Self {
        Self { note: Some(note), warn: Some(warn), high: Some(high) }
    }

    /// For findings that are facts to know, not problems.
    const fn note(note: f64) -> Self {
        Self { note: Some(note), warn: None, high: None }
    }

    fn all(&self) -> [(Severity, Option<f64>); 3] {
        [(Severity::High, self.high), (Severity::Warn, self.warn), (Severity::Note, self.note)]
    }

    /// The worst level that `measured` reaches, and its threshold.
    pub fn reached(&self, measured: f64) -> Option<(Severity, f64)> {
        let reached = |(severity, level): (Severity, Option<f64>)| {
            level.filter(|&level| measured >= level).map(|level| (severity, level))
        };
        self.all().into_iter().find_map(reached)
    }

    /// The same for levels that are too low: `measured` must stay at or above them.
    pub fn missed(&self, measured: f64) -> Option<(Severity, f64)> {
        let missed = |(severity, level): (Severity, Option<f64>)| {
            level.filter(|&level| measured < level).map(|level| (severity, level))
        };
        self.all().into_iter().find_map(missed)
    }

    /// The mildest level: beyond it there is a finding.
    pub fn first(&self) -> f64 {
        self.note.or(self.warn).or(self.high).unwrap_or(f64::INFINITY)
    }
}

/// The thresholds of all rules. Shares are of the window, 0 to 1.
///
/// Where `DEFINITIONS.md` gives levels they are those. The others follow `XProf`: 3 % of the time is worth a note, as
/// for input and launches there; what costs a tenth of the time is a warning, and a fifth is high.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thresholds {
    /// Busy share; below.
    pub utilization: Levels,
    /// Idle time for the next batch.
    pub data_loading: Levels,
    /// Communication without compute, and idle time in calls of collectives.
    pub communication: Levels,
    /// Idle time because the host launches no faster than the device runs.
    pub launch_bound: Levels,
    /// Idle time because the host waited for the device.
    pub synchronization: Levels,
    /// Idle time while the host runs operators or Python.
    pub host_bound: Levels,
    /// Copies without compute, and idle time in calls that copy.
    pub copies: Levels,
    /// Time of copies from or to pageable memory of more than [`Self::pageable_bytes`].
    pub pageable: Levels,
    pub pageable_bytes: u64,
    /// Idle time in the allocator.
    pub allocator: Levels,
    /// Idle time in compilers and loaders of device code.
    pub module_load: Levels,
    /// Idle time in Python's garbage collector.
    pub garbage_collection: Levels,
    /// Idle time at boundaries of steps that has no other cause.
    pub step_boundary: Levels,
    /// Idle time in which a stream waits for another.
    pub dependency: Levels,
    /// Idle time in which the launching thread is blocked in the operating system.
    pub blocked: Levels,
    /// Idle time that the recording does not explain.
    pub unexplained: Levels,
    /// Idle time by the profiler itself.
    pub profiler: Levels,
    /// Time that the host loads data by the busy time of the device, in the median step.
    pub data_time: Levels,
    /// Share of the time of kernels in those that take longer than [`Self::slow_kernel_ns`] on average.
    pub slow_kernels: Levels,
    pub slow_kernel_ns: i64,
    /// Duration of one launch of a slow kernel by that of a step, or the window.
    pub long_kernel: Levels,
    /// Share of kernels shorter than [`Self::tiny_kernel_ns`], if the device is underused as well.
    pub tiny_kernels: Levels,
    pub tiny_kernel_ns: i64,
    /// Peak of reserved memory by that of the device.
    pub memory: Levels,
    /// Time of one cluster of gaps by that of a step.
    pub cluster: Levels,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            utilization: Levels { note: None, warn: Some(0.8), high: Some(0.5) },
            data_loading: Levels::new(0.05, 0.1, 0.2),
            communication: Levels { note: Some(0.1), warn: Some(0.2), high: None },
            launch_bound: Levels { note: Some(0.03), warn: None, high: Some(0.15) },
            synchronization: Levels::new(0.03, 0.1, 0.2),
            host_bound: Levels::new(0.05, 0.1, 0.2),
            copies: Levels::new(0.05, 0.1, 0.2),
            pageable: Levels { note: Some(0.01), warn: Some(0.05), high: None },
            pageable_bytes: 64_000,
            allocator: Levels::new(0.03, 0.1, 0.2),
            module_load: Levels::new(0.03, 0.1, 0.2),
            garbage_collection: Levels::new(0.03, 0.1, 0.2),
            step_boundary: Levels::new(0.05, 0.1, 0.2),
            dependency: Levels { note: Some(0.05), warn: Some(0.1), high: None },
            blocked: Levels { note: Some(0.05), warn: Some(0.1), high: None },
            unexplained: Levels::note(0.1),
            profiler: Levels::note(0.03),
            data_time: Levels { note: None, warn: Some(1.0), high: None },
            slow_kernels: Levels::note(0.1),
            slow_kernel_ns: 1_000_000,
            long_kernel: Levels::note(0.2),
            tiny_kernels: Levels::note(0.5),
            tiny_kernel_ns: 10_000,
            memory: Levels { note: None, warn: Some(0.9), high: None },
            cluster: Levels::note(0.05),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_reached_at_its_value() {
        let levels = Levels::new(0.05, 0.1, 0.2);
        let found = [0.0, 0.049_9, 0.05, 0.1, 0.199, 0.2, 1.0].map(|value| levels.reached(value));
        let [note, warn, high] = [(Severity::Note, 0.05), (Severity::Warn, 0.1), (Severity::High, 0.2)].map(Some);
        assert_eq!(found, [None, None, note, warn, warn, high, high]);
        let levels = Thresholds::default().utilization;
        let found = [0.9, 0.8, 0.799, 0.5, 0.499].map(|value| levels.missed(value));
        let [warn, high] = [(Severity::Warn, 0.8), (Severity::High, 0.5)].map(Some);
        assert_eq!(found, [None, None, warn, warn, high]);
        assert_eq!((levels.first(), Levels::note(0.3).first()), (0.8, 0.3));
    }
}
