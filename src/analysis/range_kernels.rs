//! Kernels by the named ranges that they were launched in.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use rayon::prelude::*;

use super::launches::{Launched, WorkOfThreads};
use super::totals::{Durations, Instance, Part, Scope};
use crate::model::{DurNs, MOST_ROWS, SliceId, SliceKind, StringId, TimeNs, TimeRange, Trace, TrackId};

/// The kernels of one name that were launched in ranges of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeKernels {
    pub range: String,
    /// NVTX domain of the range; empty for the default one.
    pub domain: String,
    pub kernel: String,
    pub durations: Durations,
    /// Its kernels, if asked for.
    pub instances: Vec<Instance>,
}

/// Kernels, and graphs recorded as one, by each range around the call that launched them on its thread.
///
/// A kernel launched in nested ranges is in the rows of all of them, once for each name. Ranges count that start
/// in the scope. Start/end ranges belong to a process and not to a thread, so nothing is launched in them. Ranges below
/// the first [`MOST_ROWS`] rows are left out, as the file's problems say.
///
/// * `work`: of the traces of the scope.
/// * `n`: how many rows are wanted, those of most time; 0 stands for all. Also returns how many there are.
/// * `keeps_instances`: whether rows hold their kernels; it costs 8 bytes for each kernel and wanted row it is in.
/// * Sorted by total, descending, then range, domain and kernel.
/// * Cost: nothing without ranges; else O(n log n) for n calls and ranges, 24 bytes for each row, and 4 for each kernel
///   and wanted row that it is in.
/// * Source: `nvtx_kern_sum` of NVIDIA Nsight Systems, which adds start/end ranges.
pub fn range_kernels(
    scope: &Scope<'_>,
    work: &WorkOfThreads,
    n: usize,
    keeps_instances: bool,
) -> (Vec<RangeKernels>, usize) {
    let of_trace = |(index, trace): (usize, &&Trace)| threads(scope, index, trace, work.of_trace(index));
    let threads: Vec<Vec<Thread<'_>>> = scope.traces.iter().enumerate().map(of_trace).collect();
    let mut rows: Vec<Row> = Vec::new();
    for (trace, threads) in (0..).zip(&threads) {
        rows.extend(sums_of_trace(scope.traces[trace as usize], threads).map(|(ids, sum)| Row { trace, ids, sum }));
    }
    let names = |row: &Row| row.ids.texts(scope.traces[row.trace as usize]);
    // Within a trace the ids tell names apart.
    if scope.traces.len() > 1 {
        rows.par_sort_unstable_by_key(|row| (names(row), row.trace));
    }
    let is_same = |a: &Row, b: &Row| a.trace != b.trace && names(a) == names(b);
    let group = |rows: &[Row]| rows.iter().map(|row| row.sum.total_ns).fold(0, DurNs::saturating_add);
    let mut groups: Vec<(DurNs, &[Row])> = rows.chunk_by(is_same).map(|rows| (group(rows), rows)).collect();
    let n_rows = groups.len();
    let order = |(total, rows): &(DurNs, &[Row])| (Reverse(*total), names(&rows[0]));
    if 0 < n && n < n_rows {
        groups.select_nth_unstable_by_key(n, order);
        groups.truncate(n);
    }
    groups.par_sort_unstable_by_key(order);
    let mut wanted: Vec<Wanted> = vec![Wanted::default(); scope.traces.len()];
    for (place, (_, rows)) in groups.iter().enumerate() {
        for Row { trace, ids: Ids { range, domain, kernel }, .. } in *rows {
            wanted[*trace as usize].entry((*range, *domain)).or_default().insert(*kernel, place);
        }
    }
    // Trace by trace.
    let calls = |rows: &[Row]| rows.iter().map(|row| row.sum.calls as usize).sum();
    let mut kernels: Vec<Vec<SliceId>> = groups.iter().map(|(_, rows)| Vec::with_capacity(calls(rows))).collect();
    for ((trace, threads), wanted) in scope.traces.iter().zip(&threads).zip(&wanted) {
        threads
            .iter()
            .for_each(|thread| thread.launched_in(trace, wanted, |place, kernel| kernels[place].push(kernel)));
    }
    let row = |((_, rows), kernels): (&(DurNs, &[Row]), Vec<SliceId>)| {
        let [range, domain, kernel] = names(&rows[0]).map(str::to_owned);
        let traces = rows.iter().flat_map(|row| (0..row.sum.calls).map(|_| row.trace));
        let instances = || traces.clone().zip(&kernels).map(|(trace, &slice)| Instance { trace, slice });
        let dur = |Instance { trace, slice }: Instance| scope.traces[trace as usize].slices.time(slice).dur();
        let durations = Durations::of(&mut instances().map(dur).collect::<Vec<_>>());
        let mut instances: Vec<Instance> = instances().filter(|_| keeps_instances).collect();
        instances.sort_unstable();
        RangeKernels { range, domain, kernel, durations, instances }
    };
    (groups.par_iter().zip(kernels).map(row).collect(), n_rows)
}

