//! Findings about time in words: what was measured, and what to do about it.

mod checked;
mod clip;
mod communication;
mod nearly_full;
mod notes;
mod sentence;
mod why;

use hashbrown::{HashMap, HashSet};

pub use self::checked::{Checked, JudgedTime, checks, judged, level, limit_text};
pub use self::clip::{clipped, clipped_apart};
use self::notes::notes;
pub use self::notes::{host_of, ranks_of};
use self::sentence::text;
pub use self::sentence::{also, scope_of};
pub use self::why::{is_launched, why, why_of};
use super::advice::{Case, advice, is_to_launch_less};
use super::findings::value;
use super::format;
use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::rules::{Hit, Levels, OfDevice, Rule, RunFacts, Thresholds, Verdicts, Window, same_steps};
use crate::model::{DurNs, Severity, Trace};

/// The reserve about shares of busy and idle time, and gaps, of a recording that lacks most of its events.
pub const LACKS_EVENTS: &str =
    "Most events are missing from the recording: what counts as idle may be work that is missing";
/// Ranks whose steps are at most this share shorter than the longest are as slow as the slowest.
const EQUALLY_SLOW: f64 = 0.01;
/// A trace with what the rules say of it.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    pub trace: &'a Trace,
    /// Title of the file for sentences, where its rank does not distinguish it.
    pub name: Option<&'a str>,
    /// Of the file.
    pub path: &'a str,
    /// Of the trace on the session clock.
    pub offset: DurNs,
    pub verdicts: &'a Verdicts,
}

impl<'a> Judged<'a> {
    /// A device in words, with its rank or its file where there are several.
    pub fn device(&self, device: Option<u32>) -> String {
        self.in_file(self::device(device, self.trace.info.rank))
    }

    /// Its recording in words, as above.
    fn recording(&self) -> String {
        self.in_file(match self.trace.info.rank {
            Some(rank) => format!("The recording of rank {rank}"),
            None => "The recording".to_owned(),
        })
    }

    fn in_file(&self, what: String) -> String {
        match self.file() {
            Some(name) => format!("{what} in {name}"),
            None => what,
        }
    }

    /// The name of its file beside its rank: names of files that differ in their rank begin with it.
    pub fn file(&self) -> Option<&'a str> {
        let rank = self.trace.info.rank.map(|rank| format!("rank {rank}, ")).unwrap_or_default();
        self.name.map(|name| name.strip_prefix(&rank).unwrap_or(name))
    }
}

