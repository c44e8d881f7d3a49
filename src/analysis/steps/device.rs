//! Starts of steps on a device, which may lag behind the host.

use std::ops::Range;

use super::{Scope, Steps};
use crate::model::{ProcessId, Row, SliceId, TimeNs, TimeRange, Trace};

/// Most launches that a stream's queue holds: so many pieces of work may run before the first whose launch was
/// recorded, and were launched before the recording began.
const QUEUE: usize = 1024;

/// The steps of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSteps {
    /// The process that holds the work of the device.
    process: ProcessId,
    /// Boundaries of the steps of the process that has most of its work; empty if that has no steps.
    host: Vec<TimeNs>,
    /// The same as the device sees them.
    device: Vec<TimeNs>,
    /// The steps that statistics are of.
    used: Range<usize>,
}

impl DeviceSteps {
    /// * `process`: of the device.
    /// * `scope`, `steps`: of the process that has most of its work.
    pub(super) fn new(trace: &Trace, process: ProcessId, scope: &Scope, steps: Option<&Steps>) -> Self {
        let host = steps.map(|steps| steps.boundaries.clone()).unwrap_or_default();
        let device = match steps.is_some_and(|steps| steps.source.is_of_host()) {
            true => device_boundaries(trace, process, scope, &host),
            false => host.clone(),
        };
        Self { process, host, device, used: steps.map(|steps| steps.used.clone()).unwrap_or_default() }
    }
}

/// When the slowest of the devices with these boundaries of steps had completed what was launched before each. Empty
/// where steps are not of the host.
pub(super) fn completions(devices: &[DeviceSteps], boundaries: &[TimeNs]) -> Vec<TimeNs> {
    let own: Vec<&DeviceSteps> = devices.iter().filter(|device| device.host == boundaries).collect();
    let slowest = |k: usize| own.iter().map(|device| device.device[k]).max();
    (0..boundaries.len()).map_while(slowest).collect()
}

/// Boundaries of steps on the host and on a device, equally many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Boundaries<'a> {
    pub host: &'a [TimeNs],
    /// See `device_boundaries`.
    pub device: &'a [TimeNs],
}

impl Boundaries<'_> {
    /// From the first to the last on the device; `None` without a step.
    pub fn on_device(&self) -> Option<TimeRange> {
        let [start, .., end] = *self.device else { return None };
        Some(TimeRange { start, end })
    }
}

impl Steps {
    /// The boundaries for a device: of the steps of the process that launches on it. Without knowledge of the device
    /// those of the steps themselves.
    ///
    /// * `process`: of the device.
    pub fn on(&self, process: ProcessId) -> Boundaries<'_> {
        match self.device(process) {
            Some(found) => Boundaries { host: &found.host, device: &found.device },
            None => Boundaries { host: &self.boundaries, device: &self.boundaries },
        }
    }

    /// The name of the step that begins at `start` on a device, else its number.
    pub fn name_on(&self, process: ProcessId, start: TimeNs) -> String {
        let Boundaries { device, .. } = self.on(process);
        let k = device.partition_point(|&boundary| boundary < start);
        let is_named = device.len() == self.boundaries.len();
        self.names.get(k).filter(|_| is_named).cloned().unwrap_or_else(|| format!("Step {}", k + 1))
    }

    fn device(&self, process: ProcessId) -> Option<&DeviceSteps> {
        let at = self.devices.binary_search_by_key(&process, |device| device.process);
        at.ok().map(|at| &self.devices[at])
    }

    /// [`Self::on`] for the steps that statistics are of.
    pub fn counted_on(&self, process: ProcessId) -> Boundaries<'_> {
        let used = self.device(process).map_or(&self.used, |found| &found.used);
        let Boundaries { host, device } = self.on(process);
        let counted = |of| <[TimeNs]>::get(of, used.start..=used.end).unwrap_or_default();
        Boundaries { host: counted(host), device: counted(device) }
    }
}

/// The boundaries of steps as a device sees them: work belongs to the step that launched it.
///
/// The host prepares a step while the device still runs the one before. A boundary is therefore moved to the end of
/// all work that was launched before it. Where the device had finished by then, as after a synchronization, the
/// boundary stays: what the device waits for next is part of the new step. Steps so divided tile the time, so that
/// busy and idle time sum to it; work of a new step that runs beside the rest of the last one counts for the last one.
///
/// * Source: F7 of the definitions.
/// * `scope`: whose steps they are; work that others launched moves nothing.
/// * `boundaries`: of steps on the host, ascending.
/// * Streams without recorded launches move nothing.
/// * Cost: O(m k log n) for m boundaries and n slices in k rows of the device.
pub(super) fn device_boundaries(
    trace: &Trace,
    process: ProcessId,
    scope: &Scope,
    boundaries: &[TimeNs],
) -> Vec<TimeNs> {
    let queues: Vec<Queue<'_>> = trace.rows_of(process).iter().filter_map(|row| Queue::of(trace, scope, row)).collect();
    let mut done = TimeNs::MIN;
    let moved = |&boundary: &TimeNs| {
        let ends = queues.iter().filter_map(|queue| queue.end_of_work_before(boundary));
        done = ends.fold(done.max(boundary), TimeNs::max);
        done
    };
    boundaries.iter().map(moved).collect()
}

