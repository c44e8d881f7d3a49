//! Records events as rows of an nsys export.

use std::collections::HashMap;

use super::metrics::Metrics;
use super::schema::{
    CALLCHAINS, GRAPH_TRACE, KERNEL, MEMCPY, MEMORY_USAGE, MEMSET, NVTX, OSRT, OVERHEAD, RUNTIME, SAMPLES, STRINGS,
    SYNCHRONIZATION,
};
use super::tables::{SqlValue, Tables, row};
use crate::sample::answer;
use crate::sample::training::{AUTOGRAD_TID, COMMS, DEVICE, Event, Kernel, OnGpu, PID, Range, Recorder, Transfer};

/// The machine's number within ids, in its place.
pub(super) const VM: i64 = 1 << 48;
/// Stream or event id of a synchronization without one.
const NONE: i64 = 0xffff_ffff;
pub(super) const CONTEXT_ID: i64 = 1;
/// Every so many runtime calls, a sample of the CPU is taken.
const CALLS_PER_SAMPLE: u64 = 48;
/// Correlation ids below belong to calls before the first step.
pub(super) const FIRST_CORRELATION: i64 = 16;
/// The category of ranges around the loading of data, and the domain of NCCL.
pub(super) const LOADING: i64 = 1;
pub(super) const NCCL: i64 = 1;
/// Bytes of one `cudaMalloc`.
const SEGMENT: i64 = 512 << 20;

/// Kinds of NVTX rows.
pub(super) const CATEGORY: i64 = 33;
pub(super) const PUSH_POP: i64 = 59;
const START_END: i64 = 60;
pub(super) const DOMAIN: i64 = 75;

/// `globalPid`: bits 48-55 the machine, 24-47 the process.
pub(super) const fn global_pid(pid: i64) -> i64 {
    VM | pid << 24
}

/// `globalTid`: the same with the thread in the low bits.
pub(super) const fn global_tid(tid: i64) -> i64 {
    global_pid(PID) | tid
}

/// An NVTX row; those of a step are sorted by start, as nsys does.
#[derive(Debug, Default)]
pub(super) struct Nvtx {
    pub start: i64,
    pub end: Option<i64>,
    pub event_type: i64,
    pub range_id: Option<i64>,
    pub category: Option<i64>,
    /// A text that was not registered.
    pub text: Option<String>,
    pub text_id: Option<i64>,
    pub tid: i64,
    pub end_tid: Option<i64>,
    pub domain: i64,
    pub payload: Option<i64>,
}

/// Writes the events of a run into tables.
#[derive(Debug)]
pub(super) struct Nsys<'c> {
    pub tables: Tables<'c>,
    pub answer: answer::TablesAnswer,
    strings: HashMap<String, i64>,
    nvtx: Vec<Nvtx>,
    metrics: Metrics,
    /// What went wrong first; said at the end of the step.
    failed: Option<rusqlite::Error>,
    /// When the forward pass of this step began, and when the last backward pass ended.
    forward: i64,
    backward_end: i64,
    n_calls: u64,
    n_samples: i64,
    n_kernels: i64,
    n_backward: i64,
    /// Addresses of allocated segments.
    segments: Vec<i64>,
}

impl<'c> Nsys<'c> {
    pub fn new(tables: Tables<'c>) -> Self {
        Self {
            tables,
            answer: answer::TablesAnswer::default(),
            strings: HashMap::new(),
            nvtx: Vec::new(),
            metrics: Metrics::default(),
            failed: None,
            forward: 0,
            backward_end: 0,
            n_calls: 0,
            n_samples: 0,
            n_kernels: 0,
            n_backward: 0,
            segments: Vec::new(),
        }
    }