/// The findings of several traces, worst first; with the index of the trace that each is of.
///
/// Hits of one rule on several ranks, or several devices of one trace, are one finding about the worst of them. Its
/// ceiling is that of the job; see [`job_gain`]. That a device is idle is none where another says why: it is in short.
pub fn findings(traces: &[Judged<'_>], thresholds: &Thresholds) -> Vec<(usize, Finding)> {
    let devices: Vec<HashMap<Option<u32>, OfDevice<'_>>> =
        traces.iter().map(|judged| judged.verdicts.by_device()).collect();
    let mut hits: Vec<(usize, &Hit)> = Vec::new();
    for (i, judged) in traces.iter().enumerate() {
        let is_explained = |low: &Hit| devices[i][&low.device].hits.iter().any(|hit| hit.rule.cause().is_some());
        let says_more = |hit: &&Hit| hit.rule != Rule::LowUtilization || !is_explained(hit);
        hits.extend(judged.verdicts.hits.iter().filter(says_more).map(|hit| (i, hit)));
    }
    let worst = |hit: &Hit| if hit.rule.is_low() { -hit.measured } else { hit.measured };
    hits.sort_by(|a, b| (b.1.severity.cmp(&a.1.severity)).then(worst(b.1).total_cmp(&worst(a.1))));
    let mut groups: Vec<Alike<'_>> = Vec::new();
    for hit in hits {
        match groups.iter_mut().find(|group| group.takes(traces, hit)) {
            Some(group) => group.add(hit),
            None => groups.push(Alike::new(hit)),
        }
    }
    let worded = |Alike { hits: group, .. }: &Alike<'_>| {
        let (i, hit) = group[0];
        let mut finding = finding(hit, (&traces[i], &devices[i][&hit.device]), thresholds);
        if let Some(Gain { ns, ahead_ns, rank, device, is_slowest }) = job_gain(traces, i, hit) {
            finding.ceiling_ns_per_step = Some(ns);
            finding.ahead_ns_per_step = Some(ahead_ns).filter(|&ns| ns > 0);
            if (rank, device) != (traces[i].trace.info.rank, hit.device) {
                let of = self::device(device, rank);
                let whose = if is_slowest { format!("the slowest, {of},") } else { of };
                let ending = ending(finding.rule);
                let note = format!("{ending} saves {whose} at most {} per step", format::duration(ns));
                finding.evidence.notes.push(note);
            }
        }
        let shares: Vec<f64> = group[1..].iter().map(|(_, hit)| hit.measured).collect();
        if let Some(min) = shares.iter().copied().reduce(f64::min) {
            let max = shares.iter().copied().fold(min, f64::max);
            let [min, max] = [min, max].map(|share| value(share, unit(hit.rule)));
            let range = if min == max { min } else { format!("{min} to {max}") };
            // What is said of a recording without devices is said of its rank.
            let noun = if group[1..].iter().any(|(_, hit)| hit.device.is_none()) { "rank" } else { "device" };
            let plural = if shares.len() == 1 { "" } else { "s" };
            finding.text += &format!("; {} more {noun}{plural} likewise, {range}", shares.len());
        }
        let amount = finding.ceiling_ns_per_step.unwrap_or_else(|| hit.weight());
        ((finding.severity, amount), (i, finding))
    };
    let mut found: Vec<_> = groups.iter().map(worded).collect();
    found.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Hits of one rule on different ranks, or on different devices of one trace.
#[derive(Debug)]
struct Alike<'a> {
    hits: Vec<(usize, &'a Hit)>,
    /// Traces and devices that they are of.
    places: HashSet<(usize, Option<u32>)>,
    traces: HashSet<usize>,
}

impl<'a> Alike<'a> {
    fn new(hit: (usize, &'a Hit)) -> Self {
        let mut new = Self { hits: Vec::new(), places: HashSet::new(), traces: HashSet::new() };
        new.add(hit);
        new
    }

    fn add(&mut self, (trace, hit): (usize, &'a Hit)) {
        self.hits.push((trace, hit));
        self.places.insert((trace, hit.device));
        self.traces.insert(trace);
    }

    fn takes(&self, all: &[Judged<'_>], (trace, hit): (usize, &Hit)) -> bool {
        self.hits[0].1.rule == hit.rule
            && !self.places.contains(&(trace, hit.device))
            && self.traces.iter().all(|&other| other == trace || is_other_rank(all, other, trace))
    }
}

/// What has the ceiling of a finding as its gain, as the start of a sentence: less or faster communication may gain more
/// than overlap, of which alone that of communication is.
pub fn ending(rule: &str) -> &'static str {
    if rule == Rule::ExposedCommunication.key() { "Overlapping it" } else { "Ending it" }
}

/// Whether two traces are of different ranks of one job.
fn is_other_rank(traces: &[Judged<'_>], a: usize, b: usize) -> bool {
    let [a, b] = [a, b].map(|i| traces[i].trace.info.rank);
    a.is_some() && b.is_some() && a != b
}

/// What ending a cause gains one device per step at most, with its rank and its index.
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    pub ns: DurNs,
    /// Of that, idle time of other causes.
    pub ahead_ns: DurNs,
    pub rank: Option<u32>,
    pub device: Option<u32>,
    /// Whether it is known to be the slowest of several.
    pub is_slowest: bool,
}

/// What ending the cause of a hit gains the job per step at most, with the rank and the device that it is of: what it
/// gains the slowest rank, since faster ones wait for that. Of devices that are equally slow, or whose steps do not
/// compare, it is the most that one of them gains, never their sum.
pub fn job_gain(traces: &[Judged<'_>], of: usize, hit: &Hit) -> Option<Gain> {
    hit.ceiling_ns_per_step?;
    let peers = (0..traces.len()).filter(|&i| i == of || is_other_rank(traces, of, i));
    let mut all: Vec<((DurNs, &Window), Gain)> = Vec::new();
    for Judged { trace, verdicts, offset, .. } in peers.map(|i| &traces[i]) {
        let windows: HashMap<_, _> = verdicts.windows.iter().rev().map(|window| (window.device, window)).collect();
        for check in verdicts.checks.iter().filter(|check| check.rule == hit.rule) {
            let window = windows.get(&check.device).filter(|window| window.step_ns().is_some());
            let ns = check.ceiling_ns_per_step.unwrap_or_default();
            let (rank, device, ahead_ns) = (trace.info.rank, check.device, check.ahead_ns.min(ns));
            let gain = Gain { ns, ahead_ns, rank, device, is_slowest: false };
            all.extend(window.map(|window| ((*offset, *window), gain)));
        }
    }
    let windows: Vec<(DurNs, &Window)> = all.iter().map(|one| one.0).collect();
    let lengths = same_steps(&windows).map(|same| same.1).filter(|_| windows.len() > 1);
    let slowest = lengths.iter().flatten().copied().max();
    let is_slow = |i: &usize| match (&lengths, slowest) {
        (Some(lengths), Some(slowest)) => lengths[*i] as f64 >= slowest as f64 * (1.0 - EQUALLY_SLOW),
        _ => true,
    };
    let slow: Vec<usize> = (0..all.len()).filter(is_slow).collect();
    let is_slowest = slow.len() < all.len();
    let most = slow.into_iter().map(|i| all[i].1).max_by_key(|gain| gain.ns)?;
    Some(Gain { is_slowest, ..most })
}

/// Another hit of the device with the same remedy, and what both save together at most, as [`Hit::saved_ns`]: their
/// ceilings are of disjoint parts of its idle time. `None` where ranks were compared: what one gains then depends on the
/// others.
pub fn together<'a>(hit: &Hit, of: &OfDevice<'a>, run: &RunFacts) -> Option<(&'a Hit, DurNs)> {
    let fits = |hit: &Hit| is_to_launch_less(&Case { rule: hit.rule, run, hit: Some(hit) });
    let own = |hit: &Hit| hit.saved_ns().filter(|_| hit.once.is_none() && fits(hit));
    let ns = own(hit).filter(|_| of.checks.iter().all(|check| check.rule != Rule::LateRank))?;
    let mut others = of.hits.iter().copied().filter(|other| other.rule != hit.rule);
    others.find_map(|other| Some((other, ns + own(other)?)))
}

/// The objects that a hit is about, each once.
fn names(hit: &Hit) -> Vec<String> {
    let sites = hit.sites.iter().flat_map(|site| [&site.call, &site.operator, &site.frame]);
    let mut names: Vec<String> = Vec::new();
    let origins = hit.origins.iter().map(|origin| &origin.0);
    for name in sites.chain(origins).chain(&hit.names).filter(|name| !name.is_empty()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// A hit of a rule as a finding.
fn finding(hit: &Hit, (of, device): (&Judged<'_>, &OfDevice<'_>), thresholds: &Thresholds) -> Finding {
    let both = together(hit, device, &of.verdicts.run).map(|(other, ns)| {
        let (other, ns) = (other.rule.label(), format::duration(ns));
        let per_step = if hit.n_steps > 0 { " per step" } else { "" };
        format!("\"{other}\" has the same remedy, fewer launches: ending both saves at most {ns}{per_step}")
    });
    let range = hit.range.map(|range| range.shifted(of.offset));
    Finding {
        rule: hit.rule.key(),
        severity: hit.severity,
        text: text(hit, of, thresholds),
        measured: hit.measured,
        threshold: hit.threshold,
        default_threshold: default_level(hit),
        unit: unit(hit.rule),
        evidence: Evidence {
            file: Some(of.path.to_owned()),
            range_ns: range.map(|range| [range.start, range.end]),
            device: hit.device,
            names: names(hit),
            notes: notes(hit).into_iter().chain(both).collect(),
        },
        ceiling_ns_per_step: hit.ceiling_ns_per_step,
        recorder_ns_per_step: Some(hit.recorder_ns).filter(|&ns| ns > 0 && hit.n_steps > 0),
        ahead_ns_per_step: hit.ceiling_ns_per_step.map(|ceiling| hit.ahead_ns.min(ceiling)).filter(|&ns| ns > 0),
        advice: advice(&Case { rule: hit.rule, run: &of.verdicts.run, hit: Some(hit) }),
    }
}

/// The level that a hit would have had to reach for its severity by default, if that is another than it reached.
fn default_level(hit: &Hit) -> Option<f64> {
    let Levels { note, warn, high } = hit.rule.levels(&Thresholds::default());
    let default = match hit.severity {
        Severity::Note => note,
        Severity::Warn => warn,
        Severity::High => high,
    };
    default.filter(|&default| default.to_bits() != hit.threshold.to_bits())
}

/// The unit of what a rule measures.
pub fn unit(rule: Rule) -> Unit {
    match rule {
        Rule::DataTime | Rule::IrregularSteps => Unit::Ratio,
        Rule::NoDeviceWork => Unit::Count,
        _ => Unit::Share,
    }
}

pub fn percent(share: f64) -> String {
    value(share, Unit::Share)
}

/// A device and its rank: `Rank 3, GPU 0`; without a device the host.
pub fn device(device: Option<u32>, rank: Option<u32>) -> String {
    match (device, rank) {
        (Some(device), Some(rank)) => format!("Rank {rank}, GPU {device}"),
        (Some(device), None) => format!("GPU {device}"),
        (None, Some(rank)) => format!("The host of rank {rank}"),
        (None, None) => "The host".to_owned(),
    }
}
