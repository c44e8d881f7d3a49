//! Time and memory of operators, on the host and on the device.
//!
//! The figures are those of PyTorch's own table, `key_averages()` in `torch/autograd/profiler_util.py`
//! (read as of 2.15), so that the two can be laid side by side:
//!
//! * Host self time is what no slice directly inside took: operators, but also annotations and
//!   the runtime calls that launch, as `FunctionEvent.self_cpu_time_total` has it.
//! * Each call counts with its whole time, a recursive one inside another of the same name too.
//! * But a call that is the only thing directly inside a call of the same name is the same call,
//!   passed on (`EventList._remove_dup_nodes`): it counts once.
//! * Device work belongs to the innermost operator on the thread that launched it.
//!
//! It differs in two things. Bytes belong to the innermost operator of the thread that asked for
//! them; PyTorch gives them to whatever runs on any thread at that moment. And operators that
//! PyTorch's table hides, such as `aten::is_leaf`, are rows like others.

use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;

use super::launches;
use super::totals::{Durations, Scope};
use crate::model::{DurNs, Parents, SliceId, SliceKind, SliceTable, StringId, TimeNs, TimeRange, Trace, TrackId};

/// All calls of one operator, or of one operator with the same input shapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorTotals {
    pub name: String,
    /// Input shapes as recorded, empty if they were not; `None` when grouped by name only.
    pub shapes: Option<String>,
    /// The times of its calls on the host, what runs inside included.
    pub host: Durations,
    /// Of their total, what nothing directly inside took.
    pub host_self_ns: DurNs,
    /// Sum over the device work launched during the calls.
    pub device_total_ns: DurNs,
    /// Of the total, what no operator inside launched.
    pub device_self_ns: DurNs,
    /// Bytes allocated minus freed during the calls, children included; `None` if no allocation of
    /// the host was recorded at all.
    pub host_bytes: Option<i64>,
    pub host_self_bytes: Option<i64>,
    /// The same of all devices together.
    pub device_bytes: Option<i64>,
    pub device_self_bytes: Option<i64>,
    /// The longest call: index of the trace, and its slice.
    pub longest: (usize, SliceId),
}

/// The operators in scope, those of all traces together.
///
/// * A call counts if it runs in the scope's range, with all its time, device work and bytes; what a
///   call passes on counts with it.
/// * `by_shape`: whether calls with different input shapes are rows of their own.
/// * Sorted by device total, then host total, descending, then name and shapes.
/// * Units: nanoseconds and bytes. Sums saturate.
/// * Device self over all operators is exactly the device work that any operator launched, and self
///   bytes are the bytes that any operator asked for.
/// * Errors: none; without operators it is empty. Once cancelled it is incomplete.
/// * Cost: O(n log n) for n slices of the traces, whatever the range; tracks in parallel, about 40 bytes
///   a host slice and 16 bytes a call while it runs.
pub fn operators(scope: &Scope<'_>, by_shape: bool) -> Vec<OperatorTotals> {
    let traces = scope.traces;
    let has_bytes =
        |is_wanted: fn(&i32) -> bool| traces.iter().any(|trace| trace.allocations.device.iter().any(is_wanted));
    let (has_host_bytes, has_device_bytes) = (has_bytes(|&device| device < 0), has_bytes(|&device| device >= 0));
    let mut groups: HashMap<(&str, &str), OperatorGroup> = HashMap::new();
    for (index, trace) in traces.iter().enumerate() {
        for ((name, shapes), found) in trace_groups(trace, scope, index, by_shape) {
            let key = (trace.strings.get(name), trace.strings.get(shapes));
            groups.entry(key).or_default().merge(index, found);
        }
    }
    let mut all: Vec<OperatorTotals> = groups
        .into_iter()
        .map(|((name, shapes), mut group)| OperatorTotals {
            name: name.to_owned(),
            shapes: by_shape.then(|| shapes.to_owned()),
            host: Durations::of(&mut group.durs),
            host_self_ns: group.host_self_ns,
            device_total_ns: group.total.device_ns,
            device_self_ns: group.own.device_ns,
            host_bytes: has_host_bytes.then_some(group.total.host_bytes),
            host_self_bytes: has_host_bytes.then_some(group.own.host_bytes),
            device_bytes: has_device_bytes.then_some(group.total.device_bytes),
            device_self_bytes: has_device_bytes.then_some(group.own.device_bytes),
            longest: group.longest,
        })
        .collect();
    all.sort_unstable_by(|a, b| {
        let figures = (b.device_total_ns, b.host.total_ns).cmp(&(a.device_total_ns, a.host.total_ns));
        figures.then_with(|| (&a.name, &a.shapes).cmp(&(&b.name, &b.shapes)))
    });
    all
}

