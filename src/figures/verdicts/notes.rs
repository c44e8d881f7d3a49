//! Notes on a finding: further evidence for its cause.

use super::clip::clipped;
use super::percent;
use super::sentence::{between, host, place};
use crate::analysis::rules::{Hit, Joined, Missing, NewShapes, Reach, Rule, StepwiseAttention, Uncached};
use crate::figures::format;
use crate::model::DurNs;

/// What is at least this part of the time of a hit is named: a twentieth.
const LEAST_PART: DurNs = 20;

/// What else shows the cause of a hit.
pub(super) fn notes(hit: &Hit) -> Vec<String> {
    let data = hit.data_time.map(|times| format!("In {}", data_time(times)));
    let gap = hit.recurring.as_ref().filter(|_| hit.rule != Rule::RecurringGap).map(|gap| {
        let [ns, own] = [gap.ns_per_step, gap.of_cause_ns].map(format::duration);
        let own =
            if gap.of_cause_ns < gap.ns_per_step { format!("; {own} of that has this cause") } else { String::new() };
        let steps = format::steps(gap.n_steps);
        format!("The {} in {} of {steps}, {ns} per step{}{own}", between(gap), gap.n_present, host(gap, hit.rule))
    });
    data.into_iter()
        .chain(gap)
        .chain(bound_of_overlap(hit))
        .chain(of_shares(hit))
        .chain(of_saving(hit))
        .chain(of_joined(hit))
        .chain(of_lead(hit))
        .chain(of_optimizer(hit))
        .chain(of_ceiling(hit))
        .chain(of_ahead(hit))
        .chain(of_pace(hit))
        .chain(of_hidden_kernels(hit))
        .chain(of_recording(hit))
        .chain(of_alone(hit))
        .chain(of_usual(hit))
        .chain(of_missing(&hit.missing))
        .collect()
}

/// Why overlapping communication gains less than its exposed time, where it does.
fn bound_of_overlap(hit: &Hit) -> Option<String> {
    if hit.is_between_stages() {
        return Some(
            "Nearly all of it is in sends and receives, as between the stages of a pipeline: a stage waits there for the one \
             before or after it (the bubble of the pipeline), not for the network"
                .to_owned(),
        );
    }
    let n = Some(hit.n_steps as DurNs).filter(|&n| n > 0)?;
    let [communication, step] = [hit.communication_ns, hit.of].map(|ns| format::duration(ns / n));
    let is_bound = hit.of - hit.communication_ns < hit.amount && hit.communication_ns > 0;
    let beyond = hit.beyond_overlap_ns();
    (is_bound || beyond.is_some()).then(|| {
        let most = beyond.map(|ns| format!(", by at most {} per step", format::duration(ns))).unwrap_or_default();
        format!(
            "Communication takes {communication} of a step of {step} in all: overlap alone cannot make a step shorter \
             than that; ranks that arrive together, and less or faster communication, can{most}"
        )
    })
}

/// What the time of a hit consists of, where that is not in its text.
fn of_shares(hit: &Hit) -> Vec<String> {
    let time = |ns: DurNs| Some(format::duration(ns)).filter(|_| ns > 0);
    match hit.rule {
        Rule::ExposedCommunication => time(hit.collective_calls_ns).map(|ns| {
            let share = percent(hit.collective_calls_ns as f64 / hit.of.max(1) as f64);
            format!(
                "The device is idle for another {ns}, {share}, while the host is in calls of collectives, or has not \
                 yet got ahead of the device again after one"
            )
        }),
        Rule::Allocator => hit.uncached.map(|Uncached { allocations, frees }| {
            let [allocations, frees] = [allocations, frees].map(format::count);
            let when = if hit.n_steps > 0 { "Each step" } else { "This time" };
            format!(
                "{when} has about {allocations} allocations and {frees} frees of device memory, between its launches: none \
                 is kept for the next tensor"
            )
        }),
        Rule::LateRank => Some(
            "Waiting is time in a collective in which the device does nothing else. What makes the rank late may have \
             findings of its own: their gain and this one are the same time, seen from two ranks"
                .to_owned(),
        ),
        Rule::StepwiseAttention => {
            let StepwiseAttention { kernels_ns, softmax_ns, total_ns, .. } = hit.attention;
            let share = percent(total_ns as f64 / kernels_ns.max(1) as f64);
            let [softmax, products] = [softmax_ns, total_ns - softmax_ns].map(format::duration);
            Some(format!("That is {share} of the compute kernel time: {softmax} of softmax, {products} of products"))
        }
        Rule::DataLoading => beside_loading(hit),
        Rule::Synchronization => hit.after.as_ref().map(|(site, ns)| {
            format!("After the synchronization the host is in {} for {} of it", place(site), format::duration(*ns))
        }),
        Rule::HostBound => time(hit.new_shapes.total_ns).map(|ns| {
            let NewShapes { calls, operator, shapes, .. } = &hit.new_shapes;
            format!(
                "For {ns} of it operators have an input shape that is new to them, in {} of at least five times \
                 the usual length; most in {} with {}",
                calls_of(*calls),
                clipped(operator),
                clipped(shapes),
            )
        }),
        Rule::ModuleLoad => time(hit.shares.inferred_ns).map(|ns| {
            let waits = hit
                .waits_in
                .as_ref()
                .map(|(call, ns)| format!("; for {} of that the host is in {}", format::duration(*ns), clipped(call)));
            format!(
                "{ns} of it is inferred: first launches of a kernel that last over a millisecond, and pauses of up to \
                 half a second between calls that load{}",
                waits.unwrap_or_default()
            )
        }),
        Rule::Blocked => time(hit.shares.inferred_ns).map(|ns| {
            format!("For {ns} of it only the scheduler shows that the thread was off the CPU: no call was recorded")
        }),
        Rule::Unexplained => {
            let unlaunched = time(hit.shares.unlaunched_ns)
                .map(|ns| format!("For {ns} of it the call that launched the work after the gap was not recorded"));
            let on_cpu = time(hit.shares.on_cpu_ns)
                .map(|ns| format!("For {ns} of it the scheduler shows the thread on a CPU: it was busy, not waiting"));
            unlaunched.into_iter().chain(on_cpu).reduce(|all, one| format!("{all}. {one}"))
        }
        _ => None,
    }
    .into_iter()
    .chain(of_copied(hit))
    .collect()
}

