//! What does a training run look like to the PyTorch profiler? A small transformer, step by step.
//!
//! A simulated host issues operators and launches; a simulated GPU runs them in stream order. Times
//! come from these two clocks alone, so busy and idle time are known to the nanosecond. Stalls are
//! planted at fixed steps: a slow data loader, a sync by `.item()`, an allocator that goes to the
//! driver, a garbage collection.

use std::io::Write;

use super::answer::Answer;
use super::device::{Device, Stall};
use super::emit::{Emit, Place};
use super::rng::Rng;
use super::{frame, gpu, training};

/// Clock of the trace: nanoseconds since 1970 at time 0.
const BASE_TIME_NS: i64 = 1_759_395_740_000_000_000;
/// The first instant of the recording, in ns after the base.
const START_NS: i64 = 4_812_345_678_901;
/// The training process, and its main thread.
pub(super) const PID: i64 = 4242;
/// The thread that runs the backward pass.
pub(super) const AUTOGRAD_TID: i64 = 4310;
/// How far the host may run ahead of the GPU at the end of a step, in ns.
const RUN_AHEAD_NS: i64 = 2_000_000;

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub steps: u32,
    pub seed: u64,
    /// The bare array form, without properties of the trace.
    pub is_array: bool,
}

/// The state of the simulated run.
#[derive(Debug)]
pub(super) struct Run {
    pub emit: Emit,
    pub rng: Rng,
    pub device: Device,
    /// Host clock in ns, and the thread it belongs to.
    pub now: i64,
    pub tid: i64,
    /// When each stream is free: compute, communication.
    pub free: [i64; 2],
    /// First start and last end of compute work in this step.
    pub on_gpu: Option<(i64, i64)>,
    pub next_external: u64,
    pub next_correlation: u64,
    pub next_python: u64,
    pub next_sequence: u64,
    pub next_index: u64,
    pub operators: Vec<u64>,
    pub frames: Vec<u64>,
    pub allocated: i64,
    pub graph: Vec<training::Node>,
}

impl Run {
    /// Lets the host work for `low..high` ns.
    pub fn spend(&mut self, low: i64, high: i64) {
        self.now += self.rng.between(low, high);
    }

    /// The number of the next profiler record on this host.
    pub fn index(&mut self) -> u64 {
        self.next_index += 1;
        self.next_index
    }

    /// Notes that the host kept the GPU waiting from `start` until now.
    pub fn stalled(&mut self, cause: &'static str, step: u32, start: i64) {
        self.device.stall(Stall { cause, step, start, end: self.now });
    }
}

/// Writes the trace and returns what it holds.
///
/// Errors: the sink's.
pub fn write(shape: Shape, sink: &mut dyn Write) -> std::io::Result<Answer> {
    let mut run = Run {
        emit: Emit::default(),
        rng: Rng::new(shape.seed),
        device: Device::default(),
        now: START_NS + 500_000,
        tid: PID,
        free: [START_NS; 2],
        on_gpu: None,
        next_external: 1,
        next_correlation: 1,
        next_python: 1,
        next_sequence: 1,
        next_index: 0,
        operators: Vec::new(),
        frames: Vec::new(),
        allocated: 3 << 30,
        graph: Vec::new(),
    };
    sink.write_all(if shape.is_array { "[".to_owned() } else { header() }.as_bytes())?;
    let root = run.open_frame();
    for step in 0..shape.steps {
        run.step(step);
        run.device.settle(run.now);
        sink.write_all(run.emit.text.as_bytes())?;
        run.emit.text.clear();
    }
    run.close_frame(root, "train.py(61): main");
    footer_events(&mut run);
    sink.write_all(run.emit.text.as_bytes())?;
    sink.write_all(if shape.is_array { "\n]\n".to_owned() } else { footer() }.as_bytes())?;
    let counts = run.emit.counts;
    Ok(Answer {
        schema: 1,
        kind: "kineto",
        seed: shape.seed,
        steps: shape.steps,
        slices: counts.slices,
        flow_starts: counts.flow_starts,
        flow_ends: counts.flow_ends,
        instants: counts.instants,
        metadata: counts.metadata,
        devices: vec![run.device.finish()],
    })
}

