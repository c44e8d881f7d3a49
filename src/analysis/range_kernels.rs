//! Kernels by the named ranges that they were launched in.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use rayon::prelude::*;

use super::annotations::{Launched, launched};
use super::totals::{Durations, Instance, Scope};
use crate::model::{DurNs, SliceId, SliceKind, StringId, TimeNs, Trace, TrackId};

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
/// in the scope. Start/end ranges belong to a process and not to a thread, so nothing is launched in them.
///
/// * `n`: how many rows, those of most time, have more statistics than calls and total; 0 stands for all.
/// * `keeps_instances`: whether rows hold their kernels; it costs 8 bytes for each kernel and range around it.
/// * Sorted by total, descending, then range and kernel.
/// * Cost: nothing without ranges; else O(n log n) for n kernels and 4 bytes for each, and the kernels of those rows.
/// * Source: `nvtx_kern_sum` of NVIDIA Nsight Systems, which adds start/end ranges.
pub fn range_kernels(scope: &Scope<'_>, n: usize, keeps_instances: bool) -> Vec<RangeKernels> {
    let found: Vec<Found> =
        scope.traces.iter().enumerate().map(|(index, trace)| of_trace(scope, index, trace)).collect();
    let mut rows: HashMap<Names<'_>, Row<'_>> = HashMap::new();
    for (index, (found, trace)) in (0..).zip(found.iter().zip(scope.traces)) {
        let text = |id: StringId| trace.strings.get(id);
        for ((name, domain, kernel), of_trace) in rows_of_trace(index, found) {
            let row = rows.entry((text(name), text(domain), text(kernel))).or_default();
            row.total_ns = row.total_ns.saturating_add(of_trace.total_ns);
            row.lists.extend(of_trace.lists);
        }
    }
    let mut rows: Vec<(Names<'_>, Row<'_>)> = rows.into_iter().collect();
    rows.par_sort_unstable_by_key(|(names, row)| (Reverse(row.total_ns), *names));
    let row = |(place, ((range, domain, kernel), row)): (usize, (Names<'_>, Row<'_>))| {
        let slices = || row.lists.iter().flat_map(|&(trace, slices)| slices.iter().map(move |&slice| (trace, slice)));
        let durations = if n == 0 || place < n {
            let dur = |(trace, slice): (u32, SliceId)| scope.traces[trace as usize].slices.time(slice).dur();
            Durations::of(&mut slices().map(dur).collect::<Vec<_>>())
        } else {
            let calls = row.lists.iter().map(|(_, slices)| slices.len() as u64).sum();
            Durations { calls, total_ns: row.total_ns, ..Durations::default() }
        };
        let instances = slices().filter(|_| keeps_instances).map(|(trace, slice)| Instance { trace, slice });
        let mut instances: Vec<Instance> = instances.collect();
        instances.sort_unstable();
        let [range, domain, kernel] = [range, domain, kernel].map(str::to_owned);
        RangeKernels { range, domain, kernel, durations, instances }
    };
    rows.into_par_iter().enumerate().map(row).collect()
}

/// Range, domain and kernel.
type Names<'a> = (&'a str, &'a str, &'a str);

/// The rows of one trace by the ids of their names.
fn rows_of_trace(index: u32, found: &Found) -> HashMap<(StringId, StringId, StringId), Row<'_>> {
    let mut rows: HashMap<_, Row<'_>> = HashMap::new();
    for (tree, kernels) in found {
        for (&(node, kernel), (slices, total_ns)) in kernels {
            for (name, domain) in tree.names(node) {
                let row = rows.entry((name, domain, kernel)).or_default();
                row.total_ns = row.total_ns.saturating_add(*total_ns);
                row.lists.push((index, slices));
            }
        }
    }
    rows
}

/// A row of [`range_kernels`].
#[derive(Default)]
struct Row<'a> {
    total_ns: DurNs,
    lists: Vec<(u32, &'a [SliceId])>,
}

/// Some kernels and the sum of their durations.
type Kernels = (Vec<SliceId>, DurNs);