/// What is counted up from the innermost operator to those around it.
#[derive(Clone, Copy, Debug, Default)]
struct OperatorSums {
    device_ns: DurNs,
    host_bytes: i64,
    device_bytes: i64,
}

impl OperatorSums {
    fn add(&mut self, other: Self) {
        self.device_ns = self.device_ns.saturating_add(other.device_ns);
        self.host_bytes = self.host_bytes.saturating_add(other.host_bytes);
        self.device_bytes = self.device_bytes.saturating_add(other.device_bytes);
    }
}

/// The sums of the slices of a track: the fields of [`OperatorSums`], of each slice, empty where there are none.
#[derive(Clone, Debug, Default)]
struct Columns([Vec<i64>; 3]);

impl Columns {
    /// * `n`: how many slices there are.
    fn add(&mut self, slice: usize, n: usize, OperatorSums { device_ns, host_bytes, device_bytes }: OperatorSums) {
        for (column, value) in self.0.iter_mut().zip([device_ns, host_bytes, device_bytes]) {
            if value != 0 {
                column.resize(n, 0);
                column[slice] = column[slice].saturating_add(value);
            }
        }
    }

    /// Adds the sums of a slice to those of the one around it.
    fn count_up(&mut self, slice: usize, parent: usize) {
        for column in self.0.iter_mut().filter(|column| !column.is_empty()) {
            column[parent] = column[parent].saturating_add(column[slice]);
        }
    }

    /// Adds the sums of a slice to those of its group.
    fn add_to(&self, group: &mut OperatorSums, slice: usize) {
        let OperatorSums { device_ns, host_bytes, device_bytes } = group;
        for (column, sum) in self.0.iter().zip([device_ns, host_bytes, device_bytes]) {
            *sum = sum.saturating_add(column.get(slice).copied().unwrap_or(0));
        }
    }
}

/// The calls of one row of the table.
#[derive(Debug, Default)]
struct OperatorGroup {
    /// How long each took on the host.
    durs: Vec<DurNs>,
    host_self_ns: DurNs,
    own: OperatorSums,
    total: OperatorSums,
    longest: (usize, SliceId),
    longest_ns: DurNs,
}

impl OperatorGroup {
    /// Takes over the calls of `other`, which are of the trace with this index.
    fn merge(&mut self, trace: usize, other: Self) {
        if self.durs.is_empty() || other.longest_ns > self.longest_ns {
            (self.longest, self.longest_ns) = ((trace, other.longest.1), other.longest_ns);
        }
        self.durs.extend(other.durs);
        self.host_self_ns = self.host_self_ns.saturating_add(other.host_self_ns);
        self.own.add(other.own);
        self.total.add(other.total);
    }
}

/// The groups of one trace, by name and shapes.
type Groups = HashMap<(StringId, StringId), OperatorGroup>;

fn trace_groups(trace: &Trace, scope: &Scope<'_>, index: usize, by_shape: bool) -> Groups {
    if (scope.is_cancelled)() {
        return Groups::new();
    }
    let work = launches::device_time(trace);
    let mut rest = &work[..];
    let mut tracks: Vec<Thread<'_>> = Vec::new();
    for track in (0..trace.tracks.len() as u32).map(TrackId) {
        let slices = trace.track_slices(track);
        if trace.slices.kind[slices.clone()].contains(&SliceKind::Operator) {
            let own;
            (own, rest) = rest.split_at(rest.partition_point(|entry| entry.0.idx() < slices.end));
            tracks.push(Thread { track, work: own, allocations: Vec::new() });
        }
    }
    for i in 0..trace.allocations.len() {
        if let Ok(found) = tracks.binary_search_by_key(&trace.allocations.track[i], |thread| thread.track) {
            tracks[found].allocations.push(i);
        }
    }
    let range = scope.range(index);
    let tracks = tracks.into_par_iter().filter(|_| !(scope.is_cancelled)());
    let found: Vec<Groups> = tracks.map(|thread| thread_groups(trace, thread, range, by_shape)).collect();
    let mut all = Groups::new();
    for (key, group) in found.into_iter().flatten() {
        all.entry(key).or_default().merge(0, group);
    }
    all
}

