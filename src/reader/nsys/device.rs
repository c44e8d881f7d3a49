//! Reads rows of device activity: kernels, copies, graphs, waits, memory and metrics.

use rusqlite::types::ValueRef;

use crate::model::{CopyKind, Launch, MemoryCopy, RawSlice, SliceKind};

use super::chunk::{Cells, Chunk, CounterKey, MemoryUsage, NameKey, RowFacts, TrackKey};
use super::sync::{EventRecord, Wait};
use super::tables::Spec;
use super::tally::Reason;

/// The leading cells common to all device work.
const N_PLACE: usize = 8;

/// Reads the columns common to all device work: time, stream and correlation.
#[inline(always)]
fn work(chunk: &mut Chunk, cells: &Cells<'_>, kind: SliceKind, source: u64) -> Option<RawSlice> {
    let (ts, end) = chunk.span(cells[0], cells[1])?;
    chunk.n_shown += 1;
    let stream = stream(chunk, cells);
    let track = chunk.track(stream);
    let correlation = correlation(chunk, cells[6]);
    Some(RawSlice { ts, end, kind, track, correlation, source, ..Default::default() })
}

#[inline(always)]
fn stream(chunk: &mut Chunk, cells: &Cells<'_>) -> TrackKey {
    TrackKey::Stream {
        process: chunk.int_or_0(cells[7]),
        device: chunk.int_or_0(cells[2]),
        context: chunk.int_or_0(cells[3]),
        green_context: chunk.int_or_0(cells[4]),
        stream: chunk.int_or_0(cells[5]),
    }
}

/// CUPTI's correlation ids have 32 bits.
#[inline(always)]
pub fn correlation(chunk: &mut Chunk, cell: ValueRef<'_>) -> u32 {
    u32::try_from(chunk.int_or_0(cell)).unwrap_or(0)
}

/// `graphNodeId`; 0 without one.
fn graph_node(chunk: &mut Chunk, cell: ValueRef<'_>) -> u64 {
    u64::try_from(chunk.int_or_0(cell)).unwrap_or(0)
}

