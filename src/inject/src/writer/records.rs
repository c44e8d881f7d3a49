//! Records of CUPTI → events of the trace.

use std::collections::HashMap;
use std::io::Write as _;

use super::names::Names;
use crate::cupti::Cupti;
use crate::records::{
    Api, CudaEvent, GraphTrace, Kernel, Memcpy, Memory, Memset, Overhead, Record, Synchronization, kind,
};
use crate::trace_file::{TraceFile, TrackRow};

/// Most records that are kept for one that they belong to; beyond, the oldest knowledge is dropped.
const MAX_KEPT: usize = 1 << 16;
/// A call that only looks up or sets state, and is shorter than this in nanoseconds, is not written.
const SHORT_NS: u64 = 10_000;
/// `CUPTI_SYNCHRONIZATION_INVALID_VALUE`: no stream, no event.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub struct RecordWriter {
    names: Names,
    /// The latest calls of the driver on each thread: a call of the runtime that made them may follow.
    inner_calls: HashMap<u32, Vec<Api>>,
    /// The correlation id of the latest call of the runtime on each thread.
    outer_calls: HashMap<u32, u32>,
    /// Allocations and frees that wait for the call that made them, by correlation id: it has the thread.
    memory: HashMap<u32, Vec<Memory>>,
    /// The thread of the latest calls, for what arrives after its call.
    threads: HashMap<u32, u32>,
    /// Bytes at each live address of a device, or of the host.
    live: HashMap<(Option<u32>, u64), u64>,
    external: HashMap<u32, u64>,
    /// By context and event: the latest call that recorded it, and its stream.
    events: HashMap<(u32, u32), (u32, u32)>,
    /// The device of each context.
    contexts: HashMap<u32, u32>,
    n_without_time: u64,
}

impl RecordWriter {
    pub fn take(&mut self, record: Record, cupti: &Cupti, file: &mut TraceFile) {
        match record {
            Record::Kernel(kernel) => self.kernel(&kernel, file),
            Record::Memcpy(copy) => self.copy(&copy, None, file),
            Record::MemcpyPeer(peer) => {
                let copy = Memcpy {
                    kind: peer.kind,
                    copy_kind: peer.copy_kind,
                    source_kind: peer.source_kind,
                    target_kind: peer.target_kind,
                    flags: peer.flags,
                    bytes: peer.bytes,
                    start: peer.start,
                    end: peer.end,
                    device: peer.device,
                    context: peer.context,
                    stream: peer.stream,
                    correlation: peer.correlation,
                    runtime_correlation: 0,
                    pad: 0,
                    reserved: std::ptr::null(),
                    graph_node: peer.graph_node,
                    graph: peer.graph,
                };
                self.copy(&copy, Some((peer.source_device, peer.target_device)), file);
            }
            Record::Memset(memset) => self.memset(&memset, file),
            Record::Graph(graph) => self.graph(&graph, file),
            Record::Api(call) => self.api(call, cupti, file),
            Record::Memory(memory) => self.memory(memory, file),
            Record::External(external) => {
                bound(&mut self.external);
                self.external.insert(external.correlation, external.external);
            }
            Record::Event(CudaEvent { correlation, context, stream, event, .. }) => {
                bound(&mut self.events);
                self.events.insert((context, event), (correlation, stream));
            }
            Record::Sync(sync) => self.sync(&sync, file),
            Record::Overhead(overhead) => self.overhead(&overhead, file),
            Record::Unknown => {}
        }
    }

    /// Writes what waited for a record that did not come.
    pub fn finish(&mut self, cupti: &Cupti, file: &mut TraceFile) {
        let mut calls: Vec<Api> = std::mem::take(&mut self.inner_calls).into_values().flatten().collect();
        calls.sort_by_key(|call| call.start);
        for call in calls {
            self.write_call(&call, cupti, file);
        }
        self.finish_memory(file);
    }

