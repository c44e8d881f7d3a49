//! Converts results of analyses to findings, with text and figures.

use super::memory::{RECORDED_STREAM, caught, excess_advice, growing_place, growth_sentence, leak_advice, raise, why};
use super::text::{short_frame, shortened};
use super::verdicts::level;
use super::{Cell, Part, Stack, Word, figures, format};
use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::memory::leaks::{LeakCandidate, Leaks, Room, Thresholds, Total, TotalVerdict};
use crate::analysis::memory::oom::{OomCard, OomHint};
use crate::analysis::memory::signature::SignatureId;
use crate::analysis::memory::steps::Steps;
use crate::model::{Problem, Severity, TimeNs};

/// The rule of problems met while reading.
pub const IMPORT_PROBLEM: &str = "import_problem";
/// The rule of requests that the device could not serve.
pub const OUT_OF_MEMORY: &str = "out_of_memory";
/// The rule about memory that grows in every step.
pub const MEMORY_LEAK: &str = "memory_leak";
/// The rule about reserved memory that grows in every step.
pub const RESERVED_GROWTH: &str = "reserved_growth";

/// A problem met while reading a file. Measured is how often it was met.
pub fn import_problem(problem: &Problem, path: &str) -> Finding {
    Finding {
        rule: IMPORT_PROBLEM,
        severity: problem.severity,
        text: problem.reason.clone(),
        measured: problem.count as f64,
        threshold: 1.0,
        default_threshold: None,
        unit: Unit::Count,
        evidence: Evidence { file: Some(path.to_owned()), ..Evidence::default() },
        ceiling_ns_per_step: None,
        recorder_ns_per_step: None,
        ahead_ns_per_step: None,
        advice: Vec::new(),
    }
}

/// A place whose memory grows step after step, by one call stack or several that differ in frames of libraries alone.
/// Measured is the gain of a step, in bytes.
///
/// * `leaks`: those of the place, with the stacks of their allocations; the first one names it.
/// * `since`: the name of the step in which it begins to grow, if late.
/// * `kinds`: what the blocks are, if the file tells, which is said where no stack names their place.
///
/// `None` without leaks.
pub fn leak(leaks: &[(&LeakCandidate, Stack)], since: Option<String>, kinds: &str) -> Option<Finding> {
    let (_, place) = leaks.first()?;
    let candidates: Vec<&LeakCandidate> = leaks.iter().map(|leak| leak.0).collect();
    let growth = candidates.iter().map(|one| one.growth_bytes).sum();
    let measured = candidates.iter().map(|one| one.bytes_per_step).sum();
    let thresholds = Thresholds::default();
    let since = since.map(|step| format!(" since {step}")).unwrap_or_default();
    let rate = format::bytes(measured);
    let is_one = leaks.iter().all(|leak| leak.1.place == place.place);
    let name = if is_one { place.name() } else { place.frame() };
    let who = match (place.place.is_empty(), kinds) {
        (true, "") => "Blocks without a call stack leak".to_owned(),
        (true, kinds) => format!("Blocks without a call stack ({kinds}) leak"),
        (false, _) => format!("{name} leaks"),
    };
    Some(Finding {
        rule: MEMORY_LEAK,
        severity: thresholds.severity(growth),
        text: format!("{who} {rate} a step{since}{}", stacks_of(leaks)),
        measured,
        threshold: thresholds.min_bytes_per_step,
        default_threshold: None,
        unit: Unit::BytesPerStep,
        evidence: Evidence { names: vec![name.to_owned()], ..Evidence::default() },
        ceiling_ns_per_step: None,
        recorder_ns_per_step: None,
        ahead_ns_per_step: None,
        advice: leak_advice(&candidates, &place.frames),
    })
}

/// How many call stacks lead to a place, and the frames in which they differ, those next to the allocation first:
/// `, by 8 call stacks: aten::addmm, aten::gelu`. Empty for one.
fn stacks_of(leaks: &[(&LeakCandidate, Stack)]) -> String {
    const MAX_NAMED: usize = 3;
    let depth = leaks.iter().map(|(_, stack)| stack.frames.len()).max().unwrap_or_default();
    let at = |depth: usize| {
        let mut frames: Vec<&str> = Vec::new();
        for frame in leaks.iter().filter_map(|(_, stack)| stack.frames.get(depth)) {
            if !frames.contains(&frame.as_str()) {
                frames.push(frame);
            }
        }
        frames
    };
    let differing = (0..depth).map(at).find(|frames| frames.len() > 1).unwrap_or_default();
    let named = differing.iter().take(MAX_NAMED).map(|frame| shortened(&short_frame(frame), 40));
    let mut named: Vec<String> = named.collect();
    if differing.len() > MAX_NAMED {
        named.push(format!("{} others", differing.len() - MAX_NAMED));
    }
    let names = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    if leaks.len() < 2 { String::new() } else { format!(", by {} call stacks{names}", leaks.len()) }
}

