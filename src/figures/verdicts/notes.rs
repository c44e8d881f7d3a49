//! Notes on a finding: further evidence for its cause.

use super::percent;
use super::sentence::{between, clipped, host, place};
use crate::analysis::rules::{Hit, Joined, Missing, NewShapes, Rule};
use crate::figures::format;
use crate::model::DurNs;

/// What is at least this part of the time of a hit is named: a twentieth.
const LEAST_PART: DurNs = 20;

/// What else shows the cause of a hit.
pub(super) fn notes(hit: &Hit) -> Vec<String> {
    let data = hit.data_time.map(|times| format!("In {}", data_time(times)));
    let gap = hit.recurring.as_ref().filter(|_| hit.rule != Rule::RecurringGap).map(|gap| {
        let (between, ns) = (between(gap), format::duration(gap.ns_per_step));
        format!("The {between} in {} of {}, {ns} per step{}", gap.n_present, format::steps(gap.n_steps), host(gap))
    });
    data.into_iter()
        .chain(gap)
        .chain(bound_of_overlap(hit))
        .chain(of_shares(hit))
        .chain(of_saving(hit))
        .chain(of_joined(hit))
        .chain(of_lead(hit))
        .chain(of_optimizer(hit))
        .chain(of_recording(hit))
        .chain(of_alone(hit))
        .chain(of_usual(hit))
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
             ranks that arrive together, and less or faster communication, do"
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
                "The device is idle for another {ns}, {share}, while the host is in calls of collectives, or has not got \
                 ahead of the device again since"
            )
        }),
        Rule::LateRank => Some(
            "What makes it late may have findings of its own: their gain and this one are the same time, seen from two ranks"
                .to_owned(),
        ),
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
    .chain(of_copied(hit))
    .collect()
}

/// That the host is busy with what it copied from the device, or is to copy to it, where that takes most of the time.
fn of_copied(hit: &Hit) -> Option<String> {
    let ns = format::duration(hit.shares.copied_ns);
    let note = "of it the host had just copied data from the device and launched nothing: it works on that data, as where \
                a checkpoint is written";
    let prepared = hit.is_before_copies().then(|| {
        let ns = format::duration(hit.shares.prepared_ns);
        format!("For {ns} of it a copy to the device is what ends it: the host prepares that data, as where it makes a batch")
    });
    hit.is_after_copies().then(|| format!("For {ns} {note}")).or(prepared)
}

/// That the host writes a checkpoint, where that takes most of the time.
fn of_saving(hit: &Hit) -> Option<String> {
    hit.is_saving().then(|| format!("For {} of it the host writes a checkpoint", format::duration(hit.shares.saves_ns)))
}

/// What the recorder took of the time, which is not a part of what ending the cause gains, and what of the steps in all.
fn of_recording(hit: &Hit) -> Option<String> {
    let is_large = hit.recorder_ns.saturating_mul(9) >= hit.ceiling_ns_per_step.unwrap_or_default();
    let own = Some(hit.recorder_ns).filter(|&ns| ns > 0 && is_large).map(format::duration);
    let in_all = hit.recording.filter(|_| hit.rule != Rule::Recording && hit.ceiling_ns_per_step.is_some());
    let in_all = in_all.map(|cost| format::rough_duration(cost.ns, cost.most_ns));
    let left_out = "What ending it gains leaves out what the recorder took of that time, at least";
    match (own, in_all) {
        (Some(own), Some(all)) => {
            Some(format!("{left_out} {own} per step; it takes about {all} of each recorded step"))
        }
        (Some(own), None) => Some(format!("{left_out} {own} per step")),
        (None, all) => {
            all.map(|all| format!("The recorder takes about {all} of each recorded step, and a part of that here"))
        }
    }
}

/// What ending it on the one rank gains, where that is less than on all.
fn of_alone(hit: &Hit) -> Option<String> {
    if hit.ceiling_ns_per_step == Some(0) {
        return Some("Ending it gains the job nothing: without it this rank waits as long for others".to_owned());
    }
    let ns = hit.alone_ns_per_step?;
    if ns == 0 {
        return Some("Ending it on this rank alone gains the job nothing: no other rank waits for it".to_owned());
    }
    let ns = format::duration(ns);
    Some(format!("Ending it on this rank alone gains the job at most {ns} per step: so long the others wait for it"))
}

/// What ending it gains in most steps, where few steps have much more of it.
fn of_usual(hit: &Hit) -> Option<String> {
    let usual = hit.usual_ns_per_step.filter(|&ns| hit.ceiling_ns_per_step.is_some_and(|all| ns < all))?;
    Some(format!("Few steps have much more of it than the others, which gain at most {}", format::duration(usual)))
}

/// How much of the time of data or of calls of collectives is after these, where that is enough to count.
fn of_lead(hit: &Hit) -> Option<String> {
    let (over, without) = match hit.rule {
        Rule::DataLoading => ("the data was there", "that wait"),
        Rule::CollectiveCalls => ("these calls were over", "them"),
        _ => return None,
    };
    let is_large = hit.shares.lead_ns * LEAST_PART >= hit.amount && hit.shares.lead_ns > 0;
    is_large.then(|| {
        let ns = format::duration(hit.shares.lead_ns);
        format!("For {ns} of it {over}: the host had not yet got ahead of the device again, as it would have been without {without}")
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
        (operators, "operators are there, by their numbers"),
        (calls, "API calls are there, by their correlation ids"),
    ];
    let evidence = evidence.into_iter().filter(|((found, of), _)| 2 * found < *of);
    evidence.map(|((found, of), what)| format!("{} of {} {what}", format::count(found), format::count(of))).collect()
}

pub(super) fn data_time((data, busy): (DurNs, DurNs)) -> String {
    let [data, busy] = [data, busy].map(format::duration);
    format!("the median step the host loads data for {data}, and the device works for {busy}")
}
