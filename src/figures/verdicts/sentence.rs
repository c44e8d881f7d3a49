//! The sentence of each rule's measurement.

use super::clip::{clipped, clipped_apart};
use super::communication::{late_rank, small_collectives, waiting};
use super::nearly_full::nearly_full;
use super::notes::data_time;
use super::why::{is_launched, why, why_of};
use super::{Judged, percent};
use crate::analysis::finding::Unit;
use crate::analysis::gaps::GapClass;
use crate::analysis::rules::{
    Also, Basis, CallSite, Groups, Hit, Irregular, Lengths, NoWork, Once, Part as StepPart, RecordingCost, Recurring,
    Rule, Thresholds, Trend,
};
use crate::figures::findings::value;
use crate::figures::format;
use crate::model::DurNs;

/// A call, and where it was made: `cudaStreamSynchronize in aten::item at train.py(7): main`.
pub(super) fn place(site: &CallSite) -> String {
    let [operator, frame] = [&site.operator, &site.frame].map(|name| clipped(name));
    let operator = if operator.is_empty() { operator } else { format!(" in {operator}") };
    let frame = if frame.is_empty() { frame } else { format!(" at {frame}") };
    format!("{}{operator}{frame}", clipped(&site.call))
}

/// What was measured, as a sentence without a period. May contain text from a file.
pub(super) fn text(hit: &Hit, of: &Judged<'_>, thresholds: &Thresholds) -> String {
    let device = if hit.rule == Rule::IncompleteRecording { of.recording() } else { of.device(hit.device) };
    let share = percent(hit.measured);
    let scope = scope(hit);
    let amount = format::duration(hit.amount);
    let names = match &hit.sites[..] {
        [] => clipped_apart(&hit.names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect::<Vec<_>>()),
        sites => sites.iter().map(place).collect(),
    };
    let names = names.join(", ") + &inside(hit);
    // Pauses between calls that load are no time of these calls.
    let place = if hit.rule == Rule::ModuleLoad && hit.is_inferred() { "around" } else { "in" };
    let most = if names.is_empty() { origins(hit) } else { format!("; most {place} {names}{}", origins(hit)) };
    let per_step = per_step(hit);
    let waits = |why: &str| format!("{device} waits {share} {scope} {why}: {amount}{per_step}{most}");
    let count = format::count(hit.count);
    match hit.rule {
        Rule::LowUtilization => format!("{device} is busy {share} {scope}: {amount} of {}", format::duration(hit.of)),
        Rule::DataLoading if hit.device.is_none() => {
            format!("Data loading takes {share} {scope}: {amount}{per_step}")
        }
        Rule::ExposedCommunication => {
            let waiting = waiting(hit);
            format!("{device} communicates {share} {scope} without computing: {amount}{per_step}{waiting}{most}")
        }
        Rule::LateRank => late_rank(hit, &device),
        Rule::CollectiveCalls if hit.device.is_none() => {
            format!("{device} spends {share} {scope} in collectives and ranges named after some: {amount}{per_step}")
        }
        Rule::Synchronization if hit.device.is_none() => {
            format!("{device} waits {share} {scope} for the device: {amount}{per_step}")
        }
        Rule::CollectiveCalls => {
            let (waiting, why) = (waiting(hit), why(hit.rule).unwrap_or_default());
            format!("{device} waits {share} {scope} {why}: {amount}{per_step}{waiting}{most}")
        }
        Rule::SmallCollectives => small_collectives(hit, &device),
        Rule::ExposedCopies => {
            format!("{device} copies, or waits for calls that copy, {share} {scope}: {amount}{per_step}{most}")
        }
        Rule::PageableCopies => {
            let most = if hit.sites.is_empty() { "" } else { &most };
            let size = format::bytes(thresholds.pageable_bytes as f64);
            let noun = if hit.count == 1 { "copy" } else { "copies" };
            format!(
                "{device}: {count} {noun} of more than {size} from or to pageable memory, {share} {scope}: \
                 {amount}{most}"
            )
        }
        Rule::DataTime => format!("{device}: in {}", data_time((hit.amount, hit.of))),
        _ => why_of(hit).map_or_else(|| other_text(hit, thresholds, &device, &names, &most), waits),
    }
}