/// All memory of a device, if it grows by too much. Measured is the gain of a step, in bytes.
pub fn growth(found: &Leaks, steps: &Steps) -> Option<Finding> {
    let total = found.total.filter(|total| total.is_alarm)?;
    let leaked: f64 = found.candidates.iter().map(|one| one.bytes_per_step).sum();
    let advice = growth_advice(found, &total);
    Some(Finding {
        measured: total.trend.slope.max(leaked),
        ..alarm("memory_growth", growth_sentence(found, steps), advice)
    })
}

/// Where to look, and how long there is to do so.
fn growth_advice(found: &Leaks, total: &Total) -> Vec<String> {
    let kept: i64 = found.candidates.iter().map(|one| one.growth_bytes).sum();
    let share = if total.growth_bytes > kept { kept as f64 / total.growth_bytes as f64 } else { 1.0 };
    let mut grows = growing_place(found);
    let is_known = found.candidates.iter().any(|one| one.signature != SignatureId::default());
    let place = match (if is_known { found.places } else { 0 }, found.coverage) {
        (0, coverage) if coverage < 0.5 => "Most of what is live after the last step has no call stack: record with \
             torch.cuda.memory._record_memory_history(stacks=\"all\"), or the profiler with with_stack=True"
            .to_owned(),
        (0, _) if grows.is_some() => grows.take().unwrap_or_default(),
        (0, _) => "No place grows in most steps. Compare what each holds early and late, by place".to_owned(),
        (1, _) => format!("Start with the place that leaks: {:.0} % of the growth", 100.0 * share),
        (n, _) => format!("Start with the {n} places that leak: {:.0} % of the growth", 100.0 * share),
    };
    let room = match (total.room, total.steps_to_oom) {
        (_, Some(steps)) => format!("At this rate the device is full in about {} steps", format::count(steps as u64)),
        (Room::RanOut, _) => "Memory has run out already".to_owned(),
        (Room::NoReserved, _) => {
            "When the device will be full is unknown: the file does not record reserved memory".to_owned()
        }
        (Room::NoTotal, _) => {
            "When the device will be full is unknown: the file does not record its total memory".to_owned()
        }
        (Room::Known(room), _) => format!("{} can still be reserved", format::bytes(room as f64)),
    };
    let awaits = found.growing.first().is_some_and(|one| one.awaiting > 0);
    let awaiting = awaits.then(|| RECORDED_STREAM.to_owned());
    std::iter::once(place).chain(grows).chain(awaiting).chain([room]).collect()
}

/// Reserved memory of a device, if it grows by too much while live memory is level. Measured is the gain of a step, in
/// bytes.
pub fn reserved_growth(found: &Leaks, steps: &Steps) -> Option<Finding> {
    let total = found.total.filter(|total| total.is_reserved_alarm)?;
    let thresholds = Thresholds::default();
    let advice = match total.verdict {
        TotalVerdict::Ratchet => {
            "Look for inputs that grow from step to step: sequences, batches, caches inside a step. Cap or bucket them"
                .to_owned()
        }
        _ => excess_advice(found.excess.as_ref()),
    };
    let text = match total.verdict {
        // That memory in use grows is a finding of its own.
        TotalVerdict::Growth => {
            let bytes = |slope: f64| format::bytes(slope.max(0.0));
            let [reserved, used] = [total.reserved_trend.slope, total.trend.slope].map(bytes);
            // What steps need while they run is demand as well.
            let within = match total.has_steeper_peaks(&thresholds) {
                true => format!(", within steps by {}", bytes(total.peak_trend.slope)),
                false => String::new(),
            };
            format!("Reserved memory grows by {reserved} a step, memory in use between steps by {used}{within}")
        }
        _ => growth_sentence(found, steps),
    };
    // Judged like a leak, by all that it has grown.
    let growth = total.reserved_trend.slope * steps.len().saturating_sub(found.warm_up) as f64;
    let severity = thresholds.severity(growth as i64).max(Severity::Warn);
    let found = alarm(RESERVED_GROWTH, text, vec![advice]);
    Some(Finding { measured: total.reserved_trend.slope, severity, ..found })
}

fn alarm(rule: &'static str, text: String, advice: Vec<String>) -> Finding {
    Finding {
        rule,
        severity: Severity::Warn,
        text,
        measured: 0.0,
        threshold: Thresholds::default().alarm_bytes_per_step,
        default_threshold: None,
        unit: Unit::BytesPerStep,
        evidence: Evidence::default(),
        ceiling_ns_per_step: None,
        recorder_ns_per_step: None,
        ahead_ns_per_step: None,
        advice,
    }
}

