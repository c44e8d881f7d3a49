//! Findings about time: rules over measured answers, each with a threshold.
//!
//! * Exposed time counts, never how long a loader, a collective or a synchronization took: what the device did
//!   meanwhile costs nothing.
//! * A gap belongs to what made the device wait, not to what the host happened to run in it; see [`Cause::of`].
//! * A rule without a measurement finds nothing, and says so in [`Verdicts::checks`].

mod account;
mod ahead;
mod attention;
mod by_device;
mod cause;
mod collectives;
mod copies;
mod exposed;
mod hit;
mod host;
mod irregular;
mod joined;
mod kernel_kind;
mod kernels;
mod late_rank;
mod makeup;
mod missing;
mod most_in;
mod new_shapes;
mod once;
mod per_step;
mod reach;
mod recording;
mod recurring;
mod reserved;
mod room;
mod rule;
mod run_facts;
mod sites;
mod thresholds;
mod uncached;
mod window;

pub use self::account::Shares;
use self::account::{Account, Books, accounts};
use self::ahead::add_ahead;
pub use self::attention::StepwiseAttention;
pub use self::by_device::OfDevice;
use self::cause::is_between;
pub use self::cause::{Cause, main_cause};
pub use self::collectives::{SmallCollectives, Transfers};
use self::hit::hit;
#[cfg(test)]
pub use self::hit::hit as hit_of;
pub use self::hit::{Check, Hit};
pub use self::host::{HostTime, LongestStep, OnCpus, SelfTimes};
pub use self::irregular::{Groups, Irregular, Lengths, Part, Trend};
pub use self::joined::Joined;
pub use self::kernel_kind::KernelKind;
pub use self::kernels::{Dominant, ExposedKernels, KernelStats, MatmulTime, is_fp32_matmul};
pub use self::late_rank::{LateRank, OfRank, Waiting, with_ranks};
pub use self::makeup::{Bound, Makeup};
pub use self::missing::{Missing, NoWork};
pub use self::most_in::MostIn;
pub use self::new_shapes::NewShapes;
pub use self::once::{Also, Once};
use self::per_step::PerStep;
pub use self::reach::Reach;
use self::reach::reach;
pub use self::recording::RecordingCost;
pub use self::recurring::Recurring;
pub use self::rule::Rule;
pub use self::run_facts::{RunFacts, Vendor, is_generated};
pub use self::sites::CallSite;
pub use self::thresholds::{Kind, Level, Levels, Threshold, Thresholds};
pub use self::uncached::Uncached;
pub use self::window::{Basis, Window, same_steps};
use super::breakdown::{Breakdown, Overlap, breakdown, overlap};
use super::busy::DeviceBusy;
use super::gaps::clusters::Clusters;
use super::gaps::recorder::{self, Recorder, Taken, Unrecorded};
use super::gaps::{GapPart, Ledger};
use super::median;
use super::phases::{Phase, Phases};
use super::steps::{Steps, has_several_callers, launchers_on};
use crate::model::{DurNs, Severity, TimeRange, Trace};

/// Fewer small collectives a step, or without steps in all, are not called many.
const MIN_COLLECTIVES: u64 = 20;

/// The result of all rules on a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// Worst first, then by time.
    pub hits: Vec<Hit>,
    /// Every rule with a measurement.
    pub checks: Vec<Check>,
    /// The time that was judged, one for each device that was; for the host if there is no device.
    pub windows: Vec<Window>,
    /// What that time went into, one for each device that was judged.
    pub makeups: Vec<Makeup>,
    /// The same of the host, if there is no device.
    pub host: Option<HostTime>,
    /// The longest judged step of the host, if it is irregular and there is no device.
    pub longest_step: Option<LongestStep>,
    /// What took the time of its threads, if there is no device.
    pub self_times: Option<SelfTimes>,
    /// When they were on CPUs, if nothing else was recorded.
    pub on_cpus: Option<OnCpus>,
    /// Devices that were not judged, since the causes of their gaps were not looked for; see [`Ledger::is_untold`].
    pub n_untold: usize,
    /// Busy time of devices that were not judged since they have too little work, in nanoseconds.
    pub too_little_ns: DurNs,
    pub run: RunFacts,
}

