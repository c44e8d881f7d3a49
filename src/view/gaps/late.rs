//! The rank for which a device waits in a gap: the one that comes last to the collectives that the host is in then.

use hashbrown::HashMap;

use crate::answers::ranks::CallsOfRanks;
use crate::answers::{Analysis, Work};
use crate::model::{DurNs, SliceId, TimeRange};
use crate::session::OpenTrace;

/// A gap waits for a rank if it does so for at least one in so many parts of it: a tenth.
const LEAST: DurNs = 10;

/// Looks for the late rank of a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateRankOf {
    /// Index of the trace.
    pub trace: usize,
    /// Of the gap, in the time of its trace.
    pub time: TimeRange,
}

/// The rank for which a gap waits longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateRank {
    /// Index of its trace.
    pub trace: usize,
    pub rank: u32,
    /// How much of the gap waits for it.
    pub wait_ns: DurNs,
    /// Its call of the collective for which the gap waits longest.
    pub call: SliceId,
}

impl Analysis for LateRankOf {
    type Of = [OpenTrace];
    /// `None` if the gap does not wait for another rank, as far as the open files tell.
    type Output = Option<LateRank>;
    const NAME: &'static str = "Looking for the late rank";

    /// Cost: O(collectives of the trace).
    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Option<LateRank>> {
        let calls = work.get(of, &CallsOfRanks)?;
        let mut by_rank: HashMap<u32, (DurNs, DurNs, SliceId)> = HashMap::new();
        for part in calls.of_trace(self.trace as u32) {
            let late = calls.late(&calls.matches[part.of as usize]);
            let wait = part.wait().intersect(self.time).map_or(0, |time| time.dur());
            if late.trace == part.trace || wait == 0 {
                continue;
            }
            let (sum, longest, call) = by_rank.entry(late.trace).or_insert((0, 0, late.slice));
            *sum += wait;
            if wait > *longest {
                (*longest, *call) = (wait, late.slice);
            }
        }
        let most = by_rank.into_iter().max_by_key(|&(trace, (sum, ..))| (sum, std::cmp::Reverse(trace)));
        Some(most.and_then(|(trace, (wait_ns, _, call))| {
            let rank = calls.rank_of(trace)?.rank;
            // Collectives of several groups may wait at the same time.
            let wait_ns = wait_ns.min(self.time.dur());
            (wait_ns * LEAST >= self.time.dur()).then_some(LateRank { trace: trace as usize, rank, wait_ns, call })
        }))
    }
}
