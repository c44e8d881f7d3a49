//! Growth of total memory from step to step.

use super::enough::{RISING, is_level, is_settling, rising_tau};
use super::failures::Failures;
use super::rise::{LEVEL, MIN_STEPS_OF_RISE, Rise, level_since};
use super::{LeakCandidate, Thresholds};
use crate::analysis::memory::steps::Steps;
use crate::analysis::memory::trend::{Trend, trend};
use crate::model::MemoryHistory;
use crate::model::memory::MemorySource;

/// How total memory develops from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalVerdict {
    /// Live memory at step boundaries grows.
    Growth,
    /// Live memory at boundaries is level, but the peak within steps rises.
    Ratchet,
    /// Both are level, but reserved memory grows beyond what was ever in use, which indicates fragmentation.
    FragmentationGrowth,
    /// Live memory at boundaries grows steadily, but by less than the smallest growth of a leak.
    BelowThreshold,
    Flat,
    /// Too few steps to decide.
    TooFewSteps,
    /// The steps are a guess that no verdict may rest on.
    IrregularSteps,
}

impl Total {
    /// Whether there are steps enough, and of one kind, to say anything of what it does from step to step.
    pub fn is_judged(&self) -> bool {
        !matches!(self.verdict, TotalVerdict::TooFewSteps | TotalVerdict::IrregularSteps)
    }

    /// Number of judged steps: after the warm-up, and without those that failed and did not grow.
    pub fn counted_steps(&self) -> usize {
        self.points.saturating_sub(1)
    }

    /// Whether live bytes at the boundaries are level, even if what rises within steps or is reserved is not judged.
    pub fn is_live_level(&self) -> bool {
        self.is_level
    }
}

/// What an allocator can still reserve at the end of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// Bytes: the memory of the device, or what the process had of it when a request failed, less what is reserved.
    /// Where the driver's own allocations are recorded, less these.
    Known(u64),
    /// Memory has run out already.
    RanOut,
    /// The file does not tell what is reserved.
    NoReserved,
    /// The file does not tell how much memory the device has.
    #[default]
    NoTotal,
}

impl Room {
    /// * `capacity`: bytes that the allocator can reserve at most, if known.
    pub fn of(history: &MemoryHistory, steps: &Steps, capacity: Option<u64>) -> Self {
        let curves = &history.curves;
        let taken = match history.source {
            MemorySource::Driver => curves.active.last(),
            _ => curves.reserved.last().filter(|_| history.has_reserved),
        };
        // Where the last step or what follows it failed, memory has run out already.
        let end = steps.boundaries[steps.len() - 1];
        match (taken, capacity) {
            _ if history.ooms.last().is_some_and(|oom| oom.event >= end) => Self::RanOut,
            (_, None) => Self::NoTotal,
            (None, _) => Self::NoReserved,
            (Some(&taken), Some(capacity)) => Self::Known(capacity.saturating_sub(taken)),
        }
    }
}

/// Total memory of a history at the step boundaries after the warm-up. Trends are in bytes per step; where live memory
/// has become level, those of what became level with it are of the steps since then.
///
/// Steps in which memory ran out count only if live memory grew in them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// Trend of live bytes, since [`Self::since_step`].
    pub trend: Trend,
    /// Trend of the peak of live bytes within each step.
    pub peak_trend: Trend,
    /// Trend of reserved bytes.
    pub reserved_trend: Trend,
    /// Trend of what is reserved beyond the most that was in use so far.
    pub excess_trend: Trend,
    /// Live bytes at the last boundary minus those at [`Self::since_step`], else at the first.
    pub growth_bytes: i64,
    /// The step from which live bytes rise, if they were level before.
    pub since_step: Option<usize>,
    /// The step from which live bytes are level, if they rose before.
    pub level_since: Option<usize>,
    /// Whether live bytes still grow and by more than the limits of [`Thresholds`], per step or in total, and the steps
    /// are reliable.
    pub is_alarm: bool,
    /// The same for reserved bytes, while live bytes between steps are level.
    pub is_reserved_alarm: bool,
    /// Steps until memory runs out at this rate; `None` without growth, if the room is not known, or if the steps are
    /// not reliable.
    pub steps_to_oom: Option<f64>,
    /// What the allocator can still reserve.
    pub room: Room,
    pub verdict: TotalVerdict,
    /// Number of boundaries considered, one more than the judged steps; see [`Self::counted_steps`].
    pub points: usize,
    /// Highest less lowest live bytes at the boundaries since [`Self::level_since`].
    pub swing: u64,
    /// Whether reserved bytes, and peaks, rise to the end: in the last third by at least half of the mean.
    is_reserved_rising: bool,
    is_peak_rising: bool,
    /// Whether live bytes are exactly level, to the end.
    is_level: bool,
    /// Whether live bytes rise from step to step beyond chance, see [`rising_tau`], and are not about to become level.
    is_certain: bool,
}

