//! Busy and idle time of devices.

use rayon::prelude::*;

use super::collectives::CollectiveKernels;
use crate::model::time::{length, subtract, unite};
use crate::model::{DurNs, ProcessId, SliceId, SliceKind, TimeRange, Trace, TrackId};

/// A device with less work than this many kernels, copies, memsets and graphs is not judged.
const MIN_WORK: u64 = 5;

/// Totals of one kind of device work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTotals {
    pub count: u64,
    /// Sum of the durations in nanoseconds; concurrent work counts twice.
    pub total_ns: DurNs,
    /// Union of their times in nanoseconds.
    pub union_ns: DurNs,
}

/// Busy and idle time of one device between its first start and last end, in nanoseconds.
///
/// `busy_ns + idle_ns == window.dur()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceBusy {
    pub process: ProcessId,
    /// Recorded device index.
    pub device: u32,
    /// From the first start to the last end of its work; empty without work.
    pub window: TimeRange,
    /// Busy ranges: sorted, disjoint, not adjacent, none empty.
    pub busy: Vec<TimeRange>,
    /// Union of the kernels that communicate; as these all sorted, disjoint, not adjacent, none empty.
    pub comm: Vec<TimeRange>,
    /// Of `comm` what no compute overlaps. Compute is all other kernels, and CUDA graphs recorded as a whole.
    pub exposed_comm: Vec<TimeRange>,
    /// Copies and memsets where nothing computes or communicates. The rest of `busy` is compute.
    pub exposed_copies: Vec<TimeRange>,
    /// Sum of `busy`.
    pub busy_ns: DurNs,
    /// The rest of the window.
    pub idle_ns: DurNs,
    pub kernels: WorkTotals,
    pub memcpys: WorkTotals,
    pub memsets: WorkTotals,
    /// CUDA graphs recorded as a whole.
    pub graphs: WorkTotals,
    /// Tracks with work, each a stream of the device.
    pub n_streams: u32,
}

impl DeviceBusy {
    /// Whether it has too little work to judge: a fragment of a recording.
    pub fn has_little_work(&self) -> bool {
        self.work().iter().map(|work| work.count).sum::<u64>() < MIN_WORK
    }

    /// Its kernels, copies, memsets and graphs.
    pub fn work(&self) -> [WorkTotals; 4] {
        [self.kernels, self.memcpys, self.memsets, self.graphs]
    }

    /// Busy share of the window, 0 to 1; 0 for an empty window.
    pub fn utilization(&self) -> f64 {
        match self.window.dur() {
            0 => 0.0,
            window => self.busy_ns as f64 / window as f64,
        }
    }
}

/// Busy and idle time of each device with work, in process order.
///
/// * Work is kernels, copies, memsets and graphs on all streams and rows, including overflow rows. Work
///   outside the trace's span (events with lost times) is excluded.
/// * Units: nanoseconds on the trace's clock.
/// * Errors: none. A device without work is absent.
/// * Cost: O(n log k) for n slices in k rows; devices in parallel.
pub fn devices(trace: &Trace) -> Vec<DeviceBusy> {
    let processes: Vec<_> = (0..trace.processes.len() as u32).map(ProcessId).collect();
    processes.par_iter().filter_map(|&process| device(trace, process)).collect()
}

/// Busy and idle time of the device of `process`; `None` without work. Cost as for [`devices`].
pub fn device(trace: &Trace, process: ProcessId) -> Option<DeviceBusy> {
    let mut out = DeviceBusy { process, device: trace.process(process).device?, ..Default::default() };
    let mut work = WorkSpans::default();
    let mut collectives = CollectiveKernels::new(trace);
    for track in trace.tracks_of(process) {
        let before = work.len();
        work.collect(trace, track, &mut collectives);
        out.n_streams += u32::from(work.len() > before);
    }
    let WorkSpans { mut compute, mut comm, mut copies, mut sets, mut graphs } = work;
    let all = [&compute, &comm, &copies, &sets, &graphs];
    out.window = all.into_iter().flatten().copied().reduce(TimeRange::union)?;
    let totals = |spans: &mut Vec<TimeRange>| {
        let (count, total_ns) = (spans.len() as u64, length(spans));
        unite(spans);
        WorkTotals { count, total_ns, union_ns: length(spans) }
    };
    out.kernels = totals(&mut compute);
    let communication = totals(&mut comm);
    out.kernels.count += communication.count;
    out.kernels.total_ns = out.kernels.total_ns.saturating_add(communication.total_ns);
    out.kernels.union_ns += length(&subtract(&comm, &compute));
    out.memcpys = totals(&mut copies);
    out.memsets = totals(&mut sets);
    out.graphs = totals(&mut graphs);
    if !graphs.is_empty() {
        compute.append(&mut graphs);
        unite(&mut compute);
    }
    copies.append(&mut sets);
    unite(&mut copies);
    out.exposed_comm = subtract(&comm, &compute);
    out.exposed_copies = subtract(&subtract(&copies, &compute), &comm);
    out.comm = comm;
    out.busy = compute;
    out.busy.extend(out.exposed_comm.iter().chain(&out.exposed_copies));
    unite(&mut out.busy);
    out.busy.shrink_to_fit();
    out.busy_ns = length(&out.busy);
    out.idle_ns = out.window.dur() - out.busy_ns;
    Some(out)
}

