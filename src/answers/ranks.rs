//! Analyses across the ranks of one job.

use std::sync::Arc;

use super::findings::RuleVerdicts;
use super::time::{BusyDevices, Ledgers, TraceSteps};
use super::{Analysis, Work};
use crate::analysis::busy::DeviceBusy;
use crate::analysis::collectives::ranks::{RankCalls, rank_calls};
use crate::analysis::gaps::Ledger;
use crate::analysis::rules::{OfRank, Thresholds, Verdicts, with_ranks};
use crate::analysis::steps::Steps;
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

/// The time of each trace, in its own time, that a range of session time stands for. A step of one trace stands for the
/// step of that name of each other one of its run, the nearest if several have it: ranks run the same step, and not at
/// the same times. Any other range is the same time for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeOfEach {
    /// Of each trace.
    pub steps: Vec<TraceSteps>,
    pub range: TimeRange,
}

impl Analysis for RangeOfEach {
    type Of = [OpenTrace];
    type Output = Vec<TimeRange>;
    const NAME: &'static str = "The search for steps";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Self::Output> {
        let steps = of.iter().zip(&self.steps).map(|(open, steps)| work.get(&open.trace, steps));
        let steps: Vec<Arc<Option<Steps>>> = steps.collect::<Option<_>>()?;
        let own = |open: &OpenTrace| self.range.shifted(open.offset.saturating_neg());
        let chosen = of.iter().zip(&steps).find_map(|(open, steps)| {
            let steps = steps.as_ref().as_ref().filter(|_| open.is_program())?;
            Some((open.run, &steps.names[steps.at(own(open))?]))
        });
        let of_name = |open: &OpenTrace, steps: &Steps| {
            let (_, name) = chosen.filter(|&(run, _)| run == open.run && open.is_program())?;
            let alike = steps.names.iter().zip(steps.extents()).filter(|(other, _)| *other == name);
            alike.map(|(_, time)| *time).min_by_key(|time| time.start.abs_diff(own(open).start))
        };
        let each = |(open, steps): (&OpenTrace, &Arc<Option<Steps>>)| {
            steps.as_ref().as_ref().and_then(|steps| of_name(open, steps)).unwrap_or_else(|| own(open))
        };
        Some(of.iter().zip(&steps).map(each).collect())
    }
}

/// What the rules say of each trace, with what the ranks tell together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllVerdicts {
    /// Of each trace.
    pub steps: Vec<TraceSteps>,
    pub thresholds: Thresholds,
    /// Only this range of session time, of each trace what [`RangeOfEach`] makes of it.
    pub range: Option<TimeRange>,
}

impl Analysis for AllVerdicts {
    type Of = [OpenTrace];
    /// One for each trace.
    type Output = Vec<Arc<Verdicts>>;
    const NAME: &'static str = "The search for findings";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Self::Output> {
        let thresholds = self.thresholds;
        let ranges = match self.range {
            Some(range) => Some(work.get(of, &RangeOfEach { steps: self.steps.clone(), range })?),
            None => None,
        };
        let verdicts = of.iter().zip(&self.steps).enumerate().map(|(i, (open, steps))| {
            let range = ranges.as_ref().map(|ranges| ranges[i]);
            work.get(&open.trace, &RuleVerdicts { steps: steps.clone(), thresholds, range })
        });
        let verdicts: Vec<Arc<Verdicts>> = verdicts.collect::<Option<_>>()?;
        let calls = work.get(of, &CallsOfRanks)?;
        if calls.matches.is_empty() {
            return Some(verdicts);
        }
        let steps = of.iter().zip(&self.steps).map(|(open, steps)| work.get(&open.trace, steps));
        let steps: Vec<Arc<Option<Steps>>> = steps.collect::<Option<_>>()?;
        let ledgers = of.iter().zip(&self.steps);
        let ledgers = ledgers.map(|(open, steps)| work.get(&open.trace, &Ledgers { steps: steps.clone() }));
        let ledgers: Vec<Arc<Vec<Ledger>>> = ledgers.collect::<Option<_>>()?;
        let busy = of.iter().map(|open| work.get(&open.trace, &BusyDevices));
        let busy: Vec<Arc<Vec<DeviceBusy>>> = busy.collect::<Option<_>>()?;
        let rank = |i: usize| OfRank {
            trace: &of[i].trace,
            steps: (*steps[i]).as_ref(),
            busy: &busy[i],
            ledgers: &ledgers[i],
            verdicts: &verdicts[i],
        };
        let ranks: Vec<OfRank<'_>> = (0..of.len()).map(rank).collect();
        Some(with_ranks(&calls, &ranks, &thresholds).into_iter().map(Arc::new).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::rules::tests::late_rank::rank;
    use crate::answers::Answers;

    #[test]
    fn each_rank_has_its_own_step_of_the_name_of_one() {
        const MS: i64 = 1_000_000;
        // The second began later by more than a step of 10 ms; the third is of another run.
        let [first, second] = [rank(0, 4 * MS, 0), rank(1, 5 * MS, 0)].map(Arc::new);
        let third = OpenTrace { run: 1, ..OpenTrace::new(Arc::clone(&first), 7 * MS) };
        let open = [OpenTrace::new(first, 2 * MS), OpenTrace::new(second, 14 * MS), third];
        let each = |range| {
            let asked = RangeOfEach { steps: vec![TraceSteps::default(); 3], range };
            (*Answers::default().get(&open[..], &asked).unwrap()).clone()
        };
        let [of_first, of_second] = [0, 1].map(|i| {
            let steps = crate::analysis::steps::steps(&open[i].trace, &|| false).unwrap();
            steps.extents()[4]
        });
        assert_eq!(each(of_first.shifted(2 * MS)), [of_first, of_second, of_first.shifted(-5 * MS)]);
        assert_eq!(each(of_second.shifted(14 * MS)), [of_first, of_second, of_second.shifted(7 * MS)]);
        let other = TimeRange { start: of_first.start + 1, ..of_first };
        assert_eq!(each(other), [2, 14, 7].map(|ms| other.shifted(-ms * MS)));
    }
}