/// Measures live, peak and reserved bytes per step; the verdict is set later by [`Total::classify`].
///
/// * `ended`: bytes at each boundary that are left out of live bytes and peaks: those of places that stopped growing.
/// * Cost: O(n) for n events, and O(200²).
pub fn total(
    history: &MemoryHistory,
    steps: &Steps,
    warm_up: usize,
    failures: &Failures,
    ended: &[i64],
    thresholds: &Thresholds,
) -> Total {
    let curves = &history.curves;
    let at_all =
        |curve: &[u64]| -> Vec<i64> { steps.boundaries.iter().map(|&state| curve[state as usize] as i64).collect() };
    let live: Vec<i64> = at_all(&curves.active).iter().zip(ended).map(|(live, ended)| live - ended).collect();
    let least = thresholds.min_bytes_per_step;
    // What is level from the first step on has nothing to settle: the warm-up counts.
    let is_level_throughout =
        is_level(&failures.completed(0, &live).iter().map(|&at| live[at]).collect::<Vec<_>>(), least);
    let counted = failures.completed(warm_up, &live);
    let of = |all: &[i64]| -> Vec<i64> { counted.iter().map(|&boundary| all[boundary]).collect() };
    let (live, reserved) = (of(&live), of(&at_all(&curves.reserved)));
    let peaks = peaks(history, steps, &counted, ended);
    let (mut highest, mut seen) = (0, 0);
    let excess = counted.iter().zip(&reserved).map(|(&boundary, &reserved)| {
        let state = steps.boundaries[boundary] as usize + 1;
        highest = curves.active[seen..state.max(seen)].iter().copied().fold(highest, u64::max);
        seen = state.max(seen);
        reserved.saturating_sub(highest as i64)
    });
    let excess: Vec<i64> = excess.collect();
    // Without survivors to look at, a late rise must last as long as an alarm requires.
    let rise = Rise::of(&live, thresholds.alarm_points);
    let level_from = rise.level_since.unwrap_or_default();
    let settled = |series: &[i64]| match rise.level_since {
        Some(point) if is_level_from(series, point) => trend(&series[point.min(series.len())..]),
        _ => trend(&series[rise.from.min(series.len())..]),
    };
    Total {
        trend: if rise.level_since.is_some() { settled(&live) } else { rise.trend },
        peak_trend: settled(&peaks),
        reserved_trend: settled(&reserved),
        excess_trend: trend(&excess),
        growth_bytes: gain(&live[rise.from..]),
        since_step: (rise.from > 0).then(|| counted[rise.from]),
        level_since: rise.level_since.map(|point| counted[point]),
        is_alarm: false,
        is_reserved_alarm: false,
        steps_to_oom: None,
        room: Room::default(),
        verdict: TotalVerdict::TooFewSteps,
        points: live.len(),
        swing: range(&live[level_from..]),
        is_reserved_rising: is_rising_to_the_end(&reserved),
        // Peaks that rose with live bytes are level with them, too.
        is_peak_rising: is_rising_to_the_end(&peaks)
            && !rise.level_since.is_some_and(|point| is_level_from(&peaks, point)),
        is_level: is_level_throughout || is_level(&live[level_from..], least),
        is_certain: is_certain(&live[rise.from..], &rise.trend),
    }
}

/// The peak of live bytes within each step that counts, by the boundaries at its ends, less what ended.
fn peaks(history: &MemoryHistory, steps: &Steps, counted: &[usize], ended: &[i64]) -> Vec<i64> {
    let curves = &history.curves;
    let peak = |pair: &[usize]| {
        let states = steps.boundaries[pair[1] - 1]..steps.boundaries[pair[1]] + 1;
        curves.active[curves.peak(states) as usize] as i64 - ended[pair[1]]
    };
    counted.windows(2).map(peak).collect()
}

fn gain(series: &[i64]) -> i64 {
    series.last().zip(series.first()).map_or(0, |(last, first)| last - first)
}

fn range(series: &[i64]) -> u64 {
    series.iter().max().zip(series.iter().min()).map_or(0, |(highest, lowest)| highest.abs_diff(*lowest))
}

fn is_certain(series: &[i64], trend: &Trend) -> bool {
    trend.tau >= rising_tau(series.len()) - 1e-9 && !is_settling(series)
}

/// Whether a series rises in its last third by at least half of what a line would. Caches of the allocator that settle
/// do not.
fn is_rising_to_the_end(series: &[i64]) -> bool {
    let n = series.len();
    let last = |from: usize| series[n - 1] - series[from];
    n > MIN_STEPS_OF_RISE && level_since(series).is_none() && last(n - 1 - n / 3) as f64 * 6.0 >= last(0) as f64
}

/// Whether a series ends on the level that it had at a point.
fn is_level_from(series: &[i64], point: usize) -> bool {
    let (Some(&at), Some(&first), Some(&last)) = (series.get(point), series.first(), series.last()) else {
        return true;
    };
    (last - at) as f64 <= LEVEL * (last - first) as f64
}