/// The names of a row, as ids of one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ids {
    range: StringId,
    domain: StringId,
    kernel: StringId,
}

impl Ids {
    fn texts(self, trace: &Trace) -> [&str; 3] {
        [self.range, self.domain, self.kernel].map(|id| trace.strings.get(id))
    }
}

/// The part of a row of [`range_kernels`] that is of one trace.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Index into [`Scope::traces`].
    trace: u32,
    ids: Ids,
    sum: Sum,
}

/// Some kernels.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    calls: u64,
    total_ns: DurNs,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }
}

/// Places of wanted rows by name and domain of the range, then by the kernel.
type Wanted = HashMap<(StringId, StringId), HashMap<StringId, usize>>;

/// The ranges of a thread and what it launched.
struct Thread<'a> {
    /// By start; of those that start together the outer one first.
    ranges: Vec<SliceId>,
    work: &'a [Launched],
}

/// The threads of a trace that have ranges in the scope.
fn threads<'a>(
    scope: &Scope<'_>,
    index: usize,
    trace: &Trace,
    work: &'a [(TrackId, Vec<Launched>)],
) -> Vec<Thread<'a>> {
    let mut ranges: BTreeMap<TrackId, Vec<SliceId>> = BTreeMap::new();
    let is_looked_at = |part: &Part<'_>| (trace.slices.rows[part.row].depth as usize) < MOST_ROWS;
    for part in scope.parts_of(index).filter(is_looked_at) {
        let wanted = part.slices.clone().filter(|&i| trace.slices.kind[i] == SliceKind::Annotation);
        let wanted: Vec<SliceId> = wanted.map(|i| SliceId(i as u32)).collect();
        if !wanted.is_empty() {
            ranges.entry(part.track).or_default().extend(wanted);
        }
    }
    let with_ranges = |(track, work): &'a (TrackId, Vec<Launched>)| Some((ranges.remove(track)?, &work[..]));
    let threads: Vec<(Vec<SliceId>, &[Launched])> = work.iter().filter_map(with_ranges).collect();
    let thread = |(mut ranges, work): (Vec<SliceId>, &'a [Launched])| {
        // Slices are sorted by depth.
        ranges.sort_by_key(|range| (trace.slices.ts[range.idx()], *range));
        Thread { ranges, work }
    };
    threads.into_par_iter().map(thread).collect()
}