    fn finish_memory(&mut self, file: &mut TraceFile) {
        let memory = std::mem::take(&mut self.memory).into_values().flatten();
        let mut memory: Vec<Memory> = memory.collect();
        memory.sort_by_key(|memory| memory.timestamp);
        for record in memory {
            self.write_memory(&record, std::process::id(), file);
        }
    }

    /// A sentence about what could not be written.
    pub fn problem(&self) -> Option<String> {
        let n = self.n_without_time;
        (n > 0).then(|| format!("CUPTI had no times for {n} pieces of device work; they are not in the trace"))
    }

    /// The times of work on a device, unless CUPTI has none.
    fn range(&mut self, start: u64, end: u64) -> Option<(i64, i64)> {
        if start == 0 || end < start {
            self.n_without_time += 1;
            return None;
        }
        Some((start.cast_signed(), end.cast_signed()))
    }

    fn kernel(&mut self, kernel: &Kernel, file: &mut TraceFile) {
        self.contexts.insert(kernel.context, kernel.device);
        let Some(range) = self.range(kernel.start, kernel.end) else { return };
        // SAFETY: CUPTI keeps the names of kernels as long as it is loaded.
        let name = unsafe { self.names.kernel(kernel.name) };
        let place = TrackRow::Stream(kernel.device, Some(kernel.stream));
        file.slice("kernel", &name, place, range, |out| {
            push_device(out, (kernel.device, kernel.context, kernel.stream), kernel.correlation);
            let (registers, [x, y, z]) = (kernel.registers_per_thread, kernel.grid);
            let shared = i64::from(kernel.static_shared) + i64::from(kernel.dynamic_shared);
            let _ =
                write!(out, ",\"registers per thread\":{registers},\"shared memory\":{shared},\"grid\":[{x},{y},{z}]");
            let [x, y, z] = kernel.block;
            let _ = write!(out, ",\"block\":[{x},{y},{z}]");
            push_graph(out, kernel.graph, kernel.graph_node);
        });
    }

    /// * `devices`: source and target of a copy between devices.
    fn copy(&mut self, copy: &Memcpy, devices: Option<(u32, u32)>, file: &mut TraceFile) {
        self.contexts.insert(copy.context, copy.device);
        let Some(range) = self.range(copy.start, copy.end) else { return };
        let (source, target) = (memory_name(copy.source_kind.into()), memory_name(copy.target_kind.into()));
        let name = format!("Memcpy {} ({source} -> {target})", copy_name(copy.copy_kind));
        file.slice("gpu_memcpy", &name, TrackRow::Stream(copy.device, Some(copy.stream)), range, |out| {
            push_device(out, (copy.device, copy.context, copy.stream), copy.correlation);
            if let Some((from, to)) = devices {
                let _ = write!(out, ",\"fromDevice\":{from},\"toDevice\":{to}");
            }
            push_bytes(out, copy.bytes, range);
            push_graph(out, copy.graph, copy.graph_node);
        });
    }

    fn memset(&mut self, memset: &Memset, file: &mut TraceFile) {
        self.contexts.insert(memset.context, memset.device);
        let Some(range) = self.range(memset.start, memset.end) else { return };
        let name = format!("Memset ({})", memory_name(memset.memory_kind.into()));
        file.slice("gpu_memset", &name, TrackRow::Stream(memset.device, Some(memset.stream)), range, |out| {
            push_device(out, (memset.device, memset.context, memset.stream), memset.correlation);
            push_bytes(out, memset.bytes, range);
            push_graph(out, memset.graph, memset.graph_node);
        });
    }

    /// A launch of a graph as a whole is busy time like a kernel's.
    fn graph(&mut self, graph: &GraphTrace, file: &mut TraceFile) {
        self.contexts.insert(graph.context, graph.device);
        let Some(range) = self.range(graph.start, graph.end) else { return };
        let name = format!("CUDA graph {}", graph.graph);
        file.slice("kernel", &name, TrackRow::Stream(graph.device, Some(graph.stream)), range, |out| {
            push_device(out, (graph.device, graph.context, graph.stream), graph.correlation);
            push_graph(out, graph.graph, 0);
        });
    }

