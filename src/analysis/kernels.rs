//! Time of kernels on the device, and the occupancy of their launches.

mod sums;

use hashbrown::HashMap;
use rayon::prelude::*;

use self::sums::{Chip, Sums, chips};
use super::short_name::short_name;
use super::totals::{Durations, Group, Instance, Part, Scope, group};
use crate::model::{DurNs, Launch, SliceId, SliceKind, StringId, TimeRange, Trace};

/// Kernels that take less than this on average are tiny: launching them takes about as long.
pub const TINY_NS: DurNs = 10_000;
/// Kernels that take more than this on average are slow.
pub const SLOW_NS: DurNs = 1_000_000;
/// Part of the time of all kernels whose blocks must be known for an SM efficiency of all.
const MIN_KNOWN: f64 = 0.95;

/// Grouping of kernels into rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KernelsBy {
    /// The full name, template and call arguments included.
    #[default]
    Name,
    /// The recorded short name, else [`short_name`].
    Short,
    /// The full name, grid, block, registers and shared memory.
    Shape,
}

/// The rank and device that a kernel ran on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankDevice {
    pub rank: Option<u32>,
    pub device: Option<u32>,
}

/// Totals of the kernels of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelTotals {
    pub name: String,
    /// Whether it is a CUDA graph recorded as a whole, without its kernels.
    pub is_graph: bool,
    pub place: RankDevice,
    pub durations: Durations,
    /// Time within the scope's range; without one the total.
    pub within_ns: DurNs,
    /// Share of the time of all kernels and graphs in scope, 0 to 1; of the time within its range. So are all weights
    /// below.
    pub share: f64,
    /// Launch parameters, if recorded and equal for all of them.
    pub launch: Option<Launch>,
    /// Whether launch parameters differ.
    pub has_many_shapes: bool,
    /// Theoretical occupancy, 0 to 1, weighted by duration over the calls for which it is known.
    pub occupancy: Option<f64>,
    /// Recorded estimate of the achieved occupancy, 0 to 1, weighted likewise.
    pub recorded_occupancy: Option<f64>,
    /// Estimated SM efficiency, 0 to 1: min(blocks / SMs, 1), weighted likewise. `None` where blocks or the
    /// number of SMs were not recorded.
    pub sm_efficiency: Option<f64>,
    /// Whether the names say that tensor cores are used; `None` if they do not tell, or differ.
    pub tensor_cores: Option<bool>,
    /// Time within the range of calls whose names say so.
    pub tensor_ns: DurNs,
    /// Time within the range of calls whose names do not tell.
    pub unknown_ns: DurNs,
    /// Time from the end of the launching call to the start of the kernel, over those that waited; see
    /// [`add_queue_times`].
    pub queue: Durations,
    pub instances: Vec<Instance>,
}

/// Figures of all kernels of a scope together. Times are those within its range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelSummary {
    pub calls: u64,
    pub within_ns: DurNs,
    /// Time of kernels whose names say that they use tensor cores.
    pub tensor_ns: DurNs,
    /// Time of kernels whose names do not tell.
    pub unknown_ns: DurNs,
    /// Calls and time of rows with a mean below [`TINY_NS`].
    pub tiny: (u64, DurNs),
    /// Calls and time of rows with a mean above [`SLOW_NS`].
    pub slow: (u64, DurNs),
    /// Estimated SM efficiency over the range or, of whole traces, from the first start to the last end on each
    /// device: Σ min(blocks / SMs, 1) · duration / that time. `None` where blocks or SMs were not recorded.
    ///
    /// Source: the TensorBoard plugin of the PyTorch profiler, with the step as the time.
    pub sm_efficiency: Option<f64>,
}

type Key = (String, bool, RankDevice, Option<Launch>);

