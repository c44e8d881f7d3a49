//! Projects NVTX ranges onto the GPU: each range on the streams of its launches.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use crate::model::{RawSlice, RawSlices, SliceKind, StringId, TimeNs, TrackId};

/// Most open ranges per thread; deeper ones are not projected. Real ones nest a dozen deep.
const MAX_OPEN: usize = 256;

/// Most projections, as a multiple of the slices that they come from, and beyond so many: each of many open ranges may
/// reach each of many streams. Real ranges reach a few.
const MOST: usize = 2;
const FEW: usize = 1 << 16;

/// Marks device work already assigned to a call.
const TAKEN: u32 = u32::MAX;

/// Slices of all chunks under one index, which takes a third of the memory of an index pair.
struct SliceIndex<'a> {
    chunks: &'a [RawSlices],
    /// The number of each chunk's first slice, and of the end.
    firsts: Vec<u32>,
    /// By number over [`SliceIndex::STRIDE`]: the chunk of the first slice of that stride.
    hints: Vec<u32>,
}

impl<'a> SliceIndex<'a> {
    const STRIDE: u32 = 1 << 14;

    fn new(chunks: &'a [RawSlices]) -> Self {
        let mut firsts = vec![0_u32];
        for chunk in chunks {
            firsts.push(firsts[firsts.len() - 1].saturating_add(chunk.len() as u32));
        }
        let n = firsts[firsts.len() - 1];
        let chunk_of = |slice: u32| firsts.partition_point(|&first| first <= slice) as u32 - 1;
        let hints = (0..n.div_ceil(Self::STRIDE)).map(|stride| chunk_of(stride * Self::STRIDE)).collect();
        Self { chunks, firsts, hints }
    }

    fn len(&self) -> usize {
        self.firsts.last().map_or(0, |&end| end as usize)
    }

    #[inline(always)]
    fn chunk(&self, slice: u32) -> (&'a RawSlices, usize) {
        let mut chunk = self.hints[(slice / Self::STRIDE) as usize] as usize;
        while self.firsts[chunk + 1] <= slice {
            chunk += 1;
        }
        (&self.chunks[chunk], (slice - self.firsts[chunk]) as usize)
    }

    /// The slices of these kinds, in the order of the chunks.
    fn of_kind(&self, is_wanted: impl Fn(SliceKind) -> bool) -> impl Iterator<Item = u32> {
        self.chunks.iter().zip(&self.firsts).flat_map(move |(chunk, &first)| {
            let wanted: Vec<u32> =
                (0..chunk.len()).filter(|&i| is_wanted(chunk.kind[i])).map(|i| first + i as u32).collect();
            wanted
        })
    }
}

/// Device work launched inside a range, by stream: (first start, last end).
type Reach = BTreeMap<TrackId, (TimeNs, TimeNs)>;

/// The ranges on streams.
#[derive(Debug, Default)]
pub struct Projected {
    pub slices: RawSlices,
    /// Streams that ranges reach beyond [`MOST`], counted with each launch on them.
    pub n_left_out: u64,
    /// So many more streams may be reached.
    room: usize,
}

impl Projected {
    fn grow(&mut self, reach: &mut Reach, (stream, start, end): (TrackId, TimeNs, TimeNs)) {
        match reach.get_mut(&stream) {
            Some(known) => *known = (known.0.min(start), known.1.max(end)),
            None if self.room == 0 => self.n_left_out += 1,
            None => {
                self.room -= 1;
                reach.insert(stream, (start, end));
            }
        }
    }
}

/// An open range while iterating over its thread.
struct OpenRange {
    end: TimeNs,
    name: StringId,
    facts: u32,
    source: u64,
    reach: Reach,
}

/// Projects the ranges of all threads onto streams: per stream, from the start of the first device work
/// launched inside a range to the end of the last, as Kineto records it and NVIDIA's `nvtx_gpu_proj_trace`
/// computes it. Their track is that of the stream.
///
/// A launch belongs to a range if its API call starts inside it, on the same thread. Cost:
/// O(n log n) for n calls, launches and ranges; beyond [`FEW`], at most [`MOST`] times as many slices come out.
pub fn project(chunks: &[RawSlices]) -> Projected {
    let all = SliceIndex::new(chunks);
    let mut by_thread: HashMap<TrackId, Vec<u32>> = HashMap::new();
    for slice in all.of_kind(|kind| kind == SliceKind::Annotation) {
        let (chunk, i) = all.chunk(slice);
        by_thread.entry(chunk.track[i]).or_default();
    }
    if by_thread.is_empty() {
        return Projected::default();
    }
    let mut work: Vec<(u32, u32)> = all
        .of_kind(SliceKind::is_device_work)
        .map(|slice| {
            let (chunk, i) = all.chunk(slice);
            (chunk.correlation[i], slice)
        })
        .filter(|entry| entry.0 != 0)
        .collect();
    work.par_sort_unstable();
    let is_call = |kind| matches!(kind, SliceKind::Runtime | SliceKind::Driver | SliceKind::Annotation);
    for slice in all.of_kind(is_call) {
        let (chunk, i) = all.chunk(slice);
        if let Some(calls) = by_thread.get_mut(&chunk.track[i]) {
            calls.push(slice);
        }
    }
    let mut threads: Vec<(TrackId, Vec<u32>)> = by_thread.into_iter().collect();
    threads.sort_unstable_by_key(|thread| thread.0);
    let mut out = Projected { room: FEW + MOST * all.len(), ..Default::default() };
    for (_, calls) in &mut threads {
        walk(&all, calls, &mut work, &mut out);
    }
    out
}

