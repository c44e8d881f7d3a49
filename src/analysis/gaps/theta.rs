//! Usual times between work that follows work, and between a launch and its start.

use std::cell::Cell;

use super::waits::Waits;
use super::work::in_order;
use crate::model::{DurNs, ProcessId, SliceId, TimeNs, Trace};

/// Bounds of the results in nanoseconds, and the results without samples.
const LEAST: DurNs = 1_000;
const MOST: DurNs = 30_000;
/// The lower bound of [`Usual::delay`], in nanoseconds.
const LEAST_DELAY: DurNs = 5_000;

/// What is usual on a device, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usual {
    /// The longest usual time between work on a stream that is kept busy: the 95th percentile (nearest rank) of
    /// the time between two successive pieces of work of a stream, where the second was launched before the
    /// first ended, and no wait of a stream for another was called between their launches. Between 1 and 30 µs;
    /// 30 µs, the threshold of HTA, if nothing was launched ahead.
    ///
    /// Real traces: 1.2 to 3.8 µs on NVIDIA, where work of a stream is never closer than 0.5 µs; 1 µs, the lower
    /// bound, on AMD, where it follows without space; more than 30 µs if work is missing from the recording.
    pub theta: DurNs,
    /// The longest usual time from the start of a launch to that of its work on an idle device: the 95th
    /// percentile of that time for work launched while nothing ran. Between theta and 30 µs.
    ///
    /// Theta does not measure it: real traces have 10 to 27 µs, most of it inside the call, so that with theta
    /// for a threshold nearly every launch on an idle device would look unexplained.
    pub latency: DurNs,
    /// The longest usual time from the return of a launch to the start of its work on an idle device: three times
    /// the median of that time for work launched while nothing ran. Between 5 and 30 µs.
    ///
    /// A percentile would make that share of ordinary launches unusual, and long waits in queues move it; they do
    /// not move the median until they are half of all. Real traces have a median of 0 to 3 µs on NVIDIA, 5 to 9 µs
    /// on AMD, and 99 % of launches within 5 µs or 2.1 times the median.
    pub delay: DurNs,
}

/// How long times are, in nanoseconds: one count for each length up to the longest, that of [`MOST`] of all longer
/// ones.
#[derive(Default)]
struct Lengths(Vec<u64>);

impl Lengths {
    fn add(&mut self, length: DurNs) {
        let length = length.clamp(0, MOST) as usize;
        if self.0.len() <= length {
            self.0.resize(length + 1, 0);
        }
        self.0[length] += 1;
    }

    /// A percentile (nearest rank) of at least [`LEAST`]; [`MOST`] without lengths.
    fn percentile(&self, percent: u64) -> DurNs {
        let n: u64 = self.0.iter().sum();
        let rank = (n * percent).div_ceil(100);
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= rank
        };
        let found = self.0.iter().position(reaches).filter(|_| n > 0);
        found.map_or(MOST, |ns| ns as DurNs).max(LEAST)
    }
}

/// Cost: O(n log k) for n slices in k rows of the device.
pub fn usual(trace: &Trace, process: ProcessId, waits: &Waits) -> Usual {
    let slices = &trace.slices;
    let [mut follows, mut launches, mut delays] = <[Lengths; 3]>::default();
    // The last end on each stream with the call that launched the last work, and the last end on all.
    let streams = trace.tracks_of(process);
    let first = streams.clone().next().unwrap_or_default();
    let mut ends: Vec<Option<(TimeNs, Option<SliceId>)>> = vec![None; streams.count()];
    let mut reach = TimeNs::MAX;
    let near = Cell::default();
    for (work, stream) in in_order(trace, process) {
        let last = &mut ends[(stream.0 - first.0) as usize];
        let (start, end) = (slices.ts[work.idx()], slices.end[work.idx()]);
        let own = trace.launch_of(work);
        if let Some(id) = own {
            let call = slices.time(id);
            if let Some((last, before)) = last.filter(|&(last, _)| last < start && call.end < last)
                && before.is_none_or(|before| !waits.is_called_between(trace, before, id, &near))
            {
                follows.add(start - last);
            }
            if reach < call.start {
                launches.add(start - call.start);
                delays.add(start - call.end);
            }
        }
        *last = Some((last.map_or(end, |(last, _)| last.max(end)), own));
        reach = if reach == TimeNs::MAX { end } else { reach.max(end) };
    }
    let theta = follows.percentile(95);
    let delay = (3 * delays.percentile(50)).clamp(LEAST_DELAY, MOST);
    Usual { theta, latency: launches.percentile(95).max(theta), delay }
}