/// The work of some processes in one row, which runs in the order of its launches.
struct Queue<'a> {
    trace: &'a Trace,
    scope: &'a Scope,
    row: &'a Row,
}

impl<'a> Queue<'a> {
    /// `None` if the launches of its first work were not recorded.
    fn of(trace: &'a Trace, scope: &'a Scope, row: &'a Row) -> Option<Self> {
        let queue = Self { trace, scope, row };
        let mut work = row.range().filter(|&i| queue.is_work(i)).take(QUEUE + 1);
        work.any(|i| queue.launch(i).is_some()).then_some(queue)
    }

    fn is_work(&self, i: usize) -> bool {
        self.trace.slices.kind[i].is_device_work() && self.scope.launched(self.trace, SliceId(i as u32))
    }

    fn launch(&self, i: usize) -> Option<TimeNs> {
        let slices = &self.trace.slices;
        self.trace.launch_of(SliceId(i as u32)).map(|call| slices.ts[call.idx()])
    }

    /// The end of the last work that was launched before `ts`. Work without a recorded launch was launched after the
    /// work before it, and without such before the recording began.
    fn end_of_work_before(&self, ts: TimeNs) -> Option<TimeNs> {
        // Not further: others may have much more work in the row.
        let back = |from: usize| (self.row.range().start..from).rev().take(QUEUE).filter(|&i| self.is_work(i));
        let (mut low, mut high) = (self.row.range().start, self.row.range().end);
        while low < high {
            let middle = low + (high - low) / 2;
            let launch = back(middle + 1).find_map(|i| self.launch(i));
            if launch.is_none_or(|launch| launch < ts) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        back(low).next().map(|i| self.trace.slices.end[i])
    }
}

#[cfg(test)]
mod tests {
    use super::super::launchers_on;
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    const CALL: SliceKind = SliceKind::Runtime;
    const KERNEL: SliceKind = SliceKind::Kernel;

    fn trace(slices: &[(&str, SliceKind, &str, TimeNs, TimeNs)], correlation: &[u32]) -> Trace {
        let mut builder = TraceBuilder::from_slices(slices);
        builder.slices[0].correlation = correlation.to_vec();
        builder.finish()
    }

    fn device(trace: &Trace) -> ProcessId {
        let at = trace.processes.iter().position(|process| process.device.is_some()).unwrap();
        ProcessId(at as u32)
    }

    #[test]
    fn boundaries_follow_work_that_was_launched_before_them() {
        // Three steps of 100; the device runs 90 behind, then catches up at a synchronization.
        let trace = trace(
            &[
                ("main", CALL, "launch", 10, 11),
                ("main", CALL, "launch", 110, 111),
                ("main", CALL, "launch", 120, 121),
                ("main", CALL, "launch", 310, 311),
                ("stream 7", KERNEL, "old", 0, 50),
                ("stream 7", KERNEL, "a", 50, 190),
                ("stream 7", KERNEL, "b", 195, 230),
                ("stream 8", KERNEL, "c", 200, 260),
                ("stream 7", KERNEL, "d", 320, 330),
            ],
            &[1, 2, 3, 4, 0, 1, 2, 3, 4],
        );
        let found = device_boundaries(&trace, device(&trace), &Scope::default(), &[0, 100, 200, 300, 400]);
        // The old work came from before the recording; at 300 the device is idle.
        assert_eq!(found, [50, 190, 260, 300, 400]);
    }

    #[test]
    fn steps_of_a_shared_device_are_those_of_the_process_with_most_of_its_work() {
        // Steps of `a` take 100, of `b` 70; `b` launches more, and its work takes less.
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        let mut id = 0;
        for (host, period, dur, n) in [("a", 100, 60, 8), ("b", 70, 10, 11)] {
            for step in 0..n {
                let at = period * step;
                id += 1;
                slices.push((host, SliceKind::Annotation, "train_step", at, at + period));
                slices.push((host, CALL, "cudaLaunchKernel", at + 5, at + 7));
                slices.push(("stream 7", KERNEL, if host == "a" { "gemm" } else { "relu" }, at + 8, at + 8 + dur));
                correlation.extend([0, id, id]);
            }
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        builder.tracks[2].process = ProcessId(builder.processes.len() as u32);
        builder.processes.push(crate::model::Process::default());
        let trace = builder.finish();
        let found = crate::analysis::steps::steps(&trace, &|| false).unwrap();
        let of_a: Vec<TimeNs> = (0..=8).map(|i| 100 * i).collect();
        assert_eq!((found.boundaries.as_slice(), found.on(device(&trace)).host), (&of_a[..], &of_a[..]));
        let host = |name: &str| trace.tracks.iter().find(|track| track.name == name).unwrap().process;
        assert_eq!(launchers_on(&trace, device(&trace)), [(host("a"), 480), (host("b"), 110)]);
        // Work of the other process belongs to none of them.
        assert_eq!(found.on(device(&trace)).device, of_a);
    }

    #[test]
    fn work_without_launches_moves_nothing() {
        let trace = trace(
            &[
                ("main", CALL, "launch", 10, 11),
                ("stream 7", KERNEL, "a", 50, 190),
                ("stream 7", KERNEL, "b", 195, 230),
            ],
            &[0, 0, 0],
        );
        assert_eq!(device_boundaries(&trace, device(&trace), &Scope::default(), &[0, 100, 200]), [0, 100, 200]);
    }
}