/// What the host is in while data is loaded, where the place is a function of the program: `, there in <built-in
/// function sleep>`.
fn inside(hit: &Hit) -> String {
    let name = hit.names.first().filter(|_| hit.rule == Rule::DataLoading && !hit.sites.is_empty());
    let is_told = |name: &&String| hit.sites.iter().any(|site| [&site.call, &site.frame].contains(name));
    name.filter(|name| !is_told(name)).map_or_else(String::new, |name| format!(", there in {}", clipped(name)))
}

/// Where the work after the gaps was launched, with shares of the time of the hit.
fn origins(hit: &Hit) -> String {
    let share = |ns: DurNs| percent(ns as f64 / hit.amount.max(1) as f64);
    let named = hit.origins.iter().map(|(origin, ns)| format!("{} ({})", clipped(origin), share(*ns)));
    let named = named.collect::<Vec<_>>().join(", ");
    if named.is_empty() { named } else { format!("; the work that it waits for is launched in {named}") }
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
            format!(
                "{device}: kernels that take more than {limit} on average have {share} of the compute kernel time{most}"
            )
        }
        Rule::LongKernel => {
            let of = if hit.n_steps > 0 { "of a step" } else { &scope };
            format!("{device}: one launch of {names} takes {amount}, {share} {of}")
        }
        Rule::Fp32Matmul => format!(
            "{device}: {count} matrix products in fp32 without tensor cores take {share} {scope}: \
             {amount}{per_step}{most}"
        ),
        Rule::Elementwise => format!(
            "{device}: {count} kernels of single elementwise operators take {share} {scope}: {amount}{per_step}{most}"
        ),
        Rule::StepwiseAttention => format!(
            "{device}: {count} softmaxes between batched matrix products, with these, take {share} {scope}: \
             {amount}{per_step}: attention is computed step by step"
        ),
        Rule::IrregularSteps => {
            format!("{device}: {}", hit.irregular.as_ref().map(irregular).unwrap_or_default())
        }
        Rule::Recording => recording(hit, device),
        Rule::RecurringGap => {
            format!("{device}: {}", hit.recurring.as_ref().map(|gap| recurring(gap, hit.measured)).unwrap_or_default())
        }
        Rule::MemoryNearlyFull => nearly_full(hit, device, &share),
        Rule::IncompleteRecording => {
            format!("{device} holds about {share} of its events: no verdict about time rests on it")
        }
        Rule::NoDeviceWork => no_work(&hit.no_work),
        _ => String::new(),
    }
}

/// A part of the time of a step.
pub(super) fn part_of(part: StepPart) -> String {
    match part {
        StepPart::Compute => "compute".to_owned(),
        StepPart::Communication => "communication without compute".to_owned(),
        StepPart::Copies => "copies without compute".to_owned(),
        StepPart::Idle(class) => format!("idle time ({})", class.label()),
        StepPart::NotBegun => "time before its first work".to_owned(),
    }
}

/// Which steps, how long the one is that differs most, and in what.
fn irregular(of: &Irregular) -> String {
    if let Some(trend) = &of.trend {
        return self::trend(trend, of);
    }
    if let Some(groups) = &of.groups {
        return self::groups(groups, of);
    }
    let n = of.steps.len();
    let step = of.steps.first().map(|name| clipped(name)).unwrap_or_default();
    let others = match n {
        0 | 1 => String::new(),
        2 => " (1 more step stands out)".to_owned(),
        n => format!(" ({} more steps stand out)", format::count(n as u64 - 1)),
    };
    let [step_ns, median, part_ns, usual] =
        [of.step_ns, of.median_ns, of.part_ns, of.median_part_ns].map(format::duration);
    let part = part_of(of.part);
    let [short, long] = [of.step_ns.min(of.median_ns), of.step_ns.max(of.median_ns)];
    let ratio = value(long as f64 / short.max(1) as f64, Unit::Ratio);
    let than = match of.step_ns < of.median_ns {
        true => format!("; the median step takes {ratio} as long, {median}"),
        false => format!(", {ratio} the median step of {median}"),
    };
    let most = most_of(of);
    format!(
        "{step} takes {step_ns}{than}{others}; {most} of the difference is {part}: {part_ns}, in the median step {usual}"
    )
}

