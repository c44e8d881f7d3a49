//! Findings about time: rules over measured answers, each with a threshold.
//!
//! * Exposed time counts, never how long a loader, a collective or a synchronization took: what the device did
//!   meanwhile costs nothing.
//! * A gap belongs to what made the device wait, not to what the host happened to run in it; see [`Cause::of`].
//! * A rule without a measurement finds nothing, and says so in [`Verdicts::checks`].

mod account;
mod kernels;
mod rule;
mod thresholds;

pub use self::account::Cause;
use self::account::{Account, accounts};
pub use self::kernels::{Dominant, KernelStats};
pub use self::rule::Rule;
pub use self::thresholds::{Levels, Thresholds};
use super::breakdown::{Breakdown, breakdown};
use super::busy::DeviceBusy;
use super::gaps::Ledger;
use super::gaps::clusters::{Clusters, counted_boundaries};
use super::memory::leaks::capacity;
use super::phases::{Phase, Phases};
use super::steps::{StepSource, Steps};
use crate::model::memory::highest;
use crate::model::{CopyKind, DurNs, Severity, SliceKind, TimeRange, Trace};

/// A device with less work than this many kernels, copies and graphs is not judged: a fragment of a recording.
const MIN_WORK: u64 = 5;
/// Fewer kernels are not called many tiny ones.
const MIN_TINY: u64 = 100;

/// What a rule measured that is beyond its threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub rule: Rule,
    pub severity: Severity,
    /// Index of the device; `None` for a recording without any.
    pub device: Option<u32>,
    /// A share or a ratio; see [`Thresholds`].
    pub measured: f64,
    /// The level of the rule that it reaches.
    pub threshold: f64,
    /// The time, or for memory the bytes, that was measured.
    pub amount: i64,
    /// What it is a share of, in the same unit.
    pub of: i64,
    /// Gaps, kernels or copies.
    pub count: u64,
    /// Steps in the window; 0 if unknown.
    pub n_steps: usize,
    /// The place that shows it best, in trace time.
    pub range: Option<TimeRange>,
    /// Calls, operators or kernels with most of it.
    pub names: Vec<String>,
    /// What ending the cause would gain at most; `None` without steps, or where that cannot be told.
    pub ceiling_ns_per_step: Option<DurNs>,
}

/// The result of one rule on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    pub rule: Rule,
    pub device: Option<u32>,
    pub measured: f64,
}

/// The result of all rules on a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// Worst first, then by time.
    pub hits: Vec<Hit>,
    /// Every rule with a measurement.
    pub checks: Vec<Check>,
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
}

/// Applies the rules to a trace.
///
/// The window is the range, else the steps that count, else all the time from the first to the last work of a device;
/// always within the latter.
///
/// Cost: O(n + m log m) for n slices of device work and m parts of gaps.
pub fn verdicts(of: &Measured<'_>, thresholds: &Thresholds, is_cancelled: &dyn Fn() -> bool) -> Verdicts {
    let mut out = Out { thresholds, verdicts: Verdicts::default() };
    for (i, busy) in of.busy.iter().enumerate().take_while(|_| !is_cancelled()) {
        let window = of.window_of(busy);
        let work = [busy.kernels, busy.memcpys, busy.memsets, busy.graphs].iter().map(|work| work.count).sum::<u64>();
        if let (Some(window), Some(ledger), true) = (window, of.ledgers.get(i), work >= MIN_WORK) {
            Device { of, out: &mut out, busy, window, n_steps: of.n_steps(window) }.check(ledger, of.clusters.get(i));
        }
    }
    if of.busy.is_empty() {
        without_device(of, &mut out);
    }
    if of.range.is_none() {
        memory(of.trace, &mut out);
    }
    let mut verdicts = out.verdicts;
    verdicts.hits.sort_by_key(|hit| std::cmp::Reverse((hit.severity, hit.ceiling_ns_per_step.unwrap_or(hit.amount))));
    verdicts
}

