//! Count of out-of-memory events in all open files: several snapshots of one process hold the same event.

use std::collections::HashMap;

use super::{OpenTrace, OpenTraces};
use crate::model::TimeNs;
use crate::model::memory::MemorySource;

/// By how much the times may differ that two snapshots of one process give one event, in nanoseconds: the allocator
/// calibrates its clock anew for each.
const CALIBRATION_NS: u64 = 1_000_000;

/// Whether two times are of one event.
pub(super) fn is_one_time(a: TimeNs, b: TimeNs) -> bool {
    a.abs_diff(b) <= CALIBRATION_NS
}

impl OpenTraces {
    /// How often memory ran out: a failure that several snapshots of one process hold counts once.
    pub fn n_failures(&self) -> usize {
        self.n_failures
    }
}

/// The failed requests of all traces, each once. Requests of one process, device, size and free memory at one time are
/// one, unless one history holds them all. Cost: O(n log n) for n failures.
pub(super) fn count(traces: &[OpenTrace]) -> usize {
    let mut n_without_time = 0;
    // Of each kind of failure when it was, and in which history.
    let mut alike: HashMap<_, Vec<(TimeNs, usize)>> = HashMap::new();
    let histories = traces.iter().flat_map(|open| open.trace.memories.iter().map(move |history| (open, history)));
    for (at, (open, history)) in histories.enumerate() {
        let process = (history.pid, open.trace.info.rank, open.run, history.device);
        for oom in &history.ooms {
            let time = history.events.ts.get(oom.event as usize);
            match time.filter(|_| history.has_time && history.source == MemorySource::Snapshot) {
                Some(&ts) => alike
                    .entry((process, oom.requested, oom.device_free))
                    .or_default()
                    .push((ts.saturating_add(open.offset), at)),
                None => n_without_time += 1,
            }
        }
    }
    let n_with_time: usize = alike.into_values().map(distinct).sum();
    n_without_time + n_with_time
}

/// How many failures these times are, each with the history that holds it: of those at one time, as many as one history
/// holds.
fn distinct(mut all: Vec<(TimeNs, usize)>) -> usize {
    all.sort_unstable();
    let at_one_time = all.chunk_by(|a, b| is_one_time(a.0, b.0));
    let most_of_one = |together: &[(TimeNs, usize)]| {
        let mut of: HashMap<usize, usize> = HashMap::new();
        together.iter().for_each(|&(_, history)| *of.entry(history).or_default() += 1);
        of.into_values().max().unwrap_or_default()
    };
    at_one_time.map(most_of_one).sum()
}

#[cfg(test)]
mod tests {
    use crate::analysis::memory::fixture::Script;
    use crate::model::{StackId, TimeNs, Trace};
    use crate::session::Session;

    const MIB: u64 = 1 << 20;

    /// A history whose first block is this one of eight, and in which requests of these MiB failed at these times.
    fn failing(first: u64, rank: u32, requests: &[(u64, TimeNs)]) -> Trace {
        let mut script = Script::default();
        (first..8).for_each(|block| _ = script.alloc(block * MIB, MIB, StackId(0)));
        script.raw.events.ts.fill(0);
        for &(size, ts) in requests {
            script.oom(size * MIB, Some(MIB));
            *script.raw.events.ts.last_mut().unwrap() = ts;
        }
        script.builder.info.rank = Some(rank);
        script.builder.info.utc_offset_ns = Some(0);
        script.finish()
    }

    #[test]
    fn a_failure_in_two_snapshots_of_one_process_is_one() {
        let n = |traces| Session::of(traces).open.n_failures();
        let [at, later] = [(9, 1_000), (9, 5_000_000)];
        assert_eq!(n(vec![failing(0, 0, &[at])]), 1);
        assert_eq!(n(vec![failing(0, 0, &[at]), failing(0, 0, &[at])]), 1);
        // Calibrated anew, the clock of the later one differs, and it has forgotten how the other begins.
        assert_eq!(n(vec![failing(0, 0, &[at]), failing(3, 0, &[(9, 2_500), later])]), 2);
        assert_eq!(n(vec![failing(0, 0, &[at]), failing(0, 0, &[later])]), 2);
        assert_eq!(n(vec![failing(0, 0, &[at]), failing(0, 0, &[(5, 1_000)])]), 2);
        // Tried twice at once is twice; another rank is another process.
        assert_eq!(n(vec![failing(0, 0, &[at, at]), failing(0, 0, &[at])]), 2);
        assert_eq!(n(vec![failing(0, 0, &[at]), failing(0, 1, &[at])]), 2);
    }
}
