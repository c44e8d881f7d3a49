//! Counts and durations of slices by group, shared by all tables of slices.

use std::hash::Hash;
use std::ops::Range;

use hashbrown::HashMap;
use rayon::prelude::*;

use crate::model::{DurNs, Row, SliceId, SliceKind, SliceTable, TimeRange, Trace, TrackId};

/// The traces and time ranges that a table covers.
pub struct Scope<'a> {
    pub traces: &'a [&'a Trace],
    /// For each trace, in its own time: only slices that run in it count, also those that only run through it, with
    /// all their time; [`Scope::time_within`] is the part in the range. `None` is everything.
    pub ranges: Option<Vec<TimeRange>>,
    /// Checked before each row; once it is true the result is incomplete.
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

/// Part of one row of one trace.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Index into [`Scope::traces`].
    pub index: u32,
    pub trace: &'a Trace,
    /// Index into [`SliceTable::rows`].
    pub row: usize,
    pub track: TrackId,
    /// The slices of the row within the scope.
    pub slices: Range<usize>,
}

impl<'a> Scope<'a> {
    /// The range of a trace that is left out.
    pub const NOTHING: TimeRange = TimeRange { start: i64::MAX, end: i64::MAX };

    /// The whole of these traces.
    pub fn whole(traces: &'a [&'a Trace]) -> Self {
        Self { traces, ranges: None, is_cancelled: &|| false }
    }

    /// The range of the trace with this index, in trace time; `None` for all of it.
    pub fn range(&self, index: usize) -> Option<TimeRange> {
        let range = self.ranges.as_ref().map(|ranges| ranges.get(index).copied().unwrap_or_default());
        range.filter(|&range| range != TimeRange::ALL)
    }

    /// Whether a part of any trace is left out, other than whole traces.
    pub fn has_range(&self) -> bool {
        (0..self.traces.len()).any(|index| self.range(index).is_some_and(|range| range != Self::NOTHING))
    }

    /// Whether any of the traces holds device work, in range or not.
    pub fn has_device_work(&self) -> bool {
        let has = |trace: &Trace, kind| trace.slices.has_kind(kind);
        let kinds = || SliceKind::ALL.into_iter().filter(|kind| kind.is_device_work());
        self.traces.iter().any(|trace| kinds().any(|kind| has(trace, kind)))
    }

    /// The time of a slice within the range of its trace, in nanoseconds.
    pub fn time_of(&self, Instance { trace, slice }: Instance) -> DurNs {
        let range = self.range(trace as usize).unwrap_or(TimeRange::ALL);
        self.traces[trace as usize].slices.clipped(slice.idx(), range).dur()
    }

    /// The time of these slices within the ranges, in nanoseconds. Cost: O(n).
    pub fn time_within(&self, instances: &[Instance]) -> DurNs {
        instances.iter().map(|&instance| self.time_of(instance)).fold(0, DurNs::saturating_add)
    }

    /// The parts in scope, row by row.
    pub fn parts(&self) -> impl Iterator<Item = Part<'a>> {
        (0..self.traces.len()).flat_map(|index| self.parts_of(index))
    }

    /// Those of one trace.
    pub fn parts_of(&self, index: usize) -> impl Iterator<Item = Part<'a>> {
        let (trace, range) = (self.traces[index], self.range(index));
        let part = move |(row, this): (usize, &'a Row)| {
            let slices = range.map_or(this.range(), |range| running_in(&trace.slices, this, range));
            Part { index: index as u32, trace, row, track: this.track, slices }
        };
        trace.slices.rows.iter().enumerate().map(part).take_while(|_| !(self.is_cancelled)())
    }
}

/// The slices of one row that share time with `range`, or have no length and lie in it.
pub fn running_in(slices: &SliceTable, row: &Row, range: TimeRange) -> Range<usize> {
    let mut window = slices.window(row, range);
    // `window` also gives slices that end where the range starts.
    while window.start < window.end {
        let (ts, end) = (slices.ts[window.start], slices.end[window.start]);
        if end > range.start || ts == range.start {
            break;
        }
        window.start += 1;
    }
    window
}

/// One slice of one of several traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// Index into [`Scope::traces`].
    pub trace: u32,
    pub slice: SliceId,
}

/// Statistics of the durations of a group, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    pub calls: u64,
    /// Sum, saturating; nested slices of the same group count twice.
    pub total_ns: DurNs,
    /// Rounded to the nearest.
    pub mean_ns: DurNs,
    /// Median; for an even number the mean of the middle two, rounded down.
    pub median_ns: DurNs,
    pub min_ns: DurNs,
    pub max_ns: DurNs,
    /// Standard deviation of the sample (n - 1), rounded to the nearest; `None` for a single one.
    pub std_ns: Option<DurNs>,
}

