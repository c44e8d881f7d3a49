//! Time beside that of another file.

use std::sync::Arc;

use crate::analysis::rules::Thresholds;
use crate::answers::Answers;
use crate::answers::compare::ComparedTime;
use crate::answers::time::TraceSteps;
use crate::cli::Failure;
use crate::figures::compared_time::{TimeComparison, Whose, not_compared, without_counterpart};
use crate::model::Trace;
use crate::session::OpenTrace;

/// The judged time of each trace beside that of the one in `bases` that has its rank, as far as both have one; and why
/// others are not compared.
///
/// * `files`: the title of each trace that its rank does not distinguish.
/// * `top`: rows of each list; 0 keeps all.
///
/// Errors: an analysis crashed, as stderr says.
pub fn compared_time(
    traces: &[OpenTrace],
    files: &[Option<Arc<str>>],
    bases: &[Arc<Trace>],
    answers: &Answers,
    (thresholds, top): (Thresholds, usize),
) -> Result<(Vec<TimeComparison>, Vec<String>), Failure> {
    let failed = || Failure::Usage("The times could not be compared. Please report it".to_owned());
    let one_each = traces.len() == 1 && bases.len() == 1;
    let (mut out, mut missing) = (Vec::new(), Vec::new());
    for (open, file) in traces.iter().zip(files).filter(|(open, _)| open.is_program()) {
        let (rank, title) = (open.trace.info.rank, open.trace.info.title());
        let is_same = |base: &&Arc<Trace>| one_each || rank.zip(base.info.rank).is_none_or(|(own, other)| own == other);
        let Some(base) = bases.iter().find(is_same) else {
            missing.push(format!("No file of the rank of {title} to compare it with"));
            continue;
        };
        let pair = [OpenTrace::new(Arc::clone(base), 0), open.clone()];
        let asked = ComparedTime { pair: [0, 1], steps: [TraceSteps::default(), TraceSteps::default()], thresholds };
        let found = answers.get(&pair[..], &asked).ok_or_else(failed)?;
        let base_title = base.info.title();
        match found.devices.is_empty() {
            true => missing.push(not_compared(found.n_judged, found.has_devices, [&base_title, &title])),
            false => missing.extend(without_counterpart(found.n_alone())),
        }
        out.extend(found.devices.iter().map(|one| {
            let base_rank = base.info.rank.filter(|_| base.info.rank != rank);
            let base = base_title.as_str().into();
            let whose = Whose { file: file.clone(), rank, device: one.device, base, base_rank };
            TimeComparison { whose, compared: one.compared.clone(), top }
        }));
    }
    Ok((out, missing))
}
