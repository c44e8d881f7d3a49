//! Ranks that come late to collectives, for which the others wait.

mod gains;
mod longer;

use hashbrown::HashMap;

use super::collectives::SHORT;
use super::irregular::Part;
use super::{Check, Hit, Once, Out, Rule, Thresholds, Verdicts, Window, hit, per_step};
use crate::analysis::busy::DeviceBusy;
use crate::analysis::collectives::host_backend;
use crate::analysis::collectives::ranks::{Match, RankCalls, RankPart};
use crate::analysis::gaps::{GapClass, Ledger};
use crate::analysis::steps::Steps;
use crate::model::time::length_within;
use crate::model::{DurNs, TimeNs, TimeRange, Trace};

/// Among fewer steps nothing shows that a rank is late in one of them only.
const MIN_STEPS: usize = 3;
/// Share of the waiting that the other steps have at most: a tenth.
const MOST_ELSEWHERE: DurNs = 10;

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
    /// In how many collectives of the judged time it came last while others waited, and how many of those it shares
    /// with others.
    pub late: u64,
    pub calls: u64,
    /// How long it waited itself in such collectives, in nanoseconds, and in how many of its steps.
    pub own: (DurNs, usize),
    /// What it spent more time on than the mean of the others, from the first to the last of the collectives in which they
    /// wait for it; the most first. Less time is negative. In nanoseconds, all together.
    pub longer: Vec<(Part, DurNs)>,
    /// Ranks that come late as well: the gain is of all of them coming sooner. By number.
    pub also_late: Vec<u32>,
}

/// The answers about the trace of a rank.
#[derive(Clone, Copy, Debug)]
pub struct OfRank<'a> {
    pub trace: &'a Trace,
    pub steps: Option<&'a Steps>,
    pub busy: &'a [DeviceBusy],
    /// In the order of `busy`.
    pub ledgers: &'a [Ledger],
    pub verdicts: &'a Verdicts,
}

/// The verdicts of several ranks with what their collectives together tell: which ranks are late, and how much of the
/// communication of the others is waiting for them.
///
/// * Only waits in which the device computes nothing count, within the time that is judged, and no time twice.
///   Collectives of 50 µs at most are left to the rule about small ones.
/// * A wait in a collective of the host counts where the device is idle because the host is in calls of collectives.
/// * A ceiling is what the device would gain at most if all ranks with findings came with the last of the others, see
///   `Held::reach`. How much shorter its waits are then is taken from that of exposed communication, and for
///   collectives of the host from that of idle time in calls of collectives.
/// * Who is late is judged from the second collective of the same ranks on, see [`Match::is_first`].
/// * What a rank does longer than the others is compared in all of the time in which they take part in the same
///   collectives.
/// * Cost: O(parts + what the devices did between the collectives).
pub fn with_ranks(calls: &RankCalls, traces: &[OfRank<'_>], thresholds: &Thresholds) -> Vec<Verdicts> {
    let mut job = Job { calls, traces, exposed: Vec::new(), waits: HashMap::new(), late: HashMap::new() };
    job.expose();
    job.add_up();
    let all = traces.iter().map(|of| of.verdicts.clone()).collect();
    job.judge(all, thresholds)
}

/// What runs the collectives in which a device waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    /// Its own kernels.
    Device,
    /// Threads of the host, while the device is idle.
    Host,
}

impl Side {
    const ALL: [Self; 2] = [Self::Device, Self::Host];

    fn of(trace: &Trace, part: &RankPart) -> Self {
        if host_backend(trace, part.slice).is_some() { Self::Host } else { Self::Device }
    }

    /// The rule about the time of which such waits are a part.
    fn rule(self) -> Rule {
        match self {
            Self::Device => Rule::ExposedCommunication,
            Self::Host => Rule::CollectiveCalls,
        }
    }
}

