//! Builds a [`Trace`] from events in file order.

use hashbrown::HashMap;
use rayon::prelude::*;

use super::flow::{FlowPoint, points_by_track};
use super::layout::{Layout, Point, layout};
use super::memory::{MemorySource, RawMemory, add_to_timeline, replay, take_enclosing};
use super::raw_slices::RawSlices;
use super::rows::make_rows;
use super::{
    AllocationTable, CorrelationIndex, Counter, CounterUnit, FactLists, ImportReport, InstantTable, MemoryHistory,
    Process, Row, SampleTable, Severity, SliceId, SliceTable, StackTable, StringId, StringTable, TimeNs, TimeRange,
    Tint, Trace, TraceInfo, Track, TrackId,
};

/// All data read from a file. [`TraceBuilder::finish`] sorts, nests and indexes it.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    pub info: TraceInfo,
    pub strings: StringTable,
    pub processes: Vec<Process>,
    pub tracks: Vec<Track>,
    /// In file order; parts need not be equally long.
    pub slices: Vec<RawSlices>,
    /// Slices that never ended, by `source`. Their `end` is set to the end of the span.
    pub unfinished: Vec<u64>,
    /// Moments that the recorder noted when it had stopped recording, by `source`: no part of the span.
    pub after_end: Vec<u64>,
    pub instants: InstantTable,
    /// Samples in any order.
    pub counters: Vec<Counter>,
    pub flows: Vec<FlowPoint>,
    pub facts: FactLists,
    /// In any order.
    pub allocations: AllocationTable,
    /// In any order.
    pub memories: Vec<RawMemory>,
    pub stacks: StackTable,
    /// In any order.
    pub samples: SampleTable,
    pub short_names: HashMap<StringId, StringId>,
    pub import: ImportReport,
}

/// The concatenated columns of all parts; each part's column is freed after it is copied.
fn join<T: Copy>(parts: &mut [RawSlices], column: impl Fn(&mut RawSlices) -> &mut Vec<T>) -> Vec<T> {
    if let [only] = parts {
        return std::mem::take(column(only));
    }
    let len = parts.iter_mut().map(|part| column(part).len()).sum();
    let mut all = Vec::with_capacity(len);
    for part in parts {
        all.append(&mut std::mem::take(column(part)));
    }
    all
}

fn gather<T: Copy + Send + Sync>(column: &[T], order: &[u32]) -> Vec<T> {
    gather_into(Vec::new(), column, order)
}

/// Puts a column in order into the memory of one that is done with, since the system must zero fresh memory.
fn gather_into<T: Copy + Send + Sync>(mut out: Vec<T>, column: &[T], order: &[u32]) -> Vec<T> {
    order.par_iter().with_min_len(1 << 14).map(|&i| column[i as usize]).collect_into_vec(&mut out);
    out.shrink_to_fit();
    out
}

/// The slices of one track during the layout.
struct TrackPart<'a> {
    /// Indices of its slices, in file order at first, by (row, ts) in the end.
    order: &'a mut [u32],
    /// Indices of its flow points, by time.
    points: Vec<u32>,
}

impl TraceBuilder {
    /// Adds slices to the last part; `slices` keeps its memory. One part is built from without copying it first.
    pub fn append(&mut self, slices: &mut RawSlices) {
        match self.slices.last_mut() {
            Some(last) => last.append(slices),
            None => self.slices.push(std::mem::take(slices)),
        }
    }