fn most_of(of: &Irregular) -> &'static str {
    if of.is_most { "most" } else { "the largest part" }
}

/// How many steps take how long, from where on if they are one after the other, and what the longer ones have more of.
fn groups(groups: &Groups, of: &Irregular) -> String {
    let Groups { longer, shorter, jump } = groups;
    let [n, n_longer, n_shorter] =
        [longer.n_steps + shorter.n_steps, longer.n_steps, shorter.n_steps].map(|n| format::count(n as u64));
    let [long, short] = [longer, shorter].map(length);
    let steps = match jump {
        Some((from, true)) => {
            format!("from {} on {n_longer} of {n} steps take {long}, before that {short}", clipped(from))
        }
        Some((from, false)) => {
            format!("from {} on {n_shorter} of {n} steps take {short}, before that {long}", clipped(from))
        }
        None => format!("{n_longer} of {n} steps take {long}, the others {short}"),
    };
    let more = format::duration(of.part_ns - of.median_part_ns);
    let more = match of.part {
        StepPart::Idle(GapClass::DataLoading) => format!("wait for data {more} more"),
        part => format!("have {more} more {}", part_of(part)),
    };
    let part = if of.is_most { "" } else { ", the largest part of the difference" };
    format!("{steps}; the longer ones {more}{part}")
}

/// How long the steps of a group take: `about 42 ms` of the median one, or from where to where.
fn length(of: &Lengths) -> String {
    let Lengths { n_steps, least_ns, median_ns, most_ns } = *of;
    let [least, median, most] = [least_ns, median_ns, most_ns].map(format::duration);
    match most_ns - least_ns <= median_ns / 10 {
        true if n_steps == 1 => median,
        true => format!("about {median}"),
        false => format!("{least} to {most}"),
    }
}

/// From where to where steps grow or shrink, by how much each, and in what.
fn trend(trend: &Trend, of: &Irregular) -> String {
    let Trend { n_steps, ns_per_step, first, first_ns, last, last_ns } = trend;
    let way = if *ns_per_step > 0 { "longer and longer" } else { "less and less" };
    let sign = if *ns_per_step > 0 { "more" } else { "less" };
    let [first, last] = [first, last].map(|name| clipped(name));
    let [first_ns, last_ns, each, part_first, part_last] =
        [*first_ns, *last_ns, ns_per_step.abs(), of.median_part_ns, of.part_ns].map(format::duration);
    format!(
        "steps take {way}: {first_ns} in {first}, {last_ns} in {last}, {each} {sign} with each over {}; {} of the \
         difference is {}: {part_first} and {part_last}",
        format::steps(*n_steps),
        most_of(of),
        part_of(of.part)
    )
}

/// How much longer a device waits because of how many frames and operators.
fn recording(hit: &Hit, device: &str) -> String {
    let RecordingCost { frames, operators, ns, most_ns } = hit.recording.unwrap_or_default();
    let recorded = [(frames, "Python frames"), (operators, "operators")];
    let recorded = recorded.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", format::count(*n)));
    format!(
        "{device} waits about {}, {} {}, only because the recording slows the host down: {} were recorded",
        format::rough_duration(ns, most_ns),
        rough_percent(ns, most_ns, hit.of),
        scope(hit),
        recorded.collect::<Vec<_>>().join(" and "),
    )
}

/// An estimated part of some time: `50 to 90 %`, `50 % or more`.
fn rough_percent(least: DurNs, most: Option<DurNs>, of: DurNs) -> String {
    let percent = |ns: DurNs| (100.0 * ns as f64 / of.max(1) as f64).round();
    match most {
        Some(most) => format!("{} to {} %", percent(least), percent(most)),
        None => format!("{} % or more", percent(least)),
    }
}

