//! Collectives: how long and how exposed, and with which bandwidth. Those that a device runs are kernels, those that
//! threads of the host run are ranges.

mod exposed;
mod host;
mod kernels;
mod op;
pub mod ranks;

use std::cmp::Reverse;

use hashbrown::HashMap;

use self::exposed::{Beside, Place};
pub use self::host::host_backend;
pub use self::kernels::{CollectiveKernels, is_collective_name};
pub use self::op::CollectiveOp;
use self::ranks::{RankCalls, RankPart, rank_calls};
use super::totals::{Durations, Instance, Scope, durations};
use crate::model::time::{length, unite};
use crate::model::{Collective, DurNs, SliceId, StringId, TimeRange, Trace, host_collective};

/// The collectives of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectiveTotals {
    pub op: CollectiveOp,
    /// What runs it in threads of the host, see [`host_backend`]; `None` for kernels.
    pub backend: Option<&'static str>,
    /// Name of the process group; empty if unknown.
    pub group: String,
    /// Number of ranks in the group.
    pub n_ranks: Option<u32>,
    /// Type of an element; empty if unknown, or if rows are not by size.
    pub dtype: String,
    /// Bytes of each call, see [`CollectiveOp::bytes`]; `None` if unknown, or if rows are not by size.
    pub bytes: Option<u64>,
    /// Durations of the kernels, or of the ranges. They include waiting for other ranks.
    pub durations: Durations,
    /// How long they waited; `None` if none was matched with those of other ranks.
    pub ranks: Option<RankWaits>,
    /// Time of them without compute on their devices, those of the host on any of their trace, in nanoseconds; `None`
    /// where no device was recorded.
    pub exposed_ns: Option<DurNs>,
    /// The rest of their time, as a share of the time with any of them, 0 to 1; `None` for zero time, and without a
    /// device.
    pub overlap: Option<f64>,
    /// Bytes of all calls with a known size; `None` if there are none.
    pub total_bytes: Option<u64>,
    /// Bytes per nanosecond of those, which equals GB/s (10^9 bytes): of those that were matched with other ranks in
    /// the time of their transfer, else of all in the time of their kernels, which is a lower bound. `None` on the
    /// host: its ranges hold copies and waits for the device as well.
    pub alg_gb_per_s: Option<f64>,
    /// That times [`CollectiveOp::bus_factor`].
    pub bus_gb_per_s: Option<f64>,
    pub instances: Vec<Instance>,
}

/// How long ranks waited for each other in the collectives of one row, see [`ranks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankWaits {
    /// Kernels that were matched with those of other ranks.
    pub matched: u64,
    /// Time of those in nanoseconds: that of waiting, and the rest.
    pub wait_ns: DurNs,
    pub transfer_ns: DurNs,
    /// The longest of the waits.
    pub max_wait_ns: DurNs,
    /// The rank for which the others waited most, and for how long; `None` if none waited.
    pub late: Option<(u32, DurNs)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    op: CollectiveOp,
    backend: Option<&'static str>,
    group: String,
    n_ranks: Option<u32>,
    dtype: String,
    bytes: Option<u64>,
}

/// What names the operation of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// A value of [`crate::model::FactTables::collectives`], and the name of the kernel or range.
    Recorded(u32, StringId),
    /// A range or operator on the host around the launch, and the kernel's name.
    Host(StringId, StringId),
    /// Nothing but the name of the kernel or range.
    Named(StringId),
}