/// For each thread the nesting of its ranges, and the kernels by innermost nesting and name.
type Found = Vec<(Nesting, HashMap<(u32, StringId), Kernels>)>;

/// The ways in which ranges lie in one another, as a tree of names. Node 0 is outside of all ranges.
#[derive(Default)]
struct Nesting {
    /// Parent, name and domain of node 1 and later.
    nodes: Vec<(u32, StringId, StringId)>,
    known: HashMap<(u32, StringId, StringId), u32>,
}

impl Nesting {
    fn inside(&mut self, parent: u32, name: StringId, domain: StringId) -> u32 {
        *self.known.entry((parent, name, domain)).or_insert_with(|| {
            self.nodes.push((parent, name, domain));
            self.nodes.len() as u32
        })
    }

    /// The ranges around, each name once.
    fn names(&self, mut node: u32) -> Vec<(StringId, StringId)> {
        let mut names = Vec::new();
        while node > 0 {
            let (parent, name, domain) = self.nodes[node as usize - 1];
            names.push((name, domain));
            node = parent;
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn of_trace(scope: &Scope<'_>, index: usize, trace: &Trace) -> Found {
    let mut ranges: BTreeMap<TrackId, Vec<SliceId>> = BTreeMap::new();
    for part in scope.parts().filter(|part| part.index as usize == index) {
        let wanted = part.slices.clone().filter(|&i| trace.slices.kind[i] == SliceKind::Annotation);
        let wanted: Vec<SliceId> = wanted.map(|i| SliceId(i as u32)).collect();
        if !wanted.is_empty() {
            ranges.entry(part.track).or_default().extend(wanted);
        }
    }
    if ranges.is_empty() {
        return Vec::new();
    }
    let of_thread = |(track, ranges): (TrackId, Vec<SliceId>)| of_thread(trace, ranges, &launched(trace, track));
    ranges.into_par_iter().map(of_thread).collect()
}

/// * `work`: what the thread launched, by the start of the call.
fn of_thread(
    trace: &Trace,
    mut ranges: Vec<SliceId>,
    work: &[Launched],
) -> (Nesting, HashMap<(u32, StringId), Kernels>) {
    let slices = &trace.slices;
    // The outer one first of those that start together: slices are sorted by depth.
    ranges.sort_by_key(|range| (slices.ts[range.idx()], *range));
    let mut ranges = ranges.into_iter().peekable();
    let mut tree = Nesting::default();
    let mut kernels: HashMap<(u32, StringId), Kernels> = HashMap::new();
    let mut open: Vec<(TimeNs, u32)> = Vec::new();
    for &(ts, kernel) in work {
        if !matches!(slices.kind[kernel.idx()], SliceKind::Kernel | SliceKind::CudaGraph) {
            continue;
        }
        while let Some(range) = ranges.next_if(|range| slices.ts[range.idx()] <= ts) {
            let start = slices.ts[range.idx()];
            while open.pop_if(|(end, _)| *end <= start).is_some() {}
            let parent = open.last().map_or(0, |open| open.1);
            let domain = trace.facts.domains.get(range).copied().unwrap_or_default();
            open.push((slices.end[range.idx()], tree.inside(parent, slices.name[range.idx()], domain)));
        }
        while open.pop_if(|(end, _)| *end <= ts).is_some() {}
        if let Some(&(_, node)) = open.last() {
            let (all, total_ns) = kernels.entry((node, slices.name[kernel.idx()])).or_default();
            all.push(kernel);
            *total_ns = total_ns.saturating_add(slices.time(kernel).dur());
        }
    }
    (tree, kernels)
}

#[cfg(test)]
mod tests {
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
        let rows = range_kernels(&Scope::whole(&[&trace]), 0, true);
        let figures: Vec<_> = rows
            .iter()
            .map(|row| {
                let Durations { calls, total_ns, .. } = row.durations;
                (row.range.as_str(), row.kernel.as_str(), calls, total_ns, row.instances.len())
            })
            .collect();
        assert_eq!(figures, [("step", "a", 2, 40, 2), ("forward", "a", 1, 10, 1), ("step", "b", 1, 7, 1)]);
    }
}
