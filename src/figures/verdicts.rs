//! Findings about time in words: what was measured, and what to do about it.

use super::advice::advice;
use super::findings::value;
use super::{Cell, Part, figures, format};
use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::rules::{Check, Hit, Levels, Rule, Thresholds, Verdicts};
use crate::model::{DurNs, Trace};

/// A trace with what the rules say of it.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    pub trace: &'a Trace,
    /// Of the file.
    pub path: &'a str,
    /// Of the trace on the session clock.
    pub offset: DurNs,
    pub verdicts: &'a Verdicts,
}

/// The findings of several traces, worst first; with the index of the trace that each is of.
///
/// Hits of one rule on several ranks, or several devices of one trace, are one finding about the worst of them.
pub fn findings(traces: &[Judged<'_>], thresholds: &Thresholds) -> Vec<(usize, Finding)> {
    let mut hits: Vec<(usize, &Hit)> = Vec::new();
    for (i, judged) in traces.iter().enumerate() {
        hits.extend(judged.verdicts.hits.iter().map(|hit| (i, hit)));
    }
    let worst = |hit: &Hit| if hit.rule == Rule::LowUtilization { -hit.measured } else { hit.measured };
    hits.sort_by(|a, b| (b.1.severity.cmp(&a.1.severity)).then(worst(b.1).total_cmp(&worst(a.1))));
    let is_alike = |a: (usize, &Hit), b: (usize, &Hit)| {
        let ranks = [a, b].map(|(i, _)| traces[i].trace.info.rank);
        let is_other_rank = ranks[0].is_some() && ranks[1].is_some() && ranks[0] != ranks[1];
        a.1.rule == b.1.rule && (is_other_rank || a.0 == b.0 && a.1.device != b.1.device)
    };
    let mut groups: Vec<Vec<(usize, &Hit)>> = Vec::new();
    for hit in hits {
        match groups.iter_mut().find(|group| group.iter().all(|&other| is_alike(other, hit))) {
            Some(group) => group.push(hit),
            None => groups.push(vec![hit]),
        }
    }
    let amount = |group: &[(usize, &Hit)]| group[0].1.ceiling_ns_per_step.unwrap_or(group[0].1.amount);
    groups.sort_by_key(|group| std::cmp::Reverse((group[0].1.severity, amount(group))));
    let worded = |group: &Vec<(usize, &Hit)>| {
        let (i, hit) = group[0];
        let mut finding = finding(hit, &traces[i], thresholds);
        let shares: Vec<f64> = group[1..].iter().map(|(_, hit)| hit.measured).collect();
        if let Some(min) = shares.iter().copied().reduce(f64::min) {
            let max = shares.iter().copied().fold(min, f64::max);
            let [min, max] = [min, max].map(|share| value(share, unit(hit.rule)));
            let range = if min == max { min } else { format!("{min} to {max}") };
            let noun = if shares.len() == 1 { "device" } else { "devices" };
            finding.text += &format!("; {} more {noun} likewise, {range}", shares.len());
        }
        (i, finding)
    };
    groups.iter().map(worded).collect()
}

/// A hit of a rule as a finding.
fn finding(hit: &Hit, of: &Judged<'_>, thresholds: &Thresholds) -> Finding {
    let range = hit.range.map(|range| range.shifted(of.offset));
    Finding {
        rule: hit.rule.key(),
        severity: hit.severity,
        text: text(hit, of.trace, thresholds),
        measured: hit.measured,
        threshold: hit.threshold,
        unit: unit(hit.rule),
        evidence: Evidence {
            file: Some(of.path.to_owned()),
            range_ns: range.map(|range| [range.start, range.end]),
            device: hit.device,
            names: hit.names.iter().filter(|name| !name.is_empty()).cloned().collect(),
        },
        ceiling_ns_per_step: hit.ceiling_ns_per_step,
        advice: advice(hit.rule).iter().map(|&sentence| sentence.to_owned()).collect(),
    }
}

/// The unit of what a rule measures.
pub fn unit(rule: Rule) -> Unit {
    if rule == Rule::DataTime { Unit::Ratio } else { Unit::Share }
}

fn percent(share: f64) -> String {
    value(share, Unit::Share)
}

/// The device and its rank: `Rank 3, GPU 0`.
fn device(hit: &Hit, trace: &Trace) -> String {
    let device = hit.device.map_or_else(|| "The host".to_owned(), |device| format!("GPU {device}"));
    match trace.info.rank {
        Some(rank) => format!("Rank {rank}, {device}"),
        None => device,
    }
}

/// What was measured, as a sentence without a period. May contain text from a file.
fn text(hit: &Hit, trace: &Trace, thresholds: &Thresholds) -> String {
    let device = device(hit, trace);
    let share = percent(hit.measured);
    let amount = format::duration(hit.amount);
    let names = hit.names.iter().filter(|name| !name.is_empty()).map(String::as_str).collect::<Vec<_>>().join(", ");
    let most = if names.is_empty() { String::new() } else { format!("; most in {names}") };
    let per_step = per_step(hit);
    let waits = |why: &str| format!("{device} waits {share} of the time {why}: {amount}{per_step}{most}");
    let count = format::count(hit.count);
    match hit.rule {
        Rule::LowUtilization => {
            let of = format::duration(hit.of);
            let steps = match hit.n_steps {
                0 => String::new(),
                1 => " in one step".to_owned(),
                n => format!(" in {n} steps"),
            };
            format!("{device} is busy {share} of the time: {amount} of {of}{steps}")
        }
        Rule::DataLoading if hit.device.is_none() => {
            format!("Data loading takes {share} of the time: {amount}{per_step}")
        }
        Rule::DataLoading => waits("for data"),
        Rule::ExposedCommunication => {
            format!("{device} communicates {share} of the time without computing: {amount}{per_step}{most}")
        }
        Rule::LaunchBound => waits("because the host launches no faster than it runs"),
        Rule::Synchronization => waits("because the host waited for it and had nothing queued"),
        Rule::HostBound => waits("while the host runs operators or Python"),
        Rule::ExposedCopies => {
            format!("{device} copies, or waits for calls that copy, {share} of the time: {amount}{per_step}{most}")
        }
        Rule::PageableCopies => {
            let size = format::bytes(thresholds.pageable_bytes as f64);
            let noun = if hit.count == 1 { "copy" } else { "copies" };
            format!(
                "{device}: {count} {noun} of more than {size} from or to pageable memory, {share} of the time: {amount}"
            )
        }
        Rule::Allocator => waits("while device memory is allocated or freed"),
        Rule::ModuleLoad => waits("while code is compiled or loaded"),
        Rule::GarbageCollection => waits("while Python collects garbage"),
        Rule::StepBoundary => waits("between steps"),
        Rule::Dependency => waits("with work of one stream waiting for another"),
        Rule::Blocked => waits("while the host is blocked in the operating system"),
        Rule::DataTime => {
            let of = format::duration(hit.of);
            format!("{device}: in the median step the host loads data for {amount}, and the device works for {of}")
        }
        Rule::TinyKernels => {
            let (all, limit) = (format::count(hit.of as u64), format::duration(thresholds.tiny_kernel_ns));
            format!("{device}: {share} of {all} kernels take less than {limit}{most}")
        }
        Rule::SlowKernels => {
            let limit = format::duration(thresholds.slow_kernel_ns);
            format!("{device}: kernels that take more than {limit} on average have {share} of the kernel time{most}")
        }
        Rule::LongKernel => {
            let of = if hit.n_steps > 0 { "a step" } else { "the time" };
            format!("{device}: one launch of {names} takes {amount}, {share} of {of}")
        }
        Rule::RecurringGap => recurring(hit, &device),
        Rule::MemoryNearlyFull => {
            let [reserved, total] = [hit.amount, hit.of].map(|bytes| format::bytes(bytes as f64));
            format!("{device}: {share} of the memory is reserved at the peak, {reserved} of {total}")
        }
        Rule::Unexplained => waits("and the recording does not say why"),
        Rule::Profiler => waits("for the profiler itself"),
    }
}

fn per_step(hit: &Hit) -> String {
    match hit.n_steps {
        0 => String::new(),
        n => format!(", {} per step", format::duration(hit.amount / n as DurNs)),
    }
}

/// The names are those before and after the gap, the operator and the frame of the host.
fn recurring(hit: &Hit, device: &str) -> String {
    let [prev, next, op, frame] = [0, 1, 2, 3].map(|i| hit.names.get(i).map_or("", String::as_str));
    let at = match (op, frame) {
        ("", "") => String::new(),
        ("", place) | (place, "") => format!(", host in {place}"),
        (op, frame) => format!(", host in {op} at {frame}"),
    };
    format!(
        "{device}: the gap between {prev} and {next} comes back in {} of {} steps and takes {} of a step: {}{at}",
        hit.count,
        hit.n_steps,
        percent(hit.measured),
        format::duration(hit.amount),
    )
}

/// What one rule measured, beside its threshold.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    pub rank: Option<u32>,
    pub check: Check,
    pub levels: Levels,
}