/// A track with operators.
struct Thread<'a> {
    track: TrackId,
    /// Its operators with the duration of each piece of work they launched, by operator.
    work: &'a [(SliceId, DurNs)],
    /// Indices of its allocations, by time.
    allocations: Vec<usize>,
}

fn thread_groups(
    trace: &Trace,
    Thread { track, work, allocations }: Thread<'_>,
    range: Option<TimeRange>,
    by_shape: bool,
) -> Groups {
    let slices = &trace.slices;
    let all = trace.track_slices(track);
    let base = all.start;
    // Of bytes: device work stands in order.
    let mut own = Columns::default();
    add_bytes(trace, track, allocations, |operator, sums| own.add(operator - base, all.len(), sums));
    let mut total = own.clone();
    for &(operator, dur) in work {
        total.add(operator.idx() - base, all.len(), OperatorSums { device_ns: dur, ..Default::default() });
    }

    let rows = &trace.track_rows[track.0 as usize];
    let parents = slices.parents(rows.start as usize..rows.end as usize);
    // Rows come from top to bottom, so what is inside comes later.
    for i in (0..all.len()).rev() {
        if let Some(parent) = parents.of(i) {
            total.count_up(i, parent as usize);
        }
    }
    let mut groups = Groups::new();
    // To which call those count that are only passed on.
    let mut counts_to: HashMap<u32, u32> = HashMap::new();
    let mut work = work.iter().peekable();
    for row in rows.start as usize..rows.end as usize {
        let mut self_times = slices.self_times_of(row);
        for slice in slices.rows[row].range().filter(|&slice| slices.kind[slice] == SliceKind::Operator) {
            let i = slice - base;
            let passed_on_by = parents.of(i).filter(|&parent| is_passed_on(slices, base, &parents, i, parent));
            let called = passed_on_by.map_or(i as u32, |by| counts_to.get(&by).copied().unwrap_or(by));
            if passed_on_by.is_some() {
                counts_to.insert(i as u32, called);
            }
            let launched = std::iter::from_fn(|| work.next_if(|(operator, _)| operator.idx() <= slice));
            let device_ns = launched.map(|&(_, dur)| dur).fold(0, DurNs::saturating_add);
            let call = SliceId((base + called as usize) as u32);
            if range.is_some_and(|range| !runs_in(slices.time(call), range)) {
                continue;
            }
            let shapes = if by_shape { trace.facts.shapes.get(call).copied() } else { None };
            let group = groups.entry((slices.name[call.idx()], shapes.unwrap_or_default())).or_default();
            group.host_self_ns = group.host_self_ns.saturating_add(self_times.of(slice));
            own.add_to(&mut group.own, i);
            group.own.device_ns = group.own.device_ns.saturating_add(device_ns);
            if passed_on_by.is_none() {
                let dur = slices.time(call).dur();
                if group.durs.is_empty() || dur > group.longest_ns {
                    (group.longest, group.longest_ns) = ((0, call), dur);
                }
                group.durs.push(dur);
                total.add_to(&mut group.total, i);
            }
        }
    }
    groups
}

