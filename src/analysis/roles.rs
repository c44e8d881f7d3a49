//! Composition of a step: time of hosts and devices together, each moment assigned to its most important activity.

use rayon::prelude::*;

use super::collectives::CollectiveKernels;
use crate::model::time::unite;
use crate::model::{DurNs, SliceId, SliceKind, TimeRange, Trace};

/// What a moment of a step counts as: the first of these that holds, on any device or thread.
///
/// Source: the step breakdown of PyTorch's TensorBoard plugin. Unlike there, calls of the driver API count as runtime
/// and collectives are known by the names of their kernels too; ranges on the device are not host work. Where call stacks
/// were recorded, the loader's function counts with its range, as it does in the phases.
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
    /// `enumerate(DataLoader)#…`, or the function that opens this range, which may take a while to do so.
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
}

/// Nanoseconds by [`Role`]; they sum to the window.
pub type RoleTimes = [DurNs; Role::N];

/// What fills each of these windows, over all devices and threads of a trace.
///
/// * `windows`: sorted and disjoint.
/// * Cost: O(n log k) for n slices in k rows, however many windows there are.
pub fn role_times(trace: &Trace, windows: &[TimeRange]) -> Vec<RoleTimes> {
    let slices = &trace.slices;
    let named: Vec<Named> = trace.strings.iter().map(|(_, name)| Named::of(name)).collect();
    let mut collectives = CollectiveKernels::new(trace);
    let role = |i: usize| match slices.kind[i] {
        SliceKind::Kernel if collectives.contains(SliceId(i as u32)) => Some(Role::Communication),
        SliceKind::Kernel | SliceKind::CudaGraph => Some(Role::Kernel),
        SliceKind::Memcpy => Some(Role::Memcpy),
        SliceKind::Memset => Some(Role::Memset),
        SliceKind::Runtime | SliceKind::Driver => Some(Role::Runtime),
        SliceKind::Operator | SliceKind::Annotation => match named.get(slices.name[i].0 as usize)? {
            Named::Collective => Some(Role::Communication),
            Named::DataLoader => Some(Role::DataLoader),
            Named::ProfilerStep => None,
            Named::Other => Some(Role::CpuExec),
        },
        SliceKind::PythonFunction if named.get(slices.name[i].0 as usize) == Some(&Named::DataLoader) => {
            Some(Role::DataLoader)
        }
        _ => None,
    };
    let spans = spans(trace, windows, role);
    let parts = by_priority(spans, windows);
    let with_rest = |(parts, window): (&[DurNs; Role::N - 1], &TimeRange)| {
        let mut times = [0; Role::N];
        times[..Role::N - 1].copy_from_slice(parts);
        times[Role::Other as usize] = window.dur() - parts.iter().sum::<DurNs>();
        times
    };
    parts.iter().zip(windows).map(with_rest).collect()
}

/// What the name of a host slice says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Collective,
    DataLoader,
    ProfilerStep,
    Other,
}

impl Named {
    fn of(name: &str) -> Self {
        let is_loader = name.starts_with("enumerate(DataLoader)#") && name.ends_with(".__next__");
        match name {
            _ if name.starts_with("ProfilerStep#") => Self::ProfilerStep,
            _ if is_loader || is_function_of_loader(name) || name.starts_with("enumerate(DataPipe)#") => {
                Self::DataLoader
            }
            _ if name.starts_with("nccl:") || name.starts_with("gloo:") => Self::Collective,
            _ => Self::Other,
        }
    }
}

/// `torch/utils/data/dataloader.py(727): __next__`.
fn is_function_of_loader(name: &str) -> bool {
    let Some(place) = name.strip_suffix("): __next__") else { return false };
    place.rsplit_once('(').is_some_and(|(file, _)| file.ends_with("torch/utils/data/dataloader.py"))
}

/// The times of all slices by role, as far as they lie between the first and the last window.
fn spans(
    trace: &Trace,
    windows: &[TimeRange],
    mut role: impl FnMut(usize) -> Option<Role>,
) -> [Vec<TimeRange>; Role::N - 1] {
    let mut spans = [const { Vec::new() }; Role::N - 1];
    let whole = windows.first().zip(windows.last()).map(|(first, last)| first.union(*last));
    let Some(whole) = whole.and_then(|whole| whole.intersect(trace.span)) else { return spans };
    for row in &trace.slices.rows {
        for i in trace.slices.window(row, whole) {
            let Some(role) = role(i) else { continue };
            let time = trace.slices.time(SliceId(i as u32));
            // Neighbors in a row often have one role.
            match spans[role as usize].last_mut() {
                Some(last) if last.end == time.start => last.end = time.end,
                _ => spans[role as usize].push(time),
            }
        }
    }
    spans
}

/// For each window the time of each kind of span while none of the kinds before it runs.
///
/// Cost: O(n log k) for n spans in k ascending runs.
fn by_priority<const N: usize>(mut spans: [Vec<TimeRange>; N], windows: &[TimeRange]) -> Vec<[DurNs; N]> {
    spans.par_iter_mut().for_each(unite);
    // The first span of each kind that is not over.
    let mut next = [0; N];
    let mut of_window = |window: &TimeRange| {
        let mut times = [0; N];
        let mut at = window.start;
        while at < window.end {
            let mut until = window.end;
            for (kind, spans) in spans.iter().enumerate() {
                let first = &mut next[kind];
                *first += spans[*first..].iter().take_while(|span| span.end <= at).count();
                let Some(span) = spans.get(*first) else { continue };
                if span.start <= at {
                    until = until.min(span.end);
                    times[kind] += until - at;
                    break;
                }
                until = until.min(span.start);
            }
            at = until;
        }
        times
    };
    windows.iter().map(&mut of_window).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TraceBuilder;

    const NAMES: [(&str, SliceKind, &str, Option<Role>); 12] = [
        ("stream 7", SliceKind::Kernel, "gemm", Some(Role::Kernel)),
        ("stream 8", SliceKind::Memcpy, "Memcpy HtoD", Some(Role::Memcpy)),
        ("stream 9", SliceKind::Memset, "Memset", Some(Role::Memset)),
        ("stream 10", SliceKind::Kernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", Some(Role::Communication)),
        ("main", SliceKind::Annotation, "gloo:all_reduce", Some(Role::Communication)),
        ("other", SliceKind::Runtime, "cudaLaunchKernel", Some(Role::Runtime)),
        ("loader", SliceKind::Annotation, "enumerate(DataLoader)#_Iter.__next__", Some(Role::DataLoader)),
        ("stacks", SliceKind::PythonFunction, "torch/utils/data/dataloader.py(727): __next__", Some(Role::DataLoader)),
        ("more stacks", SliceKind::PythonFunction, "train.py(7): __next__", None),
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
        }
    }
}
