//! Rows of what devices did: kernels, copies, graphs, waits, memory and metrics.

use rusqlite::types::ValueRef;

use crate::model::{CopyKind, Launch, MemoryCopy, RawSlice, SliceKind};

use super::part::{Cells, CounterKey, DriverMemoryEvent, NameKey, Part, RowFacts, TrackKey};
use super::sync::{EventRecord, Wait};
use super::tables::Spec;
use super::tally::Reason;

/// The first cells of all device work.
const N_PLACE: usize = 8;

/// Device work, without what its kind adds: time, stream and correlation.
#[inline(always)]
fn work(part: &mut Part, cells: &Cells<'_>, kind: SliceKind, source: u64) -> Option<RawSlice> {
    let (ts, end) = part.span(cells[0], cells[1])?;
    part.n_shown += 1;
    let stream = stream(part, cells);
    let track = part.track(stream);
    let correlation = correlation(part, cells[6]);
    Some(RawSlice { ts, end, kind, track, correlation, source, ..Default::default() })
}

#[inline(always)]
fn stream(part: &mut Part, cells: &Cells<'_>) -> TrackKey {
    TrackKey::Stream {
        process: part.int_or_0(cells[7]),
        device: part.int_or_0(cells[2]),
        context: part.int_or_0(cells[3]),
        green_context: part.int_or_0(cells[4]),
        stream: part.int_or_0(cells[5]),
    }
}

/// CUPTI's correlation ids have 32 bits.
#[inline(always)]
pub fn correlation(part: &mut Part, cell: ValueRef<'_>) -> u32 {
    u32::try_from(part.int_or_0(cell)).unwrap_or(0)
}

/// `graphNodeId`; 0 is none.
fn graph_node(part: &mut Part, cell: ValueRef<'_>) -> u64 {
    u64::try_from(part.int_or_0(cell)).unwrap_or(0)
}

fn small(part: &mut Part, cell: ValueRef<'_>) -> u32 {
    u32::try_from(part.int_or_0(cell)).unwrap_or(0)
}

pub const KERNEL: Spec = Spec {
    table: "CUPTI_ACTIVITY_KIND_KERNEL",
    columns: &[
        "start",
        "end",
        "deviceId",
        "contextId",
        "greenContextId",
        "streamId",
        "correlationId",
        "globalPid",
        "demangledName|mangledName",
        "shortName",
        "gridX",
        "gridY",
        "gridZ",
        "blockX",
        "blockY",
        "blockZ",
        "registersPerThread",
        "staticSharedMemory",
        "dynamicSharedMemory",
        "graphNodeId",
    ],
    read: |part, cells, source| {
        let Some(mut slice) = work(part, cells, SliceKind::Kernel, source) else { return };
        let [full, short] = [part.int(cells[N_PLACE]), part.int(cells[9])];
        if let (Some(full), Some(short)) = (full, short) {
            part.short_names.intern((full, short));
        }
        slice.name = match full.or(short) {
            Some(id) => part.key(NameKey::Id(id)),
            None => part.name(ValueRef::Null),
        };
        if !matches!(cells[10], ValueRef::Null) {
            let mut sides = [0; 9];
            for (side, &cell) in sides.iter_mut().zip(&cells[10..]) {
                *side = small(part, cell);
            }
            let [gx, gy, gz, bx, by, bz, registers_per_thread, fixed, dynamic] = sides;
            let (grid, block) = ([gx, gy, gz], [bx, by, bz]);
            let shared_bytes = fixed.saturating_add(dynamic);
            let launch = Launch { grid, block, registers_per_thread, shared_bytes, recorded_occupancy: None };
            let node = graph_node(part, cells[19]);
            slice.facts = 1 + part.facts.intern(RowFacts::Launch(launch, node));
        }
        part.slices.push(slice);
    },
};

