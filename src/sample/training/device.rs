//! The busy time of the simulated GPU: the exact union of the work on all streams, and the gaps in it.

use crate::sample::answer::{DeviceAnswer, PlantedGap};

/// Gaps from here on count as macro gaps, in ns.
const MACRO_GAP_NS: i64 = 30_000;

/// What the host does on purpose to starve the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    pub cause: &'static str,
    pub step: u32,
    pub start: i64,
    pub end: i64,
}

/// A kind of work on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Kernel,
    Memcpy,
    Memset,
    /// A CUDA graph, recorded as one piece.
    Graph,
}

/// One GPU: counts its work and merges its intervals as the trace is written.
#[derive(Debug, Default)]
pub struct Device {
    answer: DeviceAnswer,
    /// Work that is not merged yet, since earlier work may still be added.
    open: Vec<(i64, i64)>,
    /// The merged interval that may still grow.
    run: Option<(i64, i64)>,
    stalls: Vec<Stall>,
}

impl Device {
    /// Adds work in `start..end` ns.
    pub fn add(&mut self, work: Work, start: i64, end: i64) {
        match work {
            Work::Kernel => self.answer.kernels += 1,
            Work::Memcpy => self.answer.memcpys += 1,
            Work::Memset => self.answer.memsets += 1,
            Work::Graph => self.answer.graphs += 1,
        }
        self.open.push((start, end));
    }

    /// Notes a stall, so that the gap it makes gets its cause.
    pub fn stall(&mut self, stall: Stall) {
        self.stalls.push(stall);
    }

    /// Merges all work that starts before `until`. Work added later must not start before that.
    pub fn settle(&mut self, until: i64) {
        self.open.sort_unstable();
        let n_settled = self.open.partition_point(|&(start, _)| start < until);
        let settled: Vec<_> = self.open.drain(..n_settled).collect();
        for (start, end) in settled {
            match &mut self.run {
                Some((_, run_end)) if start <= *run_end => *run_end = (*run_end).max(end),
                run => {
                    let last = run.replace((start, end));
                    self.close(last, start);
                }
            }
        }
        let busy_until = self.run.map_or(i64::MIN, |run| run.1);
        self.stalls.retain(|stall| stall.end > busy_until);
    }

    /// Counts a finished busy run and the gap from its end to `next`.
    fn close(&mut self, run: Option<(i64, i64)>, next: i64) {
        let Some((start, end)) = run else {
            self.answer.window[0] = next;
            return;
        };
        self.answer.busy_ns += end - start;
        self.answer.gaps += 1;
        if next - end < MACRO_GAP_NS {
            return;
        }
        self.answer.macro_gaps += 1;
        let overlap = |stall: &Stall| stall.end.min(next) - stall.start.max(end);
        let worst = self.stalls.iter().max_by_key(|stall| overlap(stall)).filter(|stall| overlap(stall) > 0);
        if let Some(stall) = worst {
            let (cause, step) = (stall.cause, stall.step);
            self.answer.planted.push(PlantedGap { cause, step, start_ns: end, dur_ns: next - end });
        }
    }

    /// Merges what is left and returns the totals.
    pub fn finish(mut self) -> DeviceAnswer {
        self.settle(i64::MAX);
        if let Some((start, end)) = self.run {
            self.answer.busy_ns += end - start;
            self.answer.window[1] = end;
        }
        self.answer.window_ns = self.answer.window[1] - self.answer.window[0];
        self.answer.idle_ns = self.answer.window_ns - self.answer.busy_ns;
        self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn union_gaps_and_causes() {
        let mut device = Device::default();
        device.add(Work::Kernel, 100, 200);
        device.add(Work::Kernel, 150, 180); // inside
        device.add(Work::Memcpy, 200, 210); // touches
        device.stall(Stall { cause: "loader", step: 1, start: 190, end: 60_000 });
        device.settle(210);
        device.add(Work::Kernel, 60_010, 60_020);
        device.add(Work::Memset, 60_015, 60_030);
        let answer = device.finish();
        assert_eq!((answer.kernels, answer.memcpys, answer.memsets), (3, 1, 1));
        assert_eq!(answer.window, [100, 60_030]);
        assert_eq!((answer.busy_ns, answer.idle_ns), (110 + 20, 59_800));
        assert_eq!((answer.gaps, answer.macro_gaps), (1, 1));
        assert_eq!(answer.planted, [PlantedGap { cause: "loader", step: 1, start_ns: 210, dur_ns: 59_800 }]);
    }

    #[test]
    fn early_merging_does_not_change_totals() {
        let work = [(5, 9), (8, 30), (40, 41), (41, 50), (55, 56)];
        let total = |step: i64| {
            let mut device = Device::default();
            for (start, end) in work {
                device.settle(start - step);
                device.add(Work::Kernel, start, end);
            }
            device.finish()
        };
        assert_eq!(total(0), total(1_000));
        assert_eq!(total(0).busy_ns, 25 + 10 + 1);
    }
}
