//! What the ranks of a job gain if some of them come sooner, or if a cause ends on one or on all of them.

use hashbrown::HashMap;

use super::{DeviceKey, Exposed, Held, Job, Side};
use crate::analysis::collectives::ranks::RankOf;
use crate::analysis::rules::{Rule, Verdicts, Window};
use crate::model::DurNs;

impl Exposed {
    /// How much shorter it waits, and what it is held up less by, if the last rank comes so much sooner.
    fn gain(self, sooner: DurNs) -> (DurNs, Held) {
        (self.own_ns.min(sooner), Held { wait_ns: self.held.wait_ns.min(sooner), ..self.held })
    }
}

impl Job<'_> {
    /// What each device gains if these ranks come with the last of the others; if all are of them, with the first.
    ///
    /// * `is_once`: those that are late in one step: nothing is gained in each step then, and no more is by overlap.
    pub(super) fn add_gains(&mut self, late: &[u32], is_once: impl Fn(u32) -> bool) {
        let mut gains: Vec<((DeviceKey, u32), (DurNs, Held))> = Vec::new();
        for of in &self.calls.matches {
            let last = self.calls.late(of).trace;
            if of.is_first || !late.contains(&last) {
                continue;
            }
            let parts = self.calls.parts_of(of);
            let others = parts.iter().filter(|part| !late.contains(&part.trace)).map(|part| part.wait_ns).min();
            let sooner = others.or_else(|| parts.iter().map(|part| part.wait_ns).max()).unwrap_or_default();
            let gain = |of: Exposed| ((of.place, last), of.gain(sooner));
            gains.extend(self.exposed_of(of).flatten().map(gain));
        }
        for ((place, last), (shorter, sooner)) in gains {
            let waits = self.waits.entry(place).or_default();
            *waits.shorter.entry(last).or_default() += shorter;
            if !is_once(last) {
                waits.sooner.entry(last).or_default().add(sooner);
            }
        }
    }

    /// Bounds what ending a cause gains a rank by what it gains the job: each rank keeps all of its step but its own
    /// time of that cause, and its waiting for others. If the cause ends on one rank alone, the others gain no more
    /// than they wait for that. Only where all collectives were compared: else a rank may wait for others in some that
    /// were not.
    pub(super) fn limit(&self, all: &mut [Verdicts]) {
        let mut jobs: Vec<u32> = self.calls.ranks.iter().map(|rank| rank.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        // The waits are already part of communication.
        let is_own = |rule: Rule| {
            !matches!(
                rule,
                Rule::LateRank | Rule::ExposedCommunication | Rule::CollectiveCalls | Rule::SmallCollectives
            )
        };
        for job in jobs {
            let ranks: Vec<u32> =
                self.calls.ranks.iter().filter(|rank| rank.job == job).map(|rank| rank.trace).collect();
            let is_known =
                |rank: &RankOf| rank.job != job || rank.matched > 0 && rank.unmatched + rank.point_to_point == 0;
            if !self.calls.ranks.iter().all(is_known) {
                continue;
            }
            let waits: Vec<(u32, HashMap<u32, DurNs>)> =
                ranks.iter().filter_map(|&rank| Some((rank, self.waits_by_late(rank, &all[rank as usize])?))).collect();
            let alone = |rank: u32| {
                let others = waits.iter().filter(|(other, _)| *other != rank);
                others.map(|(_, waits)| waits.get(&rank).copied().unwrap_or_default()).min()
            };
            let alone: Vec<Option<DurNs>> = ranks.iter().map(|&rank| alone(rank)).collect();
            for rule in Rule::ALL.into_iter().filter(|&rule| is_own(rule)) {
                let gains = ranks.iter().filter_map(|&rank| self.gain_with_others(rank, rule, &all[rank as usize]));
                let Some(most) = gains.min() else { continue };
                for (&rank, alone) in ranks.iter().zip(&alone) {
                    let Verdicts { hits, checks, .. } = &mut all[rank as usize];
                    for check in checks.iter_mut().filter(|check| check.rule == rule) {
                        check.ceiling_ns_per_step = check.ceiling_ns_per_step.map(|ns| ns.min(most));
                    }
                    for hit in hits.iter_mut().filter(|hit| hit.rule == rule) {
                        hit.ceiling_ns_per_step = hit.ceiling_ns_per_step.map(|ns| ns.min(most));
                        hit.alone_ns_per_step = alone.filter(|&ns| hit.ceiling_ns_per_step.is_some_and(|all| ns < all));
                    }
                }
            }
        }
    }

    /// What a rank would gain per step at most if a cause ended on all ranks: its own time of that, and its waiting; of
    /// several devices the most. `None` without steps.
    fn gain_with_others(&self, trace: u32, rule: Rule, verdicts: &Verdicts) -> Option<DurNs> {
        let own = |device: Option<u32>| {
            let check = verdicts.checks.iter().find(|check| (check.rule, check.device) == (rule, device));
            check.and_then(|check| check.ceiling_ns_per_step).unwrap_or_default()
        };
        let gain = |(at, window): (usize, &Window)| {
            let n_steps = Some(window.steps.len() as DurNs).filter(|&n| n > 0)?;
            Some(own(window.device) + self.reach_of(trace, at).map(|(_, ns)| ns).sum::<DurNs>() / n_steps)
        };
        self.judged_devices(trace, verdicts).filter_map(gain).max()
    }

    /// What each other rank holds up a rank by at most, per step; of several devices the most. `None` without steps.
    fn waits_by_late(&self, trace: u32, verdicts: &Verdicts) -> Option<HashMap<u32, DurNs>> {
        let mut most: Option<HashMap<u32, DurNs>> = None;
        for (at, window) in self.judged_devices(trace, verdicts) {
            let n_steps = window.steps.len() as DurNs;
            if n_steps == 0 {
                continue;
            }
            let mut own: HashMap<u32, DurNs> = HashMap::new();
            self.reach_of(trace, at).for_each(|(late, ns)| *own.entry(late).or_default() += ns);
            let most = most.get_or_insert_default();
            for (late, ns) in own {
                let known = most.entry(late).or_default();
                *known = (*known).max(ns / n_steps);
            }
        }
        most
    }

    /// See [`Held::reach`], by the trace of the rank that came last, of both sides.
    fn reach_of(&self, trace: u32, at: usize) -> impl Iterator<Item = (u32, DurNs)> {
        let sides = Side::ALL.iter().filter_map(move |&side| self.waits.get(&(trace, at, side)));
        sides.flat_map(|waits| waits.held.iter().map(|(&late, held)| (late, held.reach())))
    }

    /// The devices of a trace that were judged, by their index in [`OfRank::busy`].
    fn judged_devices<'b>(&self, trace: u32, verdicts: &'b Verdicts) -> impl Iterator<Item = (usize, &'b Window)> {
        let busy = self.traces[trace as usize].busy;
        verdicts
            .windows
            .iter()
            .filter_map(move |window| Some((busy.iter().position(|busy| Some(busy.device) == window.device)?, window)))
    }

    /// The most that a device of the ranks recorded with this one would gain: another waits, and so gains.
    pub(super) fn most_gained(&self, trace: u32, all: &[Verdicts]) -> Option<DurNs> {
        let job = self.calls.rank_of(trace)?.job;
        let peers = self.calls.ranks.iter().filter(|rank| rank.job == job);
        let checks = peers.flat_map(|rank| &all[rank.trace as usize].checks);
        checks.filter(|check| check.rule == Rule::LateRank).filter_map(|check| check.ceiling_ns_per_step).max()
    }

    /// The most that a device of the others would gain per step if this rank alone came with the last of them.
    pub(super) fn alone(&self, trace: u32, all: &[Verdicts]) -> DurNs {
        let mut gains: HashMap<(u32, usize), Held> = HashMap::new();
        for of in self.calls.matches.iter().filter(|of| !of.is_first && self.calls.late(of).trace == trace) {
            let others = self.calls.parts_of(of).iter().filter(|part| part.trace != trace);
            let sooner = others.map(|part| part.wait_ns).min().unwrap_or_default();
            for exposed in self.exposed_of(of).flatten() {
                let (of, at, _) = exposed.place;
                gains.entry((of, at)).or_default().add(exposed.gain(sooner).1);
            }
        }
        let per_step = |((of, at), held): ((u32, usize), Held)| {
            let n_steps =
                self.judged_devices(of, &all[of as usize]).find(|device| device.0 == at)?.1.steps.len() as DurNs;
            (n_steps > 0).then(|| held.reach() / n_steps)
        };
        gains.into_iter().filter_map(per_step).max().unwrap_or_default()
    }

    /// The numbers of the other late ranks of the same job.
    pub(super) fn others(&self, trace: u32, late: &[u32]) -> Vec<u32> {
        let Some(job) = self.calls.rank_of(trace).map(|rank| rank.job) else { return Vec::new() };
        let others = late.iter().filter(|&&other| other != trace).filter_map(|&other| self.calls.rank_of(other));
        let mut ranks: Vec<u32> = others.filter(|rank| rank.job == job).map(|rank| rank.rank).collect();
        ranks.sort_unstable();
        ranks
    }

    /// The late ranks whose coming sooner gains a device anything, the most first.
    pub(super) fn late_ranks(&self, trace: u32, at: usize) -> Vec<u32> {
        let mut of_ranks: HashMap<u32, DurNs> = HashMap::new();
        let gains = Side::ALL.iter().filter_map(|&side| self.waits.get(&(trace, at, side))).flat_map(|one| &one.sooner);
        for (&late, ns) in gains.map(|(late, held)| (late, held.reach())).filter(|gain| gain.1 > 0) {
            if let Some(of) = self.calls.rank_of(late) {
                *of_ranks.entry(of.rank).or_default() += ns;
            }
        }
        let mut ranks: Vec<(u32, DurNs)> = of_ranks.into_iter().collect();
        ranks.sort_unstable_by_key(|&(rank, ns)| (std::cmp::Reverse(ns), rank));
        ranks.into_iter().map(|(rank, _)| rank).collect()
    }
}