impl Run {
    /// One training step, with the stall that is planned for it.
    fn step(&mut self, step: u32) {
        let start = self.now;
        self.on_gpu = None;
        let name = format!("ProfilerStep#{step}");
        self.annotation(&name, |run| {
            run.frame("train.py(33): train_step", |run| {
                run.load_batch(step);
                run.forward();
                if step % 11 == 6 {
                    run.grow_pool(step);
                }
                run.backward();
                run.optimizer();
                if step % 5 == 4 {
                    run.log_loss(step);
                }
                if step % 13 == 8 {
                    run.collect_garbage(step);
                }
                run.limit_run_ahead();
            });
        });
        if let Some(range) = self.on_gpu {
            let at = Place { pid: &gpu::DEVICE, tid: &gpu::COMPUTE.id };
            let external = self.next_external;
            self.emit.slice("gpu_user_annotation", &name, at, range, &format!("\"External id\": {external}"));
        }
        if step % 4 == 1 {
            let (from, to) = (start + 40_000, start + 71_000 + self.rng.between(0, 9_000));
            self.emit.slice("overhead", "Buffer Flush", Place { pid: &-1, tid: &0 }, (from, to), "");
        }
    }

    /// Waits, without draining the GPU, until it is less than [`RUN_AHEAD_NS`] behind.
    fn limit_run_ahead(&mut self) {
        let until = self.free[0] - RUN_AHEAD_NS;
        if until > self.now + 20_000 {
            self.frame(frame::EVENT_SYNC, |run| run.runtime_until("cudaEventSynchronize", 137, until));
        }
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
fn footer_events(run: &mut Run) {
    let cpu: (&dyn std::fmt::Display, &str, i64) = (&PID, "\"CPU\"", PID);
    let device: (&dyn std::fmt::Display, &str, i64) = (&gpu::DEVICE, "\"GPU 0\"", 16_777_216);
    for (pid, label, order) in [cpu, device] {
        let at = Place { pid, tid: &0 };
        run.emit.metadata("process_name", at, START_NS, ("name", &"\"python3\""));
        run.emit.metadata("process_labels", at, START_NS, ("labels", &label));
        run.emit.metadata("process_sort_index", at, START_NS, ("sort_index", &order));
    }
    let streams = [gpu::COMPUTE.id, gpu::COMMS.id].map(|id| (i64::from(gpu::DEVICE), id, format!("\"stream {id} \"")));
    let threads = [PID, AUTOGRAD_TID].map(|id| (PID, id, format!("\"thread {id} (python3)\"")));
    for (pid, tid, name) in streams.into_iter().chain(threads) {
        let at = Place { pid: &pid, tid: &tid };
        run.emit.metadata("thread_name", at, START_NS, ("name", &name));
        run.emit.metadata("thread_sort_index", at, START_NS, ("sort_index", &tid));
    }
    let end = run.now.max(run.free[0]).max(run.free[1]) + 100_000;
    let spans = Place { pid: &"\"Spans\"", tid: &"\"PyTorch Profiler\"" };
    run.emit.slice("Trace", "PyTorch Profiler (0)", spans, (START_NS, end), "\"Op count\": 0");
    run.emit.metadata("process_sort_index", Place { tid: &0, ..spans }, START_NS, ("sort_index", &536_870_912));
    let traces = Place { pid: &"\"Traces\"", tid: &"\"Trace PyTorch Profiler\"" };
    run.emit.global_instant("Iteration Start: PyTorch Profiler", traces, START_NS);
    run.emit.metadata("process_sort_index", Place { tid: &0, ..traces }, START_NS, ("sort_index", &536_870_912));
    run.emit.global_instant("Record Window End", Place { pid: &"\"\"", tid: &"\"\"" }, end);
}
