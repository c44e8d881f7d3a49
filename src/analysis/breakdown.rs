//! What fills a window of time: on the host and all devices by priority, and on one device.

use crate::model::time::unite;
use crate::model::{DurNs, ProcessId, SliceId, SliceKind, TimeRange, Trace};

/// What a moment of a step counts as: the first of these that holds, on any device or thread.
///
/// Source: the step breakdown of PyTorch's TensorBoard plugin. Unlike there, calls of the driver API count as runtime
/// and collectives are known by the names of their kernels too; ranges on the device are no host work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A kernel or CUDA graph, other than of a collective.
    Kernel,
    Memcpy,
    Memset,
    /// A kernel or host range of a collective.
    Communication,
    /// A call of the runtime or driver API.
    Runtime,
    /// `enumerate(DataLoader)#…`.
    DataLoader,
    /// An operator or annotation on the host.
    CpuExec,
    /// Nothing of these.
    Other,
}

impl Role {
    /// Number of roles.
    pub const N: usize = 8;
    /// All, from the highest priority on.
    pub const ALL: [Self; Self::N] = [
        Self::Kernel,
        Self::Memcpy,
        Self::Memset,
        Self::Communication,
        Self::Runtime,
        Self::DataLoader,
        Self::CpuExec,
        Self::Other,
    ];

    /// Display name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Kernel => "Kernel",
            Self::Memcpy => "Memcpy",
            Self::Memset => "Memset",
            Self::Communication => "Communication",
            Self::Runtime => "Runtime",
            Self::DataLoader => "Data loading",
            Self::CpuExec => "CPU",
            Self::Other => "Other",
        }
    }
}

/// Nanoseconds by [`Role`]; they sum to the window.
pub type RoleTimes = [DurNs; Role::N];

/// What one device did in a window, in nanoseconds. The parts sum to the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBreakdown {
    /// Kernels and CUDA graphs, other than of collectives.
    pub compute_ns: DurNs,
    /// Collectives while no compute runs.
    pub exposed_comm_ns: DurNs,
    /// Copies and memsets while neither compute nor a collective runs.
    pub exposed_copy_ns: DurNs,
    /// Nothing runs.
    pub idle_ns: DurNs,
}

/// Whether the name of a kernel or a host range is that of a collective: of NCCL, RCCL and HCCL, as in Holistic Trace
/// Analysis, of Gloo, and of the all-reduce kernels that vLLM and PyTorch have themselves.
pub fn is_communication_name(name: &str) -> bool {
    let starts = ["nccl", "rccl", "hccl", "Nccl", "gloo:", "void nccl"].iter().any(|prefix| name.starts_with(prefix));
    starts
        || ["ncclKernel", "ncclDevKernel", "rcclKernel", "cross_device_reduce"].iter().any(|part| name.contains(part))
}

/// What fills each of these windows, over all devices and threads of a trace.
///
/// * `windows`: sorted and disjoint.
/// * Cost: O(n log k) for n slices in k rows, however many windows there are.
pub fn role_times(trace: &Trace, windows: &[TimeRange]) -> Vec<RoleTimes> {
    let slices = &trace.slices;
    let names = Names::of(trace);
    let role = |i: usize| {
        let named = names.get(trace, i);
        match slices.kind[i] {
            SliceKind::Kernel if names.is_communication(trace, i) => Some(Role::Communication),
            SliceKind::Kernel | SliceKind::CudaGraph => Some(Role::Kernel),
            SliceKind::Memcpy => Some(Role::Memcpy),
            SliceKind::Memset => Some(Role::Memset),
            SliceKind::Runtime | SliceKind::Driver => Some(Role::Runtime),
            SliceKind::Operator | SliceKind::Annotation => match named {
                Named::Communication => Some(Role::Communication),
                Named::DataLoader => Some(Role::DataLoader),
                Named::ProfilerStep => None,
                Named::Other => Some(Role::CpuExec),
            },
            _ => None,
        }
    };
    let spans = spans::<{ Role::N - 1 }>(trace, 0..slices.rows.len(), windows, |i| role(i).map(|role| role as usize));
    let parts = by_priority(spans, windows);
    let with_rest = |(parts, window): (&[DurNs; Role::N - 1], &TimeRange)| {
        let mut times = [0; Role::N];
        times[..Role::N - 1].copy_from_slice(parts);
        times[Role::Other as usize] = window.dur() - parts.iter().sum::<DurNs>();
        times
    };
    parts.iter().zip(windows).map(with_rest).collect()
}

/// What the names of a trace say; each is looked at once.
#[derive(Debug)]
pub struct Names(Vec<Named>);