/// What else the host does for long in each step.
fn beside_loading(hit: &Hit) -> Option<String> {
    let other = hit.other_in.as_ref()?;
    let ns = format::duration(other.ns / hit.n_steps.max(1) as DurNs);
    Some(format!(
        "Beside that the host is in {} for {ns} per step: with less of it the host would be ahead, and loading hidden",
        clipped(&other.function)
    ))
}

/// That the host is busy with what it copied from the device, or is to copy to it, where that takes most of the time.
fn of_copied(hit: &Hit) -> Option<String> {
    let ns = format::duration(hit.shares.copied_ns);
    let note = "of it the host had just copied data from the device and launched nothing: it works on that data, as \
                where a checkpoint is written";
    let prepared = hit.is_before_copies().then(|| {
        let ns = format::duration(hit.shares.prepared_ns);
        format!(
            "For {ns} of it a copy to the device is what ends it: the host prepares that data, as where it makes a \
                 batch"
        )
    });
    hit.is_after_copies().then(|| format!("For {ns} {note}")).or(prepared)
}

/// That the host writes a checkpoint, where that takes most of the time.
fn of_saving(hit: &Hit) -> Option<String> {
    let ns = format::duration(hit.shares.saves_ns);
    let is_nearly_all = hit.amount - hit.shares.saves_ns < hit.amount / LEAST_PART;
    (hit.is_saving() && !is_nearly_all).then(|| format!("For {ns} of it the host writes a checkpoint"))
}

/// Why ending the cause gains less than its time, where it does.
fn of_ceiling(hit: &Hit) -> Option<String> {
    let ceiling = hit.saved_ns().filter(|_| hit.once.is_none() && hit.joined.rules.is_empty())?;
    let n_steps = hit.n_steps.max(1) as DurNs;
    // What few nanoseconds are is lost in rounding.
    let less = hit.amount / n_steps - (ceiling - hit.ahead_ns);
    let is_told = |ns: DurNs| ns > 0 && ns <= less + n_steps;
    let small = is_told(hit.small_ns).then(|| {
        let of = if hit.rule == Rule::ExposedCommunication { "of" } else { "before" };
        format!("{} {of} small collectives, counted in their own finding", format::duration(hit.small_ns))
    });
    let recorder = is_told(hit.recorder_ns)
        .then(|| format!("at least {} that the recorder took", format::duration(hit.recorder_ns)));
    // Between ranks, and where communication cannot all be overlapped, notes of their own tell the rest.
    let rest = less - hit.small_ns - hit.recorder_ns;
    let is_plain = hit.rule.cause().is_some() && hit.alone_ns_per_step.is_none() && hit.waiting.n_ranks == 0;
    let is_plain = is_plain && hit.paced.is_none();
    let rest = (is_plain && ceiling > 0 && rest > n_steps && rest >= less / LEAST_PART)
        .then(|| format!("{} that would remain, such as launch latency", format::duration(rest)));
    let parts: Vec<String> = small.into_iter().chain(recorder).chain(rest).collect();
    let parts = Some(parts.join("; ")).filter(|parts| !parts.is_empty())?;
    Some(match hit.ceiling_ns_per_step {
        Some(_) => format!("Not in the ceiling, per step: {parts}"),
        // Without steps the list of findings has no ceiling.
        None => format!("Ending it saves at most {}: not {parts}", format::duration(ceiling)),
    })
}