/// The calls that the rows of [`operators`] do not count, since the call around them did nothing but pass on to them:
/// they are of that call.
///
/// Cost: O(slices of tracks with operators).
pub fn passed_on(trace: &Trace) -> HashSet<SliceId> {
    let slices = &trace.slices;
    let mut out = HashSet::new();
    for track in (0..trace.tracks.len() as u32).map(TrackId) {
        let all = trace.track_slices(track);
        if slices.kind[all.clone()].contains(&SliceKind::Operator) {
            let rows = &trace.track_rows[track.0 as usize];
            let parents = slices.parents(rows.start as usize..rows.end as usize);
            let is_passed_on = |i: &usize| {
                let parent = parents.of(i - all.start);
                parent.is_some_and(|parent| is_passed_on(slices, all.start, &parents, i - all.start, parent))
            };
            out.extend(all.clone().filter(is_passed_on).map(|i| SliceId(i as u32)));
        }
    }
    out
}

/// Whether an operator has the same name as the one directly around it, which has nothing else directly inside.
///
/// * `base`: the first slice of the track, from which the others are counted.
fn is_passed_on(slices: &SliceTable, base: usize, parents: &Parents, i: usize, parent: u32) -> bool {
    let (this, above) = (base + i, base + parent as usize);
    let is_operator = |i: usize| slices.kind[i] == SliceKind::Operator;
    parents.is_only_child(i) && slices.name[above] == slices.name[this] && is_operator(above) && is_operator(this)
}

/// Whether a call shares time with a range, or has no length and lies in it.
fn runs_in(time: TimeRange, range: TimeRange) -> bool {
    time.start < range.end && time.end > range.start || range.contains(time.start)
}

