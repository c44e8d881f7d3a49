//! What late ranks spend more time on than the ranks that wait for them.

use hashbrown::HashMap;

use super::Job;
use crate::analysis::breakdown::breakdown;
use crate::analysis::collectives::ranks::RankPart;
use crate::analysis::gaps::GapClass;
use crate::analysis::rules::irregular::Part;
use crate::model::{DurNs, TimeRange};

/// What one rank spends more time on than the mean of the others.
#[derive(Debug, Default)]
pub(super) struct Longer {
    /// The most first, in nanoseconds; less time is negative.
    pub parts: Vec<(Part, DurNs)>,
    /// What it did before the collective in which it was waited for longest, in trace time.
    pub range: Option<TimeRange>,
}

/// Ranks that take part in the same collectives.
struct Peers {
    /// Of each, in the order of their traces: its part in the first of these collectives in the judged time, and the time
    /// since all of them were equally far before that until they were after the last.
    times: Vec<(RankPart, TimeRange)>,
    /// How long the others wait for each, by its trace, and what that did before the longest of these waits.
    waits: HashMap<u32, (DurNs, DurNs, TimeRange)>,
}

impl Peers {
    /// What each spent its time on, in the order of `times`.
    fn spent(&self, job: &Job<'_>) -> Vec<HashMap<Part, DurNs>> {
        self.times.iter().map(|(part, time)| job.spent(part, *time)).collect()
    }
}

impl Job<'_> {
    /// Of each of these ranks, by its trace.
    ///
    /// Between two collectives of the same ranks all of them do the same work, but not in the same order: a rank that
    /// waits may compute meanwhile what another computes before it comes. So it is all of that time that compares, from
    /// the first to the last of the collectives in which the rank is waited for longest. Cost: O(parts + what the devices
    /// did between the collectives), once for each set of ranks.
    pub(super) fn longer(&self, late: &[u32]) -> HashMap<u32, Longer> {
        let peers = self.peers();
        let most = |trace: u32| {
            let waits = |i: usize| peers[i].waits.get(&trace).map(|waits| waits.0);
            (0..peers.len()).rev().filter(|&i| waits(i).is_some()).max_by_key(|&i| waits(i))
        };
        let mut spent: HashMap<usize, Vec<HashMap<Part, DurNs>>> = HashMap::new();
        let mut of = |trace: u32| {
            let i = most(trace)?;
            let spent = spent.entry(i).or_insert_with(|| peers[i].spent(self));
            let own = peers[i].times.iter().position(|(part, _)| part.trace == trace)?;
            Some((trace, Longer { parts: longer(spent, own), range: Some(peers[i].waits.get(&trace)?.2) }))
        };
        late.iter().filter_map(|&trace| of(trace)).collect()
    }

    /// The sets of ranks that are known to have been equally far before a collective of the judged time, in the order of
    /// the first.
    fn peers(&self) -> Vec<Peers> {
        let mut peers: Vec<Peers> = Vec::new();
        let mut places: HashMap<Vec<u32>, usize> = HashMap::new();
        for of in self.calls.matches.iter().filter(|of| !of.is_first) {
            // Of collectives that run at once the first is the one that is waited for.
            let Some(ns) = self.exposed_of(of).flatten().map(|exposed| exposed.own_ns).max() else { continue };
            let parts = self.calls.parts_of(of);
            let since = |part: &RankPart| Some((*part, TimeRange { start: part.since?, end: part.time.end }));
            let Some(times) = parts.iter().map(since).collect::<Option<Vec<_>>>() else { continue };
            let place = *places.entry(parts.iter().map(|part| part.trace).collect()).or_insert_with(|| {
                peers.push(Peers { times: times.clone(), waits: HashMap::new() });
                peers.len() - 1
            });
            let Peers { times: all, waits } = &mut peers[place];
            for ((_, all), (_, time)) in all.iter_mut().zip(times) {
                *all = all.union(time);
            }
            let late = self.calls.late(of);
            let before = TimeRange { start: late.since.unwrap_or(late.time.start), end: late.time.start };
            let (sum, most, longest) = waits.entry(late.trace).or_insert((0, 0, before));
            *sum += ns;
            if ns > *most {
                (*most, *longest) = (ns, before);
            }
        }
        peers
    }

    /// What the device of a part did in a time; the parts sum to it.
    fn spent(&self, part: &RankPart, time: TimeRange) -> HashMap<Part, DurNs> {
        let Some((at, _)) = self.device(part) else {
            return HashMap::from([(Part::Idle(GapClass::Unknown), time.dur())]);
        };
        let of = &self.traces[part.trace as usize];
        let parts = breakdown(&of.busy[at], time);
        let idle = of.ledgers.get(at).map(|ledger| ledger.totals(time));
        let in_gaps = idle.map_or(0, |idle| idle.all.total_ns);
        let by_class = idle.map(|idle| GapClass::ALL.map(|class| (class, idle.by_class[class as usize].total_ns)));
        let mut spent = HashMap::from([
            (Part::Compute, parts.compute_ns),
            (Part::Communication, parts.exposed_comm_ns),
            (Part::Copies, parts.exposed_copy_ns),
            (Part::NotBegun, parts.idle_ns - in_gaps),
        ]);
        spent.extend(by_class.into_iter().flatten().map(|(class, ns)| (Part::Idle(class), ns)));
        spent
    }
}

/// By how much one of these spent more on each part than the mean of the others.
fn longer(spent: &[HashMap<Part, DurNs>], own: usize) -> Vec<(Part, DurNs)> {
    let n_others = (spent.len() as DurNs - 1).max(1);
    let mut sums: HashMap<Part, DurNs> = HashMap::new();
    for (i, parts) in spent.iter().enumerate() {
        let factor = if i == own { n_others } else { -1 };
        for (&part, ns) in parts {
            let sum = sums.entry(part).or_default();
            *sum = ns.saturating_mul(factor).saturating_add(*sum);
        }
    }
    let mut longer: Vec<(Part, DurNs)> = sums.into_iter().map(|(part, sum)| (part, sum / n_others)).collect();
    longer.retain(|&(_, ns)| ns != 0);
    longer.sort_by_key(|&(part, ns)| (std::cmp::Reverse(ns), part));
    longer
}
