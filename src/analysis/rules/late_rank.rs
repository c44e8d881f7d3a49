//! Ranks that come late to collectives, for which the others wait.

use hashbrown::HashMap;

use super::collectives::SHORT;
use super::irregular::Part;
use super::{Check, Hit, Out, Rule, Thresholds, Verdicts, Window, hit};
use crate::analysis::breakdown::breakdown;
use crate::analysis::busy::DeviceBusy;
use crate::analysis::collectives::ranks::{Match, RankCalls, RankPart};
use crate::analysis::gaps::{GapClass, Ledger};
use crate::model::time::length_within;
use crate::model::{DurNs, TimeRange, Trace};

/// What of some communication is waiting for other ranks, in nanoseconds, without compute meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub ns: DurNs,
    /// Of that, in collectives before which nothing tells how far each rank was, see
    /// [`Match::is_first`](crate::analysis::collectives::ranks::Match).
    pub first_ns: DurNs,
    /// The rank that was waited for most, and how long.
    pub late: Option<(u32, DurNs)>,
    /// Ranks that were compared; 0 if none were.
    pub n_ranks: usize,
}

/// How a rank is late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateRank {
    /// Ranks that were compared, this one included.
    pub n_ranks: usize,
    /// In how many collectives it came last, and how many it shares with others.
    pub late: u64,
    pub calls: u64,
    /// What it spent more time on than the mean of the others before those, since all of them were equally far; the most
    /// first. Less time is negative. In nanoseconds, all together.
    pub longer: Vec<(Part, DurNs)>,
}

/// The answers about the trace of a rank.
#[derive(Clone, Copy, Debug)]
pub struct OfRank<'a> {
    pub trace: &'a Trace,
    pub busy: &'a [DeviceBusy],
    /// In the order of `busy`.
    pub ledgers: &'a [Ledger],
    pub verdicts: &'a Verdicts,
}

/// The verdicts of several ranks with what their collectives together tell: which ranks are late, and how much of the
/// communication of the others is waiting for them.
///
/// * Only waits in which the device computes nothing count, within the time that is judged. Collectives of 50 µs at most
///   are left to the rule about small ones.
/// * A ceiling is what the device would gain if the ranks with findings came with the last of the others. It is taken from
///   that of exposed communication, so that their sum is no more than the exposed time.
/// * Who is late is judged from the second collective of the same ranks on, see [`Match::is_first`].
/// * What a rank does longer than the others is compared in the time since all of them were equally far, see
///   [`RankPart::since`].
/// * Cost: O(parts + what the devices did between the collectives).
pub fn with_ranks(calls: &RankCalls, traces: &[OfRank<'_>], thresholds: &Thresholds) -> Vec<Verdicts> {
    let mut job = Job { calls, traces, waits: HashMap::new(), late: HashMap::new() };
    job.add_up();
    let all = traces.iter().map(|of| of.verdicts.clone()).collect();
    job.judge(all, thresholds)
}

/// Waits of a device, by the trace of the rank that came last.
#[derive(Default)]
struct Waits {
    by_late: HashMap<u32, DurNs>,
    /// The same without first collectives.
    judged: HashMap<u32, DurNs>,
    first_ns: DurNs,
    gain_ns: DurNs,
}

struct Job<'a> {
    calls: &'a RankCalls,
    traces: &'a [OfRank<'a>],
    /// By trace and index of the device in [`OfRank::busy`].
    waits: HashMap<(u32, usize), Waits>,
    /// Of each trace: the device with which it came last, and how often.
    late: HashMap<u32, (usize, u64)>,
}

impl<'a> Job<'a> {
    /// Index of the device of a part, with the window that is judged.
    fn device(&self, part: &RankPart) -> Option<(usize, &'a Window)> {
        let of = &self.traces[part.trace as usize];
        let process = of.trace.track(of.trace.slices.track_of(part.slice)).process;
        let at = of.busy.iter().position(|busy| busy.process == process)?;
        let device = Some(of.busy[at].device);
        let windows = &of.verdicts.windows;
        windows.iter().find(|window| window.device == device).map(|window| (at, window))
    }

    /// How long the device of a part waits without computing, in the judged time.
    fn exposed(&self, part: &RankPart) -> Option<((u32, usize), DurNs)> {
        if part.time.dur() <= SHORT {
            return None;
        }
        let (at, window) = self.device(part)?;
        let time = part.wait().intersect(window.time)?;
        let ns = length_within(&self.traces[part.trace as usize].busy[at].exposed_comm, time);
        (ns > 0).then_some(((part.trace, at), ns))
    }

    fn add_up(&mut self) {
        for of in &self.calls.matches {
            let late = self.calls.late(of);
            let mut is_late = false;
            for part in self.calls.parts_of(of) {
                if let Some((device, ns)) = self.exposed(part) {
                    let waits = self.waits.entry(device).or_default();
                    *waits.by_late.entry(late.trace).or_default() += ns;
                    if of.is_first {
                        waits.first_ns += ns;
                    } else {
                        *waits.judged.entry(late.trace).or_default() += ns;
                        is_late = true;
                    }
                }
            }
            if let Some((at, _)) = self.device(late).filter(|_| is_late) {
                self.late.entry(late.trace).or_insert((at, 0)).1 += 1;
            }
        }
    }

