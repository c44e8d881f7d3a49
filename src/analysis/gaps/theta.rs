//! The usual time between a launch and its start.

use super::work::{Calls, in_order};
use crate::model::{DurNs, ProcessId, TimeNs, Trace};

/// Bounds of the result in nanoseconds, and the result without samples.
const LEAST: DurNs = 1_000;
const MOST: DurNs = 30_000;

/// The longest usual time between work on a stream that is kept busy, in nanoseconds: the 95th percentile
/// (nearest rank) of the time between two successive pieces of work of a stream, where the second was launched
/// before the first ended. Between 1 and 30 µs; 30 µs, the threshold of HTA, if nothing was launched ahead.
///
/// Cost: O(n log k) for n slices in k rows of the device.
pub fn theta(trace: &Trace, process: ProcessId, calls: &Calls) -> DurNs {
    let slices = &trace.slices;
    // One count for each nanosecond, the last of all longer ones.
    let mut counts = vec![0_u64; MOST as usize + 1];
    // The last end on each stream.
    let mut ends: Vec<Option<TimeNs>> = vec![None; trace.tracks.len()];
    for work in in_order(trace, process) {
        let last = &mut ends[slices.track_of(work).0 as usize];
        let (start, end) = (slices.ts[work.idx()], slices.end[work.idx()]);
        if let Some(last) = last.filter(|&last| last < start)
            && let Some(call) = calls.of(trace, work)
            && slices.end[call.idx()] < last
        {
            counts[(start - last).min(MOST) as usize] += 1;
        }
        *last = Some(last.map_or(end, |last| last.max(end)));
    }
    let n: u64 = counts.iter().sum();
    let rank = (n * 95).div_ceil(100);
    let mut seen = 0;
    let reaches = |count: &u64| {
        seen += count;
        seen >= rank
    };
    let found = counts.iter().position(reaches).filter(|_| n > 0);
    found.map_or(MOST, |ns| ns as DurNs).clamp(LEAST, MOST)
}
