//! Copies and memsets by direction: bytes, time and bandwidth.

use super::totals::{Durations, Group, Instance, Part, Scope, group};
use crate::model::{CopyKind, DurNs, SliceId, SliceKind, StringId};

/// Ends the names of copies that the driver makes to migrate unified memory.
pub const MIGRATION: &str = "(Unified)";

/// Totals of the copies or memsets of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyTotals {
    pub kind: CopyKind,
    /// Whether the driver migrated unified memory; no program asked for these copies.
    pub is_migration: bool,
    /// Whether the host memory was pageable, which makes a copy slow and blocking, if recorded.
    pub is_pageable: Option<bool>,
    /// If grouped by size: the size class in bytes, see [`size_class`]; `None` if the size is not recorded.
    pub size_class: Option<u64>,
    pub durations: Durations,
    /// Sum over the copies with a recorded size; `None` if there are none.
    pub bytes: Option<u64>,
    /// Bytes per nanosecond of those, which equals GB/s (10^9 bytes). `None` if not recorded, or for zero time.
    pub gb_per_s: Option<f64>,
    pub instances: Vec<Instance>,
}

type Key = (CopyKind, bool, Option<bool>, Option<u64>);

/// The copies and memsets in scope by direction and host memory, migrations of unified memory apart.
///
/// * `by_size`: whether to group by size class as well.
/// * Sorted by total time, descending, then kind.
/// * Cost: O(slices of the rows in scope), and 8 bytes per copy.
/// * Source: `cuda_gpu_mem_time_sum` and `cuda_gpu_mem_size_sum` of NVIDIA Nsight Systems.
pub fn copies(scope: &Scope<'_>, by_size: bool) -> Vec<CopyTotals> {
    let is_copy = |kind| matches!(kind, SliceKind::Memcpy | SliceKind::Memset);
    let local = |part: &Part<'_>, i: usize| (part.trace.facts.copies.id(SliceId(i as u32)), part.trace.slices.name[i]);
    let key = |part: &Part<'_>, &(copy, name): &(u32, StringId)| -> Key {
        let copy = part.trace.facts.copies.value(copy).copied().unwrap_or_default();
        let is_migration = part.trace.strings.get(name).ends_with(MIGRATION);
        (copy.kind, is_migration, copy.is_pageable, copy.bytes.filter(|_| by_size).map(size_class))
    };
    group(scope, is_copy, local, key, false, Sums::add).into_iter().map(totals).collect()
}

/// The largest power of two not above `bytes`; 0 for 0.
pub fn size_class(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |log| 1 << log)
}

/// Bytes and time of the copies whose size is known.
#[derive(Default)]
struct Sums {
    is_known: bool,
    bytes: u64,
    ns: DurNs,
}

impl Sums {
    fn add(&mut self, part: &Part<'_>, slice: usize) {
        let id = SliceId(slice as u32);
        if let Some(bytes) = part.trace.facts.copies.get(id).and_then(|copy| copy.bytes) {
            self.is_known = true;
            self.bytes = self.bytes.saturating_add(bytes);
            self.ns = self.ns.saturating_add(part.trace.slices.time(id).dur());
        }
    }
}

fn totals(group: Group<Key, Sums>) -> CopyTotals {
    let (kind, is_migration, is_pageable, size_class) = group.key;
    let Sums { is_known, bytes, ns } = group.sums;
    CopyTotals {
        kind,
        is_migration,
        is_pageable,
        size_class,
        durations: group.durations,
        bytes: is_known.then_some(bytes),
        gb_per_s: (is_known && ns > 0).then(|| bytes as f64 / ns as f64),
        instances: group.instances,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{MemoryCopy, SliceFacts, TraceBuilder};

    #[test]
    fn size_classes_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 1023, 1024, u64::MAX].map(size_class), [0, 1, 2, 2, 4, 512, 1024, 1 << 63]);
    }

    #[test]
    fn migrations_are_no_copies_of_the_program() {
        let slices = [
            ("stream 7", SliceKind::Memcpy, "Memcpy HtoD (Pinned -> Device)", 0, 4),
            ("stream 7", SliceKind::Memcpy, "Memcpy HtoD (Unified)", 4, 5),
        ];
        let mut builder = TraceBuilder::from_slices(&slices);
        let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(8), is_pageable: Some(false) };
        (0..2).for_each(|slice| builder.set_facts(slice, SliceFacts { copy: Some(copy), ..Default::default() }));
        let trace = builder.finish();
        let rows = copies(&Scope::whole(&[&trace]), false);
        let found: Vec<_> = rows.iter().map(|row| (row.is_migration, row.bytes, row.gb_per_s)).collect();
        assert_eq!(found, [(false, Some(8), Some(2.0)), (true, Some(8), Some(8.0))]);
    }

    proptest! {
        #[test]
        fn bytes_and_speeds_agree_with_a_plain_sum(
            work in prop::collection::vec((0_usize..4, 1_i64..50), 1..40),
        ) {
            let sorts = [
                MemoryCopy { kind: CopyKind::HtoD, bytes: Some(1_000), is_pageable: Some(true) },
                MemoryCopy { kind: CopyKind::HtoD, bytes: Some(1_500), is_pageable: Some(true) },
                MemoryCopy { kind: CopyKind::HtoD, bytes: None, is_pageable: Some(true) },
                MemoryCopy { kind: CopyKind::Memset, bytes: Some(64), is_pageable: None },
            ];
            let slices: Vec<_> = work.iter().enumerate()
                .map(|(i, w)| ("stream 7", SliceKind::Memcpy, "", 100 * i as i64, 100 * i as i64 + w.1)).collect();
            let mut builder = TraceBuilder::from_slices(&slices);
            for (slice, w) in work.iter().enumerate() {
                builder.set_facts(slice, SliceFacts { copy: Some(sorts[w.0]), ..Default::default() });
            }
            let trace = builder.finish();
            let traces = [&trace];
            let scope = Scope::whole(&traces);
            for by_size in [false, true] {
                let rows = copies(&scope, by_size);
                let total: i64 = rows.iter().map(|row| row.durations.total_ns).sum();
                prop_assert_eq!(total, work.iter().map(|w| w.1).sum::<i64>());
                let bytes: u64 = rows.iter().filter_map(|row| row.bytes).sum();
                prop_assert_eq!(bytes, work.iter().filter_map(|w| sorts[w.0].bytes).sum::<u64>());
            }
            let host = copies(&scope, false).into_iter().find(|row| row.kind == CopyKind::HtoD);
            let known: Vec<_> = work.iter().filter(|w| w.0 < 2).collect();
            let bytes: u64 = known.iter().filter_map(|w| sorts[w.0].bytes).sum();
            let ns: i64 = known.iter().map(|w| w.1).sum();
            let expected = (ns > 0).then(|| bytes as f64 / ns as f64);
            prop_assert_eq!(host.and_then(|row| row.gb_per_s), expected);
        }
    }
}