pub const MEMCPY: Spec = Spec {
    table: "CUPTI_ACTIVITY_KIND_MEMCPY",
    columns: &[
        "start",
        "end",
        "deviceId",
        "contextId",
        "greenContextId",
        "streamId",
        "correlationId",
        "globalPid",
        "bytes",
        "copyKind",
        "srcKind",
        "dstKind",
        "graphNodeId",
    ],
    read: |part, cells, source| {
        let Some(mut slice) = work(part, cells, SliceKind::Memcpy, source) else { return };
        let bytes = part.int(cells[N_PLACE]).and_then(|bytes| u64::try_from(bytes).ok());
        let oper = part.int(cells[9]).unwrap_or(-1);
        let [from, to] = [10, 11].map(|i| part.int(cells[i]));
        let kind = copy_kind(oper);
        // CUDA_MEMOPR_MEMORY_KIND 0 is pageable memory.
        let is_pageable = match kind {
            CopyKind::HtoD => from.map(|kind| kind == 0),
            CopyKind::DtoH => to.map(|kind| kind == 0),
            _ => None,
        };
        let node = graph_node(part, cells[12]);
        slice.facts = 1 + part.facts.intern(RowFacts::Copy(MemoryCopy { kind, bytes, is_pageable }, node));
        slice.name = part.key(NameKey::Copy(oper, from.unwrap_or(-1), to.unwrap_or(-1)));
        part.slices.push(slice);
    },
};

/// `ENUM_CUDA_MEMCPY_OPER` as every export has it; 11 to 13 are moves of unified memory.
fn copy_kind(oper: i64) -> CopyKind {
    match oper {
        1 | 3 | 11 => CopyKind::HtoD,
        2 | 4 | 12 => CopyKind::DtoH,
        5..=8 | 13 => CopyKind::DtoD,
        9 => CopyKind::HtoH,
        10 => CopyKind::PtoP,
        _ => CopyKind::Unknown,
    }
}

/// What a copy is called: as Kineto does, so that both formats speak of the same things.
pub fn copy_name(oper: i64, from: i64, to: i64) -> String {
    let kind = copy_kind(oper).label();
    match (oper, memory(from), memory(to)) {
        (11..=13, ..) => format!("Memcpy {kind} (Unified)"),
        (_, Some(from), Some(to)) => format!("Memcpy {kind} ({from} -> {to})"),
        _ => format!("Memcpy {kind}"),
    }
}

/// `ENUM_CUDA_MEM_KIND`.
pub fn memory(kind: i64) -> Option<&'static str> {
    const KINDS: [&str; 7] = ["Pageable", "Pinned", "Device", "Array", "Managed", "Device static", "Managed static"];
    KINDS.get(usize::try_from(kind).ok()?).copied()
}

pub const MEMSET: Spec = Spec {
    table: "CUPTI_ACTIVITY_KIND_MEMSET",
    columns: &[
        "start",
        "end",
        "deviceId",
        "contextId",
        "greenContextId",
        "streamId",
        "correlationId",
        "globalPid",
        "bytes",
        "memKind",
        "graphNodeId",
    ],
    read: |part, cells, source| {
        let Some(mut slice) = work(part, cells, SliceKind::Memset, source) else { return };
        let bytes = part.int(cells[N_PLACE]).and_then(|bytes| u64::try_from(bytes).ok());
        let set = MemoryCopy { kind: CopyKind::Memset, bytes, is_pageable: None };
        let node = graph_node(part, cells[10]);
        slice.facts = 1 + part.facts.intern(RowFacts::Copy(set, node));
        let kind = part.int(cells[9]).unwrap_or(-1);
        slice.name = part.key(NameKey::Memset(kind));
        part.slices.push(slice);
    },
};

pub const GRAPH_TRACE: Spec = Spec {
    table: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    columns: &[
        "start",
        "end",
        "deviceId",
        "contextId",
        "greenContextId",
        "streamId",
        "correlationId",
        "globalPid",
        "graphId",
        "graphExecId",
    ],
    read: |part, cells, source| {
        let Some(mut slice) = work(part, cells, SliceKind::CudaGraph, source) else { return };
        let number = part.int_or_0(cells[N_PLACE]);
        slice.name = part.key(NameKey::Numbered("CUDA graph", number));
        let [graph, exec] = [N_PLACE, 9].map(|i| small(part, cells[i]));
        slice.facts = 1 + part.facts.intern(RowFacts::Graph { graph, exec });
        part.slices.push(slice);
    },
};