/// Why ending the cause gains more than its time, where it does.
fn of_ahead(hit: &Hit) -> Option<String> {
    let ceiling = hit.saved_ns().filter(|_| hit.once.is_none())?;
    let is_told = hit.ahead_ns >= ceiling / LEAST_PART && hit.ahead_ns > 0 && hit.ahead_ns <= ceiling;
    let of = if hit.ceiling_ns_per_step.is_some() { "Of the ceiling, per step" } else { "Of what ending it saves" };
    is_told.then(|| {
        format!(
            "{of}: {} beyond its own time, since the host would be ahead of the device, and what else it does in these \
             gaps would cost nothing",
            format::duration(hit.ahead_ns)
        )
    })
}

/// That the host launches no sooner for less work of the device, where that bounds what is saved.
fn of_pace(hit: &Hit) -> Option<String> {
    let paced = hit.paced.filter(|_| hit.saved_ns().is_some())?;
    let (ns, host) = (format::duration(paced.ns), host_of(paced));
    let per_step = if hit.n_steps > 0 { " per step" } else { "" };
    let what = if hit.rule == Rule::ExposedCommunication { "communication" } else { "copies" };
    Some(format!(
        "Without {what} the device would be done at most {ns} sooner{per_step}: then it waits for {host} to launch more"
    ))
}

/// The host that a device waits for where less work of the device saves less than its time.
pub fn host_of(reach: Reach) -> &'static str {
    if reach.is_slowed { "the host, which the recorder slows here," } else { "the host" }
}

/// How much longer the recorder makes the steps in all.
fn of_recording(hit: &Hit) -> Option<String> {
    let cost = hit.recording.filter(|_| hit.rule != Rule::Recording && hit.ceiling_ns_per_step.is_some())?;
    let all = format::rough_duration(cost.ns, cost.most_ns);
    Some(format!("The recorder makes each recorded step about {all} longer, a part of that here"))
}

/// `ranks 2, 5 and 7`.
pub fn ranks_of(ranks: &[u32]) -> String {
    let names: Vec<String> = ranks.iter().map(u32::to_string).collect();
    match names.split_last() {
        Some((last, first)) if !first.is_empty() => format!("ranks {} and {last}", first.join(", ")),
        _ => format!("rank {}", names.join("")),
    }
}

/// How much of the time of kernels no other kernel runs beside, where that is less.
fn of_hidden_kernels(hit: &Hit) -> Option<String> {
    let is_of_kernels = matches!(hit.rule, Rule::Fp32Matmul | Rule::Elementwise | Rule::StepwiseAttention);
    (is_of_kernels && hit.exposed_ns < hit.amount).then(|| {
        let (ns, per_step) = match hit.n_steps as DurNs {
            0 => (hit.exposed_ns, ""),
            n => (hit.exposed_ns / n, " per step"),
        };
        let ns = format::duration(ns);
        format!("No other kernel runs beside them for {ns}{per_step}: fewer or faster ones save no more")
    })
}

/// What ending it on the one rank gains, where that is less than on all.
fn of_alone(hit: &Hit) -> Option<String> {
    if hit.ceiling_ns_per_step == Some(0) {
        return Some("Ending it saves the job nothing: this rank would wait as long for others instead".to_owned());
    }
    let ns = hit.alone_ns_per_step?;
    if let Some(late) = &hit.late {
        let (saves, others) = (format::duration(ns), ranks_of(&late.also_late));
        let come = if late.also_late.len() == 1 { "comes" } else { "come" };
        return Some(format!(
            "Ending it on this rank alone saves another one at most {saves} per step: {others} {come} late as well, and \
             the ceiling is of all of them"
        ));
    }
    if ns == 0 {
        return Some("Ending it on this rank alone saves the job nothing: no other rank waits for it".to_owned());
    }
    let ns = format::duration(ns);
    Some(format!("Ending it on this rank alone saves the job at most {ns} per step: the others wait for it that long"))
}

/// What ending it gains in most steps, where few steps have much more of it.
fn of_usual(hit: &Hit) -> Option<String> {
    let usual = hit.usual_ns_per_step.filter(|&ns| hit.ceiling_ns_per_step.is_some_and(|all| ns < all))?;
    Some(format!(
        "Without the few steps in which it takes much longer, ending it saves at most {} per step",
        format::duration(usual)
    ))
}

