//! Figures of the growth of a device's total memory per step.

use super::{Owned, Owner, owner};
use crate::analysis::memory::leaks::{Leaks, Total};
use crate::analysis::memory::steps::Steps;
use crate::figures::{Cell, Part, number, words};

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
    let mut figures = Vec::from(owner());
    figures.extend([
        words("verdict", "Verdict", 120, "What grows, if anything", |row: &MemoryGrowth| {
            Cell::name(row.total.verdict.key())
        }),
        number("steps", "Steps", 60, "How many steps there are", |row| Cell::Count(row.steps as u64)),
        number("warm_up", "Warm-up", 70, "The first steps, which do not count", |row| Cell::Count(row.warm_up as u64)),
        number("bytes_per_step", "Gain a step", 100, "Slope of live bytes at the ends of steps", |row| {
            slope(row.total.trend.slope)
        }),
        number("peak_bytes_per_step", "Gain of peaks", 100, "Slope of the peaks within steps", |row| {
            slope(row.total.peak_trend.slope)
        }),
        number("reserved_bytes_per_step", "Gain of reserved", 110, "Slope of reserved bytes", |row| {
            slope(row.total.reserved_trend.slope)
        }),
        number(
            "growth_bytes",
            "Gain in all",
            90,
            "Live bytes at the last step less those at the first that counts",
            |row| Cell::Gain(row.total.growth_bytes),
        ),
        words("alarm", "Alarm", 60, "Whether it is more than 1 MB a step in ten steps, or 100 MB in all", |row| {
            Cell::Flag(row.total.is_alarm, &["no", "yes"])
        }),
        number("steps_to_oom", "Steps until full", 110, "Steps until memory runs out at this rate", |row| {
            Cell::or_empty(row.total.steps_to_oom, Cell::Estimate)
        }),
        words("step_source", "Steps by", 160, "What separates the steps", |row| Cell::name(&row.step_source)),
        words("doubts", "Doubts", 300, "Why this cannot be trusted further", |row| {
            Cell::Sentences(row.doubts.as_slice().into())
        }),
    ]);
    Part::new("growth", "Growth of memory", figures)
}
