//! Does all memory together grow?

use super::Thresholds;
use crate::analysis::memory::steps::Steps;
use crate::analysis::memory::trend::{Trend, trend};
use crate::model::MemoryHistory;

/// What all memory does from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalVerdict {
    /// What is live between steps grows.
    Growth,
    /// It does not, but the highest point within steps rises.
    Ratchet,
    /// Neither does, but what is reserved grows: free memory is ever more scattered.
    FragmentationGrowth,
    Flat,
    /// Too few steps to say.
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

    /// A sentence for the person.
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

/// All memory of a history, at the boundaries of its steps but those of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// Of live bytes.
    pub trend: Trend,
    /// Of the highest number of live bytes within each step.
    pub peak_trend: Trend,
    /// Of reserved bytes.
    pub reserved_trend: Trend,
    /// Live bytes at the last boundary less those at the first.
    pub growth_bytes: i64,
    /// Whether live bytes gain more in a step, or in all, than the user guides of PyTorch put up with.
    pub is_alarm: bool,
    /// Steps until memory runs out at this rate; `None` if it does not grow or its size is not known.
    pub steps_to_oom: Option<f64>,
    pub verdict: TotalVerdict,
    /// Boundaries that count.
    pub points: usize,
}

/// Looks at live, highest and reserved bytes, step by step.
///
/// Cost: O(n / 64) a step for n events, and O(200²).
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
        is_alarm: is_steep || growth_bytes > thresholds.alarm_growth as i64,
        steps_to_oom: room.filter(|_| is_growing).map(|room| room as f64 / trend_of_live.slope),
        verdict: TotalVerdict::TooFewSteps,
        points: live.len(),
    }
}

/// Kendall's tau from which a series rises: five of six pairs do.
const RISING: f64 = 2.0 / 3.0;

fn rises(trend: &Trend, thresholds: &Thresholds) -> bool {
    trend.slope >= thresholds.min_bytes_per_step && trend.tau >= RISING
}

impl Total {
    /// Whether live bytes grow from step to step.
    pub fn rises(&self, thresholds: &Thresholds) -> bool {
        rises(&self.trend, thresholds) && self.points > thresholds.min_steps
    }

    /// Gives the verdict.
    ///
    /// Series that may rise by chance, as batches of different sizes make peaks do, must rise for most
    /// pairs of steps and over as many steps as an alarm needs.
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