impl Durations {
    /// The statistics of durations in any order. Reorders them. Cost: O(n).
    pub fn of(durs: &mut [DurNs]) -> Self {
        let calls = durs.len();
        if calls == 0 {
            return Self::default();
        }
        let exact: i128 = durs.iter().map(|&dur| i128::from(dur)).sum();
        let n = calls as i128;
        let mean = exact as f64 / calls as f64;
        let squares: f64 = durs.iter().map(|&dur| (dur as f64 - mean).powi(2)).sum();
        let (below, &mut upper, _) = durs.select_nth_unstable(calls / 2);
        let lower = if calls.is_multiple_of(2) { below.iter().copied().max().unwrap_or(upper) } else { upper };
        let median_ns = lower + (upper - lower) / 2;
        Self {
            calls: calls as u64,
            total_ns: DurNs::try_from(exact).unwrap_or(DurNs::MAX),
            mean_ns: DurNs::try_from((exact + n / 2) / n).unwrap_or(DurNs::MAX),
            median_ns,
            min_ns: durs.iter().copied().min().unwrap_or(0),
            max_ns: durs.iter().copied().max().unwrap_or(0),
            std_ns: (calls > 1).then(|| (squares / (calls - 1) as f64).sqrt().round() as DurNs),
        }
    }
}

/// A group of slices, with sums of what else is asked for of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group<K, S = ()> {
    pub key: K,
    pub sums: S,
    pub durations: Durations,
    /// Sum of the durations without slices directly inside, in nanoseconds; 0 unless asked for.
    pub self_ns: DurNs,
    /// Its slices, sorted.
    pub instances: Vec<Instance>,
}

