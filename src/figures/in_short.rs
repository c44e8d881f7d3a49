//! The findings in a few sentences: of a job of several ranks as a whole, then of its devices where they differ.

mod host;
mod rest;

use hashbrown::HashMap;

use super::findings::{MEMORY_LEAK, OUT_OF_MEMORY, RESERVED_GROWTH};
use super::makeup::{Summary, best, beyond_overlap, named, of_overlap};
use super::verdicts::{Gain, Judged, clipped, device, job_gain, percent, ranks_of};
use super::{Cell, Part, figures, format};
use crate::analysis::finding::Finding;
use crate::analysis::gaps::PARTS_TOLD;
use crate::analysis::rules::{Hit, LateRank, Rule, Window, same_steps};
use crate::model::{DurNs, Severity};

/// From so many devices on, those of which the same is said share a sentence.
const MANY: usize = 3;
/// A device has as much of a cause as another from this part of it on.
const ALIKE: f64 = 0.99;
/// More devices that are alike are not all named.
const MOST_NAMED: usize = 16;

/// One paragraph of the job, if these are several ranks of one, and one of each device or of several that are alike; of
/// recordings without device work one of each host, or of what else the file holds. May contain text from a file.
pub fn paragraphs(judged: &[Judged<'_>]) -> Vec<String> {
    let summaries: Vec<Summary<'_>> = judged.iter().flat_map(Summary::all).collect();
    let alone = |of: &Summary<'_>| of.text();
    let devices = if summaries.len() < MANY { summaries.iter().map(alone).collect() } else { grouped(&summaries) };
    let is_alone = judged.len() == 1;
    let others = judged.iter().filter(|of| of.verdicts.makeups.is_empty()).filter_map(|of| of_others(of, is_alone));
    let devices = devices.into_iter().chain(judged.iter().filter_map(untold));
    let told: Vec<String> = job(judged, &summaries)
        .into_iter()
        .chain(devices)
        .chain(others)
        .chain(of_absent_ranks(judged, &summaries))
        .chain(of_unknown_ranks(judged))
        .collect();
    let partial = judged.iter().filter(|of| of.trace.import.is_partial && !told.is_empty());
    let partial = partial.map(|of| of_a_part(&file(of, is_alone)));
    partial.collect::<Vec<_>>().into_iter().chain(told).collect()
}

/// What is told of a trace without a device that was judged.
fn of_others(of: &Judged<'_>, is_alone: bool) -> Option<String> {
    let is_untold = of.verdicts.n_untold > 0;
    let rest = || if is_untold { None } else { rest::paragraph(of, &file(of, is_alone)) };
    too_little(of).or_else(|| host::paragraph(of)).or_else(rest)
}

/// A file in words: by its rank where there are several of which each has one.
fn file(of: &Judged<'_>, is_alone: bool) -> String {
    let by_rank = || of.trace.info.rank.filter(|_| !is_alone).map(|rank| format!("The file of rank {rank}"));
    of.name.map(str::to_owned).or_else(by_rank).unwrap_or_else(|| "The file".to_owned())
}

/// That a file ends early or is damaged.
fn of_a_part(file: &str) -> String {
    format!("{file} ends early or is damaged: what is told of it is of the part that could be read")
}

/// On which devices of a trace nothing was looked for that explains their idle time.
fn untold(of: &Judged<'_>) -> Option<String> {
    let n = of.verdicts.n_untold;
    let within = of.name.map(|name| format!(" in {name}")).unwrap_or_default();
    let devices = if n == 1 { "device" } else { "devices" };
    let [n_told, parts] = [n, PARTS_TOLD].map(|n| format::count(n as u64));
    (n > 0).then(|| {
        format!(
            "Why {n_told} more {devices}{within} waited was not looked for: the gaps of the others have over {parts} \
             parts already, and each more would take as much memory"
        )
    })
}

/// That no device of a trace has enough work to judge.
fn too_little(of: &Judged<'_>) -> Option<String> {
    let (ns, within) = (of.verdicts.too_little_ns, of.name.map(|name| format!(" in {name}")).unwrap_or_default());
    (ns > 0).then(|| format!("Too little device work was recorded{within} to judge: {}", format::duration(ns)))
}

/// That ranks which are not open may set the pace of the steps, where what is told may be gained is of a device that
/// communicates with them; that it may wait for them, where its communication alone is told.
fn of_absent_ranks(judged: &[Judged<'_>], summaries: &[Summary<'_>]) -> Option<String> {
    /// NCCL launches no kernels for a group of one.
    const LEAST_RANKS: u32 = 2;
    let gains = judged
        .iter()
        .flat_map(|of| &of.verdicts.hits)
        .any(|hit| hit.rule.cause().is_some() && hit.ceiling_ns_per_step.is_some());
    let communicates = summaries.iter().any(|summary| summary.makeup.parts.exposed_comm_ns > 0);
    let in_group = |of: &Judged<'_>| {
        let collectives = of.trace.facts.collectives.iter();
        collectives.filter_map(|(_, collective)| collective.n_ranks).max().or(of.trace.info.world_size)
    };
    let mut open: Vec<Option<u32>> = judged.iter().map(|of| of.trace.info.rank).collect();
    open.sort_unstable();
    open.dedup();
    let recorded = judged.iter().filter_map(in_group).max();
    // Older recordings say which rank they are of, and not how many there are.
    let last = open.iter().max().copied().flatten();
    let least = recorded.or_else(|| last.map(|rank| rank.saturating_add(1).max(LEAST_RANKS)))?;
    let is_absent = (open.len() as u64) < u64::from(least);
    if !gains && communicates && is_absent {
        let mut hits = judged.iter().flat_map(|of| &of.verdicts.hits);
        let waits =
            "Not all ranks of this job are open: how much of the communication is waiting for others is not known";
        let is_unknown = |hit: &Hit| hit.rule == Rule::ExposedCommunication && hit.waiting.n_ranks == 0;
        return hits.any(is_unknown).then(|| waits.to_owned());
    }
    let which = match is_absent {
        true => "Not all ranks of this job are open, and another may set the pace",
        false if recorded.is_none() => {
            "How many ranks this job has was not recorded: one that is not open may set the pace"
        }
        false => return None,
    };
    (gains && communicates)
        .then(|| format!("{which}: time that a device here saves may come back as waiting in collectives"))
}