/// Projects the ranges of one thread.
fn walk(all: &SliceIndex<'_>, calls: &mut [u32], work: &mut [(u32, u32)], out: &mut Projected) {
    // Ranges precede calls with the same start, outer ranges precede inner ones.
    calls.par_sort_by_key(|&slice| {
        let (chunk, i) = all.chunk(slice);
        let is_call = chunk.kind[i] != SliceKind::Annotation;
        (chunk.ts[i], is_call, std::cmp::Reverse(chunk.end[i]))
    });
    let mut open: Vec<OpenRange> = Vec::new();
    for &slice in calls.iter() {
        let (chunk, i) = all.chunk(slice);
        let ts = chunk.ts[i];
        while open.last().is_some_and(|range| range.end <= ts) {
            close(&mut open, &mut out.slices);
        }
        if chunk.kind[i] == SliceKind::Annotation {
            if open.len() >= MAX_OPEN {
                continue;
            }
            let (end, name, facts, source) = (chunk.end[i], chunk.name[i], chunk.facts[i], chunk.source[i]);
            open.push(OpenRange { end, name, facts, source, reach: Reach::new() });
            continue;
        }
        let correlation = chunk.correlation[i];
        if open.is_empty() || correlation == 0 {
            continue;
        }
        let first = work.partition_point(|entry| entry.0 < correlation);
        // Driver calls share the id of the runtime call around them: its work is counted once.
        for entry in work[first..].iter_mut().take_while(|entry| entry.0 == correlation) {
            let launched = entry.1;
            if launched == TAKEN {
                break;
            }
            entry.1 = TAKEN;
            let (chunk, i) = all.chunk(launched);
            // Ranges of different domains may cross: an outer one may have ended before an inner one.
            for range in open.iter_mut().filter(|range| range.end > ts) {
                out.grow(&mut range.reach, (chunk.track[i], chunk.ts[i], chunk.end[i]));
            }
        }
    }
    while !open.is_empty() {
        close(&mut open, &mut out.slices);
    }
}

/// Closes the innermost range.
fn close(open: &mut Vec<OpenRange>, out: &mut RawSlices) {
    let Some(range) = open.pop() else { return };
    for (&track, &(ts, end)) in &range.reach {
        let OpenRange { name, facts, source, .. } = range;
        let kind = SliceKind::GpuAnnotation;
        out.push(RawSlice { ts, end, name, kind, track, facts, source, ..Default::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ranges_that_reach_many_streams_are_bounded() {
        let mut raw = RawSlices::default();
        let mut push = |kind, track, ts, end, correlation| {
            let track = TrackId(track);
            raw.push(RawSlice { ts, end, kind, track, correlation, ..Default::default() });
        };
        let n = 2000;
        for i in 0..200 {
            push(SliceKind::Annotation, 0, i, 100_000 - i, 0);
        }
        for i in 0..n {
            push(SliceKind::Runtime, 0, 1000 + i64::from(i), 1001 + i64::from(i), 1 + i);
            push(SliceKind::Kernel, 1 + i, 2000, 3000, 1 + i);
        }
        let n_slices = 200 + 2 * n as usize;
        let projected = project(&[raw]);
        assert_eq!(projected.slices.len(), FEW + MOST * n_slices);
        assert_eq!(projected.slices.len() + projected.n_left_out as usize, 200 * n as usize);
    }

    #[test]
    fn ranges_reach_from_the_first_launch_to_the_last_end() {
        let mut raw = RawSlices::default();
        let mut push = |kind, track, ts, end, correlation, name| {
            let (track, name) = (TrackId(track), StringId(name));
            raw.push(RawSlice { ts, end, kind, track, correlation, name, ..Default::default() });
        };
        push(SliceKind::Annotation, 0, 0, 100, 0, 1);
        push(SliceKind::Annotation, 0, 10, 50, 0, 2);
        push(SliceKind::Runtime, 0, 20, 25, 7, 0);
        push(SliceKind::Runtime, 0, 60, 65, 8, 0);
        // After the first two ranges, and of another thread.
        push(SliceKind::Runtime, 0, 150, 155, 9, 0);
        push(SliceKind::Runtime, 1, 30, 35, 10, 0);
        push(SliceKind::Kernel, 2, 200, 300, 7, 0);
        push(SliceKind::Kernel, 2, 310, 350, 8, 0);
        push(SliceKind::Memcpy, 3, 90, 95, 8, 0);
        push(SliceKind::Kernel, 2, 400, 500, 9, 0);
        push(SliceKind::Kernel, 2, 600, 700, 10, 0);
        // The next range begins where the first ends, and one of another domain crosses both.
        push(SliceKind::Annotation, 0, 100, 200, 0, 3);
        push(SliceKind::Annotation, 0, 55, 160, 0, 4);
        let projected = project(&[raw]).slices;
        let mut all: Vec<_> = (0..projected.len())
            .map(|i| (projected.name[i].0, projected.track[i].0, projected.ts[i], projected.end[i]))
            .collect();
        all.sort_unstable();
        let first = [(1, 2, 200, 350), (1, 3, 90, 95), (2, 2, 200, 300)];
        let others = [(3, 2, 400, 500), (4, 2, 310, 500), (4, 3, 90, 95)];
        assert_eq!(all, [first, others].concat());
    }
}
