//! How long each rank waited, and was waited for.

use super::{RankCalls, RankPart};
use crate::model::{DurNs, TimeNs, TimeRange};

/// The time of the matched collectives of one rank, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankTotals {
    /// How often it came last.
    pub late: u64,
    /// How long the others together waited for it.
    pub waited_for_ns: DurNs,
    /// How long it waited, and the rest of the time of its kernels.
    pub wait_ns: DurNs,
    pub transfer_ns: DurNs,
    /// What the waits of its collectives sum to beyond `wait_ns`, since some were at the same time.
    pub at_once_ns: DurNs,
}

impl RankCalls {
    /// The totals of each of `ranks`. All waits sum to how long ranks were waited for. Time counts once where several
    /// collectives of a rank run at once, for the first that waits. Cost: O(parts · log parts).
    ///
    /// * `counts`: of a rank's time its own parts that count, and of what others waited for it the calls of which the
    ///   part of the rank that came last counts.
    pub fn totals(&self, counts: impl Fn(&RankPart) -> bool) -> Vec<RankTotals> {
        let mut all = vec![RankTotals::default(); self.ranks.len()];
        let place = |trace: u32| self.ranks.binary_search_by_key(&trace, |rank| rank.trace).ok();
        let mut order: Vec<&RankPart> = self.parts.iter().collect();
        order.sort_by_key(|part| (part.trace, part.time.start, part.of));
        // Of the rank: until when it waited, and was in collectives.
        let (mut rank, mut waited, mut until) = (None, TimeNs::MIN, TimeNs::MIN);
        for part in order {
            let Some(own) = place(part.trace) else { continue };
            if rank.replace(own) != Some(own) {
                (waited, until) = (TimeNs::MIN, TimeNs::MIN);
            }
            let rest = |time: TimeRange, until: &mut TimeNs| {
                let ns = (time.end - time.start.max(*until)).max(0);
                *until = time.end.max(*until);
                ns
            };
            let wait_ns = rest(part.wait(), &mut waited);
            let transfer_ns = rest(part.time, &mut until) - wait_ns;
            if counts(part) {
                all[own].wait_ns += wait_ns;
                all[own].at_once_ns = all[own].at_once_ns.saturating_add(part.wait_ns - wait_ns);
                all[own].transfer_ns += transfer_ns;
            }
            let late = self.late(&self.matches[part.of as usize]);
            if let Some(late) = place(late.trace).filter(|_| wait_ns > 0 && counts(late)) {
                all[late].waited_for_ns += wait_ns;
            }
        }
        for of in &self.matches {
            let is_waited_for = self.parts_of(of).iter().any(|part| part.wait_ns > 0);
            let late = self.late(of);
            if let Some(late) = place(late.trace).filter(|_| is_waited_for && counts(late)) {
                all[late].late += 1;
            }
        }
        all
    }
}