fn rises(trend: &Trend, thresholds: &Thresholds) -> bool {
    trend.slope >= thresholds.min_bytes_per_step && trend.tau >= RISING
}

impl Total {
    /// Whether live bytes grow from step to step, to the end.
    pub fn rises(&self, thresholds: &Thresholds) -> bool {
        rises(&self.trend, thresholds) && self.is_certain && self.level_since.is_none()
    }

    /// Whether the peak within steps rises from step to step, to the end.
    pub fn has_rising_peaks(&self, thresholds: &Thresholds) -> bool {
        rises(&self.peak_trend, thresholds) && self.points >= thresholds.alarm_points && self.is_peak_rising
    }

    /// Whether the peaks rise faster than live bytes by half or more: what runs out then is the memory within steps.
    pub fn has_steeper_peaks(&self, thresholds: &Thresholds) -> bool {
        self.has_rising_peaks(thresholds) && self.peak_trend.slope >= 1.5 * self.trend.slope
    }

    /// Judges live bytes, their peaks and what is reserved over the steps of the leaks that explain most of their growth:
    /// one leak has one first step.
    ///
    /// * `since`: the first step in which they grow; `None` for the first that counts, which is `from`.
    pub fn begin_with(
        &mut self,
        history: &MemoryHistory,
        steps: &Steps,
        failures: &Failures,
        from: usize,
        since: Option<usize>,
    ) {
        let at_all = |curve: &[u64]| -> Vec<i64> {
            steps.boundaries.iter().map(|&state| curve[state as usize] as i64).collect()
        };
        let live = at_all(&history.curves.active);
        let boundaries = failures.completed(since.unwrap_or(from), &live);
        let of = |all: &[i64]| -> Vec<i64> { boundaries.iter().map(|&boundary| all[boundary]).collect() };
        let counted = of(&live);
        (self.trend, self.since_step, self.growth_bytes) = (trend(&counted), since, gain(&counted));
        self.peak_trend = trend(&peaks(history, steps, &boundaries, &vec![0; live.len()]));
        self.reserved_trend = trend(&of(&at_all(&history.curves.reserved)));
        self.is_certain = is_certain(&counted, &self.trend);
    }

    /// Sets the verdict, alarms and steps until memory runs out.
    ///
    /// How many steps are enough is said in `enough.rs`. An alarm fails a run of tests, so it asks for more than a
    /// verdict does. Growth of more than 1 MB a step is one over ten points; over five to nine only as far as places
    /// leak: that blocks of several steps were kept, none given back, is evidence that total memory, in which the cache
    /// of a generation or one more prefetched batch grows as evenly for some steps, does not give. Waiting for ten
    /// steps there would hide what short recordings, of which most are, say about a leak.
    ///
    /// * `is_reliable`: whether an alarm may rest on the steps.
    pub fn classify(&mut self, candidates: &[LeakCandidate], is_reliable: bool, room: Room, thresholds: &Thresholds) {
        let is_long = self.points >= thresholds.alarm_points;
        let is_growing = self.rises(thresholds);
        let may_rise = [self.peak_trend, self.excess_trend].map(|trend| rises(&trend, thresholds));
        let has_rising_peaks = self.has_rising_peaks(thresholds);
        let has_rising_excess = may_rise[1] && is_long && self.is_reserved_rising;
        let is_enough = is_long || self.is_level && may_rise == [false, false];
        self.verdict = if !is_reliable {
            TotalVerdict::IrregularSteps
        } else if !candidates.is_empty() || is_growing {
            TotalVerdict::Growth
        } else if !is_enough {
            TotalVerdict::TooFewSteps
        } else if has_rising_peaks && !(has_rising_excess && self.excess_trend.slope > self.peak_trend.slope) {
            TotalVerdict::Ratchet
        } else if has_rising_excess {
            TotalVerdict::FragmentationGrowth
        } else if self.trend.slope > 0.0 && self.trend.tau >= RISING && self.level_since.is_none() {
            TotalVerdict::BelowThreshold
        } else {
            TotalVerdict::Flat
        };
        let leaked: f64 = candidates.iter().map(|candidate| candidate.bytes_per_step).sum();
        let is_steep = |slope: f64| slope > thresholds.alarm_bytes_per_step;
        let is_large = is_growing && self.growth_bytes > thresholds.alarm_growth as i64;
        let is_steep_growth = is_growing && is_long && is_steep(self.trend.slope);
        self.is_alarm = is_reliable && (is_steep_growth || is_steep(leaked) || is_large);
        self.is_reserved_alarm = is_reliable
            && is_long
            && is_steep(self.reserved_trend.slope)
            && rises(&self.reserved_trend, thresholds)
            && self.is_reserved_rising
            && (has_rising_excess || has_rising_peaks && !is_growing);
        self.room = room;
        if let (Room::Known(room), true) = (room, is_reliable && is_growing) {
            self.steps_to_oom = Some(room as f64 / self.trend.slope);
        }
    }
}
