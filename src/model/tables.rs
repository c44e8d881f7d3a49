//! Tables of events other than slices: instants, counters, allocations, arrows, correlation.

use std::ops::Range;

use rayon::prelude::*;

use super::{SliceId, StringId, TimeNs, TimeRange, TrackId};

/// Named instants, sorted by (track, ts). All columns have the same length.
#[derive(Debug, Default)]
pub struct InstantTable {
    pub ts: Vec<TimeNs>,
    pub name: Vec<StringId>,
    pub track: Vec<TrackId>,
    /// Offset of the event's text in the file, for [`super::Details`].
    pub source: Vec<u64>,
}

impl InstantTable {
    pub fn len(&self) -> usize {
        self.ts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }

    /// The instants of `track`.
    pub fn of_track(&self, track: TrackId) -> Range<usize> {
        let first = self.track.partition_point(|&t| t < track);
        first..first + self.track[first..].partition_point(|&t| t == track)
    }

    /// The instants of `track` within `range`.
    pub fn window(&self, track: TrackId, range: TimeRange) -> Range<usize> {
        let all = self.of_track(track);
        let first = all.start + self.ts[all.clone()].partition_point(|&ts| ts < range.start);
        let last = all.start + self.ts[all].partition_point(|&ts| ts < range.end);
        first..last.max(first)
    }
}

/// The series of a counter of memory whose recording has changes alone: their sum.
pub const CHANGE_SINCE_START: &str = "change since start";

/// One value over time, on a track of its own.
#[derive(Debug, Default)]
pub struct Counter {
    pub track: TrackId,
    /// Name of the value within its track, such as `reserved`; may be empty.
    pub series: String,
    pub unit: CounterUnit,
    /// Sample times, ascending.
    pub ts: Vec<TimeNs>,
    /// The value from each sample on; never NaN or infinite.
    pub value: Vec<f64>,
    /// Times at which there was no value, ascending: it is not known until the next sample.
    pub absent: Vec<TimeNs>,
    /// Smallest and largest value.
    pub min: f64,
    pub max: f64,
    /// Values at the bottom and the top of its curve, the same for all counters with the name of its track, so that
    /// devices can be compared: 0 and their extremes; percentages reach 100.
    pub scale: (f64, f64),
}

impl Counter {
    /// Until when the value of a sample holds: the next sample, or that there was none, at the latest `until`, the end
    /// of its trace.
    pub fn holds_until(&self, sample: usize, until: TimeNs) -> TimeNs {
        let Some(&from) = self.ts.get(sample) else { return until };
        let next = self.ts.get(sample + 1).map_or(until, |&next| next);
        let absent = self.absent.get(self.absent.partition_point(|&ts| ts <= from));
        absent.map_or(next, |&absent| absent.min(next)).max(from)
    }
}

/// Unit of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CounterUnit {
    #[default]
    Plain,
    Bytes,
    Percent,
    Nanoseconds,
}

/// Allocated and freed bytes, sorted by time. All columns have the same length.
#[derive(Debug, Default)]
pub struct AllocationTable {
    pub ts: Vec<TimeNs>,
    /// The allocating or freeing thread.
    pub track: Vec<TrackId>,
    /// Index of the device; -1 is the host.
    pub device: Vec<i32>,
    /// Negative if freed.
    pub bytes: Vec<i64>,
}

impl AllocationTable {
    pub fn push(&mut self, ts: TimeNs, track: TrackId, device: i32, bytes: i64) {
        self.ts.push(ts);
        self.track.push(track);
        self.device.push(device);
        self.bytes.push(bytes);
    }

    pub fn len(&self) -> usize {
        self.ts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }

    /// Sorts by time; simultaneous events keep their order.
    pub fn sort(&mut self) {
        if self.ts.is_sorted() {
            return;
        }
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_by_key(|&i| self.ts[i as usize]);
        self.ts = order.iter().map(|&i| self.ts[i as usize]).collect();
        self.track = order.iter().map(|&i| self.track[i as usize]).collect();
        self.device = order.iter().map(|&i| self.device[i as usize]).collect();
        self.bytes = order.iter().map(|&i| self.bytes[i as usize]).collect();
    }
}

/// Arrows from slice to slice: launch to kernel, forward to backward.
///
/// Sorted by (from, to). All columns have the same length.
#[derive(Debug, Default)]
pub struct FlowTable {
    pub from: Vec<SliceId>,
    pub to: Vec<SliceId>,
    /// Kind of arrow: `ac2g`, `fwdbwd`.
    pub name: Vec<StringId>,
    /// Indices of the arrows, sorted by (to, from).
    pub by_target: Vec<u32>,
}

