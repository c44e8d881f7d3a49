//! A simulated training run: a host that issues work and a GPU that runs it, step by step.
//!
//! Times come from these two clocks alone, so busy and idle time are known to the nanosecond. Stalls
//! are planted at fixed steps: a slow data loader, a sync by `.item()`, an allocator that goes to the
//! driver, a garbage collection.

mod device;
mod event;
mod gpu;
mod host;
mod kernels;
mod phases;

use super::answer::DeviceAnswer;
use super::rng::Rng;
use device::{Device, Stall};

pub use event::{Event, Graphs, OnGpu, Range, Recorder, Transfer};
pub use gpu::{COMMS, COMPUTE, DEVICE, Kernel};

/// Clock of the run: nanoseconds since 1970 at time 0.
pub const BASE_TIME_NS: i64 = 1_759_395_740_000_000_000;
/// When the recording begins, in ns after the base.
pub const START_NS: i64 = 4_812_345_678_901;
/// The training process, and its main thread.
pub const PID: i64 = 4242;
/// The thread that runs the backward pass.
pub const AUTOGRAD_TID: i64 = 4310;
/// Host time from the start of the recording to the first step, in ns.
const WARM_UP_NS: i64 = 500_000;
/// How far the host may run ahead of the GPU at the end of a step, in ns.
const RUN_AHEAD_NS: i64 = 2_000_000;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct TrainingPlan {
    pub steps: u32,
    pub seed: u64,
    /// What the recording's clock shows when it begins, in ns.
    pub start: i64,
    pub graphs: Graphs,
}

/// What the run came to.
#[derive(Debug)]
pub struct TrainingOutcome {
    /// When the last thread and the last stream were done, in ns.
    pub end: i64,
    pub device: DeviceAnswer,
    /// The first correlation id that was not used.
    pub next_correlation: u64,
}

/// The state of the simulated run.
#[derive(Debug)]
pub struct Run<'a> {
    pub recorder: &'a mut dyn Recorder,
    pub graphs: Graphs,
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
    pub graph: Vec<phases::Node>,
}

/// Trains for `plan.steps` and records it. Memory does not grow with the steps, but for planted gaps.
///
/// Errors: the recorder's.
pub fn simulate(plan: TrainingPlan, recorder: &mut dyn Recorder) -> std::io::Result<TrainingOutcome> {
    let mut run = Run {
        recorder,
        graphs: plan.graphs,
        rng: Rng::new(plan.seed),
        device: Device::default(),
        now: plan.start + WARM_UP_NS,
        tid: PID,
        free: [plan.start; 2],
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
    let root = run.open_frame();
    for step in 0..plan.steps {
        run.step(step);
        run.device.settle(run.now);
        run.recorder.end_step(run.now)?;
    }
    run.close_frame(root, "train.py(61): main");
    let end = run.now.max(run.free[0]).max(run.free[1]);
    run.recorder.end_step(end)?;
    Ok(TrainingOutcome { end, next_correlation: run.next_correlation, device: run.device.finish() })
}

impl Run<'_> {
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

    /// One training step, with the stall that is planned for it.
    fn step(&mut self, step: u32) {
        let start = self.now;
        self.on_gpu = None;
        let name = format!("ProfilerStep#{step}");
        self.annotation(&name, |run| {
            run.frame("train.py(33): train_step", |run| {
                run.load_batch(step);
                run.phase("forward", Self::forward);
                if step % 11 == 6 {
                    run.grow_pool(step);
                }
                run.phase("backward", Self::backward);
                run.phase("optimizer", Self::optimizer);
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
            self.recorder.record(&Event::StepOnGpu { name: &name, range, external: self.next_external });
        }
        if step % 4 == 1 {
            let range = (start + 40_000, start + 71_000 + self.rng.between(0, 9_000));
            self.recorder.record(&Event::Overhead { range });
        }
    }

    /// Waits, without draining the GPU, until it is less than [`RUN_AHEAD_NS`] behind.
    fn limit_run_ahead(&mut self) {
        let until = self.free[0] - RUN_AHEAD_NS;
        if until > self.now + 20_000 {
            self.frame(host::EVENT_SYNC, |run| run.runtime_until("cudaEventSynchronize", 137, until));
        }
    }
}
