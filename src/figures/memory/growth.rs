//! Figures of the growth of a device's total memory per step.

use super::{Owned, Owner, owner};
use crate::analysis::memory::leaks::{Leaks, Total};
use crate::analysis::memory::steps::Steps;
use crate::figures::{Cell, Part, figures};

/// All memory of a device at the boundaries of steps, the warm-up left out.
#[derive(Clone, Debug)]
pub struct MemoryGrowth {
    owner: Owner,
    total: Total,
    step_source: String,
    steps: usize,
    warm_up: usize,
    doubts: Vec<String>,
}

impl MemoryGrowth {
    /// `None` without steps.
    pub fn new(owner: Owner, found: &Leaks, steps: Option<&Steps>) -> Option<Self> {
        let (total, steps) = found.total.zip(steps)?;
        Some(Self {
            owner,
            total,
            step_source: steps.source.label(),
            steps: steps.len(),
            warm_up: found.warm_up,
            doubts: found.caveats.clone(),
        })
    }
}

impl Owned for MemoryGrowth {
    fn owner(&self) -> Owner {
        self.owner
    }
}

/// Growth of all memory by device. Slopes are those of Theil and Sen.
pub fn growth() -> Part<MemoryGrowth> {
    fn slope(slope: f64) -> Cell {
        Cell::Gain(slope.round() as i64)
    }
    let figures = figures! { row: MemoryGrowth;
        with owner();
        words "verdict", "Verdict", 120, Cell::name(row.total.verdict.key()), "What grows, if anything";
        number "steps", "Steps", 60, Cell::Count(row.steps as u64), "How many steps there are";
        number "warm_up", "Warm-up", 70, Cell::Count(row.warm_up as u64), "The first steps, which do not count";
        number "bytes_per_step", "Gain a step", 100, slope(row.total.trend.slope),
            "Slope of live bytes at the ends of steps";
        number "peak_bytes_per_step", "Gain of peaks", 100, slope(row.total.peak_trend.slope),
            "Slope of the peaks within steps";
        number "reserved_bytes_per_step", "Gain of reserved", 110, slope(row.total.reserved_trend.slope),
            "Slope of reserved bytes";
        number "growth_bytes", "Gain in all", 90, Cell::Gain(row.total.growth_bytes),
            "Live bytes at the last step less those at the first that counts";
        words "alarm", "Alarm", 60, Cell::Flag(row.total.is_alarm, &["no", "yes"]),
            "Whether it is more than 1 MB a step in ten steps, or 100 MB in all";
        number "steps_to_oom", "Steps until full", 110, Cell::or_empty(row.total.steps_to_oom, Cell::Estimate),
            "Steps until memory runs out at this rate";
        words "step_source", "Steps by", 160, Cell::name(&row.step_source), "What separates the steps";
        words "doubts", "Doubts", 300, Cell::Sentences(row.doubts.as_slice().into()),
            "Why this cannot be trusted further";
    };
    Part::new("growth", "Growth of memory", figures)
}