fn small(chunk: &mut Chunk, cell: ValueRef<'_>) -> u32 {
    u32::try_from(chunk.int_or_0(cell)).unwrap_or(0)
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
    read: |chunk, cells, source| {
        let Some(mut slice) = work(chunk, cells, SliceKind::Kernel, source) else { return };
        let [full, short] = [chunk.int(cells[N_PLACE]), chunk.int(cells[9])];
        if let (Some(full), Some(short)) = (full, short) {
            chunk.short_names.intern((full, short));
        }
        slice.name = match full.or(short) {
            Some(id) => chunk.key(NameKey::Id(id)),
            None => chunk.name(ValueRef::Null),
        };
        if !matches!(cells[10], ValueRef::Null) {
            let grid = [10, 11, 12].map(|at| small(chunk, cells[at]));
            let block = [13, 14, 15].map(|at| small(chunk, cells[at]));
            let [registers_per_thread, fixed, dynamic] = [16, 17, 18].map(|at| {
                let is_recorded = !matches!(cells[at], ValueRef::Null);
                is_recorded.then(|| small(chunk, cells[at]))
            });
            let shared_bytes = fixed.or(dynamic).map(|bytes| bytes.saturating_add(fixed.and(dynamic).unwrap_or(0)));
            let launch = Launch { grid, block, registers_per_thread, shared_bytes, recorded_occupancy: None };
            let node = graph_node(chunk, cells[19]);
            slice.facts = 1 + chunk.facts.intern(RowFacts::Launch(launch, node));
        }
        chunk.slices.push(slice);
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
    read: |chunk, cells, source| {
        let Some(mut slice) = work(chunk, cells, SliceKind::Memcpy, source) else { return };
        let bytes = chunk.int(cells[N_PLACE]).and_then(|bytes| u64::try_from(bytes).ok());
        let oper = chunk.int(cells[9]).unwrap_or(-1);
        let [from, to] = [10, 11].map(|i| chunk.int(cells[i]));
        let kind = copy_kind(oper);
        // CUDA_MEMOPR_MEMORY_KIND 0 is pageable memory.
        let is_pageable = match kind {
            CopyKind::HtoD => from.map(|kind| kind == 0),
            CopyKind::DtoH => to.map(|kind| kind == 0),
            _ => None,
        };
        let node = graph_node(chunk, cells[12]);
        slice.facts = 1 + chunk.facts.intern(RowFacts::Copy(MemoryCopy { kind, bytes, is_pageable }, node));
        slice.name = chunk.key(NameKey::Copy(oper, from.unwrap_or(-1), to.unwrap_or(-1)));
        chunk.slices.push(slice);
    },
};

/// `ENUM_CUDA_MEMCPY_OPER`, the same in every export; 11 to 13 are unified memory transfers.
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

/// Name of a copy, as in Kineto traces, so that both formats use the same names.
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
    read: |chunk, cells, source| {
        let Some(mut slice) = work(chunk, cells, SliceKind::Memset, source) else { return };
        let bytes = chunk.int(cells[N_PLACE]).and_then(|bytes| u64::try_from(bytes).ok());
        let set = MemoryCopy { kind: CopyKind::Memset, bytes, is_pageable: None };
        let node = graph_node(chunk, cells[10]);
        slice.facts = 1 + chunk.facts.intern(RowFacts::Copy(set, node));
        let kind = chunk.int(cells[9]).unwrap_or(-1);
        slice.name = chunk.key(NameKey::Memset(kind));
        chunk.slices.push(slice);
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
    read: |chunk, cells, source| {
        let Some(mut slice) = work(chunk, cells, SliceKind::CudaGraph, source) else { return };
        let number = chunk.int_or_0(cells[N_PLACE]);
        slice.name = chunk.key(NameKey::Numbered("CUDA graph", number));
        let [graph, exec] = [N_PLACE, 9].map(|i| small(chunk, cells[i]));
        slice.facts = 1 + chunk.facts.intern(RowFacts::Graph { graph, exec });
        chunk.slices.push(slice);
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
    read: |chunk, cells, source| {
        let Some((ts, end)) = chunk.span(cells[0], cells[1]) else { return };
        chunk.n_shown += 1;
        let (device, process) = (chunk.int_or_0(cells[2]), chunk.int_or_0(cells[3]));
        let track = chunk.track(TrackKey::Syncs { process, device });
        let correlation = correlation(chunk, cells[4]);
        let (sync_type, context) = (chunk.int_or_0(cells[5]), chunk.int_or_0(cells[6]));
        let [stream, event, event_sync] = [7, 8, 9].map(|i| chunk.int(cells[i]));
        let mut wait = Wait { process, context, event_sync, correlation, ..Default::default() };
        wait.set(stream, event, sync_type);
        if wait.event.is_none() {
            // Without an event there is no record to look up, and equal waits are kept once.
            wait = Wait { kind: wait.kind, stream: wait.stream, ..Default::default() };
        }
        let name = chunk.key(NameKey::Fixed(wait.kind.label()));
        let facts = 1 + chunk.facts.intern(RowFacts::Wait(wait));
        let kind = SliceKind::Sync;
        chunk.slices.push(RawSlice { ts, end, name, kind, track, correlation, facts, source, ..Default::default() });
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
    read: |chunk, cells, source| {
        let [event, context, on, process] = [1, 3, 5, 7].map(|i| chunk.int_or_0(cells[i]));
        let (correlation, event_sync) = (correlation(chunk, cells[6]), chunk.int(cells[8]));
        chunk.event_records.push(EventRecord { process, context, event, correlation, stream: on, event_sync });
        match chunk.int(cells[0]) {
            Some(ts) if ts != 0 => {
                chunk.n_shown += 1;
                let stream = stream(chunk, cells);
                let track = chunk.track(stream);
                let name = chunk.key(NameKey::Numbered("CUDA event", event));
                chunk.instants.push((track, ts, name, source));
            }
            _ => {
                chunk.n_merged += 1;
                chunk.tally.add(Reason::NoEventTime, 1);
            }
        }
    },
};

pub const MEMORY_USAGE: Spec = Spec {
    table: "CUDA_GPU_MEMORY_USAGE_EVENTS",
    columns: &["start", "globalPid", "deviceId", "memKind", "address", "bytes", "memoryOperationType"],
    read: |chunk, cells, _| {
        let Some(ts) = chunk.time(cells[0]) else { return };
        chunk.n_shown += 1;
        let [process, device, kind, address, bytes, operation] = [1, 2, 3, 4, 5, 6].map(|i| chunk.int_or_0(cells[i]));
        let is_free = operation == 1;
        chunk.memory.push(MemoryUsage { ts, process, device, kind, address, bytes, is_free });
    },
};

pub const GPU_METRICS: Spec = Spec {
    table: "GPU_METRICS",
    columns: &["timestamp|rawTimestamp", "typeId", "metricId", "value"],
    read: |chunk, cells, _| {
        let Some(ts) = chunk.time(cells[0]) else { return };
        let (type_id, metric_id) = (chunk.int_or_0(cells[1]), chunk.int_or_0(cells[2]));
        sample(chunk, CounterKey::GpuMetric { type_id, metric_id }, ts, cells[3]);
    },
};

const NETWORK: &[&str] = &["start", "globalId", "metricsListId", "metricsIdx", "value"];

pub const NIC_METRIC: Spec = Spec { table: "NET_NIC_METRIC", columns: NETWORK, read: network };

pub const SWITCH_METRIC: Spec = Spec { table: "NET_IB_SWITCH_METRIC", columns: NETWORK, read: network };

fn network(chunk: &mut Chunk, cells: &Cells<'_>, _: u64) {
    let Some(ts) = chunk.time(cells[0]) else { return };
    let [adapter, list, index] = [1, 2, 3].map(|i| chunk.int_or_0(cells[i]));
    sample(chunk, CounterKey::Network { adapter, list, index }, ts, cells[4]);
}

/// Adds one counter value. No metric is ever negative: a negative value means that sampling failed.
fn sample(chunk: &mut Chunk, key: CounterKey, ts: i64, value: ValueRef<'_>) {
    match chunk.int(value) {
        Some(value) if value >= 0 => {
            chunk.n_shown += 1;
            let counter = chunk.counters.intern(key);
            chunk.samples.push((counter, ts, value as f64));
        }
        _ => chunk.tally.add(Reason::MetricOutOfRange, 1),
    }
}
