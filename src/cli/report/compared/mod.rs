//! `--compare`: time and memory beside those of another file.

mod memory;
mod time;

use std::sync::Arc;

use super::keys::Report;
use crate::analysis::rules::Thresholds;
use crate::answers::Answers;
use crate::cli::Failure;
use crate::figures::compared_time::time_comparison;
use crate::model::Trace;
use crate::session::OpenTrace;

/// Adds the parts `time_comparison` and `memory_comparison`, and a finding for each device that became slower.
///
/// * `files`: the title of each trace that its rank does not distinguish.
/// * `bases`: what is compared with; without any nothing is added.
/// * `top`: rows of each list; 0 keeps all.
///
/// Errors: an analysis crashed, as stderr says, or there is nothing to compare.
pub fn add(
    report: &mut Report,
    traces: &[OpenTrace],
    files: &[Option<Arc<str>>],
    bases: &[Arc<Trace>],
    answers: &Answers,
    thresholds: Thresholds,
    top: usize,
) -> Result<(), Failure> {
    if bases.is_empty() {
        return Ok(());
    }
    report.memory_comparison = memory::compared_memory(traces, files, bases, answers, top)?;
    let times = time::compared_time(traces, files, bases, answers, (thresholds, top))?;
    report.findings.extend(times.iter().filter_map(|one| one.finding(&thresholds.slower)));
    report.time_comparison = time_comparison().table(times, 0);
    if report.memory_comparison.rows.is_empty() && report.time_comparison.rows.is_empty() {
        let why = "--compare: both need memory of the same device, or work whose time is judged";
        return Err(Failure::Usage(why.to_owned()));
    }
    Ok(())
}