/// The collectives in scope by operation and group.
///
/// What a call moved is recorded with its kernel, or with the operator `record_param_comms` around the launch. Else
/// ranges such as `nccl:all_to_all` and `ncclAllReduce` on the host name the operation, else the kernel does.
/// Collectives of the host name theirs themselves.
///
/// * `by_size`: whether calls of different sizes and types are separate rows.
/// * Sorted by total time, descending, then operation.
/// * Cost: O(kernels in scope + c log n) for c collectives, and the compute that they overlap; with several traces O(n)
///   for all their slices.
pub fn collectives(scope: &Scope<'_>, by_size: bool) -> Vec<CollectiveTotals> {
    let mut collectives: Vec<CollectiveKernels<'_>> =
        scope.traces.iter().map(|&trace| CollectiveKernels::new(trace)).collect();
    let mut rows: Vec<(Key, Vec<Instance>)> = Vec::new();
    let mut by_key: HashMap<Key, usize> = HashMap::new();
    let mut by_source: HashMap<(u32, Source), usize> = HashMap::new();
    for part in scope.parts() {
        for slice in part.slices.map(|slice| SliceId(slice as u32)) {
            if !collectives[part.index as usize].contains(slice) && host_backend(part.trace, slice).is_none() {
                continue;
            }
            let source = source(part.trace, slice);
            let row = *by_source.entry((part.index, source)).or_insert_with(|| {
                let key = key(part.trace, source, by_size);
                *by_key.entry(key.clone()).or_insert_with(|| {
                    rows.push((key, Vec::new()));
                    rows.len() - 1
                })
            });
            rows[row].1.push(Instance { trace: part.index, slice });
        }
    }
    let mut beside = Beside::default();
    for (key, instances) in &rows {
        for &Instance { trace, slice } in instances {
            let of = scope.traces[trace as usize];
            beside.add(place(of, (trace, slice), key.backend), of.slices.time(slice));
        }
    }
    let ranks = if rows.is_empty() { RankCalls::default() } else { rank_calls(scope.traces) };
    let totals =
        |(key, instances): (Key, Vec<Instance>)| totals(scope, key, instances, &mut collectives, &mut beside, &ranks);
    let mut rows: Vec<CollectiveTotals> = rows.into_iter().map(totals).collect();
    let place =
        |row: &CollectiveTotals| (Reverse(row.durations.total_ns), row.op, row.backend, row.group.clone(), row.bytes);
    rows.sort_by_cached_key(place);
    rows
}

/// * `collective`: a kernel that communicates, or a range on the host.
fn source(trace: &Trace, collective: SliceId) -> Source {
    let name = trace.slices.name[collective.idx()];
    let recorded = |slice: SliceId| Some(trace.facts.collectives.id(slice)).filter(|&id| id != 0);
    if let Some(id) = recorded(collective) {
        return Source::Recorded(id, name);
    }
    let on_host = |slice: SliceId| {
        if let Some(id) = recorded(slice) {
            return Some(Source::Recorded(id, name));
        }
        let host = trace.slices.name[slice.idx()];
        let text = trace.strings.get(host);
        let names_op = ["nccl", "rccl", "hccl", "c10d::"].iter().any(|prefix| text.starts_with(prefix))
            && CollectiveOp::of(text) != CollectiveOp::Unknown;
        names_op.then_some(Source::Host(host, name))
    };
    let call = trace.launch_of(collective);
    call.and_then(|call| trace.slices.ancestors(call).find_map(on_host)).unwrap_or(Source::Named(name))
}

/// The bytes that a collective kernel moves, see [`CollectiveOp::bytes`], if recorded. Cost: O(depth of its launch).
pub fn bytes_of(trace: &Trace, kernel: SliceId) -> Option<u64> {
    let source = source(trace, kernel);
    key(trace, source, true).bytes
}

/// What a collective kernel moves, each as far as recorded.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    pub element_bytes: Option<u8>,
    /// The bytes by their bus factor, see [`CollectiveOp::bus_factor`].
    pub bus_bytes: Option<f64>,
    /// Whether it goes from one rank to another. The kernel of such a call also runs all-to-all, so its name alone does
    /// not tell.
    pub is_point_to_point: bool,
}

/// Cost: O(depth of the launch of the kernel).
pub fn payload_of(trace: &Trace, kernel: SliceId) -> Payload {
    let source = source(trace, kernel);
    let Key { op, n_ranks, bytes, .. } = key(trace, source, true);
    let is_recorded = matches!(source, Source::Recorded(..));
    Payload {
        element_bytes: parameters(trace, source).and_then(|call| call.element_bytes),
        bus_bytes: bytes.zip(op.bus_factor(n_ranks)).map(|(bytes, factor)| bytes as f64 * factor),
        is_point_to_point: op.is_point_to_point() || op == CollectiveOp::SendRecv && is_recorded,
    }
}