/// The answers that the rules measure.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    pub trace: &'a Trace,
    pub steps: Option<&'a Steps>,
    pub busy: &'a [DeviceBusy],
    /// In the order of `busy`, as are the clusters.
    pub ledgers: &'a [Ledger],
    pub clusters: &'a [Clusters],
    pub phases: &'a Phases,
    /// Only this time, in trace time; `None` for all.
    pub range: Option<TimeRange>,
    pub run: RunFacts,
}

/// Applies the rules to a trace, each device in its [`Window`].
///
/// A recording that holds a fraction of its events says so, and nothing else about time: what is missing may have run
/// in every gap.
///
/// One cause is one hit: a gap that comes back, and the time of the loader, are evidence of the hit of their cause and
/// hits of their own only without it. Ceilings are per device, of disjoint parts of its idle time.
///
/// Cost: O(n + m log m) for n slices of device work and m parts of gaps.
pub fn verdicts(of: &Measured<'_>, thresholds: &Thresholds, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Verdicts {
    let mut out = Out { thresholds, verdicts: Verdicts { run: of.run, ..Verdicts::default() } };
    let is_missing = is_missing(of, &mut out);
    let has_known_recorder = recorder::is_known(of.trace);
    let waits = reach::waits(of.trace);
    let is_shared = has_several_callers(of.trace);
    for (i, busy) in of.busy.iter().enumerate().take_while(|_| !is_missing && !is_cancelled()) {
        let Some(ledger) = of.ledgers.get(i) else { continue };
        if ledger.is_untold {
            out.verdicts.n_untold += 1;
            continue;
        }
        if let Some(window) = of.window(busy, ledger) {
            // Of its own: what rules look up among the hits of a device would grow with the devices before it.
            let mut own = Out { thresholds, verdicts: Verdicts::default() };
            let waits = waits.as_deref();
            Device { of, out: &mut own, busy, window: &window, has_known_recorder, waits }
                .check(ledger, of.clusters.get(i));
            if let Some(makeup) = own.verdicts.makeups.last_mut().filter(|_| is_shared) {
                makeup.share_among(launchers_on(of.trace, busy.process));
            }
            out.verdicts.add(own.verdicts);
            out.verdicts.windows.push(window);
        } else if of.range.is_none() {
            out.verdicts.too_little_ns += busy.busy_ns;
        }
    }
    if of.busy.is_empty() && !is_missing {
        host::without_device(of, &mut out, is_cancelled);
    }
    if of.range.is_none() {
        reserved::nearly_full(of.trace, &mut out);
    }
    out.verdicts.sort();
    out.verdicts
}

impl Verdicts {
    /// Adds what rules found on a device.
    fn add(&mut self, Self { hits, checks, makeups, .. }: Self) {
        self.hits.extend(hits);
        self.checks.extend(checks);
        self.makeups.extend(makeups);
    }

    fn sort(&mut self) {
        self.hits.sort_by_key(|hit| std::cmp::Reverse((hit.severity, hit.weight())));
    }
}

/// Whether most events are missing from the recording, or the work of the device is: what the rules say of it.
fn is_missing(of: &Measured<'_>, out: &mut Out<'_>) -> bool {
    // What a file has lost need not have a cause in the program or its recorder.
    let no_work = if of.trace.import.is_partial { None } else { NoWork::of(of.trace) };
    if let Some(no_work) = no_work {
        let measured = (no_work.launches + no_work.ranges + no_work.counted) as f64;
        let is_launched = no_work.launches > 0 && no_work.counted == 0;
        out.check(Hit { measured, no_work, ..hit(Rule::NoDeviceWork, None, 0, 0) });
        // The recorder may have been told to leave the device out, but not while it records launches. One that counts for
        // each kernel tells no times.
        if let Some(hit) = out.hit_of(Rule::NoDeviceWork, None).filter(|_| !is_launched) {
            hit.severity = Severity::Note;
        }
    }
    let Some(missing) = of.run.missing else { return false };
    out.check(Hit { measured: missing.share(), missing, ..hit(Rule::IncompleteRecording, None, 0, 0) });
    out.hit_of(Rule::IncompleteRecording, None).is_some()
}

