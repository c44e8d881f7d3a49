//! The training run as the PyTorch profiler (Kineto) records it: Chrome trace JSON.

mod emit;
pub(super) mod planted;
#[cfg(test)]
mod tests;

use std::io::Write;

use super::answer::Answer;
use super::training::{
    AUTOGRAD_TID, BASE_TIME_NS, COMMS, COMPUTE, DEVICE, Event, Graphs, Kernel, OnGpu, PID, Recorder, START_NS,
    TrainingPlan, Transfer, simulate,
};
use emit::{Emit, Location};

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub steps: u32,
    pub seed: u64,
    /// The bare array form, without properties of the trace.
    pub is_array: bool,
}

/// Writes the trace and returns what it holds.
///
/// Errors: the sink's.
pub fn write(shape: Shape, sink: &mut dyn Write) -> std::io::Result<Answer> {
    sink.write_all(if shape.is_array { "[".to_owned() } else { header() }.as_bytes())?;
    let Shape { steps, seed, .. } = shape;
    let mut kineto = Kineto { emit: Emit::default(), sink };
    let outcome = simulate(TrainingPlan { steps, seed, start: START_NS, graphs: Graphs::Unused }, &mut kineto)?;
    footer_events(&mut kineto.emit, outcome.end);
    kineto.end_step(outcome.end)?;
    let Kineto { emit, sink } = kineto;
    sink.write_all(if shape.is_array { "\n]\n".to_owned() } else { footer() }.as_bytes())?;
    Ok(Answer::new("kineto", seed, steps, vec![outcome.device]).with_events(emit.counts))
}

/// Writes the text of events into a file.
struct Kineto<'a> {
    emit: Emit,
    sink: &'a mut dyn Write,
}

impl std::fmt::Debug for Kineto<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kineto").field("emit", &self.emit).finish_non_exhaustive()
    }
}

impl Recorder for Kineto<'_> {
    fn record(&mut self, event: &Event<'_>) {
        self.emit.event(event);
    }

    fn end_step(&mut self, _now: i64) -> std::io::Result<()> {
        self.sink.write_all(self.emit.text.as_bytes())?;
        self.emit.text.clear();
        Ok(())
    }
}

impl Emit {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Frame { name, range, id, parent, index } => {
                let parent = parent.map_or_else(|| "null".to_owned(), |id| id.to_string());
                let args = format!("\"Python parent id\": {parent}, \"Python id\": {id}, \"Ev Idx\": {index}");
                self.slice("python_function", name, Location { pid: &PID, tid: &PID }, range, &args);
            }
            Event::Annotation { name, tid, range, external, index } => {
                self.function(("user_annotation", name), tid, range, (external, ""), index);
            }
            Event::Operator { name, tid, range, external, inputs, index } => {
                let more = match inputs {
                    "" => String::new(),
                    inputs => format!(", \"Input Dims\": {inputs}"),
                };
                self.function(("cpu_op", name), tid, range, (external, &more), index);
            }
            Event::BackwardNode { name, tid, range, external, sequence, index } => {
                let more = format!(", \"Sequence number\": {sequence}, \"Fwd thread id\": 1");
                self.function(("cpu_op", name), tid, range, (external, &more), index);
            }
            Event::Backward { sequence, forward, now } => {
                self.flow_start("fwdbwd", sequence, Location { pid: &PID, tid: &PID }, forward);
                self.flow_end("fwdbwd", sequence, Location { pid: &PID, tid: &AUTOGRAD_TID }, now);
            }
            Event::Allocation { tid, at, bytes, allocated, index } => {
                const RESERVED: i64 = 12 << 30;
                // What is allocated last is freed first, so a block begins at the level below it.
                let address = 0x7f12_0000_0000_i64 + allocated.min(allocated - bytes);
                let args = format!(
                    "\"Total Reserved\": {RESERVED}, \"Total Allocated\": {allocated}, \"Bytes\": {bytes}, \"Addr\": {address}, \"Device Id\": 0, \"Device Type\": 1, \"Ev Idx\": {index}"
                );
                self.memory(Location { pid: &PID, tid: &tid }, at, &args);
            }
            Event::Call { name, cbid, tid, range, correlation, external, submits } => {
                let args = format!("\"External id\": {external}, \"cbid\": {cbid}, \"correlation\": {correlation}");
                let at = Location { pid: &PID, tid: &tid };
                self.slice("cuda_runtime", name, at, range, &args);
                // A call that sends nothing gets the end of an arrow that starts nowhere.
                if submits {
                    self.flow_start("ac2g", correlation, at, range.0);
                } else {
                    self.flow_end("ac2g", correlation, at, range.0);
                }
            }
            Event::Kernel { kernel, gpu, more, .. } => self.kernel(kernel, gpu, more),
            Event::Transfer { what, bytes, gpu } => {
                let (cat, name) = match what {
                    Transfer::PinnedToDevice => ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
                    Transfer::DeviceToPageable => ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)"),
                    Transfer::Fill => ("gpu_memset", "Memset (Device)"),
                };
                let rate = bytes as f64 / (gpu.range.1 - gpu.range.0) as f64;
                let args = format!("      \"bytes\": {bytes}, \"memory bandwidth (GB/s)\": {rate}");
                self.on_gpu((cat, name), gpu, "", &args);
            }
            Event::StepOnGpu { name, range, external } => {
                let at = Location { pid: &DEVICE, tid: &COMPUTE.id };
                self.slice("gpu_user_annotation", name, at, range, &format!("\"External id\": {external}"));
            }
            Event::Overhead { range } => {
                self.slice("overhead", "Buffer Flush", Location { pid: &-1, tid: &0 }, range, "");
            }
            // Kineto has no record of parts of a step, and this run launches no graphs.
            Event::Phase { .. } | Event::Graph { .. } => {}
        }
    }

    /// A `record_function` slice; `more` is added to its arguments.
    fn function(&mut self, (cat, name): (&str, &str), tid: i64, range: (i64, i64), args: (u64, &str), index: u64) {
        let (external, more) = args;
        let args = format!("\"External id\": {external},\"Record function id\": {external}{more}, \"Ev Idx\": {index}");
        self.slice(cat, name, Location { pid: &PID, tid: &tid }, range, &args);
    }

    /// A kernel, with its launch; `more` is added to its arguments.
    fn kernel(&mut self, kernel: &Kernel, gpu: OnGpu, more: &str) {
        let &Kernel { name, grid, block, registers, shared, .. } = kernel;
        let per_sm = f64::from(grid) / 132.0;
        let warps = per_sm * f64::from(block) / 32.0;
        let occupancy = (warps / 64.0 * 100.0).min(100.0);
        let args = format!(
            "      \"registers per thread\": {registers},      \"shared memory\": {shared},      \"blocks per SM\": {per_sm:.6},      \"warps per SM\": {warps:.6},      \"grid\": [{grid}, 1, 1],      \"block\": [{block}, 1, 1],      \"est. achieved occupancy %\": {occupancy:.0}{more}"
        );
        self.on_gpu(("kernel", name), gpu, "\"queued\": 0, ", &args);
    }

    /// Work on the GPU, with the end of the arrow from its launch.
    fn on_gpu(&mut self, (cat, name): (&str, &str), gpu: OnGpu, first: &str, more: &str) {
        let OnGpu { stream, range, correlation, external } = gpu;
        let at = Location { pid: &DEVICE, tid: &stream.id };
        let (device, stream) = (DEVICE, stream.id);
        self.flow_end("ac2g", correlation, at, range.0);
        let args = format!(
            "\"External id\": {external},      {first}\"device\": {device}, \"context\": 1,      \"stream\": {stream}, \"correlation\": {correlation},{more}"
        );
        self.slice(cat, name, at, range, &args);
    }
}