/// When work of each kind ran.
#[derive(Debug, Default)]
struct WorkSpans {
    /// Kernels that do not communicate.
    compute: Vec<TimeRange>,
    comm: Vec<TimeRange>,
    copies: Vec<TimeRange>,
    sets: Vec<TimeRange>,
    graphs: Vec<TimeRange>,
}

impl WorkSpans {
    fn len(&self) -> usize {
        let Self { compute, comm, copies, sets, graphs } = self;
        [compute, comm, copies, sets, graphs].into_iter().map(Vec::len).sum()
    }

    /// Adds the work of one track.
    fn collect(&mut self, trace: &Trace, track: TrackId, collectives: &mut CollectiveKernels<'_>) {
        let slices = &trace.slices;
        // Nearly all are kernels. What is not used of it takes no memory.
        self.compute.reserve(trace.rows(track).iter().map(|row| row.range().len()).sum());
        for i in trace.track_slices(track) {
            let to = match slices.kind[i] {
                SliceKind::Kernel if collectives.contains(SliceId(i as u32)) => &mut self.comm,
                SliceKind::Kernel => &mut self.compute,
                SliceKind::Memcpy => &mut self.copies,
                SliceKind::Memset => &mut self.sets,
                SliceKind::CudaGraph => &mut self.graphs,
                _ => continue,
            };
            let span = TimeRange { start: slices.ts[i], end: slices.end[i] };
            if trace.span.start <= span.start && span.end <= trace.span.end {
                to.push(span);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TraceBuilder;

    const K: SliceKind = SliceKind::Kernel;

    #[test]
    fn concurrent_and_crossing_slices_count_once() {
        let trace = TraceBuilder::from_slices(&[
            ("main", SliceKind::Operator, "op", 0, 1000),
            ("stream 7", SliceKind::GpuAnnotation, "range", 0, 900),
            ("stream 7", K, "a", 100, 200),
            // Crosses its predecessor, so it lies on an overflow row.
            ("stream 7", K, "b", 150, 250),
            ("stream 20", SliceKind::Memcpy, "Memcpy HtoD", 240, 300),
            ("stream 20", SliceKind::Memset, "Memset", 400, 410),
        ])
        .finish();
        let devices = devices(&trace);
        assert_eq!(devices.len(), 1);
        let device = &devices[0];
        assert_eq!(device.window, TimeRange { start: 100, end: 410 });
        assert_eq!(device.busy, [TimeRange { start: 100, end: 300 }, TimeRange { start: 400, end: 410 }]);
        assert_eq!((device.busy_ns, device.idle_ns, device.n_streams), (210, 100, 2));
        assert_eq!(device.kernels, WorkTotals { count: 2, total_ns: 200, union_ns: 150 });
        assert_eq!(device.memcpys, WorkTotals { count: 1, total_ns: 60, union_ns: 60 });
        assert!((device.utilization() - 210.0 / 310.0).abs() < 1e-12);
    }

    #[test]
    fn events_with_lost_times_do_not_extend_the_window() {
        let now = 1_700_000_000_000_000_000;
        let trace = TraceBuilder::from_slices(&[("stream 7", K, "lost", 0, 0), ("stream 7", K, "a", now, now + 5)]);
        assert_eq!(devices(&trace.finish())[0].window.dur(), 5);
    }

    #[test]
    fn a_trace_without_device_work_has_no_devices() {
        let trace = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", 0, 10)]).finish();
        assert_eq!(devices(&trace), []);
    }

    /// The same figures by counting single nanoseconds.
    fn count(work: &[(i64, i64)]) -> (i64, i64) {
        let first = work.iter().map(|work| work.0).min().unwrap();
        let last = work.iter().map(|work| work.1).max().unwrap();
        let busy = (first..last).filter(|ts| work.iter().any(|&(start, end)| start <= *ts && *ts < end)).count();
        (busy as i64, last - first)
    }

    proptest! {
        #[test]
        fn busy_and_idle_fill_the_window(work in prop::collection::vec((0_i64..300, 0_i64..40, 0_usize..3, 0_usize..3), 1..60)) {
            let streams = ["stream 7", "stream 8", "stream 9"];
            let kinds = [K, SliceKind::Memcpy, SliceKind::Memset];
            let slices: Vec<_> =
                work.iter().map(|&(ts, dur, s, k)| (streams[s], kinds[k], "x", ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&slices).finish();
            let device = device(&trace, ProcessId(0)).unwrap();
            let all: Vec<_> = slices.iter().map(|slice| (slice.3, slice.4)).collect();
            let (busy, window) = count(&all);
            prop_assert_eq!((device.busy_ns, device.window.dur()), (busy, window));
            prop_assert_eq!(device.busy_ns + device.idle_ns, device.window.dur());
            prop_assert!(device.busy.windows(2).all(|pair| pair[0].end < pair[1].start));
            for (totals, kind) in [(device.kernels, K), (device.memcpys, SliceKind::Memcpy)] {
                let of_kind: Vec<_> = slices.iter().filter(|slice| slice.1 == kind).map(|s| (s.3, s.4)).collect();
                let union = if of_kind.is_empty() { 0 } else { count(&of_kind).0 };
                prop_assert_eq!((totals.count, totals.union_ns), (of_kind.len() as u64, union));
            }
        }
    }
}