/// Groups the slices selected by `is_wanted`.
///
/// * `local`: group key within one trace, such as ids.
/// * `key`: the same group as a key that is comparable across traces.
/// * `has_self`: whether groups have [`Group::self_ns`].
/// * `add`: adds a slice to the sums of its group. Called in the order of the slices, whose columns are large: to go
///   through them group by group takes several times as long.
/// * Sorted by total, descending, then key.
/// * Cost: O(slices of the rows in scope), and 8 bytes per selected slice, twice that while it runs.
pub fn group<L: Copy + Eq + Hash, K: Eq + Hash + Ord + Clone + Send, S: Default + Send>(
    scope: &Scope<'_>,
    is_wanted: impl Fn(SliceKind) -> bool,
    local: impl Fn(&Part<'_>, usize) -> L,
    key: impl Fn(&Part<'_>, &L) -> K,
    has_self: bool,
    add: impl Fn(&mut S, &Part<'_>, usize),
) -> Vec<Group<K, S>> {
    let mut groups: Vec<Group<K, S>> = Vec::new();
    // The durations of each.
    let mut durs: Vec<Vec<DurNs>> = Vec::new();
    let mut index: HashMap<K, usize> = HashMap::new();
    let mut known: HashMap<L, usize> = HashMap::new();
    // The next slice of a row is often of the same group.
    let mut last: Option<(L, usize)> = None;
    let mut trace = 0;
    for part in scope.parts() {
        let slices = &part.trace.slices;
        if part.index != trace {
            trace = part.index;
            known.clear();
            last = None;
        }
        if !slices.kind[part.slices.clone()].iter().any(|&kind| is_wanted(kind)) {
            continue;
        }
        let mut own = slices.self_times_of(part.row);
        for i in part.slices.clone().filter(|&i| is_wanted(slices.kind[i])) {
            let local = local(&part, i);
            let same = last.filter(|last| last.0 == local).map(|last| last.1);
            let at = same.or_else(|| known.get(&local).copied()).unwrap_or_else(|| {
                let key = key(&part, &local);
                let at = *index.entry(key.clone()).or_insert_with(|| {
                    let (sums, durations) = Default::default();
                    groups.push(Group { key, sums, durations, self_ns: 0, instances: Vec::new() });
                    durs.push(Vec::new());
                    groups.len() - 1
                });
                known.insert(local, at);
                at
            });
            last = Some((local, at));
            let group = &mut groups[at];
            if has_self {
                group.self_ns = group.self_ns.saturating_add(own.of(i));
            }
            add(&mut group.sums, &part, i);
            group.instances.push(Instance { trace: part.index, slice: SliceId(i as u32) });
            durs[at].push(slices.time(SliceId(i as u32)).dur());
        }
    }
    let of_groups = groups.par_iter_mut().zip(durs);
    of_groups.for_each(|(group, mut durs)| group.durations = Durations::of(&mut durs));
    groups.par_sort_by(|a, b| (b.durations.total_ns, &a.key).cmp(&(a.durations.total_ns, &b.key)));
    groups
}

/// Statistics of the durations of these slices. Cost: O(n).
pub fn durations(traces: &[&Trace], instances: &[Instance]) -> Durations {
    let dur = |instance: &Instance| traces[instance.trace as usize].slices.time(instance.slice).dur();
    Durations::of(&mut instances.iter().map(dur).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TraceBuilder;

    const OP: SliceKind = SliceKind::Operator;

    fn by_name(scope: &Scope<'_>) -> Vec<Group<String>> {
        let name = |part: &Part<'_>, i: usize| part.trace.slices.name[i];
        group(
            scope,
            |kind| kind == OP,
            name,
            |part, &name| part.trace.strings.get(name).to_owned(),
            true,
            |(), _, _| {},
        )
    }

    #[test]
    fn totals_by_name_over_two_traces() {
        let a = TraceBuilder::from_slices(&[
            ("main", OP, "aten::mm", 0, 100),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 10, 30),
            ("main", OP, "aten::add", 40, 45),
            ("main", OP, "aten::mm", 200, 204),
        ])
        .finish();
        let b = TraceBuilder::from_slices(&[("main", OP, "aten::mm", 0, 7)]).finish();
        let totals = by_name(&Scope::whole(&[&a, &b]));
        assert_eq!(totals.len(), 2);
        let mm = &totals[0];
        let d = mm.durations;
        assert_eq!((mm.key.as_str(), d.calls, d.total_ns, mm.self_ns), ("aten::mm", 3, 111, 86));
        assert_eq!((d.min_ns, d.median_ns, d.mean_ns, d.max_ns), (4, 7, 37, 100));
        // 63, -33 and -30 from the mean: (3969 + 1089 + 900) / 2 = 2979, whose root is 54.58.
        assert_eq!(d.std_ns, Some(55));
        assert_eq!(mm.instances.iter().map(|instance| instance.trace).collect::<Vec<_>>(), [0, 0, 1]);
        let of_a = by_name(&Scope::whole(&[&a]));
        assert_eq!(of_a[0].durations.median_ns, 52);
        assert_eq!(of_a[1].durations.std_ns, None);
    }

    #[test]
    fn a_cancelled_answer_is_incomplete() {
        let trace = TraceBuilder::from_slices(&[("main", OP, "x", 0, 1)]).finish();
        assert!(by_name(&Scope { is_cancelled: &|| true, ..Scope::whole(&[&trace]) }).is_empty());
    }

    proptest! {
        #[test]
        fn in_a_range_runs_what_shares_time_with_it(
            work in prop::collection::vec((0_i64..200, 0_i64..60, 0_usize..3), 1..80), cut in 0_i64..260,
        ) {
            let names = ["x", "y", "z"];
            let slices: Vec<_> = work.iter().map(|&(ts, dur, n)| ("main", OP, names[n], ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&slices).finish();
            let ranges = [(0, cut), (cut, 1_000), (0, 1_000)].map(|(start, end)| TimeRange { start, end });
            let mut parts = [[0; 3]; 3];
            for (at, range) in ranges.into_iter().enumerate() {
                let traces = [&trace];
                let scope = Scope { ranges: Some(vec![range]), ..Scope::whole(&traces) };
                let groups = by_name(&scope);
                for (i, name) in names.into_iter().enumerate() {
                    let runs = |slice: &&(&str, SliceKind, &str, i64, i64)| {
                        let is_within = slice.3 == slice.4 && range.contains(slice.3);
                        slice.2 == name && (is_within || slice.3.max(range.start) < slice.4.min(range.end))
                    };
                    let expected = slices.iter().filter(runs).fold((0, 0), |(n, ns), slice| (n + 1, ns + slice.4 - slice.3));
                    let group = groups.iter().find(|group| group.key == name);
                    let found = group.map_or((0, 0), |group| (group.durations.calls, group.durations.total_ns));
                    prop_assert_eq!(found, expected);
                    parts[at][i] = group.map_or(0, |group| scope.time_within(&group.instances));
                }
            }
            let [before, after, whole] = parts;
            let sums: [i64; 3] = std::array::from_fn(|i| before[i] + after[i]);
            prop_assert_eq!(sums, whole, "what the ranges cut sums to the whole");
        }

        #[test]
        fn figures_agree_with_sorting(mut durs in prop::collection::vec(0_i64..1_000_000, 1..60)) {
            let figures = Durations::of(&mut durs.clone());
            durs.sort_unstable();
            let n = durs.len();
            prop_assert_eq!((figures.min_ns, figures.max_ns), (durs[0], durs[n - 1]));
            prop_assert_eq!(figures.median_ns, (durs[(n - 1) / 2] + durs[n / 2]).div_euclid(2));
            prop_assert_eq!(figures.total_ns, durs.iter().sum::<i64>());
            // The other formula for the variance, in exact integers.
            let (sum, squares) = durs.iter().fold((0_i128, 0_i128), |(sum, squares), &dur| {
                (sum + i128::from(dur), squares + i128::from(dur).pow(2))
            });
            let n = n as i128;
            let expected = (n > 1).then(|| (((n * squares - sum * sum) as f64) / ((n * (n - 1)) as f64)).sqrt());
            prop_assert_eq!(figures.std_ns.is_some(), expected.is_some());
            if let (Some(std), Some(expected)) = (figures.std_ns, expected) {
                prop_assert!((std as f64 - expected).abs() <= 0.5 + 1e-6, "{} {}", std, expected);
            }
        }
    }
}