pub const SYNCHRONIZATION: Spec = Spec {
    table: "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    columns: &[
        "start",
        "end",
        "deviceId",
        "globalPid",
        "correlationId",
        "syncType",
        "contextId",
        "streamId",
        "eventId",
        "eventSyncId",
    ],
    read: |part, cells, source| {
        let Some((ts, end)) = part.span(cells[0], cells[1]) else { return };
        part.n_shown += 1;
        let (device, process) = (part.int_or_0(cells[2]), part.int_or_0(cells[3]));
        let track = part.track(TrackKey::Syncs { process, device });
        let correlation = correlation(part, cells[4]);
        let (sync_type, context) = (part.int_or_0(cells[5]), part.int_or_0(cells[6]));
        let [stream, event, event_sync] = [7, 8, 9].map(|i| part.int(cells[i]));
        let mut wait = Wait { process, context, event_sync, correlation, ..Default::default() };
        wait.set(stream, event, sync_type);
        let name = part.key(NameKey::Fixed(wait.kind.label()));
        let facts = 1 + part.facts.intern(RowFacts::Wait(wait));
        let kind = SliceKind::Sync;
        part.slices.push(RawSlice { ts, end, name, kind, track, correlation, facts, source, ..Default::default() });
    },
};

pub const CUDA_EVENT: Spec = Spec {
    table: "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    columns: &[
        "timestamp",
        "eventId",
        "deviceId",
        "contextId",
        "greenContextId",
        "streamId",
        "correlationId",
        "globalPid",
        "eventSyncId",
    ],
    read: |part, cells, source| {
        let [event, context, on, process] = [1, 3, 5, 7].map(|i| part.int_or_0(cells[i]));
        let (correlation, event_sync) = (correlation(part, cells[6]), part.int(cells[8]));
        part.event_records.push(EventRecord { process, context, event, correlation, stream: on, event_sync });
        match part.int(cells[0]) {
            Some(ts) if ts != 0 => {
                part.n_shown += 1;
                let stream = stream(part, cells);
                let track = part.track(stream);
                let name = part.key(NameKey::Numbered("CUDA event", event));
                part.instants.push((track, ts, name, source));
            }
            _ => {
                part.n_merged += 1;
                part.tally.add(Reason::NoEventTime, 1);
            }
        }
    },
};

pub const MEMORY_USAGE: Spec = Spec {
    table: "CUDA_GPU_MEMORY_USAGE_EVENTS",
    columns: &["start", "globalPid", "deviceId", "memKind", "address", "bytes", "memoryOperationType"],
    read: |part, cells, _| {
        let Some(ts) = part.time(cells[0]) else { return };
        part.n_shown += 1;
        let [process, device, kind, address, bytes, operation] = [1, 2, 3, 4, 5, 6].map(|i| part.int_or_0(cells[i]));
        let is_free = operation == 1;
        part.memory.push(DriverMemoryEvent { ts, process, device, kind, address, bytes, is_free });
    },
};

pub const GPU_METRICS: Spec = Spec {
    table: "GPU_METRICS",
    columns: &["timestamp|rawTimestamp", "typeId", "metricId", "value"],
    read: |part, cells, _| {
        let Some(ts) = part.time(cells[0]) else { return };
        let (type_id, metric_id) = (part.int_or_0(cells[1]), part.int_or_0(cells[2]));
        sample(part, CounterKey::GpuMetric { type_id, metric_id }, ts, cells[3]);
    },
};

const NETWORK: &[&str] = &["start", "globalId", "metricsListId", "metricsIdx", "value"];

pub const NIC_METRIC: Spec = Spec { table: "NET_NIC_METRIC", columns: NETWORK, read: network };

pub const SWITCH_METRIC: Spec = Spec { table: "NET_IB_SWITCH_METRIC", columns: NETWORK, read: network };

fn network(part: &mut Part, cells: &Cells<'_>, _: u64) {
    let Some(ts) = part.time(cells[0]) else { return };
    let [adapter, list, index] = [1, 2, 3].map(|i| part.int_or_0(cells[i]));
    sample(part, CounterKey::Network { adapter, list, index }, ts, cells[4]);
}

/// Takes over one value of a counter. No metric of the recorder is negative: where one is, sampling
/// failed.
fn sample(part: &mut Part, key: CounterKey, ts: i64, value: ValueRef<'_>) {
    match part.int(value) {
        Some(value) if value >= 0 => {
            part.n_shown += 1;
            let counter = part.counters.intern(key);
            part.samples.push((counter, ts, value as f64));
        }
        _ => part.tally.add(Reason::MetricOutOfRange, 1),
    }
}
