//! Where did the time go, by name: kernels, operators, API calls, annotations and copies.

use std::collections::HashMap;

use crate::model::{DurNs, SliceId, SliceKind, SliceTable, StringId, Trace};

/// All slices of one sort that share a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameTotals {
    pub name: String,
    /// The device, where slices were told apart by it.
    pub device: Option<u32>,
    pub calls: u64,
    /// Sum of the durations, cut at `i64::MAX`; a call inside one of the same name counts twice.
    pub total_ns: DurNs,
    /// Sum of the durations less what the slices directly inside took.
    pub self_ns: DurNs,
    pub min_ns: DurNs,
    pub max_ns: DurNs,
    /// The middle one; for an even number the mean of the two in the middle, rounded down.
    pub median_ns: DurNs,
}

impl NameTotals {
    /// Mean duration in nanoseconds, rounded to the nearest.
    pub fn mean_ns(&self) -> DurNs {
        let calls = i64::try_from(self.calls).unwrap_or(i64::MAX).max(1);
        self.total_ns.saturating_add(calls / 2) / calls
    }
}

/// All copies of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyTotals {
    pub kind: &'static str,
    /// Whether the host's side was pageable memory, which makes a copy slow and blocking, if the
    /// recording says so.
    pub pageable: Option<bool>,
    pub count: u64,
    pub total_ns: DurNs,
}

/// Totals of the slices that `is_wanted`, over all traces together, by name.
///
/// * `per_device`: whether equal names on different devices are told apart.
/// * Sorted by total, descending, then name.
/// * Units: nanoseconds.
/// * Cost: O(slices), and 8 bytes a wanted slice while it runs.
pub fn by_name(traces: &[&Trace], is_wanted: fn(SliceKind) -> bool, per_device: bool) -> Vec<NameTotals> {
    let mut groups: Vec<(NameTotals, Vec<DurNs>)> = Vec::new();
    let mut index: HashMap<(Option<u32>, String), usize> = HashMap::new();
    for trace in traces {
        let slices = &trace.slices;
        let mut known: HashMap<(Option<u32>, StringId), usize> = HashMap::new();
        for (row_index, row) in slices.rows.iter().enumerate() {
            if !slices.kind[row.range()].iter().any(|&kind| is_wanted(kind)) {
                continue;
            }
            let device = if per_device { trace.process(trace.track(row.track).process).device } else { None };
            for (i, self_ns) in row.range().zip(self_times(slices, row_index)) {
                if !is_wanted(slices.kind[i]) {
                    continue;
                }
                let group = *known.entry((device, slices.name[i])).or_insert_with(|| {
                    let name = trace.strings.get(slices.name[i]).to_owned();
                    *index.entry((device, name.clone())).or_insert_with(|| {
                        groups.push((NameTotals { name, device, ..Default::default() }, Vec::new()));
                        groups.len() - 1
                    })
                });
                let (totals, durs) = &mut groups[group];
                totals.self_ns = totals.self_ns.saturating_add(self_ns);
                durs.push(slices.end[i].saturating_sub(slices.ts[i]));
            }
        }
    }
    let mut all: Vec<_> = groups.into_iter().map(|(totals, durs)| summarize(totals, durs)).collect();
    all.sort_by(|a, b| (b.total_ns, &a.name, a.device).cmp(&(a.total_ns, &b.name, b.device)));
    all
}

fn summarize(mut totals: NameTotals, mut durs: Vec<DurNs>) -> NameTotals {
    totals.calls = durs.len() as u64;
    totals.total_ns = durs.iter().fold(0, |sum, &dur| sum.saturating_add(dur));
    totals.min_ns = durs.iter().copied().min().unwrap_or(0);
    totals.max_ns = durs.iter().copied().max().unwrap_or(0);
    if !durs.is_empty() {
        let is_even = durs.len().is_multiple_of(2);
        let (below, &mut upper, _) = durs.select_nth_unstable(totals.calls as usize / 2);
        let lower = if is_even { below.iter().copied().max().unwrap_or(upper) } else { upper };
        totals.median_ns = lower + (upper - lower) / 2;
    }
    totals
}

