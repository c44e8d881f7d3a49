//! Findings about time in words: what was measured, and what to do about it.

use super::advice::{Case, advice};
use super::findings::value;
use super::{Cell, Part, figures, format};
use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::rules::{
    Basis, Check, Hit, Irregular, Kind, Levels, Missing, NoWork, Part as StepPart, Recurring, Rule, SmallCollectives,
    SyncSite, Thresholds, Verdicts, Window,
};
use crate::model::{DurNs, Severity, Trace};

/// Ranks whose steps are at most this share shorter than the longest are as slow as the slowest.
const EQUALLY_SLOW: f64 = 0.01;
/// Most letters of a name in a sentence: those of Tensile's kernels have hundreds.
const MAX_NAME: usize = 60;

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
/// Hits of one rule on several ranks, or several devices of one trace, are one finding about the worst of them. Its
/// ceiling is that of the job; see `ceiling`.
pub fn findings(traces: &[Judged<'_>], thresholds: &Thresholds) -> Vec<(usize, Finding)> {
    let mut hits: Vec<(usize, &Hit)> = Vec::new();
    for (i, judged) in traces.iter().enumerate() {
        hits.extend(judged.verdicts.hits.iter().map(|hit| (i, hit)));
    }
    let worst = |hit: &Hit| if hit.rule.is_low() { -hit.measured } else { hit.measured };
    hits.sort_by(|a, b| (b.1.severity.cmp(&a.1.severity)).then(worst(b.1).total_cmp(&worst(a.1))));
    let is_alike = |a: (usize, &Hit), b: (usize, &Hit)| {
        a.1.rule == b.1.rule && (is_other_rank(traces, a.0, b.0) || a.0 == b.0 && a.1.device != b.1.device)
    };
    let mut groups: Vec<Vec<(usize, &Hit)>> = Vec::new();
    for hit in hits {
        match groups.iter_mut().find(|group| group.iter().all(|&other| is_alike(other, hit))) {
            Some(group) => group.push(hit),
            None => groups.push(vec![hit]),
        }
    }
    let worded = |group: &Vec<(usize, &Hit)>| {
        let (i, hit) = group[0];
        let mut finding = finding(hit, &traces[i], thresholds);
        if let Some(Gain { ns, rank, device }) = ceiling(traces, i, hit) {
            finding.ceiling_ns_per_step = Some(ns);
            if (rank, device) != (traces[i].trace.info.rank, hit.device) {
                let slowest = self::device(device, rank);
                let note = format!("Ending it gains the slowest, {slowest}, at most {} per step", format::duration(ns));
                finding.evidence.notes.push(note);
            }
        }
        let shares: Vec<f64> = group[1..].iter().map(|(_, hit)| hit.measured).collect();
        if let Some(min) = shares.iter().copied().reduce(f64::min) {
            let max = shares.iter().copied().fold(min, f64::max);
            let [min, max] = [min, max].map(|share| value(share, unit(hit.rule)));
            let range = if min == max { min } else { format!("{min} to {max}") };
            let noun = if shares.len() == 1 { "device" } else { "devices" };
            finding.text += &format!("; {} more {noun} likewise, {range}", shares.len());
        }
        let amount = finding.ceiling_ns_per_step.unwrap_or(hit.amount);
        ((finding.severity, amount), (i, finding))
    };
    let mut found: Vec<_> = groups.iter().map(worded).collect();
    found.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Whether two traces are of different ranks of one job.
fn is_other_rank(traces: &[Judged<'_>], a: usize, b: usize) -> bool {
    let [a, b] = [a, b].map(|i| traces[i].trace.info.rank);
    a.is_some() && b.is_some() && a != b
}

/// What ending a cause gains one device per step at most, with its rank and its index.
#[derive(Clone, Copy)]
struct Gain {
    ns: DurNs,
    rank: Option<u32>,
    device: Option<u32>,
}

/// What ending the cause of a hit gains the job per step at most, with the rank and the device that it is of: what it
/// gains the slowest rank, since faster ones wait for that. Of devices that are equally slow it is the most that one of
/// them gains, never their sum.
fn ceiling(traces: &[Judged<'_>], of: usize, hit: &Hit) -> Option<Gain> {
    hit.ceiling_ns_per_step?;
    let peers = (0..traces.len()).filter(|&i| i == of || is_other_rank(traces, of, i));
    let mut all: Vec<(DurNs, Gain)> = Vec::new();
    for Judged { trace, verdicts, .. } in peers.map(|i| &traces[i]) {
        for check in verdicts.checks.iter().filter(|check| check.rule == hit.rule) {
            let window = verdicts.windows.iter().find(|window| window.device == check.device);
            let ns = check.ceiling_ns_per_step.unwrap_or_default();
            let gain = Gain { ns, rank: trace.info.rank, device: check.device };
            all.extend(window.and_then(Window::step_ns).map(|step| (step, gain)));
        }
    }
    let slowest = all.iter().map(|&(step, _)| step).max()?;
    let is_slow = |(step, _): &(DurNs, Gain)| *step as f64 >= slowest as f64 * (1.0 - EQUALLY_SLOW);
    all.into_iter().filter(is_slow).map(|(_, gain)| gain).max_by_key(|gain| gain.ns)
}

/// The objects that a hit is about, each once.
fn names(hit: &Hit) -> Vec<String> {
    let sites = hit.sync_sites.iter().flat_map(|site| [&site.call, &site.operator, &site.frame]);
    let mut names: Vec<String> = Vec::new();
    for name in sites.chain(&hit.names).filter(|name| !name.is_empty()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// What synchronized, and where: `cudaStreamSynchronize in aten::item at train.py(7): main`.
fn sync_site(site: &SyncSite) -> String {
    let [operator, frame] = [&site.operator, &site.frame].map(|name| clipped(name));
    let operator = if operator.is_empty() { operator } else { format!(" in {operator}") };
    let frame = if frame.is_empty() { frame } else { format!(" at {frame}") };
    format!("{}{operator}{frame}", clipped(&site.call))
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
        default_threshold: default_level(hit),
        unit: unit(hit.rule),
        evidence: Evidence {
            file: Some(of.path.to_owned()),
            range_ns: range.map(|range| [range.start, range.end]),
            device: hit.device,
            names: names(hit),
            notes: notes(hit),
        },
        ceiling_ns_per_step: hit.ceiling_ns_per_step,
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

/// A device and its rank: `Rank 3, GPU 0`.
pub fn device(device: Option<u32>, rank: Option<u32>) -> String {
    let device = device.map_or_else(|| "The host".to_owned(), |device| format!("GPU {device}"));
    match rank {
        Some(rank) => format!("Rank {rank}, {device}"),
        None => device,
    }
}

/// What was measured, as a sentence without a period. May contain text from a file.
fn text(hit: &Hit, trace: &Trace, thresholds: &Thresholds) -> String {
    let device = device(hit.device, trace.info.rank);
    let share = percent(hit.measured);
    let scope = scope(hit);
    let amount = format::duration(hit.amount);
    let names = match &hit.sync_sites[..] {
        [] => hit.names.iter().filter(|name| !name.is_empty()).map(|name| clipped(name)).collect::<Vec<_>>(),
        sites => sites.iter().map(sync_site).collect(),
    };
    let names = names.join(", ");
    let most = if names.is_empty() { String::new() } else { format!("; most in {names}") };
    let per_step = per_step(hit);
    let waits = |why: &str| format!("{device} waits {share} {scope} {why}: {amount}{per_step}{most}");
    let count = format::count(hit.count);
    match hit.rule {
        Rule::LowUtilization => format!("{device} is busy {share} {scope}: {amount} of {}", format::duration(hit.of)),
        Rule::DataLoading if hit.device.is_none() => {
            format!("Data loading takes {share} {scope}: {amount}{per_step}")
        }
        Rule::DataLoading => waits("for data"),
        Rule::ExposedCommunication => {
            format!("{device} communicates {share} {scope} without computing: {amount}{per_step}{most}")
        }
        Rule::CollectiveCalls => waits("while the host is in calls of collectives"),
        Rule::SmallCollectives => small_collectives(hit, &device),
        Rule::LaunchBound => waits("because the host launches no faster than the device runs it"),
        Rule::Synchronization => waits("because the host waited for it and had nothing queued"),
        Rule::HostBound => waits("while the host runs operators, Python or named ranges"),
        Rule::ExposedCopies => {
            format!("{device} copies, or waits for calls that copy, {share} {scope}: {amount}{per_step}{most}")
        }
        Rule::PageableCopies => {
            let size = format::bytes(thresholds.pageable_bytes as f64);
            let noun = if hit.count == 1 { "copy" } else { "copies" };
            format!(
                "{device}: {count} {noun} of more than {size} from or to pageable memory, {share} {scope}: {amount}"
            )
        }
        Rule::Allocator => waits("while device memory is allocated or freed"),
        Rule::ModuleLoad if 2 * hit.shares.inferred_ns > hit.amount => {
            waits("while code is compiled or loaded, probably")
        }
        Rule::ModuleLoad => waits("while code is compiled or loaded"),
        Rule::GarbageCollection => waits("while Python collects garbage"),
        Rule::StepBoundary => waits("where one step ends and the next begins"),
        Rule::Dependency => waits("with work of one stream waiting for another"),
        Rule::Queued => waits("for work that was launched, and nothing recorded says what held it up"),
        Rule::Blocked if 2 * hit.shares.inferred_ns > hit.amount => {
            waits("while the host is off the CPU, probably blocked in the operating system")
        }
        Rule::Blocked => waits("while the host is blocked in the operating system"),
        Rule::DataTime => format!("{device}: in {}", data_time((hit.amount, hit.of))),
        Rule::Unexplained => waits("and nothing was recorded of what the host did"),
        Rule::Profiler => waits("for the profiler itself"),
        _ => other_text(hit, thresholds, &device, &names, &most),
    }
}

/// The same for what is not idle time.
fn other_text(hit: &Hit, thresholds: &Thresholds, device: &str, names: &str, most: &str) -> String {
    let (share, scope, per_step) = (percent(hit.measured), scope(hit), per_step(hit));
    let (amount, count) = (format::duration(hit.amount), format::count(hit.count));
    match hit.rule {
        Rule::TinyKernels => {
            let (all, limit) = (format::count(hit.of as u64), format::duration(thresholds.tiny_kernel_ns));
            format!("{device}: {share} of {all} launches of kernels take less than {limit} each{most}")
        }
        Rule::SlowKernels => {
            let limit = format::duration(thresholds.slow_kernel_ns);
            format!("{device}: kernels that take more than {limit} on average have {share} of the kernel time{most}")
        }
        Rule::LongKernel => {
            let of = if hit.n_steps > 0 { "of a step" } else { &scope };
            format!("{device}: one launch of {names} takes {amount}, {share} {of}")
        }
        Rule::Fp32Matmul => format!(
            "{device}: {count} matrix products in fp32 without tensor cores take {share} {scope}: {amount}{per_step}{most}"
        ),
        Rule::Elementwise => format!(
            "{device}: {count} kernels of single elementwise operators take {share} {scope}: {amount}{per_step}{most}"
        ),
        Rule::IrregularSteps => {
            format!("{device}: {}", hit.irregular.as_ref().map(irregular).unwrap_or_default())
        }
        Rule::Recording => recording(hit, device),
        Rule::RecurringGap => {
            format!("{device}: {}", hit.recurring.as_ref().map(|gap| recurring(gap, hit.measured)).unwrap_or_default())
        }
        Rule::MemoryNearlyFull => {
            let [reserved, total] = [hit.amount, hit.of].map(|bytes| format::bytes(bytes as f64));
            format!("{device}: {share} of the memory is reserved at the peak, {reserved} of {total}")
        }
        Rule::IncompleteRecording => {
            format!("The recording holds about {share} of its events: no verdict about time rests on it")
        }
        Rule::NoDeviceWork => no_work(&hit.no_work),
        _ => String::new(),
    }
}

/// How many, how large, and what they cost.
fn small_collectives(hit: &Hit, device: &str) -> String {
    let SmallCollectives { count, total_ns, bytes, exposed_ns, .. } = hit.small_collectives;
    let n = count.max(1);
    let (number, per) = match hit.n_steps as u64 {
        0 => (count, ""),
        n_steps => (count / n_steps, " per step"),
    };
    let (number, share) = (format::count(number), percent(hit.measured));
    let mean = format::duration(total_ns / n as DurNs);
    let size = bytes.map(|bytes| format!(" and {}", format::bytes(bytes as f64 / n as f64)));
    let [amount, exposed, waits] = [hit.amount, exposed_ns, hit.amount - exposed_ns].map(format::duration);
    format!(
        "{device}: {number} small collectives{per}, {mean}{} on average, cost {share} {}: {amount}{}, of it {exposed} to \
         communicate alone, {waits} idle until they are launched",
        size.unwrap_or_default(),
        scope(hit),
        self::per_step(hit),
    )
}

/// Which steps, how long the one is that differs most, and in what.
fn irregular(of: &Irregular) -> String {
    let n = of.steps.len();
    let step = of.steps.first().map(|name| clipped(name)).unwrap_or_default();
    let others = if n > 1 { format!(" ({} more differ as well)", format::count(n as u64 - 1)) } else { String::new() };
    let [step_ns, median, part_ns, usual] =
        [of.step_ns, of.median_ns, of.part_ns, of.median_part_ns].map(format::duration);
    let part = match of.part {
        StepPart::Compute => "compute".to_owned(),
        StepPart::Communication => "communication without compute".to_owned(),
        StepPart::Copies => "copies without compute".to_owned(),
        StepPart::Idle(class) => format!("idle time ({})", class.label().to_lowercase()),
    };
    let [short, long] = [of.step_ns.min(of.median_ns), of.step_ns.max(of.median_ns)];
    let ratio = value(long as f64 / short.max(1) as f64, Unit::Ratio);
    format!(
        "{step} takes {step_ns} and the median step {median} ({ratio}){others}; most of the difference is {part}: \
         {part_ns} and {usual}"
    )
}

/// How many frames, and what they cost.
fn recording(hit: &Hit, device: &str) -> String {
    let frames = format::count(hit.count);
    let time = hit.range.map_or(0, |range| range.dur());
    let every = format::duration(time / hit.count.max(1) as DurNs);
    format!(
        "{device} waits for a host that the recording slows down: {frames} Python frames were recorded, one every {every}, \
         which costs about {} or more, {} {}",
        format::duration(hit.amount),
        percent(hit.measured),
        scope(hit),
    )
}

fn no_work(found: &NoWork) -> String {
    let why = if found.launches > 0 {
        format!("the program launched work {} times, most by {}", format::count(found.launches), clipped(&found.call))
    } else {
        format!("{} ran: {} of its ranges are there", found.library, format::count(found.ranges))
    };
    format!("No GPU work was recorded, although {why}")
}

/// What the share of a hit is of: `of the time in 4 steps`.
fn scope(hit: &Hit) -> String {
    scope_of(hit.basis, hit.n_steps)
}

/// The same for judged time.
pub fn scope_of(basis: Basis, n_steps: usize) -> String {
    match (basis, n_steps) {
        (Basis::Range, _) => "of the selected time".to_owned(),
        (Basis::Steps, 1) => "of the time in one step".to_owned(),
        (Basis::Steps, n) => format!("of the time in {n} steps"),
        (Basis::AfterStartUp, _) => "of the time after start-up".to_owned(),
        (Basis::StartUp, _) => "of the recording, all before the time that is judged".to_owned(),
        (Basis::All, _) => "of the recording".to_owned(),
    }
}

fn per_step(hit: &Hit) -> String {
    match hit.n_steps {
        0 | 1 => String::new(),
        n => format!(", {} per step", format::duration(hit.amount / n as DurNs)),
    }
}

/// What else shows the cause of a hit.
fn notes(hit: &Hit) -> Vec<String> {
    let data = hit.data_time.map(|times| format!("In {}", data_time(times)));
    let gap = hit.recurring.as_ref().filter(|_| hit.rule != Rule::RecurringGap).map(|gap| {
        let (between, ns) = (between(gap), format::duration(gap.ns_per_step));
        format!("The {between} in {} of {}, {ns} per step{}", gap.n_present, format::steps(gap.n_steps), host(gap))
    });
    data.into_iter()
        .chain(gap)
        .chain(bound_of_overlap(hit))
        .chain(of_shares(hit))
        .chain(of_missing(&hit.missing))
        .collect()
}

/// Why overlapping communication gains less than its exposed time, where it does.
fn bound_of_overlap(hit: &Hit) -> Option<String> {
    let n = Some(hit.n_steps as DurNs).filter(|&n| n > 0)?;
    let [communication, step] = [hit.communication_ns, hit.of].map(|ns| format::duration(ns / n));
    (hit.of - hit.communication_ns < hit.amount && hit.communication_ns > 0).then(|| {
        format!(
            "Communication takes {communication} of a step of {step} in all: overlap makes no step shorter than that, only \
             less or faster communication does"
        )
    })
}

/// What the time of a hit consists of, where that is not in its text.
fn of_shares(hit: &Hit) -> Vec<String> {
    let time = |ns: DurNs| Some(format::duration(ns)).filter(|_| ns > 0);
    match hit.rule {
        Rule::ExposedCommunication => time(hit.collective_calls_ns).map(|ns| {
            let share = percent(hit.collective_calls_ns as f64 / hit.of.max(1) as f64);
            format!("The device is idle for another {ns}, {share}, while the host is in calls of collectives")
        }),
        Rule::ModuleLoad => time(hit.shares.inferred_ns).map(|ns| {
            format!(
                "{ns} of it is inferred: first launches of a kernel that last over a millisecond, and pauses of up to \
                 half a second between calls that load"
            )
        }),
        Rule::Blocked => time(hit.shares.inferred_ns).map(|ns| {
            format!("For {ns} of it only the scheduler shows that the thread was off the CPU: no call was recorded")
        }),
        Rule::Unexplained => time(hit.shares.unlaunched_ns)
            .map(|ns| format!("For {ns} of it the call that launched the work after the gap was not recorded")),
        _ => None,
    }
    .into_iter()
    .collect()
}

/// What shows that events are missing.
fn of_missing(missing: &Missing) -> Vec<String> {
    let Missing { launched, launches, operators, calls } = *missing;
    let evidence = [
        (launched, "pieces of GPU work have the call that launched them"),
        (launches, "calls that launch have the work that they launched"),
        (operators, "operators are there, by their numbers"),
        (calls, "API calls are there, by their correlation ids"),
    ];
    let evidence = evidence.into_iter().filter(|((found, of), _)| 2 * found < *of);
    evidence.map(|((found, of), what)| format!("{} of {} {what}", format::count(found), format::count(of))).collect()
}

fn data_time((data, busy): (DurNs, DurNs)) -> String {
    let [data, busy] = [data, busy].map(format::duration);
    format!("the median step the host loads data for {data}, and the device works for {busy}")
}

/// * `share`: of a step.
fn recurring(gap: &Recurring, share: f64) -> String {
    format!(
        "the {} in {} of {} and takes {} of a step: {}{}",
        between(gap),
        gap.n_present,
        format::steps(gap.n_steps),
        percent(share),
        format::duration(gap.ns_per_step),
        host(gap),
    )
}

fn between(gap: &Recurring) -> String {
    format!("gap between {} and {} comes back", clipped(&gap.prev), clipped(&gap.next))
}

/// Where the host is meanwhile.
fn host(gap: &Recurring) -> String {
    let [op, frame] = [&gap.op, &gap.frame].map(|name| clipped(name));
    match (op.as_str(), frame.as_str()) {
        ("", "") => String::new(),
        ("", place) | (place, "") => format!(", host in {place}"),
        (op, frame) => format!(", host in {op} at {frame}"),
    }
}

/// A name short enough for a sentence: of a frame the end, with function and line, of others the start.
pub fn clipped(name: &str) -> String {
    let n = name.chars().count();
    if n <= MAX_NAME {
        return name.to_owned();
    }
    if name.contains(".py(") || name.contains(".py:") {
        return format!("\u{2026}{}", name.chars().skip(n - MAX_NAME).collect::<String>());
    }
    format!("{}\u{2026}", name.chars().take(MAX_NAME).collect::<String>())
}

/// What one rule measured, beside its threshold.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    pub rank: Option<u32>,
    pub check: Check,
    pub levels: Levels,
    /// As they are unless they are set.
    pub defaults: Levels,
}

impl Checked {
    /// All checks of a trace.
    pub fn all(verdicts: &Verdicts, trace: &Trace, thresholds: &Thresholds) -> Vec<Self> {
        let defaults = Thresholds::default();
        let checked = |&check: &Check| Self {
            rank: trace.info.rank,
            check,
            levels: check.rule.levels(thresholds),
            defaults: check.rule.levels(&defaults),
        };
        verdicts.checks.iter().map(checked).collect()
    }

    /// The rule, what it measured, and where findings begin: `GPU 0, Data loading: 1.2 % (below 5.0 % is fine)`.
    pub fn text(&self) -> String {
        let rank = self.rank.map(|rank| format!("Rank {rank}, ")).unwrap_or_default();
        let device = self.check.device.map(|device| format!("GPU {device}, ")).unwrap_or_default();
        let (rule, measured) = (self.check.rule.label(), value(self.check.measured, unit(self.check.rule)));
        format!("{rank}{device}{rule}: {measured} ({} is fine)", self.limit())
    }

    /// Where findings begin.
    fn threshold(&self) -> f64 {
        self.first(&self.levels)
    }

    /// The same by default, if it was changed.
    fn default_threshold(&self) -> Option<f64> {
        Some(self.first(&self.defaults)).filter(|default| default.to_bits() != self.threshold().to_bits())
    }

    fn first(&self, levels: &Levels) -> f64 {
        if self.check.rule.is_low() { levels.warn.unwrap_or_default() } else { levels.first() }
    }

    fn limit(&self) -> String {
        let sign = if self.check.rule.is_low() { "at least" } else { "below" };
        format!("{sign} {}", level(self.threshold(), self.default_threshold(), unit(self.check.rule)))
    }
}

/// A level, and what it is by default if that is something else: `3.0 % (5.0 % by default)`.
pub fn level(level: f64, default: Option<f64>, unit: Unit) -> String {
    let default = default.map_or_else(String::new, |default| format!(" ({} by default)", value(default, unit)));
    format!("{}{default}", value(level, unit))
}

/// A threshold with its unit.
pub fn limit_text(limit: f64, kind: Kind) -> String {
    match kind {
        Kind::Share => value(limit, Unit::Share),
        Kind::Ratio => value(limit, Unit::Ratio),
        Kind::Count => value(limit, Unit::Count),
        Kind::Time => format::duration(limit as DurNs),
        Kind::Bytes => value(limit, Unit::Bytes),
    }
}

/// The time of one device that was judged.
#[derive(Clone, Debug)]
pub struct JudgedTime<'a> {
    pub rank: Option<u32>,
    pub window: &'a Window,
    /// What divides the recording into steps; empty without steps.
    pub source: String,
    /// Of the trace on the session clock.
    pub offset: DurNs,
}

impl JudgedTime<'_> {
    fn share(&self) -> f64 {
        self.window.time.dur() as f64 / self.window.whole.dur().max(1) as f64
    }

    fn n_steps(&self) -> usize {
        self.window.steps.len()
    }

    fn words(&self) -> String {
        match self.window.basis {
            Basis::Range => "the selected time".to_owned(),
            Basis::Steps => format!("{} by {}", format::steps(self.n_steps()), self.source),
            Basis::AfterStartUp => "after start-up; no steps were found".to_owned(),
            Basis::StartUp => "start-up".to_owned(),
            Basis::All => "everything, start-up included; no steps were found".to_owned(),
        }
    }
}

/// Which time of each device the rules judged.
pub fn judged<'a>() -> Part<JudgedTime<'a>> {
    let figures = figures! { row: JudgedTime<'a>;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::number(row.window.device), "Index of the device";
        words "basis", "By", 90, Cell::name(row.window.basis.key()),
            "range, steps (those that count), after_start_up, or all";
        words "shown", "What was judged", 200, Cell::name(&row.words()), "Which time the rules judged";
        number "start_ns", "Start", 96, Cell::Ns(row.window.time.start.saturating_add(row.offset)),
            "When it begins, from the start of the session";
        number "dur_ns", "Duration", 90, Cell::Ns(row.window.time.dur()), "How long it is";
        number "share", "Share", 70, Cell::Share(row.share()),
            "Share of the time from the first to the last work of the device";
        number "steps", "Steps", 60,
            Cell::or_empty((row.n_steps() > 0).then_some(row.n_steps() as u64), Cell::Count), "Steps in it";
        number "start_up_ns", "Start-up", 90, Cell::or_empty(row.window.start_up(), |time| Cell::Ns(time.dur())),
            "Left out before it: until the last of the kernels that repeat runs for the first time";
    };
    Part::new("judged", "Judged time", figures)
        .report("rank device shown start_ns dur_ns share steps start_up_ns")
        .json("rank device basis start_ns dur_ns share steps start_up_ns")
}

/// Every rule that was applied, whatever it found.
pub fn checks() -> Part<Checked> {
    let figures = figures! { row: Checked;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::number(row.check.device), "Index of the device";
        words "rule", "Rule", 130, Cell::name(row.check.rule.key()), "What was judged";
        number "measured", "Measured", 0, Cell::Plain(row.check.measured), "The measured value";
        number "threshold", "Threshold", 0, Cell::Plain(row.threshold()), "Where findings begin";
        number "default_threshold", "Default", 0, Cell::or_empty(row.default_threshold(), Cell::Plain),
            "Where findings begin by default, if that was changed";
        words "shown", "Measured", 90, Cell::name(&value(row.check.measured, unit(row.check.rule))), "The measured value";
        words "limit", "Limit", 90, Cell::name(&row.limit()), "Where findings begin";
    };
    Part::new("checks", "Checked", figures)
        .report("rank device rule shown limit")
        .json("rank device rule measured threshold default_threshold")
}