/// A request that the device could not serve, as often as it was made. Measured are the bytes requested, the threshold
/// are those that the device had left for the process at least, within the limit that refused it; 0 if unknown.
///
/// * `card`: of the last time.
/// * `place`: where the request was made; empty if unknown.
/// * `grows`: which place holds more each step, as a sentence.
/// * `at`: when first and last, on the session clock.
/// * `after`: allocations after the last of all failed requests, if the program went on.
pub fn out_of_memory(
    card: &OomCard,
    place: &str,
    times: usize,
    grows: Option<String>,
    at: Option<[TimeNs; 2]>,
    after: Option<u64>,
) -> Finding {
    let fact = |what: &OomHint| what.fact(|bytes| format::bytes(bytes as f64));
    let by = if place.is_empty() { String::new() } else { format!(" by {place}") };
    let requested = format!("{} requested{by}", format::bytes(card.requested as f64));
    let mut advice: Vec<String> = raise(card).into_iter().chain(card.hints.iter().map(fact)).collect();
    if card.exceeded().is_some() {
        advice
            .push("Request less at once: no setting makes room for a request larger than all of the memory".to_owned());
    }
    advice.extend(grows.map(|grows| format!("Or look at what grows: {grows}")));
    Finding {
        rule: OUT_OF_MEMORY,
        severity: Severity::High,
        text: match times {
            1 => format!("Out of memory: {requested}. {}{}", why(card), caught(after)),
            n => {
                let n = format::count(n as u64);
                format!("Out of memory {n} times: {requested}. Last: {}{}", why(card), caught(after))
            }
        },
        measured: card.requested as f64,
        threshold: card.left() as f64,
        default_threshold: None,
        unit: Unit::Bytes,
        evidence: Evidence { range_ns: at, ..Evidence::default() },
        ceiling_ns_per_step: None,
        recorder_ns_per_step: None,
        ahead_ns_per_step: None,
        advice,
    }
}

/// Findings in flat reports. Texts may hold text from files.
pub fn findings() -> Part<Finding> {
    let figures = figures! { row: Finding;
        words "severity", "Severity", 70, Cell::Word(severity(row.severity)), "A note, a warning, or high";
        words "rule", "Rule", 130, Cell::name(row.rule), "What was judged";
        words "text", "Finding", 400, Cell::name(&with_notes(row)), "What was found, and what else shows it";
        words "measured", "Measured", 90, Cell::name(&value(row.measured, row.unit)), "The measured value";
        words "threshold", "Severity from", 90, Cell::name(&level(row.threshold, row.default_threshold, row.unit)),
            "The level that it reached: where its severity begins. Findings of less severity begin lower";
        number "ceiling_ns_per_step", "Ceiling per step", 100, Cell::or_empty(row.ceiling_ns_per_step, Cell::Ns),
            "What ending the cause would gain per step at most, on the slowest device; where the steps of ranks do not \
             compare, the most that one gains. It is not added up over devices. It is less than what the device waits \
             by what no fix saves, such as launch latency and time without a record";
        words "advice", "Advice", 400, Cell::Sentences(row.advice.clone().into()), "What to do, and how to check it";
    };
    Part::new("findings", "Findings", figures)
}

/// What stands in place of findings where there are none: how many checks found nothing.
pub fn none() -> Part<u64> {
    let figures = figures! { row: u64;
        words "text", "Finding", 400, Cell::name(&no_findings(*row)), "What was checked";
    };
    Part::new("findings", "Findings", figures)
}

/// That no check found anything.
pub fn no_findings(n_checks: u64) -> String {
    match n_checks {
        1 => "No findings: the one check that applies is within its threshold".to_owned(),
        n => format!("No findings: {} checks are within their thresholds", format::count(n)),
    }
}

fn with_notes(finding: &Finding) -> String {
    let notes = finding.evidence.notes.iter().map(|note| format!(". {note}"));
    std::iter::once(finding.text.clone()).chain(notes).collect()
}

/// The word for the severity of a finding; problems of files have others.
pub fn severity(severity: Severity) -> &'static Word {
    match severity {
        Severity::Note => &Word { rank: 0, key: "note", label: "Note" },
        Severity::Warn => &Word { rank: 1, key: "warn", label: "Warning" },
        Severity::High => &Word { rank: 2, key: "high", label: "High" },
    }
}

/// A measured value with its unit: `31.4 %`, `1.50 MiB per step`.
pub fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => format::count(value.round() as u64),
        Unit::Bytes => format::bytes(value),
        Unit::BytesPerStep => format!("{} per step", format::bytes(value)),
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Ratio => format!("{value:.2}x"),
    }
}
