//! What the host of a recording without device work does in its steps.

use super::{Hit, Measured, Out, Rule, Window, hit};
use crate::analysis::median;
use crate::analysis::phases::{Phase, PhaseTimes};
use crate::model::{DurNs, SliceKind, TimeRange};

/// The judged time of a host by phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTime {
    /// Sums to the judged time.
    pub phases: PhaseTimes,
    /// The longest step, if it is irregular.
    pub longest: Option<LongestStep>,
}

/// A step of a host that takes longer than the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongestStep {
    pub name: String,
    pub ns: DurNs,
    /// Of the median step, of an even number the shorter of the middle two.
    pub median_ns: DurNs,
    /// The phase of which it has most more than the median step, and how much more.
    pub phase: Phase,
    pub more_ns: DurNs,
}

/// Fewer steps have no usual duration.
const MIN_STEPS: usize = 3;

/// Judges the host, if there are operators and phases of it.
pub(super) fn without_device(of: &Measured<'_>, out: &mut Out<'_>) {
    let Some(window) = of.host_window() else { return };
    let has_operators = of.trace.slices.has_kind(SliceKind::Operator);
    if of.phases.is_empty() || !has_operators || window.time.dur() == 0 {
        return;
    }
    let phases = of.phases.within(window.time);
    let data = phases[Phase::DataLoading as usize];
    let tiles = of.phases.tiles(window.time).iter();
    let loading = tiles.filter(|tile| tile.phase == Phase::DataLoading).map(|tile| tile.time);
    out.check(Hit {
        count: loading.clone().count() as u64,
        range: loading.max_by_key(|time| time.dur()),
        n_steps: window.steps.len(),
        basis: window.basis,
        ..hit(Rule::DataLoading, None, data, window.time.dur())
    });
    let longest = longest(of, &window, out.thresholds.irregular_steps.first());
    out.verdicts.host = Some(HostTime { phases, longest });
    out.verdicts.windows.push(window);
}

/// * `least`: least ratio to the median step.
fn longest(of: &Measured<'_>, window: &Window, least: f64) -> Option<LongestStep> {
    let mut sorted: Vec<TimeRange> = window.steps.clone();
    sorted.sort_by_key(|step| step.dur());
    let ([median, _], longest) = (median::middle_of(&sorted)?, *sorted.last()?);
    let is_irregular = longest.dur() as f64 >= least * median.dur() as f64;
    if sorted.len() < MIN_STEPS || !is_irregular {
        return None;
    }
    let steps = of.steps?;
    let k = steps.boundaries.iter().position(|&start| start == longest.start)?;
    let [own, usual] = [longest, median].map(|step| of.phases.within(step));
    let more = Phase::ALL.into_iter().map(|phase| (phase, own[phase as usize] - usual[phase as usize]));
    let (phase, more_ns) = more.max_by_key(|phase| phase.1)?;
    let name = steps.names.get(k)?.clone();
    Some(LongestStep { name, ns: longest.dur(), median_ns: median.dur(), phase, more_ns })
}
