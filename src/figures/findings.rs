//! Converts results of analyses to findings, with text and figures.

use super::format;
use crate::analysis::finding::{Evidence, Finding};
use crate::analysis::memory::leaks::{LeakCandidate, Thresholds, Total};
use crate::analysis::memory::oom::{OomCard, OomHint};
use crate::model::{Problem, Severity, TimeNs};

/// A problem met while reading a file. Measured is how often it was met.
pub fn import_problem(problem: &Problem, path: &str) -> Finding {
    Finding {
        rule: "import_problem",
        severity: problem.severity,
        text: problem.reason.clone(),
        measured: problem.count as f64,
        threshold: 1.0,
        evidence: Evidence { file: Some(path.to_owned()), ..Evidence::default() },
        advice: Vec::new(),
    }
}

/// A place whose memory grows step after step. Measured is the gain of a step, in bytes.
///
/// * `place`: the frame that says most.
pub fn leak(candidate: &LeakCandidate, place: &str) -> Finding {
    Finding {
        rule: "memory_leak",
        severity: candidate.severity,
        text: format!("{place} leaks {} a step", format::bytes(candidate.bytes_per_step)),
        measured: candidate.bytes_per_step,
        threshold: Thresholds::default().min_bytes_per_step,
        evidence: Evidence { names: vec![place.to_owned()], ..Evidence::default() },
        advice: Vec::new(),
    }
}

/// All memory of a device, if it grows by too much. Measured is the gain of a step, in bytes.
pub fn growth(total: &Total) -> Option<Finding> {
    total.is_alarm.then(|| Finding {
        rule: "memory_growth",
        severity: Severity::Warn,
        text: total.verdict.sentence().to_owned(),
        measured: total.trend.slope,
        threshold: Thresholds::default().alarm_bytes_per_step,
        evidence: Evidence::default(),
        advice: Vec::new(),
    })
}

/// A request that the device could not serve. Measured are the bytes requested, the threshold are those that
/// the device had left, 0 if unknown.
///
/// * `at`: when, on the session clock.
pub fn out_of_memory(card: &OomCard, at: Option<TimeNs>) -> Finding {
    let fact = |what: &OomHint| what.fact(format::mebibytes);
    Finding {
        rule: "out_of_memory",
        severity: Severity::High,
        text: format!("Out of memory: {} requested", format::bytes(card.requested as f64)),
        measured: card.requested as f64,
        threshold: card.device_free.unwrap_or_default() as f64,
        evidence: Evidence { range_ns: at.map(|at| [at, at]), ..Evidence::default() },
        advice: card.hints.iter().map(fact).collect(),
    }
}
