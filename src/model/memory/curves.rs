//! How much memory was in use, state by state.

use std::ops::Range;

use super::{Allocations, Segment};

/// Bytes in each state; entry 0 is before the first event. All columns are equally long.
#[derive(Debug, Default)]
pub struct Curves {
    /// What the program has.
    pub allocated: Vec<u64>,
    /// The same with what waits for a stream before it can be used again.
    pub active: Vec<u64>,
    /// What the program asked for, of `allocated`: without the allocator's rounding.
    pub requested: Vec<u64>,
    /// What the allocator holds of the device.
    pub reserved: Vec<u64>,
    /// The first state with the highest `active` of every [`CHUNK`] states.
    peaks: Vec<u32>,
    /// The first state with the highest `active` of all.
    highest: u32,
}

/// States a chunk, for finding peaks.
const CHUNK: usize = 64;

/// Adds `bytes` for the states `range`, as steps.
fn add(curve: &mut [u64], range: Range<u32>, bytes: u64) {
    for (state, change) in [(range.start, bytes), (range.end, bytes.wrapping_neg())] {
        if let Some(step) = curve.get_mut(state as usize) {
            *step = step.wrapping_add(change);
        }
    }
}

/// Turns steps into sums.
fn accumulate(curve: &mut [u64]) {
    let mut sum = 0_u64;
    for step in curve {
        sum = sum.wrapping_add(*step);
        *step = sum;
    }
}

/// The first state in which a curve is highest, and how high; 0 of an empty one.
pub fn highest(curve: &[u64]) -> (u32, u64) {
    let bytes = curve.iter().copied().max().unwrap_or_default();
    (curve.iter().position(|&at| at == bytes).unwrap_or_default() as u32, bytes)
}

impl Curves {
    /// Sums the lives of all blocks and segments; no sum may reach 2^64.
    ///
    /// * `reserved`: what the recorder itself says of each state but the first; empty if nothing.
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
        curves
    }

    /// The first state of the highest `active`, and that many bytes.
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

    /// The same by looking at each state; the start of an empty range.
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
