//! Time beside that of another file.

use std::sync::Arc;

use crate::analysis::rules::Thresholds;
use crate::answers::Answers;
use crate::answers::compare::ComparedTime;
use crate::answers::time::TraceSteps;
use crate::cli::{Failure, output};
use crate::figures::compared_time::{TimeComparison, Whose};
use crate::model::Trace;
use crate::session::OpenTrace;

/// The judged time of each trace beside that of the one in `bases` that has its rank, as far as both have one. Empty where
/// nothing can be compared.
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
) -> Result<Vec<TimeComparison>, Failure> {
    let failed = || Failure::Usage("The times could not be compared. Please report it".to_owned());
    let one_each = traces.len() == 1 && bases.len() == 1;
    let mut out = Vec::new();
    for (open, file) in traces.iter().zip(files).filter(|(open, _)| open.is_program()) {
        let rank = open.trace.info.rank;
        let is_same = |base: &&Arc<Trace>| one_each || rank.zip(base.info.rank).is_none_or(|(own, other)| own == other);
        let base = bases.iter().find(is_same);
        let pair = base.map(|base| [OpenTrace::new(Arc::clone(base), 0), open.clone()]);
        let asked = ComparedTime { pair: [0, 1], steps: [TraceSteps::default(), TraceSteps::default()], thresholds };
        let found = pair.as_ref().map(|pair| answers.get(&pair[..], &asked).ok_or_else(failed)).transpose()?;
        let Some((base, found)) = base.zip(found).filter(|(_, found)| !found.is_empty()) else {
            output::write_stderr(&format!(
                "--compare has no time that {} could be compared with",
                open.trace.info.title()
            ));
            continue;
        };
        out.extend(found.iter().map(|one| {
            let whose = Whose { file: file.clone(), rank, device: one.device, base: base.info.title().into() };
            TimeComparison { whose, compared: one.compared.clone(), top }
        }));
    }
    Ok(out)
}
