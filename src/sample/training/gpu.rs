//! Calls of the CUDA runtime, launches, and the streams on which work runs.

use super::Run;
use super::device::Work;
use super::event::{Event, Graphs, OnGpu, Transfer};

pub const DEVICE: u32 = 0;

/// A CUDA stream: its number in the trace and its place in [`Run::free`].
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub id: i64,
    pub slot: usize,
}

pub const COMPUTE: Stream = Stream { id: 7, slot: 0 };
pub const COMMS: Stream = Stream { id: 20, slot: 1 };

/// A kernel: its name, its range of durations in ns, and its launch.
#[derive(Debug)]
pub struct Kernel {
    pub name: &'static str,
    pub low: i64,
    pub high: i64,
    pub grid: u32,
    pub block: u32,
    pub registers: u32,
    pub shared: u32,
}

impl Run<'_> {
    /// A runtime call that sends nothing to the GPU.
    pub fn runtime(&mut self, name: &'static str, cbid: u32) {
        let until = self.now + self.rng.between(700, 3_000);
        self.runtime_until(name, cbid, until);
    }

    /// A runtime call that returns at `until` ns, or at once if that is past.
    pub fn runtime_until(&mut self, name: &'static str, cbid: u32, until: i64) {
        let start = self.now;
        self.now = until.max(start + 700);
        self.call(name, cbid, start, false);
    }

    /// Records a runtime call from `start` to now; returns its correlation id.
    fn call(&mut self, name: &'static str, cbid: u32, start: i64, submits: bool) -> u64 {
        let correlation = self.next_correlation;
        self.next_correlation += 1;
        let (tid, range, external) = (self.tid, (start, self.now), self.innermost());
        self.recorder.record(&Event::Call { name, cbid, tid, range, correlation, external, submits });
        correlation
    }

    /// The external id of the innermost operator.
    fn innermost(&self) -> u64 {
        self.operators.last().copied().unwrap_or_default()
    }

    /// A runtime call that sends work of `dur` ns to `stream`; returns when that work runs.
    fn submit(&mut self, (name, cbid): (&'static str, u32), stream: Stream, dur: i64) -> OnGpu {
        let start = self.now;
        self.spend(3_500, 7_500);
        let correlation = self.call(name, cbid, start, true);
        // A launch takes a while to reach the device.
        let arrives = self.now + self.rng.between(1_500, 4_000);
        let range = self.run_on(stream, arrives, dur);
        OnGpu { stream, range, correlation, external: self.innermost() }
    }

    /// Lets `stream` work for `dur` ns once it is free; kernels back to back leave about a microsecond.
    fn run_on(&mut self, stream: Stream, arrives: i64, dur: i64) -> (i64, i64) {
        let begin = arrives.max(self.free[stream.slot] + self.rng.between(700, 1_600));
        let end = begin + dur;
        self.free[stream.slot] = end;
        if stream.slot == COMPUTE.slot {
            self.on_gpu = Some((self.on_gpu.map_or(begin, |range| range.0), end));
        }
        (begin, end)
    }

    /// Launches a kernel on the compute stream.
    pub fn launch(&mut self, kernel: &Kernel) {
        self.launch_on(COMPUTE, kernel, "");
    }

    /// Launches a kernel; `more` is JSON text to add to its arguments.
    pub fn launch_on(&mut self, stream: Stream, kernel: &Kernel, more: &str) {
        let dur = self.rng.between(kernel.low, kernel.high);
        let gpu = self.submit(("cudaLaunchKernel", 211), stream, dur);
        self.device.add(Work::Kernel, gpu.range.0, gpu.range.1);
        self.recorder.record(&Event::Kernel { kernel, gpu, node: None, more });
    }

    /// Launches `kernels` as one CUDA graph on the compute stream, one after another.
    pub fn launch_graph(&mut self, kernels: &[&Kernel]) {
        let mut gpu = self.submit(("cudaGraphLaunch", 311), COMPUTE, 0);
        let begin = gpu.range.1;
        for (node, kernel) in (1..).zip(kernels) {
            let dur = self.rng.between(kernel.low, kernel.high);
            gpu.range = self.run_on(COMPUTE, begin, dur);
            if self.graphs == Graphs::AsNodes {
                self.device.add(Work::Kernel, gpu.range.0, gpu.range.1);
                self.recorder.record(&Event::Kernel { kernel, gpu, node: Some(node), more: "" });
            }
        }
        if self.graphs == Graphs::AsWhole {
            gpu.range.0 = begin;
            self.device.add(Work::Graph, gpu.range.0, gpu.range.1);
            self.recorder.record(&Event::Graph { gpu });
        }
    }

    /// Copies `bytes` on the compute stream.
    pub fn copy(&mut self, what: Transfer, bytes: i64) {
        let gpu = self.submit(("cudaMemcpyAsync", 41), COMPUTE, 1_200 + bytes / 24);
        self.device.add(Work::Memcpy, gpu.range.0, gpu.range.1);
        self.recorder.record(&Event::Transfer { what, bytes, gpu });
    }

    /// Clears `bytes` on the compute stream.
    pub fn clear(&mut self, bytes: i64) {
        let gpu = self.submit(("cudaMemsetAsync", 51), COMPUTE, 900 + bytes / 1_200);
        self.device.add(Work::Memset, gpu.range.0, gpu.range.1);
        self.recorder.record(&Event::Transfer { what: Transfer::Fill, bytes, gpu });
    }

    /// Makes `waiter` start its next work after all that `other` was given so far.
    pub fn order(&mut self, waiter: Stream, other: Stream) {
        self.runtime("cudaEventRecord", 135);
        self.runtime("cudaStreamWaitEvent", 147);
        self.free[waiter.slot] = self.free[waiter.slot].max(self.free[other.slot]);
    }
}