struct Out<'a> {
    thresholds: &'a Thresholds,
    verdicts: Verdicts,
}

impl Out<'_> {
    /// Adds the check of a rule, and the hit if it is beyond a threshold.
    fn check(&mut self, hit: Hit) {
        let levels = hit.rule.levels(self.thresholds);
        let reached = if hit.rule.is_low() { levels.missed(hit.measured) } else { levels.reached(hit.measured) };
        let Hit { rule, device, measured, ceiling_ns_per_step, ahead_ns, .. } = hit;
        self.verdicts.checks.push(Check { rule, device, measured, ceiling_ns_per_step, ahead_ns });
        self.verdicts.hits.extend(reached.map(|(severity, threshold)| Hit { severity, threshold, ..hit }));
    }

    /// The hit of a rule on a device.
    fn hit_of(&mut self, rule: Rule, device: Option<u32>) -> Option<&mut Hit> {
        self.verdicts.hits.iter_mut().find(|hit| (hit.rule, hit.device) == (rule, device))
    }
}

/// The rules of one device.
struct Device<'a, 'b> {
    of: &'a Measured<'a>,
    out: &'a mut Out<'b>,
    busy: &'a DeviceBusy,
    window: &'a Window,
    /// See [`super::gaps::recorder::is_known`].
    has_known_recorder: bool,
    /// See [`reach::waits`].
    waits: Option<&'a [TimeRange]>,
}