    /// Builds the trace.
    ///
    /// Slices are sorted and nested, and arrows are bound to the slices at their ends; events that cannot be
    /// placed are counted in the import report. Cost: O(n log n), O(n) for nearly sorted slices, which
    /// recorders usually write.
    pub fn finish(mut self) -> Trace {
        let mut memories = self.replay_memories();
        self.arrange_tracks();
        self.sort_samples();
        self.info.step_names.sort_unstable();
        self.info.step_names.dedup();
        let mut parts = std::mem::take(&mut self.slices);
        let span = self.span(&parts, &memories);
        // A profiler records memory as long as it runs, also while nothing is allocated.
        for history in memories.iter_mut().filter(|history| history.source == MemorySource::Profiler) {
            history.span = history.span.union(span);
        }
        let unfinished = self.close_unfinished(&mut parts, span);

        let ts = join(&mut parts, |part| &mut part.ts);
        let end = join(&mut parts, |part| &mut part.end);
        let track = join(&mut parts, |part| &mut part.track);
        let mut order = vec![0_u32; ts.len()];
        let bounds = group_by_track(&track, self.tracks.len(), &mut order);
        drop(track);
        let (layouts, bound) = self.lay_out(&ts, &end, &mut order, &bounds);

        let mut slices = SliceTable { ts: gather(&ts, &order), ..Default::default() };
        slices.end = gather_into(ts, &end, &order);
        drop(end);
        slices.name = gather(&join(&mut parts, |part| &mut part.name), &order);
        slices.kind = gather(&join(&mut parts, |part| &mut part.kind), &order);
        let mut spare = join(&mut parts, |part| &mut part.correlation);
        slices.correlation = gather(&spare, &order);
        let has_external = parts.iter().any(|part| part.external.iter().any(|&id| id != 0));
        if has_external {
            let external = join(&mut parts, |part| &mut part.external);
            slices.external = gather_into(spare, &external, &order);
            spare = external;
        }
        // Before the widest column, since the tables take less room than the numbers they are built from.
        let facts = gather_into(spare, &join(&mut parts, |part| &mut part.facts), &order);
        let facts = std::mem::take(&mut self.facts).build(&facts);
        slices.source = gather(&join(&mut parts, |part| &mut part.source), &order);
        drop(parts);
        let name_shades: Vec<u8> = self.strings.iter().map(|(_, name)| Tint::shade_of(name)).collect();
        let track_rows = make_rows(&mut slices, &layouts, (&name_shades, &facts.colors), span);
        self.report_crossings(&slices, &track_rows);
        if !unfinished.is_empty() {
            let is_unfinished = |i: &u32| unfinished.binary_search(&slices.source[*i as usize]).is_ok();
            slices.unfinished = (0..slices.len() as u32).filter(is_unfinished).map(SliceId).collect();
        }

        let flows = self.bind_flows(&order, &bound, &slices.kind);
        drop(order);
        let correlations = CorrelationIndex::build(&slices.correlation, |slice| slices.kind[slice].is_call());
        self.import.sort();
        let mut trace = Trace {
            info: self.info,
            strings: self.strings,
            name_shades,
            processes: self.processes,
            tracks: self.tracks,
            slices,
            track_rows,
            instants: self.instants,
            counters: self.counters,
            facts,
            allocations: self.allocations,
            memories,
            stacks: self.stacks,
            samples: self.samples,
            short_names: self.short_names,
            flows,
            correlations,
            span,
            import: self.import,
            details: None,
        };
        take_enclosing(&mut trace);
        trace
    }

    /// Replays memory histories, and adds memory snapshots to the timeline.
    fn replay_memories(&mut self) -> Vec<MemoryHistory> {
        let raw = std::mem::take(&mut self.memories);
        let mut histories: Vec<MemoryHistory> = raw.into_par_iter().map(replay).collect();
        histories.sort_by_key(|history| (history.source, history.device, history.pid));
        for history in &histories {
            for &(inconsistency, count, _) in &history.inconsistencies {
                let severity = if inconsistency.is_harmless() { Severity::Note } else { Severity::Warn };
                self.import.note(severity, inconsistency.sentence(), count, None);
            }
            if history.source == MemorySource::Snapshot {
                add_to_timeline(history, &mut self.processes, &mut self.tracks, &mut self.slices, &mut self.counters);
            }
        }
        histories
    }

    /// Sorts processes and tracks into display order, and renumbers references to them.
    fn arrange_tracks(&mut self) {
        let process_rank = ranks(self.processes.len(), |&i| {
            let process = &self.processes[i];
            (process.sort_index, process.device, i)
        });
        permute(&mut self.processes, &process_rank);
        for track in &mut self.tracks {
            track.process.0 = process_rank[track.process.0 as usize];
        }
        let track_rank = ranks(self.tracks.len(), |&i| {
            let track = &self.tracks[i];
            let number = track.tid.trim_start_matches("stream ").parse::<i64>().ok();
            (track.process, track.kind, track.sort_index, number.is_none(), number, track.name.clone(), i)
        });
        permute(&mut self.tracks, &track_rank);
        let renumber = |track: &mut TrackId| track.0 = track_rank[track.0 as usize];
        for part in &mut self.slices {
            part.track.iter_mut().for_each(renumber);
        }
        self.instants.track.iter_mut().for_each(renumber);
        self.counters.iter_mut().for_each(|counter| renumber(&mut counter.track));
        self.allocations.track.iter_mut().for_each(renumber);
        self.samples.track.iter_mut().for_each(renumber);
        self.flows.iter_mut().for_each(|point| renumber(&mut point.track));
    }

