//! Device memory that is allocated and freed for each tensor: the caching allocator is off, or bypassed.
//!
//! With it a steady step allocates next to nothing, and frees come in a few bursts: `empty_cache`, or room that is made
//! for a request. Without it about each operator that makes a tensor allocates, and what it no longer needs is freed in
//! ones and twos between launches.

use hashbrown::HashSet;

use super::room::{Effect, Effects};
use super::{Device, Rule};
use crate::model::{ProcessId, SliceId, TimeNs, TimeRange, TrackId};

/// Fewer runs of frees in a step are those of a program that empties the cache at some places.
const MIN_RUNS: u64 = 20;
/// One of so many launches has an allocation of its own, at least.
const LAUNCHES: u64 = 4;

/// Calls of the judged steps that allocate and free device memory: of a step on average, without steps of all time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncached {
    pub allocations: u64,
    pub frees: u64,
}

/// Calls of some time.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    allocations: u64,
    frees: u64,
    launches: u64,
    /// Runs of frees, with no allocation and no launch between.
    runs: u64,
}

impl Calls {
    fn is_uncached(&self) -> bool {
        let Self { allocations, frees, launches, runs } = *self;
        runs >= MIN_RUNS && LAUNCHES * allocations >= launches && 2 * allocations >= frees && 2 * frees >= allocations
    }
}

impl Device<'_, '_> {
    /// Of a hit about the allocator: whether memory is allocated and freed for each tensor, in every judged step.
    pub(super) fn uncached(&mut self) {
        let device = self.window.device;
        if !self.of.run.is_torch || self.out.hit_of(Rule::Allocator, device).is_none() {
            return;
        }
        let steps = &self.window.host_steps;
        let pieces = if steps.is_empty() { std::slice::from_ref(&self.window.time) } else { steps };
        let (threads, mut effects) = (self.host_threads(), Effects::default());
        let calls: Vec<Calls> = pieces.iter().map(|&piece| self.calls(&threads, piece, &mut effects)).collect();
        let n = calls.len() as u64;
        let mean = |of: fn(&Calls) -> u64| calls.iter().map(of).sum::<u64>() / n;
        let found = Uncached { allocations: mean(|of| of.allocations), frees: mean(|of| of.frees) };
        let is_found = calls.iter().all(Calls::is_uncached);
        if let Some(hit) = self.out.hit_of(Rule::Allocator, device).filter(|_| is_found) {
            hit.uncached = Some(found);
        }
    }

    /// All threads of the processes that launch the device's work. Cost: O(slices of the device).
    fn host_threads(&self) -> Vec<TrackId> {
        let trace = self.of.trace;
        let work = trace.tracks_of(self.busy.process).flat_map(|track| trace.track_slices(track));
        let calls = work.filter_map(|i| trace.launch_of(SliceId(i as u32)));
        let processes = calls.map(|call| trace.tracks[trace.slices.track_of(call).0 as usize].process);
        let processes: HashSet<ProcessId> = processes.collect();
        processes.into_iter().flat_map(|process| trace.tracks_of(process)).collect()
    }

    /// The calls of these threads that begin in some time. Cost: O(slices that do, sorted).
    fn calls(&self, threads: &[TrackId], time: TimeRange, effects: &mut Effects) -> Calls {
        let (trace, slices) = (self.of.trace, &self.of.trace.slices);
        let mut out = Calls::default();
        for &thread in threads {
            let mut calls: Vec<(TimeNs, Effect)> = Vec::new();
            for row in trace.rows(thread) {
                let range = row.range();
                let first = range.start + slices.ts[range.clone()].partition_point(|&ts| ts < time.start);
                let begun = (first..range.end).take_while(|&i| slices.ts[i] < time.end);
                calls.extend(begun.map(|i| (slices.ts[i], effects.on_device(trace, SliceId(i as u32)))));
            }
            calls.retain(|call| call.1 != Effect::Other);
            calls.sort_unstable_by_key(|call| call.0);
            let mut is_run = false;
            for (_, effect) in calls {
                let count = match effect {
                    Effect::Frees => &mut out.frees,
                    Effect::Allocates => &mut out.allocations,
                    _ => &mut out.launches,
                };
                *count += 1;
                out.runs += u64::from(effect == Effect::Frees && !is_run);
                is_run = effect == Effect::Frees;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{each_rule::linked, judged, of};
    use super::*;
    use crate::model::SliceKind;

    const CALL: SliceKind = SliceKind::Runtime;

    /// What is found where a step has so many such turns of calls, and so many launches more; each call takes 10 µs.
    fn found(turn: &[&str], turns: i64, launches: i64) -> Option<Uncached> {
        let names = (0..turns).flat_map(|_| turn.iter().copied());
        let names: Vec<&str> = names.chain((0..launches).map(|_| "cudaLaunchKernel")).collect();
        let at = |i: usize| 10_000 * i as TimeNs;
        let mut step: Vec<_> =
            names.iter().enumerate().map(|(i, &name)| ("main", CALL, name, at(i), at(i) + 9_000, 0)).collect();
        let end = at(names.len());
        step.push(("main", SliceKind::Operator, "aten::mm", end, end + 30_000, 0));
        step.push(("main", CALL, "cudaLaunchKernel", end + 10_000, end + 20_000, 1));
        step.push(("stream 7", SliceKind::Kernel, "gemm", end + 30_000, end + 50_000, 1));
        let verdicts = judged(&linked(&step).finish(), None);
        of(&verdicts, Rule::Allocator).expect("the device waits for calls that allocate").uncached
    }

    #[test]
    fn memory_that_is_allocated_and_freed_for_each_tensor_is_not_cached() {
        let each = ["cudaMalloc", "cudaLaunchKernel", "cudaFree"];
        assert_eq!(found(&each, 30, 0), Some(Uncached { allocations: 30, frees: 30 }));
        assert_eq!(found(&["cudaMalloc", "cudaMalloc", "cudaLaunchKernel", "cudaFree"], 25, 9), {
            Some(Uncached { allocations: 50, frees: 25 })
        });
        assert_eq!(found(&each, 15, 0), None, "at some places");
        assert_eq!(found(&each, 30, 200), None, "few of the operators");
        let emptied: Vec<&str> = [["cudaFree"; 40], ["cudaMalloc"; 40]].concat();
        assert_eq!(found(&emptied, 1, 40), None, "the cache is emptied once");
        assert_eq!(found(&["cudaMallocAsync", "cudaLaunchKernel", "cudaFree"], 30, 0), None, "a pool of the driver");
        assert_eq!(found(&["cudaHostAlloc", "cudaLaunchKernel", "cudaFree"], 30, 0), None, "memory of the host");
    }
}
