//! Selection of the driver's readings that belong to the memory of a process.

use super::{OpenMemory, OpenTrace};
use crate::analysis::clock::ClockSource;
use crate::analysis::memory::outside::{Outside, OutsideVerdict, outside};
use crate::model::{Counter, CounterUnit, Format, TimeNs};

/// Names of the counter in logs of `lacuna monitor` and the like, and of nvidia-smi.
const USED: [&str; 2] = ["Memory used", "memory.used"];

impl OpenMemory {
    /// What the memory of its GPU does outside PyTorch, by logs of the driver that are open beside it. Of several logs,
    /// the one with the most readings.
    ///
    /// A process numbers the GPUs that it may use, the driver all of them: where the log has a single GPU, it is that.
    /// `None` without such a log, where the log or the memory has no times in UTC, or where processes of several ranks
    /// have the GPU.
    pub fn outside(&self, traces: &[OpenTrace]) -> Option<Outside> {
        if self.open.source != ClockSource::Utc {
            return None;
        }
        let logs = traces.iter().filter(|log| log.trace.info.format == Format::GpuMetrics);
        let of_log = |log: &OpenTrace| {
            let counter = self.counter_in(log, traces)?;
            let shift = log.offset.saturating_sub(self.open.offset);
            let is_one_run = log.run == self.open.run && log.source == ClockSource::Utc;
            // Times of other runs stand on other clocks.
            let pairs = counter.ts.iter().zip(&counter.value).filter(|_| is_one_run);
            let readings: Vec<(TimeNs, f64)> = pairs.map(|(&ts, &value)| (ts.saturating_add(shift), value)).collect();
            outside(self.history(), &readings)
        };
        logs.filter_map(of_log).max_by_key(|found| (found.verdict != OutsideVerdict::NoOverlap, found.readings))
    }

    /// The counter of used memory of its GPU.
    fn counter_in<'a>(&self, log: &'a OpenTrace, traces: &[OpenTrace]) -> Option<&'a Counter> {
        let trace = &log.trace;
        let track = |counter: &Counter| &trace.tracks[counter.track.0 as usize];
        let is_used =
            |counter: &&Counter| counter.unit == CounterUnit::Bytes && USED.contains(&track(counter).name.as_str());
        let all: Vec<&Counter> = trace.counters.iter().filter(is_used).collect();
        let device = self.history().device;
        let index = |counter: &Counter| gpu(&trace.processes[track(counter).process.0 as usize].name);
        let (found, is_shared) = match all[..] {
            [one] if device >= 0 => (one, true),
            _ => (*all.iter().find(|counter| index(counter) == Some(device))?, false),
        };
        let rank = self.trace().info.rank;
        let is_other = |open: &&OpenTrace| open.run == self.open.run && open.trace.info.rank != rank;
        let has_gpu = |open: &OpenTrace| {
            open.trace.memories.iter().any(|memory| memory.device >= 0 && (is_shared || memory.device == device))
        };
        (!traces.iter().filter(is_other).any(has_gpu)).then_some(found)
    }
}

/// The number in `GPU 1: NVIDIA H100`.
fn gpu(process: &str) -> Option<i32> {
    let rest = process.strip_prefix("GPU ")?;
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}