/// The kernels in scope, and CUDA graphs recorded as a whole, by name, rank and device.
///
/// * Sorted by total, descending, then name.
/// * Cost: O(slices of the rows in scope), and 8 bytes per kernel.
pub fn kernels(scope: &Scope<'_>, by: KernelsBy) -> Vec<KernelTotals> {
    let is_kernel = |kind| matches!(kind, SliceKind::Kernel | SliceKind::CudaGraph);
    let local = |part: &Part<'_>, i: usize| {
        let (slices, launches) = (&part.trace.slices, &part.trace.facts.launches);
        let launch = if by == KernelsBy::Shape { launches.id(SliceId(i as u32)) } else { 0 };
        (slices.name[i], slices.kind[i], launch, device_of(part))
    };
    let key = |part: &Part<'_>, &(name, kind, launch, device): &(StringId, SliceKind, u32, Option<u32>)| -> Key {
        let trace = part.trace;
        let name = if by == KernelsBy::Short { short(trace, name) } else { trace.strings.get(name).to_owned() };
        // The recorded occupancy is not part of the launch shape.
        let launch = trace.facts.launches.value(launch).map(|&launch| Launch { recorded_occupancy: None, ..launch });
        let is_graph = kind == SliceKind::CudaGraph;
        (name, is_graph, RankDevice { rank: trace.info.rank, device }, launch)
    };
    let chips: Vec<Vec<Chip>> = scope.traces.iter().map(|trace| chips(trace)).collect();
    let add = |sums: &mut Sums, part: &Part<'_>, i: usize| {
        let instance = Instance { trace: part.index, slice: SliceId(i as u32) };
        let of_device = || chips[part.index as usize].iter().find(|chip| Some(chip.device) == device_of(part));
        sums.add(part.trace, instance, scope.time_of(instance), of_device);
    };
    let groups = group(scope, is_kernel, local, key, false, add);
    let mut rows: Vec<KernelTotals> = groups.into_iter().map(totals).collect();
    let all: f64 = rows.iter().map(|row| row.within_ns as f64).sum();
    rows.iter_mut().for_each(|row| row.share = if all > 0.0 { row.within_ns as f64 / all } else { 0.0 });
    rows
}

/// Adds the queue times of these rows of [`kernels`].
///
/// Kernels that start before the call that launched them returns did not wait, and are not counted. Of the work that
/// one call launched on a stream, as of a graph, only the first waits for the call: the others wait for that.
///
/// * Cost: O(kernels), a look-up of the launching call each.
/// * Source: `cuda_kern_exec_sum` of NVIDIA Nsight Systems, which counts each node of a graph.
pub fn add_queue_times(traces: &[&Trace], rows: &mut [KernelTotals]) {
    rows.par_iter_mut().for_each(|row| {
        let waited = |&Instance { trace, slice }: &Instance| {
            let trace = traces[trace as usize];
            let call = trace.launch_of(slice)?;
            let before = slice.0.checked_sub(1).map(SliceId);
            let correlation = |slice: SliceId| trace.slices.correlation[slice.idx()];
            let is_next = |&before: &SliceId| {
                correlation(before) == correlation(slice) && trace.slices.row_of(before) == trace.slices.row_of(slice)
            };
            if before.is_some_and(|before| is_next(&before)) {
                return None;
            }
            Some(trace.slices.ts[slice.idx()] - trace.slices.end[call.idx()]).filter(|&waited| waited > 0)
        };
        row.queue = Durations::of(&mut row.instances.iter().filter_map(waited).collect::<Vec<_>>());
    });
}

/// The figures of all kernels together; `rows`: those of [`kernels`] for the same scope. Cost: O(kernels).
pub fn summary(scope: &Scope<'_>, rows: &[KernelTotals]) -> KernelSummary {
    let mut sums = KernelSummary::default();
    let (mut filled, mut known) = (0.0, 0.0);
    let mut windows: HashMap<(u32, Option<u32>), TimeRange> = HashMap::new();
    for row in rows {
        let (Durations { calls, mean_ns, .. }, within_ns) = (row.durations, row.within_ns);
        sums.calls += calls;
        sums.within_ns = sums.within_ns.saturating_add(within_ns);
        sums.tensor_ns = sums.tensor_ns.saturating_add(row.tensor_ns);
        sums.unknown_ns = sums.unknown_ns.saturating_add(row.unknown_ns);
        for (is_in, of) in [(mean_ns < TINY_NS, &mut sums.tiny), (mean_ns > SLOW_NS, &mut sums.slow)] {
            if is_in {
                *of = (of.0 + calls, of.1.saturating_add(within_ns));
            }
        }
        if let Some(efficiency) = row.sm_efficiency {
            filled += efficiency * within_ns as f64;
            known += within_ns as f64;
        }
        for &Instance { trace, slice } in &row.instances {
            let time = scope.traces[trace as usize].slices.time(slice);
            let window = windows.entry((trace, row.place.device)).or_insert(time);
            *window = TimeRange { start: window.start.min(time.start), end: window.end.max(time.end) };
        }
    }
    let length = |(&(trace, _), window): (&(u32, Option<u32>), &TimeRange)| {
        scope.range(trace as usize).unwrap_or(*window).dur() as f64
    };
    let window: f64 = windows.iter().map(length).sum();
    let is_known = window > 0.0 && known > 0.0 && known >= MIN_KNOWN * sums.within_ns as f64;
    sums.sm_efficiency = is_known.then(|| (filled / window).min(1.0));
    sums
}