impl Names {
    /// Cost: O(bytes of all names).
    pub fn of(trace: &Trace) -> Self {
        Self(trace.strings.iter().map(|(_, name)| Named::of(name)).collect())
    }

    fn get(&self, trace: &Trace, slice: usize) -> Named {
        self.0.get(trace.slices.name[slice].0 as usize).copied().unwrap_or_default()
    }

    /// Whether a kernel is of a collective, by its name or by what was recorded of it.
    pub fn is_communication(&self, trace: &Trace, kernel: usize) -> bool {
        let is_recorded = || trace.facts.collectives.id(SliceId(kernel as u32)) != 0;
        self.get(trace, kernel) == Named::Communication || is_recorded()
    }
}

/// What a name says of a host slice or a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Named {
    Communication,
    DataLoader,
    ProfilerStep,
    #[default]
    Other,
}

impl Named {
    fn of(name: &str) -> Self {
        let is_loader = name.starts_with("enumerate(DataLoader)#") && name.ends_with(".__next__");
        match name {
            _ if name.starts_with("ProfilerStep#") => Self::ProfilerStep,
            _ if is_loader || name.starts_with("enumerate(DataPipe)#") => Self::DataLoader,
            _ if is_communication_name(name) => Self::Communication,
            _ => Self::Other,
        }
    }
}

/// What the device of `process` did in each of these windows.
///
/// * `windows`: sorted and disjoint.
/// * Work outside the trace's span (events with lost times) is excluded, as in [`super::busy`].
/// * Cost: O(n log k) for n slices of the device in k rows, however many windows there are.
pub fn device_breakdowns(trace: &Trace, process: ProcessId, windows: &[TimeRange]) -> Vec<DeviceBreakdown> {
    let names = Names::of(trace);
    let part = |i: usize| match trace.slices.kind[i] {
        SliceKind::Kernel if names.is_communication(trace, i) => Some(1),
        SliceKind::Kernel | SliceKind::CudaGraph => Some(0),
        SliceKind::Memcpy | SliceKind::Memset => Some(2),
        _ => None,
    };
    let parts = by_priority(spans::<3>(trace, rows_of(trace, process), windows, part), windows);
    let breakdown = |(&[compute_ns, exposed_comm_ns, exposed_copy_ns], window): (&[DurNs; 3], &TimeRange)| {
        let busy = compute_ns + exposed_comm_ns + exposed_copy_ns;
        DeviceBreakdown { compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns: window.dur() - busy }
    };
    parts.iter().zip(windows).map(breakdown).collect()
}

/// Time of each window in which a kernel or CUDA graph runs on the device of `process`: the numerator of the
/// TensorBoard plugin's GPU utilization, whose denominator is the sum of all steps. Parameters and cost as for
/// [`device_breakdowns`].
pub fn kernel_times(trace: &Trace, process: ProcessId, windows: &[TimeRange]) -> Vec<DurNs> {
    let is_kernel = |i: usize| matches!(trace.slices.kind[i], SliceKind::Kernel | SliceKind::CudaGraph).then_some(0);
    let spans = spans::<1>(trace, rows_of(trace, process), windows, is_kernel);
    by_priority(spans, windows).into_iter().map(|[kernels]| kernels).collect()
}

/// The rows of a process, which are consecutive.
fn rows_of(trace: &Trace, process: ProcessId) -> std::ops::Range<usize> {
    let rows = &trace.slices.rows;
    let first = rows.partition_point(|row| trace.track(row.track).process < process);
    first..first + rows[first..].partition_point(|row| trace.track(row.track).process == process)
}

/// The times of the slices of some rows by part, as far as they lie between the first and the last window.
fn spans<const N: usize>(
    trace: &Trace,
    rows: std::ops::Range<usize>,
    windows: &[TimeRange],
    part: impl Fn(usize) -> Option<usize>,
) -> [Vec<TimeRange>; N] {
    let mut spans = [const { Vec::new() }; N];
    let whole = windows.first().zip(windows.last()).map(|(first, last)| first.union(*last));
    let Some(whole) = whole.and_then(|whole| whole.intersect(trace.span)) else { return spans };
    for row in &trace.slices.rows[rows] {
        for i in trace.slices.window(row, whole) {
            let Some(part) = part(i) else { continue };
            let time = trace.slices.time(SliceId(i as u32));
            // Neighbors in a row are often of one part.
            match spans[part].last_mut() {
                Some(last) if last.end == time.start => last.end = time.end,
                _ => spans[part].push(time),
            }
        }
    }
    spans
}

