//! Analyses across the ranks of one job.

use std::sync::Arc;

use super::findings::RuleVerdicts;
use super::time::{BusyDevices, Ledgers, TraceSteps};
use super::{Analysis, Work};
use crate::analysis::busy::DeviceBusy;
use crate::analysis::collectives::ranks::{RankCalls, rank_calls};
use crate::analysis::gaps::Ledger;
use crate::analysis::rules::{OfRank, Thresholds, Verdicts, with_ranks};
use crate::model::{TimeRange, Trace};
use crate::session::OpenTrace;

/// The collectives of several ranks, matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallsOfRanks;

impl Analysis for CallsOfRanks {
    type Of = [OpenTrace];
    type Output = RankCalls;
    const NAME: &'static str = "Comparing the ranks";

    fn run(&self, of: &[OpenTrace], _: &Work<'_>) -> Option<RankCalls> {
        Some(rank_calls(&of.iter().map(|open| &*open.trace).collect::<Vec<&Trace>>()))
    }
}

/// What the rules say of each trace, with what the ranks tell together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllVerdicts {
    /// Of each trace.
    pub steps: Vec<TraceSteps>,
    pub thresholds: Thresholds,
    /// Only this range of session time.
    pub range: Option<TimeRange>,
}

impl Analysis for AllVerdicts {
    type Of = [OpenTrace];
    /// One for each trace.
    type Output = Vec<Arc<Verdicts>>;
    const NAME: &'static str = "The search for findings";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Self::Output> {
        let thresholds = self.thresholds;
        let verdicts = of.iter().zip(&self.steps).map(|(open, steps)| {
            let range = self.range.map(|range| range.shifted(open.offset.saturating_neg()));
            work.get(&open.trace, &RuleVerdicts { steps: steps.clone(), thresholds, range })
        });
        let verdicts: Vec<Arc<Verdicts>> = verdicts.collect::<Option<_>>()?;
        let calls = work.get(of, &CallsOfRanks)?;
        if calls.matches.is_empty() {
            return Some(verdicts);
        }
        let ledgers = of.iter().zip(&self.steps);
        let ledgers = ledgers.map(|(open, steps)| work.get(&open.trace, &Ledgers { steps: steps.clone() }));
        let ledgers: Vec<Arc<Vec<Ledger>>> = ledgers.collect::<Option<_>>()?;
        let busy = of.iter().map(|open| work.get(&open.trace, &BusyDevices));
        let busy: Vec<Arc<Vec<DeviceBusy>>> = busy.collect::<Option<_>>()?;
        let ranks = of.iter().zip(&busy).zip(&ledgers).zip(&verdicts);
        let ranks: Vec<OfRank<'_>> = ranks
            .map(|(((open, busy), ledgers), verdicts)| OfRank { trace: &open.trace, busy, ledgers, verdicts })
            .collect();
        Some(with_ranks(&calls, &ranks, &thresholds).into_iter().map(Arc::new).collect())
    }
}
