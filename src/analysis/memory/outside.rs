//! Growth of a GPU's memory outside PyTorch: what the driver says is used, less what PyTorch has reserved.
//!
//! The rest is the CUDA context, libraries with allocators of their own (NCCL, cuDNN, cuBLAS), and other processes.

use super::trend::{Trend, trend};
use crate::model::{MemoryHistory, TimeNs};

/// Fewest readings that say something.
const MIN_READINGS: usize = 10;
/// The least growth: by this share of what was used outside, by this many bytes, and with this fit of a line. The
/// share and the fit are those of a monitor in use; the driver counts in pieces of 2 MiB.
const MIN_SHARE: f64 = 0.05;
const MIN_BYTES: f64 = 10e6;
const MIN_R2: f64 = 0.6;
/// Part of the growth that each half of the readings must have; it is half of it if it is even.
const LEAST_OF_HALF: f64 = 0.125;
/// More readings are thinned evenly to this many.
const MAX_READINGS: usize = 500;

/// What memory outside PyTorch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutsideVerdict {
    Growth,
    Level,
    TooFewReadings,
    /// The driver was not read while the history was recorded.
    NoOverlap,
}

impl OutsideVerdict {
    /// Machine name.
    pub fn key(self) -> &'static str {
        match self {
            Self::Growth => "growth",
            Self::Level => "level",
            Self::TooFewReadings => "too_few_readings",
            Self::NoOverlap => "no_overlap",
        }
    }
}

/// Memory of one GPU that PyTorch does not hold, while a history was recorded. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    pub verdict: OutsideVerdict,
    /// Readings of the driver within the history.
    pub readings: usize,
    /// At the first and at the last of them; below 0 where the readings are late.
    pub start: i64,
    pub end: i64,
    /// Theil-Sen slope; 0 without two readings.
    pub bytes_per_second: f64,
    /// What the slope makes over all readings.
    pub growth: f64,
    /// The least growth that counts.
    pub threshold: f64,
    /// Fit of a line, 0 to 1.
    pub r2: f64,
}

/// Compares the driver's readings with what was reserved at the same time.
///
/// * `readings`: time on the clock of the history, and bytes used on the GPU; ascending.
///
/// Returns `None` for a history without times or without reserved memory.
pub fn outside(history: &MemoryHistory, readings: &[(TimeNs, f64)]) -> Option<Outside> {
    if !history.has_time || !history.has_reserved {
        return None;
    }
    let from = readings.partition_point(|&(ts, _)| ts < history.span.start);
    let to = readings.partition_point(|&(ts, _)| ts <= history.span.end);
    let within = readings.get(from..to).unwrap_or_default();
    let n = within.len().min(MAX_READINGS);
    let picked: Vec<(TimeNs, i64)> = (0..n)
        .map(|i| within[if n > 1 { i * (within.len() - 1) / (n - 1) } else { 0 }])
        .map(|(ts, used)| (ts, used as i64 - history.curves.reserved[history.state_at(ts) as usize] as i64))
        .collect();
    let mut of_gap: Vec<i64> = picked.iter().map(|&(_, bytes)| bytes).collect();
    let Trend { slope, r2, .. } = trend(&of_gap);
    let (start, end) = (of_gap.first().copied().unwrap_or(0), of_gap.last().copied().unwrap_or(0));
    let seconds = picked.first().zip(picked.last()).map_or(0.0, |(first, last)| (last.0 - first.0) as f64 / 1e9);
    let growth = slope * n.saturating_sub(1) as f64;
    let middle = n / 2;
    // What another process takes once is not growth, although a line fits a single step well.
    let (first_half, second_half) = of_gap.split_at(middle);
    let goes_on = [first_half, second_half].map(|half| trend(half).slope * half.len() as f64 >= growth * LEAST_OF_HALF);
    let usual = if n > 0 { *of_gap.select_nth_unstable(middle).1 } else { 0 };
    let threshold = MIN_BYTES.max(MIN_SHARE * usual as f64);
    let verdict = match within.len() {
        0 => OutsideVerdict::NoOverlap,
        n if n < MIN_READINGS => OutsideVerdict::TooFewReadings,
        _ if growth >= threshold && r2 >= MIN_R2 && goes_on == [true; 2] => OutsideVerdict::Growth,
        _ => OutsideVerdict::Level,
    };
    let bytes_per_second = if seconds > 0.0 { growth / seconds } else { 0.0 };
    Some(Outside { verdict, readings: within.len(), start, end, bytes_per_second, growth, threshold, r2 })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::*;
    use crate::model::StackId;
    use crate::model::memory::MemoryAction;

    const MIB: u64 = 1 << 20;

    /// 100 segments of 4 MiB, reserved one a time; and a reading after each, of what is reserved and `outside`. The
    /// last reading lies after the history.
    fn verdict(outside_mib: impl Fn(u64) -> u64, shift: TimeNs) -> Outside {
        let mut script = Script::default();
        let mut times = Vec::new();
        for k in 0..100 {
            script.event(MemoryAction::SegmentAlloc, k << 24, 4 * MIB, StackId::default());
            times.push((script.now() - 1, (4 * (k + 1) + outside_mib(k)) * MIB));
        }
        let trace = script.finish();
        let readings: Vec<_> = times.iter().map(|&(ts, used)| (ts + shift, used as f64)).collect();
        outside(history(&trace), &readings).unwrap()
    }

    #[test]
    fn growth_is_told_where_it_is() {
        // PyTorch grows, the rest does not.
        let inside = verdict(|_| 500, 0);
        assert_eq!((inside.verdict, inside.readings), (OutsideVerdict::Level, 99));
        assert_eq!((inside.start, inside.end, inside.growth), (500 << 20, 500 << 20, 0.0));
        // Both do.
        let both = verdict(|k| 500 + k, 0);
        assert_eq!(both.verdict, OutsideVerdict::Growth);
        assert!((both.growth - (98 * MIB) as f64).abs() < 1.0 && both.r2 > 0.999, "{both:?}");
        assert!((both.threshold - 0.05 * (549 * MIB) as f64).abs() < 1.0, "{both:?}");
        // A step of another process, noise, and too little of it.
        for (name, level) in [
            ("once", verdict(|k| if k < 50 { 500 } else { 900 }, 0)),
            ("noise", verdict(|k| 500 + k * 7919 % 40, 0)),
            ("little", verdict(|k| 500 + k / 8, 0)),
        ] {
            assert_eq!(level.verdict, OutsideVerdict::Level, "{name}: {level:?}");
        }
    }

    #[test]
    fn clocks_that_do_not_meet_say_nothing() {
        let apart = verdict(|k| 500 + k, 3_600_000_000_000);
        assert_eq!((apart.verdict, apart.readings, apart.growth), (OutsideVerdict::NoOverlap, 0, 0.0));
        let trace = {
            let mut script = Script::default();
            (0..3).for_each(|k| {
                script.event(MemoryAction::SegmentAlloc, k << 24, MIB, StackId::default());
            });
            script.finish()
        };
        let history = history(&trace);
        let few = outside(history, &[(history.span.start, 1e9), (history.span.end, 2e9)]).unwrap();
        assert_eq!((few.verdict, few.readings), (OutsideVerdict::TooFewReadings, 2));
    }
}
