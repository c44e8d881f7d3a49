//! Analyses of time with several callers: steps, busy time and gap ledgers of devices.

use std::sync::Arc;

use super::{Analysis, Work};
use crate::analysis::busy::{DeviceBusy, devices};
use crate::analysis::gaps::clusters::{Clusters, clusters};
use crate::analysis::gaps::{Ledger, ledger};
use crate::analysis::steps::{Steps, steps};
use crate::model::{TimeNs, Trace};

/// The steps of a trace, if there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSteps {
    /// The user's marks, if they are to be the steps; in the trace's own time, ascending.
    pub marks: Option<Vec<TimeNs>>,
}

impl Analysis for TraceSteps {
    type Of = Arc<Trace>;
    type Output = Option<Steps>;
    const NAME: &'static str = "The search for steps";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        Some(steps(of, &|| work.is_cancelled()))
    }
}

/// Busy time of each device of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyDevices;

impl Analysis for BusyDevices {
    type Of = Arc<Trace>;
    type Output = Vec<DeviceBusy>;
    const NAME: &'static str = "Adding up the devices";

    fn run(&self, of: &Arc<Trace>, _: &Work<'_>) -> Option<Self::Output> {
        Some(devices(of))
    }
}

/// The gap ledger of each device of a trace, in the order of [`BusyDevices`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledgers {
    pub steps: TraceSteps,
}

impl Analysis for Ledgers {
    type Of = Arc<Trace>;
    type Output = Vec<Ledger>;
    const NAME: &'static str = "The search for gaps";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        let steps = work.get(of, &self.steps)?;
        let busy = work.get(of, &BusyDevices)?;
        let is_cancelled = || work.is_cancelled();
        Some(busy.iter().map(|busy| ledger(of, busy, (*steps).as_ref(), &is_cancelled)).collect())
    }
}

/// The gap clusters of each device of a trace, in the order of [`BusyDevices`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapClusters {
    pub steps: TraceSteps,
}

impl Analysis for GapClusters {
    type Of = Arc<Trace>;
    type Output = Vec<Clusters>;
    const NAME: &'static str = "The search for gaps that come back";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        let steps = work.get(of, &self.steps)?;
        let ledgers = work.get(of, &Ledgers { steps: self.steps.clone() })?;
        let is_cancelled = || work.is_cancelled();
        let clusters = |ledger| clusters(of, ledger, (*steps).as_ref(), &is_cancelled);
        Some(ledgers.iter().map(clusters).collect())
    }
}

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
        let measured = Measured {
            trace: of,
            steps: (*steps).as_ref(),
            busy: &*work.get(of, &BusyDevices)?,
            ledgers: &*work.get(of, &Ledgers { steps: self.steps.clone() })?,
            clusters: &*work.get(of, &GapClusters { steps: self.steps.clone() })?,
            phases: &*work.get(of, &TracePhases)?,
            range: self.range,
        };
        Some(verdicts(&measured, &self.thresholds, &|| work.is_cancelled()))
    }
}