/// Time that each slice of a row spent outside the slices directly inside it, in nanoseconds.
///
/// Over the nested rows of a track it sums to the union of the topmost row, exactly. Slices on
/// overflow rows have nothing inside, so all their time is their own.
///
/// * `row`: an index into [`SliceTable::rows`].
/// * Cost: O(slices of this row and the one below).
pub fn self_times(slices: &SliceTable, row: usize) -> Vec<DurNs> {
    let Some(this) = slices.rows.get(row) else { return Vec::new() };
    let first = this.range().start;
    let mut own: Vec<DurNs> = this.range().map(|i| slices.end[i].saturating_sub(slices.ts[i])).collect();
    let below = slices.rows.get(row + 1);
    let Some(below) = below.filter(|below| below.track == this.track && !below.is_overflow) else { return own };
    let mut parent = 0;
    for child in below.range() {
        let (ts, end) = (slices.ts[child], slices.end[child]);
        // Every slice of a nested row lies within one of the row above.
        while parent < own.len() && slices.end[first + parent] <= ts {
            parent += 1;
        }
        if let Some(own) = own.get_mut(parent).filter(|_| ts < end) {
            *own -= end.saturating_sub(ts);
        }
    }
    own
}

/// Totals of copies and memsets by direction, over all traces together; sorted by total,
/// descending, then kind. Bytes are not summed.
pub fn copies(traces: &[&Trace]) -> Vec<CopyTotals> {
    let mut all: HashMap<(&'static str, Option<bool>), CopyTotals> = HashMap::new();
    for trace in traces {
        for id in (0..trace.slices.len() as u32).map(SliceId) {
            if !matches!(trace.slices.kind[id.idx()], SliceKind::Memcpy | SliceKind::Memset) {
                continue;
            }
            let copy = trace.copy(id).copied().unwrap_or_default();
            let (kind, pageable) = (copy.kind.label(), copy.is_pageable);
            let new = CopyTotals { kind, pageable, count: 0, total_ns: 0 };
            let copies = all.entry((kind, pageable)).or_insert(new);
            copies.count += 1;
            copies.total_ns = copies.total_ns.saturating_add(trace.slices.time(id).dur());
        }
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_by(|a, b| (b.total_ns, a.kind, a.pageable).cmp(&(a.total_ns, b.kind, b.pageable)));
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::busy::unite;
    use crate::model::{CopyKind, MemoryCopy, TimeRange, TraceBuilder, TrackId};

    const OP: SliceKind = SliceKind::Operator;

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
        let totals = by_name(&[&a, &b], |kind| kind == OP, false);
        assert_eq!(totals.len(), 2);
        let mm = &totals[0];
        assert_eq!((mm.name.as_str(), mm.calls, mm.total_ns, mm.self_ns), ("aten::mm", 3, 111, 86));
        assert_eq!((mm.min_ns, mm.median_ns, mm.mean_ns(), mm.max_ns), (4, 7, 37, 100));
        let of_a = by_name(&[&a], |kind| kind == OP, false);
        assert_eq!(of_a[0].median_ns, 52);
    }

    #[test]
    fn copies_are_told_apart_by_direction_and_host_memory() {
        let copy = |ts, end| ("stream 7", SliceKind::Memcpy, "copy", ts, end);
        let mut builder =
            TraceBuilder::from_slices(&[copy(0, 10), copy(10, 20), copy(20, 30), copy(30, 32), copy(40, 44)]);
        let kinds = [(CopyKind::HtoD, Some(true)), (CopyKind::HtoD, Some(false)), (CopyKind::DtoD, None)];
        builder.copies = kinds.map(|(kind, is_pageable)| MemoryCopy { kind, bytes: None, is_pageable }).into();
        builder.slices[0].attr = vec![1, 2, 3, 0, 1];
        let trace = builder.finish();
        let all: Vec<_> = copies(&[&trace])
            .iter()
            .map(|copies| (copies.kind, copies.pageable, copies.count, copies.total_ns))
            .collect();
        let expected =
            [("HtoD", Some(true), 2, 14), ("DtoD", None, 1, 10), ("HtoD", Some(false), 1, 10), ("Unknown", None, 1, 2)];
        assert_eq!(all, expected);
    }

    proptest! {
        #[test]
        fn own_times_sum_to_the_union_of_the_top_row(work in prop::collection::vec((0_i64..200, 0_i64..60), 1..80)) {
            let slices: Vec<_> = work.iter().map(|&(ts, dur)| ("main", OP, "x", ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&slices).finish();
            let nested: Vec<_> =
                (0..trace.slices.rows.len()).filter(|&row| !trace.slices.rows[row].is_overflow).collect();
            let own: i64 = nested.iter().flat_map(|&row| self_times(&trace.slices, row)).sum();
            let top = &trace.rows(TrackId(0))[0];
            let mut union: Vec<_> =
                top.range().map(|i| TimeRange { start: trace.slices.ts[i], end: trace.slices.end[i] }).collect();
            unite(&mut union);
            prop_assert_eq!(own, union.iter().map(|span| span.dur()).sum::<i64>());
            for &row in &nested {
                prop_assert!(self_times(&trace.slices, row).iter().all(|&own| own >= 0));
            }
        }
    }
}