    fn sort_samples(&mut self) {
        let instants = &mut self.instants;
        let mut order: Vec<u32> = (0..instants.len() as u32).collect();
        order.sort_by_key(|&i| (instants.track[i as usize], instants.ts[i as usize]));
        instants.ts = gather(&instants.ts, &order);
        instants.name = gather(&instants.name, &order);
        instants.track = gather(&instants.track, &order);
        instants.source = gather(&instants.source, &order);
        let samples = &mut self.samples;
        let mut order: Vec<u32> = (0..samples.len() as u32).collect();
        order.sort_by_key(|&i| (samples.track[i as usize], samples.ts[i as usize]));
        samples.ts = gather(&samples.ts, &order);
        samples.track = gather(&samples.track, &order);
        samples.stack = gather(&samples.stack, &order);
        self.allocations.sort();
        for counter in &mut self.counters {
            if !counter.ts.is_sorted() {
                let mut order: Vec<u32> = (0..counter.ts.len() as u32).collect();
                order.sort_by_key(|&i| counter.ts[i as usize]);
                counter.ts = gather(&counter.ts, &order);
                counter.value = gather(&counter.value, &order);
            }
            counter.min = counter.value.iter().copied().fold(f64::INFINITY, f64::min);
            counter.max = counter.value.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            counter.absent.sort_unstable();
        }
        self.counters.sort_by_key(|counter| counter.track);
        self.scale_counters();
    }

    fn scale_counters(&mut self) {
        let (tracks, mut scales) = (&self.tracks, HashMap::new());
        let name = |counter: &Counter| (tracks[counter.track.0 as usize].name.as_str(), counter.unit);
        for counter in &self.counters {
            let full: f64 = if counter.unit == CounterUnit::Percent { 100.0 } else { 0.0 };
            let (bottom, top) = scales.entry(name(counter)).or_insert((0.0_f64, full));
            (*bottom, *top) = (bottom.min(counter.min), top.max(counter.max));
        }
        for counter in &mut self.counters {
            counter.scale = scales[&name(counter)];
        }
    }

    /// Sets the end of unclosed slices; returns their sources, sorted.
    fn close_unfinished(&mut self, parts: &mut [RawSlices], span: TimeRange) -> Vec<u64> {
        let mut open = std::mem::take(&mut self.unfinished);
        open.sort_unstable();
        if !open.is_empty() {
            for part in parts {
                for (i, source) in part.source.iter().enumerate() {
                    if open.binary_search(source).is_ok() {
                        part.end[i] = span.end.max(part.ts[i]);
                    }
                }
            }
        }
        open
    }

    /// Sorts each track's slices by (row, ts) and finds the slice of each flow point.
    fn lay_out(
        &mut self,
        ts: &[TimeNs],
        end: &[TimeNs],
        order: &mut [u32],
        bounds: &[u32],
    ) -> (Vec<Layout>, Vec<Option<u32>>) {
        let mut parts = Vec::new();
        let mut rest = order;
        let mut points = points_by_track(&self.flows, self.tracks.len());
        for (track, bound) in bounds.windows(2).enumerate() {
            let (part, after) = rest.split_at_mut((bound[1] - bound[0]) as usize);
            rest = after;
            let points = std::mem::take(&mut points[track]);
            parts.push(TrackPart { order: part, points });
        }
        let flows = &self.flows;
        let layouts: Vec<(Layout, Vec<(u32, u32)>)> =
            parts.par_iter_mut().map(|part| lay_out_track(part, ts, end, flows)).collect();
        let mut bound = vec![None; self.flows.len()];
        let mut out = Vec::with_capacity(layouts.len());
        for (layout, points) in layouts {
            for (point, slice) in points {
                bound[point as usize] = Some(slice);
            }
            out.push(layout);
        }
        (out, bound)
    }