/// The parameters of a kernel, where they were recorded.
fn parameters(trace: &Trace, source: Source) -> Option<&Collective> {
    match source {
        Source::Recorded(id, _) => trace.facts.collectives.value(id),
        _ => None,
    }
}

fn key(trace: &Trace, source: Source, by_size: bool) -> Key {
    let text = |id| trace.strings.get(id);
    let (named, own) = match source {
        Source::Recorded(_, own) => (parameters(trace, source).map_or("", |call| text(call.op)), text(own)),
        Source::Host(host, own) => (text(host), text(own)),
        Source::Named(own) => ("", text(own)),
    };
    let op = [named, own].map(CollectiveOp::of).into_iter().find(|&op| op != CollectiveOp::Unknown);
    let (op, backend) = (op.unwrap_or_default(), host_collective(own.as_bytes()).map(|it| it.0));
    let Some(call) = parameters(trace, source) else { return Key { op, backend, ..Key::default() } };
    let (dtype, bytes) = if by_size { (text(call.dtype), op.bytes(call)) } else { ("", None) };
    Key { op, backend, group: text(call.group).to_owned(), n_ranks: call.n_ranks, dtype: dtype.to_owned(), bytes }
}

fn totals(
    scope: &Scope<'_>,
    key: Key,
    instances: Vec<Instance>,
    collectives: &mut [CollectiveKernels<'_>],
    beside: &mut Beside,
    ranks: &RankCalls,
) -> CollectiveTotals {
    let Key { op, backend, group, n_ranks, dtype, bytes } = key;
    // Bytes with the time in which they were moved: of all, and of those that were matched.
    let (mut all, mut matched) = ((None::<u64>, 0), (None, 0));
    let mut waits = Waits::default();
    let mut spans: HashMap<Place, Vec<TimeRange>> = HashMap::new();
    for &Instance { trace: index, slice } in &instances {
        let trace = scope.traces[index as usize];
        let time = trace.slices.time(slice);
        let part = ranks.of_slice(index, slice);
        if let Some(bytes) = parameters(trace, source(trace, slice)).and_then(|call| op.bytes(call)) {
            let add = |(sum, ns): (Option<u64>, DurNs), more: DurNs| {
                (Some(sum.unwrap_or(0).saturating_add(bytes)), ns.saturating_add(more))
            };
            all = add(all, time.dur());
            matched = part.map_or(matched, |part| add(matched, time.dur() - part.wait_ns));
        }
        if let Some(part) = part {
            waits.add(ranks, part);
        }
        spans.entry(place(trace, (index, slice), backend)).or_default().push(time);
    }
    let (mut any_ns, mut exposed_ns) = (0, None);
    for (place, mut spans) in spans {
        if (scope.is_cancelled)() {
            break;
        }
        unite(&mut spans);
        let index = place.0 as usize;
        if let Some(ns) = beside.exposed(scope.traces[index], place, &spans, &mut collectives[index]) {
            any_ns += length(&spans);
            *exposed_ns.get_or_insert(0) += ns;
        }
    }
    let speed = |(bytes, ns): (Option<u64>, DurNs)| bytes.filter(|_| ns > 0).map(|bytes| bytes as f64 / ns as f64);
    let alg_gb_per_s = speed(matched).or(speed(all)).filter(|_| backend.is_none());
    CollectiveTotals {
        op,
        backend,
        group,
        n_ranks,
        dtype,
        bytes,
        durations: durations(scope.traces, &instances),
        ranks: waits.total(),
        exposed_ns,
        overlap: exposed_ns.filter(|_| any_ns > 0).map(|exposed_ns| (any_ns - exposed_ns) as f64 / any_ns as f64),
        total_bytes: all.0,
        alg_gb_per_s,
        bus_gb_per_s: alg_gb_per_s.zip(op.bus_factor(n_ranks)).map(|(speed, factor)| speed * factor),
        instances,
    }
}

/// Where a collective runs. Those of the host are of all devices of their trace.
fn place(trace: &Trace, (index, slice): (u32, SliceId), backend: Option<&str>) -> Place {
    (index, backend.is_none().then(|| trace.track(trace.slices.track_of(slice)).process))
}

/// Sums up the waits of a row.
#[derive(Default)]
struct Waits {
    sum: RankWaits,
    /// By the rank that was waited for.
    by_rank: HashMap<u32, DurNs>,
}

impl Waits {
    fn add(&mut self, ranks: &RankCalls, part: &RankPart) {
        self.sum.matched += 1;
        self.sum.wait_ns += part.wait_ns;
        self.sum.transfer_ns += part.time.dur() - part.wait_ns;
        self.sum.max_wait_ns = self.sum.max_wait_ns.max(part.wait_ns);
        let late = ranks.late(&ranks.matches[part.of as usize]);
        if let Some(late) = ranks.rank_of(late.trace).filter(|_| part.wait_ns > 0) {
            *self.by_rank.entry(late.rank).or_default() += part.wait_ns;
        }
    }

    fn total(self) -> Option<RankWaits> {
        let late = self.by_rank.into_iter().max_by_key(|&(rank, ns)| (ns, Reverse(rank)));
        (self.sum.matched > 0).then_some(RankWaits { late, ..self.sum })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::busy::devices;
    use crate::model::{SliceFacts, SliceKind, TraceBuilder};

    const K: SliceKind = SliceKind::Kernel;
    const CALL: SliceKind = SliceKind::Runtime;

    #[test]
    fn figures_of_recorded_named_and_plain_collectives() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", SliceKind::Operator, "record_param_comms", 0, 30),
            ("main", CALL, "cudaLaunchKernelExC", 10, 20),
            ("main", SliceKind::Annotation, "nccl:all_to_all", 40, 60),
            ("main", CALL, "cudaLaunchKernelExC", 45, 50),
            // Both ways to learn of a recorded collective: at the kernel, and at the operator around its launch.
            ("stream 20", K, "ncclDevKernel_Generic()", 100, 200),
            ("stream 20", K, "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 300, 400),
            ("stream 20", K, "ncclDevKernel_SendRecv()", 500, 510),
            ("stream 20", K, "ncclDevKernel_SendRecv()", 520, 525),
            // Computes during half of the first one.
            ("stream 7", K, "gemm", 0, 150),
            ("stream 7", SliceKind::Memcpy, "Memcpy PtoP", 300, 400),
        ]);
        builder.slices[0].correlation = vec![0, 1, 0, 2, 1, 0, 2, 0, 0, 0];
        let [op, group, dtype] = ["_reduce_scatter_base", "3", "Float"].map(|text| builder.strings.intern(text));
        let scatter = Collective {
            op,
            group,
            dtype,
            n_ranks: Some(4),
            element_bytes: Some(4),
            in_elements: Some(1_000),
            out_elements: Some(250),
            ..Default::default()
        };
        let reduce = Collective { op: builder.strings.intern("allreduce"), in_elements: Some(500), ..scatter };
        builder.set_facts(0, SliceFacts { collective: Some(scatter), ..Default::default() });
        builder.set_facts(5, SliceFacts { collective: Some(reduce), ..Default::default() });
        let trace = builder.finish();
        let rows = collectives(&Scope::whole(&[&trace]), true);
        let figures: Vec<_> = rows
            .iter()
            .map(|row| (row.op.label(), row.bytes, row.durations.total_ns, row.exposed_ns.unwrap(), row.overlap))
            .collect();
        let expected = [
            ("allreduce", Some(2_000), 100, 100, Some(0.0)),
            ("reduce_scatter", Some(4_000), 100, 50, Some(0.5)),
            ("all_to_all", None, 10, 10, Some(0.0)),
            ("send_recv", None, 5, 5, Some(0.0)),
        ];
        assert_eq!(figures, expected);
        let speeds: Vec<_> = rows.iter().map(|row| (row.alg_gb_per_s, row.bus_gb_per_s)).collect();
        assert_eq!(speeds, [(Some(20.0), Some(30.0)), (Some(40.0), Some(30.0)), (None, None), (None, None)]);
        assert_eq!((rows[1].group.as_str(), rows[1].dtype.as_str(), rows[1].n_ranks), ("3", "Float", Some(4)));
        let traces = [&trace];
        let range = TimeRange { start: 0, end: 300 };
        let halves = Scope { ranges: Some(vec![range]), ..Scope::whole(&traces) };
        let rows = collectives(&halves, false);
        let figures: Vec<_> = rows.iter().map(|row| (row.op, row.bytes, row.total_bytes)).collect();
        assert_eq!(figures, [(CollectiveOp::ReduceScatter, None, Some(4_000))]);
    }

    #[test]
    fn collectives_of_the_host_are_rows_of_their_own_without_a_bandwidth() {
        let mut builder = TraceBuilder::from_slices(&[
            ("gloo", SliceKind::Annotation, "gloo:all_reduce", 0, 100),
            ("gloo 2", SliceKind::Annotation, "gloo:all_reduce", 50, 150),
            ("gloo", SliceKind::Annotation, "gloo:barrier", 200, 300),
            ("stream 7", K, "gemm", 20, 60),
            ("stream 20", K, "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 60, 70),
        ]);
        let [op, dtype] = ["all_reduce", "Float"].map(|text| builder.strings.intern(text));
        let reduce =
            Collective { op, dtype, element_bytes: Some(4), in_elements: Some(1_000), ..Collective::default() };
        for i in 0..2 {
            builder.set_facts(i, SliceFacts { collective: Some(reduce), ..Default::default() });
        }
        let trace = builder.finish();
        let figures: Vec<_> = collectives(&Scope::whole(&[&trace]), true)
            .iter()
            .map(|row| (row.op.label(), row.backend, row.bytes, row.durations.total_ns, row.exposed_ns))
            .collect();
        let expected = [
            ("allreduce", Some("gloo"), Some(4_000), 200, Some(110)),
            ("barrier", Some("gloo"), None, 100, Some(100)),
            ("allreduce", None, None, 10, Some(10)),
        ];
        assert_eq!(figures, expected);
        let rows = collectives(&Scope::whole(&[&trace]), false);
        assert_eq!((rows[0].total_bytes, rows[0].alg_gb_per_s, rows[0].bus_gb_per_s), (Some(8_000), None, None));
        let alone = TraceBuilder::from_slices(&[("gloo", SliceKind::Annotation, "gloo:barrier", 0, 10)]).finish();
        let rows = collectives(&Scope::whole(&[&alone]), true);
        assert_eq!((rows[0].exposed_ns, rows[0].overlap), (None, None), "nothing tells what a device did");
    }

    proptest! {
        #[test]
        fn exposed_time_is_that_of_the_devices(
            work in prop::collection::vec((0_i64..200, 0_i64..40, 0_usize..3, 0_usize..4), 1..40),
        ) {
            let streams = ["stream 7", "stream 8", "stream 9"];
            let sorts = [(K, "gemm"), (K, "ncclKernel_AllReduce"), (SliceKind::Memcpy, "copy"), (SliceKind::CudaGraph, "")];
            let slices: Vec<_> = work.iter()
                .map(|&(ts, dur, stream, sort)| (streams[stream], sorts[sort].0, sorts[sort].1, ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&slices).finish();
            let busy = devices(&trace);
            let row = collectives(&Scope::whole(&[&trace]), true).pop().unwrap_or_default();
            prop_assert_eq!(row.exposed_ns.unwrap_or_default(), length(&busy[0].exposed_comm));
            let sum: i64 = work.iter().filter(|work| work.3 == 1).map(|work| work.1).sum();
            prop_assert_eq!(row.durations.total_ns, sum);
        }
    }
}
