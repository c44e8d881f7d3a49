//! Memory in use in each state.

use std::ops::Range;

use super::{Allocations, Segment};

/// Bytes in each state; entry 0 is before the first event. All columns have one entry per state.
#[derive(Debug, Default)]
pub struct Curves {
    /// Allocated by the program.
    pub allocated: Vec<u64>,
    /// `allocated` plus blocks that are freed but not yet reusable.
    pub active: Vec<u64>,
    /// `allocated` without the allocator's rounding.
    pub requested: Vec<u64>,
    /// Reserved on the device by the allocator.
    pub reserved: Vec<u64>,
    /// The first state with the highest `active` of every [`CHUNK`] states.
    peaks: Vec<u32>,
    /// The first state with the highest `active` of all.
    highest: u32,
    /// The first state of the highest `allocated`.
    fullest: u32,
}

/// States per chunk, for finding peaks.
const CHUNK: usize = 64;

/// Adds `bytes` for the states `range`, as differences.
fn add(curve: &mut [u64], range: Range<u32>, bytes: u64) {
    for (state, change) in [(range.start, bytes), (range.end, bytes.wrapping_neg())] {
        if let Some(step) = curve.get_mut(state as usize) {
            *step = step.wrapping_add(change);
        }
    }
}

/// Turns differences into sums.
fn accumulate(curve: &mut [u64]) {
    let mut sum = 0_u64;
    for step in curve {
        sum = sum.wrapping_add(*step);
        *step = sum;
    }
}

/// The first state of a curve's maximum, and the maximum; 0 for an empty curve.
pub fn highest(curve: &[u64]) -> (u32, u64) {
    let bytes = curve.iter().copied().max().unwrap_or_default();
    (curve.iter().position(|&at| at == bytes).unwrap_or_default() as u32, bytes)
}

impl Curves {
    /// Sums the lifetimes of all blocks and segments; no sum may reach 2^64.
    ///
    /// * `reserved`: recorded reserved bytes for each state but the first; empty if not recorded.
    pub fn build(n_states: usize, allocations: &Allocations, segments: &[Segment], reserved: &[u64]) -> Self {
        let zeros = || vec![0_u64; n_states];
        let mut curves = Self { allocated: zeros(), active: zeros(), requested: zeros(), ..Self::default() };
        for i in 0..allocations.len() {
            let (start, freed, end) = (allocations.start[i], allocations.freed[i], allocations.end[i]);
            add(&mut curves.allocated, start..freed, allocations.bytes[i]);
            add(&mut curves.requested, start..freed, allocations.requested[i]);
            add(&mut curves.active, start..end, allocations.bytes[i]);
        }
        accumulate(&mut curves.allocated);
        accumulate(&mut curves.requested);
        accumulate(&mut curves.active);
        curves.reserved = match reserved.first() {
            Some(&first) => std::iter::once(first).chain(reserved.iter().copied()).take(n_states).collect(),
            None => {
                let mut curve = zeros();
                segments.iter().for_each(|segment| add(&mut curve, segment.start..segment.end, segment.bytes));
                accumulate(&mut curve);
                curve
            }
        };
        curves.peaks = (0..n_states).step_by(CHUNK).map(|at| curves.scan(at..(at + CHUNK).min(n_states))).collect();
        curves.highest = curves.peak(0..n_states as u32);
        curves.fullest = highest(&curves.allocated).0;
        curves
    }

    /// The first state of the highest `allocated`.
    pub fn fullest(&self) -> u32 {
        self.fullest
    }

    /// The first state of the highest `active`, and its bytes.
    pub fn highest(&self) -> (u32, u64) {
        (self.highest, self.active.get(self.highest as usize).copied().unwrap_or(0))
    }

    /// The first state of the highest `active` within `states`, which must not be empty.
    ///
    /// Cost: O(n / 64).
    pub fn peak(&self, states: Range<u32>) -> u32 {
        let (start, end) = (states.start as usize, (states.end as usize).min(self.active.len()));
        let (first, last) = (start.div_ceil(CHUNK), end / CHUNK);
        if first >= last {
            return self.scan(start..end);
        }
        let inner = self.peaks[first..last].iter().copied();
        let candidates =
            [self.scan(start..first * CHUNK)].into_iter().chain(inner).chain([self.scan(last * CHUNK..end)]);
        let mut best = start as u32;
        for state in candidates.filter(|&state| (start..end).contains(&(state as usize))) {
            if self.active[state as usize] > self.active[best as usize] {
                best = state;
            }
        }
        best
    }

    /// The same by scanning all states; the start of an empty range.
    fn scan(&self, states: Range<usize>) -> u32 {
        let mut best = states.start;
        for state in states {
            if self.active[state] > self.active[best] {
                best = state;
            }
        }
        best as u32
    }
}