impl<'a> Device<'a, '_> {
    /// A measurement of the window.
    fn hit(&self, rule: Rule, amount: i64) -> Hit {
        self.hit_in(rule, amount, self.window.time.dur())
    }

    /// A measurement of something in the window, as a share of `of`.
    fn hit_in(&self, rule: Rule, amount: i64, of: i64) -> Hit {
        let Window { device, basis, ref steps, .. } = *self.window;
        Hit { n_steps: steps.len(), basis, ..hit(rule, device, amount, of) }
    }

    fn check(&mut self, ledger: &Ledger, clusters: Option<&Clusters>) {
        let window = self.window.time;
        let parts = breakdown(self.busy, window);
        let trace = self.of.trace;
        let (small, all_small) = SmallCollectives::of(trace, self.busy, window);
        let is_between = |part: &GapPart| self.of.is_between_steps(part);
        let time = self.host_time();
        let is_of_time = |taken: &&Taken| taken.recorder.is_some_and(|recorder| recorder.time == time);
        let taken = clusters.map(|clusters| &clusters.taken).filter(is_of_time);
        let found = || self.has_known_recorder.then(|| Recorder::of(trace, time)).flatten();
        let recorder = taken.map_or_else(found, |taken| taken.recorder);
        let unrecorded = Unrecorded::new(trace, ledger, recorder);
        let books = Books::new((trace, &self.of.run), (&unrecorded, taken), &is_between);
        let is_slowed = recorder.is_some_and(|recorder| recorder.slows_host());
        let is_small = |work| all_small.contains(&work);
        let (thresholds, run) = (*self.out.thresholds, &self.of.run);
        let (mut accounts, (stats, reach)) = rayon::join(
            || accounts((trace, run, ledger), (recorder, taken), &is_between, self.window, &is_small),
            || {
                (
                    KernelStats::of(trace, self.busy.process, window, &thresholds),
                    reach(trace, ledger, window, self.waits).map(|ns| Reach { ns, is_slowed }),
                )
            },
        );
        add_ahead(self.of, ledger, self.window, &mut accounts);
        let busy_ns = window.dur() - parts.idle_ns;
        self.out.check(Hit { range: Some(window), ..self.hit(Rule::LowUtilization, busy_ns) });
        self.small_collectives(small, &accounts);
        for rule in Rule::ALL.into_iter().filter(|rule| rule.cause().is_some() || *rule == Rule::ExposedCommunication) {
            let nothing = Account::default();
            let account = rule.cause().map_or(&nothing, |cause| &accounts[cause as usize]);
            let hit = self.idle(rule, account, &parts, reach);
            self.out.check(hit);
        }
        // What is known only by inference is never of the highest severity.
        if let Some(hit) = self.out.hit_of(Rule::ModuleLoad, self.window.device).filter(|hit| hit.is_inferred()) {
            hit.severity = hit.severity.min(Severity::Warn);
        }
        if let Some(hit) = self.out.hit_of(Rule::ExposedCommunication, self.window.device) {
            hit.collective_calls_ns = accounts[Cause::Collective as usize].total_ns;
            let steps = self.window.steps.iter();
            hit.communication_ns = steps.map(|&step| overlap(self.busy, step).comm_ns).sum();
            hit.transfers = Transfers::of(trace, self.busy, window);
        }
        self.exposed_copies_of_places(std::mem::take(&mut accounts[Cause::Copy as usize].sites));
        if let Some(hit) = self.out.hit_of(Rule::HostBound, self.window.device) {
            hit.new_shapes = NewShapes::of(trace, &accounts[Cause::Host as usize].long_parts);
        }
        self.uncached();
        self.pageable_copies();
        self.data_time();
        self.host_beside_loading();
        let idle = Cause::ALL.map(|cause| accounts[cause as usize].total_ns);
        // After a synchronization the device waits for the host, too.
        let after_ns = accounts[Cause::Synchronization as usize].shares.after_ns;
        let of_host = [Cause::Host, Cause::LaunchBound, Cause::DataLoading].map(|cause| idle[cause as usize]);
        let cost = unrecorded.cost_in(window, taken.unwrap_or(&Taken::default()));
        self.recording(recorder, cost, of_host.iter().sum::<DurNs>() + after_ns);
        self.irregular_steps(ledger);
        self.join();
        let stats = self.kernels(stats, busy_ns);
        let shares = Cause::ALL.map(|cause| accounts[cause as usize].shares);
        let by_class = Cause::ALL.map(|cause| accounts[cause as usize].by_class);
        let makeup = Makeup::new(self.window, parts, stats, &by_class, &shares);
        self.out.verdicts.makeups.push(Makeup { reach, ..makeup });
        if let Some(clusters) = clusters.filter(|_| self.window.basis == Basis::Steps) {
            self.recurring(clusters, &books);
        }
    }

    /// Many small collectives: their time without compute, and the idle time that ends with one because the host still
    /// launched it. Ending that is a fix of its own, so it is not a part of other ceilings.
    fn small_collectives(&mut self, small: SmallCollectives, accounts: &[Account<'_>]) {
        let n_steps = self.window.steps.len() as u64;
        if small.count == 0 || small.count < MIN_COLLECTIVES * n_steps.max(1) {
            return;
        }
        let waits_ns = accounts.iter().map(|account| account.shares.collective_ns).sum::<DurNs>();
        let amount = small.exposed_ns + waits_ns;
        let saved = Some(amount / n_steps.max(1) as DurNs).filter(|&ns| ns > 0);
        self.out.check(Hit {
            count: small.count,
            range: small.longest,
            ceiling_ns_per_step: saved.filter(|_| n_steps > 0),
            gain_ns: saved.filter(|_| n_steps == 0),
            small_collectives: small,
            ..self.hit(Rule::SmallCollectives, amount)
        });
    }

    /// A rule about idle time of one cause, or about communication; for that and copies with the time in which the
    /// device does nothing else.
    ///
    /// * `reach`: of all work of the device.
    fn idle(&self, rule: Rule, account: &Account<'_>, parts: &Breakdown, reach: Option<Reach>) -> Hit {
        let (exposed_ns, spans) = match rule {
            Rule::ExposedCommunication => (parts.exposed_comm_ns, &self.busy.exposed_comm[..]),
            Rule::ExposedCopies => (parts.exposed_copy_ns, &self.busy.exposed_copies[..]),
            _ => (0, &[][..]),
        };
        let spans = spans.iter().filter_map(|span| span.intersect(self.window.time));
        let longest = spans.clone().max_by_key(|span| span.dur()).map(|span| (span, span.dur()));
        let n_steps = self.window.steps.len() as DurNs;
        let mut shares = account.shares;
        if rule == Rule::ExposedCopies {
            self.add_copies(&mut shares);
        }
        let small = self
            .out
            .verdicts
            .hits
            .iter()
            .find(|hit| (hit.rule, hit.device) == (Rule::SmallCollectives, self.window.device));
        let mut gains = self.gains(account, spans.clone(), small);
        let once = self.once(rule, account, spans.clone(), &gains);
        let n = gains.len() as DurNs;
        let ahead_ns = account.ahead_by_step.iter().sum::<DurNs>() / n;
        gains.iter_mut().zip(&account.ahead_by_step).for_each(|(gain, ahead)| *gain += ahead);
        let paced = reach.filter(|reach| reach.ns < exposed_ns).map(|reach| Reach { ns: reach.ns / n, ..reach });
        // Idle time that ends is saved beside that.
        let most =
            paced.map_or(DurNs::MAX, |paced| account.gain_by_step.iter().sum::<DurNs>() / n + ahead_ns + paced.ns);
        let gain = self.gain(rule, &gains, small).min(PerStep { ns: most, usual_ns: None });
        // Where nothing was asked of the device, no faster program ends that.
        let is_load = 2 * shares.waits_ns > account.total_ns && !self.of.run.is_training;
        let is_gained = rule != Rule::Profiler && !is_load && once.as_ref().is_none_or(Once::comes_back);
        let gain = is_gained.then(|| match &once {
            Some(once) => PerStep { ns: once.gain_ns_per_step(None), usual_ns: None },
            None => gain,
        });
        let saved = gain.and_then(PerStep::some);
        let small_ns = small.map_or(0, |small| {
            let own = if rule == Rule::ExposedCommunication { small.small_collectives.exposed_ns } else { 0 };
            account.small_by_step.iter().sum::<DurNs>() + own
        });
        let sites = if rule == Rule::HostBound { &account.long } else { &account.sites };
        let mut sites = sites.top(2, account.total_ns);
        if sites.is_empty() && rule == Rule::HostBound {
            sites = account.callees.most(account.total_ns).into_iter().collect();
        }
        Hit {
            count: account.gaps + spans.count() as u64,
            range: account.longest.into_iter().chain(longest).max_by_key(|place| place.1).map(|place| place.0),
            names: account.names(self.of.trace, 3),
            origins: if sites.is_empty() { account.origins.top(3, account.total_ns) } else { Vec::new() },
            sites,
            waits_in: account.most_waited(self.of.trace).filter(|_| rule == Rule::ModuleLoad),
            after: account.long.most(account.total_ns).filter(|_| rule == Rule::Synchronization),
            ceiling_ns_per_step: saved.filter(|_| n_steps > 0),
            gain_ns: saved.filter(|_| n_steps == 0),
            usual_ns_per_step: gain.and_then(|gain| gain.usual_ns),
            recorder_ns: gain.map_or(0, |_| account.recorder_ns / n_steps.max(1)),
            ahead_ns: if gain.is_some() && once.is_none() { ahead_ns } else { 0 },
            small_ns: gain.map_or(0, |_| small_ns / n_steps.max(1)),
            paced,
            shares,
            once,
            ..self.hit(rule, account.total_ns + exposed_ns)
        }
    }

    /// What ending a cause gains each step at most, or without steps all of the judged time.
    ///
    /// * `spans`: time in which the device does nothing else, by which it is longer.
    /// * `small`: the hit about small collectives: what that gains is not a part of this.
    fn gains(&self, account: &Account<'_>, spans: impl Iterator<Item = TimeRange>, small: Option<&Hit>) -> Vec<DurNs> {
        let mut by_step = account.gain_by_step.clone();
        by_step.resize(self.window.pieces().len(), 0);
        for span in spans {
            by_step[self.window.piece_of(span)] += span.dur();
        }
        if small.is_some() {
            by_step.iter_mut().zip(&account.small_by_step).for_each(|(gain, small)| *gain -= small);
        }
        by_step
    }

    /// What ending a cause, or overlapping communication, gains a step at most, or without steps the judged time.
    ///
    /// * `gains`, `small`: as of [`Self::gains`].
    fn gain(&self, rule: Rule, gains: &[DurNs], small: Option<&Hit>) -> PerStep {
        if rule != Rule::ExposedCommunication {
            return PerStep::of(gains);
        }
        let small_ns = small.map_or(0, |small| small.small_collectives.exposed_ns);
        let mean = (gains.iter().sum::<DurNs>() - small_ns) / gains.len() as DurNs;
        PerStep { ns: mean, usual_ns: None }.min(PerStep::of(&self.gain_of_overlap()))
    }

    /// What overlapping communication with compute gains each step at most: none gets shorter than its communication.
    fn gain_of_overlap(&self) -> Vec<DurNs> {
        let gain = |&step: &TimeRange| {
            let Overlap { comm_ns, overlapped_ns } = overlap(self.busy, step);
            (comm_ns - overlapped_ns).min(step.dur() - comm_ns)
        };
        self.window.pieces().iter().map(gain).collect()
    }

    /// What else the host does for long in its steps where the device waits for data: of two that follow each other, the
    /// wait shows in the last.
    fn host_beside_loading(&mut self) {
        let (of, steps) = (self.of, &self.window.host_steps);
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return };
        let range = first.union(*last);
        if let Some(hit) = self.out.hit_of(Rule::DataLoading, self.window.device) {
            let most = MostIn::of(of.trace, of.phases, range, steps);
            hit.other_in = most.filter(|most| most.ns > range.dur() / 2);
        }
    }

    /// Time that the host loads data beside the busy time of the device, in the median step.
    fn data_time(&mut self) {
        let of_step = |(&host, &step): (&TimeRange, &TimeRange)| {
            let data = self.of.phases.within(host)[Phase::DataLoading as usize];
            let busy = step.dur() - breakdown(self.busy, step).idle_ns;
            (busy > 0).then_some((data, busy, host))
        };
        let mut steps: Vec<_> = self.window.host_steps.iter().zip(&self.window.steps).filter_map(of_step).collect();
        if steps.iter().all(|step| step.0 == 0) {
            return;
        }
        steps.sort_by(|a, b| (a.0 as f64 / a.1 as f64).total_cmp(&(b.0 as f64 / b.1 as f64)));
        let Some([low, high]) = median::middle_of(&steps) else { return };
        let (data, busy, step) = ((low.0 + high.0) / 2, (low.1 + high.1) / 2, low.2);
        let found = Hit { range: Some(step), count: steps.len() as u64, ..self.hit_in(Rule::DataTime, data, busy) };
        self.out.check(found);
        let device = self.window.device;
        let is_hit = self.out.hit_of(Rule::DataTime, device).is_some();
        if let Some(loading) = self.out.hit_of(Rule::DataLoading, device).filter(|_| is_hit) {
            loading.data_time = Some((data, busy));
            self.out.verdicts.hits.retain(|hit| (hit.rule, hit.device) != (Rule::DataTime, device));
        }
    }
}

impl Measured<'_> {
    /// Whether the host is outside of all steps during a part of a gap. Steps without times of their own tile the time.
    fn is_between_steps(&self, part: &GapPart) -> bool {
        self.steps.is_some_and(|steps| is_between(steps, part))
    }
}

#[cfg(test)]
pub mod tests;
