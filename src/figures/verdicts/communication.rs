//! Sentences about communication, and ranks that wait for each other.

use super::clip::clipped;
use super::percent;
use super::sentence::{part_of, per_step, scope};
use crate::analysis::rules::{Hit, LateRank, SmallCollectives, Waiting};
use crate::figures::format;
use crate::model::DurNs;

/// What a rank does longer than others is said if it is at least this part of all that it does longer: a tenth.
const LEAST_LONGER: DurNs = 10;

/// How much of some communication is waiting for other ranks, and for which.
pub(super) fn waiting(hit: &Hit) -> String {
    let Waiting { ns, first_ns, late, n_ranks } = hit.waiting;
    if n_ranks == 0 {
        return String::new();
    }
    let share = percent(ns as f64 / hit.amount.max(1) as f64);
    let most = match late {
        Some((rank, most)) if most == ns => format!(" for rank {rank}"),
        Some((rank, most)) => {
            format!(" for others of the {n_ranks} ranks here, {} of it for rank {rank}", format::duration(most))
        }
        None => format!(" for others of the {n_ranks} ranks here"),
    };
    let first = match first_ns > ns / 10 {
        true => format!(
            "; {} is in the first collective, and may only mean that the ranks began to record at different times",
            format::duration(first_ns)
        ),
        false => String::new(),
    };
    let ns = format::duration(ns);
    format!("; {share} of that, {ns}, is waiting{most}{first}")
}

/// How often a rank is late, how long the others wait, and what it does longer than they do.
pub(super) fn late_rank(hit: &Hit, device: &str) -> String {
    let Some(LateRank { n_ranks, late, calls, longer, .. }) = &hit.late else { return String::new() };
    let is_per_step = hit.n_steps > 1 && hit.once.is_none();
    let (n_steps, per) = if is_per_step { (hit.n_steps as DurNs, " per step") } else { (1, "") };
    let [late, calls] = [*late, *calls].map(format::count);
    let others = if *n_ranks > 2 { "each of the others waits on average" } else { "the other one waits" };
    let in_step = match (&hit.once, hit.n_steps) {
        (Some(once), _) => format!(", nearly all of it in {}", clipped(&once.step)),
        (None, 0 | 1) => String::new(),
        (None, n) => format!(", {} in each of its own steps", format::duration(hit.amount / n as DurNs)),
    };
    let sum: DurNs = longer.iter().map(|part| part.1).filter(|&ns| ns > 0).sum();
    let most = longer.iter().filter(|(_, ns)| *ns > 0 && *ns * LEAST_LONGER >= sum).take(3);
    let most: Vec<String> =
        most.map(|&(part, ns)| format!("{} more {}", format::duration(ns / n_steps), part_of(part))).collect();
    let than = if *n_ranks > 2 { "the others" } else { "the other rank" };
    let listed = match most.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    };
    let before = match listed.as_str() {
        "" => String::new(),
        more => format!("; it has {more}{per} than {than}"),
    };
    format!(
        "{device} comes last to {late} of {calls} judged collectives of the {n_ranks} ranks here: {others} {} for \
         it{in_step}, {} {}{before}",
        format::duration(hit.amount),
        percent(hit.measured),
        scope(hit),
    )
}

/// How many small collectives there are, how large they are, and what they cost.
pub(super) fn small_collectives(hit: &Hit, device: &str) -> String {
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
        "{device}: {number} small collectives{per}, {mean}{} on average, cost {share} {}: {amount}{}, of it {exposed} \
         to communicate alone, {waits} idle until they are launched",
        size.unwrap_or_default(),
        scope(hit),
        per_step(hit),
    )
}
