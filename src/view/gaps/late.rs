//! The late rank of a gap: the last one to join the collectives that explain it.

use hashbrown::HashMap;

use crate::analysis::gaps::{GapClass, GapPart};
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
    /// The parts of it in which the host is in a call of a collective, each with that: other threads may be in other
    /// calls then, for which the device does not wait.
    pub calls: Vec<(TimeRange, SliceId)>,
}

impl LateRankOf {
    /// * `parts`: of the gap.
    pub fn new(trace: usize, time: TimeRange, parts: &[GapPart]) -> Self {
        let of_collectives = parts.iter().filter(|part| part.class == GapClass::Collective);
        Self { trace, time, calls: of_collectives.filter_map(|part| Some((part.time, part.slice?))).collect() }
    }
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

    /// Cost: O(collectives of the trace · calls).
    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Option<LateRank>> {
        let calls = work.get(of, &CallsOfRanks)?;
        let slices = &of.get(self.trace)?.trace.slices;
        let mut by_rank: HashMap<u32, (DurNs, DurNs, SliceId)> = HashMap::new();
        for part in calls.of_trace(self.trace as u32) {
            let late = calls.late(&calls.matches[part.of as usize]);
            // The call of a thread may be a part of what explains the gap, or around it.
            let thread = slices.track_of(part.slice);
            let own = self.calls.iter().filter(|(_, call)| slices.track_of(*call) == thread);
            let wait = own.filter_map(|(time, _)| part.wait().intersect(*time)).map(TimeRange::dur).sum();
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
            (wait_ns * LEAST >= self.time.dur()).then_some(LateRank { trace: trace as usize, rank, wait_ns, call })
        }))
    }
}