/// Gives each allocation of a track to the innermost operator that runs at that moment, its first
/// and last nanosecond included; where two meet, to the later one.
fn add_bytes(trace: &Trace, track: TrackId, mut open: Vec<usize>, mut add: impl FnMut(usize, OperatorSums)) {
    let (slices, allocations) = (&trace.slices, &trace.allocations);
    let (nested, crossing): (Vec<_>, Vec<_>) = trace.rows(track).iter().partition(|row| !row.is_overflow);
    for row in nested.iter().rev().chain(&crossing) {
        let mut next = row.range().start;
        open.retain(|&allocation| {
            let at: TimeNs = allocations.ts[allocation];
            while next < row.range().end && slices.ts[next] <= at {
                next += 1;
            }
            let Some(last) = next.checked_sub(1).filter(|&last| last >= row.range().start) else { return true };
            if slices.end[last] < at || slices.kind[last] != SliceKind::Operator {
                return true;
            }
            let bytes = allocations.bytes[allocation];
            let is_host = allocations.device[allocation] < 0;
            let (host_bytes, device_bytes) = if is_host { (bytes, 0) } else { (0, bytes) };
            add(last, OperatorSums { device_ns: 0, host_bytes, device_bytes });
            false
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{SliceFacts, TraceBuilder};

    const OP: SliceKind = SliceKind::Operator;
    const CALL: SliceKind = SliceKind::Runtime;
    const KERNEL: SliceKind = SliceKind::Kernel;

    /// Two `linear` of which the second is passed on, with launches, a kernel known by its
    /// `External id` alone, and allocations.
    pub(in super::super) fn trace() -> Trace {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", OP, "aten::linear", 0, 100),
            ("main", OP, "aten::addmm", 10, 60),
            ("main", CALL, "cudaLaunchKernel", 20, 30),
            ("main", CALL, "cudaLaunchKernel", 70, 80),
            ("main", OP, "aten::linear", 200, 300),
            ("main", OP, "aten::linear", 210, 290),
            ("main", OP, "aten::t", 220, 240),
            ("stream 7", KERNEL, "gemm", 50, 550),
            ("stream 7", KERNEL, "bias", 600, 640),
            ("stream 7", KERNEL, "lost call", 700, 705),
            ("stream 7", KERNEL, "unlinked", 800, 900),
        ]);
        let raw = &mut builder.slices[0];
        raw.correlation = vec![0, 0, 1, 2, 0, 0, 0, 1, 2, 3, 220];
        raw.external = vec![10, 11, 1, 2, 20, 21, 220, 1, 2, 21, 220];
        let shapes = builder.strings.intern("[[2, 3]]");
        builder.set_facts(0, SliceFacts { shapes, ..Default::default() });
        let main = TrackId(0);
        // During addmm, between addmm and its parent's end, on the edge of two, outside of all.
        for (ts, device, bytes) in [(15, -1, 64), (61, 0, 512), (220, 0, 8), (240, 0, -4), (400, 0, 1)] {
            builder.allocations.push(ts, main, device, bytes);
        }
        builder.finish()
    }

    fn find<'a>(all: &'a [OperatorTotals], name: &str, shapes: Option<&str>) -> &'a OperatorTotals {
        all.iter().find(|row| row.name == name && row.shapes.as_deref() == shapes).unwrap()
    }

    #[test]
    fn figures_by_name_and_by_shape() {
        let trace = trace();
        let all = operators(&Scope::whole(&[&trace]), false);
        let names: Vec<_> = all.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["aten::linear", "aten::addmm", "aten::t"]);
        let linear = &all[0];
        // The inner call of the second `linear` is the only thing in it: the same call.
        assert_eq!((linear.host.calls, linear.host.total_ns, linear.host_self_ns), (2, 200, 100 - 50 - 10 + 100 - 20));
        assert_eq!((linear.host.min_ns, linear.host.median_ns, linear.host.max_ns), (100, 100, 100));
        assert_eq!((linear.device_total_ns, linear.device_self_ns), (545, 45));
        assert_eq!((linear.host_bytes, linear.host_self_bytes), (Some(64), Some(0)));
        assert_eq!((linear.device_bytes, linear.device_self_bytes), (Some(516), Some(512)));
        let addmm = &all[1];
        assert_eq!((addmm.host.calls, addmm.host_self_ns, addmm.device_self_ns), (1, 40, 500));
        assert_eq!((addmm.host_self_bytes, addmm.device_bytes), (Some(64), Some(0)));
        assert_eq!(all[2].device_self_bytes, Some(4));
        assert_eq!(trace.slice_name(linear.longest.1), "aten::linear");
        let passed_on: Vec<_> = passed_on(&trace).into_iter().map(|call| trace.slices.ts[call.idx()]).collect();
        assert_eq!(passed_on, [210]);

        let all = operators(&Scope::whole(&[&trace, &trace]), true);
        assert_eq!(find(&all, "aten::linear", Some("[[2, 3]]")).host.total_ns, 200);
        assert_eq!(find(&all, "aten::linear", Some("")).device_total_ns, 10);
        assert_eq!(find(&all, "aten::t", Some("")).host.calls, 2);
    }

    #[test]
    fn nothing_recorded_is_none() {
        let trace = TraceBuilder::from_slices(&[("main", OP, "aten::mm", 0, 9)]).finish();
        let all = operators(&Scope::whole(&[&trace]), false);
        assert_eq!((all[0].host_bytes, all[0].device_bytes, all[0].shapes.as_deref()), (None, None, None));
        assert!(operators(&Scope::whole(&[]), true).is_empty());
    }

    #[test]
    fn in_a_range_count_the_calls_that_run_in_it() {
        let trace = trace();
        let traces = [&trace];
        let figures = |ranges: Option<TimeRange>| {
            let scope = Scope { ranges: ranges.map(|range| vec![range]), ..Scope::whole(&traces) };
            operators(&scope, false).iter().fold([0; 6], |sums, row| {
                let bytes =
                    [row.host_self_bytes, row.device_self_bytes, row.device_bytes].map(Option::unwrap_or_default);
                let row = [row.host.calls as i64, row.host_self_ns, row.device_self_ns, bytes[0], bytes[1], bytes[2]];
                std::array::from_fn(|i| sums[i] + row[i])
            })
        };
        let whole = figures(None);
        assert_eq!(figures(Some(TimeRange { start: i64::MIN, end: i64::MAX })), whole);
        assert_eq!(figures(Some(TimeRange { start: i64::MIN, end: -5 })), [0; 6]);
        // Only the second `linear` runs here, and what it passes on counts with it.
        assert_eq!(figures(Some(TimeRange { start: 205, end: 215 }))[0], 1);
    }

    #[test]
    fn a_cancelled_answer_is_incomplete() {
        let trace = trace();
        assert!(operators(&Scope { is_cancelled: &|| true, ..Scope::whole(&[&trace]) }, false).is_empty());
    }
}