    fn judge(mut self, mut all: Vec<Verdicts>, thresholds: &Thresholds) -> Vec<Verdicts> {
        let mut found: Vec<(u32, Hit)> = self.late.iter().filter_map(|(&trace, &of)| self.hit(trace, of)).collect();
        found.sort_by_key(|(trace, _)| *trace);
        let is_found = |hit: &Hit| thresholds.late_rank.reached(hit.measured).is_some();
        let late: Vec<u32> = found.iter().filter(|(_, hit)| is_found(hit)).map(|(trace, _)| *trace).collect();
        self.add_gains(&late);
        for rank in &self.calls.ranks {
            self.add_waits(rank.trace, &mut all[rank.trace as usize]);
        }
        for (trace, found) in found {
            let most = self.most_gained(trace, &all);
            let verdicts = std::mem::take(&mut all[trace as usize]);
            let mut out = Out { thresholds, verdicts };
            let own =
                out.verdicts.checks.iter().position(|check| (check.rule, check.device) == (found.rule, found.device));
            let gain = own.map(|own| out.verdicts.checks.remove(own)).and_then(|check| check.ceiling_ns_per_step);
            let is_late = late.contains(&trace);
            let longer = if is_late { self.longer(trace) } else { (Vec::new(), None) };
            let kind = found.late.clone().map(|late| LateRank { longer: longer.0, ..late });
            out.check(Hit { ceiling_ns_per_step: most, late: kind, range: longer.1, ..found });
            if let Some(check) = out.verdicts.checks.last_mut() {
                check.ceiling_ns_per_step = gain;
            }
            out.verdicts.sort();
            all[trace as usize] = out.verdicts;
        }
        all
    }

    /// The most that a device of the ranks recorded with this one would gain: another waits, and so gains.
    fn most_gained(&self, trace: u32, all: &[Verdicts]) -> Option<DurNs> {
        let job = self.calls.rank_of(trace)?.job;
        let peers = self.calls.ranks.iter().filter(|rank| rank.job == job);
        let checks = peers.flat_map(|rank| &all[rank.trace as usize].checks);
        checks.filter(|check| check.rule == Rule::LateRank).filter_map(|check| check.ceiling_ns_per_step).max()
    }

    /// How long the others wait for a rank, by the time of them that is judged.
    fn hit(&self, trace: u32, (at, late): (usize, u64)) -> Option<(u32, Hit)> {
        let rank = self.calls.rank_of(trace)?;
        let others = self.calls.ranks.iter().filter(|other| other.job == rank.job && other.trace != trace);
        let (mut waits_ns, mut judged_ns, mut n) = (0, 0, 0);
        for other in others {
            for (at, busy) in self.traces[other.trace as usize].busy.iter().enumerate() {
                let windows = &self.traces[other.trace as usize].verdicts.windows;
                let Some(window) = windows.iter().find(|window| window.device == Some(busy.device)) else { continue };
                let waits = self.waits.get(&(other.trace, at)).and_then(|waits| waits.judged.get(&trace));
                waits_ns += waits.copied().unwrap_or_default();
                judged_ns += window.time.dur();
                n += 1;
            }
        }
        let of = &self.traces[trace as usize];
        let device = of.busy.get(at)?.device;
        let window = of.verdicts.windows.iter().find(|window| window.device == Some(device))?;
        let kind = LateRank { n_ranks: self.calls.n_ranks(rank.job), late, calls: rank.matched, longer: Vec::new() };
        let found = hit(Rule::LateRank, Some(device), waits_ns / n.max(1), judged_ns / n.max(1));
        Some((trace, Hit { count: late, n_steps: window.steps.len(), basis: window.basis, late: Some(kind), ..found }))
    }

    /// What each device gains if these ranks come with the last of the others; if all are of them, with the first.
    fn add_gains(&mut self, late: &[u32]) {
        let mut gains: Vec<((u32, usize), DurNs)> = Vec::new();
        for of in &self.calls.matches {
            if of.is_first || !late.contains(&self.calls.late(of).trace) {
                continue;
            }
            let parts = self.calls.parts_of(of);
            let others = parts.iter().filter(|part| !late.contains(&part.trace)).map(|part| part.wait_ns).min();
            let sooner = others.or_else(|| parts.iter().map(|part| part.wait_ns).max()).unwrap_or_default();
            gains.extend(
                parts.iter().filter_map(|part| self.exposed(part)).map(|(device, ns)| (device, ns.min(sooner))),
            );
        }
        for (device, ns) in gains {
            self.waits.entry(device).or_default().gain_ns += ns;
        }
    }