    /// Calls of the driver within one of the runtime have its correlation id: they are left out, whichever of the two
    /// is recorded first.
    fn api(&mut self, call: Api, cupti: &Cupti, file: &mut TraceFile) {
        if call.kind == kind::RUNTIME {
            self.outer_calls.insert(call.thread, call.correlation);
        } else if self.outer_calls.get(&call.thread) == Some(&call.correlation) {
            return;
        }
        let inner = self.inner_calls.remove(&call.thread).unwrap_or_default();
        let (of_this, others): (Vec<Api>, Vec<Api>) =
            inner.into_iter().partition(|inner| inner.correlation == call.correlation);
        for other in others {
            self.write_call(&other, cupti, file);
        }
        if call.kind == kind::DRIVER {
            self.inner_calls.insert(call.thread, of_this.into_iter().chain([call]).collect());
        } else {
            self.write_call(&call, cupti, file);
        }
    }

    fn write_call(&mut self, call: &Api, cupti: &Cupti, file: &mut TraceFile) {
        bound(&mut self.threads);
        self.threads.insert(call.correlation, call.thread);
        for memory in self.memory.remove(&call.correlation).unwrap_or_default() {
            self.write_memory(&memory, call.thread, file);
        }
        let external = self.external.remove(&call.correlation);
        let is_runtime = call.kind == kind::RUNTIME;
        let name = self.names.call(cupti, is_runtime, call.cbid);
        if call.start == 0 || (is_lookup(&name) && call.end.saturating_sub(call.start) < SHORT_NS) {
            return;
        }
        let category = if is_runtime { "cuda_runtime" } else { "cuda_driver" };
        let range = (call.start.cast_signed(), call.end.max(call.start).cast_signed());
        file.slice(category, &name, TrackRow::Thread(call.thread), range, |out| {
            let _ = write!(out, "\"cbid\":{},\"correlation\":{}", call.cbid, call.correlation);
            if let Some(external) = external {
                let _ = write!(out, ",\"External id\":{external}");
            }
            if call.return_value != 0 {
                let _ = write!(out, ",\"return value\":{}", call.return_value);
            }
        });
    }

    fn memory(&mut self, memory: Memory, file: &mut TraceFile) {
        if let Some(&thread) = self.threads.get(&memory.correlation) {
            return self.write_memory(&memory, thread, file);
        }
        if self.memory.len() >= MAX_KEPT {
            self.finish_memory(file);
        }
        self.memory.entry(memory.correlation).or_default().push(memory);
    }

    fn write_memory(&mut self, memory: &Memory, thread: u32, file: &mut TraceFile) {
        // Managed memory counts as the device's; pageable memory is not the driver's.
        let device = match memory.memory_kind {
            2 => None,
            3..=7 => Some(memory.device),
            _ => return,
        };
        let key = (device, memory.address);
        let bytes = match memory.operation {
            1 => {
                self.live.insert(key, memory.bytes);
                memory.bytes.cast_signed()
            }
            2 => -self.live.remove(&key).unwrap_or(memory.bytes).cast_signed(),
            _ => return,
        };
        file.memory(thread, memory.timestamp.cast_signed(), device, memory.address, bytes);
    }

