//! `--compare`: time and memory beside those of another file.

mod memory;
mod time;

use std::sync::Arc;

use super::keys::Report;
use crate::analysis::rules::Thresholds;
use crate::answers::Answers;
use crate::cli::{Failure, output};
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
    let (memory, no_memory) = memory::compared_memory(traces, files, bases, answers, top)?;
    let (times, no_time) = time::compared_time(traces, files, bases, answers, (thresholds, top))?;
    if memory.rows.is_empty() && times.is_empty() {
        let missing = [no_time, no_memory].concat();
        let why = if missing.is_empty() {
            "one of the two has neither work nor memory".to_owned()
        } else {
            missing.join(". ")
        };
        return Err(Failure::Usage(format!("Nothing to compare: {why}")));
    }
    // Recordings may well have no memory, or no work, but not for some of the devices alone.
    let partly = [(no_time, times.is_empty()), (no_memory, memory.rows.is_empty())];
    partly.iter().filter(|of| !of.1).flat_map(|of| &of.0).for_each(|why| output::write_stderr(why));
    report.findings.extend(times.iter().filter_map(|one| one.finding(&thresholds.slower)));
    report.memory_comparison = memory;
    report.time_comparison = time_comparison().table(times, 0);
    Ok(())
}