/// For each window the time of each part while no part before it runs.
fn by_priority<const N: usize>(spans: [Vec<TimeRange>; N], windows: &[TimeRange]) -> Vec<[DurNs; N]> {
    let mut out = vec![[0; N]; windows.len()];
    let mut all: Vec<TimeRange> = Vec::new();
    let mut before = vec![0; windows.len()];
    for (part, spans) in spans.into_iter().enumerate() {
        all.extend(spans);
        unite(&mut all);
        let covered = covered(&all, windows);
        for ((out, covered), before) in out.iter_mut().zip(covered).zip(&mut before) {
            out[part] = covered - *before;
            *before = covered;
        }
    }
    out
}

/// How much of each window the spans cover; both sorted and disjoint. Cost: O(spans + windows).
fn covered(spans: &[TimeRange], windows: &[TimeRange]) -> Vec<DurNs> {
    let mut next = 0;
    let mut sum = |window: &TimeRange| {
        while spans.get(next).is_some_and(|span| span.end <= window.start) {
            next += 1;
        }
        let inside = spans[next..].iter().take_while(|span| span.start < window.end);
        inside.filter_map(|span| span.intersect(*window)).map(TimeRange::dur).sum()
    };
    windows.iter().map(&mut sum).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TraceBuilder;

    const NAMES: [(&str, SliceKind, &str, Option<Role>); 10] = [
        ("stream 7", SliceKind::Kernel, "gemm", Some(Role::Kernel)),
        ("stream 8", SliceKind::Memcpy, "Memcpy HtoD", Some(Role::Memcpy)),
        ("stream 9", SliceKind::Memset, "Memset", Some(Role::Memset)),
        ("stream 10", SliceKind::Kernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", Some(Role::Communication)),
        ("main", SliceKind::Annotation, "gloo:all_reduce", Some(Role::Communication)),
        ("other", SliceKind::Runtime, "cudaLaunchKernel", Some(Role::Runtime)),
        ("loader", SliceKind::Annotation, "enumerate(DataLoader)#_Iter.__next__", Some(Role::DataLoader)),
        ("autograd", SliceKind::Operator, "aten::mm", Some(Role::CpuExec)),
        ("steps", SliceKind::Annotation, "ProfilerStep#3", None),
        ("stream 11", SliceKind::GpuAnnotation, "forward", None),
    ];

    proptest! {
        #[test]
        fn parts_are_those_counted_nanosecond_by_nanosecond(
            work in prop::collection::vec((0_i64..200, 0_i64..40, 0_usize..NAMES.len()), 1..60),
            cuts in prop::collection::vec(0_i64..260, 2..9),
        ) {
            let slices: Vec<_> =
                work.iter().map(|&(ts, dur, n)| (NAMES[n].0, NAMES[n].1, NAMES[n].2, ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&slices).finish();
            let mut cuts = cuts;
            cuts.sort_unstable();
            // Windows with time between them.
            let windows: Vec<_> =
                cuts.chunks_exact(2).map(|pair| TimeRange { start: pair[0], end: pair[1] }).collect();
            let at = |ts: i64| {
                let running = work.iter().filter(|&&(start, dur, _)| start <= ts && ts < start + dur);
                running.filter_map(|&(_, _, n)| NAMES[n].3).min().unwrap_or(Role::Other)
            };
            let expected: Vec<RoleTimes> = windows.iter().map(|window| {
                let count = |role| (window.start..window.end).filter(|&ts| at(ts) == role).count() as DurNs;
                Role::ALL.map(count)
            }).collect();
            prop_assert_eq!(role_times(&trace, &windows), expected);
            let Some(device) = trace.processes.iter().position(|process| process.device.is_some()) else { return Ok(()) };
            let device = ProcessId(device as u32);
            let on_device = |ts: i64, wanted: &[usize]| {
                work.iter().any(|&(start, dur, n)| wanted.contains(&n) && start <= ts && ts < start + dur)
            };
            let kernels = kernel_times(&trace, device, &windows);
            for ((found, window), kernels) in device_breakdowns(&trace, device, &windows).iter().zip(&windows).zip(kernels) {
                let count = |is: &dyn Fn(i64) -> bool| (window.start..window.end).filter(|&ts| is(ts)).count() as DurNs;
                prop_assert_eq!(found.compute_ns, count(&|ts| on_device(ts, &[0])));
                prop_assert_eq!(found.exposed_comm_ns, count(&|ts| !on_device(ts, &[0]) && on_device(ts, &[3])));
                prop_assert_eq!(found.exposed_copy_ns, count(&|ts| !on_device(ts, &[0, 3]) && on_device(ts, &[1, 2])));
                prop_assert_eq!(found.idle_ns, count(&|ts| !on_device(ts, &[0, 1, 2, 3])));
                prop_assert_eq!(kernels, count(&|ts| on_device(ts, &[0, 3])));
            }
        }
    }
}