/// That who waits for whom is not compared, where several files communicate and do not say of which rank they are.
fn of_unknown_ranks(judged: &[Judged<'_>]) -> Option<String> {
    let communicates = |of: &&Judged<'_>| of.verdicts.makeups.iter().any(|makeup| makeup.parts.exposed_comm_ns > 0);
    let n = judged.iter().filter(communicates).filter(|of| of.trace.info.rank.is_none()).count();
    (n > 1).then(|| {
        format!(
            "{} files with communication do not say of which rank they are. If they are of one job: with the rank in their \
             names, as in rank0, their collectives are matched and who waits for whom is told",
            format::count(n as u64)
        )
    })
}

/// The paragraphs after one that says that memory ran out, if it did: what is told of time is of a program that failed;
/// and after one about a leak or reserved memory that will make it fail. Where nothing is told of time, there are none:
/// the memory in short stands there.
pub fn with_memory(paragraphs: Vec<String>, findings: &[Finding]) -> Vec<String> {
    if paragraphs.is_empty() {
        return paragraphs;
    }
    let failed = findings.iter().find(|finding| finding.rule == OUT_OF_MEMORY);
    let failed = failed.map(|failed| format!("{}. What follows is of the time before it", failed.text));
    let grows = |one: &&Finding| matches!(one.rule, MEMORY_LEAK | RESERVED_GROWTH) && one.severity == Severity::High;
    // Findings of memory stand by how much grows.
    let growth = findings.iter().find(grows).map(|one| one.text.clone());
    failed.into_iter().chain(growth).chain(paragraphs).collect()
}

/// Paragraphs in reports.
pub fn in_short() -> Part<String> {
    let figures = figures! { row: String;
        words "text", "In short", 400, Cell::name(row), "How busy devices are, with what, and what would help most";
    };
    Part::new("summary", "In short", figures)
}

/// The sentence of each device, and which others are like it: with the same part of their time as the largest, most
/// idle time by the same cause, and the same that would help most. Of those alike it is of the one that has the longest
/// steps.
fn grouped(summaries: &[Summary<'_>]) -> Vec<String> {
    let mut groups: Vec<Vec<&Summary<'_>>> = Vec::new();
    for summary in summaries {
        match groups.iter_mut().find(|group| group[0].is_like(summary)) {
            Some(group) => group.push(summary),
            None => groups.push(vec![summary]),
        }
    }
    let text = |group: &Vec<&Summary<'_>>| {
        let slowest = (0..group.len()).max_by_key(|&i| (group[i].step_ns(), std::cmp::Reverse(i))).unwrap_or_default();
        let others = group.iter().enumerate().filter(|(i, _)| *i != slowest).map(|(_, summary)| *summary);
        let others: Vec<&Summary<'_>> = others.collect();
        if others.is_empty() {
            return group[slowest].text();
        }
        let n = if others.len() > MOST_NAMED { MOST_NAMED / 2 } else { others.len() };
        let mut named: Vec<String> = others[..n].iter().map(|other| other.who()).collect();
        let left = others.len() - n;
        named.extend((left > 0).then(|| format!("{} more", format::count(left as u64))));
        format!("{}. Likewise {}, busy {}", group[slowest].text(), named.join("; "), shares(&others))
    };
    groups.iter().map(text).collect()
}

/// From the smallest busy share to the largest.
fn shares(of: &[&Summary<'_>]) -> String {
    let busy: Vec<f64> = of.iter().map(|summary| summary.busy()).collect();
    let [min, max] = [busy.iter().copied().fold(1.0, f64::min), busy.iter().copied().fold(0.0, f64::max)].map(percent);
    if min == max { min } else { format!("{min} to {max}") }
}

/// How long the steps of a job take, how busy its devices are, what limits it, and which rank is late. `None` unless
/// these are different ranks.
fn job(judged: &[Judged<'_>], summaries: &[Summary<'_>]) -> Option<String> {
    let mut ranks: Vec<u32> = summaries.iter().filter_map(|summary| summary.rank).collect();
    ranks.sort_unstable();
    let is_job = ranks.len() == summaries.len() && ranks.len() > 1 && ranks.windows(2).all(|pair| pair[0] != pair[1]);
    if !is_job {
        return None;
    }
    let all: Vec<&Summary<'_>> = summaries.iter().collect();
    let step = steps(&all).map(|text| format!(". {text}")).unwrap_or_default();
    let late = late_rank(judged).map(|text| format!(". {text}")).unwrap_or_default();
    let scopes = all.iter().map(|summary| summary.scope());
    let scope = scopes.reduce(|a, b| if a == b { a } else { "of the judged time".to_owned() }).unwrap_or_default();
    Some(format!(
        "Job of {} ranks: devices are busy {} {scope}{step}. {}{late}",
        ranks.len(),
        shares(&all),
        limit(judged, summaries)
    ))
}

/// How long steps take: of the slowest rank and of the fastest where they differ in the same steps. Ranks that wait for
/// each other in each step take equally long.
fn steps(all: &[&Summary<'_>]) -> Option<String> {
    let windows: Vec<(DurNs, &Window)> = all.iter().map(|summary| summary.window()).collect();
    let lengths: Vec<DurNs> = windows.iter().filter_map(|(_, window)| window.step_ns()).collect();
    let [min, max] = [*lengths.iter().min()?, *lengths.iter().max()?];
    let differ = |[min, max]: [DurNs; 2]| max - min > max / 20;
    // Other views have whole steps.
    let is_cut = windows.iter().any(|(_, window)| window.whole_step_ns().is_some());
    let counted = if is_cut { ", from the first to the last work of each device" } else { "" };
    let Some((n, same)) = same_steps(&windows) else {
        return Some(match differ([min, max]) {
            true => format!(
                "Judged steps last {} to {}{counted}. Which rank is slowest is not known: no two whole steps were recorded on all \
                 ranks at the same time",
                format::duration(min),
                format::duration(max)
            ),
            false => format!("A judged step takes {}{counted}", format::duration(max)),
        });
    };
    let ends = [*same.iter().min()?, *same.iter().max()?];
    let ranked = |ns: DurNs| same.iter().position(|&own| own == ns).and_then(|at| all[at].rank);
    match (differ(ends), ranked(ends[0]), ranked(ends[1])) {
        (true, Some(fastest), Some(slowest)) => {
            let [min, max] = ends.map(format::duration);
            Some(format!(
                "A step takes {max} on the slowest, rank {slowest}, and {min} on the fastest, rank {fastest}, in the \
                 {} that all recorded",
                format::steps(n)
            ))
        }
        _ => Some(format!("A judged step takes {}{counted}", format::duration(max))),
    }
}

/// The cause that costs the slowest rank most, with the rank that has most of it.
fn limit(judged: &[Judged<'_>], summaries: &[Summary<'_>]) -> String {
    let hits = || judged.iter().enumerate().flat_map(|(i, of)| of.verdicts.hits.iter().map(move |hit| (i, hit)));
    // Each device is of a rank of its own here: what a cause gains the job is the same for every hit of it.
    let mut of_rules: HashMap<Rule, Option<Gain>> = HashMap::new();
    let mut gain = |i, hit: &Hit| {
        hit.ceiling_ns_per_step?;
        *of_rules.entry(hit.rule).or_insert_with(|| job_gain(judged, i, hit))
    };
    let gains = hits().filter_map(|(i, hit)| Some((i, hit, gain(i, hit)?)));
    let mut gains: Vec<(usize, &Hit, Gain)> = gains.filter(|of| of.2.ns > 0).collect();
    // Of equal gains, that of the rank with most of the time.
    gains.sort_by(|a, b| a.1.measured.total_cmp(&b.1.measured));
    let best = best(&gains.iter().map(|&(i, hit, gain)| (i, hit, gain.ns)).collect::<Vec<_>>());
    let Some((i, hit, Gain { ns, rank, device: index, is_slowest, .. })) = best.map(|best| gains[best]) else {
        return once(judged, hits()).unwrap_or_else(|| {
            let idle = summaries.iter().map(|summary| 1.0 - summary.busy()).fold(0.0, f64::max);
            format!("No single cause limits it: its devices are idle {} of their time at most", percent(idle))
        });
    };
    // Where the device that gains has as much of the time as any, it is told of that.
    let is_own = |of: &&(usize, &Hit, Gain)| {
        of.1.rule == hit.rule && (judged[of.0].trace.info.rank, of.1.device) == (rank, index)
    };
    let own = gains.iter().find(is_own).filter(|own| own.1.measured >= hit.measured * ALIKE);
    let (i, hit) = own.map_or((i, hit), |own| (own.0, own.1));
    let step = summaries.iter().find(|of| (of.rank, of.makeup.device) == (rank, index)).and_then(Summary::step_ns);
    let period = hit.once.as_ref().filter(|once| once.comes_back()).map(|once| once.step_ns());
    let step = period.or(step);
    let step = step.map(|step| format!(" of {}", format::duration(step))).unwrap_or_default();
    let (most, of) = (device(hit.device, judged[i].trace.info.rank), device(index, rank));
    let whose = match of == most {
        true => String::new(),
        false if is_slowest => format!(" on {of}, the slowest"),
        false => format!(" on {of}"),
    };
    let help = match &hit.late {
        Some(late) => {
            sooner(hit, late, judged[i].trace.info.rank, &format!("{}{step} per step{whose}", format::duration(ns)))
        }
        None => ended(hit, ns, (&step, &whose), &most),
    };
    format!("What would help most: {help}")
}

/// Late ranks that come sooner.
///
/// * `gain`: what that saves, of what and on which device.
fn sooner(hit: &Hit, late: &LateRank, own: Option<u32>, gain: &str) -> String {
    let mut ranks: Vec<u32> = late.also_late.iter().copied().chain(own).collect();
    ranks.sort_unstable();
    let alone = hit.alone_ns_per_step.map(|ns| format!("; {} alone {}", ranks_of(own.as_slice()), format::saving(ns)));
    let alone = alone.unwrap_or_default();
    format!("{} arriving sooner at collectives: that saves at most {gain}{alone}", ranks_of(&ranks))
}

/// A cause that ends.
///
/// * `ns`: what that saves.
/// * `step`, `whose`: of what, and on which device if that is another than `most`, which has most of it.
fn ended(hit: &Hit, ns: DurNs, (step, whose): (&str, &str), most: &str) -> String {
    let gain = format::duration(ns);
    let (by_all, by_one) = match hit.alone_ns_per_step {
        Some(ns) => ("ended on all ranks, ", format!("; ended on {most} alone, {}", format::saving(ns))),
        None => ("", String::new()),
    };
    // What more it saves is of the device that has most of it.
    if let Some(more) = hit.beyond_overlap_ns().filter(|_| whose.is_empty()) {
        return format!(
            "{}, most on {most} ({}): that saves at most {}{step} per step{}",
            beyond_overlap(hit),
            percent(hit.measured),
            format::duration(more),
            of_overlap(hit, &gain),
        );
    }
    let it = if by_all.is_empty() { "that" } else { "it" };
    format!(
        "{}, most on {most} ({}): {by_all}{it} saves at most {gain}{step} per step{whose}{by_one}",
        named(hit),
        percent(hit.measured),
    )
}

/// What cost most in one step alone.
fn once<'a>(judged: &[Judged<'_>], hits: impl Iterator<Item = (usize, &'a Hit)>) -> Option<String> {
    let once = hits.filter_map(|(i, hit)| Some((i, hit, hit.once.as_ref()?)));
    // That a rank is late once is told after this.
    let (i, hit, once) = once.filter(|of| of.1.rule != Rule::LateRank).max_by_key(|of| of.2.ns)?;
    Some(format!(
        "What would help most: {}, on {}: {} once, in {}; a longer recording shows whether it comes back",
        named(hit),
        device(hit.device, judged[i].trace.info.rank),
        format::duration(once.ns),
        clipped(&once.step),
    ))
}

/// The rank for which the others wait most, if that is a finding.
fn late_rank(judged: &[Judged<'_>]) -> Option<String> {
    let hits = judged.iter().flat_map(|of| of.verdicts.hits.iter().map(move |hit| (of, hit)));
    let (judged, hit): (_, &Hit) =
        hits.filter(|(_, hit)| hit.rule == Rule::LateRank).max_by_key(|(_, hit)| hit.amount)?;
    let (rank, late) = (judged.trace.info.rank?, hit.late.as_ref()?);
    let [n_late, calls] = [late.late, late.calls].map(format::count);
    let others =
        if late.n_ranks > 2 { "each other rank waits for it on average" } else { "the other rank waits for it" };
    let in_steps = |ns: DurNs, n_steps: usize, whose: &str| match n_steps as DurNs {
        0 => format::duration(ns),
        1 => format!("{} in its {whose}judged step", format::duration(ns)),
        n => format!("{} in each of its {whose}steps", format::duration(ns / n)),
    };
    let own = match late.own {
        (0, _) => format!("rank {rank} itself waits for none"),
        (ns, n_steps) => format!("rank {rank} itself waits {} for others", in_steps(ns, n_steps, "own ")),
    };
    let waits = match &hit.once {
        Some(once) => format!("{}, nearly all of it in {}", format::duration(hit.amount), clipped(&once.step)),
        None => in_steps(hit.amount, hit.n_steps, ""),
    };
    Some(format!("Rank {rank} comes last to {n_late} of {calls} judged collectives: {others} {waits}; {own}"))
}

#[cfg(test)]
mod tests;