/// The kernels with the same function name on the same device that start before this one: what
/// `ncu --launch-skip` skips. Cost: O(kernels of the device).
pub fn launches_before(trace: &Trace, kernel: SliceId) -> u64 {
    let slices = &trace.slices;
    let device = |id: SliceId| trace.process(trace.track(slices.track_of(id)).process).device;
    let (wanted, of) = (function_name(trace, slices.name[kernel.idx()]), device(kernel));
    let mut is_same: HashMap<StringId, bool> = HashMap::new();
    let position = |i: usize| (slices.ts[i], i);
    let mut n = 0;
    for row in slices.rows.iter().filter(|row| trace.process(trace.track(row.track).process).device == of) {
        for i in row.range().filter(|&i| slices.kind[i] == SliceKind::Kernel && position(i) < position(kernel.idx())) {
            let name = slices.name[i];
            n += u64::from(*is_same.entry(name).or_insert_with(|| function_name(trace, name) == wanted));
        }
    }
    n
}

/// The name of a kernel's function without scopes, template and call arguments; a mangled name as it is.
pub fn function_name(trace: &Trace, name: StringId) -> String {
    let short = short(trace, name);
    short.rsplit("::").next().filter(|last| !last.is_empty()).unwrap_or(&short).to_owned()
}

/// The short name of a kernel: recorded, else by [`short_name`].
pub fn short(trace: &Trace, name: StringId) -> String {
    match trace.short_names.get(&name) {
        Some(&short) => trace.strings.get(short).to_owned(),
        None => short_name(trace.strings.get(name)),
    }
}

fn device_of(part: &Part<'_>) -> Option<u32> {
    part.trace.process(part.trace.track(part.track).process).device
}

