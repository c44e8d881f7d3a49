//! Time of collectives in which no device computes.

use hashbrown::HashMap;

use super::CollectiveKernels;
use crate::model::time::{length, unite};
use crate::model::{DurNs, ProcessId, SliceId, SliceKind, TimeNs, TimeRange, Trace};

/// Where a collective runs: the index of its trace, and its device; `None` for one of the host, which is of all
/// devices.
pub type Place = (u32, Option<ProcessId>);

/// What computes beside the collectives of each place, found once for all rows of them: they may overlap one another.
#[derive(Debug, Default)]
pub struct Beside {
    /// From the first collective of a place to the end of the last.
    hulls: HashMap<Place, TimeRange>,
    compute: HashMap<Place, Lengths>,
}

impl Beside {
    /// Adds a collective.
    pub fn add(&mut self, place: Place, time: TimeRange) {
        self.hulls.entry(place).and_modify(|hull| *hull = hull.union(time)).or_insert(time);
    }

    /// Time within some collectives of a place in which none of its devices computes; `None` without devices.
    ///
    /// * `spans`: their times, as [`unite`] makes them.
    /// * Cost: O(s log n) for s spans and n slices of the devices, and once for each place O(n log k) for k rows.
    pub fn exposed(
        &mut self,
        trace: &Trace,
        place: Place,
        spans: &[TimeRange],
        collectives: &mut CollectiveKernels<'_>,
    ) -> Option<DurNs> {
        let is_device = |process: &ProcessId| trace.process(*process).device.is_some();
        let devices: Vec<ProcessId> = match place.1 {
            Some(device) => vec![device],
            None => (0..trace.processes.len() as u32).map(ProcessId).filter(is_device).collect(),
        };
        if devices.is_empty() {
            return None;
        }
        let hull = self.hulls.get(&place).copied().unwrap_or(TimeRange::ALL);
        let compute = self.compute.entry(place).or_insert_with(|| {
            let slices = &trace.slices;
            let rows = devices.iter().flat_map(|&device| trace.rows_of(device));
            let within = rows.flat_map(|row| slices.window(row, hull));
            let computes = within.map(|i| SliceId(i as u32)).filter(|&slice| match slices.kind[slice.idx()] {
                SliceKind::Kernel => !collectives.contains(slice),
                kind => kind == SliceKind::CudaGraph,
            });
            Lengths::of(computes.map(|slice| slices.time(slice)).collect())
        });
        Some(length(spans) - spans.iter().map(|&span| compute.within(span)).sum::<DurNs>())
    }
}

/// How much of any range some spans fill.
#[derive(Debug)]
struct Lengths {
    spans: Vec<TimeRange>,
    /// The length of all spans before each.
    before: Vec<DurNs>,
}

impl Lengths {
    /// * `spans`: in any order. Cost: O(n log k) for k ascending runs of them.
    fn of(mut spans: Vec<TimeRange>) -> Self {
        unite(&mut spans);
        let mut sum = 0;
        let mut add = |span: &TimeRange| {
            sum += span.dur();
            sum - span.dur()
        };
        let before = spans.iter().map(&mut add).collect();
        Self { spans, before }
    }

    fn until(&self, ts: TimeNs) -> DurNs {
        let at = self.spans.partition_point(|span| span.start < ts);
        at.checked_sub(1).map_or(0, |last| self.before[last] + self.spans[last].end.min(ts) - self.spans[last].start)
    }

    /// Cost: O(log n).
    fn within(&self, range: TimeRange) -> DurNs {
        self.until(range.end) - self.until(range.start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::time::length_within;

    proptest! {
        #[test]
        fn lengths_are_those_of_walking(
            spans in prop::collection::vec((0_i64..200, 0_i64..30), 0..30),
            ranges in prop::collection::vec((0_i64..230, 0_i64..90), 1..20),
        ) {
            let mut spans: Vec<_> = spans.into_iter().map(|(start, dur)| TimeRange { start, end: start + dur }).collect();
            let lengths = Lengths::of(spans.clone());
            unite(&mut spans);
            for (start, dur) in ranges {
                let range = TimeRange { start, end: start + dur };
                prop_assert_eq!(lengths.within(range), length_within(&spans, range));
            }
        }
    }
}