impl FlowTable {
    /// Builds the table from (from, to, name), in any order; equal arrows are kept once.
    pub fn build(mut arrows: Vec<(SliceId, SliceId, StringId)>) -> Self {
        // One number compares faster than three.
        arrows.sort_unstable_by_key(|&(from, to, name)| {
            u128::from(from.0) << 64 | u128::from(to.0) << 32 | u128::from(name.0)
        });
        arrows.dedup();
        let mut by_target: Vec<u32> = (0..arrows.len() as u32).collect();
        // Stable: arrows ascend, and so do the targets of most that follow each other.
        by_target.sort_by_key(|&i| arrows[i as usize].1);
        Self {
            from: arrows.iter().map(|arrow| arrow.0).collect(),
            to: arrows.iter().map(|arrow| arrow.1).collect(),
            name: arrows.iter().map(|arrow| arrow.2).collect(),
            by_target,
        }
    }

    pub fn len(&self) -> usize {
        self.from.len()
    }

    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// The arrows that leave `slice`, as indices.
    pub fn outgoing(&self, slice: SliceId) -> Range<usize> {
        let first = self.from.partition_point(|&from| from < slice);
        first..first + self.from[first..].partition_point(|&from| from == slice)
    }

    /// The arrows that reach `slice`, as indices.
    pub fn incoming(&self, slice: SliceId) -> impl Iterator<Item = usize> {
        let first = self.by_target.partition_point(|&i| self.to[i as usize] < slice);
        let target = move |&&i: &&u32| self.to[i as usize] == slice;
        self.by_target[first..].iter().take_while(target).map(|&i| i as usize)
    }
}

/// Slices by correlation id: an API call and the device work it launched.
#[derive(Debug, Default)]
pub struct CorrelationIndex {
    /// Slices with an id, sorted by id, API calls first, then slice: a graph launch has thousands of kernels,
    /// each of which looks up its call.
    order: Vec<SliceId>,
    /// Where the slices of each `1 << shift` ids begin in `order`: at most one entry for a slice.
    starts: Vec<u32>,
    shift: u32,
    /// Of each slice the first other one with its id, if that is a call; else [`Self::NONE`]. Empty without ids.
    launch: Vec<SliceId>,
}

impl CorrelationIndex {
    const NONE: SliceId = SliceId(u32::MAX);

    /// * `correlation`: the ids of all slices, 0 for none.
    /// * `is_call`: whether a slice is an API call, by index.
    /// * Cost: O(n) for ids that count up, with gaps or without, as in real traces; else O(n log n).
    pub fn build(correlation: &[u32], is_call: impl Fn(usize) -> bool) -> Self {
        let n = correlation.iter().filter(|&&id| id != 0).count();
        let highest = correlation.iter().copied().max().unwrap_or(0);
        let shift = (0..32).find(|shift| (highest >> shift) as usize <= n).unwrap_or(32);
        // Where each group begins; those with an id only.
        let mut starts = vec![0_u32; bucket(highest, shift) + 2];
        correlation.iter().filter(|&&id| id != 0).for_each(|&id| starts[bucket(id, shift) + 1] += 1);
        for group in 1..starts.len() {
            starts[group] += starts[group - 1];
        }
        let mut order = vec![SliceId(0); n];
        for calls in [true, false] {
            let with_id = correlation.iter().enumerate().filter(|entry| *entry.1 != 0);
            for (slice, &id) in with_id.filter(|&(slice, _)| is_call(slice) == calls) {
                let place = &mut starts[bucket(id, shift)];
                order[*place as usize] = SliceId(slice as u32);
                *place += 1;
            }
        }
        // Each is now where the next group begins.
        starts.rotate_right(1);
        starts[0] = 0;
        if shift > 0 {
            for group in starts.windows(2) {
                order[group[0] as usize..group[1] as usize].sort_by_key(|slice| correlation[slice.idx()]);
            }
        }
        let mut index = Self { order, starts, shift, launch: Vec::new() };
        index.launch = index.launch_of_each(correlation, is_call);
        index
    }

    fn launch_of_each(&self, correlation: &[u32], is_call: impl Fn(usize) -> bool) -> Vec<SliceId> {
        if self.order.is_empty() {
            return Vec::new();
        }
        let mut launch = vec![Self::NONE; correlation.len()];
        for group in self.order.chunk_by(|a, b| correlation[a.idx()] == correlation[b.idx()]) {
            let [first, rest @ ..] = group else { continue };
            if is_call(first.idx()) {
                rest.iter().for_each(|slice| launch[slice.idx()] = *first);
            }
            if let Some(second) = rest.first().filter(|second| is_call(second.idx())) {
                launch[first.idx()] = *second;
            }
        }
        launch
    }