/// The rows of a trace, in no order.
fn sums_of_trace(trace: &Trace, threads: &[Thread<'_>]) -> impl Iterator<Item = (Ids, Sum)> {
    let mut all: HashMap<(StringId, StringId), Sums> = HashMap::new();
    let of_threads: Vec<_> = threads.par_iter().map(|thread| thread.sums(trace)).collect();
    for of_thread in of_threads {
        for (range, sums) in of_thread {
            add_sums(all.entry(range).or_default(), sums);
        }
    }
    all.into_iter().flat_map(|((range, domain), sums)| {
        sums.into_iter().map(move |(kernel, sum)| (Ids { range, domain, kernel }, sum))
    })
}

/// Kernels by name, sorted.
type Sums = Vec<(StringId, Sum)>;

/// Adds sorted sums to others.
fn add_sums(to: &mut Sums, from: Sums) {
    if to.is_empty() {
        *to = from;
        return;
    }
    let mut at = 0;
    let mut new = Vec::new();
    for (kernel, sum) in from {
        while to.get(at).is_some_and(|(other, _)| *other < kernel) {
            at += 1;
        }
        match to.get_mut(at).filter(|(other, _)| *other == kernel) {
            Some((_, known)) => known.add(sum),
            None => new.push((kernel, sum)),
        }
    }
    if !new.is_empty() {
        to.append(&mut new);
        to.sort_unstable_by_key(|(kernel, _)| *kernel);
    }
}

/// A range that has begun.
struct Open {
    end: TimeNs,
    /// When the first of it and the ranges around it ends.
    first_end: TimeNs,
    /// Index into the names of ranges.
    name: usize,
    /// The kernels since the last one of the ranges around ended, without those of ranges inside that are still open.
    kernels: HashMap<StringId, Sum>,
}

/// The ranges that are open at a time, the innermost last.
#[derive(Default)]
struct OpenRanges {
    open: Vec<Open>,
    /// How many of them have each name.
    of_name: Vec<u32>,
}

impl OpenRanges {
    fn first_end(&self) -> TimeNs {
        self.open.last().map_or(TimeNs::MAX, |innermost| innermost.first_end)
    }

    fn push(&mut self, end: TimeNs, name: usize) {
        self.open.push(Open { end, first_end: end.min(self.first_end()), name, kernels: HashMap::new() });
        self.of_name.resize(self.of_name.len().max(name + 1), 0);
        self.of_name[name] += 1;
    }

    /// Adds what the open ranges hold to those around them and to their names, and closes those that end by `ts`.
    ///
    /// Cost: of nested ranges, what is in those that close.
    fn settle(&mut self, ts: TimeNs, sums: &mut [Sums]) {
        if self.first_end() > ts {
            return;
        }
        let lowest = self.open.partition_point(|range| range.first_end > ts);
        for i in (lowest..self.open.len()).rev() {
            let mut own = std::mem::take(&mut self.open[i].kernels);
            let name = self.open[i].name;
            self.of_name[name] -= 1;
            // Within another range of its name they count for that one.
            if self.of_name[name] == 0 {
                let mut sorted: Sums = own.iter().map(|(kernel, sum)| (*kernel, *sum)).collect();
                sorted.sort_unstable_by_key(|(kernel, _)| *kernel);
                add_sums(&mut sums[name], sorted);
            }
            if let Some(around) = i.checked_sub(1).map(|around| &mut self.open[around].kernels) {
                // The smaller into the larger: ranges that end together cost what is in one of them.
                if around.len() < own.len() {
                    std::mem::swap(around, &mut own);
                }
                own.into_iter().for_each(|(kernel, sum)| around.entry(kernel).or_default().add(sum));
            }
        }
        let rest = self.open.split_off(lowest);
        rest.into_iter().filter(|range| range.end > ts).for_each(|range| self.push(range.end, range.name));
    }
}

impl Thread<'_> {
    /// The kernels that it launched, each with the start of the call.
    fn kernels(&self, trace: &Trace) -> impl Iterator<Item = (TimeNs, SliceId)> {
        let slices = &trace.slices;
        let is_kernel = |kind| matches!(kind, SliceKind::Kernel | SliceKind::CudaGraph);
        let kernels = self.work.iter().filter(move |launched| is_kernel(slices.kind[launched.work.idx()]));
        kernels.map(|launched| (slices.ts[launched.call.idx()], launched.work))
    }

    /// Kernels by name and domain of the ranges around their launch.
    fn sums(&self, trace: &Trace) -> impl Iterator<Item = ((StringId, StringId), Sums)> + use<> {
        let slices = &trace.slices;
        let mut known: HashMap<(StringId, StringId), usize> = HashMap::new();
        let mut names: Vec<(StringId, StringId)> = Vec::new();
        let mut sums: Vec<Sums> = Vec::new();
        let mut ranges = self.ranges.iter().peekable();
        let mut open = OpenRanges::default();
        for (ts, kernel) in self.kernels(trace) {
            while let Some(range) = ranges.next_if(|range| slices.ts[range.idx()] <= ts) {
                let TimeRange { start, end } = slices.time(*range);
                open.settle(start, &mut sums);
                let key = named(trace, *range);
                let name = *known.entry(key).or_insert_with(|| {
                    names.push(key);
                    sums.push(Sums::new());
                    names.len() - 1
                });
                open.push(end, name);
            }
            open.settle(ts, &mut sums);
            if let Some(innermost) = open.open.last_mut() {
                let total_ns = slices.time(kernel).dur();
                innermost.kernels.entry(slices.name[kernel.idx()]).or_default().add(Sum { calls: 1, total_ns });
            }
        }
        open.settle(TimeNs::MAX, &mut sums);
        names.into_iter().zip(sums)
    }

    /// Calls `add` with the place of each wanted row and each of its kernels.
    fn launched_in(&self, trace: &Trace, wanted: &Wanted, mut add: impl FnMut(usize, SliceId)) {
        let slices = &trace.slices;
        let mut ranges =
            self.ranges.iter().filter_map(|&range| Some((range, wanted.get(&named(trace, range))?))).peekable();
        let mut open: Vec<(TimeNs, &HashMap<StringId, usize>)> = Vec::new();
        for (ts, kernel) in self.kernels(trace) {
            while let Some((range, rows)) = ranges.next_if(|(range, _)| slices.ts[range.idx()] <= ts) {
                let end = slices.end[range.idx()];
                match open.iter_mut().find(|(_, known)| std::ptr::eq(*known, rows)) {
                    Some((known, _)) => *known = end.max(*known),
                    None => open.push((end, rows)),
                }
            }
            open.retain(|(end, _)| *end > ts);
            let name = slices.name[kernel.idx()];
            open.iter().filter_map(|(_, rows)| rows.get(&name)).for_each(|&place| add(place, kernel));
        }
    }
}

