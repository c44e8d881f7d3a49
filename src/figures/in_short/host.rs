//! What the host of a recording without device work spends its time on, in short.

use super::format;
use crate::analysis::phases::Phase;
use crate::analysis::rules::{Basis, HostTime, MostIn, OnCpus, SelfTimes};
use crate::figures::verdicts::{Judged, clipped, clipped_apart, percent, scope_of};
use crate::model::SliceKind;

/// Phases with less of the time are not named.
const LARGE: f64 = 0.03;
/// So much of some time is nearly all of it.
const NEARLY_ALL: f64 = 0.9;
/// Most phases that are named.
const MOST_NAMED: usize = 3;

/// `None` where there is a device, or no thread ran anything. May contain text from a file.
pub(super) fn paragraph(of: &Judged<'_>) -> Option<String> {
    let self_times = of.verdicts.self_times.as_ref();
    let told = phases(of)
        .into_iter()
        .chain(longest_step(of))
        .chain(self_times.map(self::self_times))
        .chain(self_times.and_then(calls));
    let told: Vec<String> = told.chain(without_stacks(of)).collect();
    let whose = of.name.filter(|_| of.verdicts.host.is_none()).map(|name| format!(" in {name}")).unwrap_or_default();
    let on_cpus = of.verdicts.on_cpus.as_ref().map(|on_cpus| self::on_cpus(on_cpus, &whose));
    let why = if of.trace.info.found_no_gpu { ", and the profiler found no GPU" } else { "" };
    let without_work = match of.trace.import.is_partial {
        true => format!("No device work is in that part{whose}{why}: whether any was recorded is not known"),
        false => format!("No device work was recorded{whose}{why}"),
    };
    on_cpus.or_else(|| (!told.is_empty()).then(|| format!("{without_work}. {}", told.join(". "))))
}

/// What little is there, and how to record more.
fn on_cpus(of: &OnCpus, whose: &str) -> String {
    let [ns, span] = [of.ns, of.span_ns].map(format::duration);
    let threads = format::of_things(of.n_threads as u64, "thread");
    let times = format::of_things(of.times, "time");
    let samples = match of.n_samples {
        0 => String::new(),
        n => format!(", and {} of call stacks, which the flame graph adds up", format::of_things(n as u64, "sample")),
    };
    format!(
        "No work was recorded{whose}, neither of a device nor of the host: no kernels, copies, calls or ranges. The \
         file only tells when threads ran on CPUs ({threads}, {times}, {ns} together in {span}){samples}. To see what \
         takes the time, record with nsys profile --trace=cuda,nvtx,osrt, and see that the program uses a GPU"
    )
}

/// The names with most self time, and the part of waits.
fn self_times(of: &SelfTimes) -> String {
    let what = match of.kinds[..] {
        [SliceKind::Operator] => " in operators",
        [SliceKind::PythonFunction] => " in Python functions",
        [SliceKind::Operator, SliceKind::PythonFunction] => " in operators and Python functions",
        // Most of a program is between them.
        [SliceKind::Os] => " in calls of the operating system",
        _ => "",
    };
    let share = |ns: i64| percent(ns as f64 / of.total_ns.max(1) as f64);
    let within = match (of.basis, of.n_steps) {
        (Basis::Range | Basis::RangeOfWork, _) => " in the selected range".to_owned(),
        (Basis::ChosenStep, _) => " in the selected step".to_owned(),
        (Basis::Steps, n) => format!(" in {}", format::steps(n)),
        _ => String::new(),
    };
    let threads = match of.n_threads {
        1 => "one thread".to_owned(),
        n => format!("{} threads together", format::count(n as u64)),
    };
    // What is not in operators is in Python, or nothing ran.
    let of_time = match of.n_threads {
        1 if !what.is_empty() => format!(", {} of the time", percent(of.total_ns as f64 / of.window_ns.max(1) as f64)),
        _ => String::new(),
    };
    let without = match of.n_waiting {
        0 => String::new(),
        1 => ", without a thread that does little but wait".to_owned(),
        n => format!(", without {} threads that do little but wait", format::count(n as u64)),
    };
    let named = |all: &[(String, i64)]| shares(all, of.total_ns);
    // Less is no part of the time that one would ask for.
    let least = (LARGE * of.total_ns as f64) as i64;
    let large = of.waits.iter().take_while(|wait| wait.1 >= least).count().max(1).min(of.waits.len());
    let whence = of.waits_in.as_ref().map(|function| format!(", most in {}", clipped(function))).unwrap_or_default();
    let waits = (of.waits_ns > 0 && of.waits_ns >= least)
        .then(|| format!("{} is waiting ({}{whence})", share(of.waits_ns), named(&of.waits[..large])));
    let works = (!of.names.is_empty()).then(|| named(&of.names));
    let parts: Vec<String> = match of.waits_ns * 2 > of.total_ns {
        true => waits.into_iter().chain(works.map(|works| format!("of the work {works}"))).collect(),
        false => works.into_iter().chain(waits).collect(),
    };
    let total = format::duration(of.total_ns);
    let endless = (of.endless_ns > 0 && of.endless_ns >= least).then(|| {
        let share = share(of.endless_ns);
        format!(
            ". {share} of it is of slices whose end was not recorded: they are taken to last to the end of the trace"
        )
    });
    let endless = endless.unwrap_or_default();
    format!("Most self time, of {total}{what} on {threads}{within}{of_time}{without}: {}{endless}", parts.join("; "))
}