/// All but the share.
fn totals(group: Group<Key, Sums>) -> KernelTotals {
    let (name, is_graph, place, _) = group.key;
    let Sums { within_ns, tensor, launch, has_many_shapes, occupancy, recorded_percent, filled, .. } = group.sums;
    KernelTotals {
        name,
        is_graph,
        place,
        durations: group.durations,
        within_ns,
        share: 0.0,
        launch: launch.filter(|_| !has_many_shapes),
        has_many_shapes,
        occupancy: occupancy.get(),
        recorded_occupancy: recorded_percent.get().map(|percent| percent / 100.0),
        sm_efficiency: filled.get(),
        tensor_cores: if tensor.differs { None } else { tensor.last.and_then(|(.., uses)| uses) },
        tensor_ns: tensor.uses_ns,
        unknown_ns: tensor.unknown_ns,
        queue: Durations::default(),
        instances: group.instances,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{DeviceInfo, Process, SliceFacts, TraceBuilder};

    const KERNEL: SliceKind = SliceKind::Kernel;

    fn launch(block: u32, registers_per_thread: u32, recorded: u8) -> Launch {
        Launch {
            grid: [64, 1, 1],
            block: [block, 1, 1],
            registers_per_thread: Some(registers_per_thread),
            shared_bytes: Some(0),
            recorded_occupancy: Some(recorded),
        }
    }

    fn trace() -> Trace {
        let mut builder = TraceBuilder::from_slices(&[
            ("stream 7", KERNEL, "void ns::gemm<float>(int)", 0, 100),
            ("stream 7", KERNEL, "void ns::gemm<float>(int)", 100, 400),
            ("stream 7", KERNEL, "void ns::gemm<half>(int)", 400, 500),
            ("stream 7", SliceKind::CudaGraph, "graph 3", 500, 1_000),
            ("stream 7", SliceKind::Memcpy, "Memcpy HtoD", 1_000, 9_000),
        ]);
        // 1,024 registers a warp: all 64 warps; 2,048 a warp: 32 of them.
        let launches = [launch(256, 32, 90), launch(256, 64, 40)];
        for (slice, of) in [(0, 0), (1, 1), (2, 0)] {
            builder.set_facts(slice, SliceFacts { launch: Some(launches[of]), ..Default::default() });
        }
        let device = DeviceInfo { compute_major: Some(8), compute_minor: Some(0), ..Default::default() };
        builder.info.devices = vec![device];
        builder.finish()
    }

    #[test]
    fn kernels_by_name_short_name_and_shape() {
        let trace = trace();
        let rows = |by| kernels(&Scope::whole(&[&trace]), by);
        let names: Vec<_> = rows(KernelsBy::Name).iter().map(|k| (k.name.clone(), k.durations.calls)).collect();
        let [float, half] = ["void ns::gemm<float>(int)", "void ns::gemm<half>(int)"].map(str::to_owned);
        assert_eq!(names, [("graph 3".to_owned(), 1), (float, 2), (half, 1)]);
        let by_name = &rows(KernelsBy::Name)[1];
        assert!(by_name.has_many_shapes && by_name.launch.is_none());
        // 100 ns at 1 and 300 ns at 0.5; 100 ns at 0.9 and 300 ns at 0.4.
        assert_eq!(by_name.occupancy, Some(0.625));
        assert!((by_name.recorded_occupancy.unwrap() - 0.525).abs() < 1e-12);
        assert_eq!((by_name.share, by_name.place.device), (0.4, Some(0)));

        let short = rows(KernelsBy::Short);
        assert_eq!((short[1].name.as_str(), short[1].durations.calls), ("ns::gemm", 3));
        assert!(short[0].is_graph && short[0].occupancy.is_none());

        let shape = rows(KernelsBy::Shape);
        let shapes: Vec<_> = shape[1..].iter().map(|k| (k.launch.unwrap().registers_per_thread, k.occupancy)).collect();
        assert_eq!(shapes, [(Some(64), Some(0.5)), (Some(32), Some(1.0)), (Some(32), Some(1.0))]);
    }

    #[test]
    fn the_only_device_listed_is_that_of_all_work_whatever_its_number() {
        let occupancy = |worked: &[u32]| {
            let mut trace = trace();
            let of_work = trace.processes.iter().find(|process| process.device.is_some()).cloned();
            trace.processes.retain(|process| process.device.is_none());
            let with = |&device: &u32| of_work.clone().map(|process| Process { device: Some(device), ..process });
            trace.processes.extend(worked.iter().filter_map(with));
            kernels(&Scope::whole(&[&trace]), KernelsBy::Short)[1].occupancy
        };
        assert_eq!(occupancy(&[2]), occupancy(&[0]));
        assert!(occupancy(&[0]).is_some());
        assert_eq!(occupancy(&[2, 3]), None, "it may be another");
    }

    #[test]
    fn figures_of_all_kernels_together() {
        let mut builder = TraceBuilder::from_slices(&[
            ("stream 7", KERNEL, "ampere_s16816gemm_tn", 0, 2_000_000),
            ("stream 7", KERNEL, "ampere_s16816gemm_tn", 2_000_000, 2_500_000),
            ("stream 7", KERNEL, "own", 3_000_000, 3_004_000),
            ("stream 7", KERNEL, "triton_poi_fused_add_0", 3_500_000, 4_000_000),
        ]);
        // 64 blocks on 128 multiprocessors, and 256.
        for (slice, grid) in [(0, 64), (1, 64), (2, 64), (3, 256)] {
            let launch = Launch { grid: [grid, 1, 1], ..launch(256, 32, 0) };
            builder.set_facts(slice, SliceFacts { launch: Some(launch), ..Default::default() });
        }
        builder.info.devices = vec![DeviceInfo { n_sms: Some(128), ..Default::default() }];
        let trace = builder.finish();
        let traces = [&trace];
        let scope = Scope::whole(&traces);
        let rows = kernels(&scope, KernelsBy::Name);
        let uses: Vec<_> = rows.iter().map(|row| (row.tensor_cores, row.sm_efficiency)).collect();
        assert_eq!(uses, [(Some(true), Some(0.5)), (Some(false), Some(1.0)), (None, Some(0.5))]);
        let all = summary(&scope, &rows);
        assert_eq!((all.calls, all.within_ns, all.tensor_ns, all.unknown_ns), (4, 3_004_000, 2_500_000, 4_000));
        assert_eq!((all.tiny, all.slow), ((1, 4_000), (2, 2_500_000)));
        // (2,504,000 / 2 + 500,000) / 4,000,000.
        assert_eq!(all.sm_efficiency, Some(0.438));
        // The last kernel has half of its time in the range.
        let scope = Scope { ranges: Some(vec![TimeRange { start: 3_400_000, end: 4_400_000 }]), ..scope };
        assert_eq!(summary(&scope, &kernels(&scope, KernelsBy::Name)).sm_efficiency, Some(0.5));
        // Of the first kernel 400 µs lie in the range, of the second 100 µs.
        let scope = Scope { ranges: Some(vec![TimeRange { start: 1_600_000, end: 2_100_000 }]), ..scope };
        let rows = kernels(&scope, KernelsBy::Name);
        let one: Vec<_> = rows.iter().map(|row| (row.durations.total_ns, row.within_ns, row.share)).collect();
        assert_eq!(one, [(2_500_000, 500_000, 1.0)]);
        let scope = Scope { ranges: Some(vec![TimeRange { start: 2_400_000, end: 3_700_000 }]), ..scope };
        let (rows, of) = (kernels(&scope, KernelsBy::Name), |ns: i64| ns as f64 / 304_000.0);
        let shares: Vec<_> = rows.iter().map(|row| (row.within_ns, row.share)).collect();
        assert_eq!(shares, [(100_000, of(100_000)), (200_000, of(200_000)), (4_000, of(4_000))]);
        let all = summary(&scope, &rows);
        assert_eq!((all.within_ns, all.tensor_ns, all.unknown_ns, all.tiny), (304_000, 100_000, 4_000, (1, 4_000)));
        assert_eq!(summary(&scope, &[]), KernelSummary::default());
    }

    #[test]
    fn recorded_short_names_come_first() {
        let mut builder = TraceBuilder::from_slices(&[("stream 7", KERNEL, "void f<int>(int)", 0, 1)]);
        let [full, short] = ["void f<int>(int)", "its own"].map(|name| builder.strings.intern(name));
        builder.short_names.insert(full, short);
        let trace = builder.finish();
        assert_eq!(kernels(&Scope::whole(&[&trace]), KernelsBy::Short)[0].name, "its own");
    }

    #[test]
    fn ranks_are_separate_rows() {
        let rank = |rank| {
            let mut builder = TraceBuilder::from_slices(&[("stream 7", KERNEL, "k", 0, 10)]);
            builder.info.rank = Some(rank);
            builder.finish()
        };
        let (a, b) = (rank(0), rank(1));
        let rows = kernels(&Scope::whole(&[&a, &b]), KernelsBy::Name);
        assert_eq!(rows.iter().map(|k| k.place.rank).collect::<Vec<_>>(), [Some(0), Some(1)]);
        assert_eq!(rows[1].instances[0].trace, 1);
    }

    proptest! {
        #[test]
        fn every_grouping_sums_to_all_kernels(
            work in prop::collection::vec((0_usize..4, 0_u32..3, 1_i64..50), 1..60),
        ) {
            let names = ["void a<int>()", "void a<float>()", "b", "c<"];
            let slices: Vec<_> = work.iter().enumerate()
                .map(|(i, w)| ("stream 7", KERNEL, names[w.0], 100 * i as i64, 100 * i as i64 + w.2)).collect();
            let mut builder = TraceBuilder::from_slices(&slices);
            for (slice, w) in work.iter().enumerate() {
                let launch = [None, Some(launch(128, 32, 10)), Some(launch(128, 32, 20))][w.1 as usize];
                builder.set_facts(slice, SliceFacts { launch, ..Default::default() });
            }
            let trace = builder.finish();
            let total: i64 = work.iter().map(|w| w.2).sum();
            for by in [KernelsBy::Name, KernelsBy::Short, KernelsBy::Shape] {
                let rows = kernels(&Scope::whole(&[&trace]), by);
                prop_assert_eq!(rows.iter().map(|k| k.durations.total_ns).sum::<i64>(), total);
                prop_assert_eq!(rows.iter().map(|k| k.instances.len()).sum::<usize>(), work.len());
                prop_assert!((rows.iter().map(|k| k.share).sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }
}