/// Name and domain of a range.
fn named(trace: &Trace, range: SliceId) -> (StringId, StringId) {
    (trace.slices.name[range.idx()], trace.facts.domains.get(range).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn a_kernel_is_in_every_range_around_its_launch() {
        const NOTE: SliceKind = SliceKind::Annotation;
        let mut builder = TraceBuilder::from_slices(&[
            ("main", NOTE, "step", 0, 100),
            ("main", NOTE, "forward", 10, 50),
            ("main", NOTE, "forward", 20, 40),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 25, 30),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 60, 65),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 100, 105),
            ("main", NOTE, "step", 110, 200),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 120, 125),
            ("main", SliceKind::Runtime, "cudaMemcpy", 130, 135),
            ("stream 7", SliceKind::Kernel, "a", 200, 210),
            ("stream 7", SliceKind::Kernel, "a", 220, 250),
            ("stream 7", SliceKind::Kernel, "a", 300, 400),
            ("stream 7", SliceKind::Kernel, "b", 500, 507),
            ("stream 7", SliceKind::Memcpy, "c", 600, 601),
        ]);
        builder.slices[0].correlation = vec![0, 0, 0, 1, 2, 3, 0, 4, 5, 1, 2, 3, 4, 5];
        let trace = builder.finish();
        let (rows, _) = range_kernels(&Scope::whole(&[&trace]), &WorkOfThreads::of(&[&trace]), 0, true);
        let figures: Vec<_> = rows
            .iter()
            .map(|row| {
                let Durations { calls, total_ns, .. } = row.durations;
                (row.range.as_str(), row.kernel.as_str(), calls, total_ns, row.instances.len())
            })
            .collect();
        assert_eq!(figures, [("step", "a", 2, 40, 2), ("forward", "a", 1, 10, 1), ("step", "b", 1, 7, 1)]);
    }

    proptest! {
        #[test]
        fn rows_agree_with_looking_at_every_range_for_every_kernel(
            traces in prop::collection::vec(
                (
                    prop::collection::vec((0_usize..3, 0_i64..100, 1_i64..60), 0..8),
                    prop::collection::vec((0_usize..3, 0_i64..160, 1_i64..9), 0..20),
                ),
                1..4,
            ),
            n in 0_usize..6,
        ) {
            let names = ["x", "y", "z"];
            let mut expected: BTreeMap<(&str, &str), (u64, DurNs)> = BTreeMap::new();
            let mut built = Vec::new();
            for (ranges, kernels) in traces {
                let mut slices: Vec<_> = ranges
                    .iter()
                    .map(|&(name, ts, dur)| ("main", SliceKind::Annotation, names[name], ts, ts + dur))
                    .collect();
                let mut correlation = vec![0; slices.len()];
                for (i, &(name, ts, dur)) in (1..).zip(&kernels) {
                    slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", ts, ts + 1));
                    slices.push(("stream 7", SliceKind::Kernel, names[name], 1_000 + 10 * ts, 1_000 + 10 * ts + dur));
                    correlation.extend([i, i]);
                    for (range, range_name) in names.into_iter().enumerate() {
                        let is_around = |&(name, start, dur): &(usize, i64, i64)| {
                            name == range && start <= ts && ts < start + dur
                        };
                        if ranges.iter().any(is_around) {
                            let sum = expected.entry((range_name, names[name])).or_default();
                            *sum = (sum.0 + 1, sum.1 + dur);
                        }
                    }
                }
                let mut builder = TraceBuilder::from_slices(&slices);
                builder.slices[0].correlation = correlation;
                built.push(builder.finish());
            }
            let traces: Vec<&Trace> = built.iter().collect();
            let (rows, n_rows) = range_kernels(&Scope::whole(&traces), &WorkOfThreads::of(&traces), n, true);
            prop_assert_eq!(n_rows, expected.len());
            let mut expected: Vec<_> = expected.into_iter().collect();
            expected.sort_by_key(|&(names, (_, total))| (Reverse(total), names));
            expected.truncate(if n == 0 { n_rows } else { n });
            let found: Vec<_> = rows
                .iter()
                .map(|row| {
                    let Durations { calls, total_ns, .. } = row.durations;
                    ((row.range.as_str(), row.kernel.as_str()), (calls, total_ns))
                })
                .collect();
            prop_assert_eq!(found, expected);
            for row in &rows {
                prop_assert_eq!(row.instances.len() as u64, row.durations.calls);
                for Instance { trace, slice } in &row.instances {
                    prop_assert_eq!(traces[*trace as usize].slice_name(*slice), &row.kernel);
                }
            }
        }
    }
}