    /// Notes the slices that cross others on their track, and those inside of them. That is not a defect of the recording where a range begins
    /// inside the Python function that opens it and ends inside the one that closes it, nor for waits of several
    /// threads for one stream, nor for kernels of one stream: since Hopper one may begin before that before it has
    /// ended (programmatic dependent launch). Asynchronous operations cross by nature.
    fn report_crossings(&mut self, slices: &SliceTable, track_rows: &[std::ops::Range<u32>]) {
        use super::SliceKind::{PythonFunction, Sync};
        // Without Python functions and waits, of Python functions, of waits, and of device work.
        let mut counts = [0; 4];
        for (track, rows) in self.tracks.iter().zip(track_rows) {
            let rows = &slices.rows[rows.start as usize..rows.end as usize];
            let all: usize = rows.iter().filter(|row| row.is_overflow).map(|row| row.range().len()).sum();
            if all == 0 || track.kind == super::TrackKind::Async {
                continue;
            }
            let without = |kinds: &[super::SliceKind]| {
                let others = |row: &Row| row.range().filter(|&i| !kinds.contains(&slices.kind[i]));
                match rows.iter().any(|row| others(row).count() < row.range().len()) {
                    true => crossings(rows.iter().flat_map(others).map(|i| (slices.ts[i], slices.end[i])).collect()),
                    false => all,
                }
            };
            let mut extra = rows.iter().filter(|row| row.is_overflow).flat_map(Row::range);
            if extra.all(|i| slices.kind[i].is_device_work()) {
                counts[3] += all as u64;
                continue;
            }
            let (of_neither, without_syncs) = (without(&[PythonFunction, Sync]), without(&[Sync]));
            counts[0] += of_neither as u64;
            counts[1] += without_syncs.saturating_sub(of_neither) as u64;
            counts[2] += all.saturating_sub(without_syncs) as u64;
        }
        let reason = "Slice that crosses another on its track, or is inside of one that does: shown with its true times on an extra \
                      row";
        self.import.note(Severity::Note, reason, counts[0], None);
        let reason = "Device work that begins before that before it on its track ends: shown with its true times on an \
                      extra row";
        self.import.note(Severity::Note, reason, counts[3], None);
        let reason = "Python function in which a range begins or ends, with what is inside, or such a range: shown with its true \
                      times on an extra row";
        self.import.note(Severity::Note, reason, counts[1], None);
        let reason = "Synchronization overlaps another slice on its track: shown with its true times on an extra row";
        self.import.note(Severity::Note, reason, counts[2], None);
    }
}

/// How many of these slices of one track cross others.
fn crossings(mut slices: Vec<(TimeNs, TimeNs)>) -> usize {
    slices.sort_unstable_by_key(|&(ts, end)| (ts, std::cmp::Reverse(end)));
    let layout = layout(slices.into_iter(), &[]);
    layout.row_lens.iter().skip(layout.first_overflow as usize).map(|&n| n as usize).sum()
}

/// The rank of each index when sorted by `key`.
fn ranks<K: Ord>(n: usize, key: impl FnMut(&usize) -> K) -> Vec<u32> {
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_cached_key(key);
    let mut ranks = vec![0; n];
    for (rank, index) in order.into_iter().enumerate() {
        ranks[index] = rank as u32;
    }
    ranks
}

fn permute<T: Default>(items: &mut Vec<T>, rank: &[u32]) {
    let mut out: Vec<T> = std::iter::repeat_with(T::default).take(items.len()).collect();
    for (item, &rank) in std::mem::take(items).into_iter().zip(rank) {
        out[rank as usize] = item;
    }
    *items = out;
}

/// Fills `order` with slice indices grouped by track, in file order; returns where each group
/// starts.
fn group_by_track(track: &[TrackId], n_tracks: usize, order: &mut [u32]) -> Vec<u32> {
    let mut bounds = vec![0_u32; n_tracks + 1];
    for track in track {
        bounds[track.0 as usize + 1] += 1;
    }
    for i in 0..n_tracks {
        bounds[i + 1] += bounds[i];
    }
    let mut next = bounds.clone();
    for (i, track) in track.iter().enumerate() {
        let slot = &mut next[track.0 as usize];
        order[*slot as usize] = i as u32;
        *slot += 1;
    }
    bounds
}