/// A device by its trace and its index in [`OfRank::busy`], and what runs its collectives.
type DeviceKey = (u32, usize, Side);

/// A part of a collective in the judged time, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Exposed {
    place: DeviceKey,
    /// How long it waits while its device computes nothing, without what is in a wait of this place that began before.
    own_ns: DurNs,
    held: Held,
}

/// What collectives that a rank is late to hold up, in nanoseconds; no time twice.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Waiting and transferring while the device computes nothing.
    exposed_ns: DurNs,
    /// Waiting, whether or not it computes meanwhile.
    wait_ns: DurNs,
}

impl Held {
    fn add(&mut self, other: Self) {
        self.exposed_ns += other.exposed_ns;
        self.wait_ns += other.wait_ns;
    }

    /// What the device is done sooner at most if the rank comes sooner. A collective ends sooner by no more than all
    /// waits up to it, also those beside which the device computes: that only delays the collectives that follow. And
    /// what it computes remains, but no transfer need: it may run beside compute where it begins sooner.
    fn reach(self) -> DurNs {
        self.exposed_ns.min(self.wait_ns)
    }
}

/// Waits of a device, by the trace of the rank that came last.
#[derive(Default)]
struct Waits {
    by_late: HashMap<u32, DurNs>,
    /// The same without first collectives.
    judged: HashMap<u32, DurNs>,
    first_ns: DurNs,
    /// How much shorter the waits are by each late rank that comes sooner, by its trace.
    shorter: HashMap<u32, DurNs>,
    /// What each rank holds up that comes last, by its trace; and as far as it comes sooner.
    held: HashMap<u32, Held>,
    sooner: HashMap<u32, Held>,
}

impl Waits {
    fn shorter_ns(&self) -> DurNs {
        self.shorter.values().sum()
    }

    /// What is gained by late ranks that come sooner.
    fn gain_ns(&self) -> DurNs {
        self.sooner.values().map(|held| held.reach()).sum()
    }
}

/// That a rank came last to collectives.
#[derive(Default)]
struct Last {
    /// Index of its device.
    at: usize,
    count: u64,
    /// How long all others waited for it, by its own judged steps.
    by_step: Vec<DurNs>,
}

impl Last {
    /// The step in which the others wait for nearly all of the time that they do, if there is one of several, and how
    /// long each does on average.
    fn once(&self, window: &Window, n_others: DurNs) -> Option<(usize, DurNs)> {
        let (step, &ns) = self.by_step.iter().enumerate().max_by_key(|step| step.1)?;
        let total: DurNs = self.by_step.iter().sum();
        let is_once = window.steps.len() >= MIN_STEPS && ns > 0 && MOST_ELSEWHERE * (total - ns) <= total;
        is_once.then(|| (step, ns / n_others.max(1)))
    }
}

struct Job<'a> {
    calls: &'a RankCalls,
    traces: &'a [OfRank<'a>],
    /// Of each part of [`RankCalls::parts`].
    exposed: Vec<Option<Exposed>>,
    waits: HashMap<DeviceKey, Waits>,
    /// Of each trace that came last.
    late: HashMap<u32, Last>,
}

impl<'a> Job<'a> {
    /// Index of the device of a part, with the window that is judged: of a collective of the host that with most work.
    fn device(&self, part: &RankPart) -> Option<(usize, &'a Window)> {
        let of = &self.traces[part.trace as usize];
        let window = |at: usize| of.verdicts.windows.iter().find(|window| window.device == Some(of.busy[at].device));
        let at = match Side::of(of.trace, part) {
            Side::Device => {
                let process = of.trace.track(of.trace.slices.track_of(part.slice)).process;
                of.busy.iter().position(|busy| busy.process == process)?
            }
            Side::Host => (0..of.busy.len())
                .filter(|&at| window(at).is_some())
                .max_by_key(|&at| (of.busy[at].busy_ns, std::cmp::Reverse(at)))?,
        };
        Some((at, window(at)?))
    }