    fn sync(&mut self, sync: &Synchronization, file: &mut TraceFile) {
        if sync.start == 0 || sync.end < sync.start {
            return;
        }
        let name = match sync.sync_type {
            1 => "Event Sync",
            2 => "Stream Wait Event",
            3 => "Stream Sync",
            4 => "Context Sync",
            _ => return,
        };
        let device = self.contexts.get(&sync.context).copied().unwrap_or(0);
        let stream = Some(sync.stream).filter(|&stream| stream != NONE);
        let recorded = self.events.get(&(sync.context, sync.event)).filter(|_| sync.event != NONE);
        let range = (sync.start.cast_signed(), sync.end.cast_signed());
        file.slice("cuda_sync", name, TrackRow::Stream(device, stream), range, |out| {
            let id = stream.map_or(-1, i64::from);
            let _ = write!(
                out,
                "\"cuda_sync_kind\":\"{name}\",\"stream\":{id},\"correlation\":{},\"device\":{device},\"context\":{}",
                sync.correlation, sync.context
            );
            if sync.event != NONE && sync.sync_type <= 2 {
                let _ = write!(out, ",\"wait_on_cuda_event_id\":{}", sync.event);
            }
            if let Some((correlation, stream)) = recorded {
                let _ = write!(out, ",\"wait_on_stream\":{stream},\"wait_on_cuda_event_record_corr_id\":{correlation}");
            }
        });
    }

    fn overhead(&self, overhead: &Overhead, file: &mut TraceFile) {
        if overhead.start == 0 || overhead.end < overhead.start {
            return;
        }
        let name = match overhead.overhead_kind {
            0x1 => "Driver Compiler",
            0x1_0000 => "Buffer Flush",
            0x2_0000 => "Instrumentation",
            0x3_0000 => "Resource",
            0x4_0000 => "Runtime Triggered Module Loading",
            0x5_0000 => "Lazy Function Loading",
            0x6_0000 => "Command Buffer Full",
            0x7_0000 => "Activity Buffer Request",
            0x8_0000 => "UVM Activity Init",
            _ => "Overhead",
        };
        let range = (overhead.start.cast_signed(), overhead.end.cast_signed());
        file.slice("overhead", name, TrackRow::Overhead, range, |_| {});
    }
}

fn bound<K, V>(map: &mut HashMap<K, V>) {
    if map.len() >= MAX_KEPT {
        map.clear();
    }
}

fn push_device(out: &mut Vec<u8>, (device, context, stream): (u32, u32, u32), correlation: u32) {
    let _ = write!(out, "\"device\":{device},\"context\":{context},\"stream\":{stream},\"correlation\":{correlation}");
}

fn push_bytes(out: &mut Vec<u8>, bytes: u64, range: (i64, i64)) {
    let _ = write!(out, ",\"bytes\":{bytes}");
    if range.1 > range.0 {
        let _ = write!(out, ",\"memory bandwidth (GB/s)\":{:.6}", bytes as f64 / (range.1 - range.0) as f64);
    }
}

fn push_graph(out: &mut Vec<u8>, graph: u32, node: u64) {
    if graph != 0 {
        let _ = write!(out, ",\"graph id\":{graph}");
    }
    if node != 0 {
        let _ = write!(out, ",\"graph node id\":{node}");
    }
}

/// `CUpti_ActivityMemcpyKind`.
fn copy_name(kind: u8) -> &'static str {
    const NAMES: [&str; 11] =
        ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];
    NAMES.get(usize::from(kind)).copied().unwrap_or("Unknown")
}

/// `CUpti_ActivityMemoryKind`.
fn memory_name(kind: u32) -> &'static str {
    const NAMES: [&str; 8] =
        ["Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"];
    NAMES.get(kind as usize).copied().unwrap_or("Unknown")
}

/// Whether a call only looks up or sets what the host keeps; such calls come several to a launch.
fn is_lookup(name: &str) -> bool {
    matches!(
        name,
        "cudaGetDevice"
            | "cudaSetDevice"
            | "cudaGetLastError"
            | "cudaPeekAtLastError"
            | "__cudaPushCallConfiguration"
            | "__cudaPopCallConfiguration"
            | "cudaDeviceGetAttribute"
            | "cuDeviceGetAttribute"
            | "cuCtxGetCurrent"
            | "cuCtxSetCurrent"
            | "cuCtxPushCurrent"
            | "cuCtxPushCurrent_v2"
            | "cuCtxPopCurrent"
            | "cuCtxPopCurrent_v2"
            | "cuCtxGetDevice"
            | "cuGetProcAddress"
            | "cuGetProcAddress_v2"
    )
}