/// Lays out one track; returns its bound flow points as (point, slice).
fn lay_out_track(
    part: &mut TrackPart<'_>,
    ts: &[TimeNs],
    end: &[TimeNs],
    flows: &[FlowPoint],
) -> (Layout, Vec<(u32, u32)>) {
    let key = |&i: &u32| (ts[i as usize], std::cmp::Reverse(end[i as usize]));
    if !part.order.is_sorted_by_key(key) {
        part.order.sort_by_key(key);
    }
    part.points.sort_by_key(|&i| flows[i as usize].ts);
    let point = |&i: &u32| Point { ts: flows[i as usize].ts, may_bind_next: flows[i as usize].may_bind_next };
    let points: Vec<Point> = part.points.iter().map(point).collect();
    let mut layout = layout(part.order.iter().map(|&i| (ts[i as usize], end[i as usize])), &points);
    let bound = std::mem::take(&mut layout.bound);
    let bound = part.points.iter().zip(bound).filter_map(|(&point, slice)| Some((point, part.order[slice? as usize])));
    let bound = bound.collect();
    let mut next: Vec<u32> = Vec::with_capacity(layout.row_lens.len());
    let mut total = 0;
    for len in &layout.row_lens {
        next.push(total);
        total += len;
    }
    let mut by_row = vec![0; part.order.len()];
    for (&slice, &row) in part.order.iter().zip(&layout.row) {
        by_row[next[row as usize] as usize] = slice;
        next[row as usize] += 1;
    }
    part.order.copy_from_slice(&by_row);
    layout.row = Vec::new();
    (layout, bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SliceKind;

    const OP: SliceKind = SliceKind::Operator;

    #[test]
    fn slices_are_sorted_nested_and_found() {
        let trace = TraceBuilder::from_slices(&[
            ("main", OP, "inner", 10, 20),
            ("stream 7", SliceKind::Kernel, "gemm", 30, 60),
            ("main", OP, "outer", 0, 50),
            ("main", OP, "later", 60, 70),
        ])
        .finish();
        let names: Vec<_> = (0..4).map(|i| trace.slice_name(SliceId(i))).collect();
        assert_eq!(names, ["outer", "later", "inner", "gemm"]);
        assert_eq!(trace.span, TimeRange { start: 0, end: 70 });
        assert_eq!(trace.slices.parent(SliceId(2)), Some(SliceId(0)));
        assert_eq!(trace.slices.parent(SliceId(1)), None);
        assert_eq!(trace.slices.children(SliceId(0)), 2..3);
        assert_eq!(trace.slice_at(TrackId(0), 15), Some(SliceId(2)));
        assert_eq!(trace.slice_at(TrackId(0), 55), None);
        assert_eq!(trace.track_slices(TrackId(1)), 3..4);
    }

    #[test]
    fn launches_find_their_kernels() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", SliceKind::Runtime, "cudaGraphLaunch", 0, 5),
            ("stream 7", SliceKind::Kernel, "a", 10, 20),
            ("stream 7", SliceKind::Kernel, "b", 20, 30),
        ]);
        builder.slices[0].correlation = vec![9, 9, 9];
        let trace = builder.finish();
        assert_eq!(trace.launched_by(SliceId(0)).collect::<Vec<_>>(), [SliceId(1), SliceId(2)]);
        assert_eq!(trace.launch_of(SliceId(2)), Some(SliceId(0)));
        assert_eq!(trace.launch_of(SliceId(0)), None);
    }

    #[test]
    fn waits_that_cross_kernels_are_a_note() {
        let syncs = TraceBuilder::from_slices(&[
            ("stream 7", SliceKind::Kernel, "a", 0, 50),
            ("stream 7", SliceKind::Sync, "b", 30, 80),
            ("stream 7", SliceKind::Kernel, "c", 60, 90),
            ("stream 7", SliceKind::Sync, "d", 70, 100),
        ]);
        let problems = syncs.finish().import.problems;
        assert_eq!(
            problems.iter().map(|found| (found.severity, found.count)).collect::<Vec<_>>(),
            [(Severity::Note, 2)]
        );
    }
}