/// How much of the time of data or of calls of collectives is after these, where that is enough to count.
fn of_lead(hit: &Hit) -> Option<String> {
    let (over, wait) = match hit.rule {
        Rule::DataLoading => ("the data had arrived", "that wait"),
        Rule::CollectiveCalls => ("these calls had returned", "them"),
        _ => return None,
    };
    let is_large = hit.shares.lead_ns * LEAST_PART >= hit.amount && hit.shares.lead_ns > 0;
    is_large.then(|| {
        let ns = format::duration(hit.shares.lead_ns);
        format!(
            "Of all its time {ns} is after {over}: the host lost its lead over the device in {wait} and had not yet regained it"
        )
    })
}

/// What else is of the same cause.
fn of_joined(hit: &Hit) -> Option<String> {
    let Joined { rules, irregular } = &hit.joined;
    let named = |(rule, ns): &(Rule, DurNs)| format!("{} in \"{}\"", format::duration(*ns), rule.label());
    let others: Vec<String> = rules.iter().map(named).collect();
    let others = match others.is_empty() {
        true => None,
        false => Some(format!("Of the same cause, and no findings of their own: {}", others.join(", "))),
    };
    let step = irregular.as_ref().map(|of| {
        let [step, median] = [of.step_ns, of.median_ns].map(format::duration);
        let name = of.steps.first().map(|name| clipped(name)).unwrap_or_default();
        format!("It makes {name} the longest, {step}: the median step takes {median}")
    });
    others.into_iter().chain(step).reduce(|all, one| format!("{all}. {one}"))
}

/// How much of the time the steps of optimizers are launched, where that is most of it.
fn of_optimizer(hit: &Hit) -> Option<String> {
    let ns = hit.shares.optimizer_ns;
    let is_most = matches!(hit.rule, Rule::LaunchBound | Rule::HostBound) && ns > hit.amount - ns;
    is_most.then(|| format!("For {} of it the optimizer's step is launched", format::duration(ns)))
}

fn calls_of(n: u64) -> String {
    if n == 1 { "one call".to_owned() } else { format!("{} calls", format::count(n)) }
}

/// What shows that events are missing.
fn of_missing(missing: &Missing) -> Vec<String> {
    let Missing { launched, launches, operators, calls } = *missing;
    let evidence = [
        (launched, "pieces of GPU work have the call that launched them"),
        (launches, "calls that launch have the work that they launched"),
        (operators, "operators were recorded, by their numbers"),
        (calls, "API calls were recorded, by their correlation ids"),
    ];
    let evidence = evidence.into_iter().filter(|((found, of), _)| 2 * found < *of);
    evidence.map(|((found, of), what)| format!("{} of {} {what}", format::count(found), format::count(of))).collect()
}

pub(super) fn data_time((data, busy): (DurNs, DurNs)) -> String {
    let [data, busy] = [data, busy].map(format::duration);
    format!("the median step the host loads data for {data}, and the device works for {busy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::rules::{Recurring, hit_of};

    /// A hit of launches with 30 us in 3 steps, of which ending it gains so much per step.
    fn launches(ceiling: DurNs) -> Hit {
        let found = hit_of(Rule::LaunchBound, None, 30_000, 100_000);
        Hit { n_steps: 3, ceiling_ns_per_step: Some(ceiling), ..found }
    }

    #[test]
    fn what_a_ceiling_leaves_out_is_told() {
        assert_eq!(of_ceiling(&launches(10_000)), None);
        let all = of_ceiling(&Hit { small_ns: 2_000, recorder_ns: 1_000, ..launches(6_000) });
        let expected = "Not in the ceiling, per step: 2.000 µs before small collectives, counted in their own \
                        finding; at least 1.000 µs that the recorder took; 1.000 µs that would remain, such as launch \
                        latency";
        assert_eq!(all.as_deref(), Some(expected));
        assert_eq!(of_ceiling(&Hit { ceiling_ns_per_step: None, ..launches(0) }), None);
    }

    #[test]
    fn a_recurring_gap_says_how_much_of_it_is_of_the_cause() {
        let gap =
            Recurring { n_present: 3, n_steps: 3, ns_per_step: 4_000, of_cause_ns: 4_000, ..Recurring::default() };
        let note = |gap| notes(&Hit { recurring: Some(gap), ..launches(10_000) }).remove(0);
        assert!(note(gap.clone()).ends_with("4.000 µs per step"));
        let part = note(Recurring { of_cause_ns: 1_000, ..gap });
        let own = "4.000 µs per step; 1.000 µs of that has this cause";
        assert!(part.ends_with(own), "{part}");
    }
}