    /// Adds to the verdicts of a trace what its devices would gain, and how much of their communication is waiting.
    fn add_waits(&self, trace: u32, verdicts: &mut Verdicts) {
        let Some(rank) = self.calls.rank_of(trace) else { return };
        let n_ranks = self.calls.n_ranks(rank.job);
        let of = &self.traces[trace as usize];
        for (at, busy) in of.busy.iter().enumerate() {
            let device = Some(busy.device);
            let Some(window) = of.verdicts.windows.iter().find(|window| window.device == device) else { continue };
            let nothing = Waits::default();
            let waits = self.waits.get(&(trace, at)).unwrap_or(&nothing);
            let n_steps = window.steps.len() as DurNs;
            let gain = (n_steps > 0).then(|| waits.gain_ns / n_steps.max(1)).filter(|&ns| ns > 0);
            let most = waits.by_late.iter().max_by_key(|&(&late, &ns)| (ns, std::cmp::Reverse(late)));
            let late = most.and_then(|(&late, &ns)| Some((self.calls.rank_of(late)?.rank, ns)));
            let less = |ceiling: Option<DurNs>| ceiling.map(|ns| ns - gain.unwrap_or_default()).filter(|&ns| ns > 0);
            let is_own = |rule: Rule, of: Option<u32>| rule == Rule::ExposedCommunication && of == device;
            for check in verdicts.checks.iter_mut().filter(|check| is_own(check.rule, check.device)) {
                check.ceiling_ns_per_step = less(check.ceiling_ns_per_step);
            }
            for hit in verdicts.hits.iter_mut().filter(|hit| is_own(hit.rule, hit.device)) {
                hit.ceiling_ns_per_step = less(hit.ceiling_ns_per_step);
                let first_ns = waits.first_ns;
                hit.waiting = Waiting { ns: waits.by_late.values().sum(), first_ns, late, n_ranks };
                for part in self.calls.of_trace(trace).filter(|part| window.time.contains(part.time.start)) {
                    hit.transfers.add_matched(of.trace, part.slice, part.time.dur() - part.wait_ns);
                }
            }
            for makeup in verdicts.makeups.iter_mut().filter(|makeup| makeup.device == device) {
                makeup.waiting_ns = waits.by_late.values().sum();
            }
            verdicts.checks.push(Check { rule: Rule::LateRank, device, measured: 0.0, ceiling_ns_per_step: gain });
        }
    }

    /// What a rank spends more time on than the mean of the others before the collectives to which it comes last; and when
    /// it did so longest, in trace time.
    fn longer(&self, trace: u32) -> (Vec<(Part, DurNs)>, Option<TimeRange>) {
        let mut longer: HashMap<Part, DurNs> = HashMap::new();
        let mut longest: Option<(DurNs, TimeRange)> = None;
        let is_its = |of: &&Match| !of.is_first && self.calls.late(of).trace == trace;
        for of in self.calls.matches.iter().filter(is_its) {
            let parts = self.calls.parts_of(of);
            let waits = parts.iter().filter_map(|part| self.exposed(part)).map(|(_, ns)| ns).max().unwrap_or_default();
            let since = |part: &RankPart| part.since.map(|since| TimeRange { start: since, end: part.time.start });
            let times: Option<Vec<TimeRange>> = parts.iter().map(since).collect();
            let Some(times) = times.filter(|_| waits > 0) else { continue };
            let others = parts.len() as DurNs - 1;
            let mut sums: HashMap<Part, DurNs> = HashMap::new();
            for (part, time) in parts.iter().zip(&times) {
                let factor = if part.trace == trace { others } else { -1 };
                for (kind, ns) in self.spent(part, *time) {
                    *sums.entry(kind).or_default() += factor * ns;
                }
                if part.trace == trace && longest.is_none_or(|(ns, _)| waits > ns) {
                    longest = Some((waits, *time));
                }
            }
            for (kind, ns) in sums {
                *longer.entry(kind).or_default() += ns / others;
            }
        }
        let mut longer: Vec<(Part, DurNs)> = longer.into_iter().filter(|&(_, ns)| ns != 0).collect();
        longer.sort_by_key(|&(part, ns)| (std::cmp::Reverse(ns), part));
        (longer, longest.map(|longest| longest.1))
    }

    /// What the device of a part did in a time; the parts sum to it.
    fn spent(&self, part: &RankPart, time: TimeRange) -> Vec<(Part, DurNs)> {
        let Some((at, _)) = self.device(part) else { return vec![(Part::Idle(GapClass::Unknown), time.dur())] };
        let of = &self.traces[part.trace as usize];
        let parts = breakdown(&of.busy[at], time);
        let idle = of.ledgers.get(at).map(|ledger| ledger.totals(time));
        let in_gaps = idle.map_or(0, |idle| idle.all.total_ns);
        let by_class = idle.map(|idle| GapClass::ALL.map(|class| (class, idle.by_class[class as usize].total_ns)));
        let mut spent = vec![
            (Part::Compute, parts.compute_ns),
            (Part::Communication, parts.exposed_comm_ns),
            (Part::Copies, parts.exposed_copy_ns),
            (Part::NotBegun, parts.idle_ns - in_gaps),
        ];
        spent.extend(by_class.into_iter().flatten().map(|(class, ns)| (Part::Idle(class), ns)));
        spent
    }
}