fn no_work(found: &NoWork) -> String {
    if found.counted > 0 {
        let kernels = format::of_things(found.counted, "kernel");
        return format!("When the GPU worked was not recorded, only what hardware counters counted for {kernels}");
    }
    let why = if found.launches > 0 {
        format!("the program launched work {} times, most by {}", format::count(found.launches), clipped(&found.call))
    } else {
        format!("{} ran: {} of its ranges are there", found.library, format::count(found.ranges))
    };
    format!("No GPU work was recorded, although {why}")
}

/// What the share of a hit is of: `of the time in 4 steps`.
pub(super) fn scope(hit: &Hit) -> String {
    scope_of(hit.basis, hit.n_steps)
}

/// The same for judged time.
pub fn scope_of(basis: Basis, n_steps: usize) -> String {
    match (basis, n_steps) {
        (Basis::Range, _) => "of the selected time".to_owned(),
        (Basis::RangeOfWork, _) => "of the selected time between its first and last work".to_owned(),
        (Basis::ChosenStep, _) => "of the selected step".to_owned(),
        (Basis::Steps, 1) => "of the time in one step".to_owned(),
        (Basis::Steps, n) => format!("of the time in {n} steps"),
        (Basis::AfterStartUp, _) => "of the time after start-up".to_owned(),
        (Basis::StartUp, _) => {
            "of the time between its first and last work, all before the time that is judged".to_owned()
        }
        (Basis::Work, _) => "of the time between its first and last work".to_owned(),
        (Basis::All, _) => "of the recording".to_owned(),
    }
}

/// What an amount is in a step, or in which step it is.
pub(super) fn per_step(hit: &Hit) -> String {
    if let Some(Once { step, ns, also: other, .. }) = &hit.once {
        let part = if *ns < hit.amount { format!(", {} of it", format::duration(*ns)) } else { String::new() };
        return match also(other) {
            Some(also) => format!("{part}, in {}, {also}", clipped(step)),
            None => format!("{part}, once, in {}", clipped(step)),
        };
    }
    match hit.n_steps {
        0 | 1 => String::new(),
        n => format!(", {} per step", format::duration(hit.amount / n as DurNs)),
    }
}

/// Where else the recording shows the same; `None` if nowhere.
pub fn also(also: &Also) -> Option<String> {
    let [first, more @ ..] = &also.steps[..] else { return None };
    let first = clipped(first);
    let (steps, verb) = match more.len() {
        0 => (format!("{first}, which"), "is"),
        n => (format!("{first} and {} more, which", format::steps(n)), "are"),
    };
    let every = also.every.map(|n| format!(": every {} step", ordinal(n))).unwrap_or_default();
    Some(format!("also in {steps} {verb} not judged{every}"))
}

fn ordinal(n: usize) -> String {
    let suffix = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
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
        host(gap, Rule::RecurringGap),
    )
}

pub(super) fn between(gap: &Recurring) -> String {
    format!("gap between {} comes back", clipped_apart(&[&gap.prev, &gap.next]).join(" and "))
}

/// Where the host is meanwhile; where the work after the gap was launched before it, in what.
pub(super) fn host(gap: &Recurring, rule: Rule) -> String {
    let [op, frame] = [&gap.op, &gap.frame].map(|name| clipped(name));
    let is_in = if is_launched(rule) { "before work launched in" } else { "host in" };
    match (op.as_str(), frame.as_str()) {
        ("", "") => String::new(),
        ("", place) | (place, "") => format!(", {is_in} {place}"),
        (op, frame) if op == frame => format!(", {is_in} {op}"),
        (op, frame) => format!(", {is_in} {op} at {frame}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_are_not_judged_are_named() {
        let of =
            |steps: &[&str], every| also(&Also { steps: steps.iter().map(|&step| step.to_owned()).collect(), every });
        assert_eq!(of(&[], None), None);
        let one = "also in ProfilerStep#9, which is not judged: every 3rd step";
        assert_eq!(of(&["ProfilerStep#9"], Some(3)).as_deref(), Some(one));
        let two = "also in Step 1 and 1 step more, which are not judged";
        assert_eq!(of(&["Step 1", "Step 2"], None).as_deref(), Some(two));
        assert_eq!([2, 4, 11, 21].map(ordinal), ["2nd", "4th", "11th", "21st"]);
    }
}