    pub fn insert(&mut self, spec: &super::tables::TableColumns, row: &[SqlValue<'_>]) {
        if let Err(error) = self.tables.insert(spec, row) {
            self.failed.get_or_insert(error);
        }
    }

    /// The id of a string, which gets its row when it first comes up.
    pub fn string(&mut self, text: &str) -> i64 {
        if let Some(&id) = self.strings.get(text) {
            return id;
        }
        let id = self.strings.len() as i64;
        self.strings.insert(text.to_owned(), id);
        self.insert(&STRINGS, row![id, text]);
        id
    }

    /// Notes an NVTX row of a range whose text is `name`.
    pub fn range(&mut self, name: &str, range: Range, nvtx: Nvtx) {
        self.answer.nvtx.entry(name.to_owned()).or_default().add(range);
        self.nvtx.push(Nvtx { start: range.0, end: Some(range.1), ..nvtx });
    }

    /// Notes an NVTX row that is not a range.
    pub fn fact(&mut self, nvtx: Nvtx) {
        self.nvtx.push(nvtx);
    }

    fn annotation(&mut self, name: &str, tid: i64, range: Range) {
        let plain = Nvtx { event_type: PUSH_POP, tid: global_tid(tid), ..Nvtx::default() };
        if let Some(number) = name.strip_prefix("ProfilerStep#") {
            let text = format!("step {number}");
            self.range(&text.clone(), range, Nvtx { text: Some(text), payload: number.parse().ok(), ..plain });
        } else if name == "nccl:all_reduce" {
            let text_id = Some(self.string("ncclAllReduce"));
            self.range("ncclAllReduce", range, Nvtx { text_id, domain: NCCL, ..plain });
        } else {
            let category = name.contains("DataLoader").then_some(LOADING);
            let text_id = Some(self.string(name));
            self.range(name, range, Nvtx { text_id, category, ..plain });
        }
    }

    fn phase(&mut self, name: &'static str, range: Range) {
        let text_id = Some(self.string(name));
        self.range(name, range, Nvtx { event_type: PUSH_POP, tid: global_tid(PID), text_id, ..Nvtx::default() });
        match name {
            "forward" => self.forward = range.0,
            "backward" => {
                // Started by the main thread, ended by another.
                let name = "activations alive";
                let text_id = Some(self.string(name));
                self.n_backward += 1;
                let nvtx = Nvtx {
                    event_type: START_END,
                    range_id: Some(self.n_backward),
                    tid: global_tid(PID),
                    end_tid: Some(global_tid(AUTOGRAD_TID)),
                    text_id,
                    ..Nvtx::default()
                };
                self.range(name, (self.forward, range.1 - (range.1 - range.0) / 8), nvtx);
                self.os_call("pthread_cond_wait", AUTOGRAD_TID, (self.backward_end, range.0));
                self.backward_end = range.1;
            }
            _ => {}
        }
    }

    pub fn os_call(&mut self, name: &str, tid: i64, (start, end): Range) {
        let name = self.string(name);
        self.insert(&OSRT, row![start, end, 27, global_tid(tid), name, 0, 0, 0, 0]);
    }

    /// A call of the runtime; `name` has no version at its end.
    pub fn call(&mut self, name: &'static str, tid: i64, range: Range, correlation: i64) {
        self.answer.calls.entry(name).or_default().add(range);
        let id = self.string(&versioned(name));
        self.insert(&RUNTIME, row![range.0, range.1, 0, global_tid(tid), correlation, id, 0]);
        // The GPU's side of a wait lies within the call.
        let (start, end) = (range.0 + 200, range.1 - 100);
        let wait = match name {
            "cudaEventSynchronize" => Some((1, NONE, 4)),
            "cudaStreamWaitEvent" => Some((2, COMMS.id, 3)),
            "cudaStreamSynchronize" => Some((3, 7, NONE)),
            _ => None,
        };
        if let Some((kind, stream, event)) = wait {
            let pid = global_pid(PID);
            self.insert(
                &SYNCHRONIZATION,
                row![start, end, i64::from(DEVICE), CONTEXT_ID, stream, correlation, pid, kind, event],
            );
        }
        if name == "cudaMalloc" {
            self.os_call("ioctl", tid, (start, end));
            let address = 0x7f12_0000_0000 + self.segments.len() as i64 * SEGMENT;
            self.segments.push(address);
            self.memory(end, address, 0, correlation);
        }
    }

    /// A segment of device memory is taken (operation 0) or given back (1).
    fn memory(&mut self, at: i64, address: i64, operation: i64, correlation: i64) {
        let (pid, device) = (global_pid(PID), i64::from(DEVICE));
        self.insert(
            &MEMORY_USAGE,
            row![at, pid, device, CONTEXT_ID, address, 0x5581_2000, SEGMENT, 2, operation, correlation],
        );
    }

    /// Gives all segments back, from `at` ns on; returns when that is done.
    pub fn free_all(&mut self, mut at: i64, mut correlation: i64) -> i64 {
        for address in std::mem::take(&mut self.segments) {
            let range = (at, at + 40_000);
            self.call("cudaFree", PID, range, correlation);
            self.memory(range.1, address, 1, correlation);
            correlation += 1;
            at = range.1 + 5_000;
        }
        at
    }

    fn kernel(&mut self, kernel: &Kernel, gpu: OnGpu, node: Option<u64>) {
        let &Kernel { name, grid, block, registers, shared, .. } = kernel;
        self.answer.kernels.entry(name).or_default().add(gpu.range);
        self.metrics.add_kernel(gpu);
        let (full, short) = (self.string(name), self.string(short_name(name)));
        self.n_kernels += 1;
        let node = node.map(|node| 1 << 32 | node as i64);
        let [device, stream, correlation, pid] = place(gpu);
        self.insert(
            &KERNEL,
            row![
                gpu.range.0,
                gpu.range.1,
                device,
                CONTEXT_ID,
                stream,
                correlation,
                pid,
                full,
                short,
                1,
                0,
                i64::from(registers),
                i64::from(grid),
                1,
                1,
                i64::from(block),
                1,
                1,
                0,
                i64::from(shared),
                0,
                205_258_752,
                self.n_kernels,
                i64::from(shared.next_multiple_of(1024)),
                node,
                0,
                "",
            ],
        );
    }

    fn transfer(&mut self, what: Transfer, bytes: i64, gpu: OnGpu) {
        let [device, stream, correlation, pid] = place(gpu);
        let (start, end) = gpu.range;
        self.metrics.add_copy(gpu);
        // Kinds of copies: 1 to the device, 2 from it. Of memory: 0 pageable, 1 pinned, 2 on the device.
        let (kind, from, to) = match what {
            Transfer::PinnedToDevice => (1, 1, 2),
            Transfer::DeviceToPageable => (2, 2, 0),
            Transfer::Fill => {
                self.answer.memsets.add_bytes(gpu.range, bytes);
                return self
                    .insert(&MEMSET, row![start, end, device, CONTEXT_ID, stream, correlation, pid, 0, bytes, 2]);
            }
        };
        self.answer.copies.entry(kind).or_default().add_bytes(gpu.range, bytes);
        self.insert(&MEMCPY, row![start, end, device, CONTEXT_ID, stream, correlation, pid, bytes, kind, from, to, 1]);
    }

    /// Where thread `tid` is at `at` ns, innermost function first.
    fn sample(&mut self, at: i64, tid: i64, innermost: (&str, &str)) {
        const MAIN: [(&str, &str); 4] = [
            ("THPVariable_linear", "libtorch_python.so"),
            ("_PyEval_EvalFrameDefault", "python3.12"),
            ("Py_RunMain", "python3.12"),
            ("__libc_start_main", "libc.so.6"),
        ];
        const AUTOGRAD: [(&str, &str); 3] = [
            ("torch::autograd::Engine::evaluate_function", "libtorch_cpu.so"),
            ("torch::autograd::Engine::thread_main", "libtorch_cpu.so"),
            ("start_thread", "libc.so.6"),
        ];
        self.n_samples += 1;
        let id = self.n_samples;
        self.insert(&SAMPLES, row![id, at, id % 16, 1, global_tid(tid), 1]);
        let outer: &[_] = if tid == AUTOGRAD_TID { &AUTOGRAD } else { &MAIN };
        for (depth, (symbol, module)) in (0..).zip(std::iter::once(&innermost).chain(outer)) {
            let (symbol, module) = (self.string(symbol), self.string(module));
            self.insert(&CALLCHAINS, row![id, symbol, module, 0, 0, 0, 0, 0x7f00_1000 + 64 * symbol, 1, depth]);
        }
    }

    /// What a Python function does with the system, for those that wait for it.
    fn frame(&mut self, name: &str, range: Range) {
        let (call, symbol) = match name {
            "dataset.py(27): __getitem__" => ("pread64", ("__libc_pread64", "libc.so.6")),
            "dataset.py(41): read_shard" => ("read", ("__libc_read", "libc.so.6")),
            "<built-in method write of _io.TextIOWrapper object at 0x7f12>" => ("write", ("__libc_write", "libc.so.6")),
            "<built-in function collect>" => ("", ("gc_collect_main", "python3.12")),
            _ => return,
        };
        if !call.is_empty() {
            self.os_call(call, PID, (range.0 + 500, range.1 - 200));
        }
        self.sample(range.0 + (range.1 - range.0) / 2, PID, symbol);
    }

    /// Writes the NVTX rows that are held back, in order of start.
    fn flush_nvtx(&mut self) {
        let mut rows = std::mem::take(&mut self.nvtx);
        rows.sort_by_key(|nvtx| (nvtx.start, std::cmp::Reverse(nvtx.end)));
        for nvtx in rows.drain(..) {
            let Nvtx { start, end, event_type, range_id, category, text, text_id, tid, end_tid, domain, payload } =
                nvtx;
            let text = text.as_deref();
            let color = (event_type == PUSH_POP).then_some(0xff76_b900_i64);
            self.insert(
                &NVTX,
                row![start, end, event_type, range_id, category, color, text, tid, end_tid, text_id, domain, payload],
            );
        }
        self.nvtx = rows;
    }
}

/// Device, stream, correlation and process of work on the GPU.
fn place(gpu: OnGpu) -> [i64; 4] {
    [i64::from(DEVICE), gpu.stream.id, gpu.correlation as i64 + FIRST_CORRELATION, global_pid(PID)]
}

impl Recorder for Nsys<'_> {
    fn record(&mut self, event: &Event<'_>) {
        match *event {
            Event::Frame { name, range, .. } => self.frame(name, range),
            Event::Annotation { name, tid, range, .. } => self.annotation(name, tid, range),
            Event::Phase { name, range } => self.phase(name, range),
            Event::Call { name, tid, range, correlation, .. } => {
                self.call(name, tid, range, correlation as i64 + FIRST_CORRELATION);
                self.n_calls += 1;
                if self.n_calls.is_multiple_of(CALLS_PER_SAMPLE) {
                    self.sample(range.0 + (range.1 - range.0) / 2, tid, (name, "libcudart.so.12"));
                }
            }
            Event::Kernel { kernel, gpu, node, .. } => self.kernel(kernel, gpu, node),
            Event::Graph { gpu } => {
                self.metrics.add_kernel(gpu);
                let [device, stream, correlation, pid] = place(gpu);
                let (start, end) = gpu.range;
                self.insert(&GRAPH_TRACE, row![start, end, device, CONTEXT_ID, stream, correlation, pid, 1, 2]);
            }
            Event::Transfer { what, bytes, gpu } => self.transfer(what, bytes, gpu),
            Event::Overhead { range } => {
                let name = self.string("CUDA profiling data flush overhead");
                self.insert(&OVERHEAD, row![range.0, range.1, global_tid(PID), name, 0, 1 << 16]);
            }
            // What PyTorch alone knows.
            Event::Operator { .. }
            | Event::BackwardNode { .. }
            | Event::Backward { .. }
            | Event::Allocation { .. }
            | Event::StepOnGpu { .. } => {}
        }
    }