    /// The API call that launched this device work; of a call, another one with its id.
    #[inline]
    pub fn launch_of(&self, slice: SliceId) -> Option<SliceId> {
        self.launch.get(slice.idx()).copied().filter(|&call| call != Self::NONE)
    }

    /// All slices with an id, grouped by id.
    pub fn groups<'a>(&'a self, correlation: &'a [u32]) -> impl ParallelIterator<Item = &'a [SliceId]> {
        self.order.par_chunk_by(|a, b| correlation[a.idx()] == correlation[b.idx()])
    }

    /// All slices with this id, API calls first; none for 0. `correlation` is the column it was built from.
    ///
    /// Cost: O(1) for dense ids, else O(log n).
    #[inline]
    pub fn slices(&self, correlation: &[u32], id: u32) -> &[SliceId] {
        let at = bucket(id, self.shift);
        // No slice has the id 0: its group holds those of other ids.
        let (Some(&start), Some(&end)) = (self.starts.get(at), self.starts.get(at + 1)) else { return &[] };
        let near = &self.order[start as usize..end as usize];
        if self.shift == 0 { near } else { Self::of_id(near, correlation, id) }
    }

    /// Those with this id among slices in the order of their ids.
    fn of_id<'a>(near: &'a [SliceId], correlation: &[u32], id: u32) -> &'a [SliceId] {
        // Most groups are a call and its work.
        const FEW: usize = 8;
        if near.len() <= FEW {
            let is_of_id = |slice: &SliceId| correlation[slice.idx()] == id;
            let Some(first) = near.iter().position(is_of_id) else { return &[] };
            let rest = &near[first..];
            return &rest[..rest.iter().position(|slice| !is_of_id(slice)).unwrap_or(rest.len())];
        }
        let first = near.partition_point(|slice| correlation[slice.idx()] < id);
        let count = near[first..].partition_point(|slice| correlation[slice.idx()] == id);
        &near[first..first + count]
    }
}

fn bucket(id: u32, shift: u32) -> usize {
    id.checked_shr(shift).unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arrows_are_found_from_both_ends() {
        let arrow = |from, to| (SliceId(from), SliceId(to), StringId(1));
        let flows = FlowTable::build(vec![arrow(3, 1), arrow(1, 2), arrow(1, 5), arrow(1, 2), arrow(4, 2)]);
        assert_eq!(flows.len(), 4);
        let out: Vec<u32> = flows.outgoing(SliceId(1)).map(|i| flows.to[i].0).collect();
        assert_eq!(out, [2, 5]);
        let into: Vec<u32> = flows.incoming(SliceId(2)).map(|i| flows.from[i].0).collect();
        assert_eq!(into, [1, 4]);
        assert_eq!(flows.incoming(SliceId(9)).count(), 0);
    }

    proptest! {
        #[test]
        fn slices_are_found_by_correlation_however_sparse(
            ids in prop::collection::vec(0_u32..40, 0..60),
            spread in prop_oneof![Just(1_u32), 2_u32..9, Just(1_000_000), Just(u32::MAX / 40)],
        ) {
            let column: Vec<u32> = ids.iter().map(|id| id * spread).collect();
            let is_call = |slice: usize| slice.is_multiple_of(3);
            let index = CorrelationIndex::build(&column, is_call);
            for id in (0..40).flat_map(|id| [id * spread, (id * spread).saturating_sub(1)]).chain([u32::MAX]) {
                let mut expected: Vec<usize> = (0..column.len()).filter(|&i| id != 0 && column[i] == id).collect();
                expected.sort_by_key(|&i| !is_call(i));
                let found: Vec<usize> = index.slices(&column, id).iter().map(|slice| slice.idx()).collect();
                for &slice in &expected {
                    let call = expected.iter().copied().find(|&other| other != slice).filter(|&other| is_call(other));
                    let found = index.launch_of(SliceId(slice as u32)).map(SliceId::idx);
                    prop_assert_eq!(found, call, "the call of {}", slice);
                }
                prop_assert_eq!(found, expected, "id {}", id);
            }
        }
    }

    #[test]
    fn instants_are_found_by_track_and_time() {
        let instants = InstantTable {
            ts: vec![1, 5, 9, 2],
            track: vec![TrackId(0), TrackId(0), TrackId(0), TrackId(3)],
            ..Default::default()
        };
        assert_eq!(instants.window(TrackId(0), TimeRange { start: 2, end: 9 }), 1..2);
        assert_eq!(instants.of_track(TrackId(3)), 3..4);
        assert!(instants.of_track(TrackId(1)).is_empty());
    }
}
