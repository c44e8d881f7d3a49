//! A small program for a GPU, made to be recorded: the first thing to capture on a new machine, and a test of the
//! whole way from the driver to the window.
//!
//! Each step copies in from pageable and from pinned memory, runs small kernels, one large kernel and a CUDA graph, and
//! copies out on a second stream. Planted are a sleep of the host, a wait of the host in the middle of a step, and
//! memory that is allocated in each step and never freed.

mod gpu;
mod ranges;

use std::time::{Duration, Instant};

use gpu::{Gpu, Stream, Timing};

/// Rounds of the large kernel: milliseconds on GPUs of 2016 to 2025.
const ROUNDS: u32 = 400_000;
/// Small kernels in a step, before the large one.
const SMALL_KERNELS: u32 = 50;
const SLEEP: Duration = Duration::from_millis(4);
const LEAK_BYTES: usize = 1 << 20;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub device: i32,
    pub steps: u32,
    /// Small kernels that are launched one after another at the end, to measure what a launch costs the host.
    pub launches: u32,
}

/// What ran, and how long it took by the program's own measure.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Outcome {
    pub device: String,
    /// 13000 for CUDA 13.0.
    pub driver_version: i32,
    pub steps: u32,
    /// Kernels by name, those of graphs included.
    pub kernels: Kernels,
    /// Milliseconds between two CUDA events around each large kernel, in order.
    pub large_kernel_ms: Vec<f32>,
    /// Copies, each of `copy_bytes`.
    pub copies: Copies,
    pub copy_bytes: usize,
    /// What was planted.
    pub slept_ms: u64,
    pub leaked_bytes: u64,
    /// Nanoseconds that a launch took the host, with all waits for room in the queue; null if none was measured.
    pub launch_ns: Option<f64>,
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Kernels {
    pub lacuna_large: u64,
    pub lacuna_small: u64,
}

#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Copies {
    pub pageable_to_device: u64,
    pub pinned_to_device: u64,
    pub device_to_pinned: u64,
}

/// Runs the workload.
///
/// Errors: there is no driver or device, or it fails; as a sentence.
pub fn run(plan: Plan) -> Result<Outcome, String> {
    let started = Instant::now();
    ranges::load();
    let mut gpu = Gpu::open(plan.device)?;
    let steps = u64::from(plan.steps);
    let mut timings = Vec::new();
    let mut has_graph = false;
    for index in 0..plan.steps {
        let (timing, launched) = ranges::within(&format!("step {index}"), || step(&mut gpu))?;
        timings.push(timing);
        has_graph |= launched;
    }
    let large_kernel_ms = timings.iter().map(|timing| gpu.elapsed_ms(timing)).collect::<Result<_, _>>()?;
    let launch_ns = ranges::within("launches", || launch_cost(&gpu, plan.launches))?;
    let (device, driver_version) = (gpu.name.clone(), gpu.driver_version);
    gpu.close()?;
    let in_graphs = if has_graph { gpu::GRAPH_KERNELS as u64 } else { 0 };
    Ok(Outcome {
        device,
        driver_version,
        steps: plan.steps,
        kernels: Kernels {
            lacuna_large: steps,
            lacuna_small: steps * (u64::from(SMALL_KERNELS) + in_graphs) + u64::from(plan.launches),
        },
        large_kernel_ms,
        copies: Copies { pageable_to_device: steps, pinned_to_device: steps, device_to_pinned: steps },
        copy_bytes: gpu::BYTES,
        slept_ms: steps * SLEEP.as_millis() as u64,
        leaked_bytes: steps * LEAK_BYTES as u64,
        launch_ns,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// One step; the timing of its large kernel, and whether it launched the graph. All of it is done when this returns.
fn step(gpu: &mut Gpu) -> Result<(Timing, bool), String> {
    ranges::within("load data", || {
        gpu.copy_in_pageable()?;
        gpu.copy_in(Stream::Copies)?;
        gpu.order(Stream::Copies, Stream::Compute)
    })?;
    let timing = ranges::within("compute", || {
        gpu.clear(Stream::Compute)?;
        (0..SMALL_KERNELS).try_for_each(|_| gpu.launch_small(Stream::Compute))?;
        let timing = gpu.launch_large(Stream::Compute, ROUNDS)?;
        // Planted: the host waits, so the graph is launched late.
        gpu.wait(Stream::Compute)?;
        Ok::<_, String>(timing)
    })?;
    let has_graph = gpu.launch_graph(Stream::Compute)?;
    gpu.order(Stream::Compute, Stream::Copies)?;
    gpu.copy_out(Stream::Copies)?;
    gpu.wait(Stream::Copies)?;
    ranges::within("sleep", || std::thread::sleep(SLEEP));
    gpu.leak(LEAK_BYTES)?;
    Ok((timing, has_graph))
}

/// Nanoseconds of the host for each launch of many.
fn launch_cost(gpu: &Gpu, launches: u32) -> Result<Option<f64>, String> {
    if launches == 0 {
        return Ok(None);
    }
    let started = Instant::now();
    (0..launches).try_for_each(|_| gpu.launch_small(Stream::Compute))?;
    let ns = started.elapsed().as_nanos() as f64;
    gpu.wait(Stream::Compute)?;
    Ok(Some(ns / f64::from(launches)))
}
