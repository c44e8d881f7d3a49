//! Phases of a trace, and findings about its time.

use std::sync::Arc;

use super::time::{BusyDevices, GapClusters, Ledgers, TraceSteps};
use super::{Analysis, Work};
use crate::analysis::phases::{Phases, phases};
use crate::analysis::rules::{Measured, RunFacts, Thresholds, Verdicts, verdicts};
use crate::model::{TimeRange, Trace};

/// The phases of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePhases;

impl Analysis for TracePhases {
    type Of = Arc<Trace>;
    type Output = Phases;
    const NAME: &'static str = "The search for phases";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        Some(phases(of, &|| work.is_cancelled()))
    }
}

/// What a trace shows of the program and its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRun;

impl Analysis for TraceRun {
    type Of = Arc<Trace>;
    type Output = RunFacts;
    const NAME: &'static str = "The facts about the run";

    fn run(&self, of: &Arc<Trace>, _: &Work<'_>) -> Option<Self::Output> {
        Some(RunFacts::of(of))
    }
}

/// What the rules say of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleVerdicts {
    pub steps: TraceSteps,
    pub thresholds: Thresholds,
    /// Only this time, in trace time.
    pub range: Option<TimeRange>,
}

impl Analysis for RuleVerdicts {
    type Of = Arc<Trace>;
    type Output = Verdicts;
    const NAME: &'static str = "The search for findings";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        let steps = work.get(of, &self.steps)?;
        // Others look for the gaps meanwhile.
        let phases = work.get(of, &TracePhases)?;
        let run = *work.get(of, &TraceRun)?;
        let measured = Measured {
            trace: of,
            steps: (*steps).as_ref(),
            busy: &work.get(of, &BusyDevices)?,
            ledgers: &work.get(of, &Ledgers { steps: self.steps.clone() })?,
            clusters: &work.get(of, &GapClusters { steps: self.steps.clone() })?,
            phases: &phases,
            range: self.range,
            run,
        };
        Some(verdicts(&measured, &self.thresholds, &|| work.is_cancelled()))
    }
}