fn header() -> String {
    let properties = "\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\", \"totalGlobalMem\": 84942979072,\n      \"computeMajor\": 9, \"computeMinor\": 0,\n      \"maxThreadsPerBlock\": 1024, \"maxThreadsPerMultiprocessor\": 2048,\n      \"regsPerBlock\": 65536, \"warpSize\": 32,\n      \"sharedMemPerBlock\": 49152, \"numSms\": 132\n    , \"regsPerMultiprocessor\": 65536, \"sharedMemPerBlockOptin\": 232448, \"sharedMemPerMultiprocessor\": 233472";
    let group = "\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"backend_config\": \"cuda:nccl\", \"pg_size\": 2, \"ranks\": [0, 1]";
    format!(
        "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {{\n      {properties}\n    }}\n  ],\n  \"cuda_runtime_version\": 12040, \"cuda_driver_version\": 12040, \"cupti_version\": 22,\n  \"profile_memory\": 1, \"with_stack\": 1, \"record_shapes\": 1,\n  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 2, \"pg_count\": 1, \"pg_config\": [{{{group}}}], \"nccl_version\": \"2.21.5\"}},\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": {BASE_TIME_NS},\n  \"traceEvents\": ["
    )
}

fn footer() -> String {
    "\n  ],\n  \"traceName\": \"sample.pt.trace.json\"\n}\n".to_owned()
}

/// Names and orders of processes and threads, and the recording's own spans.
fn footer_events(emit: &mut Emit, end: i64) {
    let cpu: (&dyn std::fmt::Display, &str, i64) = (&PID, "\"CPU\"", PID);
    let device: (&dyn std::fmt::Display, &str, i64) = (&DEVICE, "\"GPU 0\"", 16_777_216);
    for (pid, label, order) in [cpu, device] {
        let at = Location { pid, tid: &0 };
        emit.metadata("process_name", at, START_NS, ("name", &"\"python3\""));
        emit.metadata("process_labels", at, START_NS, ("labels", &label));
        emit.metadata("process_sort_index", at, START_NS, ("sort_index", &order));
    }
    let streams = [COMPUTE.id, COMMS.id].map(|id| (i64::from(DEVICE), id, format!("\"stream {id} \"")));
    let threads = [PID, AUTOGRAD_TID].map(|id| (PID, id, format!("\"thread {id} (python3)\"")));
    for (pid, tid, name) in streams.into_iter().chain(threads) {
        let at = Location { pid: &pid, tid: &tid };
        emit.metadata("thread_name", at, START_NS, ("name", &name));
        emit.metadata("thread_sort_index", at, START_NS, ("sort_index", &tid));
    }
    let end = end + 100_000;
    let spans = Location { pid: &"\"Spans\"", tid: &"\"PyTorch Profiler\"" };
    emit.slice("Trace", "PyTorch Profiler (0)", spans, (START_NS, end), "\"Op count\": 0");
    emit.metadata("process_sort_index", Location { tid: &0, ..spans }, START_NS, ("sort_index", &536_870_912));
    let traces = Location { pid: &"\"Traces\"", tid: &"\"Trace PyTorch Profiler\"" };
    emit.global_instant("Iteration Start: PyTorch Profiler", traces, START_NS);
    emit.metadata("process_sort_index", Location { tid: &0, ..traces }, START_NS, ("sort_index", &536_870_912));
    emit.global_instant("Record Window End", Location { pid: &"\"\"", tid: &"\"\"" }, end);
}