impl Checked {
    /// All checks of a trace.
    pub fn all(verdicts: &Verdicts, trace: &Trace, thresholds: &Thresholds) -> Vec<Self> {
        let checked = |&check: &Check| Self { rank: trace.info.rank, check, levels: check.rule.levels(thresholds) };
        verdicts.checks.iter().map(checked).collect()
    }

    /// The rule, what it measured, and where findings begin: `GPU 0, Data loading: 1.2 % (below 5.0 % is fine)`.
    pub fn text(&self) -> String {
        let rank = self.rank.map(|rank| format!("Rank {rank}, ")).unwrap_or_default();
        let device = self.check.device.map(|device| format!("GPU {device}, ")).unwrap_or_default();
        let (rule, measured) = (self.check.rule.label(), value(self.check.measured, unit(self.check.rule)));
        format!("{rank}{device}{rule}: {measured} ({} is fine)", self.limit())
    }

    fn threshold(&self) -> f64 {
        let Levels { warn, .. } = self.levels;
        if self.check.rule == Rule::LowUtilization { warn.unwrap_or_default() } else { self.levels.first() }
    }

    fn limit(&self) -> String {
        let sign = if self.check.rule == Rule::LowUtilization { "at least" } else { "below" };
        format!("{sign} {}", value(self.threshold(), unit(self.check.rule)))
    }
}

/// Every rule that was applied, whatever it found.
pub fn checks() -> Part<Checked> {
    let figures = figures! { row: Checked;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::number(row.check.device), "Index of the device";
        words "rule", "Rule", 130, Cell::name(row.check.rule.key()), "What was judged";
        number "measured", "Measured", 0, Cell::Plain(row.check.measured), "The measured value";
        number "threshold", "Threshold", 0, Cell::Plain(row.threshold()), "Where findings begin";
        words "shown", "Measured", 90, Cell::name(&value(row.check.measured, unit(row.check.rule))), "The measured value";
        words "limit", "Limit", 90, Cell::name(&row.limit()), "Where findings begin";
    };
    Part::new("checks", "Checked", figures)
        .report("rank device rule shown limit")
        .json("rank device rule measured threshold")
}
