//! Steps at the end of a recording whose work on the device it does not have.

use super::{Scope, StepSource, Steps};
use crate::analysis::host_roles::launches_work;
use crate::model::{Row, SliceId, SliceKind, TimeNs, Trace};

/// A recording that ended while the host was ahead: PyTorch's profiler, started and stopped by time, keeps launches
/// whose work ran after the end and not the work.
#[derive(Debug, Default)]
struct Ends {
    /// The last launch that has its work.
    recorded: Option<TimeNs>,
    /// The launches after the last of their row that has its work.
    lonely: Vec<TimeNs>,
}

impl Ends {
    fn add(&mut self, trace: &Trace, row: &Row) {
        let slices = &trace.slices;
        let mut lonely = Vec::new();
        for i in row.range().rev().filter(|&i| slices.kind[i].is_call()) {
            let call = SliceId(i as u32);
            if trace.launched_by(call).next().is_some() {
                self.recorded = self.recorded.max(Some(slices.ts[i]));
                self.lonely.append(&mut lonely);
                return;
            }
            if launches_work(trace.slice_name(call)) {
                lonely.push(slices.ts[i]);
            }
        }
        // A row without any: nothing says that its work would have been recorded.
    }
}

/// How many of the steps have their work on the device: all, unless at the end whole steps launched and nothing of it
/// was recorded. Then the step before them is not a whole one either, if launches of its own lack their work.
///
/// * `boundaries`: of steps on the host, ascending.
/// * Cost: O(n) for n slices; usually that of the last calls of each thread.
pub(super) fn n_recorded(trace: &Trace, scope: &Scope, boundaries: &[TimeNs]) -> usize {
    let n = boundaries.len().saturating_sub(1);
    let mut ends = Ends::default();
    for row in scope.rows(trace) {
        ends.add(trace, row);
    }
    let Some(recorded) = ends.recorded else { return n };
    let step_of = |ts: TimeNs| boundaries.partition_point(|&boundary| boundary <= ts).checked_sub(1);
    let mut without: Vec<usize> = ends
        .lonely
        .iter()
        .filter(|&&ts| ts > recorded)
        .filter_map(|&ts| step_of(ts))
        .filter(|&step| step < n)
        .collect();
    without.sort_unstable();
    let last = step_of(recorded);
    match (without.first(), without.last()) {
        (Some(&first), Some(&end)) if Some(end) > last => first,
        _ => n,
    }
}

/// How many of the steps are surely whole in a file that lost a part of what was recorded: those before something else
/// that begins after them, of the host, and of the devices if there are any. `None` of a whole file, or if the steps
/// are the period of a sequence, which ends with what is there.
///
/// * Recorders write events in the order of time, or those of devices after those of the host: what a file that ends
///   early lacks is at the end of each.
/// * Work of a device that has its launch counts as of that, since a device may lag behind the host.
/// * Cost: O(n) for n slices.
pub(super) fn n_whole(trace: &Trace, scope: &Scope, steps: &Steps) -> Option<usize> {
    let is_named = steps.source.is_of_host() || matches!(steps.source, StepSource::DeviceRanges(_));
    if !trace.import.is_partial || !is_named {
        return None;
    }
    let slices = &trace.slices;
    let (mut of_host, mut of_devices) = (None, None);
    for i in scope.rows(trace).flat_map(Row::range) {
        let start = slices.ts[i];
        match slices.kind[i] {
            kind if kind.is_device_work() => {
                let launch = trace.launch_of(SliceId(i as u32)).filter(|_| steps.source.is_of_host());
                of_devices = of_devices.max(Some(launch.map_or(start, |launch| slices.ts[launch.idx()])));
            }
            // What a program or its recorder says of a stretch of time is no event in it.
            SliceKind::Annotation | SliceKind::GpuAnnotation | SliceKind::Overhead | SliceKind::Other => {}
            _ => of_host = of_host.max(Some(start)),
        }
    }
    let known = of_host.into_iter().chain(of_devices).min()?;
    Some(steps.boundaries.partition_point(|&boundary| boundary <= known).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    /// Steps of 100 ns with two launches each; the work of the first `n` launches is recorded.
    fn recorded(n_steps: usize, n: usize) -> usize {
        let mut builder = TraceBuilder::default();
        let mut slices = Vec::new();
        let mut correlation = Vec::new();
        for launch in 0..2 * n_steps {
            let at = 50 * launch as TimeNs;
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at, at + 10));
            correlation.push(launch as u32 + 1);
            if launch < n {
                slices.push((
                    "stream 7",
                    SliceKind::Kernel,
                    "gemm",
                    70 * launch as TimeNs + 20,
                    70 * launch as TimeNs + 80,
                ));
                correlation.push(launch as u32 + 1);
            }
        }
        if !slices.is_empty() {
            builder = TraceBuilder::from_slices(&slices);
            builder.slices[0].correlation = correlation;
        }
        let boundaries: Vec<TimeNs> = (0..=n_steps as TimeNs).map(|step| 100 * step).collect();
        n_recorded(&builder.finish(), &Scope::default(), &boundaries)
    }

    #[test]
    fn steps_whose_work_is_not_there_are_told() {
        assert_eq!(recorded(0, 0), 0);
        assert_eq!(recorded(8, 16), 8);
        // The last launch of all may have failed: its step is whole enough.
        assert_eq!(recorded(8, 15), 8);
        // Step 7 has nothing, step 6 all.
        assert_eq!(recorded(8, 14), 7);
        // Step 6 has half.
        assert_eq!(recorded(8, 13), 6);
        assert_eq!(recorded(8, 3), 1);
        // A recording of the host alone.
        assert_eq!(recorded(8, 0), 8);
    }

    /// Which of 8 steps of 100 ns count, and whether some do not since the file lost a part of them. Each has an
    /// operator and a launch, if it is among the first `on_host`, and a kernel that runs in the next, if it is among the
    /// first `on_device`.
    fn used(is_partial: bool, on_host: TimeNs, on_device: TimeNs) -> (std::ops::Range<usize>, bool) {
        let names: Vec<String> = (0..8).map(|i| format!("ProfilerStep#{i}")).collect();
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        for (i, name) in (0..).zip(&names) {
            let at = 100 * i;
            slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + 99));
            correlation.push(0);
            if i < on_host {
                slices.push(("main", SliceKind::Operator, "aten::mm", at + 5, at + 40));
                slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at + 10, at + 20));
                correlation.extend([0, i as u32 + 1]);
            }
            if i < on_device {
                slices.push(("stream 7", SliceKind::Kernel, "gemm", at + 110, at + 190));
                correlation.push(i as u32 + 1);
            }
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        builder.import.is_partial = is_partial;
        let steps = crate::analysis::steps::steps(&builder.finish(), &|| false).unwrap();
        (steps.used, steps.has_lost)
    }

    #[test]
    fn steps_that_a_file_lost_a_part_of_do_not_count() {
        assert_eq!(used(false, 8, 8), (1..7, false));
        // The profiler's last one is left out anyway.
        assert_eq!(used(true, 8, 8), (1..7, false));
        // Work of step 4 is there, but nothing after it; of a whole file it would count.
        assert_eq!(used(true, 8, 5), (1..4, true));
        assert_eq!(used(false, 8, 5), (1..5, false));
        // Launches and work end together, as in a file in the order of time.
        assert_eq!(used(true, 5, 5), (1..4, true));
        // The host alone.
        assert_eq!(used(true, 6, 0), (1..5, true));
        assert_eq!(used(true, 1, 0), (0..0, true));
    }
}