/// The time that the rules judge: the range, else the steps that count; `None` for all of it.
pub fn window(range: Option<TimeRange>, steps: Option<&Steps>) -> Option<TimeRange> {
    range.or_else(|| {
        let boundaries = counted_boundaries(steps.filter(|steps| steps.is_reliable())?);
        Some(TimeRange { start: *boundaries.first()?, end: *boundaries.last()? })
    })
}

impl Measured<'_> {
    fn window(&self) -> Option<TimeRange> {
        window(self.range, self.steps)
    }

    /// The part of the window in which a device is judged.
    fn window_of(&self, busy: &DeviceBusy) -> Option<TimeRange> {
        self.window().map_or(Some(busy.window), |window| window.intersect(busy.window))
    }

    /// The steps that lie within the window.
    fn steps_in(&self, window: TimeRange) -> Vec<TimeRange> {
        let steps = self.steps.filter(|steps| steps.is_reliable());
        let boundaries = steps.map_or(&[][..], |steps| &steps.boundaries);
        let steps = boundaries.windows(2).map(|pair| TimeRange { start: pair[0], end: pair[1] });
        steps.filter(|step| window.start <= step.start && step.end <= window.end).collect()
    }

    fn n_steps(&self, window: TimeRange) -> usize {
        // The first and the last step may be cut off by the device's window.
        let around = self.window().unwrap_or(window);
        self.steps_in(around).len()
    }
}

struct Out<'a> {
    thresholds: &'a Thresholds,
    verdicts: Verdicts,
}

impl Out<'_> {
    /// Adds the check of a rule, and the hit if it is beyond a threshold.
    fn check(&mut self, hit: Hit) {
        let levels = hit.rule.levels(self.thresholds);
        let is_low = hit.rule == Rule::LowUtilization;
        let reached = if is_low { levels.missed(hit.measured) } else { levels.reached(hit.measured) };
        self.verdicts.checks.push(Check { rule: hit.rule, device: hit.device, measured: hit.measured });
        self.verdicts.hits.extend(reached.map(|(severity, threshold)| Hit { severity, threshold, ..hit }));
    }
}

/// A measurement before it is judged.
fn hit(rule: Rule, device: Option<u32>, amount: i64, of: i64) -> Hit {
    Hit {
        rule,
        severity: Severity::Note,
        device,
        measured: if of > 0 { amount as f64 / of as f64 } else { 0.0 },
        threshold: 0.0,
        amount,
        of,
        count: 0,
        n_steps: 0,
        range: None,
        names: Vec::new(),
        ceiling_ns_per_step: None,
    }
}

/// The rules of one device.
struct Device<'a, 'b> {
    of: &'a Measured<'a>,
    out: &'a mut Out<'b>,
    busy: &'a DeviceBusy,
    window: TimeRange,
    n_steps: usize,
}

impl Device<'_, '_> {
    fn hit(&self, rule: Rule, amount: i64) -> Hit {
        Hit { n_steps: self.n_steps, ..hit(rule, Some(self.busy.device), amount, self.window.dur()) }
    }

    fn check(&mut self, ledger: &Ledger, clusters: Option<&Clusters>) {
        let parts = breakdown(self.busy, self.window);
        let accounts = accounts(self.of.trace, ledger, self.window);
        let busy_ns = self.window.dur() - parts.idle_ns;
        self.out.check(Hit { range: Some(self.window), ..self.hit(Rule::LowUtilization, busy_ns) });
        for rule in Rule::ALL {
            let Some(cause) = rule.cause() else { continue };
            let hit = self.idle(rule, &accounts[cause as usize], &parts);
            self.out.check(hit);
        }
        self.pageable_copies();
        self.data_time();
        self.kernels(busy_ns);
        if let Some(clusters) = clusters.filter(|_| self.of.range.is_none()) {
            self.recurring(clusters, ledger);
        }
    }