    /// How long each part waits while its device computes nothing, in the judged time.
    fn expose(&mut self) {
        let parts = &self.calls.parts;
        self.exposed = vec![None; parts.len()];
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|&i| (parts[i].trace, parts[i].time.start, i));
        let mut until: HashMap<DeviceKey, [TimeNs; 2]> = HashMap::new();
        for i in order {
            let part = &parts[i];
            let Some((at, window)) = self.device(part).filter(|_| part.time.dur() > SHORT) else { continue };
            let of = &self.traces[part.trace as usize];
            let side = Side::of(of.trace, part);
            let Some(whole) = part.time.intersect(window.time) else { continue };
            let start = TimeRange { start: whole.start, end: whole.start };
            let wait = part.wait().intersect(window.time).unwrap_or(start);
            let exposed = |time: TimeRange| match side {
                Side::Device => length_within(&of.busy[at].exposed_comm, time),
                Side::Host => {
                    let idle = of.ledgers.get(at).map(|ledger| ledger.totals(time));
                    idle.map_or(0, |idle| idle.by_class[GapClass::Collective as usize].total_ns)
                }
            };
            let place = (part.trace, at, side);
            let until = until.entry(place).or_insert([whole.start; 2]);
            let mut own = |of: usize, time: TimeRange| {
                let own = TimeRange { start: time.start.max(until[of]).min(time.end), end: time.end };
                until[of] = time.end.max(until[of]);
                own
            };
            let (wait, whole) = (own(0, wait), own(1, whole));
            let held = Held { exposed_ns: exposed(whole), wait_ns: wait.dur() };
            self.exposed[i] = Some(Exposed { place, own_ns: exposed(wait), held });
        }
    }

    /// The parts of a match, each with what of it is exposed.
    fn exposed_of(&self, of: &Match) -> impl Iterator<Item = Option<Exposed>> {
        self.exposed[self.calls.places_of(of)].iter().copied()
    }

    fn add_up(&mut self) {
        for of in &self.calls.matches {
            let late = self.calls.late(of);
            let found: Vec<Exposed> = self.exposed_of(of).flatten().filter(|found| found.held.wait_ns > 0).collect();
            for &Exposed { place, own_ns, held } in &found {
                let waits = self.waits.entry(place).or_default();
                waits.held.entry(late.trace).or_default().add(held);
                *waits.by_late.entry(late.trace).or_default() += own_ns;
                if of.is_first {
                    waits.first_ns += own_ns;
                } else {
                    *waits.judged.entry(late.trace).or_default() += own_ns;
                }
            }
            if let Some((at, window)) = self.device(late).filter(|_| !of.is_first && !found.is_empty()) {
                let last = self.late.entry(late.trace).or_insert_with(|| Last { at, ..Last::default() });
                last.count += 1;
                let waits_ns = found.iter().map(|found| found.own_ns).sum();
                per_step::add(&mut last.by_step, window.piece_of(late.time), waits_ns);
            }
        }
    }

    fn judge(mut self, mut all: Vec<Verdicts>, thresholds: &Thresholds) -> Vec<Verdicts> {
        let mut found: Vec<(u32, Hit)> = self.late.iter().filter_map(|(&trace, last)| self.hit(trace, last)).collect();
        found.sort_by_key(|(trace, _)| *trace);
        let is_found = |hit: &Hit| thresholds.late_rank.reached(hit.measured).is_some();
        let late: Vec<u32> = found.iter().filter(|(_, hit)| is_found(hit)).map(|(trace, _)| *trace).collect();
        let is_once = |trace: u32| found.iter().any(|(other, hit)| *other == trace && hit.once.is_some());
        self.add_gains(&late, is_once);
        for rank in &self.calls.ranks {
            self.add_waits(rank.trace, &mut all[rank.trace as usize]);
        }
        self.limit(&mut all);
        let mut longer = self.longer(&late);
        for (trace, found) in found {
            let most = self.most_gained(trace, &all);
            let most = most.filter(|_| found.once.is_none());
            let also_late = self.others(trace, &late);
            let alone = (!also_late.is_empty()).then(|| self.alone(trace, &all)).filter(|&ns| Some(ns) < most);
            let verdicts = std::mem::take(&mut all[trace as usize]);
            let mut out = Out { thresholds, verdicts };
            let own =
                out.verdicts.checks.iter().position(|check| (check.rule, check.device) == (found.rule, found.device));
            let gain = own.map(|own| out.verdicts.checks.remove(own)).and_then(|check| check.ceiling_ns_per_step);
            let longer = longer.remove(&trace).unwrap_or_default();
            let kind = found.late.clone().map(|late| LateRank { longer: longer.parts, also_late, ..late });
            out.check(Hit {
                ceiling_ns_per_step: most,
                alone_ns_per_step: alone,
                late: kind,
                range: longer.range,
                ..found
            });
            if let Some(check) = out.verdicts.checks.last_mut() {
                check.ceiling_ns_per_step = gain;
            }
            out.verdicts.sort();
            all[trace as usize] = out.verdicts;
        }
        all
    }

    /// How long the others wait for a rank, by the time of them that is judged.
    fn hit(&self, trace: u32, last: &Last) -> Option<(u32, Hit)> {
        let (at, late) = (last.at, last.count);
        let rank = self.calls.rank_of(trace)?;
        let others = self.calls.ranks.iter().filter(|other| other.job == rank.job && other.trace != trace);
        let (mut waits_ns, mut judged_ns, mut n_steps, mut n) = (0, 0, 0, 0);
        for other in others {
            for (at, busy) in self.traces[other.trace as usize].busy.iter().enumerate() {
                let windows = &self.traces[other.trace as usize].verdicts.windows;
                let Some(window) = windows.iter().find(|window| window.device == Some(busy.device)) else { continue };
                let waits = Side::ALL.iter().filter_map(|&side| self.waits.get(&(other.trace, at, side)));
                waits_ns += waits.filter_map(|waits| waits.judged.get(&trace)).sum::<DurNs>();
                judged_ns += window.time.dur();
                n_steps += window.steps.len();
                n += 1;
            }
        }
        let of = &self.traces[trace as usize];
        let busy = of.busy.get(at)?;
        let device = busy.device;
        let window = of.verdicts.windows.iter().find(|window| window.device == Some(device))?;
        let is_judged =
            |part: &RankPart| self.device(part).is_some_and(|(_, window)| part.time.intersect(window.time).is_some());
        let its = self.calls.of_trace(trace).map(|part| &self.calls.matches[part.of as usize]);
        let is_compared = |of: &&Match| !of.is_first && self.calls.parts_of(of).iter().any(is_judged);
        let calls = its.filter(is_compared).count() as u64;
        let own_waits = Side::ALL.iter().filter_map(|&side| self.waits.get(&(trace, at, side)));
        let own = (own_waits.flat_map(|waits| waits.judged.values()).sum(), window.steps.len());
        let kind = LateRank { n_ranks: self.calls.n_ranks(rank.job), late, calls, own, ..LateRank::default() };
        let found = hit(Rule::LateRank, Some(device), waits_ns / n.max(1), judged_ns / n.max(1));
        // What the others wait is of their steps.
        let n_steps = n_steps / (n as usize).max(1);
        let once = last.once(window, n).zip(of.steps).map(|((step, ns), steps)| {
            let mut once = Once::default();
            (once.step, once.ns) = (steps.name_on(busy.process, window.steps[step].start), ns);
            once
        });
        Some((trace, Hit { count: late, n_steps, basis: window.basis, once, late: Some(kind), ..found }))
    }

    /// Adds to the verdicts of a trace what its devices would gain, and how much of their communication is waiting.
    fn add_waits(&self, trace: u32, verdicts: &mut Verdicts) {
        let Some(rank) = self.calls.rank_of(trace) else { return };
        let n_ranks = self.calls.n_ranks(rank.job);
        let of = &self.traces[trace as usize];
        for (at, busy) in of.busy.iter().enumerate() {
            let device = Some(busy.device);
            let Some(window) = of.verdicts.windows.iter().find(|window| window.device == device) else { continue };
            let n_steps = window.steps.len() as DurNs;
            let mut gain_ns = 0;
            for side in Side::ALL {
                let Some(waits) = self.waits.get(&(trace, at, side)) else { continue };
                gain_ns += waits.gain_ns();
                self.add_waits_of(side, waits, (device, window), verdicts);
            }
            let gain = (n_steps > 0).then(|| gain_ns / n_steps.max(1)).filter(|&ns| ns > 0);
            for makeup in verdicts.makeups.iter_mut().filter(|makeup| makeup.device == device) {
                makeup.late_ranks = self.late_ranks(trace, at);
            }
            for side in Side::ALL {
                let parts = || self.calls.of_trace(trace).filter(|part| Side::of(of.trace, part) == side);
                let is_compared = parts().next().is_some();
                let is_own = |hit: &&mut Hit| hit.device == device && hit.rule == side.rule() && is_compared;
                for hit in verdicts.hits.iter_mut().filter(is_own) {
                    hit.waiting.n_ranks = n_ranks;
                    let judged = parts().filter(|part| side == Side::Device && window.time.contains(part.time.start));
                    for part in judged {
                        hit.transfers.add_matched(of.trace, part.slice, part.time.dur() - part.wait_ns);
                    }
                }
            }
            verdicts.checks.push(Check {
                rule: Rule::LateRank,
                device,
                measured: 0.0,
                ceiling_ns_per_step: gain,
                ahead_ns: 0,
            });
        }
    }

    /// Adds the waits of a device in one sort of collectives to what its verdicts say of their time.
    fn add_waits_of(
        &self,
        side: Side,
        waits: &Waits,
        (device, window): (Option<u32>, &Window),
        verdicts: &mut Verdicts,
    ) {
        let n_steps = window.steps.len() as DurNs;
        // Waits in the first collective may be of recordings that began at different times: nothing is gained from
        // them.
        let other_ns = waits.shorter_ns() + waits.first_ns;
        let gain = if n_steps > 0 { other_ns / n_steps } else { 0 };
        let most = waits.by_late.iter().max_by_key(|&(&late, &ns)| (ns, std::cmp::Reverse(late)));
        let late = most.and_then(|(&late, &ns)| Some((self.calls.rank_of(late)?.rank, ns)));
        let less = |ceiling: Option<DurNs>| ceiling.map(|ns| ns - gain).filter(|&ns| ns > 0);
        let is_own = |rule: Rule, of: Option<u32>| rule == side.rule() && of == device;
        for check in verdicts.checks.iter_mut().filter(|check| is_own(check.rule, check.device)) {
            check.ceiling_ns_per_step = less(check.ceiling_ns_per_step);
        }
        let ns = waits.by_late.values().sum();
        for hit in verdicts.hits.iter_mut().filter(|hit| is_own(hit.rule, hit.device)) {
            hit.ceiling_ns_per_step = less(hit.ceiling_ns_per_step);
            hit.gain_ns = hit.gain_ns.map(|ns| ns - other_ns).filter(|&ns| ns > 0);
            hit.waiting = Waiting { ns, first_ns: waits.first_ns, late, n_ranks: 0 };
        }
        for makeup in verdicts.makeups.iter_mut().filter(|makeup| makeup.device == device) {
            match side {
                Side::Device => makeup.waiting_ns = ns,
                Side::Host => makeup.idle_waiting_ns = ns,
            }
        }
    }
}
