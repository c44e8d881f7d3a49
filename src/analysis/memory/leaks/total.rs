//! Growth of total memory from step to step.

use super::Thresholds;
use crate::analysis::memory::steps::Steps;
use crate::analysis::memory::trend::{Trend, trend};
use crate::model::MemoryHistory;

/// How total memory develops from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalVerdict {
    /// Live memory at step boundaries grows.
    Growth,
    /// Live memory at boundaries is level, but the peak within steps rises.
    Ratchet,
    /// Both are level, but reserved memory grows, which indicates fragmentation.
    FragmentationGrowth,
    Flat,
    /// Too few steps to decide.
    TooFewSteps,
}

impl TotalVerdict {
    /// Machine name.
    pub fn key(self) -> &'static str {
        match self {
            Self::Growth => "growth",
            Self::Ratchet => "ratchet",
            Self::FragmentationGrowth => "fragmentation_growth",
            Self::Flat => "flat",
            Self::TooFewSteps => "too_few_steps",
        }
    }

    /// Description for the user.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Growth => "Memory between steps grows",
            Self::Ratchet => "Memory between steps stays level, but the peak within steps rises",
            Self::FragmentationGrowth => "Live memory stays level, but reserved memory grows: fragmentation",
            Self::Flat => "Memory between steps stays level",
            Self::TooFewSteps => "There are too few steps to say whether memory grows",
        }
    }
}

/// Total memory of a history at the step boundaries after the warm-up. Trends are in bytes per step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// Trend of live bytes.
    pub trend: Trend,
    /// Trend of the peak of live bytes within each step.
    pub peak_trend: Trend,
    /// Trend of reserved bytes.
    pub reserved_trend: Trend,
    /// Live bytes at the last boundary minus those at the first.
    pub growth_bytes: i64,
    /// Whether the growth of live bytes exceeds the limits of [`Thresholds`], per step or in total, and the steps are
    /// reliable.
    pub is_alarm: bool,
    /// Steps until memory runs out at this rate; `None` without growth or if the capacity is unknown or
    /// the steps are not reliable.
    pub steps_to_oom: Option<f64>,
    pub verdict: TotalVerdict,
    /// Number of boundaries considered.
    pub points: usize,
}

/// Measures live, peak and reserved bytes per step; the verdict is set later by [`Total::classify`].
///
/// * `capacity`: bytes that the allocator can reserve at most, if known.
/// * Cost: O(n / 64) per step for n events, and O(200²).
pub fn total(
    history: &MemoryHistory,
    steps: &Steps,
    warm_up: usize,
    capacity: Option<u64>,
    thresholds: &Thresholds,
) -> Total {
    let boundaries = &steps.boundaries[warm_up..];
    let at = |curve: &[u64]| -> Vec<i64> { boundaries.iter().map(|&state| curve[state as usize] as i64).collect() };
    let curves = &history.curves;
    let (live, reserved) = (at(&curves.active), at(&curves.reserved));
    let peak = |pair: &[u32]| curves.active[curves.peak(pair[0]..pair[1] + 1) as usize] as i64;
    let peaks: Vec<i64> = boundaries.windows(2).map(peak).collect();
    let growth_bytes = live.last().zip(live.first()).map_or(0, |(last, first)| last - first);
    let trend_of_live = trend(&live);
    let is_steep = trend_of_live.slope > thresholds.alarm_bytes_per_step && live.len() >= thresholds.alarm_points;
    let room = capacity.zip(curves.reserved.last()).map(|(capacity, &reserved)| capacity.saturating_sub(reserved));
    let is_growing = trend_of_live.slope >= thresholds.min_bytes_per_step;
    Total {
        trend: trend_of_live,
        peak_trend: trend(&peaks),
        reserved_trend: trend(&reserved),
        growth_bytes,
        is_alarm: steps.is_reliable() && (is_steep || growth_bytes > thresholds.alarm_growth as i64),
        steps_to_oom: room.filter(|_| is_growing && steps.is_reliable()).map(|room| room as f64 / trend_of_live.slope),
        verdict: TotalVerdict::TooFewSteps,
        points: live.len(),
    }
}

/// Kendall's tau from which a series counts as rising: five of six pairs rise.
const RISING: f64 = 2.0 / 3.0;

fn rises(trend: &Trend, thresholds: &Thresholds) -> bool {
    trend.slope >= thresholds.min_bytes_per_step && trend.tau >= RISING
}

impl Total {
    /// Whether live bytes grow from step to step.
    pub fn rises(&self, thresholds: &Thresholds) -> bool {
        rises(&self.trend, thresholds) && self.points > thresholds.min_steps
    }

    /// Sets the verdict.
    ///
    /// Peaks and reserved memory may rise by chance if batch sizes vary, so they must rise in most pairs of
    /// steps and over as many steps as an alarm requires.
    pub fn classify(&mut self, has_candidates: bool, thresholds: &Thresholds) {
        let is_long = self.points >= thresholds.alarm_points;
        self.verdict = if has_candidates || self.rises(thresholds) {
            TotalVerdict::Growth
        } else if !is_long {
            TotalVerdict::TooFewSteps
        } else if rises(&self.peak_trend, thresholds) {
            TotalVerdict::Ratchet
        } else if rises(&self.reserved_trend, thresholds) {
            TotalVerdict::FragmentationGrowth
        } else {
            TotalVerdict::Flat
        };
    }
}
