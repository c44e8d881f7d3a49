//! What reaches the GPU, and when does it run? Runtime calls, launches and the streams.

use super::device::Work;
use super::emit::Place;
use super::kineto::{PID, Run};

pub(super) const DEVICE: u32 = 0;

/// A CUDA stream: its number in the trace and its place in [`Run::free`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub id: i64,
    pub slot: usize,
}

pub(super) const COMPUTE: Stream = Stream { id: 7, slot: 0 };
pub(super) const COMMS: Stream = Stream { id: 20, slot: 1 };

/// A kernel: its name, its range of durations in ns, and its launch.
#[derive(Debug)]
pub(super) struct Kernel {
    pub name: &'static str,
    pub low: i64,
    pub high: i64,
    pub grid: u32,
    pub block: u32,
    pub registers: u32,
    pub shared: u32,
}

impl Run {
    /// A runtime call that sends nothing to the GPU. Kineto ends an arrow at it that starts nowhere.
    pub fn runtime(&mut self, name: &str, cbid: u32) {
        let until = self.now + self.rng.between(700, 3_000);
        self.runtime_until(name, cbid, until);
    }

    /// A runtime call that returns at `until` ns, or at once if that is past.
    pub fn runtime_until(&mut self, name: &str, cbid: u32, until: i64) {
        let start = self.now;
        self.now = until.max(start + 700);
        let correlation = self.call(name, cbid, start);
        self.emit.flow_end("ac2g", correlation, Place { pid: &PID, tid: &self.tid }, start);
    }

    /// Writes a runtime call from `start` to now; returns its correlation id.
    fn call(&mut self, name: &str, cbid: u32, start: i64) -> u64 {
        let correlation = self.next_correlation;
        self.next_correlation += 1;
        let external = self.operators.last().copied().unwrap_or_default();
        let args = format!("\"External id\": {external}, \"cbid\": {cbid}, \"correlation\": {correlation}");
        self.emit.slice("cuda_runtime", name, Place { pid: &PID, tid: &self.tid }, (start, self.now), &args);
        correlation
    }

    /// A runtime call that sends work of `dur` ns to `stream`; returns when that work runs.
    fn submit(&mut self, (name, cbid): (&str, u32), stream: Stream, dur: i64) -> (u64, (i64, i64)) {
        let start = self.now;
        self.spend(3_500, 7_500);
        let correlation = self.call(name, cbid, start);
        self.emit.flow_start("ac2g", correlation, Place { pid: &PID, tid: &self.tid }, start);
        // A launch takes a while to reach the device; kernels back to back leave about a microsecond.
        let arrives = self.now + self.rng.between(1_500, 4_000);
        let begin = arrives.max(self.free[stream.slot] + self.rng.between(700, 1_600));
        let end = begin + dur;
        self.free[stream.slot] = end;
        self.emit.flow_end("ac2g", correlation, Place { pid: &DEVICE, tid: &stream.id }, begin);
        if stream.slot == COMPUTE.slot {
            self.on_gpu = Some((self.on_gpu.map_or(begin, |range| range.0), end));
        }
        (correlation, (begin, end))
    }

    /// Launches a kernel on the compute stream.
    pub fn launch(&mut self, kernel: &Kernel) {
        self.launch_on(COMPUTE, kernel, "");
    }

    /// Launches a kernel; `more` is JSON text to add to its arguments.
    pub fn launch_on(&mut self, stream: Stream, kernel: &Kernel, more: &str) {
        let dur = self.rng.between(kernel.low, kernel.high);
        let (correlation, range) = self.submit(("cudaLaunchKernel", 211), stream, dur);
        self.device.add(Work::Kernel, range.0, range.1);
        let external = self.operators.last().copied().unwrap_or_default();
        let &Kernel { name, grid, block, registers, shared, .. } = kernel;
        let per_sm = f64::from(grid) / 132.0;
        let warps = per_sm * f64::from(block) / 32.0;
        let stream_id = stream.id;
        let args = format!(
            "\"External id\": {external},      \"queued\": 0, \"device\": {DEVICE}, \"context\": 1,      \"stream\": {stream_id}, \"correlation\": {correlation},      \"registers per thread\": {registers},      \"shared memory\": {shared},      \"blocks per SM\": {per_sm:.6},      \"warps per SM\": {warps:.6},      \"grid\": [{grid}, 1, 1],      \"block\": [{block}, 1, 1],      \"est. achieved occupancy %\": {:.0}{more}",
            (warps / 64.0 * 100.0).min(100.0)
        );
        self.emit.slice("kernel", name, Place { pid: &DEVICE, tid: &stream_id }, range, &args);
    }

    /// Copies `bytes` on the compute stream.
    pub fn copy(&mut self, name: &str, bytes: i64) {
        let dur = 1_200 + bytes / 24;
        let (correlation, range) = self.submit(("cudaMemcpyAsync", 41), COMPUTE, dur);
        self.device.add(Work::Memcpy, range.0, range.1);
        self.transfer("gpu_memcpy", name, correlation, range, bytes);
    }

    /// Clears `bytes` on the compute stream.
    pub fn clear(&mut self, bytes: i64) {
        let dur = 900 + bytes / 1_200;
        let (correlation, range) = self.submit(("cudaMemsetAsync", 51), COMPUTE, dur);
        self.device.add(Work::Memset, range.0, range.1);
        self.transfer("gpu_memset", "Memset (Device)", correlation, range, bytes);
    }

    fn transfer(&mut self, cat: &str, name: &str, correlation: u64, range: (i64, i64), bytes: i64) {
        let external = self.operators.last().copied().unwrap_or_default();
        let rate = bytes as f64 / (range.1 - range.0) as f64;
        let stream = COMPUTE.id;
        let args = format!(
            "\"External id\": {external},      \"device\": {DEVICE}, \"context\": 1,      \"stream\": {stream}, \"correlation\": {correlation},      \"bytes\": {bytes}, \"memory bandwidth (GB/s)\": {rate}"
        );
        self.emit.slice(cat, name, Place { pid: &DEVICE, tid: &stream }, range, &args);
    }

    /// Makes `waiter` start its next work after all that `other` was given so far.
    pub fn order(&mut self, waiter: Stream, other: Stream) {
        self.runtime("cudaEventRecord", 135);
        self.runtime("cudaStreamWaitEvent", 147);
        self.free[waiter.slot] = self.free[waiter.slot].max(self.free[other.slot]);
    }
}
