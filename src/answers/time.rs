//! Analyses of time with several callers: steps, busy time and gap ledgers of devices.

use std::sync::Arc;

use super::{Analysis, Work};
use crate::analysis::busy::{DeviceBusy, devices};
use crate::analysis::gaps::clusters::{Clusters, clusters};
use crate::analysis::gaps::{Ground, Ledger, LedgerIndex};
use crate::analysis::steps::{StepParts, Steps, marked, step_parts, steps};
use crate::model::{ProcessId, TimeNs, Trace};
use crate::session::OpenTrace;

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
        Some(match &self.marks {
            Some(marks) => marked(marks),
            None => steps(of, &|| work.is_cancelled()),
        })
    }
}

/// The steps of a trace and what they were spent on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartsOfSteps {
    pub steps: TraceSteps,
    /// How many steps, the first, get parts; 0 stands for all.
    pub n: usize,
}

impl Analysis for PartsOfSteps {
    type Of = Arc<Trace>;
    /// Steps, and their parts if there are steps.
    type Output = (Arc<Option<Steps>>, StepParts);
    const NAME: &'static str = "The parts of the steps";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        let steps = work.get(of, &self.steps)?;
        let busy = work.get(of, &BusyDevices)?;
        let parts = steps.as_ref().as_ref().map(|steps| step_parts(of, steps, &busy, self.n));
        Some((steps, parts.unwrap_or_default()))
    }
}

/// Where the first step that counts of each trace begins, in its own time, or that which is as many after it as the chosen
/// one; `None` where there is none, or where what repeats may be no steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlignedSteps {
    /// The trace of a chosen step, by its [`OpenTrace::id`], and where the step begins in its own time.
    pub chosen: Option<(Arc<str>, TimeNs)>,
}

impl Analysis for AlignedSteps {
    type Of = [OpenTrace];
    type Output = Vec<Option<TimeNs>>;
    const NAME: &'static str = "The search for steps";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Self::Output> {
        let all = of.iter().map(|open| work.get(&open.trace, &TraceSteps::default()));
        let all: Vec<Arc<Option<Steps>>> = all.collect::<Option<_>>()?;
        let all = of.iter().zip(&all).map(|(open, steps)| {
            let is_told = |steps: &&Steps| open.is_program() && steps.is_reliable();
            (open, (**steps).as_ref().filter(is_told))
        });
        let nth = |(id, start): &(Arc<str>, TimeNs)| {
            let steps = all.clone().find(|(open, _)| open.id == *id)?.1?;
            let step = steps.extents().iter().position(|time| time.start == *start)?;
            // Before the first that counts it is negative.
            Some(step.cast_signed() - steps.used.start.cast_signed())
        };
        let nth = self.chosen.as_ref().map_or(Some(0), nth);
        let start = |steps: &Steps| Some(steps.extents().get(steps.used.start.checked_add_signed(nth?)?)?.start);
        Some(all.map(|(_, steps)| steps.and_then(start)).collect())
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
        // What needs no steps comes first: others look for them meanwhile.
        let ground = Ground::new(of);
        let busy = work.get(of, &BusyDevices)?;
        let steps = work.get(of, &self.steps)?;
        let is_cancelled = || work.is_cancelled();
        Some(ground.ledgers(&busy, (*steps).as_ref(), &is_cancelled))
    }
}

/// [`Ledgers`] with what views look up in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexedLedgers(pub Ledgers);

/// The ledgers of a trace, each with its index.
#[derive(Debug)]
pub struct Indexed {
    pub ledgers: Arc<Vec<Ledger>>,
    /// One for each ledger.
    pub busy: Arc<Vec<DeviceBusy>>,
    /// Likewise.
    pub indices: Vec<LedgerIndex>,
}

impl Indexed {
    /// The ledger of the device of a process.
    pub fn of(&self, process: ProcessId) -> Option<(&Ledger, &LedgerIndex)> {
        self.iter().find(|(ledger, _)| ledger.process == process)
    }

    /// All ledgers.
    pub fn iter(&self) -> impl Iterator<Item = (&Ledger, &LedgerIndex)> {
        self.ledgers.iter().zip(&self.indices)
    }
}

impl Analysis for IndexedLedgers {
    type Of = Arc<Trace>;
    type Output = Indexed;
    const NAME: &'static str = "Ranking the gaps";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Indexed> {
        let ledgers = work.get(of, &self.0)?;
        let steps = work.get(of, &self.0.steps)?;
        let counted = |ledger: &Ledger| (*steps).as_ref()?.counted_on(ledger.process).on_device();
        let index = |ledger: &Ledger| LedgerIndex::new(ledger, counted(ledger), &|| work.is_cancelled());
        let indices = ledgers.iter().map(index).collect();
        Some(Indexed { ledgers, busy: work.get(of, &BusyDevices)?, indices })
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
    const NAME: &'static str = "The search for recurring gaps";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        let steps = work.get(of, &self.steps)?;
        let ledgers = work.get(of, &Ledgers { steps: self.steps.clone() })?;
        let is_cancelled = || work.is_cancelled();
        Some(clusters(of, &ledgers, (*steps).as_ref(), &is_cancelled))
    }
}
