//! What is promised is no more than there is: of every recording in reach.

use std::path::PathBuf;

use lacuna::analysis::breakdown::breakdown;
use lacuna::analysis::busy::devices;
use lacuna::analysis::gaps::Ground;
use lacuna::analysis::gaps::clusters::{Clusters, clusters};
use lacuna::analysis::phases::phases;
use lacuna::analysis::rules::{Cause, Measured, Rule, RunFacts, Thresholds, verdicts};
use lacuna::analysis::steps::steps;
use lacuna::model::Trace;

use super::support::{files, name, project, real, recording};

fn recordings() -> Vec<PathBuf> {
    let own = ["recorded", "faults"].map(|folder| files(&project().join("sample_traces").join(folder)));
    let own = own.into_iter().flatten().filter(|path| name(path).contains("kineto"));
    own.chain(["A_kineto", "B_sqlite", "B_sqlite_exported_here"].into_iter().flat_map(real)).collect()
}

/// What gaps that come back promise beyond their time.
fn beyond_of_clusters(clusters: &Clusters) -> Vec<String> {
    let all = clusters.all.iter().map(|cluster| &cluster.sum).chain([&clusters.micro]);
    let (gain, in_steps) = all.fold((0, 0), |(gain, all), sum| {
        (gain + sum.recoverable_in_steps_ns + sum.recorder_in_steps_ns, all + sum.in_steps_ns)
    });
    let too_much = (gain > in_steps).then(|| format!("gaps that come back promise {gain} of {in_steps}"));
    let negative = clusters.all.iter().filter(|cluster| cluster.sum.recoverable_in_steps_ns < 0);
    too_much.into_iter().chain(negative.map(|cluster| format!("a cluster promises {:?}", cluster.sum))).collect()
}

/// What is promised beyond the whole for one trace, and how many ceilings were compared.
fn beyond(trace: &Trace) -> (Vec<String>, usize) {
    let never = || false;
    let steps = steps(trace, &never);
    let busy = devices(trace);
    let ledgers = Ground::new(trace).ledgers(&busy, steps.as_ref(), &never);
    let clusters = clusters(trace, &ledgers, steps.as_ref(), &never);
    let phases = phases(trace, &never);
    let of = Measured {
        trace,
        steps: steps.as_ref(),
        busy: &busy,
        ledgers: &ledgers,
        clusters: &clusters,
        phases: &phases,
        range: None,
        run: RunFacts::of(trace),
    };
    let found = verdicts(&of, &Thresholds::default(), &never);
    let (mut wrong, mut n) = (Vec::new(), 0);
    for window in &found.windows {
        let Some(step_ns) = window.step_ns() else { continue };
        let Some(at) = busy.iter().position(|busy| Some(busy.device) == window.device) else { continue };
        let n_steps = window.steps.len() as i64;
        let own = || found.checks.iter().filter(|check| check.device == window.device);
        let parts = breakdown(&busy[at], window.time);
        // What comes back after more or fewer steps than are judged is of as many steps.
        let length = |rule: Rule| {
            let mut own = found.hits.iter().filter(|hit| (hit.rule, hit.device) == (rule, window.device));
            let once = own.find_map(|hit| hit.once.as_ref());
            once.filter(|once| once.comes_back()).map(|once| once.step_ns())
        };
        let has_joined = found.hits.iter().any(|hit| hit.device == window.device && !hit.joined.rules.is_empty());
        // Exposed copies gain what is idle and what copies; so does a cause that they are joined to.
        for (has_copies, most_ns) in [(false, parts.idle_ns), (true, parts.idle_ns + parts.exposed_copy_ns)] {
            let of_causes: Vec<i64> = own()
                .filter(|check| check.rule.cause().is_some_and(|cause| has_copies || cause != Cause::Copy))
                .filter(|check| length(check.rule).is_none())
                .filter_map(|check| Some(check.ceiling_ns_per_step? - check.ahead_ns))
                .collect();
            n += of_causes.len();
            if (has_copies || !has_joined) && of_causes.iter().sum::<i64>() * n_steps > most_ns {
                wrong.push(format!("causes promise {of_causes:?} per step of {n_steps} of {most_ns}"));
            }
        }
        for check in own() {
            let step_ns = length(check.rule).unwrap_or(step_ns);
            if let Some(ns) = check.ceiling_ns_per_step.filter(|&ns| ns > step_ns) {
                wrong.push(format!("{:?} promises {ns} of steps of {step_ns}", check.rule));
            }
            // What it saves of other causes is idle as well.
            let most_ns = parts.idle_ns + parts.exposed_copy_ns;
            let is_alone = length(check.rule).is_none() && check.ahead_ns > 0 && !has_joined;
            if let Some(ns) = check.ceiling_ns_per_step.filter(|&ns| is_alone && ns * n_steps > most_ns) {
                wrong.push(format!("{:?} promises {ns} per step of {n_steps} of {most_ns}", check.rule));
            }
        }
        let hits = found.hits.iter().filter(|hit| hit.device == window.device && hit.rule != Rule::LateRank);
        for hit in hits {
            let sum = hit.ceiling_ns_per_step.unwrap_or_default() + hit.recorder_ns;
            let step_ns = length(hit.rule).unwrap_or(step_ns);
            if sum > step_ns {
                wrong.push(format!("{:?} and its recorder have {sum} of steps of {step_ns}", hit.rule));
            }
        }
        n += clusters[at].all.len();
        wrong.extend(beyond_of_clusters(&clusters[at]));
    }
    (wrong, n)
}

#[test]
fn no_part_promises_more_than_the_whole() {
    let (mut wrong, mut n) = (Vec::new(), 0);
    for path in recordings() {
        let Ok(traces) = recording(&path) else { continue };
        for (problems, compared) in traces.iter().map(beyond) {
            wrong.extend(problems.into_iter().map(|problem| format!("{}: {problem}", name(&path))));
            n += compared;
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n > 1_000, "only {n} compared");
}
