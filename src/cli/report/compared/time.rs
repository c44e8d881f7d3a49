//! Time beside that of another file.

use std::sync::Arc;

use crate::analysis::busy::DeviceBusy;
use crate::analysis::compare::{Side, compare};
use crate::analysis::rules::{Thresholds, Verdicts, Window};
use crate::analysis::steps::Steps;
use crate::answers::Answers;
use crate::answers::findings::RuleVerdicts;
use crate::answers::time::{BusyDevices, TraceSteps};
use crate::cli::{Failure, output};
use crate::figures::compared_time::{TimeComparison, Whose};
use crate::model::Trace;
use crate::session::OpenTrace;

/// The judged time of each device beside that of the same device, and of the same rank where both have one, in `bases`;
/// where one is judged on each side, of these. Empty where nothing can be compared.
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
    let judged = |trace: &Arc<Trace>| Judged::of(trace, answers, thresholds).ok_or_else(failed);
    let own = traces.iter().map(|open| judged(&open.trace)).collect::<Result<Vec<_>, _>>()?;
    let bases = bases.iter().map(judged).collect::<Result<Vec<_>, _>>()?;
    let all = |of: &[Judged]| of.iter().map(|one| one.verdicts.windows.len()).sum::<usize>();
    let one_each = all(&own) == 1 && all(&bases) == 1;
    let mut out = Vec::new();
    for (of, file) in own.iter().zip(files) {
        for window in &of.verdicts.windows {
            let is_same = |base: &Judged, other: &Window| {
                let ranks = of.trace.info.rank.zip(base.trace.info.rank);
                one_each || window.device == other.device && ranks.is_none_or(|(own, other)| own == other)
            };
            let mut others = bases.iter().flat_map(|base| base.verdicts.windows.iter().map(move |other| (base, other)));
            let Some((base, other)) = others.find(|(base, other)| is_same(base, other)) else {
                let device = window.device.map_or("its host".to_owned(), |device| format!("device {device}"));
                let title = of.trace.info.title();
                output::write_stderr(&format!("--compare has no time that {device} of {title} could be compared with"));
                continue;
            };
            let (rank, base_title) = (of.trace.info.rank, base.trace.info.title().into());
            let whose = Whose { file: file.clone(), rank, device: window.device, base: base_title };
            let compared = compare(&base.side(other), &of.side(window), &|| false);
            out.push(TimeComparison { whose, compared, top });
        }
    }
    Ok(out)
}

/// What is judged of a trace.
struct Judged {
    trace: Arc<Trace>,
    steps: Arc<Option<Steps>>,
    busy: Arc<Vec<DeviceBusy>>,
    verdicts: Arc<Verdicts>,
}

impl Judged {
    fn of(trace: &Arc<Trace>, answers: &Answers, thresholds: Thresholds) -> Option<Self> {
        Some(Self {
            trace: Arc::clone(trace),
            steps: answers.get(trace, &TraceSteps::default())?,
            busy: answers.get(trace, &BusyDevices)?,
            verdicts: answers.get(trace, &RuleVerdicts { thresholds, ..RuleVerdicts::default() })?,
        })
    }

    fn side<'a>(&'a self, window: &'a Window) -> Side<'a> {
        let busy = self.busy.iter().find(|busy| Some(busy.device) == window.device);
        let makeup = self.verdicts.makeups.iter().find(|makeup| makeup.device == window.device && busy.is_some());
        Side { trace: &self.trace, steps: (*self.steps).as_ref(), window, busy, makeup }
    }
}
