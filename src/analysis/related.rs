//! Device work launched by host slices, and operators that launched device work.

use hashbrown::HashMap;

use super::launches::operator_of_launch;
use super::totals::{Group, Instance, durations};
use crate::model::time::unite;
use crate::model::{SliceId, SliceKind, StringId, TimeRange, Trace, TrackId};

/// The device work launched during some host slices on their threads, by name, in nanoseconds.
///
/// Device work counts once, also if the slices are nested. The join is that of
/// [`super::annotations`]: by correlation id, the call starting inside.
///
/// * Sorted by total, descending, then name. Self times are not computed.
/// * Cost: O((n + m) log m) for n pieces of device work of the traces and m slices.
pub fn launched_in(
    traces: &[&Trace],
    slices: &[Instance],
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Vec<Group<String>> {
    let mut found = ByName::default();
    for (index, trace) in traces.iter().enumerate() {
        let spans = spans_by_track(trace, slices.iter().filter(|instance| instance.trace as usize == index));
        if spans.is_empty() || is_cancelled() {
            continue;
        }
        for i in (0..trace.slices.len()).filter(|&i| trace.slices.kind[i].is_device_work()) {
            let work = SliceId(i as u32);
            let Some(call) = trace.launch_of(work) else { continue };
            let Some(spans) = spans.get(&trace.slices.track_of(call)) else { continue };
            let ts = trace.slices.ts[call.idx()];
            let before = spans.partition_point(|span| span.start <= ts);
            if before > 0 && ts < spans[before - 1].end {
                found.add(index, trace, trace.slices.name[i], work);
            }
        }
    }
    found.finish(traces)
}

/// The time of some slices of a trace: for each track sorted and disjoint.
fn spans_by_track<'a>(trace: &Trace, slices: impl Iterator<Item = &'a Instance>) -> HashMap<TrackId, Vec<TimeRange>> {
    let mut spans: HashMap<TrackId, Vec<TimeRange>> = HashMap::new();
    for instance in slices {
        spans.entry(trace.slices.track_of(instance.slice)).or_default().push(trace.slices.time(instance.slice));
    }
    spans.values_mut().for_each(unite);
    spans
}

/// The operators that launched some device work, by name: each the innermost around the API call,
/// and once, however many pieces it launched.
///
/// * Sorted by the operators' own total on the host, descending, then name. Self times are not
///   computed.
/// * Cost: O(n log n) for n pieces of work.
pub fn operators_of(
    traces: &[&Trace],
    work: &[Instance],
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Vec<Group<String>> {
    const BATCH: usize = 4096;
    let mut found = ByName::default();
    let mut operators: Vec<Instance> = Vec::new();
    for batch in work.chunks(BATCH).take_while(|_| !is_cancelled()) {
        operators.extend(batch.iter().filter_map(|&Instance { trace, slice }| {
            let slice = operator_of_launch(traces[trace as usize], slice)?;
            Some(Instance { trace, slice })
        }));
    }
    operators.sort_unstable();
    operators.dedup();
    for Instance { trace: index, slice } in operators {
        let trace = traces[index as usize];
        debug_assert_eq!(trace.slices.kind[slice.idx()], SliceKind::Operator);
        found.add(index as usize, trace, trace.slices.name[slice.idx()], slice);
    }
    found.finish(traces)
}

/// Slices of several traces by name.
#[derive(Default)]
struct ByName {
    groups: Vec<Group<String>>,
    by_name: HashMap<String, usize>,
    by_id: HashMap<(usize, StringId), usize>,
}

impl ByName {
    fn add(&mut self, index: usize, trace: &Trace, name: StringId, slice: SliceId) {
        let at = *self.by_id.entry((index, name)).or_insert_with(|| {
            let name = trace.strings.get(name).to_owned();
            *self.by_name.entry(name.clone()).or_insert_with(|| {
                self.groups.push(Group { key: name, ..Default::default() });
                self.groups.len() - 1
            })
        });
        self.groups[at].instances.push(Instance { trace: index as u32, slice });
    }

    fn finish(mut self, traces: &[&Trace]) -> Vec<Group<String>> {
        for group in &mut self.groups {
            group.durations = durations(traces, &group.instances);
        }
        self.groups.sort_by(|a, b| (b.durations.total_ns, &a.key).cmp(&(a.durations.total_ns, &b.key)));
        self.groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn operators_and_kernels_lead_to_each_other() {
        let (op, call, kernel) = (SliceKind::Operator, SliceKind::Runtime, SliceKind::Kernel);
        let mut builder = TraceBuilder::from_slices(&[
            ("main", op, "aten::linear", 0, 100),
            ("main", op, "aten::addmm", 10, 90),
            ("main", call, "cudaLaunchKernel", 20, 30),
            ("main", call, "cudaLaunchKernel", 40, 50),
            ("main", op, "aten::add", 200, 300),
            ("main", call, "cudaLaunchKernel", 210, 220),
            ("stream 7", kernel, "gemm", 100, 160),
            ("stream 7", kernel, "bias", 160, 170),
            ("stream 7", kernel, "add", 230, 240),
        ]);
        builder.slices[0].correlation = vec![0, 0, 1, 2, 0, 3, 1, 2, 3];
        let trace = builder.finish();
        let traces = [&trace];
        let of_name = |names: &[&str]| -> Vec<Instance> {
            let all = (0..trace.slices.len() as u32).map(SliceId);
            let wanted = all.filter(|&slice| names.contains(&trace.slice_name(slice)));
            wanted.map(|slice| Instance { trace: 0, slice }).collect()
        };
        let figures = |groups: Vec<Group<String>>| -> Vec<(String, u64, i64)> {
            groups.into_iter().map(|g| (g.key, g.durations.calls, g.durations.total_ns)).collect()
        };
        let expected = [("gemm".to_owned(), 1, 60), ("bias".to_owned(), 1, 10)];
        assert_eq!(figures(launched_in(&traces, &of_name(&["aten::addmm"]), &|| false)), expected);
        let nested = of_name(&["aten::linear", "aten::addmm"]);
        assert_eq!(figures(launched_in(&traces, &nested, &|| false)), expected);
        let work = of_name(&["gemm", "bias", "add"]);
        let expected = [("aten::add".to_owned(), 1, 100), ("aten::addmm".to_owned(), 1, 80)];
        assert_eq!(figures(operators_of(&traces, &work, &|| false)), expected);
    }
}