    /// A rule about idle time of one cause; for communication and copies with the time in which the device does
    /// nothing else.
    fn idle(&self, rule: Rule, account: &Account, parts: &Breakdown) -> Hit {
        let (exposed_ns, spans) = match rule {
            Rule::ExposedCommunication => (parts.exposed_comm_ns, &self.busy.exposed_comm[..]),
            Rule::ExposedCopies => (parts.exposed_copy_ns, &self.busy.exposed_copies[..]),
            _ => (0, &[][..]),
        };
        let spans = spans.iter().filter_map(|span| span.intersect(self.window));
        let longest = spans.clone().max_by_key(|span| span.dur()).map(|span| (span, span.dur()));
        let recoverable = account.recoverable_ns + exposed_ns;
        let per_step = (self.n_steps > 0).then(|| recoverable / self.n_steps.max(1) as DurNs);
        Hit {
            count: account.gaps + spans.count() as u64,
            range: account.longest.max_by_length(longest),
            names: if rule == Rule::Unexplained { Vec::new() } else { account.names(self.of.trace, 3) },
            ceiling_ns_per_step: per_step.filter(|&ns| ns > 0),
            ..self.hit(rule, account.total_ns + exposed_ns)
        }
    }

    /// Large copies from or to pageable memory: they are staged, and the host waits for them.
    fn pageable_copies(&mut self) {
        let (trace, slices) = (self.of.trace, &self.of.trace.slices);
        let (mut is_known, mut found) = (false, self.hit(Rule::PageableCopies, 0));
        let mut longest = 0;
        for (id, copy) in trace.facts.copies.iter() {
            let is_own = || trace.track(slices.track_of(id)).process == self.busy.process;
            let is_host = matches!(copy.kind, CopyKind::HtoD | CopyKind::DtoH);
            let Some(is_pageable) = copy.is_pageable.filter(|_| is_host && is_own()) else { continue };
            is_known = true;
            let time = slices.time(id);
            let is_large = copy.bytes.is_some_and(|bytes| bytes > self.out.thresholds.pageable_bytes);
            if is_pageable && is_large && self.window.contains(time.start) {
                found.count += 1;
                found.amount += time.dur();
                if time.dur() > longest {
                    longest = time.dur();
                    found.range = Some(time);
                    found.names = vec![trace.slice_name(id).to_owned()];
                }
            }
        }
        if is_known {
            found.measured = found.amount as f64 / found.of.max(1) as f64;
            self.out.check(found);
        }
    }

    /// Time that the host loads data beside the busy time of the device, in the median step.
    fn data_time(&mut self) {
        let of_step = |step: TimeRange| {
            let data = self.of.phases.within(step)[Phase::DataLoading as usize];
            let busy = step.dur() - breakdown(self.busy, step).idle_ns;
            (busy > 0).then_some((data, busy, step))
        };
        let mut steps: Vec<_> =
            self.of.steps_in(self.of.window().unwrap_or(self.window)).into_iter().filter_map(of_step).collect();
        if steps.iter().all(|step| step.0 == 0) {
            return;
        }
        steps.sort_by(|a, b| (a.0 as f64 / a.1 as f64).total_cmp(&(b.0 as f64 / b.1 as f64)));
        let (data, busy, step) = steps[steps.len() / 2];
        let found = hit(Rule::DataTime, Some(self.busy.device), data, busy);
        self.out.check(Hit { range: Some(step), count: steps.len() as u64, n_steps: self.n_steps, ..found });
    }