    fn end_step(&mut self, now: i64) -> std::io::Result<()> {
        self.flush_nvtx();
        let mut metrics = std::mem::take(&mut self.metrics);
        metrics.flush(now, |spec, row| self.insert(spec, row));
        self.metrics = metrics;
        self.failed.take().map_or(Ok(()), |error| Err(std::io::Error::other(error)))
    }
}

/// How nsys spells a call of the runtime: with the version of CUDA that brought it in this form.
pub(super) fn versioned(name: &str) -> String {
    let version = match name {
        "cudaLaunchKernel" => "7000",
        "cudaStreamIsCapturing" | "cudaGraphLaunch" => "10000",
        _ => "3020",
    };
    format!("{name}_v{version}")
}

/// The name of a function without its type, namespaces, template arguments and parameters.
pub(super) fn short_name(full: &str) -> &str {
    let start = full.strip_prefix("void ").unwrap_or(full);
    let mut begin = 0;
    let mut rest = start;
    loop {
        // A namespace without a name holds a bracket that opens no parameters.
        let at = rest.find(['<', '(']).unwrap_or(rest.len());
        let namespace = rest[..at].rfind("::").map(|at| at + 2);
        begin += namespace.unwrap_or(0);
        match rest[at..].strip_prefix("(anonymous namespace)::") {
            Some(after) => {
                begin = start.len() - after.len();
                rest = after;
            }
            None => return &start[begin..start.len() - rest.len() + at],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_functions() {
        for (full, short) in [
            ("void at::native::(anonymous namespace)::norm<c10::BFloat16>(int)", "norm"),
            ("void flash_fwd_kernel<Traits<64>, false>(Params)", "flash_fwd_kernel"),
            ("void at::native::vectorized<4, at::native::f(at::T&)::{lambda()#2}>(int)", "vectorized"),
            ("ncclDevKernel_AllReduce(ncclDevComm*)", "ncclDevKernel_AllReduce"),
            ("sm90_xmma_gemm", "sm90_xmma_gemm"),
        ] {
            assert_eq!(short_name(full), short);
        }
    }

    #[test]
    fn ids_have_their_parts() {
        let id = global_tid(AUTOGRAD_TID);
        assert_eq!([id >> 48, (id >> 24) & 0xff_ffff, id & 0xff_ffff], [1, PID, AUTOGRAD_TID]);
        assert_eq!(id & !0xff_ffff, global_pid(PID));
    }
}
