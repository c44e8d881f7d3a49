//! Time of kernels on the device, and the occupancy of their launches.

use super::occupancy::{self, Limits};
use super::short_name::short_name;
use super::totals::{Durations, Group, Instance, Part, Scope, group};
use crate::model::{DurNs, Launch, SliceId, SliceKind, StringId, Trace};

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
    /// Share of the time of all kernels and graphs in scope, 0 to 1.
    pub share: f64,
    /// Launch parameters, if recorded and equal for all of them.
    pub launch: Option<Launch>,
    /// Whether launch parameters differ.
    pub has_many_shapes: bool,
    /// Theoretical occupancy, 0 to 1, weighted by duration over the calls for which it is known.
    pub occupancy: Option<f64>,
    /// Recorded estimate of the achieved occupancy, 0 to 1, weighted likewise.
    pub recorded_occupancy: Option<f64>,
    pub instances: Vec<Instance>,
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
    let groups = group(scope, is_kernel, local, key);
    let all: f64 = groups.iter().map(|group| group.durations.total_ns as f64).sum();
    let limits: Vec<Vec<(u32, Limits)>> = scope.traces.iter().map(|trace| limits(trace)).collect();
    groups.into_iter().map(|group| totals(scope, &limits, all, group)).collect()
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

/// The limits of the trace's devices, if known.
fn limits(trace: &Trace) -> Vec<(u32, Limits)> {
    trace.info.devices.iter().filter_map(|device| Some((device.id, Limits::of(device)?))).collect()
}

fn totals(scope: &Scope<'_>, limits: &[Vec<(u32, Limits)>], all: f64, group: Group<Key>) -> KernelTotals {
    let (name, is_graph, place, _) = group.key;
    let mut launch = None;
    let mut has_many_shapes = false;
    let (mut theoretical, mut recorded_percent) = (Mean::default(), Mean::default());
    // Cache of the last launch: most kernels are launched repeatedly with the same parameters.
    let mut known: Option<(Instance, u32, Option<f64>)> = None;
    for &instance in &group.instances {
        let trace = scope.traces[instance.trace as usize];
        let id = trace.facts.launches.id(instance.slice);
        let Some(this) = trace.facts.launches.value(id) else { continue };
        let shape = Launch { recorded_occupancy: None, ..*this };
        has_many_shapes |= launch.is_some_and(|launch| launch != shape);
        launch = Some(shape);
        let occupancy = match known {
            Some((other, same, occupancy)) if (other.trace, same) == (instance.trace, id) => occupancy,
            _ => {
                let of_device = limits[instance.trace as usize].iter().find(|(id, _)| Some(*id) == place.device);
                of_device.and_then(|(_, limits)| occupancy::theoretical(limits, &shape))
            }
        };
        known = Some((instance, id, occupancy));
        let dur = trace.slices.time(instance.slice).dur();
        theoretical.add(occupancy, dur);
        recorded_percent.add(this.recorded_occupancy.map(f64::from), dur);
    }
    let share = if all > 0.0 { group.durations.total_ns as f64 / all } else { 0.0 };
    KernelTotals {
        name,
        is_graph,
        place,
        durations: group.durations,
        share,
        launch: launch.filter(|_| !has_many_shapes),
        has_many_shapes,
        occupancy: theoretical.get(),
        recorded_occupancy: recorded_percent.get().map(|percent| percent / 100.0),
        instances: group.instances,
    }
}

/// A mean weighted by duration.
#[derive(Default)]
struct Mean {
    weighted: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, dur: DurNs) {
        if let Some(value) = value {
            // Kernels of zero duration count if there are no others.
            let weight = (dur as f64).max(1e-9);
            self.weighted += value * weight;
            self.weight += weight;
        }
    }

    fn get(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.weighted / self.weight)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{DeviceInfo, SliceFacts, TraceBuilder};

    const KERNEL: SliceKind = SliceKind::Kernel;

    fn launch(block: u32, registers_per_thread: u32, recorded: u8) -> Launch {
        Launch {
            grid: [64, 1, 1],
            block: [block, 1, 1],
            registers_per_thread,
            shared_bytes: 0,
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
        assert_eq!(shapes, [(64, Some(0.5)), (32, Some(1.0)), (32, Some(1.0))]);
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