/// The calls of the runtime and driver that take time beside what [`self_times`] tells.
fn calls(of: &SelfTimes) -> Option<String> {
    let all = of.calls_ns + of.total_ns;
    if (of.calls_ns as f64) < LARGE * all as f64 || of.calls.is_empty() {
        return None;
    }
    let of_time = match of.n_threads {
        1 => format!(", {} of the time", percent(of.calls_ns as f64 / of.window_ns.max(1) as f64)),
        _ => String::new(),
    };
    let ns = format::duration(of.calls_ns);
    Some(format!("API calls take {ns}{of_time}: {}", shares(&of.calls, of.calls_ns)))
}

/// Names with their shares of some time.
fn shares(all: &[(String, i64)], of_ns: i64) -> String {
    let names = clipped_apart(&all.iter().map(|name| name.0.as_str()).collect::<Vec<_>>());
    let share = |ns: i64| percent(ns as f64 / of_ns.max(1) as f64);
    names.iter().zip(all).map(|(name, of)| format!("{name} {}", share(of.1))).collect::<Vec<String>>().join(", ")
}

/// That PyTorch's profiler recorded no call stacks, how to record them, and what they tell; not where calls already
/// tell what takes most of the time.
fn without_stacks(of: &Judged<'_>) -> Option<String> {
    let times = of.verdicts.self_times.as_ref().filter(|times| times.kinds == [SliceKind::Operator])?;
    // A tenth is what happens between operators.
    let has_rest = times.n_threads == 1 && times.total_ns + times.calls_ns < times.window_ns / 10 * 9;
    let rest = if has_rest { " and what takes the rest of the time" } else { "" };
    let is_told = !has_rest && times.calls_ns > times.total_ns;
    // A file that lost a part may have held them.
    (!of.verdicts.run.has_stacks && !is_told && !of.trace.import.is_partial).then(|| {
        format!(
            "No call stacks were recorded: with_stack=True in torch.profiler, or lacuna capture --stacks, shows which \
             Python code calls these operators{rest}"
        )
    })
}

/// The phases of the steps of a host.
fn phases(of: &Judged<'_>) -> Option<String> {
    let HostTime { phases, other_in } = of.verdicts.host.as_ref()?;
    let window = of.verdicts.windows.iter().find(|window| window.device.is_none())?;
    let whole: i64 = phases.iter().sum();
    let share = |phase: Phase| phases[phase as usize] as f64 / whole.max(1) as f64;
    let mut largest: Vec<Phase> = Phase::ALL.into_iter().filter(|&phase| share(phase) >= LARGE).collect();
    largest.sort_by(|&a, &b| share(b).total_cmp(&share(a)));
    largest.truncate(MOST_NAMED);
    let scope = scope_of(window.basis, window.steps.len());
    let named: Vec<String> = (largest.iter().enumerate())
        .map(|(i, &phase)| {
            let of = if i == 0 { format!(" {scope}") } else { String::new() };
            format!("{}{of} {}{}", percent(share(phase)), doing(phase), function_of(phase, other_in.as_ref()))
        })
        .collect();
    let named = match named.split_last()? {
        (last, []) => last.clone(),
        (last, first) => format!("{} and {last}", first.join(", ")),
    };
    let who = of.device(None);
    Some(format!("{who} spends {named}"))
}

/// The longest step of a host, if it is irregular.
fn longest_step(of: &Judged<'_>) -> Option<String> {
    let step = of.verdicts.longest_step.as_ref()?;
    let [ns, median] = [step.ns, step.median_ns].map(format::duration);
    let more = step.more.map(|(phase, ns)| {
        let function = function_of(phase, step.other_in.as_ref());
        format!(": it spends {} more {}{function}", format::duration(ns), doing(phase))
    });
    Some(format!("{} takes {ns}, the median step {median}{}", clipped(&step.name), more.unwrap_or_default()))
}

/// The function in which time of no known phase is.
fn function_of(phase: Phase, other_in: Option<&MostIn>) -> String {
    let Some(most) = other_in.filter(|_| phase == Phase::Other) else { return String::new() };
    let part = if most.ns as f64 >= NEARLY_ALL * most.of_ns as f64 { "nearly all" } else { "most" };
    format!(" ({part} of it in {})", clipped(&most.function))
}

/// What time is spent on.
fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::DataLoading => "loading data",
        Phase::Forward => "in the forward pass",
        Phase::Backward => "in the backward pass",
        Phase::Optimizer => "in the optimizer",
        Phase::Copies => "copying",
        Phase::Communication => "communicating",
        Phase::Waiting => "waiting",
        Phase::Other => "in no known phase",
    }
}