    fn kernels(&mut self, busy_ns: DurNs) {
        let thresholds = *self.out.thresholds;
        let stats = KernelStats::of(self.of.trace, self.busy.process, self.window, &thresholds);
        if stats.count == 0 {
            return;
        }
        let device = Some(self.busy.device);
        let slow = hit(Rule::SlowKernels, device, stats.slow_ns, stats.total_ns);
        let names = stats.slow.iter().map(|kernel| kernel.name.clone()).collect();
        self.out.check(Hit {
            count: stats.n_slow as u64,
            range: stats.slow.first().map(|kernel| kernel.longest),
            names,
            n_steps: self.n_steps,
            ..slow
        });
        let is_slow = |kernel: &&Dominant| kernel.longest.dur() >= thresholds.slow_kernel_ns;
        if let Some(longest) = stats.longest.as_ref().filter(is_slow) {
            // A period of kernels may be a single one.
            let is_named = self.of.steps.is_some_and(|steps| !matches!(steps.source, StepSource::Period { .. }));
            let n_steps = if is_named { self.n_steps } else { 0 };
            let step = self.window.dur() / n_steps.max(1) as DurNs;
            let found = hit(Rule::LongKernel, device, longest.longest.dur(), step);
            let names = vec![longest.name.clone()];
            self.out.check(Hit { count: 1, range: Some(longest.longest), names, n_steps, ..found });
        }
        // Where the device is busy all the time, small kernels cost nothing that this could show.
        let is_underused = thresholds.utilization.missed(busy_ns as f64 / self.window.dur().max(1) as f64).is_some();
        if is_underused && stats.count >= MIN_TINY {
            let found = hit(Rule::TinyKernels, device, stats.tiny as i64, stats.count as i64);
            self.out.check(Hit { count: stats.tiny, names: stats.tiny_names, n_steps: self.n_steps, ..found });
        }
    }

    /// The cluster of gaps with most time, if it comes back.
    fn recurring(&mut self, clusters: &Clusters, ledger: &Ledger) {
        let Some(steps) = Some(clusters.n_steps).filter(|&n| n > 0) else { return };
        let Some(cluster) = clusters.recurring().max_by_key(|cluster| cluster.sum.in_steps_ns) else { return };
        let step = self.of.window().map_or(0, TimeRange::dur) / steps as DurNs;
        let found = hit(Rule::RecurringGap, Some(self.busy.device), cluster.sum.in_steps_ns / steps as DurNs, step);
        let longest = clusters.gaps(cluster).iter().map(|&gap| ledger.gap(gap as usize).time);
        let names = [
            clusters.name(cluster.prev),
            clusters.name(cluster.next),
            clusters.op(cluster),
            clusters.name(cluster.frame),
        ];
        self.out.check(Hit {
            count: cluster.sum.steps_present as u64,
            n_steps: steps,
            range: longest.max_by_key(|time| time.dur()),
            names: names.into_iter().map(str::to_owned).collect(),
            ceiling_ns_per_step: cluster.sum.ceiling_ns_per_step(steps).filter(|&ns| ns > 0),
            ..found
        });
    }
}

/// The longer of two places.
trait Longest {
    fn max_by_length(self, other: Self) -> Option<TimeRange>;
}

impl Longest for Option<(TimeRange, DurNs)> {
    fn max_by_length(self, other: Self) -> Option<TimeRange> {
        self.into_iter().chain(other).max_by_key(|place| place.1).map(|place| place.0)
    }
}

/// Data loading of a recording without devices: the host is what works.
fn without_device(of: &Measured<'_>, out: &mut Out<'_>) {
    let window = of.window().unwrap_or(of.trace.span);
    let has_operators = of.trace.slices.kind.contains(&SliceKind::Operator);
    if of.phases.is_empty() || !has_operators || window.dur() == 0 {
        return;
    }
    let data = of.phases.within(window)[Phase::DataLoading as usize];
    let loading = of.phases.tiles(window).iter().filter(|tile| tile.phase == Phase::DataLoading).map(|tile| tile.time);
    let n_steps = of.n_steps(window);
    out.check(Hit {
        count: loading.clone().count() as u64,
        range: loading.max_by_key(|time| time.dur()),
        n_steps,
        ..hit(Rule::DataLoading, None, data, window.dur())
    });
}

/// The peak of reserved memory by what the device could give the process.
fn memory(trace: &Trace, out: &mut Out<'_>) {
    for history in &trace.memories {
        let Some(total) = capacity(trace, history).filter(|&total| total > 0) else { continue };
        let (_, reserved) = highest(&history.curves.reserved);
        let device = u32::try_from(history.device).ok();
        out.check(hit(Rule::MemoryNearlyFull, device, reserved as i64, total as i64));
    }
}

#[cfg(test)]
mod tests;
